"""The search for time-varying buffers, against optima of any form, differences and the published ratios."""

import itertools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds, in_fixed_epochs
from corrnoise.solvers.families import time_varying
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.knots import Knots, graded
from corrnoise.solvers.families.time_varying import (
    MAX_BUFFERS,
    BufferPoint,
    LadderStage,
    best_time_varying,
    merged,
    shortest_stage,
    stages_of,
    time_varying_buffers,
)
from corrnoise.solvers.objectives import grouped
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.objectives.workloads import LargestError, MatrixWorkload, MomentumSGD, PrefixSums
from corrnoise.theory.participation import FixedEpochs, MinSep, Participation, Reshuffled, Single
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression

COOL = MomentumSGD(64, momentum=0.9, learning_rates=np.minimum(1, 4 * (64 - np.arange(64)) / 64))


def error(noise, objective, who):
    return noise.sensitivity_upper_bound(who) * np.sqrt(noise.squared_error(objective))


# -- what is found -----------------------------------------------------------------------------------------------------

ONCE, EPOCHS = Participation.single(64), Participation.fixed_epochs(64, epochs=4)


@pytest.mark.parametrize(
    ("work", "who", "optimum", "ratios"),
    [
        (PrefixSums(64), ONCE, 2.099856472, [1.0198, 1.0004, 1.0000]),
        (PrefixSums(64), EPOCHS, 4.407853385, [1.0595, 1.0416, 1.0412]),
    ],
)
def test_few_buffers_are_close_to_the_best_of_any_form(work, who, optimum, ratios):
    objective = work
    for noise, ratio in zip(time_varying_buffers(objective, who, [1, 2, 3]), ratios, strict=True):
        assert optimum * (1 - 1e-9) < error(noise, objective, who) < optimum * (ratio + 1e-4)
        assert noise.sensitivity(who) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_participations_an_epoch_apart_cost_little_more_than_a_fixed_order(exponent):
    """Noise for a fixed order has windows of its own; one that ends with an epoch alone would cost 3 percent."""
    apart, fixed = Participation.min_sep(128, 32), Participation.fixed_epochs(128, epochs=4)
    problem = LinearRegression(np.arange(1.0, 17) ** -exponent, learning_rate=0.02)
    objective = LearningObjective(problem, 128, weights="second half")
    of_fixed, of_apart = (best_time_varying(objective, who, 2) for who in (fixed, apart))
    least = error(of_fixed, objective, fixed)
    assert error(of_apart, objective, apart) < (1.002 + 0.003) * least  # found, and what processors may change
    assert error(of_fixed, objective, apart) > 1.005 * least


@pytest.mark.parametrize("work", [COOL, PrefixSums(64), PrefixSums(60)])
def test_levels_close_to_those_of_noise_for_a_fixed_order_have_nearly_its_error(work):
    run = LadderStage(work.recursion(), 16, FixedEpochs, 4)
    fixed, apart = (one.search(4.0) for one in (run, run._replace(order=MinSep)))
    levels = apart.saturation
    for point, *_ in shortest_stage(run, 2, ThreadPoolExecutor(1)):
        starts = levels.close_to(*fixed.strategy(point)), levels.start()
        close, far = (apart(point._replace(columns=columns))[0] - fixed(point)[0] for columns in starts)
        assert -1e-9 < close < 0.5 * far  # logarithms of squared errors


def test_every_class_of_steps_has_the_same_sensitivity():
    noise = best_time_varying(COOL, Participation.fixed_epochs(64, period=24), 2)
    gram = noise.strategy().T @ noise.strategy()
    assert [gram[np.ix_(range(r, 64, 24), range(r, 64, 24))].sum() for r in range(24)] == pytest.approx([1] * 24)


