"""The simulated markers of Figure 2 of arXiv 2310.06771, in fewer dimensions: agreement, slopes, gaps, resuming."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import linear_regression
from corrnoise.figures.correlated_noise.linear_regression import CURVES, FTRL, SGD, simulate, slope, slope_error
from corrnoise.figures.publication import Data, SimulatedSeries
from corrnoise.figures.simulation import SimulationRun, largest_allowed_z
from corrnoise.simulations.sweeps import running as sweeps

SETTINGS = {
    "dimension": np.array([8, 16, 32]),
    "effective dimension": np.linspace(0.6, 0.4, 3),
    "learning rate": np.array([0.04, 0.08, 0.16]),
}
POINTS = 2 * sum(s.size for s in SETTINGS.values())


@pytest.fixture(autouse=True, scope="module")
def fewer_settings() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_regression, "SETTINGS", SETTINGS)
        patch.setattr(linear_regression.problem, "__defaults__", (64, 1.0, 0.02))
        yield


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulations so short that their values mean nothing, in 12 dimensions if the panel does not say otherwise."""
    monkeypatch.setattr(linear_regression.problem, "__defaults__", (12, 1.0, 0.02))
    monkeypatch.setattr(linear_regression, "_steps", lambda *_: 300)
    monkeypatch.setattr(linear_regression, "CHAINS", 1)
    own = sweeps.simulate
    monkeypatch.setattr(sweeps, "simulate", lambda *a, **k: own(*a, **(k | {"burn_in": 10})))


@pytest.fixture(scope="module")
def simulated(fewer_settings: None) -> Data:
    data, failures = simulate(SimulationRun(effort=0.1))
    assert not failures
    return tuple(data)


def series(data: Data) -> Iterator[SimulatedSeries]:
    for s in data:
        assert isinstance(s, SimulatedSeries)
        yield s


def agrees(data: Data, exact: dict[str, np.ndarray] | None = None, factor: float = 1.0) -> bool:
    """Whether all markers agree with the exact values, times ``factor``; a false alarm has probability 0.01."""
    z = [((s.y - factor * s.exact) / s.standard_error) for s in series(data)]
    return bool(np.abs(np.concatenate(z)).max() < largest_allowed_z(sum(s.x.size for s in data)))


def test_markers_agree_with_the_exact_curves(simulated: Data) -> None:
    assert len(simulated) == len(SETTINGS) * 2 * 2
    assert agrees(simulated)
    for s in series(simulated):
        assert s.x.size == SETTINGS[s.panel].size
        (curve,) = [c for c in linear_regression.data(1) if (c.panel, c.method, c.kind) == (s.panel, s.method, "exact")]
        assert (s.x == curve.x).all()
        assert (s.exact == curve.y).all()


@pytest.mark.parametrize("factor", [1.05, 0.95])
@pytest.mark.parametrize("kind", ["plain", "delta"])
@pytest.mark.parametrize("method", [SGD, FTRL])
def test_values_five_percent_away_are_rejected(method: str, kind: str, factor: float, simulated: Data) -> None:
    chosen = tuple(s for s in simulated if (s.method, s.kind) == (method, kind))
    assert agrees(chosen)
    assert not agrees(chosen, factor=factor)


@pytest.mark.parametrize("kind", ["plain", "delta"])
@pytest.mark.parametrize("method", [SGD, FTRL])
def test_the_linear_part_alone_is_rejected(method: str, kind: str, simulated: Data) -> None:
    (s,) = [s for s in simulated if (s.panel, s.method, s.kind) == ("learning rate", method, kind)]
    linear = np.array([CURVES[method, "linear part"](linear_regression.problem(learning_rate=eta)) for eta in s.x])
    (chosen,) = series((s,))
    assert s.x[-1] == 0.16
    assert abs(chosen.y[-1] - linear[-1]) > 10 * chosen.standard_error[-1]
    assert not agrees((dataclasses.replace(chosen, exact=linear),))


def test_the_control_variate_has_the_smaller_error(simulated: Data) -> None:
    errors = {(s.panel, s.method, s.kind): s.standard_error for s in series(simulated)}
    for panel, method, _ in errors:
        assert (errors[panel, method, "delta"] < errors[panel, method, "plain"]).all()


def test_intervals_of_the_slopes_hold_the_exact_slopes(simulated: Data) -> None:
    allowed = largest_allowed_z(len(simulated))
    rejected = 0
    for s in series(simulated):
        exact = dataclasses.replace(s, y=s.exact)
        assert abs(slope(s) - slope(exact)) < allowed * slope_error(s)
        linear = [
            c for c in linear_regression.data(1) if (c.panel, c.method, c.kind) == (s.panel, s.method, "linear part")
        ]
        rejected += abs(slope(s) - slope(linear[0])) > allowed * slope_error(s)
    assert rejected >= 6  # the dimension hardly changes the feedback


