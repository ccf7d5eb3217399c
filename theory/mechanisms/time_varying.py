"""Time-varying buffers: noise of a finite run from few arrays, whose numbers depend on the step.

    y⁰_t = z_t − Σ_i o_ti s_i,    s_i ← θ_i s_i + i_ti y⁰_t,    y_t = d_t y⁰_t,

with the old buffers in the first equation.  The strategy is C = C⁰ diag(1/d), C⁰_tt = 1 and
C⁰_ts = Σ_i o_ti θ_i^{t−1−s} i_si for s < t.  A strategy has *order* d if no block of the rows from some step on and
the columns before it has a rank above d.  Every strategy of order d whose outputs and inputs can be chosen positive is
of this form, and constant decays lose nothing.  Buffers, with scales, unit columns or epoch weights, have constant
outputs and inputs.

C >= 0, so that gradients which are equal are the worst, and everything takes O(n d²): errors of workloads that are
linear systems, the sensitivity in fixed epochs, and bounds of it for other orders.

*Replays.*  A step may also add earlier draws of its class, which it makes again: z_t is replaced by
u_t = z_t + Σ_{e<=r} a_et z_{t−eb}, of any signs, that is C by M⁻¹C (``replays``).  This takes no array, and makes the
columns of a class nearly orthogonal, as those of an optimum are in fixed epochs of b steps.

*Rounding.*  An entry of lag l passes at most 2l + d + 1 roundings, in whatever order a sum is added: the d terms that
are subtracted from z, two operations for an update, and the factor d_t.  So the program has at most the sensitivity of
decays θ (1 − u)⁻², inputs i (1 − u)⁻² and columns (1 − u)^{−(d+1)}.  Underflow is not covered.  With replays all bounds
are additive (docs/time-varying-buffers.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from flint import arb, ctx

from corrnoise.support.memory import fits_into_memory
from corrnoise.theory.mechanisms import replays as replayed
from corrnoise.theory.mechanisms import time_varying_errors, time_varying_gains
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.reshuffled import reshuffled_sensitivity
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, block_sensitivity, bracket_of, strategy_sensitivity
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.inlined import writable
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import (
    DTYPES,
    UNIT_ROUNDOFF,
    Dtype,
    as_stored,
    at_the_ends,
    finite_or_inf,
    growth,
    rounded_up,
)
from corrnoise.theory.objectives.base import LARGEST_MATRIX, Objective
from corrnoise.theory.objectives.workloads import Workload
from corrnoise.theory.participation import FixedEpochs, Order, Participation, Reshuffled
from corrnoise.theory.recursion import Recursion

_WEIGHT_INTERVAL = "[0, 1e30]"
_SCALE_INTERVAL = "[1e-50, 1e50]"
_REPLAY_INTERVAL = "[-1e3, 1e3]"
_MAX_COLUMN_ERROR = 1e-2  # largest relative error of the square of a column norm that is bounded
_BOUND_FACTOR = 1 + 1e-9  # more than the relative error of norms of matrices in bounds that are small themselves
_BUFFER_NUMBERS = 4  # arrays of numbers without replays


@record
class TimeVaryingBuffers(Mechanism):
    """Noise of a run of n steps from d buffers with outputs, inputs and a scale for each step.

    Parameters
    ----------
    decays : array_like
        θ in [0, 1], shape (d,).
    outputs : array_like
        o >= 0, shape (n, d).
    inputs : array_like
        i >= 0, shape (n, d).
    scales : array_like
        d_t > 0, shape (n,).
    replays : array_like, optional
        a, shape (r, n): the factor of the draw of e b steps earlier, e = 1, …, r, which is 0 in the first e b steps.
        None for no replays.
    period : int, default 1
        b >= 1, the steps of an epoch, with r b < n; without replays it has no meaning.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import corrnoise as cn
    >>> once = cn.Participation.single(3)
    >>> noise = cn.mechanisms.TimeVaryingBuffers([0.5], [[0.0], [1.0], [1.0]], [[1.0], [1.0], [1.0]], [1.0, 1.0, 2.0])
    >>> noise.strategy()
    array([[1. , 0. , 0. ],
           [1. , 1. , 0. ],
           [0.5, 1. , 0.5]])
    >>> round(noise.sensitivity(once), 6)
    1.5
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"time-varying buffers": DTYPES, "replayed buffers": DTYPES}

    decays: Array
    outputs: Array
    inputs: Array
    scales: Array
    replays: Array
    period: int

    def __init__(
        self,
        decays: ArrayLike,
        outputs: ArrayLike,
        inputs: ArrayLike,
        scales: ArrayLike,
        *,
        replays: ArrayLike | None = None,
        period: int = 1,
    ) -> None:
        theta = checks.vector("decays", decays, "[0, 1]")
        factors = checks.reals("scales", scales, _SCALE_INTERVAL, ndim=1)
        shape = (factors.size, theta.size)
        self._set(
            decays=theta,
            outputs=checks.shaped("outputs", outputs, shape, _WEIGHT_INTERVAL),
            inputs=checks.shaped("inputs", inputs, shape, _WEIGHT_INTERVAL),
            scales=factors,
            **_checked_replays(replays, period, factors.size),
        )

    def arguments(self) -> dict[str, Any]:
        found = super().arguments()  # without replays those of files of version 0.1
        return found if len(self.replays) else {name: found[name] for name in list(found)[:4]}

    def forms(self) -> tuple[Form, ...]:
        return ("replayed buffers" if len(self.replays) else "time-varying buffers",)

    @property
    def steps(self) -> int:
        return int(self.scales.size)

    @property
    def step_scales(self) -> Array:
        """d_t, the factor of the finished noise of each step."""
        return self.scales

    def _leading(self, n: int) -> TimeVaryingBuffers:
        kept = self.replays[: (n - 1) // self.period, :n]
        parts = (self.decays, self.outputs[:n], self.inputs[:n], self.scales[:n])
        return TimeVaryingBuffers(*parts, replays=kept, period=self.period)

    def memory(self, n: int | None = None) -> int:
        self.length(n)
        return int(self.decays.size)

    def noising(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        flat = np.array(z.reshape(self.steps, -1))
        if len(self.replays):
            replayed.noise(*writable(self.replays), self.period, flat)
        time_varying_errors.noise(self.decays, self.outputs, self.inputs, self.scales, flat)
        return flat.reshape(z.shape)

    def strategy(self, n: int | None = None) -> Array:
        self.length(n)
        found = _strategy(self.decays, self.outputs, self.inputs, 1 / self.scales)
        if len(self.replays):
            replayed.solved(*writable(self.replays), self.period, found)
        return found

    def strategy_error(self, n: int | None = None) -> float:
        if not len(self.replays):
            return (2 * self.length(n) + self.decays.size + 4) * UNIT_ROUNDOFF
        self.length(n)
        entries, errors = self._gram()
        squares = self._own(entries)
        if not (self._own(errors) < _MAX_COLUMN_ERROR * squares).all():
            return math.inf  # C cancels
        return 1.02 * float((self._own(errors) / squares).max())  # of the squares, more than that of M⁻¹ (C⁰ e_j)

    def column_norms(self, n: int | None = None) -> Array:
        self.length(n)
        if len(self.replays):
            return np.asarray(np.sqrt(np.maximum(self._own(self._gram()[0]), 0.0)) / self.scales)
        return np.asarray(np.sqrt(_gains(self.decays, self.outputs, self.inputs)[0]) / self.scales)

    def bracket(self, participation: Participation) -> Sensitivity:
        """The sensitivity: exact for one participation and in fixed epochs, otherwise between two bounds; O(n d² k).

        Up to 4096 steps other orders have the closer of these bounds and those of any strategy, in O(n³).  With replays
        a bracket of the classes takes O(n d² k), and is closed where signs balance; other orders have the bounds of any
        strategy alone.
        """
        who = self.of_this_run(participation).worst
        if not len(self.replays):
            return _bracket(self.decays, self.outputs, self.inputs, 1 / self.scales, who)
        if isinstance(who, FixedEpochs) and who.period == self.period:
            return self._class_bracket()
        return super().bracket(who)

    def _gram(self) -> tuple[Array, Array]:
        """X_ij for unit scales of the pairs of a class (``replays``), and bounds of the errors, shape (n, k)."""
        found = [
            class_grams(self.decays, self.outputs, self.inputs, factors, self.period)[-1]
            for factors in (self.replays, -np.abs(self.replays))  # M⁻¹ of the second is a majorant of that of the first
        ]
        (r, n), k, d = self.replays.shape, found[0].shape[1], self.decays.size
        return found[0], (4 * n + (2 * r + 12) * k + 8 * d + 64) * UNIT_ROUNDOFF * found[1]

    def _own(self, pairs: Array) -> Array:
        """The entries of the pairs (i, i)."""
        steps = np.arange(self.steps)
        return np.asarray(pairs[steps, steps // self.period])

    def _class_bracket(self) -> Sensitivity:
        n, b = self.steps, self.period
        with np.errstate(over="ignore", invalid="ignore"):
            entries, errors = self._gram()
        if not np.isfinite(errors).all():
            return bracket_of(math.inf, math.inf, math.inf)
        k = entries.shape[1]
        columns = np.zeros(k * b)
        columns[:n] = 1 / self.scales
        scales = columns[:n, np.newaxis] * columns.reshape(k, b).T[np.arange(n) % b]
        blocks, spreads = np.zeros((2, k * b, k))
        blocks[:n] = scales * entries
        spreads[:n] = scales * (errors + (k * k + 8) * UNIT_ROUNDOFF * np.abs(entries))
        blocks, spreads = (each.reshape(k, b, k).transpose(1, 0, 2) for each in (blocks, spreads))
        totals = np.abs(blocks).sum(axis=(1, 2))
        low = high = 0.0
        for q in np.argsort(-totals):
            if totals[q] <= high:
                break  # neither this class nor a later one exceeds the upper end
            ends = block_sensitivity(blocks[q])
            low, high = max(low, ends[0]), max(high, ends[1])
        rounding = float(spreads.sum(axis=(1, 2)).max()) / low if low > 0 else math.inf
        return bracket_of(math.sqrt(max(low, 0.0)), math.sqrt(high), rounding)

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form not in self.forms():
            return super().covered(participation, form, dtype)
        who = self.of_this_run(participation).worst
        numbers = (self.decays, self.outputs, self.inputs, self.scales, self.replays)
        *stored, again = (as_stored(values, dtype) for values in numbers)
        noise = TimeVaryingBuffers(*stored, replays=again, period=self.period)
        decays, outputs, inputs, columns = *stored[:3], 1 / stored[3]
        with ctx.workprec(128):
            if len(again):
                return noise, finite_or_inf((noise.bracket(who).upper + noise._added(who, dtype)) * at_the_ends())
            up = rounded_up(growth(2, dtype) * growth(1, "float64"))  # the second for the products in the next line
            raised = _bracket(decays * up, outputs, inputs * up, columns, who)
            return noise, finite_or_inf(raised.upper * growth(decays.size + 1, dtype) * at_the_ends())

    def _added(self, who: Order, dtype: Dtype) -> arb:
        """The sensitivity added by the rounding of a program with replays: (δ + εαγ) κ/(1 − κεα)."""
        terms = self.decays.size + len(self.replays)
        majorant, sizes = (_inverse(factors, self.period) for factors in (-np.abs(self.replays), self.replays))
        (r, n), k, b = self.replays.shape, sizes.shape[1], self.period
        sizes = np.abs(sizes) + (2 * r + 3) * k * UNIT_ROUNDOFF * majorant
        away = np.zeros((n, k))  # |M − 1|
        for e in range(1, r + 1):
            steps = np.arange(e * b, n)
            away[steps, steps // b - e] = np.abs(self.replays[e - 1, e * b :])
        alpha, kappa = (_class_norm(each, b) * _BOUND_FACTOR for each in (away, sizes))
        rate, epsilon = 2 * growth(1, dtype).log(), growth(terms, dtype) - 1
        added = arb(math.inf)
        for eta in (2.0**q / n for q in range(n.bit_length())):
            if eta >= rate:
                up = rounded_up(arb(eta).exp() * growth(1, "float64"))
                slower = _bracket(self.decays * up, self.outputs, self.inputs, 1 / self.scales, who).upper
                added = min(added, rate / eta * (arb(eta) * (terms + 3) / 2).exp() * slower, key=rounded_up)
        room = 1 - kappa * epsilon * alpha
        gamma = self.bracket(who).upper
        return kappa * (added + epsilon * alpha * gamma) / room * _BOUND_FACTOR if room > 0 else arb(math.inf)

    def errors(self, workload: Workload) -> Array:
        """Variances of unit noise under a workload, shape (rows,); O(n) for one that is a linear system."""
        found = workload.recursion() if isinstance(workload, Workload) else None
        if found is None:
            return super().errors(workload)
        self.length(found.steps)
        return self._errors(found.with_equal_weights())

    def squared_error(self, objective: Objective) -> float:
        self.length(objective.steps)
        system = objective.system
        if system is None:
            return super().squared_error(objective)
        if objective.aggregate == "max":
            return float(self._errors(system.with_equal_weights()).max())
        return math.fsum(self._errors(system))

    def _errors(self, system: Recursion) -> Array:
        numbers = (self.decays, self.outputs, self.inputs, self.replays, self.scales)
        return buffer_errors(numbers if len(self.replays) else (*numbers[:3], self.scales), self.period, system)[0]


def _checked_replays(replays: ArrayLike | None, period: int, steps: int) -> dict[str, Any]:
    """The arguments ``replays`` and ``period`` of a run."""
    if replays is None or np.size(replays) == 0:
        return {"replays": checks.frozen(np.zeros((0, steps))), "period": 1}
    factors = checks.reals("replays", replays, _REPLAY_INTERVAL, ndim=2)
    r, b = len(factors), checks.integer("period", period, 1)
    checks.shaped("replays", factors, (r, steps))
    if r * b >= steps:
        raise ValueError(f"replays must be fewer than steps/period = {steps / b:g}, got {r} of them")
    for e, row in enumerate(factors, 1):
        if row[: e * b].any():
            raise ValueError(
                f"replays must be 0 where no draw is {e * b} steps earlier, got {row[: e * b]} in row {e - 1}"
            )
    return {"replays": factors, "period": b}


def _inverse(replays: Array, period: int) -> Array:
    """M⁻¹, shape (n, k)."""
    n = replays.shape[1]
    inverse, gram = np.empty((2, n, -(-n // period)))
    replayed.inverses(*writable(replays), period, inverse, gram)
    return inverse


def _class_norm(sizes: Array, period: int) -> float:
    """A bound of the 2-norms of non-negative matrices of classes, shape (n, k): the root of those of rows and columns.

    A last epoch may be shorter.
    """
    n, k = sizes.shape
    whole = np.zeros((k * period, k))
    whole[:n] = sizes
    blocks = whole.reshape(k, period, k)
    return float(np.sqrt(blocks.sum(axis=2).max(axis=0) * blocks.sum(axis=0).max(axis=1)).max())


def class_grams(decays: Array, outputs: Array, inputs: Array, replays: Array, period: int) -> list[Array]:
    """M⁻¹, G, H and X of ``mechanisms.replays``, of shape (n, k), or (n, k, d) for H."""
    n, d = outputs.shape
    k = -(-n // period)
    fits_into_memory("replays", len(replays), 8 * n * k * (d + 3))
    inverse, gram, products = np.empty((3, n, k))
    responses = np.empty((n, k, d))
    decays, outputs, inputs, replays = writable(decays, outputs, inputs, replays)
    replayed.inverses(replays, period, inverse, gram)
    replayed.class_grams(decays, outputs, inputs, period, gram, responses, products)
    return [inverse, gram, responses, products]


def buffer_errors(
    numbers: Sequence[Array], period: int, system: Recursion, *, keeps: bool = False
) -> tuple[Array, Callable[[Array], list[Array]]]:
    """Σ_g w_tg E (v_g)_0² after each step, shape (n,), and from slopes the gradients of their sum.

    ``numbers`` are θ, o, i, with replays a, and δ.  The gradients, in the same order, need a call that ``keeps``.
    """
    if len(numbers) > _BUFFER_NUMBERS:
        return _replayed_errors(numbers, period, system, keeps=keeps)
    mine, errors = writable(*numbers), np.empty(system.steps)
    kept = time_varying_errors.covariances(system, mine, errors, keeps)
    return errors, lambda slopes: time_varying_errors.error_gradient(system, mine, slopes, kept)


def _replayed_errors(
    numbers: Sequence[Array], period: int, system: Recursion, *, keeps: bool
) -> tuple[Array, Callable[[Array], list[Array]]]:
    """The same with replays."""
    theta, outputs, inputs, again, scales = writable(*numbers)
    mine, (r, n) = (theta, outputs, inputs, scales), again.shape
    shared, errors, of_group = np.empty((r + 1, n)), np.zeros(n), np.empty(n)
    replayed.covariances_of_draws(again, period, shared)
    size = theta.size + system.input.shape[2]
    groups = []
    for g, weights in enumerate(system.weights.T):
        parts = tuple(writable(system.transition[:, g], system.input[:, g]))
        kept = np.empty((2, n if keeps else 1, size, size))
        found = (*kept, np.empty((r, n if keeps else period, size)))
        replayed.group_errors(*parts, mine, period, shared, *found, of_group)
        errors += weights * of_group
        groups.append((parts, found, weights))

    def gradient(slopes: Array) -> list[Array]:
        gradients, of_shared = [np.zeros_like(each) for each in (*mine, again)], np.zeros_like(shared)  # of δ, then a
        for parts, found, weights in groups:
            of_errors = slopes * weights
            replayed.group_gradient(*parts, mine, period, shared, found, of_errors, tuple(gradients[:4]), of_shared)
        replayed.draws_gradient(again, period, of_shared, gradients[4])
        return [*gradients[:3], gradients[4], gradients[3]]

    return errors, gradient


def _gains(decays: Array, outputs: Array, inputs: Array) -> tuple[Array, Array]:
    bases, slopes = np.empty(len(outputs)), np.empty(outputs.shape)
    decays, outputs, inputs = writable(decays, outputs, inputs)
    time_varying_gains.gains(decays, outputs, inputs, bases, slopes)
    return bases, slopes


def _bracket(decays: Array, outputs: Array, inputs: Array, columns: Array, who: Order) -> Sensitivity:
    """The sensitivity of non-negative buffers, by their gains (``time_varying_gains``), for a worst case."""
    n, d = outputs.shape
    rounding = (4 * n + 8 * d + 64) * UNIT_ROUNDOFF  # half of the rounding of the square, and of 1/scales
    with np.errstate(over="ignore", invalid="ignore"):
        bases, slopes = _gains(decays, outputs, inputs)
        period = n if who.once else who.period
        classes = np.empty(min(period, n))
        decays, inputs, columns = writable(decays, inputs, columns)
        fed = (decays, inputs, columns, bases, slopes)
        time_varying_gains.class_sums(*fed, period, np.empty((n, d)), classes)
        value = bound = float(classes.max())
        if not isinstance(who, FixedEpochs) and not who.once:
            if not who.saturated:  # classes hold more steps than the pattern may
                value = max(
                    time_varying_gains.pattern_sum(*fed, r + who.largest) for r in (0, n - 1 - int(who.largest[-1]))
                )
            if isinstance(who, Reshuffled):
                bound = time_varying_gains.reshuffled_bound(*fed, period, who.count)
            else:
                bound = time_varying_gains.min_sep_bound(*fed, period, who.count, who.saturated)
    found = bracket_of(math.sqrt(value), math.sqrt(bound), rounding)
    if found.exact or n > LARGEST_MATRIX:
        return found
    closest = reshuffled_sensitivity if isinstance(who, Reshuffled) else strategy_sensitivity
    dense = closest(_strategy(decays, outputs, inputs, columns), who, error=(2 * n + d + 4) * UNIT_ROUNDOFF)
    return dense if dense.upper < found.upper else found


def _strategy(decays: Array, outputs: Array, inputs: Array, columns: Array) -> Array:
    matrix = np.diag(columns)
    fed = np.zeros((decays.size, columns.size))  # the buffers, by the column of the strategy
    for t in range(columns.size):
        matrix[t, :t] = outputs[t] @ fed[:, :t]
        fed *= decays[:, np.newaxis]
        fed[:, t] = inputs[t] * columns[t]
    return matrix
