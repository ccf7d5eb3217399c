"""Batches: the steps of each example, counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.run.batches import Batches, batches
from corrnoise.theory.participation import MinSep, Participation


def ordered(*arguments: Any) -> Batches:
    """Batches of equal size."""
    found = batches(*arguments)
    assert isinstance(found, Batches)
    return found


EPOCHS = Participation.fixed_epochs(9, epochs=3)


def steps_of(made: Batches) -> list[list[int]]:
    """The steps of each example that takes part."""
    found: dict[int, list[int]] = {}
    for step in range(made.steps):
        batch = made.batch(step)
        assert len(set(batch.tolist())) == batch.size
        for example in batch.tolist():
            found.setdefault(example, []).append(step)
    return list(found.values())


@given(st.data(), st.integers(1, 40), st.integers(1, 5), st.integers(0, 5))
def test_every_example_of_a_fixed_order_keeps_its_promise(
    data: st.DataObject, examples: int, epochs: int, seed: int
) -> None:
    """Counted from the batches: how often and how far apart each example takes part."""
    size = data.draw(st.integers(1, examples))
    period = examples // size
    who = Participation.fixed_epochs(period * epochs, epochs=epochs)
    made = ordered(who, examples, size, seed)
    assert [made.batch(step).size for step in range(made.steps)] == [size] * made.steps
    found = steps_of(made)
    assert len(found) == examples - made.left_out == examples - examples % size
    assert {tuple(steps) for steps in found} == {tuple(map(int, pattern)) for pattern in who.worst.patterns()}


@pytest.mark.parametrize(
    "who",
    [
        Participation.single(7),
        Participation.min_sep(13, 4),
        Participation.min_sep(13, 4, 2),
        Participation.min_sep(13, 1),
        Participation.fixed_epochs(13, period=4, secret=True),
        Participation.reshuffled(13, period=4),
        Participation.min_sep(13, 4, members=2, unit="user"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("seed", range(3))
def test_every_kind_keeps_its_promise(who: Participation, seed: int) -> None:
    """Every example's steps lie in a pattern of the worst case, and the batches say that they are covered."""
    made = ordered(who, 31, 31 // (7 if who.once else 4) if not isinstance(who, MinSep) else 2, seed)
    assert made.participation.covered_by(who)
    allowed = [set(map(int, pattern)) for pattern in who.worst.patterns()]
    found = steps_of(made)
    assert all(any(set(steps) <= pattern for pattern in allowed) for steps in found)
    assert len(found) >= 2


def test_reshuffled_epochs_have_orders_of_their_own_and_come_closer_than_an_epoch() -> None:
    made = ordered(Participation.reshuffled(8, period=4), 20, 5, 0)
    assert not np.array_equal(made.batch(0), made.batch(4))
    assert min(b - a for a, b in steps_of(made)) < 4


def test_batches_that_do_not_divide_the_examples_say_so() -> None:
    left = ordered(EPOCHS, 11, 3, 0)
    assert (left.left_out, left.last_size, left.examples) == (2, 3, 11)
    assert "the last 2 of the order are left out of the run" in left.in_words()
    each = ordered(Participation.reshuffled(9, epochs=3), 11, 3, 0)
    assert "the last 2 of the order are left out of the epoch" in each.in_words()
    small = ordered(Participation.fixed_epochs(12, epochs=3), 11, 3, 0)
    assert (small.left_out, small.last_size) == (0, 2)
    assert [small.batch(step).size for step in range(12)] == [3, 3, 3, 2] * 3
    assert "the last batch of an epoch has 2" in small.in_words()
    assert len(steps_of(small)) == 11
    assert ordered(EPOCHS, 9, 3, 0).in_words() == "batches of 3 of 9 examples"


@pytest.mark.parametrize(
    ("orders", "size", "message"),
    [
        ([[0, 0, 1]], 1, "each of the numbers"),
        ([[1, 2, 3]], 1, "each of the numbers"),
        ([[0.0, 1.0, 2.0]], 1, "matrix of integers"),
        ([0, 1, 2], 1, "matrix of integers"),
        ([[0, 1, 2], [2, 1, 0]], 1, "orders must have 1 rows"),
        ([[0, 1, 2]], 4, "batch_size must be"),
        ([[0, 1, 2]], 0, "batch_size must be"),
        ([[0, 1, 2, 3]], 2, "batch_size must be smaller, got 2: 3 batches"),
    ],
)
def test_bad_orders_are_refused(orders: list, size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Batches(EPOCHS, orders, size)


def test_bad_participations_are_refused() -> None:
    with pytest.raises(ValueError, match="must be an order, got Poisson"):
        Batches(Participation.poisson(4, 0.1), [[0, 1, 2]], 1)
    with pytest.raises(ValueError, match="batch_size must be given"):
        ordered(EPOCHS, 10)
    with pytest.raises(ValueError, match="any length"):
        batches(Participation.single(), 10, 1)


def test_names_and_ends() -> None:
    made = ordered(EPOCHS, 7, 2, 3)
    assert np.array_equal(made.batch(8), made.batch(2))
    for step in (-1, 9):
        with pytest.raises(ValueError, match="step must be"):
            made.batch(step)
    assert made.identity == ordered(EPOCHS, 7, 2, 3).identity
    others = [
        ordered(EPOCHS, 7, 2, 4),
        Batches(EPOCHS, made.orders, 1),
        Batches(Participation.fixed_epochs(6, epochs=2), made.orders, 2),
    ]
    assert len({made.identity, *(each.identity for each in others)}) == 4
