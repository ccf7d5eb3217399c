"""Examples in trees of arrays, and the loss of an example (the extra ``jax``).

===================  ==========================================
data                 loss
===================  ==========================================
a tuple of trees     ``loss(parameters, *row)``
any other tree       ``loss(parameters, row)``
===================  ==========================================

A row is an example: the same tree, whose arrays lack the first axis.  ``item=`` maps each row alone, and the loss gets
the result by the same rule.  With a key of JAX, the key of the example is the last argument of the loss.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.identity import of_arrays
from corrnoise.support.extras import extra_module


class Examples:
    """Data in a tree of arrays with the examples along the first axis, which JAX may have sharded along any axes."""

    def __init__(self, data: Any) -> None:
        if not isinstance(data, tuple | Mapping) and _is_array(data):
            raise TypeError(f"data must be a tuple or a dictionary of arrays, got one array: pass ({_in_words(data)},)")
        named = leaves_of("data", data)
        if not named:
            raise ValueError(f"data must have at least one array, got {data!r:.80}")
        for name, each in named:
            _check_rows(name, each)
        first, count = named[0][0], len(named[0][1])
        for name, each in named:
            if len(each) != count:
                raise ValueError(
                    "data must have the same number of examples along axis 0 of all arrays, got "
                    f"{count} in {first} and {len(each)} in {name}"
                )
        self._data = data
        self._count = count
        self._named = named

    def __len__(self) -> int:
        return self._count

    @property
    def template(self) -> tuple[Any, ...]:
        """The first arguments of the loss for all examples: their shapes and types without numbers."""
        shape_of = extra_module("jax", "jax").ShapeDtypeStruct
        tree = extra_module("jax", "jax").tree
        return arguments_of(tree.map(lambda each: shape_of(each.shape, each.dtype), self._data))

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        """The rows of some examples as arguments of the loss; those of cut arrays are on all their devices."""
        jax = extra_module("jax", "jax")

        def taken(each: Any) -> Any:
            if not isinstance(each, jax.Array):
                return each[batch]
            whole = jax.sharding.NamedSharding(jax.typeof(each).sharding.mesh, jax.P())
            return jax.sharding.auto_axes(lambda rows: rows[batch], out_sharding=whole)(each)

        return arguments_of(jax.tree.map(taken, self._data))

    def identity(self) -> dict[str, Any]:
        """Types, shapes, a digest of all numbers, and the names of the parts unless they are a tuple of arrays."""
        found = of_arrays(tuple(each for _, each in self._named))
        plain = isinstance(self._data, tuple) and all(map(_is_array, self._data))
        return {**found, "data parts": None if plain else ", ".join(name for name, _ in self._named)}


def arguments_of(row: Any) -> tuple[Any, ...]:
    """A row, or several ones, as arguments of the loss: a tuple stands for several, any other tree for one."""
    return tuple(row) if isinstance(row, tuple) else (row,)


def leaves_of(name: str, tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree with their names, such as ``data['image']``; a list is a leaf."""
    util = extra_module("jax.tree_util", "jax")
    found, _ = util.tree_flatten_with_path(tree, is_leaf=lambda each: isinstance(each, list))
    return [(name + util.keystr(place), each) for place, each in found]


def of_item(loss: Callable[..., Any], item: Callable[[Any], Any] | None, data: Any, *, keyed: bool) -> Any:
    """The loss of a row of ``data``, which ``item`` maps first; where ``keyed``, its last argument is a key."""
    if item is None:
        return loss
    several = isinstance(data, tuple)

    def of_row(parameters: Any, *arguments: Any) -> Any:
        row, keys = (arguments[:-1], arguments[-1:]) if keyed else (arguments, ())
        return loss(parameters, *arguments_of(item(row if several else row[0])), *keys)

    return of_row


def _is_array(thing: Any) -> bool:
    return isinstance(thing, np.ndarray | extra_module("jax", "jax").Array)


def _in_words(thing: Any) -> str:
    return f"{thing.dtype} {tuple(thing.shape)}" if _is_array(thing) else type(thing).__name__


def _check_rows(name: str, each: Any) -> None:
    """Refuse a part of data that is not an array of numbers with the examples along the first axis."""
    if not _is_array(each):
        raise TypeError(
            f"{name} must be an array of NumPy or JAX with the examples along axis 0, got {_in_words(each)}: stack "
            "items into one array for each part, with numpy.stack; use numpy.asarray for tensors; read a Dataset or "
            "DataLoader into arrays first"
        )
    numbers = extra_module("jax.numpy", "jax")
    if not (numbers.issubdtype(each.dtype, np.number) or each.dtype == bool):
        raise TypeError(f"{name} must be an array of numbers, got {each.dtype}: encode it as numbers")
    if not each.ndim:
        raise ValueError(f"{name} must have the examples along axis 0, got a single number")
