"""Atomic files: a file is written completely or not at all, also after an error, an interruption or a power failure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

_BINARY = getattr(os, "O_BINARY", 0)  # on Windows


@contextmanager
def whole_files(folder: str | os.PathLike[str], stale: Iterable[str] = ()) -> Iterator[Path]:
    """A temporary folder whose files are moved to ``folder`` at the end of the block, if it raises no exception.

    Files with the names ``stale`` that the block does not write are removed, because they belong to earlier contents.

    An interrupt leaves nothing else in ``folder``.  A process that is killed leaves a folder ``.unfinished-…`` there,
    which nothing reads.

    Raises
    ------
    OSError
        ``folder`` does not exist or cannot be written to, or a folder has the name of a file.
    """
    with _temporary_folder(folder) as staging:
        yield staging
        files = sorted(staging.iterdir())
        for file in files:
            with file.open("rb+") as stream:
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
def _temporary_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder inside another one that is removed at the end, also if the removal itself is interrupted."""
    staging = TemporaryDirectory(prefix=".unfinished-", dir=folder)
    try:
        yield Path(staging.name)
    finally:
        try:
            staging.cleanup()
        except KeyboardInterrupt:
            staging.cleanup()
            raise


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write one text file, in UTF-8, with unchanged line ends."""
    path = Path(path)
    with whole_files(path.parent) as staging:
        (staging / path.name).write_text(text, encoding="utf-8", newline="")


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names of the files in a folder durable, where the system can."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_private(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    """Write a file that its owner alone may read, one part after the other, completely or not at all.

    What a process that was killed left is overwritten by the next one, so that no secret stays.
    """
    path = Path(path)
    unfinished = path.with_name(f"{path.name}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
    try:
        for part in parts:
            rest = memoryview(part).cast("B")
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(unfinished, path)
    sync_folder(path.parent)
