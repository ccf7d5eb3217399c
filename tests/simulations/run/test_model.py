"""The order of writes, searched through: no fault where it is kept, and a fault for each way to get it wrong."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulations.run.model import MUTANTS, Search, interleavings

SLOW = pytest.mark.slow
TAMPERED: dict[str, Any] = {"steps": 2, "every": 1, "crashes": 1, "tamperings": 1}


@pytest.mark.parametrize(
    ("options", "states"),
    [
        ({"steps": 3, "crashes": 1}, 4000),
        ({"steps": 3, "ahead": 2, "every": 2, "crashes": 1, "spoils": 1}, 8000),
        ({"steps": 2, "every": 1, "window": 2}, 8000),
        pytest.param({"steps": 3, "every": 2, "starts": 4}, 39_000, marks=SLOW),
        pytest.param({"steps": 3, "every": 1, "window": 2, "spoils": 1}, 60_000, marks=SLOW),
        pytest.param({**TAMPERED, "kinds": ("cut",)}, 40_000, marks=SLOW),
        pytest.param({**TAMPERED, "kinds": ("unlock", "copy")}, 100_000, marks=SLOW),
        pytest.param({**TAMPERED, "kinds": ("restore",), "starts": 2}, 100_000, marks=SLOW),
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


@pytest.mark.parametrize("kind", ["cut", "copy"])
def test_the_price_of_a_mark_that_is_not_synchronised_at_each_record(kind: str) -> None:
    """After a power failure it is older: a folder of one of the records since is not noticed then."""
    search = Search(steps=2, window=2, crashes=1, tamperings=1, kinds=(kind,))
    search.run(until="twice")
    assert "twice" in search.faults


def test_two_threads_on_one_object() -> None:
    """The lock covers check, note, making and finish; without it a thread notes what another is making."""
    assert interleavings(locked=True)[1] == set()
    assert "the same noise twice" in interleavings(locked=False)[1]
