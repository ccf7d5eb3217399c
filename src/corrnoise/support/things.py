"""Things in JSON types and back, bit for bit: how ``support.serialise`` writes what JSON does not have.

The module ``support.serialise`` defines a thing, and has examples of the objects with ``$kind``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.support import reading

MOST_DEPTH = 8  #: of lists, tuples, mappings and records in each other

Kinds = Mapping[str, Callable[..., Any]]  #: classes; a function makes what older files name otherwise

_KIND_KEY = "$kind"
_OWN_KINDS = ("array", "float", "tuple")  # values of ``$kind`` other than records
_INFINITE_NAMES = ("inf", "-inf")


def checked_kinds(kinds: Kinds | None) -> Kinds:
    """The classes of records by name, which must be their own names and differ from other things' names."""
    for name, kind in (kinds or {}).items():
        if name in _OWN_KINDS or (isinstance(kind, type) and name != kind.__name__):
            raise ValueError(f"kinds must have the names of their classes, got {name!r} for {kind.__name__}")
    return kinds or {}


def _arguments(value: Any) -> Mapping[str, Any]:
    """The arguments that make a record again."""
    if callable(arguments := getattr(value, "arguments", None)):
        found: Mapping[str, Any] = arguments()
        return found
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value) if one.init}
    raise TypeError(f"kinds must have a method arguments() or be dataclasses, got {type(value).__name__}")


def _shallow(depth: int) -> int:
    if depth >= MOST_DEPTH:
        raise ValueError(f"it is nested more than {MOST_DEPTH} levels deep")
    return depth + 1


def _check_length(length: int) -> None:
    if length > reading.MOST_COMMAS:
        raise ValueError(f"a list has {length} items, more than {reading.MOST_COMMAS}")


def _without_nan(value: Any) -> Any:
    if np.isnan(value).any():
        raise ValueError("a number is NaN")
    return value


@dataclass
class Things:
    """Things of ``kinds``, by name, as JSON types, ``described``, and things ``made`` of these, which trusts nothing.

    ``members`` are the files of NumPy that hold the arrays, which a description only names; None where it holds them.
    """

    kinds: Kinds
    members: dict[str, bytes] | None = field(default_factory=dict)

    def described(self, value: Any, depth: int = 0) -> Any:
        """Describe ``value``, which stands so deep in the whole thing."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(_without_nan(value)) else {_KIND_KEY: "float", "value": repr(value)}
        if isinstance(value, np.ndarray):
            return {_KIND_KEY: "array"} | self._described_array(value)
        depth = _shallow(depth)
        name = type(value).__name__
        if self.kinds.get(name) is type(value):
            return {_KIND_KEY: name} | self._described_items(_arguments(value), depth)
        if isinstance(value, Mapping):
            return self._described_items(value, depth)
        if isinstance(value, list | tuple):
            _check_length(len(value))
        if type(value) is list:
            return [self.described(one, depth) for one in value]
        if type(value) is tuple:
            return {_KIND_KEY: "tuple", "items": [self.described(one, depth) for one in value]}
        allowed = ", ".join(["numbers", "strings", "arrays", "lists", "tuples", "mappings", *self.kinds])
        raise TypeError(f"thing must be made of {allowed}, got {value!r:.80}")

    def _described_items(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        for key in value:
            if not isinstance(key, str) or key == _KIND_KEY:
                raise ValueError(f"keys of mappings must be strings other than {_KIND_KEY!r}, got {key!r:.80}")
        return {key: self.described(one, depth) for key, one in value.items()}

    def _described_array(self, value: NDArray[Any]) -> dict[str, Any]:
        dtype = value.dtype.newbyteorder("<")
        if dtype.str not in reading.DTYPES:
            raise TypeError(f"arrays must be of the types {', '.join(reading.DTYPES)}, got {value.dtype!r}")
        array = _without_nan(np.asarray(value, dtype, order="C"))
        if self.members is None:
            _check_length(array.size)
            return {"dtype": dtype.str, "shape": list(array.shape), "values": _numbers(array)}
        file = BytesIO()
        np.lib.format.write_array(file, array, version=(1, 0), allow_pickle=False)
        name = f"array-{len(self.members)}.npy"
        self.members[name] = file.getvalue()
        return {"member": name}

    def made(self, described: Any, depth: int = 0) -> Any:
        """Make what ``described`` describes."""
        if isinstance(described, list):
            depth = _shallow(depth)
            return [self.made(one, depth) for one in described]
        if not isinstance(described, dict):
            return described
        own = dict(described)
        kind = own.pop(_KIND_KEY, None)
        if kind == "array":
            return _without_nan(self._made_array(**own))
        if kind == "float":
            return _made_float(**own)
        if kind == "tuple":
            return tuple(self.made(_only_list(**own), depth))
        depth = _shallow(depth)
        made = {key: self.made(one, depth) for key, one in own.items()}
        if _KIND_KEY not in described:
            return made
        if not isinstance(kind, str) or kind not in self.kinds:
            raise ValueError(f"kind must be one of {', '.join(self.kinds) or 'none'}, got {kind!r:.80}")
        return self.kinds[kind](**made)

    def _made_array(self, **own: Any) -> NDArray[Any]:
        if self.members is None:
            return _from_numbers(**own)
        name = own.pop("member", None)
        if own or not isinstance(name, str) or name not in self.members:
            raise ValueError(f"an array must name a member that no other one names, got {name!r:.80}")
        found = reading.array(self.members.pop(name))
        return found.astype(found.dtype.newbyteorder("="))  # a copy, which may be written to


def _made_float(value: Any) -> float:
    if value not in _INFINITE_NAMES:
        raise ValueError(f"a float must be 'inf' or '-inf' as a string, got {value!r:.80}")
    return float(value)


def _only_list(items: Any) -> list[Any]:
    if not isinstance(items, list):
        raise ValueError(f"items must be a list, got {items!r:.80}")
    return items


def _numbers(array: NDArray[Any]) -> list[Any]:
    """The numbers of an array in the order of C; infinite ones are strings."""
    return [repr(v) if isinstance(v, float) and not math.isfinite(v) else v for v in array.ravel().tolist()]


def _from_numbers(dtype: Any, shape: Any, values: Any) -> NDArray[Any]:
    """The opposite of ``_numbers``: numbers that the type does not hold are refused."""
    if dtype not in reading.DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(reading.DTYPES)}, got {dtype!r:.80}")
    if not isinstance(shape, list) or len(shape) > 4 or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"shape must be a list of at most four integers >= 0, got {shape!r:.80}")
    if not isinstance(values, list) or len(values) != math.prod(shape):
        raise ValueError(f"values must be a list of {math.prod(shape)} numbers, got {values!r:.80}")
    with np.errstate(over="ignore"):
        found = np.array(values, dtype=np.dtype(dtype).newbyteorder("="))
    if found.ndim != 1 or _numbers(found) != values:
        raise ValueError(f"values must be numbers of type {found.dtype}, got {values!r:.80}")
    return found.reshape(shape)
