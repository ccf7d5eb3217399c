"""Figure 1 of arXiv 2310.06771: the curves are those of the theory, and the limiting forms hold where they should."""

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import mean_estimation
from corrnoise.figures.correlated_noise.mean_estimation import RATES_SHOWN, asymptotic_ratio, error_ratio
from corrnoise.figures.publication import Series
from corrnoise.theory.mechanisms.product import NuFTRL


def by_name(panel: str, kind: str = "exact", **settings: int) -> dict[str, Series]:
    return {s.method: s for s in mean_estimation.data(**settings) if (s.panel, s.kind) == (panel, kind)}


def test_ratio_increases_to_one() -> None:
    (curve,) = by_name("ratio").values()
    assert curve.x[0] == 1e-6
    assert curve.x[-1] == 1
    assert (np.diff(curve.x) > 0).all()
    assert (np.diff(curve.y) > 0).all()
    assert curve.y[-1] == pytest.approx(1, abs=1e-15)
    eta = curve.x[(curve.x > 0.9) & (curve.x < 1)]
    assert (1 - curve.y[-1 - eta.size : -1]) / ((1 - eta) ** 2 / 2) == pytest.approx(np.ones(eta.size), rel=0.2)


def test_curves_in_time_and_frequency_are_those_of_the_noise() -> None:
    times, frequencies = by_name("coefficients", points=12), by_name("spectrum", points=12)
    for eta in RATES_SHOWN:
        noise = NuFTRL(eta)
        time, frequency = times[f"eta = {eta:g}"], frequencies[f"eta = {eta:g}"]
        assert time.y == pytest.approx(-noise.coefficients(int(time.x[-1]) + 1)[time.x.astype(int)], rel=1e-12)
        assert frequency.y**2 == pytest.approx(noise.power_spectrum(frequency.x), rel=1e-12)
    (limit,) = by_name("spectrum", "asymptotic", points=12).values()
    assert frequency.y[-3:] == pytest.approx(limit.y[-3:], rel=1e-3)
    assert times["eta = 0.1"].x[-1] < times["eta = 0.0001"].x[-1] < mean_estimation.LAST_STEP


def test_the_asymptotic_form_holds_at_zero_only() -> None:
    for eta in (1e-20, 1e-60, 1e-140):
        assert asymptotic_ratio(np.array(eta)) / error_ratio(eta) == pytest.approx(1, abs=5 / -np.log(eta))
    assert asymptotic_ratio(np.array(1.0)) == 0
    assert asymptotic_ratio(np.array(0.99)) < 1e-4 < 0.9999 < error_ratio(0.99)


@pytest.mark.parametrize("eta", [0.0, -0.1, 1.5, float("nan")])
def test_ratio_refuses_other_learning_rates(eta: float) -> None:
    with pytest.raises(ValueError, match=r"learning_rate must lie in \(0, 1\], got"):
        error_ratio(eta)


def test_coefficients_follow_the_limiting_form_until_one_over_eta() -> None:
    limit = by_name("coefficients", "asymptotic")["eta = 0"]
    curve = by_name("coefficients")["eta = 0.0001"]
    before = (curve.x > 50) & (curve.x < 100)
    assert curve.y[before] == pytest.approx(limit.y[: curve.x.size][before], rel=0.02)
    late = curve.x > 1e5 / 2
    assert (curve.y[late] < limit.y[: curve.x.size][late] / 100).all()
