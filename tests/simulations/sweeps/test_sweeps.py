"""Sweeps: the same results wherever they run, and nothing lost or computed twice when they are stopped."""

import json
import math
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.quadratic import Simulation, simulate
from corrnoise.simulations.sweeps import running as sweeps
from corrnoise.simulations.sweeps.running import SweepOutcome, SweepPoint, grid, sweep
from corrnoise.support import cache
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation

REGRESSION = LinearRegression([1.0, 0.5, 0.1], 0.05, 0.2)
MEAN = MeanEstimation(0.1, 0.3)
NOISES = [DPSGD(), NuFTRL(1e-11), FiniteNoise([1.0, -0.5, 0.2])]  # threads may change digits of the second's poles
SHORT: dict[str, Any] = {"steps": 300, "chains": 2, "burn_in": 20}
DEADLINE = 120  # seconds, only so that nothing hangs for ever


def point(**changed: Any) -> SweepPoint:
    arguments: dict[str, Any] = {"problem": REGRESSION, "noise": NuFTRL(0.01), "seed": 3, "options": SHORT}
    return SweepPoint(**arguments | changed)


def results(outcomes: list[SweepOutcome]) -> list[tuple[SweepPoint, Simulation | None, str | None]]:
    return [(outcome.point, outcome.simulation, outcome.error) for outcome in outcomes]


def files(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of files; a killed process may leave a folder of unfinished ones behind."""
    found = [path for path in directory.iterdir() if path.is_file()]
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The seeds of the simulations that this process runs."""
    seeds = []

    def counted(*arguments: Any, rng: int, **options: Any) -> Simulation:
        seeds.append(rng)
        return simulate(*arguments, rng=rng, **options)

    monkeypatch.setattr(sweeps, "simulate", counted)
    return seeds


# -- points ------------------------------------------------------------------------------------------------------------


def test_keys_are_the_same_everywhere() -> None:
    assert point().key == "1441ea45255b5eee3e70ba3e8270f2d8faef36aa9984b7a803d3477154bc04bf"
    assert point(label="a name").key == point().key
    spelled = {
        "budget": Budget(1, clip_norm=np.float64(1)),
        "clip": np.False_,
        "inputs": "gaussian",
        "steps": np.int64(300),
    }
    assert point(options=SHORT | spelled) == point()
    assert hash(point(options=SHORT | spelled)) == hash(point())
    assert json.loads(json.dumps(point().description())) == point().description()


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 4},
        {"noise": NuFTRL(np.nextafter(0.01, 1))},
        {"noise": ProductNoise([0.01], [0.5])},
        {"noise": FiniteNoise(NuFTRL(0.01).coefficients(3))},
        {"problem": MEAN},
        {"problem": LinearRegression([1.0, 0.5, np.nextafter(0.1, 1)], 0.05, 0.2)},
        {"problem": LinearRegression([0.5, 1.0, 0.1], 0.05, 0.2)},
        {"problem": LinearRegression([1.0, 0.5, 0.1], 0.05, 0.3)},
        {"problem": LinearRegression([1.0, 0.5, 0.1], 0.05, 0.2, kurtosis=[3.0, 3.0, 3.0])},
        *(
            {"options": SHORT | option}
            for option in (
                {"steps": 301},
                {"chains": 3},
                {"burn_in": 21},
                {"burn_in": None},
                {"budget": Budget(2.0)},
                {"budget": Budget(1.0, clip_norm=2.0)},
                {"budget": Budget(1.0, adjacency="replace-one")},
                {"clip": True},
                {"inputs": "uniform"},
            )
        ),
    ],
)
def test_whatever_changes_the_result_changes_the_key(changed: dict[str, Any]) -> None:
    assert point(**changed).key != point().key
    assert point(**changed) != point()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"problem": 3}, TypeError, "problem must be MeanEstimation or LinearRegression, got 3"),
        ({"noise": 3}, TypeError, "noise must be correlated noise"),
        ({"seed": -1}, ValueError, "seed must be an integer >= 0, got -1"),
        ({"seed": None}, TypeError, "seed must be an integer >= 0, got None"),
        ({"options": {"steps": 5}}, TypeError, "chains must be an integer >= 1, got None"),
        ({"options": SHORT | {"steps": 0}}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"options": SHORT | {"budget": 1.0}}, TypeError, "budget must be a Budget, got 1.0"),
        ({"options": SHORT | {"clip": 1}}, TypeError, "clip must be True or False, got 1"),
        ({"options": SHORT | {"inputs": "cauchy"}}, ValueError, "inputs must be one of"),
        ({"options": SHORT | {"burn_in": -1}}, ValueError, "burn_in must be an integer >= 0"),
        ({"options": SHORT | {"threads": 2}}, ValueError, "options must be among steps, chains, .*, got 'threads'"),
    ],
)
def test_bad_points_are_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        point(**arguments)


