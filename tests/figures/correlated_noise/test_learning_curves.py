"""The figure of learning curves: exact values, simulated block means, gaps, resuming."""

import dataclasses
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.figures.correlated_noise import learning_curves
from corrnoise.figures.correlated_noise.learning_curves import (
    EXACT,
    PANELS,
    RUNS,
    STEPS,
    blocks,
    crossing,
    simulate,
)
from corrnoise.figures.correlated_noise.linear_regression import FTRL, SGD, problem
from corrnoise.figures.publication import Data, Series, SimulatedSeries
from corrnoise.figures.simulation import SimulationRun, largest_allowed_z
from corrnoise.simulations import quadratic as quadratic_problems
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL

Curves = dict[tuple[str, str, str], Series]


@pytest.fixture(scope="module")
def data() -> Data:
    return learning_curves.data()


@pytest.fixture(scope="module")
def curves(data: Data) -> Curves:
    return {(s.panel, s.method, s.kind): s for s in data}


def series(data: Data) -> Iterator[SimulatedSeries]:
    for s in data:
        assert isinstance(s, SimulatedSeries)
        yield s


def test_curves_start_at_the_start_and_end_at_the_stationary_error(curves: Curves) -> None:
    for panel, eta in PANELS.items():
        p = problem(learning_rate=eta)
        for method, noise in ((SGD, DPSGD()), (FTRL, NuFTRL(eta / 128))):
            curve = curves[panel, method, EXACT]
            start, end = sum(1 / k for k in range(1, 129)) / 2, p.stationary_error(noise)
            assert curve.x[0] == 1
            assert curve.x[-1] == STEPS
            assert curve.y[0] == pytest.approx(start, rel=0.04)
            assert curve.y[-1] == pytest.approx(end, rel=1e-3)
            assert curve.y[-1] != pytest.approx(p.lower_bound(noise), rel=1e-2)


def test_the_crossing_is_where_the_order_changes_whatever_the_start(
    data: Data, curves: Curves, monkeypatch: pytest.MonkeyPatch
) -> None:
    for panel in PANELS:
        t, sgd, ftrl = curves[panel, SGD, EXACT].x, curves[panel, SGD, EXACT].y, curves[panel, FTRL, EXACT].y
        first = crossing(data, panel)
        assert first in (5, 6)
        assert ((ftrl < sgd) == (t >= first)).all()
    monkeypatch.setattr(learning_curves, "INITIAL_OFFSET", 0.0)
    assert [crossing(learning_curves.data(), panel) for panel in PANELS] == [crossing(data, p) for p in PANELS]


@pytest.mark.parametrize("steps", [2, 3, 10, 1000, 10_000])
def test_blocks_cover_all_steps_once(steps: int) -> None:
    starts = blocks(steps)
    assert starts[0] == 1
    assert starts[-1] == steps
    assert (np.diff(starts) > 0).all()
    curve = np.random.default_rng(0).normal(size=steps + 3)
    means = [curve[a:b].mean() for a, b in pairwise(starts)]
    assert learning_curves.block_means(curve, starts) == pytest.approx(np.array(means), abs=1e-12)


@pytest.fixture(scope="module")
def simulated() -> Data:
    found, failures = simulate(SimulationRun(effort=0.1))
    assert not failures
    return found


def agrees(data: Data, factor: float = 1.0) -> bool:
    """Whether all block means agree with the exact ones, times ``factor``; a false alarm has probability 0.01."""
    z = np.concatenate([(s.y - factor * s.exact) / s.standard_error for s in series(data)])
    return bool(np.abs(z).max() < largest_allowed_z(z.size, RUNS - 1))


def test_block_means_agree_with_the_exact_curves(simulated: Data, curves: Curves) -> None:
    assert len(simulated) == 4
    assert agrees(simulated)
    for s in series(simulated):
        assert s.x.size == blocks(1000).size - 1
        drawn = curves[s.panel, s.method, EXACT]
        assert s.exact == pytest.approx(np.exp(np.interp(np.log(s.x), np.log(drawn.x), np.log(drawn.y))), rel=0.02)


def test_curves_five_percent_away_or_of_the_other_method_are_rejected(simulated: Data) -> None:
    assert not agrees(simulated, 1.05)
    assert not agrees(simulated, 0.95)
    for panel in PANELS:
        one, other = (s for s in series(simulated) if s.panel == panel)
        assert agrees((one, other))
        for a, b in ((one, other), (other, one)):
            assert not agrees((dataclasses.replace(a, exact=b.exact),))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> SimulationRun:
    monkeypatch.setattr(learning_curves, "RUNS", 3)
    return SimulationRun(effort=0.002)


def test_a_seed_decides_everything(short: SimulationRun, tmp_path: Path) -> None:
    found = simulate(short).data
    assert simulate(dataclasses.replace(short, jobs=3, directory=tmp_path)).data == found
    assert simulate(dataclasses.replace(short, directory=tmp_path)).data == found
    other = simulate(dataclasses.replace(short, seed=1)).data
    assert all((s.y != o.y).all() for s, o in zip(found, other, strict=True))


@pytest.mark.slow
def test_what_fails_is_named_and_left_out(short: SimulationRun, data: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    own, calls = quadratic_problems.simulate_learning_curve, []

    def simulate_some(problem: Any, noise: Any, *arguments: Any, **options: Any) -> Any:
        calls.append(options["rng"])
        if problem.learning_rate == 0.02 or len(calls) == 3:
            raise ValueError("no such\nluck")
        return own(problem, noise, *arguments, **options)

    monkeypatch.setattr(quadratic_problems, "simulate_learning_curve", simulate_some)
    found, failures = simulate(short)
    assert [(s.panel, s.method) for s in found] == [("eta = 0.08", SGD), ("eta = 0.08", FTRL)]
    assert len(failures) == 6 + 1
    assert failures[0].startswith("Noisy-SGD at eta = 0.02, seed ")
    assert all(f.endswith(": ValueError: no such luck") for f in failures)
    learning_curves.draw(data + found).draw_without_rendering()
    assert "simulated markers" in learning_curves.report(data + found)


@pytest.mark.slow
def test_curves_bounds_and_residuals_are_drawn(data: Data, simulated: Data) -> None:
    alone = learning_curves.draw(data)
    alone.draw_without_rendering()
    assert [len(ax.lines) for ax in alone.axes] == [5, 5]  # with the line at the crossing
    figure = learning_curves.draw(data + simulated)
    figure.draw_without_rendering()
    assert [len(ax.containers) for ax in figure.axes] == [2, 2, 2, 2]
    drawn: Any = figure.axes[3].containers[1]
    residuals = drawn.lines[0].get_ydata()
    (last,) = [s for s in series(simulated) if (s.panel, s.method) == ("eta = 0.08", FTRL)]
    assert (residuals == last.z).all()
    assert [ax.get_xlabel() != "" for ax in figure.axes] == [False, False, True, True]
