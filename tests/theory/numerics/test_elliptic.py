"""The elliptic integrals: float64 to the last digits, mpmath to the last digits, and balls that enclose."""

import math

import flint
import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.numerics import elliptic
from tests import oracles
from tests.strategies import gaps

GRID = np.unique(np.concatenate([np.logspace(-12, -0.31, 9), [0.5, 0.9, 1 - 1e-3, 1 - 1e-6]]))
WIDE = np.concatenate([[1e-18], GRID, [1.0, 1.3, 1.9], 2 - np.logspace(-3, -15, 4)])
BITS = 100


@pytest.fixture(autouse=True)
def _precision():
    before = flint.ctx.prec
    flint.ctx.prec = BITS
    yield
    flint.ctx.prec = before


def contains(ball, exact) -> bool:
    """Whether a ball contains an mpmath number, known to 38 digits."""
    return ball.overlaps(arb(mp.nstr(exact, 38)))


@workdps(40)
def averaged_modulus(a, b):
    """b(x), by Carlson's integrals."""
    b = oracles.exactly(b)
    return b * (2 - b) * oracles.modulus_ratio_integral(a, b) / (2 * mp.pi)


@workdps(60)
def mean_inverse_modulus(a):
    """γ_∞² by Gauss's hypergeometric function."""
    return mp.hyp2f1(0.5, 0.5, 1, (1 - oracles.exactly(a)) ** 2)


# -- float64 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [GRID, WIDE], ids=["[1e-12, 1 - 1e-6]", "(0, 2)"])
def test_ratio_of_moduli_over_a_grid(points):
    got = elliptic.averaged_modulus(points[:, None], points)
    integral = elliptic.modulus_ratio_integral(points[:, None], points)
    for i, a in enumerate(points):
        for j, b in enumerate(points):
            exact = oracles.modulus_ratio_integral(a, b)
            assert oracles.relative_error(integral[i, j], exact) < 4e-15, (a, b)
            with workdps(40):
                exact *= mpf(b) * (2 - mpf(b)) / (2 * mp.pi)
            assert oracles.relative_error(got[i, j], exact) < 4e-15, (a, b)


@given(gaps(1e-18), gaps(1e-18))
def test_ratio_of_moduli_at_random(a, b):
    assert oracles.relative_error(elliptic.modulus_ratio_integral(a, b), oracles.modulus_ratio_integral(a, b)) < 4e-15


@pytest.mark.parametrize("a", [1e-300, 1e-160, 0.3, 1.9])
@pytest.mark.parametrize("b", [1e-300, 1e-155, 0.3, 1.9])
def test_ratio_of_moduli_down_to_tiny_gaps(a, b):
    exact = oracles.spectrum_mean([a], [0.5], b)
    assert oracles.relative_error(elliptic.averaged_modulus(a, b), exact) < 4e-15


@pytest.mark.parametrize(
    ("a", "b"), [(1e-300, 2 - 2**-50), (1e-300, 2 - 2**-30), (2 - 2**-50, 1e-290), (2 - 2**-52, 1e-285)]
)
def test_corners_of_the_stated_domain(a, b):
    with workdps(40):
        exact = elliptic.averaged_modulus(mpf(a), mpf(b))  # held against the oracles elsewhere
    assert oracles.relative_error(elliptic.averaged_modulus(a, b), exact) < 4e-15


@given(gaps(1e-300))
def test_mean_inverse_modulus(a):
    with workdps(40):
        exact = 1 / mp.agm(mpf(a), 2 - mpf(a))
    assert oracles.relative_error(elliptic.mean_inverse_modulus(a), exact) < 1e-15
    if abs(a - 1) > 1e-3:
        assert oracles.relative_error(elliptic.mean_inverse_modulus(a * (1 - 1e-6)), exact) > 1e-15


