"""Toeplitz noise with a factor for each step, for each draw, or for both: N = diag(d) T(β) diag(g).

The factors cost nothing in a run.  With d_t = ‖c_0, …, c_{n−1−t}‖ all columns of the strategy have the norm 1
(``ScaledNoise.normalised``); for the square root 1/sqrt(1 − z) this is the normalised square root of arXiv 2509.14334.
Draws that grow, g_t = t^{e/2}, are the noise of a machine in federated learning that cancels its own noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.program import HANDED_OVER, Form
from corrnoise.theory.mechanisms.rounding import scaled_sensitivity
from corrnoise.theory.mechanisms.sensitivity import MOST_PRODUCTS, Sensitivity, fixed_epochs_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise, lower_toeplitz
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import DTYPES, UNIT_ROUNDOFF, Dtype, as_stored
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.objectives.workloads import Workload
from corrnoise.theory.participation import FixedEpochs, Order, Participation

_SCALE_INTERVAL = "[1e-100, 1e100]"


@record
class ScaledNoise(Mechanism):
    """Toeplitz noise times a factor for each step, of draws times a factor each: the strategy diag(1/g) T(c) diag(1/d).

    Parameters
    ----------
    noise : ToeplitzNoise
        Any Toeplitz noise.
    step_scales : array_like, optional
        d_t > 0, shape (steps,); None for 1 in every step.
    draw_scales : array_like, optional
        g_t > 0, shape (steps,); None for 1 in every step.  One of the two must be given.

    Examples
    --------
    >>> import corrnoise as cn
    >>> run = cn.mechanisms.ScaledNoise.normalised(cn.mechanisms.NuFTRL(0.0), cn.Participation.single(64))
    >>> round(run.mean_error(cn.Participation.single(64)), 6)
    2.127702
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {
        "cascade": ("float64",),
        "delay line": ("float64",),
        "substitution": ("float64",),
        "transform": ("float64",),
        "buffers": DTYPES,
        "strategy column": DTYPES,
        "noising column": DTYPES,
    }

    noise: ToeplitzNoise
    step_scales: Array | None
    draw_scales: Array | None

    def __init__(
        self, noise: ToeplitzNoise, step_scales: ArrayLike | None = None, draw_scales: ArrayLike | None = None
    ) -> None:
        steps = None if step_scales is None else checks.reals("step_scales", step_scales, _SCALE_INTERVAL, ndim=1)
        draws = None if draw_scales is None else checks.reals("draw_scales", draw_scales, _SCALE_INTERVAL, ndim=1)
        if steps is None and draws is None:
            raise ValueError("step_scales or draw_scales must be given, got None for both")
        if steps is not None and draws is not None:
            checks.same_length("step_scales", steps, "draw_scales", draws)
        self._set(noise=checked_noise(noise), step_scales=steps, draw_scales=draws)

    @classmethod
    def normalised(
        cls, noise: ToeplitzNoise, participation: Participation, weights: ArrayLike | None = None
    ) -> ScaledNoise:
        """Toeplitz noise with step scales that give the columns of its strategy the norm 1, or a share of each epoch.

        Parameters
        ----------
        participation : Participation
            The run: its ``steps``, and its ``period``, the number of steps of an epoch.
        weights : array_like, optional
            p_e > 0, Σ p_e = 1, one for each of the ceil(n/b) epochs: the squared norm of its columns.  With
            at most b bands the sensitivity is at most 1, with equality in epochs of equal length, for any number of
            participations b apart.  None for columns of norm 1.
        noise : ToeplitzNoise
            The noise whose steps are scaled.

        Returns
        -------
        ScaledNoise

        Examples
        --------
        >>> import corrnoise as cn
        >>> epochs = cn.Participation.fixed_epochs(4, epochs=2)
        >>> run = cn.mechanisms.ScaledNoise.normalised(cn.mechanisms.FiniteNoise([1.0]), epochs, [0.25, 0.75])
        >>> run.step_scales
        array([2.        , 2.        , 1.15470054, 1.15470054])
        >>> round(run.sensitivity(epochs), 9)
        1.0
        """
        n = checks.instance("participation", participation, Participation).length
        norms = checked_noise(noise).column_norms(n)
        if weights is None:
            return cls(noise, norms)
        epoch = np.arange(n) // participation.worst.period
        shares = checks.shaped("weights", weights, (int(epoch[-1]) + 1,), "(0, 1]")
        if abs(float(shares.sum()) - 1) > 1e-9:
            raise ValueError(f"weights must have the sum 1, got {float(shares.sum())!r}")
        return cls(noise, norms / np.sqrt(shares[epoch]))

    @property
    def steps(self) -> int:
        given = self.draw_scales if self.step_scales is None else self.step_scales
        assert given is not None
        return int(given.size)

    def _leading(self, n: int) -> ScaledNoise:
        steps, draws = (None if each is None else each[:n] for each in (self.step_scales, self.draw_scales))
        return ScaledNoise(self.noise, steps, draws)

    def memory(self, n: int | None = None) -> int:
        return self.noise.memory(self.length(n))

    def bands(self, n: int | None = None) -> int:
        return self.noise.bands(self.length(n))

    def noising(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        column = (self.steps, *[1] * (z.ndim - 1))
        scaled = z if self.draw_scales is None else self.draw_scales.reshape(column) * z
        plain = self.noise.noising(scaled)
        return plain if self.step_scales is None else np.asarray(self.step_scales.reshape(column) * plain)

    def noising_matrix(self, n: int | None = None) -> Array:
        matrix = lower_toeplitz(self.noise.coefficients(self.length(n)))
        if self.draw_scales is not None:
            matrix = matrix * self.draw_scales
        return matrix if self.step_scales is None else self.step_scales[:, np.newaxis] * matrix

    def strategy(self, n: int | None = None) -> Array:
        matrix = self.noise.strategy(self.length(n))
        if self.draw_scales is not None:
            matrix = matrix / self.draw_scales[:, np.newaxis]
        return matrix if self.step_scales is None else matrix / self.step_scales

    def column_norms(self, n: int | None = None) -> Array:
        length = self.length(n)
        if self.draw_scales is None:
            norms = self.noise.column_norms(length)
        else:
            squares = np.square(self.noise.inverse_coefficients(length))
            norms = np.sqrt(_convolution(squares, self.draw_scales[::-1] ** -2.0)[::-1])
        return norms if self.step_scales is None else norms / self.step_scales

    def squared_error(self, objective: Objective) -> float:
        if self.draw_scales is not None or self.step_scales is None:
            return super().squared_error(objective)
        n = self.length(objective.steps)
        return objective.scaled_power(self.noise.coefficients(n), self.step_scales)

    def errors(self, workload: Workload) -> Array:
        """Variances of unit noise under a workload; without a matrix for Toeplitz workloads of scaled draws."""
        first = checks.instance("workload", workload, Workload).column()
        if first is None or self.draw_scales is None or self.step_scales is not None:
            return super().errors(workload)
        column = workload.apply(self.noise.coefficients(self.length(workload.steps)))
        return _convolution(np.square(column), self.draw_scales**2)

    def strategy_error(self, n: int | None = None) -> float:
        error = self.noise.strategy_error(self.length(n))
        if self.draw_scales is None:
            return error
        # Entries of a column are divided by factors that differ by max g/min g at most.
        return error * float(self.draw_scales.max() / self.draw_scales.min()) + self.steps * UNIT_ROUNDOFF

    def bracket(self, participation: Participation) -> Sensitivity:
        """The base's bracket; fixed epochs take O(n k) without ``draw_scales``."""
        who = self.of_this_run(participation).worst
        if not isinstance(who, FixedEpochs) or who.once or self.draw_scales is not None:
            return super().bracket(who)
        series, error = self.noise.inverse_with_error(self.steps)
        if not np.isfinite(series).all() or self.steps * who.count > MOST_PRODUCTS:
            return super().bracket(who)
        return fixed_epochs_sensitivity(series, who, error=error, step_scales=self.step_scales)

    def forms(self) -> tuple[Form, ...]:
        return self.noise.forms()

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form == "substitution" and isinstance(self.noise, BandedStrategyNoise):
            return self._banded().covered(participation, form, dtype)
        once = Participation.single(self.steps)
        stored, program = self.noise.covered(once, form, dtype)
        if form in HANDED_OVER:
            program *= 1 + 1e-12  # of computed coefficients, which have errors of about 1e-14
        if form == "strategy column":
            stored = BandedStrategyNoise(as_stored(self.noise.inverse_coefficients(self.steps), dtype))
        elif form == "noising column":
            stored = FiniteNoise(as_stored(self.noise.coefficients(self.steps), dtype))
        assert isinstance(stored, ToeplitzNoise)
        steps = None if self.step_scales is None else as_stored(self.step_scales, dtype)
        draws = None if self.draw_scales is None else as_stored(self.draw_scales, dtype)
        run = ScaledNoise(stored, steps, draws)
        return run, scaled_sensitivity(
            run.bracket(participation).upper,
            participation,
            program=program,
            plain=stored.bracket(once).lower,
            additive=form in ("cascade", "buffers", "strategy column"),
            step_scales=steps,
            draw_scales=draws,
            dtype=dtype,
        )

    def _banded(self) -> BandedNoise:
        """The same for noise with a banded strategy."""
        assert isinstance(self.noise, BandedStrategyNoise)
        diagonals = self.noise.diagonals(self.steps)
        if self.draw_scales is not None:
            rows = np.minimum(np.add.outer(np.arange(diagonals.shape[0]), np.arange(self.steps)), self.steps - 1)
            diagonals = diagonals / self.draw_scales[rows]
        return BandedNoise(diagonals if self.step_scales is None else diagonals / self.step_scales)


def _convolution(first: Array, second: Array) -> Array:
    """The first n entries of the convolution of two vectors of n non-negative numbers, to a relative error of n u.

    The end of ``first`` that is constant is added up at once; for noise that takes back a share this is all of it.
    """
    n, end = first.size, first[-1]
    varied = np.flatnonzero(first != end)
    head = int(varied[-1]) + 1 if varied.size else 0
    total = np.convolve(first[:head], second)[:n] if head else np.zeros(n)
    total[head:] += end * np.cumsum(second)[: n - head]
    return total
