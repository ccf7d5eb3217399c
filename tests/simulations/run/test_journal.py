"""The journal: durable before it returns, unfinished lines, locks, and keys."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.keys import RunKey

KEY = RunKey(bytes(range(32)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def begun(path: Path, *steps: int, ahead: int = 1) -> None:
    """Begin steps and die: the file is released without a clean end."""
    journal = Journal(path, KEY, ahead=ahead)
    for step in steps:
        journal.begin(step)
    os.close(journal._file)


def free(path: Path) -> int:
    with Journal(path, KEY) as journal:
        return journal.free


def test_a_step_that_was_begun_is_never_begun_again(path: Path) -> None:
    begun(path, 0, 1, 2)
    with Journal(path, KEY) as journal:
        assert journal.free == 3
        with pytest.raises(ValueError, match="at least 3"):
            journal.begin(2)
        journal.begin(3)
        with pytest.raises(ValueError, match="at least 4"):
            journal.begin(3)
    assert free(path) == 4


def test_notes_ahead_lose_steps_after_a_crash_and_none_after_a_clean_end(path: Path) -> None:
    begun(path, 0, 1, ahead=8)
    assert free(path) == 8
    with Journal(path, KEY, ahead=8) as journal:
        journal.begin(8)
    assert free(path) == 9


@pytest.mark.parametrize("torn", ["", "4", "45", "\0\0\0"])
def test_an_unfinished_line_was_not_begun(path: Path, torn: str) -> None:
    begun(path, 0, 1, 2)
    whole = path.read_text()
    path.write_text(whole + torn)
    assert free(path) == 3
    assert path.read_text() == whole


@pytest.mark.parametrize("damage", ["x\n", "-1\n", "\0\0\n", "\n"])
def test_a_damaged_journal_is_refused(path: Path, damage: str) -> None:
    begun(path, 0)
    path.write_text(path.read_text() + damage + "5\n")
    with pytest.raises(ValueError, match="damaged"):
        Journal(path, KEY)


def test_the_journal_of_another_key_or_another_file_is_refused_and_kept(path: Path) -> None:
    begun(path, 0)
    with pytest.raises(ValueError, match="not the journal of the key"):
        Journal(path, RunKey.new())
    for text in ("hello\n", "hello"):
        path.write_text(text)
        with pytest.raises(ValueError, match="journal"):
            Journal(path, KEY)
        assert path.read_text() == text


def test_an_unfinished_header_is_written_again(path: Path) -> None:
    path.write_text("corrnoise jour")
    assert free(path) == 0
    assert free(path) == 0


def test_two_runs_cannot_share_a_journal(path: Path) -> None:
    with Journal(path, KEY), pytest.raises(BlockingIOError, match="in use"):
        Journal(path, KEY)
    assert free(path) == 0


def test_a_note_is_durable_before_begin_returns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    with Journal(path, KEY) as journal:
        write = os.write

        def noted(file: int, line: bytes) -> int:
            events.append("write")
            return write(file, line)

        monkeypatch.setattr(os, "write", noted)
        monkeypatch.setattr(os, "fsync", lambda file: events.append("sync"))
        journal.begin(0)
        events.append("return")
    assert events[:3] == ["write", "sync", "return"]


def test_a_full_disk_ends_the_journal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(path, KEY)
    journal.begin(0)

    def full(file: int, line: bytes) -> int:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(OSError, match="no space"):
            journal.begin(1)
    with pytest.raises(ValueError, match="closed"):
        journal.begin(1)
    journal.close()
    assert free(path) == 1
