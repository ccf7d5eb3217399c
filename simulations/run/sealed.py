"""Files of a run with a head and arrays, each sealed by a keyed hash of its kind and all its bytes.

A file is a line of JSON, which has the head and the type and shape of each array, the bytes of the arrays in
little-endian order, and the hash.  Nothing is parsed before the hash is right.
"""

from __future__ import annotations

import hmac
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.run import draws, owned
from corrnoise.simulations.run.journal import MAX_FILE_BYTES
from corrnoise.simulations.run.secret import Secret
from corrnoise.support.files import write_whole
from corrnoise.support.reading import DTYPES, array_here, check_json, guarded, json_value

Arrays = Mapping[str, NDArray[Any]]

MAX_HEAD_BYTES = 2**26  #: before the arrays
_HASH_BYTES = 32  # at the end of a file
_CHUNK_BYTES = 2**22


class Sealed:
    """The files of a run that hold arrays, each with a keyed hash of its kind and all its bytes.

    ``closed`` says whether the folder was given back.
    """

    closed = False

    def __init__(self, path: Path, secret: Secret) -> None:
        self.path = path
        self._secret = secret

    @property
    def secret(self) -> Secret:
        """The key of the run."""
        return self._secret

    def write(self, name: str, head: Mapping[str, Any], arrays: Arrays) -> None:
        """Write a head and arrays that ``read`` takes, and a keyed hash of all bytes and the name."""
        mac = self._hash(name)
        members = {label: _little_endian(label, array) for label, array in arrays.items()}
        described = {label: [array.dtype.str, list(array.shape)] for label, array in members.items()}
        text = json.dumps({"head": head, "arrays": described}).encode() + b"\n"
        size = len(text) + sum(array.nbytes for array in members.values()) + _HASH_BYTES
        with guarded(f"{self.path / name} is not written, which"):
            if len(text) > MAX_HEAD_BYTES or size > MAX_FILE_BYTES:
                raise ValueError(f"it has {len(members)} arrays of {size} bytes, whose names take {len(text)}")
            check_json(text)

        def parts() -> Iterator[bytes | memoryview]:
            contents: list[Any] = [array.reshape(-1).view(np.uint8).data for array in members.values()]
            for part in (text, *contents):
                mac.update(part)
                yield part
            yield mac.digest()

        write_whole(self.path / name, parts(), secret=True)

    def write_checked(self, name: str, head: Mapping[str, Any], arrays: Arrays) -> None:
        """Write the same and read it again, while the run is there to write it once more.

        A file that has other bytes than were written is removed, and is an ``OSError``.
        """
        self.write(name, head, arrays)
        path = self.path / name
        try:
            with self._verified(path) as (_, described, _):
                if described["head"] != head:
                    raise ValueError(f"its head is {described['head']!r:.200}")
        except (OSError, ValueError) as error:
            path.unlink(missing_ok=True)
            raise OSError(f"{path} was written, and cannot be read again: {error}") from error

    def _hash(self, name: str) -> Any:
        purpose = name.partition("-")[0].encode()
        return draws.keyed(Secret(draws.derived(self._secret, b"file", purpose, size=_HASH_BYTES)), _HASH_BYTES)

    @contextmanager
    def _verified(self, path: Path) -> Iterator[tuple[BinaryIO, dict[str, Any], int]]:
        """A file whose keyed hash is right, at its first array; its description, and the bytes of its arrays."""
        with owned.stream(path, MAX_FILE_BYTES) as (stream, size):
            if not self._is_whole(stream, path.name):
                raise ValueError("its keyed hash is wrong")
            stream.seek(0)
            text = stream.readline(MAX_HEAD_BYTES)
            yield stream, json_value(text), size - _HASH_BYTES - len(text)

    def read(self, path: Path, *needed: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The head and the arrays of a file whose keyed hash is right; nothing is parsed before."""
        with self._verified(path) as (stream, described, rest):
            found = {}
            for name, (dtype, shape) in described["arrays"].items():
                found[name] = array_here(stream, dtype, shape, rest)
                rest -= found[name].nbytes
            if rest or not found.keys() >= set(needed):
                raise ValueError(f"it must have the arrays {', '.join(needed)}, and nothing that it does not name")
            return dict(described["head"]), found

    def _is_whole(self, stream: BinaryIO, name: str) -> bool:
        mac = self._hash(name)
        rest = os.fstat(stream.fileno()).st_size - _HASH_BYTES
        while rest > 0 and (chunk := stream.read(min(rest, _CHUNK_BYTES))):
            mac.update(chunk)
            rest -= len(chunk)
        return rest == 0 and hmac.compare_digest(stream.read(), mac.digest())

    def write_shard(self, head: Mapping[str, Any], rank: int, arrays: Arrays) -> None:
        """Write the part of a checkpoint of a process other than the first."""
        self.write_checked(f"shard-{head['position']}-{rank}", head, arrays)

    def shards(self, head: Mapping[str, Any]) -> Iterator[dict[str, NDArray[Any]]]:
        """The arrays of the other processes that belong to a checkpoint with this head, one after the other."""
        for rank in range(1, head["shards"]):
            path = self.path / f"shard-{head['position']}-{rank}"
            found, arrays = self.read(path)
            if found != head:
                raise ValueError(f"{path.name} is of another checkpoint, {found}")
            yield arrays

    def close(self) -> None:
        """Give the folder back."""
        self.closed = True


def _little_endian(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as it is written."""
    found = np.asarray(array, order="C")
    dtype = found.dtype.newbyteorder("<")
    if dtype.str not in DTYPES:
        raise TypeError(f"arrays that are kept must be of booleans, integers or floats, got {dtype} for {name!r}")
    return found.astype(dtype, copy=False)
