"""Kept results: one file of JSON each, which is whole or not there, with a checksum.

A file holds what the result is of and the result itself.  A reader compares the first with what it looks for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corrnoise.support.files import write_whole
from corrnoise.support.serialise import digest


def store(path: Path, record: Mapping[str, Any]) -> None:
    """Write ``record``, in the terms of JSON, to ``path``."""
    write_whole(path, json.dumps({**record, "checksum": digest(record)}) + "\n")


def stored(path: Path, *, unsigned: bool = False) -> dict[str, Any]:
    """Read a record of ``store``.

    Parameters
    ----------
    path
        The file.
    unsigned
        Whether to accept files without a checksum, as learning curves of figures were once kept.

    Raises
    ------
    FileNotFoundError
        There is no file.
    ValueError, TypeError
        It is damaged, or no file of ``store``.
    """
    record = json.loads(path.read_bytes())
    if not isinstance(record, dict):
        raise TypeError(f"it holds {type(record).__name__}, not a record")
    checksum = record.pop("checksum", None)
    if checksum != digest(record) and not (unsigned and checksum is None):
        raise ValueError("its checksum is wrong" if checksum else "it has no checksum")
    return record
