"""Records with arrays: equal, hashed, shown and rebuilt by the arguments that make them."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from corrnoise.theory.numerics.records import Record, record


@record
class Curve(Record):
    values: np.ndarray
    label: str = "x"


@record
class Other(Curve):
    """The same fields under another name."""


def test_equality_and_hash_are_by_value():
    one, same = Curve(np.array([1.0, 2.0])), Curve(np.array([1.0, 2.0]), "x")
    assert one == same
    assert hash(one) == hash(same)
    assert {one, same} == {one}


@pytest.mark.parametrize(
    "other",
    [
        Curve(np.array([1.0, np.nextafter(2.0, 3.0)])),
        Curve(np.array([1.0, 2.0]), "y"),
        Curve(np.array([[1.0, 2.0]])),
        Curve(np.array([1.0, 2.0, 0.0])),
        Other(np.array([1.0, 2.0])),
        (np.array([1.0, 2.0]), "x"),
        None,
    ],
)
def test_other_values_shapes_and_kinds_differ(other):
    assert Curve(np.array([1.0, 2.0])) != other


NESTED = (np.array([1.0, 2.0]), [np.array([3.0])], {"a": np.array([4.0])})


@record
class Nested(Record):
    parts: tuple


def nested(*changes: float) -> Record:
    """A record with arrays at three depths, each of which may be changed."""
    first, second, third = (*changes, 0.0, 0.0, 0.0)[:3]
    return Nested((NESTED[0] + first, [NESTED[1][0] + second], {"a": NESTED[2]["a"] + third}))


def test_arrays_within_sequences_and_mappings_are_compared():
    assert nested() == nested()
    assert hash(nested()) == hash(nested())
    assert len({nested(), nested(1.0), nested(0.0, 1.0), nested(0.0, 0.0, 1.0), Curve(NESTED[0].astype(int))}) == 5


def test_a_record_is_shown_and_rebuilt_by_its_arguments():
    record = Curve(np.array([0.1, 1 / 3]), "a'b")
    assert repr(record) == 'Curve(values=[0.1               , 0.3333333333333333], label="a\'b")'
    assert type(record)(**record.arguments()) == record
    assert "..." in repr(Curve(np.arange(100.0)))
    assert "\n" not in repr(Curve(np.arange(100.0)))


def test_fields_are_frozen():
    record = Curve(np.ones(1))
    with pytest.raises(FrozenInstanceError):
        record.label = "y"
    record._set(label="z")
    assert record.label == "z"


@record
class Findings(Record):
    values: np.ndarray
    by_name: dict[str, float]


def test_arrays_are_read_only_and_mappings_are_compared():
    mine = np.ones(2)
    record = Findings(mine, {"a": 1.0})
    with pytest.raises(ValueError, match="read-only"):
        record.values[0] = 2.0
    mine[0] = 1.0  # still the caller's own
    assert record == Findings(np.ones(2), {"a": 1.0})
    assert hash(record) == hash(Findings(np.ones(2), {"a": 1.0}))
    assert record != Findings(np.ones(2), {"a": 2.0})
