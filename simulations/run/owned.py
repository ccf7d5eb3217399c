"""Files and folders of one user: whatever a run opens is opened here, and refused unless it belongs to this user alone.

A file is opened without following a link and without waiting for a pipe.  It must be a regular one, with one name, of
this user, and closed to other users.  Other users must not be able to write to the folder of a run or of its marks.
Windows has neither such owners nor such modes, and nothing of this is checked there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from filelock import FileLock, Timeout

from corrnoise.simulations.run.refusals import refused
from corrnoise.support import reading
from corrnoise.support.files import sync_folder

_IS_POSIX = os.name == "posix"
_SAFE_FLAGS = 0
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
    _SAFE_FLAGS |= getattr(os, _name, 0)


def _opener(path: str, flags: int, *, any_mode: bool = False) -> int:
    """Open a file for ``reading``; the reason of a refusal has no name of the file yet."""
    try:
        file = os.open(path, flags | _SAFE_FLAGS, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO, errno.EISDIR):  # a link, socket, pipe or folder
            raise ValueError("it is not a regular file") from error
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if _IS_POSIX:
            _check_owner(path, found)
            if found.st_mode & 0o077 and not any_mode:
                raise refused(
                    "mode",
                    f"{path} must be readable by its owner alone (mode 0600), got mode {found.st_mode & 0o777:04o}",
                    PermissionError,
                )
            if found.st_nlink != 1:
                raise ValueError(f"it must have one name, got {found.st_nlink} hard links")
    except BaseException:
        os.close(file)
        raise
    return file


def _check_owner(path: str | os.PathLike[str], found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise refused(
            "owner",
            f"{os.fspath(path)} must belong to the user of this process, {os.geteuid()}, got the user {found.st_uid}",
            PermissionError,
        )


def opened(path: Path, flags: int) -> int:
    """Open a file of this user alone, a regular one with one name that others may neither read nor write.

    A file that is made has the mode 0600.  The folder was checked before.
    """
    with reading.guarded(path):
        return _opener(os.fspath(path), flags)


def check_file(path: Path) -> None:
    """Refuse a file that is not of this user alone, as ``opened`` does."""
    os.close(opened(path, os.O_RDONLY))


def read_bytes(path: Path, most: int = reading.MOST_BYTES) -> bytes:
    """Return the bytes of a file of this user alone, of at most ``most``; the errors are those of ``opened``."""
    return reading.read_bytes(path, most, _opener)


@contextmanager
def stream(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file of this user alone for reading; yields it and its size, which is at most ``most``."""
    with reading.opened(path, most, _opener) as found:
        yield found


def create(path: Path, content: bytes) -> None:
    """Write a new file, whose bytes are on the disk when this returns; ``FileExistsError`` where the name is taken."""
    file = opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        if os.write(file, content) != len(content):
            raise OSError(errno.ENOSPC, "no space is left", os.fspath(path))
        os.fsync(file)
    finally:
        os.close(file)


def check_folder(path: Path) -> None:
    """Refuse a folder that is missing, that is of another user, or that others may write to."""
    if not path.is_dir():
        raise NotADirectoryError(f"{path} must be a folder")
    if _IS_POSIX:
        found = path.stat()
        _check_owner(path, found)
        if found.st_mode & 0o022:
            raise refused(
                "folder mode",
                f"{path} must be writable by its owner alone (mode 0700), got mode {found.st_mode & 0o777:04o}",
                PermissionError,
            )


def make_folder(path: Path) -> None:
    """Make a folder that only its owner may use, with missing folders above it; their names are on the disk then."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(0o700 if each == path else 0o777, exist_ok=True)
        sync_folder(each.parent)
    if not missing:
        with suppress(PermissionError):  # of a folder above, which this user may not read: somebody else made ``path``
            sync_folder(path.parent)


def close_to_others(path: Path) -> None:
    """Give a folder of this user the mode 0700; ``PermissionError`` where it is of another user, or has no modes."""
    if not _IS_POSIX:
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _check_owner(path, os.fstat(folder))
        os.fchmod(folder, 0o700)
    finally:
        os.close(folder)
    if path.stat().st_mode & 0o077:
        raise PermissionError(f"{path} keeps its mode whatever is set: a file system without modes cannot keep a run")


def locked(path: Path, message: str, patience: float = 0.0) -> FileLock:
    """Lock a file of this user, which is made where it is missing, stays empty and is never removed.

    ``patience`` are seconds to wait for another process; then a ``BlockingIOError`` has the message.
    """
    with reading.guarded(path):
        file = _opener(os.fspath(path), os.O_RDWR | os.O_CREAT, any_mode=True)
        try:
            if size := os.fstat(file).st_size:
                raise ValueError(f"a lock must be empty, got {size} bytes: it is that of another program")
            if _IS_POSIX:
                os.fchmod(file, 0o600)
        finally:
            os.close(file)
    lock = FileLock(
        path, timeout=patience, mode=0o600, thread_local=False, fallback_to_soft=False, preserve_lock_file=True
    )
    with suppress(Timeout):
        lock.acquire(blocking=patience > 0.0)  # a timeout of 0 sleeps once all the same
        return lock
    raise BlockingIOError(message)
