"""What users hold compares with a copy of itself: every record in a design, with all arrays at any depth."""

import pickle
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.datasets import Table
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.numerics.records import Record
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from tests.design_examples import CASES, made
from tests.strategies import mechanisms, participations, regressions, workloads

QUICK = ("usual", "tree", "a problem", "convex")


def copied(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def within(thing: Any) -> Iterator[Record]:
    """The records in a record, also in its sequences and mappings, and the record itself."""
    if isinstance(thing, Record):
        yield thing
        thing = thing.arguments()
    if isinstance(thing, Mapping):
        thing = tuple(thing.values())
    for part in thing if isinstance(thing, tuple | list) else ():
        yield from within(part)


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow][name in QUICK :]) for name in CASES])
def test_all_records_of_a_design_equal_their_copies(name: str) -> None:
    design = made(name)
    found = list(within(design))
    assert {type(design).__name__, "Optimum", "Budget"} <= {type(one).__name__ for one in found}
    assert any(isinstance(one, Participation) for one in found)
    for one in found:
        assert one == copied(one)
        assert hash(one) == hash(copied(one))
        assert one != repr(one)


@pytest.mark.parametrize(("family", "memory"), [(None, 1), ("dense", None)])
def test_an_optimum_equals_its_copy(family: str | None, memory: int | None) -> None:
    found = list(within(optimise(SGD(), Participation.fixed_epochs(16, epochs=4), memory=memory, family=family)))
    assert any(isinstance(one, Certificate) and one.arrays for one in found) or family is None
    assert all(one == copied(one) and hash(one) == hash(copied(one)) for one in found)


@given(st.one_of(mechanisms(), regressions(), workloads(), participations()))
def test_mechanisms_problems_and_participations_equal_their_copies(thing: Record) -> None:
    assert thing == copied(thing)
    assert not thing != copied(thing)  # noqa: SIM202


def test_a_table_equals_its_copy() -> None:
    table = Table(np.ones((3, 2)), np.array(["a", "b", "c"]), ["x", "y"])
    assert table == copied(table)
    assert not table != copied(table)  # noqa: SIM202
    assert table != table._replace(targets=np.array(["a", "b", "d"]))
    assert table != tuple(table)
