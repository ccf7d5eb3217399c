"""The command line: what it prints, its exit statuses, and what it leaves behind when it fails."""

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from corrnoise import __main__ as command_line
from corrnoise import __version__
from corrnoise.figures import NAMES, paper_figure
from corrnoise.figures.publication import PaperFigure, publish

FILES = {f"{name}.{suffix}" for name in NAMES for suffix in ("pdf", "png", "csv")}


def run(*arguments: object, options: Sequence[str] = (), **settings: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *options, "-m", "corrnoise", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **settings)


def test_help_shows_an_example_of_each_command_and_imports_nothing_heavy() -> None:
    result = run("--help", options=("-X", "importtime"))
    assert result.returncode == 0
    for command in command_line.COMMANDS:
        assert command.summary.split()[0] in result.stdout
        assert f"  {command.example}\n" in result.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert "argparse" in imported
    assert not imported & {"numpy", "scipy", "matplotlib", "numba", "mpmath", "cvxpy", "flint"}


def test_examples_are_understood() -> None:
    for command in command_line.COMMANDS:
        program, *arguments = shlex.split(command.example)
        assert program == "corrnoise"
        assert command_line._parser().parse_args(arguments).run is command.run


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"corrnoise {__version__}\n"


def test_figures_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["figures", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert "Figure 2 of arXiv 2310.06771" in lines[1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "required: COMMAND"),
        (("nonsense",), "invalid choice: 'nonsense'"),
        (("figures", "figure 9"), "there is no figure 'figure 9'; the figures are mean_estimation, linear_regression"),
        (("figures", "--output"), "expected one argument"),
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


def test_figures_go_to_their_own_folder(tmp_path: Path) -> None:
    result = run("figures", cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": "7"})
    assert result.returncode == 0
    assert not result.stderr
    folder = tmp_path / "corrnoise-figures"
    assert {path.name for path in folder.iterdir()} == FILES
    for file in FILES:
        assert f"corrnoise-figures/{file}\n" in result.stdout
    for stated, exact in [
        ("1.00", "1.008"),
        ("0.18", "0.170"),
        ("0.94", "0.942"),
        ("2.03", "2.024"),
        ("1.27", "1.264"),
    ]:
        assert f"{stated}   {exact}" in result.stdout
    assert "increases to 1 as eta -> 1" in result.stdout
    assert "instability" in result.stdout
    for path in publish(paper_figure("mean_estimation"), tmp_path):
        assert path.read_bytes() == (folder / path.name).read_bytes()


def test_named_figures_are_drawn_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def record(figure: PaperFigure, directory: str) -> list[Path]:
        drawn.append((figure.name, directory))
        return [Path(directory, "a file")]

    monkeypatch.setattr("corrnoise.figures.publication.publish", record)
    assert command_line.main(["figures", "mean_estimation", "mean_estimation", "--output", "there"]) == 0
    assert drawn == [("mean_estimation", "there")]
    assert capsys.readouterr().out.count("there/a file\n") == 1


def test_an_unwritable_folder_is_one_line_and_status_one(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("kept")
    result = run("figures", "mean_estimation", "--output", tmp_path / "taken" / "inside")
    assert result.returncode == 1
    assert result.stderr.startswith("corrnoise: error: ")
    assert "taken" in result.stderr
    assert result.stderr.count("\n") == 1
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
    command = [sys.executable, "-m", "corrnoise", "figures", "--list"]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=300, check=False)
    os.close(writer)
    assert result.returncode == 1
    assert not result.stderr


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_terminals_only(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    stream = Stream()
    monkeypatch.setattr(sys, "stderr", stream)
    with command_line._progress("drawing"):
        pass
    assert ("drawing" in stream.getvalue()) == terminal
    assert stream.getvalue().endswith("\r\x1b[K" if terminal else "")
