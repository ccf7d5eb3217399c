"""A run starts inside its folder: nothing foreign is changed, also at a mount point, behind a link and in ``"."``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import owned
from corrnoise.simulations.run.folder import FORMAT, Folder, Home
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.solvers.default import default_noise
from corrnoise.support.files import NEW
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.crashes import dies

MARKER = f"{FORMAT} is begun here\n".encode()
posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes")


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """Nothing waits for the disk here."""
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def opened(path: Path | str, **options: Any) -> PrivateRun:
    return PrivateRun(Budget(0.5), Participation.single(6), AntiPGD(0.3), 3, folder=Folder(path, **options))


def state_of(place: Path) -> dict[str, Any]:
    """Everything below a folder: contents, modes and targets of links."""
    found: dict[str, Any] = {}
    for each in sorted(place.rglob("*")):
        kind = os.readlink(each) if each.is_symlink() else each.read_bytes() if each.is_file() else None
        found[str(each.relative_to(place))] = (kind, each.lstat().st_mode)
    return found


@pytest.fixture
def others(tmp_path: Path) -> Iterator[Path]:
    """A folder of other things, which must be the same after the test."""
    place = tmp_path / "others"
    place.mkdir()
    (place / "thesis.tex").write_text("mine")
    (place / "sub").mkdir()
    (place / "sub" / "key").write_text("mine")
    before = state_of(place)
    yield place
    assert state_of(place) == before


# -- nothing foreign is changed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["run.new", f"run{NEW}", "run.lock", ".unfinished-run", ".corrnoise-unfinished-run"])
@pytest.mark.parametrize("kind", ["folder", "link", "run"])
def test_what_lies_beside_the_folder_stays(name: str, kind: str, others: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    beside = base / name
    if kind == "link":
        beside.symlink_to(others)
    elif kind == "folder":
        beside.mkdir()
        (beside / "key").write_text("mine")
    else:
        opened(beside)
    before = state_of(beside)
    with opened(base / "run") as run:
        for _ in run:
            run.add_noise(np.zeros(3))
    assert state_of(beside) == before
    assert {each.name for each in base.iterdir()} == {"run", name}


FOREIGN: dict[str, dict[str, bytes]] = {
    "a file": {"thesis.tex": b"mine"},
    "a key": {"key": b"mine"},
    "a lock that is not empty": {"lock": b"123\n"},
    "a marker of another text": {"beginning": b"of my thesis"},
    "a marker that others may read": {"beginning": MARKER},
    "a marker and a foreign file": {"beginning": MARKER, "thesis.tex": b"mine"},
    "a partial marker and a file of ours": {"beginning": MARKER[:9], "key": bytes(32)},
    "a marker that is longer": {"beginning": MARKER + b"x"},
    "a file of ours, no marker": {"checkpoint-0": b"mine"},
    "files with numbers of ours": {"beginning": MARKER, "checkpoint-1": b"mine"},
}


@pytest.mark.parametrize("which", FOREIGN)
def test_a_folder_of_others_is_refused_and_not_touched(which: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    for name, content in FOREIGN[which].items():
        (path / name).write_bytes(content)
        (path / name).chmod(0o644 if which == "a marker that others may read" else 0o600)
    before = state_of(tmp_path)
    with pytest.raises(ValueError, match=r"folder must be new, empty or that of a run .* take a folder in it"):
        opened(path)
    assert state_of(tmp_path) == before


def test_foreign_files_in_the_folder_of_a_run_stay(tmp_path: Path) -> None:
    path = tmp_path / "run"
    opened(path).close()
    names = ["notes.new", f"notes{NEW}", "checkpoint-x", "checkpoint-01", "journal-٣", "shard-0-x", "shard-0", "x-0"]
    for name in names:
        (path / name).write_text("mine")
    with opened(path) as run:
        for _ in run:
            run.add_noise(np.zeros(3))
    assert [name for name in names if (path / name).read_text() != "mine"] == []


def test_a_file_that_is_named_as_the_folder_is_refused(others: Path) -> None:
    with pytest.raises(ValueError, match="folder must be a folder, got the file"):
        opened(others / "thesis.tex")


# -- places that work --------------------------------------------------------------------------------------------------


def test_the_working_directory_a_link_and_a_volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "volume"
    (place / "lost+found").mkdir(parents=True)
    place.chmod(0o777)
    inode = place.stat().st_ino
    with mock.patch.object(os, "rename", side_effect=OSError(16, "busy")):  # as at a mount point
        opened(place).close()
    assert (place.stat().st_ino, place.stat().st_mode & 0o777) == (inode, 0o700)
    assert (place / "lost+found").is_dir()
    target = tmp_path / "target"
    target.mkdir()
    (tmp_path / "link").symlink_to(target)
    opened(tmp_path / "link").close()
    assert opened(target).position == 0
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    opened(".").close()
    assert Path("settings.json").exists()
    assert opened(tmp_path / "here").position == 0


def test_a_link_whose_target_is_missing_makes_the_target(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")
    opened(tmp_path / "link").close()
    assert (tmp_path / "target" / "settings.json").exists()


def test_marks_beside_the_folder_on_one_volume(tmp_path: Path) -> None:
    """The volume may be mounted elsewhere; a folder that is restored alone is noticed, and marks go not inside."""
    volume = tmp_path / "volume"
    run = opened(volume / "run", marks=volume / "marks")
    next(iter(run))
    run.add_noise(np.zeros(3))
    run.close()
    volume.rename(tmp_path / "elsewhere")
    run = opened(tmp_path / "elsewhere/run", marks=tmp_path / "elsewhere/marks")
    assert run.position == 1
    run.close()
    with pytest.raises(ValueError, match=r"is missing: .*moved=True says so, once; marks=… on the volume"):
        opened(tmp_path / "elsewhere/run", marks=tmp_path / "others")
    (tmp_path / "inside").symlink_to(tmp_path / "elsewhere/run")
    with pytest.raises(ValueError, match="marks must be outside of the folder of the run"):
        Folder(tmp_path / "elsewhere/run", marks=tmp_path / "inside" / "marks")


# -- the order, and two processes --------------------------------------------------------------------------------------


def test_a_run_that_another_process_has_made_since_is_not_overwritten(tmp_path: Path) -> None:
    """The folder is looked at again under the lock."""
    path = tmp_path / "run"
    mine = Home(Folder(path))
    assert mine.settings is None
    with opened(path) as other:
        for _ in other:
            other.add_noise(np.zeros(3))
    before = state_of(path)
    with pytest.raises(RuntimeError, match="has just been made by another process: start again"):
        mine.begin({"format": FORMAT}, {}, None, {})
    mine.close()
    assert state_of(path) == before


def test_two_processes_do_not_begin_one_folder(tmp_path: Path) -> None:
    """While one is at it, the other is refused by the lock, before and after it has looked at the folder."""
    path = tmp_path / "run"
    late = Home(Folder(path))
    real = owned.create

    def interrupted(*arguments: Any) -> None:
        real(*arguments)
        with pytest.raises(BlockingIOError, match="in use by another process"):
            late.begin({"format": FORMAT}, {}, None, {})
        with pytest.raises(BlockingIOError, match="in use by another process"):
            opened(path)

    with mock.patch.object(owned, "create", interrupted):
        run = opened(path)
    assert run.position == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
def test_everything_is_on_the_disk_before_the_settings_make_it_a_run(tmp_path: Path) -> None:
    """Otherwise a power failure could leave a run whose mark, folder or key is missing."""
    events: list[tuple[str, str]] = []

    def fsync(descriptor: int) -> None:
        events.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))

    replace = os.replace

    def replaced(old: Any, new: Any) -> None:
        events.append(("replace", str(new)))
        replace(old, new)

    base = tmp_path / "a" / "b"
    with mock.patch.object(os, "fsync", fsync), mock.patch.object(os, "replace", replaced):
        opened(base / "run", marks=tmp_path / "c" / "marks")
    commit = events.index(("replace", str(base / "run" / "settings.json")))
    before = {name for kind, name in events[:commit] if kind == "fsync"}
    assert before >= {str(each) for each in (tmp_path, base.parent, base, base / "run", tmp_path / "c")}
    last = max(k for k, event in enumerate(events[:commit]) if event[0] == "replace" and "settings" not in event[1])
    assert events[last][1].startswith(str(tmp_path / "c" / "marks"))
    assert ("fsync", str(tmp_path / "c" / "marks")) in events[last:commit]
    assert before >= {str(base / "run" / f"{name}{NEW}") for name in ("key", "journal-0", "checkpoint-0")}


@pytest.mark.parametrize("left", [b"", MARKER[:7], MARKER])
def test_a_folder_with_a_lock_and_a_marker_is_begun(left: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    owned.create(path / "lock", b"")
    owned.create(path / "beginning", left)
    opened(path).close()
    assert not (path / "beginning").exists()
    assert json.loads((path / "settings.json").read_text())["format"] == FORMAT


def test_an_unfinished_folder_is_begun_again_with_another_key(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with mock.patch.object(Home, "write_checked", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        opened(path)
    assert (path / "beginning").exists()
    first = (path / "key").read_bytes()
    opened(path).close()
    assert (path / "key").read_bytes() != first
    assert opened(path).position == 0


@pytest.mark.parametrize("number", range(8))
def test_a_process_that_is_killed_while_it_clears_a_folder_leaves_it_so_that_it_starts(
    number: int, tmp_path: Path
) -> None:
    """The marker goes last: without it the other files would be those of somebody else."""
    path = tmp_path / "run"
    with mock.patch.object(Home, "write_checked", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        opened(path)
    removed: list[Any] = []
    real = os.unlink

    def unlink(*arguments: Any) -> None:
        if len(removed) == number:
            raise KeyboardInterrupt
        removed.append(arguments)
        real(*arguments)

    with mock.patch.object(os, "unlink", unlink), pytest.raises(KeyboardInterrupt):
        opened(path)
    assert opened(path).position == 0


# -- owners and modes --------------------------------------------------------------------------------------------------


def files_of_a_run(path: Path) -> list[str]:
    run = PrivateRun(
        Budget(0.5),
        Participation.single(6),
        default_noise,
        3,
        folder=Folder(path, keep_releases=True, checkpoint_every=9),
        carry=Carry(),
    )
    next(iter(run))
    run.add_noise(np.zeros(3))
    dies(run)
    return sorted(each.name for each in path.iterdir())


class Carry:
    """Nothing."""

    def save(self) -> dict[str, Any]:
        return {}

    def load(self, arrays: dict[str, Any], /) -> None:
        """Nothing."""


NAMES = ("checkpoint-0", "journal-0", "key", "lock", "program.npz", "settings.json")


@posix
@pytest.mark.parametrize("name", NAMES)
def test_every_file_belongs_to_its_owner_alone(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run"
    assert files_of_a_run(path) == list(NAMES)

    def again() -> PrivateRun:
        options: dict[str, Any] = {"keep_releases": True, "checkpoint_every": 9}
        who = Participation.single(6)
        return PrivateRun(Budget(0.5), who, default_noise, 3, folder=Folder(path, **options), carry=Carry())

    file, elsewhere = path / name, tmp_path / "elsewhere"
    if name != "lock":  # which shows nothing, and gets its mode again
        file.chmod(0o640)
        with pytest.raises(PermissionError, match=rf"{name} must be readable by its owner alone \(mode 0600\).* 0640"):
            again()
        file.chmod(0o600)
    else:
        file.chmod(0o644)
        dies(again())
        assert file.stat().st_mode & 0o777 == 0o600
    os.link(file, elsewhere)
    with pytest.raises(ValueError, match=rf"{name} is damaged or foreign: it must have one name, got 2 hard links"):
        again()
    file.unlink()
    file.symlink_to(elsewhere)
    with pytest.raises(
        ValueError, match=rf"{name}.* it is not a regular file|folder must be new|no checkpoint can be read"
    ):
        again()
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match=rf"{name}.* it is not a regular file|no checkpoint can be read"):
        again()
    file.unlink()
    elsewhere.rename(file)
    another = mock.patch.object(os, "geteuid", return_value=os.geteuid() + 1)
    with another, pytest.raises(PermissionError, match="must belong to the user of this process"):
        owned.check_file(file)
    again()


@posix
@pytest.mark.parametrize("which", ["run", "marks"])
def test_folders_that_others_may_write_to_are_refused(which: str, tmp_path: Path) -> None:
    opened(tmp_path / "run", marks=tmp_path / "marks").close()
    place = tmp_path / which
    for mode in (0o720, 0o702, 0o777):
        place.chmod(mode)
        with pytest.raises(
            PermissionError, match=rf"must be writable by its owner alone \(mode 0700\), got mode 0{mode:o}"
        ):
            opened(tmp_path / "run", marks=tmp_path / "marks")
    place.chmod(0o755)
    opened(tmp_path / "run", marks=tmp_path / "marks").close()


@posix
def test_a_folder_of_another_user_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    marks = tmp_path / "marks"
    opened(tmp_path / "other", marks=marks)
    before = state_of(tmp_path)
    real = owned._check_owner

    def of_another(place: Any, found: os.stat_result) -> None:
        with mock.patch.object(os, "geteuid", return_value=os.geteuid() + (Path(place) == path)):
            real(place, found)

    patched = mock.patch.object(owned, "_check_owner", of_another)
    with patched, pytest.raises(PermissionError, match="take another folder, or make one in it"):
        opened(path, marks=marks)
    after = state_of(tmp_path)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) <= {"run/lock"}


@posix
def test_a_file_system_without_modes_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o755)
    with mock.patch.object(os, "fchmod"), pytest.raises(PermissionError, match="a file system without modes"):
        opened(tmp_path / "run")


@posix
def test_windows_has_no_checks_of_owners_and_modes(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    with pytest.raises(PermissionError):
        owned.read_bytes(file)
    with mock.patch.object(owned, "_IS_POSIX", False):
        assert owned.read_bytes(file) == b"x"
        owned.check_folder(tmp_path)
        owned.close_to_others(tmp_path)


# -- the state folder --------------------------------------------------------------------------------------------------

ADVICE = r"give cn\.Folder\(path, marks=…\) a folder .* or set XDG_STATE_HOME"


@posix
def test_a_user_without_a_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    with mock.patch.object(Path, "home", side_effect=RuntimeError), pytest.raises(RuntimeError, match=ADVICE):
        Folder(tmp_path / "run")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # is void, as its specification says
    assert Folder(tmp_path / "run").marks == tmp_path / ".local/state/corrnoise"


@posix
def test_a_state_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match=ADVICE):
        opened(tmp_path / "run", marks=tmp_path / "file" / "marks")
    (tmp_path / "marks").mkdir()
    with mock.patch.object(os, "access", return_value=False), pytest.raises(PermissionError, match=ADVICE):
        opened(tmp_path / "run", marks=tmp_path / "marks")
    denied = mock.patch.object(Path, "mkdir", side_effect=PermissionError(13, "denied"))
    with denied, pytest.raises(PermissionError, match=ADVICE):
        opened(tmp_path / "run", marks=tmp_path / "home" / "marks")
    assert not (tmp_path / "run").exists()
