"""Kept results: one file each, which is whole or not there, named by the digest of all that determines the result.

A file holds these settings and the result, both as ``support.serialise.plain`` describes them: arrays and tuples come
back as lists, and numbers that are not finite as the strings that ``float`` understands.  It has a checksum and a limit
on its size, like all files of ``support.serialise``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from corrnoise.support.files import whole_files
from corrnoise.support.serialise import digest, load, plain, save


def kept_file(folder: Path, settings: Any) -> Path:
    """The file that keeps the result of these settings."""
    return folder / f"{digest(plain(settings))}.json"


def keep(folder: Path, settings: Any, result: Any) -> None:
    """Write the result of these settings, in the place of an earlier one, to a folder that exists.

    Raises
    ------
    ValueError
        If it is too large, or nested too deeply, for a file of ``support.serialise``.
    OSError
        If the file cannot be written.
    """
    described = {"settings": plain(settings), "result": plain(result)}
    with whole_files(folder) as staging:  # several processes may keep the same result
        save(described, kept_file(staging, settings))


def kept(folder: Path, settings: Any) -> Any:
    """The result of these settings, in JSON types.

    Raises
    ------
    FileNotFoundError
        If none is kept.
    ValueError
        If the file is foreign or damaged, or keeps the result of other settings.
    """
    path = kept_file(folder, settings)
    found = load(path)
    if not isinstance(found, dict) or set(found) != {"settings", "result"} or found["settings"] != plain(settings):
        raise ValueError(f"{path} keeps the result of other settings")
    logging.getLogger(__name__).debug("computed before: %s", path)
    return found["result"]
