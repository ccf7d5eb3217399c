"""The command line: output, exit statuses, and files after a failure."""

import csv
import dataclasses
import logging
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from corrnoise import __main__ as command_line
from corrnoise.figures import COMPANIONS, NAMES, paper_figure
from corrnoise.figures.publication import PaperFigure
from corrnoise.support.serialise import unpacked
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression


def run(*arguments: object, options: Sequence[str] = (), **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "corrnoise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **settings)


def test_help_shows_an_example_of_each_command_and_imports_nothing_heavy() -> None:
    result = run("--help", options=("-X", "importtime"))
    assert result.returncode == 0
    for command in command_line.COMMANDS.values():
        assert command.SUMMARY.split()[0] in result.stdout
        assert f"  {command.EXAMPLE}\n" in result.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"numpy", "scipy", "matplotlib", "numba", "mpmath", "cvxpy", "flint"}


def test_examples_are_understood() -> None:
    for command in command_line.COMMANDS.values():
        program, *arguments = shlex.split(command.EXAMPLE)
        assert program == "corrnoise"
        assert command_line._parser().parse_args(arguments).run is command.run


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([]) == 0
    assert "examples:" in capsys.readouterr().out


@pytest.mark.slow
def test_the_log_is_for_long_work_and_its_details_for_those_who_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_: object) -> NoReturn:
        raise ValueError("rho must lie in (0, inf)")

    words = ["figures", "mean_estimation", "--output", str(tmp_path)]
    assert command_line.main([*words, "--verbose"]) == 0
    assert re.fullmatch(r"corrnoise: \d\d:\d\d:\d\d mean_estimation \(0 of 1\)\n", capsys.readouterr().err)
    assert command_line.main(words) == 0
    assert not capsys.readouterr().err
    monkeypatch.setattr("corrnoise.figures.publication.publish", fail)
    assert command_line.main([*words, "-v"]) == 1
    error = capsys.readouterr().err
    assert "Traceback" in error
    assert error.endswith("\ncorrnoise: error: rho must lie in (0, inf)\n")
    assert [type(handler) for handler in logging.getLogger("corrnoise").handlers] == [logging.NullHandler]


def test_shells_complete_commands_and_options(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    for line, completions in (("corrnoise des", {"design"}), ("corrnoise check --ver", {"--verdict", "--verbose"})):
        output = tmp_path / "completions"
        asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n"}
        asked |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(output), "_ARGCOMPLETE_SUPPRESS_SPACE": "0"}
        assert run(env=os.environ | asked).returncode == 0
        assert set(output.read_text().split()) == completions


@pytest.mark.parametrize(
    ("words", "same"), [(["help"], ["--help"]), (["help", "check"], ["check", "--help"]), (["-h"], [])]
)
def test_help_is_found(words: list[str], same: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(words) == 0
    found = capsys.readouterr().out
    assert command_line.main(same) == 0
    assert found == capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nonsense",), "COMMAND must be one of figures, check,"),
        (("desgin",), "got 'desgin'; did you mean 'design'?"),
        (("help", "desgin"), "got 'desgin'; did you mean 'design'?"),
        (("--verson",), "COMMAND must come before its options, got '--verson'; did you mean '--version'?"),
        (("figures", "figure 9"), "there is no figure 'figure 9'; the figures are mean_estimation, linear_regression"),
        (("figures", "linear_regresion"), "; did you mean 'linear_regression'?"),
        (("figures", "--output"), "expected one argument"),
        (("simulate", "--stesp", "5"), "unrecognized arguments: --stesp 5; did you mean '--steps'?"),
        (("simulate", "--sedes=5"), "unrecognized arguments: --sedes=5; did you mean '--seeds'?"),
        (
            ("simulate", "--noise", "tree"),
            "there is no noise 'tree'; it is dpsgd, nu-ftrl, nu-ftrl:NU or anti-pgd:DAMPING",
        ),
        (("simulate", "--noise", "dpsgd:1"), "there is no noise 'dpsgd:1'"),
        (("simulate", "--noise", "anti-pgd"), "there is no noise 'anti-pgd'"),
        (("simulate", "--noise", "nu-ftrl:x"), "'x' must be a number: nu-ftrl needs one after the colon"),
        (
            ("simulate", "--inputs", "gaussian:3"),
            "there are no inputs 'gaussian:3'; they are gaussian, uniform, signs or",
        ),
        (("simulate", "--inputs", "student-t"), "'' must be a number: student-t needs one after the colon"),
        (("simulate", "--steps", "1.5"), "invalid int value: '1.5'"),
    ],
)
def test_misuse_is_explained_and_ends_with_status_two(
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.main(arguments) == 2
    output = capsys.readouterr()
    assert message in output.err
    assert not output.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("options", "count"), [((), len(NAMES) - len(COMPANIONS)), (("--all",), len(NAMES))])
