"""The best banded strategy for min-sep participation, between two bounds.

If C has at most b bands, columns that are b or more apart are orthogonal, and the squared sensitivity is the largest
sum of X_ii over steps that are b or more apart.  Two choices of the column norms are offered.

``"window sums"``
    X_ii is the sum of the weights of all windows of b consecutive steps that contain i, for weights δ >= 0 of sum 1.
    Where no count of participations binds, these are all strategies of sensitivity 1 (docs/certified-optimum.md).
``"unit"``
    All columns have norm 1, and the squared sensitivity is k.

The columns of C are free apart from their norms; the logarithm of the error is minimised by L-BFGS with bounds, because
most windows have the weight 0.  The lower bound is for strategies of the same form: (tr (R^½ G R^½)^½)²/budget for
R >= 0 whose entries next to the diagonal, within the band, are 0, where the budget is the largest sum of diag R in a
window, or for unit columns the sum of diag R.  At the optimum R = X⁻¹ G X⁻¹ has this form and the two sides are equal.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import OptimizeResult, minimize

from corrnoise.solvers.certified.certificates import gamma, nuclear_norm_below, product_with_uncertainty
from corrnoise.solvers.objectives import dense_size, full_rank_matrix
from corrnoise.solvers.optimum import Certificate
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.base import Objective
from corrnoise.theory.participation import MinSep, Participation

ColumnNorms = Literal["window sums", "unit"]

_LBFGS_MEMORY = 30  # of L-BFGS
_CERTIFICATE_ITERATIONS = 50  # iterations between two certificates
_FIRST_WEIGHT = 0.1  # of a window; only ratios count, and smaller numbers move faster
_LEAST_WEIGHT = 1e-13  # most windows end there


class _Form(NamedTuple):
    """Banded matrices of sensitivity 1: columns by their direction, norms by the weights of windows."""

    steps: int
    bands: int
    window: int
    norms: ColumnNorms
    participations: int

    @property
    def windows(self) -> int:
        return max(self.steps - self.window + 1, 1)

    @property
    def inside(self) -> NDArray[np.bool_]:
        """Which entries (i, j) of ``bands`` are entries (j + i, j) of the matrix."""
        return np.arange(self.bands)[:, np.newaxis] + np.arange(self.steps) < self.steps

    def sums_over_windows(self, values: Array) -> Array:
        """Sums of ``values``, one for each step, over the windows, shape (windows,)."""
        sums = np.concatenate([[0.0], np.cumsum(values)])
        return sums[-self.windows :] - sums[: self.windows]

    def sums_of_windows(self, weights: Array) -> Array:
        """For each step the sum of the weights of the windows that contain it, shape (steps,)."""
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        step = np.arange(self.steps)
        return sums[np.minimum(step + 1, self.windows)] - sums[np.maximum(step - self.window + 1, 0)]

    def split(self, state: Array) -> tuple[Array, Array]:
        """Directions, shape (bands, steps), and weights of the windows up to a factor."""
        size = self.bands * self.steps
        return np.where(self.inside, state[:size].reshape(self.bands, self.steps), 0.0), state[size:]

    def columns(self, state: Array) -> Array:
        """C in bands."""
        directions, weights = self.split(state)
        lengths = np.linalg.norm(directions, axis=0)
        return np.asarray(directions * np.sqrt(self._squares(weights)) / lengths)

    def _squares(self, weights: Array) -> Array:
        """The squared column norms."""
        if self.norms == "unit":
            return np.full(self.steps, 1 / self.participations)
        return self.sums_of_windows(weights / weights.sum())

    def pulled_back(self, state: Array, slope: Array) -> Array:
        """The gradient in ``state`` from that in the entries of ``columns``."""
        directions, weights = self.split(state)
        lengths = np.linalg.norm(directions, axis=0)
        units = directions / lengths
        norms = np.sqrt(self._squares(weights))
        along = (slope * units).sum(axis=0)
        sideways = np.where(self.inside, (slope - along * units) * norms / lengths, 0.0)
        if self.norms == "unit":
            return np.asarray(sideways.ravel())
        of_weights = self.sums_over_windows(along / (2 * norms))
        of_weights = (of_weights - float(weights @ of_weights) / weights.sum()) / weights.sum()
        return np.concatenate([sideways.ravel(), of_weights])

    def of_matrix(self, full: Array) -> Array:
        """The bands of a matrix."""
        columns = np.zeros((self.bands, self.steps))
        for i in range(self.bands):
            columns[i, : self.steps - i] = np.diagonal(full, -i)
        return columns

    def start(self) -> Array:
        """The banded square root of prefix sums, and equal windows."""
        coefficients = NuFTRL(0.0).inverse_coefficients(self.bands)
        directions = np.where(self.inside, coefficients[:, np.newaxis], 0.0).ravel()
        return directions if self.norms == "unit" else np.append(directions, np.full(self.windows, _FIRST_WEIGHT))


class _Error(NamedTuple):
    """tr(G X⁻¹), its gradient in the entries of C, and Z with X⁻¹ G X⁻¹ = ZᵀZ."""

    value: float
    slope: Array
    root: Array


def _error(matrix: Array, form: _Form, columns: Array) -> _Error:
    noise = solve_triangular(BandedNoise(columns).strategy(), np.eye(form.steps), lower=True, check_finite=False)
    released = matrix @ noise
    root = released @ noise.T
    return _Error(float(np.square(released).sum()), -2 * form.of_matrix(released.T @ root), root)


def _lower_bound(matrix: Array, form: _Form, root: Array) -> float:
    """A lower bound of the least tr(G X⁻¹) of this form, rounding errors included.

    R = L Lᵀ for the floats L of a Cholesky factor.  What rounding leaves of R within the band is counted by its
    absolute value: 2 |X_ij| <= X_ii + X_jj.
    """
    n = form.steps
    distance = np.abs(np.arange(n)[:, np.newaxis] - np.arange(n))
    dual = root.T @ root
    dual[(distance > 0) & (distance < form.bands)] = 0.0
    shift = 0.0
    least = float(np.linalg.eigvalsh(dual)[0])
    scale = float(np.trace(dual)) / n
    if least < 1e-13 * scale * n:
        shift = 2e-13 * scale * n - least
    factor = np.asarray(np.linalg.cholesky(dual + shift * np.eye(n)), dtype=np.float64)
    size = np.abs(factor)
    actual = np.abs(factor @ factor.T) + gamma(n + 2) * (size @ size.T)
    spent = np.where(distance < form.bands, actual, 0.0).sum(axis=1)
    if form.norms == "unit":
        budget = math.fsum(spent) / form.participations
    else:
        budget = max(math.fsum(spent[m : m + form.window]) for m in range(form.windows))
    product, uncertainty = product_with_uncertainty(matrix, factor)
    left, _, right = np.linalg.svd(product, full_matrices=False)
    return nuclear_norm_below(product, uncertainty, left @ right) ** 2 / budget * (1 - (n + 16) * UNIT_ROUNDOFF)


def best_bands(
    objective: Objective,
    participation: Participation,
    *,
    norms: ColumnNorms = "window sums",
    bands: int | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 5000,
) -> tuple[BandedNoise, Certificate]:
    """The least root mean squared error of strategies with few bands under min-sep participation.

    Returns the noise, whose sensitivity is 1 up to rounding, and a certificate with a rigorous lower bound for
    strategies of this form.

    The lower bound of ``fixed_epochs_bounds`` with the same b holds for *every* strategy under min-sep participation,
    because the patterns of fixed epochs are min-sep patterns.

    With at most 4096 steps an iteration takes O(n³).  None stands for min(b, n) bands.  The search ends when ``gap`` is
    at most the tolerance, or after ``max_iterations`` of L-BFGS; the bounds hold all the same.

    Raises
    ------
    ValueError
        If the participation is not min-sep or for other steps, k < ceil(n/b) with ``"window sums"``, there are more
        bands than b, the columns of A are dependent, or A is too large.
    """
    checks.instance("objective", objective, Objective)
    checks.instance("participation", participation, Participation)
    checks.choice("norms", norms, get_args(ColumnNorms))
    tolerance = checks.real("tolerance", tolerance, "[1e-10, 1]")
    max_iterations = checks.integer("max_iterations", max_iterations, 1)
    n = dense_size(objective)
    if not isinstance(participation, MinSep):
        raise ValueError(f"participation must be min-sep, got {participation!r}")
    if participation.steps != n:
        raise ValueError(f"participation must have the {n} steps of the objective, got {participation!r}")
    if norms == "window sums" and not participation.saturated:
        raise ValueError(
            f"norms must be 'unit' where participations are limited by their number as well, got {participation!r}"
        )
    window = min(participation.period, n)
    count = window if bands is None else checks.integer("bands", bands, 1)
    if count > window:
        raise ValueError(f"bands must be at most period = {window}, got {count}")
    matrix = full_rank_matrix(objective)
    form = _Form(n, count, window, norms, participation.count)

    def loss(state: Array) -> tuple[float, Array]:
        found = _error(matrix, form, form.columns(state))
        return math.log(found.value), form.pulled_back(state, found.slope / found.value)

    def bounds_at(state: Array) -> tuple[float, float]:
        found = _error(matrix, form, form.columns(state))
        return _lower_bound(matrix, form, found.root), found.value

    start = form.start()
    iterations = 0

    def stop_when_certified(intermediate_result: OptimizeResult) -> None:
        nonlocal iterations
        iterations += 1
        if iterations % _CERTIFICATE_ITERATIONS == 0:
            lower, value = bounds_at(intermediate_result.x)
            if value <= lower * (1 + 2 * tolerance):
                raise StopIteration

    state = minimize(
        loss,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None)] * (count * n) + [(_LEAST_WEIGHT, None)] * (start.size - count * n),
        callback=stop_when_certified,
        options={
            "maxiter": max_iterations,
            "maxfun": 10 * max_iterations,
            "maxcor": _LBFGS_MEMORY,
            "ftol": 0.0,
            "gtol": 0.0,
        },
    ).x
    lower, value = bounds_at(state)
    columns = form.columns(state)
    signs = np.where(columns[0] < 0, -1.0, 1.0)
    rows = matrix.shape[0]
    certificate = Certificate(
        value=math.sqrt(value / rows),
        lower_bound=math.sqrt(lower / rows) * (1 - 2 * UNIT_ROUNDOFF),
        rigorous=True,
        iterations=iterations,
        strategies=f"strategies with {count} bands and "
        + ("columns of norm 1" if norms == "unit" else "squared column norms that are window sums"),
    )
    return BandedNoise(columns * signs), certificate
