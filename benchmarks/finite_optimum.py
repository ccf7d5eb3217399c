"""The certified optimum of finite runs, against dense matrices and against the usual descent.

The dense side runs the same iteration with singular value decompositions.  The descent is what libraries do: L-BFGS
over strategies with columns of norm 1.  Without a lower bound, only a run to the end tells how far it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.solvers.certified.single_participation import single_participation_bounds
from corrnoise.solvers.families.banded import best_bands
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import MatrixWorkload, PrefixSums, Workload
from corrnoise.theory.participation import Participation

OPTIONS = {"maxiter": 10_000, "maxfun": 100_000, "ftol": 1e-14, "gtol": 1e-10}


def _single(workload: Workload) -> float:
    return single_participation_bounds(workload).value


def _epochs(workload: Workload, epochs: int) -> float:
    return fixed_epochs_bounds(workload, Participation.fixed_epochs(workload.steps, epochs=epochs)).value


def _banded(workload: Workload, period: int) -> float:
    epochs = Participation.min_sep(workload.steps, period)
    return best_bands(workload, epochs, norms="unit", tolerance=1e-9)[1].value


def _descent(workload: Workload, bands: int, participations: int) -> float:
    """Root mean squared error of the best strategy with unit columns that L-BFGS finds from the identity."""
    n, matrix = workload.steps, workload.matrix()
    lags = np.subtract.outer(np.arange(n), np.arange(n))
    place = (lags >= 0) & (lags < bands)

    def objective(entries: Array) -> tuple[float, Array]:
        free = np.zeros((n, n))
        free[place] = entries
        lengths = np.linalg.norm(free, axis=0)
        strategy = free / lengths
        noise = solve_triangular(strategy, np.eye(n), lower=True)
        released = matrix @ noise
        slope = -2 * released.T @ (released @ noise.T)
        slope -= strategy * (slope * strategy).sum(axis=0)
        return float(np.square(released).sum()), (slope / lengths)[place]

    found = minimize(objective, np.eye(n)[place], jac=True, method="L-BFGS-B", options=OPTIONS)
    return math.sqrt(participations * found.fun / n)


def _as_matrix(workload: Workload) -> MatrixWorkload:
    return MatrixWorkload(workload.matrix())


@benchmark
def single_participation_optimum(setting: Setting) -> Iterator[Row]:
    """The least mean error of prefix sums for one participation, to a certified gap of 1e-9."""
    n = setting.pick(256, 64)
    workload = PrefixSums(n)
    ours = Side("selected inverses", partial(_single, workload), 1)
    dense = Side("singular values", partial(_single, _as_matrix(workload)), 1)
    descent = Side("scipy L-BFGS", partial(_descent, workload, n, 1), 1)
    yield setting.compare(f"n = {n}", ours, dense, item="optimum", tolerance=2e-9)
    yield setting.compare(f"n = {n}", ours, descent, item="optimum", tolerance=1e-8)


@benchmark
def fixed_epochs_optimum(setting: Setting) -> Iterator[Row]:
    """The least mean error of prefix sums for four epochs, to a certified gap of 1e-6."""
    for n in setting.pick([256, 512], [64]):
        workload = PrefixSums(n)
        ours = Side("ring of classes", partial(_epochs, workload, 4), 1)
        dense = Side("singular values", partial(_epochs, _as_matrix(workload), 4), 1)
        yield setting.compare(f"n = {n}", ours, dense, item="optimum", tolerance=1e-8)


@benchmark
def banded_optimum(setting: Setting) -> Iterator[Row]:
    """The least mean error of n/4 bands with unit columns, certified, against descent without a certificate."""
    n = setting.pick(128, 32)
    workload = PrefixSums(n)
    ours = Side("certified", partial(_banded, workload, n // 4), 1)
    descent = Side("scipy L-BFGS", partial(_descent, workload, n // 4, 4), 1)
    yield setting.compare(f"n = {n}", ours, descent, item="optimum", tolerance=1e-8)
