"""The strongly convex bound: the interior-point search against the cone program of the paper.

The problems are set up before they are timed, and the cone program is compiled.  Its solver is CLARABEL.  The two sides
share no formula and no solver.  They must agree as closely as the residuals of the cone solver allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.solvers.strongly_convex.bound import strongly_convex_certificate
from corrnoise.solvers.strongly_convex.cone_program import ConeProgram
from corrnoise.solvers.strongly_convex.frequency_grid import graded_edges
from corrnoise.solvers.strongly_convex.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex.multiplier_proof import Drive, prove
from corrnoise.solvers.strongly_convex.multipliers import Multiplier, taps
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.spectra import spectrum_of
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.problems.strongly_convex import CRITERIA, StronglyConvex


@benchmark
def strongly_convex_bound_of_noise(setting: Setting) -> Iterator[Row]:
    """One certified bound, η L = 1 and κ = 10, against the value of the cone program for k frequencies and T lags.

    At condition number 10 the uniform frequencies and single lags of the cone program are as good as graded frequencies
    with tails, so the two numbers can be compared.  Beyond condition number 100 they are not as good.
    """
    problem = StronglyConvex(0.1, 1.0, 1.0)
    count = setting.pick(1000, 250)
    lags = setting.pick(100, 50)
    for noise in (DPSGD(), NuFTRL(0.1)):
        for criterion in CRITERIA:
            bound = partial(_bound, problem, noise, criterion=criterion, frequencies=count, lags=lags)
            fast = Side("fast, certified", partial(bound, method="fast"), 1)
            cone = Side(f"cone program, k = {count}, T = {lags}", partial(bound, method="socp"), 1)
            yield setting.compare(f"{noise!r}, {criterion}", fast, cone, item="bound", tolerance=1e-8)


def _bound(*given: Any, **options: Any) -> float:
    return strongly_convex_certificate(*given, **options).value


def _by_interior_point(program: MultiplierProgram, spectrum: Array) -> float:
    return program.evaluate(program.solve(spectrum), program.quadrature * spectrum).value


def _by_clarabel(program: ConeProgram, spectrum: Array) -> float:
    return program.solve(spectrum).value


@benchmark
def strongly_convex_program(setting: Setting) -> Iterator[Row]:
    """The same discretised problem, η L = 1 and κ = 100: weights of the multiplier only, against cones."""
    slow, fast = 0.01, 1.0
    for count, lags in setting.pick([(1000, 10), (1000, 50), (1000, 100)], [(250, 10), (250, 20)]):
        cones = ConeProgram(slow, fast, "distance", count, lags)
        weights = MultiplierProgram(slow, fast, "distance", taps(lags), cones.frequencies, cones.quadrature, 0.0)
        spectrum = NuFTRL(slow).power_spectrum(cones.frequencies)
        ours = Side("interior point", partial(_by_interior_point, weights, spectrum), 1)
        other = Side("CLARABEL by cvxpy", partial(_by_clarabel, cones, spectrum), 1)
        allowed = cones.solve(spectrum).accuracy + weights.suboptimality(weights.solve(spectrum), spectrum)
        yield setting.compare(f"k = {count}, T = {lags}", ours, other, item="solution", tolerance=allowed)


def _upper_bound(multiplier: Multiplier, drive: Drive) -> float:
    return prove(multiplier, drive, graded_edges(multiplier.slow, multiplier.fast)).upper_bound


@benchmark
def strongly_convex_proof(setting: Setting) -> Iterator[Row]:
    """The certificate of a given multiplier, against search and certificate together; η L = 1, ν = ημ."""
    for kappa in setting.pick((10.0, 100.0, 1000.0, 1e4), (10.0, 100.0)):
        problem = StronglyConvex(1 / kappa, 1.0, 1.0)
        noise = NuFTRL(1 / kappa)
        multiplier = strongly_convex_certificate(problem, noise).multiplier
        assert multiplier is not None
        drive = Drive(spectrum_of(noise), noise.variance() / 2)  # η/2 times the variance
        proof = Side("certificate", partial(_upper_bound, multiplier, drive), 1)
        both = Side("search and certificate", partial(_bound, problem, noise), 1)
        yield setting.compare(f"condition number {kappa:g}", proof, both, item="bound", tolerance=1e-10)
