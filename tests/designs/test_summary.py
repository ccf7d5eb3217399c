"""The summary of a design: the recommendation first, few lines, and the facts of report and page."""

from __future__ import annotations

from dataclasses import replace

import pytest

import corrnoise as cn
from corrnoise.designs.report import report
from corrnoise.theory.objectives.workloads import SGD
from tests.design_examples import CASES, made

MAX_LINES, MAX_CHARACTERS = 15, 1500


@pytest.mark.parametrize(
    "name", ["usual", *(pytest.param(one, marks=pytest.mark.slow) for one in CASES if one != "usual")]
)
def test_a_summary_is_short_and_starts_with_the_recommendation(name: str) -> None:
    design = made(name)
    text = str(design)
    assert text == design.summary()
    assert len(text.splitlines()) <= MAX_LINES
    assert len(text) <= MAX_CHARACTERS
    assert text.startswith(("Use this design", "Use DP-SGD with Poisson batches"))
    assert len(repr(design)) < 120
    said = " ".join(report(design, None).split())
    for name, fact in design.facts().items():
        assert f"{name}: {fact}" in said
        assert " ".join(fact.split()[:3]) in design._repr_html_()
    assert "design.run(size)" in text


@pytest.mark.parametrize(("epsilon", "first"), [(0.3, "Use DP-SGD with"), (8.0, "Use this design: it has")])
def test_the_recommendation_is_the_smaller_error(epsilon: float, first: str) -> None:
    """At the other budget the same design gets the other recommendation."""
    budget = cn.Budget(epsilon=epsilon, delta=1e-6)
    design = cn.design(budget, cn.Participation.single(24), SGD(batch_size=8), memory=1)
    assert design.dpsgd is not None
    assert design.recommendation.startswith(first)
    ratio = design.error / design.error_of(design.dpsgd)
    share = 1 - min(ratio, 1 / ratio)
    assert f"{share:.2%}" in design.recommendation
    other = replace(design, budget=cn.Budget(epsilon=2.4 / epsilon, delta=1e-6))
    assert not other.recommendation.startswith(first)
