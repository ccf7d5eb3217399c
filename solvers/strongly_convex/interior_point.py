"""The strongly convex bound as a smooth convex problem, solved by a primal-dual interior-point method.

The gain ξ is eliminated in closed form.  The coefficients c of the multiplier remain, with the constraint c >= 0 only:

    minimise f(c) = Σ_i w_i ξ_i(c),    ξ = (X₁² + X₂²)/(δ u) − (2a + ε)/δ.

Here u, X₁, X₂ and a are affine in c.  So f is convex where u > 0, and its Hessian is a sum of two squares for each
frequency.  There are no cones and no auxiliary variables.  An iteration solves one dense symmetric system of the size
of c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from corrnoise.solvers.strongly_convex.multipliers import Kernels, Multiplier
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.strongly_convex import Criterion, circle_multiplier, frequency_condition

_GAP_TOLERANCE = 1e-10
_MAX_ITERATIONS = 150
_TO_BOUNDARY = 0.99


def _to_boundary(step: Array) -> float:
    """The largest multiple, up to 1, of a relative step that keeps at least 1 % of each coordinate."""
    return min(1.0, _TO_BOUNDARY / max(float((-step).max()), _TO_BOUNDARY))


@dataclass(frozen=True)
class ProgramValue:
    """f at some c, and the gains, slacks and multiplier there."""

    value: float
    gains: Array
    slack: Array
    a: Array
    b: Array


class MultiplierProgram:
    """The best mixture of ``kernels`` on a grid, for one (m, l) and criterion; it can be solved for many spectra.

    The frequencies are nodes in [0, π], and the quadrature has the weights that average over them, shape (n,).  The
    constant exceeds the least one that gives positive slack at frequency 0 by at least the relative amount
    ``clearance``.  If slow tails would replace the constant, it sets the width of the narrow peak of the gain at 0.
    """

    def __init__(
        self,
        slow: float,
        fast: float,
        criterion: Criterion,
        kernels: Kernels,
        frequencies: Array,
        quadrature: Array,
        clearance: float = 1e-4,
    ) -> None:
        self.slow = slow
        self.fast = fast
        self.criterion = criterion
        self.kernels = kernels
        self.frequencies = frequencies
        self.quadrature = quadrature
        self._clearance = clearance
        self._condition = frequency_condition(slow, fast, frequencies, criterion)
        # At frequency 0 all kernels are 1, and the slack depends on the constant alone.
        at_zero = frequency_condition(slow, fast, np.zeros(1), criterion)
        self._least_constant = max(0.0, float(-at_zero.offset[0] / (2 * at_zero.r[0])))
        table = 1 - kernels.transforms(frequencies)
        self._real = np.hstack([np.ones((frequencies.size, 1)), table.real])
        self._imaginary = np.hstack([np.zeros((frequencies.size, 1)), table.imag])

    def multiplier(self, c: Array) -> Multiplier:
        """The multiplier with the coefficients c, the constant first, without negligible ones."""
        full = Multiplier(self.slow, self.fast, self.criterion, float(c[0]), c[1:], self.kernels)
        return full.without_negligible()

    def evaluate(self, c: Array, w: Array) -> ProgramValue:
        """Evaluate f at c with the weights w; ``inf`` outside its domain."""
        a = self._real @ c
        b = self._imaginary @ c
        gains = self._condition.gain(a, b)
        return ProgramValue(float(w @ gains), gains, self._condition.slack(a, b), a, b)

    def _slopes(self, at: ProgramValue, w: Array) -> tuple[Array, Array]:
        """∂f/∂a and ∂f/∂b at the frequencies."""
        k = self._condition
        r = w / at.slack
        by_a = 2 * r * (k.width * at.a + k.fast - at.gains * k.r)
        by_b = 2 * r * k.width * (at.b - at.gains * k.s)
        return by_a, by_b

    def gradient(self, at: ProgramValue, w: Array) -> Array:
        """∇f."""
        by_a, by_b = self._slopes(at, w)
        return np.asarray(by_a @ self._real + by_b @ self._imaginary)

    def prices(self, further: Kernels, c: Array, spectrum: Array) -> Array:
        """Derivatives of f by the weights of further kernels, times Σ c/f.  A kernel with a negative one lowers f."""
        w = self.quadrature * spectrum
        at = self.evaluate(c, w)
        by_a, by_b = self._slopes(at, w)
        table = 1 - further.transforms(self.frequencies)
        return np.asarray(by_a @ table.real + by_b @ table.imag) * c.sum() / at.value

    def root_of_hessian(self, at: ProgramValue, w: Array) -> Array:
        """Y with YᵀY = ∇²f: two rows a frequency, sqrt(2w/(δu)) (∇X − X ∇u/u) for X = X₁ and X₂."""
        k = self._condition
        x1, x2 = (2 * x / at.slack for x in k.cone(at.a, at.b))
        root = np.sqrt(2 * w / (k.width * at.slack))
        by_real = root * np.array([2 * k.x - k.slow - k.fast - x1 * k.r, 2 * k.s - x2 * k.r])
        by_imaginary = root * k.width * np.array([-x1 * k.s, 1 - x2 * k.s])
        rows = by_real[:, :, np.newaxis] * self._real
        rows += by_imaginary[:, :, np.newaxis] * self._imaginary
        return np.asarray(rows.reshape(-1, self._real.shape[1]))

    def suboptimality(self, c: Array, spectrum: Array) -> float:
        """Upper bound of the relative gap between f(c) and the minimum of f over all c* with no larger sum.

        (∇f·z + max_j (−∇f_j)₊ Σ z)/f with z = c − lower bounds: f is convex, so f(c) − f(c*) <= ∇f·(c − c*).  The lower
        bounds are 0, and for the constant the least that makes the slack positive at frequency 0.
        """
        w = self.quadrature * spectrum
        at = self.evaluate(c, w)
        if math.isinf(at.value):
            return math.inf
        slope = self.gradient(at, w)
        z = np.append(c[0] - self._least_constant, c[1:])
        return float(slope @ z + max(0.0, float(-slope.min())) * z.sum()) / at.value

    def best(self, spectrum: Array) -> tuple[Array, Multiplier]:
        """The gains at the frequencies and the multiplier that minimise Σ quadrature × spectrum × ξ."""
        c = self.solve(spectrum)
        return self.evaluate(c, self.quadrature * spectrum).gains, self.multiplier(c)

    def solve(self, spectrum: Array) -> Array:
        """Coefficients c >= 0 that minimise Σ quadrature × spectrum × ξ, for a spectrum >= 0 at the frequencies.

        It stops at a relative duality gap of 1e-10, or where rounding errors prevent progress.  The coefficients give
        positive slack at the frequencies and at 0.  ``suboptimality`` bounds their relative gap to the minimum.
        """
        w = self.quadrature * spectrum
        w = w / w.sum()
        least = np.zeros(self._real.shape[1])
        least[0] = (1 + self._clearance) * self._least_constant
        z = self._start(w, least)
        at = self.evaluate(least + z, w)
        y = 0.1 * at.value / z.size / z
        least_error = math.inf
        for _ in range(_MAX_ITERATIONS):
            slope = self.gradient(at, w)
            gap = float(y @ z)
            residual = float(np.abs((slope - y) * z).sum())
            error = max(gap, residual)
            if error < least_error:
                least_error = error
                best = z
            if error <= _GAP_TOLERANCE * at.value:
                break
            target = gap / z.size * (0.1 if residual <= gap else 0.5)
            step = self._newton_step(at, w, slope, z, y, target)
            if step is None:
                break
            dual_step = (target / z - y - y * step) / y
            found = self._line_search(at, w, slope, least, z, step, target, _to_boundary(step))
            if found is None:
                break
            z, at = found
            y = y * (1 + _to_boundary(dual_step) * dual_step)
        return least + best

    def _start(self, w: Array, least: Array) -> Array:
        """A strictly feasible start: the best constant for independent noise, with small weights of all kernels."""
        constant = circle_multiplier(self.slow, self.fast, self.criterion)[0]
        z = np.full(least.size, max(constant, self.fast) * 1e-3 / least.size)
        z[0] = max(constant - least[0], 1e-3 * max(constant, self.fast))
        while not math.isfinite(self.evaluate(least + z, w).value):
            z[1:] /= 10
        return z

    def _newton_step(self, at: ProgramValue, w: Array, slope: Array, z: Array, y: Array, target: float) -> Array | None:
        """Relative step dz/z for the perturbed optimality conditions ∇f = y, y z = target; None if the system fails."""
        root = self.root_of_hessian(at, w)
        matrix = root.T @ root * np.outer(z, z)
        matrix[np.diag_indices_from(matrix)] += y * z
        try:
            return np.asarray(cho_solve(cho_factor(matrix), target - slope * z))
        except (LinAlgError, ValueError):
            return None

    def _line_search(
        self,
        at: ProgramValue,
        w: Array,
        slope: Array,
        least: Array,
        z: Array,
        step: Array,
        target: float,
        length: float,
    ) -> tuple[Array, ProgramValue] | None:
        """The next point, where f − target Σ log z has decreased enough; None if it does not decrease."""
        expected = float((slope * z - target) @ step)
        for _ in range(40):
            trial = z * (1 + length * step)
            found = self.evaluate(least + trial, w)
            change = found.value - at.value - target * float(np.log1p(length * step).sum())
            if change <= 1e-4 * length * expected + 1e-14 * at.value:
                return trial, found
            length /= 2
        return None
