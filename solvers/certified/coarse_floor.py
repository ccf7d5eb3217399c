"""A lower bound for every strategy in long runs, from the dual optimum of a short one.

In fixed epochs of b steps every R = ⊕_r R_r >= 0, r < b, bounds the squared error of all strategies from below,

    (tr (R^½ W R^½)^½)² / Σ_r max diag R_r

(docs/certified-optimum.md).  The best R varies slowly with r, and its search takes many decompositions.  So it is found
for a coarse run, where m consecutive steps of an epoch are one step and W is added up over them; each class takes
the R_r of its coarse class.  Then one set of eigenvalues of Lᵀ W L, R = L Lᵀ, gives the bound for the run itself.  It
holds whatever the coarse run is, which decides only how close it comes.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.solvers.certified.fixed_epochs import fixed_epochs_bounds
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.objectives.workloads import workload_of_weights
from corrnoise.theory.participation import Participation

_COARSE_TOLERANCE = 1e-3  # of the search in the coarse run


def coarse_lower_bound(weights: Array, participation: Participation, *, coarse_steps: int = 256) -> float:
    """A lower bound of the squared error of all strategies.

    Returns the bound, in float64: the error of the eigenvalues is subtracted, the error of forming the matrix is about
    1e-12. The participation is in fixed epochs, or single.
    """
    n = participation.length
    b = min(participation.worst.period, n)
    k = participation.worst.count
    merged = max(1, math.ceil(n / coarse_steps))
    coarse_b = math.ceil(b / merged)
    steps = np.arange(n)
    place = steps // b * coarse_b + steps % b // merged  # the coarse step of each step
    used, place = np.unique(place, return_inverse=True)  # the last epoch may be shorter
    first = np.searchsorted(place, np.arange(used.size))
    coarse = np.add.reduceat(np.add.reduceat(weights, first, 0), first, 1)
    epochs = Participation.fixed_epochs(used.size, period=coarse_b)
    (factors,) = fixed_epochs_bounds(workload_of_weights(coarse), epochs, tolerance=_COARSE_TOLERANCE).arrays
    # Row i of L is the row of its epoch in the factor of its class; classes do not meet.
    whole = np.zeros((n, b * k))
    for r in range(b):
        of_class = steps[r::b]
        whole[np.ix_(of_class, r * k + np.arange(k))] = factors[r // merged, : of_class.size]
    budget = sum(float(np.square(whole[r::b]).sum(axis=1).max()) for r in range(b))
    values = np.linalg.eigvalsh(whole.T @ weights @ whole)
    safe = np.maximum(values - 8 * n * UNIT_ROUNDOFF * values[-1], 0.0)
    return float(np.sqrt(safe).sum()) ** 2 / budget * (1 - 1e-12)
