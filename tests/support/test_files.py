"""Files are whole or not there."""

import os
import shutil
from pathlib import Path

import pytest

from corrnoise.support.files import whole_files, write_whole


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_text_is_written_as_it_is(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "ν\r\n1\n")
    assert (tmp_path / "a").read_bytes() == "ν\r\n1\n".encode()


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
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "a", "first")
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
