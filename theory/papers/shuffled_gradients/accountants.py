"""Accountants of shuffled gradient methods: from the noise of the steps to (ε, δ), and back.

Every accountant bounds the released iterates by a mixture of Gaussian mechanisms: with probability p_m the record
stands where its amplification sum is A_m, and then the run hides it like one Gaussian mechanism of zCDP budget
ρ_m = 2 A_m/z², where z = σ/G is the noise multiplier.  That is for replace-one adjacency, where 2G is the sensitivity
of a step.  For zero-out adjacency it is G, so that z/2 gives the same budget.

=============================  ========================================================================================
accountant                     method
=============================  ========================================================================================
``"per-step"``                 composes all steps that use the record: A is the number of epochs that do; needs nothing
                               of the losses
``"per-epoch"``                the published accounting (Lemmas E.2, F.2): composes epochs, with amplification by
                               iteration within each; plain composition where the noise after the worst position is one
                               draw (DP-ShuffleG, Priv-Pub, Pub-Priv)
``"epochs reshuffled"``        Lemma E.3 composed over the epochs: within each, the average over the positions of a
                               fresh secret permutation
``"epochs shuffled once"``     the average over the positions of one secret permutation of what composed epochs reveal
``"whole-run"``                amplification by iteration across epochs, for any order: proximal maps of convex
                               functions are nonexpansive
``"whole-run reshuffled"``     the same, averaged over the last position of a secret permutation that is fresh in each
                               epoch, earlier positions at their worst
``"whole-run shuffled once"``  the same, averaged over the positions of one secret permutation
=============================  ========================================================================================

``corrnoise.theory.papers.shuffled_gradients.run`` says which of them hold for a run.

Source: Jiang, Sharma, Wu and Joshi, 2026: Section 4, Theorem C.9, Lemmas E.2, E.3 and F.2.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from corrnoise.theory import privacy
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.amplification import (
    StepFactors,
    composed_amplification_sum,
    epoch_amplification_sums,
    reshuffled_amplification_sums,
    shuffled_once_amplification_sums,
    worst_amplification_sum,
)
from corrnoise.theory.papers.shuffled_gradients.schedules import Schedule

Method = Literal[
    "per-step",
    "per-epoch",
    "epochs reshuffled",
    "epochs shuffled once",
    "whole-run",
    "whole-run reshuffled",
    "whole-run shuffled once",
]
Conversion = Literal["gaussian", "zcdp", "published"]
METHODS: tuple[Method, ...] = get_args(Method)
CONVERSIONS: tuple[str, ...] = get_args(Conversion)

_MIN_PROBABILITY = 1e-300  #: what underflows is not 0
_MIN_MULTIPLIER, _MAX_MULTIPLIER = 1e-100, 1e100  #: noise multipliers
_RELATIVE_ROUNDING = 1e-12  #: relative, of sums and of probabilities
_SAFETY_MARGIN = 1e-9  #: relative, on the safe side: covers the rounding of sums and logarithms
_ORDER_ERROR = 1e-6  #: relative error of the best order less 1, which enters the result squared


@record
class Accountant(Record):
    """A mixture of Gaussian mechanisms: budgets ρ_m = 2 A_m/z² with probabilities p_m, z the noise multiplier σ/G.

    Adjacency is replace-one; for zero-out adjacency z/2 takes the place of z.
    """

    sums: Array  #: amplification sums A_m >= 0, shape (M,); ``inf`` where no noise follows
    probabilities: Array  #: p_m in [0, 1], shape (M,), with sum 1 up to rounding
    #: number >= 1 of times the mixture is composed with itself (fresh permutations of composed epochs)
    compositions: int = 1

    def __init__(self, sums: ArrayLike, probabilities: ArrayLike, compositions: int = 1) -> None:
        self._set(
            sums=_possibly_infinite("sums", sums),
            probabilities=checks.vector("probabilities", probabilities, "[0, 1]"),
            compositions=checks.integer("compositions", compositions, 1),
        )
        checks.same_length("sums", self.sums, "probabilities", self.probabilities)
        total = math.fsum(self.probabilities)
        if abs(total - 1) > _RELATIVE_ROUNDING:
            raise ValueError(f"probabilities must have the sum 1, got {total!r}")

    def _budgets(self, noise_multiplier: float) -> Array:
        z = checks.real("noise_multiplier", noise_multiplier, f"[{_MIN_MULTIPLIER}, {_MAX_MULTIPLIER}]")
        with np.errstate(over="ignore"):
            budgets = 2 * self.sums / z / z * (1 + _RELATIVE_ROUNDING)  # on the safe side
        return np.maximum(budgets, np.where(self.sums > 0, _MIN_PROBABILITY, 0.0))

    @property
    def _single(self) -> bool:
        """Whether this is one Gaussian mechanism, which composed with itself is one again."""
        return self.sums.size == 1

    def renyi_divergence(self, order: float, noise_multiplier: float) -> float:
        """An upper bound of the Rényi divergence D_α between the outputs on neighbouring data, α = ``order`` > 1.

        log(Σ p_m e^{(α − 1) α ρ_m})/(α − 1), by joint convexity (Lemma E.3), times the compositions.
        """
        alpha = checks.real("order", order, "(1, inf)")
        return float(self._renyi(np.array([alpha - 1]), self._budgets(noise_multiplier))[0])

    def _renyi(self, a: Array, budgets: Array) -> Array:
        """At the orders 1 + a, shape of ``a``."""
        if self._single:
            return np.asarray(self.compositions * (1 + a) * budgets[0])
        exponents = a[:, np.newaxis] * (1 + a[:, np.newaxis]) * budgets
        # Σ p (e^x − 1) keeps its digits for small x; beyond that the logarithm of the sum is taken whole.
        small = exponents.max(axis=1) < 1
        with np.errstate(over="ignore"):
            gain = np.log1p((self.probabilities * np.expm1(np.minimum(exponents, 2))).sum(axis=1))
        whole = special.logsumexp(exponents, axis=1, b=self.probabilities)
        return np.asarray(self.compositions * np.where(small, gain, whole) / a)

    def zcdp(self, noise_multiplier: float) -> float:
        """The zCDP budget ρ that the run spends at most, at the worst position."""
        return self.compositions * float(self._budgets(noise_multiplier).max())

    def noise_multiplier_of_zcdp(self, rho: float) -> float:
        """The noise multiplier z = σ/G of a run that spends at most the zCDP budget ρ > 0, never too small."""
        budget = checks.real("rho", rho, "(0, inf)")
        return math.sqrt(2 * self.compositions * float(self.sums.max()) / budget) * (1 + _SAFETY_MARGIN)

    def delta(self, epsilon: float, *, noise_multiplier: float) -> float:
        """A δ such that the released iterates are (ε, δ)-DP: Σ p_m δ_m(ε) of the Gaussian mechanisms, rounded up.

        The hockey-stick divergence is jointly convex.  Of composed mixtures no curve is known: use ``epsilon`` with the
        conversion ``"zcdp"``.
        """
        epsilon = checks.real("epsilon", epsilon, "[0, inf)")
        budgets = self._budgets(noise_multiplier)
        if not self.has_curve:
            raise ValueError(f"compositions must be 1 for the delta of a mixture, got {self.compositions}")
        if np.isinf(budgets).any():
            return 1.0
        if self._single:
            rho = self.zcdp(noise_multiplier)
            return privacy.gaussian_delta(rho, epsilon) if rho > 0 else 0.0
        total = float((self.probabilities * privacy.gaussian_deltas(budgets, epsilon)).sum())
        return min(total * (1 + _SAFETY_MARGIN) + _MIN_PROBABILITY, 1.0)

    @property
    def has_curve(self) -> bool:
        """Whether the curves of Gaussian mechanisms bound this one's."""
        return self._single or self.compositions == 1

    def _conversion(self, conversion: Conversion) -> str:
        """One of ``CONVERSIONS`` that applies."""
        choice = checks.choice("conversion", conversion, CONVERSIONS)
        if choice == "gaussian" and not self.has_curve:
            raise ValueError("conversion must be 'zcdp' or 'published' for composed mixtures, got 'gaussian'")
        return choice

    def epsilon(self, delta: float, *, noise_multiplier: float, conversion: Conversion = "gaussian") -> float:
        """The ε such that the released iterates are (ε, δ)-DP, never too small.

        The ``conversion`` is ``"gaussian"``, by the curves of the Gaussian mechanisms (shifted interpolation),
        ``"zcdp"``, from the Rényi divergences, at the best order (Canonne, Kamath and Steinke), or ``"published"``:
        ``published_epsilon`` of the zCDP budget.
        """
        delta = checks.real("delta", delta, "(0, 1)")
        choice = self._conversion(conversion)
        rho = self.zcdp(noise_multiplier)
        if rho in (0, math.inf):
            return rho
        if choice == "published":
            return published_epsilon(rho, delta)
        if self._single:
            convert = privacy.zcdp_to_approx_dp if choice == "zcdp" else privacy.gaussian_epsilon
            return convert(rho, delta)
        if choice == "zcdp":
            return self._epsilon_by_renyi(self._budgets(noise_multiplier), delta)
        top = privacy.gaussian_epsilon(rho, delta)
        if self.delta(0.0, noise_multiplier=noise_multiplier) <= delta:
            return 0.0
        low = 0.0
        high = top
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            low, high = (
                (low, middle) if self.delta(middle, noise_multiplier=noise_multiplier) <= delta else (middle, high)
            )
        return high

    def _epsilon_by_renyi(self, budgets: Array, delta: float) -> float:
        """Minimum over orders α = 1 + a of D_α + log(1 − 1/α) − (log δ + log α)/(α − 1), rounded up.

        With Λ = a D it lies where a Λ′ − Λ + log(1 + a) = log(1/δ).  The left side grows, for Λ, the logarithm of a sum
        of exponentials of convex functions, is convex; so the order is found by bisection.  Any order gives a bound.

        D/α grows in α from the mean ρ̄ of the budgets to the largest, ρ̂, so that ρ̄ <= D′ <= ρ̂ (3 + 1/a) and
        a² D′ = a Λ′ − Λ.  Hence log α <= log(1/δ) and a² ρ̄ <= log(1/δ), and either log α >= log(1/δ)/2 or
        (3a² + a) ρ̂ >= log(1/δ)/2: the order lies nowhere else.
        """
        cost = -math.log(delta)
        mean, largest = (
            max(self.compositions * float(rho), _MIN_PROBABILITY)
            for rho in (self.probabilities @ budgets, budgets.max())
        )
        half = cost / (2 * largest)
        low = max(min(math.expm1(cost / 2), 2 * half / (1 + math.sqrt(1 + 12 * half))), _MIN_PROBABILITY)
        high = max(min(math.expm1(min(cost, 700.0)), math.sqrt(cost / mean)), low)
        while high / low - 1 > _ORDER_ERROR:
            middle = math.sqrt(low) * math.sqrt(high)
            beyond = self._excess(middle, budgets) + math.log1p(middle) > cost
            low, high = (low, middle) if beyond else (middle, high)
        a = low
        terms = [float(self._renyi(np.array([a]), budgets)[0]), -math.log1p(1 / a), cost / a, -math.log1p(a) / a]
        epsilon = math.fsum(terms) + _RELATIVE_ROUNDING * math.fsum(map(abs, terms))
        return max(epsilon * (1 + _SAFETY_MARGIN), 0.0)

    def _excess(self, a: float, budgets: Array) -> float:
        """A Λ′(a) − Λ(a) for Λ(a) = log Σ p_m e^{a (1 + a) ρ_m}, times the compositions."""
        exponents = a * (1 + a) * budgets
        weights = self.probabilities * np.exp(exponents - exponents.max())
        slope = a * (1 + 2 * a) * float(weights @ budgets) / float(weights.sum())
        return self.compositions * slope - a * float(self._renyi(np.array([a]), budgets)[0])

    def noise_multiplier(self, *, epsilon: float, delta: float, conversion: Conversion = "gaussian") -> float:
        """The noise multiplier z = σ/G that makes the released iterates (ε, δ)-DP, never too small.

        Relative excess below 1e-8, where z lies in [1e-100, 1e100].  ``inf`` where no noise suffices, or none whose
        budget is a positive float.
        """
        epsilon, delta = checks.real("epsilon", epsilon, "(0, inf)"), checks.real("delta", delta, "(0, 1)")
        choice = self._conversion(conversion)
        if np.isinf(self.sums).any():
            return math.inf
        if self.sums.max() == 0:
            return 0.0
        largest = self.compositions * float(self.sums.max())
        rho_of = {"gaussian": privacy.gaussian_rho, "zcdp": privacy.approx_dp_to_zcdp, "published": published_rho}
        rho = rho_of[choice](epsilon, delta)
        worst = math.sqrt(2 * largest / rho) * (1 + _SAFETY_MARGIN) if rho > 0 else math.inf
        if self._single or choice == "published" or not _MIN_MULTIPLIER < worst < _MAX_MULTIPLIER:
            return worst

        def suffices(z: float) -> bool:
            if choice == "gaussian":
                return self.delta(epsilon, noise_multiplier=z) <= delta
            return self.epsilon(delta, noise_multiplier=z, conversion=conversion) <= epsilon

        high = worst
        factor = 2.0
        low = max(high / factor, _MIN_MULTIPLIER)
        while suffices(low):
            if low == _MIN_MULTIPLIER:
                return low
            high, factor = low, factor**2
            low = max(high / factor, _MIN_MULTIPLIER)
        while high / low - 1 > 1e-9:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if suffices(middle) else (middle, high)
        return high


