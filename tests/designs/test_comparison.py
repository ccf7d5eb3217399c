"""The comparison: every number recomputed from the problem, and known gains over tuned independent noise."""

from typing import Any

import numpy as np
import pytest

from corrnoise.designs.comparison import ANTI, BEST_FTRL, BOUND, DESIGN, FTRL, INDEPENDENT, WORST
from corrnoise.designs.make import design
from corrnoise.designs.report import in_words
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.tuning import best_learning_rate, stationary_damping, stationary_nu
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Adjacency, Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.design_examples import BUDGET, CONVEX, ENDLESS, EPOCHED, ONCE, PROBLEM, STEPS, compared, made

METHODS = [INDEPENDENT, ANTI, FTRL, BEST_FTRL, DESIGN, BOUND]


def test_errors_lie_between_the_bound_and_independent_noise() -> None:
    comparison = compared(made("endless"))
    assert [row.method for row in comparison.rows] == METHODS
    ratios: dict[str, Any] = {row.method: row.ratio for row in comparison.rows}
    assert ratios[DESIGN] == pytest.approx(1, rel=1e-5)
    assert 0 < ratios[BOUND] <= 1
    assert 1 <= ratios[BEST_FTRL] <= min(ratios[FTRL], ratios[INDEPENDENT]) * (1 + 1e-9)
    assert 1 <= ratios[ANTI] <= ratios[INDEPENDENT]


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_every_error_is_that_of_the_problem_at_the_budget_of_the_design(adjacency: Adjacency) -> None:
    budget = Budget(0.3, clip_norm=2.0, adjacency=adjacency)
    comparison = made("once", budget).comparison(0.7)
    noises: dict[str, Any] = {
        INDEPENDENT: lambda p: DPSGD(),
        ANTI: lambda p: AntiPGD(stationary_damping(p)),
        FTRL: lambda p: NuFTRL(p.rates.min()),
        BEST_FTRL: lambda p: NuFTRL(stationary_nu(p)),
    }
    smallest = PROBLEM.optimal_error(budget=budget)
    for method, noise_for in noises.items():
        row, noise = comparison[method], noise_for(PROBLEM)
        assert row.noise == noise
        assert row.stationary_error == pytest.approx(PROBLEM.stationary_error(noise, budget=budget), rel=1e-12)
        assert row.ratio == pytest.approx((row.stationary_error or 0) / smallest, rel=1e-12)
        curve = PROBLEM.learning_curve(noise, STEPS, participation=ONCE, initial_offset=0.7, budget=budget)
        assert row.final_error == pytest.approx(curve[-1], rel=1e-12)
        tuned = best_learning_rate(PROBLEM, ONCE, noise_for, initial_offset=0.7, budget=budget)
        assert (row.best_learning_rate, row.best_error) == (tuned.learning_rate, tuned.error)
        assert tuned.error <= curve[-1]
    own = comparison[DESIGN]
    assert own.best_ratio == 1
    assert own.best_error is not None
    assert comparison[INDEPENDENT].best_ratio == (comparison[INDEPENDENT].best_error or 0) / own.best_error
    assert comparison[BOUND].stationary_error == PROBLEM.lower_bound(budget=budget)


@pytest.mark.parametrize(("steps", "gain"), [(2000, 2.92), pytest.param(10_000, 7.33, marks=pytest.mark.slow)])
def test_known_gains_over_tuned_independent_noise(steps: int, gain: float) -> None:
    """128 eigenvalues 1/k, offset 0.3, (2, 1e-6): far less than the 77 of stationary errors at one learning rate."""
    problem = LinearRegression(1 / np.arange(1.0, 129), 0.02)
    budget = Budget(epsilon=2.0, delta=1e-6)
    who = Participation.single(steps)
    row = design(budget, who, problem, family="stationary optimum").comparison(0.3)[INDEPENDENT]
    assert row.best_ratio == pytest.approx(gain, abs=0.005)
    assert row.ratio == pytest.approx(77.04, abs=0.005)
    # The last step is the best place to stop, too.
    assert row.best_learning_rate is not None
    tuned = LinearRegression(problem.eigenvalues, row.best_learning_rate)
    curve = tuned.learning_curve(DPSGD(), steps, participation=who, initial_offset=0.3, budget=budget)
    assert int(np.argmin(curve)) == steps


