"""Things in JSON types and back, bit for bit: how ``support.serialise`` writes what JSON does not have.

The module ``support.serialise`` says what a thing is, and has examples of the objects with ``$kind``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_ENTRIES = 10**6  #: of an array or a list
MOST_DEPTH = 8  #: of lists, tuples, mappings and records in each other
LONGEST_IN_TEXT = 4096  #: numbers of an array that is written as text

Kinds = Mapping[str, type[Any]]

_KIND = "$kind"
_OWN = ("array", "complex", "float", "tuple")  # values of ``$kind`` that are no records
_DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16")


def member_name(number: int) -> str:
    """The name of the member of an archive that holds a long array."""
    return f"array-{number}.npy"


def _arguments(value: Any) -> dict[str, Any]:
    """The arguments that make a record again."""
    if callable(arguments := getattr(value, "arguments", None)):
        return dict(arguments())
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    raise TypeError(f"kinds must have a method arguments() or be dataclasses, got {type(value).__name__}")


def _checked_kinds(kinds: Kinds) -> None:
    for name, kind in kinds.items():
        if name in _OWN or name != kind.__name__:
            raise ValueError(f"kinds must have the names of their classes, got {name!r} for {kind.__name__}")


def _check_depth(depth: int) -> None:
    if depth > MOST_DEPTH:
        raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ValueError(f"an array or list has {size} entries, more than {most}")


def _numbers(array: NDArray[Any]) -> list[Any]:
    """The numbers of an array in its order, complex ones as two; infinite ones are strings."""
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    return [repr(v) if isinstance(v, float) and not math.isfinite(v) else v for v in flat.tolist()]


def _without_nan(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.kind in "fc" and np.isnan(array).any():
        raise ValueError("an array holds NaN")
    return array


@dataclass
class Writer:
    """Describes things in JSON types.

    Attributes
    ----------
    kinds
        The classes of records by name.
    most_entries
        Of an array or a list.
    members
        The long arrays, which a description only names.
    """

    kinds: Kinds
    most_entries: int
    members: list[NDArray[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        _checked_kinds(self.kinds)

    def described(self, value: Any, depth: int = 0) -> Any:
        """Describe ``value``, which stands so deep in the whole thing."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return self._float(float(value))
        if isinstance(value, complex):
            return {_KIND: "complex", "parts": [self._float(value.real), self._float(value.imag)]}
        if isinstance(value, np.ndarray):
            return self._array(value)
        _check_depth(depth + 1)
        name = type(value).__name__
        if self.kinds.get(name) is type(value):
            return {_KIND: name} | self._mapping(_arguments(value), depth + 1)
        if type(value) is list:
            return self._items(value, depth + 1)
        if type(value) is tuple:
            return {_KIND: "tuple", "items": self._items(value, depth + 1)}
        if isinstance(value, Mapping):
            return self._mapping(value, depth + 1)
        allowed = ", ".join(["numbers", "strings", "arrays", "lists", "tuples", "mappings", *self.kinds])
        raise TypeError(f"thing must be made of {allowed}, got {value!r:.80}")

    def _float(self, value: float) -> Any:
        if math.isnan(value):
            raise ValueError("a number is NaN")
        return value if math.isfinite(value) else {_KIND: "float", "value": repr(value)}

    def _items(self, values: Any, depth: int) -> list[Any]:
        _check_size(len(values), self.most_entries)
        return [self.described(v, depth) for v in values]

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        _check_size(len(value), self.most_entries)
        for key in value:
            if not isinstance(key, str) or key == _KIND:
                raise ValueError(f"keys of mappings must be strings other than {_KIND!r}, got {key!r:.80}")
        return {key: self.described(v, depth) for key, v in value.items()}

    def _array(self, value: NDArray[Any]) -> dict[str, Any]:
        dtype = value.dtype.newbyteorder("<")
        if dtype.str not in _DTYPES:
            raise TypeError(f"arrays must be of the types {', '.join(_DTYPES)}, got {value.dtype!r}")
        _check_size(value.size, self.most_entries)
        array = _without_nan(np.asarray(value, dtype, order="C"))
        described = {_KIND: "array", "dtype": dtype.str, "shape": list(array.shape)}
        if array.size <= LONGEST_IN_TEXT:
            return described | {"values": _numbers(array)}
        self.members.append(array)
        return described | {"member": member_name(len(self.members) - 1)}


