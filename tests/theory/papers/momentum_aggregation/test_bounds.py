"""Bounds of gradient norms: known values, the counterexamples to printed bounds, and simulated momenta."""

from typing import Any

import pytest

from corrnoise.theory.papers.momentum_aggregation.bounds import BoundedTask
from corrnoise.theory.privacy import Budget

BUDGET = Budget(epsilon=1.0, delta=1e-5)
KNOWN = BoundedTask(10**5, 31, BUDGET)


def test_known_values():
    assert KNOWN.theorem_6_steps() == pytest.approx(2.17184e7, rel=1e-5)
    assert KNOWN.theorem_9_steps() == pytest.approx(4.70355e10, rel=1e-5)
    assert KNOWN.theorem_6(published=True) == pytest.approx(1.62201371, rel=1e-8)
    assert KNOWN.theorem_9(published=True) == pytest.approx(702.01382, rel=1e-7)
    assert KNOWN.theorem_9() > KNOWN.theorem_9(published=True)


def test_noise_bounds():
    run: dict[str, Any] = {"steps": 10**7, "alpha": 1e-5, "learning_rate": 1e-6}
    assert KNOWN.lemma_7(**run) < KNOWN.lemma_7(**run, published=True)
    run["steps"] = 1
    assert KNOWN.lemma_7(**run, published=True) == 0.0  # the printed bound; the noise is not 0
    with pytest.raises(ValueError, match=f"steps must be an integer >= {KNOWN.examples}, got 1"):
        KNOWN.lemma_7(**run)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BoundedTask(10**5, 31, Budget(epsilon=20.0, delta=1e-5)).theorem_6(), r"delta must lie in \(0, exp\("),
        (lambda: BoundedTask(2, 31, Budget(epsilon=1e-3, delta=1e-5)).theorem_9(), "examples must be so large"),
        (lambda: BoundedTask(10**5, 31, Budget(1.0)).theorem_6_steps(), "budget must be given by epsilon and delta"),
        (lambda: BoundedTask(0, 1, BUDGET), "examples must be an integer >= 2"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