@pytest.mark.parametrize(
    ("who", "ratios"),
    [
        (Participation.min_sep(64, 16), [1.063, 1.046, 1.038]),
        # windows follow from either end
        pytest.param(Participation.min_sep(60, 16), [1.059, 1.042, 1.035], marks=pytest.mark.slow),
        # fewer participations than windows
        pytest.param(Participation.min_sep(64, 4, 4), [1.522, 1.437, 1.437], marks=pytest.mark.slow),
        pytest.param(Participation.reshuffled(64, epochs=4), [1.101, 1.093, 1.093], marks=pytest.mark.slow),
    ],
)
def test_buffers_are_found_for_every_order(who, ratios):
    """Ratios to the floor of fixed epochs, which is not that of all orders; noise for fixed epochs is worse."""
    objective = PrefixSums(who.length)
    fixed = in_fixed_epochs(who)
    optimum = fixed_epochs_bounds(PrefixSums(who.length), fixed, tolerance=1e-4).lower_bound
    for noise, ratio in zip(time_varying_buffers(objective, who, [1, 2, 3]), ratios, strict=True):
        assert error(noise, objective, who) < ratio * optimum
        assert noise.bracket(who).upper < 1 + 1e-9
    assert error(best_time_varying(objective, fixed, 3), objective, who) > (ratios[2] + 0.01) * optimum


@pytest.mark.slow
def test_the_largest_error_is_approached():
    objective = LargestError(PrefixSums(64))
    found = error(best_time_varying(objective, ONCE, 2), objective, ONCE)
    assert 2.111366655 < found < 2.1165  # γ_2, and 1.0024 times it
    of_means = error(best_time_varying(PrefixSums(64), ONCE, 2), objective, ONCE)
    assert of_means > 2.15  # the mutant minimises the mean


@pytest.mark.slow
def test_longer_runs_start_from_shorter_ones():
    objective, once = PrefixSums(5000), Participation.single(5000)
    assert error(best_time_varying(objective, once, 3), objective, once) < 3.47  # the floor is about 3.453


@settings(max_examples=200)
@given(st.integers(2, 10**7), st.integers(1, 2000))
def test_the_ladder_of_runs_ends(steps, epochs):
    """The shortest is short; each next one is longer, and the last is the run."""
    period = -(-steps // epochs)
    with mock.patch.object(time_varying, "merged", lambda system, period, shorter: system):
        runs = stages_of(LadderStage(mock.Mock(steps=steps), period, MinSep, epochs))
    periods = [run.period for run in runs]
    assert periods[-1] == period
    assert all(
        shorter < longer <= time_varying.LENGTH_RATIO * shorter for shorter, longer in itertools.pairwise(periods)
    )
    assert periods[0] <= max(math.ceil(time_varying.SHORT_STEPS * period / steps), time_varying.SHORT_EPOCH, 1)


@pytest.mark.slow
@pytest.mark.parametrize("epochs", [4, 50])
def test_long_runs_are_better_than_buffers_of_constant_numbers(epochs):
    who = Participation.fixed_epochs(20_000, epochs=epochs)
    objective = PrefixSums(20_000)
    found, plain = (error(best(objective, who, 4), objective, who) for best in (best_time_varying, best_buffers))
    assert found < 0.985 * plain


def best_and_mutant(steps, epochs, **mutant):
    """The errors of four buffers and of those that the mutant finds."""
    who, objective = Participation.fixed_epochs(steps, epochs=epochs), PrefixSums(steps)
    found = error(best_time_varying(objective, who, 4), objective, who)
    with mock.patch.multiple(time_varying, **mutant):
        return found, error(best_time_varying(objective, who, 4), objective, who)


@pytest.mark.slow
def test_the_decays_of_a_long_run_are_not_those_of_a_short_one():
    """In the mutant the shortest run alone has starts whose decays are equally spaced."""
    found, worse = best_and_mutant(100_000, 100, _spread=lambda point, period: [])
    assert found < 0.985 * worse


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runs", "mutant"),
    [
        ([(20_000, 100), (1024, 8)], {"SLOW_BUFFERS": 1}),  # one buffer alone may be the slowest
        ([(512, 32), (2000, 20)], {"KEPT_POINTS": 1}),  # the best decays of a short run are carried over alone
    ],
)
def test_searches_start_from_different_decays(runs, mutant):
    """In the mean of two runs, because a local search may end at the same place in one of them."""
    found, worse = np.log([best_and_mutant(*run, **mutant) for run in runs]).mean(axis=0)
    assert found < np.log(0.995) + worse


