"""Models of Flower as vectors, and the arrays of a checkpoint: records, dictionaries and lists of a strategy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.flower_nodes import EXTRA
from corrnoise.simulations.run.sums import MARGIN, Grid, add_truncated
from corrnoise.support import reading
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics.checks import Array


class Layout:
    """The names, shapes and types of the arrays of a model, which must hold finite floats."""

    def __init__(self, arrays: Any) -> None:
        found = {name: reading.array(each.data) for name, each in arrays.items()}
        for name, each in found.items():
            if each.dtype.kind != "f" or not np.isfinite(each).all():
                raise ValueError(
                    f"initial_arrays must hold finite floats, got {name!r} of {each.dtype}: send trained parameters "
                    "only, and use layers without counters, such as GroupNorm in place of BatchNorm"
                )
        self.parts = {name: (each.shape, each.dtype) for name, each in found.items()}
        self.edges = [0, *np.cumsum([each.size for each in found.values()], dtype=int).tolist()]
        if not self.size:
            raise ValueError("initial_arrays must hold at least one number, got none")

    @property
    def size(self) -> int:
        """The number d of parameters."""
        return int(self.edges[-1])

    def vector(self, arrays: Any) -> Array:
        """A model of these names, shapes and types as one vector of float64, not checked to be finite."""
        if set(arrays) != set(self.parts):
            raise ValueError(f"arrays must be {', '.join(self.parts)}, got {', '.join(map(str, arrays)):.200}")
        vector = np.empty(self.size)
        for (name, (shape, _)), (first, last) in zip(self.parts.items(), pairwise(self.edges), strict=True):
            values = reading.array(arrays[name].data)
            if values.shape != shape or values.dtype.kind != "f":
                raise ValueError(f"array {name!r} must be floats of shape {shape}, got {values.dtype}{values.shape}")
            vector[first:last] = values.reshape(-1)
        return vector

    def arrays(self, vector: Array) -> Any:
        """The ``ArrayRecord`` of a vector, with the types of the model."""
        flower = extra_module("flwr.app", EXTRA)
        found = {}
        for (name, (shape, dtype)), (first, last) in zip(self.parts.items(), pairwise(self.edges), strict=True):
            found[name] = flower.Array(np.asarray(vector[first:last].reshape(shape), dtype))
        return flower.ArrayRecord(found)


def add_clipped(update: Array, clip_norm: float, grid: Grid, total: NDArray[Any]) -> bool:
    """Add a clipped update of any float64 values to a sum of integers, in place; returns whether its norm is finite.

    An update without a finite norm is not added: it counts as zero.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        norm = float(np.linalg.norm(update))
    if not np.isfinite(norm):
        return False
    factor = min(1.0, MARGIN * clip_norm / norm) if norm else 1.0
    add_truncated(update[np.newaxis], np.array([factor / grid.unit]), total)
    return True


def flat(name: str, value: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a record, a dictionary or a list, named by its kind and their places; nothing for other values."""
    record = extra_module("flwr.app", EXTRA).ArrayRecord
    kind = "record" if isinstance(value, record) else "dict" if isinstance(value, dict) else "list"
    pairs = list(enumerate(value) if isinstance(value, list) else value.items() if hasattr(value, "items") else ())
    if kind == "record":
        pairs = [(key, each.numpy()) for key, each in pairs]
    if all(isinstance(each, np.ndarray | np.generic) for _, each in pairs):
        for number, (key, each) in enumerate(pairs):
            yield f"{name}/{kind}/{number}/{key}", np.asarray(each)


def trees(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The values of ``flat`` by their names."""
    flower = extra_module("flwr.app", EXTRA)
    found: dict[tuple[str, str], list[tuple[int, str, NDArray[Any]]]] = {}
    for path, each in arrays.items():
        name, kind, number, key = path.split("/", 3)
        found.setdefault((name, kind), []).append((int(number), key, each))
    trees: dict[str, Any] = {}
    for (name, kind), entries in found.items():
        entries.sort(key=lambda entry: entry[0])
        if kind == "list":
            trees[name] = [each for _, _, each in entries]
        else:
            tree = {key: each for _, key, each in entries}
            trees[name] = tree if kind == "dict" else flower.ArrayRecord({k: flower.Array(v) for k, v in tree.items()})
    return trees
