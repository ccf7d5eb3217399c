"""Replayed draws against dense matrices, all signs of gradients, programs that round, and mutants."""

import itertools
import math

import numpy as np
import pytest

from corrnoise.support.serialise import packed, unpacked
from corrnoise.theory.mechanisms import replays as kernels
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers, class_grams
from corrnoise.theory.numerics import rounding
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumSGD, PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression

SHAPES = [(6, 2, 1, 2), (10, 3, 2, 1), (13, 4, 2, 3), (7, 1, 2, 6), (9, 5, 3, 1), (8, 4, 0, 1)]  # n, b, d, r


def example(n, period, buffers, replays, seed=0, size=0.4):
    rng = np.random.default_rng(seed)
    outputs, inputs = rng.uniform(0.1, 0.6, (2, n, buffers))
    again = size * rng.normal(size=(replays, n))
    for e, row in enumerate(again, 1):
        row[: e * period] = 0
    decays = rng.uniform(0.3, 1, buffers)
    return TimeVaryingBuffers(decays, outputs, inputs, rng.uniform(0.5, 2, n), replays=again, period=period)


def dense(noise):
    """C⁰ and M by their definitions, entry by entry."""
    n = noise.steps
    buffers, replays = np.eye(n), np.eye(n)
    for s, t in itertools.combinations(range(n), 2):
        buffers[t, s] = sum(noise.outputs[t] * noise.decays ** (t - s - 1) * noise.inputs[s])
        e, rest = divmod(t - s, noise.period)
        if rest == 0 and e <= len(noise.replays):
            replays[t, s] = noise.replays[e - 1, t]
    return buffers, replays


def strategy(noise):
    buffers, replays = dense(noise)
    return np.linalg.inv(replays) @ buffers / noise.scales


def blocks(noise):
    columns = strategy(noise)
    gram = columns.T @ columns
    return [gram[q :: noise.period, q :: noise.period] for q in range(noise.period)]


def numbers(noise):
    return [np.array(each) for each in (noise.decays, noise.outputs, noise.inputs, noise.replays)]


# -- noise, errors and sensitivity -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_all_numbers_are_those_of_the_matrices(shape):
    n, period, _, r = shape
    noise, run = example(*shape), Participation.fixed_epochs(n, period=period)
    exact = strategy(noise)
    np.testing.assert_allclose(noise.strategy(), exact, atol=1e-12)
    np.testing.assert_allclose(noise.column_norms(), np.linalg.norm(exact, axis=0), rtol=1e-12)
    np.testing.assert_allclose(noise.noising_matrix() @ exact, np.eye(n), atol=1e-12)
    for workload in (PrefixSums(n), MomentumSGD(n, momentum=0.9), MatrixWorkload(np.vander(np.arange(n) / n, 3).T)):
        np.testing.assert_allclose(noise.errors(workload), MatrixNoise(exact).errors(workload), rtol=1e-10)
    learning = LearningObjective(LinearRegression([1.0, 0.5, 0.1], learning_rate=0.2), n)
    assert noise.squared_error(learning) == pytest.approx(MatrixNoise(exact).squared_error(learning), rel=1e-10)
    found = noise.bracket(run)
    signed = max(
        max(np.array(s) @ block @ np.array(s) for s in itertools.product([-1, 1], repeat=len(block)))
        for block in blocks(noise)
    )
    total = max(np.abs(block).sum() for block in blocks(noise))
    assert math.sqrt(signed) <= found.upper
    assert found.lower <= math.sqrt(total)
    assert found.value >= math.sqrt(signed) * (1 - 1e-12) or not found.exact
    assert found.exact == (found.upper <= found.value * (1 + 1e-9))
    assert noise.bracket(run).rounding < 1e-10
    assert (noise.memory(), noise.forms()) == (noise.decays.size, ("replayed buffers",))
    assert noise.program(run).replays == r


