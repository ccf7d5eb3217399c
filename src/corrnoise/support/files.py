"""Atomic files: a file is written completely or not at all, also after an error, an interruption or a power failure.

``write_whole`` writes one file, which only one process may write at a time; ``whole_files`` writes several together,
also next to other processes.  A process that is killed may leave ``<name>.corrnoise-new`` or a folder
``.corrnoise-unfinished-…`` behind, which nothing reads: the next ``write_whole`` of the name, or ``whole_files`` in the
folder, removes it.  Files and folders of other names are not touched.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows, where a folder cannot be locked: the one of a killed process stays
    flock = None  # type: ignore[assignment]

NEW = ".corrnoise-new"  #: at the end of the name of a file that is being written

_UNFINISHED_PREFIX = ".corrnoise-unfinished-"
_CREATION_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def write_whole(
    path: str | os.PathLike[str], data: str | bytes | Iterable[bytes | memoryview], *, secret: bool = False
) -> None:
    """Write one file, whose bytes are on the disk when this returns; only the user may read it if it is ``secret``.

    Text is written in UTF-8 with unchanged line ends.
      Earlier content stays, and nothing else.

    Raises
    ------
    OSError
        If the folder does not exist or cannot be written to, the disk is full, or a folder has this name.
    """
    path = Path(path)
    new = path.with_name(f"{path.name}{NEW}")
    new.unlink(missing_ok=True)  # of a killed process; its mode may be another one
    try:
        descriptor = os.open(new, _CREATION_FLAGS, 0o600 if secret else 0o666)
        try:
            for part in [data.encode()] if isinstance(data, str) else [data] if isinstance(data, bytes) else data:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Bring the names of the files of a folder to the disk; on Windows this is not possible and nothing is done."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def whole_files(folder: str | os.PathLike[str], stale: Iterable[str] = (), *, secret: bool = False) -> Iterator[Path]:
    """A temporary folder whose files are moved to ``folder`` at the end of the block, if it raises no exception.

    Files with the names ``stale`` that the block does not write are removed, because they belong to earlier contents.
    If the files are ``secret``, then only the user may read them.  An interrupt leaves nothing else in ``folder``.

    Raises
    ------
    OSError
        If ``folder`` does not exist or cannot be written to, or a folder has the name of a file.
    """
    with unfinished_folder(folder) as staging:
        yield staging
        files = sorted(staging.iterdir())
        for file in files:
            with file.open("rb+") as stream:
                if secret:
                    file.chmod(0o600)
                os.fsync(stream.fileno())
        for file in files:
            if Path(folder, file.name).is_dir():
                raise IsADirectoryError(f"{Path(folder, file.name)} is a folder, where a file is to be written")
        for name in set(stale) - {file.name for file in files}:
            Path(folder, name).unlink(missing_ok=True)
        for file in files:
            file.replace(Path(folder, file.name))
        sync_folder(folder)


@contextmanager
def unfinished_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A new folder inside another one, which only the user may read and which is removed at the end.

    It is locked while the block runs.  Others of its kind without a lock, of processes that were killed, are removed
    before.
    """
    for other in Path(folder).glob(f"{_UNFINISHED_PREFIX}*"):
        with suppress(OSError):
            if not other.is_symlink() and (lock := _lock(other)) is not None:
                shutil.rmtree(other, ignore_errors=True)
                os.close(lock)
    staging, lock = _new_folder(folder)
    try:
        yield staging
    finally:
        try:
            shutil.rmtree(staging, ignore_errors=True)
        except KeyboardInterrupt:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        finally:
            if lock is not None:
                os.close(lock)


def _new_folder(folder: str | os.PathLike[str]) -> tuple[Path, int | None]:
    """A new folder and its lock, None where folders cannot be locked."""
    while True:
        staging = Path(mkdtemp(prefix=_UNFINISHED_PREFIX, dir=folder))
        with suppress(BlockingIOError, FileNotFoundError):  # another process took it for one of a killed process
            return staging, _lock(staging)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of a folder, None where it cannot be locked; BlockingIOError if it is held."""
    if flock is None:
        return None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flock(descriptor, LOCK_EX | LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise
        return None
    if not os.fstat(descriptor).st_nlink:
        os.close(descriptor)
        raise FileNotFoundError(f"{folder} was removed")
    return descriptor
