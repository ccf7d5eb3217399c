"""Designs run through every door: the map that really runs has the sensitivity that its multiplier covers.

Nothing is given to a door but the design.  The noising matrix is the door's output for unit draws.  The sensitivity of
its inverse is computed from the patterns of the participation and all signs: a lower bound, attained for nearly all
noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.simulations.adapters import jax_transforms as jax_adapter
from corrnoise.simulations.run import draws
from corrnoise.solvers.rational.handover import noise_as_run
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics.rounding import DTYPES
from corrnoise.theory.objectives.workloads import SGD, MomentumAverage
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import ADJACENCIES, Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from tests.design_examples import unit_draws

SLACK = 1.004
REASONS: list[str] = []  # why forms were refused
FAMILIES = (None, None, "buffers", "best Toeplitz, unit columns", "banded inverse", "binary tree, online")


def random_case(seed: int) -> tuple[Budget, Participation, Any, dict[str, Any]]:
    rng = np.random.default_rng(seed)
    budget = Budget(
        **(
            {"rho": float(rng.uniform(0.05, 2))} if seed % 2 else {"epsilon": float(rng.uniform(0.5, 8)), "delta": 1e-5}
        ),
        clip_norm=float(rng.uniform(0.1, 5)),
        adjacency=str(rng.choice(list(ADJACENCIES))),  # type: ignore[arg-type]
    )
    period = int(rng.integers(3, 7))
    epochs = int(rng.integers(2, 4))
    n = period * epochs
    shapes = [
        Participation.single(n),
        Participation.fixed_epochs(n, epochs=epochs, secret=bool(seed % 2)),
        Participation.fixed_epochs(n, epochs=epochs, unit="user", members=3),
        Participation.min_sep(n, period),
        Participation.min_sep(n, period - 1, 2),
        Participation.balls_in_bins(n, period=period),
        Participation.reshuffled(n, epochs=epochs),
    ]
    objectives = [
        None,
        SGD(momentum=0.9, batch_size=4),
        SGD(weight_decay=0.1, cool_down=0.5),
        MomentumAverage(n, alpha=0.2),
        LinearRegression([1.0, 0.2], 0.1),
        MeanEstimation(0.2),
    ]
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    options = {"family": family} if family else {"memory": [None, 0, 1, 3, math.inf][int(rng.integers(5))]}
    return budget, shapes[seed % len(shapes)], objectives[int(rng.integers(len(objectives)))], options


def sensitivity(noising: np.ndarray, participation: Participation) -> float:
    """The largest norm of a signed sum of columns of the strategy over a pattern."""
    strategy = np.linalg.inv(np.tril(noising.astype(float)))
    best = 0.0
    for pattern in participation.worst.patterns():
        for signs in itertools.product((1, -1), repeat=len(pattern) - 1):
            best = max(best, float(np.linalg.norm(strategy[:, pattern] @ np.array([1, *signs]))))
    return best * participation.members


def of_a_stream(made: Design) -> np.ndarray:
    n = made.participation.length
    stream = made.stream(n)
    stream._draw = unit_draws(n)
    return np.array(list(stream)) / stream.scale


def of_a_run(made: Design, patched: pytest.MonkeyPatch) -> np.ndarray:
    n = made.participation.length
    source = unit_draws(n)
    run = made.run(n)
    patched.setattr(draws, "filler", lambda *_: source)
    assert run.multiplier == run.program.multiplier(made.budget)
    return np.array([run.add_noise(np.zeros(n)) for _ in run]) / run.scale


def of_a_program(program: Program) -> np.ndarray:
    """The noising matrix of a program that another library runs, by the recurrence of its form in its arithmetic."""
    n = program.participation.length
    dtype = np.dtype(program.dtype)
    numbers = {name: v.astype(dtype) for name, v in program.arrays.items()}
    matrix = np.zeros((n, n), dtype)
    if program.form == "time-varying buffers":
        return np.asarray(program.mechanism.noising_matrix())
    if program.form == "buffers":
        for j, unit in enumerate(np.eye(n)):
            matrix[:, j] = noise_as_run(program.unscaled, unit, program.dtype)
    for t, unit in enumerate(np.eye(n, dtype=dtype)):
        if program.form == "noising column":
            matrix[t, : t + 1] = numbers["noising_coef"][t::-1]
        if program.form == "strategy column":
            c = numbers["strategy_coef"]
            matrix[t] = (unit - c[1 : t + 1] @ matrix[:t][::-1]) / c[0]
    return numbers.get("step_scales", np.ones(n, dtype))[:, np.newaxis] * matrix


def programs(made: Design) -> Iterator[Program]:
    forms = ("buffers", "time-varying buffers", "strategy column", "noising column")
    for form, dtype in itertools.product(forms, DTYPES):
        try:
            yield made.program(form, dtype)  # type: ignore[arg-type]
        except ValueError as error:
            REASONS.append(str(error))


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(x, marks=pytest.mark.slow) for x in range(8, 40))])
def test_every_door_is_covered(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    budget, drawn, objective, options = random_case(seed)
    promised = drawn.worst  # sampled designs have tests of their own
    made = design(budget, promised, objective, **options)
    inside = math.sqrt(2 * budget.gaussian_rho) / ADJACENCIES[budget.adjacency]
    doors = [("stream", made.program(), of_a_stream(made)), ("run", made.program(), of_a_run(made, monkeypatch))]
    doors += [(one.form, one, of_a_program(one)) for one in programs(made)]
    exact = made.mechanism.bracket(promised).exact
    for name, program, noising in doors:
        claimed = program.multiplier(budget) * inside
        needed = sensitivity(noising, promised.worst)
        assert needed <= claimed * (1 + 1e-12), name
        assert claimed <= needed * (SLACK if exact else 1.3), name
    assert all(one.startswith(("buffers", "strategy column", "noising column", "form must be")) for one in REASONS)


def test_a_run_without_the_factors_would_not_be_private() -> None:
    """The check above sees what is left out."""
    made = design(Budget(0.5), Participation.fixed_epochs(24, epochs=3), family="buffers, epoch weights", memory=2)
    program = made.program("buffers", "float64")
    assert program.step_scales is not None
    forgotten = of_a_program(program) / program.step_scales[:, np.newaxis]
    assert sensitivity(forgotten, made.participation) > 1.1 * program.sensitivity


@pytest.mark.parametrize("family", [None, "buffers", "nu-DP-FTRL"])
def test_the_door_to_jax(family: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("optax")
    n = 24
    made = design(Budget(0.5), Participation.fixed_epochs(n, epochs=3), family=family, memory=None if family else 2)
    source = unit_draws(n)

    def draw(*_: object) -> Any:
        values = np.zeros(n, np.float32)
        source(values)
        return jax.numpy.asarray(values)

    monkeypatch.setattr(jax_adapter, "_draw", draw)
    transformation = made.for_jax()
    state = transformation.init(jax.numpy.zeros(n))
    rows = []
    for _ in range(n):
        row, state = transformation.update(jax.numpy.zeros(n), state)
        rows.append(np.asarray(row))
    needed = sensitivity(np.array(rows), made.participation)  # of the strategy over the scale of the noise
    assert 1 / SLACK <= needed <= 1 + 1e-6
    monkeypatch.setattr(jax_adapter, "_draw", lambda *_: jax.numpy.zeros(n))
    assert np.isnan(transformation.update(jax.numpy.zeros(n), state)[0]).all()


@pytest.mark.slow
def test_the_doors_to_torch() -> None:
    torch = pytest.importorskip("torch")
    made = design(Budget(0.5), Participation.fixed_epochs(12, epochs=3), memory=1)
    model = torch.nn.Linear(3, 2)
    run = made.for_torch(model)
    assert (run.size, run.program, run.budget) == (8, made.program(), made.budget)
    data = torch.utils.data.TensorDataset(torch.zeros(8, 3), torch.zeros(8, 2))
    descent = torch.optim.SGD(model.parameters(), 0.1)
    criterion = made.for_opacus(model, descent, data, loss=torch.nn.functional.mse_loss, batch_size=2)[2]
    assert criterion.run.program == made.program()
    assert criterion.run.multiplier == made.program().multiplier(made.budget)


@pytest.mark.parametrize(("kind", "offered"), [(Participation.fixed_epochs, True), (Participation.reshuffled, False)])
def test_long_runs_with_factors_are_handed_over_or_say_why_not(kind: Any, offered: bool) -> None:
    from corrnoise.solvers.optimum import Optimum
    from corrnoise.theory.mechanisms.poles import PoleNoise
    from corrnoise.theory.mechanisms.product import ProductNoise
    from corrnoise.theory.mechanisms.scaled import ScaledNoise

    assert issubclass(PoleNoise, ProductNoise)
    who = kind(2100, epochs=3)
    noise = ScaledNoise.normalised(PoleNoise([0.01], [0.1]), who)
    made = Design(Budget(0.5), who, Optimum(noise, who, "buffers, unit columns", noise.bracket(who), 1.0))
    if offered:
        for one in ("buffers", "strategy column"):
            assert made.program(one, "float64").sensitivity >= noise.bracket(who).lower
        return
    with pytest.raises(
        ValueError, match=r"buffers: with a factor for each step .* at most 2048 steps, got 2100; fixed"
    ):
        made.program("buffers")
