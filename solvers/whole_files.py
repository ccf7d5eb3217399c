"""Files that are whole or not there, whatever happens meanwhile: an error, an interruption, a loss of power."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


@contextmanager
def whole_files(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """A folder to write into; when the block ends well, its files take their places in ``folder``, all at the end.

    Raises
    ------
    OSError
        ``folder`` is not there or cannot be written to.
    """
    with TemporaryDirectory(prefix=".unfinished-", dir=folder) as staging:
        yield Path(staging)
        files = sorted(Path(staging).iterdir())
        for file in files:
            with file.open("rb+") as stream:
                os.fsync(stream.fileno())
        for file in files:
            file.replace(Path(folder, file.name))


def write_whole(path: str | os.PathLike[str], text: str) -> None:
    """Write one text file, in UTF-8 and with the ends of lines as they are."""
    path = Path(path)
    with whole_files(path.parent) as staging:
        (staging / path.name).write_text(text, encoding="utf-8", newline="")
