"""Designs in jax-privacy itself: what it runs is covered by the multiplier that the design carries for it.

Skipped where jax-privacy is not installed (``pip install '.[jax]'``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from corrnoise.designs.record import Design
from corrnoise.solvers.rational.exchange import buffer_form, noise_from_buffers

from corrnoise.designs.make import design
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex

jax = pytest.importorskip("jax")
blts = pytest.importorskip("jax_privacy.matrix_factorization.buffered_toeplitz")
toeplitz = pytest.importorskip("jax_privacy.matrix_factorization.toeplitz")
noise_addition = pytest.importorskip("jax_privacy.noise_addition")

PROBLEMS = [
    (StronglyConvex(0.01, 1.0, 0.5, dimension=10), 2000),
    (StronglyConvex(0.07, 1.0, 0.5), 200),
    (LinearRegression(1 / np.arange(1.0, 129), 0.02), 1500),
    (MeanEstimation(1e-3), 1000),
]


@pytest.fixture(params=["float64", "float32"])
def dtype(request: pytest.FixtureRequest) -> Iterator[str]:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", request.param == "float64")
    jax.config.update("jax_default_matmul_precision", "highest")
    yield request.param
    jax.config.update("jax_enable_x64", before)


def impulse(steps: int, dtype: str) -> Any:
    return jax.numpy.zeros(steps, dtype).at[0].set(1)


def sensitivity(coefficients: Any) -> float:
    values = np.asarray(coefficients, float)
    assert np.isfinite(values).all()
    return FiniteNoise(values).sensitivity(values.size)


@pytest.mark.parametrize(("problem", "steps"), PROBLEMS, ids=repr)
def test_what_jax_privacy_makes_is_covered(problem: Any, steps: int, dtype: str) -> None:
    d = design(problem, rho=0.5, steps=steps)  # γ/sqrt(2ρ) = γ
    assert d.buffers is not None
    theirs = blts.BufferedToeplitz.build(d.buffers.buf_decay, d.buffers.output_scale, dtype=dtype)
    run = theirs.inverse_as_streaming_matrix() @ impulse(steps, dtype)
    multiplier = d.multipliers("buffers")[dtype]
    assert multiplier is not None
    assert sensitivity(run) <= multiplier <= sensitivity(run) * (1 + 1e-3)
    ours = d.buffers.noise_as_run(np.eye(1, steps)[0], dtype=dtype)  # type: ignore[arg-type]
    assert np.asarray(run, float) == pytest.approx(ours, abs=1e-12 if dtype == "float64" else 1e-5)

    assert d.toeplitz is not None
    column = jax.numpy.array(d.toeplitz.strategy_coef, dtype)
    run = toeplitz.inverse_as_streaming_matrix(column) @ impulse(steps, dtype)
    multiplier = d.multipliers("strategy_coef")[dtype]
    assert multiplier is not None
    assert sensitivity(run) <= multiplier <= sensitivity(run) * (1 + 1e-2)


def test_the_recipe_adds_the_noise_that_it_promises(dtype: str) -> None:
    """The strategy turns the noise that is added back into independent noise of the standard deviation asked for."""
    clip_norm, steps, size = 0.5, 50, 4000
    d = design(MeanEstimation(0.05), rho=0.5, steps=steps, clip_norm=clip_norm)
    added = recipe(d, dtype, np.zeros(size, dtype), steps)
    assert d.buffers is not None
    strategy = d.buffers.coefficients(steps)
    independent = np.array([strategy[: t + 1][::-1] @ added[: t + 1] for t in range(steps)])
    multiplier = d.multipliers("buffers")[dtype]
    assert multiplier is not None
    variance = float(np.square(independent / (multiplier * clip_norm)).mean())
    # The mean of 200 000 squares has the standard deviation sqrt(2/200 000); 6 of them are exceeded once in 5e8 runs.
    assert abs(variance - 1) < 6 * math.sqrt(2 / (steps * size))


def recipe(d: Design, dtype: str, gradients: np.ndarray, steps: int) -> np.ndarray:
    """The lines of ``docs/handover.md`` for buffers, with a fixed key."""
    form = d.buffers
    assert form is not None
    multiplier = d.multipliers("buffers")[dtype]
    assert multiplier is not None
    strategy = blts.BufferedToeplitz.build(form.buf_decay, form.output_scale, dtype=dtype)
    privatizer = noise_addition.matrix_factorization_privatizer(
        strategy.inverse_as_streaming_matrix(), stddev=multiplier * d.clip_norm, prng_key=0
    )
    state = privatizer.init(gradients)
    made = []
    for _ in range(steps):
        noisy, state = privatizer.update(jax.numpy.asarray(gradients), state)
        made.append(np.asarray(noisy, float))
    return np.array(made)


def test_noise_with_factors_is_covered(dtype: str) -> None:
    """A chosen design: divide by the factor of the step, let jax-privacy add its noise, and multiply by the factor."""
    steps, epochs = 60, 3
    run: dict[str, Any] = {"min_sep": steps // epochs, "max_participations": epochs}
    d = design(rho=0.5, steps=steps, epochs=epochs, poles=2)
    assert d.scales is not None
    assert d.buffers is not None
    strategy = blts.BufferedToeplitz.build(d.buffers.buf_decay, d.buffers.output_scale, dtype=dtype)
    plain = np.asarray(strategy.inverse_as_streaming_matrix() @ jax.numpy.eye(steps, dtype=dtype))
    made = (d.scales.astype(dtype)[:, np.newaxis] * plain).astype(float)
    needed = strategy_sensitivity(np.linalg.inv(np.tril(made)), Participation(steps, **run)).lower
    multiplier = d.multipliers("buffers")[dtype]
    assert multiplier is not None
    assert needed * (1 - 1e-9) <= multiplier <= 1.1 * needed  # of this participation only a bound is known

    size, gradient = 4000, 0.25
    privatizer = noise_addition.matrix_factorization_privatizer(
        strategy.inverse_as_streaming_matrix(), stddev=multiplier, prng_key=0
    )
    state = privatizer.init(np.zeros(size, dtype))
    released = []
    for scale in d.scales.astype(dtype):
        noisy, state = privatizer.update(jax.numpy.full(size, gradient, dtype) / scale, state)
        released.append(scale * np.asarray(noisy))
    independent = np.linalg.solve(made, np.array(released, float) - gradient) / multiplier
    # The mean of 240 000 squares has the standard deviation sqrt(2/240 000); 6 of them are exceeded once in 5e8 runs.
    assert abs(float(np.square(independent).mean()) - 1) < 6 * math.sqrt(2 / (steps * size))


def test_jax_privacy_reads_the_same_strategy() -> None:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    form = buffer_form(PoleNoise([0.1, 0.01], [0.05, 0.3]))
    theirs = blts.BufferedToeplitz.build(form.buf_decay.tolist(), form.output_scale.tolist())
    assert np.asarray(theirs.toeplitz_coefs(50)) == pytest.approx(form.coefficients(50), rel=1e-12)
    inverse = np.asarray(theirs.inverse().toeplitz_coefs(50))
    assert inverse == pytest.approx(noise_from_buffers(form).coefficients(50), rel=1e-9, abs=1e-12)
    assert math.sqrt(blts.sensitivity_squared(theirs, 50)) == pytest.approx(
        form.sensitivity_upper_bound(Participation.single(50)), rel=1e-12
    )
    jax.config.update("jax_enable_x64", before)
