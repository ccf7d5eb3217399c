"""Lower bounds of orders: below all noise, close to known values, and wrong with patterns that the order forbids."""

from __future__ import annotations

import numpy as np
import pytest

from corrnoise.solvers.certified import patterns
from corrnoise.solvers.certified.floor import floor
from corrnoise.solvers.certified.patterns import pattern_lower_bound
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation


@pytest.mark.parametrize(
    ("who", "largest", "known", "above"),  # a bound of another search, and the error of a strategy
    [
        (Participation.min_sep(20, 5, 3), False, 3.382645, 3.383295),
        (Participation.reshuffled(24, period=6), False, 4.166032, 4.166890),
        (Participation.min_sep(32, 8, 3), True, 3.919536, 3.920314),
        (Participation.fixed_epochs(64, period=16), True, 4.815165810, 4.815165811),
        pytest.param(Participation.min_sep(60, 6, 5), False, 6.059785, 6.1859, marks=pytest.mark.slow),
        pytest.param(Participation.reshuffled(64, period=16), False, 4.765811, 4.781874, marks=pytest.mark.slow),
    ],
)
def test_known_bounds(who, largest, known, above):
    sums = PrefixSums(who.length)
    found = pattern_lower_bound(LargestError(sums) if largest else sums, who) ** 0.5
    assert known * (1 - 4e-3) < found < above


@pytest.mark.parametrize("who", [Participation.min_sep(14, 4, 3), Participation.reshuffled(13, period=5)])
@pytest.mark.parametrize("merged", [64, 5])
def test_no_strategy_is_below(who, merged, monkeypatch):
    """Random weights take the strategy near to the optimum of the search, whose sensitivity is exact up to signs."""
    monkeypatch.setattr(patterns, "MERGED_STEPS", merged)
    sums = PrefixSums(who.length)
    squared, rigorous, _ = floor(sums, who)
    assert rigorous
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(sums.matrix() @ sums.matrix().T)  # a strategy A^½ and others near it
    values, vectors = np.linalg.eigh(root @ root.T)
    near = np.tril(np.linalg.qr((vectors * values**0.25) @ vectors.T, mode="r").T)
    for _ in range(10):
        noise = MatrixNoise(np.tril(near * (1 + 0.2 * rng.normal(size=near.shape))))
        assert squared < noise.bracket(who).upper ** 2 * noise.squared_error(sums)


@pytest.mark.parametrize("who", [Participation.min_sep(30, 7), Participation.reshuffled(30, period=7, count=3)])
@pytest.mark.parametrize("merged", [64, 9])
def test_patterns_belong_to_the_order(who, merged, monkeypatch):
    monkeypatch.setattr(patterns, "MERGED_STEPS", merged)
    run = patterns.MergedRun.of(who)
    found = patterns.PatternSearch(PrefixSums(30).matrix() @ run.columns(), run.alone(), largest=False).best()
    for pattern in found.dual.patterns:
        blocks = pattern[pattern < len(run.related)]
        assert blocks.size <= who.count
        for place in range(run.together):
            steps = [t for t in range(30) if run.place[t] == place and run.block[t] in blocks]
            assert all(i == j or who.related(i, j) for i in steps for j in steps)


def test_related_blocks_matter(monkeypatch):
    """The mutant relates all steps: its bound is above the optimum."""
    who = Participation.min_sep(20, 5, 3)
    of = patterns.MergedRun.of

    def related(order):
        run = of(order)
        return run._replace(related=~np.eye(len(run.related), dtype=bool))

    monkeypatch.setattr(patterns.MergedRun, "of", related)
    assert pattern_lower_bound(PrefixSums(20), who) ** 0.5 > 3.383295
