"""Guarantees of (ε, δ)-DP, for one Gaussian mechanism and for any ρ-zCDP mechanism.

A mechanism is (ε, δ)-DP if P(M(D) in S) <= e^ε P(M(D') in S) + δ for all neighbouring D, D' and all events S, and
ρ-zCDP if its Rényi divergences satisfy D_α(M(D) ‖ M(D')) <= α ρ for all orders α > 1.  Two conversions lead from ρ to
(ε, δ), for different mechanisms:

``gaussian_delta``, ``gaussian_epsilon``, ``gaussian_rho``
    One Gaussian mechanism: noise N(0, σ² I) on a query of sensitivity Δ, ρ = Δ²/(2σ²).  The curve is exact.  It covers
    a whole run with correlated noise on adaptively clipped gradients, which is one Gaussian mechanism of sensitivity
    G γ_T (Denisov et al. 2022), and an adaptive composition of Gaussian mechanisms, whose ρ add up.
``zcdp_to_approx_dp``, ``approx_dp_to_zcdp``
    Any mechanism that is known to be ρ-zCDP, such as discrete noise, or a composition with mechanisms of another kind.

>>> gaussian_epsilon(0.5, 1e-5), zcdp_to_approx_dp(0.5, 1e-5)
(4.377178095681225, 4.728386984943314)
>>> gaussian_rho(1.0, 1e-5), approx_dp_to_zcdp(1.0, 1e-5)
(0.035925702327418214, 0.030556595197639563)

The second conversion gives the larger ε.  This is necessary, because some ρ-zCDP mechanisms are above the Gaussian
curve.  Randomised response that tells the truth with probability e/(1 + e) is 1-DP, hence ½-zCDP, but (0, δ)-DP only
for δ > 0.462.  The Gaussian mechanism with ρ = ½ is (0, 0.383)-DP.

Every result is certified.  Formulas are evaluated in Arb balls, with a precision that grows until rounding no longer
matters.  The result is then rounded to the safe side: ε and δ are never too small, ρ is never
too large.  The three Gaussian functions return the nearest float on that side for arguments of any magnitude.  A call
takes some milliseconds.  Arguments outside the stated ranges raise ``ValueError``.  Anything but a number raises
``TypeError``.

References
----------
B. Balle, Y.-X. Wang, Improving the Gaussian mechanism for differential privacy, ICML 2018, Theorem 8.
M. Bun, T. Steinke, Concentrated differential privacy, TCC 2016.
C. Canonne, G. Kamath, T. Steinke, The discrete Gaussian for differential privacy, NeurIPS 2020, Proposition 12.
S. Denisov et al., Improved differential privacy for SGD via optimal private linear operators on adaptive streams,
NeurIPS 2022.
J. Dong, A. Roth, W. Su, Gaussian differential privacy, J. R. Stat. Soc. B 2022, Corollary 2.13.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Any, Literal

import numpy as np
from flint import arb, ctx
from scipy import special

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up

_PRECISION_BITS = tuple(64 * 2**k for k in range(7))  # bits; 4096 suffice for exponents such as ε²/ρ of any two floats
_MIN_FLOAT = 5e-324  # the smallest positive one
_INFINITY_BITS = 0x7FF0000000000000  # as a bit pattern


def _decided(formula: Callable[[], arb], verdict: Callable[[arb], Any]) -> Any:
    """Apply ``verdict``, a monotone function, to the real number that ``formula`` encloses.

    The precision grows until both ends of the ball give the same verdict.  If that never happens, the two numbers agree
    to a thousand digits.  Then the verdict on the upper end is returned; the caller makes sure that it is the safe one.
    """
    for precision in _PRECISION_BITS:
        with ctx.workprec(precision):
            ball = formula()
            low, high = verdict(ball.lower()), verdict(ball.upper())
        if low == high:
            break
    return high


def _at_most(formula: Callable[[], arb], bound: float) -> bool:
    """Whether ``formula`` is certainly at most ``bound``."""
    return bool(_decided(formula, lambda x: x <= bound))


def _switch(holds: Callable[[float], bool]) -> tuple[float, float]:
    """The neighbouring floats in [0, inf] between which the monotone predicate ``holds`` changes from false to true.

    Non-negative floats have the order of their bit patterns.  Bisection on these takes 63 steps over all magnitudes.
    The predicate counts as false at 0 and as true at inf, and is not called there.
    """

    def number(pattern: int) -> float:
        return float(np.int64(pattern).view(np.float64))

    low = 0
    high = _INFINITY_BITS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(number(middle)) else (middle, high)
    return number(low), number(high)


# -- budgets -----------------------------------------------------------------------------------------------------------

Adjacency = Literal["zero-out", "replace-one"]
ADJACENCIES: dict[Adjacency, int] = {"zero-out": 1, "replace-one": 2}  #: the factor of the sensitivity
SCALES = "[1e-100, 1e100]"  #: of ρ and clip norms: squares of numbers computed from them stay finite


@record
class Budget(Record):
    """The budget of a run: its privacy, the norm of its gradients, and the neighbouring data.

    Parameters
    ----------
    rho : float, optional
        ρ of zero-concentrated differential privacy of the whole run, in [1e-100, 1e100]; None for that of ``epsilon``
        and ``delta``.
    epsilon, delta : float, optional
        The (ε, δ) of the whole run, in place of ``rho``: ε >= 0 and 0 < δ < 1.
    clip_norm : float, default 1.0
        G: the largest norm of the gradient of one example, over all parameters together, in [1e-100, 1e100].
    adjacency : {"zero-out", "replace-one"}, default "zero-out"
        ``"zero-out"``: the gradients of an example are replaced by zero.  ``"replace-one"``: by those of any other
        example, which doubles the sensitivity.

    Raises
    ------
    ValueError
        The budget is not given in exactly one way, or an argument is out of its range.

    Examples
    --------
    >>> import corrnoise as cn
    >>> budget = cn.Budget(epsilon=2.0, delta=1e-6)
    >>> round(budget.gaussian_rho, 4)
    0.1005
    >>> budget.epsilon_at(1e-6) <= 2.0
    True
    """

    rho: float | None = None
    _: KW_ONLY
    epsilon: float | None = None
    delta: float | None = None
    clip_norm: float = 1.0
    adjacency: Adjacency = "zero-out"

    def __post_init__(self) -> None:
        pair = (self.epsilon, self.delta)
        if (self.rho is None) == (pair == (None, None)) or (self.rho is None and None in pair):
            raise ValueError(
                "the budget must be given either by rho or by epsilon and delta, "
                f"got rho={self.rho!r}, epsilon={self.epsilon!r}, delta={self.delta!r}"
            )
        if self.rho is not None:
            self._set(rho=checks.real("rho", self.rho, SCALES))
        else:
            self._set(
                epsilon=checks.real("epsilon", self.epsilon, "[0, inf)"),
                delta=checks.real("delta", self.delta, "(0, 1)"),
            )
        self._set(
            clip_norm=checks.real("clip_norm", self.clip_norm, SCALES),
            adjacency=checks.choice("adjacency", self.adjacency, tuple(ADJACENCIES)),
        )

    @cached_property
    def gaussian_rho(self) -> float:
        """The ρ of one Gaussian mechanism within this budget, rounded down: ``rho``, or that of (ε, δ).

        A run whose batches are not sampled is one Gaussian mechanism.  An accountant of a sampled run takes
        ``epsilon`` and ``delta``, not this number.
        """
        if self.rho is not None:
            return self.rho
        assert self.epsilon is not None
        assert self.delta is not None
        return checks.real("the ρ of epsilon and delta", gaussian_rho(self.epsilon, self.delta), SCALES)

    def multiplier(self, sensitivity: float) -> float:
        """The noise multiplier γ/sqrt(2ρ), or twice that for replace-one adjacency, rounded up.

        Parameters
        ----------
        sensitivity : float
            An upper bound of the zero-out sensitivity γ of what really runs, in (0, inf]; ``inf`` gives ``inf``.

        Returns
        -------
        float
            The standard deviation of the independent noise in units of the clip norm.
        """
        if sensitivity == math.inf:
            return math.inf
        gamma = checks.real("sensitivity", sensitivity, "(0, inf)")
        factor = ADJACENCIES[self.adjacency]
        with ctx.workprec(_PRECISION_BITS[1]):
            # The factor 1 + 2⁻⁵⁰ exceeds the rounding error of a later product with the clip norm.
            return rounded_up(factor * arb(gamma) / (2 * arb(self.gaussian_rho)).sqrt() * (1 + arb(2) ** -50))

    def scale(self, sensitivity: float) -> float:
        """The multiplier times the clip norm: the standard deviation of the independent noise.

        Parameters
        ----------
        sensitivity : float
            As for ``multiplier``.

        Returns
        -------
        float
        """
        return self.multiplier(sensitivity) * self.clip_norm

    @property
    def unit_variance(self) -> float:
        """G²/(2ρ) for zero-out adjacency, four times that for replace-one: the variance at sensitivity 1.

        It is the nearest float, for errors; noise that is added takes ``scale``.
        """
        return self.clip_norm**2 / (2 * (self.gaussian_rho / ADJACENCIES[self.adjacency] ** 2))

    def epsilon_at(self, delta: float) -> float:
        """The ε of a run as one Gaussian mechanism of this budget, rounded up.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
        """
        return gaussian_epsilon(self.gaussian_rho, delta)

    def delta_at(self, epsilon: float) -> float:
        """The δ of a run as one Gaussian mechanism of this budget, rounded up.

        Parameters
        ----------
        epsilon : float
            ε >= 0.

        Returns
        -------
        float
        """
        return gaussian_delta(self.gaussian_rho, epsilon)

    def in_words(self) -> str:
        """The budget as it stands in reports.

        Returns
        -------
        str
        """
        if self.rho is not None:
            return f"{self.rho:.6g}-zCDP for {self.adjacency} adjacency"
        return f"({self.epsilon:g}, {self.delta:g})-DP for {self.adjacency} adjacency"


UNIT_BUDGET = Budget(1.0)  #: ρ = 1, clip norm 1, zero-out: errors scale with G²/ρ


def gaussian_noise_multiplier(rho: float) -> float:
    """1/sqrt(2ρ), rounded down: standard deviation over sensitivity of one Gaussian mechanism that is ρ-zCDP.

    A whole run with correlated noise is one such mechanism, for either adjacency with its own sensitivity.  Privacy
    accountants take this number for the run.  It is not the factor of the noise that is added.
    """
    rho = checks.real("rho", rho, "(0, inf)")
    with ctx.workprec(_PRECISION_BITS[1]):
        return -rounded_up(-1 / (2 * arb(rho)).sqrt())


# -- one Gaussian mechanism --------------------------------------------------------------------------------------------


def _scaled_erfc(y: arb) -> arb:
    """e^{y²} erfc(y) for y >= 0, which is U(½, ½, y²)/sqrt(π) with Tricomi's U.

    The product is faster.  It is used only for y < 2²⁰, because the exponent of erfc(y) exceeds 64 bits for large y.
    """
    half = arb(1) / 2
    return (y * y).exp() * y.erfc() if y < 2**20 else (y * y).hypgeom_u(half, half) / arb.pi().sqrt()


def gaussian_curve(rho: float, epsilon: float, sign: int = -1) -> arb:
    """δ(ε) = ½ (erfc(x) − e^{y² − x²} erfc(y)) with x, y = ε/(2 sqrt(ρ)) ∓ sqrt(ρ)/2.

    This is Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) at μ = sqrt(2ρ), and y² − x² = ε.  With + in place of −, ``sign`` 1, it is
    the probability that the privacy loss exceeds ε at some time (``gaussian_odometer``).
    """
    root = arb(rho).sqrt()
    centre = arb(epsilon) / (2 * root)
    x, y = centre - root / 2, centre + root / 2
    return (x.erfc() + sign * (-x * x).exp() * _scaled_erfc(y)) / 2


def gaussian_deltas(budgets: Array, epsilon: ArrayLike, *, upper: bool = True) -> Array:
    """The same curve for many budgets at once, in float64: Φ(a) (1 − e^{ε + log Φ(b) − log Φ(a)}).

    Here a, b = ±μ/2 − ε/μ.  Mixtures of Gaussian mechanisms need it.

    Parameters
    ----------
    budgets : array of float
        ρ > 0, of any shape.
    epsilon : array_like
        Any real numbers, of a shape that goes with that of ``budgets``.
    upper : bool, default True
        Whether the result is rounded up, or down.
    """
    mu = np.sqrt(2 * np.maximum(budgets, 1e-200))
    with np.errstate(over="ignore"):
        shift = np.asarray(epsilon) / mu
    # Beyond ±1e150 the logarithm would overflow, and all is 0 or 1 long before.
    above, below = (special.log_ndtr(np.clip(half - shift, -1e150, 1e150)) for half in (mu / 2, -mu / 2))
    exponent = epsilon + below - above
    error = (1 if upper else -1) * 8 * 2.0**-53 * (np.abs(above) + np.abs(below) + np.abs(epsilon) + 1)
    return np.asarray(np.exp(np.minimum(above + error, 0.0)) * -np.expm1(np.minimum(exponent - error, 0.0)))


def _is_private(rho: float, epsilon: float, delta: float) -> bool:
    """Whether the Gaussian mechanism is certainly (ε, δ)-DP."""
    return _at_most(lambda: gaussian_curve(rho, epsilon), delta)


@usual_float_errors
def gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact δ(ε) of one Gaussian mechanism, rounded up.

    Parameters
    ----------
    rho : float
        ρ = Δ²/(2σ²) > 0, its zCDP budget: sensitivity Δ, standard deviation σ of the noise.
    epsilon : float
        ε >= 0.

    Returns
    -------
    float
        The smallest float that is at least δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), μ = sqrt(2ρ); never 0.

    Notes
    -----
    Theorem 8 of Balle and Wang (2018).  For a mechanism that is ρ-zCDP but not Gaussian this δ can be too small: use
    ``zcdp_to_approx_dp``.

    Examples
    --------
    >>> import corrnoise as cn
    >>> print(f"{cn.privacy.gaussian_delta(rho=0.1, epsilon=2.0):.3e}")
    9.448e-07
    """
    rho = checks.real("rho", rho, "(0, inf)")
    epsilon = checks.real("epsilon", epsilon, "[0, inf)")
    # The exact δ is in (0, 1); clamping to it decides the cases that no precision would decide.
    delta = _decided(lambda: gaussian_curve(rho, epsilon), lambda x: min(max(rounded_up(x), _MIN_FLOAT), 1.0))
    return float(delta)