def test_values_of_another_program():
    ones = np.ones((6, 1))
    again = np.array([[0, 0, 0.4, 0.4, 0.4, 0.4], [0, 0, 0, 0, 0.2, 0.2]])
    noise = TimeVaryingBuffers([0.5], 0.3 * ones, 0.5 * ones, np.ones(6), replays=again, period=2)
    np.testing.assert_allclose(noise.strategy()[:, 0], [1, 0.15, -0.325, -0.0225, -0.05125, -0.011625], atol=1e-15)
    gram = noise.strategy().T @ noise.strategy()
    np.testing.assert_allclose(np.diag(gram)[::2], [1.131392953125, 1.12863125, 1.0225], rtol=1e-14)
    np.testing.assert_allclose(gram[[0, 0, 2], [2, 4, 4]], [-0.3114571875, -0.05299375, -0.328375], rtol=1e-13)
    assert math.sqrt(np.abs(gram[::2, ::2]).sum()) == pytest.approx(2.1605962320908088, rel=1e-14)
    run = Participation.fixed_epochs(6, period=2)
    assert noise.sensitivity(run) == pytest.approx(2.110972, abs=1e-6)
    assert math.sqrt(noise.errors(PrefixSums(6)).mean()) == pytest.approx(2.0004386683744846, rel=1e-14)
    again[0, 2:] = 0.9
    noise = TimeVaryingBuffers([0.5], 0.3 * ones, 0.5 * ones, np.ones(6), replays=again, period=2)
    assert noise.sensitivity(run) == pytest.approx(3.194927104508803, rel=1e-14)


ORDERS = [
    Participation.single(8),
    Participation.min_sep(8, 2, 3),
    Participation.reshuffled(8, period=2),
    Participation.fixed_epochs(8, period=4),
    Participation.fixed_epochs(8, period=2),
]


@pytest.mark.parametrize("who", ORDERS, ids=Participation.summary)
def test_a_run_in_any_order_is_charged_for_all_gradients(who):
    noise = example(8, 2, 2, 3)
    columns = strategy(noise)
    rng = np.random.default_rng(2)
    found = noise.bracket(who)
    reached = 0.0
    for pattern in who.patterns():
        for _ in range(30):
            gradients = rng.normal(size=(len(pattern), 2)) * [1, rng.integers(2)]
            gradients /= np.linalg.norm(gradients, axis=1, keepdims=True)
            reached = max(reached, np.linalg.norm(columns[:, list(pattern)] @ gradients))
    assert 0.9 * found.value <= reached <= found.upper


def test_a_long_run_in_another_order_is_charged_for_its_columns():
    noise = example(5000, 1250, 1, 1)
    run = Participation.min_sep(5000, 1250)
    assert noise.bracket(run).upper >= 2 * noise.bracket(Participation.fixed_epochs(5000, period=1250)).lower / 2
    assert noise.bracket(run).value <= math.sqrt((noise.column_norms() ** 2).sum())


# -- gradients ---------------------------------------------------------------------------------------------------------


