"""Many claims: a few are checked here, many in processes."""

import os
from contextlib import contextmanager

import pytest

from corrnoise.paper_checks.machinery import running
from tests.small_claims import claim, small


def claims(count):
    paper = small()
    return [claim(lambda x: (x, x), "identity", f"Lemma {k}", paper, evaluations=8) for k in range(count)]


@pytest.mark.parametrize(
    ("count", "thorough", "jobs", "processes"),
    [
        (1, False, None, None),
        (running.FEW, False, None, None),
        (running.FEW + 1, False, None, 4),
        (3, True, None, 3),
        (1, True, None, None),
        (3, False, 2, 2),
        (3, False, 1, None),
        (3, False, 8, 3),
        (3, False, -1, 3),
        (100, False, 1, None),
    ],
)
def test_processes_are_for_many_claims_or_when_asked_for(count, thorough, jobs, processes, monkeypatch):
    asked = [None]

    @contextmanager
    def recorded(_work, found, number):
        asked[0] = number
        yield iter(enumerate(found))

    monkeypatch.setattr(running, "_in_processes", recorded)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    with running.outcomes(claims(count), thorough=thorough, jobs=jobs) as found:
        assert next(found)[0] == 0
    assert asked == [processes]


def test_outcomes_come_with_their_indices():
    chosen = claims(3)
    with running.outcomes(chosen) as found:
        assert [(index, outcome.claim, outcome.agrees) for index, outcome in found] == [
            (index, claim, True) for index, claim in enumerate(chosen)
        ]
