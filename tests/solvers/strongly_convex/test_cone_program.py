"""The cone program, as CLARABEL answers it, against the interior-point method on the same grid and a plain formulation.

The two share no formula of the inequality and no solver, so that a mistake in either shows as a difference beyond what
the residuals of the cone solver and the suboptimality of the interior-point method allow.
"""

import inspect
import math
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest

from corrnoise.solvers.strongly_convex import cone_program as module
from corrnoise.solvers.strongly_convex.cone_program import ConeProgram, ConeProgramError, compiled, uniform_frequencies
from corrnoise.solvers.strongly_convex.interior_point import MultiplierProgram
from corrnoise.solvers.strongly_convex.multipliers import taps
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.problems.strongly_convex import CRITERIA, FrequencyCondition


def test_uniform_frequencies():
    omega, weights = uniform_frequencies(8)
    np.testing.assert_allclose(omega, np.arange(5) * math.pi / 4)
    np.testing.assert_allclose(weights, [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8])
    assert omega[-1] == math.pi


def by_interior_point(pair, criterion, count, lags, spectrum):
    """Optimum of the same discretised problem with ξ eliminated, and how far it may be from the minimum."""
    program = MultiplierProgram(*pair, criterion, taps(lags), *uniform_frequencies(count), clearance=0.0)
    c = program.solve(spectrum)
    return program.evaluate(c, program.quadrature * spectrum).value, program.suboptimality(c, spectrum)


def discrepancy(pair, criterion, count, lags, noise):
    """Relative difference of the two optima, and what residuals and suboptimality allow."""
    cones = ConeProgram(*pair, criterion, count, lags)
    spectrum = noise.power_spectrum(cones.frequencies)
    solution = cones.solve(spectrum)
    value, suboptimality = by_interior_point(pair, criterion, count, lags, spectrum)
    return abs(solution.value / value - 1), solution.accuracy + suboptimality, solution


@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.01, 1.0), (0.01, 0.1), (0.5, 1.5), (0.05, 1.9), (0.9, 1.0)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_same_optimum_as_the_interior_point_method(pair, criterion):
    for noise in (DPSGD(), NuFTRL(pair[0])):
        difference, allowed, solution = discrepancy(pair, criterion, 200, 12, noise)
        assert difference <= allowed
        assert allowed < 3e-8
        assert solution.iterations > 5


