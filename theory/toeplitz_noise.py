"""Correlated noise: infinite lower-triangular Toeplitz noise coefficient matrices.

A run adds w̃_t = Σ_τ β_τ w_{t−τ} to its gradients, with independent Gaussian w.  The coefficients β are the first column
of the noise coefficient matrix (the noising matrix C⁻¹ of the literature; its inverse is the strategy matrix C).
With B(z) = Σ β_t zᵗ three things decide how good they are:

* the power spectrum |B(ω)|², ω the frequency in radians a step;
* the sensitivity γ_T = ‖first T coefficients of 1/B‖₂, which sets how much noise privacy takes;
* the averaged variance b(x) = Σ β_t β_τ (1 − x)^{|t−τ|}, the variance of the noise seen through an exponential average
  of rate x = ηλ: all that a quadratic problem ever sees of it.

Nearly every correlated noise of the literature is a product B(z) = Π (1 − (1 − a_k) z)^{e_k}; its inverse is the
product with the exponents −e_k, and with the gaps a_k carried (never 1 − a_k) nothing cancels.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorem 1.1, equation (5), Property C.1, Lemma C.4, Table 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corrnoise.theory import checks, elliptic, power_series
from corrnoise.theory.checks import Array, ArrayLike
from corrnoise.theory.quadrature import averages, circle_mean, modulus
from corrnoise.theory.records import Record

_UNIT = 2.0**-53
_RATES = "[1e-300, 2)"
_SCALE = "[1e-100, 1e100]"  # of budgets and clip norms: squares of what is computed from them stay finite


def _norm(values: Array) -> float:
    """Euclidean norm that neither overflows nor underflows before its value does."""
    largest = float(np.abs(values).max())
    return largest if largest in (0.0, math.inf) else largest * math.sqrt(float(np.square(values / largest).sum()))


def _single_participation(min_sep: int, max_participations: int) -> None:
    checks.integer("min_sep", min_sep, 1)
    if checks.integer("max_participations", max_participations, 1) > 1:
        raise ValueError(f"max_participations must be 1 (only single participation is built), got {max_participations}")


def unit_variance(rho: float, clip_norm: float) -> float:
    """G²/(2ρ), the variance of w_t at sensitivity γ = 1."""
    return checks.real("clip_norm", clip_norm, _SCALE) ** 2 / (2 * checks.real("rho", rho, _SCALE))


def noise_variance(noise: ToeplitzNoise, rho: float, clip_norm: float, horizon: int | None = None) -> float:
    """σ² = G² γ²/(2ρ), the variance of w_t, with γ_T for T = ``horizon`` or γ_∞; ``inf`` where γ is."""
    unit = unit_variance(rho, clip_norm)
    if not isinstance(noise, ToeplitzNoise):
        raise TypeError(f"noise must be correlated noise such as NuFTRL(0.01), got {noise!r}")
    if horizon is None:
        return unit * noise.limiting_sensitivity() ** 2
    return unit * noise.sensitivity(checks.integer("horizon", horizon, 1)) ** 2


class ToeplitzNoise(Record, ABC):
    """Correlated noise with coefficients β_0, β_1, …, the same at every step.

    A concrete kind gives its coefficients, the coefficients of its inverse, |B|² and the limiting sensitivity; the
    rest follows.  All arrays are float64.
    """

    @abstractmethod
    def coefficients(self, steps: int) -> Array:
        """Noise coefficients β_0, …, β_{steps−1}, shape (steps,)."""

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

        Parameters
        ----------
        rates
            x = ηλ, 1e-300 <= x < 2, of any shape.

        Returns
        -------
        Array of the shape of ``rates``; 1 for independent noise.  By Lemma C.4 of arXiv 2310.06771, made exact, it
        is (x (2 − x)/2π) ∫ |B(ω)|² / |1 − x − e^{iω}|² dω.
        """

    def power_spectrum(self, frequencies: ArrayLike) -> Array:
        """|B(ω)|² at ``frequencies`` ω in radians a step (any real), same shape."""
        half = checks.reals("frequencies", frequencies) / 2
        return self._power(np.abs(np.cos(half)), np.abs(np.sin(half)))

    def inverse_coefficients(self, steps: int) -> Array:
        """First ``steps`` coefficients of 1/B, the first column of the inverse matrix, shape (steps,).

        Raises
        ------
        OverflowError
            They exceed the range of floats, which happens only to noise that is not minimum phase.
        """
        series, _ = self._inverse(checks.integer("steps", steps, 1))
        if not np.isfinite(series).all():
            first = int(np.argmin(np.isfinite(series)))
            raise OverflowError(f"the inverse coefficients of {self!r} exceed the range of floats from step {first} on")
        return series

    def sensitivity(self, steps: int, *, min_sep: int = 1, max_participations: int = 1) -> float:
        """γ_T, the largest column norm of the inverse of the T × T noise coefficient matrix, T = ``steps``.

        Theorem 1.1 of arXiv 2310.06771, for a data set in which each example is used at most once (arguments for more
        participations are refused).  ``inf`` where it exceeds the range of floats.  Adjacency: zero-out.
        """
        return self._finite(steps, min_sep, max_participations)[0]

    def sensitivity_upper_bound(self, steps: int, *, min_sep: int = 1, max_participations: int = 1) -> float:
        """An upper bound of γ_T that holds in spite of rounding: ``sensitivity`` and its error, on the safe side."""
        gamma, error = self._finite(steps, min_sep, max_participations)
        return gamma * (1 + error)

    def limiting_sensitivity(self) -> float:
        """γ_∞ = lim γ_T; ``inf`` where it diverges.

        Equation (5) and Property C.1 of arXiv 2310.06771 print γ_∞² = (1/2π) ∫ dω/|B(ω)|² for every square-summable
        β.  That holds for minimum-phase noise only (B outer; for finitely many coefficients: no zero in |z| < 1).  The
        coefficients (1, −2) have γ_T² = (4^T − 1)/3, where the integral says 1/3.
        """
        return self._limiting()[0]

    def noise_multiplier(self, rho: float, steps: int | None = None, *, adjacency: str = "zero-out") -> float:
        """Standard deviation of w_t, in units of the clip norm, that makes the run ρ-zCDP: γ/sqrt(2ρ).

        Parameters
        ----------
        rho
            Budget of zero-concentrated differential privacy, > 0.
        steps
            Length of the run; None for any length, by γ_∞.
        adjacency
            ``"zero-out"``: an example's gradient is replaced by zero.  ``"replace-one"``: by any other, which doubles
            the sensitivity.

        Returns
        -------
        A float that is never too small: the errors of γ and of rounding are added.  ``inf`` where γ diverges.

        Notes
        -----
        Theorem 1.1 of arXiv 2310.06771 (σ_dp² = γ²/(2ρ)), each example used at most once.
        """
        rho = checks.real("rho", rho, "(0, inf)")
        adjacency = checks.choice("adjacency", adjacency, ("zero-out", "replace-one"))
        gamma, error = self._limiting() if steps is None else self._finite(steps, 1, 1)
        scale = 1 if adjacency == "zero-out" else 2
        return scale * gamma * (1 + (error + 8 * _UNIT)) / (math.sqrt(2) * math.sqrt(rho))

    def _finite(self, steps: int, min_sep: int, max_participations: int) -> tuple[float, float]:
        _single_participation(min_sep, max_participations)
        series, error = self._inverse(checks.integer("steps", steps, 1))
        return _norm(series), error + 40 * _UNIT


