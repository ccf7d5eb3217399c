"""The order of the data: who takes part when, counted."""

from __future__ import annotations

import numpy as np
import pytest
from corrnoise.simulations.training.order import FixedOrder, fixed_order
from hypothesis import given
from hypothesis import strategies as st


@given(st.data(), st.integers(1, 40), st.integers(1, 5), st.integers(0, 5))
def test_every_example_keeps_its_promise(data: st.DataObject, examples: int, epochs: int, seed: int) -> None:
    """Counted from the batches: how often and how far apart each example takes part."""
    order = fixed_order(examples, data.draw(st.integers(1, examples)), epochs, seed)
    steps_of: dict[int, list[int]] = {}
    for step in range(order.steps):
        batch = order.batch(step)
        assert len(set(batch.tolist())) == order.batch_size
        for example in batch.tolist():
            steps_of.setdefault(example, []).append(step)
    who = order.participation
    assert who.steps == order.steps
    assert len(steps_of) == examples - examples % order.batch_size
    patterns = {tuple(map(int, pattern)) for pattern in who.patterns()}
    assert {tuple(steps) for steps in steps_of.values()} == patterns


def test_a_reshuffled_order_would_break_it() -> None:
    """The same data in an order of its own in the second epoch: participations come closer than ``min_sep``."""
    first, second = fixed_order(20, 5, 1, 0), fixed_order(20, 5, 1, 1)
    last = {example: step for step in range(4) for example in first.batch(step).tolist()}
    apart = [4 + step - last[example] for step in range(4) for example in second.batch(step).tolist()]
    assert min(apart) < fixed_order(20, 5, 2, 0).participation.period


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0, 1], 1, 1), "each of the numbers"),
        (([1, 2, 3], 1, 1), "each of the numbers"),
        (([0.0, 1.0], 1, 1), "vector of integers"),
        (([], 1, 1), "vector of integers"),
        (([0, 1], 3, 1), "batch_size must be"),
        (([0, 1], 0, 1), "batch_size must be"),
        (([0, 1], 1, 0), "epochs must be"),
    ],
)
def test_bad_orders_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FixedOrder(*arguments)


def test_there_are_no_batches_after_the_last_step() -> None:
    order = fixed_order(7, 2, 3, 0)
    assert np.array_equal(order.batch(8), order.batch(2))
    for step in (-1, 9):
        with pytest.raises(ValueError, match="step must be"):
            order.batch(step)
