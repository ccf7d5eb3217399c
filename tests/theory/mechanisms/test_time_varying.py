"""Time-varying buffers against dense matrices, mpmath, every pattern of participation, and programs that round."""

import itertools
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.run.engines import engine, streaming
from corrnoise.theory.mechanisms import time_varying_gains
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.numerics import rounding
from corrnoise.theory.objectives.workloads import MatrixWorkload, MomentumAverage, MomentumSGD, PrefixSums
from corrnoise.theory.participation import FixedEpochs, Participation, Reshuffled
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import log_uniform, participations


def example(steps, buffers, seed=0):
    rng = np.random.default_rng(seed)
    decays = 1 - 0.5 ** np.arange(1, buffers + 1)
    outputs, inputs = rng.uniform(0.1, 0.8, (2, steps, buffers)) / buffers
    return TimeVaryingBuffers(decays, outputs, inputs, rng.uniform(0.5, 2.0, steps))


def published(steps, buffers):
    """The strategy of the reference values, with its columns."""
    t, j = np.arange(steps)[:, np.newaxis], np.arange(1, buffers + 1)
    outputs = 0.3 / j * (1 + 0.2 * np.cos(t / 7 + j))
    inputs = 0.5 * (1 + 0.3 * np.sin(t / 5 + 2 * j))
    return 1 - 0.5 / 4.0 ** (j - 1), outputs, inputs, 1 + 0.1 * np.cos(t[:, 0] / 3)


def dense(noise):
    """C by its definition, entry by entry."""
    n = noise.steps
    matrix = np.eye(n)
    for t, s in itertools.combinations(range(n), 2):
        matrix[s, t] = sum(noise.outputs[s] * noise.decays ** (s - t - 1) * noise.inputs[t])
    return matrix / noise.scales


