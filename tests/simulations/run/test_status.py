"""The state of a folder: right in each state, the cause and the advice of each refusal, and no file changes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.__main__ import main
from corrnoise.simulations.run import folder
from corrnoise.simulations.run.refusals import ADVICE
from tests.simulations.run.crashes import dies

WHO = cn.Participation.fixed_epochs(12, epochs=2)
BUDGET = cn.Budget(epsilon=2.0, delta=1e-5)
posix = pytest.mark.skipif(os.name != "posix", reason="there are no such modes")


class Nothing:
    """Carries nothing."""

    def save(self) -> dict[str, Any]:
        return {}

    def load(self, arrays: dict[str, Any], /) -> None:
        """Nothing."""


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def opened(path: Path, *, keeps: bool = False, mechanism: Any = None, **options: Any) -> cn.PrivateRun:
    folder = cn.Folder(path, checkpoint_every=3, keep_releases=keeps, **options)
    noise = cn.mechanisms.NuFTRL(0.1) if mechanism is None else mechanism
    return cn.PrivateRun(BUDGET, WHO, noise, 3, folder=folder, carry=Nothing())


def trained(path: Path, steps: int, **options: Any) -> cn.PrivateRun:
    run = opened(path, **options)
    for _ in range(steps):
        run.next_batch()
        run.add_noise(np.zeros(3))
    return run


def files(path: Path) -> dict[str, tuple[bytes, int, int]]:
    return {str(p): (p.read_bytes(), p.stat().st_mode, p.stat().st_mtime_ns) for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("mechanism", [cn.mechanisms.NuFTRL(0.1), cn.default_noise], ids=["given", "found"])
@pytest.mark.parametrize("keeps", [False, True])
def test_the_state_is_that_of_a_resumed_run(keeps: bool, mechanism: Any, tmp_path: Path) -> None:
    path = tmp_path / "run"
    options: dict[str, Any] = {"keeps": keeps, "mechanism": mechanism}
    run = trained(path, 5, **options)
    spent = run.spent(1e-5)
    used = cn.run_status(path)
    assert (used.state, used.free, used.steps, used.cause) == ("in use", 5, 12, "")
    dies(run)
    before = files(tmp_path), files(Path(os.environ["XDG_STATE_HOME"]))
    found = cn.run_status(path)
    assert (files(tmp_path), files(Path(os.environ["XDG_STATE_HOME"]))) == before
    assert (found.state, found.free, found.checkpoints, found.kept) == ("ready", 5, (0, 3), keeps)
    assert (found.position, found.skipped) == ((5, 0) if keeps else (3, 2))
    assert found.spent == spent > 0
    assert found.budget == {"epsilon": 2.0, "delta": 1e-5, "clip_norm": 1.0, "adjacency": "zero-out"}
    again = opened(path, **options)
    assert again.skipped == found.skipped
    with again:
        for _ in again:
            again.add_noise(np.zeros(3))
    end = cn.run_status(path)
    assert (end.state, end.free, end.skipped) == ("finished", 12, 0)
    assert end.spent == again.spent(1e-5) <= 2.0


def test_folders_without_a_run(tmp_path: Path) -> None:
    assert cn.run_status(tmp_path / "no").state == "absent"
    (tmp_path / "run").mkdir()
    assert cn.run_status(tmp_path / "run").state == "empty"
    (tmp_path / "run" / "beginning").touch(0o600)
    assert cn.run_status(tmp_path / "run").state == "unfinished"
    assert [each.name for each in tmp_path.iterdir()] == ["run"]
    with pytest.raises(ValueError, match="marks must be outside"):
        cn.run_status(tmp_path, marks=tmp_path / "marks")


def cut(path: Path) -> None:
    last = path / "journal-3"
    last.write_bytes(last.read_bytes()[:-64])


def another_format(path: Path) -> None:
    file = path / "settings.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": "corrnoise run 2"}))


REFUSALS: dict[str, tuple[Callable[[Path], Any], str, str]] = {
    "journal is older": (cut, "journal-3 is older than", "journal is older"),
    "mark is missing": (lambda path: shutil.rmtree(path.with_name("marks")), "is missing", "mark is missing"),
    "format": (another_format, "has the format 'corrnoise run 2'", "version differs"),
    "mode": (lambda path: (path / "key").chmod(0o644), "mode 0600", "mode"),
    "mode of the folder": (lambda path: path.chmod(0o777), "mode 0700", "folder mode"),
    "foreign": (lambda path: (path / "settings.json").unlink(), "folder must be new", "foreign folder"),
    "damage": (lambda path: (path / "key").write_bytes(b"1"), "a key has 32 bytes", ""),
}


@posix
@pytest.mark.parametrize("which", REFUSALS)
def test_the_cause_and_the_advice_are_those_of_an_opening(which: str, tmp_path: Path, capsys: Any) -> None:
    path, marks = tmp_path / "run", tmp_path / "marks"
    dies(trained(path, 5, marks=marks))
    change, cause, advice = REFUSALS[which]
    change(path)
    found = cn.run_status(path, marks=marks)
    assert found.state == "refused"
    assert cause in found.cause
    if advice:
        assert found.advice == ADVICE[advice]
    assert main(["run", str(path), "--marks", str(marks)]) == 1
    assert found.advice.split()[0] in capsys.readouterr().out
    with pytest.raises((ValueError, OSError)) as refusal:
        opened(path, marks=marks)
    assert str(refusal.value) == (f"{found.cause}: {found.advice}" if advice else found.cause)


def test_an_older_checkpoint_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run"
    dies(trained(path, 5))
    (path / "checkpoint-3").write_bytes(b"damaged")
    found = cn.run_status(path)
    assert (found.state, found.position, found.skipped) == ("ready", 0, 5)
    assert "checkpoint-3" in found.cause
    assert "resumes from checkpoint-0" in found.advice


def test_a_mark_is_not_compared_while_a_run_writes_it(tmp_path: Path) -> None:
    """The run makes a step between two readings of its status; afterwards the same files are refused."""
    path = tmp_path / "run"
    run = trained(path, 4)
    real = folder.Place.chain

    def stepping(place: Any, position: int) -> Any:
        found = real(place, position)
        if not run.closed:
            run.next_batch()
            run.add_noise(np.zeros(3))
        return found

    with mock.patch.object(folder.Place, "chain", stepping):
        found = cn.run_status(path)
    assert (found.state, found.free, found.cause) == ("in use", 4, "")
    dies(run)


def test_the_command(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "run"
    dies(trained(path, 4))
    assert main(["run", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith(f"The run in {path} has made 4 of 12 steps: the same command resumes it.")
    assert "from step 3, 1 are then skipped" in text
    assert main(["run", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(json.dumps(cn.run_status(path).arguments()))
    assert (path / "key").read_bytes().hex() not in str(found) + text
    assert main(["run", str(path), "--marks", str(path / "marks")]) == 2
    assert main(["run"]) == 2


def test_an_older_copy_of_a_run_in_use_is_refused(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    dies(trained(tmp_path / "run", 3, marks=marks))
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    run = trained(tmp_path / "run", 5, marks=marks)
    found = cn.run_status(tmp_path / "copy", marks=marks)
    assert (found.state, found.free, found.spent) == ("in use", None, None)
    assert "is older than" in found.cause
    assert cn.run_status(tmp_path / "run", marks=marks).free == run.position