def test_without_names_all_but_companions_are_drawn(
    options: tuple[str, ...], count: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drawn = []

    def entry(name: str) -> PaperFigure:
        return dataclasses.replace(
            paper_figure("mean_estimation"), name=name, data=lambda: (), report=lambda _: "", simulate=None
        )

    def record(figure: PaperFigure, *_: object) -> list[Path]:
        drawn.append(figure.name)
        return []

    monkeypatch.setattr("corrnoise.figures.paper_figure", entry)
    monkeypatch.setattr("corrnoise.figures.publication.publish", record)
    assert command_line.main(["figures", *options, "--output", str(tmp_path)]) == 0
    assert drawn == [name for name in NAMES if options or name not in COMPANIONS]
    assert len(drawn) == count


def test_an_unwritable_folder_is_one_line_and_status_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("kept")
    assert command_line.main(["figures", "mean_estimation", "--output", str(tmp_path / "taken" / "inside")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("corrnoise: error: ")
    assert "taken" in error
    assert error.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"taken"}


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (OSError(28, "No space left\non device"), 1, "corrnoise: error: [Errno 28] No space left on device\n"),
        (ValueError("rho must lie in (0, inf), got -1"), 1, "corrnoise: error: rho must lie in (0, inf), got -1\n"),
        (KeyboardInterrupt(), 130, "corrnoise: interrupted\n"),
    ],
)
def test_errors_are_one_line(
    error: BaseException,
    status: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def fail(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr("corrnoise.figures.publication.publish", fail)
    assert command_line.main(["figures", "--output", str(tmp_path)]) == status
    assert capsys.readouterr().err == message


def test_a_fault_of_our_own_is_not_hidden(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> NoReturn:
        raise AssertionError

    monkeypatch.setattr("corrnoise.figures.publication.publish", fail)
    with pytest.raises(AssertionError):
        command_line.main(["figures", "--output", str(tmp_path)])


def test_a_reader_who_leaves_is_not_told_off() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "corrnoise", "check", "--list"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writer)
    assert result.returncode == 1
    assert not result.stderr


# -- simulate ----------------------------------------------------------------------------------------------------------

SMALL = ("--dimension", "4", "--learning-rate", "0.1", "--steps", "4000", "--chains", "4")


def simulated(folder: Path, *arguments: str) -> tuple[int, list[dict[str, str]]]:
    status = command_line.main(["simulate", *SMALL, "--output", str(folder), *arguments])
    with (folder / "results.csv").open(newline="") as file:
        return status, list(csv.DictReader(file))


def test_simulate_writes_each_point_beside_its_exact_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = ("--decay", "0.5", "1", "--noise", "dpsgd", "nu-ftrl", "nu-ftrl:0.5", "anti-pgd:0.2", "--seeds", "2")
    status, rows = simulated(tmp_path, *grid, "--residual-std", "0.3", "--rho", "2", "--clip-norm", "1.5")
    assert status == 0
    noises = [
        DPSGD(),
        NuFTRL(0.1 * 4**-0.5),
        NuFTRL(0.5),
        AntiPGD(0.2),
        DPSGD(),
        NuFTRL(0.1 / 4),
        NuFTRL(0.5),
        AntiPGD(0.2),
    ]
    for row, noise, decay, seed in zip(
        rows, [n for n in noises for _ in range(2)], 8 * [0.5] + 8 * [1.0], 8 * ["0", "1"], strict=True
    ):
        problem = LinearRegression([k**-decay for k in range(1, 5)], 0.1, 0.3)
        exact = problem.stationary_error(noise, budget=Budget(2.0, clip_norm=1.5))
        assert float(row["exact"]) == pytest.approx(exact, rel=1e-12)
        assert (float(row["decay"]), row["seed"], row["error"]) == (decay, seed, "")
        z = (float(row["plain"]) - exact) / float(row["plain_standard_error"])
        assert float(row["z"]) == pytest.approx(z, rel=1e-6)
        assert abs(z) < 6
        assert abs(float(row["delta1"]) - exact) < 6 * float(row["delta1_standard_error"])
        assert not abs(float(row["delta1"]) - 1.1 * exact) < 6 * float(row["delta1_standard_error"])
        stored = unpacked((tmp_path / f"{row['key']}.json").read_bytes())["result"]["simulation"]
        assert stored["mean"] == float(row["plain"])
        assert stored["effective_sample_size"] == float(row["effective_sample_size"])
    table = capsys.readouterr().out.splitlines()
    assert " ".join(table[0].split()) == "dimension decay learning rate noise seeds exact simulated standard error z"
    assert table[-1] == str(tmp_path / "results.csv")
    for line, pair in zip(table[1:9], zip(rows[::2], rows[1::2], strict=True), strict=True):
        _, _, rate, name, seeds, known, mean, error, score = line.split()
        assert (rate, name, seeds) == ("0.1", pair[0]["noise"], "2/2")
        assert float(known) == pytest.approx(float(pair[0]["exact"]), rel=1e-5)
        assert float(mean) == pytest.approx(sum(float(row["plain"]) for row in pair) / 2, rel=1e-5)
        assert float(error) == pytest.approx(
            math.hypot(*(float(r["plain_standard_error"]) for r in pair)) / 2, rel=0.06
        )
        assert float(score) == pytest.approx((float(mean) - float(known)) / float(error), rel=0.06, abs=0.01)


@pytest.mark.slow
def test_simulate_continues_and_repeats_itself_to_the_byte(tmp_path: Path) -> None:
    simulated(tmp_path / "a", "--seeds", "1")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("*.json")}
    assert len(before) == 2
    simulated(tmp_path / "a", "--seeds", "2")
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "a").glob("*.json")}
    assert len(after) == 4
    assert before.items() <= after.items()
    simulated(tmp_path / "b", "--seeds", "2", "--jobs", "2")
    assert (tmp_path / "a/results.csv").read_bytes() == (tmp_path / "b/results.csv").read_bytes()


