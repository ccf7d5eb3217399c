"""Noise with finitely many coefficients, of any phase: the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.rounding import convolution_sensitivity
from corrnoise.theory.mechanisms.toeplitz import RATES, ToeplitzNoise
from corrnoise.theory.numerics import checks, power_series
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import DTYPES, UNIT_ROUNDOFF, Dtype, as_stored
from corrnoise.theory.participation import Order, Participation


def leading(name: str, values: ArrayLike) -> Array:
    """Coefficients with a first one that is not 0, as a read-only array without zeros at its end."""
    given = checks.reals(name, values, ndim=1)
    if given[0] == 0:
        raise ValueError(f"{name}[0] must not be 0, got {given[0]!r}")
    return checks.frozen(np.trim_zeros(given, "b") + 0.0)  # −0 is 0


def averages_by(sums: Callable[[Array, Array, Array], object], values: Array, rates: ArrayLike) -> Array:
    """Averaged variances, in the shape of ``rates``, by a compiled function of coefficients, rates and the result."""
    x = checks.reals("rates", rates, RATES)
    variances = np.empty(x.size)
    sums(values, np.ravel(x), variances)
    return variances.reshape(x.shape)


@record
class FiniteNoise(ToeplitzNoise):
    """Finitely many coefficients of the user's own, of any phase.

    The inverse takes O(T log T), the limiting sensitivity O(n²).  Accuracy is relative to the coefficients as given:
    the inverse of noise with zeros close to the unit circle is as ill-conditioned as it is, and numbers that a release
    depends on (``program``, ``sensitivity_upper_bound``) carry a bound of the error.

    Parameters
    ----------
    coefficients : array_like
        β_0, …, β_n, shape (n + 1,), β_0 != 0; zero afterwards.  (Usually β_0 = 1.).

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.mechanisms.FiniteNoise([1.0, -0.5])
    >>> noise.coefficients(4)
    array([ 1. , -0.5,  0. ,  0. ])
    >>> noise.inverse_coefficients(4)
    array([1.   , 0.5  , 0.25 , 0.125])
    >>> round(noise.limiting_sensitivity(), 4)
    1.1547
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"delay line": DTYPES, **ToeplitzNoise.FORMS}

    values: Array

    def __init__(self, coefficients: ArrayLike) -> None:
        self._set(values=leading("coefficients", coefficients))

    def arguments(self) -> dict[str, Any]:
        return {"coefficients": self.values}

    def coefficients(self, steps: int) -> Array:
        padded = np.zeros(checks.integer("steps", steps, 1))
        shown = self.values[: padded.size]
        padded[: shown.size] = shown
        return padded

    def memory(self, n: int | None = None) -> int:
        return min(self.values.size, self.length(n)) - 1

    def forms(self) -> tuple[Form, ...]:
        return ("delay line",)

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form != "delay line":
            return super().covered(participation, form, dtype)
        stored = FiniteNoise(as_stored(self.values, dtype))
        shown = stored.values if participation.steps is None else stored.values[: participation.steps]
        once = stored.bracket(Participation.single(participation.steps)).upper
        exact = stored.bracket(participation).upper
        return stored, convolution_sensitivity(shown, once, exact, participation, dtype)

    def _inverse(self, steps: int) -> tuple[Array, float]:
        scale = 2.0 ** -np.frexp(self.values[0])[1]  # keeps squares within the range of floats, and is exact
        series, error = power_series.reciprocal(self.values * scale, steps)
        return series * scale, error

    def _power(self, cosine: Array, sine: Array) -> Array:
        from corrnoise.theory.numerics import double_double_series

        # B(z) = (1 − z) Σ p_t zᵗ + p_n zⁿ with the partial sums p_t: accurate also where the noise has its zero, ω → 0.
        z = (np.asarray(cosine) + 1j * np.asarray(sine)) ** 2
        partial = np.empty(self.values.size)
        double_double_series.running_sums(self.values, partial)
        inner = np.zeros(np.shape(z), dtype=complex)
        for p in partial[-2::-1]:
            inner = inner * z + p
        value = -2j * np.asarray(sine) * (np.asarray(cosine) + 1j * np.asarray(sine)) * inner
        value = value + partial[-1] * z ** (self.values.size - 1)
        return np.asarray(value.real**2 + value.imag**2)

    def averaged_variance(self, rates: ArrayLike) -> Array:
        from corrnoise.theory.numerics import double_double_series

        return averages_by(double_double_series.averaged_variances, self.values, rates)

    def _limiting(self) -> tuple[float, float]:
        from corrnoise.theory.numerics import double_double_series

        square = double_double_series.step_down(self.values)
        # A change of the coefficients by δ moves γ_∞ by at most max |1/B| ‖δ‖₁, relatively, and max |1/B| is at most
        # π n ‖β‖₁ γ_∞², because |B| has the slope n ‖β‖₁ at most.
        size = float(np.abs(self.values).sum())
        error = 2.0**-102 * math.pi * self.values.size * size**2 * square
        return (math.sqrt(square), error + 8 * UNIT_ROUNDOFF) if error < 0.5 else (math.inf, 0.0)
