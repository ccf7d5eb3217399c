"""The order of writes, searched through: no fault where it is kept, and a fault for each way to get it wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulations.run.model import MUTANTS, Search, interleavings

RESTORE = ("restore", "cut")


@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({"steps": 3, "ahead": 1, "starts": 4}, 10_000),
        ({"steps": 3, "ahead": 2, "starts": 4}, 10_000),
        pytest.param(
            {"steps": 2, "ahead": 1, "crashes": 1, "tamperings": 1, "kinds": RESTORE}, 10**5, marks=pytest.mark.slow
        ),
        pytest.param(
            {"steps": 2, "ahead": 2, "crashes": 1, "tamperings": 1, "kinds": RESTORE}, 10**5, marks=pytest.mark.slow
        ),
        pytest.param(
            {"steps": 3, "ahead": 1, "crashes": 1, "tamperings": 1, "kinds": RESTORE}, 10**5, marks=pytest.mark.slow
        ),
        pytest.param(
            {"steps": 2, "ahead": 1, "crashes": 1, "tamperings": 1, "kinds": ("unlock", "copy")},
            10**4,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_order_of_writes_has_no_fault(options: dict[str, Any], states: int) -> None:
    search = Search(**options)
    assert search.run() > states
    assert search.faults == set()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_every_mutant_has_its_fault(mutant: str) -> None:
    fault, options = MUTANTS[mutant]
    search = Search(**{"mutant": mutant, **options})
    search.run(until=fault)
    assert fault in search.faults


def test_two_threads_on_one_object() -> None:
    """The lock covers check, note, making and finish; without it a thread notes what another is making."""
    assert interleavings(locked=True)[1] == set()
    assert "the same noise twice" in interleavings(locked=False)[1]
