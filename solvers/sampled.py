"""The best noise where batches are sampled, at a budget (ε, δ).

A run is judged by σ² tr(W N Nᵀ), where σ is the noise multiplier that the accountant of its sampler demands.

==================  ================================================================================================
sampler             noise that is tried
==================  ================================================================================================
Poisson             independent noise, the only one that the accountant covers, with and without step scales
redrawn bins        independent noise, for the same reason
cyclic Poisson      p bands for p groups.  The columns of one group have disjoint supports, so that σ is the largest
                    column norm times a number that depends on p alone.  The best strategy is therefore the best
                    one of p bands for a single participation, whatever the budget; with and without step scales
balls in bins       one or two buffers, ν-DP-FTRL and the banded square root.  All inner products of the sums m_i of
                    the columns of a bin matter, and σ is estimated for each candidate
==================  ================================================================================================

*Step scales.*  The noise of step t is multiplied by d_t, constant on at most 8 blocks of whole turns: as many norms as
the accountant tells apart.  With the unknowns u_l = σ d_l the squared error is uᵀQu, and δ depends on the norms ‖c‖/u_l
only: the best u minimises the error where δ(ε) is that of the budget.

*Estimate for bins.*  With V_ij = <m_i, m_j>/σ² and Λ = mean_i exp(X_i − V_ii/2), X ~ N(0, V), δ(ε) = E (Λ − e^ε)₊.
For an order a draw the indices i_1, …, i_a one after another with probabilities ∝ exp(Σ_l V_{i_l j}), whose means over
j are n_2, …, n_a, and X ~ N(Σ V_{·,i_k}, V).  Then δ(ε) is the mean of (Λ − e^ε)₊ Λ^{−a} Π n_k
(docs/amplification-proofs.md), and E Λ^a the mean of Π n_k, which gives the order with the least Chernoff bound.  The
mean is taken over fixed points, the same ones for all candidates.  It only orders them: nothing that runs rests on it,
and whatever is reported has a multiplier of the accountant.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, ndtri

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.banded_toeplitz import BandedToeplitz
from corrnoise.solvers.families.blt import BLT
from corrnoise.solvers.families.bsr import BSR
from corrnoise.solvers.families.buffers import best_buffers, gaps_of, separate, variables_of
from corrnoise.solvers.families.nu_dp_ftrl import NuDPFTRL
from corrnoise.solvers.learning import TOLERANCE
from corrnoise.solvers.optimum import INDEPENDENT, Optimum, label
from corrnoise.support.progress import Progress
from corrnoise.theory.amplification.accountant import MAX_NORMS
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import MULTIPLIER_RANGE, falling_root
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.amplification.gram import gram
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.rational import rational
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.base import LARGEST_MATRIX, Objective
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, Participation, Poisson
from corrnoise.theory.privacy import Budget

NO_FLOOR = "no error is known that all noise for sampled batches is above"
MAX_BINS = 2048  #: in searches for noise
STEP_SCALES = "step scales"  #: the variant of noise with a factor for each block of steps
MAX_GROUPS = 64  #: of cyclic Poisson sampling that are tried
_MAX_ENTRIES = 2**15  # points times bins of an estimate
_MAX_ORDER = 64
_DELTA_RESOLUTION = 0.01  # relative, of δ at an estimated multiplier, besides the accuracy of its points
#: Families of correlated noise by sampler; all others have independent noise.
_CORRELATED_NAMES: dict[type[Participation], tuple[str, ...]] = {
    CyclicPoisson: (BandedToeplitz.name,),
    BallsInBins: (BLT.name, NuDPFTRL.name, BSR.name),
}
_MAX_BUFFERS = 2  # in bins
_FIRST_WIDTH = 0.02  # of a bracket of the logarithm of a multiplier
_TRIED_NUS = tuple(2.0**-k for k in range(2, 9))
_TRIED_BANDS = (4, 16, 64)  # of square roots
_SIMPLEX_SIZE = 0.4  # of the first simplex
_MAX_EVALUATIONS = 30  # of a search, for each buffer
_LARGEST_LOG_SCALE = 1.5
_MIN_GAIN = 1e-3  # relative, of the root of the error: scales that gain less are left out
_SCALES_TOLERANCE, _MAX_SCALES_ITERATIONS = 1e-5, 25  # of the logarithm of the squared error


DPSGD_POISSON = label(INDEPENDENT, sampler=Poisson.label)
EPSILON_RANGE = (0.1, 20.0)  #: of the search for a crossover


class Candidate(NamedTuple):
    """Noise for a sampler: its family, and an estimate of its noise multiplier, which is 1 where none is needed."""

    family: str
    mechanism: Mechanism
    estimate: float = 1.0
    variant: str = ""


def samplers(steps: int, period: int, rate: float, memory: float) -> list[Participation]:
    """The samplers that are tried for batches with the same mean size.

    Parameters
    ----------
    steps, period : numbers of steps of the run and of an epoch
    rate : the share of the data in a batch
    memory : the largest number of arrays that the noise may keep: p groups have noise of p bands

    All numbers of groups are tried: the error has several minima, because the turns of a group, ⌈n/p⌉, jump.
    """
    groups = range(2, int(min(MAX_GROUPS, period, memory + 1, 1 / rate)) + 1)
    found = [Participation.poisson(steps, rate)]
    found += [Participation.cyclic_poisson(steps, period=p, rate=p * rate) for p in groups]
    return [*found, Participation.balls_in_bins(steps, period=period)] if 1 < period <= MAX_BINS else found


def best_groups(found: list[Optimum], budget: Budget) -> list[Optimum]:
    """The optima without those of cyclic Poisson batches that are worse than two others.

    Parameters
    ----------
    found : list of Optimum
        One optimum for each participation.
    budget : Budget
        The privacy budget.
    """
    cyclic = [one for one in found if isinstance(one.participation, CyclicPoisson)]
    worse = sorted(cyclic, key=lambda one: one.error_at(budget))[2:]
    return [one for one in found if not any(one is other for other in worse)]


def sampled_noises(
    objective: Objective,
    participation: Participation,
    budget: Budget,
    memory: float,
    families: Collection[str],
    progress: Progress,
) -> Iterator[Candidate]:
    """The noises that are tried for one sampler.

    Parameters
    ----------
    objective : of the run
    participation : a sampled participation
    budget : given by ε and δ, for the estimates
    memory : the largest number of arrays that the noise may keep
    families : names of the families to be tried; none for all
    progress : called with a line of text before every longer part
    """
    correlated = (
        _CORRELATED_NAMES.get(type(participation), ()) if memory >= 1 and participation.worst.period > 1 else ()
    )
    estimator = (
        MultiplierEstimator(objective, participation, budget) if isinstance(participation, BallsInBins) else None
    )
    for name in correlated if isinstance(participation, CyclicPoisson) and correlated else (INDEPENDENT, *correlated):
        if families and name not in families:
            continue
        progress(f"mechanisms: {label(name, sampler=participation.label)}")
        if estimator is None:
            noise = DPSGD() if name == INDEPENDENT else few_bands(objective, participation.worst.period, memory)
            if families:
                yield Candidate(name, noise)
            else:
                yield from with_step_scales(Candidate(name, noise), objective, participation, budget)
        else:
            yield from (
                Candidate(name, noise, estimator.multiplier(noise)) for noise in _in_bins(name, estimator, memory)
            )


def few_bands(objective: Objective, groups: int, memory: float) -> ToeplitzNoise:
    """The best strategy with a band for each group; an example is in one group.

    Parameters
    ----------
    objective : of the run
    groups : of cyclic Poisson sampling
    memory : the largest number of arrays that the noise may keep
    """
    once = Participation.single(objective.steps)
    start = None if objective.precise else toeplitz.nu_ftrl(objective, once)
    return toeplitz.best_toeplitz(objective, once, int(min(groups, memory + 1, objective.steps)), start)


def with_step_scales(
    plain: Candidate, objective: Objective, participation: Participation, budget: Budget
) -> Iterator[Candidate]:
    """The noise with certified multipliers: without step scales, and with the best ones where they gain 0.1 percent.

    Parameters
    ----------
    plain : Candidate
        Toeplitz noise with at most as many bands as there are groups.
    objective : Objective
        The objective of the run, of at most 4096 steps for step scales.
    participation : Participation
        The sampler; step scales are for Poisson and cyclic Poisson batches.
    budget : Budget
        The privacy budget by ε and δ.
    """
    multiplier = plain.mechanism.program(participation).multiplier(budget)
    yield plain._replace(estimate=multiplier)
    noise, turn = plain.mechanism, participation.worst.period
    block = turn * -(-objective.steps // (turn * MAX_NORMS))
    if not isinstance(participation, Poisson | CyclicPoisson) or not block < objective.steps <= LARGEST_MATRIX:
        return
    assert isinstance(noise, ToeplitzNoise)
    scales = best_step_scales(noise, objective, participation, budget, multiplier, block)
    if not np.all(np.isfinite(scales)):  # the search has failed
        return
    scaled = ScaledNoise(noise, scales)
    found = scaled.program(participation).multiplier(budget)
    gain = multiplier / found * math.sqrt(noise.squared_error(objective) / scaled.squared_error(objective))
    if gain > 1 + _MIN_GAIN:
        yield Candidate(plain.family, scaled, found, STEP_SCALES)


def best_step_scales(
    noise: ToeplitzNoise,
    objective: Objective,
    participation: Poisson | CyclicPoisson,
    budget: Budget,
    multiplier: float,
    block: int,
) -> Array:
    """The step scales with the least error at the budget, constant on blocks, with 1 in the first one.

    Parameters
    ----------
    noise : ToeplitzNoise
        Noise with at most as many bands as there are groups.
    objective : Objective
        The objective of the run.
    participation : Poisson or CyclicPoisson
        The sampler.
    budget : Budget
        The privacy budget by ε and δ.
    multiplier : float
        The noise multiplier without scales.
    block : int
        Steps of a block, a multiple of the number of groups.

    Returns
    -------
    array of float
        Shape (steps,).
    """
    assert budget.epsilon is not None
    assert budget.delta is not None
    epsilon, target, steps = budget.epsilon, math.log(budget.delta), objective.steps
    powers = objective.epoch_powers(noise.coefficients(steps), np.ones(steps), block)
    norm = float(noise.column_norms(steps).max())
    lengths = np.diff(np.append(np.arange(0, steps, block), steps))
    turns = [-(-int(length) // participation.worst.period) for length in lengths]

    def curve(logarithms: Array) -> PoissonCurve:
        factors = tuple(
            Factor(participation.rate, norm * math.exp(-x), count, participation.members)
            for x, count in zip(logarithms, turns, strict=True)
        )
        return PoissonCurve(factors, factors, True, "")

    def excess(logarithms: Array) -> float:
        return math.log(max(curve(logarithms).estimate(epsilon, 1.0, "remove")[1], 1e-300)) - target

    def slopes(logarithms: Array) -> Array:
        return -curve(logarithms).slopes(epsilon, 1.0, "remove")

    def loss(logarithms: Array) -> tuple[float, Array]:
        u = np.exp(logarithms)
        seen = powers @ u
        total = float(u @ seen)
        return math.log(total), 2 * u * seen / total

    start = np.full(lengths.size, math.log(multiplier))
    found = minimize(
        loss,
        start,
        jac=True,
        method="SLSQP",
        bounds=[(x - _LARGEST_LOG_SCALE, x + _LARGEST_LOG_SCALE) for x in start],
        constraints={"type": "eq", "fun": excess, "jac": slopes},
        options={"ftol": _SCALES_TOLERANCE, "maxiter": _MAX_SCALES_ITERATIONS},
    ).x
    return np.repeat(np.exp(found - found[0]), lengths)


# -- balls in bins -----------------------------------------------------------------------------------------------------


def _in_bins(family: str, estimator: MultiplierEstimator, memory: float) -> Iterator[ToeplitzNoise]:
    """The members of a family."""
    steps = estimator.objective.steps
    if family == INDEPENDENT:
        yield DPSGD()
    elif family == BLT.name:
        for count in range(1, int(min(memory, _MAX_BUFFERS, steps // 2)) + 1):
            noise = _tuned_buffers(estimator, count)
            if noise.memory(steps) < count:
                return
            yield noise
    elif family == NuDPFTRL.name:
        short = rational(min((NuFTRL(nu) for nu in _TRIED_NUS), key=estimator.error), TOLERANCE)
        if short.memory(steps) <= memory:
            yield short
    else:
        roots = [toeplitz.square_root(p) for p in _TRIED_BANDS if p <= min(memory + 1, steps)]
        if roots:
            yield min(roots, key=estimator.error)


class MultiplierEstimator:
    """Estimated multipliers and errors of noise for one sampler, budget and objective."""

    def __init__(self, objective: Objective, participation: Participation, budget: Budget) -> None:
        assert budget.epsilon is not None
        assert budget.delta is not None
        self.objective, self.participation = objective, participation
        self.epsilon, self.delta = budget.epsilon, budget.delta
        bins = participation.worst.period
        count = max(_MAX_ENTRIES // bins, 32)
        points = _fixed_points(count * (bins + _MAX_ORDER))
        self._normals = ndtri(points[: count * bins]).reshape(count, bins)
        self._uniforms = points[count * bins :].reshape(_MAX_ORDER, count)
        self._last = 1.0  # multiplier over the largest norm, where a search begins

    def error(self, noise: ToeplitzNoise) -> float:
        """The squared error at the budget."""
        return self.multiplier(noise) ** 2 * self.objective.power(noise.coefficients(self.objective.steps))[0]

    def multiplier(self, noise: ToeplitzNoise) -> float:
        """The noise multiplier at the budget."""
        products = gram(noise, self.objective.steps, self.participation.worst.period).upper
        size = math.sqrt(float(np.diagonal(products).max()))
        root = self._normals @ np.linalg.cholesky(products + 1e-9 * size**2 * np.eye(len(products))).T

        low, high = (math.log(end) for end in MULTIPLIER_RANGE)

        def delta(x: float) -> float:
            return math.exp(self._log_delta(products, root, math.exp(low + x)))

        start = math.log(self._last * size) - low
        found = math.exp(
            low + falling_root(delta, self.delta, high - low, _DELTA_RESOLUTION, start=start, width=_FIRST_WIDTH)
        )
        self._last = found / size
        return found

    def _log_delta(self, products: Array, root: Array, sigma: float) -> float:
        gram = products / sigma**2
        lean = np.zeros_like(root)  # Σ_l V_{i_l j}
        weight = np.zeros(len(root))  # log Π n_k
        least, order, chosen = math.inf, 1, (lean, weight)
        for a in range(1, _MAX_ORDER + 1):
            top = lean.max(axis=1)
            sums = np.cumsum(np.exp(lean - top[:, np.newaxis]), axis=1)
            if a > 1:
                weight = weight + top + np.log(sums[:, -1] / len(gram))
            drawn = (sums < (self._uniforms[a - 1] * sums[:, -1])[:, np.newaxis]).sum(axis=1)
            lean = lean + gram[drawn]
            if a > 1:
                bound = _log_mean(weight) - (a - 1) * self.epsilon + a * math.log1p(-1 / a) - math.log(a - 1)
                if bound < least:
                    least, order, chosen = bound, a, (lean, weight)
                elif a > order + 2:
                    break
        lean, weight = chosen
        ratio = logsumexp(root / sigma + lean - np.diagonal(gram) / 2, axis=1) - math.log(len(gram))
        above = ratio > self.epsilon
        with np.errstate(divide="ignore"):
            part = np.log(-np.expm1(np.minimum(self.epsilon - ratio, 0.0)))
        return _log_mean(np.where(above, weight + (1 - order) * ratio + part, -math.inf))


def _log_mean(logarithms: Array) -> float:
    return float(logsumexp(logarithms)) - math.log(logarithms.size)


def _fixed_points(count: int) -> Array:
    """Points of (0, 1) that look independent: the numbers 1, 2, … under a mixing function of 64 bits (splitmix64)."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray((((x ^ (x >> np.uint64(31))) >> np.uint64(12)).astype(np.float64) + 0.5) / 2**52)


