"""Poisson sampling: ε by the certified contour integral against privacy loss distributions on a grid.

The other side is dp-accounting with its default grid of 1e-4, where it is installed.  The difference is its error, as
our bracket is certified and narrower; the case states the width of the bracket.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.theory.amplification import contour, curve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import epsilon_of
from corrnoise.theory.amplification.factors import Factor

CASES = (
    (1.0, 0.01, 1024, 1e-6),
    (2.0, 0.16, 64, 1e-6),
    (1.0, 0.01, 10_000, 1e-10),
    (0.5, 1e-4, 1_000_000, 1e-6),
)


@benchmark
def poisson_epsilon(setting: Setting) -> Iterator[Row]:
    """ε of Poisson sampling: the bracket of the contour integral, both ends, against dp-accounting's approximation."""
    if importlib.util.find_spec("dp_accounting") is None:
        return
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    for sigma, rate, steps, delta in setting.pick(CASES, CASES[:2]):
        factors = (Factor(rate, 1.0, steps),)
        pair = PoissonCurve(factors, factors, True, "a product")

        def ours(pair: PoissonCurve = pair, sigma: float = sigma, delta: float = delta) -> tuple[float, float]:
            for cached in (curve._epsilon_of, contour._enclosed, contour.planned):
                cached.cache_clear()
            found = epsilon_of(pair, delta, sigma, "remove")
            return found.lower, found.upper

        def other(rate: float = rate, sigma: float = sigma, steps: int = steps, delta: float = delta) -> float:
            step = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(sigma))
            composed = dp_accounting.SelfComposedDpEvent(step, steps)
            return float(PLDAccountant().compose(composed).get_epsilon(delta))

        low, high = ours()
        yield setting.compare(
            f"σ = {sigma:g}, q = {rate:g}, {steps} steps, δ = {delta:g}, width {high - low:.0e}",
            Side("contour", ours, 1),
            Side("loss distributions", other, 1),
            item="value",
            tolerance=1e-3,
            where=0,
            turns=setting.pick(3, 1),
        )
