"""The benchmarks in their quick setting: numbers agree, ratios are there, and a wrong side is caught.  No time is
asserted; where the harness itself is tested the clock is a fake.
"""

import dataclasses
import importlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import corrnoise as cn

ROOT = Path(__file__).parents[1]
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Full backward hook is firing")]  # of Opacus


@pytest.fixture(scope="module", autouse=True)
def _checkout_on_path():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        for library in ("OPENBLAS", "OMP", "MKL"):  # set by the benchmarks on import; undone after this file
            patch.setenv(f"{library}_NUM_THREADS", "1")
        yield


@pytest.fixture(autouse=True)
def _usual_floats_of_jax():
    yield
    if "jax" in sys.modules:  # a benchmark asks for 64 bits
        sys.modules["jax"].config.update("jax_enable_x64", False)


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
SIMULATED = {"simulator", "control-variates", "training-noise", "proved-noise", "poisson-epsilon", "devices"}


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
    """By a millionth; simulated values and values of a grid by a factor of two."""
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


@pytest.mark.parametrize(
    ("participation", "once"),
    [
        (cn.Participation.poisson(80, 1 / 20), False),
        (cn.Participation.cyclic_poisson(80, period=4, rate=1 / 5), False),
        (cn.Participation.balls_in_bins(80, period=20), True),
        (cn.Participation.fixed_epochs(80, epochs=4), True),
    ],
    ids=str,
)
def test_accuracy_uses_each_user_as_its_participation_says(participation, once):
    """Each step uses a twentieth of the users; the deviation has a false-alarm rate below 1e-9."""
    accuracy = importlib.import_module("benchmarks.accuracy")
    chosen = accuracy.used(participation, 1440, np.random.default_rng(0))
    assert abs(chosen.sum() - 4 * 1440) < 6.5 * np.sqrt(4 * 1440)
    visits = chosen.sum(axis=0)
    assert (set(visits) == {4}) == once
    if once:
        assert (chosen[:20] == chosen[60:]).all()
        assert (set(chosen.sum(axis=1)) == {72}) == isinstance(participation, cn.participation.FixedEpochs)
    if isinstance(participation, cn.participation.CyclicPoisson):
        groups = [chosen[turn::4].any(axis=0) for turn in range(4)]
        assert (sum(each.astype(int) for each in groups) <= 1).all()


def test_accuracy_predicts_the_error_of_the_design():
    accuracy = importlib.import_module("benchmarks.accuracy")
    order = cn.Participation.fixed_epochs(12, epochs=3)
    participation, multiplier, noise = accuracy.noise(accuracy.FIXED, 3, 4, 8.0)
    assert participation == order
    budget = cn.Budget(epsilon=8.0, delta=accuracy.DELTA, clip_norm=1.0)
    best = cn.optimise(cn.SGD(), order, memory=4)
    assert accuracy.predicted_errors(noise, multiplier)[0] == pytest.approx(best.error_at(budget), rel=1e-6)
    assert accuracy.predicted_errors(noise, 2 * multiplier)[1] > accuracy.predicted_errors(noise, multiplier)[1]


def test_accuracy_compares_with_dpsgd_in_pairs(tmp_path):
    accuracy = importlib.import_module("benchmarks.accuracy")
    values = {accuracy.DPSGD: ("80 90 70", "1 1 2"), accuracy.BINS: ("82 92.5 71.5", "0.5 1 1.5")}
    rows = [
        accuracy.Row("t", 1, 60, 8.0, name, 1.0, 1.0, 1.0, 0.9, 0.5, 2.0, *each, "0.5 0.5", "command", "commit")
        for name, each in values.items()
    ]
    for row in rows:
        accuracy.append(row, tmp_path / "accuracy.csv")
    assert accuracy.read(tmp_path / "accuracy.csv") == rows
    found = accuracy.summaries(rows)
    assert found[0].noise_share == pytest.approx(0.5)
    assert found[1].difference == pytest.approx(2.0)
    assert found[1].difference_interval == pytest.approx(4.302653 * 0.5 / np.sqrt(3))  # Student's t, 2 degrees
    assert found[1].loss_ratio == pytest.approx(0.75)
    assert accuracy.table(found, "t", 1)[1] == f"| {accuracy.BINS} | +2.0 ± 1.2 |"
    assert accuracy.unconfirmed(found) == []
    equal = accuracy.summaries([rows[0], rows[1]._replace(predicted_error=0.5, accuracies="80 91 69")])
    assert accuracy.unconfirmed(equal) == [f"| t, 1 × 60 steps | 8 | {accuracy.BINS} | 0.50 | +0.0 ± 2.5 | 50 % |"]
    accuracy.draw(found, tmp_path / "accuracy.svg")
    assert f">{accuracy.BINS}<" in (tmp_path / "accuracy.svg").read_text(encoding="utf-8")
    (tmp_path / "accuracy.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the columns task"):
        accuracy.read(tmp_path / "accuracy.csv")


def _libraries_of_accuracy():
    for name in ("jax", "sklearn", "mlxtend"):
        pytest.importorskip(name)
    return importlib.import_module("benchmarks.accuracy_tasks")


def test_accuracy_trains_as_plain_numpy_does():
    tasks = _libraries_of_accuracy()
    task = dataclasses.replace(tasks.TASKS[0], epochs=1, period=4)
    rng = np.random.default_rng(0)
    run = tasks.Run(0, rng.random((4, 1440)) < 0.02, np.zeros((4, 4)), 0.5, 3.4, 3.0)
    images, digits = task.load()
    order = np.random.default_rng((0, 0)).permutation(len(images))
    weights, velocity = np.zeros((64, 10)), 0
    for chosen in run.used:
        x, y = images[order[:1440][chosen]], np.eye(10)[digits[order[:1440][chosen]]]
        scores = np.exp(x @ weights)
        gradients = x[:, :, np.newaxis] * (scores / scores.sum(axis=1, keepdims=True) - y)[:, np.newaxis]
        norms = np.sqrt((gradients**2).sum(axis=(1, 2)))
        assert norms.min() < 3.4 < norms.max()
        sums = (gradients / np.maximum(norms, 3.4)[:, np.newaxis, np.newaxis]).sum(axis=0)
        velocity = 0.5 * velocity + 0.5 * sums
        weights = weights - 3.0 * 4 / 1440 * velocity
    test = order[1440:]
    scores = images[test] @ weights
    loss = np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(test)), digits[test]])
    accuracies, losses = tasks.trained(task, [run, run._replace(noise=9 * np.eye(4))])
    assert losses[0] == pytest.approx(loss, rel=1e-5)
    assert accuracies[0] == pytest.approx(100 * np.mean(scores.argmax(axis=1) == digits[test]), abs=0.3)
    assert losses[1] > losses[0]


@pytest.mark.slow
def test_the_quick_run_of_accuracy_trains_every_model_and_resumes(tmp_path, capsys):
    _libraries_of_accuracy()
    pytest.importorskip("opacus")
    accuracy = importlib.import_module("benchmarks.accuracy")
    assert accuracy.main(["--quick", "--output", str(tmp_path)]) == 0
    written = (tmp_path / "accuracy.csv").read_text(encoding="utf-8")
    assert len(written.splitlines()) == 1 + 3 * len(accuracy.METHODS)
    assert accuracy.main(["--quick", "--output", str(tmp_path)]) == 0
    assert (tmp_path / "accuracy.csv").read_text(encoding="utf-8") == written
    assert capsys.readouterr().out.count(f"{accuracy.BINS}: ") == 3  # measured once
