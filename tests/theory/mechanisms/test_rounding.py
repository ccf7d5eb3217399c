"""Bounds of rounding against programs whose rounding errors are chosen: no pattern of errors exceeds a bound.

The programs run with a coarse unit roundoff, so that errors are visible, and with patterns that are random or push all
entries one way.  For a fixed pattern a program is a linear map; it is made explicit and inverted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.mechanisms import rounding
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.rounding import (
    as_stored,
    buffer_sensitivity,
    convolution_sensitivity,
    exponential_norm,
    growth,
    recurrence_sensitivity,
    section_sensitivity,
)
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.participation import Participation
from tests.strategies import gaps, log_uniform

COARSE = 2.0**-9
ENDS = 2.4e-7  # four roundings to float32
STEPS = 14
Rounding = Callable[[float, int], float]
Program = Callable[[np.ndarray, Rounding], np.ndarray]


@pytest.fixture
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both types have a unit roundoff of 2⁻⁹; numbers are stored as float64."""
    monkeypatch.setattr(rounding, "_UNITS", {"float64": COARSE, "float32": COARSE})


# -- programs ----------------------------------------------------------------------------------------------------------
#
# A program calls r(value, way) after every operation.  ``way`` says in which direction a rounding error makes the
# entries of the strategy larger, which is what the worst pattern does.


def scaled(noise: float, r: Rounding) -> float:
    """The independent noise times its standard deviation, with the three roundings of that."""
    return r(r(r(noise, -1), -1), -1)


def recurrence(strategy: list[float]) -> Program:
    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        y: list[float] = []
        for t in range(z.size):
            total = 0.0
            for k in range(1, t + 1):
                product = r(strategy[k] * y[t - k], 1)
                total = r(total + product, 1) if k > 1 else product
            y.append(r(r(scaled(z[t], r) - total, -1) / strategy[0], -1))
        return np.array(y)

    return run


def buffers(decay: list[float], scale: list[float]) -> Program:
    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        x = [0.0] * len(decay)
        y = []
        for t in range(z.size):
            total = 0.0
            for i, omega in enumerate(scale):
                product = r(omega * x[i], 1)
                total = r(total + product, 1) if i else product
            y.append(r(scaled(z[t], r) - total, -1))
            x = [r(r(theta * x[i], 1) + y[t], 1) for i, theta in enumerate(decay)]
        return np.array(y)

    return run


def cascade(noise: PoleNoise) -> Program:
    zeros, poles = (part.tolist() for part in noise.sections())

    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        states = [0.0] * len(zeros)
        gains = [r(a - q, 1) for a, q in zip(zeros, poles, strict=True)]
        y = []
        for value in z.tolist():
            for i, q in enumerate(poles):
                before = value
                value = r(before + r(gains[i] * states[i], 1), -1)
                states[i] = r(states[i] + r(before - r(q * states[i], -1), 1), 1)
            y.append(r(scaled(value, r), -1))
        return np.array(y)

    return run


def convolution(coefficients: list[float]) -> Program:
    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        y = []
        for t in range(z.size):
            total = 0.0
            for k in range(min(t + 1, len(coefficients))):
                way = -1 if k == 0 else 1
                total = r(total + r(coefficients[k] * scaled(z[t - k], r), way), -1)
            y.append(r(total, -1))
        return np.array(y)

    return run


def strategy_of(program: Program, pattern: int | None) -> np.ndarray:
    """The inverse of the map that ``program`` is under one pattern of rounding errors.

    None is the worst pattern; numbers are random ones.
    """
    columns = []
    for s in range(STEPS):
        signs = iter(np.random.default_rng(pattern).choice([-1, 1], 10**5).tolist())

        def r(value: float, way: int, signs: Iterator[int] = signs) -> float:
            return value * (1 + COARSE * (way if pattern is None else next(signs)))

        columns.append(program(np.eye(STEPS)[s], r))
    return np.asarray(np.linalg.inv(np.array(columns).T))


def sensitivity(program: Program, pattern: int | None) -> float:
    """The largest column norm of this strategy."""
    return float(np.linalg.norm(strategy_of(program, pattern), axis=0).max())


DECAY = [0.96875, 0.75, -0.5]
SCALE = [0.25, 0.125, 0.0625]
STRATEGY = [1.0, *(0.5 / math.sqrt(t) for t in range(1, STEPS))]
POLES = PoleNoise([0.0625, 0.375], [0.125, 0.5])
NOISING = [1.0, -0.25, -0.125]


