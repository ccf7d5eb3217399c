"""Figure 1 of arXiv 2310.06771: the curves equal the theory's, in time and in frequency."""

import pytest

from corrnoise.figures.correlated_noise import mean_estimation
from corrnoise.figures.correlated_noise.mean_estimation import RATES_SHOWN, error_ratio
from corrnoise.figures.publication import Series
from corrnoise.theory.mechanisms.product import NuFTRL


def by_name(panel: str, kind: str = "exact", **settings: int) -> dict[str, Series]:
    return {s.method: s for s in mean_estimation.data(**settings) if (s.panel, s.kind) == (panel, kind)}


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


@pytest.mark.parametrize("eta", [0.0, -0.1, 1.5, float("nan")])
def test_ratio_refuses_other_learning_rates(eta: float) -> None:
    with pytest.raises(ValueError, match=r"learning_rate must lie in \(0, 1\], got"):
        error_ratio(eta)
