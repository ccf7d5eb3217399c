"""Records as plain data, and a container that gives back, bit for bit, what was saved.

``plain`` turns numbers, arrays and records into JSON types, for texts that people and other programs read and for keys
(``digest``).  It forgets types: arrays and tuples become lists, and numbers that are not finite become strings.

``save`` and ``load`` keep a *thing* in one file; ``packed`` and ``unpacked`` do the same with bytes in memory.

Things
    None, booleans, integers of any length, finite and infinite floats, complex numbers, strings; NumPy arrays of
    booleans, integers, floats and complex numbers; lists, tuples, mappings with strings as keys; and records.  All of
    these may be nested up to eight levels.  They come back with the same types and bits, except that NumPy scalars come
    back as Python's numbers, mappings as dicts, and arrays contiguous, in the byte order of the machine.  NaN is
    refused, in numbers and in arrays: it stands for a result that is missing, for which there is None.

Records
    A record is an object with a method ``arguments()`` that returns the arguments which make it again, or a dataclass
    without one.  Files name its class without the module, so a class may move.  ``kinds`` is the table of the classes
    that a file may hold, by name (``by_name``); floors above pass it in.  A record of another class is refused when it
    is saved, and an unknown name when it is loaded.  Only constructors of ``kinds`` are called, and they check their
    arguments: a number that privacy rests on is computed from the record that was loaded, never read from the file.
    Numbers for other programs can be saved beside it, as in ``{"design": design, "stated": {…}}``, and compared.

Files
    The name ends with ``.json`` or ``.npz``.  Both hold the same JSON text: ``format``, ``version`` (of the program
    that wrote it) and ``thing``.  Objects with ``$kind`` stand for what JSON does not have::

        {"$kind": "NuFTRL", "nu": 0.01}
        {"$kind": "array", "dtype": "<f8", "shape": [2], "values": [0.5, "inf"]}
        {"$kind": "array", "dtype": "<c16", "shape": [9000], "member": "array-0.npy"}
        {"$kind": "tuple", "items": [0.5, 0.25]}
        {"$kind": "complex", "parts": [0.0, 1.0]}
        {"$kind": "float", "value": "-inf"}

    The numbers of an array stand in the order of C, a complex one as two.

    In ``.npz``, a zip archive without compression, the text is the member ``thing.json``, and each array of more than
    ``LONGEST_IN_TEXT`` numbers is a member that NumPy reads.  ``.json`` holds no such array.

Safety
    The SHA-256 of all bytes before it stands at the end of a file: in the last line of ``.json``, in the comment of
    ``.npz``.  It detects damage, not forgery: whoever can write a file can write its checksum.  So nothing is unpickled
    or decompressed, and sizes are limited before anything is parsed: the bytes of the file and of the members that it
    declares, the numbers of each array and the items of each list, and the depth.  The same limits hold when a thing is
    saved.  Files are written completely or not at all.

Every refusal is a ``ValueError`` that names the file and the reason; things that cannot be saved because of their type
are a ``TypeError``.

Examples
--------
>>> unpacked(packed({"noise": (0.1, float("inf"))}))
{'noise': (0.1, inf)}
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.files import whole_files
from corrnoise.support.things import LONGEST_IN_TEXT, MOST_ENTRIES, Kinds, Reader, Writer, member_name
from corrnoise.support.version import __version__

FORMAT = "corrnoise 1"
MOST_BYTES = 2**26  #: of a file, and of all members of an archive

_TEXT = "thing.json"
_TAIL = re.compile(rb'\n "digest": "([0-9a-f]{64})"\n\}\n\Z')
_ZIP = b"PK"


# -- plain data --------------------------------------------------------------------------------------------------------


def by_name(*kinds: type) -> dict[str, type]:
    """The classes ``kinds`` by the names under which their objects are written."""
    found = {kind.__name__: kind for kind in kinds}
    if len(found) < len(kinds):
        raise ValueError(f"kinds must have different names, got {', '.join(kind.__name__ for kind in kinds)}")
    return found


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types, a record as a mapping of its arguments, with its class under ``"kind"``.

    Numbers are written without loss.  Those that are not finite are the strings ``"inf"``, ``"-inf"`` and ``"nan"``,
    which ``float`` understands.

    Parameters
    ----------
    value
        None, booleans, numbers, strings, NumPy arrays, records, and lists, tuples and mappings of these.

    Raises
    ------
    TypeError
        Something in ``value`` is of another kind.
    """
    if callable(arguments := getattr(value, "arguments", None)):
        return {"kind": type(value).__name__} | {name: plain(v) for name, v in arguments().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(v) for name, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"value must be made of numbers, strings, arrays and records, got {value!r}")


