"""The audit: what is right passes; halved noise, wrong multipliers and broken noise are each found by the right answer.

A right loop fails with probability 2e-7 at most.
"""

import math
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.audit import audit, stream_release
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

BUDGET = Budget(epsilon=5.0, delta=1e-5)
RUN = Participation.min_sep(80, 20)
NOISE = NuFTRL(0.02)
PROGRAM = NOISE.program(RUN, form="transform")
SCALE = PROGRAM.scale(BUDGET)
BANDS = np.array([np.ones(80), np.append(np.full(79, 0.4), 0.0)])
SIZES: dict[str, Any] = {"canaries": 400, "idle": 200, "level": 1e-7}


def audited(release, budget=BUDGET, program=PROGRAM, **options):
    return audit(release, budget, program, **{"rng": 3, **SIZES, **options})


def stream(budget=BUDGET, program=PROGRAM, rng=5):
    return stream_release(budget, program, rng=rng)


def with_noise(scale, program=PROGRAM, clip_norm=1.0, rng=5):
    """A loop whose noise has another scale than that of its program."""
    random = np.random.default_rng(rng)

    def release(batches):
        added = scale * np.array(list(Stream(program, batches[0].shape[1], rng=random)))
        return clip_norm * clipped_sums([batch / clip_norm for batch in batches]) + added

    return release


def clipped_sums(batches):
    return np.array([(b / np.maximum(1, np.linalg.norm(b, axis=1, keepdims=True))).sum(axis=0) for b in batches])


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize(
    "noise",
    [NOISE, DPSGD(), FiniteNoise([1.0, -0.5]), BandedNoise(BANDS), BinaryTree(80)],
    ids=lambda noise: type(noise).__name__,
)
def test_what_is_as_claimed_passes(noise, adjacency):
    budget = Budget(epsilon=5.0, delta=1e-5, clip_norm=2.0, adjacency=adjacency)
    program = streaming(noise, RUN)
    found = audited(stream(budget, program), budget, program)
    assert found.private_as_claimed
    assert found.noise_as_claimed
    assert 0.3 < found.epsilon_lower_bound < found.epsilon == pytest.approx(5.0, rel=1e-9)


def test_several_runs():
    found = audited(stream(), canaries=100, idle=50, runs=4)
    assert found.private_as_claimed
    assert found.noise_as_claimed
    assert any("runs" in test.name for test in found.noise)


ONE_EPOCH = NOISE.program(Participation.single(80), form="transform").scale(BUDGET)


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(lambda b: with_noise(SCALE / 2)(b), id="half the noise"),
        pytest.param(lambda b: with_noise(SCALE, clip_norm=2.0)(b), id="twice the clip norm"),
        pytest.param(lambda b: with_noise(ONE_EPOCH)(b), id="the multiplier of one epoch"),
        pytest.param(lambda b: with_noise(1 / math.sqrt(2 * BUDGET.gaussian_rho))(b), id="the sensitivity forgotten"),
    ],
)
def test_too_little_privacy_is_found(release):
    found = audited(release, canaries=1600, level=0.01)
    assert not found.private_as_claimed
    assert found.epsilon_lower_bound > 5
    assert "REFUTED epsilon >=" in found.report()


def lost_memory(batches):
    """The stream begins anew in each epoch."""
    rng = np.random.default_rng(6)
    epoch = NOISE.program(Participation.single(20), form="transform")
    parts = [np.array(list(Stream(epoch, 600, rng=rng))) for _ in range(4)]
    return clipped_sums(batches) + SCALE * np.concatenate(parts)


def repeated_draws(batches):
    """The independent draws of an epoch come again in the next one."""
    draws = np.tile(np.random.default_rng(6).normal(size=(20, 600)), (4, 1))
    return clipped_sums(batches) + SCALE * NOISE.noising(draws)


def one_draw_for_all_coordinates(batches):
    draws = np.random.default_rng(6).normal(size=(80, 1))
    return clipped_sums(batches) + SCALE * NOISE.noising(draws)


INDEPENDENT = DPSGD().program(RUN, "float64")


@pytest.mark.parametrize(
    ("release", "name"),
    [
        (lambda b: with_noise(SCALE, INDEPENDENT)(b), "correlation of steps 1 apart"),
        (lost_memory, "correlation of steps 1 apart"),
        (repeated_draws, "correlation of steps 20 apart"),
        (one_draw_for_all_coordinates, "correlation of neighbouring coordinates"),
        (lambda b: stream()(b) + 0.5, "mean"),
    ],
    ids=["correlation dropped", "memory lost", "draws repeated", "coordinates share draws", "shifted"],
)
def test_noise_that_is_not_as_claimed_is_found(release, name):
    found = audited(release)
    assert not found.noise_as_claimed
    assert not next(test for test in found.noise if test.name == name).passed


def test_a_seed_that_is_used_in_every_run_is_found():
    found = audited(lambda b: stream(rng=7)(b), canaries=100, idle=50, runs=2)
    assert [test.name for test in found.noise if not test.passed] == ["correlation of successive runs"]


def test_less_noise_correlation_is_not_less_private():
    """The matched filter of the claimed noise sees independent noise of the same multiplier as more private."""
    assert audited(with_noise(SCALE, INDEPENDENT)).private_as_claimed


def test_the_same_seeds_give_the_same_audit():
    assert audited(stream()) == audited(stream())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"canaries": 3}, "canaries must be an integer >= 8"),
        ({"level": 1.5}, "level must lie"),
        ({"runs": 0}, "runs must be"),
        ({"budget": Budget(0.5)}, "delta must be given for a budget of rho"),
        ({"program": DPSGD().program(Participation.single())}, "any length"),
        ({"program": BandedNoise(np.ones((1, 5000))).program(Participation.single(5000))}, "at most 4096 steps"),
        ({"delta": 0.0}, "delta must lie"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        audited(stream(), **options)


def test_what_a_loop_must_return():
    with pytest.raises(
        ValueError, match=r"release must return finite numbers of shape \(80, 600\), got shape \(79, 600\)"
    ):
        audited(lambda b: stream()(b)[1:])
    with pytest.raises(ValueError, match="release must return finite numbers"):
        audited(lambda b: stream()(b) * math.nan)


def test_the_program_that_is_claimed_is_what_counts():
    """A program for fewer participations claims less noise, and is refused by a loop of several."""
    once = NOISE.program(Participation.single(80), form="transform")
    assert isinstance(once, Program)
    assert audited(stream(program=once), program=once).private_as_claimed
    found = audited(stream(program=once), canaries=1600, level=0.01)
    assert not found.private_as_claimed
