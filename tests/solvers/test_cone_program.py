"""The cone program against the interior-point method, and what it does when its solver fails."""

import math

import cvxpy as cp
import numpy as np
import pytest

from corrnoise.solvers.cone_program import ConeProgram, ConeProgramError, compiled, uniform_frequencies
from corrnoise.solvers.interior_point import MultiplierProgram
from corrnoise.theory.product_noise import DPSGD, NuFTRL
from corrnoise.theory.strongly_convex import CRITERIA


def test_uniform_frequencies():
    omega, weights = uniform_frequencies(8)
    np.testing.assert_allclose(omega, np.arange(5) * math.pi / 4)
    np.testing.assert_allclose(weights, [1 / 8, 1 / 4, 1 / 4, 1 / 4, 1 / 8])
    assert omega[-1] == math.pi


@pytest.mark.parametrize("pair", [(0.1, 1.0), (0.01, 1.0), (0.01, 0.1), (0.5, 1.5), (0.05, 1.9), (0.9, 1.0)])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_same_optimum_as_the_interior_point_method(pair, criterion):
    cones = ConeProgram(*pair, criterion, 200, 12)
    for noise in (DPSGD(), NuFTRL(pair[0])):
        spectrum = noise.power_spectrum(cones.frequencies)
        w = cones.quadrature * spectrum
        by_cones, by_weights = cones.solve(spectrum), MultiplierProgram.solve(cones, spectrum)
        value, other = cones.evaluate(by_cones, w).value, cones.evaluate(by_weights, w).value
        assert value == pytest.approx(other, rel=1e-9)
        assert cones.suboptimality(by_cones, spectrum) < 1e-8


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
    found = program.evaluate(program.solve(np.ones(omega.size)), weights).value
    assert found == pytest.approx(plain.value, rel=1e-6)


def test_compiled_once():
    first = compiled(0.1, 1.0, "distance", 40, 3)
    assert compiled(0.1, 1.0, "distance", 40, 3) is first
    assert compiled(0.1, 1.0, "objective", 40, 3) is not first
    one = first.solve(np.ones(21))
    first.solve(np.linspace(1, 5, 21))
    np.testing.assert_allclose(first.solve(np.ones(21)), one, atol=1e-6)


@pytest.mark.parametrize("status", ["optimal_inaccurate", "infeasible", "user_limit"])
def test_other_outcomes_are_errors_with_advice(monkeypatch, status):
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)
    monkeypatch.setattr(type(program._problem), "status", property(lambda _: status))
    with pytest.raises(ConeProgramError, match=status) as raised:
        program.solve(np.ones(21))
    assert 'method="fast"' in str(raised.value)
    assert isinstance(raised.value, ArithmeticError)


def test_failing_and_wrong_solvers_are_errors(monkeypatch):
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)

    def fails(*_, **__):
        raise cp.SolverError("numerical error")

    monkeypatch.setattr(program._problem, "solve", fails)
    with pytest.raises(ConeProgramError, match="numerical error"):
        program.solve(np.ones(21))
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)
    right = program.solve(np.ones(21))
    monkeypatch.setattr(program._problem, "solve", lambda **_: None)
    program._c.value = 3 * right
    with pytest.raises(ConeProgramError, match="above the optimum"):
        program.solve(np.ones(21))
    program._c.value = 0.5 * right
    with pytest.raises(ConeProgramError, match="no slack"):
        program.solve(np.ones(21))


@pytest.mark.parametrize(
    ("pair", "count", "lags"),
    [((1e-4, 0.1), 1000, 50), ((0.099999, 0.1), 100, 10), ((1e-5, 0.01), 200, 20), ((1e-4, 1.0), 200, 20)],
)
@pytest.mark.parametrize("noisy", [False, True])
def test_where_rounding_stops_the_cone_solver_short_the_answer_is_polished(pair, count, lags, noisy):
    program = ConeProgram(*pair, "distance", count, lags)
    spectrum = NuFTRL(pair[0]).power_spectrum(program.frequencies) if noisy else np.ones(program.frequencies.size)
    assert program.suboptimality(program.solve(spectrum), spectrum) < 1e-8


def test_an_answer_that_is_a_little_off_is_polished(monkeypatch):
    program = ConeProgram(0.1, 1.0, "distance", 40, 3)
    spectrum = np.ones(21)
    right = program.solve(spectrum)
    best = program.evaluate(right, program.quadrature).value
    monkeypatch.setattr(program._problem, "solve", lambda **_: None)
    program._c.value = 1.05 * right
    assert program.evaluate(1.05 * right, program.quadrature).value > (1 + 1e-4) * best
    assert program.evaluate(program.solve(spectrum), program.quadrature).value == pytest.approx(best, rel=1e-9)
