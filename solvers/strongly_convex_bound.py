"""The bound on the error of correlated noise for smooth strongly convex losses: search, proof and record.

``corrnoise.theory.strongly_convex`` states what a multiplier proves.  The best one is searched here, in two ways,

* ``"fast"``: tails and humps that reach infinitely far (``multipliers``), frequencies graded to the features of problem
  and noise (``frequency_grid``), the gain eliminated (``interior_point``): converged, in milliseconds;
* ``"socp"``: the paper's second-order cone program, corrected (``cone_program``): single lags, uniform frequencies,

and what either finds is then checked by means that know nothing of the search.  ``docs/strongly-convex-bound.md`` has
the proof of the bound, the errata of the printed theorem, and what is slack.

References
----------
Choquette-Choo et al., arXiv 2310.06771, Theorem 3.1, Theorem E.1, Appendix E.1, Figure 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from corrnoise.solvers import cone_program
from corrnoise.solvers.frequency_grid import edges_for, graded_edges, halved, nodes, refined
from corrnoise.solvers.interior_point import MultiplierProgram
from corrnoise.solvers.multipliers import Multiplier, further_kernels, rich_kernels
from corrnoise.theory import checks
from corrnoise.theory.checks import Array
from corrnoise.theory.records import Record, record
from corrnoise.theory.strongly_convex import CRITERIA, StronglyConvex, circle_multiplier, frequency_condition
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, noise_variance, unit_variance

METHODS = ("fast", "socp")

Spectrum = Callable[[Array], Array]

_SETTLED = 1e-11  # of the certified integral, relative
_GRID_SETTLED = 1e-9  # of the integral that the grid of the search is made for
_TRUSTED = 1e-6  # by how much the certified value may exceed that on the grid of the search
_ATTEMPTS = 4
_WORTHWHILE = 1e-4  # price, of kernels that are added
_ADDED = 24
_MOST_ADDITIONS = 4


@record
class StronglyConvexCertificate(Record):
    """An upper bound of the error and what it rests on.

    Parameters
    ----------
    value
        The bound.  ``"fast"``: ``upper_bound``.  ``"socp"``: the optimum of the discretised problem on its own uniform
        grid, γ_∞² by the same quadrature, which tends to the bound as the grid gets finer and is none itself.
    upper_bound
        What ``multiplier`` proves of this noise, whatever the search did: (η/2) times the mean of drive × gain, plus
        ``quadrature_difference``.  ``inf`` if the multiplier has no positive slack somewhere.
    multiplier
        Λ; None where there is nothing to prove (the bound is ``inf``).
    least_slack
        A positive lower bound of the slack over all frequencies, not only those of a grid.  Proved, up to the rounding
        of floats: on every panel from the ends and a bound of the second derivative.
    quadrature_difference
        By how much the integral, by Gauss's rule on panels of half the width, differs from the rule on whole panels,
        summed over the panels; in the units of the bound.  It exceeds the error of the integral by far if the noise has
        no features between all nodes (its averaged variances at the rates ημ, ηL and 1 are reproduced to 1e-9), which
        is experience and not proof.
    suboptimality
        By how much the multiplier may be beaten on the grid of the search by others of its kernels that are no larger,
        relatively.
    method, criterion
        As asked for.
    """

    value: float
    upper_bound: float
    multiplier: Multiplier | None
    least_slack: float
    quadrature_difference: float
    suboptimality: float
    method: str
    criterion: str


def strongly_convex_bound(
    problem: StronglyConvex,
    noise: ToeplitzNoise,
    *,
    rho: float = 1.0,
    clip_norm: float = 1.0,
    method: str = "fast",
    frequencies: int = 1000,
    lags: int = 100,
    criterion: str = "distance",
) -> float:
    """Upper bound of the limit of E F(θ_t) − F* for DP-FTRL on every loss of the class (Theorem 3.1, corrected).

    Parameters
    ----------
    problem
        The class of losses; ``inf`` is returned for ηL >= 2.  Otherwise ημ >= 1e-9 and ηL <= 1.9999.
    noise
        Correlated noise, with σ² of its γ_∞; ``inf`` is returned where that diverges.
    rho, clip_norm
        Budget of zero-concentrated differential privacy and Lipschitz constant G, as elsewhere.
    method
        ``"fast"``: a certified upper bound.  Searches with ten times as many kernels improve it by less than 3e-4 for
        spectra that rise or fall with ω and 1e-6 <= ημ <= ηL <= 1.9 (2e-3 up to 1.99), by some per cent for spectra
        with narrow lines in between.  ``"socp"``: the paper's cone program; see ``StronglyConvexCertificate.value``.
    frequencies, lags
        Of ``"socp"``: the number of uniform frequencies on the full circle, even, so that 0 and π are among them, and
        the largest lag, below half of it.
    criterion
        ``"distance"`` bounds L ‖θ − θ*‖²/2, as the paper does; ``"objective"`` bounds F − F* directly and is up to
        some hundred times tighter at large condition numbers.

    Returns
    -------
    The bound, in units of F.  Where E F(θ_t) has no limit (gradient noise may depend on θ_t) it is of its averages over
    time.

    Raises
    ------
    ConeProgramError
        The cone solver failed; the message says what to do.
    ArithmeticError
        The noise has features that no grid resolves.

    Notes
    -----
    Choquette-Choo et al., arXiv 2310.06771, Theorem 3.1, prints a multiplier with positive off-diagonal coefficients,
    which proves nothing (counterexamples in ``docs/strongly-convex-bound.md``), 4 times this constant for the privacy
    noise and 2 d times for the gradient noise, and no 1/η².
    """
    return strongly_convex_certificate(
        problem,
        noise,
        rho=rho,
        clip_norm=clip_norm,
        method=method,
        frequencies=frequencies,
        lags=lags,
        criterion=criterion,
    ).value


def strongly_convex_certificate(
    problem: StronglyConvex,
    noise: ToeplitzNoise,
    *,
    rho: float = 1.0,
    clip_norm: float = 1.0,
    method: str = "fast",
    frequencies: int = 1000,
    lags: int = 100,
    criterion: str = "distance",
) -> StronglyConvexCertificate:
    """The record behind ``strongly_convex_bound``, of the same arguments."""
    count, lags = checked(problem, method, frequencies, lags, criterion)
    variance, (slow, fast) = noise_variance(noise, rho, clip_norm), problem.rates
    if not problem.stable or math.isinf(variance) or np.isinf(noise.averaged_variance(slow)):
        return StronglyConvexCertificate(math.inf, math.inf, None, -math.inf, 0.0, 0.0, method, criterion)
    checks.real("learning_rate × strong_convexity", slow, "[1e-9, 2)")
    checks.real("learning_rate × smoothness", fast, "(0, 1.9999]")
    half = problem.learning_rate / 2

    def drive(omega: Array) -> Array:
        """E ‖ζ‖² by frequency, of privacy and gradient noise."""
        return problem.dimension * variance * noise.power_spectrum(omega) + problem.gradient_noise_std**2

    edges = _grid(problem, noise, drive, criterion)
    if method == "fast":
        multiplier, excess, proved = _search(problem, drive, edges, criterion)
        value = proved[0]
    else:
        unit = problem.dimension * unit_variance(rho, clip_norm)
        discretised = _discretised(problem, noise, unit, edges, count)
        if not np.isfinite(discretised).all():
            return StronglyConvexCertificate(math.inf, math.inf, None, -math.inf, 0.0, 0.0, method, criterion)
        multiplier, excess = Multiplier.constant_one(slow, fast, criterion), 0.0
        if slow < fast:
            program = cone_program.compiled(slow, fast, criterion, count, lags)
            c = program.solve(discretised)
            multiplier, excess = program.multiplier(c), program.suboptimality(c, discretised)
        omega, quadrature = cone_program.uniform_frequencies(count)
        value = float((quadrature * discretised) @ multiplier.gain(omega))
        proved = certified(multiplier, drive, edges)
    upper, difference, slack = proved
    return StronglyConvexCertificate(
        half * value, half * upper, multiplier, slack, half * difference, excess, method, criterion
    )


def certified(multiplier: Multiplier, drive: Spectrum, edges: Array) -> tuple[float, float, float]:
    """What a multiplier proves: an upper bound of the mean of drive × gain, the part of it that is the difference
    between two quadratures, and a lower bound of the slack.

    It knows nothing of how the multiplier was found; negative coefficients are refused, and without positive slack the
    bound is ``inf``.
    """
    if not (multiplier.constant >= 0 and (multiplier.weights >= 0).all()):
        raise ValueError("multiplier must have coefficients >= 0, or it proves nothing")
    slack = multiplier.least_slack(edges)
    if not slack > 0:
        return math.inf, math.inf, slack
    _, mean, difference = _resolved(multiplier, drive, edges, _SETTLED)
    return mean + difference, difference, slack


def _resolved(multiplier: Multiplier, drive: Spectrum, edges: Array, tolerance: float) -> tuple[Array, float, float]:
    """``refined`` for the mean of drive × gain."""
    return refined(edges, lambda omega: drive(omega) * multiplier.gain(omega), tolerance)


def checked(problem: StronglyConvex, method: str, frequencies: int, lags: int, criterion: str) -> tuple[int, int]:
    """The arguments that all entry points share; returns the integers."""
    if not isinstance(problem, StronglyConvex):
        raise TypeError(f"problem must be StronglyConvex(…), got {problem!r}")
    checks.choice("method", method, METHODS)
    checks.choice("criterion", criterion, CRITERIA)
    count, lags = checks.integer("frequencies", frequencies, 4), checks.integer("lags", lags, 1)
    if method == "socp" and count % 2:
        raise ValueError(f"frequencies must be even, so that π is among them, got {count}")
    if method == "socp" and not lags < count / 2:
        raise ValueError(f"lags must lie below frequencies/2 = {count / 2:g}, beyond which they alias, got {lags}")
    return count, lags


def search_program(
    slow: float, fast: float, criterion: str, edges: Array, clearance: float = 1e-4
) -> MultiplierProgram:
    """The fast search on the panels with ``edges``."""
    omega, quadrature = (part.ravel() for part in nodes(edges))
    return MultiplierProgram(slow, fast, criterion, rich_kernels(slow, fast), omega, quadrature, clearance)


def _improved(program: MultiplierProgram, c: Array, spectrum: Array) -> tuple[MultiplierProgram, Array]:
    """Add kernels that promise a better bound, as long as there are any."""
    slow, fast = program.slow, program.fast
    further = further_kernels(slow, fast)
    for _ in range(_MOST_ADDITIONS):
        if math.isinf(program.suboptimality(c, spectrum)):
            break
        prices = program.prices(further, c, spectrum)
        worst = np.argsort(prices)[:_ADDED]
        if prices[worst[0]] >= -_WORTHWHILE:
            break
        kernels = program.kernels.chosen(c[1:] > 1e-9 * c.max()).and_also(further.chosen(worst[prices[worst] < 0]))
        program = MultiplierProgram(slow, fast, program.criterion, kernels, program.frequencies, program.quadrature)
        c = program.solve(spectrum)
    return program, c


def _grid(problem: StronglyConvex, noise: ToeplitzNoise, drive: Spectrum, criterion: str) -> Array:
    """Panels that resolve the noise, where it matters: under the envelope of all gains."""
    slow, fast = problem.rates
    edges, _, _ = refined(
        graded_edges(slow, fast),
        lambda omega: drive(omega) * frequency_condition(slow, fast, omega, criterion).envelope(),
        _GRID_SETTLED,
    )
    return edges_for(noise, edges, np.unique([slow, fast, min(1.0, fast)]))


def _search(
    problem: StronglyConvex, drive: Spectrum, edges: Array, criterion: str
) -> tuple[Multiplier, float, tuple[float, float, float]]:
    """The best multiplier found, its ``suboptimality``, and what it is ``certified`` to prove.

    Where the multiplier has features, or no slack, between the nodes, the search is repeated on more of them.
    """
    slow, fast = problem.rates
    if slow == fast:
        multiplier = Multiplier.constant_one(slow, fast, criterion)
        return multiplier, 0.0, certified(multiplier, drive, edges)
    found: list[tuple[Multiplier, float, tuple[float, float, float]]] = []
    while len(found) < _ATTEMPTS:
        program = search_program(slow, fast, criterion, edges)
        spectrum = drive(program.frequencies)
        program, c = _improved(program, program.solve(spectrum), spectrum)
        multiplier = program.multiplier(c)
        proved = certified(multiplier, drive, edges)
        found.append((multiplier, program.suboptimality(c, spectrum), proved))
        if proved[0] <= (1 + _TRUSTED) * program.evaluate(c, program.quadrature * spectrum).value:
            break
        slack_everywhere = proved[0] < math.inf
        edges = _resolved(multiplier, drive, edges, _GRID_SETTLED)[0] if slack_everywhere else halved(edges)
    c = np.append(circle_multiplier(slow, fast, criterion)[0], np.zeros(c.size - 1))
    constant = program.multiplier(c)
    found.append((constant, program.suboptimality(c, spectrum), certified(constant, drive, edges)))
    return min(found, key=lambda one: one[2][0])


def _discretised(problem: StronglyConvex, noise: ToeplitzNoise, unit: float, edges: Array, count: int) -> Array:
    """E ‖ζ‖² at the uniform frequencies, with γ_∞² by their quadrature; not finite where that diverges."""
    omega, quadrature = cone_program.uniform_frequencies(count)
    power = noise.power_spectrum(omega)
    with np.errstate(divide="ignore", invalid="ignore"):
        sensitivity = float(quadrature @ (1 / power)) * _beyond_minimum_phase(noise, edges)
        return unit * sensitivity * power + problem.gradient_noise_std**2


def _beyond_minimum_phase(noise: ToeplitzNoise, edges: Array) -> float:
    """γ_∞² over (1/2π) ∫ |B|^{−2} dω: 1 for minimum-phase noise, else more."""
    _, mean, difference = refined(edges, lambda omega: 1 / noise.power_spectrum(omega), _GRID_SETTLED)
    ratio = noise.limiting_sensitivity() ** 2 / mean
    return ratio if ratio > 1 + 1e-6 + 10 * difference / mean else 1.0