def published_epsilon(rho: float, delta: float) -> float:
    """The published ε = ρ + 2 sqrt(ρ log(1/δ)) such that a ρ-zCDP mechanism is (ε, δ)-DP, never too small.

    That is Proposition C.4 at its best order, 1 + sqrt(log(1/δ)/ρ).  ``corrnoise.theory.privacy`` has sharper ones.
    """
    budget = checks.real("rho", rho, "[0, inf)")
    log = -math.log(checks.real("delta", delta, "(0, 1)"))
    return (budget + 2 * math.sqrt(budget) * math.sqrt(log)) * (1 + _RELATIVE_ROUNDING)


def published_rho(epsilon: float, delta: float) -> float:
    """The ρ with the ``published_epsilon`` ε >= 0 at 0 < δ < 1, never too large.

    It is (sqrt(log(1/δ) + ε) − sqrt(log(1/δ)))², without its cancellation.
    """
    budget = checks.real("epsilon", epsilon, "[0, inf)")
    log = -math.log(checks.real("delta", delta, "(0, 1)"))
    return (budget / (math.sqrt(log + budget) + math.sqrt(log))) ** 2 * (1 - _RELATIVE_ROUNDING)


def _possibly_infinite(name: str, values: ArrayLike) -> Array:
    """``values`` as a read-only vector with entries in [0, inf], both ends included."""
    given = np.asarray(values, dtype=object)
    infinite = given == math.inf
    array = np.where(infinite, math.inf, checks.vector(name, np.where(infinite, 0.0, given).tolist(), "[0, inf]"))
    array.setflags(write=False)
    return array


