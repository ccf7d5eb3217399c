"""Secret keys, and random draws as a function of (key, step, part).

The draws of a run follow from 32 bytes of the operating system and from nothing else.  Each part of the noise vector
has a generator of its own in each step.  The key of that generator is BLAKE2b(step, part) under the key of the run, so
that the draws of a step can be made again without those before it, in any order and on several threads.

Who knows the key can compute the noise and subtract it: a key is as secret as the data.  Two runs never share a key:
the difference of two releases with the same noise holds no noise.

``"philox"`` is the counter-based generator Philox4x32-10.  ``"aes"`` is AES-128 in counter mode, from randomgen (the
extra ``secure``).  ``normals`` makes floating-point normals of their words, which are open to attacks on the
discreteness of floating-point numbers (arXiv 2107.10138, 2112.05307).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.engines import Draw
from corrnoise.simulations.run.normals import NormalsOf, PhiloxNormals
from corrnoise.theory.numerics import checks

GeneratorName = Literal["philox", "aes"]

_BYTES = 32
_FEWEST = 16
_HEADER = "corrnoise key 1"


class RunKey:
    """The secret key of one run.

    Parameters
    ----------
    secret
        16 to 64 bytes from the operating system's random numbers, used for no other run.

    Attributes
    ----------
    identity
        A name of the key that is not secret: 32 hexadecimal digits, from which the key cannot be computed.

    Raises
    ------
    ValueError, TypeError
        ``secret`` is not made of bytes, or of too few or too many.

    Examples
    --------
    >>> key = RunKey.new()
    >>> len(key.identity)
    32
    """

    path: Path | None = None  #: the file in which the key is kept

    def __init__(self, secret: bytes) -> None:
        if not isinstance(secret, bytes):
            raise TypeError(f"key must be bytes, a path or None, got {type(secret).__name__}")
        if not _FEWEST <= len(secret) <= 64:
            raise ValueError(f"key must have 16 to 64 bytes, got {len(secret)}")
        self._secret = secret
        self.identity = self._derived(b"identity", 16).hex()

    @classmethod
    def new(cls) -> RunKey:
        """A key of 32 bytes of the operating system."""
        return cls(secrets.token_bytes(_BYTES))

    @classmethod
    def of(cls, given: str | os.PathLike[str] | bytes | None) -> RunKey:
        """The key that is meant: bytes, the file in which it is kept, or a new one for None.

        Parameters
        ----------
        given
            As the argument ``key`` of a run.
        """
        if given is None:
            return cls.new()
        return cls.kept_in(given) if isinstance(given, str | os.PathLike) else cls(given)

    @classmethod
    def kept_in(cls, path: str | os.PathLike[str]) -> RunKey:
        """The key in a file, which is made with mode 0600 if it does not exist.

        A run with such a key needs a journal: the script that is started again must not make the same noise again.  The
        file notes that there is a journal, and a run with another one is refused.

        Parameters
        ----------
        path
            The file, for one run alone.

        Raises
        ------
        ValueError
            The file holds no key.
        PermissionError
            Others than its owner may read or write the file.
        """
        path = Path(path)
        with contextlib.suppress(FileExistsError):
            _write_new(path, f"{_HEADER}\n{secrets.token_bytes(_BYTES).hex()}\n")
        with path.open(encoding="ascii", errors="replace") as stream:
            mode = stat.S_IMODE(os.fstat(stream.fileno()).st_mode)
            lines = stream.read().splitlines()
        if os.name == "posix" and mode & 0o077:
            raise PermissionError(f"{path} must be readable by its owner alone (mode 0600), got mode {mode:04o}")
        try:
            header, digits, *_ = lines
            key = cls(bytes.fromhex(digits))
        except ValueError:
            raise ValueError(f"{path} holds no key: it was not written by a run") from None
        if header != _HEADER:
            raise ValueError(f"{path} holds no key of format {_HEADER!r}")
        key.path = path
        return key

    def check_new_journal(self, journal: Path) -> None:
        """Refuse a new journal for a key whose file notes that there was one.

        Parameters
        ----------
        journal
            Its path.
        """
        if self.path is not None and self._journals():
            raise ValueError(
                f"{journal} must be the journal of the key in {self.path}, {self._journals()[0]}, and not a new one: "
                "noise would be made again"
            )

    def note_journal(self, journal: Path) -> None:
        """Note in the file of the key that there is a journal.

        Parameters
        ----------
        journal
            Its path.
        """
        if self.path is not None and not self._journals():
            with self.path.open("a", encoding="utf-8") as stream:
                stream.write(f"{journal.name}\n")
                stream.flush()
                os.fsync(stream.fileno())

    def _journals(self) -> list[str]:
        assert self.path is not None
        return self.path.read_text(encoding="utf-8").splitlines()[2:]

    def _derived(self, purpose: bytes, size: int) -> bytes:
        return hashlib.blake2b(purpose, key=self._secret, digest_size=size, person=b"corrnoise").digest()

    def seed(self, step: int, part: int) -> int:
        """The key of the generator of a part in a step, 128 bits.

        Parameters
        ----------
        step, part
            Their numbers, from 0.
        """
        place = step.to_bytes(8, "little") + part.to_bytes(8, "little")
        return int.from_bytes(self._derived(b"draws" + place, 16), "little")

    def secret(self) -> bytes:
        """The key itself, for a checkpoint that is kept as secret as the data."""
        return self._secret

    def __repr__(self) -> str:
        return f"RunKey(identity={self.identity!r})"


def _write_new(path: Path, text: str) -> None:
    """Write a file that does not exist yet, completely or not at all, for its owner alone."""
    staging = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(staging, path)  # fails where the file exists
    finally:
        staging.unlink()
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of new files in a folder durable."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Draws:
    """Independent standard normals, those of each step and part by themselves.

    Parameters
    ----------
    key
        The key of the run.
    name
        ``"philox"`` or ``"aes"``, which needs the extra ``secure``.

    Raises
    ------
    ImportError
        randomgen is not installed.
    """

    def __init__(self, key: RunKey, name: GeneratorName = "philox") -> None:
        self.key = checks.instance("key", key, RunKey)
        self.name = checks.choice("generator", name, get_args(GeneratorName))
        self._normals = PhiloxNormals if self.name == "philox" else _aes_normals()

    def normals(self, step: int, part: int) -> Draw:
        """What fills vectors with the normals of a part in a step, from its start."""
        return self._normals(self.key.seed(step, part))

    def fingerprint(self) -> str:
        """What sixteen draws under a public key are, hashed.

        A run is continued only where the fingerprint is that of its start.
        """
        values = np.empty(16)
        Draws(RunKey(bytes(_BYTES)), self.name).normals(0, 0)(values)
        return hashlib.blake2b(values.astype("<f8").tobytes(), digest_size=16).hexdigest()


def _aes_normals() -> Callable[[int], Draw]:
    counter_mode = extra_module("randomgen", "secure").AESCounter
    return lambda key: NormalsOf(counter_mode(key=key))
