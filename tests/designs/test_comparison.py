"""The comparison: every number recomputed from the problem, and known gains over tuned DP-SGD."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from corrnoise.designs.comparison import (
    ANTI,
    BEST_FTRL,
    BOUND,
    DESIGN,
    FTRL,
    SGD,
    STREAM,
    WORST,
    Comparison,
    compare,
)
from corrnoise.designs.make import design
from corrnoise.designs.record import Design
from corrnoise.designs.report import in_words
from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound
from corrnoise.solvers.tuning import best_damping, best_learning_rate, best_nu
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.privacy import Adjacency
from corrnoise.theory.problems.quadratic import LinearRegression
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import PROBLEM, small
from tests.strategies import regressions

METHODS = [SGD, ANTI, FTRL, BEST_FTRL, DESIGN, STREAM, BOUND]


@given(regressions(most=4))
@settings(max_examples=15)
def test_errors_lie_between_the_bound_and_dp_sgd(problem: LinearRegression) -> None:
    comparison = compare(design(problem, rho=1.0))
    assert [row.method for row in comparison.rows] == METHODS
    ratios = {row.method: row.ratio for row in comparison.rows}
    assert ratios[DESIGN] == pytest.approx(1, rel=1e-11)
    assert ratios[STREAM] == pytest.approx(1, rel=1e-5)
    assert 0 < ratios[BOUND] <= 1 + 1e-11
    assert 1 - 1e-11 <= ratios[BEST_FTRL] <= min(ratios[FTRL], ratios[SGD]) * (1 + 1e-9)
    assert 1 - 1e-11 <= ratios[ANTI] <= ratios[SGD] * (1 + 1e-9)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_every_error_is_that_of_the_problem_at_the_budget_of_the_design(adjacency: Adjacency) -> None:
    d = design(PROBLEM, rho=0.3, clip_norm=2.0, adjacency=adjacency, steps=400, initial_offset=0.7)
    rho = 0.3 if adjacency == "zero-out" else 0.3 / 4
    budget: dict[str, Any] = {"rho": rho, "clip_norm": 2.0}
    noises = {
        SGD: lambda p: DPSGD(),
        ANTI: lambda p: AntiPGD(best_damping(p)),
        FTRL: lambda p: NuFTRL(p.rates.min()),
        BEST_FTRL: lambda p: NuFTRL(best_nu(p)),
    }
    smallest = PROBLEM.optimal_error(**budget)
    for method, noise_for in noises.items():
        row, noise = d.comparison[method], noise_for(PROBLEM)
        assert row.noise == noise
        assert row.stationary_error == pytest.approx(PROBLEM.stationary_error(noise, **budget), rel=1e-12)
        assert row.ratio == pytest.approx(row.stationary_error / smallest, rel=1e-12)
        curve = PROBLEM.learning_curve(noise, 400, horizon=400, initial_offset=0.7, **budget)
        assert row.final_error == pytest.approx(curve[-1], rel=1e-12)
        tuned = best_learning_rate(PROBLEM, 400, noise_for, initial_offset=0.7, **budget)
        assert (row.best_learning_rate, row.best_error) == (tuned.learning_rate, tuned.error)
        assert row.best_error is not None
        assert row.final_error is not None
        assert row.best_error <= row.final_error
    own = d.comparison[DESIGN]
    assert own.best_ratio == 1
    assert own.best_error is not None
    assert d.comparison[SGD].best_ratio == (d.comparison[SGD].best_error or 0) / own.best_error
    assert d.comparison[BOUND].stationary_error == PROBLEM.lower_bound(**budget)
    assert d.comparison[STREAM].final_error == pytest.approx(own.final_error, rel=1e-4)


@pytest.mark.parametrize(("steps", "gain"), [(2000, 2.92), pytest.param(10_000, 7.33, marks=pytest.mark.slow)])
def test_known_gains_over_tuned_dp_sgd(steps: int, gain: float) -> None:
    """128 eigenvalues 1/k, offset 0.3, (2, 1e-6): far less than the 77 of stationary errors at one learning rate."""
    problem = LinearRegression(1 / np.arange(1.0, 129), 0.02)
    d = design(problem, epsilon=2.0, delta=1e-6, steps=steps, initial_offset=0.3)
    sgd = d.comparison[SGD]
    assert sgd.best_ratio == pytest.approx(gain, abs=0.005)
    assert sgd.ratio == pytest.approx(77.04, abs=0.005)
    # The last step is the best place to stop, too.
    assert sgd.best_learning_rate is not None
    tuned = LinearRegression(problem.eigenvalues, sgd.best_learning_rate)
    curve = tuned.learning_curve(DPSGD(), steps, horizon=steps, initial_offset=0.3, **d.budget)
    assert int(np.argmin(curve)) == steps


def test_nothing_is_tuned_without_a_run_to_tune_for() -> None:
    endless = design(PROBLEM, rho=1.0, initial_offset=1.0).comparison
    assert not endless.tuned
    assert all(row.final_error is None for row in endless.rows)
    assert "only for a number of steps" in in_words(endless)
    from_the_minimum = design(PROBLEM, rho=1.0, steps=50).comparison
    assert not from_the_minimum.tuned
    assert from_the_minimum[SGD].final_error is not None
    words = " ".join(in_words(from_the_minimum).split())
    assert "a run that starts at the minimum can only get worse, so that its error rises" in words
    drowned = design(PROBLEM, rho=1e-6, steps=50, initial_offset=1e-9).comparison
    assert not drowned.tuned
    assert "only where it improves on the start" in in_words(drowned)


def test_words_hold_every_number() -> None:
    comparison = design(PROBLEM, rho=0.3, steps=300, initial_offset=1.0).comparison
    words = in_words(comparison)
    first, second = words.split("Stationary errors,")
    for row in comparison.rows:
        (line,) = [line for line in second.splitlines() if line.startswith(f"  {row.method:<26}")]
        assert [float(cell) for cell in line[28:].split()] == pytest.approx([row.stationary_error, row.ratio], rel=1e-4)
        if row.final_error is None:
            continue
        (line,) = [line for line in first.splitlines() if line.startswith(f"  {row.method:<26}")]
        expected = [row.final_error, row.best_learning_rate, row.best_error, row.best_ratio]
        shown = [None if cell == "-" else float(cell) for cell in line[28:].split()]
        assert [v for v in shown if v is not None] == pytest.approx([v for v in expected if v is not None], rel=1e-5)
        assert [v is None for v in shown] == [v is None for v in expected]
    assert "no noise attains it" in words


def test_of_strongly_convex_losses_there_are_bounds() -> None:
    problem = StronglyConvex(1.0, 30.0, 0.02, dimension=4)
    d = Design(
        NuFTRL(0.1),
        PoleNoise([0.1], [0.3]),
        rho=0.5,
        steps=300,
        adjacency="replace-one",
        problem=problem,
        initial_offset=1.0,
    )
    comparison = d.comparison
    assert [row.method for row in comparison.rows] == [SGD, FTRL, BEST_FTRL, DESIGN, STREAM, WORST]
    assert comparison[BEST_FTRL].stationary_error < min(
        comparison[FTRL].stationary_error, comparison[DESIGN].stationary_error
    )
    worst = problem.worst_quadratic_error(d.noise, rho=0.125)
    bound = strongly_convex_bound(problem, d.noise, rho=0.125, criterion="objective")
    assert (comparison[DESIGN].kind, comparison[DESIGN].stationary_error, comparison[DESIGN].ratio) == (
        "upper bound",
        bound,
        1.0,
    )
    assert (comparison[WORST].kind, comparison[WORST].stationary_error) == ("lower bound", worst)
    assert comparison[WORST].ratio < 1
    # What is known of independent noise alone beats the bound for any noise here.
    assert comparison[SGD].stationary_error == problem.independent_noise_upper_bound(rho=0.125)
    assert comparison[SGD].stationary_error < strongly_convex_bound(problem, DPSGD(), rho=0.125, criterion="objective")
    assert not comparison.exact
    assert not comparison.tuned
    words = in_words(comparison)
    assert "Upper bounds of F - F*" in words
    assert "exact limits" not in words
    assert "no correlated noise is proved to be better" in words
    rows = [type(row)(**{**row.arguments(), "ratio": 1.5}) if row.method == SGD else row for row in comparison.rows]
    better = Comparison(tuple(rows), 0.02, 300, 1.0)
    assert "no correlated noise is proved" not in in_words(better)


def test_rows_are_found_by_name() -> None:
    comparison = small().comparison
    assert comparison[SGD] is comparison.rows[0]
    with pytest.raises(KeyError, match="method must be one of 'DP-SGD', 'anti-PGD, best damping'"):
        comparison["sgd"]
    described = comparison.description()
    assert [row["method"] for row in described["rows"]] == METHODS
    assert math.isfinite(described["rows"][0]["best_error"])
    assert "noise" not in described["rows"][0]
    vector = design(PROBLEM, rho=1.0, steps=20, initial_offset=[1.0, 2.0, 3.0]).comparison.description()
    assert vector["initial_offset"] == [1.0, 2.0, 3.0]


def test_a_design_without_a_problem_has_nothing_to_compare() -> None:
    with pytest.raises(ValueError, match="design must have a problem to be compared"):
        compare(Design(DPSGD(), rho=1.0))
