"""Balls in bins by Monte Carlo: intervals of δ and ε at a stated confidence, from weights that have a proved bound.

The certified brackets of ``theory.amplification.bins`` may be some tens of per cent apart.  Here δ is a mean of
independent weights 0 <= w <= B.  A bet that is fixed beforehand gives an interval: with probability 1 − β over the
accountant's own draws, which is then added to δ: run and accountant together are (ε, δ + β)-DP.

*Fixed bet.*  For λ < 1/B, chosen by other draws, the least m with Σ ln(1 + λ (m − w_i)) >= ln(1/β) is at least the mean
δ with probability 1 − β: at m = δ the product has the mean 1, and Markov's inequality applies, since it grows with m.

*remove*.  Let Λ_t = mean_i exp(tX_i − t²V_ii/2).  S_{a,t} has the density Λ_t^a/Z with respect to Q: its indices
i_1, …, i_a have probabilities proportional to exp(t² Σ_{k<l} V), and then X ~ N(t Σ_k V_{:,i_k}, V).  The weight under
the mixture Σ α_c S_c is w = (Λ − K)₊/Σ_c α_c Λ_{t_c}^{a_c}/Z_c, and Λ_t >= e^{−(t²−t)v/2} Λ^t with v = max V_ii (power
means) gives B.  Higher orders a draw one index after another, i_{k+1} with probability proportional to
exp(Σ_{l<=k} V_{i_l j}), of mean n_k over j: then E Π n_k h = E_Q Λ^a h, the weight is (Λ − K)₊ Λ^{−a} Π n_k, and
n_k <= max_i mean_j e^{kV_ij} gives B.  The sampler with the narrowest interval on other draws is taken.

*add*.  S_t shifts X to N(−t V p, V), with the density e^{−tm − t²V̄/2} for m = Σ p_i X_i.  The weight is
w = (1 − KΛ)₊/Σ α_t e^{−tm − t²V̄/2}, and Λ >= e^{m − v̄/2} gives B, where V̄ = pᵀVp and v̄ = Σ p_i V_ii.

The sampler, λ, and the ε or σ under test come from other draws than the certificate; the k-th attempt has the
confidence 1 − β/2^k.  Draws and sums are floats, taken as exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.amplification.bins import BinsCurve
from corrnoise.theory.amplification.curve import (
    DIRECTIONS,
    Amplified,
    DeltaBound,
    Direction,
    delta_of,
    epsilon_of,
)
from corrnoise.theory.amplification.orders import certainly_semidefinite
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Indices, Participation

_SAMPLER_POWERS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
_PILOT_DRAWS = 500  #: draws for the choice of a power
_MIN_SHARE = 0.3  #: share of draws above K
_SAMPLER_ORDERS = (4, 6, 8, 12, 16)  #: of samplers that draw one index after another
_GRID_CELLS = 8000
_SEARCH_STEPS = 6  #: of the search for ε
_MAX_ATTEMPTS = 20
_LARGEST_EPSILON = 1e3

Weights = Callable[[np.random.Generator, int], Array]


# -- weights -----------------------------------------------------------------------------------------------------------


@record
class Component(Record):
    """S_{a,t} for the Gram matrix V: a in {1, 2, 3}, t >= 1."""

    gram: Array
    order: int
    power: float

    @property
    def _exponentials(self) -> tuple[Array, float]:
        """exp(t² V − largest), and that largest number."""
        largest = self.power**2 * float(self.gram.max())
        return np.exp(self.power**2 * self.gram - largest), largest

    def log_moment(self) -> float:
        """The logarithm of Z = E Λ_t^a."""
        e, largest = self._exponentials
        if self.order == 1:
            return 0.0
        if self.order == 2:
            return largest + math.log(float(e.mean()))
        return 3 * largest + math.log(float((e * (e @ e)).mean()) / self.gram.shape[0])

    def indices(self, rng: np.random.Generator, size: int) -> Indices:
        """Indices i_1, …, i_a, shape (size, a)."""
        b = self.gram.shape[0]
        e, _ = self._exponentials
        if self.order == 1:
            return rng.integers(b, size=(size, 1))
        joint = e if self.order == 2 else e * (e @ e)
        pairs = _drawn(joint.ravel(), rng.random(size))
        first, second = np.divmod(pairs, b)
        if self.order == 2:
            return np.stack([first, second], axis=1)
        sums = np.cumsum(e[first] * e[second], axis=1)
        third = (sums < (rng.random(size) * sums[:, -1])[:, np.newaxis]).sum(axis=1)
        return np.stack([first, second, np.minimum(third, b - 1)], axis=1)


def _drawn(weights: Array, uniform: Array) -> Indices:
    sums = np.cumsum(weights)
    return np.minimum(np.searchsorted(sums, uniform * sums[-1], side="right"), weights.size - 1)


def _root(gram: Array) -> Array:
    """R with R Rᵀ = V."""
    values, vectors = np.linalg.eigh(gram)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _log_ratio(x: Array, gram: Array, power: float) -> Array:
    """The logarithm of Λ_t for the rows of x."""
    exponents = power * x - power**2 * np.diagonal(gram) / 2
    top = exponents.max(axis=1)
    return np.asarray(top + np.log(np.exp(exponents - top[:, np.newaxis]).mean(axis=1)))


def removal_weights(gram: Array, epsilon: float, pilot: np.random.Generator) -> tuple[Weights, float]:
    """A sampler of weights of mean δ_remove(ε), chosen by draws of ``pilot``, and their bound B."""
    samplers = [mixture_weights(gram, epsilon, pilot)]
    samplers += [ordered_weights(gram, epsilon, order) for order in _SAMPLER_ORDERS]

    def width(sampler: tuple[Weights, float]) -> float:
        weights = sampler[0](pilot, 4 * _PILOT_DRAWS)
        low, high = interval(weights, sampler[1], 1e-2, float(weights.std()))
        return high - low

    return min(samplers, key=width)


def ordered_weights(gram: Array, epsilon: float, order: int) -> tuple[Weights, float]:
    """Weights of mean δ_remove(ε) by drawing ``order`` >= 2 indices one after another, and their bound."""
    root, b = _root(gram), gram.shape[0]
    k = np.arange(1, order)
    bound = sum(float(np.log(np.exp(j * (gram - gram.max())).mean(axis=1).max()) + j * gram.max()) for j in k)
    # (Λ − K)₊ Λ^{−a} is largest at Λ = K a/(a − 1).
    bound += (1 - order) * epsilon - math.log(order - 1) + order * math.log1p(-1 / order)

    def sample(rng: np.random.Generator, size: int) -> Array:
        shift, product = gram[rng.integers(b, size=size)], np.zeros(size)
        for _ in k:
            top = shift.max(axis=1)
            sums = np.cumsum(np.exp(shift - top[:, np.newaxis]), axis=1)
            product += top + np.log(sums[:, -1] / b)
            chosen = (sums < (rng.random(size) * sums[:, -1])[:, np.newaxis]).sum(axis=1)
            shift = shift + gram[np.minimum(chosen, b - 1)]
        log = _log_ratio(rng.standard_normal((size, b)) @ root.T + shift, gram, 1.0)
        excess = np.maximum(log - epsilon, 0.0)
        return np.asarray(-np.expm1(-excess) * np.exp(product + (1 - order) * log))

    return sample, math.exp(bound) * (1 + 1e-9)


def mixture_weights(gram: Array, epsilon: float, pilot: np.random.Generator) -> tuple[Weights, float]:
    """Weights of mean δ_remove(ε) under a mixture of S_{a,t}, and their bound; arguments as for ``removal_weights``."""
    root = _root(gram)

    def drawn(rng: np.random.Generator, component: Component, size: int) -> Array:
        chosen = component.indices(rng, size)
        shift = component.power * gram[chosen].sum(axis=1)
        return np.asarray(rng.standard_normal((size, gram.shape[0])) @ root.T + shift)

    def best(order: int) -> Component:
        for power in _SAMPLER_POWERS:
            component = Component(gram, order, power)
            if (_log_ratio(drawn(pilot, component, _PILOT_DRAWS), gram, 1.0) > epsilon).mean() > _MIN_SHARE:
                break
        return component

    components = [best(order) for order in (1, 2, 3)]
    logs = [-math.log(len(components)) - component.log_moment() for component in components]

    def sample(rng: np.random.Generator, size: int) -> Array:
        counts = rng.multinomial(size, [1 / len(components)] * len(components))
        x = np.concatenate([drawn(rng, c, int(k)) for c, k in zip(components, counts, strict=True)])
        density = [lo + c.order * _log_ratio(x, gram, c.power) for lo, c in zip(logs, components, strict=True)]
        excess = _log_ratio(x, gram, 1.0) - epsilon
        found = np.where(excess > 0, -np.expm1(-np.maximum(excess, 0.0)), 0.0)
        return np.asarray(found * np.exp(excess + epsilon - np.logaddexp.reduce(density, axis=0)))

    v = float(np.diagonal(gram).max())
    slopes = np.array([c.order * c.power for c in components])
    offsets = np.array(logs) - [c.order * (c.power**2 - c.power) * v / 2 for c in components]
    ends = epsilon + np.linspace(0, 30, _GRID_CELLS + 1)  # of log Λ
    below = np.logaddexp.reduce(offsets[:, np.newaxis] + np.multiply.outer(slopes, ends), axis=0)
    cells = np.exp(ends[1:] - below[:-1]) * -np.expm1(epsilon - ends[1:])
    beyond = np.min(ends[-1] - offsets - slopes * ends[-1])  # Λ/(c Λ^θ) with θ >= 1
    return sample, float(max(cells.max(), math.exp(beyond))) * (1 + 1e-9)


def addition_weights(gram: Array, epsilon: float, pilot: np.random.Generator) -> tuple[Weights, float]:
    """A sampler of weights of mean δ_add(ε), and their bound B; the arguments are those of ``removal_weights``."""
    root = _root(gram)
    b = gram.shape[0]
    mean, average, variance = gram.mean(axis=1), float(np.diagonal(gram).mean()), float(gram.mean())
    largest = max(epsilon + 6.0, 1.0) / max(variance, 1e-12)

    def drawn(rng: np.random.Generator, shift: float, size: int) -> Array:
        return np.asarray(rng.standard_normal((size, b)) @ root.T - shift * mean)

    def often(shift: float) -> bool:
        return bool((_log_ratio(drawn(pilot, shift, _PILOT_DRAWS), gram, 1.0) < -epsilon).mean() > _MIN_SHARE)

    low, high = 0.0, largest
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (low, middle) if often(middle) else (middle, high)
    shifts = np.array([0.0, high / 2, high])

    def log_density(m: Array) -> Array:
        terms = -np.multiply.outer(shifts, m) - (shifts**2 * variance / 2)[:, np.newaxis]
        return np.asarray(np.logaddexp.reduce(terms, axis=0) - math.log(3))

    def sample(rng: np.random.Generator, size: int) -> Array:
        counts = rng.multinomial(size, [1 / 3] * 3)
        x = np.concatenate([drawn(rng, float(t), int(k)) for t, k in zip(shifts, counts, strict=True)])
        gap = np.minimum(_log_ratio(x, gram, 1.0) + epsilon, 0.0)
        return np.asarray(-np.expm1(gap) * np.exp(-log_density(x.mean(axis=1))))

    end = average / 2 - epsilon
    ends = end - np.concatenate((np.linspace(0, 30, _GRID_CELLS + 1), [1e6]))
    cells = -np.expm1(ends[1:] - end) * np.exp(-log_density(ends[:-1]))
    return sample, float(cells.max()) * (1 + 1e-9)


# -- intervals ---------------------------------------------------------------------------------------------------------


def interval(weights: Array, largest: float, beta: float, deviation: float) -> tuple[float, float]:
    """Two ends of the mean of independent weights in [0, ``largest``], each valid with probability 1 − β/2.

    Both hold with probability 1 − β.  ``deviation`` is a guess of the standard deviation by other draws.
    """
    if weights.min() < 0 or weights.max() > largest:
        raise RuntimeError(f"weights must lie in [0, {largest}], got {weights.min()} to {weights.max()}")
    log = math.log(2 / beta)
    bet = min(math.sqrt(2 * log / weights.size) / max(deviation, 1e-300), 0.9 / largest)

    def edge(sign: int) -> float:
        """The m where Σ ln(1 + λ sign (m − w)) reaches the bound; the end of the bracket that reached it."""
        inner, outer = float(weights.mean()), largest if sign > 0 else 0.0
        for _ in range(50):
            middle = (inner + outer) / 2
            reached = float(np.log1p(bet * sign * (middle - weights)).sum()) >= log
            inner, outer = (inner, middle) if reached else (middle, outer)
        return outer

    return max(edge(-1) * (1 - 1e-9), 0.0), min(edge(1) * (1 + 1e-9), 1.0)


def sampled_delta(
    gram: Array, epsilon: float, direction: Direction, *, samples: int, pilot: Seed, rng: Seed, beta: float
) -> tuple[float, float]:
    """An interval of δ(ε) for a Gram matrix V of shape (b, b), at the confidence 1 − β.

    ``pilot`` seeds the choice of the mixture, and ``rng`` the weights: never the same.
    """
    if isinstance(pilot, int) and isinstance(rng, int) and pilot == rng:
        raise ValueError(f"pilot must be another seed than rng, for the draws that certify, got {pilot} for both")
    make = removal_weights if direction == "remove" else addition_weights
    source = generator(pilot)
    return interval_of_sampler(make(gram, epsilon, source), source, generator(rng), samples, beta)


def interval_of_sampler(
    sampler: tuple[Weights, float],
    pilot: np.random.Generator,
    rng: np.random.Generator,
    samples: int,
    beta: float,
    repeats: int = 1,
) -> tuple[float, float]:
    """``interval`` of the weights of a sampler, whose deviation is guessed by ``pilot``."""
    sample, largest = sampler
    deviation = float(sample(pilot, 4 * _PILOT_DRAWS).std())
    return interval(np.tile(sample(rng, samples), repeats), largest, beta, deviation)


def sampled_bound(
    curve: BinsCurve,
    noise_multiplier: float,
    direction: Direction,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    samples: int,
    rng: Seed,
    beta: float,
) -> DeltaBound:
    """A bracket of δ at ε, or of ε at δ, in one direction at the confidence 1 − β, from ``samples`` weights a run."""
    source = generator(rng)
    matrices = (curve.lower * (1 - 1e-14) / noise_multiplier**2, curve.upper * (1 + 1e-14) / noise_multiplier**2)
    known = certainly_semidefinite(curve.lower)

    def at(end: int, epsilon: float, share: float) -> float:
        """The lower end for the lower Gram matrix, or the upper end for the upper one, by fresh draws."""
        if end == 0 and not known:
            return 0.0
        first, second = source.integers(2**62, size=2)
        found = sampled_delta(
            matrices[end],
            epsilon,
            direction,
            samples=samples,
            pilot=2 * int(first),
            rng=2 * int(second) + 1,
            beta=share,
        )
        return found[end]

    kind = f"confidence 1 - {beta:g}"
    name = f"Monte Carlo with bounded weights, {samples} samples"
    if epsilon is not None:
        return DeltaBound(at(0, epsilon, beta), at(1, epsilon, beta), kind, name)
    assert delta is not None
    lower, upper = (_verified(partial(at, end), delta, beta, end) for end in (0, 1))
    return DeltaBound(min(lower, upper), upper, kind, name)


def _verified(delta_at: Callable[[float, float], float], target: float, beta: float, end: int) -> float:
    """An ε that puts an end of δ on the safe side: a search, and then attempts with fresh draws, ever surer."""

    def height(x: float) -> float:
        return math.log(max(delta_at(x, beta / 2), 1e-300) / target)

    left, right = 0.0, 1.0
    low, high = height(left), height(right)
    if low <= 0 and end == 0:
        return 0.0
    while high > 0:
        left, low, right = right, high, 2 * right
        if right > _LARGEST_EPSILON:
            return math.inf if end else 0.0
        high = height(right)
    for _ in range(_SEARCH_STEPS if low > 0 else 0):
        middle = left + (right - left) * min(max(low / (low - high), 0.1), 0.9)
        found = height(middle)
        left, low, right, high = (middle, found, right, high) if found > 0 else (left, low, middle, found)
    x = (right if low > 0 else 0.0) if end else left
    for attempt in range(1, _MAX_ATTEMPTS):
        found = delta_at(x, beta / 2**attempt)
        if (found <= target) if end else (found >= target):
            return x
        x = x * 1.005 + 1e-3 if end else x * 0.99
    return math.inf if end else 0.0


@usual_float_errors
def amplified(
    mechanism: Mechanism,
    participation: Participation,
    *,
    noise_multiplier: float,
    delta: float | None = None,
    epsilon: float | None = None,
    samples: int | None = None,
    rng: Seed = None,
    beta: float = 1e-6,
) -> Amplified:
    """The ε at δ, or the δ at ε, of a run of a mechanism with sampled batches, in both directions.

    Parameters
    ----------
    mechanism : Mechanism
        The noise, as its program runs by default.
    participation : Participation
        One that is sampled.
    noise_multiplier : float
        σ > 0: standard deviation of the independent noise over the clipping norm.
    delta, epsilon : float, optional
        0 < δ < 1 or ε >= 0: one of the two.
    samples : int, optional
        None for certified brackets.  For balls in bins a number of Monte Carlo samples, >= 1000, gives narrower ones at
        the confidence 1 − β.
    rng : int, SeedSequence or Generator, optional
        The randomness of these samples, as for simulations.
    beta : float, default 1e-06
        β, the probability over these samples that a bracket is wrong; a run with their upper end is (ε, δ + β)-DP.

    Returns
    -------
    Amplified
        Brackets for removal and addition of an example, for zero-out adjacency.

    Raises
    ------
    ValueError
        An argument is out of its range, no accountant covers the run, or samples are not for balls in bins.

    Examples
    --------
    >>> import corrnoise as cn
    >>> participation = cn.Participation.poisson(1024, 0.01)
    >>> found = cn.privacy.amplified(cn.mechanisms.DPSGD(), participation, noise_multiplier=1.0, delta=1e-6)
    >>> round(found.upper, 4), found.kind, found.attained
    (2.1476, 'certified', True)
    """
    if (delta is None) == (epsilon is None):
        raise ValueError(f"either delta or epsilon must be given, got delta={delta!r} and epsilon={epsilon!r}")
    sigma = checks.real("noise_multiplier", noise_multiplier, "(0, inf)")
    curve = mechanism.program(checks.instance("participation", participation, Participation)).curve
    if samples is None:
        if epsilon is not None:
            return delta_of(curve, epsilon, sigma)
        assert delta is not None
        remove, add = (epsilon_of(curve, delta, sigma, direction) for direction in DIRECTIONS)
        return Amplified("epsilon", remove, add, curve.attained)
    number = checks.integer("samples", samples, 1000)
    chance = checks.real("beta", beta, "(0, 1)")
    if not isinstance(curve, BinsCurve):
        raise ValueError(
            f"samples must be None except for balls in bins without capacity, got {samples} for {participation!r}"
        )
    if epsilon is not None:
        checks.real("epsilon", epsilon, "[0, inf)")
    else:
        checks.real("delta", delta, "(0, 1)")
    source = generator(rng)
    found = [
        sampled_bound(curve, sigma, each, epsilon=epsilon, delta=delta, samples=number, rng=source, beta=chance / 2)
        for each in DIRECTIONS
    ]
    kind = f"confidence 1 - {chance:g}"  # of both directions together
    remove, add = (DeltaBound(one.lower, one.upper, kind, one.comparison) for one in found)
    return Amplified("delta" if delta is None else "epsilon", remove, add, curve.attained)