def test_simulate_replaces_results_of_other_points_only_when_forced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated(tmp_path, "--seeds", "2")
    before = (tmp_path / "results.csv").read_bytes()
    assert simulated(tmp_path, "--seeds", "1")[0] == 1
    error = capsys.readouterr().err
    assert "--output must hold no results of other points, got" in error
    assert error.count("\n") == 1
    assert (tmp_path / "results.csv").read_bytes() == before
    assert len(simulated(tmp_path, "--seeds", "1", "--force")[1]) == 2
    (tmp_path / "results.csv").write_text("mine")
    assert command_line.main(["simulate", *SMALL, "--output", str(tmp_path)]) == 1
    assert (tmp_path / "results.csv").read_text() == "mine"


def test_simulate_names_what_failed_and_keeps_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = simulated(tmp_path, "--noise", "nu-ftrl:0", "nu-ftrl")
    assert status == 1
    output = capsys.readouterr()
    name = "dimension 4, decay 1, learning rate 0.1, nu-ftrl:0, seed 0"
    error = f"{name}: ValueError: noise must have a finite limiting sensitivity, got NuFTRL(nu=0.0)"
    assert output.err == f"corrnoise: failed: {error}\n"
    assert [row["error"] for row in rows] == [error, ""]
    assert [row["plain"] == "" for row in rows] == [True, False]
    assert rows[0]["exact"] == "inf"
    assert output.out.splitlines()[1].split()[3:] == ["nu-ftrl:0", "0/1", "inf", "-", "-", "-"]
    assert len(list(tmp_path.glob("*.json"))) == 1


@pytest.mark.parametrize(
    ("arguments", "inputs", "kurtosis", "scored"),
    [
        (("--clip", "--clip-norm", "0.5"), "gaussian", 3.0, False),  # the exact error is of runs without clipping
        (("--inputs", "uniform"), "uniform", 1.8, True),
        (("--inputs", "signs"), "signs", 1.0, True),
        (("--inputs", "student-t:3.5"), "student-t", 3.5, True),
    ],
)
def test_simulate_clips_and_draws_other_inputs(
    arguments: tuple[str, ...], inputs: str, kurtosis: float, scored: bool, tmp_path: Path
) -> None:
    status, (row,) = simulated(tmp_path, "--noise", "nu-ftrl", *arguments)
    assert status == 0
    problem = LinearRegression([1, 1 / 2, 1 / 3, 1 / 4], 0.1, kurtosis=kurtosis)
    budget = Budget(1.0, clip_norm=0.5 if "--clip" in arguments else 1.0)
    assert float(row["exact"]) == pytest.approx(problem.stationary_error(NuFTRL(0.025), budget=budget), rel=1e-12)
    assert (row["inputs"], float(row["kurtosis"])) == (inputs, kurtosis)
    assert bool(row["z"]) == scored
    assert (float(row["clipped_fraction"]) > 0) == ("--clip" in arguments)
    assert bool(row["delta"]) == ("--clip" not in arguments)