@dataclass(frozen=True, eq=False, repr=False)
class ProductNoise(ToeplitzNoise):
    """B(z) = Π (1 − (1 − a_k) z)^{e_k}, minimum phase by construction.

    Parameters
    ----------
    gaps
        a_k, shape (K,), 0 <= a_k <= 2: the factor's zero lies at z = 1/(1 − a_k).  A gap of 0 (2) is a zero at
        frequency 0 (π).  Positive gaps below 1e-300 are refused.
    exponents
        e_k, shape (K,).

    Factors with equal gaps are merged, trivial ones (a = 1 or e = 0) dropped, and the rest kept in the order of
    their gaps, so that equal noise compares equal.

    Notes
    -----
    Coefficients and inverse coefficients have a relative error below 4e-16 while above 1e-290 in modulus; of several
    factors, 4e-16 and 1e-31 of the largest coefficient before.  Averaged variance and limiting sensitivity: 1e-14
    (1 + Σ |e_k|), for gaps and rates above 1e-60; ``ArithmeticError`` where an integral leaves the range of floats.
    """

    gaps: Array
    exponents: Array

    def __init__(self, gaps: ArrayLike, exponents: ArrayLike) -> None:
        a = np.atleast_1d(checks.reals("gaps", gaps, "[0, 2]"))
        e = np.atleast_1d(checks.reals("exponents", exponents))
        if a.ndim > 1:
            raise ValueError(f"gaps must be a vector, got shape {a.shape}")
        checks.same_length("gaps", a, "exponents", e)
        if ((a > 0) & (a < 1e-300)).any():
            raise ValueError(f"gaps must be 0 or at least 1e-300, got {a[(a > 0) & (a < 1e-300)][0]!r}")
        a, place = np.unique(np.abs(a), return_inverse=True)  # −0 is 0
        e = np.bincount(place.ravel(), weights=e, minlength=a.size).astype(np.float64)
        kept = (e != 0) & (a != 1)
        a, e = a[kept], e[kept]
        a.setflags(write=False)
        e.setflags(write=False)
        self._set(gaps=a, exponents=e)

    def coefficients(self, steps: int) -> Array:
        return self._series(self.exponents, checks.integer("steps", steps, 1))

    def _series(self, exponents: Array, steps: int) -> Array:
        from corrnoise.theory import recursions

        series = np.empty(steps)
        recursions.product_series(self.gaps, exponents, series)
        finite = np.isfinite(series)
        if not finite.all():
            series[np.argmin(finite) :] = math.inf
        return series

    def _inverse(self, steps: int) -> tuple[Array, float]:
        return self._series(-self.exponents, steps), 4 * _UNIT

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
        x = checks.reals("rates", rates, _RATES)
        variance = self._mean(1, np.ravel(x)) if x.size else x
        return np.broadcast_to(variance, x.size).reshape(x.shape).copy()

    def _limiting(self) -> tuple[float, float]:
        return math.sqrt(float(self._mean(-1))), 1e-14 * (1 + float(np.abs(self.exponents).sum()))