@pytest.mark.parametrize(
    ("pair", "count", "lags", "allows"),
    [
        ((1e-4, 1.0), 200, 20, 1e-8),
        ((1e-6, 1.0), 200, 20, 1e-8),
        ((1e-5, 0.01), 200, 20, 1e-5),
        ((0.5, 1.999), 200, 10, 1e-8),
        ((0.99, 1.0), 100, 10, 1e-6),
        ((0.9999, 1.0), 100, 10, 1e-4),
        pytest.param((1e-4, 1.0), 1000, 50, 1e-7, marks=pytest.mark.slow),
        pytest.param((1e-4, 0.1), 1000, 50, 1e-7, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_same_optimum_at_the_corners(pair, count, lags, allows, criterion):
    """Large condition numbers, small steps, steps near instability, and κ → 1, where the residuals allow more."""
    for noise in (DPSGD(), NuFTRL(pair[0])):
        difference, allowed, _ = discrepancy(pair, criterion, count, lags, noise)
        assert difference <= allowed
        assert allowed < allows


@pytest.mark.parametrize("excess", [1e-9, 1e-10])
def test_where_the_cone_solver_stops_short(excess):
    """Next to κ = 1, where δ ξ is lost in v = δ ξ + 2a + ε: an error, not an answer.  There the fast bound is exact."""
    cones = ConeProgram(0.1 / (1 + excess), 0.1, "objective", 200, 20)
    with pytest.raises(ConeProgramError, match="the cone solver stopped with"):
        cones.solve(np.ones(101))


WRONG_CONDITIONS = {
    "R": lambda k: replace(k, r=k.r * (1 + 1e-6)),
    "offset": lambda k: replace(k, offset=k.offset * (1 + 1e-6)),
    "l": lambda k: replace(k, fast=k.fast * (1 + 1e-6)),
    "m": lambda k: replace(k, slow=k.slow * (1 + 1e-6)),
}
WRONG_LINES = [
    ("2 * delta * (multiply", "2.000002 * delta * (multiply"),
    ("- self.fast * delta", "- 1.000001 * self.fast * delta"),
    ("twice = 2 * a + epsilon", "twice = 2.000002 * a + epsilon"),
    ("(x - self.fast) ** 2 + s**2", "(x - self.fast) ** 2 + 1.000001 * s**2"),
    ("delta = self.fast - self.slow", "delta = self.fast - 1.000001 * self.slow"),
    ("1 - np.exp(-1j", "1 + np.exp(-1j"),
]


@pytest.mark.parametrize("which", WRONG_CONDITIONS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wrong_constant_of_the_interior_point_method_is_caught(monkeypatch, which, criterion):
    right = MultiplierProgram.__init__

    def wrong(self, *arguments, **keywords):
        right(self, *arguments, **keywords)
        self._condition = WRONG_CONDITIONS[which](self._condition)

    monkeypatch.setattr(MultiplierProgram, "__init__", wrong)
    difference, allowed, _ = discrepancy((0.1, 1.0), criterion, 200, 12, NuFTRL(0.1))
    assert difference > 3 * allowed


@pytest.mark.parametrize(("right", "wrong"), WRONG_LINES)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_wrong_line_of_the_cone_program_is_caught(right, wrong, criterion):
    """The source of the module with one constant off by a millionth, or with the printed sign of the multiplier."""
    source = inspect.getsource(module)
    assert source.count(right) == 1
    changed = {"__name__": module.__name__}
    exec(source.replace(right, wrong), changed)
    spectrum = NuFTRL(0.1).power_spectrum(uniform_frequencies(200)[0])
    value, suboptimality = by_interior_point((0.1, 1.0), criterion, 200, 12, spectrum)
    solution = changed["ConeProgram"](0.1, 1.0, criterion, 200, 12).solve(spectrum)
    assert abs(solution.value / value - 1) > 3 * (solution.accuracy + suboptimality)


def test_accuracy_tells_how_wrong_an_answer_is(monkeypatch):
    """With 1e-5 in place of 1e-10 for the solver, the answer is off by more, and by no more than it says."""
    monkeypatch.setattr(module, "GAP_TOLERANCES", (1e-5,))
    difference, allowed, solution = discrepancy((0.1, 1.0), "distance", 200, 12, DPSGD())
    assert solution.tolerance == 1e-5
    assert 1e-7 < difference <= allowed < 1e-2


def test_solution_is_what_the_solver_found():
    cones = ConeProgram(0.1, 1.0, "distance", 100, 8)
    spectrum = np.linspace(1, 3, 51)
    solution = cones.solve(spectrum)
    assert solution.value == pytest.approx(float(cones.quadrature * spectrum @ solution.gains), rel=1e-14)
    assert solution.multiplier.gain(cones.frequencies) == pytest.approx(solution.gains, rel=1e-4)
    assert (solution.multiplier.weights >= 0).all()


def test_the_cone_program_uses_neither_the_condition_nor_the_solver_it_is_compared_with(monkeypatch):
    def never(*_, **__):
        raise AssertionError("the cone program is to be independent")

    for name in ("slack", "gain", "cone", "envelope"):
        monkeypatch.setattr(FrequencyCondition, name, never)
    monkeypatch.setattr(MultiplierProgram, "__init__", never)
    assert ConeProgram(0.1, 1.0, "distance", 40, 3).solve(np.ones(21)).value > 13


def test_optimum_against_a_plain_formulation():
    """Written from the matrix inequality, with complex entries as 4 × 4 real blocks, for one small grid."""
    m, ell, count, lags = 0.2, 1.0, 16, 2
    delta = ell - m
    omega, weights = uniform_frequencies(count)
    c, gains = cp.Variable(1 + 2 * lags, nonneg=True), cp.Variable(omega.size)
    constraints = []
    for i, w in enumerate(omega):
        past = [1 - np.exp(-1j * w * lag) for lag in (*range(1, lags + 1), *range(-1, -lags - 1, -1))]
        real, imaginary = np.array([1, *np.real(past)]), np.array([0, *np.imag(past)])
        a, b = real @ c, imaginary @ c
        x, s = 1 - math.cos(w), math.sin(w)
        beta2 = (x - ell) ** 2 + s**2
        upper = 2 * (a * (x - ell) + b * s) + 2 * a * beta2 / delta - ell  # 2 Re(Λβ) + 2a|β|²/δ − l
        cross_real, cross_imaginary = a + 2 * a * (x - ell) / delta, b + 2 * a * s / delta
        lower = gains[i] + 2 * a / delta
        block = cp.bmat(
            [
                [upper, 0, -cross_real, cross_imaginary],
                [0, upper, -cross_imaginary, -cross_real],
                [-cross_real, -cross_imaginary, lower, 0],
                [cross_imaginary, -cross_real, 0, lower],
            ]
        )
        constraints.append((block + block.T) / 2 >> 0)
    plain = cp.Problem(cp.Minimize(weights @ gains), constraints)
    plain.solve(solver=cp.CLARABEL)
    program = ConeProgram(m, ell, "distance", count, lags)
    assert program.solve(np.ones(omega.size)).value == pytest.approx(plain.value, rel=1e-6)


def test_compiled_once():
    first = compiled(0.1, 1.0, "distance", 40, 3)
    assert compiled(0.1, 1.0, "distance", 40, 3) is first
    assert compiled(0.1, 1.0, "objective", 40, 3) is not first
    one = first.solve(np.ones(21))
    first.solve(np.linspace(1, 5, 21))
    np.testing.assert_allclose(first.solve(np.ones(21)).gains, one.gains, rtol=1e-12)


@pytest.mark.parametrize("status", ["optimal_inaccurate", "infeasible", "user_limit"])
def test_other_outcomes_are_errors_with_advice(monkeypatch, status):
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)
    monkeypatch.setattr(type(program.cone_problem), "status", property(lambda _: status))
    with pytest.raises(ConeProgramError, match=status) as raised:
        program.solve(np.ones(21))
    assert 'method="fast"' in str(raised.value)
    assert isinstance(raised.value, ArithmeticError)


def test_solvers_that_give_up_are_errors(monkeypatch):
    """CLARABEL stopped after two iterations: there is no solution, and its status says so."""
    monkeypatch.setattr(module, "MAX_ITERATIONS", 2)
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)
    with pytest.raises(ConeProgramError, match="MaxIterations"):
        program.solve(np.ones(21))