def pairs(n, period, values):
    """``values`` without the pairs that are no steps or i > j."""
    k = values.shape[1]
    for t, e in itertools.product(range(n), range(k)):
        if e < t // period or t % period + e * period >= n:
            values[t, e] = 0
    return values


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_are_quotients_of_differences(shape):
    n, period, _, r = shape
    noise = example(*shape)
    rng = np.random.default_rng(1)
    mine, scales = numbers(noise), np.array(noise.scales)
    *found, products = class_grams(*mine, period)
    shares = pairs(n, period, rng.normal(size=products.shape))
    gradients = [np.zeros_like(each) for each in mine]
    kernels.class_grams_gradient(tuple(mine), period, tuple(found), shares, tuple(gradients))

    def of_classes(*values):
        return (shares * class_grams(*values, period)[-1]).sum()

    system = MomentumSGD(n, momentum=0.9).recursion()
    phi, gamma = np.array(system.transition[:, 0]), np.array(system.input[:, 0])
    slopes = rng.uniform(size=n)

    def of_errors(*values, gradients=None):
        theta, outputs, inputs, delta, again = values
        buffers, size = (theta, outputs, inputs, delta), theta.size + 2
        shared, errors = np.empty((r + 1, n)), np.empty(n)
        kernels.covariances_of_draws(again, period, shared)
        kept = (*np.empty((2, n, size, size)), np.empty((r, n, size)))
        kernels.group_errors(phi, gamma, buffers, period, shared, *kept, errors)
        if gradients is not None:
            of_shared = np.zeros_like(shared)
            kernels.group_gradient(phi, gamma, buffers, period, shared, kept, slopes, gradients[:4], of_shared)
            kernels.draws_gradient(again, period, of_shared, gradients[4])
        return slopes @ errors

    several = [*mine[:3], scales, mine[3]]
    of_several = tuple(np.zeros_like(each) for each in several)
    of_errors(*several, gradients=of_several)
    for function, arguments, claimed in ((of_classes, mine, gradients), (of_errors, several, of_several)):
        for place, gradient in enumerate(claimed):
            direction = rng.normal(size=gradient.shape)
            if place == len(arguments) - 1:
                direction *= arguments[place] != 0

            def along(step, place=place, direction=direction, function=function, arguments=arguments):
                return function(*(each + step * direction if k == place else each for k, each in enumerate(arguments)))

            difference = (along(1e-5) - along(-1e-5)) / 2e-5
            assert (gradient * direction).sum() == pytest.approx(difference, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("mutant", ["period", "no inverse", "no responses", "no replay in errors"])
def test_mutants_are_seen(mutant):
    noise = example(12, 3, 2, 2)
    theta, outputs, inputs, again = numbers(noise)
    gram = strategy(noise)
    exact = np.array([(gram[:, t] @ gram[:, t]) * noise.scales[t] ** 2 for t in range(12)])
    own = np.arange(12), np.arange(12) // 3
    if mutant == "no replay in errors":
        found = TimeVaryingBuffers(theta, outputs, inputs, noise.scales).errors(PrefixSums(12))
        assert np.abs(found / noise.errors(PrefixSums(12)) - 1).max() > 0.01
        return
    inverse, squares, responses, products = class_grams(theta, outputs, inputs, again, 3)
    np.testing.assert_allclose(products[own], exact, rtol=1e-13)
    if mutant == "no inverse":
        squares = np.einsum("te,te->te", inverse, inverse)
    if mutant == "no responses":
        products = products - np.einsum("tea,ta->te", responses, inputs)
    else:
        period_theta = theta**1.5 if mutant == "period" else theta
        kernels.class_grams(period_theta, outputs, inputs, 3, squares, responses, products)
    assert np.abs(products[own] / exact - 1).max() > 0.01


# -- programs ----------------------------------------------------------------------------------------------------------

COARSE = 2.0**-12


def strategy_as_run(noise, seed, unit=COARSE):
    """The strategy of a program whose operations are rounded by fixed factors; the sum has an order of its own."""
    n, period = noise.steps, noise.period
    rng = np.random.default_rng(seed)

    def r(values):
        return values * (1 + unit * (rng.choice([-1, 1]) if seed else 1))

    draws, states, made = np.eye(n), np.zeros((noise.decays.size, n)), []
    for t in range(n):
        terms = [r(-noise.outputs[t, i] * state) for i, state in enumerate(states)]
        terms += [r(a[t] * r(draws[t - e * period])) for e, a in enumerate(noise.replays, 1) if e * period <= t]
        y = draws[t]
        for place in rng.permutation(len(terms)):
            y = r(y + terms[place])
        states = np.array([r(r(noise.decays[i] * s) + r(noise.inputs[t, i] * y)) for i, s in enumerate(states)])
        states = states.reshape(-1, n)
        made.append(r(noise.scales[t] * y))
    return np.linalg.inv(np.array(made))


@pytest.mark.parametrize("who", ORDERS, ids=Participation.summary)
def test_no_rounding_exceeds_the_covered_sensitivity(who, monkeypatch):
    noise = example(8, 2, 2, 3, seed=3)

    def largest(seed, unit=COARSE):
        run = strategy_as_run(noise, seed, unit)
        return max(
            np.linalg.norm(run[:, list(pattern)] @ np.array(signs))
            for pattern in who.patterns()
            for signs in itertools.product([-1, 1], repeat=len(pattern))
        )

    exact = largest(0, 0.0)
    grown = max(largest(seed) for seed in range(12)) - exact
    monkeypatch.setattr(rounding, "UNITS", {"float64": COARSE, "float32": COARSE})
    monkeypatch.setattr(rounding, "_AT_THE_ENDS", 0)
    covered = noise.covered(who, "replayed buffers", "float64")[1] - noise.bracket(who).upper
    assert grown <= covered <= 200 * grown
    monkeypatch.setattr(rounding, "UNITS", {"float64": COARSE / 256, "float32": COARSE / 256})  # the mutant
    assert noise.covered(who, "replayed buffers", "float64")[1] - noise.bracket(who).upper < grown


def test_float32_costs_little():
    noise = example(24, 6, 2, 3)
    run = Participation.fixed_epochs(24, period=6)
    assert noise.program(run, "float32").sensitivity <= noise.sensitivity_upper_bound(run) * (1 + 1e-4)


def test_numbers_whose_rounding_is_not_bounded_are_refused():
    run, ones = Participation.fixed_epochs(24, period=1), np.ones((24, 1))
    again = np.array([[10.0 * (t >= e) for t in range(24)] for e in range(1, 24)])
    noise = TimeVaryingBuffers([1.0], ones, 10 * ones, np.ones(24), replays=again, period=1)  # C = 1 by cancellation
    assert noise.strategy_error() == math.inf
    with pytest.raises(ValueError, match="finite sensitivity"):
        noise.program(run, "float64")


# -- the record --------------------------------------------------------------------------------------------------------


def test_without_replays_nothing_changes():
    given = [0.5], [[0.1], [0.1]], [[0.1], [0.1]], [1.0, 1.0]
    noise = TimeVaryingBuffers(*given)
    assert list(noise.arguments()) == ["decays", "outputs", "inputs", "scales"]
    assert noise == TimeVaryingBuffers(*given, replays=np.empty((0, 2)), period=7)
    assert (noise.forms(), "replays" in repr(noise)) == (("time-varying buffers",), False)


def test_a_file_holds_replays(tmp_path):
    noise = example(13, 4, 2, 3)
    assert unpacked(packed(noise, KINDS, most_bytes=10**6), KINDS, name="file") == noise
    other = TimeVaryingBuffers(noise.decays, noise.outputs, noise.inputs, noise.scales)
    assert other != noise
    first = noise.leading(9)
    assert first.replays.shape == (2, 9)
    np.testing.assert_allclose(first.strategy(), noise.strategy()[:9, :9], atol=1e-14)
    assert noise.leading(3).forms() == ("time-varying buffers",)


@pytest.mark.parametrize(
    ("again", "period", "message"),
    [
        ([[0.1, 0.1, 0.1]], 1, "replays must be 0 where no draw is 1 steps earlier"),
        ([[0, 0.1]], 1, "replays must have shape"),
        ([[0, 2e3, 0]], 1, "replays must lie in"),
        ([[0, 0, 0]], 3, "replays must be fewer"),
        ([[0, 0, 0.1]], 0, "period must be"),
    ],
)
def test_replays_are_checked(again, period, message):
    ones = np.ones((3, 1))
    with pytest.raises(ValueError, match=message):
        TimeVaryingBuffers([0.5], ones, ones, np.ones(3), replays=again, period=period)
