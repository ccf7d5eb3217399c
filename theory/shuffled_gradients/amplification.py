"""Privacy amplification by iteration: how much of one record's influence the last iterate still shows.

Two runs whose data differ in one record follow the same contractive noisy maps x_t = g_t(x_{t−1}) + N(0, τ_t² I),
except that their steps differ by at most s_t where that record is used.  For every plan a_t >= 0 that spends the
difference, z_t = c_t z_{t−1} + s_t − a_t >= 0 with z_T = 0, the last iterates satisfy D_α <= (α/2) Σ a_t²/τ_t², and
are as hard to tell apart as two Gaussians at the distance sqrt(Σ a_t²/τ_t²).  The best plan is a taut string: with
w_t = c_{t+1} … c_T the greatest convex minorant of the curve (Σ (w_t τ_t)², Σ w_t s_t), found by pooling adjacent
violators in O(T).

For steps of sensitivity 2ηG and noise ησ the divergence is at most α (2G²/σ²) A with the *amplification sum* A, the
minimum of Σ a_t² for s_t = 1 where the record is used and τ_t = 1 where noise is added.  Without amplification A is the
number of uses.

References
----------
V. Feldman, I. Mironov, K. Talwar, A. Thakurta, Privacy amplification by iteration, FOCS 2018.
J. Bok, W. Su, J. Altschuler, Shifted interpolation for differential privacy, ICML 2024 (the Gaussian form).
Jiang, Sharma, Wu and Joshi, 2026: Theorem C.9, Lemmas E.2 and F.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.shuffled_gradients.schedules import Schedule

_CUT = 100.0  #: largest logarithm of a weight relative to that of the last arrival


@numba.njit(cache=True, nogil=True, error_model="numpy")
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

    Parameters
    ----------
    sensitivities
        s_t >= 0, shape (T,).
    noise
        Standard deviations τ_t >= 0, a scalar or shape (T,).
    contractions
        Lipschitz constants 0 <= c_t <= 1 of the maps, a scalar or shape (T,).

    Returns
    -------
    Twice the slope of the bound of the Rényi divergence in its order; ``inf`` where a difference arrives after which no
    noise is added.  Relative error below 1e-12.
    """
    s = checks.reals("sensitivities", sensitivities, "[0, 1e100]", ndim=1)
    tau = np.broadcast_to(checks.scalar_or_vector("noise", noise, "[0, 1e100]", s.size), s.shape)
    c = np.broadcast_to(checks.scalar_or_vector("contractions", contractions, "[0, 1]", s.size), s.shape)
    last = int(np.max(np.nonzero(s)[0], initial=-1))
    if last < 0:
        return 0.0
    # What remains of each step's difference at the end.  Common factors cancel: weigh by the last arrival.
    logs = np.concatenate([np.cumsum(np.log(np.maximum(c, 1e-300))[:0:-1])[::-1], [0.0]])
    # (Weights of later noise are cut off where they might overflow, which is on the safe side.)
    weights = np.exp(np.minimum(logs - logs[last], _CUT)) if (c[1:] > 0).all() else _weights(c, last)
    return float(_pooled(weights * s, np.square(weights * tau)))


def _weights(c: Array, last: int) -> Array:
    """Products of later contractions, some of which vanish: nothing is left of what came before."""
    weights = np.concatenate([np.cumprod(c[:0:-1])[::-1], [1.0]])
    return weights / weights[last] if weights[last] > 0 else weights


def _places(schedule: Schedule, positions: ArrayLike) -> NDArray[np.int64]:
    """Positions in all epochs, shape (K,)."""
    checks.instance("schedule", schedule, Schedule)
    found = checks.scalar_or_vector("positions", positions, f"[1, {schedule.samples}]", schedule.epochs)
    fractions = found[found % 1 != 0]
    if fractions.size:
        raise ValueError(f"positions must be integers in [1, {schedule.samples}], got {float(fractions[0])!r}")
    return np.broadcast_to(found, (schedule.epochs,)).astype(np.int64)


def run_steps(schedule: Schedule, positions: ArrayLike, *, prox: float = 1.0) -> tuple[Array, Array, Array]:
    """Sensitivities, noise and contractions of a run, each shape (n K,), in units of 2ηG and ησ.

    Parameters
    ----------
    schedule
        The run.
    positions
        Position 1, …, n of the record in each epoch's order, a scalar or shape (K,); used where at most n_k.
    prox
        Lipschitz constant of the proximal map at the end of an epoch, 1/(1 + η n μ_ψ).
    """
    place = _places(schedule, positions)
    n, epochs = schedule.samples, schedule.epochs
    step = np.arange(1, n + 1)
    used = (step == place[:, np.newaxis]) & (step <= schedule.private[:, np.newaxis])
    kinds = {count: schedule.noisy_steps(count) for count in np.unique(schedule.private).tolist()}
    noise = np.array([kinds[count] for count in schedule.private.tolist()])
    contraction = np.ones((epochs, n))
    contraction[1:, 0] = checks.real("prox", prox, "(0, 1]")  # folded into the next step
    return used.astype(float).ravel(), noise.astype(float).ravel(), contraction.ravel()