@st.composite
def varying(draw, most=9):
    n, d = draw(st.integers(1, most)), draw(st.integers(0, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    decays = [draw(st.sampled_from([0.0, 1.0]) | st.floats(0, 1)) for _ in range(d)]
    size = draw(log_uniform(1e-3, 1e3))
    outputs, inputs = rng.uniform(0, 1, (2, n, d)) * rng.integers(0, 2, (2, n, d)) * size
    return TimeVaryingBuffers(decays, outputs, inputs, np.exp(rng.normal(size=n)))


# -- noise, strategy, errors -------------------------------------------------------------------------------------------


@given(varying())
def test_noise_and_strategy_are_those_of_the_definition(noise):
    exact = dense(noise)
    np.testing.assert_allclose(noise.strategy(), exact, rtol=1e-13)
    np.testing.assert_allclose(noise.column_norms(), np.linalg.norm(exact, axis=0), rtol=1e-12)
    if np.linalg.cond(exact) < 1e6:
        np.testing.assert_allclose(noise.noising_matrix() @ exact, np.eye(noise.steps), atol=1e-7)


def test_a_program_that_reads_new_buffers_has_another_strategy():
    noise = example(5, 2)
    z, made, states = np.eye(5), [], np.zeros((2, 5))
    for t in range(5):
        states = noise.decays[:, np.newaxis] * states + np.outer(noise.inputs[t], z[t])  # the mutant: updated first
        made.append(noise.scales[t] * (z[t] - noise.outputs[t] @ states))
    assert np.abs(np.array(made) @ noise.strategy() - np.eye(5)).max() > 0.05
    np.testing.assert_allclose(noise.noising_matrix() @ noise.strategy(), np.eye(5), atol=1e-14)


WORKLOADS = [
    PrefixSums(24),
    MomentumAverage(24, alpha=0.3),
    MomentumSGD(24, momentum=0.9, weight_decay=0.01, learning_rates=np.linspace(1.0, 0.1, 24)),
    MatrixWorkload(np.random.default_rng(1).normal(size=(3, 24))),
]


@pytest.mark.parametrize("buffers", [0, 1, 2, 3])
@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda one: type(one).__name__)
def test_errors_are_those_of_the_matrix(workload, buffers):
    noise = example(24, buffers)
    exact = MatrixNoise(dense(noise)).errors(workload)
    np.testing.assert_allclose(noise.errors(workload), exact, rtol=1e-11)
    assert noise.squared_error(workload) == pytest.approx(exact.mean(), rel=1e-12)


def test_the_power_in_learning_is_that_of_the_matrix():
    objective = LearningObjective(LinearRegression([1.0, 0.5, 0.1], learning_rate=0.2), 24)
    noise = example(24, 2)
    assert noise.squared_error(objective) == pytest.approx(
        MatrixNoise(dense(noise)).squared_error(objective), rel=1e-12
    )


@pytest.mark.parametrize(
    ("buffers", "largest", "prefix", "momentum"),
    [
        (1, 3.303316293268737, 12.983151866914612, 165.38010888415778),
        (2, 3.6260838841206504, 11.745028256043513, 147.2485819003083),
    ],
)
def test_values_of_another_program(buffers, largest, prefix, momentum):
    decays, outputs, inputs, columns = published(12, buffers)
    epochs = Participation.fixed_epochs(12, period=4)
    assert TimeVaryingBuffers(decays, outputs, inputs, 1 / columns).sensitivity(epochs) ** 2 == pytest.approx(largest)
    block = [sum_of(dense(TimeVaryingBuffers(decays, outputs, inputs, 1 / columns)), range(r, 12, 4)) for r in range(4)]
    saturated = TimeVaryingBuffers(decays, outputs, inputs, np.sqrt(np.array(block)[np.arange(12) % 4]) / columns)
    assert saturated.sensitivity(epochs) == pytest.approx(1, rel=1e-14)
    rates = np.minimum(1, 4 * (12 - np.arange(12)) / 12)
    workload = MomentumSGD(12, momentum=0.9, weight_decay=0.01, learning_rates=rates)
    assert saturated.errors(PrefixSums(12)).mean() == pytest.approx(prefix, rel=1e-13)
    assert saturated.errors(workload).mean() == pytest.approx(momentum, rel=1e-13)


# -- sensitivity -------------------------------------------------------------------------------------------------------


def sum_of(strategy, steps):
    block = strategy[:, list(steps)]
    return float((block.T @ block).sum())


def brute_force(noise, who):
    """The largest squared sum over all patterns; equal gradients are the worst as all entries are non-negative."""
    strategy = dense(noise)
    return math.sqrt(max(sum_of(strategy, pattern) for pattern in who.worst.patterns()))


@given(varying(), st.data())
def test_no_pattern_exceeds_the_sensitivity(noise, data):
    who = data.draw(participations(noise.steps).filter(lambda one: one.steps == noise.steps))
    found, truth = noise.bracket(who), brute_force(noise, who)
    assert found.lower <= truth <= found.upper
    if isinstance(who, FixedEpochs) or who.once:
        assert found.exact
        assert found.value == pytest.approx(truth, rel=1e-13)


def bounds(noise, who):
    """The bounds of long runs, without those of matrices."""
    n = noise.steps
    bases, slopes = np.empty(n), np.empty(noise.outputs.shape)
    columns = 1 / noise.scales
    time_varying_gains.gains(noise.decays, noise.outputs, noise.inputs, bases, slopes)
    fed = (noise.decays, noise.inputs, columns, bases, slopes)
    if isinstance(who, Reshuffled):
        return time_varying_gains.reshuffled_bound(*fed, who.period, who.count)
    return time_varying_gains.min_sep_bound(*fed, who.period, who.count, who.saturated)


@given(varying(), st.data())
def test_no_pattern_exceeds_the_bounds_of_long_runs(noise, data):
    kinds = ("min-sep", "reshuffled")
    who = data.draw(participations(noise.steps, kinds=kinds).filter(lambda one: one.steps == noise.steps))
    assert brute_force(noise, who) ** 2 <= bounds(noise, who) * (1 + 1e-12)


def test_fixed_epochs_do_not_bound_other_orders():
    decays, outputs, inputs, columns = published(20, 1)
    noise = TimeVaryingBuffers(decays, outputs, inputs, 1 / columns)
    who = Participation.min_sep(20, 4, 4)
    fixed = max(sum_of(dense(noise), range(r, 20, 4)[:4]) for r in range(4))
    assert brute_force(noise, who) ** 2 == pytest.approx(4.723011344775688, rel=1e-14)
    assert fixed < 4.72 < bounds(noise, who) < 4.757


@pytest.mark.parametrize("mutant", ["period", "no output", "no columns"])
def test_mutants_of_the_class_sums(mutant):
    noise = example(10, 2)
    columns = 1 / noise.scales
    bases, slopes = np.empty(10), np.empty((10, 2))
    given = 0 * noise.outputs if mutant == "no output" else noise.outputs
    time_varying_gains.gains(noise.decays, given, noise.inputs, bases, slopes)
    time_varying_gains.gains(noise.decays, noise.outputs, noise.inputs, bases, np.empty((10, 2)))
    found = np.empty(3)
    decays = noise.decays ** (1.5 if mutant == "period" else 1.0)
    fed = np.ones(10) if mutant == "no columns" else columns
    time_varying_gains.class_sums(decays, noise.inputs, fed, bases, slopes, 3, np.empty((10, 2)), found)
    truth = noise.sensitivity(Participation.fixed_epochs(10, period=3)) ** 2
    assert abs(found.max() / truth - 1) > 0.01


@pytest.mark.parametrize("decay", [1 - 2.0**-50, 0.5])
def test_long_runs_agree_with_forty_digits(decay):
    n, period = 600, 150
    noise = TimeVaryingBuffers([decay], np.full((n, 1), 1e-8), np.linspace(1e8, 1, n)[:, np.newaxis], np.full(n, 1e-3))
    with mpmath.workdps(40):
        largest = mpmath.mpf(0)
        for r in (0, period - 1):
            state = total = mpmath.mpf(0)
            for t in range(n):
                value = state * mpmath.mpf(1e-8)
                state *= mpmath.mpf(decay)
                if t % period == r:
                    value += 1
                    state += mpmath.mpf(noise.inputs[t, 0])
                total += value**2
            largest = max(largest, total / mpmath.mpf(1e-3) ** 2)
        exact = mpmath.sqrt(largest)
        found = noise.bracket(Participation.fixed_epochs(n, period=period))
        assert found.lower <= exact <= found.upper
        assert found.value == pytest.approx(float(exact), rel=1e-12)


# -- programs ----------------------------------------------------------------------------------------------------------

COARSE = 2.0**-9


def strategy_as_run(noise, pattern, unit=COARSE):
    """The strategy of the program with every operation rounded by ``unit``; None is the worst pattern of errors."""
    signs = np.random.default_rng(pattern)

    def r(value, way):
        return value * (1 + unit * (way if pattern is None else signs.choice([-1, 1])))

    columns = []
    for z in np.eye(noise.steps):
        signs = np.random.default_rng(pattern)
        states, made = [0.0] * noise.decays.size, []
        for t in range(noise.steps):
            y = float(z[t])
            for i, state in enumerate(states):
                y = r(y - r(noise.outputs[t, i] * state, 1), -1)
            states = [
                r(r(noise.decays[i] * state, 1) + r(noise.inputs[t, i] * y, 1), 1) for i, state in enumerate(states)
            ]
            made.append(r(noise.scales[t] * y, -1))
        columns.append(made)
    return np.linalg.inv(np.array(columns).T)


RUNS = [Participation.single(8), Participation.fixed_epochs(8, period=3), Participation.min_sep(8, 3, 2)]


@pytest.mark.parametrize("who", RUNS, ids=Participation.summary)
def test_no_rounding_exceeds_the_covered_sensitivity(who, monkeypatch):
    noise = example(8, 2, seed=3)

    def largest(pattern):
        run = strategy_as_run(noise, pattern)
        return math.sqrt(max(sum_of(np.abs(run), steps) for steps in who.worst.patterns()))

    found = [largest(pattern) for pattern in (None, *range(20))]
    assert noise.sensitivity_upper_bound(who) < found[0] == max(found)
    monkeypatch.setattr(rounding, "UNITS", {"float64": COARSE, "float32": COARSE})
    covered = noise.covered(who, "time-varying buffers", "float64")[1] / (1 - COARSE) ** -4  # of the ends
    assert found[0] <= covered <= 1.1 * found[0]
    monkeypatch.setattr(rounding, "UNITS", {"float64": COARSE / 2, "float32": COARSE / 2})  # the mutant
    assert noise.covered(who, "time-varying buffers", "float64")[1] / (1 - COARSE / 2) ** -4 < found[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stream_makes_the_noise(dtype):
    noise = example(40, 3)
    program = noise.program(Participation.fixed_epochs(40, epochs=4), dtype)
    made = np.empty((40, 7), dtype)
    draws = np.random.default_rng(0).normal(size=made.shape)
    running = engine(program, 7)
    for t, row in enumerate(made):
        running.step(lambda values, t=t: values.__setitem__(slice(None), draws[t]), row, t)
        row *= program.step_scales[t]
    np.testing.assert_allclose(made, program.mechanism.noising(draws), atol=1e-14 if dtype == "float64" else 3e-6)
    assert program.memory == 3
    assert set(program.arrays) == {"buf_decay", "output_scale", "input_scale", "step_scales"}


def test_float32_is_taken_where_it_costs_little():
    who = Participation.fixed_epochs(40, epochs=4)
    program = streaming(example(40, 2), who)
    assert program.dtype == "float32"
    assert program.sensitivity == pytest.approx(example(40, 2).sensitivity(who), rel=1e-4)
    assert program.multiplier(Budget(0.5)) > example(40, 2).sensitivity(who)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decays": [1.5]}, "decays must lie in"),
        ({"outputs": [[-0.1], [0.1]]}, "outputs must lie in"),
        ({"inputs": [[-0.1], [0.1]]}, "inputs must lie in"),
        ({"inputs": [[0.1]]}, "inputs must have shape"),
        ({"scales": [1.0, 0.0]}, "scales must lie in"),
    ],
)
def test_what_the_sensitivity_rests_on_is_checked(change, message):
    usual = {"decays": [0.5], "outputs": [[0.1], [0.1]], "inputs": [[0.1], [0.1]], "scales": [1.0, 1.0]}
    with pytest.raises(ValueError, match=message):
        TimeVaryingBuffers(**(usual | change))
