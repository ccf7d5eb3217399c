"""Audits of loops that draw their batches: honest ones pass, and each fault is found with its cause.

Seeds are fresh in each loop, as the auditor must not know them; an honest loop fails with probability 1e-6.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.audit import audit
from corrnoise.simulations.auditing.loops import AuditExamples
from corrnoise.simulations.auditing.plan import planned
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sampled import SampledBatches
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.auditing.findings import SAMPLED_TESTS, Audit
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, Participation, Poisson
from corrnoise.theory.privacy import Budget
from tests.broken_loops import MORE_THAN_CLAIMED, SMALL, WHOLE, clipped
from tests.simulations.run.sources import worst_case

BUDGET = Budget(epsilon=8.0, delta=1e-5)
NOISES: dict[str, tuple[Participation, Any]] = {
    "poisson": (Participation.poisson(30, 0.1), DPSGD()),
    "cyclic poisson": (Participation.cyclic_poisson(30, period=5, rate=0.5), BandedStrategyNoise([1.0, 0.5])),
    "balls in bins": (Participation.balls_in_bins(30, period=10), BandedStrategyNoise([1.0, 0.4, 0.2])),
    "redrawn bins": (Participation.redrawn_bins(30, period=10), DPSGD()),
}
OTHERS = "batches are not those of examples that draw for themselves (H2)"
AGAIN = "batches are related to those of another run or epoch: their secret is used again"
ELSEWHERE = "an example is in steps that its sampling does not have: drawn again?"


@pytest.fixture(autouse=True)
def _without_accountant() -> Iterator[None]:
    with worst_case(), mock.patch.object(os, "fsync", return_value=None):
        yield


class Loop:
    """An honest loop; subclasses are broken."""

    def __init__(self, kind: str) -> None:
        self.who, noise = NOISES[kind]
        self.program = noise.program(self.who)

    def sampler(self, examples: int) -> Any:
        return SampledBatches(self.who, examples).bound(self.key())

    def key(self) -> bytes:
        return secrets.token_bytes(32)

    def total(self, gradients: np.ndarray, size: float) -> np.ndarray:
        return clipped(gradients)

    def noise(self, drawn: np.ndarray, batch: np.ndarray) -> np.ndarray:
        return drawn

    def __call__(self, data: Sequence[AuditExamples]) -> np.ndarray:
        order = self.sampler(len(data[0]))
        stream = Stream(self.program, _width(data))
        scale = self.program.scale(BUDGET)
        released = []
        for step, (examples, drawn) in enumerate(zip(data, stream, strict=True)):
            batch = order.batch(step)
            released.append(self.total(examples[batch], order.batch_size) + self.noise(scale * drawn, batch))
        return np.array(released)


def _width(data: Sequence[AuditExamples]) -> int:
    return int(data[0][np.zeros(0, dtype=int)].shape[1])


class Mean(Loop):
    def total(self, gradients: np.ndarray, size: float) -> np.ndarray:
        return clipped(gradients) * size / max(len(gradients), 1)


class NoNoiseForEmpty(Loop):
    def noise(self, drawn: np.ndarray, batch: np.ndarray) -> np.ndarray:
        return drawn if batch.size else 0 * drawn


class Halved(Loop):
    def noise(self, drawn: np.ndarray, batch: np.ndarray) -> np.ndarray:
        return drawn / 2


class Whole(Loop):
    def total(self, gradients: np.ndarray, size: float) -> np.ndarray:
        return clipped(gradients.sum(axis=0, keepdims=True))


class Longer(Loop):
    def total(self, gradients: np.ndarray, size: float) -> np.ndarray:
        return clipped(gradients, 2.0)


class SameKey(Loop):
    def key(self) -> bytes:
        return bytes(32)


class TwiceTheRate(Loop):
    def sampler(self, examples: int) -> Any:
        assert isinstance(self.who, Poisson | CyclicPoisson)
        return SampledBatches(replace(self.who, rate=2 * self.who.rate), examples).bound(self.key())


class Redrawn(Loop):
    """Fixed bins that are drawn anew in each epoch."""

    def sampler(self, examples: int) -> Any:
        return SampledBatches(NOISES["redrawn bins"][0], examples).bound(self.key())


class Fixed(Loop):
    """Bins that are not drawn anew."""

    def sampler(self, examples: int) -> Any:
        return SampledBatches(NOISES["balls in bins"][0], examples).bound(self.key())


class Permuted(Loop):
    """A permutation that is cut into batches of equal size, anew in each epoch or not."""

    def sampler(self, examples: int) -> Any:
        size = max(1, round(examples / self.period))
        made = Participation.fixed_epochs if isinstance(self.who, BallsInBins) else Participation.reshuffled
        return batches(made(30, period=self.period), self.period * size, size)

    period = 10


def audited(loop: Any, kind: str, **options: Any) -> Audit:
    who, noise = NOISES[kind]
    return audit(loop, (BUDGET, noise.program(who)), idle=200, level=1e-6, rng=1, **options)


@pytest.mark.parametrize("kind", NOISES)
def test_an_honest_loop_passes(kind: str) -> None:
    found = audited(Loop(kind), kind)
    assert found.verdict == "nothing found", found.report()
    assert found.mu / 4 < found.mu_lower_bound < found.mu  # at least 8 standard deviations away, in 60 repetitions
    assert {test.name for test in found.tests} <= set(SAMPLED_TESTS)
    assert "to who knows the batches, a Gaussian mechanism" in found.report()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "kind", "cause"),
    [
        (Mean, "poisson", "sums are divided by the number of examples of the batch (H3)"),
        (Mean, "balls in bins", "sums are divided by the number of examples of the batch (H3)"),
        (NoNoiseForEmpty, "poisson", "a step with few examples, or none, gets no noise"),
        (NoNoiseForEmpty, "cyclic poisson", "a step with few examples, or none, gets no noise"),
        (Halved, "redrawn bins", SMALL),
        (Whole, "poisson", WHOLE),
        (Whole, "balls in bins", WHOLE),
        (Longer, "poisson", MORE_THAN_CLAIMED),
        (Longer, "cyclic poisson", MORE_THAN_CLAIMED),
        (SameKey, "poisson", AGAIN),
        (SameKey, "balls in bins", AGAIN),
        (SameKey, "redrawn bins", AGAIN),
        (TwiceTheRate, "poisson", "examples take part more often than claimed"),
        (TwiceTheRate, "cyclic poisson", "examples take part more often than claimed"),
        (Redrawn, "balls in bins", ELSEWHERE),
        (Fixed, "redrawn bins", AGAIN),
        (Fixed, "poisson", OTHERS),
        (Permuted, "poisson", OTHERS),
        (Permuted, "balls in bins", OTHERS),
        (Permuted, "redrawn bins", OTHERS),
    ],
)
def test_a_fault_is_found_with_its_cause(broken: type[Loop], kind: str, cause: str) -> None:
    found = audited(broken(kind), kind)
    assert found.verdict == "not private as claimed"
    assert found.cause.startswith(cause), found.report()


class Kept:
    """A sampled run in a folder, through crashes."""

    kind = "balls in bins"

    def begin(self, folder: Path) -> int:
        self.folder = folder
        self.run: PrivateRun | None = None
        return int((folder.parent / "position").read_text()) if (folder.parent / "position").exists() else 0

    def opened(self, examples: int, size: int) -> PrivateRun:
        who, noise = NOISES[self.kind]
        place = Folder(self.folder, marks=self.folder.parent / "marks", checkpoint_every=7)
        return PrivateRun(BUDGET, who, noise, size, batches=batches(who, examples), folder=place)

    def step(self, examples: AuditExamples) -> np.ndarray:
        if self.run is None:
            self.run = self.opened(len(examples), _width([examples]))
        batch = self.run.next_batch()
        noisy = self.run.add_noise(clipped(examples[batch]))
        (self.folder.parent / "position").write_text(str(self.run.position))
        return noisy


class KeyLost(Kept):
    """The batches come from another secret after each restart."""

    def opened(self, examples: int, size: int) -> PrivateRun:
        run = super().opened(examples, size)
        assert isinstance(run._batches, SampledBatches)
        run._batches = run._batches.bound(secrets.token_bytes(32))
        return run


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "cause"), [(Kept, ""), (KeyLost, ELSEWHERE)])
def test_bins_that_are_drawn_again_on_resume_are_found(loop: type[Kept], cause: str) -> None:
    found = audited(loop, "balls in bins", restarts=(4, 17))
    assert found.cause.startswith(cause), found.report()
    assert bool(found.cause) == bool(cause), found.report()


def test_refusals() -> None:
    cut = Participation.poisson(30, 0.1, capacity=60, examples=400)
    with pytest.raises(ValueError, match=r"claim must be .* without a capacity that batches exceed"):
        audit(Loop("poisson"), (BUDGET, DPSGD().program(cut)), idle=200)


def test_the_claim_may_be_a_run_with_room_for_its_batches() -> None:
    """``make_private`` gives a sampled run a capacity that no audit can see."""
    assert BUDGET.delta is not None
    roomy = Participation.poisson(30, 0.1).with_room(400, 1e-6 * BUDGET.delta)
    assert roomy.capacity is not None
    plan = planned((BUDGET, DPSGD().program(roomy)), 1, 0.0)
    assert plan.scale == pytest.approx(DPSGD().program(Participation.poisson(30, 0.1)).scale(BUDGET), rel=1e-5)
