"""Products of few sampled steps, where the contour would need too many nodes: laws of the likelihood ratio.

The law of 1 − q + q L, L lognormal, bounds each step from above or from below; products are laws again.  Brackets have
a relative width of some 1e-4.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.factors import Factor, gaussian_part, sampled_part
from corrnoise.theory.amplification.laws import Law, combined, lognormal, nodes_of_mean, power
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_LAW_NODES = 800


def bracket_by_laws(
    factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction
) -> tuple[float, float]:
    """A certified bracket of δ.

    Parameters
    ----------
    factors : tuple of Factor
        The product, with some sampled steps.
    epsilon, sigma : float
        As for ``Curve.delta``.
    direction : {"remove", "add"}
        As for ``Curve.delta``.
    """
    lower, upper = (
        _product(sampled_part(factors), sigma, up).delta(
            epsilon, direction, shared=gaussian_part(factors) / sigma**2 * (1 + (8 if up else -8) * UNIT_ROUNDOFF)
        )
        for up in (False, True)
    )
    return max(lower, 0.0), upper


@lru_cache(maxsize=64)
def _product(parts: tuple[Factor, ...], sigma: float, upper: bool) -> Law:
    found: Law | None = None
    log_moment = 0.0
    for part in parts:
        variance = (part.norm / sigma) ** 2 * (1 + (8 if upper else -8) * UNIT_ROUNDOFF)
        excess = math.log1p(part.rate**2 * math.expm1(min(variance, 300.0)))

        def points(log_second: float, variance: float = variance, rate: float = part.rate) -> Array:
            return nodes_of_mean(_LAW_NODES, math.exp(min(log_second, 300.0)), variance, 1 / rate)

        def products(copies: int, excess: float = excess) -> Array:
            return points(copies * excess)

        nothing = Law(np.array([1.0]), np.array([1.0]), 0.0, 0.0, upper)
        weights = (part.rate, 1 - part.rate)
        step = combined(
            lognormal(variance, _LAW_NODES, upper), nothing, points(excess), multiply=False, weights=weights
        )
        whole = power(step, part.count, products)
        log_moment += part.count * excess
        found = whole if found is None else combined(found, whole, points(log_moment), multiply=True)
    assert found is not None
    return found
