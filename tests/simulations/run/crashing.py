"""Runs in folders that are killed, tampered with and started again, and the record of all that they release."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

MEMORY = Path("/dev/shm")  # a file system in memory, where there is one: these tests rename files all the time
STEPS = 6
OPERATIONS = ("write", "fsync", "replace", "rename", "ftruncate")  # after which a run may be killed
SIZE = 2


@contextmanager
def quick_folder(otherwise: Path) -> Iterator[Path]:
    """A new folder, in memory if the system has such a place."""
    if not os.access(MEMORY, os.W_OK):
        yield otherwise
        return
    with TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


class Killed(BaseException):
    """The end of a process, at any operation on a file."""


@contextmanager
def killed_at(number: int | None, *, torn: bool = False) -> Iterator[list[int]]:
    """Kill what runs in this block before its operation ``number`` on a file; a torn one is half done.

    The list that is given has the number of operations.
    """
    count = [0]

    def replaced(name: str) -> Any:
        original = getattr(os, name)

        def operation(*arguments: Any) -> Any:
            count[0] += 1
            if number is not None and count[0] > number:
                if torn and name == "write" and count[0] == number + 1:
                    original(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise Killed
            return None if name == "fsync" else original(*arguments)  # the system of the test goes on

        return mock.patch.object(os, name, operation)

    patches = [replaced(name) for name in OPERATIONS]
    for patch in patches:
        patch.start()
    try:
        yield count
    finally:
        for patch in patches:
            patch.stop()


class Model:
    """A model of one number, which counts its updates."""

    def __init__(self) -> None:
        self.updates = 0

    def save(self) -> dict[str, NDArray[Any]]:
        """Of ``Carry``."""
        return {"updates": np.array(self.updates)}

    def load(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Of ``Carry``."""
        self.updates = int(arrays["updates"])


class Scene:
    """A folder of a run, its outside mark, copies of both, and what all runs in them have released.

    Attributes
    ----------
    released
        Pairs of a step and the noisy sum of zeros, which is its noise.
    """

    def __init__(self, path: Path, *, keeps: bool = False, ahead: int = 1) -> None:
        self.folder = path / "run"
        self.marks = path / "marks"
        self._store = path / "store"
        self.keeps = keeps
        self.ahead = ahead
        self.released: list[tuple[int, bytes]] = []
        self.model = Model()

    def open(self, folder: Path | None = None, **changed: Any) -> PrivateRun:
        """What the command of the run does."""
        place = Folder(
            folder or self.folder, ahead=self.ahead, checkpoint_every=3, keep_releases=self.keeps, marks=self.marks
        )
        self.model = Model()
        promise = Participation.fixed_epochs(STEPS, epochs=2)
        arguments: dict[str, Any] = {
            "budget": Budget(1.0),
            "participation": promise,
            "mechanism": DPSGD(),
            "size": SIZE,
        }
        return PrivateRun(**(arguments | changed), folder=place, carry=self.model if self.keeps else None, threads=1)

    def step(self, run: PrivateRun) -> None:
        """Make one step, the last one with the end of the run."""
        step = run.next_batch()
        noisy = run.add_noise(np.zeros(SIZE))
        self.released.append((step, noisy.tobytes()))
        self.model.updates += 1

    def finish(self, run: PrivateRun) -> None:
        """Make all steps that are left."""
        for step in run:
            noisy = run.add_noise(np.zeros(SIZE))
            self.released.append((step, noisy.tobytes()))
            self.model.updates += 1

    def drop(self, run: PrivateRun) -> None:
        """Leave a run as a killed process does: its locks are free, and nothing is written."""
        with suppress(AttributeError):
            run._durable.home.close()  # type: ignore[union-attr]

    # -- what an attacker or a restored copy does ----------------------------------------------------------------------

    def outside(self) -> Path:
        """The outside mark."""
        return next(path for path in self.marks.iterdir() if len(path.name) == 32)

    def parts(self, folder: Path | None = None) -> tuple[Path, Path, Path]:
        """The journal, its mark, and the outside mark."""
        place = folder or self.folder
        return place / "journal", place / "mark", self.outside()

    def snapshot(self, name: str) -> None:
        """Copy the folder and the outside mark."""
        shutil.rmtree(self._store / name, ignore_errors=True)
        shutil.copytree(self.folder, self._store / name / "folder")
        shutil.copy(self.outside(), self._store / name / "outside")

    def restore(self, name: str, *parts: int, folder: Path | None = None) -> None:
        """Bring journal (0), mark (1), outside mark (2) back to what they were; the whole folder is 3."""
        kept = self._store / name
        for part in parts:
            if part == 3:
                shutil.rmtree(self.folder)
                shutil.copytree(kept / "folder", self.folder)
            else:
                target = self.parts(folder)[part]
                shutil.copy(kept / "outside" if part == 2 else kept / "folder" / target.name, target)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def repeated_steps(self) -> list[int]:
        """The steps with two different releases."""
        by_step: dict[int, set[bytes]] = {}
        for step, noise in self.released:
            by_step.setdefault(step, set()).add(noise)
        return [step for step, noises in by_step.items() if len(noises) > 1]

    def repeated_noise(self) -> list[int]:
        """The steps whose noise two releases share, at other steps or not shown again by a run that keeps releases."""
        seen: dict[bytes, int] = {}
        found = []
        for step, noise in self.released:
            if noise in seen and not (self.keeps and seen[noise] == step):
                found.append(step)
            seen[noise] = step
        return found
