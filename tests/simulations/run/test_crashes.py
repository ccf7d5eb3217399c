"""Runs in real folders: killed at every write, cut, damaged, restored, copied, used by two threads."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import sys
import threading
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run import sources
from tests.simulations.run.crashing import SIZE, STEPS, Killed, Scene, killed_at, quick_folder

REFUSED = (ValueError, RuntimeError, PermissionError)


@pytest.fixture(name="tmp_path")
def _quick(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory."""
    with quick_folder(tmp_path) as folder:
        yield folder


def started(scene: Scene, number: int | None, *, torn: bool = False) -> int:
    """Run the command to its end, killed before an operation; the number of operations."""
    run = None
    with killed_at(number, torn=torn) as count:
        try:
            run = scene.open()
            scene.finish(run)
        except Killed:
            if run is not None:
                scene.drop(run)
    return count[0]


@pytest.mark.parametrize(
    ("keeps", "ahead", "torn"),
    [
        (False, 1, False),
        (True, 1, False),
        pytest.param(False, 1, True, marks=pytest.mark.slow),
        pytest.param(False, 2, False, marks=pytest.mark.slow),
    ],
)
def test_killed_at_every_operation(tmp_path: Path, keeps: bool, ahead: int, torn: bool) -> None:
    """No start is refused, no step has two releases, no noise is made twice, and a third start has nothing to do."""
    operations = started(Scene(tmp_path / "whole", keeps=keeps, ahead=ahead), None)
    assert operations > 60
    for number in range(operations):
        scene = Scene(tmp_path / str(number), keeps=keeps, ahead=ahead)
        scene.marks.mkdir(parents=True)
        started(scene, number, torn=torn)
        started(scene, None)
        assert not scene.repeated_steps()
        assert not scene.repeated_noise()
        shown = {step for step, _ in scene.released}
        assert shown == set(range(STEPS)) if keeps else len(shown) >= STEPS - ahead
        before = len(scene.released)
        started(scene, None)
        assert len(scene.released) == before
        if keeps:
            assert scene.model.updates == STEPS
        assert not list(scene.folder.glob("*.new"))


def begun(path: Path, steps: int = 4) -> Scene:
    """A run that was killed after some steps."""
    scene = Scene(path)
    run = scene.open()
    for _ in range(steps):
        scene.step(run)
    scene.drop(run)
    return scene


def test_journals_that_are_cut_are_refused(tmp_path: Path) -> None:
    """A journal that was cut at any byte is refused; the whole one goes on."""
    scene = begun(tmp_path)
    journal = scene.folder / "journal"
    whole = journal.read_bytes()
    for length in range(len(whole)):
        journal.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"journal|mark"):
            scene.open()
    journal.write_bytes(whole)
    scene.finish(scene.open())
    assert not scene.repeated_steps()


def test_flipped_bits_are_refused(tmp_path: Path) -> None:
    """A bit that flips in any file but the lock stops the run."""
    scene = begun(tmp_path)
    rng = np.random.default_rng(1)
    files = [path for path in sorted(scene.folder.iterdir()) if path.name != "lock"] + [scene.outside()]
    newest = max(int(path.name.partition("-")[2]) for path in files if path.name.startswith("checkpoint"))
    files = [path for path in files if not path.name.startswith("checkpoint") or path.name.endswith(f"-{newest}")]
    assert {path.name for path in files} >= {"settings.json", "key", "journal", "mark", f"checkpoint-{newest}"}
    for number in range(300):
        path = files[number % len(files)]
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        with pytest.raises(REFUSED):
            scene.open()
        path.write_bytes(whole)
    scene.finish(scene.open())
    assert not scene.repeated_steps()


@pytest.mark.parametrize("parts", [parts for size in (1, 2) for parts in combinations(range(3), size)])
def test_older_parts_release_no_step_twice(tmp_path: Path, parts: tuple[int, ...]) -> None:
    """One of journal, mark and outside mark that is the newest suffices."""
    for later in (1, 2):
        scene = begun(tmp_path / str(later), 2)
        scene.snapshot("old")
        run = scene.open()
        for _ in range(later):
            scene.step(run)
        scene.drop(run)
        scene.restore("old", *parts)
        try:
            scene.finish(scene.open())
        except REFUSED:
            assert later > 1 or 0 in parts  # marks one record old are those of a run killed between two writes
        assert not scene.repeated_steps()
        assert not scene.repeated_noise()


