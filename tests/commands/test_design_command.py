"""``corrnoise design``: what it writes and prints, and that it refuses in one line before it computes."""

import csv
import json
import math
import os
import shlex
from argparse import ArgumentParser
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from corrnoise.designs.record import Design
from corrnoise.solvers.rational.exchange import BufferForm

from corrnoise import __main__ as command_line
from corrnoise.commands import design as design_command
from corrnoise.designs import make
from corrnoise.designs.spectra import NOT_COVERED
from corrnoise.figures.publication import read_csv
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.privacy import gaussian_delta, gaussian_rho
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex

FAMILY = ("--dimension", "6", "--decay", "0.5", "--learning-rate", "0.05")
FILES = {
    *("design.npz", "design.json", "report.txt", "coefficients.csv", "poles.csv"),
    *("comparison.pdf", "comparison.png", "comparison.csv"),
}
CHOSEN = {"design.npz", "design.json", "report.txt", "memory.pdf", "memory.png", "memory.csv"}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pictures, which take longer than all the rest."""
    monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)


def parser_of_the_command() -> ArgumentParser:
    parser = ArgumentParser()
    design_command.add_arguments(parser)
    return parser


def run(*arguments: str) -> int:
    return design_command.run(parser_of_the_command().parse_args(arguments))


def table(path: Path) -> tuple[list[str], np.ndarray]:
    """The comments of a CSV file, and its numbers."""
    lines = path.read_text().splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    return [line for line in lines if line.startswith("#")], np.array(rows[1:], dtype=float)


def test_a_design_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    options = ("--epsilon", "2", "--delta", "1e-6", "--steps", "300", "--clip-norm", "0.5", "--initial-offset", "1")
    assert run(*FAMILY, *options, "--residual-std", "0.1", "--kurtosis", "1.8", "--output", str(folder)) == 0
    assert {path.name for path in folder.iterdir()} == FILES

    problem = LinearRegression(np.arange(1.0, 7) ** -0.5, 0.05, 0.1, kurtosis=1.8)
    d, rho = Design.load(folder / "design.npz"), gaussian_rho(2, 1e-6)
    assert (d.problem, d.rho, d.steps, d.clip_norm, d.adjacency) == (problem, rho, 300, 0.5, "zero-out")
    assert gaussian_delta(d.rho, 2.0) <= 1e-6 < gaussian_delta(math.nextafter(d.rho, 1), 2.0)
    assert d.noise == optimal_noise(problem)
    assert dict(d.metadata) == {"tolerance": 1e-6, "epsilon": 2.0, "delta": 1e-6}
    assert d.initial_offset == 1.0
    assert json.loads((folder / "design.json").read_text()) == json.loads(d.json())

    assert d.toeplitz is not None
    comments, columns = table(folder / "coefficients.csv")
    assert columns[:, 0].tolist() == list(range(300))
    assert columns[:, 1].tobytes() == d.toeplitz.noising_coef.tobytes()
    assert columns[:, 2].tobytes() == d.toeplitz.strategy_coef.tobytes()
    assert any(repr(d.toeplitz_multiplier) in comment for comment in comments)
    assert d.toeplitz_multiplier is not None
    assert d.toeplitz_multiplier >= FiniteNoise(columns[:, 1]).sensitivity(Participation.single(300)) / math.sqrt(
        2 * rho
    )

    comments, columns = table(folder / "poles.csv")
    assert PoleNoise(*columns.T) == d.stream
    assert any(repr(d.stream_multiplier) in comment for comment in comments)

    report = (folder / "report.txt").read_text()
    output = capsys.readouterr().out
    assert output == f"{report}\n" + "".join(f"{folder / name}\n" for name in sorted(FILES))
    multipliers = [d.stream_multiplier, d.toeplitz_multiplier]
    multipliers += [value for form in ("buffers", "strategy_coef") for value in d.multipliers(form).values()]
    for multiplier in multipliers:
        assert repr(multiplier) in report
    best, sgd = problem.optimal_error(**d.budget), problem.stationary_error(DPSGD(), **d.budget)
    first, second = report.split("Stationary errors,")
    rows = {line[:28].strip(): line[28:].split() for line in second.splitlines() if line.startswith("  ")}
    assert float(rows["DP-SGD"][0]) == pytest.approx(sgd, rel=1e-5)
    assert float(rows["DP-SGD"][1]) == pytest.approx(sgd / best, rel=1e-4)
    end = problem.learning_curve(d.noise, 300, horizon=300, initial_offset=1.0, **d.budget)[-1]
    rows = {line[:28].strip(): line[28:].split() for line in first.splitlines() if line.startswith("  ")}
    assert float(rows["design"][0]) == pytest.approx(end, rel=1e-5)
    assert float(rows["DP-SGD"][3]) == pytest.approx(d.comparison["DP-SGD"].best_ratio, rel=1e-5)
    assert read_csv(folder / "comparison.csv")[0].method == "DP-SGD"


@pytest.mark.usefixtures("undrawn")
def test_buffers_in_json_are_enough_for_others(tmp_path: Path) -> None:
    run(*FAMILY, "--rho", "0.5", "--adjacency", "replace-one", "--output", str(tmp_path))
    described = json.loads((tmp_path / "design.json").read_text())
    buffers = described["buffers"]
    form = BufferForm(buffers["buf_decay"], buffers["output_scale"])
    for dtype in ("float64", "float32"):
        multiplier = 2 * form.sensitivity_as_run(dtype=dtype) / math.sqrt(2 * 0.5)
        assert buffers["noise_multipliers"][dtype] == pytest.approx(multiplier, rel=1e-14)
    assert buffers["noise_multiplier"] == max(buffers["noise_multipliers"].values())
    assert buffers["refused"] == {}
    assert described["privacy"]["adjacency"] == "replace-one"


def test_without_a_horizon_no_coefficients_are_cut_off(tmp_path: Path) -> None:
    assert run(*FAMILY, "--rho", "0.5", "--output", str(tmp_path)) == 0
    assert {path.name for path in tmp_path.iterdir()} == FILES - {"coefficients.csv"}
    report = (tmp_path / "report.txt").read_text()
    assert "for any number of steps" in report
    assert "coefficients.csv" not in report


@pytest.mark.usefixtures("undrawn")
def test_the_same_command_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(*FAMILY, "--rho", "0.5", "--steps", "50", "--output", str(tmp_path / name))
    for name in ("design.npz", "design.json", "report.txt", "coefficients.csv", "poles.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


# -- eigenvalues and data ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_eigenvalues_are_read(tmp_path: Path) -> None:
    path = tmp_path / "spectrum.csv"
    path.write_text("eigenvalue\n1\n0.25\n0.3333333333333333\n")
    arguments = ("--eigenvalues", str(path), "--learning-rate", "0.1", "--rho", "1", "--output", str(tmp_path / "out"))
    assert run(*arguments) == 0
    assert Design.load(tmp_path / "out").problem == LinearRegression([1.0, 0.25, 1 / 3], 0.1)
    assert NOT_COVERED not in (tmp_path / "out" / "report.txt").read_text()


@pytest.mark.usefixtures("undrawn")
def test_data_give_their_spectrum_and_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 0.3, 0.1]
    np.save(tmp_path / "data.npy", x)
    arguments = ("--data", str(tmp_path / "data.npy"), "--learning-rate", "0.1", "--rho", "1")
    assert run(*arguments, "--output", str(tmp_path / "out")) == 0
    d = Design.load(tmp_path / "out")
    assert isinstance(d.problem, LinearRegression)
    assert d.problem.eigenvalues == pytest.approx(np.linalg.eigvalsh(x.T @ x / 40)[::-1], rel=1e-12)
    assert d.notes == (NOT_COVERED,)
    assert NOT_COVERED in capsys.readouterr().out


# -- learning rates ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("undrawn")
def test_the_learning_rate_is_tuned_where_asked(tmp_path: Path) -> None:
    options = ("--rho", "0.5", "--steps", "60", "--initial-offset", "1")
    assert run("--dimension", "3", "--tune-learning-rate", *options, "--output", str(tmp_path)) == 0
    d = Design.load(tmp_path)
    expected = make.design(
        LinearRegression([1, 1 / 2, 1 / 3], 1.0), rho=0.5, steps=60, initial_offset=1.0, tune_learning_rate=True
    )
    assert d.problem == expected.problem
    assert d.notes == expected.notes
    assert d.notes[0] in (tmp_path / "report.txt").read_text()


@pytest.mark.usefixtures("undrawn")
def test_strongly_convex_losses_have_bounds(tmp_path: Path) -> None:
    options = ("--smoothness", "10", "--dimension", "3", "--gradient-noise-std", "0.1", "--learning-rate", "0.02")
    assert run("--strong-convexity", "1", *options, "--rho", "1", "--output", str(tmp_path)) == 0
    d = Design.load(tmp_path / "design.npz")
    problem = StronglyConvex(1.0, 10.0, 0.02, dimension=3, gradient_noise_std=0.1)
    assert d.problem == problem
    bound = strongly_convex_bound(problem, d.noise, rho=1.0, criterion="objective")
    report = (tmp_path / "report.txt").read_text()
    (line,) = [line for line in report.splitlines() if line.startswith("  design  ")]
    assert float(line.split()[1]) == pytest.approx(bound, rel=1e-5)
    assert bound < strongly_convex_bound(problem, NuFTRL(0.02), rho=1.0, criterion="objective")
    assert "Upper bounds of F - F*" in report
    if isinstance(d.stream, FiniteNoise):
        comments, columns = table(tmp_path / "stream.csv")
        assert FiniteNoise(columns[:, 1]) == d.stream
    else:
        comments, columns = table(tmp_path / "poles.csv")
        assert PoleNoise(*columns.T) == d.stream
    assert any(repr(d.stream_multiplier) in comment for comment in comments)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rho", "1"), "the problem must be given by one of --eigenvalues, --data, --dimension, --strong-convexity"),
        ((*FAMILY, "--rho", "1", "--data", "x.csv"), "the problem must be given by one of"),
        (FAMILY, "the budget must be given either by --rho or by --epsilon and --delta"),
        ((*FAMILY, "--epsilon", "1"), "the budget must be given"),
        ((*FAMILY, "--rho", "1", "--delta", "1e-6"), "the budget must be given"),
        ((*FAMILY, "--epsilon", "1", "--delta", "2"), "--delta must lie in (0, 1), got 2.0"),
        ((*FAMILY, "--epsilon", "-1", "--delta", "0.1"), "--epsilon must lie in [0, inf), got -1.0"),
        ((*FAMILY, "--rho", "0"), "--rho must lie in"),
        ((*FAMILY, "--rho", "nan"), "--rho must lie in"),
        ((*FAMILY, "--rho", "1", "--steps", "0"), "--steps must be an integer >= 1, got 0"),
        ((*FAMILY, "--rho", "1", "--steps", "99999999999"), "--steps must be at most"),
        ((*FAMILY, "--rho", "1", "--clip-norm", "-1"), "--clip-norm must lie in"),
        ((*FAMILY, "--rho", "1", "--tolerance", "2"), "--tolerance must lie in [1e-12, 1), got 2.0"),
        ((*FAMILY, "--rho", "1", "--kurtosis", "0"), "--kurtosis must lie in [1, 1e6], got 0.0"),
        ((*FAMILY, "--rho", "1", "--initial-offset", "nan"), "--initial-offset must lie in"),
        (("--dimension", "0", "--learning-rate", "1", "--rho", "1"), "--dimension must be an integer >= 1, got 0"),
        (
            ("--dimension", "100000000", "--learning-rate", "1e-9", "--rho", "1"),
            "--dimension must be at most 1000000, beyond which errors take longer than minutes, got 100000000",
        ),
        (("--dimension", "3", "--rho", "1"), "--learning-rate or --tune-learning-rate must be given"),
        (("--dimension", "3", "--rho", "1", "--learning-rate", "0.9"), "--learning-rate must be stable"),
        (("--dimension", "3", "--rho", "1", "--learning-rate", "0"), "--learning-rate must lie in (0, inf), got 0.0"),
        (("--dimension", "3", "--rho", "1", "--tune-learning-rate"), "--tune-learning-rate needs eigenvalues, --steps"),
        ((*FAMILY, "--rho", "1", "--tune-learning-rate"), "either --learning-rate or --tune-learning-rate"),
        (("--eigenvalues", "absent.txt", "--learning-rate", "1", "--rho", "1"), "No such file or directory"),
        (("--eigenvalues", "absent.npy", "--learning-rate", "1", "--rho", "1"), "No such file or directory"),
        (("--data", ".", "--learning-rate", "1", "--rho", "1"), "Is a directory"),
        (
            ("--data", "x.csv", "--decay", "1", "--learning-rate", "1", "--rho", "1"),
            "--decay must come with --dimension",
        ),
        ((*FAMILY, "--rho", "1", "--smoothness", "1"), "--smoothness must come with --strong-convexity"),
        (
            (*FAMILY, "--rho", "1", "--gradient-noise-std", "1"),
            "--gradient-noise-std must come with --strong-convexity",
        ),
        (("--strong-convexity", "1", "--rho", "1", "--learning-rate", "1"), "--smoothness must come with"),
        (
            (
                "--strong-convexity",
                "1",
                "--smoothness",
                "2",
                "--residual-std",
                "1",
                "--learning-rate",
                "1",
                "--rho",
                "1",
            ),
            "--residual-std must come with --eigenvalues or --data or --dimension",
        ),
        (
            ("--strong-convexity", "1", "--smoothness", "2", "--tune-learning-rate", "--rho", "1"),
            "--tune-learning-rate needs eigenvalues",
        ),
        (
            ("--strong-convexity", "2", "--smoothness", "1", "--learning-rate", "1", "--rho", "1"),
            "--smoothness must lie in [2.0, inf), got 1.0",
        ),
    ],
)
def test_wrong_input_is_refused_in_one_line(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "_optimum", _fail)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match=r"--output must be a folder, got '.*file', which is a file"):
        run(*FAMILY, "--rho", "1", "--output", str(tmp_path / "file"))
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(PermissionError):
            run(*FAMILY, "--rho", "1", "--output", str(tmp_path / "locked"))
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("where", ["corrnoise.designs.figure.write_picture", "corrnoise.designs.files.archive"])
def test_a_failure_leaves_what_was_there(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as undrawn:
        undrawn.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
        run(*FAMILY, "--rho", "1", "--output", str(tmp_path))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    monkeypatch.setattr(where, _fail)
    with pytest.raises(AssertionError, match="too late"):
        run(*FAMILY, "--rho", "2", "--output", str(tmp_path), "--force")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_design_is_overwritten_only_with_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused before anything is computed."""
    monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
    run(*FAMILY, "--rho", "1", "--output", str(tmp_path))
    before = (tmp_path / "design.npz").read_bytes()
    with monkeypatch.context() as late:
        late.setattr(make, "_optimum", _fail)
        with pytest.raises(
            FileExistsError, match=r"--output must not hold a design, got .*or give --force to overwrite it"
        ):
            run(*FAMILY, "--rho", "2", "--output", str(tmp_path))
    assert (tmp_path / "design.npz").read_bytes() == before
    assert run(*FAMILY, "--rho", "2", "--output", str(tmp_path), "--force") == 0
    assert Design.load(tmp_path).rho == 2


