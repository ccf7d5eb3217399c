"""Records as plain data, and a container that restores saved objects bit for bit.

``plain`` turns numbers, arrays and records into JSON types, for texts that people and other programs read and for keys
(``digest``).  It forgets types: arrays and tuples become lists, and numbers that are not finite become strings.

``save`` and ``load`` keep a *thing* in one file; ``packed`` and ``unpacked`` do the same with bytes in memory.

Things
    None, booleans, integers, finite and infinite floats, strings; NumPy arrays of booleans, integers and floats; lists,
    tuples, mappings with strings as keys; and records.  All of these may be nested up to eight levels.  They come back
    with the same types and bits, except that NumPy scalars come back as Python's numbers, mappings as dicts, and arrays
    contiguous, in the byte order of the machine.  NaN is refused, in numbers and in arrays: it stands for a result that
    is missing, which gives None.

Records
    A record is an object with a method ``arguments()`` that returns the arguments which make it again, or a dataclass
    without one.  Files name its class without the module, so a class may move.  ``kinds`` is the table of the classes
    that a file may hold, by name (``by_name``); floors above pass it in.  A record of another class is refused when it
    is saved, and an unknown name when it is loaded.  Only constructors of ``kinds`` are called, and they check their
    arguments: a number that privacy rests on is computed from the record that was loaded, never read from the file.
    Numbers for other programs can be saved next to it, as in ``{"design": design, "stated": {…}}``, and compared.

Files
    The name ends with ``.json`` or ``.npz``.  Both hold the same JSON text: ``format``, ``version`` (of the program
    that wrote it) and ``thing``.  Objects with ``$kind`` stand for what JSON does not have::

        {"$kind": "NuFTRL", "nu": 0.01}
        {"$kind": "array", "dtype": "<f8", "shape": [2], "values": [0.5, "inf"]}
        {"$kind": "array", "member": "array-0.npy"}
        {"$kind": "tuple", "items": [0.5, 0.25]}
        {"$kind": "float", "value": "-inf"}

    In ``.json`` the numbers of an array stand in the text, in the order of C.  In ``.npz``, a zip archive without
    compression, the text is the member ``thing.json``, and each array is a member that NumPy reads.

Safety
    The digest of all bytes before it stands at the end of a file: in the last line of ``.json``, in the comment of
    ``.npz``.  It detects damage, not forgery: whoever can write a file can write its digest.  So bytes are read by
    ``support.reading``, with its limits.  Files are written completely or not at all.

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
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from corrnoise.support import reading
from corrnoise.support.files import write_whole
from corrnoise.support.reading import MOST_BYTES
from corrnoise.support.things import Kinds, Things, checked_kinds
from corrnoise.support.version import __version__

FORMAT = "corrnoise 1"

_TEXT_NAME = "thing.json"
_IN_TEXT = '\n "digest": "{}"\n}}\n'  # in place of the last brace
_IN_ARCHIVE = "{}"  # in place of a comment
_DIGEST_TYPES = {"b": "|b1", "i": "<i8", "u": "<u8", "f": "<f8"}  # of arrays in digests, the same on all platforms


# -- plain data --------------------------------------------------------------------------------------------------------


def by_name(*kinds: type) -> dict[str, type]:
    """The classes ``kinds`` by the names of their written objects."""
    found = {kind.__name__: kind for kind in kinds}
    if len(found) < len(kinds):
        raise ValueError(f"kinds must have different names, got {', '.join(kind.__name__ for kind in kinds)}")
    return found


def plain(value: Any) -> Any:
    """Return ``value`` as JSON types, a record as a mapping of its arguments, with its class under ``"kind"``.

    Numbers are written without loss.  Infinities and nan are the strings ``"inf"``, ``"-inf"`` and ``"nan"``,
    which ``float`` understands.

    Raises
    ------
    TypeError
        If something in ``value`` is neither None, a boolean, number, string, array of NumPy or record, nor a list,
        tuple or mapping of these.
    """
    if callable(arguments := getattr(value, "arguments", None)):
        return {"kind": type(value).__name__} | {name: plain(v) for name, v in arguments().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(v) for name, v in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return value.tolist()
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
        If the class is not one of ``kinds``, or it refuses the arguments.
    """
    arguments = dict(described)
    name = arguments.pop("kind", None)
    if name not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {name!r}")
    return kinds[name](**arguments)


def digest(described: Any) -> str:
    """SHA-256 of bytes, or of what ``plain`` takes without regard to the order of keys: 64 hexadecimal digits.

    Arrays count by their numbers and their shape, and not by their width or byte order.
    """
    if not isinstance(described, bytes):
        described = json.dumps(described, sort_keys=True, separators=(",", ":"), default=_short).encode()
    return hashlib.sha256(described).hexdigest()