def test_errors_of_slopes_are_those_of_many_repetitions() -> None:
    x, y = SETTINGS["dimension"].astype(float), np.array([1.0, 3.0, 4.0])
    error = 0.01 * y * np.array([1.0, 0.2, 2.0])
    s = SimulatedSeries("dimension", SGD, "plain", x, y, error, y)
    draws = y + error * np.random.default_rng(1).normal(size=(20_000, 3))
    slopes = np.polyfit(np.log(x), np.log(draws.T), 1)[0]
    assert slope(s) == pytest.approx(np.polyfit(np.log(x), np.log(y), 1)[0], abs=1e-12)
    assert slope_error(s) == pytest.approx(slopes.std(), rel=5 / np.sqrt(2 * 20_000))
    assert slope_error(s) != pytest.approx(slopes.std() * 1.05, rel=5 / np.sqrt(2 * 20_000))


def test_repetitions_are_averaged(short: None) -> None:
    once, thrice = simulate(SimulationRun()), simulate(SimulationRun(repeats=3))
    first, mean = next(series(once.data)), next(series(thrice.data))
    assert (mean.exact == first.exact).all()
    assert (mean.y != first.y).all()
    assert linear_regression._average([(1.0, 0.3), (2.0, 0.4)]) == pytest.approx((1.5, 0.25))


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_finished_points_are_not_computed_again(short: None, tmp_path: Path) -> None:
    data = simulate(SimulationRun(tmp_path)).data
    before = stamps(tmp_path)
    assert len(before) == POINTS
    assert simulate(SimulationRun(tmp_path)).data == data
    assert stamps(tmp_path) == before
    removed = min(tmp_path.iterdir())
    removed.unlink()
    assert simulate(SimulationRun(tmp_path)).data == data
    after = stamps(tmp_path)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {removed.name}


def test_points_that_fail_are_named_and_leave_a_gap(short: None, monkeypatch: pytest.MonkeyPatch) -> None:
    own = sweeps.simulate

    def simulate_some(problem: Any, *arguments: Any, **options: Any) -> Any:
        if problem.eigenvalues.size != 16:
            raise ValueError("no such\nluck")
        return own(problem, *arguments, **options)

    monkeypatch.setattr(sweeps, "simulate", simulate_some)
    data, failures = simulate(SimulationRun())
    assert {(s.panel, *s.x) for s in data} == {("dimension", 16)}
    assert len(data) == 4
    assert len(failures) == POINTS - 2
    assert any(f.startswith("Noisy-SGD at learning rate 0.16, seed ") for f in failures)
    assert all(f.endswith("ValueError: no such luck") for f in failures)
    everything = linear_regression.data(1) + data
    linear_regression.draw(everything).draw_without_rendering()
    rows = [x for x in linear_regression.report(everything).splitlines() if x.startswith("  dimension            N")]
    assert rows[0].split()[-2:] == ["-", "-"]


def test_markers_and_deviations_are_drawn(simulated: Data) -> None:
    figure = linear_regression.draw(linear_regression.data(1) + simulated)
    figure.draw_without_rendering()
    above, below = figure.axes[:3], figure.axes[3:]
    assert len(below) == 3
    for ax in (*above, *below):
        markers: list[Any] = [container.lines[0] for container in cast(Any, ax.containers)]
        assert len(markers) == 4  # two methods, two estimators
        assert [line.get_markerfacecolor() for line in markers].count("white") == 2
    drawn = cast(Any, below[2].containers[0]).lines[0].get_ydata()
    first = next(s for s in series(simulated) if s.panel == "learning rate")
    assert drawn == pytest.approx(100 * (first.y / first.exact - 1), abs=1e-9)
    (legend,) = figure.legends
    assert [t.get_text() for t in legend.get_texts()].count("simulated") == 1


def test_report_has_the_slopes_and_the_largest_z(simulated: Data) -> None:
    lines = linear_regression.report(linear_regression.data() + simulated).splitlines()
    (line,) = [x for x in lines if x.split()[:3] == ["learning", "rate", FTRL]]
    cells = line.split()
    assert cells[-5] == cells[-2] == "+-"
    plain = next(s for s in series(simulated) if (s.panel, s.method, s.kind) == ("learning rate", FTRL, "plain"))
    assert float(cells[-6]) == pytest.approx(slope(plain), abs=5.1e-5)
    assert float(cells[-4]) == pytest.approx(1.96 * slope_error(plain), abs=5.1e-5)
    largest = max(float(np.abs(s.z).max()) for s in series(simulated))
    assert any(f"the largest |z| is {largest:.2f}" in x for x in lines)
    assert max(map(len, lines)) <= 120