class Unwritable(LinearRegression):
    """A problem with an argument of another kind."""

    def arguments(self) -> dict[str, Any]:
        return {"eigenvalues": {1}}


def test_arguments_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(TypeError, match=r"must be made of numbers, strings, arrays and records, got \{1\}"):
        point(problem=Unwritable([1.0], 0.1)).description()


def test_grid_is_the_product_in_order() -> None:
    noises: dict[str, Any] = {"x": DPSGD(), "y": lambda p: NuFTRL(p.rates.min())}
    made = grid({"a": REGRESSION, "b": MEAN}, noises, (7, 5), **SHORT)
    assert [(p.label, p.seed) for p in made] == [
        (f"{problem}, {noise}", seed) for problem in "ab" for noise in "xy" for seed in (7, 5)
    ]
    assert [p.problem for p in made] == 4 * [REGRESSION] + 4 * [MEAN]
    assert [p.noise for p in made[::2]] == [DPSGD(), NuFTRL(0.1 * 0.05), DPSGD(), NuFTRL(0.1)]
    assert made[0].name == "a, x, seed 7"
    assert grid(REGRESSION, lambda p: NuFTRL(p.rates.min()), [1], **SHORT) == [point(noise=NuFTRL(0.1 * 0.05), seed=1)]
    assert [p.label for p in grid([MEAN, REGRESSION], {"x": DPSGD()}, [0], **SHORT)] == ["x", "x"]
    assert grid(MEAN, [DPSGD(), NuFTRL(0.1)], [], **SHORT) == []
    assert (
        grid(MEAN, DPSGD(), [0], **SHORT)[0].name
        == "MeanEstimation(learning_rate=0.1, sample_std=0.3), DPSGD(), seed 0"
    )


# -- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_are_those_of_simulate_whoever_computes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    points = grid([REGRESSION, MEAN], NOISES, range(1), **SHORT)
    expected = [
        (p, simulate(p.problem, p.noise, rng=p.seed, **SHORT), None)  # with as many threads as there are cores
        for p in points
    ]
    assert results(sweep(points)) == expected
    assert results(sweep(points, jobs=2, directory=tmp_path, progress=True)) == expected
    assert capsys.readouterr().err.count(" points") == len(points) + 1  # none done, one done, …
    before = files(tmp_path)
    assert set(before) == {f"{p.key}.json" for p in points}
    assert results(sweep(reversed(points), directory=tmp_path)) == expected[::-1]
    assert files(tmp_path) == before


@pytest.mark.parametrize("noise", [FiniteNoise([1.0, -0.1]), PoleNoise([], []), PoleNoise([0.3, 0.1, 0.1], [0.7])])
def test_every_result_survives_its_file(noise: ToeplitzNoise, tmp_path: Path) -> None:
    numbers = np.random.default_rng(1).lognormal(sigma=100, size=6).tolist()
    estimators = {"plain": (numbers[0], math.inf), "delta": (5e-324, numbers[1]), "delta1": (-0.0, numbers[2])}
    simulation = Simulation(math.inf, numbers[3], estimators, numbers[4], numbers[5], noise, 7, 8, 9)
    outcome = SweepOutcome(point(), simulation, None, 0.1)
    sweeps.store_outcome(tmp_path, outcome)
    assert sweeps.stored_outcome(tmp_path, point()) == outcome
    (path,) = tmp_path.iterdir()
    json.loads(path.read_bytes(), parse_constant=lambda _: pytest.fail("no standard JSON"))


def test_a_failed_point_names_itself_is_tried_again_and_harms_no_other(tmp_path: Path, computed: list[int]) -> None:
    impossible = point(noise=NuFTRL(0), seed=1, label="for ever")
    mismatched = point(options=SHORT | {"inputs": "signs"}, seed=2)
    points = [point(seed=0), impossible, mismatched, point(seed=3)]
    for computes in ([0, 1, 2, 3], [1, 2]):
        computed.clear()
        outcomes = sweep(points, directory=tmp_path)
        assert computed == computes
        assert [outcome.simulation is None for outcome in outcomes] == [False, True, True, False]
        assert outcomes[0].error is outcomes[3].error is None
        assert outcomes[1].error == (
            "for ever, seed 1: ValueError: noise must have a finite limiting sensitivity, got NuFTRL(nu=0.0)"
        )
        assert "LinearRegression(" in str(outcomes[2].error)
        assert "seed 2: ValueError: kurtosis of the problem must be 1.0 for signs inputs" in str(outcomes[2].error)
        assert set(files(tmp_path)) == {f"{points[i].key}.json" for i in (0, 3)}
    assert results(sweep(points, jobs=2)) == results(outcomes)


