"""Mechanisms tuned for any objective, epoch weights, and the floor that none of them is below."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.coarse_floor import coarse_lower_bound
from corrnoise.solvers.matrix_factorisation.dense import workload_of_weights
from corrnoise.solvers.matrix_factorisation.families import optimal_banded_inverse, optimal_nu
from corrnoise.solvers.matrix_factorisation.fixed_epochs import optimal_fixed_epochs
from corrnoise.solvers.matrix_factorisation.run_objectives import run_objective
from corrnoise.solvers.matrix_factorisation.selection import Option, Selection, epoch_weights, lower_bound, select
from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz
from corrnoise.solvers.matrix_factorisation.tuned import tuned_bands, tuned_inverse, tuned_nu, tuned_poles

from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.workloads import MomentumSGD, PrefixSums, Workload
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import workloads

WHO = Participation.min_sep(64, 16, 4)
PROBLEM = LinearRegression(1 / np.arange(1.0, 9), 0.05)
COOL_DOWN = np.minimum(1.0, 4 * (64 - np.arange(64)) / 64)
TASKS: dict[str, Workload | LearningObjective] = {
    "prefix sums": PrefixSums(64),
    "momentum": MomentumSGD(64, momentum=0.9, weight_decay=0.01),
    "cool-down": MomentumSGD(64, momentum=0.9, learning_rates=COOL_DOWN),
    "learning": LearningObjective(PROBLEM, 64, weights="second half"),
}


def error(noise, who: Participation = WHO) -> float:
    """The root mean squared error of prefix sums."""
    return noise.mean_error(who)


@pytest.mark.parametrize("who", [WHO, Participation(64)])
def test_searches_for_any_objective_find_what_those_for_prefix_sums_find(who: Participation) -> None:
    objective = run_objective(PrefixSums(64))
    start = tuned_nu(objective, who)
    assert error(start, who) == pytest.approx(optimal_nu(who).error, rel=1e-6)
    assert error(tuned_poles(objective, who, poles=2), who) == pytest.approx(
        optimal_buffers(who, buffers=2).error, rel=1e-6
    )
    assert error(tuned_bands(objective, who, bands=8, start=start), who) == pytest.approx(
        optimal_toeplitz(who, bands=8).error, rel=1e-6
    )
    assert error(tuned_inverse(objective, who, coefficients=4, start=start), who) == pytest.approx(
        optimal_banded_inverse(who, bands=4).error, rel=1e-5
    )


def test_one_coefficient_is_independent_noise() -> None:
    objective = run_objective(PrefixSums(8))
    who = Participation(8)
    assert tuned_bands(objective, who, bands=1, start=NuFTRL(0.1)).coefficients(8).tolist() == [1, *[0] * 7]
    assert tuned_inverse(objective, who, coefficients=1, start=NuFTRL(0.1)).coefficients(8).tolist() == [1, *[0] * 7]


@pytest.mark.parametrize("task", TASKS)
def test_no_mechanism_is_below_the_floor_and_tuning_for_the_task_pays(task: str) -> None:
    found = select(TASKS[task], WHO, others={"untuned": optimal_buffers(WHO, buffers=2).noise})
    assert found.floor is not None
    assert found.floor.rigorous == (task == "prefix sums")
    ratios = {option: option.squared_error / found.floor.squared_error for option in found.options}
    assert min(ratios.values()) >= 1
    best = found.best(lambda option: option.memory <= 2)
    assert ratios[best] < 2.5
    untuned = next(option for option in found.options if option.family == "untuned")
    poles = next(option for option in found.options if option.family == "buffers" and option.memory == untuned.memory)
    assert poles.squared_error <= untuned.squared_error * (1 + 1e-6)
    assert {option.kind for option in found.options} == {"", "poles", "bands"}


@pytest.mark.parametrize("task", TASKS)
def test_squared_errors_are_those_of_the_mechanisms(task: str) -> None:
    what = TASKS[task]
    for option in select(what, WHO, with_floor=False).options:
        if isinstance(what, LearningObjective):
            power = what.power(option.mechanism)
        else:
            power = float(option.mechanism.errors(what).mean())
        assert option.power == pytest.approx(power, rel=1e-9)
        assert option.sensitivity.upper == option.mechanism.sensitivity_upper_bound(WHO)


def test_epoch_weights_beat_equal_ones_and_random_ones() -> None:
    rng = np.random.default_rng(1)
    for size in (2, 3, 7):
        factor = rng.normal(size=(size, size))
        powers = factor @ factor.T + np.diag(np.arange(1.0, size + 1) ** 3)

        def value(weights: np.ndarray, powers: np.ndarray = powers) -> float:
            u = weights**-0.5
            return float(u @ powers @ u)

        best = epoch_weights(powers)
        assert best.sum() == pytest.approx(1)
        others = [np.full(size, 1 / size), *rng.dirichlet(np.ones(size), 200)]
        assert value(best) <= min(map(value, others)) * (1 + 1e-9)
        diagonal = np.diag(np.diag(powers))  # then p_e is proportional to the root of Q_ee
        roots = np.sqrt(np.diag(powers))
        assert epoch_weights(diagonal) == pytest.approx(roots / roots.sum(), rel=1e-3)


def test_epochs_of_learning_are_spent_late() -> None:
    last = LearningObjective(LinearRegression(1 / np.arange(1.0, 9), 0.2), 64)
    *_, weighted = (
        option
        for option in select(last, WHO, with_floor=False).options
        if option.family == "best Toeplitz, epoch weights"
    )
    norms = weighted.mechanism.column_norms()
    assert norms[0] < norms[20] < norms[40] < norms[50]
    assert weighted.sensitivity.exact
    assert weighted.sensitivity.value == pytest.approx(1)


@pytest.mark.parametrize("who", [Participation(64), Participation.fixed_epochs(64, epochs=4)])
def test_step_scales_of_learning_are_better_than_column_norms(who: Participation) -> None:
    """The last step forgets early noise, so that factors which are searched for gain much."""
    last = LearningObjective(LinearRegression(1 / np.arange(1.0, 9), 0.2), 64, weights="last")
    found = select(last, who)
    own = {option.memory: option for option in found.options if option.family == "buffers, step scales"}
    others = [option for option in found.options if option not in own.values()]
    assert found.floor is not None
    assert own.keys() >= {1, 2}
    for option in own.values():
        assert option.sensitivity.upper == pytest.approx(1)
        assert found.floor.squared_error <= option.squared_error
        rival = min(one.squared_error for one in others if one.offered and one.memory <= option.memory)
        assert option.squared_error < 0.9 * rival
        assert option.power == pytest.approx(last.power(option.mechanism), rel=1e-9)


def test_step_scales_are_for_learning_in_short_runs_whose_worst_pattern_is_known() -> None:
    learning = LearningObjective(LinearRegression([1.0, 0.1], 0.2), 16)
    for what, who, scales in (
        (PrefixSums(16), Participation(16), True),
        (learning, Participation(16), False),
        (learning, Participation.min_sep(16, 4, 2), True),
    ):
        options = select(what, who, scales=scales, with_floor=False).options
        assert not any("step scales" in option.family for option in options)


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3))
@settings(max_examples=8)
def test_short_runs(steps: int, min_sep: int, count: int) -> None:
    count = min(count, -(-steps // min_sep))
    who = Participation.min_sep(steps, min_sep, count)
    found = select(PrefixSums(steps), who)
    assert found.floor is not None
    assert found.best().squared_error >= found.floor.squared_error * (1 - 1e-9)
    assert found.best().squared_error <= next(iter(found.options)).squared_error


def test_the_choice_among_equals_is_the_one_with_less_memory() -> None:
    options = select(PrefixSums(16), Participation(16), with_floor=False).options
    found = Selection(Participation(16), options, None)
    least = min(option.squared_error for option in options if option.offered)
    assert found.best().squared_error == least
    slack = found.best(slack=1.05)
    assert slack.squared_error <= 1.05 * least
    assert slack.memory < found.best().memory
    assert found.best(lambda option: option.memory == 0).family == "independent noise"


EIGHT = Participation.min_sep(32, 8, 4)


def test_a_memory_that_is_asked_for_is_used() -> None:
    def families(memory: int | None) -> set[tuple[str, int]]:
        options: tuple[Option, ...] = select(
            PrefixSums(32), EIGHT, memory=memory, scales=False, with_floor=False
        ).options
        return {(option.family, option.memory) for option in options}

    assert {("best Toeplitz", 5), ("banded inverse", 5)} <= families(5) - families(None)


def test_the_floor_is_left_out_where_it_takes_long() -> None:
    for what, who in (
        (MomentumSGD(5000, momentum=0.5), Participation(5000)),
        (PrefixSums(200_000), Participation(200_000)),
        (PrefixSums(40_000), Participation.min_sep(40_000, 10_000, 4)),
    ):
        assert lower_bound(what, run_objective(what), who) is None


# -- the floor from a coarse run ---------------------------------------------------------------------------------------


@given(workloads(most=24), st.integers(1, 6), st.integers(2, 24))
@settings(max_examples=30)
def test_a_coarse_floor_is_below_the_fine_one(workload: Workload, count: int, coarse: int) -> None:
    n = workload.steps
    who = Participation.fixed_epochs(n, period=-(-n // min(count, n)))
    weights = run_objective(workload).weights()
    fine = optimal_fixed_epochs(workload_of_weights(weights), who, tolerance=1e-9)
    assert coarse_lower_bound(weights, who, coarse_steps=coarse) <= fine.value**2 * (1 + 1e-9)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_coarse_floor_is_close(task: str, count: int) -> None:
    who = Participation.fixed_epochs(64, period=-(-64 // count))
    weights = run_objective(TASKS[task]).weights()
    fine = optimal_fixed_epochs(workload_of_weights(weights), who, tolerance=1e-6).lower_bound ** 2
    assert 0.97 * fine <= coarse_lower_bound(weights, who, coarse_steps=32) <= fine * (1 + 1e-5)
    assert coarse_lower_bound(weights, who, coarse_steps=64) == pytest.approx(fine, rel=3e-3)