@usual_float_errors
def gaussian_epsilon(rho: float, delta: float) -> float:
    """The smallest ε such that one Gaussian mechanism is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    rho : float
        ρ = Δ²/(2σ²) > 0, its zCDP budget: sensitivity Δ, standard deviation σ of the noise.
    delta : float
        0 < δ < 1.

    Returns
    -------
    float
        The smallest float ε >= 0 with δ(ε) <= ``delta``.  It is 0.0 if δ(0) <= ``delta``.

    Notes
    -----
    The inverse in ε of ``gaussian_delta``, with the same source and the same warning.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.gaussian_epsilon(rho=0.1, delta=1e-6), 4)
    1.9945
    """
    rho = checks.real("rho", rho, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    if _is_private(rho, 0.0, delta):
        return 0.0
    return _switch(lambda epsilon: _is_private(rho, epsilon, delta))[1]


@usual_float_errors
def gaussian_rho(epsilon: float, delta: float) -> float:
    """The largest ρ such that one Gaussian mechanism is (ε, δ)-DP, rounded down.

    The noise to add has the standard deviation σ = Δ/sqrt(2ρ) for the sensitivity Δ.

    Parameters
    ----------
    epsilon : float
        ε >= 0.
    delta : float
        0 < δ < 1.

    Returns
    -------
    float
        The largest float ρ with δ(ε) <= ``delta``; 0.0 where the true one is below the range of floats.

    Notes
    -----
    The inverse in ρ of ``gaussian_delta``, with the same source.  A mechanism that is ρ-zCDP for this ρ but not
    Gaussian need not be (ε, δ)-DP: use ``approx_dp_to_zcdp``.

    Examples
    --------
    >>> import corrnoise as cn
    >>> rho = cn.privacy.gaussian_rho(epsilon=2.0, delta=1e-6)
    >>> round(rho, 4)
    0.1005
    >>> cn.privacy.gaussian_epsilon(rho, delta=1e-6) <= 2.0
    True
    """
    epsilon = checks.real("epsilon", epsilon, "[0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    return _switch(lambda rho: not _is_private(rho, epsilon, delta))[0]


@usual_float_errors
def gaussian_odometer(rho: float, delta: float) -> float:
    """The ε that the privacy loss of adaptive Gaussian mechanisms never exceeds, but with probability δ.

    Parameters
    ----------
    rho : float
        ρ > 0: the sum of the ρ of all releases never exceeds it, whatever is chosen by looking at earlier releases.
    delta : float
        0 < δ < 1.

    Returns
    -------
    float
        The smallest float ε >= 0 with Φ(μ/2 − ε/μ) + e^ε Φ(−μ/2 − ε/μ) <= ``delta``, μ = sqrt(2ρ).

    Notes
    -----
    The loss under the data is Brownian motion with drift 1/2 at the times Σ|a|²; this is the tail of its maximum up to
    the time μ².  Whoever publishes the number that was reached, after a stop by looking, needs it in place of
    ``gaussian_epsilon``.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.gaussian_odometer(rho=0.5, delta=1e-6), 4)  # gaussian_epsilon gives 4.8866
    5.3751
    """
    rho = checks.real("rho", rho, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    return _switch(lambda epsilon: _at_most(lambda: gaussian_curve(rho, epsilon, 1), delta))[1]


def uncut_delta(delta: float, overflow: float) -> float:
    """The δ* of a run whose batches are never cut, such that (1 − τ) δ* + τ <= δ for ``overflow`` τ < δ."""
    return delta if overflow == 0 else (delta - overflow) * (1 - 2.0**-51)


# -- any ρ-zCDP mechanism ----------------------------------------------------------------------------------------------
#
# Proposition 12 of Canonne, Kamath and Steinke: for every order α = 1 + a > 1 a ρ-zCDP mechanism is (ε, δ)-DP with
# log δ = a (α ρ − ε) − log a + α log(1 − 1/α).  Solved for ε this is ε = α ρ − gain with
# gain = log(1 + 1/a) − (log(1/δ) − log(1 + a))/a, solved for ρ it is ρ = (ε + gain)/α, and any a > 0 is valid in both.
# At the best a the derivatives vanish, that is a² ρ = log(1/δ) − log(1 + a), and then ε = (1 + 2a) ρ − log(1 + 1/a).
# Along this curve ρ and ε fall in a as long as ρ > 0, so bisection finds the a that belongs to a given ρ or ε.


def best_rho(a: arb, delta: float) -> arb:
    """The ρ with the best order α = 1 + a."""
    return -(arb(delta).log() + a.log1p()) / (a * a)


def _best_epsilon(a: arb, delta: float) -> arb:
    """The ε with the best order α = 1 + a."""
    return (1 + 2 * a) * best_rho(a, delta) - (1 / a).log1p()


def gain_of(a: arb, delta: float) -> arb:
    """The difference α ρ − ε at the order α = 1 + a."""
    return (1 / a).log1p() - a * best_rho(a, delta)


@usual_float_errors
def zcdp_to_approx_dp(rho: float, delta: float) -> float:
    """An ε such that every ρ-zCDP mechanism is (ε, δ)-DP.

    Parameters
    ----------
    rho : float
        ρ > 0.
    delta : float
        0 < δ < 1.

    Returns
    -------
    float
        ε >= 0, the optimum over all orders α > 1, rounded up.  It is never too small.  It is too large by at most one
        unit in the last place, except close to 0.

    Notes
    -----
    Proposition 12 of Canonne, Kamath and Steinke (2020), always below ρ + 2 sqrt(ρ log(1/δ)) of Bun and Steinke (2016).
    For one Gaussian mechanism ``gaussian_epsilon`` is smaller, and exact.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.zcdp_to_approx_dp(rho=0.1, delta=1e-6), 4)
    2.1419
    """
    rho = checks.real("rho", rho, "(0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    a, _ = _switch(lambda a: _at_most(lambda: best_rho(arb(a), delta), rho))
    epsilon = _decided(lambda: (1 + arb(a)) * rho - gain_of(arb(a), delta), lambda x: max(rounded_up(x), 0.0))
    return float(epsilon)


@usual_float_errors
def approx_dp_to_zcdp(epsilon: float, delta: float) -> float:
    """A ρ such that every ρ-zCDP mechanism is (ε, δ)-DP: the zCDP budget that an (ε, δ) target allows.

    The converse is false: (ε, δ)-DP with δ > 0 implies no zCDP.

    Parameters
    ----------
    epsilon : float
        ε >= 0.
    delta : float
        0 < δ < 1.

    Returns
    -------
    float
        ρ >= 0, the largest that ``zcdp_to_approx_dp`` maps to at most ``epsilon``, rounded down: never too large, and
        too small by no more than one unit in the last place.  0.0 where the true one is below the range of floats.

    Notes
    -----
    Proposition 12 of Canonne, Kamath and Steinke (2020).  For one Gaussian mechanism ``gaussian_rho`` allows more.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.approx_dp_to_zcdp(epsilon=2.0, delta=1e-6), 4)
    0.0882
    """
    epsilon = checks.real("epsilon", epsilon, "[0, inf)")
    delta = checks.real("delta", delta, "(0, 1)")
    a, _ = _switch(lambda a: _at_most(lambda: _best_epsilon(arb(a), delta), epsilon))
    minus_rho = _decided(lambda: -(epsilon + gain_of(arb(a), delta)) / (1 + arb(a)), lambda x: min(rounded_up(x), 0.0))
    return abs(float(minus_rho))