@dataclass(frozen=True, eq=False, repr=False)
class DPSGD(ProductNoise):
    """Independent noise, β = (1, 0, 0, …): DP-SGD without amplification by sampling."""

    gaps: Array = field(init=False)
    exponents: Array = field(init=False)

    def __init__(self) -> None:
        super().__init__([], [])

    def averaged_variance(self, rates: ArrayLike) -> Array:
        return np.ones(checks.reals("rates", rates, _RATES).shape)

    def _limiting(self) -> tuple[float, float]:
        return 1.0, 0.0


@dataclass(frozen=True, eq=False, repr=False)
class NuFTRL(ProductNoise):
    """The noise of ν-DP-FTRL, β_t = (−1)^t C(½, t) (1 − ν)^t, that is B(z) = sqrt(1 − (1 − ν) z).

    Parameters
    ----------
    nu
        Damping 0 <= ν < 2.  At 0 the noise of Fichtenberger et al. (2023), whose limiting sensitivity is ``inf``; at 1
        independent noise.

    Notes
    -----
    Equation (7) of arXiv 2310.06771.  γ_∞² = 1/agm(ν, 2 − ν), and b(x) is a complete elliptic integral: relative error
    below 4e-15.
    """

    nu: float

    def __init__(self, nu: float) -> None:
        self._set(nu=checks.real("nu", nu, "[0, 2)"))
        super().__init__([self.nu], [0.5])

    def averaged_variance(self, rates: ArrayLike) -> Array:
        x = checks.reals("rates", rates, _RATES)
        if self.nu == 0:
            return np.asarray(elliptic.averaged_modulus_without_gap(x))
        least = 0.0 if self.nu <= 1 else 1e-290  # below it b(x) = ν to all digits
        return np.asarray(elliptic.averaged_modulus(self.nu, np.maximum(x, least)))

    def _limiting(self) -> tuple[float, float]:
        gamma = math.sqrt(float(elliptic.mean_inverse_modulus(self.nu))) if self.nu > 0 else math.inf
        return gamma, 16 * _UNIT


