"""Privacy profiles: δ as a function of ε, for a run, for its first steps, and for several runs on the same data.

*First steps.*  C is lower-triangular, so that the releases of the first t steps are those of the leading block of C,
with the participation cut to t steps and the same noise multiplier.  For the orders this is one Gaussian mechanism;
for sampled batches Theorem 1 of ``docs/amplification-proofs.md`` holds with t steps.  A stop is covered if it is fixed
beforehand, or if it is decided by the releases of Gaussian runs within a fixed total (Koskela, Tobaben, Honkela,
arXiv 2301.05649): the budget of the whole run covers it in any case.

*Composition.*  Runs whose settings are fixed before the first release compose to the product of their pairs, also
where data, models and gradients depend on earlier releases: ρ of Gaussian mechanisms add, and factors of Poisson
sampling form one product.  The runs must use independent randomness.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY

import numpy as np
from flint import arb, ctx

from corrnoise.theory.amplification.accountant import CutCurve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import DIRECTIONS, Curve, delta_of, epsilon_of
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up
from corrnoise.theory.privacy import (
    ADJACENCIES,
    Adjacency,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_rho,
    uncut_delta,
)

_PRECISION_BITS = 128
_TRADEOFF_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 50.0, 120)])


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
            In [0, 1 − α]: the largest bound from 121 values of ε, each of which is valid by itself.

        Notes
        -----
        Dong, Roth, Su (2022), Proposition 2.5.
        """
        level = checks.real("alpha", alpha, "[0, 1]")
        best = 0.0
        for epsilon in map(float, _TRADEOFF_EPSILONS):
            left = 1 - self.delta_at(epsilon)
            best = max(best, left - math.exp(epsilon) * level, math.exp(-epsilon) * (left - level))
        return max(0.0, best - 1e-14)

    def _same_data(self, other: Profile) -> None:
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
    unit = "example"

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

    def factors(self) -> tuple[tuple[Factor, ...], tuple[Factor, ...], bool]:
        """The steps of a product of Poisson-sampled steps, with norms over σ: an upper and a lower pair.

        Returns
        -------
        (tuple of Factor, tuple of Factor, bool)

        Raises
        ------
        ValueError
            The accountant has no product form.
        """
        curve = self.curve.whole if isinstance(self.curve, CutCurve) else self.curve
        if not isinstance(curve, PoissonCurve):
            raise ValueError(
                f"profiles must be Gaussian or of Poisson-sampled steps to compose, got {type(curve).__name__}: the "
                "mixtures of bins are no products of steps; compose the worst case, profile.worst"
            )
        up, down = 1 + 2.0**-51, 1 - 2.0**-51
        above, below = (
            tuple(Factor(each.rate, each.norm / self.noise_multiplier * side, each.count) for each in factors)
            for factors, side in ((curve.above, up), (curve.below, down))
        )
        return above, below, curve.attained


@usual_float_errors
def compose(*profiles: Profile) -> Profile:
    """The profile of several runs on the same data.

    The noise multipliers, numbers of steps and kinds of sampling must be fixed before the first release.  Data, models
    and gradients may depend on earlier releases.  The runs use independent randomness.

    Parameters
    ----------
    *profiles : Profile
        At least one, with the same adjacency and unit: Gaussian runs, and runs with Poisson or cyclic Poisson batches.

    Returns
    -------
    Profile
        Gaussian if all are Gaussian: their ρ add.  Otherwise the product of all steps.

    Raises
    ------
    ValueError
        The profiles have different adjacency or units, or one of them is a mixture of bins.

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
        profiles[0]._same_data(checks.instance("profiles", each, Profile))
    worst = [each.worst if isinstance(each, SampledProfile) else each for each in profiles]
    with ctx.workprec(_PRECISION_BITS):
        total = rounded_up(sum((arb(each.rho) for each in worst), arb(0)))  # type: ignore[attr-defined]
    gaussian = GaussianProfile(total, adjacency=profiles[0].adjacency, unit=profiles[0].unit)
    sampled = [each for each in profiles if isinstance(each, SampledProfile)]
    if not sampled:
        return gaussian
    above: tuple[Factor, ...] = ()
    below: tuple[Factor, ...] = ()
    attained = True
    for each in sampled:
        upper, lower, reached = each.factors()
        above, below, attained = above + upper, below + lower, attained and reached
    with ctx.workprec(_PRECISION_BITS):
        rest = sum((arb(each.rho) for each in profiles if isinstance(each, GaussianProfile)), arb(0))
        if rest > 0:
            above += (Factor(1.0, rounded_up((2 * rest).sqrt()), 1),)
            below += (Factor(1.0, -rounded_up(-((2 * rest).sqrt())), 1),)
    curve: Curve = PoissonCurve(above, below, attained, f"the product of the steps of {len(profiles)} runs")
    overflow = min(1.0, math.nextafter(math.fsum(each.overflow for each in sampled), math.inf))
    if all(each.overflow == 0 for each in sampled):
        overflow = 0.0
    else:
        curve = CutCurve(curve, overflow, False)
    return SampledProfile(curve, 1.0, gaussian, overflow)
