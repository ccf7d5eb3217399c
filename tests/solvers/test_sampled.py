"""Noise where batches are sampled: reference errors, estimates next to exact values, and other searches."""

import math

import numpy as np
import pytest

from corrnoise.solvers.families.toeplitz import square_root
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.sampled import (
    DPSGD_POISSON,
    MultiplierEstimator,
    best_groups,
    crossover,
    sampled_noises,
    samplers,
)
from corrnoise.theory.amplification.curve import DIRECTIONS
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.objectives.workloads import SGD, PrefixSums
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, Participation, Poisson
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression

RUN = SGD(batch_size=500)  # 60 000 examples in 10 epochs
STEPS, PERIOD = 1200, 120


def budget(epsilon: float, delta: float = 1e-6) -> Budget:
    return Budget(epsilon=epsilon, delta=delta)


def groups(p: int, steps: int = STEPS, period: int = PERIOD) -> Participation:
    return (
        Participation.cyclic_poisson(steps, period=p, rate=p / period)
        if p > 1
        else Participation.poisson(steps, 1 / period)
    )


def error_of(mechanism: Mechanism, participation: Participation, epsilon: float) -> float:
    """The error of prefix sums at δ = 1e-6, written out."""
    multiplier = mechanism.program(participation).multiplier(budget(epsilon))
    sums = np.cumsum(mechanism.noising_matrix(participation.length), axis=0)
    return multiplier * math.sqrt(float((sums**2).sum()) / participation.length)


@pytest.mark.parametrize(("epsilon", "expected"), [(0.5, 0.1217), (1, 0.0712), (2, 0.0479), (8, 0.0294)])
def test_dpsgd_with_poisson_batches(epsilon: float, expected: float) -> None:
    """Against a PLD accountant of other software."""
    found = optimise(RUN, groups(1), budget=budget(epsilon), family="independent noise")
    assert (found.label, found.memory, found.lower_bound) == (DPSGD_POISSON, 0, None)
    assert found.error_at(budget(epsilon)) == pytest.approx(expected, abs=6e-5)
    assert "none is computed" in found.lower_bound_summary()


@pytest.mark.parametrize(("p", "root"), [(2, 0.0442), (4, 0.0428), (8, 0.0430), (16, 0.0443)])
def test_bands_with_cyclic_poisson_batches(p: int, root: float) -> None:
    """The banded square root has the errors of other software, and no root or damped root of p bands is better."""
    who = groups(p)
    assert error_of(square_root(p), who, 2.0) / 500 == pytest.approx(root, rel=5e-3)
    found = optimise(RUN, who, budget=budget(2.0), family="banded Toeplitz")
    assert found.memory == p - 1
    assert found.error_at(budget(2.0)) == pytest.approx(error_of(found.mechanism, who, 2.0) / 500, rel=1e-9)
    assert found.error_at(budget(2.0)) < 0.97 * root


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "period", "p", "plain", "gain"),
    [(240, 120, 1, 8.9228, 0.99187), (1200, 120, 8, 18.9722, 0.96701), (500, 100, 7, 10.7597, 0.97672)],
)
def test_step_scales_gain_what_another_search_gains(steps: int, period: int, p: int, plain: float, gain: float) -> None:
    """With certified multipliers on both sides; blocks that straddle the turns of groups would lose some of it."""
    who = groups(p, steps, period)
    best = optimise(PrefixSums(steps), who, budget=budget(2.0))
    (reference,) = best.alternatives
    assert (best.variant, reference.variant) == ("step scales", "")
    without = reference.error_at(budget(2.0))
    assert without == pytest.approx(plain, rel=2.5e-3)
    assert best.error_at(budget(2.0)) / without == pytest.approx(gain, abs=2e-3)
    assert best.error_at(budget(2.0)) == pytest.approx(error_of(best.mechanism, who, 2.0), rel=1e-9)


