"""The journal of a run: each step is noted before its noise is drawn, so that none is started twice.

The journal is a text file, append only.  A record is a line ``kind first end nonce link``:

``b``
    The steps first <= t < end are started, with this nonce (``draws``).
``c``
    A clean end: the steps from ``first`` on, which had been noted ahead, are free again.
``f``
    The run is finished.
``m``
    The folder has moved to another machine.

A link is a keyed hash of the link before it and of the record, so that it commits to all earlier records; the first one
is of the settings of the run.  Two *marks*, one next to the journal and one in another folder of the machine, hold the
number of records and the link of the last, in two slots that are written in turn, in place.

**Order of writes**: the record is appended and synchronised, then the mark, then the outside mark; only then is noise
drawn.  At the opening each mark must be a prefix of the journal, at most one record shorter; an unfinished last line
was never followed by noise, and is cut off; and both marks are brought to the journal before anything else is written.

So no step is released twice as long as one of journal, mark and outside mark is the newest at every opening.
"""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path
from typing import NamedTuple

from corrnoise.simulations.run import draws, owned
from corrnoise.simulations.run.secret import Secret
from corrnoise.support.files import write_whole
from corrnoise.support.reading import LARGE
from corrnoise.support.serialise import digest

_LINE_PATTERN = re.compile(r"([bcfm]) (0|[1-9]\d{0,17}) (0|[1-9]\d{0,17}) ([0-9a-f]{32}) ([0-9a-f]{32})", re.ASCII)
_MARK_PATTERN = re.compile(r"(0|[1-9]\d{0,17}) ([0-9a-f]{32}) ([0-9a-f]{8}) *\n", re.ASCII)
MOST_AHEAD = 10**6  #: steps that one record covers
_SLOT_BYTES = 64  # bytes of a slot of a mark, which is written at once
_NO_NONCE = bytes(draws.NONCE_BYTES)


class Note(NamedTuple):
    """A record of the journal."""

    kind: str
    first: int
    end: int
    nonce: bytes

    @property
    def text(self) -> str:
        """The record without its link."""
        return f"{self.kind} {self.first} {self.end} {self.nonce.hex()}"


