"""Coefficients, inverse and sensitivity against the direct methods, and against copying the same array.

Copying T numbers is the floor: nothing that fills an array is faster.  If the other method takes O(T²), it runs at a
smaller T, and its time per step is scaled in proportion to T; the table marks these rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import mpmath
import numpy as np
import scipy.linalg
import scipy.signal

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation

NU = 1e-6
DIGITS = 40


def _cumulative_product(exponent: float, steps: int) -> Array:
    """Coefficients of (1 − (1 − ν) z)^e in float64."""
    t = np.arange(1, steps)
    return np.cumprod(np.concatenate([[1.0], (1 - NU) * (t - 1 - exponent) / t]))


def _cumulative_norm(exponent: float, steps: int) -> float:
    return float(np.linalg.norm(_cumulative_product(exponent, steps)))


def _exact_coefficients(exponent: float, places: Any) -> list[float]:
    with mpmath.workdps(DIGITS):
        r = mpmath.mpf(NU) - 1
        return [float(r**t * mpmath.binomial(exponent, t)) for t in places.tolist()]


def _copied(source: Array, target: Array) -> Array:
    np.copyto(target, source)
    return target


def _lengths(setting: Setting) -> list[int]:
    return setting.pick([10**4, 10**5, 10**6, 10**7], [1000, 10_000])


@benchmark
def coefficients(setting: Setting) -> Iterator[Row]:
    """β_0, …, β_{T−1} of ν-DP-FTRL at ν = 1e-6; errors are the largest in the last tenth of the steps."""
    noise = NuFTRL(NU)
    for steps in _lengths(setting):
        case = f"T = {steps:.0e}"
        late = np.linspace(0.9 * steps, steps - 1, 20).astype(int)
        beta = noise.coefficients(steps)
        ours = Side("product series", partial(noise.coefficients, steps), steps)
        direct = Side("numpy cumprod", partial(_cumulative_product, 0.5, steps), steps)
        floor = Side("numpy copyto: the floor", partial(_copied, beta, np.zeros(steps)), steps)
        exact = (late, _exact_coefficients(0.5, late))
        yield setting.compare(case, ours, direct, item="step", tolerance=1e-8, exact=exact)
        yield setting.compare(case, ours, floor, item="step", tolerance=0.0)


@benchmark
def inverse(setting: Setting) -> Iterator[Row]:
    """The first T coefficients of 1/B from T coefficients of B (ν-DP-FTRL, ν = 1e-3); differences in the 2-norm."""
    size = setting.pick(10**4, 5000)
    beta = NuFTRL(1e-3).coefficients(size)
    impulse = np.eye(1, size).ravel()
    direct = {
        "scipy solve_toeplitz": partial(scipy.linalg.solve_toeplitz, (beta, impulse), impulse),
        "scipy lfilter": partial(scipy.signal.lfilter, [1.0], beta, impulse),
    }
    for steps in setting.pick([10**4, 10**5, 10**6], [5000, 50_000]):
        noise = FiniteNoise(NuFTRL(1e-3).coefficients(steps))
        ours = Side("Newton", partial(noise.inverse_coefficients, steps), steps)
        scaled = "" if steps == size else f", {size:.0e} steps, scaled"
        for name, run in direct.items():
            other = Side(name + scaled, run, size * size / steps)
            case = f"T = {steps:.0e}"
            part = slice(size)
            yield setting.compare(case, ours, other, item="step", tolerance=1e-11, where=part, in_norm=True)


@benchmark
def sensitivity(setting: Setting) -> Iterator[Row]:
    """γ_T, the largest column norm of the inverse matrix, of ν-DP-FTRL at ν = 1e-6."""
    size = setting.pick(1000, 200)
    finite = FiniteNoise(NuFTRL(NU).coefficients(size))
    matrix = scipy.linalg.toeplitz(finite.values, np.zeros(size))
    identity = np.eye(size)

    def by_definition() -> float:
        columns = scipy.linalg.solve_triangular(matrix, identity, lower=True)
        return float(np.linalg.norm(columns, axis=0).max())

    ours = Side("FiniteNoise", partial(finite.sensitivity, Participation.single(size)), size)
    other = Side("scipy solve_triangular, all columns", by_definition, size)
    yield setting.compare(f"T = {size:.0e}", ours, other, item="step", tolerance=1e-12)

    noise = NuFTRL(NU)
    for steps in _lengths(setting):
        ours = Side("product series", partial(noise.sensitivity, Participation.single(steps)), steps)
        direct = Side("numpy cumprod", partial(_cumulative_norm, -0.5, steps), steps)
        yield setting.compare(f"T = {steps:.0e}", ours, direct, item="step", tolerance=1e-8)
