"""The journal of a run: each step is noted before it is released, so that none is released twice.

The journal is append only, in one file for each checkpoint: the *segment* ``journal-<position>`` has the records since
the checkpoint of this position.  A record is a header, a payload and a link.  Its kinds are:

``h``
    The head of a segment: the number and the link of the records before, and the nonces that the memory of the noise
    needs.
``b``
    The steps first <= t < end are started, with this nonce (``draws``).  The payload is the noisy sum of the step,
    where releases are kept.
``c``
    A clean end: the steps from ``first`` on, which had been noted ahead, are free again.
``f``
    The run is finished.
``m``
    The folder has moved to another machine.

A link is a keyed hash of the link before it and of the record, so that it commits to all earlier records.  Its key
depends on the settings of the run.  The outside ``mark`` holds the number of records and the link of the last one.

**Order of writes**: the record is appended and synchronised, then the mark is written; only then is the step released.
At the opening the mark must be a prefix of the journal, no older than the record before the head of the last segment.
What follows the last record, of at most one record's length, was never released, and is cut off.  The journal, its
names and the mark are synchronised before anything else is written.

So no step is released twice as long as the journal or the mark is the newest at every opening.  This is always so
unless both were replaced by older ones, with a mark that is synchronised at each record.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws, owned
from corrnoise.simulations.run.mark import Mark, Marked
from corrnoise.simulations.run.refusals import refused
from corrnoise.simulations.run.secret import Secret
from corrnoise.support.files import sync_folder, write_whole

MOST_AHEAD = 10**6  #: steps that one record covers
MAX_FILE_BYTES = 2**38  #: of a segment or a checkpoint, which is read in parts
_HEADER = struct.Struct("<c3s4xQQQ16s")  # kind, type of the payload, first, end, bytes of the payload, nonce
_SPAN = struct.Struct("<QQ16s")  # first, end, nonce
_BEFORE = struct.Struct("<Q16s")  # number and link of the records before a segment
_LINK_BYTES = 16
_MAX_HEAD_BYTES = 2**26  # of the payload of a head
_CHUNK_BYTES = 2**22
_NO_NONCE = bytes(draws.NONCE_BYTES)


class Started(NamedTuple):
    """The steps first <= t < end, which were started with one nonce."""

    first: int
    end: int
    nonce: bytes


class _Kept(NamedTuple):
    """Where the release of a step is: a file, the place of its record, and the link before it."""

    path: Path
    place: int
    before: bytes


class Chain:
    """The records of the segments in ``paths``, which are read and verified; ``largest`` bytes has a release at most.

    ``started`` are the steps whose nonces are known, ``free`` is the first step that was never started, ``length`` the
    number of records since the start of the run, ``position`` the one of the last segment, and ``whole`` the bytes of
    this segment up to its last record.

    Raises
    ------
    ValueError
        If a segment is damaged, or does not follow from the one before.
    """

    def __init__(self, paths: Sequence[Path], secret: Secret, settings: bytes, *, largest: int) -> None:
        self.path = paths[-1]
        self._secret = Secret(draws.derived(secret, b"journal", settings, size=32))
        self.started: list[Started] = []
        self.free = self.length = self.position = self.whole = 0
        self.finished = False
        self._links: list[bytes] = []  # of the last records
        self._kept: dict[int, _Kept] = {}
        for path in paths:
            self._read(path, largest if path == self.path else 0)

    @staticmethod
    def first_segment(secret: Secret, settings: bytes) -> tuple[bytes, Marked]:
        """The first segment of a run, which has a head alone, and its mark."""
        own = Secret(draws.derived(secret, b"journal", settings, size=32))
        content = _segment(own, 0, 0, _BEFORE.pack(0, bytes(_LINK_BYTES)), [])
        return content, Marked(1, 1, content[-_LINK_BYTES:])

    # -- reading -------------------------------------------------------------------------------------------------------

    def _read(self, path: Path, torn: int) -> None:
        """Read a segment, after whose last record there are at most ``torn`` and the bytes of a record."""
        with owned.stream(path, MAX_FILE_BYTES) as (stream, size):
            place = end = 0
            while (end := self._take_next(stream, path, place, size)) > place:
                place = end
            if not place:
                raise ValueError("its head does not follow from the key and the settings of the run")
            if size - place > torn + _HEADER.size + _LINK_BYTES or (size > place and path != self.path):
                raise ValueError(f"after {place} bytes of records it has {size - place} that are not a record")
            self.whole = place

    def _take_next(self, stream: BinaryIO, path: Path, place: int, size: int) -> int:
        """Take the record at a place if it is whole and follows from the others; the place after it."""
        header = stream.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return place
        count = _HEADER.unpack(header)[4]
        if place + _HEADER.size + count + _LINK_BYTES > size:
            return place
        payload = b""
        if not place:  # a head, whose payload is small
            if header[:1] != b"h" or not _BEFORE.size <= count <= _MAX_HEAD_BYTES:
                return place
            payload = stream.read(count)
            number, before = _BEFORE.unpack_from(payload)
            if self._links and (number, before) != (self.length, self._links[-1]):
                raise ValueError("it does not follow from the segment before")
            self.length, self._links = number, [*(self._links or [before])]
        mac = draws.keyed(self._secret, _LINK_BYTES, self._links[-1] + header + payload)
        rest = count - len(payload)
        while rest > 0 and (chunk := stream.read(min(rest, _CHUNK_BYTES))):
            mac.update(chunk)
            rest -= len(chunk)
        link = mac.digest()
        if stream.read(_LINK_BYTES) != link:
            return place
        if count and place:
            self._kept[_HEADER.unpack(header)[2]] = _Kept(path, place, self._links[-1])
        self._take(header, payload, link)
        return place + _HEADER.size + count + _LINK_BYTES

    def _take(self, header: bytes, payload: bytes, link: bytes) -> None:
        """Count a record."""
        kind, _, first, end, _, nonce = _HEADER.unpack(header)
        if kind == b"b":
            if not first <= end <= first + MOST_AHEAD:
                raise ValueError(f"a record begins {end - first} steps, more than {MOST_AHEAD}")
            self.started.append(Started(first, end, nonce))
            self.free = end
        elif kind == b"c":
            self.started = [each._replace(end=min(each.end, first)) for each in self.started if each.first < first]
            self.free = first
        elif kind == b"h":
            self.started = self.started or [Started(*each) for each in _SPAN.iter_unpack(payload[_BEFORE.size :])]
            self.position, self.free = first, end
        self.finished = self.finished or kind == b"f"
        self.length += 1
        self._links.append(link)

    # -- the mark ------------------------------------------------------------------------------------------------------

    def check(self, mark: Mark, *, moved: bool = False) -> None:
        """Refuse a mark that is missing, or not a prefix of the journal, or older than it may be."""
        found = mark.found
        if found is None:
            if not moved:
                raise refused("mark is missing", f"{mark.path} is missing")
            return
        oldest = self.length - len(self._links) + 1
        if found.number >= oldest and self.link(found.number) != found.link:
            raise refused("journal is older", f"{self.path} is older than {mark.path}, or another")
        if not moved and self._is_old(found):
            raise refused(
                "mark is older", f"{mark.path} is {self.length - found.number} records older than {self.path}"
            )

    def _is_old(self, found: Marked) -> bool:
        """Whether a mark is older than a crash can leave it."""
        return self.link(found.number) != found.link or found.number < self.length - found.window

    # -- records -------------------------------------------------------------------------------------------------------

    def link(self, number: int) -> bytes | None:
        """The link of the first ``number`` records; None if it is not known."""
        place = number - self.length - 1 + len(self._links)
        return self._links[place] if 0 <= place < len(self._links) else None

    def nonces(self, first: int) -> dict[int, bytes]:
        """The nonces of the started steps from ``first`` on."""
        return {step: each.nonce for each in self.started for step in range(max(first, each.first), each.end)}

    def has_release(self, step: int) -> bool:
        """Whether the release of a step is kept."""
        return step in self._kept

    def release(self, step: int) -> NDArray[np.generic]:
        """The release of a step that is kept."""
        path, place, before = self._kept[step]
        with owned.stream(path, MAX_FILE_BYTES) as (stream, _):
            stream.seek(place)
            header = stream.read(_HEADER.size)
            _, dtype, _, _, count, _ = _HEADER.unpack(header)
            payload = bytearray(stream.read(count))
            if _link(self._secret, before, header, payload) != stream.read(_LINK_BYTES):
                raise ValueError(f"the release of step {step} has changed")
            found = np.frombuffer(payload, np.dtype(dtype.decode()))
            return found.astype(found.dtype.newbyteorder("="))


class Journal(Chain):
    """The journal of a run, which the caller has locked; ``open`` is called first, and before it nothing is written.

    The further arguments are those of ``Chain``.  ``moved`` says that the outside mark may be missing or old, because
    the folder comes from another machine.

    Raises
    ------
    ValueError
        If journal and mark do not belong together.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        mark: Mark,
        secret: Secret,
        settings: bytes,
        *,
        largest: int,
        moved: bool = False,
    ) -> None:
        super().__init__(paths, secret, settings, largest=largest)
        self.check(mark, moved=moved)
        self._mark = mark
        self._file: int | None = None

    def open(self) -> None:
        """Cut off an unfinished record, and bring all to the disk that a killed process may not have synchronised."""
        self._file = owned.opened(self.path, os.O_RDWR | os.O_APPEND)
        if os.fstat(self._file).st_size > self.whole:
            os.ftruncate(self._file, self.whole)
        os.fsync(self._file)
        sync_folder(self.path.parent)  # the name of the segment
        sync_folder(self._mark.path.parent)
        newcomer = self._mark.found is None or self._is_old(self._mark.found)
        self._mark.synchronise(self.length, self._links[-1])
        if newcomer:
            self._append(b"m", self.free, self.free)

    @staticmethod
    def nonce(step: int) -> bytes:
        """A nonce for a step that starts."""
        return draws.fresh(draws.NONCE_BYTES)

    def begin(self, first: int, end: int, nonce: bytes, release: NDArray[np.generic] | None = None) -> None:
        """Note durably that steps are started with a nonce; a release of them may be shown once this has returned."""
        self._append(b"b", first, end, nonce, release)

    def clean(self, first: int) -> None:
        """Note that the steps from ``first`` on were not started."""
        self._append(b"c", first, first)

    def finish(self) -> None:
        """Note that the run is finished."""
        self._append(b"f", self.free, self.free)

    def _append(
        self, kind: bytes, first: int, end: int, nonce: bytes = _NO_NONCE, release: NDArray[np.generic] | None = None
    ) -> None:
        self._check_file()
        assert self._file is not None
        values = np.empty(0, "|u1") if release is None else np.asarray(release, release.dtype.newbyteorder("<"), "C")
        name = b"" if release is None else values.dtype.str.encode()
        header = _HEADER.pack(kind, name, first, end, values.nbytes, nonce)
        payload = values.tobytes()
        link = _link(self._secret, self._links[-1], header, payload)
        record = header + payload + link
        if self.whole + len(record) > MAX_FILE_BYTES:
            raise ValueError(
                f"{self.path} is full: resume the run with Folder(path, checkpoint_every=…) of fewer steps"
            )
        rest = memoryview(record)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)
        self.whole += len(record)
        self._take(header, b"", link)
        self._mark.write(self.length, link)

    def _check_file(self) -> None:
        """Refuse a journal that another program has changed or replaced: locks are not kept by all file systems."""
        if self._file is None:
            raise RuntimeError(f"{self.path} was followed by a segment that is not complete: open the run again")
        ours, theirs = os.fstat(self._file), os.stat(self.path)
        if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino) or theirs.st_size != self.whole:
            raise RuntimeError(f"{self.path} was changed by another program while the run used it")

    def compact(self, position: int, since: int) -> None:
        """Start the segment of a checkpoint that was written, with the nonces of the steps from ``since`` on.

        Nothing is done where there is a later one, or where releases of later steps are to be returned again.  After
        an exception no record is taken, as the new segment may exist, until this is called again.
        """
        if position <= self.position or max(self._kept, default=-1) >= position:
            return
        if self._file is not None:
            self._check_file()
        before = self._links[-1]
        known = [each._replace(first=max(each.first, since)) for each in self.started if each.end > since]
        content = _segment(self._secret, position, self.free, _BEFORE.pack(self.length, before), known)
        self._mark.synchronise(self.length, before)
        self._close_file()
        path = self.path.with_name(f"journal-{position}")
        write_whole(path, content, secret=True)
        self._file = owned.opened(path, os.O_RDWR | os.O_APPEND)
        self.path, self.whole = path, len(content)
        self.started, self._links, self._kept = known, [before], {}
        self._take(content[: _HEADER.size], b"", content[-_LINK_BYTES:])
        self._mark.synchronise(self.length, self._links[-1])

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def close(self) -> None:
        """Close the files."""
        self._close_file()
        self._mark.close()


def _link(secret: Secret, before: bytes, header: bytes, payload: bytes | bytearray) -> bytes:
    """The link of a record that follows the link ``before``."""
    mac = draws.keyed(secret, _LINK_BYTES, before + header)
    mac.update(payload)
    return mac.digest()


def _segment(secret: Secret, position: int, free: int, before: bytes, known: Iterable[Started]) -> bytes:
    """A segment that has a head alone; ``before`` are the number and the link of the records before."""
    payload = before + b"".join(_SPAN.pack(*each) for each in known)
    if len(payload) > _MAX_HEAD_BYTES:
        raise ValueError(f"the noise needs the nonces of too many steps: {len(payload)} bytes, above {_MAX_HEAD_BYTES}")
    header = _HEADER.pack(b"h", b"", position, free, len(payload), _NO_NONCE)
    return header + payload + _link(secret, _BEFORE.unpack(before)[1], header, payload)
