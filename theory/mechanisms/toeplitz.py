"""Correlated noise: infinite lower-triangular Toeplitz noise coefficient matrices.

A run adds w̃_t = Σ_τ β_τ w_{t−τ} to its gradients, with independent Gaussian w.  The coefficients β are the first column
of the noise coefficient matrix (the noising matrix C⁻¹ of the literature; its inverse is the strategy matrix C).
With B(z) = Σ β_t zᵗ three things decide how good they are:

* the power spectrum |B(ω)|², ω the frequency in radians a step;
* the sensitivity γ_T = ‖first T coefficients of 1/B‖₂, which sets how much noise privacy takes;
* the averaged variance b(x) = Σ β_t β_τ (1 − x)^{|t−τ|}, the variance of the noise seen through an exponential average
  of rate x = ηλ: all that a quadratic problem ever sees of it.

The kinds are in modules of their own: ``product`` (nearly every noise of the literature), ``poles``,
``finite`` and ``cepstral``.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Theorem 1.1, equation (5), Property C.1, Lemma C.4, Table 2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from corrnoise.theory.mechanisms.participation import Participation, Run
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, norm, toeplitz_sensitivity
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record

if TYPE_CHECKING:
    from corrnoise.theory.privacy import Adjacency

UNIT = 2.0**-53  #: unit roundoff
RATES = "[1e-300, 2)"  #: of exponential averages
SCALES = "[1e-100, 1e100]"  #: of budgets and clip norms: squares of what is computed from them stay finite


def unit_variance(rho: float, clip_norm: float) -> float:
    """G²/(2ρ), the variance of w_t at sensitivity γ = 1."""
    return checks.real("clip_norm", clip_norm, SCALES) ** 2 / (2 * checks.real("rho", rho, SCALES))


def checked_noise(noise: object) -> ToeplitzNoise:
    """Return ``noise``; raise ``TypeError`` unless it is a ``ToeplitzNoise``."""
    if not isinstance(noise, ToeplitzNoise):
        raise TypeError(f"noise must be correlated noise such as NuFTRL(0.01), got {noise!r}")
    return noise


def noise_variance(noise: ToeplitzNoise, rho: float, clip_norm: float, horizon: Run = None) -> float:
    """σ² = G² γ²/(2ρ), the variance of w_t, with the γ of a run; ``inf`` where γ is.

    ``horizon`` is T for γ_T, None for γ_∞, or a participation, whose γ is ``sensitivity_upper_bound``.
    """
    unit = unit_variance(rho, clip_norm)
    checked_noise(noise)
    if horizon is None:
        return unit * noise.limiting_sensitivity() ** 2
    if isinstance(horizon, Participation) and not horizon.single:
        return unit * noise.sensitivity_upper_bound(**horizon.arguments_of_sensitivity) ** 2
    steps = horizon.steps if isinstance(horizon, Participation) else horizon
    return unit * noise.sensitivity(checks.integer("horizon", steps, 1)) ** 2


class ToeplitzNoise(Record, ABC):
    """Correlated noise with coefficients β_0, β_1, …, the same at every step.

    A concrete kind gives its coefficients, the coefficients of its inverse, |B|² and the limiting sensitivity; the
    rest follows.  All arrays are float64.
    """

    @abstractmethod
    def coefficients(self, steps: int) -> Array:
        """Noise coefficients β_0, …, β_{steps−1}, shape (steps,).

        Parameters
        ----------
        steps
            Number of coefficients, >= 1.
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
        """|B(ω)|² at ``frequencies`` ω in radians a step (any real), same shape.

        Parameters
        ----------
        frequencies
            ω in radians a step, any real numbers, of any shape.
        """
        half = checks.reals("frequencies", frequencies) / 2
        return self._power(np.abs(np.cos(half)), np.abs(np.sin(half)))

    def inverse_coefficients(self, steps: int) -> Array:
        """First ``steps`` coefficients of 1/B, the first column of the inverse matrix, shape (steps,).

        Parameters
        ----------
        steps
            Number of coefficients, >= 1.

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

    def sensitivity(self, steps: int, *, min_sep: int = 1, max_participations: int | None = 1) -> float:
        """γ_T, the sensitivity of a run of T = ``steps`` steps; adjacency zero-out.

        Parameters
        ----------
        steps
            T >= 1.
        min_sep
            b >= 1: two participations of an example, in the steps i and j, have |i − j| >= b.
        max_participations
            k, 1 <= k <= ceil(T/b): the largest number of participations of an example; None for ceil(T/b).

        Returns
        -------
        For one participation the largest column norm of the inverse of the T × T noise coefficient matrix (Theorem 1.1
        of arXiv 2310.06771); in general ‖Σ_{j<k} S^{jb} c‖ with its first column c and the shift S.  ``inf`` where it
        exceeds the range of floats.

        Raises
        ------
        ValueError
            Several participations, and c is outside the theorem that makes this exact: c >= 0 and non-increasing from
            index b on, or no more than b coefficients (``theory.mechanisms.sensitivity``).

        Examples
        --------
        >>> from corrnoise import NuFTRL
        >>> round(NuFTRL(1e-3).sensitivity(2000), 3)
        1.691
        >>> round(NuFTRL(1e-3).sensitivity(2000, min_sep=500, max_participations=4), 3)
        3.694
        """
        found = self._finite(steps, min_sep, max_participations)
        if not found.exact:
            raise ValueError(
                f"the sensitivity of {self!r} for steps={steps}, min_sep={min_sep}, "
                f"max_participations={max_participations} is only known to lie in [{found.lower}, {found.upper}], "
                "because its inverse coefficients are not both non-negative and non-increasing from index min_sep on; "
                "sensitivity_upper_bound gives the upper end"
            )
        return found.value

    def sensitivity_upper_bound(self, steps: int, *, min_sep: int = 1, max_participations: int | None = 1) -> float:
        """An upper bound of γ_T that holds in spite of rounding, for every noise and any participation.

        Where ``sensitivity`` is exact it exceeds it by the error alone.  Elsewhere the inverse coefficients c_t are
        replaced by |c_t| for t < b and by max_{s>=t} |c_s| from there on.

        Parameters
        ----------
        steps, min_sep, max_participations
            As in ``sensitivity``.
        """
        return self._finite(steps, min_sep, max_participations).upper

    def limiting_sensitivity(self) -> float:
        """γ_∞ = lim γ_T; ``inf`` where it diverges.

        Equation (5) and Property C.1 of arXiv 2310.06771 print γ_∞² = (1/2π) ∫ dω/|B(ω)|² for every square-summable
        β.  That holds for minimum-phase noise only (B outer; for finitely many coefficients: no zero in |z| < 1).  The
        coefficients (1, −2) have γ_T² = (4^T − 1)/3, where the integral says 1/3.
        """
        return self._limiting()[0]

    def noise_multiplier(
        self,
        rho: float,
        steps: int | None = None,
        *,
        adjacency: Adjacency = "zero-out",
        min_sep: int = 1,
        max_participations: int | None = 1,
    ) -> float:
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
        min_sep, max_participations
            Who takes part when, as in ``sensitivity``; several participations need ``steps``.

        Returns
        -------
        A float that is never too small: the errors of γ and of rounding are added.  ``inf`` where γ diverges.

        Notes
        -----
        Theorem 1.1 of arXiv 2310.06771 (σ_dp² = γ²/(2ρ)); with several participations the bound of
        ``sensitivity_upper_bound`` takes the place of γ.
        """
        from corrnoise.theory.privacy import safe_multiplier

        if steps is not None:
            return safe_multiplier(self._finite(steps, min_sep, max_participations).upper, rho, adjacency)
        if max_participations is None or checks.integer("max_participations", max_participations, 1) > 1:
            raise ValueError(f"steps must be given for several participations, got {max_participations=}")
        gamma, error = self._limiting()
        return safe_multiplier(gamma * (1 + (error + 2 * UNIT)), rho, adjacency)

    def _finite(self, steps: int, min_sep: int, max_participations: int | None) -> Sensitivity:
        who = Participation(steps, min_sep=min_sep, max_participations=max_participations)
        return self.sensitivity_bracket(who)

    def inverse_with_error(self, steps: int) -> tuple[Array, float]:
        """The first coefficients of 1/B, shape (steps,), and a bound of the 2-norm of their error relative to theirs.

        Parameters
        ----------
        steps
            Number of coefficients, >= 1; they may be ``inf``.
        """
        return self._inverse(checks.integer("steps", steps, 1))

    def memory(self, steps: int) -> int:
        """How many arrays of the size of the gradient a stream keeps from one step to the next.

        Parameters
        ----------
        steps
            Length of the run, >= 1.
        """
        return checks.integer("steps", steps, 1) - 1

    def sensitivity_bracket(self, participation: Participation) -> Sensitivity:
        """What is known of the sensitivity; ``sensitivity`` is the value, if it is exact.

        Parameters
        ----------
        participation
            Who takes part when, and the length of the run.
        """
        who = checks.instance("participation", participation, Participation)
        series, error = self._inverse(who.steps)
        if not (math.isfinite(error) and np.isfinite(series).all()):
            return Sensitivity(value=norm(series), upper=math.inf, rounding=error, exact=who.single)
        return toeplitz_sensitivity(series, who, error=error)
