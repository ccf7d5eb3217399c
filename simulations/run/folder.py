"""The folder of a run: all that a run needs to go on, and what refuses to go on where noise would be made twice.

==========================  ========================================================================================
file                        content
==========================  ========================================================================================
``beginning``               a marker, only while the folder is being made
``settings.json``           the settings of the run, which the command of a restart must repeat; written last
``key``                     the secret key, 32 bytes
``order``                   the order of the examples, where the run has batches
``program.npz``             the mechanism that runs, and the participation
``lock``                    is locked while a process uses the run; empty, and never deleted
``checkpoint-<position>``   the memory of the noise and what ``carry`` saves, after so many steps; the last two
``shard-<position>-<rank>`` the memory of another process of the run, which belongs to this checkpoint
``journal-<position>``      the steps that were started since this checkpoint, and kept releases (``journal``)
==========================  ========================================================================================

The outside ``mark``, and a second lock, lie in the user's state folder.  Their name is the identity of the run, which
follows from the key.  So a copy of the folder is noticed on the same machine.

**A run starts inside its folder**, under the lock: the marker, the files, the outside mark, all names synchronised, and
then ``settings.json``, which commits the run.  A folder with the marker and without ``settings.json``
starts again.  Nothing is removed but files of these names, in a folder that has the marker or the settings of a run.
The folder is as secret as the data, and belongs to one user (``owned``).
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any

from filelock import FileLock
from numpy.typing import NDArray

from corrnoise.simulations.run import draws, mark, owned
from corrnoise.simulations.run.journal import MOST_AHEAD, Chain, Journal
from corrnoise.simulations.run.refusals import refused
from corrnoise.simulations.run.sealed import Arrays, Sealed
from corrnoise.simulations.run.secret import Secret
from corrnoise.support.files import NEW, sync_folder, write_whole
from corrnoise.support.reading import LARGE, MOST_BYTES, check_json, guarded, json_value
from corrnoise.support.serialise import by_name, unpacked
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Participation

FORMAT = "corrnoise run 3"  #: of the folder

_LOCK_SECONDS = 0.2  # to wait for a look at the status
_MAX_ITEM_BYTES = 8  # of a coordinate of a kept release
PROGRAM_FILE = "program.npz"  #: of ``PROGRAM_KINDS``
PROGRAM_KINDS = KINDS | by_name(*Participation.doors.values())
_SETTINGS_FILE, _MARKER_FILE, _LOCK_FILE = "settings.json", "beginning", "lock"
_MARKER_CONTENT = f"{FORMAT} is begun here\n".encode()
_FIRST_FILES = frozenset({"key", "order", PROGRAM_FILE, "journal-0", "checkpoint-0"})  # before the settings
_NUMBER_PATTERN = r"(0|[1-9]\d{0,17})"
_NUMBERED_FILE = re.compile(
    rf"(?:(checkpoint|journal)-{_NUMBER_PATTERN}|(shard)-{_NUMBER_PATTERN}-{_NUMBER_PATTERN})", re.ASCII
)
_MARKS_ADVICE = (
    "give cn.Folder(path, marks=…) a folder outside of that of the run, on the same volume if need be, or set "
    "XDG_STATE_HOME"
)


@record
class Folder(Record):
    r"""Where a run is kept, and how.

    Parameters
    ----------
    path : path
        The folder, of one run alone; made if it does not exist.  An empty one of this user may be a symbolic link, a
        mount point or ``"."``.
    ahead : int, default 1
        How many steps one record of the journal covers, at most 10⁶.  Above 1 releases are not kept, and a crash skips
        up to ``ahead`` − 1 steps more than those since the last checkpoint.
    checkpoint_every : int, optional
        Steps between two checkpoints; None for an epoch, or a tenth of a run without epochs, at most 10⁴.
    mark_every : int, default 1
        Records between two synchronisations of the outside mark, at most 10⁶.  With 64 a step takes one
        synchronisation of the disk instead of two.  In return, after a power failure and until the next opening, a
        folder that is replaced by a copy of one of the last 64 records goes unnoticed.
    keep_releases : bool, optional
        Whether each noisy sum is kept on the disk before it is returned, so that a crash loses nothing; needs ``carry``
        and ``ahead=1``.  None for yes where this takes at most 256 MB between two checkpoints.
    marks : path, optional
        The folder of the outside marks, never inside the folder of the run; None for ``$XDG_STATE_HOME/corrnoise``,
        ``~/.local/state/corrnoise`` or ``%LOCALAPPDATA%\corrnoise``.  On a volume that outlives its machine it may lie
        next to the folder of the run, which notices less (docs/security.md).
    moved : bool, default False
        True states that the folder comes from another machine, and that the run does not go on there.
    data : str, optional
        A name of the data, which a restart compares in place of their content; None for a digest, where the run has its
        data.

    Raises
    ------
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.Folder("digits", ahead=8).path.name
    'digits'
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    ahead: int = 1
    checkpoint_every: int | None = None
    mark_every: int = 1
    keep_releases: bool | None = None
    marks: str | os.PathLike[str] | None = None
    moved: bool = False
    data: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            raise TypeError(f"folder must be a path, a Folder or None, got {type(self.path).__name__}")
        ahead = checks.integer("ahead", self.ahead, 1, largest=MOST_AHEAD)
        if self.checkpoint_every is not None:
            checks.integer("checkpoint_every", self.checkpoint_every, 1)
        checks.integer("mark_every", self.mark_every, 1, largest=MOST_AHEAD)
        if self.keep_releases is not None and checks.boolean("keep_releases", self.keep_releases) and ahead > 1:
            raise ValueError(f"ahead must be 1 where releases are kept, got {ahead}")
        checks.boolean("moved", self.moved)
        if self.data is not None and not isinstance(self.data, str):
            raise TypeError(f"data must be a name or None, got {type(self.data).__name__}")
        marks = _state_folder() if self.marks is None else Path(self.marks)
        self._set(path=Path(self.path).resolve(), marks=marks.resolve())
        if self.marks.is_relative_to(self.path):  # type: ignore[union-attr]  # a path by now
            raise ValueError(f"marks must be outside of the folder of the run, got {self.marks}")


