"""The three number systems agree with each other, choose themselves, and stop and enclose limits as stated."""

import flint
import numpy as np
import pytest
from flint import arb
from mpmath import mp, mpf, workdps

from corrnoise.theory.numerics.arithmetic import arithmetic
from tests import oracles

POINTS = ["1e-9", "0.3", "0.5", "1.25", "1.7", "20"]
EXACT = {
    "sqrt": mp.sqrt, "exp": mp.exp, "log": mp.log, "expm1": mp.expm1, "log1p": mp.log1p,
    "poch": lambda x: mp.rf(x, 3), "rc": lambda x: mp.elliprc(1, x),
}  # fmt: skip


def evaluate(m, name, x):
    if name == "poch":
        return m.poch(x, 3)
    return m.rc(m.number(1), x) if name == "rc" else getattr(m, name)(x)


def contains(ball, exact) -> bool:
    """Whether an Arb ball contains an mpmath number, known to 60 digits."""
    return ball.overlaps(arb(mp.nstr(exact, 50)))


@pytest.fixture(autouse=True)
def _precision():
    before = flint.ctx.prec
    flint.ctx.prec = 100
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize("name", EXACT)
def test_the_same_function_in_three_systems(name):
    for point in POINTS:
        with workdps(60):
            of_float, of_decimal = EXACT[name](mpf(float(point))), EXACT[name](mpf(point))
        x = np.array([float(point)])
        assert oracles.relative_error(evaluate(arithmetic(x), name, x)[0], of_float) < 4e-16
        with workdps(40):
            x = mpf(point)
            assert oracles.relative_error(evaluate(arithmetic(x), name, x), of_decimal) < 1e-39
        x = arb(point)
        ball = evaluate(arithmetic(x), name, x)
        assert contains(ball, of_decimal)
        with workdps(60):
            assert not contains(ball, of_decimal * (1 + mpf("1e-20")))


def test_pi_and_decimal_constants():
    with workdps(40):
        exact = +mp.pi, mpf("3.02")
        m = arithmetic(mpf(1))
        assert (+m.pi, m.number("3.02")) == exact
    m = arithmetic(arb(1))
    assert contains(m.pi, exact[0])
    assert contains(m.number("3.02"), exact[1])
    assert not contains(m.number(3.02), exact[1])  # the float is another number: constants are strings
    assert (arithmetic(1.0).pi, arithmetic(1.0).number("3.02")) == (np.pi, 3.02)


def test_pi_has_the_precision_in_force():
    radii = []
    for bits in (53, 200, 53):
        with flint.ctx.workprec(bits):
            radii.append(float(arithmetic(arb(1)).pi.rad()))
    assert radii[1] < 1e-55
    assert radii[0] == radii[2] > 1e-17


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ((), float), ((1,), float), ((np.ones(2), 1.0), float), ((1.0, mpf(1)), mpf),
        ((mpf(1), np.float64(1)), mpf), ((1.0, arb(1)), arb), ((arb(1), mpf(1)), arb),
    ],
)  # fmt: skip
def test_balls_come_before_mpmath_before_floats(arguments, kind):
    assert type(arithmetic(*arguments).number(1)) is kind


def test_iterations_stop_when_one_more_step_changes_nothing():
    m = arithmetic(1.0)
    assert m.settled(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-10]))
    assert not m.settled(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-8]))
    for digits in (15, 40, 200):
        with workdps(digits):
            m, half = arithmetic(mpf(1)), mpf(10) ** (-digits / 2 - 1)
            assert m.settled(mpf(1), 1 + half)
            assert not m.settled(mpf(1), 1 + 1000 * half)
    m = arithmetic(arb(1))
    assert m.settled(arb(1), arb(1))
    assert m.settled(arb(1, 0.1), arb(1.05, 0.1))  # only rounding is left
    assert m.settled(arb("nan"), arb(1))
    assert not m.settled(arb(1), arb(1) + arb(2) ** -80)


def test_what_is_known_of_a_limit():
    assert arithmetic(1.0).between(1.0, 2.0) == 1.5
    assert arithmetic(mpf(1)).between(mpf(1), mpf(2)) == 1.5
    hull = arithmetic(arb(1)).between(arb(1), arb(2))
    assert hull.contains(arb(1))
    assert hull.contains(arb(2))
    assert hull.contains(arb(1.5))
    assert not hull.contains(arb(2.001))
