"""Maximal patterns against the enumeration of all sets of steps."""

import itertools

from hypothesis import given

from corrnoise.theory.participation import MinSep, Participation
from tests.strategies import participations
from tests.theory.test_participation import maximal_by_enumeration


@given(participations(most=9))
def test_patterns_are_the_maximal_admissible_sets(who):
    found = [pattern.tolist() for pattern in who.worst.patterns()]
    assert sorted(found) == maximal_by_enumeration(who)
    assert len(found) == who.worst.number_of_patterns() == who.worst.number_of_patterns(len(found))
    assert len(found) <= 1 or who.worst.number_of_patterns(len(found) - 1) > len(found) - 1
    if isinstance(who, MinSep):
        assert found == sorted(found)
    for i, j in itertools.product(range(who.steps), repeat=2):
        assert who.together(i, j) == any(i in pattern and j in pattern for pattern in found)


def test_a_pattern_too_few_is_noticed():
    closer = [pattern.tolist() for pattern in Participation.min_sep(7, 3, 3).worst.patterns()]
    assert maximal_by_enumeration(Participation.min_sep(7, 2, 3)) != closer