@dataclass(frozen=True)
class _Run:
    """The noise of a run as its differences see it, epoch by epoch: a taut string with few vertices.

    A difference that arrives in epoch k is worth w_k at the end, noise there w_k², with w_k = prox^{K−1−k}.

    ``weights`` are w_k, shape (K,), relative to the last epoch with private records; ``starts`` the noise before epoch
    k, shape (K + 1,); ``before[c][j]`` the number of noisy steps before step j + 1 of an epoch with c private records.
    """

    private: NDArray[np.int64]
    weights: Array
    starts: Array
    before: dict[int, NDArray[np.int64]]

    @classmethod
    def of(cls, schedule: Schedule, prox: float) -> _Run:
        counts = checks.instance("schedule", schedule, Schedule).private
        last = int(np.max(np.nonzero(counts)[0], initial=0))
        decay = math.log(checks.real("prox", prox, "(0, 1]"))
        weights = np.exp(np.minimum((last - np.arange(counts.size)) * decay, _CUT))
        before = {c: np.append(0, np.cumsum(schedule.noisy_steps(c))) for c in np.unique(counts).tolist()}
        noise = np.square(weights) * [before[c][-1] for c in counts.tolist()]
        return cls(counts, weights, np.append(0.0, np.cumsum(noise)), before)

    def cost(self, positions: NDArray[np.int64]) -> float:
        """A for the record at ``positions``, shape (K,); unused where beyond the private records."""
        used = np.nonzero(positions <= self.private)[0]
        if used.size == 0:
            return 0.0
        places = zip(self.private[used].tolist(), positions[used].tolist(), strict=True)
        earlier = np.square(self.weights[used]) * [self.before[c][j - 1] for c, j in places]
        widths = np.diff(np.append(self.starts[used] + earlier, self.starts[-1]))
        return float(_pooled(self.weights[used], widths))


def amplification_sum(schedule: Schedule, positions: ArrayLike, *, prox: float = 1.0) -> float:
    """A of a run whose order is given: the record stands at ``positions`` (see ``run_steps``).

    For DP-ShuffleG and one position j it is (K − 1)/n + 1/(n − j + 1); the paper composes epochs instead, which gives
    K/(n − j + 1).
    """
    return _Run.of(schedule, prox).cost(_places(schedule, positions))


def worst_amplification_sum(schedule: Schedule, *, prox: float = 1.0, reshuffled: bool = False) -> float:
    """A of the worst positions: the same in every epoch, or any if ``reshuffled``.

    A later arrival leaves less noise to hide in: a plan that spends it spends an earlier one too.  So the last private
    step of each epoch is the worst, and of one position for all epochs the last that is used as often.
    """
    run = _Run.of(schedule, prox)
    if reshuffled:
        return run.cost(np.maximum(schedule.private, 1))
    return max(run.cost(np.full(schedule.epochs, j)) for j in np.unique(np.maximum(schedule.private, 1)))


def epoch_amplification_sums(schedule: Schedule) -> Array:
    """Σ over the epochs of A of each alone, for every position, shape (n,): composition of epochs, as published.

    Position j costs 1/(number of noisy steps from j on) in each epoch that uses it.
    """
    total = np.zeros(checks.instance("schedule", schedule, Schedule).samples)
    for count, times in zip(*np.unique(schedule.private, return_counts=True), strict=True):
        later = np.cumsum(schedule.noisy_steps(int(count))[::-1])[::-1]
        with np.errstate(divide="ignore"):
            total[:count] += times / later[:count]
    return total


def composed_amplification_sum(schedule: Schedule, *, reshuffled: bool = False) -> float:
    """A of composed epochs at the worst positions: the same in every epoch, or any if ``reshuffled``."""
    checks.instance("schedule", schedule, Schedule)
    if not reshuffled:
        return float(epoch_amplification_sums(schedule).max())
    counts, times = np.unique(schedule.private[schedule.private > 0], return_counts=True)
    return float(sum(t / schedule.noisy_steps(c)[c - 1 :].sum() for c, t in zip(counts, times, strict=True)))


def reshuffled_amplification_sums(schedule: Schedule, *, prox: float = 1.0) -> Array:
    """A with fresh permutations, by the position in the last epoch of private records, shape (n,).

    The record stands at the worst position of all earlier epochs, the last private step: earlier arrivals would be
    hidden better.  Positions beyond the private steps of the last epoch do not use it there.  For DP-ShuffleG with
    K >= 2 position n − m + 1 has A = (K − 2)/n + 1/(n + 1 − m) + 1/m if 2m <= n + 1, else (K − 2)/n + 4/(n + 1).
    """
    run, n = _Run.of(schedule, prox), schedule.samples
    last = int(np.max(np.nonzero(schedule.private)[0], initial=0))
    positions = np.maximum(schedule.private, 1)
    sums = np.empty(n)
    for j in range(1, n + 1):
        positions[last] = j
        sums[j - 1] = run.cost(positions)
    return sums
