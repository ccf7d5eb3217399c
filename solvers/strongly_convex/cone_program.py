"""The strongly convex bound as the paper computes it: a second-order cone program on uniform frequencies.

Let β = x − l − is.  The matrix inequality of ``docs/strongly-convex-bound-proofs.md`` says that at every frequency

    ( u   p* )                    u = 2δ Re(Λβ) + (2a + ε) |β|² − lδ,
    ( p   v  )  is nonnegative,   p = δ Λ + (2a + ε) β*,   v = δ ξ + 2a + ε,

which is a cone of dimension 4: ‖(2 Re p, 2 Im p, u − v)‖ <= u + v.  All entries are affine in ξ and in the coefficients
c >= 0 of Λ = a + ib, so

    minimise Σ_i w_i ξ_i  over c and ξ

is a second-order cone program.  It is the paper's program for the single lags ±1, …, ±T, with the sign of the
multiplier corrected.  (A lag into the past and the same lag into the future have separate coefficients.  With equal
coefficients the multiplier would be real and little better than a constant.)

The program is built from this inequality and solved by cvxpy and CLARABEL.  It shares no formula with
``theory.problems.strongly_convex`` and no solver with ``interior_point``, so each checks the other.  Its answer is
returned as the solver found it.  Only the units are taken from there: c and ξ are measured in units of the best
constant multiplier and of its gains.  Without these units the solver's answers have errors of 0.3 % at κ = 10⁴.

Source: Choquette-Choo et al., arXiv 2310.06771, Appendix E.1.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from corrnoise.solvers.strongly_convex.multipliers import Multiplier, taps
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.strongly_convex import Criterion, circle_multiplier

GAP_TOLERANCES = (1e-10, 1e-8)  # of gap and feasibility; the second is tried if the first is not reached
MAX_ITERATIONS = 400


class ConeProgramError(ArithmeticError):
    """The cone solver did not find an optimum."""


def uniform_frequencies(count: int) -> tuple[Array, Array]:
    """The frequencies 2πj/count folded into [0, π], ends included, and the weights of their average."""
    frequencies = np.linspace(0.0, math.pi, count // 2 + 1)
    weights = np.full(count // 2 + 1, 2 / count)
    weights[[0, -1]] = 1 / count
    return frequencies, weights


@dataclass(frozen=True)
class ConeSolution:
    """An optimum of the cone program, as the solver found it."""

    value: float  #: Σ quadrature × spectrum × ξ
    gains: Array  #: ξ at the frequencies
    multiplier: Multiplier  #: Λ; coefficients below 0 by rounding are set to 0
    accuracy: float  #: relative error of ``value`` that the solver's residuals allow, to first order
    tolerance: float  #: the tolerance that the solver reports to have reached
    iterations: int  #: number of the solver's iterations


class ConeProgram:
    """The cone program for one (m, l), criterion and grid, compiled once and solved for any spectrum.

    0 < m < l < 2.  ``count`` is the number of uniform frequencies on the full circle, even, so that 0 and π are among
    them, and ``lags`` T, below count/2: on the grid a longer lag is the same as a shorter one.
    """

    def __init__(self, slow: float, fast: float, criterion: Criterion, count: int, lags: int) -> None:
        self.slow = slow
        self.fast = fast
        self.criterion = criterion
        self.lags = lags
        self.frequencies, self.quadrature = uniform_frequencies(count)
        self._lock = threading.Lock()
        self._compile()

    def _compile(self) -> None:
        import cvxpy as cp
        from cvxpy import multiply, vstack  # type: ignore[attr-defined]

        delta = self.fast - self.slow
        epsilon = 1.0 if self.criterion == "objective" else 0.0
        x = 2 * np.sin(self.frequencies / 2) ** 2
        s = np.sin(self.frequencies)
        beta_squared = (x - self.fast) ** 2 + s**2

        def entries(a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
            """The entries u, Re p, Im p and v − δξ of the matrices for Λ = a + ib."""
            twice = 2 * a + epsilon
            u = 2 * delta * (multiply(x - self.fast, a) + multiply(s, b)) + multiply(beta_squared, twice)
            real = delta * a + multiply(x - self.fast, twice)
            imaginary = delta * b + multiply(s, twice)
            return u - self.fast * delta, real, imaginary, twice

        # The units: the best constant, its gains, and u and v there.
        self._unit = circle_multiplier(self.slow, self.fast, self.criterion)[0]
        constant = cp.Constant(np.full_like(x, self._unit))
        u, real, imaginary, twice = (entry.value for entry in entries(constant, 0 * constant))
        v = (real**2 + imaginary**2) / u
        self._unit_gain = (v - twice) / delta
        balance = np.sqrt(v / u)
        size = np.sqrt(u * v)

        past = np.arange(1, self.lags + 1)
        one_minus = 1 - np.exp(-1j * np.outer(self.frequencies, np.concatenate([past, -past])))
        self._c = cp.Variable(1 + 2 * self.lags, nonneg=True)
        self._gains = cp.Variable(x.size)
        lambda_real = self._c[0] + one_minus.real @ self._c[1:]
        lambda_imaginary = one_minus.imag @ self._c[1:]
        u, real, imaginary, twice = entries(self._unit * lambda_real, self._unit * lambda_imaginary)
        u = multiply(balance / size, u)
        v = multiply(1 / (balance * size), multiply(delta * self._unit_gain, self._gains) + twice)
        across = [multiply(2 / size, real), multiply(2 / size, imaginary)]
        cones = cp.SOC(u + v, vstack([*across, u - v]), axis=0)
        self._weights = cp.Parameter(x.size, nonneg=True)
        self.cone_problem = cp.Problem(cp.Minimize(self._weights @ self._gains), [cones])

    def solve(self, spectrum: Array) -> ConeSolution:
        """The coefficients c >= 0 and gains that minimise Σ quadrature × spectrum × ξ, by CLARABEL.

        Raises
        ------
        ConeProgramError
            If the solver does not report an optimum.
        """
        import cvxpy as cp

        weights = self.quadrature * spectrum * self._unit_gain
        total = float(weights.sum())
        with self._lock:
            self._weights.value = weights / total
            for tolerance in GAP_TOLERANCES:
                status, data, raw = self._run(tolerance)
                if status == cp.OPTIMAL:
                    break
            else:
                raise ConeProgramError(self._advice(status))
            c = self._unit * np.maximum(np.asarray(self._c.value), 0.0)
            gains = self._unit_gain * np.asarray(self._gains.value)
        kernels = taps(self.lags)
        multiplier = Multiplier(self.slow, self.fast, self.criterion, float(c[0]), c[1:], kernels)
        value = total * raw.obj_val
        return ConeSolution(
            value, gains, multiplier.without_negligible(), _accuracy(data, raw), tolerance, raw.iterations
        )

    def _run(self, tolerance: float) -> tuple[str, dict[str, Any], Any]:
        """Solve once; return the status, the cone program in standard form, and the solver's raw answer."""
        import cvxpy as cp

        options: dict[str, float] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), tolerance)
        options["max_iter"] = MAX_ITERATIONS
        data, chain, inverse = self.cone_problem.get_problem_data(cp.CLARABEL, solver_opts=options)
        raw = chain.solve_via_data(self.cone_problem, data, solver_opts=options)
        if str(raw.status) != "Solved":  # cvxpy would warn of inaccurate answers, and raise for others
            return str(raw.status), data, raw
        self.cone_problem.unpack_results(raw, chain, inverse)
        return self.cone_problem.status, data, raw

    def _advice(self, status: str) -> str:
        return (
            f"the cone solver stopped with {status!r} at learning_rate × strong_convexity = "
            f"{self.slow!r}, learning_rate × smoothness = {self.fast!r}, {self.frequencies.size} frequencies and "
            f'{self.lags} lags: use method="fast", or fewer frequencies and lags'
        )


def _accuracy(data: dict[str, Any], raw: Any) -> float:
    """The relative error of the optimal value that gap and residuals of the solver's answer allow.

    In standard form the solver minimises qᵀx over Ax + s = b with s in a cone; z is the dual vector, x* and z* are the
    exact optima.  By duality the optimum is at least −bᵀz − |q + Aᵀz|ᵀ|x*|, and at most qᵀx + |Ax + s − b|ᵀ|z*| to
    first order.  Here x and z stand for x* and z*.
    """
    q = data["c"]
    x = np.asarray(raw.x)
    z = np.asarray(raw.z)
    primal = data["A"] @ x + np.asarray(raw.s) - data["b"]
    dual = q + data["A"].T @ z
    gap = abs(q @ x + data["b"] @ z)
    return float((gap + np.abs(primal) @ np.abs(z) + np.abs(dual) @ np.abs(x)) / abs(q @ x))


@lru_cache(maxsize=8)
def compiled(slow: float, fast: float, criterion: Criterion, count: int, lags: int) -> ConeProgram:
    """The ``ConeProgram`` for these arguments, kept for the next spectrum."""
    return ConeProgram(slow, fast, criterion, count, lags)
