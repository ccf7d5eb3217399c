"""Correlated noise: infinite lower-triangular Toeplitz noise coefficient matrices.

A run adds w̃_t = Σ_τ β_τ w_{t−τ} to its gradients, with independent Gaussian w.  The coefficients β are the first column
of the noise coefficient matrix (the noising matrix C⁻¹ of the literature; its inverse is the strategy matrix C).
With B(z) = Σ β_t zᵗ three things decide how good they are:

* the power spectrum |B(ω)|², ω the frequency in radians a step;
* the sensitivity γ_T = ‖first T coefficients of 1/B‖₂, which sets how much noise privacy takes;
* the averaged variance b(x) = Σ β_t β_τ (1 − x)^{|t−τ|}, the variance of the noise seen through an exponential average
  of rate x = ηλ: all that a quadratic problem ever sees of it.

Source: Choquette-Choo et al., arXiv 2310.06771: Theorem 1.1, equation (5), Property C.1, Lemma C.4, Table 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.reshuffled import any_toeplitz_sensitivity
from corrnoise.theory.mechanisms.rounding import convolution_sensitivity, recurrence_sensitivity
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, norm
from corrnoise.theory.numerics import checks, power_series
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.rounding import DTYPES, UNIT_ROUNDOFF, Dtype, as_stored
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.objectives.workloads import Workload
from corrnoise.theory.participation import Order, Participation

RATES = "[1e-300, 2)"  #: of exponential averages


def checked_noise(noise: object) -> ToeplitzNoise:
    """Return ``noise``; raise ``TypeError`` unless it is a ``ToeplitzNoise``."""
    if not isinstance(noise, ToeplitzNoise):
        raise TypeError(f"noise must be correlated noise such as NuFTRL(0.01), got {noise!r}")
    return noise


def _noising_bound(coefficients: Array, participation: Order) -> float:
    """An upper bound of the sensitivity of the noise with these coefficients and zeros after them."""
    series, error = power_series.reciprocal(coefficients, participation.length)
    if not (math.isfinite(error) and np.isfinite(series).all()):
        return math.inf
    return any_toeplitz_sensitivity(series, participation, error=error).upper


def lower_toeplitz(column: Array) -> Array:
    """The lower-triangular Toeplitz matrix with this first column."""
    from scipy.linalg import toeplitz as toeplitz_matrix

    return np.asarray(toeplitz_matrix(column, np.zeros(column.size)))


class ToeplitzNoise(Mechanism, ABC):
    """Correlated noise with coefficients β_0, β_1, …, the same at every step: an endless mechanism.

    A concrete kind gives its coefficients, the coefficients of its inverse, |B|² and the limiting sensitivity; the
    rest follows.  All arrays are float64.
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {
        "transform": ("float64",),
        "strategy column": DTYPES,
        "noising column": DTYPES,
    }

    @property
    def steps(self) -> None:
        return None

    def forms(self) -> tuple[Form, ...]:
        return ()

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        n = participation.length
        exact = self.bracket(participation).upper
        beta = self.coefficients(n)
        if form == "transform":
            once = self.bracket(Participation.single(n)).upper
            column = np.trim_zeros(beta, "b")
            return self, convolution_sensitivity(column, once, exact, participation, dtype, by="transforms")
        # A column stands for the noise, whichever of the two is run.
        strategy = self.inverse_coefficients(n)
        exact = max(exact, any_toeplitz_sensitivity(strategy, participation).upper, _noising_bound(beta, participation))
        if form == "strategy column":
            return self, max(exact, recurrence_sensitivity(strategy, dtype, participation))
        if form != "noising column":
            return super().covered(participation, form, dtype)
        stored = np.trim_zeros(as_stored(beta, dtype), "b")
        if not np.isfinite(stored).all() or stored.size == 0 or stored[0] == 0:
            return self, math.inf
        once = _noising_bound(stored, Participation.single(n))
        run = convolution_sensitivity(stored, once, _noising_bound(stored, participation), participation, dtype)
        return self, max(exact, run)

    @abstractmethod
    def coefficients(self, steps: int) -> Array:
        """Noise coefficients β_0, …, β_{steps−1}, shape (steps,), steps >= 1.

        Parameters
        ----------
        steps : int
            Number of coefficients, >= 1.

        Returns
        -------
        array of float
        """

    @abstractmethod
    def _inverse(self, steps: int) -> tuple[Array, float]:
        """The first ``steps`` coefficients of 1/B, and a bound of their relative error in the 2-norm."""

    @abstractmethod
    def _power(self, cosine: Array, sine: Array) -> Array:
        """|B|² at cosine = |cos(ω/2)|, sine = |sin(ω/2)|."""

    @abstractmethod
    def _limiting(self) -> tuple[float, float]:
        """γ_∞, and a bound of its relative error."""

    @abstractmethod
    def averaged_variance(self, rates: ArrayLike) -> Array:
        """b(x) = Σ β_t β_τ (1 − x)^{|t−τ|}, the variance of the noise in an exponential average of rate x.

        The ``rates`` x = ηλ, 1e-300 <= x < 2, have any shape, and b has the same; 1 for independent noise.  By Lemma
        C.4 of arXiv 2310.06771, made exact, it is (x (2 − x)/2π) ∫ |B(ω)|² / |1 − x − e^{iω}|² dω.

        Parameters
        ----------
        rates : array_like
            x = ηλ in [1e-300, 2), of any shape.

        Returns
        -------
        array of float
        """

    def power_spectrum(self, frequencies: ArrayLike) -> Array:
        """|B(ω)|² at ``frequencies`` ω in radians a step, any real numbers, of any shape; same shape.

        Parameters
        ----------
        frequencies : array_like
            ω in radians a step, any real numbers, of any shape.

        Returns
        -------
        array of float
        """
        half = checks.reals("frequencies", frequencies) / 2
        return self._power(np.abs(np.cos(half)), np.abs(np.sin(half)))

    def inverse_coefficients(self, steps: int) -> Array:
        """First ``steps`` >= 1 coefficients of 1/B, the first column of the inverse matrix, shape (steps,).

        Parameters
        ----------
        steps : int
            Number of coefficients, >= 1.

        Returns
        -------
        array of float

        Raises
        ------
        OverflowError
            If they exceed the range of floats, which happens only to noise that is not minimum phase.
        """
        series, _ = self._inverse(checks.integer("steps", steps, 1))
        if not np.isfinite(series).all():
            first = int(np.argmin(np.isfinite(series)))
            raise OverflowError(f"the inverse coefficients of {self!r} exceed the range of floats from step {first} on")
        return series

    def limiting_sensitivity(self) -> float:
        """γ_∞ = lim γ_T; ``inf`` where it diverges.

        Equation (5) and Property C.1 of arXiv 2310.06771 print γ_∞² = (1/2π) ∫ dω/|B(ω)|² for every square-summable β.
        That holds for minimum-phase noise only: (1, −2) has γ_T² = (4^T − 1)/3, where the integral says 1/3.

        Returns
        -------
        float
        """
        return self._limiting()[0]

    def inverse_with_error(self, steps: int) -> tuple[Array, float]:
        """The same, also where they are ``inf``, and a bound of the 2-norm of their error relative to theirs.

        Parameters
        ----------
        steps : int
            Number of coefficients, >= 1.

        Returns
        -------
        (array of float, float)
        """
        return self._inverse(checks.integer("steps", steps, 1))

    # -- the mechanism -------------------------------------------------------------------------------------------------

    @property
    def anytime(self) -> bool:
        return math.isfinite(self.limiting_sensitivity())

    def memory(self, n: int | None = None) -> int:
        return self.length(n) - 1

    def noising(self, draws: ArrayLike) -> Array:
        from scipy.signal import oaconvolve

        z = self._rows(draws)
        beta = self.coefficients(z.shape[0]).reshape(-1, *[1] * (z.ndim - 1))
        return np.asarray(oaconvolve(z, beta, axes=0)[: z.shape[0]])

    def noising_matrix(self, n: int | None = None) -> Array:
        return lower_toeplitz(self.coefficients(self.length(n)))

    def strategy(self, n: int | None = None) -> Array:
        return lower_toeplitz(self.inverse_coefficients(self.length(n)))

    def bands(self, n: int | None = None) -> int:
        return max(int(np.flatnonzero(self.inverse_coefficients(self.length(n)))[-1]) + 1, 1)

    def column_norms(self, n: int | None = None) -> Array:
        return np.sqrt(np.cumsum(np.square(self.inverse_coefficients(self.length(n)))))[::-1]

    def strategy_error(self, n: int | None = None) -> float:
        # An error of the coefficients counts most in the last column, which has the first of them alone.
        series, error = self._inverse(self.length(n))
        return error * float(np.linalg.norm(series)) / abs(float(series[0])) + 2 * UNIT_ROUNDOFF

    def bracket(self, participation: Participation) -> Sensitivity:
        """The sensitivity for zero-out adjacency, or two bounds of it, for one example.

        For one participation it is the largest column norm of the strategy (Theorem 1.1 of arXiv 2310.06771), γ_∞ in a
        run of any length; otherwise see ``toeplitz_sensitivity``.
        """
        who = self.of_this_run(participation).worst
        if who.steps is None:
            gamma, error = self._limiting()
            return Sensitivity(value=gamma, upper=gamma * (1 + (error + 2 * UNIT_ROUNDOFF)), rounding=error, exact=True)
        series, error = self._inverse(who.steps)
        if not (math.isfinite(error) and np.isfinite(series).all()):
            return Sensitivity(value=norm(series), upper=math.inf, rounding=error, exact=who.once)
        return any_toeplitz_sensitivity(series, who, error=error)

    def _leading(self, n: int) -> ToeplitzNoise:
        return self

    def squared_error(self, objective: Objective) -> float:
        return objective.power(self.coefficients(objective.steps))[0]

    def errors(self, workload: Workload) -> Array:
        """Variances of unit noise under a workload, shape (rows,).

        O(n) for Toeplitz workloads with a banded inverse, such as prefix sums and momentum; otherwise O(n²).
        """
        from corrnoise.theory.numerics import double_double_series

        if checks.instance("workload", workload, Workload).column() is None:
            return super().errors(workload)
        beta = self.coefficients(workload.steps)
        if workload.precise:
            column = np.empty(workload.steps)
            double_double_series.running_sums(beta, column)
        else:
            column = workload.apply(beta)
        return np.asarray(np.cumsum(np.square(column)))