@dataclass(frozen=True, eq=False, repr=False)
class AntiPGD(ProductNoise):
    """Anticorrelated perturbations with damping, β = (1, −(1 − damping), 0, …).

    Parameters
    ----------
    damping
        0 <= damping < 2.  At 0 the noise of Orvieto et al. (2022), whose sensitivity is sqrt(T).

    Notes
    -----
    Table 2 and Section C.5 of arXiv 2310.06771 (which prints γ_T = T for what is sqrt(T)).
    """

    damping: float

    def __init__(self, damping: float) -> None:
        self._set(damping=checks.real("damping", damping, "[0, 2)"))
        super().__init__([self.damping], [1.0])

    def averaged_variance(self, rates: ArrayLike) -> Array:
        x, a = checks.reals("rates", rates, _RATES), self.damping
        return np.asarray(a * a + 2 * (1 - a) * x if a <= 1 else (2 - a) ** 2 + 2 * (a - 1) * (2 - x))

    def _limiting(self) -> tuple[float, float]:
        a = self.damping
        return (1 / math.sqrt(a) / math.sqrt(2 - a) if a > 0 else math.inf), 16 * _UNIT


@dataclass(frozen=True, eq=False, repr=False)
class FiniteNoise(ToeplitzNoise):
    """Finitely many coefficients of the user's own, of any phase.

    Parameters
    ----------
    coefficients
        β_0, …, β_n, shape (n + 1,), β_0 != 0; zero afterwards.  (Usually β_0 = 1.)

    Notes
    -----
    The inverse takes O(T log T), the limiting sensitivity O(n²).  Accuracy is relative to the coefficients as given:
    the inverse of noise with zeros close to the unit circle is as ill-conditioned as it is, and what a release rests on
    (``noise_multiplier``, ``sensitivity_upper_bound``) carries a bound of the error made.
    """

    values: Array

    def __init__(self, coefficients: ArrayLike) -> None:
        beta = checks.reals("coefficients", coefficients, ndim=1)
        if beta[0] == 0:
            raise ValueError(f"coefficients[0] must not be 0, got {beta[0]!r}")
        beta = np.trim_zeros(beta, "b") + 0.0  # −0 is 0
        beta.setflags(write=False)
        self._set(values=beta)

    def arguments(self) -> dict[str, Any]:
        return {"coefficients": self.values}

    def coefficients(self, steps: int) -> Array:
        padded = np.zeros(checks.integer("steps", steps, 1))
        shown = self.values[: padded.size]
        padded[: shown.size] = shown
        return padded

    def _inverse(self, steps: int) -> tuple[Array, float]:
        scale = 2.0 ** -np.frexp(self.values[0])[1]  # keeps squares within the range of floats, and is exact
        series, error = power_series.reciprocal(self.values * scale, steps)
        return series * scale, error

    def _power(self, cosine: Array, sine: Array) -> Array:
        from corrnoise.theory import recursions

        # B(z) = (1 − z) Σ p_t zᵗ + p_n zⁿ with the partial sums p_t: accurate also where the noise has its zero, ω → 0.
        z = (np.asarray(cosine) + 1j * np.asarray(sine)) ** 2
        partial = np.empty(self.values.size)
        recursions.running_sums(self.values, partial)
        inner = np.zeros(np.shape(z), dtype=complex)
        for p in partial[-2::-1]:
            inner = inner * z + p
        value = -2j * np.asarray(sine) * (np.asarray(cosine) + 1j * np.asarray(sine)) * inner
        value = value + partial[-1] * z ** (self.values.size - 1)
        return np.asarray(value.real**2 + value.imag**2)

    def averaged_variance(self, rates: ArrayLike) -> Array:
        from corrnoise.theory import recursions

        x = checks.reals("rates", rates, _RATES)
        variances = np.empty(x.size)
        recursions.averaged_variances(self.values, np.ravel(x), variances)
        return variances.reshape(x.shape)

    def _limiting(self) -> tuple[float, float]:
        from corrnoise.theory import recursions

        square = recursions.step_down(self.values)
        # A change of the coefficients by δ moves γ_∞ by at most max |1/B| ‖δ‖₁, relatively, and max |1/B| is at most
        # π n ‖β‖₁ γ_∞², because |B| has the slope n ‖β‖₁ at most.
        size = float(np.abs(self.values).sum())
        error = 2.0**-102 * math.pi * self.values.size * size**2 * square
        return (math.sqrt(square), error + 8 * _UNIT) if error < 0.5 else (math.inf, 0.0)
