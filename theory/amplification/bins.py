"""The accountant of balls in bins: each example draws its place in the epoch once, with any correlated noise.

The pair of Theorem 1 is a mixture of b Gaussians with the Gram matrix V = gram/σ².  The upper end of δ is the smallest
of the comparisons from above, the lower end the largest of those from below (``orders``, ``chain``); all are certified,
rounding included.  Cheap comparisons come first, and the chain is left out where they already give nothing above 0.

``redrawn_bins_curve`` is for batches that are drawn anew in each epoch, with independent noise: the ratio is a product.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from corrnoise.theory.amplification.chain import Chain, chains_above, decreasing, promising
from corrnoise.theory.amplification.curve import Bound, Curve, Direction
from corrnoise.theory.amplification.gram import gram
from corrnoise.theory.amplification.orders import (
    Exchangeable,
    from_below,
    holder,
    largest_entry,
    mean_of_logarithms,
    worst_case,
)
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation import Participation

_UNIT = 2.0**-53
_COARSE = {"sums": 150, "states": 48}  #: of chains, to choose one
_SMALL_NODES, _NODES = 120, 800  #: of laws, to choose one and for the result
_SHORTLIST = 2
_CLOSE = 1.01  #: upper over lower end of δ at which no chain is tried


@record
class BinsCurve(Curve):
    """δ of balls in bins.

    Parameters
    ----------
    lower, upper
        Ends of the Gram matrix of the bins, shape (b, b), in units of the squared clip norm.
    attained
        Whether some gradients reach the pair.
    """

    lower: Array
    upper: Array
    attained: bool

    @cached_property
    def _below(self) -> list[Exchangeable]:
        return from_below(self.lower)

    @cached_property
    def _above(self) -> list[Chain]:
        """Chains above the Gram matrix for some gaps."""
        b = self.upper.shape[0]
        gaps = sorted({0, *(b * k // 16 for k in (1, 2, 4, 6))})
        return [chain for gap in gaps for chain in chains_above(decreasing(self.upper, gap))]

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> Bound:
        """A certified bracket of δ; see ``Curve.delta``."""
        upper, comparison = self.upper_end(epsilon, noise_multiplier, direction)
        lower = min(self.lower_end(epsilon, noise_multiplier, direction), upper)
        return Bound(lower, upper, "certified", comparison)

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        """Approximations of both ends of ``delta``."""
        lower, _ = self._coarse_lower(epsilon, noise_multiplier, direction)
        return lower, self.upper_end(epsilon, noise_multiplier, direction)[0]

    def lower_end(self, epsilon: float, noise_multiplier: float, direction: Direction) -> float:
        """The largest lower bound of δ."""
        _, best = self._coarse_lower(epsilon, noise_multiplier, direction)
        return best.delta(epsilon, direction, upper=False, count=_NODES)

    def _coarse_lower(
        self, epsilon: float, noise_multiplier: float, direction: Direction
    ) -> tuple[float, Exchangeable]:
        factor = (1 - 8 * _UNIT) / noise_multiplier**2
        found = [one.scaled(factor) for one in self._below]
        coarse = [one.delta(epsilon, direction, upper=False, count=_SMALL_NODES) for one in found]
        best = int(np.argmax(coarse))
        return coarse[best], found[best]

    def upper_end(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, str]:
        """The smallest upper bound of δ, and the comparison that gives it."""
        factor = (1 + 8 * _UNIT) / noise_multiplier**2
        v = self.upper * factor
        found = [
            (worst_case(v, epsilon), "Gaussian curves, one for each bin"),
            (holder(v, epsilon), "Hölder's inequality")
            if direction == "remove"
            else (mean_of_logarithms(v, epsilon), "the mean of the logarithms"),
        ]
        other = largest_entry(self.upper).scaled(factor)
        found.append((other.delta(epsilon, direction, upper=True, count=_NODES), "K'"))
        best = min(found)
        if best[0] > _CLOSE * self._coarse_lower(epsilon, noise_multiplier, direction)[0]:
            short = promising(self._above, factor, epsilon, direction, _SHORTLIST)
            chain = min(short, key=lambda one: one.delta(epsilon, direction, **_COARSE))
            name = f"chain with λ = {chain.correlation:g} in {chain.length} of {v.shape[0]} bins"
            best = min(best, (chain.delta(epsilon, direction), name))
        return best


def bins_curve(strategy: Any, participation: Participation, column_error: float = 0.0) -> BinsCurve:
    """The accountant of balls in bins.

    Parameters
    ----------
    strategy
        A mechanism: whatever has ``strategy(n)``, ``column_norms(n)`` and ``strategy_error(n)``.
    participation
        Of the kind ``"balls in bins"``.
    column_error
        Bound of the 2-norm of each column of the difference between the strategy that runs and that of ``strategy``.
    """
    found = gram(strategy, participation.length, participation.period, column_error)
    return BinsCurve(found.lower, found.upper, found.attained)
