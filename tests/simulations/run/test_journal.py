"""The journal in its segments: how often it synchronises, how little an opening reads, and what follows an error."""

from __future__ import annotations

import errno
import os
from collections import Counter
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import journal
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.mark import Mark, Marked, create
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.support import files
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.crashes import dies

STEPS = 400
BLOCK_BYTES = 4096  #: of a mark


class Nothing:
    """Carries nothing."""

    def save(self) -> dict[str, Any]:
        return {}

    def load(self, arrays: dict[str, Any], /) -> None:
        """Nothing."""


def opened(path: Path, **options: Any) -> PrivateRun:
    given: dict[str, Any] = {
        "keep_releases": False,
        "checkpoint_every": 100,
        "marks": path.with_name("marks"),
    } | options
    who = Participation.single(STEPS)
    return PrivateRun(Budget(0.5), who, AntiPGD(0.3), 3, folder=Folder(path, **given), carry=Nothing())


def trained(run: PrivateRun, until: int) -> list[bytes]:
    found = []
    while run.position < until:
        run.next_batch()
        found.append(run.add_noise(np.zeros(3)).tobytes())
    return found


@pytest.mark.parametrize(
    ("options", "most"),
    [({}, 2.1), ({"mark_every": 64}, 1.1), ({"ahead": 2}, 1.1), ({"ahead": 8, "mark_every": 8}, 0.2)],
)
@pytest.mark.parametrize("keeps", [False, True])
def test_synchronisations_a_step(options: dict[str, Any], most: float, keeps: bool, tmp_path: Path) -> None:
    """Those of checkpoints are counted, the opening and the end of the run are not."""
    if keeps and "ahead" in options:
        return
    with mock.patch.object(os, "fsync", return_value=None) as fsync:
        run = opened(tmp_path / "run", keep_releases=keeps, **options)
        trained(run, 100)
        first = fsync.call_count
        trained(run, 300)
        a_step = (fsync.call_count - first) / 200
    assert most - 0.15 < a_step <= most


def test_an_opening_reads_the_records_of_two_checkpoints_at_most(tmp_path: Path) -> None:
    path = tmp_path / "run"
    sizes = []
    with mock.patch.object(os, "fsync", return_value=None):
        for until in (150, 250, 350):
            run = opened(path)
            trained(run, until)
            dies(run)
            sizes.append(sum(each.stat().st_size for each in path.glob("journal-*")))
            assert len(list(path.glob("journal-*"))) == 2
    assert max(sizes) <= 150 * 64 + 2 * 100
    assert sizes[1] == sizes[2]


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_segment_that_cannot_be_written_is_written_at_the_next_call(where: str, tmp_path: Path) -> None:
    """No step is made in between, as the new segment may be there."""
    real = files.write_whole
    failures = Counter[str]()

    def full(*arguments: Any, **options: Any) -> None:
        failures["all"] += 1
        if where == "after":
            real(*arguments, **options)
        if failures["all"] < 3:
            raise OSError(errno.ENOSPC, "no space is left")
        if where == "before":
            real(*arguments, **options)

    with mock.patch.object(os, "fsync", return_value=None), mock.patch.object(journal, "write_whole", full):
        run = opened(tmp_path / "run", checkpoint_every=2)
        trained(run, 2)
        for _ in range(2):
            with pytest.raises(OSError, match="no space is left"):
                run.next_batch()
            with pytest.raises(RuntimeError, match="no batch was handed out"):
                run.add_noise(np.zeros(3))
        trained(run, 3)
        dies(run)
        assert opened(tmp_path / "run", checkpoint_every=2).position == 3


def test_a_segment_that_another_run_wrote_is_refused(tmp_path: Path) -> None:
    """Also one of the same run from a time before the last segment."""
    with mock.patch.object(os, "fsync", return_value=None):
        for name in ("run", "other"):
            run = opened(tmp_path / name, checkpoint_every=2)
            trained(run, 5)
            dies(run)
        path = tmp_path / "run" / "journal-4"
        whole = path.read_bytes()
        for foreign in ((tmp_path / "other" / "journal-4").read_bytes(), (tmp_path / "run" / "journal-2").read_bytes()):
            path.write_bytes(foreign)
            with pytest.raises(ValueError, match=r"its head does not follow|is older than|is not of this run"):
                opened(tmp_path / "run", checkpoint_every=2)
        path.write_bytes(whole)
        (tmp_path / "run" / "checkpoint-4").unlink()
        assert opened(tmp_path / "run", checkpoint_every=2).skipped == 3


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "no space is left"), (errno.EROFS, "read-only")])
def test_a_disk_that_takes_no_bytes_refuses_until_it_does(number: int, words: str, tmp_path: Path) -> None:
    """A record that is there in part is cut off at the next opening, and its step gets another nonce."""
    real = os.write

    def full(descriptor: int, content: Any) -> int:
        if len(content) == 64:
            return real(descriptor, content[:40])
        raise OSError(number, words)

    with mock.patch.object(os, "fsync", return_value=None):
        run = opened(tmp_path / "run")
        trained(run, 3)
        run.next_batch()
        with mock.patch.object(os, "write", full), pytest.raises(OSError, match=words):
            run.add_noise(np.zeros(3))
        with pytest.raises(RuntimeError, match="interrupted"):
            run.add_noise(np.zeros(3))
        run.close()
        size = (tmp_path / "run" / "journal-0").stat().st_size
        again = opened(tmp_path / "run")
        assert (again.position, (tmp_path / "run" / "journal-0").stat().st_size) == (3, size - 40)
        trained(again, 4)