def _state_folder() -> Path:
    """The folder of the user for what programs remember between their runs."""
    name, usual = ("LOCALAPPDATA", "AppData/Local") if os.name == "nt" else ("XDG_STATE_HOME", ".local/state")
    base = Path(os.environ.get(name, ""))
    if base.is_absolute():  # a relative one is void
        return base / "corrnoise"
    with suppress(RuntimeError):
        if (home := Path.home()).is_absolute():
            return home / usual / "corrnoise"
    raise RuntimeError(f"this user has no home folder, which keeps the outside mark of a run: {_MARKS_ADVICE}")


def _make_marks(path: Path) -> None:
    """Make the folder of the outside marks, and check that this user alone writes there."""
    try:
        owned.make_folder(path)
        owned.check_folder(path)
        if not os.access(path, os.W_OK):
            raise PermissionError(f"{path} must be writable")
    except OSError as error:
        raise type(error)(f"the outside mark of the run cannot be kept: {error}; {_MARKS_ADVICE}") from error


def json_bytes(name: str, value: Any) -> bytes:
    """Write a value of JSON types, which a reader takes, as text that ``json_value`` reads."""
    try:
        text = json.dumps(value, indent=1, allow_nan=False).encode()
        if len(text) > MOST_BYTES:
            raise ValueError(f"it takes {len(text)} bytes, more than {MOST_BYTES}")
        check_json(text)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be of JSON types and not too large: {error}") from error
    return text


