"""Elliptic integrals: closed forms on arrays against quadrature, and against the elliptic functions of scipy.

The quadratures are given in their most favourable form.  The integrand is a function of half the angle φ = ω/2, where
squares of positive terms are added.  The break points increase geometrically from the narrowest feature to π/2; without
them QUADPACK misses narrow features without a warning.  The quadratures run with the integrand in Python, as it is
usually written, and compiled.  The errors of all methods are relative to mpmath's quadrature with 30 digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numba
import numpy as np
from scipy import LowLevelCallable
from scipy.integrate import quad
from scipy.special import ellipkm1, elliprf, elliprj

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.checks import Array

DIGITS = 30

Integrand = Callable[[Any, Any, Any], Any]


def _inverse_modulus(m: Any) -> Integrand:
    """(2/π) / |1 − (1 − a) e^{2iφ}|, in the functions of ``m``."""

    def integrand(phi: Any, a: Any, x: Any) -> Any:
        c, s = m.cos(phi), m.sin(phi)
        return 2 / m.pi / m.sqrt((a * c) ** 2 + ((2 - a) * s) ** 2)

    return integrand


def _averaged_modulus(m: Any) -> Integrand:
    """(2/π) x (2 − x) |1 − (1 − a) e^{2iφ}| / |1 − (1 − x) e^{2iφ}|²."""

    def integrand(phi: Any, a: Any, x: Any) -> Any:
        c, s = m.cos(phi), m.sin(phi)
        seen = x * (2 - x) / ((x * c) ** 2 + ((2 - x) * s) ** 2)
        return 2 / m.pi * seen * m.sqrt((a * c) ** 2 + ((2 - a) * s) ** 2)

    return integrand


def _breaks(narrowest: float) -> list[float]:
    rungs = math.ceil(math.log(math.pi / narrowest, 4))
    return [math.pi / 2 * 4.0**-k for k in range(rungs, 0, -1)]


def _quadpack(integrand: Any, points: list[tuple[float, float]]) -> list[float]:
    """∫_0^{π/2} by QUADPACK to 1e-13, for each pair (a, x)."""
    how: dict[str, Any] = {"epsabs": 0, "epsrel": 1e-13, "limit": 400, "full_output": True}
    return [quad(integrand, 0, math.pi / 2, args=p, points=_breaks(min(p)), **how)[0] for p in points]


def _compiled(integrand: Integrand) -> LowLevelCallable:
    inner = numba.njit(integrand)

    @numba.cfunc("float64(intc, CPointer(float64))")
    def outer(n, z):  # type: ignore[no-untyped-def]
        return inner(z[0], z[1], z[2])

    return LowLevelCallable(outer.ctypes)


def _multiprecision(integrand: Integrand, points: list[tuple[float, float]]) -> list[float]:
    def one(a: float, x: float) -> float:
        exact_a, exact_x = mpmath.mpf(a), mpmath.mpf(x)
        ladder = [0, *_breaks(min(a, x)), mpmath.pi / 2]
        return float(mpmath.quad(lambda phi: integrand(phi, exact_a, exact_x), ladder))

    with mpmath.workdps(DIGITS):
        return [one(a, x) for a, x in points]


def _rows(
    setting: Setting, integrand: Callable[[Any], Integrand], gaps: Array, rates: Array, ours: Side, special: Side
) -> Iterator[Row]:
    """Our closed form against quadratures on the first few points, and against another closed form on all points."""
    points = list(zip(gaps.tolist(), rates.tolist(), strict=True))[: setting.pick(40, 5)]
    exact = _multiprecision(integrand(mpmath), points)
    plain = integrand(math)
    compiled = _compiled(integrand(math))
    few = points[:5]
    size = f"{gaps.size} values"
    part = slice(len(points))
    python = Side("quad", lambda: _quadpack(plain, points), len(points))
    native = Side("quad, integrand compiled", lambda: _quadpack(compiled, points), len(points))
    digits = Side(f"mpmath quad, {DIGITS} digits", lambda: _multiprecision(integrand(mpmath), few), len(few))
    yield setting.compare(size, ours, python, item="value", tolerance=1e-12, where=part, exact=(..., exact))
    yield setting.compare(size, ours, native, item="value", tolerance=1e-12, where=part, exact=(..., exact))
    yield setting.compare(size, ours, digits, item="value", tolerance=1e-14, where=slice(len(few)))
    yield setting.compare(size, ours, special, item="value", tolerance=1e-9, exact=(part, exact))


def _log_uniform(setting: Setting, seed: int) -> Array:
    return np.asarray(10 ** np.random.default_rng(seed).uniform(-6, 0, setting.pick(100_000, 2000)))


def _carlson(a: Array, x: Array) -> Array:
    """b(x) by Carlson's R_F and R_J, the textbook route."""
    m, n = (a / (2 - a)) ** 2, (x / (2 - x)) ** 2
    total = elliprf(0, m, 1) + (m - n) / 3 * elliprj(0, m, 1, n)
    return np.asarray(2 / math.pi * (2 - a) * x / (2 - x) * total)


@benchmark
def limiting_sensitivity(setting: Setting) -> Iterator[Row]:
    """γ_∞² of ν-DP-FTRL, (1/2π) ∫ dω/|1 − a − e^{iω}|, for gaps a log-uniform in [1e-6, 1]."""
    a = _log_uniform(setting, 0)
    ours = Side("agm", lambda: elliptic.mean_inverse_modulus(a), a.size)
    special = Side("scipy ellipkm1", lambda: 2 / math.pi * ellipkm1(a * (2 - a)), a.size)
    yield from _rows(setting, _inverse_modulus, a, a, ours, special)


@benchmark
def averaged_variance(setting: Setting) -> Iterator[Row]:
    """b(x) of ν-DP-FTRL, x (2 − x) I(a, x)/2π of Lemma C.21, for a and x log-uniform in [1e-6, 1]."""
    a, x = _log_uniform(setting, 1), _log_uniform(setting, 2)
    ours = Side("cel", lambda: elliptic.averaged_modulus(a, x), a.size)
    special = Side("scipy elliprf, elliprj", lambda: _carlson(a, x), a.size)
    yield from _rows(setting, _averaged_modulus, a, x, ours, special)
