"""The benchmarks in their quick setting: numbers agree, ratios are there, and a wrong side is caught.  No time is
asserted; where the harness itself is tested the clock is a fake.
"""

import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _checkout_on_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        for library in ("OPENBLAS", "OMP", "MKL"):  # set by the benchmarks on import; undone after this file
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def core():
    module = importlib.import_module("benchmarks.core")
    module.load()
    return module


@pytest.fixture(scope="module")
def timing():
    return importlib.import_module("benchmarks.timing")


@pytest.fixture(scope="module")
def command():
    return importlib.import_module("benchmarks.__main__")


@pytest.fixture(scope="module")
def quick(command, core, tmp_path_factory):
    """Exit status and JSON of a quick run of everything."""
    file = tmp_path_factory.mktemp("benchmarks") / "quick.json"
    status = command.main(["--quick", "--json", str(file)])
    return status, json.loads(file.read_text(encoding="utf-8"))


# Their sides agree as far as chance, or the grid of the other side, allows.
SIMULATED = {"simulator", "control-variates", "training-noise", "poisson-epsilon", "devices"}


# -- the benchmarks ----------------------------------------------------------------------------------------------------


def test_every_benchmark_gives_finite_ratios_and_equal_numbers(quick, core):
    status, found = quick
    assert status == 0
    assert {row["benchmark"] for row in found["rows"]} == set(core.load())
    assert len({(row["benchmark"], row["case"], row["other"]) for row in found["rows"]}) == len(found["rows"])
    for row in found["rows"]:
        assert 0 < row["low"] <= row["ratio"] <= row["high"] < math.inf, row
        assert min(row["seconds"], row["other_seconds"]) > 0, row
        assert row["difference"] <= row["tolerance"] <= (0.5 if row["benchmark"] in SIMULATED else 1e-8), row


def test_the_machine_and_the_versions_are_recorded(quick):
    _, found = quick
    assert {"processor", "system", "python", "corrnoise", "numpy", "scipy", "numba", "mpmath"} == set(found["machine"])
    assert all(found["machine"].values())


def test_errors_are_within_what_is_documented(quick):
    """Closed forms 4e-15, coefficients 4e-16; the cumulative product in float64 is beyond the latter."""
    bounds = {"limiting-sensitivity": 4e-15, "averaged-variance": 4e-15, "coefficients": 4e-16}
    judged = [row for row in quick[1]["rows"] if row["error"] is not None]
    assert {row["benchmark"] for row in judged} == set(bounds)
    for row in judged:
        assert row["error"] <= bounds[row["benchmark"]], row
        if row["other"] == "numpy cumprod":
            assert row["other_error"] > bounds["coefficients"], row


@pytest.mark.parametrize("factor", [1 + 1e-6, 2.0])
def test_every_comparison_rejects_a_side_that_is_off(core, timing, monkeypatch, factor):
    """By a millionth; simulated ones, and those of a grid, by a factor of two."""
    names = SIMULATED if factor == 2.0 else set(core.load()) - SIMULATED
    monkeypatch.setattr(core, "measure", lambda *_, **__: timing.Timing((1.0,), (1.0,)))

    class Wrong(core.Setting):
        def compare(self, case, ours, other, **details):
            off = timing.Side(ours.name, lambda: core.np.multiply(ours.run(), factor), ours.items)
            return super().compare(case, off, other, **details)

    rows = list(core.run(names, Wrong(quick=True)))
    assert len(rows) > len(names)
    assert [name for name, row in rows if row.agrees] == []


# -- the harness -------------------------------------------------------------------------------------------------------


def test_the_sides_run_in_turns_and_ratios_are_for_each_item(timing, monkeypatch):
    now, calls = [0.0], []

    def side(name, cost, items):
        def run():
            calls.append(name)
            now[0] += cost

        return timing.Side(name, run, items)

    monkeypatch.setattr(timing.time, "process_time", lambda: now[0])
    found = timing.measure(side("A", 2.0, 4), side("B", 3.0, 1), turns=3, shortest=2.5)
    assert "".join(calls) == "AABAABAAB"
    assert found.ours == (0.5,) * 3
    assert found.other == (3.0,) * 3
    assert found.ratio == 6.0


