"""The accountant of balls in bins: each example draws its place in the epoch once, with any correlated noise.

The pair of Theorem 1 is a mixture of b Gaussians with the Gram matrix V = gram/σ².  The upper end of δ is the smallest
upper bound (``orders``, ``ring``), the lower end the largest lower bound; all comparisons are certified, rounding
included.  Cheap comparisons come first; rings are left out where these are close to the lower end.

``redrawn_bins_curve`` is for batches that are sampled again in each epoch, with independent noise: the ratio is a
product.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from corrnoise.theory.amplification.curve import Curve, DeltaBound, Direction
from corrnoise.theory.amplification.gram import gram
from corrnoise.theory.amplification.laws import Law, combined, lognormal, mean, nodes_of_mean, power
from corrnoise.theory.amplification.orders import (
    Exchangeable,
    from_below,
    holder,
    largest_entry,
    mean_of_logarithms,
    worst_case,
)
from corrnoise.theory.amplification.ring import RingLaw
from corrnoise.theory.amplification.ring_fit import largest_entries, ring_above, ring_shape
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.privacy import gaussian_deltas

_SMALL_LAW_NODES, _LAW_NODES = 120, 1600  #: of laws, to choose one and for the result
_MIN_DELTA = 1e-300  #: of upper ends, where exponentials underflow
_MAX_ENTRY = 200.0  #: largest entry of V with computed laws; δ grows with V
_CLOSE_RATIO = 1.1  #: upper over lower end of δ that needs no ring
_COARSE_RATIO = 1.5  #: δ of K' with few nodes over the smallest one, where more nodes may help
_FIT_GRID = 0.25  #: of ln σ and ln ε, where rings are fitted: δ is then continuous but for a few small steps
_MIN_FIT_EPSILON = 0.05
_MIN_RING_BINS = 8  #: with fewer bins a ring needs many nodes
_MAX_RING_DELTA = 0.1  #: of the other comparisons: above it rings have wide states, and take minutes
_MAX_RING_LEVEL = 1e9  #: e^ε/δ: rounding errors of a ring are some 1e-10 e^ε


@record
class BinsCurve(Curve):
    """δ of balls in bins.

    Parameters
    ----------
    lower, upper : array of float
        Ends of the Gram matrix of the bins, shape (b, b), in units of the squared clip norm.
    attained : bool
        Whether some gradients reach the pair.
    """

    lower: Array
    upper: Array
    attained: bool

    @property
    def resolution(self) -> float:
        return 1e-3

    @cached_property
    def below(self) -> list[Exchangeable]:
        """Comparisons below the lower Gram matrix."""
        return from_below(self.lower)

    @cached_property
    def _entries(self) -> Array:
        """The largest entry of the upper Gram matrix at each cyclic distance."""
        return largest_entries(self.upper)

    def ring(self, epsilon: float, noise_multiplier: float) -> RingLaw:
        """A ring above the Gram matrix, for at least eight bins; see ``delta`` for the arguments."""
        sigma, level = (round(math.log(x) / _FIT_GRID) for x in (noise_multiplier, max(epsilon, _MIN_FIT_EPSILON)))
        factor = (1 + 8 * UNIT_ROUNDOFF) / noise_multiplier**2
        return ring_above(self._entries * factor, self.upper.shape[0], _fitted(self, sigma, level).scaled(factor))

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        """A certified bracket of δ; see ``Curve.delta``."""
        upper, comparison = self.upper_end(epsilon, noise_multiplier, direction)
        upper = max(upper, _MIN_DELTA)
        lower = min(self.lower_end(epsilon, noise_multiplier, direction), upper)
        return DeltaBound(lower, upper, "certified", comparison)

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        """Approximations of both ends of ``delta``."""
        lower = self.lower_end(epsilon, noise_multiplier, direction, exact=False)
        return lower, self.upper_end(epsilon, noise_multiplier, direction, exact=False)[0]

    def lower_end(self, epsilon: float, noise_multiplier: float, direction: Direction, *, exact: bool = True) -> float:
        """The largest lower bound of δ; fewer nodes unless ``exact``."""
        _, best = _coarse_lower(self, epsilon, noise_multiplier, direction)
        return best.delta(epsilon, direction, upper=False, count=_LAW_NODES if exact else _LAW_NODES // 2)

    def upper_end(
        self, epsilon: float, noise_multiplier: float, direction: Direction, *, exact: bool = True
    ) -> tuple[float, str]:
        """The smallest upper bound of δ, and the comparison that gives it; fewer nodes unless ``exact``."""
        factor = (1 + 8 * UNIT_ROUNDOFF) / noise_multiplier**2
        v = self.upper * factor
        found = [(worst_case(v, epsilon), "Gaussian curves, one for each bin")]
        if direction == "remove":
            found.append((holder(v, epsilon), "Hölder's inequality"))
        else:
            found.append((mean_of_logarithms(v, epsilon), "the mean of the logarithms"))
        if v.max() > _MAX_ENTRY:
            return min(found)
        equal = largest_entry(self.upper).scaled(factor)
        found.append((equal.delta(epsilon, direction, upper=True, count=_SMALL_LAW_NODES), "K'"))
        coarse, least = found[-1][0], min(found)[0]
        if self._needs_ring(least, epsilon, noise_multiplier, direction):
            ring = self.ring(epsilon, noise_multiplier)
            value = ring.estimate(epsilon, direction)
            if exact and value < least:
                value = ring.upper(epsilon, direction)
            rates = ", ".join(f"{rate:g}" for rate, a in zip(ring.rates, ring.amplitudes, strict=True) if a > 0)
            found.append((value, f"ring with λ = {rates}"))
        if coarse < _COARSE_RATIO * min(found)[0]:
            count = _LAW_NODES if exact else _LAW_NODES // 2
            found.append((equal.delta(epsilon, direction, upper=True, count=count), "K'"))
        return min(found)

    def _needs_ring(self, least: float, epsilon: float, noise_multiplier: float, direction: Direction) -> bool:
        """Whether a ring may lower the upper end of the run, which is the larger one of both directions."""
        if self.upper.shape[0] < _MIN_RING_BINS or least >= _MAX_RING_DELTA:
            return False
        if math.exp(min(epsilon, 300.0)) >= _MAX_RING_LEVEL * least:
            return False
        if direction == "add" and least <= _coarse_lower(self, epsilon, noise_multiplier, "remove")[0]:
            return False
        return least > _CLOSE_RATIO * _coarse_lower(self, epsilon, noise_multiplier, direction)[0]


@lru_cache(maxsize=64)
def _coarse_lower(
    curve: BinsCurve, epsilon: float, noise_multiplier: float, direction: Direction
) -> tuple[float, Exchangeable]:
    """The best comparison from below, by laws with few nodes, and its lower end of δ."""
    factor = min((1 - 8 * UNIT_ROUNDOFF) / noise_multiplier**2, _MAX_ENTRY / max(float(curve.lower.max()), 1e-300))
    found = [one.scaled(factor) for one in curve.below]
    coarse = [one.delta(epsilon, direction, upper=False, count=_SMALL_LAW_NODES) for one in found]
    best = int(np.argmax(coarse))
    return coarse[best], found[best]


@lru_cache(maxsize=64)
def _fitted(curve: BinsCurve, sigma: int, level: int) -> RingLaw:
    """A ring for σ = 1, chosen at a point of the grid of ln σ and ln ε."""
    variance = math.exp(2 * sigma * _FIT_GRID)
    return ring_shape(curve.upper / variance, math.exp(level * _FIT_GRID)).scaled(variance)


def bins_curve(strategy: Any, steps: int, bins: int, column_error: float = 0.0) -> BinsCurve:
    """The accountant of balls in bins.

    Parameters
    ----------
    strategy : object
        A mechanism: whatever has ``strategy(n)``, ``column_norms(n)`` and ``strategy_error(n)``.
    steps, bins : int
        The length of the run and of an epoch.
    column_error : float, default 0.0
        Bound of the 2-norm of each column of the difference between the strategy that runs and that of ``strategy``.
    """
    found = gram(strategy, steps, bins, column_error)
    return BinsCurve(found.lower, found.upper, found.attained)


# -- redrawn bins ------------------------------------------------------------------------------------------------------


@record
class RedrawnBinsCurve(Curve):
    """δ of bins that each example draws again for each epoch, with independent noise: a product over the epochs.

    Parameters
    ----------
    lower, upper : float
        Ends of the squared column norms of the strategy, over all steps, in units of the squared clip norm.
    steps, bins : int
        The length of the run and of an epoch; an example whose bin is missing in a shorter last epoch is left out.
    attained : bool
        True where the columns have one norm: then gradients reach the pair.
    """

    lower: float
    upper: float
    steps: int
    bins: int
    attained: bool

    @property
    def resolution(self) -> float:
        return 1e-6

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        """A certified bracket of δ; see ``Curve.delta``."""
        below, above = ((1 + sign * 8 * UNIT_ROUNDOFF) / noise_multiplier**2 for sign in (-1, 1))
        lower = redrawn_law(self.lower * below, self.steps, self.bins, _LAW_NODES, upper=False).delta(
            epsilon, direction
        )
        upper = redrawn_law(self.upper * above, self.steps, self.bins, _LAW_NODES, upper=True).delta(epsilon, direction)
        name = "the product of the epochs, by laws of the ratio"
        worst = float(gaussian_deltas(np.array(self.upper * above * -(-self.steps // self.bins) / 2), epsilon))
        if worst < upper:
            upper, name = max(worst, _MIN_DELTA), "one Gaussian curve"
        return DeltaBound(min(lower, upper), upper, "certified", name)


@lru_cache(maxsize=32)
def redrawn_law(variance: float, steps: int, bins: int, count: int, *, upper: bool) -> Law:
    """The law of the product over the epochs of the mean over the bins of independent lognormals."""
    one = lognormal(variance, count, upper)
    excess = math.expm1(min(variance, 300.0))

    def several(copies: int) -> Array:
        return nodes_of_mean(count, 1 + excess / copies, variance, copies)

    def products(epochs: int) -> Array:
        moment = math.exp(min(epochs * math.log1p(excess / bins), 300.0))
        return nodes_of_mean(count, moment, variance, bins)

    epochs, rest = divmod(steps, bins)
    found = power(mean(one, bins, several), epochs, products) if epochs else None
    if rest:
        share = rest / bins
        nothing = Law(np.array([1.0]), np.array([1.0]), 0.0, 0.0, upper)
        last = combined(
            mean(one, rest, several), nothing, several(bins), multiply=False, weights=(share, (bins - rest) / bins)
        )
        found = last if found is None else combined(found, last, products(epochs + 1), multiply=True)
    assert found is not None
    return found


def redrawn_bins_curve(strategy: Any, steps: int, bins: int, column_error: float = 0.0) -> RedrawnBinsCurve:
    """The accountant of bins that are sampled again in each epoch; ``ValueError`` for correlated noise.

    Parameters
    ----------
    strategy : object
        As for ``bins_curve``.
    column_error : float, default 0.0
        As for ``bins_curve``.
    steps, bins : int
        As for ``bins_curve``.
    """
    bands = strategy.bands(steps)
    if bands > 1:
        raise ValueError(
            f"strategy must have one band for redrawn bins, got {bands}: with correlated noise the epochs of an "
            "example are no independent factors; take balls_in_bins, whose bins are drawn once"
        )
    norms = np.asarray(strategy.column_norms(steps), dtype=float)
    least = max(float(norms.min()) - column_error, 0.0) ** 2 * (1 - 8 * UNIT_ROUNDOFF)
    largest = (float(norms.max()) + column_error) ** 2 * (1 + 8 * UNIT_ROUNDOFF)
    equal = bool(norms.min() == norms.max())
    return RedrawnBinsCurve(least, largest, steps, bins, equal)
