"""The price of a search: train K candidates, publish the best alone, where K is random and secret.

Each of K trials draws a candidate by one fixed law and runs a private mechanism; the output with the best score is
published.  Let Q and Q' be the laws of one trial on neighbouring data, ``u(y)`` the probability under Q of a better
output than y, and φ(z) = E z^K.  The winner has the density φ'(1 − u(y)) with respect to Q.

**Theorem.**  With h(u) = min_x (eˣ u + δ(x)), at most 1, where δ is the profile of one trial in both directions, and
ε >= 0, the published output has

    δ_selection(ε) <= E_{Q'} Ψ(dQ/dQ'),    Ψ(ℓ) = max(0, sup_u (φ'(1 − u) ℓ − e^ε φ'(1 − h(u)))).

*Proof.*  Ties are broken by an independent uniform label.  With v(y) the probability under Q' of a better output, the
published laws differ by ∫ (φ'(1 − u) dQ − e^ε φ'(1 − v) dQ')₊ at most; nothing is published with the same probability
P(K = 0) under both.  The set of better outputs gives v <= eˣ u + δ(x) for every x, by the definition of differential
privacy, so that v <= h(u), and φ' increases.  ∎

Ψ is convex and piecewise linear, Ψ(ℓ) = Σ s_j (ℓ − c_j)₊, so that its mean is Σ s_j δ(ln c_j): profiles are enough, and
upper bounds of them.  Here u runs over cells, with u at the left end and h(u) at the right end; δ is convex in eˣ, and
chords are above it.  So the result is an upper bound for every choice of cells and of values x.

With x = 0 replaced by one x for all u, this is Koskela, Redberg, Wang (arXiv 2402.06701); in Rényi divergences it is
Papernot, Steinke (arXiv 2110.03620), whose laws of K are used here.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property, lru_cache

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Adjacency, Budget
from corrnoise.theory.profile import (
    LARGEST_EPSILON,
    SUM_ROUNDING,
    TABLE_ROUNDING,
    GaussianProfile,
    NearbyProfile,
    Profile,
    TabledProfile,
    table,
)

#: of u, the probability of a better output
_CELLS = np.unique(np.concatenate([[0.0], np.geomspace(1e-16, 1.0, 4800), np.linspace(0.0, 1.0, 4001)]))


class Trials(Record, ABC):
    """The law of the number of trials K, which must stay secret.

    ``Trials.negative_binomial(mean, shape)``, ``Trials.poisson(mean)`` and ``Trials.binomial(count, probability)`` make
    one.  A smaller shape costs less privacy and finds a good candidate less surely.

    Examples
    --------
    >>> import corrnoise as cn
    >>> trials = cn.privacy.Trials.negative_binomial(10)
    >>> one = cn.privacy.GaussianProfile(cn.privacy.gaussian_rho(1.0, 1e-6))
    >>> print(f"{cn.privacy.selection(one, trials).epsilon_at(1e-6):.2f}")  # one trial alone has 1
    1.39
    """

    mean: float  #: E K, the expected number of trials

    @abstractmethod
    def slope(self, better: Array) -> Array:
        """φ'(1 − u) of the generating function φ(z) = E z^K, a decreasing function of u.

        Parameters
        ----------
        better : array of float
            u in [0, 1].

        Returns
        -------
        array of float
        """

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> int:
        """A number of trials.

        Parameters
        ----------
        rng : Generator
            Its seed is as secret as K.

        Returns
        -------
        int
        """

    @staticmethod
    def negative_binomial(mean: float, shape: float = 0.0) -> Trials:
        """K >= 1 with P(K = k) proportional to the binomial coefficient of k + shape − 1 and k, times (1 − γ)^k.

        Parameters
        ----------
        mean : float
            E K > 1.
        shape : float, default 0.0
            η > −1; 1 is the geometric law, 0 the logarithmic one.

        Returns
        -------
        Trials
        """
        return NegativeBinomialTrials(mean, shape)

    @staticmethod
    def poisson(mean: float) -> Trials:
        """K of a Poisson law, which may be 0: then nothing is published.

        Parameters
        ----------
        mean : float
            E K > 0.

        Returns
        -------
        Trials
        """
        return PoissonTrials(mean)

    @staticmethod
    def binomial(count: int, probability: float) -> Trials:
        """K of a binomial law, which may be 0: then nothing is published.

        Parameters
        ----------
        count : int
            n >= 1.
        probability : float
            0 < p <= 1; 1 for a fixed number of trials.

        Returns
        -------
        Trials
        """
        return BinomialTrials(count, probability)


@record
class NegativeBinomialTrials(Trials):
    """See ``Trials.negative_binomial``; the parameters are its parameters."""

    mean: float
    shape: float = 0.0

    def __post_init__(self) -> None:
        self._set(mean=checks.real("mean", self.mean, "(1, 1e4]"), shape=checks.real("shape", self.shape, "(-1, 20]"))

    @cached_property
    def gamma(self) -> float:
        """γ in (0, 1), where the mean is the stated one."""
        low, high = math.log(1e-300), -1e-16
        for _ in range(200):
            middle = (low + high) / 2
            low, high = (middle, high) if _mean_of(math.exp(middle), self.shape) > self.mean else (low, middle)
        return math.exp(high)

    def slope(self, better: Array) -> Array:
        gamma = self.gamma
        largest = _mean_of(gamma, self.shape)
        return np.asarray(largest * (1 + (1 - gamma) / gamma * np.asarray(better)) ** (-self.shape - 1))

    def draw(self, rng: np.random.Generator) -> int:
        gamma, shape, target = self.gamma, self.shape, rng.random()
        count, weight = 1, _first_weight(gamma, shape)
        total = weight
        while total < target and weight > 1e-300:
            weight *= (1 - gamma) * (count + shape) / (count + 1)
            count += 1
            total += weight
        return count


def _first_weight(gamma: float, shape: float) -> float:
    """P(K = 1)."""
    if shape == 0:
        return (1 - gamma) / -math.log(gamma)
    return shape * (1 - gamma) / math.expm1(-shape * math.log(gamma))


def _mean_of(gamma: float, shape: float) -> float:
    """E K of the truncated negative binomial law."""
    if shape == 0:
        return (1 - gamma) / gamma / -math.log(gamma)
    return shape * (1 - gamma) / gamma / -math.expm1(shape * math.log(gamma))


@record
class PoissonTrials(Trials):
    """See ``Trials.poisson``; the parameter is its parameter."""

    mean: float

    def __post_init__(self) -> None:
        self._set(mean=checks.real("mean", self.mean, "(0, 1e4]"))

    def slope(self, better: Array) -> Array:
        return np.asarray(self.mean * np.exp(-self.mean * np.asarray(better)))

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.poisson(self.mean))


@record
class BinomialTrials(Trials):
    """See ``Trials.binomial``; the parameters are its parameters."""

    count: int
    probability: float

    def __post_init__(self) -> None:
        self._check(count=1, probability="(0, 1]")

    @property
    def mean(self) -> float:  # type: ignore[override]
        return self.count * self.probability

    def slope(self, better: Array) -> Array:
        return np.asarray(self.mean * (1 - self.probability * np.asarray(better)) ** (self.count - 1))

    def draw(self, rng: np.random.Generator) -> int:
        return int(rng.binomial(self.count, self.probability))


@record
class SelectionProfile(TabledProfile):
    """The profile of the best of several trials; ``selection`` makes it.

    Parameters
    ----------
    trial : Profile
        The profile of one trial, for every candidate.
    trials : Trials
        The law of the number of trials.
    """

    trial: Profile
    trials: Trials

    @property
    def adjacency(self) -> Adjacency:  # type: ignore[override]
        """The neighbouring data of a trial."""
        return self.trial.adjacency

    @property
    def unit(self) -> str:  # type: ignore[override]
        """Whose data may change in a trial."""
        return self.trial.unit

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        return table(self.trial)

    @cached_property
    def _lines(self) -> tuple[Array, Array]:
        """For each cell φ'(1 − u), rounded up, and φ'(1 − h(u)), rounded down."""
        ratios, deltas = (each[:: max(1, each.size // 800)] for each in self._table)  # any of them give an upper bound
        ends = np.full(_CELLS.size - 1, 1.0)
        for ratio, delta in zip(ratios.tolist(), deltas.tolist(), strict=True):
            np.minimum(ends, ratio * _CELLS[1:] + delta, out=ends)
        slopes = self.trials.slope(_CELLS[:-1]) * (1 + TABLE_ROUNDING)
        return slopes, self.trials.slope(np.minimum(ends * (1 + TABLE_ROUNDING), 1.0)) * (1 - TABLE_ROUNDING)

    def delta_at(self, epsilon: float) -> float:
        level = checks.real("epsilon", epsilon, "[0, inf)")
        if isinstance(self.trial, GaussianProfile) and self.trial.rho == 0:  # the laws are equal
            return 0.0
        level = min(level, LARGEST_EPSILON)
        ratios, deltas = self._table
        slopes, heights = self._lines
        corners, rises = envelope(slopes, math.exp(level) * heights)
        total = float(rises @ np.interp(corners, ratios, deltas)) * (1 + SUM_ROUNDING)
        return min(1.0, total)


def envelope(slopes: Array, heights: Array) -> tuple[Array, Array]:
    """Corners c_j and rises s_j >= 0 of max(0, max_i slope_i ℓ − height_i) = Σ s_j (ℓ − c_j)₊ for ℓ >= 0.

    Every height is positive.  The lines of the upper envelope are found in the order of their slopes.
    """
    order = np.lexsort((-heights, slopes))
    kept: list[tuple[float, float, float]] = [(0.0, 0.0, 0.0)]  # slope, height, and where the line begins
    for slope, height in zip(slopes[order].tolist(), heights[order].tolist(), strict=True):
        while kept and slope <= kept[-1][0] and height <= kept[-1][1] and len(kept) > 1:
            kept.pop()
        while True:
            last = kept[-1]
            if slope <= last[0]:
                start = math.inf
                break
            start = (height - last[1]) / (slope - last[0])
            if start > last[2] or len(kept) == 1:
                break
            kept.pop()
        if math.isfinite(start):
            kept.append((slope, height, max(start, 0.0)))
    lines = np.array(kept)
    return lines[1:, 2], np.diff(lines[:, 0])


@usual_float_errors
def selection(trial: Profile, trials: Trials) -> Profile:
    """The privacy of publishing the best of a random number of trials.

    Parameters
    ----------
    trial : Profile
        The profile of one trial, valid for every candidate; scores come from public data, or are a part of the output.
    trials : Trials
        The law of the number of trials, which is drawn once and stays secret.

    Returns
    -------
    Profile
        An upper bound, for the winner's output and its index.

    Notes
    -----
    Each trial draws its candidate independently by one fixed law: a search that looks at earlier scores is not covered.

    Examples
    --------
    >>> import corrnoise as cn
    >>> one = cn.privacy.GaussianProfile(cn.privacy.gaussian_rho(2.0, 1e-6))
    >>> geometric = cn.privacy.Trials.negative_binomial(10, shape=1)
    >>> print(f"{cn.privacy.selection(one, geometric).epsilon_at(1e-6):.2f}")
    2.90
    """
    law = checks.instance("trials", trials, Trials)
    if isinstance(trial, NearbyProfile):  # the trials that are run differ with probability E K τ at most
        return NearbyProfile(SelectionProfile(trial.ideal, law), math.nextafter(law.mean * trial.total_variation, 1.0))
    return SelectionProfile(checks.instance("trial", trial, Profile), law)


@usual_float_errors
def trial_budget(budget: Budget, trials: Trials) -> Budget:
    """The largest budget of one Gaussian trial such that the whole selection keeps its budget.

    Parameters
    ----------
    budget : Budget
        ε and δ of everything that is published; its clipping norm and adjacency pass to the trials.
    trials : Trials
        The law of the number of trials.

    Returns
    -------
    Budget
        ρ of one trial, within 1e-6 of the largest one.

    Raises
    ------
    ValueError
        The budget is not given by epsilon and delta, or too small for any trial.

    Examples
    --------
    >>> import corrnoise as cn
    >>> whole = cn.Budget(epsilon=2.0, delta=1e-6)
    >>> one = cn.privacy.trial_budget(whole, cn.privacy.Trials.negative_binomial(10))
    >>> print(f"{one.epsilon_at(1e-6):.2f}")
    1.44
    """
    if checks.instance("budget", budget, Budget).epsilon is None:
        raise ValueError(f"budget must be given by epsilon and delta for a selection, got rho={budget.rho!r}")
    return _trial_budget(budget, checks.instance("trials", trials, Trials))


@lru_cache(maxsize=64)
def _trial_budget(budget: Budget, trials: Trials) -> Budget:
    high = math.log(budget.gaussian_rho)
    low = high - 20.0  # of ln ρ

    def fits(log_rho: float) -> bool:
        assert budget.epsilon is not None
        assert budget.delta is not None
        found = selection(GaussianProfile(math.exp(log_rho)), trials).delta_at(budget.epsilon)
        return found < budget.delta  # which leaves room for proved noise

    if not fits(low):
        raise ValueError(f"budget must leave room for a trial, got {budget!r} with {trials!r}; take fewer trials")
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return replace(budget, rho=math.exp(low), epsilon=None, delta=None)