def test_restored_completely_makes_other_noise(tmp_path: Path) -> None:
    """The whole folder and the outside mark together cannot be noticed: steps come again, noise does not."""
    scene = begun(tmp_path, 2)
    scene.snapshot("old")
    scene.finish(scene.open())
    scene.restore("old", 2, 3)
    scene.finish(scene.open())
    assert len(scene.repeated_steps()) == STEPS - 2
    assert not scene.repeated_noise()


def test_copies_on_one_machine_are_refused(tmp_path: Path) -> None:
    """A copy is refused while the run is open, and after the run has gone on."""
    scene = begun(tmp_path, 2)
    copied = tmp_path / "copy"
    shutil.copytree(scene.folder, copied)
    run = scene.open()
    with pytest.raises(BlockingIOError, match="in use"):
        scene.open(copied)
    (scene.folder / "lock").unlink()
    with pytest.raises(BlockingIOError, match="in use"):
        scene.open()
    scene.finish(run)
    with pytest.raises(ValueError, match="older than"):
        scene.open(copied)


def test_two_threads_release_each_step_once(tmp_path: Path) -> None:
    """However two threads interleave, each step has one release, and no noise comes twice."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        run = PrivateRun(Budget(1.0), Participation.fixed_epochs(400, epochs=2), DPSGD(), SIZE, threads=1)
        released: list[tuple[int, bytes]] = []

        def work() -> None:
            while run.position < 400:
                try:
                    step = run.next_batch()
                    released.append((step, run.add_noise(np.zeros(SIZE)).tobytes()))
                except RuntimeError:
                    continue

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert run.position == 400
    assert len({noise for _, noise in released}) == len(released) == 400


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_copies_of_the_object_are_refused(tmp_path: Path) -> None:
    """A copy of the process, of the object, or on a disk makes no noise."""
    run = Scene(tmp_path).open()
    run.next_batch()
    child = os.fork()
    if child == 0:  # pragma: no cover  # in the copy
        try:
            run.add_noise(np.zeros(SIZE))
        except RuntimeError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be copied"):
            copied(run)


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"budget": Budget(2.0)}, "rho was 1.0, is 2.0"),
        ({"budget": Budget(1.0, clip_norm=2.0)}, "clip_norm was 1.0, is 2.0"),
        ({"budget": Budget(1.0, adjacency="replace-one")}, "adjacency was"),
        ({"participation": Participation.fixed_epochs(STEPS, epochs=3)}, "participation was"),
        ({"mechanism": AntiPGD(0.5)}, "mechanism was"),
        ({"size": SIZE + 1}, "size was 2, is 3"),
        ({"dtype": "float64"}, "arithmetic was"),
    ],
)
def test_other_settings_are_refused_by_name(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    """A run goes on as it was begun, and the message names what differs."""
    scene = begun(tmp_path, 2)
    with pytest.raises(ValueError, match=named.replace("(", r"\(")):
        scene.open(**changed)
    scene.finish(scene.open())
    assert not scene.repeated_steps()


def test_closed_between_steps_is_as_uninterrupted(tmp_path: Path) -> None:
    """With the same nonces, a run that is closed after each step has the noise of one that is not, bit for bit."""
    releases = []
    for name, pauses in (("once", False), ("often", True)):
        scene = Scene(tmp_path / name)
        with sources.counted():
            run = scene.open(mechanism=AntiPGD(0.5))
            for _ in range(STEPS):
                scene.step(run)
                if pauses:
                    run.close()
                    run = scene.open(mechanism=AntiPGD(0.5))
            run.close()
        releases.append(scene.released)
    assert releases[0] == releases[1]
    assert len(releases[0]) == STEPS


def test_closed_is_final(tmp_path: Path) -> None:
    """A closed object makes no noise any more."""
    run = Scene(tmp_path).open()
    run.next_batch()
    run.close()
    with pytest.raises(RuntimeError, match="closed"):
        run.add_noise(np.zeros(SIZE))
