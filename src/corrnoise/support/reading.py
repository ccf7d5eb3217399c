"""Bytes from outside: nothing is parsed, made or allocated before its size is known, and nothing is run.

Whatever reads a file that another program or person may have written takes it from here.  ``guarded`` makes every
failure of parsing one ``ValueError`` with the name of the file.

Limits
    A file is a regular one, of at most ``MOST_BYTES`` unless the caller says otherwise.  JSON has at most 16 MiB, 32
    levels, 10⁶ commas and as many brackets, no more than 64 digits in a row, and no NaN, infinite number or name twice
    in an object.  An archive has at most 4096 members, which are not compressed or encrypted and are together no larger
    than the file.
    An array has a plain type, at most four axes, and exactly the bytes that its shape asks for.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, ZipFile

import numpy as np
from numpy.typing import NDArray

MOST_BYTES = 2**26  #: of a file
LARGE = 2**31 - 1  #: bytes of a file of states or data of large models, the most that a plain zip archive holds
MOST_MEMBERS = 4096  #: of an archive
MOST_COMMAS = 10**6  #: of a JSON text, so that no list is longer
MAX_JSON_BYTES = 2**24  #: of a JSON text
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8")  #: of arrays, by name

MAX_JSON_DEPTH = 32
MAX_DIGITS = 64  # in a row: as many as a digest has, and more than any number needs
_JSON_TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+|[\[{]|[\]}]', re.DOTALL
)  # strings, also without an end; brackets
_MEMBER_NAME = re.compile(r"[A-Za-z0-9_-]+\.(?:json|npy)")
_DTYPE_PATTERN = r"[<>|](?:b1|[iu][1248]|f[248])"
_ARRAY_HEADER = re.compile(
    rf"\{{'descr': '({_DTYPE_PATTERN})', 'fortran_order': (True|False), "
    r"'shape': \((|\d{1,12},|\d{1,12}(?:, \d{1,12}){1,7})\), \} *\n"
)


@contextmanager
def guarded(name: str | os.PathLike[str]) -> Iterator[None]:
    """A block that reads the file ``name``: every exception but OSError becomes a ValueError that names it."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{os.fspath(name)} is damaged or foreign: {reason}") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(
    path: str | os.PathLike[str], most: int = MOST_BYTES, opener: Callable[[str, int], int] = _without_waiting
) -> bytes:
    """The bytes of a regular file of at most ``most``; ValueError for any other, without waiting for a pipe."""
    with opened(path, most, opener) as (file, size):
        data = file.read(size + 1)
        if len(data) != size:
            raise ValueError(f"it had {size} bytes and then {len(data)}")
        return data


