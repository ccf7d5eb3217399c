"""Time-varying buffers: noise of a finite run from few arrays, whose numbers depend on the step.

    y⁰_t = z_t − Σ_i o_ti s_i,    s_i ← θ_i s_i + i_ti y⁰_t,    y_t = d_t y⁰_t,

with the old buffers in the first equation.  The strategy is C = C⁰ diag(1/d), C⁰_tt = 1 and
C⁰_ts = Σ_i o_ti θ_i^{t−1−s} i_si for s < t.  A strategy has *order* d if no block of the rows from some step on and
the columns before it has a rank above d.  Every strategy of order d whose outputs and inputs can be chosen positive is
of this form, and constant decays lose nothing.  Buffers, with scales, unit columns or epoch weights, have constant
outputs and inputs.

C >= 0, so that gradients which are equal are the worst, and everything takes O(n d²): errors of workloads that are
linear systems, the sensitivity in fixed epochs, and bounds of it for other orders.

*Rounding.*  An entry of lag l passes at most 2l + d + 1 roundings, in whatever order a sum is added: the d terms that
are subtracted from z, two operations for an update, and the factor d_t.  So the program has at most the sensitivity of
decays θ (1 − u)⁻², inputs i (1 − u)⁻² and columns (1 − u)^{−(d+1)}.  Underflow is not covered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from flint import ctx

from corrnoise.theory.mechanisms import time_varying_errors, time_varying_gains
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.reshuffled import reshuffled_sensitivity
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, bracket_of, strategy_sensitivity
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
_NO_STATES = np.empty((0, 1, 1)), np.empty((0, 1, 1, 1))  # states of the gradient


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

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"time-varying buffers": DTYPES}

    decays: Array
    outputs: Array
    inputs: Array
    scales: Array

    def __init__(self, decays: ArrayLike, outputs: ArrayLike, inputs: ArrayLike, scales: ArrayLike) -> None:
        theta = checks.vector("decays", decays, "[0, 1]")
        factors = checks.reals("scales", scales, _SCALE_INTERVAL, ndim=1)
        shape = (factors.size, theta.size)
        self._set(
            decays=theta,
            outputs=checks.shaped("outputs", outputs, shape, _WEIGHT_INTERVAL),
            inputs=checks.shaped("inputs", inputs, shape, _WEIGHT_INTERVAL),
            scales=factors,
        )

    @property
    def steps(self) -> int:
        return int(self.scales.size)

    @property
    def step_scales(self) -> Array:
        """d_t, the factor of the finished noise of each step."""
        return self.scales

    def _leading(self, n: int) -> TimeVaryingBuffers:
        return TimeVaryingBuffers(self.decays, self.outputs[:n], self.inputs[:n], self.scales[:n])

    def memory(self, n: int | None = None) -> int:
        self.length(n)
        return int(self.decays.size)

    def noising(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        flat = np.array(z.reshape(self.steps, -1))
        time_varying_errors.noise(self.decays, self.outputs, self.inputs, self.scales, flat)
        return flat.reshape(z.shape)

    def strategy(self, n: int | None = None) -> Array:
        self.length(n)
        return _strategy(self.decays, self.outputs, self.inputs, 1 / self.scales)

    def strategy_error(self, n: int | None = None) -> float:
        return (2 * self.length(n) + self.decays.size + 4) * UNIT_ROUNDOFF

    def column_norms(self, n: int | None = None) -> Array:
        self.length(n)
        return np.asarray(np.sqrt(_gains(self.decays, self.outputs, self.inputs)[0]) / self.scales)

    def bracket(self, participation: Participation) -> Sensitivity:
        """The sensitivity: exact for one participation and in fixed epochs, otherwise between two bounds; O(n d² k).

        Up to 4096 steps other orders have the closer of these bounds and those of any strategy, in O(n³).
        """
        who = self.of_this_run(participation).worst
        return _bracket(self.decays, self.outputs, self.inputs, 1 / self.scales, who)

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form != "time-varying buffers":
            return super().covered(participation, form, dtype)
        participation = self.of_this_run(participation).worst
        stored = TimeVaryingBuffers(*(as_stored(values, dtype) for values in self.arguments().values()))
        with ctx.workprec(128):
            up = rounded_up(growth(2, dtype) * growth(1, "float64"))  # the second for the products in the next line
            raised = _bracket(stored.decays * up, stored.outputs, stored.inputs * up, 1 / stored.scales, participation)
            return stored, finite_or_inf(raised.upper * growth(self.decays.size + 1, dtype) * at_the_ends())

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
        errors = np.empty(self.steps)
        decays, outputs, inputs, scales = writable(self.decays, self.outputs, self.inputs, self.scales)
        time_varying_errors.covariances(*system.parts, decays, outputs, inputs, scales, errors, *_NO_STATES)
        return errors


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