def _short(value: Any) -> Any:
    """Values that ``json`` does not know: an array as the digest of its bytes, a record as its arguments."""
    if isinstance(value, np.ndarray) and value.dtype.kind in _DIGEST_TYPES and value.dtype.itemsize <= 8:
        number = np.ascontiguousarray(value, _DIGEST_TYPES[value.dtype.kind])
        return {"array": digest(number.tobytes()), "dtype": number.dtype.str, "shape": value.shape}
    if callable(arguments := getattr(value, "arguments", None)):
        return {"kind": type(value).__name__} | arguments()
    return plain(value)


# -- files -------------------------------------------------------------------------------------------------------------


def save(
    thing: Any,
    path: str | os.PathLike[str],
    kinds: Kinds | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    secret: bool = False,
) -> Path:
    """Write a thing to one file, ``.json`` or ``.npz``, of at most ``most_bytes``, and return its path.

    Only the user may read it if it is ``secret``.  ValueError or TypeError say why a thing cannot be saved.
    """
    path = Path(path)
    if path.suffix not in (".json", ".npz"):
        raise ValueError(f"path must end with '.json' or '.npz', got {str(path)!r}")
    text_only = path.suffix == ".json"
    write_whole(path, packed(thing, kinds, text_only=text_only, most_bytes=most_bytes, name=str(path)), secret=secret)
    return path


def load(
    path: str | os.PathLike[str],
    kinds: Kinds | None = None,
    *,
    most_bytes: int = MOST_BYTES,
    check: Callable[[Any], Any] | None = None,
) -> Any:
    """Return the thing in a file of ``save``, or what ``check`` makes of it; ValueError if any of it is wrong."""
    return unpacked(reading.read_bytes(path, most_bytes), kinds, name=os.fspath(path), check=check)


def packed(
    thing: Any,
    kinds: Kinds | None = None,
    *,
    text_only: bool = False,
    most_bytes: int = MOST_BYTES,
    name: str = "thing",
) -> bytes:
    """The bytes of a file of ``save``: those of ``.json`` if they are ``text_only``, or else those of ``.npz``.

    ``name`` names the saved object in errors.
    """
    members: dict[str, bytes] | None = None if text_only else {}
    try:
        described = Things(checked_kinds(kinds), members).described(thing)
        text = json.dumps({"format": FORMAT, "version": __version__, "thing": described}, indent=1, allow_nan=False)
        reading.check_json(text.encode())
        data = _text(text) if members is None else _archive({_TEXT_NAME: text.encode()} | members)
        if len(data) > most_bytes:
            raise ValueError(f"it takes {len(data)} bytes, more than {most_bytes}")
    except ValueError as error:
        raise ValueError(f"{name} cannot be saved: {error}") from error
    return data


def unpacked(
    data: bytes,
    kinds: Kinds | None = None,
    *,
    name: str = "data",
    check: Callable[[Any], Any] | None = None,
) -> Any:
    """The thing in the bytes of ``packed``, of either form; ``name`` says in errors where they come from."""
    with reading.guarded(name):
        members: dict[str, bytes] | None = None
        if data.startswith(b"PK"):
            _check_digest(data, _IN_ARCHIVE)
            members = reading.archive(data)
            text = members.pop(_TEXT_NAME, b"null")
        else:
            text = _check_digest(data, _IN_TEXT).removesuffix(b",") + b"\n}"
        described = reading.json_value(text)
        if not isinstance(described, dict) or set(described) != {"format", "version", "thing"}:
            raise ValueError("it has no format, version and thing")
        if described["format"] != FORMAT:
            raise ValueError(f"its format must be {FORMAT!r}, got {described['format']!r:.80}")
        thing = Things(checked_kinds(kinds), members).made(described["thing"])
        if members:
            raise ValueError(f"it has members that nothing names: {', '.join(members)}")
        return thing if check is None else check(thing)


def _text(text: str) -> bytes:
    head = text.removesuffix("\n}").encode() + b","
    return head + _IN_TEXT.format(digest(head)).encode()


def _archive(members: Mapping[str, bytes]) -> bytes:
    if len(members) > reading.MOST_MEMBERS:
        raise ValueError(f"it has {len(members)} arrays, more than {reading.MOST_MEMBERS}")
    file = BytesIO()
    with ZipFile(file, "w", ZIP_STORED) as archive:  # members without a date, so that equal things have equal bytes
        for name, data in members.items():
            archive.writestr(ZipInfo(name), data)
        archive.comment = b"0" * 64
    data = file.getvalue()[:-64]
    return data + _IN_ARCHIVE.format(digest(data)).encode()


def _check_digest(data: bytes, form: str) -> bytes:
    """The bytes before the digest, which ends the data in this form and must be right."""
    end = len(form.format("0" * 64))
    if data[-end:] != form.format(digest(data[:-end])).encode():
        raise ValueError("its digest is wrong")
    return data[:-end]
