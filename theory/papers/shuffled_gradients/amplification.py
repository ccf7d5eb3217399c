"""Privacy amplification by iteration: how much of one record's influence the last iterate still shows.

Two runs whose data differ in one record follow the same contractive noisy maps x_t = g_t(x_{t−1}) + N(0, τ_t² I),
except that their steps differ by at most s_t where that record is used.  For every plan a_t >= 0 that spends the
difference, z_t = c_t z_{t−1} + s_t − a_t >= 0 with z_T = 0, the last iterates satisfy D_α <= (α/2) Σ a_t²/τ_t², and
are as hard to tell apart as two Gaussians at the distance sqrt(Σ a_t²/τ_t²).  The best plan is a taut string: with
w_t = c_{t+1} … c_T the greatest convex minorant of the curve (Σ (w_t τ_t)², Σ w_t s_t), found by pooling adjacent
violators in O(T).

For private steps of sensitivity 2ηG and noise ησ the divergence is at most α (2G²/σ²) A with the *amplification sum* A:
the minimum of Σ a_t²/τ_t² for s_t = 1 where the record is used, and τ_t = 1 at noisy private steps.  The noise of a
public step is relative to that: τ_t = η_public/η.  Without amplification A is the number of uses.

Sources: V. Feldman, I. Mironov, K. Talwar, A. Thakurta, Privacy amplification by iteration, FOCS 2018; J. Bok, W. Su,
J. Altschuler, Shifted interpolation for differential privacy, ICML 2024 (the Gaussian form); Jiang, Sharma, Wu and
Joshi, 2026: Theorem C.9, Lemmas E.2 and F.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.schedules import Schedule

_MAX_LOG_WEIGHT = 100.0  #: largest logarithm of a weight relative to the weight of the last arrival
_TINY_WEIGHT = 1e-100  #: weights below which sums are taken relative to the last arrival
_RELATIVE_ROUNDING = 1e-10  #: relative, of products of the contractions of many steps
_MIN_SUM = 1e-300  #: of an amplification sum: what underflows is not 0


@kernel
def _pooled(arrivals: Array, widths: Array) -> float:
    """Σ (Σ arrivals)²/(Σ widths) over the blocks of the greatest convex minorant; inf where nothing can be spent."""
    count = 0
    heights, lengths = np.empty(arrivals.size), np.empty(arrivals.size)
    for t in range(arrivals.size):
        heights[count], lengths[count] = arrivals[t], widths[t]
        count += 1
        # A slope may not fall: what arrives can only be spent later, so the two blocks share their noise.
        while count > 1 and heights[count - 2] * lengths[count - 1] >= heights[count - 1] * lengths[count - 2]:
            heights[count - 2] += heights[count - 1]
            lengths[count - 2] += lengths[count - 1]
            count -= 1
    total = 0.0
    for k in range(count):
        if heights[k] > 0:
            total += heights[k] * heights[k] / lengths[k] if lengths[k] > 0 else np.inf
    return float(total)


def best_plan_cost(sensitivities: ArrayLike, noise: ArrayLike, contractions: ArrayLike = 1.0) -> float:
    """The smallest Σ a_t²/τ_t² of a plan that spends the sensitivities.

    Returns twice the slope of the bound of the Rényi divergence in its order; ``inf`` where a difference arrives after
    which no noise is added.  Relative error below 1e-12, except that results below 1e-80 may be larger than the exact
    value.
    All have the shape (T,), or are scalars: s_t >= 0, τ_t >= 0, and the Lipschitz constants 0 <= c_t <= 1 of the maps.
    """
    s = checks.reals("sensitivities", sensitivities, "[0, 1e100]", ndim=1)
    tau = np.broadcast_to(checks.scalar_or_vector("noise", noise, "[0, 1e100]", s.size), s.shape)
    c = np.broadcast_to(checks.scalar_or_vector("contractions", contractions, "[0, 1]", s.size), s.shape)
    last = int(np.max(np.nonzero(s)[0], initial=-1))
    if last < 0:
        return 0.0
    # What remains of each step's difference at the end, relative to the last arrival, for common factors cancel.
    # Weights of later noise are cut off where they might overflow, which is on the safe side.
    logs = np.concatenate([np.cumsum(_logarithms(c)[:0:-1])[::-1], [0.0]])
    weights = np.exp(np.minimum(logs - logs[last], _MAX_LOG_WEIGHT))
    return float(_pooled(weights * s, np.square(weights * tau)))


def _logarithms(contractions: Array) -> Array:
    """Logarithms of contractions, those below 1e-300 raised to it: too large is on the safe side."""
    return np.asarray(np.log(np.maximum(contractions, 1e-300)))


@record
class StepFactors(Record):
    """How far the steps of a run shrink differences, and how loud public steps are.  All are 1 unless more is known.

    Parameters
    ----------
    private_contraction, public_contraction : float, default 1.0
        Lipschitz constants in [0, 1] of the gradient steps with private and with public records.
    prox : float, default 1.0
        Lipschitz constant in (0, 1] of the proximal map at the end of an epoch, 1/(1 + η n μ_ψ).
    public_noise : float, default 1.0
        Noise of noisy public steps relative to that of private ones, η_public/η > 0.
    linear : bool, default False
        Whether a gradient step multiplies every difference by a number, ± its Lipschitz constant: all losses have the
        Hessian μI.  Then an epoch before its proximal map is one linear step, and the noise of its earlier steps counts
        too: a map that is only known to be contractive may forget it.
    """

    private_contraction: float = 1.0
    public_contraction: float = 1.0
    prox: float = 1.0
    public_noise: float = 1.0
    linear: bool = False

    def __post_init__(self) -> None:
        self._check(
            private_contraction="[0, 1]", public_contraction="[0, 1]", prox="(0, 1]", public_noise="[1e-100, 1e100]"
        )
        self._check(linear=bool)


NONEXPANSIVE = StepFactors()


def _places(schedule: Schedule, positions: ArrayLike) -> NDArray[np.int64]:
    """Positions in all epochs, shape (K,)."""
    checks.instance("schedule", schedule, Schedule)
    found = checks.scalar_or_vector("positions", positions, f"[1, {schedule.samples}]", schedule.epochs)
    fractions = found[found % 1 != 0]
    if fractions.size:
        raise ValueError(f"positions must be integers in [1, {schedule.samples}], got {float(fractions[0])!r}")
    return np.broadcast_to(found, (schedule.epochs,)).astype(np.int64)


def run_steps(
    schedule: Schedule, positions: ArrayLike, *, factors: StepFactors = NONEXPANSIVE
) -> tuple[Array, Array, Array]:
    """Sensitivities, noise and contractions of a run, each shape (n K,), in units of 2ηG and ησ.

    The record stands at one of the ``positions`` 1, …, n of each epoch's order, a scalar or shape (K,), and is used
    where its position is at most n_k.
    """
    place = _places(schedule, positions)
    private = np.arange(1, schedule.samples + 1) <= schedule.private[:, np.newaxis]
    used = (np.arange(1, schedule.samples + 1) == place[:, np.newaxis]) & private
    kinds = {count: schedule.noisy_steps(count) for count in np.unique(schedule.private).tolist()}
    noisy = np.array([kinds[count] for count in schedule.private.tolist()])
    noise = noisy * np.where(private, 1.0, factors.public_noise)
    contraction = np.where(private, factors.private_contraction, factors.public_contraction)
    contraction[1:, 0] *= factors.prox  # folded into the next step
    return used.astype(float).ravel(), noise.ravel(), contraction.ravel()


@dataclass(frozen=True)
class _SeenEpoch:
    """An epoch as seen from its end.

    ``weights[j]``: what its later steps leave of step j + 1, shape (n,).  ``before[j]`` and ``after[j]``: the noise of
    steps 1, …, j and j + 1, …, n that is left, squared and added up, shape (n + 1,); all of it is "after" in a linear
    epoch.  ``noise``: their sum.  ``decay``: the logarithm of the factor of the whole epoch and a proximal
    map.  ``excess``: a factor for rounding, where larger contractions are not on the safe side.
    """

    weights: Array
    before: Array
    after: Array
    noise: float
    decay: float
    excess: float

    @classmethod
    def of(cls, schedule: Schedule, count: int, factors: StepFactors) -> _SeenEpoch:
        private = np.arange(schedule.samples) < count
        logs = _logarithms(np.where(private, factors.private_contraction, factors.public_contraction))
        weights = np.exp(np.append(np.cumsum(logs[:0:-1])[::-1], 0.0))
        energy = np.square(weights * np.where(private, 1.0, factors.public_noise)) * schedule.noisy_steps(count)
        before, after = np.append(0.0, np.cumsum(energy)), np.append(np.cumsum(energy[::-1])[::-1], 0.0)
        noise = float(after[0])
        if factors.linear:
            before, after = np.zeros_like(before), np.full_like(after, noise)
        return cls(
            weights=weights,
            before=before,
            after=after,
            noise=noise,
            decay=float(logs.sum()) + math.log(factors.prox),
            excess=1 + _RELATIVE_ROUNDING if factors.linear else 1.0,
        )

    def sums(self, count: int) -> Array:
        """A of this epoch alone for the record at its first ``count`` steps; at least 1e-300."""
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.square(self.weights[:count]) / self.after[:count]
        cost = np.where(self.after[:count] > 0, np.maximum(cost, _MIN_SUM), math.inf)
        return np.asarray(cost * self.excess)


@dataclass(frozen=True)
class _TautRun:
    """A run as its differences see it: a taut string with one vertex for each use of the record.

    ``kinds``: its epochs by their number of private records.  ``scales``: the part of its end that the epochs after
    epoch k leave, up to the last epoch with private records, the end of the noise.  ``starts``: the noise before epoch
    k that is left, squared and added up.
    """

    schedule: Schedule
    factors: StepFactors
    kinds: dict[int, _SeenEpoch]
    scales: Array
    starts: Array

    @classmethod
    def of(cls, schedule: Schedule, factors: StepFactors) -> _TautRun:
        counts = checks.instance("schedule", schedule, Schedule).private
        checks.instance("factors", factors, StepFactors)
        kinds = {count: _SeenEpoch.of(schedule, count, factors) for count in np.unique(counts).tolist()}
        last = int(np.max(np.nonzero(counts)[0], initial=0))
        decays = np.array([kinds[count].decay for count in counts[: last + 1].tolist()])
        scales = np.exp(np.append(np.cumsum(decays[:0:-1])[::-1], 0.0))
        noise = np.square(scales) * [kinds[count].noise for count in counts[: last + 1].tolist()]
        return cls(schedule, factors, kinds, scales, np.append(0.0, np.cumsum(noise)))

    def cost(self, positions: NDArray[np.int64]) -> float:
        """A for the record at ``positions``, shape (K,); unused where beyond the private records."""
        used = np.nonzero(positions <= self.schedule.private)[0]
        if used.size == 0:
            return 0.0
        uses = [
            (self.kinds[count], position - 1)
            for count, position in zip(self.schedule.private[used].tolist(), positions[used].tolist(), strict=True)
        ]
        scales = self.scales[used]
        arrivals = scales * [epoch.weights[step] for epoch, step in uses]
        if arrivals[-1] < _TINY_WEIGHT:  # squares would underflow
            return best_plan_cost(*run_steps(self.schedule, positions, factors=self.factors))
        later = np.square(scales) * [epoch.after[step] for epoch, step in uses]
        earlier = np.square(scales) * [epoch.before[step] for epoch, step in uses]
        between = self.starts[np.append(used[1:], self.scales.size)] - self.starts[used + 1]
        return float(_pooled(arrivals, later + between + np.append(earlier[1:], 0.0))) * uses[-1][0].excess


def amplification_sum(schedule: Schedule, positions: ArrayLike, *, factors: StepFactors = NONEXPANSIVE) -> float:
    """A of a run whose order is given: the record stands at ``positions`` (see ``run_steps``).

    For DP-ShuffleG and one position j it is (K − 1)/n + 1/(n − j + 1); the paper composes epochs instead, which gives
    K/(n − j + 1).
    """
    return _TautRun.of(schedule, factors).cost(_places(schedule, positions))


def worst_amplification_sum(
    schedule: Schedule, *, factors: StepFactors = NONEXPANSIVE, reshuffled: bool = False
) -> float:
    """A of the worst positions: the same in every epoch, or any if ``reshuffled``.

    A plan that is feasible for a late use is feasible for an earlier one, so the last private step of an epoch is its
    worst position; among positions that are the same in all epochs it is one of these last steps.
    """
    run = _TautRun.of(schedule, factors)
    if reshuffled:
        return run.cost(np.maximum(schedule.private, 1))
    return max(run.cost(np.full(schedule.epochs, j)) for j in np.unique(np.maximum(schedule.private, 1)))


def _private_epochs(schedule: Schedule) -> list[tuple[int, int]]:
    """The numbers of private records of epochs that have any, and how many epochs have that number."""
    counts = checks.instance("schedule", schedule, Schedule).private
    values, times = np.unique(counts[counts > 0], return_counts=True)
    return list(zip(values.tolist(), times.tolist(), strict=True))


def epoch_amplification_sums(schedule: Schedule, *, factors: StepFactors = NONEXPANSIVE) -> Array:
    """Σ over the epochs of A of each alone, for every position, shape (n,): composition of epochs, as published.

    For nonexpansive steps position j costs 1/(number of noisy steps from j on) in each epoch that uses it.
    """
    total = np.zeros(checks.instance("schedule", schedule, Schedule).samples)
    for count, times in _private_epochs(schedule):
        total[:count] += times * _SeenEpoch.of(schedule, count, factors).sums(count)
    return total


def composed_amplification_sum(
    schedule: Schedule, *, factors: StepFactors = NONEXPANSIVE, reshuffled: bool = False
) -> float:
    """A of composed epochs at the worst positions: the same in every epoch, or any if ``reshuffled``."""
    if not reshuffled:
        return float(epoch_amplification_sums(schedule, factors=factors).max())
    return float(sum(times * _SeenEpoch.of(schedule, c, factors).sums(c)[-1] for c, times in _private_epochs(schedule)))


def reshuffled_amplification_sums(schedule: Schedule, *, factors: StepFactors = NONEXPANSIVE) -> Array:
    """A with fresh permutations, by the position in the last epoch of private records, shape (n,).

    The record stands at the worst position of all earlier epochs, the last private step.  Positions beyond the private
    steps of the last epoch do not use it there.  For DP-ShuffleG with K >= 2 position n − m + 1 has
    A = (K − 2)/n + 1/(n + 1 − m) + 1/m if 2m <= n + 1, else (K − 2)/n + 4/(n + 1).
    """
    run = _TautRun.of(schedule, factors)
    last = int(np.max(np.nonzero(schedule.private)[0], initial=0))
    positions = np.maximum(schedule.private, 1)
    sums = np.empty(schedule.samples)
    for j in range(1, schedule.samples + 1):
        positions[last] = j
        sums[j - 1] = run.cost(positions)
    return sums


def shuffled_once_amplification_sums(schedule: Schedule, *, factors: StepFactors = NONEXPANSIVE) -> Array:
    """A with the record at the same position in all epochs, for every position, shape (n,)."""
    run = _TautRun.of(schedule, factors)
    return np.array([run.cost(np.full(schedule.epochs, j)) for j in range(1, schedule.samples + 1)])
