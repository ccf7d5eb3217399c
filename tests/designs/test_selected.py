"""Designs whose mechanism is chosen: what runs is covered, within the limit, above the floor, and saved."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.solvers.rational.exchange import BufferForm
from scipy.linalg import toeplitz

from corrnoise.designs.choice import Alternative, Choice, in_words
from corrnoise.designs.make import design
from corrnoise.designs.memory_figure import FLOOR, choice_data, curve_data, draw
from corrnoise.designs.record import Design
from corrnoise.designs.selected import USUAL_MEMORY, Limit, checked_limit
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.rounding import Dtype
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex

STEPS, EPOCHS = 48, 4
RUN: dict[str, Any] = {"min_sep": STEPS // EPOCHS, "max_participations": EPOCHS}
PROBLEM = LinearRegression(1 / np.arange(1.0, 7), 0.1)
CASES: dict[str, dict[str, Any]] = {
    "usual": {},
    "any memory": {"memory": math.inf},
    "bands": {"bands": 4},
    "poles": {"poles": 2},
    "no scales": {"scales": False},
    "no scales, any memory": {"scales": False, "memory": math.inf},
    "momentum and cool-down": {"momentum": 0.9, "cool_down": 0.25, "batch_size": 8},
    "a problem": {"problem": PROBLEM},
    "the last step": {"problem": PROBLEM, "judged": "last", "memory": math.inf},
}


@pytest.fixture(scope="module")
def designs() -> dict[str, Design]:
    return {name: design(rho=0.5, steps=STEPS, epochs=EPOCHS, **case) for name, case in CASES.items()}


def matrix_of_stream(made: Design) -> np.ndarray:
    """N, column by column, by what the stream makes of unit draws: the scale is divided out, the draws are known."""
    assert made.stream is not None
    rng = np.random.default_rng(0)
    draws = np.random.default_rng(0).standard_normal((STEPS, 3 * STEPS))
    noise = np.array(list(NoiseStream(made.stream, 3 * STEPS, steps=STEPS, method="recurrence", rng=rng)))
    return np.asarray(np.tril(np.linalg.lstsq(draws.T, noise.T, rcond=None)[0].T))


@pytest.mark.parametrize("name", CASES)
def test_what_runs_is_covered(designs: dict[str, Design], name: str) -> None:
    """The strategy of the noise that a stream really makes, against a bound of its sensitivity from patterns alone."""
    made = designs[name]
    assert made.stream is not None
    strategy = np.linalg.inv(matrix_of_stream(made))
    needed = strategy_sensitivity(strategy, Participation(STEPS, **RUN)).lower
    assert made.stream_multiplier is not None
    assert needed * (1 - 1e-9) <= made.stream_multiplier <= 1.02 * needed  # at ρ = 1/2 the multiplier is γ
    assert made.noise_multiplier == pytest.approx(made.stream_multiplier, rel=1e-5)
    stream = NoiseStream.private(made.stream, (2,), rho=0.5, clip_norm=1.0, steps=STEPS, **RUN)
    assert stream.scale == made.stream_multiplier
    twice = Design(**{**made.arguments(), "adjacency": "replace-one"})
    assert twice.stream_multiplier == pytest.approx(2 * made.stream_multiplier)


@pytest.mark.parametrize("name", CASES)
def test_the_choice_is_within_the_limit_above_the_floor_and_the_best(designs: dict[str, Design], name: str) -> None:
    choice = designs[name].choice
    assert choice is not None
    assert choice.floor is not None
    assert choice.chosen in choice.alternatives
    assert min(one.error for one in choice.alternatives) >= choice.floor
    limit = checked_limit(*(CASES[name].get(one) for one in ("memory", "poles", "bands")))
    most = {"poles": 2, "bands": 3}.get(name, USUAL_MEMORY if limit == Limit() else math.inf)
    assert choice.chosen.memory <= most
    if limit.memory == math.inf:
        assert choice.chosen.error == min(one.error for one in choice.alternatives if one.offered)
    gains = choice.gains()
    assert [one.memory for one in gains] == sorted({one.memory for one in gains})
    assert all(later.error < earlier.error for earlier, later in itertools.pairwise(gains))


@pytest.mark.parametrize("name", ["usual", "momentum and cool-down", "a problem"])
def test_errors_are_those_of_what_runs(designs: dict[str, Design], name: str) -> None:
    made = designs[name]
    assert made.choice is not None
    assert made.stream_multiplier is not None
    noise = made.stream_multiplier * matrix_of_stream(made)
    if name == "a problem":
        weights = LearningObjective(PROBLEM, STEPS, weights="second half").weight_matrix()
        expected = PROBLEM.learning_rate**2 / 2 * float(np.trace(weights @ noise @ noise.T))
    else:
        iterates = np.zeros((STEPS, STEPS))
        theta, momentum = np.zeros(STEPS), np.zeros(STEPS)
        mu = CASES[name].get("momentum", 0.0)
        for t in range(STEPS):  # the optimiser written out
            momentum = mu * momentum + noise[t] / CASES[name].get("batch_size", 1)
            rate = min(1.0, (STEPS - t) / (0.25 * STEPS)) if mu else 1.0
            theta = theta - rate * momentum
            iterates[t] = theta
        expected = math.sqrt(float((iterates**2).sum()) / STEPS)
    assert made.choice.chosen.error == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_all_of_it_is_saved_and_said(
    designs: dict[str, Design], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = name == "usual"  # pictures take longer than all the rest
    if not drawn:
        monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
        monkeypatch.setattr("corrnoise.designs.memory_figure.write_memory_picture", lambda *_: None)
    made = designs[name]
    paths = made.save(tmp_path / "folder")
    loaded = Design.load(tmp_path / "folder")
    assert loaded == made
    assert (loaded.choice, loaded.stream_multiplier) == (made.choice, made.stream_multiplier)
    assert ("scales.csv" in {path.name for path in paths}) == (made.scales is not None)
    assert ("memory.pdf" in {path.name for path in paths}) == drawn
    report = made.report()
    assert made.choice is not None
    assert f"Chosen: {made.choice.chosen.family}" in report
    assert "what memory buys" in report
    assert "<- this design" in report
    assert "no mechanism of any form is below" in report
    assert ("no spectrum is known" in report) == (made.problem is None)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["usual", "any memory", "a problem"])
def test_other_programs_with_factors_are_covered(designs: dict[str, Design], name: str, dtype: Dtype) -> None:
    """The noise of each program, in its arithmetic, times the factors: the strategy of this matrix."""
    made = designs[name]
    assert made.scales is not None
    assert made.toeplitz is not None
    factors = made.scales.astype(dtype)
    made_by: dict[str, np.ndarray] = {}
    beta, c = (v.astype(dtype) for v in (made.toeplitz.noising_coef, made.toeplitz.strategy_coef))
    made_by["noising_coef"] = toeplitz(beta, np.zeros(STEPS, dtype))
    columns = np.zeros((STEPS, STEPS), dtype)
    for t in range(STEPS):  # the recurrence, for all unit vectors at once
        columns[t] = (np.eye(STEPS, dtype=dtype)[t] - c[1 : t + 1] @ columns[:t][::-1]) / c[0]
    made_by["strategy_coef"] = columns
    if made.buffers is not None:
        made_by["buffers"] = np.array([made.buffers.noise_as_run(row, dtype=dtype) for row in np.eye(STEPS)]).T
    for form, matrix in made_by.items():
        multiplier = made.multipliers(form)[dtype]
        assert multiplier is not None
        run = (factors[:, np.newaxis] * matrix.astype(dtype)).astype(np.float64)
        needed = strategy_sensitivity(np.linalg.inv(np.tril(run)), Participation(STEPS, **RUN)).lower
        assert needed * (1 - 1e-12) <= multiplier <= 1.03 * needed
        without = np.linalg.inv(np.tril(matrix.astype(np.float64)))  # a program that forgets the factors
        assert strategy_sensitivity(without, Participation(STEPS, **RUN)).lower > 1.1 * multiplier


def test_long_runs_with_factors_and_buffers_of_mixed_signs_are_not_offered(designs: dict[str, Design]) -> None:
    made = designs["usual"]
    mixed = Design(**{**made.arguments(), "buffers": BufferForm([0.5, 0.9], [-0.1, 0.2])})
    assert mixed.buffers_multiplier is None
    assert "scales and decays >= 0" in mixed.report()
    steps = 2049
    long = Design(NuFTRL(0.1), rho=0.5, steps=steps, scales=np.ones(steps))
    assert {one.sensitivity for one in long.handover} == {None}
    assert "for at most 2048 steps" in long.report()
    with pytest.raises(ValueError, match="steps must be given with scales, got None"):
        Design(NuFTRL(0.1), rho=0.5, scales=np.ones(4))
    with pytest.raises(ValueError, match=r"scales must have shape \(5,\)"):
        Design(NuFTRL(0.1), rho=0.5, steps=5, scales=np.ones(4))


def test_where_no_limit_is_given_memory_is_saved() -> None:
    usual = design(rho=0.5, steps=STEPS, epochs=EPOCHS).choice
    explicit = design(rho=0.5, steps=STEPS, epochs=EPOCHS, memory=USUAL_MEMORY).choice
    assert usual is not None
    assert explicit is not None
    assert explicit.chosen.error <= usual.chosen.error <= 1.01 * explicit.chosen.error
    assert usual.chosen.memory <= explicit.chosen.memory


def test_batches_divide_the_error_and_change_no_multiplier() -> None:
    one = design(rho=0.5, steps=STEPS, epochs=EPOCHS)
    eight = design(rho=0.5, steps=STEPS, epochs=EPOCHS, batch_size=8)
    assert one.choice is not None
    assert eight.choice is not None
    assert eight.choice.chosen.error == pytest.approx(one.choice.chosen.error / 8)
    assert eight.stream_multiplier == one.stream_multiplier
    assert eight.metadata["batch_size"] == 8
    batched = design(PROBLEM, rho=0.5, batch_size=4)
    assert batched.problem == LinearRegression(PROBLEM.eigenvalues, 0.1, batch_size=4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None, "problem": None}, "steps must be given without a problem, got None"),
        ({"steps": None, "memory": 4}, "steps must be given with memory, poles or bands, got None"),
        ({"memory": 0}, "memory must be an integer >= 1, got 0"),
        ({"memory": math.nan}, "memory must be an integer"),
        ({"poles": 0}, "poles must be an integer >= 1, got 0"),
        ({"bands": -1}, "bands must be an integer >= 1, got -1"),
        ({"memory": 3, "bands": 2}, "memory must not come with poles or bands"),
        ({"momentum": 0.9}, "momentum must not come with a problem, whose errors"),
        ({"weight_decay": 0.1}, "weight_decay must not come with a problem"),
        ({"cool_down": 0.1}, "cool_down must not come with a problem"),
        ({"learning_rates": [1.0] * 9}, "learning_rates must not come with a problem"),
        ({"problem": None, "tune_learning_rate": True}, "tune_learning_rate must be False without a problem"),
        ({"problem": None, "initial_offset": [1.0]}, "initial_offset must be a number without a quadratic problem"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, got 0"),
        ({"problem": MeanEstimation(0.1, batch_size=2), "batch_size": 3}, "batch_size must be that of the problem, 2"),
        ({"problem": StronglyConvex(0.1, 1.0, 0.5), "batch_size": 3}, "batch_size must be 1 for StronglyConvex"),
        ({"problem": StronglyConvex(0.1, 1.0, 0.5), "poles": 3}, "memory, poles and bands must be None for strongly"),
        ({"judged": "first"}, "judged must be one of"),
        ({"epochs": 2, "min_sep": 3}, "min_sep must not come with epochs"),
    ],
)
def test_bad_input_is_refused(changes: dict[str, Any], message: str) -> None:
    arguments = {"problem": PROBLEM, "rho": 1.0, "steps": 9, **changes}
    if arguments["steps"] == 9 and "epochs" in changes:
        arguments["steps"] = 10
    with pytest.raises((ValueError, TypeError), match=message):
        design(**arguments)


def test_learning_in_too_many_dimensions_is_refused_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corrnoise.designs.make.LARGEST_LEARNING", 100)
    with pytest.raises(ValueError, match="steps times the number of eigenvalues must be at most 100"):
        design(PROBLEM, rho=1.0, steps=STEPS, memory=4)
    left = design(PROBLEM, rho=1.0, steps=STEPS, epochs=EPOCHS)
    assert left.choice is None
    assert "too long, or the dimension too large, to compare all mechanisms" in left.report()


def test_the_picture_shows_every_family_and_the_floor(designs: dict[str, Design]) -> None:
    choice = designs["a problem"].choice
    assert choice is not None
    curves = curve_data(designs["a problem"])
    data = choice_data(choice)
    drawn = {s.method for s in data}
    assert {one.family for one in choice.alternatives} | {FLOOR, "this design"} == drawn
    figure = draw(data + curves)
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(drawn)
    assert len(figure.axes) == 2
    assert len(draw(data).axes) == 1
    assert curve_data(designs["usual"]) == ()
    (made,) = (s for s in curves if s.method == "this design")
    (independent,) = (s for s in curves if s.method == "independent noise")
    second_half = made.x > STEPS / 2
    assert made.y[second_half].mean() == pytest.approx(choice.chosen.error, rel=0.02)  # steps are not evenly spaced
    expected = PROBLEM.learning_curve(DPSGD(), STEPS, horizon=designs["a problem"].run, **designs["a problem"].budget)
    assert independent.y == pytest.approx(expected[independent.x.astype(int)], rel=1e-9)


def test_words_of_a_choice_without_a_floor() -> None:
    rows = (
        Alternative("one", 0, 2.0),
        Alternative("two", 1, 1.0, exact=False),
        Alternative("three", 1, 3.0, offered=False),
    )
    text = in_words(Choice("an error", "any memory", rows[1], rows, None, "none is computed"))
    assert "over the floor" not in text
    assert "two                                      1              <= 1  <- this design" in text
    assert "(three)" in text
    assert "1 array" in text
    assert Choice.of_description(Choice("a", "b", rows[0], rows, 1.0, "c").description()).floor == 1.0
