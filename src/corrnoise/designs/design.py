"""A design: the best noise that was found for a budget and a participation, with every way to run it.

A design holds the privacy budget, the participation, and the ``Optimum`` of an objective under it.
Every run is made from these three, so that no multiplier, factor or participation is typed again:

==============================  ======================================================================================
``run(size, …)``                a private run, with batches and a folder where they are given
``stream(shape)``               the noise alone, one array a step, from a generator of NumPy
``for_torch(model, …)``         a private run of the size of a model of PyTorch
``for_opacus(model, …)``        model, optimizer, criterion and loader for the loop of Opacus
``for_jax()``                   a gradient transformation of optax
``program(form, dtype)``        the numbers themselves, with the sensitivity that covers them
==============================  ======================================================================================

The noise multiplier belongs to a program, ``design.program(form, dtype).multiplier(design.budget)``.  Each form in each
type has its own, because rounded numbers are other noise, and because a program rounds again.

Errors are named by what they are: ``rmse`` for workloads, ``excess_loss`` for problems of known spectrum.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.solvers.optimum import Optimum
from corrnoise.solvers.rational.handover import check_scales, fitted_buffers, handed_over
from corrnoise.support.wording import buffers_in_words, bytes_in_words, summary_html, summary_text
from corrnoise.theory.amplification.curve import delta_of
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import HANDED_OVER, INCREASE, Form, Program, SamplingAccountant
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import DTYPES, Dtype
from corrnoise.theory.objectives.base import Minimisable, checked_minimisable
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation, Poisson
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation, QuadraticProblem
from corrnoise.theory.problems.strongly_convex import StronglyConvex

if TYPE_CHECKING:
    from corrnoise.designs.comparison import Comparison
    from corrnoise.simulations.random_numbers import Seed
    from corrnoise.simulations.run.account import Account
    from corrnoise.simulations.run.batches import AnyBatches
    from corrnoise.simulations.run.durable import Carry
    from corrnoise.simulations.run.folder import Folder
    from corrnoise.simulations.run.private import PrivateRun
    from corrnoise.simulations.run.stream import Stream
    from corrnoise.support.progress import Progress
    from corrnoise.theory.profile import Profile

Problem = LinearRegression | MeanEstimation | StronglyConvex
_IN_WORDS = {"last": "after the last step", "second half": "in the mean over the second half of the run"}


@record
class Design(Record):
    """The best noise that was found for a budget and a participation; ``design`` makes it.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the whole run, with the clipping norm.
    participation : Participation
        The data order or sampling, which the loop that loads the data must follow.
    optimum : Optimum
        The noise, its error and the lower bound, for an objective under this participation.
    objective : Minimisable, optional
        The minimised error: ``SGD``, a workload, a problem, or the objective of learning.
    notes : tuple of str, optional
        Sentences that the report repeats.
    asked : str, optional
        A digest of the arguments of ``design``.  A run with a folder that is restarted with the same one resumes with
        its stored noise, because a search may find other last digits on another processor.  None where no search is
        known, and the noise of a restart must have the same numbers.

    Raises
    ------
    ValueError
        If an argument is of another kind, or the optimum was found for another participation.
    TypeError
        If an argument has another type.

    Examples
    --------
    >>> import corrnoise as cn
    >>> budget = cn.Budget(epsilon=2.0, delta=1e-6)
    >>> design = cn.design(budget, cn.Participation.fixed_epochs(400, epochs=4), memory=4)
    >>> design.family, design.memory
    ('time-varying buffers', 4)
    >>> print(f"{design.rmse:.1f}, at most {design.optimality_gap:.1%} above the optimum")
    12.7, at most 3.8% above the optimum
    >>> print(f"{design.program().multiplier(budget):.4f}")
    2.2305
    """

    budget: Budget
    participation: Participation
    optimum: Optimum
    objective: Minimisable = SGD()
    notes: tuple[str, ...] = ()
    asked: str | None = None

    def __post_init__(self) -> None:
        checks.instance("budget", self.budget, Budget)
        checks.instance("participation", self.participation, Participation)
        checks.instance("optimum", self.optimum, Optimum)
        checked_minimisable(self.objective)
        if self.asked is not None:
            checks.instance("asked", self.asked, str)
        if self.optimum.participation != self.participation:
            raise ValueError(
                f"optimum must be for the participation of the design, {self.participation!r}, got one for "
                f"{self.optimum.participation!r}"
            )
        notes = self.notes
        if isinstance(notes, str) or not all(isinstance(note, str) for note in notes):
            raise TypeError(f"notes must be a sequence of strings, got {notes!r}")
        self._set(notes=tuple(notes))

    # -- the result ----------------------------------------------------------------------------------------------------

    @property
    def mechanism(self) -> Mechanism:
        """The noise."""
        return self.optimum.mechanism

    @property
    def family(self) -> str:
        """The name of the family of the noise."""
        return self.optimum.family

    @property
    def memory(self) -> int:
        """How many arrays of the size of the gradient a run keeps from one step to the next."""
        return self.optimum.memory

    @property
    def alternatives(self) -> tuple[Optimum, ...]:
        """The other mechanisms that were compared; ``error_of`` gives their errors in the unit of the design."""
        return self.optimum.alternatives

    @property
    def dpsgd(self) -> Optimum | None:
        """DP-SGD with Poisson batches of the same mean size, if the budget is an (ε, δ) that its accountant covers.

        All steps have the same noise.
        """
        several = (self.optimum, *self.alternatives)
        return next((one for one in several if isinstance(one.participation, Poisson) and not one.variant), None)

    @property
    def dpsgd_is_better(self) -> bool:
        """Whether DP-SGD with Poisson batches has a smaller error at this budget."""
        return self.dpsgd is not None and self.error_of(self.dpsgd) < self.error

    @cached_property
    def crossover_epsilon(self) -> float | None:
        """The ε below which DP-SGD with Poisson batches has a smaller error than this noise, at the δ of the budget.

        If the design is DP-SGD itself, its best alternative takes the place of this noise.  None if the errors are not
        equal at any ε in [0.1, 20].
        """
        from corrnoise.solvers.sampled import crossover

        dpsgd, other = self.dpsgd, self.optimum
        if dpsgd is None or self.budget.delta is None:
            return None
        if other is dpsgd:
            if not self.alternatives:
                return None
            other = min(self.alternatives, key=self.error_of)
        return crossover(dpsgd, other, self.budget.delta)

    @property
    def problem(self) -> Problem | None:
        """The problem of known spectrum; None for workloads."""
        held = getattr(self.objective, "problem", self.objective)
        return held if isinstance(held, Problem) else None

    @property
    def rmse(self) -> float:
        """The root mean squared error of the iterates in units of the learning rate, at the budget; for workloads.

        It is the error due to the noise of the mean gradient of a batch.
        """
        if self.problem is not None:
            raise AttributeError("a design for a problem has no rmse: excess_loss is what privacy adds to F - F*")
        return self.error

    @property
    def excess_loss(self) -> float:
        """The expected F − F* that privacy adds, at the budget; for problems.

        Without a number of steps it is all of the stationary error, and for ``StronglyConvex`` an upper bound of it.
        """
        if self.problem is None:
            raise AttributeError("a design without a problem has no excess_loss: rmse is the error of the iterates")
        return self.error

    @property
    def error(self) -> float:
        """``rmse`` or ``excess_loss``, whichever the design has."""
        return self.error_of(self.optimum)

    @property
    def lower_bound(self) -> float | None:
        """A lower bound of the error of all noise under the condition of ``lower_bound_summary``; None for none."""
        if self._stationary:
            problem = self.problem
            return problem.optimal_error(budget=self.budget) if isinstance(problem, QuadraticProblem) else None
        return None if self.optimum.lower_bound is None else self._at_budget(self.optimum, self.optimum.lower_bound)

    @property
    def optimality_gap(self) -> float | None:
        """error/lower_bound − 1: how far, relatively, the error is from the best possible; None without a bound."""
        return None if self.lower_bound is None else self.error / self.lower_bound - 1

    def error_of(self, alternative: Optimum) -> float:
        """The error of a mechanism that was compared, in the unit of the design.

        Parameters
        ----------
        alternative : Optimum
            One of ``alternatives``.

        Returns
        -------
        float
        """
        if not self._stationary:
            return self._at_budget(alternative, alternative.error)
        from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate

        noise = checks.instance("mechanism", alternative.mechanism, ToeplitzNoise)
        if isinstance(self.problem, StronglyConvex):
            return strongly_convex_certificate(self.problem, noise, budget=self.budget, criterion="objective").value
        assert self.problem is not None
        return self.problem.stationary_error(noise, budget=self.budget)

    @property
    def _stationary(self) -> bool:
        return self.optimum.measure == "stationary excess loss"

    def _at_budget(self, optimum: Optimum, error: float) -> float:
        """An error of ``optimum`` or its lower bound in a run with the budget, for ``members`` examples of a user."""
        members = self.participation.members
        scaled = replace(optimum, error=error, alternatives=()).error_at(self.budget)
        return scaled * (members**2 if optimum.measure == "excess loss" else members)

    # -- words ---------------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<Design: {self.optimum.label}, {buffers_in_words(self.memory)}, error {self.error:.6g}>"

    def __str__(self) -> str:
        return self.summary()

    def summary(self, parameters: int = 10**6) -> str:
        """The recommendation and the facts behind it, in at most 15 lines.

        Parameters
        ----------
        parameters : int, default 10**6
            The size of the model, for the bytes of the buffers.

        Returns
        -------
        str
        """
        facts = self.facts(parameters) | {"Next": "run = design.run(size); cn.save(design, folder) writes the report"}
        facts.pop("Delta", None)
        return summary_text(self.recommendation, facts)

    def _repr_html_(self) -> str:
        return summary_html(self.recommendation, self.facts(10**6))

    @property
    def recommendation(self) -> str:
        """Whether to use this design or DP-SGD with Poisson batches."""
        other = self.dpsgd
        if other is None:
            return "Use this design: no noise that was compared is better within its memory."
        if other is self.optimum:
            return "Use this design, DP-SGD with Poisson batches: no correlated noise that was compared has less error."
        ratio = self.error / self.error_of(other)
        if self.dpsgd_is_better:
            return f"Use DP-SGD with Poisson batches: it has {1 - 1 / ratio:.2%} less error than this design."
        return f"Use this design: it has {1 - ratio:.2%} less error than DP-SGD with Poisson batches."

    @property
    def setting(self) -> dict[str, str]:
        """The budget and the participation in words, by their names in the facts."""
        who = self.participation
        length = "any number of steps" if who.steps is None else f"{who.steps} steps"
        return {
            "Privacy": f"{self.budget.in_words()}, clip norm {self.budget.clip_norm:g}",
            "Run": f"{length}, {who.summary()}",
        }

    def facts(self, parameters: int | None = None) -> dict[str, str]:
        """The facts of report, page and summary by their names, in the order of these texts.

        Parameters
        ----------
        parameters : int, optional
            The size of the model, for the bytes of the buffers.

        Returns
        -------
        dict
        """
        program = self.program()
        size = f" of the size of the model, in {program.dtype}" if self.memory else ""
        if parameters is not None:
            room = self.memory * parameters * np.dtype(program.dtype).itemsize
            size = f": {bytes_in_words(room)} for {parameters} parameters in {program.dtype}"
        ratio = "" if self.lower_bound is None else f", {self.error / self.lower_bound:.4f} times the lower bound"
        found = self.setting | {
            "Noise": f"{self.optimum.label}, {buffers_in_words(self.memory)}{size}",
            "Multiplier": f"{program.multiplier(self.budget)!r} ({program.form} in {program.dtype})",
            "Error": f"{self.error:.6g}{ratio}: {self.error_in_words}",
            "Lower bound": f"{self.lower_bound_summary}.",
        }
        if self.participation.sampled:
            found["Delta"] = self._delta_in_words(program)
            if (words := self._runner_up_in_words()) is not None:
                found["Runner-up"] = words
        if self.dpsgd is not None:
            found["DP-SGD"] = self._dpsgd_in_words(self.dpsgd)
        return found

    def _delta_in_words(self, program: Program) -> str:
        """How near the accountant's noise multiplier is to the least one: the two ends of δ."""
        budget = self.budget
        assert budget.epsilon is not None
        assert budget.delta is not None
        found = delta_of(program.curve, budget.epsilon, program.multiplier(budget))
        reached = "; some gradients reach the lower end" if found.attained else ""
        upper = min(found.upper, budget.delta)
        return f"of this noise in [{found.lower:.5g}, {upper:.5g}] at epsilon = {budget.epsilon:g}{reached}."

    def _runner_up_in_words(self) -> str | None:
        """The best alternative with another sampler, and whether the accountants decide between the two."""
        budget, kind = self.budget, type(self.participation)
        others = [one for one in self.alternatives if one.participation.sampled and type(one.participation) is not kind]
        if not others:
            return None
        assert budget.epsilon is not None
        assert budget.delta is not None
        other = min(others, key=self.error_of)
        ratio = self.error / self.error_of(other)
        scale = ratio if other.measure == "root mean squared error" else math.sqrt(ratio)
        program = other.mechanism.program(other.participation)
        equal = delta_of(program.curve, budget.epsilon, program.multiplier(budget) * scale)  # where errors are equal
        doubt = "; undecided: its least noise is not known well enough" if equal.lower <= budget.delta else ""
        return f"{other.label}, with {1 / ratio - 1:.2%} more error{doubt}."

    def _dpsgd_in_words(self, other: Optimum) -> str:
        """The error of DP-SGD with Poisson batches, and the ε below which it is better."""
        from corrnoise.solvers.sampled import EPSILON_RANGE

        own = other is self.optimum
        if (limit := self.crossover_epsilon) is not None:
            above = "the best correlated noise" if own else "this design"
            further = f"Below epsilon = {limit:.2g} use DP-SGD with Poisson batches, above it {above}."
        else:
            better = "DP-SGD" if own or self.dpsgd_is_better else "this design"
            low, high = EPSILON_RANGE
            further = f"At this delta {better} has the smaller error both at epsilon = {low:g} and at {high:g}."
        rate = other.participation.sampling_rate
        return f"{self.error_of(other):.6g}, with Poisson batches at the rate {rate:.6g}. {further}"

    @property
    def error_in_words(self) -> str:
        """The meaning of ``error``."""
        if isinstance(self.objective, StronglyConvex):
            return "an upper bound of F - F* in long runs, for every loss of the class"
        if self._stationary:
            return "F - F* in long runs, exactly"
        if self.problem is not None:
            weights = self.objective.weights if isinstance(self.objective, LearningObjective) else "second half"
            when = _IN_WORDS[weights] if isinstance(weights, str) else "in a weighted mean over the steps"
            return f"what privacy adds to F - F* {when}, exactly, at the learning rate {self.problem.learning_rate:.6g}"
        what = self.objective.in_words() if isinstance(self.objective, SGD) else type(self.objective).__name__
        return f"root mean squared error of the iterates of {what}, in units of the learning rate"

    @property
    def lower_bound_summary(self) -> str:
        """The lower bound with its condition, or why there is none."""
        return self.optimum.lower_bound_summary(self.lower_bound)

    def with_floor(self) -> Design:
        """Return this design with every lower bound computed, also where that takes seconds or minutes.

        A file does not hold floors.  ``cn.load`` computes the floors of short runs; this method computes all.

        Returns
        -------
        Design
        """
        from corrnoise.designs.judging import judged

        found = judged(self.optimum, self.objective, self.budget, with_every_floor=True)
        return replace(self, optimum=found)

    # -- runs ----------------------------------------------------------------------------------------------------------

    def profile(self, step: int | None = None) -> Profile:
        """The privacy profile of the run of this design, or of its first steps.

        Parameters
        ----------
        step : int, optional
            0 <= t <= n: the first t steps; None for the whole run.

        Returns
        -------
        Profile
        """
        program = self.program()
        return program.profile(program.multiplier(self.budget), step=step, adjacency=self.budget.adjacency)

    def program(self, form: Form | None = None, dtype: Dtype | None = None) -> Program:
        """The noise as it is really made, with the sensitivity that covers it.

        Parameters
        ----------
        form : str, optional
            A form of ``theory.mechanisms.program``; None for the one that ``run`` and ``stream`` use.
        dtype : {"float64", "float32"}, optional
            ``"float32"`` or ``"float64"``; None for float32 if its covered sensitivity exceeds that of float64 by at
            most a thousandth, and for float64 otherwise.

        Returns
        -------
        Program

        Raises
        ------
        ValueError
            The form does not exist for this noise and participation, or does not hold in this type, with the reason.
        """
        if form is None:
            from corrnoise.simulations.run.engines import streaming

            return streaming(self.mechanism, self.participation, dtype)
        if form not in HANDED_OVER:
            return self.mechanism.program(self.participation, dtype, form)
        if not isinstance(self.mechanism, ToeplitzNoise | ScaledNoise):
            raise ValueError(f"{form}: {self.family} is no Toeplitz noise, which other libraries run; design.run does")
        mechanism = self._buffers if form == "buffers" else self.mechanism
        if dtype is not None:
            return self._handed_over(mechanism, form, checks.choice("dtype", dtype, DTYPES))
        exact = self._handed_over(mechanism, form, "float64")
        try:
            short = self._handed_over(mechanism, form, "float32")
        except ValueError:
            return exact
        return short if short.sensitivity <= exact.sensitivity * (1 + INCREASE) else exact

    def _handed_over(self, mechanism: Mechanism, form: Form, dtype: Dtype) -> Program:
        return handed_over(mechanism, self.participation, form, dtype, rates=self._rates, stands_for=self.mechanism)

    @cached_property
    def _buffers(self) -> Mechanism:
        """Buffers in place of the noise."""
        check_scales(self.mechanism, self.participation, "buffers")
        found = fitted_buffers(self.mechanism, self.participation, rates=self._rates)
        if found is None:
            raise ValueError(
                f"buffers: no sum of few decaying exponentials in place of {self.family} holds in float64 or float32"
            )
        return found

    @property
    def _rates(self) -> Array | None:
        return None if self.problem is None else self.problem.rates  # type: ignore[return-value]

    def run(
        self,
        size: int,
        *,
        examples: int | None = None,
        batches: AnyBatches | None = None,
        folder: str | os.PathLike[str] | Folder | None = None,
        carry: Carry | None = None,
        account: Account | None = None,
        accountant: SamplingAccountant | None = None,
    ) -> PrivateRun:
        """A private run with this noise.

        Parameters
        ----------
        size : int
            Number of parameters of the model, over all arrays.
        examples : int, optional
            Size of the data, for a run that draws sampled batches from it.
        batches : Batches or SampledBatches, optional
            As for ``PrivateRun``.
        folder : path or Folder, optional
            As for ``PrivateRun``.
        carry : Carry, optional
            As for ``PrivateRun``.
        account : Account, optional
            As for ``PrivateRun``.
        accountant : SamplingAccountant, optional
            As for ``PrivateRun``.

        Returns
        -------
        PrivateRun

        Raises
        ------
        ValueError
            The batches are sampled and ``examples`` is missing, or they are not sampled and it is given.
        """
        from corrnoise.simulations.run.private import PrivateRun

        if examples is not None and not self.participation.sampled:
            raise ValueError(f"examples must be None where batches are not sampled, got {examples}: give batches")
        if self.participation.sampled and batches is None:
            from corrnoise.simulations.run.batches import batches as sampled_batches

            if examples is None:
                raise ValueError("examples must be given, the size of the data from which the run draws its batches")
            batches = sampled_batches(self.participation, examples)
        return PrivateRun(
            self.budget,
            self.participation,
            self.mechanism,
            size,
            batches=batches,
            folder=folder,
            carry=carry,
            asked=self.asked,
            account=account,
            accountant=accountant,
        )

    def stream(self, shape: int | tuple[int, ...], rng: Seed = None) -> Stream:
        """The noise, one array a step, to be added to the sums of the clipped gradients.

        Parameters
        ----------
        shape : int or tuple of int
            Shape of one array of noise.
        rng : int, SeedSequence or Generator, optional
            A ``Generator`` whose seed is secret, or None for a new one.

        Returns
        -------
        Stream

        Raises
        ------
        ValueError
            The batches are sampled, which ``run`` draws.
        """
        from corrnoise.simulations.run.stream import Stream

        self._refuse_sampled("run")
        return Stream(self.program(), shape, budget=self.budget, rng=rng)

    def _refuse_sampled(self, instead: str) -> None:
        if self.participation.sampled:
            raise ValueError(
                f"participation must not be sampled here, got {self.participation!r}: noise alone cannot make sure "
                f"that batches are drawn independently (H2) and in secret (H4); {instead} draws them"
            )

    def for_torch(self, model: Any, **options: Any) -> PrivateRun:
        """A private run of the size of a module of PyTorch, for ``corrnoise.torch.private_gradient``.

        Parameters
        ----------
        model : torch.nn.Module
            The model.
        options : dict
            ``examples``, ``batches``, ``folder`` and ``carry``, as for ``run``.

        Returns
        -------
        PrivateRun
        """
        from corrnoise.simulations.adapters.torch import trainable_size

        return self.run(trainable_size(model), **options)

    def for_opacus(
        self, model: Any, optimizer: Any, data: Any, *, loss: Any, batch_size: int, **options: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Model, optimizer, criterion and loader for the loop of Opacus, with this noise.

        Parameters
        ----------
        model, optimizer, data, loss : object
            As for ``corrnoise.opacus.make_private``.
        batch_size : int
            Examples a step.
        options : dict
            ``folder``, ``carry``, ``item`` and ``clipping``, as for ``corrnoise.opacus.make_private``.

        Returns
        -------
        tuple
            As from ``corrnoise.opacus.make_private``.
        """
        from corrnoise.simulations.adapters.opacus import make_private

        return make_private(
            model,
            optimizer,
            data,
            loss=loss,
            budget=self.budget,
            batch_size=batch_size,
            participation=self.participation,
            mechanism=self.mechanism,
            asked=self.asked,
            **options,
        )

    def for_jax(self, *, key: bytes | None = None) -> Any:
        """A gradient transformation of optax that adds this noise to sums of clipped gradients.

        Parameters
        ----------
        key : bytes, optional
            16 to 64 secret bytes that no other run has; None for 32 bytes of the operating system.

        Returns
        -------
        optax.GradientTransformation
        """
        from corrnoise.simulations.adapters.jax_transforms import noise_of_program

        self._refuse_sampled("corrnoise.jax.make_private with this mechanism, budget and participation")
        form: Form | None = "buffers" if isinstance(self.mechanism, ScaledNoise) else None
        return noise_of_program(self.program(form, "float32"), self.budget, key=key)

    # -- errors of other noise -----------------------------------------------------------------------------------------

    def comparison(self, initial_offset: float | Array = 0.0, progress: Progress | None = None) -> Comparison:
        """The errors of this noise and of other noise, also at their best learning rates; for problems.

        Parameters
        ----------
        initial_offset : float or array of float, default 0.0
            θ_0 − θ* in the eigenbasis, a number or shape (d,): the start of the runs that are compared.
        progress : callable, optional
            Called with a line of text before every longer part.

        Returns
        -------
        Comparison

        Raises
        ------
        ValueError
            The design has no problem.
        """
        from corrnoise.designs.comparison import compare

        if self.problem is None:
            raise ValueError(f"design must have a problem to be compared, got one for {self.objective!r:.80}")
        return compare(
            self.problem,
            self.mechanism,
            self.participation,
            self.budget,
            family=self.family,
            initial_offset=initial_offset,
            progress=progress,
        )
