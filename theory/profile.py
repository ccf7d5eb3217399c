"""Privacy profiles: δ as a function of ε, for a run, for its first steps, and for several runs on the same data.

*First steps.*  C is lower-triangular, so that the first t steps release the same as a run with the leading block of C,
the participation cut to t steps and the same noise multiplier.  For the orders this is one Gaussian mechanism; for
sampled batches Theorem 1 of ``docs/amplification-proofs.md`` holds with t steps.  A stop is covered if it is fixed
beforehand, or if it is decided by the releases of Gaussian runs within a fixed total (Koskela, Tobaben, Honkela,
arXiv 2301.05649): the budget of the whole run covers it in any case.

*Composition.*  Runs whose settings are fixed before the first release compose to the product of their pairs, also
where data, models and gradients depend on earlier releases: ρ of Gaussian mechanisms add, and factors of Poisson
sampling form one product.  The runs must use independent randomness.

*Tables.*  Any other profile enters by its curve alone.  With ℓ the likelihood ratio of a run and c = e^ε the
function H(c) = E(ℓ − c)₊ is convex and falls, and H(0) = 1.  A convex function above it, linear between the points of a
table, belongs to a law with finitely many ratios x_j of weights q_j, and ϖ = lim H.  This law dominates the pair of the
run (Zhu, Dong, Wang 2022), so that the product with another pair has E(ℓ ℓ' − c)₊ <= Σ q_j x_j H'(c/x_j) + ϖ.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, replace
from functools import cache, cached_property

import numpy as np
from flint import arb, ctx

from corrnoise.theory.amplification.accountant import CutCurve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import DIRECTIONS, Curve, delta_of, epsilon_of
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up
from corrnoise.theory.privacy import (
    ADJACENCIES,
    Adjacency,
    gaussian_delta,
    gaussian_deltas,
    gaussian_epsilon,
    gaussian_rho,
    uncut_delta,
)

_PRECISION_BITS = 128
_TRADEOFF_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 50.0, 120)])
LARGEST_EPSILON = 200.0  #: of a table
_NEGLIGIBLE_DELTA = 1e-200
_RARE_DELTA = 1e-20  # δ at the end of the table of an accountant
_COARSE_POINTS, _FINE_POINTS = (160, 80), 3000  # of the table: of a curve, of an accountant, of a closed form
_MAX_ATOMS = 800  # of a law with finitely many ratios
TABLE_ROUNDING = 1e-11  #: relative, beyond the errors of a table in float64
SUM_ROUNDING = 1e-7  #: relative, beyond the errors of the corners where neighbouring lines are almost parallel


class Profile(Record, ABC):
    """δ as a function of ε: everything that (ε, δ)-differential privacy says about some releases.

    ``run.profile()`` and ``program.profile(noise_multiplier)`` return one; ``cn.privacy.compose`` adds several.

    Attributes
    ----------
    adjacency : {"zero-out", "replace-one"}
        The neighbouring data.
    unit : {"example", "user"}
        Whose data may change.

    Examples
    --------
    >>> import corrnoise as cn
    >>> noise = cn.mechanisms.DPSGD().program(cn.Participation.fixed_epochs(100, epochs=5))
    >>> whole, first = noise.profile(4.0), noise.profile(4.0, step=20)
    >>> round(whole.epsilon_at(1e-6), 2), round(first.epsilon_at(1e-6), 2)
    (2.55, 1.06)
    """

    adjacency: Adjacency
    unit: str

    @abstractmethod
    def epsilon_at(self, delta: float) -> float:
        """The ε at δ, for adding and for removing data, rounded up.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
            ε >= 0; ``inf`` where no ε suffices.
        """

    @abstractmethod
    def delta_at(self, epsilon: float) -> float:
        """The δ at ε, for adding and for removing data, rounded up.

        Parameters
        ----------
        epsilon : float
            ε >= 0.

        Returns
        -------
        float
        """

    @property
    def mu(self) -> float | None:
        """μ of Gaussian differential privacy, rounded up; None for sampled batches, which have no useful μ."""
        return None

    @property
    def advantage(self) -> float:
        """The largest advantage of a membership attack, its true minus its false positive rate: δ at ε = 0."""
        return self.delta_at(0.0)

    def equivalent_mu(self, delta: float) -> float:
        """μ of the Gaussian mechanism with the same ε at δ: a number for comparisons, and no guarantee at another δ.

        Parameters
        ----------
        delta : float
            0 < δ < 1.

        Returns
        -------
        float
        """
        epsilon = self.epsilon_at(delta)
        return math.inf if math.isinf(epsilon) else math.sqrt(2 * gaussian_rho(epsilon, delta))

    def tradeoff(self, alpha: float) -> float:
        """A lower bound of the type II error of every test with type I error α (f-differential privacy).

        Parameters
        ----------
        alpha : float
            0 <= α <= 1, the probability of a false alarm.

        Returns
        -------
        float
            In [0, 1 − α]: the largest bound found among those of 121 values of ε; each bound is valid by itself.

        Notes
        -----
        Dong, Roth, Su (2022), Proposition 2.5.  δ is convex in e^ε, so each of the two bounds is concave in a monotone
        function of ε, and a binary search finds the largest.
        """
        level = checks.real("alpha", alpha, "[0, 1]")
        left = cache(lambda index: 1 - self.delta_at(float(_TRADEOFF_EPSILONS[index])))
        grows = np.exp(_TRADEOFF_EPSILONS)
        best = 0.0
        for bound in (lambda i: left(i) - grows[i] * level, lambda i: (left(i) - level) / grows[i]):
            low, high = 0, len(grows) - 1
            while low < high:
                middle = (low + high) // 2
                low, high = (middle + 1, high) if bound(middle) < bound(middle + 1) else (low, middle)
            best = max(best, float(bound(low)))
        return max(0.0, best - 1e-14)

    def check_same_data(self, other: Profile) -> None:
        """Refuse a profile of other neighbouring data.

        Parameters
        ----------
        other : Profile
            The profile to combine with this one.
        """
        for name in ("adjacency", "unit"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(f"profiles must have the same {name} to compose, got {mine!r} and {theirs!r}")


@record
class GaussianProfile(Profile):
    """The profile of one Gaussian mechanism, exact up to the last place.

    Parameters
    ----------
    rho : float
        ρ = μ²/2 >= 0 of zero-concentrated differential privacy; 0 where nothing was released.
    adjacency : {"zero-out", "replace-one"}, default "zero-out"
        The neighbouring data.
    unit : {"example", "user"}, default "example"
        Whose data may change.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.GaussianProfile(0.5).epsilon_at(1e-5), 4)
    4.3772
    """

    rho: float
    _: KW_ONLY
    adjacency: Adjacency = "zero-out"
    unit: str = "example"

    def __post_init__(self) -> None:
        self._set(rho=checks.real("rho", self.rho, "[0, inf)"))
        self._check(adjacency=tuple(ADJACENCIES), unit=("example", "user"))

    @property
    def mu(self) -> float:
        with ctx.workprec(_PRECISION_BITS):
            return rounded_up((2 * arb(self.rho)).sqrt())

    def epsilon_at(self, delta: float) -> float:
        target = checks.real("delta", delta, "(0, 1)")
        return gaussian_epsilon(self.rho, target) if self.rho > 0 else 0.0

    def delta_at(self, epsilon: float) -> float:
        level = checks.real("epsilon", epsilon, "[0, inf)")
        return gaussian_delta(self.rho, level) if self.rho > 0 else 0.0


@record
class NearbyProfile(Profile):
    """The profile of releases that are within a total variation of an ideal mechanism, whatever the data are.

    With (ε, δ) of the ideal mechanism they have (ε, δ + (1 + e^ε) τ).

    Parameters
    ----------
    ideal : Profile
        The profile of the ideal mechanism.
    total_variation : float
        τ >= 0.
    """

    ideal: Profile
    total_variation: float

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        return self.ideal.adjacency

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.ideal.unit

    def epsilon_at(self, delta: float) -> float:
        below = math.nextafter(checks.real("delta", delta, "(0, 1)"), 0.0)
        found = self.ideal.epsilon_at(below) if below > 0 else math.inf
        with ctx.workprec(_PRECISION_BITS):
            enough = math.isfinite(found) and self._added(found) <= arb(delta) - arb(below)
        return found if enough else math.inf

    def delta_at(self, epsilon: float) -> float:
        with ctx.workprec(4 * _PRECISION_BITS):
            return min(rounded_up(arb(self.ideal.delta_at(epsilon)) + self._added(epsilon)), 1.0)

    def _added(self, epsilon: float) -> arb:
        """(1 + e^ε) τ."""
        return (1 + arb(epsilon).exp()) * arb(self.total_variation)


@record
class SampledProfile(Profile):
    """The profile of sampled batches, by their accountant or by their worst case, whichever is smaller.

    Parameters
    ----------
    curve : Curve
        The curve of the accountant, capacities included.
    noise_multiplier : float
        σ > 0: standard deviation of the independent noise over the clipping norm.
    worst : GaussianProfile
        The profile of the same run without secret sampling, and without a capacity.
    overflow : float, default 0.0
        The probability that a batch with the example is cut.
    verified : tuple of float, optional
        An ε and a δ that were verified for this run when its noise multiplier was chosen.
    """

    curve: Curve
    noise_multiplier: float
    worst: GaussianProfile
    overflow: float = 0.0
    verified: tuple[float, float] | None = None

    adjacency = "zero-out"

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Whose data may change."""
        return self.worst.unit

    def epsilon_at(self, delta: float) -> float:
        target = checks.real("delta", delta, "(0, 1)")
        if target <= self.overflow:
            return math.inf
        ends = [epsilon_of(self.curve, target, self.noise_multiplier, each).upper for each in DIRECTIONS]
        found = min(max(ends), self.worst.epsilon_at(uncut_delta(target, self.overflow)))
        if self.verified is not None and target >= self.verified[1]:
            found = min(found, self.verified[0])
        return found

    def delta_at(self, epsilon: float) -> float:
        by_sampling = delta_of(self.curve, checks.real("epsilon", epsilon, "[0, inf)"), self.noise_multiplier).upper
        with ctx.workprec(_PRECISION_BITS):
            tau = arb(self.overflow)
            by_order = rounded_up(tau + (1 - tau) * arb(self.worst.delta_at(epsilon)))
        found = min(by_sampling, by_order, 1.0)
        if self.verified is not None and epsilon >= self.verified[0]:
            found = min(found, self.verified[1])
        return found

    @property
    def product(self) -> PoissonCurve | None:
        """The curve, without its capacity, where it is a product of Poisson-sampled steps."""
        curve = self.curve.whole if isinstance(self.curve, CutCurve) else self.curve
        return curve if isinstance(curve, PoissonCurve) else None

    def _over_sigma(self, factors: tuple[Factor, ...], side: float) -> tuple[Factor, ...]:
        """Steps of the product with norms over σ, times ``side`` for rounding."""
        return tuple(replace(each, norm=each.norm / self.noise_multiplier * side) for each in factors)