def test_simulate_warns_where_standard_errors_mean_nothing(tmp_path: Path) -> None:
    heavy = ["--dimension", "1", "--learning-rate", "0.6", "--noise", "dpsgd"]
    with pytest.warns(RuntimeWarning, match="the fourth moments of the iterates diverge"):
        status, (row,) = simulated(tmp_path, *heavy)
    assert (status, row["z"]) == (0, "")
    words = ["simulate", *heavy, "--steps", "20", "--output", str(tmp_path / "new")]
    command = [sys.executable, "-m", "corrnoise", *words]
    error = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert error.startswith("corrnoise: warning: the fourth moments of the iterates diverge")
    assert error.count("warning") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--seeds", "0"), "--seeds must be an integer >= 1, got 0"),
        (("--dimension", "0"), "--dimension must be an integer >= 1, got 0"),
        (("--learning-rate", "-1"), "--learning-rate must lie in (0, inf), got -1.0"),
        (("--noise", "nu-ftrl:2"), "nu must lie in [0, 2), got 2.0"),
        (("--inputs", "student-t:0"), "kurtosis must lie in [1, 1e6]"),
        (("--steps", "0"), "--steps must be an integer >= 1, got 0"),
        (
            ("--steps", "99999999999", "--dimension", "128"),
            "--steps must be at most 19531250000 for 4 chains in 128 dim",
        ),
        (("--dimension", "4", "100000000"), "--dimension must be at most 1000000, got 100000000"),
        (("--cluster", "tcp://127.0.0.1:1"), "none answers at 'tcp://127.0.0.1:1'"),
    ],
)
def test_simulate_refuses_in_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    status = 1 if "--cluster" in arguments else 2
    assert command_line.main(["simulate", *SMALL, "--output", str(tmp_path / "new"), *arguments]) == status
    error = capsys.readouterr().err
    assert error.startswith("corrnoise: error: ")
    assert message in error
    assert error.count("\n") == 1
    assert not list(tmp_path.glob("new/*"))


@pytest.mark.parametrize(
    ("group", "sent", "status", "word"),
    [
        (True, signal.SIGINT, 130, "interrupted"),  # as a terminal does, the workers too
        pytest.param(False, signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow),  # as a scheduler does
    ],
)
def test_an_interrupted_simulation_keeps_its_points(
    group: bool, sent: int, status: int, word: str, tmp_path: Path
) -> None:
    arguments = ["simulate", "--steps", "20000", "--dimension", "8", "--seeds", "100", "--output", str(tmp_path)]
    command = [sys.executable, "-m", "corrnoise", *arguments, "--jobs", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    (os.killpg if group else os.kill)(process.pid, sent)
    _, error = process.communicate(timeout=120)
    assert process.returncode == status
    error = re.sub(r"^corrnoise: \d\d:\d\d:\d\d .*\n", "", error, flags=re.MULTILINE)
    assert error == (
        f"corrnoise: finished points are kept in {tmp_path}; the same command continues\ncorrnoise: {word}\n"
    )
    finished = list(tmp_path.iterdir())
    assert 1 <= len(finished) < 200
    assert all(path.suffix == ".json" for path in finished)
    for path in finished:
        assert unpacked(path.read_bytes())["result"]["simulation"]["mean"] > 0


_STOPPED = """
import contextlib, os, signal, sys, threading
from corrnoise import __main__ as command_line
from corrnoise.support.files import whole_files

def run(arguments):
    with whole_files(arguments.output) as staging:
        (staging / "a").write_text("half")
        os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(60)

command_line.figures.run = run
if sys.argv[2:]:
    command_line._ended_by_termination = contextlib.nullcontext
sys.exit(command_line.main(["figures", "--output", sys.argv[1]]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows ends processes at once")
@pytest.mark.parametrize("mutant", [(), ("unheard",)])
def test_termination_ends_a_command_as_an_interrupt_does(mutant: tuple[str, ...], tmp_path: Path) -> None:
    """No file is half written, and the status tells the signal; if it is not heard, a folder is left."""
    command = [sys.executable, "-c", _STOPPED, str(tmp_path), *mutant]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == (-signal.SIGTERM if mutant else 143)
    assert result.stderr == ("" if mutant else "corrnoise: terminated\n")
    assert len(list(tmp_path.iterdir())) == len(mutant)


@pytest.mark.parametrize("words", [("design", "--rho", "1", "--steps", "4"), ("simulate", "--steps", "20")])
def test_long_commands_write_their_first_line_soon(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("corrnoise.support.progress.FIRST_SECONDS", 0.0)
    assert command_line.main([*words, "--output", str(tmp_path / "new")]) == 0
    assert re.match(r"corrnoise: \d\d:\d\d:\d\d \w+", capsys.readouterr().err)


def test_termination_is_left_to_those_who_asked_for_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    heard = []
    signal.signal(signal.SIGTERM, lambda *_: heard.append("mine"))
    try:
        with command_line._ended_by_termination():
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == ["mine"]
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt), command_line._ended_by_termination():
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("command", ["simulate", "federate"])
def test_a_cluster_that_is_not_there_is_named_before_anything_is_written(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [command, "--cluster", "127.0.0.1:1", "--output", str(tmp_path / "new")]
    assert command_line.main(arguments) == 1
    error = capsys.readouterr().err
    assert "cluster must be the address of a Dask scheduler, none answers at '127.0.0.1:1'" in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