def rebuilt(described: Mapping[str, Any], kinds: Kinds) -> Any:
    """Return the record that ``plain`` described, whose class must be one of ``kinds``.

    Raises
    ------
    ValueError
        The class is not one of ``kinds``, or it refuses the arguments.
    """
    arguments = dict(described)
    name = arguments.pop("kind", None)
    if name not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name](**arguments)


def digest(described: Any) -> str:
    """SHA-256 of data in JSON types, 64 hexadecimal digits, which does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(described, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# -- files -------------------------------------------------------------------------------------------------------------


def save(
    thing: Any,
    path: str | os.PathLike[str],
    kinds: Kinds | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    most_entries: int = MOST_ENTRIES,
) -> Path:
    """Write a thing to one file, completely or not at all, and return its path.

    Parameters
    ----------
    thing
        See the module.
    path
        A name that ends with ``.json`` or ``.npz``.
    kinds
        The classes of records by name; None for none.
    most_bytes, most_entries
        Largest size of the file in bytes, and of each array and list.  ``load`` must be given the same.

    Raises
    ------
    ValueError, TypeError
        The thing cannot be saved.
    OSError
        The file cannot be written.
    """
    path = Path(path)
    if path.suffix not in (".json", ".npz"):
        raise ValueError(f"path must end with '.json' or '.npz', got {str(path)!r}")
    data = packed(
        thing, kinds, text_only=path.suffix == ".json", most_bytes=most_bytes, most_entries=most_entries, name=str(path)
    )
    with whole_files(path.parent) as staging:
        (staging / path.name).write_bytes(data)
    return path


def load(
    path: str | os.PathLike[str],
    kinds: Kinds | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    most_entries: int = MOST_ENTRIES,
) -> Any:
    """Return the thing in a file of ``save``.

    Parameters
    ----------
    path, kinds, most_bytes, most_entries
        As for ``save``.

    Raises
    ------
    ValueError
        The file is foreign, damaged or too large, or holds something that ``kinds`` lacks or refuses.
    OSError
        It cannot be read.
    """
    with open(path, "rb") as file:
        data = file.read(most_bytes + 1)  # more is refused by ``unpacked``
    return unpacked(data, kinds, most_bytes=most_bytes, most_entries=most_entries, name=os.fspath(path))


def packed(
    thing: Any,
    kinds: Kinds | None = None,
    *,
    text_only: bool = False,
    most_bytes: int = MOST_BYTES,
    most_entries: int = MOST_ENTRIES,
    name: str = "thing",
) -> bytes:
    """The bytes of a file of ``save``: those of ``.json`` if they are ``text_only``, or else those of ``.npz``.

    ``name`` says in errors what was to be saved.
    """
    writer = Writer(dict(kinds or {}), most_entries)
    try:
        described = {"format": FORMAT, "version": __version__, "thing": writer.described(thing)}
        if text_only and writer.members:
            raise ValueError(f"its arrays have more than {LONGEST_IN_TEXT} numbers, which takes a file '.npz'")
        text = json.dumps(described, indent=1, allow_nan=False).encode()
        data = _text_file(text) if text_only else _archive(text, writer.members)
        if len(data) > most_bytes:
            raise ValueError(f"it takes {len(data)} bytes, more than {most_bytes}")
    except ValueError as error:
        raise ValueError(f"{name} cannot be saved: {error}") from error
    return data


def unpacked(
    data: bytes,
    kinds: Kinds | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    most_entries: int = MOST_ENTRIES,
    name: str = "data",
) -> Any:
    """The thing in the bytes of ``packed``, of either form; ``name`` says in errors where they come from.

    Raises
    ------
    ValueError
        As of ``load``.
    """
    try:
        if len(data) > most_bytes:
            raise ValueError(f"it has more than {most_bytes} bytes")
        members = _members(data, most_bytes) if data.startswith(_ZIP) else {_TEXT: _checked_text(data)}
        described = json.loads(
            members.pop(_TEXT).decode(), object_pairs_hook=_without_duplicates, parse_constant=_no_constant
        )
        reader = Reader(dict(kinds or {}), most_entries, members)
        thing = reader.made(_thing_of(described))
        if members:
            raise ValueError(f"it has members that nothing names: {', '.join(members)}")
        return thing
    except Exception as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise ValueError(f"{name} cannot be loaded: {reason}") from error


# -- bytes -------------------------------------------------------------------------------------------------------------


def _text_file(text: bytes) -> bytes:
    head = text.removesuffix(b"\n}") + b","
    return head + f'\n "digest": "{hashlib.sha256(head).hexdigest()}"\n}}\n'.encode()


def _checked_text(data: bytes) -> bytes:
    """The text without its digest, which must be right."""
    tail = _TAIL.search(data, max(0, len(data) - 100))
    if tail is None:
        raise ValueError("it is foreign or damaged: it does not end with a digest")
    head = data[: tail.start()]
    _check_digest(head, tail[1])
    return head.removesuffix(b",") + b"\n}"


def _archive(text: bytes, arrays: list[NDArray[Any]]) -> bytes:
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as archive:  # members without a date, so that equal things have equal bytes
        archive.writestr(ZipInfo(_TEXT), text)
        for number, array in enumerate(arrays):
            member = BytesIO()
            np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)
            archive.writestr(ZipInfo(member_name(number)), member.getvalue())
        archive.comment = b"0" * 64
    data = file.getvalue()[:-64]
    return data + hashlib.sha256(data).hexdigest().encode()


def _members(data: bytes, most_bytes: int) -> dict[str, bytes]:
    """The members of an archive, after all checks that do not need their content."""
    _check_digest(data[:-64], data[-64:])
    with ZipFile(BytesIO(data)) as archive:
        entries = archive.infolist()
        declared = sum(entry.file_size for entry in entries)
        if declared > most_bytes:
            raise ValueError(f"its members declare {declared} bytes, more than {most_bytes}")
        for entry in entries:
            if entry.compress_type != ZIP_STORED:
                raise ValueError(f"its member {entry.filename!r} is compressed")
        members = {entry.filename: archive.read(entry) for entry in entries}
    if len(members) < len(entries):
        raise ValueError("two of its members have the same name")
    if _TEXT not in members:
        raise ValueError(f"it has no member {_TEXT!r}")
    return members


def _check_digest(data: bytes, stated: bytes) -> None:
    if hashlib.sha256(data).hexdigest().encode() != stated:
        raise ValueError("it is foreign or damaged: its digest is wrong")


def _thing_of(described: Any) -> Any:
    """The description of the thing in that of a file."""
    if not isinstance(described, dict) or set(described) != {"format", "version", "thing"}:
        raise ValueError("it is foreign: it has no format, version and thing")
    if described["format"] != FORMAT:
        raise ValueError(f"its format must be {FORMAT!r}, got {described['format']!r:.80}")
    return described["thing"]


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key {name!r:.80} occurs twice")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
