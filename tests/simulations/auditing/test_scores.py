"""Bounds from scores: valid, near what they can find, and a verdict about a claim."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import corrnoise as cn
from corrnoise.simulations.auditing.scores import ScoreAudit, guesses
from tests.broken_loops import CLAIM


def scored(seed: int, mu: float, number: int = 2000, **options: Any) -> ScoreAudit:
    """An audit of one Gaussian mechanism."""
    rng = np.random.default_rng(seed)
    taken = rng.random(number) < 0.5
    return cn.audit_scores(rng.standard_normal(number) + mu * taken, taken, **{"delta": 1e-5, **options})


def test_bounds_are_ordered_and_near_the_truth() -> None:
    """The peer has 2.04, 2.01 and 2.00 for the Gaussian bound, and 1.88, 1.99 and 2.03 for independent scores."""
    found = [scored(seed, 1.1212418, 18048, level=1e-3) for seed in range(3)]
    assert [one.epsilon_gaussian for one in found] == pytest.approx([2.178, 2.425, 2.269], abs=1e-3)
    assert [one.epsilon for one in found] == pytest.approx([1.632, 1.787, 1.784], abs=1e-3)
    assert [one.epsilon_independent for one in found] == pytest.approx([2.279, 2.491, 2.366], abs=1e-3)
    assert all(one.mu < 1.1212418 for one in found)


@pytest.mark.parametrize(("sign", "known"), [(1, 2.0), (-1, 0.4)])
def test_few_canaries_are_recognised_at_one_end(sign: int, known: float) -> None:
    """Guesses about as many canaries at both ends find 0.4."""
    rng = np.random.default_rng(5)
    taken = rng.random(2000) < 0.5
    some = rng.random(2000) < 0.1
    scores = rng.standard_normal(2000) + 4 * (some & taken if sign > 0 else -1 * (some & ~taken))
    found = cn.audit_scores(scores, taken, delta=1e-5)
    assert found.epsilon_independent > 2
    assert found.epsilon_gaussian > 2
    assert found.epsilon > known


@pytest.mark.parametrize("together", [0.0, 1e-6, 1e-5, 1e-3])
@pytest.mark.parametrize("canaries", [2, 3, 31, 32, 1000, 18048])
def test_the_tests_share_the_level(together: float, canaries: int) -> None:
    """A loop that reveals so many coins at once does so with at most a quarter of the level of a test of both ends."""
    ranked = np.random.default_rng(6).random(canaries) < 0.5
    tests = guesses(ranked, 1e-3, together)
    assert sum(each for _, _, each in tests) == pytest.approx(1e-3, rel=1e-12)
    pairs = tests[:: 2 if together else 3]
    assert all(together * canaries / number <= each / 4 for number, _, each in pairs[1:])


@pytest.mark.slow
def test_independent_responses_exceed_the_truth_rarely() -> None:
    """Coins revealed with probability δ, otherwise randomised response: 250 audits at level 0.3.

    A mutant that gives each test the whole level fails about 127 times, one without δ always.
    """
    epsilon, delta = 0.4, 0.1
    failures = 0
    for seed in range(250):
        rng = np.random.default_rng((4, seed))
        taken = rng.random(300) < 0.5
        revealed = rng.random(300) < delta
        told = taken ^ (~revealed & (rng.random(300) > 1 / (1 + np.exp(-epsilon))))
        scores = (1 + 2 * revealed) * np.where(told, 1.0, -1.0) + 0.5 * rng.random(300)
        failures += cn.audit_scores(scores, taken, delta=delta, level=0.3).epsilon_independent > epsilon
    assert failures <= binom.isf(1e-6, 250, 0.3)


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


@pytest.mark.parametrize(("present", "known"), [(521, 4.507), (500, 5.203)])
def test_canaries_that_are_all_recognised(present: int, known: float) -> None:
    taken = np.arange(1000) < present
    found = cn.audit_scores(1.0 * taken, taken, delta=1e-5)
    assert found.epsilon == pytest.approx(known, abs=1e-3)
    assert found.epsilon < found.epsilon_gaussian


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