def test_the_progress_of_a_long_run_says_the_time_that_is_left():
    """Each search takes ten seconds here, and a longer one takes as much longer as it has more to do."""
    said: list[str] = []
    work = PrefixSums(100_000), Participation.fixed_epochs(100_000, epochs=4)
    clock = mock.patch.object(time_varying.time, "monotonic", side_effect=itertools.count(0, 10))
    with clock, mock.patch.object(time_varying, "lowest_points", lambda search, starts, pool, kept: starts[:kept]):
        next(time_varying_buffers(*work, [2], said.append))
    lines = [re.fullmatch(r"(\d+) steps of 100000, about (\d+) s left", line) for line in said]
    found = [one for one in lines if one]
    assert [int(one[1]) for one in found] == [1564, 6252, 25_000]
    assert said[0] == "1 of 2 arrays in 512 steps"  # the search of the shortest run tells of itself, too
    # 100 000 steps: 20 iterations for one point; 25 000: 36 for three.
    assert int(found[2][2]) == round(10 * (100_000 * 20) / (25_000 * 36 * 3))


def test_noise_for_learning_is_better_than_noise_for_prefix_sums():
    problem = LinearRegression(1 / np.arange(1, 9.0), learning_rate=0.1)
    objective = LearningObjective(problem, 64, weights="second half")
    found, other = (best_time_varying(one, EPOCHS, 2) for one in (objective, PrefixSums(64)))
    assert error(found, objective, EPOCHS) < 0.95 * error(other, objective, EPOCHS)


def test_a_matrix_is_no_linear_system():
    with pytest.raises(ValueError, match="objective must be a linear system"):
        best_time_varying(MatrixWorkload(np.eye(4)), Participation.single(4), 1)


# -- how it is found ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("memory", "replays", "ratio"), [(1, 3, 1.0135), (2, 3, 1.0015)])
def test_replays_approach_the_optimum_of_fixed_epochs(memory, replays, ratio):
    who = Participation.fixed_epochs(64, epochs=4)
    noise = best_time_varying(PrefixSums(64), who, memory, replays=replays)
    assert noise.replays.shape == (replays, 64)
    assert noise.bracket(who).exact
    assert noise.mean_error(who) <= ratio * 4.407853385
    dense = MatrixNoise(noise.strategy())
    assert noise.mean_error(who) == pytest.approx(dense.mean_error(who), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "epochs", "memory", "replays", "ratio", "floor"),
    [
        (64, 4, 2, 1, 1.0185, 4.407853385),
        (256, 4, 3, 3, 1.0025, 5.211944),
        (1024, 4, 3, 3, 1.005, 6.046593),
        (100, 10, 2, 9, 1.0025, 8.617995),
        (100, 20, 2, 3, 1.0225, 15.019868),
        (100, 20, 2, 19, 1.0025, 15.019868),
    ],
)
def test_replays_approach_the_optimum_of_longer_runs(steps, epochs, memory, replays, ratio, floor):
    who = Participation.fixed_epochs(steps, epochs=epochs)
    noise = best_time_varying(PrefixSums(steps), who, memory, replays=replays)
    assert noise.mean_error(who) <= ratio * floor


@pytest.mark.slow
def test_a_search_for_several_numbers_of_arrays_ends_where_more_gain_little():
    who = Participation.fixed_epochs(24, epochs=4)
    found = list(time_varying_buffers(PrefixSums(24), who, range(1, MAX_BUFFERS + 1), replays=3))
    errors = np.array([noise.mean_error(who) for noise in found])
    gains = -np.diff(np.log(errors))
    assert [noise.memory(24) for noise in found] == list(range(1, len(found) + 1))
    assert 3 <= len(found) < MAX_BUFFERS
    assert (gains[-2:] < 1.5e-3).all()
    assert len(list(time_varying_buffers(PrefixSums(24), who, [6], replays=3))) == 1  # a single number is made


def test_orders_without_classes_and_one_participation_have_no_replays():
    for who in (Participation.single(24), Participation.min_sep(24, 8), Participation.reshuffled(24, period=8)):
        assert best_time_varying(PrefixSums(24), who, 1, replays=3).forms() == ("time-varying buffers",)
    found = best_time_varying(PrefixSums(24), Participation.fixed_epochs(24, epochs=2), 1, replays=3)
    assert len(found.replays) == 1  # an epoch less


