"""Files that are whole or not there, whatever happens meanwhile: an error, an interruption, a loss of power."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def whole_files(folder: str | os.PathLike[str], stale: Iterable[str] = ()) -> Iterator[Path]:
    """A folder to write into; when the block ends well, its files take their places in ``folder``, all at the end.

    Files with the names ``stale`` that are not written anew are removed: they would belong to something else.

    Raises
    ------
    OSError
        ``folder`` is not there or cannot be written to, or holds a folder in the place of a file.
    """
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as staging:
        yield Path(staging)
        files = sorted(Path(staging).iterdir())
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


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write one text file, in UTF-8 and with the ends of lines as they are."""
    path = Path(path)
    with whole_files(path.parent) as staging:
        (staging / path.name).write_text(text, encoding="utf-8", newline="")
