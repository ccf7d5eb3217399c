"""A mechanism: correlated noise, finite or endless, with the interface for runs, errors and designs.

A run of n steps adds N z to its gradients, with independent standard normal rows z and the *noising* matrix N.  It is
private by the *strategy* C with N C = 1: to release g + N z is to release N times C g + z.  The
sensitivity γ is that of C under the participation of the run, and a workload A sees the errors (A N Nᵀ Aᵀ)_tt at unit
noise; noise of the standard deviation γ/sqrt(2ρ) in units of the clip norm makes the run ρ-zCDP.  Gradients that depend
on earlier releases are covered because C is lower-triangular (Denisov et al. 2022).

A mechanism has one draw a step, so that both matrices are square.  This loses nothing: a run that releases g + N z
with a wide N of full row rank has the law of a run with the lower-triangular L, L Lᵀ = N Nᵀ, and |L⁻¹ u| <= |C u| for
every u and every C with N C = 1, since |L⁻¹ u|² is the least |x|² with N x = u.

An *endless* mechanism has ``steps=None``: its matrices are the leading blocks of infinite ones, and the participation
brings the length.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from corrnoise.theory.mechanisms.program import EXACT_FORMS, INCREASE, Form, Program
from corrnoise.theory.mechanisms.reshuffled import reshuffled_sensitivity
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, column_sensitivity, strategy_sensitivity
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record
from corrnoise.theory.numerics.rounding import DTYPES, UNIT_ROUNDOFF, Dtype
from corrnoise.theory.objectives.base import LARGEST_MATRIX, Objective
from corrnoise.theory.objectives.workloads import PrefixSums, Workload
from corrnoise.theory.participation import ANY_LENGTH, Order, Participation, Reshuffled
from corrnoise.theory.privacy import UNIT_BUDGET, Budget


class Mechanism(Record, ABC):
    """Correlated noise.

    A concrete mechanism says how it makes noise (``noising``), its strategy and its memory; the rest follows.
    Arguments ``n`` are numbers of steps; a finite mechanism has its own, and takes None for it.  ``participation``
    is the data order or sampling, and a workload has as many columns as the run has steps.
    """

    #: The forms of this mechanism, the usual one first, with their types.
    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {}

    @property
    @abstractmethod
    def steps(self) -> int | None:
        """n, the length of the run; None for an endless mechanism."""

    @abstractmethod
    def noising(self, draws: ArrayLike) -> Array:
        """The correlated noise N z of the first steps, for draws z, both of shape (n, …).

        Parameters
        ----------
        draws : array_like
            Independent standard normal rows z, shape (n, …).

        Returns
        -------
        array of float
        """

    @abstractmethod
    def strategy(self, n: int | None = None) -> Array:
        """C, shape (n, n).

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        array of float
        """

    @abstractmethod
    def memory(self, n: int | None = None) -> int:
        """How many arrays of the size of the gradient a run keeps from one step to the next.

        A step takes about as many multiplications and additions a coordinate.

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        int
        """

    @property
    def anytime(self) -> bool:
        """Whether neither N nor the sensitivity for one participation outgrows a bound as the run gets longer."""
        return False

    def bands(self, n: int | None = None) -> int:
        """The number of diagonals of C that may hold other numbers than 0.

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        int
        """
        return self.length(n)

    def column_norms(self, n: int | None = None) -> Array:
        """Euclidean norms of the columns of C, shape (n,).

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        array of float
        """
        return np.asarray(np.linalg.norm(self.strategy(n), axis=0))

    def strategy_error(self, n: int | None = None) -> float:
        """Bound of the relative error in the 2-norm of each column of ``strategy``.

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        float
        """
        return 0.0

    def noising_matrix(self, n: int | None = None) -> Array:
        """N, shape (n, n).

        Parameters
        ----------
        n : int, optional
            Number of steps; None for the steps of a finite mechanism.

        Returns
        -------
        array of float
        """
        return self.noising(np.eye(self.length(n))) + 0.0

    # -- sensitivity ---------------------------------------------------------------------------------------------------

    def bracket(self, participation: Participation) -> Sensitivity:
        """The sensitivity for zero-out adjacency, or two bounds of it, for one example (``members`` do not enter).

        The worst case of a random order counts.  Strategies of at most ``period`` bands take O(n k), others O(n³).
        Above 4096 steps these get the bound by the norms of their columns.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.

        Returns
        -------
        Sensitivity
        """
        who = self.of_this_run(participation).worst
        n = who.length
        orthogonal = who.once or (not isinstance(who, Reshuffled) and self.bands(n) <= who.period)
        if orthogonal or n > LARGEST_MATRIX:
            error = self.strategy_error(n) + n * UNIT_ROUNDOFF
            return column_sensitivity(self.column_norms(n), who, orthogonal=orthogonal, error=error)
        if isinstance(who, Reshuffled):
            return reshuffled_sensitivity(self.strategy(n), who, error=self.strategy_error(n))
        return strategy_sensitivity(self.strategy(n), who, error=self.strategy_error(n))

    def sensitivity(self, participation: Participation) -> float:
        """γ, the exact sensitivity for zero-out adjacency; ``inf`` where it exceeds the range of floats.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.

        Returns
        -------
        float

        Raises
        ------
        ValueError
            If only a bracket is known; ``sensitivity_upper_bound`` always answers.
        """
        found = self.bracket(participation)
        if not found.exact:
            raise ValueError(
                f"the sensitivity of {self!r:.80} under {participation!r} is only known to lie in "
                f"[{found.lower}, {found.upper}]; sensitivity_upper_bound gives the upper end"
            )
        return found.value

    def sensitivity_upper_bound(self, participation: Participation) -> float:
        """An upper bound of the sensitivity that holds in spite of rounding.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.

        Returns
        -------
        float
        """
        return self.bracket(participation).upper

    # -- programs ------------------------------------------------------------------------------------------------------

    def program(self, participation: Participation, dtype: Dtype | None = None, form: Form | None = None) -> Program:
        """The program that makes this noise, with the sensitivity that covers it.

        Parameters
        ----------
        dtype : {"float64", "float32", "exact"}, optional
            ``"float32"`` or ``"float64"``; None for float32 if its covered sensitivity exceeds that of float64 by at
            most a thousandth, and for float64 otherwise.  ``"exact"`` for the numbers of float64 as real numbers, in
            steps without rounding, as proved noise makes them: the sensitivity is that of these numbers.
        form : str, optional
            One of ``FORMS`` of the class; None for the first.
        participation : Participation
            The data order or sampling of the run.

        Returns
        -------
        Program

        Raises
        ------
        ValueError
            If the mechanism does not run in this form or type, or its sensitivity is not bounded.
        """
        who = self.of_this_run(participation)
        forms = self.forms()
        if not forms and form is None:
            raise ValueError(
                f"{self!r:.80} has a memory as long as the run: give rational(noise, tolerance), which has few poles, "
                "or form='transform'"
            )
        chosen = next(iter(forms)) if form is None else checks.choice("form", form, tuple(self.FORMS))
        allowed = self.FORMS[chosen]
        if dtype == "exact" and chosen not in EXACT_FORMS:
            raise ValueError(
                f"form must be one of {EXACT_FORMS} for exact numbers, got {chosen!r}: give dtype='float64', or "
                "release='grid' to a run"
            )
        types = allowed if dtype is None else (dtype,)
        checks.choice("dtype", types[0], (*allowed, "exact"))
        found = []
        for each in types:
            try:
                stored, sensitivity = self.stored(who.worst, chosen, each)
            except ValueError:
                if dtype is not None or each == DTYPES[0]:
                    raise
                continue  # float32 does not hold the numbers
            found.append(Program(stored, who, each, chosen, sensitivity))
        best = min(found, key=lambda one: one.sensitivity)
        if not math.isfinite(best.sensitivity):
            raise ValueError(f"mechanism must have a finite sensitivity for {who!r}, got {self!r:.80}")
        enough = [one for one in found if one.sensitivity <= best.sensitivity * (1 + INCREASE)]
        return enough[-1]  # float32 stands last

    def forms(self) -> tuple[Form, ...]:
        """The forms of this mechanism if none is asked for, the usual one first.

        Returns
        -------
        tuple of str
        """
        return tuple(self.FORMS)

    def stored(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        """The mechanism whose numbers are stored in a program, and the sensitivity of the program.

        It is ``covered``, or for exact numbers the upper end of the bracket of the stored numbers.

        Parameters
        ----------
        participation : Participation
            A worst case: no sampling.
        form : str
            A form of ``FORMS``.
        dtype : {"float64", "float32", "exact"}
            The type of the stored numbers.

        Returns
        -------
        (Mechanism, float)
        """
        if dtype != "exact":
            return self.covered(participation, form, dtype)
        stored, _ = self.covered(participation, form, "float64")
        return stored, stored.bracket(participation).upper

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        """The mechanism whose numbers are stored in a program, and its sensitivity with rounding errors.

        ``participation`` is a worst case.

        Parameters
        ----------
        participation : Participation
            A worst case: no sampling.
        form : str
            A form of ``FORMS``.
        dtype : {"float64", "float32"}
            The type of the stored numbers.

        Returns
        -------
        (Mechanism, float)

        Raises
        ------
        ValueError
            If ``dtype`` does not hold the numbers.
        """
        raise ValueError(f"form must be one of those of {type(self).__name__}, {tuple(self.FORMS)}, got {form!r}")

    def variance(self, budget: Budget = UNIT_BUDGET, participation: Participation = ANY_LENGTH) -> float:
        """σ² = G² γ²/(2ρ), the variance of a draw in exact arithmetic; ``inf`` where γ is.

        Where γ is not known exactly its upper bound takes its place.  The result is the nearest float, for errors; what
        is added in a run takes ``program(participation).scale(budget)``.

        Parameters
        ----------
        budget : Budget, optional
            Privacy budget, clipping norm and adjacency.
        participation : Participation, optional
            The data order or sampling of the run.

        Returns
        -------
        float
        """
        found = self.bracket(participation)
        gamma = found.value if found.exact and participation.worst.once else found.upper
        return budget.unit_variance * gamma**2

    def length(self, n: int | None) -> int:
        """The number of steps that is meant by ``n``, which a finite mechanism knows by itself.

        Parameters
        ----------
        n : int or None
            Number of steps, >= 1, equal to ``steps`` of a finite mechanism; None for these.

        Returns
        -------
        int
        """
        if n is None:
            if self.steps is None:
                raise ValueError(f"the number of steps must be given for {type(self).__name__}, got None")
            return self.steps
        if self.steps is not None and n != self.steps:
            raise ValueError(f"the number of steps must be {self.steps} as the mechanism has, got {n}")
        return checks.integer("the number of steps", n, 1)

    def of_this_run(self, participation: object) -> Participation:
        """``participation``, checked to be for a run of as many steps.

        Parameters
        ----------
        participation : object
            The participation to check.

        Returns
        -------
        Participation
        """
        who = checks.instance("participation", participation, Participation)
        if self.steps is not None and who.steps != self.steps:
            raise ValueError(f"participation must have steps={self.steps} as the mechanism has, got steps={who.steps}")
        return who

    def leading(self, n: int) -> Mechanism:
        """The noise of the first n >= 1 steps, which are a mechanism of their own because N and C are triangular.

        Parameters
        ----------
        n : int
            1 <= n <= ``steps``.

        Returns
        -------
        Mechanism

        Raises
        ------
        ValueError
            If there are fewer steps.
        """
        length = checks.integer("n", n, 1)
        if self.steps is not None and length > self.steps:
            raise ValueError(f"n must be in [1, {self.steps}], the steps of the mechanism, got {n}")
        return self if length == self.steps else self._leading(length)

    @abstractmethod
    def _leading(self, n: int) -> Mechanism:
        """The noise of the first n steps, which are fewer than all."""

    # -- errors --------------------------------------------------------------------------------------------------------

    def squared_error(self, objective: Objective) -> float:
        """tr(W N Nᵀ), the squared error of an objective at unit noise.

        O(n) or O(n d) for Toeplitz noise and time-varying buffers, O(n³) for other noise.

        Parameters
        ----------
        objective : Objective
            A workload, its largest error, or the objective of learning, for the same number of steps.

        Returns
        -------
        float
        """
        noising = self.noising_matrix(self.length(objective.steps))
        return float((objective.form * (noising @ noising.T)).sum())

    def errors(self, workload: Workload) -> Array:
        """Variances (A N Nᵀ Aᵀ)_tt of unit noise under a workload A, shape (rows,).

        Parameters
        ----------
        workload : Workload
            The matrix A, with as many columns as the mechanism has steps.

        Returns
        -------
        array of float
        """
        n = self.length(checks.instance("workload", workload, Workload).steps)
        return np.asarray(np.square(workload.apply(self.noising_matrix(n))).sum(axis=1))

    def mean_error(self, participation: Participation, workload: Workload | None = None) -> float:
        """γ sqrt(mean_t e_t), the root of the mean squared error at ρ = ½ and clip norm 1, of prefix sums by default.

        Where γ is not known exactly its upper bound takes its place.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.
        workload : Workload, optional
            The matrix A, with as many columns as the run has steps; None for prefix sums.

        Returns
        -------
        float
        """
        errors = self.errors(_workload(workload, participation))
        return self.sensitivity_upper_bound(participation) * math.sqrt(float(errors.mean()))

    def max_error(self, participation: Participation, workload: Workload | None = None) -> float:
        """γ sqrt(max_t e_t), the largest standard deviation at ρ = ½ and clipping norm 1; otherwise as ``mean_error``.

        Parameters
        ----------
        participation : Participation
            The data order or sampling of the run.
        workload : Workload, optional
            The matrix A, with as many columns as the run has steps; None for prefix sums.

        Returns
        -------
        float
        """
        errors = self.errors(_workload(workload, participation))
        return self.sensitivity_upper_bound(participation) * math.sqrt(float(errors.max()))

    def _rows(self, draws: ArrayLike) -> Array:
        """``draws`` as an array of as many rows as there are steps."""
        array = checks.reals("draws", draws)
        if array.ndim == 0 or array.shape[0] == 0 or (self.steps is not None and array.shape[0] != self.steps):
            raise ValueError(
                f"draws must have shape ({'n' if self.steps is None else self.steps}, …), got {array.shape}"
            )
        return array


def _workload(workload: Workload | None, participation: Participation) -> Workload:
    n = checks.instance("participation", participation, Participation).length
    if workload is None:
        return PrefixSums(n)
    if checks.instance("workload", workload, Workload).steps != n:
        raise ValueError(f"workload must have steps={n} as the participation has, got steps={workload.steps}")
    return workload