class TabledProfile(Profile):
    """A profile with bounds of δ alone; ε is found by bisection."""

    def epsilon_at(self, delta: float) -> float:
        target = checks.real("delta", delta, "(0, 1)")
        if self.delta_at(0.0) <= target:
            return 0.0
        if self.delta_at(LARGEST_EPSILON) > target:
            return math.inf
        low, high = 0.0, LARGEST_EPSILON
        while high - low > 1e-7 * (1 + high):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta_at(middle) <= target else (middle, high)
        return high


def table(profile: Profile) -> tuple[Array, Array]:
    """Points of an upper bound of E(ℓ − c)₊, in both directions.

    Parameters
    ----------
    profile : Profile
        Of a run with the likelihood ratio ℓ.

    Returns
    -------
    (array of float, array of float)
        Increasing c >= 0, and the bounds; chords between them are bounds too, and the last bound holds beyond.
    """
    if isinstance(profile, ProductProfile):
        return profile.points
    if isinstance(profile, GaussianProfile) and profile.rho > 0:
        positive = np.linspace(0.0, min(LARGEST_EPSILON, profile.epsilon_at(_NEGLIGIBLE_DELTA)), _FINE_POINTS)
        return _both_sides(positive, gaussian_deltas(np.full(positive.size, profile.rho), positive))
    first, last = 1e-4, LARGEST_EPSILON
    if isinstance(profile, SampledProfile):  # each point takes up to a second
        first, last = 1e-2, max(0.1, min(LARGEST_EPSILON, profile.worst.epsilon_at(_RARE_DELTA)))
    positive = np.concatenate([[0.0], np.geomspace(first, last, _COARSE_POINTS[isinstance(profile, SampledProfile)])])
    return _both_sides(positive, np.array([profile.delta_at(float(x)) for x in positive]))


