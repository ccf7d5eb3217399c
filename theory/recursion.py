"""Recursions: what noise does to a run, as a linear system that takes O(n) to simulate.

A workload or a learning problem is G independent groups of m states.  The noise y_t of step t moves them,

    v_g ← Φ_{t,g} v_g + γ_{t,g} y_t,    squared error = Σ_t Σ_g w_{t,g} E (v_g)_0²  after step t,

from v_g = 0.  For prefix sums G = m = 1 and Φ = γ = 1; momentum has the states (iterate, momentum); learning has a
group for each eigenvalue.  No inverse of the workload occurs, so that learning rates may be 0.
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record


@record
class Recursion(Record):
    """A linear system of G groups of m states, driven by the noise of n steps.

    Parameters
    ----------
    transition : array_like
        Φ, shape (n, G, m, m), or (1, G, m, m) for the same in every step.
    input : array_like
        γ, shape (n, G, m), or (1, G, m).
    weights : array_like
        w >= 0, shape (n, G).

    Examples
    --------
    >>> from corrnoise.theory.objectives.workloads import PrefixSums
    >>> PrefixSums(4).recursion().gram()
    array([[1.  , 0.75, 0.5 , 0.25],
           [0.75, 0.75, 0.5 , 0.25],
           [0.5 , 0.5 , 0.5 , 0.25],
           [0.25, 0.25, 0.25, 0.25]])
    """

    transition: Array
    input: Array
    weights: Array

    def __init__(self, transition: ArrayLike, input: ArrayLike, weights: ArrayLike) -> None:
        given = checks.reals("weights", weights, "[0, inf)", shared=True)
        if given.ndim != 2 or given.size == 0:
            raise ValueError(f"weights must have shape (steps, groups), got {given.shape}")
        steps, groups = given.shape
        moved = checks.reals("transition", transition)
        states = moved.shape[-1] if moved.ndim else 0
        for name, array, shape in (("transition", moved, (groups, states, states)), ("input", input, (groups, states))):
            got = checks.reals(name, array)
            if got.shape not in ((steps, *shape), (1, *shape)) or states == 0:
                raise ValueError(f"{name} must have shape {(steps, *shape)} or {(1, *shape)}, got {got.shape}")
        self._set(transition=moved, input=checks.reals("input", input), weights=given)

    @property
    def steps(self) -> int:
        """n, the number of steps."""
        return int(self.weights.shape[0])

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Φ, γ and w."""
        return self.transition, self.input, self.weights

    def with_equal_weights(self) -> Recursion:
        """The same system, whose squared error is the sum over all steps and groups."""
        return Recursion(self.transition, self.input, np.ones_like(self.weights))

    def response(self, noise: ArrayLike) -> Array:
        """(v_g)_0 after each step, shape (n, G), for a noise y, shape (n,)."""
        from corrnoise.theory.recursion_kernels import respond  # numba takes a second to import

        given = np.array(noise, dtype=np.float64)  # inf and nan pass through it
        if given.shape != (self.steps,):
            raise ValueError(f"noise must have shape ({self.steps},), got {given.shape}")
        found = np.empty(self.weights.shape)
        respond(self.transition, self.input, given, found)
        return found

    def gram(self) -> Array:
        """W, shape (n, n), with the squared error tr(W N Nᵀ) of noise N z; O(n³ G)."""
        n, groups = self.weights.shape
        whole = np.zeros((n, n))
        for group in range(groups):
            states = np.zeros((self.input.shape[-1], n))  # by the step of the added noise
            for step in range(n):
                states = self.transition[step % len(self.transition), group] @ states
                states[:, step] += self.input[step % len(self.input), group]
                whole += self.weights[step, group] * np.outer(states[0], states[0])
        return whole
