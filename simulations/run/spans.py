"""Spans: the coordinates of a flattened model that a shard holds, as rows (first coordinate, length).

A shard makes the noise of its coordinates and of no other, without communication, because a draw depends on its
coordinate alone (``draws``).  Vectors and memory of a shard have the coordinates in the order of its spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Shard: TypeAlias = tuple["Spans", NDArray[Any]]  #: spans, and arrays of their coordinates along the last axis
Spans: TypeAlias = NDArray[np.int64]  #: shape (m, 2)


def checked(spans: Iterable[tuple[int, int]] | None, size: int) -> Spans:
    """The spans of a model of ``size`` parameters as an array, not empty and apart; None for all of it."""
    found = np.array([(0, size)] if spans is None else [tuple(span) for span in spans], dtype=np.int64).reshape(-1, 2)
    rows = found[found[:, 0].argsort()]
    ends = rows.sum(axis=1)
    if (rows[:, 1] < 1).any() or (rows[:1, 0] < 0).any() or (ends[:-1] > rows[1:, 0]).any() or (ends > size).any():
        raise ValueError(
            f"spans must be disjoint pairs (first, length) with first >= 0 and length >= 1 within {size} parameters, "
            f"got {found.tolist()!r:.80}"
        )
    return found


def parts(spans: Spans, most: int) -> list[Spans]:
    """The same coordinates, cut into lists of spans of ``most`` coordinates each, the last of fewer."""
    starts = spans[:, 1].cumsum() - spans[:, 1]
    total = int(spans[:, 1].sum())
    places = np.union1d(np.arange(0, total, most), starts)
    at = np.searchsorted(starts, places, side="right") - 1
    pieces = np.stack([spans[at, 0] + places - starts[at], np.diff(places, append=total)], axis=1)
    return np.split(pieces, np.searchsorted(places, np.arange(most, total, most)))


def rectangle(shape: Sequence[int], offset: Sequence[int], local: Sequence[int], first: int = 0) -> Spans:
    """The spans of a rectangular shard of an array that starts at ``first``, in the order of the flattened shard.

    ``offset`` and ``local`` are the first index and the number of indices of the shard along each axis.
    """
    if 0 in local:
        return np.empty((0, 2), np.int64)
    strides = np.cumprod([1, *shape[:0:-1]])[::-1]
    cut = max((axis for axis, length in enumerate(local) if length != shape[axis]), default=0)
    starts = np.array([first + int(np.dot(offset, strides[: len(shape)]))])
    for axis in range(cut):
        starts = (starts[:, np.newaxis] + np.arange(local[axis]) * strides[axis]).reshape(-1)
    length = int(strides[cut]) * (local[cut] if len(local) else 1)
    return np.stack([starts, np.full_like(starts, length)], axis=1)


def tiled(shards: Iterable[Spans], size: int) -> None:
    """Refuse shards that do not have each of ``size`` coordinates exactly once."""
    spans = checked(np.concatenate([np.empty((0, 2), np.int64), *shards]), size)
    if (found := int(spans[:, 1].sum())) != size:
        raise ValueError(f"shards must have all {size} parameters, got {found}")


def gathered(shards: Iterable[Shard], spans: Spans, size: int) -> NDArray[Any]:
    """The values at the coordinates of ``spans``, shape (rows, coordinates), from shards that were cut in any way.

    They are read one after the other.  Shards that overlap or leave coordinates out are a ``ValueError``.
    """
    own = np.concatenate([np.arange(first, first + length) for first, length in [(0, 0), *spans.tolist()]])
    found = np.empty((0, 0))
    all_spans = []
    for given, values in shards:
        held = checked(given, size)
        all_spans.append(held)
        if len(all_spans) == 1:
            found = np.empty((len(values), own.size), values.dtype)
        if values.shape != (len(found), held[:, 1].sum()):
            raise ValueError(f"shards must have values of {len(found)} rows and their columns, got {values.shape}")
        order = held[:, 0].argsort()
        firsts, lengths = held[order].T
        columns = (held[:, 1].cumsum() - held[:, 1])[order]
        at = np.searchsorted(firsts, own, side="right") - 1
        inside = at >= 0
        inside[inside] = own[inside] < (firsts + lengths)[at[inside]]
        at = at[inside]
        found[:, inside] = values[:, columns[at] + own[inside] - firsts[at]]
    tiled(all_spans, size)
    return found