def test_an_old_checkpoint_that_a_crash_left_is_not_used(tmp_path: Path) -> None:
    """Its segment is gone; the opening removes it, also where the last checkpoint cannot be read."""
    path = tmp_path / "run"
    with mock.patch.object(os, "fsync", return_value=None):
        run = opened(path, checkpoint_every=2)
        first = (path / "checkpoint-0").read_bytes()
        trained(run, 5)
        dies(run)
        (path / "checkpoint-0").touch(0o600)
        (path / "checkpoint-0").write_bytes(first)
        (path / "checkpoint-4").write_bytes(b"damaged")
        with pytest.warns(UserWarning, match="goes on from checkpoint-2"):
            assert opened(path, checkpoint_every=2).skipped == 3
    assert not (path / "checkpoint-0").exists()


def stopped(path: Path, until: int, **options: Any) -> None:
    """A run that dies after so many steps."""
    run = opened(path, **options)
    trained(run, until)
    dies(run)


@pytest.mark.parametrize("steps", [3, 6])
@pytest.mark.parametrize("first", [0, 1])
def test_a_block_that_a_power_failure_spoils_while_it_is_written(steps: int, first: int, tmp_path: Path) -> None:
    """Blocks that were not synchronised are lost, and the one that was being written is torn."""
    path = tmp_path / "run"
    kept: list[bytes] = []

    def fsync(descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if "/marks/" in name and not name.endswith("-new"):
            kept.append(Path(name).read_bytes())

    with mock.patch.object(os, "fsync", fsync):
        if first:
            stopped(path, first, mark_every=1)
        stopped(path, first + steps, mark_every=3)
        before, after = kept[-2:]
        blocks = [slice(BLOCK_BYTES * k, BLOCK_BYTES * (k + 1)) for k in (0, 1)]
        (torn,) = (block for block in blocks if before[block] != after[block])
        spoiled = bytearray(before)
        spoiled[torn.start + 8] ^= 255
        (file,) = (each for each in (tmp_path / "marks").iterdir() if each.stat().st_size)
        file.write_bytes(spoiled)
        assert opened(path, mark_every=3).position == first + steps


@pytest.mark.parametrize("window", [1, 3])
def test_the_synchronised_blocks_are_never_older_than_the_window(window: int, tmp_path: Path) -> None:
    create(tmp_path / "mark", Marked(1, window, bytes(16)))
    mark = Mark(tmp_path / "mark", window)
    mark.synchronise(1, bytes(16))
    copy = tmp_path / "copy"
    for number in range(2, 12):
        mark.write(number, bytes(16))
        copy.write_bytes((tmp_path / "mark").read_bytes()[: 2 * BLOCK_BYTES] + bytes(BLOCK_BYTES))
        copy.chmod(0o600)
        found = Mark(copy).found
        assert found is not None
        assert found.number > number - window
    mark.close()


def test_bytes_after_the_records_of_an_earlier_segment_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    stopped(path, 5, checkpoint_every=2)
    (path / "checkpoint-4").write_bytes(b"damaged")
    earlier = path / "journal-2"
    earlier.write_bytes(earlier.read_bytes() + bytes(10))
    with pytest.raises(ValueError, match="has 10 that are not a record"):
        opened(path, checkpoint_every=2)


def test_an_unreadable_checkpoint_is_not_one_of_the_last_two(tmp_path: Path) -> None:
    path = tmp_path / "run"
    stopped(path, 5, checkpoint_every=2)
    (path / "checkpoint-4").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="goes on from checkpoint-2"):
        run = opened(path, checkpoint_every=2)
    trained(run, 5)
    run.close()
    last = max(path.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]))
    last.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="goes on from"):
        opened(path, checkpoint_every=2)


@pytest.mark.parametrize("name", ["journal-0", "run"])
def test_an_opening_synchronises_what_a_killed_process_wrote(name: str, tmp_path: Path) -> None:
    """Journal and names come before the mark: otherwise a power failure leaves a mark that is newer."""
    path = tmp_path / "run"
    stopped(path, 3)
    order: list[Path] = []
    with mock.patch.object(os, "fsync", lambda file: order.append(Path(os.readlink(f"/proc/self/fd/{file}")))):
        opened(path)
    of_mark = next(k for k, each in enumerate(order) if each.parent.name == "marks")
    assert name in [each.name for each in order[:of_mark]]
