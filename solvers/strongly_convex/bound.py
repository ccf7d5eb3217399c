"""The bound on the error of correlated noise for smooth strongly convex losses: search, proof and record.

``theory.problems.strongly_convex`` states the bound that a multiplier proves.  This module searches for the best
multiplier by one of two methods:

* ``"fast"``: a mixture of tails and humps of infinite length (``multipliers``) on frequencies that are graded to the
  features of problem and noise (``frequency_grid``), with the gain eliminated (``interior_point``).  It converges in
  milliseconds.
* ``"socp"``: the paper's second-order cone program, corrected (``cone_program``), with single lags and uniform
  frequencies, by an independent solver.

Whichever method finds the multiplier, ``multiplier_proof`` proves a bound from it without using the search.
``docs/strongly-convex-bound.md`` has the errata of the printed theorem, ``docs/strongly-convex-bound-proofs.md`` the
proof of the bound, and the places where it is loose.

Source: Choquette-Choo et al., arXiv 2310.06771, Theorem 3.1, Theorem E.1, Appendix E.1, Figure 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from corrnoise.solvers.strongly_convex import cone_program
from corrnoise.solvers.strongly_convex.frequency_grid import clear_edges, graded_edges, halved, nodes
from corrnoise.solvers.strongly_convex.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex.multiplier_proof import Drive, Proof, prove
from corrnoise.solvers.strongly_convex.multipliers import Multiplier, further_kernels, rich_kernels
from corrnoise.theory.mechanisms.spectra import spectrum_of
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.participation import ANY_LENGTH
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.strongly_convex import CRITERIA, Criterion, StronglyConvex, circle_multiplier

Method = Literal["fast", "socp"]
METHODS: tuple[Method, ...] = get_args(Method)

_GRID_ERROR = 1e-6  # largest relative difference of the mean on the search grid from the proved one
_REFINED_ERROR = 1e-8  # the same after the grid is refined
_MAX_GRIDS = 4  # grids that are tried
_MIN_DECREASE = 1e-4  # least relative decrease per weight that adds kernels
_MAX_KERNELS = 24  # most kernels added at once
_MOST_ADDITIONS = 4


@record
class StronglyConvexCertificate(Record):
    """An upper bound of the error and the evidence for it."""

    #: the bound.  ``"fast"``: ``upper_bound``.  ``"socp"``: the optimum of the discretised problem on its own uniform
    #: grid, as the cone solver found it, with γ_∞² by the same quadrature.  It tends to the bound as the grid gets
    #: finer, and is not a bound itself.
    value: float
    #: certified, for both methods: (η/2) times an upper bound of the mean of drive × gain for ``multiplier``.  It is
    #: the mean by Gauss's rule, plus ``quadrature_error``, plus ``rounding_error``.  It is ``inf`` if nothing is
    #: proved.  The proof assumes the theorem, IEEE arithmetic, elementary functions correct to 4 units in the last
    #: place, and the error bound that ``noise`` gives for its γ_∞.
    upper_bound: float
    multiplier: Multiplier | None  #: Λ; None if the bound is ``inf``
    #: a positive lower bound of the slack at all frequencies, not only at nodes; −inf if none is proved
    least_slack: float
    #: proved bound of the error of Gauss's rule, in the units of the bound.  It follows from bounds of drive and gain
    #: on discs of complex frequencies around the panels.
    quadrature_error: float
    rounding_error: float  #: proved bound of all rounding errors, in the units of the bound
    #: upper bound of the relative gap between the value of the discretised problem and its minimum.  ``"fast"``: from
    #: convexity, over multipliers with the same kernels and no larger sum of coefficients.  ``"socp"``: from the
    #: residuals of the cone solver, to first order.
    suboptimality: float
    #: the arguments of the call
    method: Method
    criterion: Criterion


@dataclass(frozen=True)
class _ProvedMultiplier:
    """A multiplier, its proof, and a bound of its relative gap to the best multiplier on the search grid."""

    multiplier: Multiplier
    proof: Proof
    suboptimality: float


@usual_float_errors
def strongly_convex_certificate(
    problem: StronglyConvex,
    noise: ToeplitzNoise,
    *,
    budget: Budget = UNIT_BUDGET,
    method: Method = "fast",
    frequencies: int = 1000,
    lags: int = 100,
    criterion: Criterion = "distance",
) -> StronglyConvexCertificate:
    """Upper bound of the limit of E F(θ_t) − F* for DP-FTRL on every loss of the class, with the evidence for it.

    With gradient noise that depends on θ_t, E F(θ_t) may have no limit, and the bound holds for its averages over
    time.

    Theorem 3.1 of Choquette-Choo et al., arXiv 2310.06771, corrected.  The paper prints a multiplier with positive
    off-diagonal coefficients, where the theorem is false (counterexamples in ``docs/strongly-convex-bound.md``).
    Its constant is 4 times this one for the privacy noise and 2 d times for the gradient noise, and it lacks 1/η².

    Parameters
    ----------
    problem : StronglyConvex
        The class of losses; ``inf`` is returned for ηL >= 2.  Otherwise ημ >= 1e-9 and ηL <= 1.9999.
    noise : ToeplitzNoise
        Correlated noise, with σ² of its γ_∞; ``inf`` is returned where that diverges.
    budget : Budget, optional
        ρ, clipping norm G and adjacency.
    method : {"fast", "socp"}, default "fast"
        ``"fast"``: the certified upper bound.  Searches with ten times as many kernels improve it by less than 3e-4 for
        spectra that increase or decrease with ω and 1e-6 <= ημ <= ηL <= 1.9 (2e-3 up to 1.99), and by some per cent for
        spectra with narrow lines in between.  ``"socp"``: the value of the paper's cone program, which is not
        certified; see ``StronglyConvexCertificate.value``.
    frequencies : int, default 1000
        For ``"socp"`` only: the number of uniform frequencies on the full circle, even, so that 0 and π are among them,
        and the largest lag, below half of it.
    lags : int, default 100
        For ``"socp"`` only: the number of uniform frequencies on the full circle, even, so that 0 and π are among them,
        and the largest lag, below half of it.
    criterion : {"distance", "objective"}, default "distance"
        ``"distance"`` bounds L ‖θ − θ*‖²/2, as the paper does ``"objective"`` bounds F − F* directly and is up to some
        hundred times tighter at large condition numbers.

    Returns
    -------
    StronglyConvexCertificate
        Its ``value`` is the bound, in units of F; certified with ``"fast"``.

    Raises
    ------
    TypeError
        If the noise is of a kind whose spectrum has no proved bounds (``corrnoise.theory.mechanisms.spectra``).
    ConeProgramError
        If the cone solver failed; the message gives advice.
    ArithmeticError
        If the noise has features that no grid resolves.

    Examples
    --------
    >>> import corrnoise as cn
    >>> losses = cn.StronglyConvex(strong_convexity=0.1, smoothness=1.0, learning_rate=0.5)
    >>> round(cn.papers.correlated_noise.strongly_convex_certificate(losses, cn.mechanisms.NuFTRL(0.05)).value, 3)
    0.647
    """
    checked(problem, criterion)
    checks.choice("method", method, METHODS)
    count = checks.integer("frequencies", frequencies, 4)
    lags = checks.integer("lags", lags, 1)
    if method == "socp" and count % 2:
        raise ValueError(f"frequencies must be even, so that π is among them, got {count}")
    if method == "socp" and not lags < count / 2:
        raise ValueError(f"lags must lie below frequencies/2 = {count / 2:g}, beyond which they alias, got {lags}")
    scale = budget.scale(checked_noise(noise).sensitivity_upper_bound(ANY_LENGTH))
    nothing = StronglyConvexCertificate(math.inf, math.inf, None, -math.inf, 0.0, 0.0, 0.0, method, criterion)
    if not problem.stable or math.isinf(scale) or np.isinf(noise.averaged_variance(problem.rates[0])):
        return nothing
    checked_rates(problem)
    variance = problem.dimension * scale**2 * (1 + 8 * UNIT_ROUNDOFF)
    drive = Drive(spectrum_of(noise), variance, problem.gradient_noise_std**2 * (1 + 2 * UNIT_ROUNDOFF))
    if method == "fast":
        found = _search(problem, drive, criterion)
        if not math.isfinite(found.proof.upper_bound):
            raise ArithmeticError(f"noise must have a spectrum that some 30 000 panels resolve, got {noise!r}")
        value = found.proof.upper_bound
    else:
        spectrum = _discretised(problem, noise, problem.dimension * budget.unit_variance, count)
        if not np.isfinite(spectrum).all():
            return nothing
        value, found = _by_cones(problem, drive, spectrum, count, lags, criterion)
    half = problem.learning_rate / 2 * (1 + 4 * UNIT_ROUNDOFF)
    return StronglyConvexCertificate(
        half * value,
        half * found.proof.upper_bound,
        found.multiplier,
        found.proof.least_slack,
        half * found.proof.quadrature_error,
        half * found.proof.rounding_error,
        found.suboptimality,
        method,
        criterion,
    )


def checked(problem: StronglyConvex, criterion: str) -> None:
    """Check the arguments that all entry points share."""
    if not isinstance(problem, StronglyConvex):
        raise TypeError(f"problem must be StronglyConvex(…), got {problem!r}")
    checks.choice("criterion", criterion, CRITERIA)


def checked_rates(problem: StronglyConvex) -> None:
    """Raise ``ValueError`` for stable problems whose rates are too small, or too close to 2, for the grids."""
    slow, fast = problem.rates
    checks.real("learning_rate × strong_convexity", slow, "[1e-9, 2)")
    checks.real("learning_rate × smoothness", fast, "(0, 1.9999]")


# -- the fast search ---------------------------------------------------------------------------------------------------


def search_program(
    slow: float, fast: float, criterion: Criterion, edges: Array, clearance: float = 1e-4
) -> MultiplierProgram:
    """The program of the fast search on the panels with ``edges``."""
    omega, quadrature = (part.ravel() for part in nodes(edges))
    return MultiplierProgram(slow, fast, criterion, rich_kernels(slow, fast), omega, quadrature, clearance)


def _improved(program: MultiplierProgram, c: Array, spectrum: Array) -> tuple[MultiplierProgram, Array]:
    """Add kernels that decrease the bound, until none decreases it by much."""
    slow, fast = program.slow, program.fast
    further = further_kernels(slow, fast)
    for _ in range(_MOST_ADDITIONS):
        if math.isinf(program.suboptimality(c, spectrum)):
            break
        prices = program.prices(further, c, spectrum)
        worst = np.argsort(prices)[:_MAX_KERNELS]
        if prices[worst[0]] >= -_MIN_DECREASE:
            break
        kernels = program.kernels.chosen(c[1:] > 1e-9 * c.max()).and_also(further.chosen(worst[prices[worst] < 0]))
        program = MultiplierProgram(slow, fast, program.criterion, kernels, program.frequencies, program.quadrature)
        c = program.solve(spectrum)
    return program, c


def _search(problem: StronglyConvex, drive: Drive, criterion: Criterion) -> _ProvedMultiplier:
    """The best multiplier found, with its proof; a mean that differs from the proved one asks for a finer grid."""
    slow, fast = problem.rates
    edges = clear_edges(graded_edges(slow, fast), drive.spectrum)
    if slow == fast:
        constant = Multiplier.constant_one(slow, fast, criterion)
        return _ProvedMultiplier(constant, prove(constant, drive, edges), 0.0)
    found: list[_ProvedMultiplier] = []
    for _ in range(_MAX_GRIDS):
        program = search_program(slow, fast, criterion, edges)
        spectrum = drive(program.frequencies)
        program, c = _improved(program, program.solve(spectrum), spectrum)
        multiplier = program.multiplier(c)
        proof = prove(multiplier, drive, edges)
        found.append(_ProvedMultiplier(multiplier, proof, program.suboptimality(c, spectrum)))
        mean = program.evaluate(c, program.quadrature * spectrum).value
        if abs(proof.mean - mean) <= _GRID_ERROR * mean:
            return found[-1]
        edges = _regridded(edges, found[-1], drive) if math.isfinite(proof.mean) else halved(edges)
    c = np.append(circle_multiplier(slow, fast, criterion)[0], np.zeros(c.size - 1))
    constant = program.multiplier(c)
    found.append(_ProvedMultiplier(constant, prove(constant, drive, edges), program.suboptimality(c, spectrum)))
    return min(found, key=lambda candidate: candidate.proof.upper_bound)


def _regridded(edges: Array, found: _ProvedMultiplier, drive: Drive) -> Array:
    """Halve the panels where the quadrature of the search does not reproduce the proved mean of drive × gain."""
    proof = found.proof
    below = np.append(0.0, np.cumsum(proof.parts))
    edges = np.unique(np.concatenate([edges, proof.edges[[0, -1]]]))
    while True:
        omega, weights = nodes(edges)
        rule = drive(omega.ravel()) * found.multiplier.gain(omega.ravel())
        place = np.minimum(np.searchsorted(proof.edges, edges), below.size - 1)
        differences = (weights * rule.reshape(omega.shape)).sum(axis=1) - np.diff(below[place])
        middle = (edges[:-1] + edges[1:]) / 2
        wrong = np.abs(differences) > _REFINED_ERROR * proof.mean / middle.size
        wrong &= np.isin(middle, proof.edges)
        if not wrong.any():
            return edges
        edges = np.sort(np.concatenate([edges, middle[wrong]]))


# -- the cone program --------------------------------------------------------------------------------------------------


def _by_cones(
    problem: StronglyConvex, drive: Drive, spectrum: Array, count: int, lags: int, criterion: Criterion
) -> tuple[float, _ProvedMultiplier]:
    """The value of the cone program for ``spectrum`` at the uniform frequencies, and its multiplier with its proof."""
    slow, fast = problem.rates
    edges = graded_edges(slow, fast)
    if slow == fast:
        constant = Multiplier.constant_one(slow, fast, criterion)
        frequencies, weights = cone_program.uniform_frequencies(count)
        value = float((weights * spectrum) @ constant.gain(frequencies))
        return value, _ProvedMultiplier(constant, prove(constant, drive, edges), 0.0)
    solution = cone_program.compiled(slow, fast, criterion, count, lags).solve(spectrum)
    proof = prove(solution.multiplier, drive, edges)
    return solution.value, _ProvedMultiplier(solution.multiplier, proof, solution.accuracy)


def _discretised(problem: StronglyConvex, noise: ToeplitzNoise, unit: float, count: int) -> Array:
    """E ‖ζ‖² at the uniform frequencies, with γ_∞² by quadrature on them; not finite if that diverges."""
    frequencies, weights = cone_program.uniform_frequencies(count)
    power = noise.power_spectrum(frequencies)
    with np.errstate(divide="ignore", invalid="ignore"):
        return unit * float(weights @ (1 / power)) * power + problem.gradient_noise_std**2