@pytest.mark.parametrize("power", [None, 8.0])
@pytest.mark.parametrize(
    ("order", "period", "limit"),
    [
        (FixedEpochs, 10, 7),
        ("replays", 10, 7),
        ("replays", 24, 3),
        (FixedEpochs, 24, 3),
        (Single, 64, 1),
        (MinSep, 16, 4),
        (MinSep, 24, 3),
        (MinSep, 6, 3),
        (Reshuffled, 24, 3),
        (Reshuffled, 16, 2),
    ],
)
def test_the_gradient_is_that_of_differences(order, period, limit, power):
    replays = 2 if order == "replays" else 0
    order = FixedEpochs if replays else order
    search = LadderStage(COOL.recursion(), period, order, limit, replays).search(4.0, power)
    search.saturation.smoothing = 0.01 * (replays > 0)
    rng = np.random.default_rng(0)
    knots = search.knots.matrix.shape[1]
    at, way = (
        BufferPoint(
            scale * rng.normal(size=2) - 2 * (1 - scale),
            scale * rng.normal(size=(knots, 4)) - (1 - scale),
            scale * rng.normal(size=(knots, replays)),
            rng.normal(size=search.saturation.start().shape),
        )
        for scale in (0.3, 1.0)
    )
    _, gradient = search(at)
    ends = [search(BufferPoint(*(x + h * y for x, y in zip(at, way, strict=True))))[0] for h in (1e-6, -1e-6)]
    parts = [float(np.sum(x * y)) for x, y in zip(gradient, way, strict=True)]
    assert sum(parts) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
    assert abs(parts[0] / sum(parts) - 1) > 0.01  # the mutant forgets the knots
    if order is not Single:  # where the saturation fixes the columns
        assert abs(parts[3] / sum(parts)) > 1e-4  # the mutant forgets the columns
    if replays:
        assert abs(parts[2] / sum(parts)) > 1e-3  # the mutant forgets the replays


def test_knots_are_graded_and_carried_between_runs():
    assert graded(17, 2.0).tolist() == [0, 1, 2, 4, 8, 12, 14, 15, 16]
    short, long = Knots.of(40, 10, 4.0), Knots.of(4000, 1000, 4.0)
    assert short.matrix.shape[0] == 40
    np.testing.assert_allclose(np.asarray(short.matrix.sum(axis=1)), 1.0)
    values = np.repeat(np.arange(4.0), short.places.size)[:, np.newaxis]
    carried = long.matrix @ short.carried(values, long)
    np.testing.assert_allclose(carried[:, 0], np.repeat(np.arange(4.0), 1000))
    assert Knots.of(10_000, 10, 2.0).matrix.shape[1] < 200  # epochs are graded too
    # The end of a short last epoch is a knot.
    assert 4.0 in Knots.of(25, 10, 2.0).places


def test_merged_prefix_sums_are_those_of_a_shorter_run():
    found = merged(PrefixSums(600).recursion(), 200, 50)
    np.testing.assert_allclose(found.gram(), PrefixSums(150).weight_matrix(), rtol=1e-12)


def test_merged_momentum_is_close_to_the_whole():
    work = MomentumSGD(400, momentum=0.5, learning_rates=np.linspace(1, 0.1, 400))
    whole = work.weight_matrix().reshape(100, 4, 100, 4).mean(axis=(1, 3))
    found = merged(work.recursion(), 400, 100).gram()
    assert np.abs(found - whole).max() < 0.1 * np.abs(whole).max()


def test_a_point_holds_what_is_searched():
    search = LadderStage(PrefixSums(20).recursion(), 20, Single, 1).search(2.0)
    knots = search.knots.matrix.shape[1]
    values, replays = np.zeros((knots, 2)), np.empty((knots, 0))
    noise = search.mechanism(BufferPoint(np.array([-2.0]), values, replays, np.zeros(knots)))
    np.testing.assert_allclose(noise.decays, np.exp(-np.exp(-2.0)))
    np.testing.assert_allclose(noise.outputs, 1.0)


def test_groups_of_close_rates_are_one_in_a_search():
    of = LearningObjective(LinearRegression(1 / np.arange(1.0, 101), 0.3), 64)
    few = grouped(of.recursion())
    assert few.weights.shape[1] <= 8
    np.testing.assert_allclose(few.weights.sum(), of.recursion().weights.sum(), rtol=1e-12)
    objective = of
    found = best_time_varying(objective, EPOCHS, 2)
    with mock.patch.object(time_varying, "grouped", lambda system: system):
        slow = best_time_varying(objective, EPOCHS, 2)
    assert error(found, objective, EPOCHS) < 1.005 * error(slow, objective, EPOCHS)
    for same in (PrefixSums(64).recursion(), COOL.recursion()):
        assert grouped(same) is same