class Journal:
    """The open journal of a run, which the caller has locked: the records, and the first step that was never started.

    The first link commits to the bytes of the settings.  ``moved`` says that the outside mark may be missing or old,
    because the folder comes from another machine.

    Raises
    ------
    ValueError
        If journal and marks do not belong together.
    """

    def __init__(self, path: Path, outside: Path, secret: Secret, settings: bytes, *, moved: bool = False) -> None:
        self.path = path
        self._outside = outside
        self._secret = secret
        self.notes: list[Note] = []
        self._links = [draws.derived(secret, b"link", settings)]
        content = owned.read_bytes(path, LARGE)
        self._file = owned.opened(path, os.O_RDWR | os.O_APPEND)
        try:
            whole = content.rpartition(b"\n")[0]
            self._size = len(whole) + 1 if whole else 0
            self._read(whole)
            self._check(path.with_name("mark"), moved=False)
            self._check(outside, moved=moved)
            if self._size < len(content):
                os.ftruncate(self._file, self._size)
            os.fsync(self._file)  # a process that was killed may have appended and not synchronised
            newcomer = moved and self._behind(outside)
            self._write_marks()
            if newcomer:
                self._note(Note("m", self.free, self.free, _NO_NONCE))
        except BaseException:
            os.close(self._file)
            raise

    @staticmethod
    def start(secret: Secret, settings: bytes) -> bytes:
        """The mark of a journal without records."""
        return 2 * _slot(0, draws.derived(secret, b"link", settings).hex())

    def _read(self, whole: bytes) -> None:
        for number, line in enumerate(whole.split(b"\n") if whole else []):
            found = _LINE_PATTERN.fullmatch(line.decode("ascii", "replace"))
            if found is None:
                raise ValueError(f"{self.path} is damaged: line {number + 1} is no record")
            note = Note(found[1], int(found[2]), int(found[3]), bytes.fromhex(found[4]))
            if note.end - note.first > MOST_AHEAD:
                raise ValueError(f"{self.path} is damaged: line {number + 1} begins {note.end - note.first} steps")
            self._links.append(self._link(note))
            self.notes.append(note)
            if not hmac.compare_digest(self._links[-1].hex(), found[5]):
                raise ValueError(
                    f"{self.path} is damaged or foreign: line {number + 1} does not follow from the others"
                )

    def _link(self, note: Note) -> bytes:
        return draws.derived(self._secret, b"link", self._links[-1], note.text.encode())

    def _number(self, mark: Path) -> int | None:
        """The number of records of a mark whose link is in the journal; None for any other."""
        text = owned.read_bytes(mark).decode("latin-1")
        slots = [text[k : k + _SLOT_BYTES] for k in (0, _SLOT_BYTES)]
        whole = [
            (int(found[1]), found[2])
            for slot in slots
            if (found := _MARK_PATTERN.fullmatch(slot)) and slot.encode("latin-1") == _slot(int(found[1]), found[2])
        ]
        if not whole:
            raise ValueError(f"{mark} is damaged: it is no mark of a run")
        number, link = max(whole)
        there = number < len(self._links) and hmac.compare_digest(self._links[number].hex(), link)
        return number if there else None

    def _check(self, mark: Path, *, moved: bool) -> None:
        """Refuse a mark that is missing, or not a prefix of the journal, or more than one record shorter."""
        if not mark.exists():
            if moved:
                return
            raise ValueError(
                f"{mark} is missing: the folder is a copy, or comes from another machine, where the run may go on. If "
                "it does not, moved=True says so, once; marks=… on the volume of the folder keeps the mark with it"
            )
        number = self._number(mark)
        if number is None:
            raise ValueError(
                f"{self.path} is older than {mark}, or another: to go on would release steps twice; restore the newest"
            )
        if number < len(self.notes) - 1 and not moved:
            raise ValueError(
                f"{mark} is {len(self.notes) - number} records older than {self.path}: a part of the run was restored "
                "from a copy, or the run went on on another machine; restore the newest"
            )

    def _behind(self, mark: Path) -> bool:
        """Whether a mark that was checked shows that the run was elsewhere."""
        return not mark.exists() or (self._number(mark) or 0) < len(self.notes) - 1

    # -- records -------------------------------------------------------------------------------------------------------

    @property
    def free(self) -> int:
        """The first step that was never started."""
        for note in reversed(self.notes):
            if note.kind in "bc":
                return note.end
        return 0

    @property
    def finished(self) -> bool:
        """Whether the run is finished."""
        return any(note.kind == "f" for note in self.notes)

    @property
    def length(self) -> int:
        """The number of records."""
        return len(self.notes)

    def link(self, number: int) -> bytes | None:
        """The link of the first ``number`` records; None if there are fewer."""
        return self._links[number] if number < len(self._links) else None

    def nonces(self, first: int) -> dict[int, bytes]:
        """The nonces of the started steps from ``first`` on."""
        free = self.free
        found: dict[int, bytes] = {}
        for note in self.notes:
            if note.kind == "b":
                found.update((step, note.nonce) for step in range(max(first, note.first), min(note.end, free)))
        return found

    def begin(self, first: int, end: int) -> bytes:
        """Note durably that steps are started; their noise may be drawn, with this nonce, once this has returned."""
        note = Note("b", first, end, draws.fresh(draws.NONCE_BYTES))
        self._note(note)
        return note.nonce

    def clean(self, first: int) -> None:
        """Note that the steps from ``first`` on were not started."""
        self._note(Note("c", first, first, _NO_NONCE))

    def finish(self) -> None:
        """Note that the run is finished."""
        self._note(Note("f", self.free, self.free, _NO_NONCE))

    def _note(self, note: Note) -> None:
        self._check_file()
        link = self._link(note)
        line = f"{note.text} {link.hex()}\n".encode()
        if self._size + len(line) > LARGE:
            raise ValueError(f"{self.path} is full: begin a new run with Folder(path, ahead=…), and add its ρ")
        if os.write(self._file, line) != len(line):
            raise OSError(f"{self.path} cannot be written: no space is left")
        os.fsync(self._file)
        self._size += len(line)
        self.notes.append(note)
        self._links.append(link)
        self._write_marks()

    def _check_file(self) -> None:
        """Refuse a journal that another program has changed or replaced: locks are not kept by all file systems."""
        ours, theirs = os.fstat(self._file), os.stat(self.path)
        if (ours.st_dev, ours.st_ino) != (theirs.st_dev, theirs.st_ino) or theirs.st_size != self._size:
            raise RuntimeError(f"{self.path} was changed by another program while the run used it")

    def _write_marks(self) -> None:
        number = len(self.notes)
        slot = _slot(number, self._links[-1].hex())
        for mark in (self.path.with_name("mark"), self._outside):
            if not mark.exists():
                write_whole(mark, 2 * slot, secret=True)
                continue
            file = owned.opened(mark, os.O_RDWR)
            try:
                os.lseek(file, number % 2 * _SLOT_BYTES, os.SEEK_SET)
                os.write(file, slot)
                os.fsync(file)
            finally:
                os.close(file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _slot(number: int, link: str) -> bytes:
    """A slot of a mark, with a checksum that tells one that was written in part."""
    text = f"{number} {link}"
    return f"{text} {digest(text.encode())[:8]}".ljust(_SLOT_BYTES - 1).encode() + b"\n"
