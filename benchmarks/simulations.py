"""The simulators against the floor of their random numbers, and streams of noise against the direct sum."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numba
import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.quadratic import simulate
from corrnoise.simulations.run.stream import Stream
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.problems.quadratic import LinearRegression

_DIMENSION = 128
_PROBLEM = LinearRegression(1 / np.arange(1.0, _DIMENSION + 1), 0.02)


@numba.njit(cache=True, error_model="numpy")
def _mean_square(rng, draws):  # type: ignore[no-untyped-def]
    """The mean square of standard normals drawn one by one, whose time is a lower bound for any simulator."""
    total = 0.0
    for _ in range(draws):
        value = rng.standard_normal()
        total += value * value
    return total / draws


def _noises() -> Iterator[tuple[str, ToeplitzNoise]]:
    yield "DP-SGD", DPSGD()
    noise = NuFTRL(_PROBLEM.rates.min())
    for tolerance in (3e-5, 1e-7):
        approximate = rational(noise, tolerance)
        assert isinstance(approximate, PoleNoise)
        yield f"ν-FTRL, {approximate.poles.size} poles", approximate


@benchmark
def simulator(setting: Setting) -> Iterator[Row]:
    """One thread, d = 128, all three estimators; the floor is two normals a step and dimension of the same generator.

    The floor returns its mean square times the exact error, which is compared with the simulated error.  The two agree
    up to statistical errors.
    """
    steps = setting.pick(100_000, 4_000)
    for name, noise in _noises():
        exact = _PROBLEM.stationary_error(noise)

        def run(noise: ToeplitzNoise = noise) -> float:
            settings = {"steps": steps, "chains": 1, "burn_in": 0, "rng": 1, "threads": 1, "progress": False}
            return simulate(_PROBLEM, noise, **settings).estimators["delta1"][0]  # type: ignore[arg-type]

        def floor(exact: float = exact) -> float:
            rng = np.random.Generator(np.random.SFC64(1))
            return exact * float(_mean_square(rng, 2 * steps * _DIMENSION))

        items = steps * _DIMENSION
        yield setting.compare(
            name,
            Side("simulate", run, items),
            Side("two normals", floor, items),
            item="step × dimension",
            tolerance=0.1,
        )


@benchmark
def control_variates(setting: Setting) -> Iterator[Row]:
    """CPU time to one and the same standard error (relative 1): the estimator delta against the plain one."""
    steps = setting.pick(100_000, 20_000)
    burn_in = setting.pick(None, 4_000)
    for name, noise in _noises():
        exact = _PROBLEM.stationary_error(noise)

        @cache
        def simulated(noise: ToeplitzNoise = noise) -> dict[str, tuple[float, float]]:
            settings = {"steps": steps, "chains": 4, "burn_in": burn_in, "rng": 2, "threads": 1, "progress": False}
            return simulate(_PROBLEM, noise, **settings).estimators  # type: ignore[arg-type]

        def run(name: str, fresh=simulated.__wrapped__) -> float:  # type: ignore[no-untyped-def]
            return float(fresh()[name][0])

        sides = [
            Side(which, lambda which=which: run(which), (exact / simulated()[which][1]) ** 2)  # type: ignore[misc]
            for which in ("delta", "plain")
        ]
        yield setting.compare(name, *sides, item="inverse squared error", tolerance=0.5)


@benchmark
def noise_stream(setting: Setting) -> Iterator[Row]:
    """Correlated noise step by step: O(poles) a step against the direct sum over all past steps, which stores them."""
    size = 1000
    steps = setting.pick(2000, 200)
    noise = rational(NuFTRL(1e-3), 1e-6)
    who = Participation.single(steps)

    def stream() -> Array:
        return np.array(list(Stream(noise.program(who, "float64"), size, rng=3)))[-1]

    def direct() -> Array:
        beta = noise.coefficients(steps)
        white = np.random.default_rng(3).standard_normal((steps, size))
        for t in range(steps):
            value = beta[: t + 1][::-1] @ white[: t + 1]
        return np.asarray(value)

    def transform() -> Array:
        return np.array(list(Stream(noise.program(who, form="transform"), size, rng=3)))[-1]

    case = f"T = {steps}, {size} parameters"
    items = steps * size
    ours = Side("Stream", stream, items)
    for other in (Side("direct sum", direct, items), Side("exact, by FFT", transform, items)):
        yield setting.compare(case, ours, other, item="step × parameter", tolerance=1e-9, in_norm=True)