class Place(Sealed):
    """The folder of one run, which is read and not changed; ``settings`` are None for a folder without a run."""

    def __init__(self, folder: Folder) -> None:
        super().__init__(Path(folder.path), Secret(b""))
        self.marks = Path(folder.marks)  # type: ignore[arg-type]  # a path after __post_init__
        self._unreadable: set[int] = set()  # the positions of checkpoints
        self.settings: dict[str, Any] | None = None

    def names(self) -> set[str]:
        """The names in the folder; a volume has a folder ``lost+found`` from the start, which does not count."""
        if not self.path.exists():
            return set()
        if not self.path.is_dir():
            raise ValueError(f"folder must be a folder, got the file {self.path}")
        return {each.name for each in self.path.iterdir() if each.name != "lost+found" or not each.is_dir()}

    def is_begun(self) -> bool:
        """Whether a run is in the folder; not if it is empty or half made, and all else is refused."""
        names = self.names()
        if _SETTINGS_FILE in names:
            return True
        others = {name.removesuffix(NEW) for name in names} - {_LOCK_FILE, _MARKER_FILE}
        marker = self._marker() if _MARKER_FILE in names else b""
        empty = _LOCK_FILE not in names or self.lock_path.lstat().st_size == 0
        unfinished = marker == _MARKER_CONTENT and others <= _FIRST_FILES | {_SETTINGS_FILE}
        partial = marker is not None and _MARKER_CONTENT.startswith(marker) and not others
        if empty and (unfinished or partial):
            return False
        raise refused(
            "foreign folder",
            f"folder must be new, empty or that of a run (with {_SETTINGS_FILE}), got {self.path} with "
            f"{min(names - {_LOCK_FILE}, default=_LOCK_FILE)}",
        )

    def _marker(self) -> bytes | None:
        """The content of the marker; None where the file is not of this user alone."""
        with suppress(OSError, ValueError):
            return owned.read_bytes(self.path / _MARKER_FILE)
        return None

    def read_settings(self) -> dict[str, Any]:
        """Read the settings; ``ValueError`` where the folder has another format."""
        path = self.path / _SETTINGS_FILE
        self._text = owned.read_bytes(path)
        with guarded(path):
            found = dict(json_value(self._text))
        if found.get("format") != FORMAT:
            raise refused(
                "version differs",
                f"{self.path} has the format {found.get('format')!r:.40} of corrnoise {found.get('version')!s:.20}, "
                f"this version of corrnoise has {FORMAT!r}",
            )
        return found

    def read_key(self) -> None:
        """Read the key."""
        path = self.path / "key"
        secret = Secret(owned.read_bytes(path))
        if len(secret.reveal()) != draws.KEY_BYTES:
            raise ValueError(f"{path} is damaged: a key has {draws.KEY_BYTES} bytes, got {len(secret.reveal())}")
        self._secret = secret

    def program(self) -> tuple[Mechanism, Participation | None]:
        """The mechanism of the start of the run, and the participation if it is of this package."""
        path = self.path / PROGRAM_FILE
        found = unpacked(owned.read_bytes(path, LARGE), PROGRAM_KINDS, name=str(path))
        return found["mechanism"], found["participation"]

    @property
    def identity(self) -> str:
        """A name of the run that is not secret, 32 hexadecimal digits."""
        return draws.derived(self._secret, b"identity").hex()

    @property
    def lock_path(self) -> Path:
        """The lock of the folder."""
        return self.path / _LOCK_FILE

    @property
    def mark_path(self) -> Path:
        """The outside mark."""
        return self.marks / self.identity

    def chain(self, position: int) -> Chain:
        """The records of the journal since a checkpoint."""
        return Chain(self.segments(position), self._secret, self._text, largest=self._largest)

    @property
    def _largest(self) -> int:
        """The bytes of a kept release, at most."""
        settings = json_value(self._text)
        return _MAX_ITEM_BYTES * settings["size"] if settings["kept releases"] else 0

    def segments(self, position: int) -> list[Path]:
        """The segments of the journal since a checkpoint; ``ValueError`` where there are none."""
        numbers = self.numbers("journal")
        first = max((number for number in numbers if number <= position), default=None)
        if first is None:
            raise ValueError(f"{self.path / f'journal-{position}'} is missing")
        return [self.path / f"journal-{number}" for number in numbers if number >= first]

    def numbers(self, kind: str) -> list[int]:
        """The first numbers of the files of a kind, in order."""
        return sorted({number for found, number, _ in self._numbered() if found == kind})

    def _numbered(self) -> Iterator[tuple[str, int, Path]]:
        """The files with numbers: their kind, their first number, and their path."""
        for name in sorted(self.names()):
            if (found := _NUMBERED_FILE.fullmatch(name)) is not None:
                yield found[1] or found[3], int(found[2] or found[4]), self.path / name

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def read_checkpoint(self, *, whole: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]], list[str]]:
        """Return head and arrays (if ``whole``) of the last readable checkpoint, and the problems with later ones."""
        problems: list[str] = []
        for number in reversed(self.numbers("checkpoint")):
            try:
                head, arrays = self._checkpoint(number, whole=whole)
                self.segments(number)
                return head, arrays, problems
            except PermissionError:
                raise
            except (OSError, ValueError) as error:
                problems.append(str(error))
                self._unreadable.add(number)
        raise ValueError(f"no checkpoint can be read: {'; '.join(problems) or f'{self.path} has none'}")

    def _checkpoint(self, position: int, *, whole: bool) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The head of a checkpoint, whose shards can be read, and its arrays if ``whole``."""
        path = self.path / f"checkpoint-{position}"
        arrays: dict[str, NDArray[Any]] = {}
        if whole:
            head, arrays = self.read(path)
        else:
            with self._verified(path) as (_, described, _):
                head = dict(described["head"])
        shards = head.get("shards")
        if head.get("position") != position or not isinstance(shards, int):
            raise ValueError(f"{path} has the head of another one, {head}")
        for rank in range(1, shards):
            with self._verified(self.path / f"shard-{position}-{rank}") as (_, described, _):
                if described["head"] != head:  # a process was killed before it wrote the checkpoint again
                    raise ValueError(f"it is of another checkpoint, {described['head']}")
        return head, arrays

    def check_known(self, head: dict[str, Any], chain: Chain) -> None:
        """Refuse a whole checkpoint that the journal does not know: the journal is older, or another one."""
        position, number = head["position"], head.get("records")
        known = chain.link(number) if isinstance(number, int) else None
        if known is None or not isinstance(number, int) or head != _head(position, number, known, head["shards"]):
            raise refused(
                "checkpoint is unknown",
                f"{self.path / f'checkpoint-{position}'} is not of this run, or of a part of it that the journal does "
                "not know",
            )


class Home(Place):
    """The folder of one run, locked for this process; it is made by ``begin``, and opened by ``go_on``.

    ``settings`` describe the run since its start; None for a folder without a run.  ``journal`` exists after
    ``go_on``, and ``closed`` says whether the locks were given back.
    """

    journal: Journal

    def __init__(self, folder: Folder) -> None:
        super().__init__(folder)
        self._moved, self._mark_every = folder.moved, folder.mark_every
        self._locks: list[FileLock] = []
        _make_marks(self.marks)
        if not self.names():
            return
        begun = self.is_begun()
        owned.check_folder(self.path)
        if begun:
            self.read_settings()  # names the version of an older format, whose files have other modes
        try:
            self._lock(self.lock_path)
            if not self.is_begun():
                return
            self.read_key()
            self._lock(self.mark_path.with_suffix(".lock"))
            self.settings = self.read_settings()
        except BaseException as error:
            self.close()
            if isinstance(error, FileNotFoundError):
                raise ValueError(
                    f"{self.path} is not the whole folder of a run: {error.filename} is missing"
                ) from error
            raise

    def _lock(self, path: Path) -> None:
        message = f"{self.path} is in use by another process or another run"
        self._locks.append(owned.locked(path, message, _LOCK_SECONDS))

    def begin(
        self, settings: Mapping[str, Any], files: Mapping[str, bytes], order: NDArray[Any] | None, kept: Arrays
    ) -> None:
        """Make the folder with these files, the order of the examples, if there is one, and the first checkpoint."""
        self._text = json_bytes("settings", settings)
        owned.make_folder(self.path)
        if not self._locks:
            self._lock(self.lock_path)
        owned.close_to_others(self.path)
        if self.is_begun():
            raise RuntimeError(f"{self.path} has just been made by another process: start again to resume it")
        self._clear()
        owned.create(self.path / _MARKER_FILE, _MARKER_CONTENT)
        sync_folder(self.path)
        self._secret = Secret(draws.fresh(draws.KEY_BYTES))
        self._lock(self.mark_path.with_suffix(".lock"))
        segment, marked = Chain.first_segment(self._secret, self._text)
        write_whole(self.path / "key", self._secret.reveal(), secret=True)
        for name, content in {"journal-0": segment, **files}.items():
            write_whole(self.path / name, content, secret=True)
        if order is not None:
            self.write_checked("order", {}, {"order": order})
        self.write_checked("checkpoint-0", _head(0, marked.number, marked.link, 1), kept)
        mark.create(self.mark_path, marked)
        write_whole(self.path / _SETTINGS_FILE, self._text, secret=True)

    def _clear(self) -> None:
        """Remove the files of a process that was killed while it made the folder; the marker goes last."""
        names = self.names()
        for name in sorted(names - {_LOCK_FILE, _MARKER_FILE}):
            (self.path / name).unlink()
        sync_folder(self.path)
        (self.path / _MARKER_FILE).unlink(missing_ok=True)

    def go_on(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Open the journal of a run, and remove files that are no longer needed.

        Returns the head and the arrays of the last readable checkpoint; a warning names later ones.
        """
        for name in self.names():
            stem = name.removesuffix(NEW)
            if name == _MARKER_FILE or (
                stem != name and (stem in _FIRST_FILES or stem == _SETTINGS_FILE or _NUMBERED_FILE.fullmatch(stem))
            ):
                (self.path / name).unlink()
        head, arrays, problems = self.read_checkpoint(whole=True)
        journal = Journal(
            self.segments(head["position"]),
            mark.Mark(self.mark_path, self._mark_every),
            self._secret,
            self._text,
            largest=self._largest,
            moved=self._moved,
        )
        self.check_known(head, journal)
        self.journal = journal
        journal.open()
        if problems:
            warnings.warn(f"{'; '.join(problems)}: the run goes on from checkpoint-{head['position']}", stacklevel=2)
        self.tidy()
        return head, arrays

    def order(self) -> NDArray[Any]:
        """The order of the examples."""
        return self.read(self.path / "order", "order")[1]["order"]

    def close(self) -> None:
        """Give the locks back."""
        super().close()
        if hasattr(self, "journal"):
            self.journal.close()
            del self.journal
        for lock in reversed(self._locks):
            lock.release()
        self._locks.clear()

    def head(self, position: int, shards: int) -> dict[str, Any]:
        """The head of a checkpoint after ``position`` steps, in so many files."""
        link = self.journal.link(self.journal.length)
        assert link is not None
        return _head(position, self.journal.length, link, shards)

    def write_checkpoint(self, head: Mapping[str, Any], kept: Arrays, since: int) -> None:
        """Write a checkpoint, whose shards are there, and start its segment with nonces of steps from ``since`` on."""
        position = head["position"]
        self.write_checked(f"checkpoint-{position}", head, kept)
        self._unreadable.discard(position)
        self.journal.compact(position, since)
        self.tidy()

    def tidy(self) -> None:
        """Remove all files before the last two readable checkpoints, and segments that neither of them needs."""
        oldest = self.numbers("journal")[0]
        readable = [n for n in self.numbers("checkpoint") if n >= oldest and n not in self._unreadable]
        first = readable[-2:][0]
        needed = self.segments(first)
        for kind, number, path in self._numbered():
            if path not in needed if kind == "journal" else number < first:
                path.unlink()


def _head(position: int, records: int, link: bytes, shards: int) -> dict[str, Any]:
    """The head of a checkpoint: after so many steps and records of the journal, in so many files."""
    return {"position": position, "records": records, "link": link.hex(), "shards": shards}


def check_agreement(stored: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse settings that differ from the start of a run, and list each difference; digests are not shown.

    The version is not compared.  Its effects on the noise, by draws and recurrence, are in the fingerprint.
    """
    found = [
        f"{name} differs" if name.endswith("digest") else f"{name} was {stored.get(name)!r}, is {value!r}"
        for name, value in own.items()
        if name not in ("version", "fingerprint") and stored.get(name) != value
    ]
    if found:
        raise refused("settings differ", f"the settings must be those with which the run began: {'; '.join(found)}")
    if "fingerprint" in own and stored.get("fingerprint") != own["fingerprint"]:
        raise refused(
            "version differs",
            "this version of corrnoise makes other noise here than the run began with, under corrnoise "
            f"{stored.get('version')!s:.20} (the fingerprint differs)",
        )
