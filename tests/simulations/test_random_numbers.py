"""What simulations take as ``rng``."""

import numpy as np
import pytest

from corrnoise.simulations.random_numbers import generator


def test_the_same_numbers_as_numpy_gives() -> None:
    expected = np.random.default_rng(5).standard_normal(9)
    for rng in (5, np.int64(5), np.random.SeedSequence(5), np.random.default_rng(5)):
        assert (generator(rng).standard_normal(9) == expected).all()
    assert (generator(None).standard_normal(9) != generator(None).standard_normal(9)).all()
    used = np.random.default_rng(5)
    assert generator(used) is used


@pytest.mark.parametrize(
    ("rng", "error"), [(-1, ValueError), ("a", TypeError), (1.5, TypeError), (True, TypeError), ([1, 2], TypeError)]
)
def test_anything_else_is_named(rng: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"rng must be an integer >= 0, a SeedSequence, a Generator or None, got "):
        generator(rng)
