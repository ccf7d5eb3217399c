"""``corrnoise design``: its files and output, and refusals in one line before it computes."""

import csv
import json
import math
import os
import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from corrnoise import __main__ as command_line
from corrnoise.commands import design as design_command
from corrnoise.designs import make
from corrnoise.designs.comparison import INDEPENDENT
from corrnoise.designs.design import Design
from corrnoise.designs.spectra import NOT_COVERED
from corrnoise.designs.storage import load
from corrnoise.figures.publication import read_csv
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, FixedEpochs, Participation, Poisson
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex

FAMILY = ("--dimension", "6", "--decay", "0.5", "--learning-rate", "0.05")
LONG = (*FAMILY, "--rho", "0.5")
ALWAYS = {"design.html", "design.npz", "report.txt", "programs.json"}
COMPARED = {"comparison.pdf", "comparison.png", "comparison.csv"}
CHOSEN = {"memory.pdf", "memory.png", "memory.csv"}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures, which take longer than all the rest."""
    monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
    monkeypatch.setattr("corrnoise.designs.memory_figure.write_memory_picture", lambda *_: None)


def parser_of_the_command() -> ArgumentParser:
    parser = ArgumentParser()
    design_command.add_arguments(parser)
    return parser


def run(*arguments: str) -> int:
    return design_command.run(parser_of_the_command().parse_args(arguments))


def made(folder: Path, *arguments: str) -> Design:
    """The design that the command writes."""
    assert run(*arguments, "--output", str(folder)) == 0
    found = load(folder)
    assert isinstance(found, Design)
    return found


def table(path: Path) -> tuple[list[str], np.ndarray]:
    """The comments of a CSV file, and its numbers."""
    lines = path.read_text().splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    return [line for line in lines if line.startswith("#")], np.array(rows[1:], dtype=float)


@pytest.mark.slow
def test_a_design_for_a_problem_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    options: tuple[str, ...] = (
        "--epsilon",
        "2",
        "--delta",
        "1e-6",
        "--steps",
        "60",
        "--clip-norm",
        "0.5",
        "--initial-offset",
        "1",
    )
    options = (*options, "--family", "stationary optimum", "--residual-std", "0.1", "--kurtosis", "1.8")
    found = made(folder, *FAMILY, *options)
    files = ALWAYS | COMPARED | CHOSEN | {"coefficients.csv", "poles.csv", "epsilon.csv"}
    assert {path.name for path in folder.iterdir()} == files
    problem = LinearRegression(np.arange(1.0, 7) ** -0.5, 0.05, 0.1, kurtosis=1.8)
    assert found.problem == problem
    assert found.budget == Budget(epsilon=2.0, delta=1e-6, clip_norm=0.5)
    assert found.participation == Participation.single(60)

    comments, columns = table(folder / "coefficients.csv")
    program = found.program("noising column", "float64")
    assert columns[:, 0].tolist() == list(range(60))
    assert columns[:, 1].tobytes() == program.arrays["noising_coef"].tobytes()
    assert columns[:, 2].tobytes() == found.program("strategy column", "float64").arrays["strategy_coef"].tobytes()
    multiplier = program.multiplier(found.budget)
    assert any(repr(multiplier) in comment for comment in comments)
    gamma = FiniteNoise(columns[:, 1]).sensitivity(found.participation)
    assert multiplier >= gamma / math.sqrt(2 * found.budget.gaussian_rho)
    comments, columns = table(folder / "poles.csv")
    run_here = found.program()
    assert PoleNoise(*columns.T).coefficients(9) == pytest.approx(run_here.mechanism.coefficients(9), rel=1e-12)
    assert any(repr(run_here.multiplier(found.budget)) in comment for comment in comments)

    text = (folder / "report.txt").read_text()
    assert capsys.readouterr().out == f"{found.summary()}\n" + "".join(f"{folder / name}\n" for name in sorted(files))
    comparison = found.comparison(1.0)
    first, second = text.split("Stationary errors,")
    for part, name, value in ((first, "final_error", 0), (second, "stationary_error", 0), (second, "ratio", 1)):
        rows = {line[:40].strip(): line[40:].split() for line in part.splitlines() if line.startswith("  ")}
        assert float(rows[INDEPENDENT][value]) == pytest.approx(getattr(comparison[INDEPENDENT], name), rel=1e-4)
    assert read_csv(folder / "comparison.csv")[0].method == INDEPENDENT


@pytest.mark.slow
def test_a_real_data_set_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rates.txt").write_text("\n".join(["1.0"] * 27 + ["0.5"] * 9))
    options: tuple[str, ...] = ("--momentum", "0.9", "--learning-rates", str(tmp_path / "rates.txt"), "--memory", "2")
    options = (*options, "--examples", "100", "--batch-size", "8", "--epochs", "3", "--parameters", "1000000")
    found = made(tmp_path / "out", "--epsilon", "2", "--delta", "1e-6", *options)
    assert {path.name for path in (tmp_path / "out").iterdir()} >= ALWAYS | CHOSEN
    assert found.participation == Participation.fixed_epochs(36, epochs=3)
    assert isinstance(found.objective, SGD)
    assert (found.objective.momentum, found.objective.batch_size) == (0.9, 8)
    assert found.memory <= 2
    output = capsys.readouterr().out
    assert "An epoch has 12 steps of 8 examples; 4 of the 100 examples are left out of it." in output
    assert "SGD with momentum 0.9, learning rates from 0.5 to 1" in " ".join(output.split())
    assert "for 1000000 parameters in float" in output
    assert "run = design.run(size)" in output
    for row in json.loads((tmp_path / "out/programs.json").read_text())["programs"]:
        assert row["form"] == "time-varying buffers"
        arrays = found.program(row["form"], row["dtype"]).arrays
        assert {"buf_decay", "output_scale", "input_scale", "step_scales"} == arrays.keys()
        assert all(np.array_equal(row[name], numbers) for name, numbers in arrays.items())


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--examples", "50000", "--batch-size", "128", "--epochs", "3"), Participation.fixed_epochs(1170, epochs=3)),
        (("--examples", "50000", "--batch-size", "128"), Participation.single(390)),
        (("--steps", "40", "--epochs", "4"), Participation.fixed_epochs(40, epochs=4)),
        (("--steps-per-epoch", "10", "--epochs", "4"), Participation.fixed_epochs(40, epochs=4)),
        (("--steps", "40", "--epochs", "4", "--order", "reshuffled"), Participation.reshuffled(40, epochs=4)),
        (("--steps", "40", "--epochs", "4", "--order", "min-sep"), Participation.min_sep(40, 10)),
        (
            ("--steps", "40", "--order", "min-sep", "--separation", "7", "--participations", "99"),
            Participation.min_sep(40, 7),
        ),
        (
            ("--steps", "40", "--order", "min-sep", "--separation", "7", "--participations", "2"),
            Participation.min_sep(40, 7, 2),
        ),
        (("--steps", "40"), Participation.single(40)),
    ],
)
def test_runs_in_several_words(options: tuple[str, ...], expected: Participation) -> None:
    found, _ = design_command._participation(parser_of_the_command().parse_args(options), None)
    assert found == expected


@pytest.mark.parametrize(
    ("sampling", "kinds"),
    [
        ("poisson", [Poisson]),
        ("cyclic-poisson", [CyclicPoisson] * 11),
        ("balls-in-bins", [BallsInBins]),
        ("none", [FixedEpochs]),
    ],
)
def test_a_sampler_has_batches_of_the_same_mean_size(sampling: str, kinds: list[type[Participation]]) -> None:
    options = ("--examples", "96", "--batch-size", "8", "--epochs", "2", "--sampling", sampling)
    parsed = parser_of_the_command().parse_args(options)
    found = design_command._sampled(parsed, design_command._participation(parsed, None)[0])
    assert [type(one) for one in found] == kinds
    assert all(one.steps == 24 for one in found)
    assert all(one.sampling_rate == pytest.approx(1 / 12) for one in found)
    with pytest.raises(ValueError, match="--sampling must come with --examples"):
        design_command._sampled(
            parser_of_the_command().parse_args(["--steps", "24", "--sampling", "poisson"]), Participation.single(24)
        )


@pytest.mark.usefixtures("undrawn")
def test_a_run_of_any_length_has_buffers_for_others_and_no_coefficients(tmp_path: Path) -> None:
    found = made(tmp_path, *LONG, "--adjacency", "replace-one")
    assert {path.name for path in tmp_path.iterdir()} == ALWAYS | {"poles.csv"}
    assert "any number of steps" in (tmp_path / "report.txt").read_text()
    described = json.loads((tmp_path / "programs.json").read_text())
    assert described["budget"]["adjacency"] == "replace-one"
    rows = {(row["form"], row["dtype"]): row for row in described["programs"]}
    for dtype in ("float64", "float32"):
        row = rows["buffers", dtype]
        buffers = BufferNoise(row["buf_decay"], row["output_scale"])
        gamma = buffers.program(found.participation, dtype, "buffers").sensitivity
        assert row["multiplier"] == pytest.approx(2 * gamma / math.sqrt(2 * 0.5), rel=1e-14)
        assert "number of steps" in rows["strategy column", dtype]["refused"]


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_the_same_command_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run("--rho", "0.5", "--steps", "20", "--memory", "2", "--output", str(tmp_path / name))
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


# -- problems ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_eigenvalues_and_data_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spectrum.csv"
    path.write_text("eigenvalue\n1\n0.25\n0.3333333333333333\n")
    options = ("--learning-rate", "0.1", "--rho", "1")
    found = made(tmp_path / "a", "--eigenvalues", str(path), *options)
    assert found.problem == LinearRegression([1.0, 0.25, 1 / 3], 0.1)
    assert NOT_COVERED not in (tmp_path / "a" / "report.txt").read_text()
    x = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 0.3, 0.1]
    np.save(tmp_path / "data.npy", x)
    found = made(tmp_path / "b", "--data", str(tmp_path / "data.npy"), *options)
    assert isinstance(found.problem, LinearRegression)
    assert found.problem.eigenvalues == pytest.approx(np.linalg.eigvalsh(x.T @ x / 40)[::-1], rel=1e-12)
    assert found.notes == (NOT_COVERED,)
    assert NOT_COVERED in capsys.readouterr().out


@pytest.mark.usefixtures("undrawn")
def test_the_learning_rate_is_tuned_where_asked(tmp_path: Path) -> None:
    options = ("--rho", "0.5", "--steps", "60", "--initial-offset", "1", "--family", "stationary optimum")
    found = made(tmp_path, "--dimension", "3", "--tune-learning-rate", *options)
    assert found.problem is not None
    (note,) = found.notes
    assert f"The learning rate {found.problem.learning_rate!r} has the smallest expected error after 60 steps" in note
    best = found.comparison(1.0)["design"]
    assert best.best_learning_rate == pytest.approx(found.problem.learning_rate, rel=1e-3)
    assert best.best_error == pytest.approx(best.final_error, rel=1e-5)
    assert f"{best.best_error:.6g}" in note


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_what_is_judged_and_batches_of_a_problem(tmp_path: Path) -> None:
    found = made(tmp_path, *LONG, "--steps", "20", "--judged", "last", "--memory", "1", "--batch-size", "4")
    assert found.memory <= 1
    assert found.problem == LinearRegression(np.arange(1.0, 7) ** -0.5, 0.05, batch_size=4)
    assert "after the last step" in found.error_in_words


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_strongly_convex_losses_have_bounds(tmp_path: Path) -> None:
    options = ("--smoothness", "3", "--dimension", "3", "--gradient-noise-std", "0.1", "--learning-rate", "0.3")
    found = made(tmp_path, "--strong-convexity", "1", *options, "--rho", "1")
    assert found.problem == StronglyConvex(1.0, 3.0, 0.3, dimension=3, gradient_noise_std=0.1)
    text = (tmp_path / "report.txt").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("  design  ")]
    assert float(line.split()[1]) == pytest.approx(found.excess_loss, rel=1e-5)
    assert "Upper bounds of F - F*" in text


# -- refusals ----------------------------------------------------------------------------------------------------------

EPOCHS = ("--rho", "0.5", "--steps", "40", "--epochs", "4")
CONVEX = ("--strong-convexity", "1", "--smoothness", "2")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rho", "1"), "the run must be given by --examples and --batch-size, by --steps, or by --steps-per-epoch"),
        ((*LONG, "--data", "x.csv"), "the problem must be given by one of --eigenvalues, --data, --dimension"),
        (FAMILY, "the budget must be given either by --rho or by --epsilon and --delta"),
        ((*FAMILY, "--epsilon", "1"), "the budget must be given"),
        ((*LONG, "--delta", "1e-6"), "the budget must be given"),
        ((*FAMILY, "--epsilon", "1", "--delta", "2"), "--delta must lie in (0, 1), got 2.0"),
        ((*FAMILY, "--epsilon", "-1", "--delta", "0.1"), "--epsilon must lie in [0, inf), got -1.0"),
        ((*FAMILY, "--rho", "nan"), "--rho must lie in"),
        ((*LONG, "--steps", "0"), "--steps must be an integer >= 1, got 0"),
        ((*LONG, "--clip-norm", "-1"), "--clip-norm must lie in"),
        ((*LONG, "--kurtosis", "0"), "--kurtosis must lie in [1, 1e6], got 0.0"),
        ((*LONG, "--initial-offset", "nan"), "--initial-offset must lie in"),
        ((*LONG, "--judged", "last"), "--judged must come with --eigenvalues and a number of steps"),
        (("--dimension", "0", "--learning-rate", "1", "--rho", "1"), "--dimension must be an integer >= 1, got 0"),
        (
            ("--dimension", "100000000", "--learning-rate", "1e-9", "--rho", "1"),
            "--dimension must be at most 1000000, beyond which errors take longer than minutes, got 100000000",
        ),
        (("--dimension", "3", "--rho", "1"), "--learning-rate or --tune-learning-rate must be given"),
        (("--dimension", "3", "--rho", "1", "--learning-rate", "0.9"), "--learning-rate must be stable"),
        (("--dimension", "3", "--rho", "1", "--learning-rate", "0"), "--learning-rate must lie in (0, inf), got 0.0"),
        (
            ("--dimension", "3", "--rho", "1", "--tune-learning-rate"),
            "--tune-learning-rate needs eigenvalues, a number",
        ),
        ((*LONG, "--tune-learning-rate"), "either --learning-rate or --tune-learning-rate"),
        (("--eigenvalues", "absent.npy", "--learning-rate", "1", "--rho", "1"), "No such file or directory"),
        (("--data", ".", "--learning-rate", "1", "--rho", "1"), "Is a directory"),
        (("--data", "x", "--decay", "1", "--learning-rate", "1", "--rho", "1"), "--decay must come with --dimension"),
        ((*LONG, "--smoothness", "1"), "--smoothness must come with --strong-convexity"),
        ((*LONG, "--gradient-noise-std", "1"), "--gradient-noise-std must come with --strong-convexity"),
        (("--strong-convexity", "1", "--rho", "1", "--learning-rate", "1"), "--smoothness must come with"),
        ((*CONVEX, "--residual-std", "1", "--learning-rate", "1", "--rho", "1"), "--residual-std must come with"),
        ((*CONVEX, "--tune-learning-rate", "--rho", "1"), "--tune-learning-rate needs eigenvalues"),
        ((*CONVEX, "--learning-rate", "1", *EPOCHS), "participation must be single for strongly convex losses"),
        (("--rho", "1", "--steps", "41", "--epochs", "4"), "--steps must be a multiple of epochs=4, got 41"),
        ((*EPOCHS, "--steps-per-epoch", "9"), "--steps must be the 4 times 9 steps of all epochs, 36, got 40"),
        (
            ("--rho", "1", "--examples", "9", "--batch-size", "10"),
            "--batch-size must be at most the 9 examples, got 10",
        ),
        (
            ("--rho", "1", "--examples", "9", "--batch-size", "2", "--steps-per-epoch", "5"),
            "--steps-per-epoch must be 4 for 9 examples in batches of 2, got 5",
        ),
        ((*EPOCHS, "--separation", "3"), "--separation must come with --order min-sep"),
        ((*EPOCHS, "--learning-rate", "0.1"), "--learning-rate must come with a problem, such as --eigenvalues"),
        ((*EPOCHS, "--tune-learning-rate"), "--tune-learning-rate must come with a problem"),
        ((*EPOCHS, "--momentum", "1"), "--momentum must lie in"),
        ((*FAMILY, *EPOCHS, "--momentum", "0.5"), "--momentum must not come with a problem"),
        ((*EPOCHS, "--cool-down", "2"), "--cool-down must lie in"),
        ((*EPOCHS, "--family", "none"), "--family must be one of"),
        ((*EPOCHS, "--family", "bufers"), "got 'bufers'; did you mean 'buffers'?"),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, OSError)) as refusal:
        run(*arguments, "--output", "out")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_bad_files_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,x\n")
    with pytest.raises(
        ValueError, match=r"--data must hold a table of numbers, got 'x' in row 3, column 2 of"
    ) as refusal:
        run("--data", str(path), "--learning-rate", "0.1", "--rho", "1", "--output", str(tmp_path / "out"))
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "out").exists()


def _fail(*_: object, **__: object) -> NoReturn:
    raise AssertionError("too late")


@pytest.mark.usefixtures("undrawn")
def test_a_folder_is_refused_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("mine")
    found = made(tmp_path / "out", *LONG)
    with monkeypatch.context() as late:
        late.setattr(make, "optimise", _fail)
        with pytest.raises(OSError, match=r"--output must be a folder, got '.*file', which is a file"):
            run(*LONG, "--output", str(tmp_path / "file"))
        with pytest.raises(
            FileExistsError, match=r"--output must not hold a design, got .*or give --force to overwrite"
        ):
            run(*LONG, "--output", str(tmp_path / "out"))
        if os.geteuid() != 0:
            (tmp_path / "locked").mkdir(mode=0o500)
            with pytest.raises(PermissionError):
                run(*LONG, "--output", str(tmp_path / "locked"))
    assert (tmp_path / "file").read_text() == "mine"
    assert load(tmp_path / "out") == found
    assert made(tmp_path / "out", *FAMILY, "--rho", "2", "--force").budget == Budget(2.0)


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_example_is_understood() -> None:
    program, command, *arguments = shlex.split(design_command.EXAMPLE)
    assert (program, command) == ("corrnoise", "design")
    parsed = parser_of_the_command().parse_args(arguments)
    assert (parsed.examples, parsed.epochs, parsed.epsilon, parsed.memory) == (50000, 3, 2.0, 4)


def test_help_begins_with_few_options_and_says_what_the_budget_does_not_cover(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = parser_of_the_command()
    first = next(group for group in parser._action_groups if group.title == "the usual options")
    assert len(first._group_actions) == 7
    with pytest.raises(SystemExit):
        parser.parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "budget does not cover that these are computed from private data" in shown


def test_errors_are_one_line_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["design", *FAMILY, "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    expected = "corrnoise: error: the budget must be given either by --rho or by --epsilon and --delta, got "
    assert error.startswith(expected)
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_progress_is_shown_on_terminals_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = ("--rho", "1", "--steps", "10", "--memory", "1")
    run(*options, "--output", str(tmp_path / "a"))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(*options, "--output", str(tmp_path / "b"))
    shown = capsys.readouterr().err
    assert "the lower bound" in shown
    assert shown.endswith("\r\x1b[K")


def test_a_memory_is_a_number_or_inf(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser_of_the_command().parse_args(["--memory", "inf"]).memory == math.inf
    assert parser_of_the_command().parse_args(["--memory", "0"]).memory == 0
    with pytest.raises(SystemExit):
        parser_of_the_command().parse_args(["--memory", "x"])
    assert "'x' must be a number of buffers" in capsys.readouterr().err


def test_replays_are_a_number_or_auto(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser_of_the_command().parse_args(["--replays", "auto"]).replays == "auto"
    assert parser_of_the_command().parse_args(["--replays", "2"]).replays == 2
    for word in ("most", "-1", "1.5"):
        with pytest.raises(SystemExit):
            parser_of_the_command().parse_args([f"--replays={word}"])
        assert f"'{word}' must be a number of draws: 0, 1, 2, ... or auto" in capsys.readouterr().err


@pytest.mark.slow
def test_replays_of_a_design_are_chosen(tmp_path: Path) -> None:
    options = ("--rho", "1", "--steps", "16", "--epochs", "4", "--memory", "1")
    assert made(tmp_path / "chosen", *options, "--replays", "auto").optimum.replays > 0
    assert made(tmp_path / "none", *options).optimum.replays == 0


@pytest.mark.slow
def test_baselines_are_compared(tmp_path: Path) -> None:
    found = made(tmp_path / "out", *EPOCHS, "--baselines")
    usual = made(tmp_path / "usual", *EPOCHS)
    assert 0.97 * usual.error < found.error <= usual.error
    assert usual.error in map(found.error_of, found.alternatives)
    compared = {one.family for one in (found.optimum, *found.alternatives)}
    assert compared >= {"nu-DP-FTRL", "BISR", "BSR", "dense", "BandMF"}
    assert {one.family for one in usual.alternatives} == {"independent noise", "time-varying buffers"}
    with pytest.raises(ValueError, match="--family must not come with --baselines"):
        run(*EPOCHS, "--baselines", "--family", "BLT", "--output", str(tmp_path / "third"))
