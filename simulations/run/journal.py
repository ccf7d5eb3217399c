"""A journal that is written ahead: a step that was begun is never begun again.

Noise that is drawn again for a step that was released, with another gradient, is no noise: the difference of the two
releases is the difference of the gradients.  So the journal notes a step durably *before* its draws are used.
After a crash the run continues at the first step that was not begun; the noise of the steps in between is drawn only to
bring the memory of the correlated noise up to date.  This is sound because the mechanism is adaptive: a gradient may be
taken at any earlier model.

The file is text: a line with the identity of the key, then a line for each note, ``the first step that is free``, the
last of which counts.  A last line without its end was never finished, and its step never begun.  The file is locked
while a run writes it, so that two runs cannot share it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType

from corrnoise.simulations.run.keys import RunKey, sync_folder
from corrnoise.theory.numerics import checks

_HEADER = "corrnoise journal 1 "
_LINE = re.compile(rb"\d{1,18}")


class Journal:
    """The first step of a run that is free, in a file.

    Parameters
    ----------
    path
        The file, beside the checkpoints of the run; it is made if it does not exist.
    key
        The key of the run.
    ahead
        How many steps one note covers.  A crash skips at most so many steps that were not begun.

    Attributes
    ----------
    free
        The first step that may be begun.

    Raises
    ------
    ValueError
        The file belongs to another key, or is no journal.
    BlockingIOError
        A running process uses the file.
    OSError
        The file cannot be written, or this system has no file locks (POSIX).
    """

    def __init__(self, path: str | os.PathLike[str], key: RunKey, *, ahead: int = 1) -> None:
        self.path = Path(path)
        self._ahead = checks.integer("ahead", ahead, 1)
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _lock(self._file, self.path)
            self._noted = self._read(key)
        except BaseException:
            if self._file >= 0:
                self._release()
            raise
        self.free = self._noted

    def _read(self, key: RunKey) -> int:
        """The last note; a new file gets its header, an unfinished last line is cut off."""
        header = f"{_HEADER}{key.identity}".encode("ascii")
        content = self.path.read_bytes()
        whole, end, rest = content.rpartition(b"\n")
        lines = whole.split(b"\n") if end else []
        if lines and lines[0] != header:
            raise ValueError(f"{self.path} is not the journal of the key {key.identity}")
        if not lines:
            if rest and not header.startswith(rest):
                raise ValueError(f"{self.path} is no journal")
            key.check_new_journal(self.path)
            os.ftruncate(self._file, 0)
            self._append(header)
            sync_folder(self.path.absolute().parent)
            key.note_journal(self.path)
            return 0
        key.note_journal(self.path)
        if not all(_LINE.fullmatch(line) for line in lines[1:]):
            raise ValueError(f"{self.path} is damaged: a line is no number of a step")
        if rest:
            os.ftruncate(self._file, len(whole) + 1)
        return int(lines[-1]) if lines[1:] else 0

    def _append(self, line: bytes) -> None:
        """Write a line durably; a journal that cannot is closed, so that nothing follows half a line."""
        if self._file < 0:
            raise ValueError(f"{self.path} is closed")
        try:
            if os.write(self._file, line + b"\n") <= len(line):
                raise OSError(f"{self.path} cannot be written: no space is left")
            os.fsync(self._file)
        except OSError:
            self._release()
            raise

    def _release(self) -> None:
        os.close(self._file)
        self._file = -1

    def begin(self, step: int) -> None:
        """Note durably that a step is begun; its draws may be used once this has returned.

        Raises
        ------
        ValueError
            The step has been begun before.
        """
        if step < self.free:
            raise ValueError(f"step must be at least {self.free}, the first that was not begun, got {step}")
        if step >= self._noted:
            self._append(b"%d" % (step + self._ahead))
            self._noted = step + self._ahead
        self.free = step + 1

    def close(self) -> None:
        """End cleanly: steps that were noted ahead and not begun are free again."""
        if self._file < 0:
            return
        if self.free < self._noted:
            self._append(b"%d" % self.free)
        self._release()

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _lock(descriptor: int, path: Path) -> None:
    """Lock a file for this process until it is closed."""
    try:
        import fcntl
    except ImportError as error:
        raise OSError("a journal needs the file locks of a POSIX system") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(f"{path} is in use by another run") from error