def test_oracles_of_the_mean_inverse_modulus_agree():
    for a in (1e-12, 1e-3, 0.3, 1.0, 1.5, 2 - 1e-9):
        with workdps(40):
            exact = 1 / mp.agm(mpf(a), 2 - mpf(a))
        assert oracles.relative_error(mean_inverse_modulus(a), exact) < 1e-36
        assert oracles.relative_error(oracles.spectrum_mean([a], [-0.5]), exact) < 1e-25


@given(gaps(1e-300))
def test_without_gap(b):
    with workdps(40):
        exact = 4 * mpf(b) / mp.pi * mp.elliprc(1, mpf(b))
    assert oracles.relative_error(elliptic.averaged_modulus_without_gap(b), exact) < 4e-15


@pytest.mark.parametrize("b", [1e-9, 0.1, 0.9, 1.3, 1.999999])
def test_without_gap_is_what_it_says(b):
    with workdps(60):
        s = mp.sqrt(mpf(b) - 1) if b > 1 else mp.sqrt(1 - mpf(b))
        exact = 4 * mpf(b) / mp.pi * (mp.atan(s) if b > 1 else mp.atanh(s)) / s
    assert oracles.relative_error(elliptic.averaged_modulus_without_gap(b), exact) < 4e-15
    assert oracles.relative_error(averaged_modulus(b * 1e-9, b), exact) < 1e-8


@pytest.mark.slow
@given(st.tuples(*[st.floats(-3, 3).map(lambda u: 10.0**u)] * 4))
def test_complete_elliptic_integral_of_bulirsch(arguments):
    kc, q, a, c = arguments
    with workdps(40):
        k, p, one, two = map(mpf, arguments)

        def integrand(u):  # φ = arctan e^u, the trapezoidal rule converges geometrically
            square = mp.exp(2 * u)
            cos2, sin2 = 1 / (1 + square), square / (1 + square)
            weight = mp.sqrt(cos2 * sin2)
            top = one * cos2 + two * p * sin2
            return weight * top / ((cos2 + p * p * sin2) * mp.sqrt(cos2 + k * k * sin2))

        step = mpf(1) / 6
        exact = step * mp.fsum(integrand(i * step) for i in range(-400, 401))
    assert oracles.relative_error(elliptic.cel(kc, q, a, c), exact) < 2e-15
    assert oracles.relative_error(elliptic.cel(kc, q, a, c * (1 + 1e-6)), exact) > 1e-14 or c * q < 1e-6 * a


def test_symmetry_and_special_values():
    for a, b in [(2**-40, 0.25), (0.25, 2**-40), (1.25, 1.875), (0.5, 1.5)]:  # 2 - a and 2 - b are exact
        mirrored = elliptic.averaged_modulus(2 - a, 2 - b)
        assert math.isclose(elliptic.averaged_modulus(a, b), mirrored, rel_tol=4e-15)
    rates = np.array([1e-9, 0.5, 1.5])
    np.testing.assert_allclose(elliptic.averaged_modulus(1.0, rates), 1, rtol=4e-15)
    white = 2 * np.pi / (rates * (2 - rates))
    np.testing.assert_allclose(elliptic.modulus_ratio_integral(1.0, rates), white, rtol=4e-15)
    diagonal = 2 * np.pi * elliptic.mean_inverse_modulus(rates)
    np.testing.assert_allclose(elliptic.modulus_ratio_integral(rates, rates), diagonal, rtol=4e-15)


# -- mpmath and balls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digits", [15, 40, 90])
def test_agm_in_three_systems(digits):
    with workdps(100):
        exact = mp.agm(mpf("1e-7"), mpf(3))
    with workdps(digits):
        assert abs(elliptic.agm(mpf("1e-7"), mpf(3)) / exact - 1) < mpf(10) ** (1 - digits)
    assert oracles.relative_error(elliptic.agm(np.array([1e-7, 1e-300]), 3.0)[0], exact) < 4e-16
    ball = elliptic.agm(arb("1e-7"), arb(3))
    assert contains(ball, exact)
    assert ball.rel_accuracy_bits() > BITS - 12


