"""Making designs: reference values, errors written out, limits, and refusals before anything is computed."""

import itertools
import math
from typing import Any, NoReturn

import numpy as np
import pytest

from corrnoise.designs import make
from corrnoise.designs.alternatives import best_of_families, gains, rows
from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.designs.report import report
from corrnoise.solvers.families.registry import USUAL_MEMORY
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.objectives.workloads import SGD, PrefixSums
from corrnoise.theory.participation import Participation, Reshuffled
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import BUDGET, CASES, CONVEX, ENDLESS, EPOCHED, PROBLEM, STEPS, made

FINITE = [name for name, (who, _, _) in CASES.items() if who.steps is not None]


@pytest.mark.slow
def test_the_design_of_the_example() -> None:
    """Reference values."""
    budget = Budget(epsilon=2.0, delta=1e-6)
    fixed = design(budget, Participation.fixed_epochs(400, epochs=4), memory=4)
    assert (fixed.family, fixed.memory) == ("time-varying buffers", 4)
    assert fixed.optimality_gap == pytest.approx(0.0383, abs=2e-3)
    assert fixed.rmse == pytest.approx(12.687, rel=2e-3)
    assert fixed.program().multiplier(budget) == pytest.approx(2.23048, rel=1e-4)
    assert fixed.program().sensitivity == pytest.approx(1.0000033, rel=1e-6)
    apart = design(budget, Participation.min_sep(400, 100), family="buffers, epoch weights", memory=2)
    assert apart.program().multiplier(budget) == pytest.approx(2.34074127231, rel=1e-11)
    assert apart.program("buffers", "float64").multiplier(budget) == pytest.approx(2.34074127231, rel=1e-11)


@pytest.mark.parametrize("name", [FINITE[0], *(pytest.param(name, marks=pytest.mark.slow) for name in FINITE[1:])])
def test_the_choice_is_within_the_limit_above_the_floor_and_the_best(name: str) -> None:
    found = made(name)
    _, _, options = CASES[name]
    assert found.lower_bound is not None
    assert min(found.error_of(one) for one in (found.optimum, *found.alternatives)) >= found.lower_bound
    assert found.optimality_gap == pytest.approx(found.error / found.lower_bound - 1)
    memory = options.get("memory")
    if "family" not in options:
        assert found.memory <= (USUAL_MEMORY if memory is None else memory)
        allowed = [one for one in (found.optimum, *found.alternatives) if memory is None or one.memory <= memory]
        least = min(one.error for one in allowed if one.memory <= USUAL_MEMORY or memory is not None)
        assert found.optimum.error <= least * (1.01 if memory is None else 1)
    assert (
        f"{found.lower_bound:.6g}, which no mechanism is below while batches are not sampled"
        in found.lower_bound_summary
    )
    bought = gains(rows(found))
    assert [row.optimum.memory for row in bought] == sorted({row.optimum.memory for row in bought})
    assert all(later.error < earlier.error for earlier, later in itertools.pairwise(bought))
    best = best_of_families(rows(found))
    assert len({row.optimum.label for row in best}) == len(best)


@pytest.mark.parametrize("name", ["usual", "no memory", "tree", "momentum and cool-down", "a problem"])
def test_errors_are_those_of_what_runs(name: str) -> None:
    found = made(name)
    noise = found.program().multiplier(BUDGET) * found.mechanism.noising_matrix(STEPS)
    if name == "a problem":
        weights = LearningObjective(PROBLEM, STEPS, weights="second half").weight_matrix()
        expected = PROBLEM.learning_rate**2 / 2 * float(np.trace(weights @ noise @ noise.T))
        assert found.excess_loss == pytest.approx(expected, rel=1e-5)
        with pytest.raises(AttributeError, match="excess_loss is what privacy adds"):
            _ = found.rmse
        return
    iterates = np.zeros((STEPS, STEPS))
    theta, momentum = np.zeros(STEPS), np.zeros(STEPS)
    tuned = name == "momentum and cool-down"
    for t in range(STEPS):  # the optimiser written out
        momentum = (0.9 if tuned else 0.0) * momentum + noise[t] / (8 if tuned else 1)
        theta = theta - (min(1.0, (STEPS - t) / (0.25 * STEPS)) if tuned else 1.0) * momentum
        iterates[t] = theta
    assert found.rmse == pytest.approx(math.sqrt(float((iterates**2).sum()) / STEPS), rel=1e-5)
    with pytest.raises(AttributeError, match="rmse is the error of the iterates"):
        _ = found.excess_loss


def test_no_memory_is_independent_noise() -> None:
    assert (made("no memory").family, made("no memory").memory) == ("independent noise", 0)
    assert made("no memory").mechanism == DPSGD()


@pytest.mark.slow
def test_the_promise_of_the_order_is_kept() -> None:
    fixed = made("usual").program().sensitivity
    assert made("usual").program().participation == made("usual").optimum.participation == EPOCHED
    any_order = made("reshuffled")
    assert isinstance(any_order.participation, Reshuffled)
    of_fixed = made("usual").optimum.mechanism
    assert of_fixed.program(any_order.participation.worst).sensitivity > 1.01 * fixed
    secret = design(BUDGET, Participation.fixed_epochs(STEPS, epochs=4, secret=True), memory=2)
    assert secret.program().sensitivity == design(BUDGET, EPOCHED, memory=2).program().sensitivity


