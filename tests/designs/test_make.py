"""Making designs: the best noise, at the best learning rate where asked, and refusals before anything is computed."""

import math
from typing import Any, NoReturn

import numpy as np
import pytest
from corrnoise.solvers.rational.exchange import toeplitz_form
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg

import corrnoise as cn
from corrnoise.designs import make
from corrnoise.designs.make import design
from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.solvers.strongly_convex.alternating_minimisation import minimise_strongly_convex_bound
from corrnoise.solvers.strongly_convex.bound import strongly_convex_bound
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Adjacency, gaussian_delta, gaussian_rho
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import PROBLEM
from tests.strategies import log_uniform, regressions

# -- designing ---------------------------------------------------------------------------------------------------------


@given(
    regressions(most=5), log_uniform(1e-3, 1e3), log_uniform(1e-3, 1e3), st.sampled_from(["zero-out", "replace-one"])
)
@settings(max_examples=20)
def test_a_design_is_optimal_and_its_stream_nearly(
    problem: LinearRegression, rho: float, clip_norm: float, adjacency: Adjacency
) -> None:
    d = design(problem, rho=rho, clip_norm=clip_norm, adjacency=adjacency, tolerance=1e-6)
    best = problem.optimal_error(**d.budget)
    assert problem.stationary_error(d.noise, **d.budget) == pytest.approx(best, rel=1e-11)
    assert isinstance(d.stream, ToeplitzNoise)
    assert (1 - 1e-11) * best <= problem.stationary_error(d.stream, **d.budget) <= (1 + 1e-5) * best
    assert (d.problem, d.metadata["tolerance"]) == (problem, 1e-6)


def test_strongly_convex_designs_minimise_the_bound_of_the_objective() -> None:
    problem = StronglyConvex(1.0, 10.0, 0.01)
    d = design(problem, rho=0.5, tolerance=1e-4)
    assert isinstance(d.stream, ToeplitzNoise)
    bounds = {
        name: strongly_convex_bound(problem, noise, **d.budget, criterion="objective")
        for name, noise in (("design", d.noise), ("poles", d.stream), ("nu", NuFTRL(0.01)), ("independent", DPSGD()))
    }
    assert bounds["design"] < 0.95 * bounds["nu"] < bounds["independent"]
    assert bounds["poles"] == pytest.approx(bounds["design"], rel=1e-2)
    smallest = minimise_strongly_convex_bound(problem, rho=0.5, criterion="objective").bound
    assert bounds["design"] == pytest.approx(smallest, rel=1e-6)


def test_the_horizon_changes_the_multiplier_only() -> None:
    long = design(PROBLEM, rho=2.0)
    short = design(PROBLEM, rho=2.0, steps=10, metadata={"who": "me"})
    assert (long.noise, long.stream) == (short.noise, short.stream)
    assert short.toeplitz == toeplitz_form(short.noise, 10)
    assert dict(short.metadata) == {"tolerance": 1e-6, "who": "me"}


def test_the_multiplier_of_one_noise_is_too_small_for_another() -> None:
    d = design(PROBLEM, rho=0.5, tolerance=0.5)
    assert d.stream_multiplier is not None
    assert abs(d.stream_multiplier / d.noise_multiplier - 1) > 1e-3
    shorter = design(PROBLEM, rho=0.5, steps=10)
    assert shorter.noise_multiplier < 0.99 * d.noise_multiplier


def test_the_budget_is_that_of_one_gaussian_mechanism() -> None:
    d = cn.design(PROBLEM, epsilon=2.0, delta=1e-6)
    assert isinstance(d, cn.Design)
    assert d.rho == gaussian_rho(2.0, 1e-6)
    assert gaussian_delta(d.rho, 2.0) <= 1e-6 < gaussian_delta(math.nextafter(d.rho, 1), 2.0)
    assert dict(d.metadata) == {"tolerance": 1e-6, "epsilon": 2.0, "delta": 1e-6}


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_the_tuned_learning_rate_is_best_for_the_run(adjacency: Adjacency) -> None:
    problem = LinearRegression([1, 1 / 2, 1 / 3], 0.001)
    run: dict[str, Any] = {"rho": 0.5, "steps": 60, "initial_offset": 1.0, "adjacency": adjacency}
    d = design(problem, **run, tune_learning_rate=True)
    assert isinstance(d.problem, LinearRegression)
    rho = 0.5 if adjacency == "zero-out" else 0.5 / 4

    def error(learning_rate: float) -> float:
        tuned = LinearRegression(problem.eigenvalues, learning_rate)
        noise = optimal_noise(tuned)
        return float(tuned.learning_curve(noise, 60, horizon=60, rho=rho, initial_offset=1.0)[-1])

    best = error(d.problem.learning_rate)
    assert all(error(d.problem.learning_rate * factor) > best for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0))
    (note,) = d.notes
    assert f"The learning rate {d.problem.learning_rate!r} has the smallest expected error after 60 steps" in note
    assert f"{best:.6g}" in note
    row = d.comparison["design"]
    assert (row.best_learning_rate, row.best_error) == (d.problem.learning_rate, row.final_error)
    assert row.best_error == pytest.approx(best, rel=1e-12)
    sgd = d.comparison["DP-SGD"]
    assert sgd.best_ratio is not None
    assert 1 < sgd.best_ratio < sgd.ratio  # tuned, DP-SGD is not as bad


def test_progress_is_told_and_the_comparison_is_there() -> None:
    told: list[str] = []
    d = design(PROBLEM, rho=0.5, progress=told.append)
    assert "comparison" in vars(d)
    assert "comparison" not in vars(design(PROBLEM, rho=0.5))
    assert told[0] == "the optimal noise"
    assert len(told) >= 6


