"""Objectives in searches: simpler linear systems, and workloads of full rank."""

from __future__ import annotations

import numpy as np

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.objectives.base import LARGEST_MATRIX, Objective, too_long
from corrnoise.theory.recursion import Recursion

_SEARCHED_GROUPS = (8, 5)  # of a linear system in a search, in short and in long runs
LARGEST_WHOLE = 1_000_000  # steps times groups, above which searches for Toeplitz noise use fewer groups


def grouped(system: Recursion) -> Recursion:
    """The linear system of a search: groups of one state whose transitions are close are one group.

    Rates 1 − Φ are cut into intervals of equal logarithms.  A group has the sum of their weights, and the mean of the
    logarithms of their rates by these weights.
    """
    most = _SEARCHED_GROUPS[system.steps > LARGEST_MATRIX]
    groups = system.weights.shape[1]
    rates = 1 - system.transition[0, :, 0, 0]
    simple = system.transition.shape == (1, groups, 1, 1) and (system.input == 1).all() and (rates > 0).all()
    if groups <= most or not simple:
        return system
    logarithms = np.log(rates)
    edges = np.linspace(logarithms.min(), logarithms.max(), most + 1)
    places = np.unique(np.digitize(logarithms, edges[1:-1]), return_inverse=True)[1]
    members = (places == np.arange(places.max() + 1)[:, np.newaxis]).astype(float)
    shares = members * np.maximum(system.weights.sum(axis=0), 1e-300)
    means = shares @ logarithms / shares.sum(axis=1)
    kept = (-np.expm1(means))[np.newaxis, :, np.newaxis, np.newaxis]
    return Recursion(kept, np.ones((1, means.size, 1)), system.weights @ members.T)


@record
class GroupedObjective(Objective):
    """The squared error of a linear system, which is close to the one of an objective and less costly."""

    linear: Recursion

    @property
    def steps(self) -> int:  # type: ignore[override]
        """Number of steps of the linear system."""
        return self.linear.steps

    def recursion(self) -> Recursion:
        return self.linear


def coarse(objective: Objective) -> Objective:
    """The objective of a search; the whole one evaluates what the search finds."""
    if objective.steps * objective.groups <= LARGEST_WHOLE:
        return objective
    whole = objective.recursion()  # which the search does not keep
    assert whole is not None
    found = grouped(whole)
    return objective if found is whole else GroupedObjective(found)


def dense_size(objective: Objective) -> int:
    """The number of steps, if it is small enough for dense matrices."""
    if objective.steps > LARGEST_MATRIX:
        raise too_long(objective.steps)
    return objective.steps


def full_rank_matrix(objective: Objective) -> Array:
    """A as an array; ``ValueError`` if its columns are dependent."""
    dense_size(objective)
    matrix = objective.matrix()
    if np.linalg.matrix_rank(matrix) < objective.steps:
        raise ValueError(
            "workload must have independent columns, otherwise no strategy attains the optimum, got rank "
            f"{np.linalg.matrix_rank(matrix)} for {objective.steps} steps; workload_of_weights adds what is missing"
        )
    return matrix
