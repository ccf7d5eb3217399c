"""Noise whose transfer function is a product of powers: nearly every correlated noise of the literature.

    B(z) = Π_k (1 − (1 − a_k) z)^{e_k}

Independent noise has no factor, anti-PGD one with e = 1, ν-DP-FTRL one with e = ½, and the optimum for linear
regression e = ½ at the modes and −½ at zeros between them.  The inverse is the product with the exponents −e_k, and
with the gaps a_k carried (never 1 − a_k) nothing cancels.

Source: Choquette-Choo et al., arXiv 2310.06771: equation (7), Lemma C.4, Table 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.rounding import section_sensitivity
from corrnoise.theory.mechanisms.toeplitz import RATES, ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.quadrature import averages, circle_mean, modulus
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import DTYPES, UNIT_ROUNDOFF, Dtype, as_stored
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import Order

_SMALLEST_GAP = 1e-300  # smaller ones are too close to 0 for products with others


def _checked_gap(name: str, value: float) -> float:
    """Return ``value`` as the gap of the one factor of a noise."""
    gap = checks.real(name, value, "[0, 2)")
    if 0 < gap < _SMALLEST_GAP:
        raise ValueError(f"{name} must be 0 or at least {_SMALLEST_GAP}, got {gap!r}")
    return gap


@record
class ProductNoise(ToeplitzNoise):
    """B(z) = Π (1 − (1 − a_k) z)^{e_k}, minimum phase by construction.

    Factors with equal gaps are merged, trivial ones (a = 1 or e = 0) dropped, and the rest kept in the order of their
    gaps, so that equal noise compares equal.

    Coefficients and inverse coefficients have a relative error below 4e-16 while above 1e-290 in modulus; of several
    factors, 4e-16 and 1e-31 of the largest coefficient before.  Averaged variance and limiting sensitivity: 1e-14
    (1 + Σ |e_k|), for gaps and rates above 1e-60; ``ArithmeticError`` where an integral leaves the range of floats.

    Parameters
    ----------
    gaps : array_like
        a_k, shape (K,), 0 <= a_k <= 2: the factor's zero lies at z = 1/(1 − a_k).  A gap of 0 (2) is a zero at
        frequency 0 (π).  Positive gaps below 1e-300 are refused.
    exponents : array_like
        e_k, shape (K,).

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.mechanisms.ProductNoise([0.01, 0.1], [0.5, -0.5])
    >>> noise.coefficients(4)
    array([ 1.        , -0.045     , -0.0415125 , -0.03831806])
    >>> noise.power_spectrum([0.0, 0.1]).round(4)
    array([0.1   , 0.7253])
    >>> cn.mechanisms.ProductNoise([0.01, 1.0], [0.5, 3.0])  # a gap of 1 is trivial
    ProductNoise(gaps=[0.01], exponents=[0.5])
    """

    gaps: Array
    exponents: Array

    def __init__(self, gaps: ArrayLike, exponents: ArrayLike) -> None:
        a, e = checks.vector("gaps", gaps, "[0, 2]"), checks.vector("exponents", exponents)
        checks.same_length("gaps", a, "exponents", e)
        if (small := (a > 0) & (a < _SMALLEST_GAP)).any():
            raise ValueError(f"gaps must be 0 or at least {_SMALLEST_GAP}, got {float(a[small][0])!r}")
        a, place = np.unique(np.abs(a), return_inverse=True)  # −0 is 0
        e = np.bincount(place.ravel(), weights=e, minlength=a.size).astype(np.float64)
        kept = (e != 0) & (a != 1)
        self._set(gaps=checks.frozen(a[kept]), exponents=checks.frozen(e[kept]))

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"cascade": DTYPES, **ToeplitzNoise.FORMS}

    # -- rational noise ------------------------------------------------------------------------------------------------

    @property
    def rational(self) -> bool:
        """Whether all exponents are integers and all poles lie outside of the circle: sections can run the noise."""
        stable = (self.exponents > 0) | ((self.gaps > 0) & (self.gaps < 2))
        return bool((self.exponents == np.round(self.exponents)).all() and stable.all())

    @property
    def poles(self) -> Array:
        """Gaps of the poles of rational noise, those at gap 1 left out, ascending."""
        return np.repeat(self.gaps, np.maximum(-self.exponents, 0).astype(int))

    @property
    def zeros(self) -> Array:
        """Gaps of the zeros of rational noise, ascending."""
        return np.repeat(self.gaps, np.maximum(self.exponents, 0).astype(int))

    def sections(self) -> tuple[Array, Array]:
        """The sections' zeros and poles as gaps, each shape (P,), P = max(number of zeros, number of poles).

        A section turns its input x into y = x + (a − q) u and its state u into u + (x − q u): the gaps a and q of its
        zero and its pole are all it needs, and no 1 − q is ever rounded.

        Returns
        -------
        two arrays of float
        """
        if not self.rational:
            raise ValueError(f"noise must be rational, with integer exponents and stable poles, got {self!r}")
        a = self.zeros
        q = self.poles
        count = max(a.size, q.size)
        return np.concatenate([a, np.ones(count - a.size)]), np.concatenate([q, np.ones(count - q.size)])

    def forms(self) -> tuple[Form, ...]:
        return ("cascade",) if self.rational else ()

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form != "cascade":
            return super().covered(participation, form, dtype)
        zeros, poles = (as_stored(gaps, dtype) for gaps in self.sections())
        stored = ProductNoise(np.concatenate([zeros, poles]), np.repeat([1.0, -1.0], zeros.size))
        if not stored.rational:
            raise ValueError(f"dtype must hold the gaps of the poles, got {dtype!r} for {self!r:.80}")
        exact = stored.bracket(participation).upper
        return stored, section_sensitivity(*stored.sections(), exact, participation, dtype)

    def memory(self, n: int | None = None) -> int:
        return self.sections()[0].size if self.rational else super().memory(n)

    # -- coefficients and averages -------------------------------------------------------------------------------------

    def coefficients(self, steps: int) -> Array:
        return self._series(self.exponents, checks.integer("steps", steps, 1))

    def _series(self, exponents: Array, steps: int) -> Array:
        series = np.eye(1, steps)[0]
        if self.gaps.size == 0:
            return series
        from corrnoise.theory.numerics import double_double_series  # compiled

        double_double_series.product_series(self.gaps, exponents, series)
        finite = np.isfinite(series)
        if not finite.all():
            series[np.argmin(finite) :] = math.inf
        return series

    def _inverse(self, steps: int) -> tuple[Array, float]:
        return self._series(-self.exponents, steps), 4 * UNIT_ROUNDOFF

    def _power(self, cosine: Array, sine: Array) -> Array:
        power = np.ones(np.shape(cosine))
        for a, e in zip(self.gaps, self.exponents, strict=True):
            with np.errstate(divide="ignore"):  # a pole on the circle
                power *= modulus(a, cosine, sine) ** (2 * e)
        return power

    def _mean(self, exponent: int, rates: Array | None = None) -> Any:
        """(1/2π) ∫ |B|^{2 × exponent} dω, or b(x) of that spectrum, for each of ``rates``."""
        features = self.gaps if rates is None else np.concatenate([self.gaps, rates])
        near_zero = features[features > 0].min(initial=1.0)
        near_pi = (2 - features[features < 2]).min(initial=1.0)

        def weighted_sum(c: Array, s: Array, w: Array) -> Any:
            w = w * self._power(c, s) ** exponent
            if rates is None:
                return w.sum()
            return averages(rates, c, s, w)

        orders = [2 * exponent * float(self.exponents[self.gaps == end].sum()) for end in (0, 2)]
        if min(orders) <= -1:
            return math.inf
        with np.errstate(all="ignore"):
            mean = circle_mean(
                weighted_sum, near_zero=near_zero, near_pi=near_pi, order_zero=orders[0], order_pi=orders[1]
            )
        if not (np.isfinite(mean) & (mean > 0)).all():
            raise ArithmeticError(f"an integral over the spectrum of {self!r} leaves the range of floats")
        return mean

    def averaged_variance(self, rates: ArrayLike) -> Array:
        x = checks.reals("rates", rates, RATES)
        variance = self._mean(1, np.ravel(x)) if x.size else x
        return np.broadcast_to(variance, x.size).reshape(x.shape).copy()

    def _limiting(self) -> tuple[float, float]:
        return math.sqrt(float(self._mean(-1))), 1e-14 * (1 + float(np.abs(self.exponents).sum()))


@record
class DPSGD(ProductNoise):
    """Independent noise, β = (1, 0, 0, …): DP-SGD without amplification by sampling.

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.mechanisms.DPSGD()
    >>> noise.coefficients(3)
    array([1., 0., 0.])
    >>> noise.limiting_sensitivity()
    1.0
    """

    gaps: Array = field(init=False)
    exponents: Array = field(init=False)

    def __init__(self) -> None:
        super().__init__([], [])

    def squared_error(self, objective: Objective) -> float:
        if objective.toeplitz:
            return super().squared_error(objective)
        from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers

        n = objective.steps
        return TimeVaryingBuffers([0.0], np.zeros((n, 1)), np.zeros((n, 1)), np.ones(n)).squared_error(objective)

    def averaged_variance(self, rates: ArrayLike) -> Array:
        return np.ones(checks.reals("rates", rates, RATES).shape)

    def _limiting(self) -> tuple[float, float]:
        return 1.0, 0.0


@record
class NuFTRL(ProductNoise):
    """The noise of ν-DP-FTRL, β_t = (−1)^t C(½, t) (1 − ν)^t, that is B(z) = sqrt(1 − (1 − ν) z).

    Equation (7) of arXiv 2310.06771.  γ_∞² = 1/agm(ν, 2 − ν), and b(x) is a complete elliptic integral: relative error
    below 4e-15.

    Parameters
    ----------
    nu : float
        Damping 0 <= ν < 2.  At 0 the noise of Fichtenberger et al. (2023), whose limiting sensitivity is ``inf``; at 1
        independent noise.

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.mechanisms.NuFTRL(0.01)
    >>> noise.coefficients(4)
    array([ 1.        , -0.495     , -0.1225125 , -0.06064369])
    >>> round(noise.sensitivity(cn.Participation.single(100)), 4)
    1.4565
    >>> round(noise.limiting_sensitivity(), 4)
    1.4618
    >>> round(float(noise.averaged_variance(0.01)), 4)  # independent noise has 1
    0.0425
    """

    nu: float

    def __init__(self, nu: float) -> None:
        self._set(nu=_checked_gap("nu", nu))
        super().__init__([self.nu], [0.5])

    def averaged_variance(self, rates: ArrayLike) -> Array:
        from corrnoise.theory.numerics import elliptic  # here, as only this noise needs it

        x = checks.reals("rates", rates, RATES)
        if self.nu == 0:
            return np.asarray(elliptic.averaged_modulus_without_gap(x))
        least = 0.0 if self.nu <= 1 else 1e-290  # below it b(x) = ν to all digits
        return np.asarray(elliptic.averaged_modulus(self.nu, np.maximum(x, least)))

    def _limiting(self) -> tuple[float, float]:
        from corrnoise.theory.numerics import elliptic

        gamma = math.sqrt(float(elliptic.mean_inverse_modulus(self.nu))) if self.nu > 0 else math.inf
        return gamma, 16 * UNIT_ROUNDOFF


@record
class AntiPGD(ProductNoise):
    """Anticorrelated perturbations with damping, β = (1, −(1 − damping), 0, …).

    Table 2 and Section C.5 of arXiv 2310.06771 (which prints γ_T = T in place of sqrt(T)).

    Parameters
    ----------
    damping : float
        0 <= damping < 2.  At 0 the noise of Orvieto et al. (2022), whose sensitivity is sqrt(T).

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.mechanisms.AntiPGD(0.1).coefficients(4)
    array([ 1. , -0.9,  0. ,  0. ])
    >>> round(cn.mechanisms.AntiPGD(0.1).limiting_sensitivity(), 4)
    2.2942
    >>> cn.mechanisms.AntiPGD(0.0).limiting_sensitivity()
    inf
    """

    damping: float

    def __init__(self, damping: float) -> None:
        self._set(damping=_checked_gap("damping", damping))
        super().__init__([self.damping], [1.0])

    def averaged_variance(self, rates: ArrayLike) -> Array:
        x = checks.reals("rates", rates, RATES)
        a = self.damping
        return np.asarray(a * a + 2 * (1 - a) * x if a <= 1 else (2 - a) ** 2 + 2 * (a - 1) * (2 - x))

    def _limiting(self) -> tuple[float, float]:
        a = self.damping
        return (1 / math.sqrt(a) / math.sqrt(2 - a) if a > 0 else math.inf), 16 * UNIT_ROUNDOFF
