"""The outside mark of a run: the number of records of its journal, and the link of the last one.

It lies outside of the folder of the run, so that a folder that was copied or restored is older than the mark.  The file
has three blocks of 4096 bytes, so that a power failure during a write spoils a single block.  Two are written in turn
and synchronised.  The third is written at each record in between, so that a killed process leaves the newest mark.  The
newest block that is whole is the mark.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

from corrnoise.simulations.run import owned
from corrnoise.support.files import write_whole
from corrnoise.support.serialise import digest

_BLOCK_BYTES = 4096
_LIVE_BLOCK = 2  # the number of the block that is not synchronised
_CONTENT = struct.Struct("<QQ16s")  # the fields of ``Marked``
_CHECKSUM_BYTES = 16


class Marked(NamedTuple):
    """A block of a mark: the number of records, how many more may follow unmarked, and the link of the last one."""

    number: int
    window: int
    link: bytes

    def block(self) -> bytes:
        """Return the block, with a checksum that tells one that was written in part."""
        content = _CONTENT.pack(*self)
        return (content + digest(content).encode()[:_CHECKSUM_BYTES]).ljust(_BLOCK_BYTES, b"\0")


class Mark:
    """The mark in a file, which is synchronised at least at every ``window``-th record.

    ``found`` is the mark in the file, None where there is no file; nothing is written before ``synchronise``.

    Raises
    ------
    ValueError
        If no block is whole.
    """

    def __init__(self, path: Path, window: int = 1) -> None:
        self.path = path
        self._window = window
        self._file: int | None = None
        self._blocks: list[Marked | None] = []
        self.found: Marked | None = None
        if path.exists():
            content = owned.read_bytes(path)
            self._blocks = [_parsed(content[k * _BLOCK_BYTES :][:_BLOCK_BYTES]) for k in range(_LIVE_BLOCK + 1)]
            self.found = max((each for each in self._blocks if each is not None), default=None)
            if self.found is None:
                raise ValueError(f"{path} is damaged: it is not the mark of a run")

    def write(self, number: int, link: bytes) -> None:
        """Bring the mark to a record; it is on the disk when this returns if the window is over."""
        synchronised = max(each.number if each is not None else 0 for each in self._blocks[:_LIVE_BLOCK])
        if number - synchronised >= self._window:
            self.synchronise(number, link)
        else:
            self._put(_LIVE_BLOCK, Marked(number, self._window, link))

    def synchronise(self, number: int, link: bytes) -> None:
        """Bring the mark to a record; it is on the disk when this returns."""
        new = Marked(number, self._window, link)
        if not self._blocks:
            create(self.path, new)
            self._blocks = [new] * (_LIVE_BLOCK + 1)
            return
        # Of two with one number, overwrite the one with the smaller window: left alone it would refuse a crash.
        older = min((0, 1), key=lambda place: (-1, 0) if (each := self._blocks[place]) is None else each[:2])
        self._put(older, new)
        assert self._file is not None
        os.fsync(self._file)

    def _put(self, place: int, new: Marked) -> None:
        if self._file is None:
            self._file = owned.opened(self.path, os.O_RDWR)
        os.lseek(self._file, place * _BLOCK_BYTES, os.SEEK_SET)
        if os.write(self._file, new.block()) != _BLOCK_BYTES:
            raise OSError(f"{self.path} cannot be written: no space is left")
        self._blocks[place] = new

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def create(path: Path, new: Marked) -> None:
    """Write a mark whose blocks are the same; it is on the disk when this returns."""
    write_whole(path, new.block() * (_LIVE_BLOCK + 1), secret=True)


def _parsed(block: bytes) -> Marked | None:
    """The content of a block; None where it was not written as a whole."""
    if len(block) < _BLOCK_BYTES:
        return None
    found = Marked(*_CONTENT.unpack_from(block))
    return found if found.block() == block else None
