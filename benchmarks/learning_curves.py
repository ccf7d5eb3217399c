"""The exact learning curve of linear regression against the same recursion in numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.quadratic import LinearRegression


def _numpy_curve(problem: LinearRegression, noise: ToeplitzNoise, steps: int, offset: float) -> Array:
    """Second moments of Noisy-FTRL with Gaussian inputs, ρ = G = 1: vectors over the dimension, a loop over time."""
    x = problem.rates
    eta = problem.learning_rate
    noise_variance = noise.limiting_sensitivity() ** 2 / 2
    moments = problem.eigenvalues * offset**2
    average = np.zeros(x.size)
    squares = np.zeros(x.size)
    errors = [moments.sum() / 2]
    for beta in noise.coefficients(steps):
        average = (1 - x) * average + beta
        squares += average**2
        seen = x * (2 - x) * squares + (1 - x) ** 2 * average**2
        drive = x**2 * (moments.sum() + problem.residual_std**2) + eta * noise_variance * x * seen
        moments = (1 - 2 * x + 2 * x**2) * moments + drive
        errors.append(moments.sum() / 2)
    return np.array(errors)


@benchmark
def learning_curve(setting: Setting) -> Iterator[Row]:
    """E F(θ_t) − F*, t = 0, …, T, of linear regression in d dimensions; both sides are linear in T."""
    dimension = 128
    steps = setting.pick(10**5, 2000)
    shorter = steps // 20
    problem = LinearRegression(1 / np.arange(1.0, dimension + 1), 0.02, residual_std=0.1)
    noise = NuFTRL(1e-4)
    ours = Side("learning_curve", lambda: problem.learning_curve(noise, steps, initial_offset=1.0), steps * dimension)
    loop = Side(
        f"numpy, loop over {shorter} steps", lambda: _numpy_curve(problem, noise, shorter, 1.0), shorter * dimension
    )
    case = f"T = {steps:.0e}, d = {dimension}"
    part = slice(shorter + 1)
    yield setting.compare(case, ours, loop, item="step × dimension", tolerance=1e-11, where=part)
