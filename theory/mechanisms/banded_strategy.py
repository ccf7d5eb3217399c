"""Noise whose strategy matrix has finitely many bands: B = 1/C with a polynomial C.

    y_t = (z_t − Σ_{k=1}^{p−1} c_k y_{t−k})/c_0,

an autoregressive process: a stream keeps the last p − 1 vectors of noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise, averages_by, leading
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF, Dtype
from corrnoise.theory.participation import Order


@record
class BandedStrategyNoise(ToeplitzNoise):
    """Noise with a banded Toeplitz strategy, B(z) = 1/C(z).

    Sensitivities are as exact as norms of the given coefficients.  Coefficients take O(T log T); the power spectrum and
    the averaged variance are those of 1/C.  If C has a zero in |z| <= 1, the noise grows without limit and the averaged
    variance is ``inf``.

    Parameters
    ----------
    strategy_coefficients : array_like
        c_0, …, c_{p−1}, shape (p,), c_0 != 0; zero afterwards.
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"substitution": ("float64",), **ToeplitzNoise.FORMS}

    values: Array

    def __init__(self, strategy_coefficients: ArrayLike) -> None:
        self._set(values=leading("strategy_coefficients", strategy_coefficients))

    def arguments(self) -> dict[str, Any]:
        return {"strategy_coefficients": self.values}

    @property
    def inverse(self) -> FiniteNoise:
        """The noise with the coefficients of C, the inverse of this one."""
        return FiniteNoise(self.values)

    def coefficients(self, steps: int) -> Array:
        return self.inverse.inverse_coefficients(steps)

    def memory(self, n: int | None = None) -> int:
        return min(self.values.size, self.length(n)) - 1

    def diagonals(self, n: int) -> Array:
        """The diagonals of the strategy of n steps: entry (i, t) is C_{t+i, t}, 0 outside the matrix.

        Parameters
        ----------
        n : int
            At least 1.

        Returns
        -------
        array of shape (p, n)
        """
        bands = self.values[:n, np.newaxis]
        inside = np.add.outer(np.arange(bands.shape[0]), np.arange(n)) < n
        return np.where(inside, bands, 0.0)

    def forms(self) -> tuple[Form, ...]:
        return ("substitution",)

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form != "substitution":
            return super().covered(participation, form, dtype)
        return BandedNoise(self.diagonals(participation.length)).covered(participation, form, dtype)

    def _inverse(self, steps: int) -> tuple[Array, float]:
        return self.inverse.coefficients(steps), 0.0

    def _power(self, cosine: Array, sine: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / self.inverse._power(cosine, sine))

    def averaged_variance(self, rates: ArrayLike) -> Array:
        from corrnoise.theory.numerics import double_double_series

        return averages_by(double_double_series.autoregressive_averages, self.values, rates)

    def _limiting(self) -> tuple[float, float]:
        largest = float(np.abs(self.values).max())
        return largest * math.sqrt(math.fsum(np.square(self.values / largest))), 8 * UNIT_ROUNDOFF
