"""Bounds from scores: valid, near what they can find, and a verdict about a claim."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import corrnoise as cn
from corrnoise.simulations.auditing.scores import ScoreAudit
from tests.broken_loops import CLAIM


def scored(seed: int, mu: float, number: int = 2000, **options: Any) -> ScoreAudit:
    """An audit of one Gaussian mechanism."""
    rng = np.random.default_rng(seed)
    taken = rng.random(number) < 0.5
    return cn.audit_scores(rng.standard_normal(number) + mu * taken, taken, **{"delta": 1e-5, **options})


def test_bounds_are_ordered_and_near_the_truth() -> None:
    """The peer has 2.04, 2.01 and 2.00 for the Gaussian bound, and 1.88, 1.99 and 2.03 for independent scores."""
    found = [scored(seed, 1.1212418, 18048, level=1e-3) for seed in range(3)]
    assert [one.epsilon_gaussian for one in found] == pytest.approx([2.362, 2.632, 2.464], abs=1e-3)
    assert [one.epsilon for one in found] == pytest.approx([1.632, 1.787, 1.784], abs=1e-3)
    assert [one.epsilon_independent for one in found] == pytest.approx([1.648, 2.333, 1.857], abs=1e-3)
    assert all(one.mu < 1.1212418 for one in found)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(300,), (2, 150)])
def test_the_truth_is_exceeded_with_probability_level_at_most(shape: tuple[int, ...]) -> None:
    """A mutant that gives each number of guesses the whole level fails more often; 300 audits at level 0.3."""
    failures = 0
    for seed in range(300):
        rng = np.random.default_rng((3, seed))
        taken = rng.random(shape) < 0.5
        scores = rng.standard_normal(shape) + 0.4 * taken
        failures += cn.audit_scores(scores, taken, delta=1e-5, level=0.3).mu > 0.4
    assert failures <= binom.isf(1e-6, 300, 0.3)


def test_scores_that_tell_nothing() -> None:
    taken = np.random.default_rng(1).random(500) < 0.5
    found = cn.audit_scores(np.zeros(500), taken, delta=1e-5, level=1e-6)
    assert (found.verdict, found.epsilon, found.mu, found.epsilon_gaussian) == ("nothing found", 0, 0, 0)
    perfect = cn.audit_scores(1.0 * taken, taken, delta=1e-5)
    assert 3.9 < perfect.epsilon < perfect.epsilon_gaussian


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (cn.Budget(epsilon=1.0, delta=1e-6), "epsilon = 1 at delta 1e-06"),
        (cn.Budget(0.05), "epsilon = 1.308 at delta 1e-05"),
        (CLAIM, "a Gaussian mechanism with mu = 1.121"),
    ],
)
def test_a_claim_is_refuted_or_not(claim: Any, words: str) -> None:
    broken = scored(1, 4.0, claim=claim)
    assert broken.verdict == "not private as claimed"
    assert str(broken).startswith("Not private as claimed: the canaries are recognised too often.\n")
    assert words in broken.report()
    assert scored(1, 0.1, claim=claim, level=1e-6).verdict == "nothing found"


@pytest.mark.parametrize(
    ("scores", "taken", "message"),
    [
        ([1.0, 2.0], [True], "taken must be an array of bool with the shape of scores"),
        ([1.0, 2.0], [1, 0], "taken must be an array of bool"),
        (np.ones((1, 2, 2)), np.ones((1, 2, 2), dtype=bool), "taken must be an array of bool"),
        ([1.0], [True], "taken must be an array of bool"),
        ([1.0, np.nan], [True, False], "scores must lie in"),
    ],
)
def test_wrong_scores(scores: Any, taken: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cn.audit_scores(scores, taken, delta=1e-5)
