"""The facts about data and loss that a restart compares: types, shapes, names and digests.

They guard against mistakes, not against deceit: of a function its name and text are compared, and not the values that
it refers to; of a large set of data some rows.  A digest tells whoever knows all examples but one what this one is, so
it stands in the folder alone, and no message shows it.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import tokenize
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.extras import extra_module

MAX_WHOLE_BYTES = 2**30  # bytes of an array that are all read
_SAMPLED_ROWS = 256  # of a larger one, or of examples that are read one by one
_DIGEST_BYTES = 16  # of a digest
_SIMPLE_TYPES = (bool, int, float, str, type(None))


def of_arrays(arrays: tuple[Any, ...]) -> dict[str, Any]:
    """Types, shapes, and a digest of arrays: of all numbers up to 1 GiB an array, and beyond of 256 rows."""
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for each in arrays:
        large = int(np.prod(each.shape)) * each.dtype.itemsize > MAX_WHOLE_BYTES
        _feed(hashed, each[_some(len(each))] if large else each)
    return {"data": ", ".join(_described(each) for each in arrays), "data digest": hashed.hexdigest()}


def of_examples(kind: str, read: Callable[[int], Any], count: int) -> dict[str, Any]:
    """The types of the first of some examples that are read one by one, and a digest of 256 of them."""
    found: dict[str, Any] = {"data": f"{kind}: {_described(read(0))}"}
    if _digest([read(0)]) == _digest([read(0)]):  # and not another picture of the example at each time
        found["data digest"] = _digest([read(number) for number in _some(count).tolist()])
    return found


def of_function(name: str, function: Any) -> dict[str, Any]:
    """The name of a function, such as the loss, and a digest of its text unless it comes from an installed library.

    A ``functools.partial`` and an object that can be called are functions, too.
    """
    text = _source(function)
    return {name: in_words(function)} | ({} if text is None else {f"{name} digest": _digest([text])})


def in_words(thing: Any) -> str:
    """The name of a function, or the class of an object and its simple attributes."""
    if isinstance(thing, partial):
        given = [*map(_value, thing.args), *(f"{name}={_value(each)}" for name, each in thing.keywords.items())]
        return f"{in_words(thing.func)}({', '.join(given)})"
    if hasattr(thing, "__qualname__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    return f"{type(thing).__qualname__}({simple(getattr(thing, '__dict__', {}))})"


def simple(values: Mapping[str, Any]) -> str:
    """The named values that are numbers, strings or tuples of them, as one string, without private names."""
    shown = {name: value for name, value in sorted(values.items()) if _is_simple(value) and not name.startswith("_")}
    return ", ".join(f"{name}={value!r}" for name, value in shown.items())


def _is_simple(value: Any) -> bool:
    return isinstance(value, _SIMPLE_TYPES) or (isinstance(value, tuple) and all(map(_is_simple, value)))


def _value(value: Any) -> str:
    return repr(value) if _is_simple(value) else type(value).__qualname__


def _source(function: Any) -> str | None:
    """The text of a function or of the class of an object, without comments and spaces."""
    while isinstance(function, partial):
        function = function.func
    own = function if hasattr(function, "__qualname__") else type(function)
    try:
        where, text = inspect.getfile(own), inspect.getsource(own)
    except (OSError, TypeError):  # typed into an interpreter, or written in C
        return None
    if "site-packages" in where or "dist-packages" in where:
        return None
    try:
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        return " ".join(each.string for each in tokens if each.type != tokenize.COMMENT and each.string.strip())
    except (tokenize.TokenError, SyntaxError):  # a part of an expression
        return text.strip()


def _some(count: int) -> NDArray[np.int64]:
    """At most 256 numbers below ``count``, from the first to the last."""
    return np.unique(np.linspace(0, count - 1, _SAMPLED_ROWS).astype(np.int64))


def _digest(things: list[Any]) -> str:
    hashed = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for each in things:
        _feed(hashed, each)
    return hashed.hexdigest()


def _feed(hashed: Any, thing: Any) -> None:
    """Hash an array, a picture, a number, a string, or a list or dictionary of such parts."""
    if isinstance(thing, Mapping):
        thing = [part for name in sorted(thing) for part in (name, thing[name])]
    if isinstance(thing, tuple | list):
        hashed.update(b"(%d" % len(thing))
        for part in thing:
            _feed(hashed, part)
        return
    hashed.update(_described(thing).encode())
    if isinstance(thing, str | bytes | int | float | None):
        hashed.update(repr(thing).encode())
    elif (numbers := _numbers(thing)) is not None:
        hashed.update(np.ascontiguousarray(numbers).reshape(-1).view(np.uint8))


def _numbers(thing: Any) -> NDArray[Any] | None:
    """The bytes of an array or a picture; None for anything else."""
    if hasattr(thing, "detach"):  # a tensor; NumPy has no bfloat16
        flat = thing.detach().cpu().contiguous().reshape(-1)
        return np.asarray(flat.view(extra_module("torch", "torch").uint8))
    found = np.asarray(thing)
    return None if found.dtype == object else found


def _described(thing: Any) -> str:
    """The type and shape of an array, or of each part of an example."""
    if isinstance(thing, Mapping):
        thing = [thing[name] for name in sorted(thing)]
    if isinstance(thing, tuple | list):
        return ", ".join(map(_described, thing))
    if hasattr(thing, "dtype") and hasattr(thing, "shape"):
        return f"{str(thing.dtype).removeprefix('torch.')} {tuple(thing.shape)}"
    return type(thing).__name__