# -- refusals ----------------------------------------------------------------------------------------------------------


def _late(*_: object, **__: object) -> NoReturn:
    raise AssertionError("too late")


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"rho": None}, ValueError, "the budget must be given either by rho or by epsilon and delta, got epsilon=None"),
        ({"epsilon": 1.0}, ValueError, "the budget must be given either"),
        ({"rho": None, "epsilon": 1.0}, ValueError, "the budget must be given either"),
        ({"rho": None, "epsilon": -1.0, "delta": 1e-6}, ValueError, "epsilon must lie in"),
        ({"rho": 0.0}, ValueError, "rho must lie in"),
        ({"steps": 0}, ValueError, "steps must be an integer >= 1, got 0"),
        ({"steps": 1.5}, TypeError, "steps must be an integer >= 1, got 1.5"),
        (
            {"steps": 10**11},
            ValueError,
            r"steps must be at most \d+ on this machine, got 100000000000: its coefficients",
        ),
        ({"max_participations": 4, "min_sep": 500}, ValueError, "steps must be given for several participations"),
        ({"tolerance": 0.0}, ValueError, "tolerance must lie in"),
        ({"notes": "a sentence"}, TypeError, "notes must be a sequence of strings"),
        ({"initial_offset": [1.0]}, ValueError, r"initial_offset must be a scalar or have shape \(3,\)"),
        ({"progress": 3}, TypeError, "progress must be a function"),
        ({"metadata": 3}, TypeError, "metadata must be a mapping"),
        ({"tune_learning_rate": "yes"}, TypeError, "tune_learning_rate must be True or False"),
        ({"tune_learning_rate": True}, ValueError, "tune_learning_rate must come with steps"),
        ({"tune_learning_rate": True, "steps": 9}, ValueError, "initial_offset must not be 0"),
        (
            {"problem": NuFTRL(0.1)},
            TypeError,
            "problem must be one of LinearRegression, MeanEstimation, StronglyConvex",
        ),
        ({"problem": LinearRegression([1.0, 0.5], 1.9)}, ValueError, "learning_rate must be stable"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_computed(
    changes: dict[str, Any], kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "_stream", _late)
    arguments: dict[str, Any] = {"problem": PROBLEM, "rho": 1.0, **changes}
    with pytest.raises(kind, match=message):
        design(arguments.pop("problem"), **arguments)


def test_what_a_machine_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "memory", lambda: 10**6)
    with pytest.raises(
        ValueError, match=r"steps must be at most 1666 on this machine, got 2000: .* number of steps out"
    ):
        design(PROBLEM, rho=1.0, steps=2000)
    monkeypatch.setattr(make, "LARGEST_DIMENSION", 2)
    with pytest.raises(ValueError, match="problem must have at most 2 eigenvalues, got 3"):
        design(PROBLEM, rho=1.0)


def test_a_memory_without_end_needs_a_number_of_steps() -> None:
    slow = MeanEstimation(1e-18)
    with pytest.raises(ValueError, match="steps must be given for this problem, got None: the memory"):
        design(slow, rho=1.0)
    assert design(slow, rho=1.0, steps=1000).toeplitz_multiplier is not None


def test_bounds_have_no_best_learning_rate() -> None:
    with pytest.raises(ValueError, match="tune_learning_rate must be False for StronglyConvex"):
        design(StronglyConvex(0.5, 1.0, 0.5), rho=1.0, steps=9, initial_offset=1.0, tune_learning_rate=True)


def test_metadata_may_be_numbers_of_numpy() -> None:
    kept: dict[str, Any] = {"n": np.int64(3), "x": np.float32(0.5), "yes": np.bool_(True)}
    assert design(LinearRegression([1.0, 0.5], 0.1), rho=1.0, metadata=kept).metadata == {
        "n": 3,
        "x": 0.5,
        "yes": True,
        "tolerance": 1e-6,
    }
    with pytest.raises(TypeError, match="metadata must be a mapping"):
        design(LinearRegression([1.0, 0.5], 0.1), rho=1.0, metadata=3)  # type: ignore[arg-type]


def test_several_participations_are_covered_and_compared() -> None:
    problem = LinearRegression(1 / np.arange(1.0, 9), 0.05)
    run: dict[str, Any] = {"steps": 400, "min_sep": 100, "max_participations": 4}
    made = design(problem, rho=0.5, initial_offset=0.3, scales=False, poles=6, **run)
    matrix = linalg.toeplitz(made.noise.inverse_coefficients(400), np.zeros(400))
    needed = strategy_sensitivity(matrix, Participation(**run)).lower
    once = design(problem, rho=0.5, steps=400, initial_offset=0.3)
    for multiplier in (
        made.noise_multiplier,
        made.stream_multiplier,
        made.buffers_multiplier,
        made.toeplitz_multiplier,
    ):
        assert multiplier is not None
        assert needed * (1 - 1e-6) <= multiplier <= 1.01 * needed
    assert once.noise_multiplier < 0.6 * needed  # one participation does not cover four
    ratio = made.comparison["DP-SGD"].best_ratio
    assert ratio is not None
    assert ratio > 1
    assert "at most 4 steps, at least 100 steps apart" in made.report()
    assert "smallest" not in made.report().partition("Stationary errors")[2].replace("not the smallest", "")
    assert made.choice is not None
    assert made.choice.floor is not None
    assert 1 <= made.choice.chosen.error / made.choice.floor < 2


def test_several_participations_need_a_quadratic_problem() -> None:
    with pytest.raises(ValueError, match="max_participations must be 1 for strongly convex losses, got 2"):
        design(StronglyConvex(0.1, 1.0, 0.5), rho=0.5, steps=10, max_participations=2)