def cases(run: Participation = Participation(STEPS)) -> dict[str, tuple[Program, Callable[[], float]]]:  # noqa: B008
    return {
        "recurrence": (recurrence(STRATEGY), lambda: recurrence_sensitivity(np.array(STRATEGY), "float64", run)),
        "buffers": (
            buffers(DECAY, SCALE),
            lambda: buffer_sensitivity(np.array(DECAY), np.array(SCALE), run, "float64"),
        ),
        "cascade": (cascade(POLES), lambda: section_sensitivity(POLES, run)),
        "convolution": (
            convolution(NOISING),
            lambda: convolution_sensitivity(FiniteNoise(NOISING), run, "float64"),
        ),
    }


@pytest.mark.parametrize("run", [Participation.min_sep(STEPS, 5, 3), Participation.min_sep(STEPS, 1, 4)])
@pytest.mark.parametrize("name", cases())
@pytest.mark.usefixtures("_coarse")
def test_the_bound_holds_for_several_participations(name: str, run: Participation) -> None:
    program, bound = cases(run)[name]
    found = [strategy_sensitivity(strategy_of(program, pattern), run).lower for pattern in (None, 1, 2, 3)]
    assert max(found) <= bound() <= 3 * max(found)
    _, single = cases()[name]
    assert single() < min(found)  # the multiplier of a single participation does not cover several


@pytest.mark.parametrize("name", cases())
@pytest.mark.usefixtures("_coarse")
def test_no_pattern_of_rounding_errors_exceeds_the_bound(name: str) -> None:
    program, bound = cases()[name]
    plain = np.array([program(row, lambda value, way: value) for row in np.eye(STEPS)])
    exact = float(np.linalg.norm(np.linalg.inv(plain.T)[:, 0]))
    found = [sensitivity(program, pattern) for pattern in (None, *range(40))]
    assert found[0] == max(found)
    assert exact * (1 + COARSE) < found[0] <= bound()


