"""A mechanism: what a stream, an error or a design may ask of the correlated noise of a finite run.

A run of n steps adds N z to its gradients, with m independent standard normal rows z and the *noising* matrix N of
shape (n, m).  It is private by the *strategy* C of shape (m, n) with N C = 1: to release g + N z is to release N times
C g + z.  Everything that counts follows from these two:

* the sensitivity, of C under the participation of the run;
* the errors (A N Nᵀ Aᵀ)_tt of a workload A at unit noise.

Times the sensitivity they are comparable between mechanisms: noise of the standard deviation γ/sqrt(2ρ) in units of the
clip norm makes the run ρ-zCDP.  Gradients that depend on earlier releases are covered if C is lower-triangular
(Denisov et al. 2022); every mechanism here has such a strategy, or is a binary tree.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from corrnoise.theory.mechanisms.participation import Participation
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, column_sensitivity, strategy_sensitivity
from corrnoise.theory.mechanisms.workloads import PrefixSums, Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record

_UNIT = 2.0**-53
_MOST_STEPS = 4096  # of which a Gram matrix is formed


class Mechanism(Record, ABC):
    """Correlated noise of a run of ``steps`` steps.

    A concrete mechanism says how it makes noise (``correlate``), its strategy and the cost of a step; the rest follows.
    """

    @property
    @abstractmethod
    def steps(self) -> int:
        """n, the length of the run."""

    @property
    def draws(self) -> int:
        """m, the number of independent draws of noise."""
        return self.steps

    @property
    @abstractmethod
    def memory(self) -> int:
        """How many arrays of the size of the gradient a stream keeps from one step to the next.

        A step takes about as many multiplications and additions a coordinate.
        """

    @property
    def anytime(self) -> bool:
        """Whether neither N nor the sensitivity for one participation outgrows a bound as the run gets longer."""
        return False

    @property
    def bands(self) -> int:
        """The number of diagonals of C that may hold other numbers than 0."""
        return self.steps

    @abstractmethod
    def correlate(self, draws: ArrayLike) -> Array:
        """The correlated noise N z of the whole run, shape (steps, …).

        Parameters
        ----------
        draws
            z, independent standard normal numbers for a run with unit noise, shape (draws, …).
        """

    @abstractmethod
    def strategy(self) -> Array:
        """C, shape (draws, steps)."""

    def column_norms(self) -> Array:
        """Euclidean norms of the columns of C, shape (steps,)."""
        return np.asarray(np.linalg.norm(self.strategy(), axis=0))

    @property
    def strategy_error(self) -> float:
        """Bound of the relative error in the 2-norm of each column of ``strategy``."""
        return 0.0

    def noising_matrix(self) -> Array:
        """N, shape (steps, draws)."""
        return self.correlate(np.eye(self.draws)) + 0.0

    # -- sensitivity ---------------------------------------------------------------------------------------------------

    def sensitivity_bracket(self, participation: Participation) -> Sensitivity:
        """What is known of the sensitivity; see ``theory.mechanisms.sensitivity``.

        Parameters
        ----------
        participation
            Who takes part when, in a run of as many steps.

        Returns
        -------
        A bracket.  Strategies of at most ``min_sep`` bands take O(n k), others O(n³).  Above 4096 steps these get the
        bound by the norms of their columns.
        """
        who = self._of_this_run(participation)
        orthogonal = who.single or self.bands <= who.min_sep
        if orthogonal or self.steps > _MOST_STEPS:
            norms = self.column_norms()
            return column_sensitivity(norms, who, orthogonal=orthogonal, error=self.strategy_error + self.draws * _UNIT)
        return strategy_sensitivity(self.strategy(), who, error=self.strategy_error)

    def sensitivity(self, participation: Participation) -> float:
        """γ, the exact sensitivity for zero-out adjacency.

        Parameters
        ----------
        participation
            Who takes part when, in a run of as many steps.

        Raises
        ------
        ValueError
            Only a bracket is known; ``sensitivity_upper_bound`` always answers.
        """
        found = self.sensitivity_bracket(participation)
        if not found.exact:
            raise ValueError(
                f"the sensitivity of this {type(self).__name__} under {participation!r} is only known to lie in "
                f"[{found.lower}, {found.upper}]; sensitivity_upper_bound gives the upper end"
            )
        return found.value

    def sensitivity_upper_bound(self, participation: Participation) -> float:
        """An upper bound of the sensitivity that holds in spite of rounding.

        Parameters
        ----------
        participation
            Who takes part when, in a run of as many steps.
        """
        return self.sensitivity_bracket(participation).upper

    def noise_multiplier(self, rho: float, participation: Participation, *, adjacency: str = "zero-out") -> float:
        """Standard deviation of z, in units of the clip norm, that makes the run ρ-zCDP; never too small.

        Parameters
        ----------
        rho
            Budget of zero-concentrated differential privacy, > 0.
        participation
            Who takes part when.
        adjacency
            ``"zero-out"``, or ``"replace-one"``, which doubles the sensitivity.
        """
        from corrnoise.theory.privacy import safe_multiplier

        return safe_multiplier(self.sensitivity_upper_bound(participation), rho, adjacency)

    def _of_this_run(self, participation: object) -> Participation:
        who = checks.instance("participation", participation, Participation)
        if who.steps != self.steps:
            raise ValueError(f"participation must have steps={self.steps} as the mechanism has, got steps={who.steps}")
        return who

    # -- errors --------------------------------------------------------------------------------------------------------

    def errors(self, workload: Workload | None = None) -> Array:
        """Variances (A N Nᵀ Aᵀ)_tt of what a workload shows of unit noise, shape (rows,).

        Parameters
        ----------
        workload
            A, with as many columns as the run has steps; None for prefix sums.
        """
        return np.asarray(np.square(self._checked(workload).apply(self.noising_matrix())).sum(axis=1))

    def mean_error(self, participation: Participation, workload: Workload | None = None) -> float:
        """γ sqrt(mean_t e_t), the root of the mean squared error at ρ = ½ and clip norm 1.

        Where γ is not known exactly its upper bound takes its place.

        Parameters
        ----------
        participation
            Who takes part when, in a run of as many steps.
        workload
            A, with as many columns as the run has steps; None for prefix sums.
        """
        return self.sensitivity_upper_bound(participation) * math.sqrt(float(self.errors(workload).mean()))

    def max_error(self, participation: Participation, workload: Workload | None = None) -> float:
        """γ sqrt(max_t e_t), the largest standard deviation at ρ = ½ and clip norm 1.

        Where γ is not known exactly its upper bound takes its place.

        Parameters
        ----------
        participation
            Who takes part when, in a run of as many steps.
        workload
            A, with as many columns as the run has steps; None for prefix sums.
        """
        return self.sensitivity_upper_bound(participation) * math.sqrt(float(self.errors(workload).max()))

    def _checked(self, workload: Workload | None) -> Workload:
        work = PrefixSums(self.steps) if workload is None else checks.instance("workload", workload, Workload)  # type: ignore[type-abstract]
        if work.steps != self.steps:
            raise ValueError(f"workload must have steps={self.steps} as the mechanism has, got steps={work.steps}")
        return work

    def _rows(self, draws: ArrayLike) -> Array:
        array = checks.reals("draws", draws)
        if array.ndim == 0 or array.shape[0] != self.draws:
            raise ValueError(f"draws must have shape ({self.draws}, …), got {array.shape}")
        return array
