"""Files are whole or not there."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from corrnoise.support import files
from corrnoise.support.files import sync_folder, whole_files, write_whole


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "ν\r\n1\n")
    assert (tmp_path / "a").read_bytes() == "ν\r\n1\n".encode()
    write_whole(tmp_path / "a", (part for part in (b"ab", memoryview(b"c"))))
    assert (tmp_path / "a").read_bytes() == b"abc"


def test_others_may_read_what_the_user_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_whole(tmp_path / "a", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_nothing_appears_before_the_end_and_then_everything(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    with whole_files(tmp_path) as staging:
        for name in "ab":
            (staging / name).write_text(name)
        assert {path.name for path in tmp_path.iterdir()} == {"other", staging.name}
    assert contents(tmp_path) == {"a": "a", "b": "b", "other": "mine"}


def broken(path: Path, error: type[BaseException]) -> None:
    path.write_text("second")
    raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    write_whole(tmp_path / "a", "first")
    with pytest.raises(error), whole_files(tmp_path) as staging:
        broken(staging / "a", error)
    assert contents(tmp_path) == {"a": "first"}


def test_an_interrupt_of_the_removal_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is whole, the temporary folder is gone, and the interrupt is not lost."""
    remove = shutil.rmtree
    interrupts = [KeyboardInterrupt]

    def interrupted(*arguments: object, **options: object) -> None:
        if interrupts:
            raise interrupts.pop()
        remove(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt), whole_files(tmp_path) as staging:
        (staging / "a").write_text("first")
    assert interrupts == []
    assert contents(tmp_path) == {"a": "first"}


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_whole(tmp_path / "a", "first")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(tmp_path / "a", "second")
    assert contents(tmp_path) == {"a": "first"}


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        write_whole(tmp_path / "missing" / "a", "x")


def test_stale_files_go_with_the_new_ones_and_not_before(tmp_path: Path) -> None:
    for name in "abc":
        write_whole(tmp_path / name, "first")
    with pytest.raises(ValueError, match=r"^$"), whole_files(tmp_path, stale=("a", "b")) as staging:
        broken(staging / "a", ValueError)
    assert contents(tmp_path) == dict.fromkeys("abc", "first")
    with whole_files(tmp_path, stale=("a", "b", "absent")) as staging:
        (staging / "a").write_text("second")
    assert contents(tmp_path) == {"a": "second", "c": "first"}


def test_a_folder_in_the_place_of_a_file_is_noticed_before_anything_is_replaced(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "first")
    (tmp_path / "b").mkdir()
    with pytest.raises(IsADirectoryError, match="b is a folder"), whole_files(tmp_path) as staging:
        [(staging / name).write_text("second") for name in "ab"]
    assert (tmp_path / "a").read_text() == "first"


# -- the disk ----------------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name == "nt", reason="folders are not opened, and have no modes")


def recorded(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[tuple[str, Any]]:
    """The calls of ``os``, in order, with the kind or the name of their argument."""
    calls: list[tuple[str, Any]] = []

    def spied(name: str, real: Any) -> Any:
        def call(first: Any, *rest: Any, **options: Any) -> Any:
            calls.append((name, Path(f"/dev/fd/{first}").is_dir() if isinstance(first, int) else Path(first).name))
            return real(first, *rest, **options)

        return call

    for name in names:
        monkeypatch.setattr(os, name, spied(name, getattr(os, name)))
    return calls


@posix
def test_content_and_then_name_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, "fsync", "replace")
    write_whole(tmp_path / "a", b"\0\r\n")
    assert calls == [("fsync", False), ("replace", "a.corrnoise-new"), ("fsync", True)]
    assert (tmp_path / "a").read_bytes() == b"\0\r\n"
    calls.clear()
    with whole_files(tmp_path) as staging:
        (staging / "a").write_text("second")
        (staging / "b").write_text("second")
    assert calls[0] == calls[1] == ("fsync", False)
    assert [call for call in calls if call[0] == "fsync"][2:] == [("fsync", True)]
    assert calls[-1] == ("fsync", True)


def test_a_folder_is_not_opened_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    sync_folder(tmp_path / "missing")


@posix
def test_a_secret_is_never_readable_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a killed process left a file that others may read."""
    (tmp_path / "key.corrnoise-new").write_text("left")
    modes: list[int] = []
    real = os.fsync

    def fsync(file: int) -> None:
        modes.append(os.fstat(file).st_mode & 0o777)
        real(file)

    monkeypatch.setattr(os, "fsync", fsync)
    write_whole(tmp_path / "key", b"secret", secret=True)
    assert modes[0] == 0o600
    assert contents(tmp_path) == {"key": "secret"}
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    with whole_files(tmp_path, secret=True) as staging:
        assert staging.stat().st_mode & 0o777 == 0o700
        (staging / "state").write_text("secret")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken_call", ["fsync", "replace"])
def test_one_file_that_cannot_be_written_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken_call: str
) -> None:
    write_whole(tmp_path / "a", "first")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, broken_call, full)
        with pytest.raises(OSError, match="No space"):
            write_whole(tmp_path / "a", "second")
    assert contents(tmp_path) == {"a": "first"}
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_whole(tmp_path / "folder", "x")
    assert not (tmp_path / "folder.corrnoise-new").exists()


_KILLED = """
import os, pathlib, signal, sys
from corrnoise.support.files import whole_files
with whole_files(sys.argv[1]) as staging:
    (staging / "a").write_text("unfinished")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@posix
def test_what_a_killed_process_left_is_removed_and_what_another_one_writes_is_not(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(tmp_path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.glob(".corrnoise-unfinished-*")
    with whole_files(tmp_path) as first:
        assert not left.exists()
        (first / "a").write_text("first")
        with whole_files(tmp_path) as second:
            assert first.exists()
            (second / "b").write_text("second")
    assert contents(tmp_path) == {"a": "first", "b": "second"}


@posix
def test_a_folder_that_another_process_removes_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def taken(**options: Any) -> str:
        made.append(real(**options))
        if len(made) == 1:
            Path(made[0]).rmdir()
        return str(made[-1])

    real = tempfile.mkdtemp
    monkeypatch.setattr(files, "mkdtemp", taken)
    with whole_files(tmp_path) as staging:
        (staging / "a").write_text("a")
    assert len(made) == 2
    assert contents(tmp_path) == {"a": "a"}
