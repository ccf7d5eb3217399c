"""Designs in jax-privacy itself: its runs are covered by the multiplier of the design's program.

Skipped where jax-privacy is not installed (``pip install '.[jax]'``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex
from tests.design_examples import BUDGET, EPOCHED, STEPS

jax = pytest.importorskip("jax")
blts = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz")
toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz")
streaming = pytest.importorskip("jax_privacy.matrix_factorization.streaming_matrix")
noise_addition = pytest.importorskip("jax_privacy.noise_addition")

PROBLEMS = [
    (StronglyConvex(0.1, 1.0, 0.5, dimension=10), 2000),
    (LinearRegression(1 / np.arange(1.0, 33), 0.02), 1500),
    (MeanEstimation(1e-3), 1000),
]


@pytest.fixture(params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Iterator[Any]:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", request.param == "float64")
    jax.config.update("jax_default_matmul_precision", "highest")
    yield request.param
    jax.config.update("jax_enable_x64", before)


def sensitivity(coefficients: Any) -> float:
    values = np.asarray(coefficients, float)
    assert np.isfinite(values).all()
    return FiniteNoise(values).sensitivity(Participation.single(values.size))


@cache
def optimal(problem: Any, steps: int) -> Design:
    """The design of a problem, made once for both types."""
    options: dict[str, Any] = {} if isinstance(problem, StronglyConvex) else {"family": "stationary optimum"}
    return design(BUDGET, Participation.single(steps), problem, **options)


@pytest.mark.parametrize(("problem", "steps"), PROBLEMS, ids=repr)
def test_what_jax_privacy_makes_is_covered(problem: Any, steps: int, dtype: Any) -> None:
    made = optimal(problem, steps)
    impulse = jax.numpy.zeros(steps, dtype).at[0].set(1)
    program = made.program("buffers", dtype)
    theirs = blts.BufferedToeplitz.build(**program.arrays, dtype=dtype)
    run = theirs.inverse_as_streaming_matrix() @ impulse
    multiplier = program.multiplier(BUDGET)
    assert sensitivity(run) <= multiplier <= sensitivity(run) * (1 + 1e-3)
    program = made.program("strategy column", dtype)
    column = jax.numpy.array(program.arrays["strategy_coef"], dtype)
    run = toeplitz.inverse_as_streaming_matrix(column) @ impulse
    assert sensitivity(run) <= program.multiplier(BUDGET) <= sensitivity(run) * (1 + 1e-2)


def recipe(made: Design, dtype: Any) -> Any:
    """The lines of ``docs/handover.md`` for buffers."""
    program = made.program("buffers", dtype)
    arrays = dict(program.arrays)
    scales = arrays.pop("step_scales", None)
    matrix = blts.BufferedToeplitz.build(**arrays, dtype=dtype).inverse_as_streaming_matrix()
    if scales is not None:
        matrix = streaming.scale_rows_and_columns(matrix, row_scale=jax.numpy.asarray(scales, dtype))
    return program, matrix


@pytest.mark.parametrize(
    ("made", "steps"),
    [
        (design(Budget(0.5, clip_norm=0.5), Participation.single(50), MeanEstimation(0.05), family="buffers"), 50),
        (design(Budget(0.5, clip_norm=0.5), EPOCHED, family="buffers, epoch weights", memory=2), STEPS),
    ],
    ids=["once", "epochs with factors"],
)
def test_the_recipe_adds_the_noise_that_it_promises(made: Design, steps: int, dtype: Any) -> None:
    """The strategy turns the noise that is added back into independent noise of the standard deviation asked for."""
    size = 4000
    program, matrix = recipe(made, dtype)
    privatizer = noise_addition.matrix_factorization_privatizer(matrix, stddev=program.scale(made.budget), prng_key=0)
    gradients = np.zeros(size, dtype)
    state = privatizer.init(gradients)
    added = []
    for _ in range(steps):
        noisy, state = privatizer.update(jax.numpy.asarray(gradients), state)
        added.append(np.asarray(noisy, float))
    independent = program.mechanism.strategy(steps) @ np.array(added) / program.scale(made.budget)
    # The mean of n squares has the standard deviation sqrt(2/n); 6 of them are exceeded once in 5e8 runs.
    assert abs(float(np.square(independent).mean()) - 1) < 6 * math.sqrt(2 / (steps * size))


def test_noise_with_factors_is_covered(dtype: Any) -> None:
    made = design(BUDGET, EPOCHED, family="buffers, epoch weights", memory=2)
    program, matrix = recipe(made, dtype)
    assert program.step_scales is not None
    run = np.asarray(matrix @ jax.numpy.eye(STEPS, dtype=dtype)).astype(float)
    needed = strategy_sensitivity(np.linalg.inv(np.tril(run)), EPOCHED).lower
    assert needed * (1 - 1e-9) <= program.multiplier(BUDGET) <= 1.01 * needed


def test_jax_privacy_reads_the_same_strategy() -> None:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    buffers = PoleNoise([0.1, 0.01], [0.05, 0.3]).buffers()
    theirs = blts.BufferedToeplitz.build(buffers.buf_decay.tolist(), buffers.output_scale.tolist())
    assert np.asarray(theirs.toeplitz_coefs(50)) == pytest.approx(buffers.inverse_coefficients(50), rel=1e-12)
    inverse = np.asarray(theirs.inverse().toeplitz_coefs(50))
    assert inverse == pytest.approx(buffers.coefficients(50), rel=1e-9, abs=1e-12)
    gamma = buffers.sensitivity(Participation.single(50))
    assert math.sqrt(blts.sensitivity_squared(theirs, 50)) == pytest.approx(gamma, rel=1e-12)
    jax.config.update("jax_enable_x64", before)
