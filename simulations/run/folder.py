"""The folder of a run: all that a run needs to go on, and what refuses to go on where noise would be made twice.

==========================  ========================================================================================
file                        what it holds
==========================  ========================================================================================
``settings.json``           what the run is; the command that goes on must say the same
``key``                     the secret key, 32 bytes
``order``                   the order of the examples, where the run has batches
``noise.npz``               the noise that was found in place of one with a long memory
``journal``, ``mark``       which steps were begun (``journal``)
``lock``                    is locked while a process uses the run; never deleted
``checkpoint-<position>``   the memory of the noise and what ``carry`` saves, after so many steps; the last two
``shard-<position>-<rank>`` the memory of another process of the run, which belongs to this checkpoint
``release-<step>``          with kept releases: the noisy sum of a step, until the next checkpoint
==========================  ========================================================================================

The outside mark, and a second lock, stand in the user's state folder under the identity of the run, which follows from
the key.  So a copy of the folder is noticed on the same machine.  The folder is made beside its place and renamed: it
is there completely or not at all.  It is as secret as the data, and only its owner may read it.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.journal import MOST_AHEAD, Journal
from corrnoise.support.files import sync_folder, write_whole
from corrnoise.support.reading import DTYPES, array_here, guarded, json_value, opened, read_bytes
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

Arrays = Mapping[str, NDArray[Any]]

_MAC = 32  # bytes at the end of a checkpoint and of a release
_CHUNK = 2**22
_MOST_BYTES = 2**38  # of a checkpoint, whose arrays are read one by one
_MOST_HEAD = 2**20  # bytes before the arrays
_PATIENCE = 10.0  # seconds for another process that makes a folder


@record
class Folder(Record):
    r"""Where a run is kept, and how.

    Raises ``ValueError`` or ``TypeError`` where an argument is out of its range.

    Parameters
    ----------
    path : the folder, of one run alone; made if it does not exist
    ahead : how many steps one record of the journal covers, at most 10⁶; a crash skips at most so many steps
    checkpoint_every : steps between two checkpoints; None for an epoch, or a tenth of a run without epochs
    keep_releases : whether each noisy sum is kept on the disk before it is returned, so that a crash loses nothing;
        needs ``carry`` and ``ahead=1``.  None for yes where this takes at most 256 MB between two checkpoints.
    marks : the folder of the outside marks; None for ``$XDG_STATE_HOME/corrnoise``, ``~/.local/state/corrnoise`` or
        ``%LOCALAPPDATA%\corrnoise``
    moved : True states that the folder comes from another machine, and that the run does not go on there
    data : a name of the data, which a restart compares in place of what the data hold; None for a digest, where the run
        has its data

    Examples
    --------
    >>> Folder("digits", ahead=8).path.name
    'digits'
    """

    path: str | os.PathLike[str]
    _: KW_ONLY
    ahead: int = 1
    checkpoint_every: int | None = None
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
        if self.keep_releases is not None and checks.boolean("keep_releases", self.keep_releases) and ahead > 1:
            raise ValueError(f"ahead must be 1 where releases are kept, got {ahead}")
        checks.boolean("moved", self.moved)
        if self.data is not None and not isinstance(self.data, str):
            raise TypeError(f"data must be a name or None, got {type(self.data).__name__}")
        marks = _state_folder() if self.marks is None else Path(self.marks)
        self._set(path=Path(self.path).absolute(), marks=marks.absolute())
        if self.marks.is_relative_to(self.path):  # type: ignore[union-attr]  # a path by now
            raise ValueError(f"marks must be outside of the folder of the run, got {self.marks}")


def _state_folder() -> Path:
    """The folder of the user for what programs remember between their runs."""
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local"
    else:
        base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base, "corrnoise")


class Sealed:
    """The files of a run that hold arrays, each with a keyed hash of its kind and all its bytes.

    Parameters
    ----------
    path, secret
        The folder of the run, and its key.

    Attributes
    ----------
    closed
        Whether the folder was given back.
    """

    closed = False

    def __init__(self, path: Path, secret: bytes) -> None:
        self.path = path
        self._secret = secret

    @property
    def secret(self) -> bytes:
        """The key of the run."""
        return self._secret

    def write(self, name: str, head: Mapping[str, Any], arrays: Arrays) -> None:
        """Write a head and arrays, and a keyed hash of all bytes and the name."""
        mac = self._hash(name)
        members = {label: _little_endian(label, array) for label, array in arrays.items()}
        described = {label: [array.dtype.str, list(array.shape)] for label, array in members.items()}

        def parts() -> Iterator[bytes | memoryview]:
            text = json.dumps({"head": head, "arrays": described}).encode() + b"\n"
            contents: list[Any] = [array.reshape(-1).view(np.uint8).data for array in members.values()]
            for part in (text, *contents):
                mac.update(part)
                yield part
            yield mac.digest()

        write_whole(self.path / name, parts(), secret=True)

    def _hash(self, name: str) -> Any:
        key = draws.derived(self._secret, b"file", name.partition("-")[0].encode(), size=_MAC)
        return draws.keyed(key, _MAC)

    def read(self, path: Path, *needed: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The head and the arrays of a file whose keyed hash is right; nothing is parsed before."""
        with opened(path, _MOST_BYTES) as (stream, size):
            if not self._is_whole(stream, path.name):
                raise ValueError("its keyed hash is wrong")
            stream.seek(0)
            text = stream.readline(_MOST_HEAD)
            described = json_value(text)
            rest = size - _MAC - len(text)
            found = {}
            for name, (dtype, shape) in described["arrays"].items():
                found[name] = array_here(stream, dtype, shape, rest)
                rest -= found[name].nbytes
            if rest or not found.keys() >= set(needed):
                raise ValueError(f"it must have the arrays {', '.join(needed)}, and nothing that it does not name")
            return dict(described["head"]), found

    def _is_whole(self, stream: BinaryIO, name: str) -> bool:
        mac = self._hash(name)
        rest = os.fstat(stream.fileno()).st_size - _MAC
        while rest > 0 and (chunk := stream.read(min(rest, _CHUNK))):
            mac.update(chunk)
            rest -= len(chunk)
        return rest == 0 and hmac.compare_digest(stream.read(), mac.digest())

    def write_shard(self, head: Mapping[str, Any], rank: int, arrays: Arrays) -> None:
        """Write what a process other than the first has of a checkpoint."""
        self.write(f"shard-{head['position']}-{rank}", head, arrays)

    def shards(self, head: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
        """The arrays of the other processes that belong to a checkpoint with this head, one after the other."""
        for rank in range(1, head["shards"]):
            path = self.path / f"shard-{head['position']}-{rank}"
            if not path.exists():
                raise ValueError(f"{path.name} is missing")
            found, arrays = self.read(path)
            if found != head:
                raise ValueError(f"{path.name} is of another checkpoint, {found}")
            yield arrays

    def close(self) -> None:
        """Give the folder back."""
        self.closed = True


class Home(Sealed):
    """The folder of one run, locked for this process; ``opened`` makes or opens it.

    ``settings`` is what the run is, as it was begun; None for a folder that is not there yet.  ``journal`` is there
    after ``begin`` or ``go_on``, and ``closed`` says whether the locks were given back.
    """

    journal: Journal

    def __init__(self, folder: Folder) -> None:
        self.path = Path(folder.path)
        self.moved = folder.moved
        self._marks = Path(folder.marks)  # type: ignore[arg-type]  # a path after __post_init__
        self._locks: list[FileLock] = []
        self._marks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.settings: dict[str, Any] | None = None
        if not self._there():
            return
        self._lock(self.path / "lock")
        try:
            self._secret = self._read_key()
            self._lock(self._marks / f"{self.identity}.lock")
            self._text = read_bytes(self.path / "settings.json")
            with guarded(self.path / "settings.json"):
                self.settings = dict(json_value(self._text))
        except BaseException as error:
            self.close()
            if isinstance(error, FileNotFoundError):
                raise ValueError(f"{self.path} is no whole folder of a run: {error.filename} is missing") from error
            raise

    def _there(self) -> bool:
        """Whether there is a run in the folder; an empty folder has none."""
        if not self.path.exists() or (self.path.is_dir() and not any(self.path.iterdir())):
            return False
        if not (self.path / "key").exists():
            raise ValueError(f"folder must be new, empty or that of a run, got {self.path}")
        return True

    @property
    def identity(self) -> str:
        """A name of the run that is not secret, 32 hexadecimal digits."""
        return draws.derived(self._secret, b"identity").hex()

    def _read_key(self) -> bytes:
        path = self.path / "key"
        if os.name == "posix" and (mode := path.stat().st_mode) & 0o077:
            raise PermissionError(
                f"{path} must be readable by its owner alone (mode 0600), got mode {mode & 0o777:04o}"
            )
        secret = read_bytes(path)
        if len(secret) != draws.KEY_BYTES:
            raise ValueError(f"{path} is damaged: a key has {draws.KEY_BYTES} bytes, got {len(secret)}")
        return secret

    def _lock(self, path: Path) -> None:
        self._locks.append(_locked(path, 0.0, f"{self.path} is in use by another process or another run"))

    def begin(
        self, settings: Mapping[str, Any], files: Mapping[str, bytes], order: NDArray[Any] | None, kept: Arrays
    ) -> None:
        """Make the folder with these files, the order of the examples, if there is one, and the first checkpoint."""
        lock = _locked(self._marks / "lock", _PATIENCE, "another process is making a folder of a run")
        try:
            if self._there():
                raise RuntimeError(f"{self.path} has just been made by another process: start again to go on with it")
            self._secret = draws.fresh(draws.KEY_BYTES)
            self._text = json.dumps(settings, indent=1).encode()
            mark = Journal.start(self._secret, self._text)
            place, self.path = self.path, self.path.with_name(f"{self.path.name}.new")
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for leftover in self.path.iterdir():
                leftover.unlink()
            own = {"settings.json": self._text, "key": self._secret, "journal": b"", "mark": mark, "lock": b""}
            for name, content in {**own, **files}.items():
                write_whole(self.path / name, content, secret=True)
            if order is not None:
                self.write("order", {}, {"order": order})
            self.write("checkpoint-0", _head(0, 0, mark.split()[1].decode(), 1), kept)
            write_whole(self._marks / self.identity, mark, secret=True)
            if place.exists():
                place.rmdir()
            self.path.rename(place)
            self.path = place
            sync_folder(place.parent)
            self._lock(self.path / "lock")
            self._lock(self._marks / f"{self.identity}.lock")
        finally:
            lock.release()
        self.go_on()

    def go_on(self) -> None:
        """Open the journal of a run that was begun; what a process left that was killed while it wrote is removed."""
        for leftover in self.path.glob("*.new"):
            leftover.unlink()
        self.journal = Journal(
            self.path / "journal", self._marks / self.identity, self._secret, self._text, moved=self.moved
        )

    def file(self, name: str) -> bytes:
        """The content of a further file."""
        return read_bytes(self.path / name)

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

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def head(self, position: int, shards: int) -> dict[str, Any]:
        """The head of a checkpoint after ``position`` steps, in so many files."""
        link = self.journal.link(self.journal.length)
        assert link is not None
        return _head(position, self.journal.length, link.hex(), shards)

    def write_checkpoint(self, head: Mapping[str, Any], kept: Arrays) -> None:
        """Write a checkpoint, whose shards are there; the last two stay, and releases before it go."""
        self.write(f"checkpoint-{head['position']}", head, kept)
        self.tidy(head["position"])

    def tidy(self, position: int) -> None:
        """Remove what the checkpoint after ``position`` steps replaces."""
        for number in self._numbers("checkpoint")[:-2]:
            for path in (self.path / f"checkpoint-{number}", *self.path.glob(f"shard-{number}-*")):
                path.unlink(missing_ok=True)
        for step in self._numbers("release"):
            if step < position:
                (self.path / f"release-{step}").unlink()

    def read_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The head and the arrays of the last checkpoint; position 0 and nothing without one."""
        numbers = self._numbers("checkpoint")
        if not numbers:
            return _head(0, 0, "", 1), {}
        path = self.path / f"checkpoint-{numbers[-1]}"
        head, arrays = self.read(path)
        number, shards = head.get("records"), head.get("shards")
        known = self.journal.link(number) if isinstance(number, int) else None
        if known is None or not isinstance(shards, int) or head != _head(numbers[-1], number, known.hex(), shards):
            raise ValueError(f"{path} is not of this run, or of a part of it that the journal does not know")
        return head, arrays

    # -- releases ------------------------------------------------------------------------------------------------------

    def keep_release(self, step: int, nonce: bytes, noisy: NDArray[Any]) -> None:
        """Keep what a step releases, before it is released."""
        self.write(f"release-{step}", {"step": step, "nonce": nonce.hex()}, {"noisy": noisy})

    def release(self, step: int, nonce: bytes) -> NDArray[Any] | None:
        """The release of a step; None if it is not kept."""
        path = self.path / f"release-{step}"
        if not path.exists():
            return None
        head, arrays = self.read(path, "noisy")
        if head != {"step": step, "nonce": nonce.hex()}:
            raise ValueError(f"{path} is not the release of this step, as the journal knows it")
        return arrays["noisy"]

    def _numbers(self, kind: str) -> list[int]:
        """The numbers of the files of a kind, in their order."""
        names = (path.name.partition("-")[2] for path in self.path.glob(f"{kind}-*"))
        return sorted(int(name) for name in names if name.isdecimal())


def _head(position: int, records: int | None, link: str, shards: int) -> dict[str, Any]:
    """The head of a checkpoint: after so many steps and records of the journal, in so many files."""
    return {"position": position, "records": records, "link": link, "shards": shards}


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as it is written."""
    found = np.asarray(array, order="C")
    dtype = found.dtype.newbyteorder("<")
    if dtype.str not in DTYPES:
        raise TypeError(f"arrays that are kept must be of booleans, integers or floats, got {dtype} for {name!r}")
    return found.astype(dtype, copy=False)


def _locked(path: Path, patience: float, message: str) -> FileLock:
    """A lock of a file that is ours, or ``BlockingIOError``."""
    lock = FileLock(path, timeout=patience, thread_local=False, fallback_to_soft=False, preserve_lock_file=True)
    with contextlib.suppress(Timeout):
        lock.acquire()
        return lock
    raise BlockingIOError(message)


def check_agreement(stored: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse settings that are not those with which a run began, and list each difference; digests are not shown."""
    found = [
        f"{name} differs" if name.endswith("digest") else f"{name} was {stored.get(name)!r}, is {value!r}"
        for name, value in own.items()
        if stored.get(name) != value
    ]
    if found:
        raise ValueError(f"the settings must be those with which the run began: {'; '.join(found)}")
