"""Statements with a probability: exact confidence limits, and statements that hold too rarely are rejected."""

import numpy as np
import pytest
from scipy.stats import binom

from corrnoise.paper_checks.machinery.confidence import LEVEL, least_probability, margin_of_runs
from corrnoise.paper_checks.machinery.domains import linear
from tests.small_claims import claim


@pytest.mark.parametrize("runs", [50, 1000])
@pytest.mark.parametrize("share", [0.02, 0.3, 1.0])
def test_the_limit_is_that_of_clopper_and_pearson(runs, share):
    """At the limit so many violations or more have exactly the probability ``LEVEL``."""
    seen = int(share * runs)
    assert binom.sf(seen - 1, runs, least_probability(seen, runs)) == pytest.approx(LEVEL, rel=1e-6)
    assert least_probability(0, runs) == 0.0


def test_a_run_violates_a_statement_if_any_entry_does():
    runs = np.zeros((100, 3))
    runs[:60, 1] = 2.0
    runs[60, 0] = np.nan
    expected = least_probability(61, 100)
    assert margin_of_runs(runs, 1.0, 0.01, 0.0) == pytest.approx(0.01 / expected - 1)
    assert margin_of_runs(np.zeros((100, 3)), 1.0, 0.5, 0.0) == 1.0


def test_too_few_runs_are_refused():
    with pytest.raises(ValueError, match=r"^5 runs cannot show a probability above 0\.05"):
        margin_of_runs(np.zeros(5), 1.0, 0.05, 0.0)


def normal_quantile(p, seed, factor=1.0):
    """|x| <= factor sqrt(2 log(2/p)) with probability 1 − p for a standard normal x."""
    rng = np.random.default_rng(int(1e6 * seed))
    return np.abs(rng.standard_normal(4000)), factor * np.sqrt(2 * np.log(2 / p))


def simulated(**fields):
    domain = {"p": linear(0.01, 0.2), "seed": linear(0, 1)}
    mutants = [{"factor": 0.5}]
    return claim(normal_quantile, domain=domain, mutants=mutants, evaluations=16, evidence="simulated", **fields)


def test_a_statement_with_probability_is_checked_as_one():
    outcome = simulated(probability="p").check()
    assert outcome.agrees, outcome.reason
    assert not simulated().check().agrees  # without the probability a single run refutes


def test_what_is_refused():
    with pytest.raises(ValueError, match="probability must be an argument"):
        simulated(probability="factor")
