"""Conversion of records to plain data and back, under names that do not depend on modules.

A *record* is any object with a method ``arguments()`` that returns the arguments which rebuild it.  It is described as
a mapping: its arguments, and under ``"kind"`` the name of its class without the module.  So files stay readable when a
class moves to another module.  A class that is renamed keeps its first name by the attribute ``serialised_name``.

Descriptions consist of JSON types only.  Numbers are written without loss.  Numbers that are not finite are the strings
``"inf"``, ``"-inf"`` and ``"nan"``, which ``float`` understands.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np


def name_of(kind: type) -> str:
    """The name under which objects of a class are written."""
    return str(vars(kind).get("serialised_name", kind.__name__))


def by_name(*kinds: type) -> dict[str, type]:
    """The classes ``kinds`` by the names under which their objects are written."""
    found = {name_of(kind): kind for kind in kinds}
    if len(found) < len(kinds):
        raise ValueError(f"kinds must have different names, got {', '.join(map(name_of, kinds))}")
    return found


def plain(value: Any, *, named: Callable[[type], str] = name_of) -> Any:
    """Return ``value`` as JSON types.

    Parameters
    ----------
    value
        None, booleans, numbers, strings, NumPy arrays, records, and lists, tuples and mappings of these.
    named
        The function that names the classes of records.

    Raises
    ------
    TypeError
        Something in ``value`` is of another kind.
    """
    if callable(arguments := getattr(value, "arguments", None)):
        return {"kind": named(type(value))} | {name: plain(v, named=named) for name, v in arguments().items()}
    if isinstance(value, Mapping):
        return {str(name): plain(v, named=named) for name, v in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(v, named=named) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"value must be made of numbers, strings, arrays and records, got {value!r}")


def rebuilt(described: Mapping[str, Any], kinds: Mapping[str, type]) -> Any:
    """Return the record that ``described`` describes, whose class must be one of ``kinds``.

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
