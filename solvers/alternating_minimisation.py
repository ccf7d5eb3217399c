"""The noise that minimises the strongly convex bound, by alternating between multiplier and noise.

The privacy part of the bound is γ_∞² (1/2π) ∫ |B|² ξ dω, and γ_∞² is the mean of |B|^{−2} for minimum-phase noise.  For
a given gain ξ the Cauchy–Schwarz inequality gives the best noise, |B|² = ξ^{−1/2}, and the value ((1/2π) ∫ ξ^{1/2})².
For given noise the best gain is the solution of a convex problem.  Each half-step lowers the bound, so its values
converge, linearly and fast.  The problem in ξ is to minimise a concave function over a convex set, so the limit could
depend on the start; several starts are used, and in all experience they agree.  The gradient noise has no part in the
first half-step and is one more weight in the second.

The bound and its proof: ``docs/strongly-convex-bound.md``.

References
----------
Choquette-Choo et al., arXiv 2310.06771, Section 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from corrnoise.solvers import cone_program
from corrnoise.solvers.frequency_grid import graded_edges, halved
from corrnoise.solvers.interior_point import MultiplierProgram
from corrnoise.solvers.multipliers import Multiplier
from corrnoise.solvers.strongly_convex_bound import checked, search_program, strongly_convex_bound
from corrnoise.theory import checks
from corrnoise.theory.checks import Array
from corrnoise.theory.product_noise import NuFTRL
from corrnoise.theory.quadrature import modulus
from corrnoise.theory.records import Record, record
from corrnoise.theory.strongly_convex import StronglyConvex, frequency_condition
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, unit_variance

_SETTLED = 1e-9
_ROUNDS = 60
_ATTEMPTS = 4
_CLEARANCES = (1e-4, 0.1)  # of the constant; the second leaves no narrow dip of |B|² at 0, and costs less than 1 %
_AGREE = 1e-6  # limits from different starts, relatively


@record
class MinimisedBound(Record):
    """The noise that minimises the strongly convex bound.

    Parameters
    ----------
    noise
        Minimum-phase noise with β_0 = 1.
    bound
        ``strongly_convex_bound`` of this noise, certified by itself.
    history
        The value of the bound after each round, on the grid of the search, from the start that came out best.
    limits
        What each start came to.
    converged
        The last round lowered the value by less than 1e-9 of it, and all starts agree to 1e-6.
    reason
        Why the search ended, in words.
    """

    noise: ToeplitzNoise
    bound: float
    history: tuple[float, ...]
    limits: tuple[float, ...]
    converged: bool
    reason: str


def minimise_strongly_convex_bound(
    problem: StronglyConvex,
    *,
    rho: float = 1.0,
    clip_norm: float = 1.0,
    method: str = "fast",
    frequencies: int = 1000,
    lags: int = 100,
    criterion: str = "distance",
) -> MinimisedBound:
    """Find the noise with the smallest ``strongly_convex_bound`` ("Optimized" in Figure 3 of arXiv 2310.06771).

    Parameters
    ----------
    problem
        The class of losses, with ημ >= 1e-9 and ηL <= 1.9999.  The gradient noise shifts the optimum.
    rho, clip_norm
        Budget and Lipschitz constant; they matter for the noise only beside gradient noise.
    method, frequencies, lags, criterion
        As in ``strongly_convex_bound``; with ``"socp"`` both half-steps are taken on the uniform grid, as in the paper,
        and ``history`` has its values, while ``bound`` is certified as always.

    Raises
    ------
    ValueError
        The learning rate is not below 2/smoothness: no noise has a finite bound.
    ArithmeticError
        The optimal power spectrum has features too narrow to be factorised (or ``"socp"`` is too coarse).
    """
    count, lags = checked(problem, method, frequencies, lags, criterion)
    unit = problem.dimension * unit_variance(rho, clip_norm)
    slow, fast = problem.rates
    if not problem.stable:
        raise ValueError(
            f"learning_rate must lie in (0, 2/smoothness) = (0, {2 / problem.smoothness!r}), or no noise has a finite "
            f"bound, got {problem.learning_rate!r}"
        )
    checks.real("learning_rate × strong_convexity", slow, "[1e-9, 2)")
    checks.real("learning_rate × smoothness", fast, "(0, 1.9999]")

    def bound(noise: ToeplitzNoise) -> float:
        return strongly_convex_bound(problem, noise, rho=rho, clip_norm=clip_norm, criterion=criterion)

    if slow == fast:
        best = bound(NuFTRL(fast))
        reason = "at condition number 1 the gain is l/|1 − l − exp(iω)|², and the optimum is NuFTRL(l), l = ηL"
        return MinimisedBound(NuFTRL(fast), best, (best,), (best,), True, reason)
    unresolved: ArithmeticError | None = None
    for program in _programs(slow, fast, criterion, method, count, lags):
        runs = [_alternate(program, start, unit, problem.gradient_noise_std**2) for start in _starts(program)]
        history, multiplier = min(runs, key=lambda run: run[0][-1])
        if not multiplier.least_slack(graded_edges(slow, fast)) > 0:
            continue  # it exploits the gaps between the frequencies
        try:
            noise = _noise(multiplier)
            break
        except ArithmeticError as error:
            unresolved = error
    else:
        raise ArithmeticError(
            f"no multiplier of {problem!r} has positive slack at all frequencies and a gain that can be factorised: "
            'use more frequencies, or for method="fast" a learning rate further below 2/smoothness'
        ) from unresolved
    half = problem.learning_rate / 2
    values, limits = tuple(half * value for value in history), tuple(half * run[0][-1] for run in runs)
    settled, agree = _settled(history), max(limits) <= (1 + _AGREE) * min(limits)
    reason = f"the last of {len(history)} rounds lowered the bound by less than 1e-9"
    if not settled:
        reason = f"{_ROUNDS} rounds did not settle the bound to 1e-9"
    if not agree:
        reason += f", but the {len(runs)} starts differ by up to {max(limits) / min(limits) - 1:.1e}"
    return MinimisedBound(noise, bound(noise), values, limits, settled and agree, reason)


def _programs(
    slow: float, fast: float, criterion: str, method: str, count: int, lags: int
) -> Iterator[MultiplierProgram]:
    """What to solve, each where the one before gives no noise."""
    if method == "socp":
        yield cone_program.compiled(slow, fast, criterion, count, lags)
        return
    edges = graded_edges(slow, fast)
    for panels in (edges, halved(edges)):
        for clearance in _CLEARANCES:
            yield search_program(slow, fast, criterion, panels, clearance)


def _starts(program: MultiplierProgram) -> list[Array]:
    """Spectra to start from: independent noise, ν-DP-FTRL at ν = ημ, and the optimum for the envelope of all gains."""
    omega = program.frequencies
    ftrl = modulus(program.slow, np.cos(omega / 2), np.sin(omega / 2))
    envelope = frequency_condition(program.slow, program.fast, omega, program.criterion).envelope()
    return [np.ones(omega.size), ftrl, 1 / np.sqrt(envelope)]


def _alternate(
    program: MultiplierProgram, spectrum: Array, unit: float, extra: float
) -> tuple[list[float], Multiplier]:
    """The values, in units of η/2, and the last multiplier."""
    history: list[float] = []
    q = program.quadrature
    while len(history) < _ROUNDS and not _settled(history):
        drive = unit * float(q @ (1 / spectrum)) * spectrum + extra
        c = program.solve(drive)
        gains = program.evaluate(c, q * drive).gains
        value = unit * float(q @ np.sqrt(gains)) ** 2 + extra * float(q @ gains)
        if history and value > history[-1]:  # by rounding
            value = history[-1]
        history.append(value)
        spectrum = 1 / np.sqrt(gains)
    return history, program.multiplier(c)


def _settled(history: list[float]) -> bool:
    return len(history) > 1 and history[-2] - history[-1] <= _SETTLED * history[-1]


def _noise(multiplier: Multiplier) -> ToeplitzNoise:
    """The minimum-phase noise with |B|² = ξ^{−1/2}."""
    from corrnoise.solvers.spectral_factorisation import noise_from_power_spectrum

    def power(frequencies: Array) -> Array:
        folded = np.abs(frequencies - 2 * math.pi * np.round(frequencies / (2 * math.pi)))
        return np.asarray(1 / np.sqrt(multiplier.gain(folded)))

    return noise_from_power_spectrum(power)