@pytest.mark.parametrize(("name", "share"), [("recurrence", 0.25), ("buffers", 0.5), ("cascade", 0.5)])
def test_a_bound_with_fewer_roundings_is_exceeded(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: this share of the roundings is too little.  (A sum in one order has fewer than one in any order.)"""
    program, bound = cases()[name]
    monkeypatch.setattr(rounding, "_UNITS", {"float64": COARSE * share, "float32": COARSE * share})
    assert sensitivity(program, None) > bound()


@pytest.mark.parametrize(
    ("count", "dtype", "unit"), [(1, "float64", -53), (7, "float32", -24), (10**6, "float32", -24)]
)
def test_growth_is_the_largest_product_of_rounding_factors(count: int, dtype: rounding.Dtype, unit: int) -> None:
    with workdps(60), ctx.workprec(256):
        exact = (1 - mpf(2) ** unit) ** -count
        ball = growth(count, dtype)
        assert mpf(float(ball.lower())) <= exact * (1 + mpf(10) ** -15)
        assert abs(float(ball) / float(exact) - 1) < 1e-15
        assert (1 + mpf(2) ** unit) ** count < exact


# -- what float32 makes ------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(-0.984375, 0.984375, width=32), st.floats(-0.5, 0.5, width=32)), min_size=1, max_size=4
    ),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40)
def test_noise_made_in_float32_is_noise_of_a_strategy_within_the_bound(
    pairs: list[tuple[float, float]], seed: int
) -> None:
    """|z − C y| <= |ΔC| |y| entry by entry, in exact arithmetic, for noise that float32 makes."""
    decay = np.array([d for d, _ in pairs], np.float32)
    scale = np.array([s for _, s in pairs], np.float32)
    z = np.random.default_rng(seed).standard_normal(30).astype(np.float32)
    x = np.zeros_like(decay)
    y = np.empty_like(z)
    for t in range(z.size):
        total = np.float32(0)
        for i in range(decay.size):
            total += scale[i] * x[i]
        y[t] = z[t] - total
        x = decay * x + y[t]
    exact = [Fraction(float(value)) for value in y]
    one = 1 - Fraction(1, 2**24)

    def strategy(lag: int, absolute: bool) -> Fraction:
        size = abs if absolute else Fraction
        return sum(
            (
                size(Fraction(float(s))) * size(Fraction(float(d))) ** (lag - 1)
                for d, s in zip(decay, scale, strict=True)
            ),
            Fraction(0),
        )

    factors = [one ** -(decay.size + 1 + 2 * lag) - 1 for lag in range(z.size)]  # without those of the scaling
    for t in range(z.size):
        made = exact[t] + sum((strategy(k, False) * exact[t - k] for k in range(1, t + 1)), Fraction(0))
        allowed = (1 / one - 1) * abs(exact[t])
        allowed += sum((factors[k] * strategy(k, True) * abs(exact[t - k]) for k in range(1, t + 1)), Fraction(0))
        assert abs(Fraction(float(z[t])) - made) <= allowed


# -- sums of exponentials ----------------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-1, 1)), max_size=5),
    st.integers(1, 60),
    st.floats(-2, 2),
)
def test_norms_of_sums_of_exponentials(pairs: list[tuple[float, float]], steps: int, first: float) -> None:
    with workdps(50), ctx.workprec(512):
        norm = exponential_norm(arb(first), [arb(s) for s, _ in pairs], [arb(d) for _, d in pairs], steps)
        square = mpf(first) ** 2
        for t in range(1, steps):
            square += mp.fsum(mpf(s) * mpf(d) ** (t - 1) for s, d in pairs) ** 2
        assert mpf(float(norm.lower())) * (1 - mpf(10) ** -15) <= mp.sqrt(square)
        assert mp.sqrt(square) <= mpf(float(norm.upper())) * (1 + mpf(10) ** -15) + mpf(10) ** -60


def test_norms_without_end() -> None:
    with ctx.workprec(512):
        assert float(exponential_norm(arb(1), [arb(2)], [arb("0.5")], None)) == pytest.approx(math.sqrt(1 + 4 / 0.75))
        assert not exponential_norm(arb(1), [arb(2)], [arb(1)], None).is_finite()
        # 1 − 2⁻⁵³, raised by two roundings, times its neighbour is 1 to all bits: the sum is still enclosed.
        decay = arb(1 - 2.0**-53)
        raised = decay * growth(2, "float64")
        assert float(exponential_norm(arb(0), [arb(1), arb(-1)], [raised, decay], 100)) < 1e-12


# -- sizes of the bounds -----------------------------------------------------------------------------------------------


@given(st.lists(gaps(1e-6), min_size=2, max_size=8), st.none() | st.integers(1, 300))
@settings(max_examples=40)
def test_a_cascade_needs_little_more_than_its_ideal_noise(places: list[float], steps: int | None) -> None:
    count = len(places) // 2
    noise = PoleNoise(places[:count], places[count : 2 * count])
    ideal = noise.limiting_sensitivity() if steps is None else noise.sensitivity(steps)
    run = section_sensitivity(noise, steps)
    assert run >= ideal * (1 + 2.0**-22)  # four roundings to float32 at the ends
    nearest = min(min(a, 2 - a) for a in noise.zeros.tolist()) if noise.zeros.size else 1.0
    growth_of_sections = float(np.prod(1 + np.abs(noise.sections()[0] - noise.sections()[1]) / nearest))
    assert run <= ideal * (1 + ENDS) + 1e-14 / nearest * growth_of_sections


def test_equal_sections_and_one_section_of_no_effect() -> None:
    equal = PoleNoise([0.1, 0.1, 0.1], [0.2, 0.3, 0.3])
    assert section_sensitivity(equal, 50) == pytest.approx(equal.sensitivity(Participation.single(50)), rel=ENDS)
    # Gaps below the spacing of floats next to 1, and gaps that nearly coincide.
    crowded = PoleNoise([6.8e-10, 8.3e-10, 1.4e-9, 0.2], [7.2e-10, 1.0e-9, 1.8e-9, 0.4])
    assert section_sensitivity(crowded, None) == pytest.approx(crowded.limiting_sensitivity(), rel=1e-6)
    assert section_sensitivity(PoleNoise([1e-17], [0.1]), None) == math.inf
    assert section_sensitivity(PoleNoise([], []), None) == pytest.approx(1, rel=ENDS)
    assert section_sensitivity(PoleNoise([0.0], [0.5]), None) == math.inf
    assert section_sensitivity(PoleNoise([0.0], [0.5]), 10) < 3


def test_a_cascade_in_float32_is_covered_and_costs_little() -> None:
    """The bound exceeds the sensitivity that the program has in float32, run on unit vectors, and by 1e-4 at most."""
    zeros = np.array([0.001, 0.1], np.float32).astype(float)
    poles = np.array([0.01, 0.3], np.float32).astype(float)
    noise = PoleNoise(zeros, poles)
    steps, run = 60, Participation.min_sep(60, 20, 3)
    program = np.zeros((steps, steps), np.float32)
    states = np.zeros((2, steps), np.float32)
    for t, draw in enumerate(np.eye(steps, dtype=np.float32)):
        for i, (a, q) in enumerate(zip(*noise.sections(), strict=True)):
            output = draw + np.float32(a - q) * states[i]
            states[i] += draw - np.float32(q) * states[i]
            draw = output
        program[t] = draw
    truth = strategy_sensitivity(np.linalg.inv(program.astype(float)), run, error=1e-12).lower
    bound = section_sensitivity(noise, run, "float32")
    assert truth <= bound <= truth * (1 + 1e-4)
    assert section_sensitivity(noise, run) < bound
    with pytest.raises(ValueError, match="gaps that are float32 numbers"):
        section_sensitivity(PoleNoise([0.01], [0.1]), run, "float32")


@given(gaps(1e-3), st.integers(1, 200))
def test_short_runs_take_little_more_in_every_type(nu: float, steps: int) -> None:
    noise = NuFTRL(nu)
    strategy = noise.inverse_coefficients(steps)
    gamma = noise.sensitivity(steps)
    for dtype, unit in zip(rounding.DTYPES, (2.0**-53, 2.0**-24), strict=True):
        run = recurrence_sensitivity(strategy, dtype)
        assert gamma * (1 - 1e-12 - 4 * unit) <= run <= gamma * (1 + 2 * (steps + 8) * unit + ENDS)
        assert convolution_sensitivity(noise, steps, dtype) <= gamma * (1 + 40 * steps**1.5 * (steps + 8) * unit + ENDS)
    by_transforms = convolution_sensitivity(noise, steps, "float64", by="transforms")
    assert gamma < by_transforms < gamma * (1 + ENDS)


def test_bounds_are_infinite_where_they_say_nothing() -> None:
    slow = NuFTRL(1e-8)
    assert convolution_sensitivity(slow, 10**5, "float32") == math.inf
    assert convolution_sensitivity(slow, 10**5, "float64") < slow.sensitivity(10**5) * (1 + 1e-6)
    assert buffer_sensitivity(np.array([1 - 1e-8]), np.array([0.1]), None, "float32") == math.inf
    assert buffer_sensitivity(np.array([1 - 1e-8]), np.array([0.1]), None, "float64") < math.inf
    assert buffer_sensitivity(np.array([0.5]), np.array([1e300]), 5, "float32") == math.inf
    assert recurrence_sensitivity(np.array([1.0, 1e300]), "float32") == math.inf
    assert convolution_sensitivity(FiniteNoise([1.0, 1e300]), 5, "float32") == math.inf
    assert convolution_sensitivity(DPSGD(), 5, "float32") == pytest.approx(1, rel=1e-5)
    banded = FiniteNoise([1.0, -0.5])
    assert convolution_sensitivity(banded, None, "float64") == pytest.approx(banded.limiting_sensitivity(), rel=ENDS)
    with pytest.raises(TypeError, match="noise must be a FiniteNoise"):
        convolution_sensitivity(slow, None, "float64")


def test_types_are_checked() -> None:
    assert as_stored(np.array([0.1]), "float32").tolist() == [float(np.float32(0.1))]
    with pytest.raises(ValueError, match="dtype must be one of 'float64', 'float32', got 'bfloat16'"):
        as_stored(np.array([0.1]), "bfloat16")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="dtype must be one of"):
        growth(1, "float16")  # type: ignore[arg-type]


@given(log_uniform(1e-6, 0.5), st.integers(2, 40))
def test_cancelling_buffers_are_not_covered_by_their_exact_sensitivity(gap: float, steps: int) -> None:
    """Decays that almost coincide, with scales ±1e11: harmless in exact arithmetic, and not in floats."""
    decay = np.array([1 - gap, 1 - gap * (1 + 1e-12)])
    scale = np.array([1e12, -1e12]) * 0.1
    with ctx.workprec(512):
        thetas = [arb(value) for value in decay.tolist()]
        exact = float(exponential_norm(arb(1), [arb(value) for value in scale.tolist()], thetas, steps))
    assert buffer_sensitivity(decay, scale, steps, "float32") > 1e3 * exact