def test_duplicates_are_computed_once(computed: list[int]) -> None:
    points = [point(label="one"), point(seed=4), point(label="other")]
    outcomes = sweep(points)
    assert computed == [3, 4]
    assert [outcome.point.label for outcome in outcomes] == ["one", "", "other"]
    assert outcomes[0].simulation == outcomes[2].simulation != outcomes[1].simulation
    bad = sweep([point(noise=NuFTRL(0), label=label) for label in ("one", "other")])
    assert [str(outcome.error).partition(",")[0] for outcome in bad] == ["one", "other"]


def test_an_empty_sweep_needs_nobody(tmp_path: Path) -> None:
    assert sweep([], jobs=2, directory=tmp_path / "new") == []
    sweep([point()], directory=tmp_path)
    assert sweep([point()], directory=tmp_path, cluster="tcp://127.0.0.1:1")[0].simulation  # nothing is left to do


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"points": [3]}, TypeError, "points must be of type SweepPoint, got 3"),
        ({"jobs": 0}, ValueError, "jobs must be an integer >= 1, got 0"),
        ({"jobs": 1.5}, TypeError, "jobs must be an integer >= 1, got 1.5"),
        ({"directory": __file__}, OSError, "test_sweeps"),
    ],
)
def test_misuse_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        sweep(**{"points": [point()]} | arguments)


def test_heavy_tails_are_said_once_whoever_computes() -> None:
    heavy = LinearRegression([1.0], 0.6)  # second moments converge below 2/3, fourth moments below a smaller rate
    points = grid([heavy, REGRESSION], [DPSGD(), AntiPGD(0.5)], [0, 1], **SHORT)
    with pytest.warns(RuntimeWarning, match="the fourth moments") as caught:
        outcomes = sweep(points)
    assert len(caught) == 1
    assert str(caught[0].message).count("LinearRegression") == 1
    assert "eigenvalues=[1.], learning_rate=0.6" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert all(outcome.simulation for outcome in outcomes)
    assert [p.has_standard_error() for p in points] == 4 * [False] + 4 * [True]
    assert sweep(grid(heavy, DPSGD(), [0], clip=True, **SHORT))[0].simulation  # and no warning


@pytest.mark.parametrize("shown", [True, False])
def test_progress(shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    sweep([point(seed=0), point(noise=NuFTRL(0)), point(seed=1)], progress=shown)
    output = capsys.readouterr().err
    assert ("1/3 points, " in output) == (" s left" in output) == shown
    assert ("3/3 points, 1 failed\r" in output) == shown
    assert output.endswith("\r\x1b[K" if shown else "")
    assert "\n" not in output


# -- files -------------------------------------------------------------------------------------------------------------


def _moved(path: Path) -> None:
    other = path.parent / f"{point(seed=99).key}.json"
    sweep([point(seed=99)], directory=path.parent)
    other.replace(path)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "its digest is wrong"),
        (lambda path: path.write_text(path.read_text().replace('"seed": 3', '"seed": 4')), "its digest is wrong"),
        (_moved, "keeps the result of other settings"),
        (lambda path: path.write_text(""), "its digest is wrong"),
        (lambda path: cache.keep(path.parent, point().description(), {}), "KeyError: 'simulation'"),
        (lambda path: cache.keep(path.parent, point().description(), []), "TypeError: list indices"),
    ],
)
def test_damaged_and_foreign_files_are_no_results(
    damage: Callable[[Path], object], reason: str, tmp_path: Path, computed: list[int]
) -> None:
    (fresh,) = sweep([point()], directory=tmp_path)
    (path,) = tmp_path.iterdir()
    damage(path)
    computed.clear()
    with pytest.warns(RuntimeWarning, match=f"LinearRegression.*is computed again.*({reason})"):
        (again,) = sweep([point()], directory=tmp_path)
    assert computed == [3]
    assert again.simulation == fresh.simulation
    assert sweep([point()], directory=tmp_path) == [again]
    assert computed == [3]


# -- interruptions -----------------------------------------------------------------------------------------------------


def test_an_interrupt_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, computed: list[int]
) -> None:
    points = [point(seed=seed) for seed in range(4)]

    def interrupted(*arguments: Any, rng: int, **options: Any) -> Simulation:
        if rng == 2:
            raise KeyboardInterrupt
        return simulate(*arguments, rng=rng, **options)

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "simulate", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sweep(points, directory=tmp_path)
    assert files(tmp_path).keys() == {f"{p.key}.json" for p in points[:2]}
    sweep(points, directory=tmp_path)
    assert computed == [2, 3]