def _tuned_buffers(estimator: MultiplierEstimator, count: int) -> PoleNoise:
    """Buffers with the least estimated error, from the best ones without sampling."""
    start = best_buffers(estimator.objective, estimator.participation.worst, count)
    count = start.zeros.size
    if count == 0:
        return start

    def loss(variables: Array) -> float:
        zeros, poles = gaps_of(variables)
        return math.log(estimator.error(PoleNoise(zeros, poles))) if separate(zeros, poles) else math.inf

    first = variables_of(np.sort(start.zeros), np.sort(start.poles))
    around = np.vstack([first, first + _SIMPLEX_SIZE * np.eye(first.size)])
    options = {"maxfev": _MAX_EVALUATIONS * count, "xatol": 3e-2, "fatol": 1e-3, "initial_simplex": around}
    found = minimize(loss, first, method="Nelder-Mead", options=options)
    return PoleNoise(*gaps_of(found.x))


# -- against DP-SGD ----------------------------------------------------------------------------------------------------


def crossover(dpsgd: Optimum, other: Optimum, delta: float) -> float | None:
    """The ε below which DP-SGD with Poisson batches has the smaller error, and above which other noise has it.

    Returns ε to 2 percent; None if one of the two has the smaller error at both ends of ``EPSILON_RANGE``.

    Parameters
    ----------
    dpsgd, other : at one δ and of one objective
    delta : 0 < δ < 1
    """
    curve = other.mechanism.program(other.participation).curve if other.participation.sampled else None

    def beaten(epsilon: float) -> bool:
        budget = Budget(epsilon=epsilon, delta=delta)
        error = dpsgd.error_at(budget)
        if curve is None:
            return other.error_at(budget) < error
        scale = error / other.error if other.measure == "root mean squared error" else math.sqrt(error / other.error)
        return budget.multiplier(other.sensitivity.upper) < scale or curve.estimate(epsilon, scale, "remove")[1] < delta

    low, high = EPSILON_RANGE
    if beaten(low) or not beaten(high):
        return None
    while high > low * 1.02:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if beaten(middle) else (middle, high)
    return high