def test_noise_with_a_factor_for_each_step_has_an_error_but_no_limit() -> None:
    found = made("a problem")
    assert not isinstance(found.mechanism, ToeplitzNoise)
    row = found.comparison(0.5)[DESIGN]
    assert (row.stationary_error, row.ratio, row.best_error) == (None, None, None)
    objective = LearningObjective(PROBLEM, STEPS, weights="last")
    privacy = objective.privacy_error(found.mechanism, EPOCHED, BUDGET)
    without = PROBLEM.learning_curve(DPSGD(), STEPS, budget=Budget(1e90), initial_offset=0.5)[-1]
    assert row.final_error == pytest.approx(without + privacy, rel=1e-9)
    assert row.final_error is not None
    assert row.final_error < (found.comparison(0.5)[INDEPENDENT].final_error or 0)


def test_nothing_is_tuned_without_a_run_to_tune_for() -> None:
    endless = made("endless").comparison(1.0)
    assert not endless.tuned
    assert all(row.final_error is None for row in endless.rows)
    assert "only for a number of steps" in in_words(endless)
    from_the_minimum = made("once").comparison()
    assert not from_the_minimum.tuned
    assert from_the_minimum[INDEPENDENT].final_error is not None
    words = " ".join(in_words(from_the_minimum).split())
    assert "a run that starts at the minimum can only get worse, so that its error rises" in words
    drowned = made("once", Budget(1e-6)).comparison(1e-9)
    assert not drowned.tuned
    assert "only where it improves on the start" in in_words(drowned)


def test_words_hold_every_number() -> None:
    comparison = compared(made("once"), 1.0)
    words = in_words(comparison)
    first, second = words.split("Stationary errors,")
    for row in comparison.rows:
        (line,) = [line for line in second.splitlines() if line.startswith(f"  {row.method:<38}")]
        assert [float(cell) for cell in line[40:].split()] == pytest.approx([row.stationary_error, row.ratio], rel=1e-4)
        if row.final_error is None:
            continue
        (line,) = [line for line in first.splitlines() if line.startswith(f"  {row.method:<38}")]
        expected = [row.final_error, row.best_learning_rate, row.best_error, row.best_ratio]
        shown = [None if cell == "-" else float(cell) for cell in line[40:].split()]
        assert [v for v in shown if v is not None] == pytest.approx([v for v in expected if v is not None], rel=1e-5)
        assert [v is None for v in shown] == [v is None for v in expected]
    assert "no noise attains it" in words


def test_of_strongly_convex_losses_there_are_bounds() -> None:
    found = design(Budget(0.5, adjacency="replace-one"), ENDLESS, CONVEX)
    comparison = found.comparison(1.0)
    options: dict[str, Any] = {"budget": found.budget, "criterion": "objective"}
    assert [row.method for row in comparison.rows] == [INDEPENDENT, FTRL, BEST_FTRL, DESIGN, WORST]
    noise = found.mechanism
    assert isinstance(noise, ToeplitzNoise)
    bound = strongly_convex_certificate(CONVEX, noise, **options).value
    assert (comparison[DESIGN].kind, comparison[DESIGN].stationary_error, comparison[DESIGN].ratio) == (
        "upper bound",
        bound,
        1.0,
    )
    worst = CONVEX.worst_quadratic_error(noise, budget=found.budget)
    assert (comparison[WORST].kind, comparison[WORST].stationary_error) == ("lower bound", worst)
    assert worst < bound
    # What is known of independent noise alone beats the bound for any noise here.
    alone = CONVEX.independent_noise_upper_bound(budget=found.budget)
    assert (
        comparison[INDEPENDENT].stationary_error
        == alone
        < strongly_convex_certificate(CONVEX, DPSGD(), **options).value
    )
    assert not comparison.exact
    assert not comparison.tuned
    words = in_words(comparison)
    assert "Upper bounds of F - F*" in words
    assert "exact limits" not in words
    assert ("no correlated noise is proved to be better" in words) == ((comparison[INDEPENDENT].ratio or 0) < 1)


def test_rows_are_found_by_name_and_arguments_are_checked() -> None:
    comparison = compared(made("endless"))
    assert comparison[INDEPENDENT] is comparison.rows[0]
    with pytest.raises(KeyError, match="method must be one of 'independent noise, without sampling', 'anti-PGD"):
        comparison["DP-SGD"]
    with pytest.raises(ValueError, match="design must have a problem to be compared"):
        made("usual").comparison()
    with pytest.raises(ValueError, match=r"initial_offset must be a scalar or have shape \(3,\)"):
        made("once").comparison(np.ones(2))
    with pytest.raises(ValueError, match="initial_offset must be a number for strongly convex losses"):
        made("convex").comparison(np.ones(2))
    assert np.array_equal(made("endless").comparison(np.ones(3)).initial_offset, np.ones(3))