@pytest.mark.slow
def test_users_with_several_examples_and_replace_one_take_more_noise() -> None:
    user = Participation.fixed_epochs(STEPS, epochs=4, unit="user", members=3)
    one, three = design(BUDGET, EPOCHED, memory=0), design(BUDGET, user, memory=0)
    assert three.program().multiplier(BUDGET) == pytest.approx(3 * one.program().multiplier(BUDGET), rel=1e-14)
    assert three.rmse == pytest.approx(3 * one.rmse)
    assert three.optimality_gap == pytest.approx(one.optimality_gap)
    replaced = Budget(0.5, adjacency="replace-one")
    assert one.program().multiplier(replaced) == pytest.approx(2 * one.program().multiplier(BUDGET), rel=1e-14)
    assert made("a problem", replaced).excess_loss == pytest.approx(4 * made("a problem").excess_loss)


def test_a_problem_of_any_length_has_its_optimum() -> None:
    found = made("endless")
    best = PROBLEM.optimal_error(budget=BUDGET)
    assert found.lower_bound == best
    assert best <= found.excess_loss <= (1 + 1e-5) * best
    assert isinstance(found.mechanism, ToeplitzNoise)
    exact = optimal_noise(PROBLEM).coefficients(50)
    assert found.mechanism.coefficients(50) == pytest.approx(exact, rel=1e-2)


@pytest.mark.slow
def test_strongly_convex_designs_minimise_the_bound_of_the_objective_at_the_budget() -> None:
    problem = StronglyConvex(1.0, 10.0, 0.01, gradient_noise_std=3.0)
    found = design(BUDGET, ENDLESS, problem)
    smallest = minimise_strongly_convex_bound(problem, budget=BUDGET, criterion="objective").bound
    assert found.excess_loss == pytest.approx(smallest, rel=1e-2)
    options: dict[str, Any] = {"budget": BUDGET, "criterion": "objective"}
    other = [strongly_convex_certificate(problem, noise, **options).value for noise in (NuFTRL(0.01), DPSGD())]
    assert found.excess_loss < other[0] < other[1]
    assert found.lower_bound is None
    assert found.optimality_gap is None
    assert "none is computed" in found.lower_bound_summary
    for changes in ({"memory": 3}, {"family": "buffers"}):
        with pytest.raises(ValueError, match="memory and family must be None for strongly convex losses"):
            design(BUDGET, ENDLESS, CONVEX, **changes)
    with pytest.raises(ValueError, match="participation must be single for strongly convex losses"):
        design(BUDGET, EPOCHED, CONVEX)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_report_says_how_to_run_it(name: str) -> None:
    found = made(name)
    text = report(found, parameters=10**6)
    assert "A sentence." in text
    assert "design = cn.load(folder)" in text
    assert repr(found.program().multiplier(BUDGET)) in text
    assert " ".join(found.lower_bound_summary.split()) in " ".join(text.split())
    assert ("no spectrum is known" in text) == (found.problem is None)
    assert ("what memory buys" in text) == bool(found.alternatives)
    assert found.participation.summary() in " ".join(text.split())
    if found.memory == 2:
        dtype = found.program().dtype
        size = {"float32": "7.63", "float64": "15.3"}[dtype]
        assert f"2 buffers: {size} MiB for 1000000 parameters in {dtype}" in text
    assert max(map(len, text.splitlines())) <= 125


def _late(*_: object, **__: object) -> NoReturn:
    raise AssertionError("too late")


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"budget": 0.5}, TypeError, "budget must be a Budget"),
        ({"participation": 48}, TypeError, "participation must be a Participation"),
        ({"participation": ENDLESS}, ValueError, "steps must be given without a problem"),
        ({"participation": Participation.single(10**11)}, ValueError, r"steps must be at most \d+ on this machine"),
        (
            {"participation": [Participation.poisson(48, 0.1, unit="user", members=3), Participation.poisson(48, 0.1)]},
            ValueError,
            "participation must have one unit and one number of members",
        ),
        ({"objective": NuFTRL(0.1)}, TypeError, "objective must be SGD, a workload, a problem or another Objective"),
        ({"progress": 3}, TypeError, "progress must be a function"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_computed(
    changes: dict[str, Any], kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "optimise", _late)
    with pytest.raises(kind, match=message):
        design(**{"budget": BUDGET, "participation": EPOCHED, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": -1}, "memory must be an integer >= 0, got -1"),
        ({"family": "buffer"}, "family must be one of"),
        ({"objective": PrefixSums(10)}, "participation must have steps=10"),
        ({"objective": SGD(learning_rates=[1.0, 0.5])}, r"learning_rates must have shape \(48,\)"),
        ({"objective": LinearRegression([1.0, 0.5], 1.9)}, "learning_rate must be stable"),
    ],
)
def test_bad_values_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        design(**{"budget": BUDGET, "participation": EPOCHED, **changes})


def test_too_many_eigenvalues_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "LARGEST_LEARNING", 100)
    with pytest.raises(ValueError, match="objective must have at most 2 eigenvalues for 48 steps, got 3"):
        design(BUDGET, EPOCHED, PROBLEM)
    monkeypatch.setattr(make, "LARGEST_DIMENSION", 2)
    with pytest.raises(ValueError, match="objective must have at most 2 eigenvalues for a run of any length, got 3"):
        design(BUDGET, ENDLESS, PROBLEM)


def test_progress_is_told() -> None:
    told: list[str] = []
    design(BUDGET, Participation.single(8), memory=1, progress=told.append)
    assert "the lower bound for all noise" in told


def test_a_design_belongs_to_its_promise() -> None:
    found = made("usual")
    with pytest.raises(ValueError, match="optimum must be for the participation of the design"):
        Design(BUDGET, Participation.single(STEPS), found.optimum)
    with pytest.raises(TypeError, match="notes must be a sequence of strings"):
        Design(BUDGET, EPOCHED, found.optimum, notes="a sentence")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="buffers: Honaker tree is no Toeplitz noise"):
        made("tree").program("buffers")
    with pytest.raises(ValueError, match="form must be one of"):
        found.program("tree")