@contextmanager
def opened(
    path: str | os.PathLike[str], most: int, opener: Callable[[str, int], int] = _without_waiting
) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file of at most ``most`` bytes and its size; a block that reads it is ``guarded``."""
    with guarded(path), open(path, "rb", opener=opener) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > most:
            raise ValueError(f"it has {found.st_size} bytes, more than {most}")
        yield file, found.st_size


def check_json(data: bytes) -> None:
    """Refuse a JSON text that has too many bytes, commas, brackets, levels or digits, before it is parsed."""
    if len(data) > MAX_JSON_BYTES:
        raise ValueError(f"its JSON has {len(data)} bytes, more than {MAX_JSON_BYTES}: arrays belong into '.npz'")
    if max(data.count(b","), data.count(b"[") + data.count(b"{"), data.count(b'"') // 4) > MOST_COMMAS:
        raise ValueError(f"its JSON has more than {MOST_COMMAS} commas or brackets")
    if re.search(rb"(?<!\d)\d{%d}" % (MAX_DIGITS + 1), data):  # each run of digits is looked at once
        raise ValueError(f"its JSON has a number of more than {MAX_DIGITS} digits")
    depth = 0
    for token in _JSON_TOKEN.finditer(data):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token[0], 0)
        if depth > MAX_JSON_DEPTH:
            raise ValueError(f"its JSON is nested more than {MAX_JSON_DEPTH} levels deep")


def json_value(data: bytes) -> Any:
    """The value of a JSON text in UTF-8."""
    check_json(data)
    return json.loads(
        data.decode(), object_pairs_hook=_without_duplicates, parse_constant=_no_constant, parse_float=_finite
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"its JSON has a name twice among {', '.join(sorted(name for name, _ in pairs))!r:.80}")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text:.80} is too large for a float")
    return value


def archive(data: bytes) -> dict[str, bytes]:
    """The members of a zip archive by name, in its order."""
    end = data.rfind(b"PK\5\6")  # of the end record: the number of members, their directory, and the comment
    if not 0 <= end <= len(data) - 22:
        raise ValueError("it is not a whole zip archive")
    *disks, here, count, size, start, comment = struct.unpack_from("<4x4H2LH", data, end)
    if any(disks) or here != count or start + size != end or end + 22 + comment != len(data):
        raise ValueError("it is not a plain zip archive")
    if count > MOST_MEMBERS:
        raise ValueError(f"it has {count} members, more than {MOST_MEMBERS}")
    found: dict[str, bytes] = {}
    with ZipFile(BytesIO(data)) as members:
        entries = members.infolist()
        declared = sum(entry.file_size for entry in entries)
        if len(entries) != count or declared > len(data):
            raise ValueError(f"its {len(entries)} members declare {declared} bytes, more than it has")
        for entry in entries:
            name = entry.filename
            if not _MEMBER_NAME.fullmatch(name) or name in found:
                raise ValueError(f"its members must have plain names, each another one, got {name!r:.80}")
            if entry.compress_type != ZIP_STORED or entry.flag_bits & 1:
                raise ValueError(f"its member {name!r} is compressed or encrypted")
            with members.open(entry) as file:
                found[name] = file.read(entry.file_size + 1)
            if len(found[name]) != entry.file_size:
                raise ValueError(f"its member {name!r} has not the size that it declares")
    return found


def array(data: bytes) -> NDArray[Any]:
    """The array in the bytes of a file of ``numpy.save``, which it shares; it cannot be written to."""
    if data[:8] != b"\x93NUMPY\x01\x00" or len(data) < 10:
        raise ValueError("it is not an array of NumPy's format 1.0")
    start = 10 + int.from_bytes(data[8:10], "little")
    header = _ARRAY_HEADER.fullmatch(data[10:start].decode("latin1"))
    if header is None:
        raise ValueError(f"its header does not describe a plain array, got {data[10:start]!r:.120}")
    dtype = np.dtype(header[1])
    shape = tuple(map(int, re.findall(r"\d+", header[3])))
    if math.prod(shape) * dtype.itemsize != len(data) - start:
        raise ValueError(f"its shape {shape} of {dtype} does not fit to {len(data) - start} bytes")
    if dtype.kind == "b" and data[start:].strip(b"\0\1"):
        raise ValueError("its booleans are other bytes than 0 and 1")
    return np.frombuffer(data, dtype, offset=start).reshape(shape, order="F" if header[2] == "True" else "C")


def array_here(file: BinaryIO, dtype: Any, shape: Any, most: int) -> NDArray[Any]:
    """The array whose bytes stand at the place of a file, of at most ``most``, in the order of C."""
    if dtype not in DTYPES or not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"it must have an array of a plain type and shape, got {dtype!r:.80} and {shape!r:.80}")
    if (size := math.prod(shape) * np.dtype(dtype).itemsize) > most:
        raise ValueError(f"its shape {shape!r:.80} of {dtype} needs {size} bytes, more than it has")
    found = np.empty(shape, dtype)
    flat = found.reshape(-1).view(np.uint8)
    if file.readinto(flat.data) != size:  # type: ignore[attr-defined]
        raise ValueError("it ends within an array")
    if dtype == "|b1" and (flat > 1).any():
        raise ValueError("its booleans are other bytes than 0 and 1")
    return found.astype(found.dtype.newbyteorder("="), copy=False)
