"""Power failures at each write of real files: what was not synchronised is lost, names of files and removals too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.simulations.run.crashes import dies
from tests.simulations.run.test_folder import STEPS, Model, Shown, opened, train

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")


class Off(BaseException):
    """The power is off."""


class Disk:
    """The part of two folders that is on the disk, as the synchronisations have it so far."""

    def __init__(self, base: Path, last: int, skipped: str = "") -> None:
        self.base, self.last, self.skipped = base, last, skipped
        self.number = 0
        self.names: dict[Path, int] = {}
        self.contents: dict[int, bytes] = {}

    def fsync(self, descriptor: int) -> None:
        self.number += 1
        if self.number > self.last:
            raise Off
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if self.skipped and self.skipped in str(path):
            return
        if path.is_dir():
            self.names = {name: inode for name, inode in self.names.items() if name.parent != path}
            self.names |= {each: each.stat().st_ino for each in path.iterdir()}
        else:
            self.contents[os.fstat(descriptor).st_ino] = path.read_bytes()

    def fail(self) -> None:
        """Nothing is left but what is on the disk."""
        lost = [each for each in self.base.rglob("*") if each.is_file() and each.suffix != ".lock"]
        for each in lost:
            each.unlink()
        for path, inode in self.names.items():
            if not path.is_dir() and path.suffix != ".lock":
                path.touch(0o600)
                path.write_bytes(self.contents.get(inode, b""))


@contextmanager
def powered(disk: Disk) -> Iterator[None]:
    with mock.patch.object(os, "fsync", disk.fsync):
        yield


def lived(base: Path, last: int, options: dict[str, Any], skipped: str = "") -> tuple[Shown, bool]:
    """The releases of a run until the power fails, and after two restarts; whether it lived to its end."""
    disk, model = Disk(base, last, skipped), Model()
    shown: Shown = []
    run = None
    options = options | {"marks": base / "marks", "checkpoint_every": 2}
    with powered(disk):
        try:
            run = opened(base / "run", model, **options)
            train(run, model, shown)
            list(run)
        except Off:
            pass
    if run is not None:
        dies(run)
    disk.fail()
    alive = disk.number <= last
    with mock.patch.object(os, "fsync", return_value=None):
        for steps in (1, STEPS):
            again = opened(base / "run", model := Model(), **options)
            train(again, model, shown, steps)
            dies(again)
    return shown, alive


def check(shown: Shown, *, keeps: bool) -> None:
    steps = [step for step, _ in shown]
    if keeps:
        assert set(steps) == set(range(STEPS))
        assert len(set(shown)) == STEPS
    else:
        assert len(set(steps)) == len(steps) >= STEPS - 1


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("keeps", "window"), [(True, 3), (False, 1)])
def test_a_power_failure_at_every_synchronisation(keeps: bool, window: int, stride: int, tmp_path: Path) -> None:
    """A restart is not refused, no step is released with two noises, and with kept releases none is lost."""
    number, alive = 0, False
    while not alive:
        base = tmp_path / str(number)
        base.mkdir()
        shown, alive = lived(base, number, {"keep_releases": keeps, "mark_every": window})
        check(shown, keeps=keeps)
        number += stride
    assert number > 30


@pytest.mark.parametrize("skipped", ["journal-", "/marks/"])
def test_a_file_that_is_not_synchronised_is_found(skipped: str, tmp_path: Path) -> None:
    """The mutants: a step that the disk does not have is released again, or the run is refused."""
    found = []
    for number in range(20, 40, 3):
        base = tmp_path / str(number)
        base.mkdir()
        try:
            check(lived(base, number, {"keep_releases": False}, skipped)[0], keeps=False)
        except (ValueError, AssertionError) as error:
            found.append(error)
    assert found