def _both_sides(positive: Array, deltas: Array) -> tuple[Array, Array]:
    """The table of increasing ε >= 0 and bounds of δ there; E(ℓ − c)₊ = 1 − c + c δ_add(−ln c) for c < 1."""
    above = np.minimum.accumulate(np.minimum(deltas, 1.0))
    below = -np.expm1(-positive[:0:-1]) + np.exp(-positive[:0:-1]) * above[:0:-1]
    ratios = np.concatenate([[0.0], np.exp(-positive[:0:-1]), np.exp(positive)])
    return ratios, np.minimum(np.concatenate([[1.0], below, above]) * (1 + TABLE_ROUNDING), 1.0)


@record
class ProductProfile(TabledProfile):
    """The profile of several runs, from their curves alone; ``compose`` makes it.

    Parameters
    ----------
    first, second : Profile
        Profiles with the same adjacency and unit.
    """

    first: Profile
    second: Profile

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        """The neighbouring data of both."""
        return self.first.adjacency

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Whose data may change in both."""
        return self.first.unit

    @cached_property
    def _law(self) -> tuple[Array, Array, float]:
        """The ratios x of the first run, their weights q x, and ϖ."""
        ratios, bounds = (each[:: max(1, each.size // _MAX_ATOMS)] for each in table(self.first))
        kept = [0]
        for i in range(1, ratios.size):  # the lower convex hull, which is above the curve since the curve is convex
            while len(kept) > 1:
                last, before = kept[-1], kept[-2]
                rise = (bounds[last] - bounds[before]) * (ratios[i] - ratios[before])
                if rise < (bounds[i] - bounds[before]) * (ratios[last] - ratios[before]):
                    break
                kept.pop()
            kept.append(i)
        x, height = ratios[kept], bounds[kept]
        weights = np.diff(np.append(np.diff(height) / np.diff(x), 0.0))
        return x[1:], np.maximum(weights, 0.0) * x[1:], float(height[-1])

    @cached_property
    def _second(self) -> tuple[Array, Array]:
        return table(self.second)

    @cached_property
    def points(self) -> tuple[Array, Array]:
        """The table of the product, for a further one."""
        positive = np.concatenate([np.linspace(0.0, 1.0, 200), np.geomspace(1.0, LARGEST_EPSILON, 800)[1:]])
        return _both_sides(positive, np.array([self.delta_at(float(x)) for x in positive]))

    def delta_at(self, epsilon: float) -> float:
        level = min(checks.real("epsilon", epsilon, "[0, inf)"), LARGEST_EPSILON)
        x, weights, rest = self._law
        ratios, bounds = self._second
        total = float(weights @ np.interp(math.exp(level) / x, ratios, bounds)) + rest
        return min(1.0, total * (1 + SUM_ROUNDING))


@usual_float_errors
def compose(*profiles: Profile) -> Profile:
    """The profile of several runs on the same data.

    The noise multipliers, numbers of steps and kinds of sampling must be fixed before the first release.  Data, models
    and gradients may depend on earlier releases.  The runs use independent randomness.

    Parameters
    ----------
    *profiles : Profile
        At least one, with the same adjacency and unit.

    Returns
    -------
    Profile
        Gaussian if all are Gaussian: their ρ add.  Poisson and cyclic Poisson batches form the product of all steps,
        with Gaussian runs.  Bins and selections are combined by their curves.

    Raises
    ------
    ValueError
        The profiles have different adjacency or units.

    Notes
    -----
    Composition of dominating pairs: Zhu, Dong, Wang (2022), Theorem 10.

    Examples
    --------
    >>> import corrnoise as cn
    >>> first = cn.mechanisms.DPSGD().program(cn.Participation.poisson(500, rate=0.01)).profile(1.0)
    >>> second = cn.mechanisms.DPSGD().program(cn.Participation.poisson(500, rate=0.02)).profile(1.0)
    >>> round(cn.privacy.compose(first, second).epsilon_at(1e-6), 4)
    3.5124
    """
    if not profiles:
        raise ValueError("profiles must be at least one, got none")
    for each in profiles:
        profiles[0].check_same_data(checks.instance("profiles", each, Profile))
    if nearby := [each for each in profiles if isinstance(each, NearbyProfile)]:
        ideal = compose(*(each.ideal if isinstance(each, NearbyProfile) else each for each in profiles))
        return NearbyProfile(ideal, rounded_up(sum((arb(each.total_variation) for each in nearby), arb(0))))
    parts = [each for each in profiles if isinstance(each, GaussianProfile)]
    steps = [each for each in profiles if isinstance(each, SampledProfile) and each.product is not None]
    found = _product(parts, steps) if parts or steps else None
    for each in profiles:
        if each not in parts and each not in steps:
            found = each if found is None else ProductProfile(each, found)
    assert found is not None
    return found


def _product(parts: list[GaussianProfile], steps: list[SampledProfile]) -> Profile:
    """The profile of Gaussian runs, and of products of Poisson-sampled steps."""
    one = (parts or steps)[0]
    with ctx.workprec(_PRECISION_BITS):
        rest = sum((arb(each.rho) for each in parts), arb(0))
        total = rounded_up(rest + sum((arb(each.worst.rho) for each in steps), arb(0)))
        gaussian = GaussianProfile(total, adjacency=one.adjacency, unit=one.unit)
        if not steps:
            return gaussian
        above: tuple[Factor, ...] = ()
        below: tuple[Factor, ...] = ()
        if rest > 0:
            root = (2 * rest).sqrt()
            above, below = (Factor(1.0, rounded_up(root), 1),), (Factor(1.0, -rounded_up(-root), 1),)
    attained = True
    for each in steps:
        assert each.product is not None
        above = each._over_sigma(each.product.above, 1 + 2.0**-51) + above
        below = each._over_sigma(each.product.below, 1 - 2.0**-51) + below
        attained = attained and each.product.attained
    curve: Curve = PoissonCurve(above, below, attained, f"the product of the steps of {len(parts) + len(steps)} runs")
    overflow = math.fsum(each.overflow for each in steps)
    if overflow > 0:
        overflow = min(1.0, math.nextafter(overflow, math.inf))
        curve = CutCurve(curve, overflow, False)
    return SampledProfile(curve, 1.0, gaussian, overflow)