@pytest.mark.parametrize("a", ["1e-18", "1e-6", "0.1", "0.5", "0.999999", "1.4", "1.99999"])
def test_formulas_in_mpmath_and_balls(a):
    for b in ["1e-18", "1e-5", "0.1", "0.51", "1.0000001", "1.9", "1.99999"]:
        with workdps(40):
            x, y = mpf(a), mpf(b)
            exact = {
                elliptic.averaged_modulus: averaged_modulus(x, y),
                elliptic.modulus_ratio_integral: oracles.modulus_ratio_integral(x, y),
                lambda a, b: elliptic.mean_inverse_modulus(a): 1 / mp.agm(x, 2 - x),
                lambda a, b: elliptic.averaged_modulus_without_gap(b): 4 * y / mp.pi * mp.elliprc(1, y),
            }
            for formula, value in exact.items():
                assert oracles.relative_error(formula(x, y), value) < 1e-36
                ball = formula(arb(a), arb(b))
                assert contains(ball, value)
                assert ball.rel_accuracy_bits() > BITS - 25
                assert not contains(ball, value * (1 + mpf("1e-20")))


@pytest.mark.parametrize("radius", [1e-9, 1e-3, 0.2])
def test_wide_balls_enclose_the_values_at_points_inside(radius):
    rng = np.random.default_rng(7)
    for _ in range(15):
        a, b = np.where(rng.random(2) < 0.5, 10 ** rng.uniform(-9, 0, 2), rng.uniform(0.2, 1.8, 2))
        box = [arb(float(v), float(v * radius)) if v < 1 else arb(float(v), float((2 - v) * radius)) for v in (a, b)]
        balls = [
            elliptic.averaged_modulus(*box),
            elliptic.modulus_ratio_integral(*box),
            elliptic.mean_inverse_modulus(box[0]),
            elliptic.averaged_modulus_without_gap(box[1]),
            elliptic.agm(*box),
            elliptic.cel(*box, *box[::-1]),
        ]
        for _ in range(8):
            u = rng.choice([-1, 1, *rng.uniform(-1, 1, 3)], 2) * (1 - 1e-12)
            with workdps(40):
                x, y = (
                    oracles.exactly(v) + oracles.exactly(t * (v if v < 1 else 2 - v) * radius)
                    for v, t in zip((a, b), u, strict=True)
                )
                values = [
                    averaged_modulus(x, y),
                    oracles.modulus_ratio_integral(x, y),
                    1 / mp.agm(x, 2 - x),
                    4 * y / mp.pi * mp.elliprc(1, y),
                    mp.agm(x, y),
                    elliptic.cel(x, y, y, x),
                ]
            for ball, value in zip(balls, values, strict=True):
                assert contains(ball, value), (a, b, radius)


def test_balls_that_leave_the_domain_say_nothing():
    for ball in [arb(0.1, 0.2), arb(1.9, 0.2), arb("nan")]:
        assert not elliptic.mean_inverse_modulus(ball).is_finite()
        assert not elliptic.averaged_modulus(ball, arb(0.5)).is_finite()
        assert not elliptic.averaged_modulus(arb(0.5), ball).is_finite()


# -- false neighbours --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mutant",
    [
        lambda a, b: elliptic.modulus_ratio_integral(b, a),
        lambda a, b: elliptic.modulus_ratio_integral(a, b) * (1 + 1e-14),
        lambda a, b: elliptic.modulus_ratio_integral(a * (1 + 1e-6), b),
        lambda a, b: elliptic.modulus_ratio_integral(a, b * (1 + 1e-6)),
    ],
)
def test_false_neighbours_are_told_apart(mutant):
    assert oracles.relative_error(mutant(0.1, 0.3), oracles.modulus_ratio_integral(0.1, 0.3)) > 4e-15
