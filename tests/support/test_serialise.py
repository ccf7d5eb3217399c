"""Records as plain data and back."""

import json
import math

import numpy as np
import pytest
from hypothesis import given

from corrnoise.support.serialise import by_name, digest, name_of, plain, rebuilt
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.product import NuFTRL
from tests.strategies import noises


@given(noises())
def test_a_record_is_rebuilt_from_its_description(noise):
    described = json.loads(json.dumps(plain(noise)))
    assert rebuilt(described, KINDS) == noise
    assert digest(described) == digest(plain(noise))


def test_numbers_that_are_not_finite_are_strings_that_float_understands():
    described = plain([math.inf, -math.inf, math.nan, np.float64(0.1), np.int64(3), np.array([1.0, math.inf])])
    assert described == ["inf", "-inf", "nan", 0.1, 3, [1.0, "inf"]]
    assert [float(text) for text in described[:2]] == [math.inf, -math.inf]


def test_the_digest_knows_values_and_not_the_order_of_keys():
    assert digest({"a": 1, "b": [2, 3]}) == digest({"b": [2, 3], "a": 1})
    assert digest({"a": 1}) != digest({"a": 1.5})


def test_a_class_keeps_its_first_name():
    class Renamed(NuFTRL):
        serialised_name = "NuFTRL"

    class Derived(Renamed):
        pass

    assert name_of(Renamed) == "NuFTRL"
    assert name_of(Derived) == "Derived"
    assert plain(Renamed(0.5)) == {"kind": "NuFTRL", "nu": 0.5}
    with pytest.raises(ValueError, match="different names"):
        by_name(NuFTRL, Renamed)


def test_what_cannot_be_described_or_rebuilt_is_refused():
    with pytest.raises(TypeError, match="made of numbers"):
        plain({"x": object()})
    with pytest.raises(ValueError, match="kind must be one of"):
        rebuilt({"kind": "Nonsense"}, KINDS)
    with pytest.raises(ValueError, match="kind must be one of"):
        rebuilt({"nu": 0.5}, KINDS)
