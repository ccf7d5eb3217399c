"""The contract of all participations, samplers that break it, and a stranger's sampler in every use."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation import (
    BallsInBins,
    BMinSep,
    CyclicPoisson,
    FixedEpochs,
    MinSep,
    Participation,
    Poisson,
    RedrawnBins,
    Reshuffled,
    Sampled,
    Single,
)
from tests.participation_contract import check

BUDGET = cn.Budget(epsilon=2.0, delta=1e-5)


@record
class Alternating(Sampled, door="alternating"):
    """Poisson sampling with one rate in even steps and another in odd ones."""

    even: float
    odd: float

    @property
    def worst(self) -> MinSep:
        return MinSep(self.steps, 1)

    @property
    def sampling_rate(self) -> float:
        odd = self.steps // 2
        return ((self.steps - odd) * self.even + odd * self.odd) / self.steps

    def rate(self, step: int) -> float:
        return self.odd if step % 2 else self.even

    def batch(self, step: int, examples: int, words: Any) -> np.ndarray:
        threshold = np.uint64(int(Fraction(self.rate(step)) * 2**64))
        return np.flatnonzero(words(b"take", step, examples) < threshold)

    def curve(self, strategy: Any, column_error: float) -> PoissonCurve:
        """A product over independent steps, each a subsampled Gaussian of the norm of its column."""
        if strategy.bands(self.steps) > 1:
            raise ValueError("strategy must have one band")
        norm = float(strategy.column_norms(self.steps).max()) + column_error
        least = float(strategy.column_norms(self.steps).min()) - column_error
        odd = self.steps // 2
        above, below = (
            (Factor(self.even, size, self.steps - odd), Factor(self.odd, size, odd)) for size in (norm, least)
        )
        return PoissonCurve(above, below, True, "alternating Poisson steps")


EVERY = [
    Single(6),
    MinSep(8, 3),
    FixedEpochs(12, period=3, secret=True),
    Reshuffled(12, period=4, secret=True),
    Poisson(6, 0.3),
    CyclicPoisson(7, period=2, rate=0.5),
    BallsInBins(7, period=3),
    RedrawnBins(7, period=3),
    BMinSep(4, period=2, rate=0.3),
    Alternating(6, 0.4, 0.1),
]


@pytest.mark.parametrize("who", EVERY, ids=lambda who: type(who).__name__)
def test_the_contract(who: Participation) -> None:
    check(who)


class Leaking(RedrawnBins):
    """(a): more steps than those of ``worst``."""

    @property
    def worst(self) -> FixedEpochs:
        return FixedEpochs(self.steps, period=self.period)


class WrongRate(CyclicPoisson):
    """(b)"""

    @property
    def sampling_rate(self) -> float:
        return self.rate


class AllTogether(Poisson):
    """(c): one word decides for all examples."""

    def batch(self, step: int, examples: int, words: Any) -> np.ndarray:
        return np.arange(examples) if words(b"take", step, 1)[0] < np.uint64(self.rate * 2**64) else np.arange(0)


class Optimistic(Poisson):
    """(d): the curve of a tenth of the rate."""

    def curve(self, strategy: Any, column_error: float) -> Any:
        return Poisson(self.steps, self.rate / 10).curve(strategy, column_error)


@pytest.mark.parametrize(
    ("who", "broken"),
    [
        (Leaking(7, period=3), r"\(a\)"),
        (WrongRate(7, period=2, rate=0.5), r"\(b\)"),
        (AllTogether(6, 0.3), r"\(c\)"),
        (Optimistic(6, 0.3), r"\(d\)"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Participation) else "",
)
def test_a_broken_contract_is_noticed(who: Participation, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        check(who)


def test_a_strangers_sampler_needs_no_other_line() -> None:
    who = cn.Participation.alternating(12, 0.15, 0.05)  # type: ignore[attr-defined]
    independent = cn.mechanisms.DPSGD()
    multiplier = independent.program(who).multiplier(BUDGET)
    equal = independent.program(Alternating(12, 0.1, 0.1)).multiplier(BUDGET)
    assert equal == pytest.approx(independent.program(Poisson(12, 0.1)).multiplier(BUDGET), rel=1e-4)
    assert equal < multiplier < independent.program(who.worst).multiplier(BUDGET)
    assert cn.optimise(cn.SGD(), who, budget=BUDGET, memory=2).mechanism == independent
    design = cn.design(BUDGET, who, memory=2)
    assert design.participation == who
    order = cn.batches(who, examples=500)
    with cn.PrivateRun(BUDGET, who, independent, 3, batches=order) as run:
        sizes = [batch.size for batch in iter_batches(run)]
        assert run.multiplier == multiplier
    assert len(sizes) == 12
    assert sum(sizes[::2]) > sum(sizes[1::2])


def iter_batches(run: Any) -> Any:
    """The batches of a run that adds noise to nothing."""
    for batch in run:
        yield batch
        run.add_noise(np.zeros(3, np.float32))


def test_a_sampler_without_a_crowd_has_no_capacity() -> None:
    with pytest.raises(ValueError, match="capacity must be None for Alternating"):
        Alternating(6, 0.4, 0.1, capacity=3, examples=8).covering(cn.mechanisms.DPSGD())
