"""The strongly convex bound as the paper computes it: a second-order cone program on uniform frequencies.

    minimise Σ_i w_i ξ_i  over c >= 0 and ξ,  subject to  ‖(2 X₁, 2 X₂, u − v)‖ <= u + v  at every frequency

(the letters are those of ``corrnoise.theory.strongly_convex``) with the single lags ±1, …, ±T.  It is the paper's
program with the sign of the multiplier corrected; a lag into the past and one into the future are separate, because
with equal coefficients the multiplier is real and little better than a constant.  u and v are scaled by their values
at the best constant multiplier, frequency by frequency, without which interior-point codes break down at large κ.

References
----------
Choquette-Choo et al., arXiv 2310.06771, Appendix E.1.
"""

from __future__ import annotations

import math
import threading
import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from corrnoise.solvers.interior_point import MultiplierProgram
from corrnoise.solvers.multipliers import taps
from corrnoise.theory.checks import Array
from corrnoise.theory.strongly_convex import circle_multiplier

_ACCURATE = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-10, "tol_feas": 1e-10, "max_iter": 400}
_USUAL = {"tol_gap_abs": 1e-8, "tol_gap_rel": 1e-8, "tol_feas": 1e-8, "max_iter": 400}  # where that is too much to ask
_POLISHED = 1e-9  # relative suboptimality with which an answer is left as it is
_LARGEST_EXCESS = 0.05  # relative, over the interior-point method: more is no rounding, the two solvers contradict


class ConeProgramError(ArithmeticError):
    """The cone solver gave no answer that can be relied on."""


def uniform_frequencies(count: int) -> tuple[Array, Array]:
    """The frequencies 2πj/count folded into [0, π], ends included, and the weights that average over all of them."""
    frequencies = np.linspace(0.0, math.pi, count // 2 + 1)
    weights = np.full(count // 2 + 1, 2 / count)
    weights[[0, -1]] = 1 / count
    return frequencies, weights


class ConeProgram(MultiplierProgram):
    """The cone program for one (m, l), criterion and grid, compiled once and solved for any spectrum.

    Parameters
    ----------
    slow, fast
        m = ημ and l = ηL, 0 < m < l < 2.
    criterion
        ``"distance"`` or ``"objective"``.
    count
        Number of uniform frequencies on the full circle, even, so that 0 and π are among them.
    lags
        T, below count/2: on the grid a longer lag is the same as a shorter one.
    """

    def __init__(self, slow: float, fast: float, criterion: str, count: int, lags: int) -> None:
        super().__init__(slow, fast, criterion, taps(lags), *uniform_frequencies(count), clearance=0.0)
        self._lock = threading.Lock()
        self._compile()

    def _compile(self) -> None:
        import cvxpy as cp

        k = self._condition
        constant = np.full(self.frequencies.size, circle_multiplier(self.slow, self.fast, self.criterion)[0])
        zero = np.zeros_like(constant)
        gain, slack = k.gain(constant, zero), k.slack(constant, zero)
        other = k.width * gain + 2 * constant + k.epsilon  # v
        scale, size = np.sqrt(other / slack), np.sqrt(other * slack)

        def affine(by_a: Array, by_b: Array, constants: Array, factor: Array) -> Any:
            """Factor × (by_a a + by_b b + constants), a and b being linear in c."""
            matrix = (factor * by_a)[:, np.newaxis] * self._real + (factor * by_b)[:, np.newaxis] * self._imaginary
            return matrix @ self._c + factor * constants

        self._c = cp.Variable(self._real.shape[1], nonneg=True)
        gains = cp.Variable(self.frequencies.size)  # δ ξ × scale of v
        u = affine(2 * k.r, 2 * k.width * k.s, k.offset, scale / size)
        v = gains + affine(zero + 2, zero, zero + k.epsilon, 1 / (scale * size))
        first = affine(2 * k.x - k.slow - k.fast, zero, k.epsilon * (k.x - k.fast), 2 / size)
        second = affine(2 * k.s, zero + k.width, k.epsilon * k.s, 2 / size)
        sides = cp.vstack([first, second, u - v])  # type: ignore[attr-defined]
        self._unit_gain = scale * size / k.width
        self._weights = cp.Parameter(self.frequencies.size, nonneg=True)
        self._problem = cp.Problem(cp.Minimize(self._weights @ gains), [cp.SOC(u + v, sides, axis=0)])

    def solve(self, spectrum: Array) -> Array:
        """Coefficients c >= 0 that minimise Σ quadrature × spectrum × ξ, by CLARABEL.

        Rounding can stop it short of the optimum, by 1e-4 or so at κ >= 1000, and by 2e-2 at κ = 10⁴.  The same program
        is then solved by the interior-point method, too, and the better answer returned; its relative suboptimality is
        below 1e-9 or so.

        Raises
        ------
        ConeProgramError
            The solver failed, or gave an answer that is infeasible or far from optimal.
        """
        import cvxpy as cp

        weights = self.quadrature * spectrum * self._unit_gain
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of inaccurate answers, which are refused below
            self._weights.value = weights / weights.sum()
            for accuracy in (_ACCURATE, _USUAL):
                try:
                    self._problem.solve(solver=cp.CLARABEL, **accuracy)
                    status, c = self._problem.status, self._c.value
                except cp.SolverError as error:
                    status, c = str(error), None
                if status == cp.OPTIMAL:
                    break
        if status != cp.OPTIMAL or c is None:
            raise ConeProgramError(self._advice(f"the cone solver stopped with {status!r}"))
        c = np.maximum(c, 0.0)
        value = self.evaluate(c, self.quadrature * spectrum).value
        if not math.isfinite(value):
            raise ConeProgramError(self._advice("the cone solver's answer has no slack at some frequency"))
        if self.suboptimality(c, spectrum) > _POLISHED:
            polished = super().solve(spectrum)
            least = self.evaluate(polished, self.quadrature * spectrum).value
            if value > (1 + _LARGEST_EXCESS) * least:
                excess = value / least - 1
                raise ConeProgramError(self._advice(f"the cone solver's answer is {excess:.1e} above the optimum"))
            c = polished if least <= (1 + _POLISHED) * value else c
        return c

    def _advice(self, what: str) -> str:
        return (
            f"{what} at learning_rate × strong_convexity = {self.slow!r}, learning_rate × smoothness = {self.fast!r}, "
            f'{self.frequencies.size} frequencies and {self.kernels.shifts.size // 2} lags: use method="fast", or '
            "fewer frequencies and lags"
        )


@lru_cache(maxsize=8)
def compiled(slow: float, fast: float, criterion: str, count: int, lags: int) -> ConeProgram:
    """The ``ConeProgram`` for these arguments, kept for the next spectrum."""
    return ConeProgram(slow, fast, criterion, count, lags)
