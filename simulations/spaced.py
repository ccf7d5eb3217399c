"""Monte Carlo of b-min-sep sampling: weights of δ_remove with a proved bound, and a tail bound of δ_add.

*remove*.  The density Λ^a/Z_a with respect to Q is that of z + Σ_k m_{S_k}, for a copies of S with probabilities
proportional to Π p_{S_k} exp(Σ_{k<l} <m_{S_k}, m_{S_l}>).  The copies are drawn together, step by step, from a table of
the means of the steps to come, given the multiset of the steps that each has to wait: C(a + b − 1, a) states.  The
weight is w = Z_a (Λ − K)₊ Λ^{−a} <= Z_a K^{1−a} (a − 1)^{a−1}/a^a; the order a with the least bound is taken.

*add*.  ln Λ is a convex function of Gaussian z under Q.  By Ehrhard's inequality Φ^{−1}(F(t)) is concave for
F(t) = Q(ln Λ <= t).  So below t₁ < t₂ the line through an upper end of Φ^{−1}(F(t₁)) and a lower end of Φ^{−1}(F(t₂))
is above it: the lower tail of ln Λ is at most the tail of a normal variable Y, and for −ε <= t₁
δ_add(ε) = ∫_{t < −ε} K e^t F(t) dt <= E (1 − K e^Y)₊.  Both ends are binomial (Clopper and Pearson), for t₁ and t₂ from
other draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from corrnoise.support.kernels import kernel
from corrnoise.theory.amplification.spaced import SpacedCurve
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Indices
from corrnoise.theory.participation.base import BETAINC_FACTOR

_MAX_TABLE_ENTRIES = 2 * 10**7  #: of the means of a, over all steps and states
_MAX_ORDER = 12
_CHUNK_DRAWS = 500
_MIN_BOUND = 1e-300  #: of weights, where exponentials underflow
_ROUNDING_ERROR = 1e-9  #: more than the relative one of a weight and of the probabilities of its draws
_TAIL_LEVELS = (0.002, 0.01, 0.05)  #: of F(t₁); pilot draws choose one


@record
class Copies(Record):
    """The states of a copies of S: sorted waits, how many are 0, and the state after j of these are in a batch."""

    waits: Indices
    free: Indices
    after: Indices


@lru_cache(maxsize=16)
def copies(period: int, order: int) -> Copies:
    """The states of ``order`` copies; arrays of the shapes (states, a), (states,) and (states, a + 1)."""
    states = list(combinations_with_replacement(range(period), order))
    places = {state: i for i, state in enumerate(states)}
    waits = np.array(states)
    free = (waits == 0).sum(axis=1)
    after = np.zeros((len(states), order + 1), dtype=np.int64)
    for i, state in enumerate(states):
        rest = [wait - 1 for wait in state if wait]
        for j in range(free[i] + 1):
            after[i, j] = places[tuple(sorted([0] * (int(free[i]) - j) + rest + [period - 1] * j))]
    return Copies(waits, free, after)


@kernel
def _fill(overlaps, binomial, waits, free, after, values, scales):  # type: ignore[no-untyped-def]
    """``values[t, state]``: means over the steps from t on, divided by the product of ``scales[t:]``."""
    n, period = overlaps.shape
    values[n] = 1.0
    for t in range(n - 1, -1, -1):
        for state in range(waits.shape[0]):
            gain = 0.0
            for wait in waits[state]:
                if wait > 0:
                    gain += overlaps[t, period - wait]
            total = binomial[free[state], 0] * values[t + 1, after[state, 0]]
            exponent = 0.0
            for j in range(1, free[state] + 1):
                exponent += gain + (j - 1) * overlaps[t, 0]
                total += binomial[free[state], j] * math.exp(exponent) * values[t + 1, after[state, j]]
            values[t, state] = total
        scales[t] = values[t].max()
        values[t] /= scales[t]


@kernel
def _add_copies(  # type: ignore[no-untyped-def]
    columns, overlaps, binomial, waits, free, after, values, scales, states, uniforms, outputs
):
    """Add Σ_k m_{S_k} to each row of ``outputs``."""
    n, period = overlaps.shape
    for row in range(outputs.shape[0]):
        state = states[row]
        for t in range(n):
            left = uniforms[row, t] * values[t, state] * scales[t]
            left -= binomial[free[state], 0] * values[t + 1, after[state, 0]]
            j = 0
            if left >= 0 and free[state] > 0:
                gain = 0.0
                for wait in waits[state]:
                    if wait > 0:
                        gain += overlaps[t, period - wait]
                exponent = 0.0
                while left >= 0 and j < free[state]:
                    j += 1
                    exponent += gain + (j - 1) * overlaps[t, 0]
                    left -= binomial[free[state], j] * math.exp(exponent) * values[t + 1, after[state, j]]
                for d in range(min(columns.shape[1], n - t)):
                    outputs[row, t + d] += j * columns[t, d]
            state = after[state, j]


class Tilted:
    """The law with the density Λ^a/Z_a with respect to Q, for σ = 1."""

    def __init__(self, columns: Array, period: int, chance: float, order: int) -> None:
        n, bands = columns.shape
        a, p, b = order, chance, period
        self.columns = columns
        self.order = order
        overlaps = np.zeros((n, b))  # of a step and the step d before it
        for d in range(bands):
            overlaps[d:, d] = (columns[: n - d, d:] * columns[d:, : bands - d]).sum(axis=1)
        binomial = np.zeros((a + 1, a + 1))
        for f in range(a + 1):
            binomial[f, : f + 1] = [math.comb(f, j) * p**j * (1 - p) ** (f - j) for j in range(f + 1)]
        known = copies(b, a)
        values = np.empty((n + 1, len(known.waits)))
        self.scales = np.empty(n)
        self.tables = (overlaps, binomial, known.waits, known.free, known.after, values, self.scales)
        _fill(*self.tables)
        counts = (known.waits[:, :, np.newaxis] == np.arange(b)).sum(axis=1)
        ways = [math.factorial(a) / math.prod(map(math.factorial, row)) for row in counts.tolist()]
        self.start = np.array(ways) * p ** (a - known.free) / (1 + (b - 1) * p) ** a * values[0]

    @property
    def log_moment(self) -> float:
        """Ln Z_a, or ``inf`` where floats overflow."""
        with np.errstate(all="ignore"):
            found = float(np.log(self.start.sum()) + np.log(self.scales).sum())
        return found if math.isfinite(found) else math.inf

    def outputs(self, rng: np.random.Generator, size: int) -> Array:
        """Draws, shape (size, n)."""
        sums = np.cumsum(self.start)
        states = np.minimum(np.searchsorted(sums, rng.random(size) * sums[-1], side="right"), sums.size - 1)
        found = rng.standard_normal((size, len(self.columns)))
        _add_copies(self.columns, *self.tables, states, rng.random(found.shape), found)
        return found


def removal_weights(
    curve: SpacedCurve, epsilon: float, noise_multiplier: float
) -> tuple[Callable[[np.random.Generator, int], Array], float]:
    """A sampler of weights of mean δ_remove(ε), and their bound."""
    columns = curve.columns / noise_multiplier
    if (len(columns) + 1) * curve.period > _MAX_TABLE_ENTRIES:
        raise ValueError(
            f"steps must be fewer for Monte Carlo with this separation, got {len(columns)} with period={curve.period}: "
            f"the table has more than {_MAX_TABLE_ENTRIES:.0e} entries"
        )
    best, bound = None, math.inf
    for order in range(1, _MAX_ORDER + 1):
        if (len(columns) + 1) * math.comb(order + curve.period - 1, order) > _MAX_TABLE_ENTRIES:
            break
        law = Tilted(columns, curve.period, curve.chance, order)
        log = law.log_moment + (1 - order) * epsilon - order * math.log(order)
        log += (order - 1) * math.log(order - 1) if order > 1 else 0.0
        if log >= bound:
            break
        best, bound = law, log
    if best is None:  # beyond floats
        return lambda _, size: np.ones(size), 1.0
    largest = max(math.exp(min(bound, 700.0)), _MIN_BOUND) * (1 + _ROUNDING_ERROR) ** 2

    def sample(rng: np.random.Generator, size: int) -> Array:
        found = np.empty(size)
        for first in range(0, size, _CHUNK_DRAWS):
            part = found[first : first + _CHUNK_DRAWS]
            logs = curve.log_ratios(noise_multiplier, best.outputs(rng, part.size))
            with np.errstate(all="ignore"):  # beyond floats
                weights = -np.expm1(-np.maximum(logs - epsilon, 0.0)) * np.exp(
                    best.log_moment + (1 - best.order) * logs
                )
            part[:] = np.where(np.isfinite(weights), weights * (1 + _ROUNDING_ERROR), largest)
        return found

    return sample, largest


def addition_bound(
    curve: SpacedCurve,
    epsilon: float,
    noise_multiplier: float,
    *,
    samples: int,
    pilot: np.random.Generator,
    rng: np.random.Generator,
    beta: float,
    repeats: int = 1,
) -> float:
    """An upper bound of δ_add(ε) that fails with probability β."""

    def drawn(source: np.random.Generator, size: int) -> Array:
        parts = [min(_CHUNK_DRAWS, size - first) for first in range(0, size, _CHUNK_DRAWS)]
        return np.concatenate(
            [curve.log_ratios(noise_multiplier, source.standard_normal((k, len(curve.columns)))) for k in parts]
        )

    known, certifying = drawn(pilot, max(samples // 8, 2000)), drawn(rng, samples)
    if not (np.isfinite(known).all() and np.isfinite(certifying).all()):
        return 1.0
    ends = [max(float(np.quantile(known, level)), -epsilon) for level in _TAIL_LEVELS]
    last = float(np.quantile(known, (1 + float((known <= max(ends)).mean())) / 2))
    first = min(ends, key=lambda end: _tail(known, end, last, epsilon, samples, beta))
    return _tail(certifying, first, last, epsilon, samples * repeats, beta)


def _tail(logs: Array, first: float, last: float, epsilon: float, count: int, beta: float) -> float:
    """The bound from the shares of ln Λ below t₁ and t₂, as if there were ``count`` draws."""
    few, many = (round(float((logs <= t).mean()) * count) for t in (first, last))
    upper = 1.0 if few == count else min(float(betaincinv(few + 1, count - few, 1 - beta / 2)) * BETAINC_FACTOR, 1.0)
    lower = 0.0 if many == 0 else float(betaincinv(many, count - many + 1, beta / 2)) / BETAINC_FACTOR
    if not first < last or not upper < lower:
        return upper  # δ_add(ε) <= F(−ε) <= F(t₁)
    slope = (float(ndtri(lower)) - float(ndtri(upper))) / (last - first)  # of the normal variable Y, as 1/deviation
    mean = first - float(ndtri(upper)) / slope
    place = (-epsilon - mean) * slope
    inside = float(ndtr(place))
    excess = math.exp(min(epsilon + mean + 1 / slope**2 / 2, 700.0)) * float(ndtr(place - 1 / slope))
    return min(max(inside - excess, 0.0) + _ROUNDING_ERROR * inside, upper)
