"""Spans: the coordinates of a flattened model that a shard holds, as rows (first coordinate, length).

A shard makes the noise of its coordinates and of no other, without communication, because a draw depends on its
coordinate alone (``draws``).  Vectors and memory of a shard have the coordinates in the order of its spans.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Spans: TypeAlias = NDArray[np.int64]  #: shape (m, 2)


def checked(spans: Iterable[tuple[int, int]] | None, size: int) -> Spans:
    """The spans of a model of ``size`` parameters as an array; None for all of it.

    Raises
    ------
    ValueError
        A span is empty, leaves the model, or overlaps with another one.
    """
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