# -- the command line --------------------------------------------------------------------------------------------------


def test_the_example_is_understood(tmp_path: Path) -> None:
    program, command, *arguments = shlex.split(design_command.EXAMPLE)
    assert (program, command) == ("corrnoise", "design")
    parsed = parser_of_the_command().parse_args(arguments)
    assert (parsed.steps, parsed.epochs, parsed.epsilon, parsed.memory) == (2000, 4, 2.0, 4)


def test_help_says_what_the_budget_does_not_cover(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser_of_the_command().parse_args(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "budget does not cover that these are computed from private data" in shown


def test_errors_are_one_line_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["design", *FAMILY, "--output", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    expected = "corrnoise: error: the budget must be given either by --rho or by --epsilon and --delta, got "
    assert error == f"{expected}epsilon=None, delta=None, rho=None\n"


def test_an_earlier_design_leaves_no_files_with_its_own_multiplier(tmp_path: Path) -> None:
    """With fewer files than before: what they said would be less noise than the new budget needs."""
    options = ("--dimension", "3", "--learning-rate", "0.05", "--output", str(tmp_path))
    assert run(*options, "--rho", "1", "--steps", "100") == 0
    (tmp_path / "stream.csv").write_text("of an earlier design")
    (tmp_path / "mine.txt").write_text("mine")
    assert "coefficients.csv" in {path.name for path in tmp_path.iterdir()}
    assert run(*options, "--rho", "0.0001", "--force") == 0
    assert {path.name for path in tmp_path.iterdir()} == (FILES | {"mine.txt"}) - {"coefficients.csv"}


def test_a_folder_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(ValueError, match="--rho must lie in"):
        run(*FAMILY, "--rho", "0", "--output", str(tmp_path / "out"))
    assert (tmp_path / "out").is_dir()


@pytest.mark.usefixtures("undrawn")
def test_progress_is_shown_on_terminals_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(*FAMILY, "--rho", "1", "--output", str(tmp_path / "a"))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    run(*FAMILY, "--rho", "1", "--output", str(tmp_path / "b"))
    shown = capsys.readouterr().err
    assert "the optimal noise" in shown
    assert "errors: DP-SGD" in shown
    assert shown.endswith("\r\x1b[K")


# -- runs of which no spectrum is known --------------------------------------------------------------------------------

EPOCHS = ("--rho", "0.5", "--steps", "40", "--epochs", "4")


def test_a_design_without_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rates.txt").write_text("\n".join(["1.0"] * 30 + ["0.5"] * 10))
    folder = tmp_path / "design"
    options = ("--momentum", "0.9", "--learning-rates", str(tmp_path / "rates.txt"), "--batch-size", "8")
    assert run(*EPOCHS, *options, "--memory", "2", "--output", str(folder)) == 0
    made = Design.load(folder)
    assert {path.name for path in folder.iterdir()} == CHOSEN | {"scales.csv", "coefficients.csv"}
    assert any("scale t of scales.csv" in comment for comment in table(folder / "coefficients.csv")[0])
    _, columns = table(folder / "scales.csv")
    assert made.scales is not None
    assert columns[:, 1].tobytes() == made.scales.tobytes()
    assert (made.problem, made.steps, made.min_sep, made.max_participations) == (None, 40, 10, 4)
    assert made.choice is not None
    assert made.choice.chosen.memory <= 2
    assert made.metadata["batch_size"] == 8
    output = capsys.readouterr().out
    assert "SGD with momentum 0.9, learning rates from 0.5 to 1" in output
    assert "no spectrum is known" in output
    assert "what memory buys" in output


@pytest.mark.usefixtures("undrawn")
def test_a_problem_with_a_limit(tmp_path: Path) -> None:
    assert run(*FAMILY, *EPOCHS, "--poles", "1", "--no-scales", "--judged", "last", "--output", str(tmp_path)) == 0
    made = Design.load(tmp_path)
    assert made.scales is None
    assert made.choice is not None
    assert made.choice.chosen.memory <= 1
    assert "after the last step" in made.choice.judged
    assert made.buffers_multiplier is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*EPOCHS, "--min-sep", "3"), "--min-sep must not come with --epochs"),
        (("--rho", "1", "--steps", "41", "--epochs", "4"), "--steps must be a multiple of epochs=4, got 41"),
        ((*EPOCHS, "--learning-rate", "0.1"), "--learning-rate must come with a problem, such as --eigenvalues"),
        ((*EPOCHS, "--tune-learning-rate"), "--tune-learning-rate must come with a problem"),
        ((*EPOCHS, "--momentum", "1"), "--momentum must lie in"),
        ((*FAMILY, *EPOCHS, "--momentum", "0.5"), "--momentum must not come with a problem"),
        ((*EPOCHS, "--memory", "2", "--poles", "1"), "--memory must not come with --poles or bands"),
        ((*EPOCHS, "--cool-down", "2"), "--cool-down must lie in"),
        ((*EPOCHS, "--poles", "0"), "--poles must be an integer >= 1"),
    ],
)
def test_contradictions_are_refused_in_the_words_of_the_command(
    arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        run(*arguments, "--output", str(tmp_path / "none"))


def test_a_memory_is_a_number_or_inf(capsys: pytest.CaptureFixture[str]) -> None:
    assert parser_of_the_command().parse_args(["--memory", "inf"]).memory == math.inf
    with pytest.raises(SystemExit):
        parser_of_the_command().parse_args(["--memory", "x"])
    assert "'x' is no number of arrays" in capsys.readouterr().err
