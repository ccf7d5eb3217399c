"""The audit: what is right passes; halved noise, wrong multipliers and broken noise are each found by the right answer.

A right loop fails with probability 2e-7 at most.
"""

import math
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.audit import audit, stream_release

RHO = cn.gaussian_rho(5.0, 1e-5)
RUN: dict[str, Any] = {"steps": 80, "min_sep": 20, "max_participations": 4}
NOISE = cn.NuFTRL(0.02)
MULTIPLIER = cn.NoiseStream.private(NOISE, 1, rho=RHO, clip_norm=1.0, **RUN).scale
BANDS = np.array([np.ones(80), np.append(np.full(79, 0.4), 0.0)])
SIZES = {"canaries": 400, "idle": 200, "level": 1e-7}


def audited(release, noise=NOISE, **options):
    arguments = {"rho": RHO, "delta": 1e-5, "clip_norm": 1.0, "rng": 3, **RUN, **SIZES} | options
    return audit(release, noise, **arguments)


def stream(multiplier=MULTIPLIER, noise=NOISE, clip_norm=1.0, steps=80, rng=5):
    return stream_release(noise, noise_multiplier=multiplier, clip_norm=clip_norm, steps=steps, rng=rng)


def clipped_sums(batches):
    return np.array([(b / np.maximum(1, np.linalg.norm(b, axis=1, keepdims=True))).sum(axis=0) for b in batches])


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize(
    "noise",
    [NOISE, cn.DPSGD(), cn.FiniteNoise([1.0, -0.5]), cn.BandedNoise(BANDS)],
    ids=lambda noise: type(noise).__name__,
)
def test_what_is_as_claimed_passes(noise, adjacency):
    options = {"rho": RHO, "clip_norm": 1.0, "adjacency": adjacency, **RUN}
    multiplier = cn.NoiseStream.private(noise, 1, **options).scale
    found = audited(stream(multiplier, noise), noise, adjacency=adjacency)
    assert found.private_as_claimed
    assert found.noise_as_claimed
    assert 0.3 < found.epsilon_lower_bound < found.epsilon == pytest.approx(5.0, rel=1e-9)


def test_several_runs():
    found = audited(stream(), canaries=100, idle=50, runs=4)
    assert found.private_as_claimed
    assert found.noise_as_claimed
    assert any("runs" in test.name for test in found.noise)


def one_epoch():
    return cn.NoiseStream.private(NOISE, 1, rho=RHO, clip_norm=1.0, steps=80, max_participations=1).scale


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(lambda b: stream(MULTIPLIER / 2)(b), id="half the noise"),
        pytest.param(lambda b: stream(MULTIPLIER / 2, clip_norm=2.0)(b), id="twice the clip norm"),
        pytest.param(lambda b: stream(one_epoch())(b), id="the multiplier of one epoch"),
        pytest.param(lambda b: stream(1 / math.sqrt(2 * RHO))(b), id="the sensitivity forgotten"),
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
    parts = [np.array(list(cn.NoiseStream(NOISE, 600, steps=20, rng=rng, scale=MULTIPLIER))) for _ in range(4)]
    return clipped_sums(batches) + np.concatenate(parts)


def repeated_draws(batches):
    """The independent draws of an epoch come again in the next one."""
    draws = np.tile(np.random.default_rng(6).normal(size=(20, 600)), (4, 1))
    return clipped_sums(batches) + MULTIPLIER * NOISE.correlate(draws)


def one_draw_for_all_coordinates(batches):
    draws = np.random.default_rng(6).normal(size=(80, 1))
    return clipped_sums(batches) + MULTIPLIER * NOISE.correlate(draws)


@pytest.mark.parametrize(
    ("release", "name"),
    [
        (lambda b: stream(noise=cn.DPSGD())(b), "correlation of steps 1 apart"),
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
    assert audited(stream(noise=cn.DPSGD())).private_as_claimed


def test_the_same_seeds_give_the_same_audit():
    assert audited(stream()) == audited(stream())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"canaries": 3}, "canaries must be an integer >= 8"),
        ({"level": 1.5}, "level must lie"),
        ({"runs": 0}, "runs must be"),
        ({"max_participations": 9}, "max_participations"),
        ({"noise_multiplier": 0.0}, "noise_multiplier must lie"),
        ({"delta": 0.0}, "delta must lie"),
    ],
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        audited(stream(), **options)


def test_what_a_loop_must_return_and_which_noise_can_be_undone():
    with pytest.raises(
        ValueError, match=r"release must return finite numbers of shape \(80, 600\), got shape \(79, 600\)"
    ):
        audited(lambda b: stream()(b)[1:])
    with pytest.raises(ValueError, match="release must return finite numbers"):
        audited(lambda b: stream()(b) * math.nan)
    with pytest.raises(ValueError, match="as many draws"):
        audited(stream(), cn.BinaryTree(80, decoder="online"))
    with pytest.raises(ValueError, match="noise must have steps=80"):
        audited(stream(), NOISE)