@pytest.mark.slow
def test_no_other_step_scales_are_better() -> None:
    """Scales that differ by 10 percent in a block have a larger error, certified on both sides."""
    who = groups(4, 64, 16)
    best = optimise(PrefixSums(64), who, budget=budget(2.0))
    scaled = best.mechanism
    assert isinstance(scaled, ScaledNoise)
    assert scaled.step_scales is not None
    assert best.label == "banded Toeplitz, step scales, cyclic Poisson batches"
    values, blocks = np.unique(scaled.step_scales, return_inverse=True)
    assert values.size == 8
    assert np.all(np.diff(blocks[::4]) >= 0)
    assert np.all(scaled.step_scales.reshape(-1, 4) == scaled.step_scales[::4, np.newaxis])
    own = error_of(scaled, who, 2.0)
    assert own < 0.99 * error_of(scaled.noise, who, 2.0)
    for block in (0, 7):
        for factor in (0.9, 1.1):
            changed = np.where(blocks == block, factor, 1.0) * scaled.step_scales
            assert error_of(ScaledNoise(scaled.noise, changed), who, 2.0) > own


def test_the_estimate_of_two_bins_and_of_many() -> None:
    """Exact values of two bins (docs/amplification-proofs.md), and those of a Monte Carlo accountant for 128."""
    two = Participation.balls_in_bins(2, period=2)
    for epsilon, delta in ((1.0, 0.0592065010858927), (3.0, 0.000167702771411789)):
        judge = MultiplierEstimator(PrefixSums(2), two, budget(epsilon, delta))
        assert judge.multiplier(DPSGD()) == pytest.approx(1.0, rel=0.02)
        worse = MultiplierEstimator(PrefixSums(2), two, budget(epsilon, delta / 2))
        assert worse.multiplier(DPSGD()) > 1.04
    many = Participation.balls_in_bins(512, period=128)
    sums = PrefixSums(512)
    for noise, epsilon, expected in (
        (square_root(8), 5.28, 1.31),
        (NuFTRL(1 / 16), 1.2, 2.52),
        (NuFTRL(0), 3.15, 4.29),
    ):
        found = MultiplierEstimator(sums, many, budget(epsilon, 1e-5)).multiplier(noise)
        assert found == pytest.approx(expected, rel=0.03)


def test_the_ways_have_batches_of_the_same_mean_size() -> None:
    found = samplers(STEPS, PERIOD, 1 / PERIOD, 16)
    assert [type(one) for one in found] == [Poisson, *[CyclicPoisson] * 16, BallsInBins]
    for one in found:
        assert one.sampling_rate == pytest.approx(1 / PERIOD)
    assert [type(one) for one in samplers(STEPS, PERIOD, 1 / PERIOD, 0)] == [Poisson, BallsInBins]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "period", "memory", "epsilon", "best", "second"),
    [(500, 100, 16, 2.0, 8, 0.0011), (100, 100, 24, 8.0, 25, 0.0031)],
)
def test_every_number_of_groups_is_tried(
    steps: int, period: int, memory: int, epsilon: float, best: int, second: float
) -> None:
    """The best one is no power of two, and in one epoch of 100 steps neither is its neighbourhood good."""
    tried = [one for one in samplers(steps, period, 1 / period, memory) if isinstance(one, CyclicPoisson)]
    assert [one.period for one in tried] == list(range(2, memory + 2))
    near = [one for one in tried if one.period in (4, 7, 8, 9, 16, 20, 24, 25)]
    found = [optimise(RUN, one, budget=budget(epsilon), memory=memory, family="banded Toeplitz") for one in near]
    kept = best_groups(found, budget(epsilon))
    errors = sorted((one.error_at(budget(epsilon)), one.participation.worst.period) for one in kept)
    assert len(kept) == 2
    assert errors[0][1] == best
    assert errors[1][0] / errors[0][0] == pytest.approx(1 + second, abs=1e-4)


