"""Spans: their parts, those of rectangles, and values that are read from shards by coordinates."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.simulations.run.spans import Spans, checked, gathered, parts, rectangle, tiled


def covered(spans: Spans) -> np.ndarray:
    """The coordinates of spans, one by one."""
    return np.concatenate([np.arange(first, first + length) for first, length in [(0, 0), *spans.tolist()]])


@st.composite
def shards(draw: st.DrawFn, size: int = 60) -> list[Spans]:
    """All coordinates, cut into spans that go to up to four shards in any order."""
    ends = [0, *sorted(draw(st.sets(st.integers(1, size - 1), max_size=9))), size]
    rows = draw(st.permutations([(first, end - first) for first, end in pairwise(ends)]))
    holders = draw(st.lists(st.integers(0, 3), min_size=len(rows), max_size=len(rows)))
    return [
        np.array([row for row, holder in zip(rows, holders, strict=True) if holder == k]).reshape(-1, 2)
        for k in range(4)
    ]


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    most=st.integers(1, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=50)
def test_parts_are_the_same_coordinates_in_equal_pieces(lengths: list[int], most: int, seed: int) -> None:
    firsts = np.cumsum([0, *lengths[:-1]]) * 2
    rows = np.random.default_rng(seed).permutation(np.stack([firsts, lengths], axis=1))
    pieces = parts(rows, most)
    np.testing.assert_array_equal(np.concatenate([covered(piece) for piece in pieces]), covered(rows))
    assert [int(piece[:, 1].sum()) for piece in pieces[:-1]] == [most] * (len(pieces) - 1)
    assert 1 <= pieces[-1][:, 1].sum() <= most


@given(
    axes=st.lists(
        st.integers(1, 5).flatmap(
            lambda n: st.tuples(st.just(n), st.integers(0, n - 1)).flatmap(
                lambda axis: st.tuples(*map(st.just, axis), st.integers(0, axis[0] - axis[1]))
            )
        ),
        max_size=4,
    )
)
@settings(max_examples=200)
def test_spans_of_a_rectangle_are_its_coordinates_in_order(axes: list[tuple[int, int, int]]) -> None:
    shape, offset, local = zip(*axes, strict=True) if axes else ((), (), ())
    whole = np.arange(7, 7 + math.prod(shape)).reshape(shape)
    part = whole[tuple(slice(first, first + length) for _, first, length in axes)]
    np.testing.assert_array_equal(covered(rectangle(shape, offset, local, 7)), part.ravel())


def test_whole_axes_at_the_end_are_one_span() -> None:
    np.testing.assert_array_equal(rectangle((6, 5, 4), (2, 0, 0), (3, 5, 4)), [[40, 60]])
    np.testing.assert_array_equal(rectangle((2, 5, 4), (0, 1, 0), (2, 2, 4), 10), [[14, 8], [34, 8]])


@given(before=shards(), after=shards())
def test_values_are_read_by_coordinates(before: list[Spans], after: list[Spans]) -> None:
    whole = np.random.default_rng(0).normal(size=(3, 60))
    held = [(spans, whole[:, covered(spans)]) for spans in before]
    for spans in after:
        np.testing.assert_array_equal(gathered(iter(held), spans, 60), whole[:, covered(spans)])


@given(cut=shards())
def test_a_missing_or_doubled_shard_is_refused(cut: list[Spans]) -> None:
    held = [(spans, np.zeros((1, int(spans[:, 1].sum())))) for spans in cut if len(spans)]
    with pytest.raises(ValueError, match="shards must have all 60 parameters, got"):
        gathered(held[1:], np.array([[0, 1]]), 60)
    with pytest.raises(ValueError, match="spans must be disjoint"):
        gathered([*held, held[0]], np.array([[0, 1]]), 60)


def test_shards_of_other_shapes_are_refused() -> None:
    halves = np.array([[0, 3]]), np.array([[3, 3]])
    tiled(halves, 6)
    for other in (np.zeros((2, 3)), np.zeros((1, 2)), np.zeros(3)):
        with pytest.raises(ValueError, match="shards must have values of 1 rows"):
            gathered([(halves[0], np.zeros((1, 3))), (halves[1], other)], halves[0], 6)


@pytest.mark.parametrize(
    "wrong", [[(0, 11)], [(-1, 3)], [(0, 0)], [(0, 5), (4, 2)], [(4, 2), (0, 5)], [(2, 2), (2, 2)], [(3, -1)]]
)
def test_spans_that_overlap_or_leave_the_model_are_refused(wrong: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="spans must be disjoint pairs"):
        checked(wrong, 10)