def accountant_of_nonexpansive_steps(
    schedule: Schedule, method: Method, *, reshuffled: bool, factors: StepFactors
) -> Accountant:
    """The accountant ``method`` of a run whose steps never expand; ``ShuffledGradients.accountant`` checks that.

    ``reshuffled`` says that the private records may stand elsewhere in each epoch.
    """
    checks.boolean("reshuffled", reshuffled)
    match checks.choice("method", method, METHODS):
        case "per-step":
            return _worst(per_step_sum(schedule))
        case "per-epoch":
            return _worst(composed_amplification_sum(schedule, factors=factors, reshuffled=reshuffled))
        case "epochs reshuffled":
            return _composed(schedule, factors)
        case "epochs shuffled once":
            return _uniform(epoch_amplification_sums(schedule, factors=factors))
        case "whole-run":
            return _worst(worst_amplification_sum(schedule, factors=factors, reshuffled=reshuffled))
        case "whole-run reshuffled":
            return _uniform(reshuffled_amplification_sums(schedule, factors=factors))
        case _:
            return _uniform(shuffled_once_amplification_sums(schedule, factors=factors))


def _composed(schedule: Schedule, factors: StepFactors) -> Accountant:
    """Private epochs, each the same mixture over the positions of its own permutation."""
    counts = schedule.private[schedule.private > 0]
    if np.unique(counts).size > 1:
        raise ValueError(
            "schedule must have the same number of private records in every private epoch for 'epochs reshuffled', "
            f"got {counts.min()} to {counts.max()}"
        )
    if counts.size == 0:
        return _worst(0.0)
    epoch = Schedule(schedule.samples, counts[:1], schedule.placement)
    return _uniform(epoch_amplification_sums(epoch, factors=factors), counts.size)


def per_step_sum(schedule: Schedule) -> float:
    """The number of epochs that use a record; ``inf`` unless each step that may use it adds its own noise."""
    used = 0
    for count in checks.instance("schedule", schedule, Schedule).private.tolist():
        if count and not schedule.noisy_steps(count)[:count].all():
            return math.inf
        used += count > 0
    return float(used)


def _worst(amplification: float) -> Accountant:
    return Accountant(np.array([amplification]), np.ones(1))


def _uniform(sums: Array, compositions: int = 1) -> Accountant:
    """The mixture over equally likely positions, equal ones merged."""
    values, counts = np.unique(sums, return_counts=True)
    return Accountant(values, counts / sums.size, compositions)