@pytest.mark.slow
def test_bins_are_searched() -> None:
    who = Participation.balls_in_bins(48, period=16)
    best = optimise(SGD(), who, budget=budget(4.0))
    assert best.memory >= 1
    own = best.error_at(budget(4.0))
    assert own == pytest.approx(error_of(best.mechanism, who, 4.0), rel=1e-9)
    for factor, noise in ((1.0, DPSGD()), (1.02, square_root(2)), (1.02, square_root(4))):
        sums = np.cumsum(noise.noising_matrix(48), axis=0)
        equal = own / factor / math.sqrt(float((sums**2).sum()) / 48)  # the multiplier with this error
        curve = noise.program(who).curve
        assert any(curve.delta(4.0, equal, direction).upper > 1e-6 for direction in DIRECTIONS)
    assert own < 1.02 * error_of(square_root(8), who, 4.0)
    nothing = optimise(SGD(), who, budget=budget(4.0), memory=0)
    assert (nothing.family, nothing.label) == ("independent noise", "DP-SGD, balls in bins")


def test_learning_is_judged_by_what_privacy_adds() -> None:
    problem = LinearRegression([1.0, 0.1], 0.2, batch_size=4)
    who = groups(4, 64, 16)
    found = optimise(problem, who, budget=budget(3.0))
    of = LearningObjective(problem, 64, weights="second half")
    scale = found.mechanism.program(who).multiplier(budget(3.0))
    noise = scale * found.mechanism.noising_matrix(64)
    expected = (0.2 / 4) ** 2 / 2 * float(np.trace(of.weight_matrix() @ noise @ noise.T))
    assert found.error_at(budget(3.0)) == pytest.approx(expected, rel=1e-9)
    assert found.error_at(Budget(epsilon=3.0, delta=1e-6, clip_norm=2.0)) == pytest.approx(4 * expected, rel=1e-9)


@pytest.mark.slow
def test_the_crossover_is_where_the_errors_are_equal() -> None:
    dpsgd = optimise(RUN, groups(1, 120, 12), budget=budget(2.0), family="independent noise")
    fixed = optimise(RUN, Participation.fixed_epochs(120, period=12), family="buffers", memory=2)
    for other in (optimise(RUN, groups(4, 120, 12), budget=budget(2.0)), fixed):
        epsilon = crossover(dpsgd, other, 1e-6)
        assert epsilon is not None
        below, above = budget(epsilon / 1.03), budget(epsilon * 1.03)
        assert dpsgd.error_at(below) < other.error_at(below)
        assert dpsgd.error_at(above) > other.error_at(above)
    assert crossover(dpsgd, dpsgd, 1e-6) is None


@pytest.mark.parametrize(
    ("participation", "options", "message"),
    [
        (groups(1), {}, "budget must be given by epsilon and delta where batches are sampled, got None"),
        (groups(1), {"budget": Budget(0.5)}, "use participation.worst"),
        (groups(1), {"budget": budget(1.0), "family": "buffers"}, "family must be made for Poisson batches"),
    ],
)
def test_bad_arguments_are_refused(participation: Participation, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optimise(RUN, participation, **options)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "epochs", "epsilon", "bands", "bins"),
    [(1000, 1, 2, 0.71, 0.42), (1000, 1, 8, 0.54, 0.30), (1000, 10, 2, 0.91, 0.76), (1000, 50, 2, 1.01, 0.94)],
)
def test_gains_of_100_000_examples(size: int, epochs: int, epsilon: float, bands: float, bins: float) -> None:
    """Errors over DP-SGD at δ = 1e-6: of square roots of p bands, and of bins by a Monte Carlo accountant."""
    period, asked = 100_000 // size, budget(epsilon)
    steps = epochs * period
    poisson, *cyclic, balls = samplers(steps, period, 1 / period, 64)
    unit = optimise(SGD(), poisson, budget=asked, family="independent noise").error_at(asked)
    several = [optimise(SGD(), one, memory=64, budget=asked, family="banded Toeplitz") for one in cyclic]
    best = min(one.error_at(asked) for one in several) / unit
    assert 0.85 * bands < best < 1.01 * bands
    sums = PrefixSums(steps)
    found = list(sampled_noises(sums, balls, asked, 1, {"BLT"}, lambda _: None))
    estimate = found[0].estimate * math.sqrt(found[0].mechanism.squared_error(sums)) / unit
    assert 0.9 * bins < estimate < 1.02 * bins