@dataclass
class Reader:
    """Makes things from the descriptions of a ``Writer``; nothing in these is trusted.

    Attributes
    ----------
    kinds, most_entries
        As of ``Writer``.
    members
        The long arrays that were not read yet, as NumPy's files.
    """

    kinds: Kinds
    most_entries: int
    members: dict[str, bytes]

    def __post_init__(self) -> None:
        _checked_kinds(self.kinds)

    def made(self, described: Any, depth: int = 0) -> Any:
        """Make what ``described`` describes."""
        if isinstance(described, float) and not math.isfinite(described):
            raise ValueError("a number is too large for a float")
        if not isinstance(described, dict | list):
            return described
        if isinstance(described, list):
            _check_depth(depth + 1)
            return self._items(described, depth + 1)
        kind = described.get(_KIND)
        own = {key: v for key, v in described.items() if key != _KIND}
        if kind == "array":
            return self._array(own)
        if kind == "float":
            return self._float(own)
        if kind == "complex":
            return self._complex(own)
        _check_depth(depth + 1)
        if kind == "tuple":
            (items,) = self._values(own, "items")
            return tuple(self._items(items, depth + 1))
        made = {key: self.made(v, depth + 1) for key, v in own.items()}
        if _KIND not in described:
            return made
        if not isinstance(kind, str) or kind not in self.kinds:
            raise ValueError(f"kind must be one of {', '.join(self.kinds) or 'none'}, got {kind!r:.80}")
        return self.kinds[kind](**made)

    def _values(self, own: dict[str, Any], *names: str) -> list[Any]:
        if set(own) != set(names):
            raise ValueError(f"an object must have {', '.join(names)} beside its kind, got {', '.join(own)}")
        return [own[name] for name in names]

    def _items(self, described: Any, depth: int) -> list[Any]:
        if not isinstance(described, list):
            raise ValueError(f"items must be a list, got {described!r:.80}")
        _check_size(len(described), self.most_entries)
        return [self.made(one, depth) for one in described]

    def _float(self, own: dict[str, Any]) -> float:
        (text,) = self._values(own, "value")
        if text not in ("inf", "-inf"):
            raise ValueError(f"a float must be 'inf' or '-inf' as a string, got {text!r:.80}")
        return float(text)

    def _complex(self, own: dict[str, Any]) -> complex:
        (parts,) = self._values(own, "parts")
        real, imaginary = (self.made(part, MOST_DEPTH) for part in parts)
        if type(real) is not float or type(imaginary) is not float:
            raise ValueError(f"parts must be two floats, got {parts!r:.80}")
        return complex(real, imaginary)

    def _array(self, own: dict[str, Any]) -> NDArray[Any]:
        form = "member" if "member" in own else "values"
        name, shape, content = self._values(own, "dtype", "shape", form)
        if name not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}, got {name!r:.80}")
        if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
            raise ValueError(f"shape must be a list of integers >= 0, got {shape!r:.80}")
        _check_size(size := math.prod(shape), self.most_entries)
        dtype = np.dtype(name)
        if form == "member":
            found = self._from_member(content, dtype, tuple(shape))
        else:
            found = _from_numbers(content, dtype, size).reshape(shape)
        return _without_nan(found).astype(dtype.newbyteorder("="))  # a copy, which may be written to

    def _from_member(self, name: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray[Any]:
        if name not in self.members:
            raise ValueError(f"it has no member {name!r:.80}, or names it twice")
        data = self.members.pop(name)
        file = BytesIO(data)
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} must be an array of NumPy's format 1.0")
        found, in_columns, held = np.lib.format.read_array_header_1_0(file)
        if (found, in_columns, held) != (shape, False, dtype):
            raise ValueError(f"{name} must have shape {shape} and type {dtype}, got {found} and {held}")
        start = file.tell()
        if len(data) - start != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{name} must have {math.prod(shape)} numbers, got {len(data) - start} bytes")
        return np.frombuffer(data, dtype, offset=start).reshape(shape)


def _from_numbers(numbers: Any, dtype: np.dtype[Any], size: int) -> NDArray[Any]:
    """The opposite of ``_numbers``: numbers that the type does not hold are refused."""
    count = size * (2 if dtype.kind == "c" else 1)
    if not isinstance(numbers, list) or len(numbers) != count:
        raise ValueError(f"values must be a list of {count} numbers, got {numbers!r:.80}")
    with np.errstate(over="ignore"):
        real = np.array(numbers, dtype=np.dtype(f"<f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype)
    found = real.reshape(-1).view(dtype)
    if _numbers(found) != numbers:
        raise ValueError(f"values must be numbers of type {dtype}, got {numbers!r:.80}")
    return found
