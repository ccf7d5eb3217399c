"""The strongly convex bound: the interior-point search against the cone program of the paper.

Both sides solve again what has been set up before: the cone program is compiled, its solver is CLARABEL.  At condition
number 10 the cone program's uniform frequencies and single lags are as good as the graded ones with tails, so that the
two numbers can be compared; beyond 100 they no longer are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.solvers.cone_program import ConeProgram
from corrnoise.solvers.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex_bound import strongly_convex_bound
from corrnoise.theory.checks import Array
from corrnoise.theory.product_noise import DPSGD, NuFTRL
from corrnoise.theory.strongly_convex import CRITERIA, StronglyConvex


@benchmark
def strongly_convex_bound_of_noise(setting: Setting) -> Iterator[Row]:
    """One bound with its certificate, η L = 1 and κ = 10, against k frequencies and T lags."""
    problem = StronglyConvex(0.1, 1.0, 1.0)
    count, lags = setting.pick(1000, 250), setting.pick(100, 50)
    for noise in (DPSGD(), NuFTRL(0.1)):
        for criterion in CRITERIA:
            bound = partial(strongly_convex_bound, problem, noise, criterion=criterion, frequencies=count, lags=lags)
            fast = Side("fast", partial(bound, method="fast"), 1)
            cone = Side(f"cone program, k = {count}, T = {lags}", partial(bound, method="socp"), 1)
            yield setting.compare(f"{noise!r}, {criterion}", fast, cone, item="bound", tolerance=1e-8)


def _optimum(program: MultiplierProgram, spectrum: Array) -> float:
    return program.evaluate(program.solve(spectrum), program.quadrature * spectrum).value


@benchmark
def strongly_convex_program(setting: Setting) -> Iterator[Row]:
    """The same discretised problem, η L = 1 and κ = 100: weights of the multiplier only, against cones."""
    slow, fast = 0.01, 1.0
    for count, lags in setting.pick([(1000, 10), (1000, 50), (1000, 100)], [(250, 10), (250, 20)]):
        cones = ConeProgram(slow, fast, "distance", count, lags)
        weights = MultiplierProgram(slow, fast, "distance", cones.kernels, cones.frequencies, cones.quadrature)
        spectrum = NuFTRL(slow).power_spectrum(cones.frequencies)
        ours = Side("interior point", partial(_optimum, weights, spectrum), 1)
        other = Side("CLARABEL", partial(_optimum, cones, spectrum), 1)
        yield setting.compare(f"k = {count}, T = {lags}", ours, other, item="solution", tolerance=1e-8)
