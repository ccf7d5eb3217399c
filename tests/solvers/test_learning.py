"""The optimum for learning: known values, forms, and no mechanism below the floor of its pattern."""

import math

import numpy as np
import pytest
from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.solvers.matrix_factorisation.fixed_epochs import optimal_fixed_epochs
from corrnoise.solvers.matrix_factorisation.learning import optimal_for_learning
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests.strategies import mechanisms, regressions, workloads


def objective(steps, weights="second half", decay=1.0):
    eigenvalues = np.arange(1.0, 33) ** -decay
    return LearningObjective(
        LinearRegression(eigenvalues, 0.5 / (eigenvalues.sum() + 2 * eigenvalues.max())), steps, weights=weights
    )


def apart(steps, epochs):
    return Participation.min_sep(steps, steps // epochs, epochs)


@pytest.mark.parametrize(
    ("who", "form", "memory", "last", "half"),
    [
        # another code: .0539 in fixed epochs, .05843 with 64 bands under min-sep, .0734 for scales on ν-DP-FTRL, at 256
        (Participation.fixed_epochs(64, epochs=4), "dense", 1, 0.079196, 0.109110),
        (Participation.fixed_epochs(64, epochs=4), "buffers", 2, 0.095376, 0.135623),
        (apart(64, 4), "bands", 15, 0.085011, 0.112387),
        (apart(64, 4), "buffers", 2, None, 0.140073),
        (Participation(64), "buffers", 4, 0.01781, 0.02700),
    ],
)
def test_forms(who, form, memory, last, half):
    for weights, value in (("last", last), ("second half", half)):
        if value is None:
            continue
        of = objective(64, weights)
        found = optimal_for_learning(of, who, form=form, memory=memory)
        assert found.privacy_error == pytest.approx(value, rel=3e-4)
        assert found.lower_bound <= found.privacy_error
        assert found.mechanism.memory <= (63 if form == "dense" else memory)
        assert found.privacy_error == pytest.approx(of.privacy_error(found.mechanism, who), rel=1e-12)
        curve = of.privacy_curve(found.mechanism, who)
        assert curve[1:] @ of.step_weights() == pytest.approx(found.privacy_error, rel=1e-9)


def test_known_values_at_256_steps():
    of = objective(256, "last")
    dense = optimal_for_learning(of, Participation.fixed_epochs(256, epochs=4), form="dense")
    assert dense.privacy_error == pytest.approx(0.0539, rel=1e-2)
    assert 0 <= dense.gap < 2e-4
    buffers = optimal_for_learning(of, Participation.fixed_epochs(256, epochs=4), memory=2)
    assert buffers.privacy_error < 0.0734  # scales on ν-DP-FTRL


def test_streams_run_every_form():
    of, who = objective(32), Participation.fixed_epochs(32, epochs=4)
    for form in ("buffers", "bands", "dense"):
        run = optimal_for_learning(of, who, form=form, memory=7).mechanism
        stream = NoiseStream(run, 2, method="recurrence", rng=3)
        draws = np.random.default_rng(3).standard_normal((32, 2))
        np.testing.assert_allclose(np.array(list(stream)), run.correlate(draws), rtol=1e-9, atol=1e-9)


def test_private_streams_state_the_pattern():
    """Noise for fixed epochs takes more under min-sep, and the stream charges what is promised."""
    of, who = objective(32), Participation.fixed_epochs(32, epochs=4)
    run = optimal_for_learning(of, who, memory=1).mechanism
    budget = {"rho": 0.5, "clip_norm": 2.0, "steps": None, "min_sep": 8, "max_participations": 4}
    fixed = NoiseStream.private(run, 3, pattern="fixed epochs", **budget)
    free = NoiseStream.private(run, 3, **budget)
    assert fixed.scale == pytest.approx(2.0 * run.sensitivity(who), rel=1e-6)
    assert fixed.scale >= 2.0 * run.sensitivity(who)
    assert free.scale > fixed.scale * 1.001
    assert free.scale == pytest.approx(2.0 * run.sensitivity_upper_bound(apart(32, 4)), rel=1e-6)
    with pytest.raises(ValueError, match="max_participations"):
        NoiseStream.private(run, 3, pattern="fixed epochs", **{**budget, "max_participations": 3})


# -- no mechanism is below the floor -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(workloads(most=8, kinds=("prefix", "momentum")), st.integers(1, 9), st.data())
def test_no_mechanism_is_below_the_floor_of_its_pattern(work, min_sep, data):
    """Every mechanism, every workload; with a sensitivity that is too small by 1 % the optimum itself is below."""
    who = Participation.fixed_epochs(work.steps, period=min_sep)
    floor = optimal_fixed_epochs(work, who, tolerance=1e-4, max_iterations=60)
    run = data.draw(mechanisms(who.steps))
    assert run.mean_error(who, work) >= floor.lower_bound
    if floor.gap < 1e-3:
        best = floor.mechanism()
        assert 0.99 * best.mean_error(who, work) < floor.lower_bound <= best.mean_error(who, work) * (1 + 1e-9)


@settings(max_examples=25, deadline=None)
@given(
    regressions(most=4),
    st.sampled_from([(8, 2), (9, 3), (6, 6), (7, 1)]),
    st.sampled_from(["min-sep", "fixed epochs"]),
    st.data(),
)
def test_no_mechanism_learns_better_than_the_floor(problem, run, pattern, data):
    steps, min_sep = run
    who = Participation(steps, min_sep=min_sep, max_participations=None, pattern=pattern)
    of = LearningObjective(problem, steps, weights="second half", batch_size=data.draw(st.integers(1, 4)))
    found = optimal_for_learning(of, who, memory=2)
    other = data.draw(mechanisms(steps))
    assert of.privacy_error(other, who) >= found.lower_bound
    assert found.privacy_error >= found.lower_bound


def test_the_floor_holds_for_singular_objectives():
    """Mean estimation at the last step: the infimum is the noise of one gradient, and is not attained."""
    of = LearningObjective(MeanEstimation(0.3), 6)
    found = optimal_for_learning(of, Participation(6), form="dense")
    one = 0.3**2 / 4  # ½ η² G²/(2ρ) for a single draw
    assert found.lower_bound <= one * (1 + 1e-9)
    assert found.privacy_error >= found.lower_bound
    assert of.privacy_error(NuFTRL(0.3), Participation(6)) >= found.lower_bound


def test_the_curve_of_independent_noise_by_hand():
    """S(t + 1) = (1 − x)² S(t) + (k − 1) x² S(t)/m + η² σ² for one direction."""
    problem = LinearRegression([2.0], 0.1)
    of = LearningObjective(problem, 5, batch_size=3)
    curve = of.privacy_curve(DPSGD(), apart(5, 5), rho=0.5, clip_norm=2.0)
    second, expected = 0.0, [0.0]
    for _ in range(5):
        second = (0.8**2 + 2 * 0.2**2 / 3) * second + 0.1**2 * 4 * 5 / 9
        expected.append(2.0 * second / 2)
    np.testing.assert_allclose(curve, expected, rtol=1e-12)
    assert math.isclose(of.privacy_error(DPSGD(), apart(5, 5), rho=0.5, clip_norm=2.0), curve[-1])


@pytest.mark.parametrize(
    ("who", "arguments", "message"),
    [
        (Participation(9), {}, "steps=8"),
        (Participation.min_sep(8, 2, 2), {}, "max_participations=None"),
        (Participation.min_sep(8, 2, 4), {"form": "dense"}, "'buffers' or 'bands'"),
        (Participation(8), {"form": "trees"}, "form"),
        (Participation(8), {"memory": 0}, "memory"),
    ],
)
def test_bad_input(who, arguments, message):
    with pytest.raises(ValueError, match=message):
        optimal_for_learning(objective(8), who, **arguments)