def test_ratio_is_the_median_and_the_spread_the_range_of_paired_turns(timing):
    found = timing.Timing((1.0, 2.0, 4.0), (5.0, 4.0, 4.0))
    assert found.ratio == 2.0
    assert found.spread == (1.0, 5.0)


def test_a_disagreement_fails_the_command(core, timing, command, monkeypatch, capsys):
    def cubes(setting, factor):
        """Cubes."""
        x = core.np.linspace(1, 2, 5)
        ours, other = timing.Side("product", lambda: x * x * x, 5), timing.Side("power", lambda: factor * x**3.0, 5)
        yield setting.compare("5 values", ours, other, item="value", tolerance=1e-15)

    monkeypatch.setitem(core.REGISTRY, "right", lambda setting: cubes(setting, 1.0))
    monkeypatch.setitem(core.REGISTRY, "wrong", lambda setting: cubes(setting, 1 + 1e-12))
    assert command.main(["--quick", "--only", "right"]) == 0
    assert "DISAGREES" not in capsys.readouterr().out
    assert command.main(["--quick", "--only", "right", "--only", "wrong"]) == 1
    assert capsys.readouterr().out.count("DISAGREES") == 1


def test_the_command_runs_from_the_root_of_the_checkout():
    help_text = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "example: python -m benchmarks" in help_text.stdout


def test_jax_privacy_returns_the_same_values(core, command, tmp_path):
    pytest.importorskip("jax_privacy")
    file = tmp_path / "peer.json"
    assert command.main(["--peer", "--quick", "--json", str(file)]) == 0
    found = json.loads(file.read_text(encoding="utf-8"))
    assert "jax-privacy" in found["machine"]
    loose = {"peer-dense-optimum", "peer-bins-by-simulation"}
    exact = [row for row in found["rows"] if row["benchmark"] not in loose]
    assert len(exact) == 4
    assert all(row["difference"] <= 1e-9 for row in exact)


# -- accuracy ----------------------------------------------------------------------------------------------------------


def test_accuracy_trains_with_the_batches_of_each_participation():
    pytest.importorskip("sklearn")
    accuracy = importlib.import_module("benchmarks.accuracy")
    ordered = list(accuracy.ordered_batches(120, 60, np.random.default_rng(0)))
    assert all((first == second).all() for first, second in zip(ordered[:60], ordered[60:], strict=True))
    assert len(set(np.concatenate(ordered[:60]))) == 60 * 23
    sizes = [len(batch) for batch in accuracy.sampled_batches(1000, 1 / 60, np.random.default_rng(0))]
    assert abs(np.mean(sizes) - 1437 / 60) < 5 * np.sqrt(1437 / 60 / 1000)
    clean, noisy = (accuracy.accuracies(noise, iter(ordered), 23.95, 0) for noise in _noises())
    assert 90 < clean.max() <= 100
    assert noisy.max() < 90


def _noises():
    yield np.zeros((120, 640))
    yield 100 * np.random.default_rng(1).normal(size=(120, 640))


def test_accuracy_writes_its_rows_and_draws_them(tmp_path):
    accuracy = importlib.import_module("benchmarks.accuracy")
    rows = [
        accuracy.Row(1, 60, epsilon, method, 1.0, 2.0, 80.0, 1.0, 0.0, 0.5)
        for epsilon in (1.0, 2.0)
        for method in accuracy.METHODS
    ]
    accuracy.write(rows, tmp_path)
    assert len((tmp_path / "accuracy.csv").read_text(encoding="utf-8").splitlines()) == 7
    assert all(f">{method}<" in (tmp_path / "accuracy.svg").read_text(encoding="utf-8") for method in accuracy.METHODS)
