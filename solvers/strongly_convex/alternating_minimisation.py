"""The noise that minimises the strongly convex bound, by alternating between multiplier and noise.

For a given gain ξ the best noise is |B|² = ξ^{−1/2}, and for given noise the best gain solves a convex problem.  Each
half-step lowers the bound, so the values converge; in practice they converge linearly and fast.  The limit could depend
on the start.  Several starts are used, and they have agreed in all cases tried (docs/strongly-convex-bound-proofs.md).
The gradient noise does not enter the first half-step, and is one more weight in the second.

Source: Choquette-Choo et al., arXiv 2310.06771, Section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from corrnoise.solvers.strongly_convex.bound import checked, checked_rates, search_program, strongly_convex_certificate
from corrnoise.solvers.strongly_convex.frequency_grid import graded_edges, halved
from corrnoise.solvers.strongly_convex.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex.multiplier_proof import Drive, prove
from corrnoise.solvers.strongly_convex.multipliers import Multiplier
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.spectra import spectrum_of
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import modulus
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.strongly_convex import Criterion, StronglyConvex, frequency_condition

_SETTLED_CHANGE = 1e-9
MAX_ROUNDS = 60
_POLE_CLEARANCES = (
    1e-4,
    0.1,
)  # of the constant; the second avoids a narrow dip of |B|² at 0, for less than 1 % of the bound
_MAX_DIFFERENCE = 1e-6  # largest relative difference of the limits from different starts


@dataclass(frozen=True)
class _SocpRun:
    """Alternating minimisation from one start: the value after each round, in units of η/2, and the last multiplier."""

    history: list[float]
    multiplier: Multiplier

    @property
    def limit(self) -> float:
        return self.history[-1]

    @property
    def settled(self) -> bool:
        return _settled(self.history)


@record
class MinimisedBound(Record):
    """The noise that minimises the strongly convex bound."""

    noise: ToeplitzNoise  #: minimum-phase noise with β_0 = 1
    bound: float  #: ``strongly_convex_certificate`` of this noise, by ``"fast"``: a certified upper bound
    #: the value after each round, on the search grid, from the start with the least limit; not certified
    history: tuple[float, ...]
    limits: tuple[float, ...]  #: the last value from each start
    converged: bool  #: the last round lowered the value by less than 1e-9 of it, and all starts agree to 1e-6
    reason: str  #: why the search ended, in words


def minimise_strongly_convex_bound(
    problem: StronglyConvex, *, budget: Budget = UNIT_BUDGET, criterion: Criterion = "distance"
) -> MinimisedBound:
    """Find the noise with the smallest certified bound ("Optimized" in Figure 3 of arXiv 2310.06771).

    ημ >= 1e-9 and ηL <= 1.9999.  The gradient noise shifts the optimum, and only with it does the noise depend on the
    budget.

    Raises
    ------
    ValueError
        If the learning rate is not below 2/smoothness: no noise has a finite bound.
    ArithmeticError
        If the optimal power spectrum has features too narrow to be factorised.
    """
    checked(problem, criterion)
    unit = problem.dimension * budget.unit_variance
    slow, fast = problem.rates
    if not problem.stable:
        raise ValueError(
            f"learning_rate must lie in (0, 2/smoothness) = (0, {2 / problem.smoothness!r}), or no noise has a finite "
            f"bound, got {problem.learning_rate!r}"
        )
    checked_rates(problem)

    def bound(noise: ToeplitzNoise) -> float:
        return strongly_convex_certificate(problem, noise, budget=budget, criterion=criterion).value

    if slow == fast:
        best = bound(NuFTRL(fast))
        reason = "at condition number 1 the gain is l/|1 − l − exp(iω)|², and the optimum is NuFTRL(l), l = ηL"
        return MinimisedBound(NuFTRL(fast), best, (best,), (best,), True, reason)
    unresolved: ArithmeticError | None = None
    for program in _programs(slow, fast, criterion):
        starts = _starts(program.frequencies, slow, fast, criterion)
        runs = [alternate(program, start, unit, problem.gradient_noise_std**2) for start in starts]
        chosen = min(runs, key=lambda run: run.limit)
        if not _feasible(chosen.multiplier):
            continue  # the slack is negative between the frequencies of the grid
        try:
            noise = noise_of(chosen.multiplier)
            break
        except ArithmeticError as error:
            unresolved = error
    else:
        raise ArithmeticError(
            f"no multiplier of {problem!r} has positive slack at all frequencies and a gain that can be factorised: "
            "use a learning rate further below 2/smoothness"
        ) from unresolved
    half = problem.learning_rate / 2
    limits = tuple(half * run.limit for run in runs)
    agree = max(limits) <= (1 + _MAX_DIFFERENCE) * min(limits)
    reason = f"the last of {len(chosen.history)} rounds lowered the bound by less than 1e-9"
    if not chosen.settled:
        reason = f"{MAX_ROUNDS} rounds did not settle the bound to 1e-9"
    if not agree:
        reason += f", but the {len(runs)} starts differ by up to {max(limits) / min(limits) - 1:.1e}"
    history = tuple(half * value for value in chosen.history)
    return MinimisedBound(noise, bound(noise), history, limits, chosen.settled and agree, reason)


def _programs(slow: float, fast: float, criterion: Criterion) -> Iterator[MultiplierProgram]:
    """The programs to try, one after the other, until one gives noise."""
    edges = graded_edges(slow, fast)
    for panels in (edges, halved(edges)):
        for clearance in _POLE_CLEARANCES:
            yield search_program(slow, fast, criterion, panels, clearance)


def _feasible(multiplier: Multiplier) -> bool:
    """Whether the slack is proved to be positive at all frequencies."""
    white = Drive(spectrum_of(DPSGD()), 1.0)
    return prove(multiplier, white, graded_edges(multiplier.slow, multiplier.fast)).least_slack > 0


def _starts(frequencies: Array, slow: float, fast: float, criterion: Criterion) -> list[Array]:
    """Spectra to start from: independent noise, ν-DP-FTRL at ν = ημ, and the optimum for the envelope of all gains."""
    ftrl = modulus(slow, np.cos(frequencies / 2), np.sin(frequencies / 2))
    envelope = frequency_condition(slow, fast, frequencies, criterion).envelope()
    return [np.ones(frequencies.size), ftrl, 1 / np.sqrt(envelope)]


def alternate(program: MultiplierProgram, spectrum: Array, unit: float, extra: float) -> _SocpRun:
    """Alternate from ``spectrum`` on, with ``unit`` = d G²/(2ρ) and ``extra`` = σ_sgd²."""
    history: list[float] = []
    q = program.quadrature
    while len(history) < MAX_ROUNDS and not _settled(history):
        drive = unit * float(q @ (1 / spectrum)) * spectrum + extra
        gains, multiplier = program.best(drive)
        value = unit * float(q @ np.sqrt(gains)) ** 2 + extra * float(q @ gains)
        history.append(min([value, *history[-1:]]))  # rounding may raise the last values
        spectrum = 1 / np.sqrt(gains)
    return _SocpRun(history, multiplier)


def _settled(history: list[float]) -> bool:
    return len(history) > 1 and history[-2] - history[-1] <= _SETTLED_CHANGE * history[-1]


def noise_of(multiplier: Multiplier) -> ToeplitzNoise:
    """The minimum-phase noise with |B|² = ξ^{−1/2}."""
    from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum

    def power(frequencies: Array) -> Array:
        folded = np.abs(frequencies - 2 * math.pi * np.round(frequencies / (2 * math.pi)))
        return np.asarray(1 / np.sqrt(multiplier.gain(folded)))

    return noise_from_power_spectrum(power)
