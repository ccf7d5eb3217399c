"""Participation: patterns against enumeration, and the conventions of other libraries."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.participation import Participation, from_jax_privacy, from_tf_privacy
from tests.strategies import participations


def maximal_by_enumeration(who):
    """Admissible sets of steps of which no other admissible set is a superset."""
    n, b, k = who.steps, who.period, who.count
    admissible = [
        set(subset)
        for size in range(1, k + 1)
        for subset in itertools.combinations(range(n), size)
        if all(j - i >= b for i, j in itertools.pairwise(subset))
    ]
    if who.kind == "fixed epochs":
        admissible = [s for s in admissible if len({i % b for i in s}) == 1]
    return sorted(sorted(s) for s in admissible if not any(s < other for other in admissible))


@given(participations(most=9))
def test_patterns_are_the_maximal_admissible_sets(who):
    found = [pattern.tolist() for pattern in who.patterns()]
    assert sorted(found) == maximal_by_enumeration(who)
    assert len(found) == who.number_of_patterns() == who.number_of_patterns(len(found))
    assert len(found) <= 1 or who.number_of_patterns(len(found) - 1) > len(found) - 1
    if who.kind == "min-sep":
        assert found == sorted(found)


def test_a_pattern_too_few_is_noticed():
    who = Participation.min_sep(7, 2, 3)
    assert maximal_by_enumeration(who) != [
        p.tolist() for p in Participation.min_sep(7, 3, 3).patterns()
    ]


def test_largest_pattern_and_saturation():
    who = Participation.min_sep(12, 5, 2)
    assert who.largest.tolist() == [0, 5]
    assert not who.saturated
    assert Participation.min_sep(12, 5).saturated
    assert Participation.single(12).single
    assert [c.tolist() for c in Participation.single(5).residue_classes()] == [[0, 2, 4], [1, 3]]
    assert [c.tolist() for c in Participation.single(2).residue_classes()] == [[0], [1]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"min_sep": 4, "max_participations": 4}, r"at most ceil\(steps/min_sep\) = 3.*got 4"),
        ({"min_sep": 4, "max_participations": 2, "pattern": "fixed epochs"}, "must be .* = 3 in fixed epochs.*got 2"),
        ({"min_sep": 0}, "min_sep must be an integer >= 1, got 0"),
        ({"max_participations": 0}, "max_participations must be an integer >= 1, got 0"),
        ({"pattern": "poisson"}, "pattern must be one of 'min-sep', 'fixed epochs', got 'poisson'"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(ValueError, match=message):
        Participation(10, **arguments)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 50))
def test_conventions_of_other_libraries(n, b, k):
    """Both cut k to what fits; TensorFlow Privacy counts the steps in between."""
    ours = from_jax_privacy(n, min_sep=b, max_participations=k)
    assert (ours.steps, ours.min_sep, ours.count) == (n, b, min(k, -(-n // b)))
    assert from_tf_privacy(n, min_separation=b - 1, max_participation=k) == ours
    assert from_tf_privacy(n, min_separation=b, max_participation=k) != ours
    assert Participation.fixed_epochs(n * k, epochs=k) == Participation.fixed_epochs(n * k, period=n)
    with pytest.raises(ValueError, match="steps must be a multiple of epochs"):
        Participation.fixed_epochs(n * (k + 1) + 1, epochs=k + 1)