def test_a_killed_sweep_resumes_and_computes_what_is_missing(tmp_path: Path, computed: list[int]) -> None:
    options: dict[str, Any] = {"steps": 300_000, "chains": 2, "burn_in": 20}
    points = grid(REGRESSION, NuFTRL(0.01), range(8), **options)
    program = f"""
        from corrnoise.simulations.sweeps.running import grid, sweep
        from corrnoise.theory.problems.quadratic import LinearRegression
        from corrnoise.theory.mechanisms.product import NuFTRL

        points = grid(LinearRegression([1.0, 0.5, 0.1], 0.05, 0.2), NuFTRL(0.01), range(8), **{options!r})
        sweep(points, jobs=2, directory={str(tmp_path)!r})
    """
    deadline = time.monotonic() + DEADLINE
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], start_new_session=True)
    while len(list(tmp_path.glob("*.json"))) < 2 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)  # with its workers
    assert process.wait() == -signal.SIGKILL
    finished = {name: kept for name, kept in files(tmp_path).items() if name.endswith(".json")}
    assert 2 <= len(finished) < len(points)

    outcomes = sweep(points, directory=tmp_path)
    assert sorted(computed) == [p.seed for p in points if f"{p.key}.json" not in finished]
    after = files(tmp_path)
    assert {name: after[name] for name in finished} == finished
    assert {f"{p.key}.json" for p in points} <= after.keys()
    kept = [outcome for outcome in outcomes if f"{outcome.point.key}.json" in finished][:2]
    assert results(kept) == results(sweep([outcome.point for outcome in kept]))


@pytest.mark.slow
def test_a_worker_that_dies_takes_nothing_with_it() -> None:
    parent = os.getpid()

    class Deadly(PoleNoise):
        def _limiting(self) -> tuple[float, float]:
            if os.getpid() != parent:
                os._exit(1)
            return super()._limiting()

    deadly = grid(REGRESSION, {"deadly": Deadly([0.1], [0.2])}, [0], **SHORT)
    others = grid(REGRESSION, DPSGD(), range(6), **SHORT)
    outcomes = sweep([*others[:2], *deadly, *others[2:]], jobs=2)
    assert outcomes.pop(2).error == "deadly, seed 0: the process that ran it died"
    assert results(outcomes) == results(sweep(others))


def test_a_worker_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task = sweeps.task_of(0, point())
    monkeypatch.setattr(sweeps, "__version__", "0.0.1")
    error = f"RuntimeError: the worker has corrnoise 0.0.1, the sweep is of corrnoise {task[3]}"
    assert sweeps.run_point(*task)[2] == error


# -- cluster -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start a scheduler with ``workers`` processes on this machine; returns its address."""
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    with ExitStack() as stack:

        def dask(command: str, *arguments: str) -> None:
            log = stack.enter_context((tmp_path / f"{time.monotonic_ns()}.log").open("w"))
            program = [sys.executable, "-m", f"distributed.cli.dask_{command}", *arguments, "--host", "127.0.0.1"]
            program += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
            process = subprocess.Popen(program, stdout=log, stderr=log, cwd=tmp_path)
            stack.callback(process.wait)
            stack.callback(process.kill)

        def started(workers: int) -> str:
            file = tmp_path / "scheduler.json"
            dask("scheduler", "--port", "0", "--scheduler-file", str(file))
            for _ in range(workers):
                dask("worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny")
            deadline = time.monotonic() + DEADLINE
            while time.monotonic() < deadline:
                time.sleep(0.05)
                if file.exists() and file.stat().st_size:
                    address: str = json.loads(file.read_text())["address"]
                    return address
            raise TimeoutError("the scheduler did not start")

        yield started


@pytest.mark.slow
def test_a_cluster_gives_the_same_results(start: Callable[..., str], tmp_path: Path) -> None:
    from distributed import Client, get_task_stream

    address = start(2)
    points = grid([REGRESSION, MEAN], [*NOISES, NuFTRL(0)], range(2), **SHORT)
    with Client(address, timeout=DEADLINE, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=DEADLINE)
        with get_task_stream(client) as tasks:
            outcomes = sweep(points, cluster=address, directory=tmp_path / "kept")
    assert results(outcomes) == results(sweep(points))
    assert len({task["worker"] for task in tasks.data}) == 2
    assert sum(outcome.error is not None for outcome in outcomes) == 4
    assert len(files(tmp_path / "kept")) == 12
    assert results(sweep(points[:3], directory=tmp_path / "kept")) == results(outcomes[:3])


@pytest.mark.slow
def test_a_cluster_without_workers_is_refused(start: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    address = start(0)
    monkeypatch.setattr("corrnoise.support.cluster.PATIENCE", 1.0)
    with pytest.raises(OSError, match=f"cluster must have workers, the scheduler at '{address}' has none"):
        sweep([point()], cluster=address)


def test_without_dask_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"pip install 'corrnoise\[cluster\]'"):
        sweep([point()], cluster="tcp://127.0.0.1:1")
