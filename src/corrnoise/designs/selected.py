"""The best mechanism for a finite run within a memory, as a design holds it: its noise, its stream, and why."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from corrnoise.designs.choice import Alternative, Choice
from corrnoise.designs.run import workload_in_words
from corrnoise.solvers.matrix_factorisation.selection import Option, Selection, select
from corrnoise.solvers.optimal_noise import check_stable, optimal_noise
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, unit_variance
from corrnoise.theory.workloads import Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.learning_objective import LearningObjective, When
from corrnoise.theory.problems.quadratic import QuadraticProblem

USUAL_MEMORY = 16  #: arrays that a design may keep if no limit is given
USUAL_SLACK = 0.01  #: by which its error may then exceed the least, for less memory
LONG_RUNS = "optimum for long runs"
Stream = PoleNoise | FiniteNoise | ScaledNoise | BandedNoise
_IN_WORDS: dict[When, str] = {
    "last": "after the last step",
    "second half": "in the mean over the second half of the run",
}


class Limit(NamedTuple):
    """What a stream may keep: at most so many arrays in all, or so many poles or bands; ``inf`` is no limit."""

    memory: float | None = None
    poles: int | None = None
    bands: int | None = None

    def allows(self, option: Option) -> bool:
        """Whether a mechanism is within the limit.  A stream of p bands keeps p − 1 arrays."""
        if self.poles is None and self.bands is None:
            return option.memory <= (USUAL_MEMORY if self.memory is None else self.memory)
        most = {"": math.inf, "poles": self.poles or 0, "bands": (self.bands or 1) - 1}
        return option.memory <= most[option.kind]

    @property
    def largest(self) -> int | None:
        """The memory that is to be used fully; None for the usual one or none."""
        sizes = [self.memory, self.poles, None if self.bands is None else self.bands - 1]
        finite = [int(size) for size in sizes if size is not None and math.isfinite(size)]
        return max(finite, default=None)

    def in_words(self) -> str:
        """The limit as it stands in reports."""
        parts = [f"at most {self.poles} poles"] if self.poles is not None else []
        parts += [f"at most {self.bands} bands"] if self.bands is not None else []
        if parts:
            return f"noise with {', or with '.join(parts)}"
        if self.memory is None:
            return (
                f"at most {USUAL_MEMORY} arrays, and the fewest within {100 * USUAL_SLACK:g} % of the best of these,\n"
                "          since no limit was given"
            )
        return "any memory" if math.isinf(self.memory) else f"at most {int(self.memory)} arrays"


def checked_limit(memory: float | None, poles: int | None, bands: int | None) -> Limit:
    """The limit, from arguments of users."""
    if poles is not None:
        poles = checks.integer("poles", poles, 1)
    if bands is not None:
        bands = checks.integer("bands", bands, 1)
    if memory is not None:
        if poles is not None or bands is not None:
            raise ValueError(f"memory must not come with poles or bands, which limit it too, got {memory!r}")
        if not (isinstance(memory, float) and memory == math.inf):
            memory = checks.integer("memory", memory, 1)
    return Limit(memory, poles, bands)


class Selected(NamedTuple):
    """What a design takes over."""

    noise: ToeplitzNoise
    scales: Array | None
    stream: Stream
    choice: Choice


def selected_for_workload(
    workload: Workload,
    run: Participation,
    limit: Limit,
    *,
    budget: dict[str, Any],
    batch_size: int,
    scales: bool,
    show: Callable[[str], None],
) -> Selected:
    """The mechanism with the least mean squared error of a workload."""
    found = select(workload, run, memory=limit.largest, scales=scales, progress=show)
    unit = math.sqrt(unit_variance(**budget)) / batch_size
    words = (
        f"root mean squared error of the iterates of {workload_in_words(workload)},\n"
        "          in units of the learning rate, as no spectrum is known"
    )
    return _selected(found, limit, words, lambda square: unit * math.sqrt(square), power=1)


def selected_for_learning(
    problem: QuadraticProblem,
    run: Participation,
    limit: Limit,
    *,
    budget: dict[str, Any],
    when: When,
    scales: bool,
    tolerance: float,
    show: Callable[[str], None],
) -> Selected:
    """The mechanism with which privacy adds least to the error of learning."""
    check_stable(problem)
    others = {LONG_RUNS: rational_approximation(optimal_noise(problem), tolerance)}
    objective = LearningObjective(problem, run.steps, weights=when)
    found = select(objective, run, memory=limit.largest, others=others, scales=scales, progress=show)
    unit = problem.learning_rate**2 / 2 * unit_variance(**budget) / problem.batch_size**2
    words = f"what privacy adds to F - F* {_IN_WORDS[when]}, exactly, at the learning rate {problem.learning_rate:.6g}"
    return _selected(found, limit, words, lambda square: unit * square, power=2)


def _selected(found: Selection, limit: Limit, judged: str, error: Callable[[float], float], *, power: int) -> Selected:
    """The choice from a selection, with errors that are the ``power``-th power of a root mean square."""

    def alternative(option: Option) -> Alternative:
        return Alternative(
            option.family, option.memory, error(option.squared_error), option.sensitivity.exact, option.offered
        )

    slack = 1.0 if limit != Limit() else (1 + USUAL_SLACK) ** (2 / power)
    best = found.best(limit.allows, slack=slack)
    choice = Choice(
        judged=judged,
        limit=limit.in_words(),
        chosen=alternative(best),
        alternatives=tuple(alternative(option) for option in found.options),
        floor=None if found.floor is None else error(found.floor.squared_error),
        floor_in_words=_floor_in_words(found, error),
    )
    noise = best.noise
    assert noise is not None
    factors = best.mechanism.scales if isinstance(best.mechanism, ScaledNoise) else None
    return Selected(noise, factors, _stream(noise, factors, found.participation.steps), choice)


def _floor_in_words(found: Selection, error: Callable[[float], float]) -> str:
    if found.floor is None:
        return "none is computed for this objective and length of run, which would take long."
    order = "" if found.participation.once else ", even for data in the same order in every epoch"
    how = "rounding included" if found.floor.rigorous else "a dual bound, computed in float64"
    return f"{error(found.floor.squared_error):.6g}, which no mechanism of any form is below{order} ({how})."


def _stream(noise: ToeplitzNoise, scales: Array | None, steps: int) -> Stream:
    """What ``NoiseStream`` runs: a strategy by substitution over its bands, other noise as it is."""
    if isinstance(noise, BandedStrategyNoise):
        coefficients = noise.inverse_coefficients(min(noise.values.size, steps))
        factors = np.ones(steps) if scales is None else scales
        inside = np.add.outer(np.arange(coefficients.size), np.arange(steps)) < steps
        return BandedNoise(np.where(inside, coefficients[:, np.newaxis] / factors, 0.0))
    rational = FiniteNoise([1.0]) if isinstance(noise, DPSGD) else noise
    assert isinstance(rational, PoleNoise | FiniteNoise)
    return rational if scales is None else ScaledNoise(rational, scales)
