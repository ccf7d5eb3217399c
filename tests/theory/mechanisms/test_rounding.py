"""Bounds of rounding against programs whose rounding errors are chosen: no pattern of errors exceeds a bound.

The programs run with a coarse unit roundoff, so that errors are visible, and with patterns that are random or push all
entries one way.  For a fixed pattern a program is a linear map; it is made explicit and inverted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.rounding import (
    buffer_sensitivity,
    convolution_sensitivity,
    recurrence_sensitivity,
    scaled_sensitivity,
    section_sensitivity,
    substitution_sensitivity,
    tree_sensitivity,
)
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import rounding
from corrnoise.theory.numerics.rounding import DTYPES, as_stored, exponential_norm
from corrnoise.theory.participation import ANY_LENGTH, Participation
from tests.strategies import gaps, log_uniform

COARSE = 2.0**-9
ENDS = 2.4e-7  # four roundings to float32
STEPS = 14
Rounding = Callable[[float, int], float]
Program = Callable[[np.ndarray, Rounding], np.ndarray]


def set_units(monkeypatch: pytest.MonkeyPatch, unit: float) -> None:
    """Give both types this unit roundoff; numbers are stored as float64."""
    monkeypatch.setattr(rounding, "UNITS", {"float64": unit, "float32": unit})


@pytest.fixture
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    set_units(monkeypatch, COARSE)


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
NOISING = FiniteNoise([1.0, -0.25, -0.125])
BANDS = np.array([np.linspace(1.0, 2.0, STEPS), np.full(STEPS, 0.5), np.full(STEPS, 0.25)])
BANDS[1, -1:] = BANDS[2, -2:] = 0
BANDED = BandedNoise(BANDS)
STEP_SCALES = np.linspace(2.0, 0.5, STEPS)
DRAW_SCALES = np.linspace(0.75, 1.5, STEPS)

ONCE = Participation.single(STEPS)
RUNS = [ONCE, Participation.min_sep(STEPS, 5, 3), Participation.min_sep(STEPS, 1, 4)]


def substitution(z: np.ndarray, r: Rounding) -> np.ndarray:
    y: list[float] = []
    for t in range(z.size):
        value = scaled(z[t], r)
        for k in range(1, min(t + 1, BANDED.bands())):
            value = r(value - r(BANDS[k, t - k] * y[t - k], 1), -1)
        y.append(r(r(value / BANDS[0, t], -1), -1))
    return np.array(y)


def with_scales(program: Program, draws: bool) -> Program:
    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        given = np.array([r(g * x, -1) for g, x in zip(DRAW_SCALES.tolist(), z.tolist(), strict=True)]) if draws else z
        return np.array([r(d * x, -1) for d, x in zip(STEP_SCALES.tolist(), program(given, r).tolist(), strict=True)])

    return run


def of_sections(noise: PoleNoise, who: Participation, dtype: rounding.Dtype = "float64") -> float:
    return section_sensitivity(*noise.sections(), noise.sensitivity_upper_bound(who), who.worst, dtype)


def of_columns(noise: ToeplitzNoise, who: Participation, dtype: rounding.Dtype = "float64", **by: Any) -> float:
    beta = noise.coefficients(who.length) if not isinstance(noise, FiniteNoise) else noise.values
    once = noise.sensitivity_upper_bound(Participation.single(who.steps))
    exact = noise.sensitivity_upper_bound(who)
    return convolution_sensitivity(as_stored(beta, dtype), once, exact, who.worst, dtype, **by)


def of_scales(noise: ToeplitzNoise, who: Participation, draws: bool) -> float:
    additive = noise is POLES
    factors = DRAW_SCALES if draws else None
    return scaled_sensitivity(
        ScaledNoise(noise, STEP_SCALES, factors).sensitivity_upper_bound(who),
        who.worst,
        program=of_sections(POLES, ONCE) if additive else of_columns(noise, ONCE),
        plain=noise.bracket(ONCE).lower,
        additive=additive,
        step_scales=STEP_SCALES,
        draw_scales=factors,
    )


#: Programs with their bounds, and a share of the roundings that is too little for them.
PROGRAMS: dict[str, tuple[Program, Callable[[Participation], float], float | None]] = {
    "recurrence": (
        recurrence(STRATEGY),
        lambda who: recurrence_sensitivity(np.array(STRATEGY), "float64", who.worst),
        0.25,
    ),
    "buffers": (
        buffers(DECAY, SCALE),
        lambda who: buffer_sensitivity(np.array(DECAY), np.array(SCALE), who.worst, "float64"),
        0.25,
    ),
    "cascade": (cascade(POLES), lambda who: of_sections(POLES, who), 0.5),
    "convolution": (convolution(NOISING.values.tolist()), lambda who: of_columns(NOISING, who), None),
    "substitution": (
        substitution,
        lambda who: substitution_sensitivity(
            BANDED.sensitivity_upper_bound(who), BANDED.column_norms(), BANDED.bands(), who.worst
        ),
        0.5,
    ),
    "steps of a cascade": (with_scales(cascade(POLES), False), lambda who: of_scales(POLES, who, False), 0.25),
    "both of a cascade": (with_scales(cascade(POLES), True), lambda who: of_scales(POLES, who, True), 0.125),
    "steps of a convolution": (
        with_scales(convolution(NOISING.values.tolist()), False),
        lambda who: of_scales(NOISING, who, False),
        None,
    ),
    "both of a convolution": (
        with_scales(convolution(NOISING.values.tolist()), True),
        lambda who: of_scales(NOISING, who, True),
        None,
    ),
}


@pytest.mark.parametrize("who", RUNS, ids=Participation.summary)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("_coarse")
def test_no_pattern_of_rounding_errors_exceeds_the_bound(name: str, who: Participation) -> None:
    program, bound, _ = PROGRAMS[name]
    plain = np.linalg.inv(np.array([program(row, lambda value, way: value) for row in np.eye(STEPS)]).T)
    patterns = (None, *range(40)) if who.once else (None, 1, 2, 3)
    found = [strategy_sensitivity(strategy_of(program, pattern), who.worst).lower for pattern in patterns]
    assert found[0] == max(found)
    assert strategy_sensitivity(plain, who.worst).upper * (1 + COARSE) < found[0] <= bound(who) <= 3 * found[0]
    if not who.once and not name.startswith(("steps", "both")):
        assert bound(ONCE) < min(found)  # the bound for a single participation does not cover several


@pytest.mark.parametrize("who", RUNS, ids=Participation.summary)
@pytest.mark.parametrize("name", [name for name, (_, _, share) in PROGRAMS.items() if share])
def test_a_bound_with_fewer_roundings_is_exceeded(
    name: str, who: Participation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mutant: this share of the roundings is too little.  (A sum in one order has fewer than one in any order.)"""
    program, bound, share = PROGRAMS[name]
    assert share is not None
    set_units(monkeypatch, COARSE * share)
    assert strategy_sensitivity(strategy_of(program, None), who.worst).lower > bound(who)


@pytest.mark.parametrize("additive", [True, False])
def test_scales_count_by_their_smallest_draws(additive: bool) -> None:
    """The mutant has the largest factor of the draws in place of the smallest; one entry of C, or of N, is wrong."""
    error = 1e-3
    draws, steps = np.array([100.0, 1.0]), np.array([0.01, 1.0])
    truth = np.linalg.norm(np.array([[1, 0], [error, 1]]) / np.outer(draws, steps), axis=0).max()

    def bound(draws: np.ndarray) -> float:
        program = 1 + error if additive else 1 / (1 - error)
        who = Participation.single(2)
        return scaled_sensitivity(
            1.0, who, program=program, plain=1.0, additive=additive, step_scales=steps, draw_scales=draws
        )

    assert bound(np.full(2, 100.0)) < truth <= bound(draws)


# -- what float32 makes ------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(st.floats(-0.984375, 0.984375, width=32), st.floats(-0.5, 0.5, width=32)), min_size=1, max_size=4
    ),
    st.integers(0, 2**32 - 1),
)
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


# -- sizes of the bounds -----------------------------------------------------------------------------------------------


@given(st.lists(gaps(1e-6), min_size=2, max_size=8), st.none() | st.integers(1, 300))
def test_a_cascade_needs_little_more_than_its_ideal_noise(places: list[float], steps: int | None) -> None:
    count = len(places) // 2
    noise = PoleNoise(places[:count], places[count : 2 * count])
    ideal = noise.limiting_sensitivity() if steps is None else noise.sensitivity(Participation.single(steps))
    run = of_sections(noise, Participation.single(steps))
    assert run >= ideal * (1 + 2.0**-22)  # four roundings to float32 at the ends
    nearest = min(min(a, 2 - a) for a in noise.zeros.tolist()) if noise.zeros.size else 1.0
    growth_of_sections = float(np.prod(1 + np.abs(noise.sections()[0] - noise.sections()[1]) / nearest))
    assert run <= ideal * (1 + ENDS) + 1e-14 / nearest * growth_of_sections


def test_equal_sections_and_one_section_of_no_effect() -> None:
    equal = PoleNoise([0.1, 0.1, 0.1], [0.2, 0.3, 0.3])
    assert of_sections(equal, Participation.single(50)) == pytest.approx(
        equal.sensitivity(Participation.single(50)), rel=ENDS
    )
    # Gaps below the spacing of floats next to 1, and gaps that nearly coincide.
    crowded = PoleNoise([6.8e-10, 8.3e-10, 1.4e-9, 0.2], [7.2e-10, 1.0e-9, 1.8e-9, 0.4])
    assert of_sections(crowded, ANY_LENGTH) == pytest.approx(crowded.limiting_sensitivity(), rel=1e-6)
    assert of_sections(PoleNoise([1e-17], [0.1]), ANY_LENGTH) == math.inf
    assert of_sections(PoleNoise([], []), ANY_LENGTH) == pytest.approx(1, rel=ENDS)
    assert of_sections(PoleNoise([0.0], [0.5]), ANY_LENGTH) == math.inf
    assert of_sections(PoleNoise([0.0], [0.5]), Participation.single(10)) < 3


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
    bound = of_sections(noise, run, "float32")
    assert truth <= bound <= truth * (1 + 1e-4)
    assert of_sections(noise, run) < bound
    with pytest.raises(ValueError, match="zeros and poles must be float32 numbers"):
        of_sections(PoleNoise([0.01], [0.1]), run, "float32")


@given(gaps(1e-3), st.integers(1, 200))
def test_short_runs_take_little_more_in_every_type(nu: float, steps: int) -> None:
    noise = NuFTRL(nu)
    strategy = noise.inverse_coefficients(steps)
    who = Participation.single(steps)
    gamma = noise.sensitivity(who)
    for dtype, unit in zip(DTYPES, (2.0**-53, 2.0**-24), strict=True):
        run = recurrence_sensitivity(strategy, dtype, who)
        assert gamma * (1 - 1e-12 - 4 * unit) <= run <= gamma * (1 + 2 * (steps + 8) * unit + ENDS)
        assert of_columns(noise, who, dtype) <= gamma * (1 + 40 * steps**1.5 * (steps + 8) * unit + ENDS)
    by_transforms = of_columns(noise, who, by="transforms")
    assert gamma < by_transforms < gamma * (1 + ENDS)


def test_bounds_are_infinite_where_they_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = NuFTRL(1e-8)
    long, short = Participation.single(10**5), Participation.single(5)
    assert of_columns(slow, long, "float32") == math.inf
    assert of_columns(slow, long) < slow.sensitivity(long) * (1 + 1e-6)
    assert buffer_sensitivity(np.array([1 - 1e-8]), np.array([0.1]), ANY_LENGTH, "float32") == math.inf
    assert buffer_sensitivity(np.array([1 - 1e-8]), np.array([0.1]), ANY_LENGTH, "float64") < math.inf
    assert buffer_sensitivity(np.array([0.5]), np.array([1e300]), short, "float32") == math.inf
    assert recurrence_sensitivity(np.array([1.0, 1e300]), "float32", Participation.single(2)) == math.inf
    assert of_columns(FiniteNoise([1.0, 1e300]), short, "float32") == math.inf
    assert of_columns(DPSGD(), short, "float32") == pytest.approx(1, rel=1e-5)
    banded = FiniteNoise([1.0, -0.5])
    assert of_columns(banded, ANY_LENGTH) == pytest.approx(banded.limiting_sensitivity(), rel=ENDS)
    scales: dict[str, Any] = {"additive": True, "step_scales": np.ones(5), "draw_scales": None}
    assert scaled_sensitivity(1.0, short, program=math.inf, plain=1.0, **scales) == math.inf
    steep: dict[str, Any] = {"additive": False, "step_scales": None, "draw_scales": np.geomspace(1e-9, 1, 5)}
    assert scaled_sensitivity(1.0, short, program=1 + 1e-6, plain=1.0, **steep) == math.inf
    set_units(monkeypatch, COARSE)
    assert tree_sensitivity(1.0, np.full(STEPS, 2.0), ONCE) == math.inf


@given(log_uniform(1e-6, 0.5), st.integers(2, 40))
def test_cancelling_buffers_are_not_covered_by_their_exact_sensitivity(gap: float, steps: int) -> None:
    """Decays that almost coincide, with scales ±1e11: harmless in exact arithmetic, and not in floats."""
    decay = np.array([1 - gap, 1 - gap * (1 + 1e-12)])
    scale = np.array([1e12, -1e12]) * 0.1
    with ctx.workprec(512):
        thetas = [arb(value) for value in decay.tolist()]
        exact = float(exponential_norm(arb(1), [arb(value) for value in scale.tolist()], thetas, steps))
    assert buffer_sensitivity(decay, scale, Participation.single(steps), "float32") > 1e3 * exact


# -- trees -------------------------------------------------------------------------------------------------------------

FINE = 2.0**-16


def tree_program(tree: BinaryTree, random: np.random.Generator, way: int) -> np.ndarray:
    """N with rounding errors, random or (``way``) making each operation's result small, shape (steps, steps)."""

    def r(value: np.ndarray) -> np.ndarray:
        return value * (1 + FINE * (way or random.choice([-1, 1])))

    left, draws, estimates = (r(np.asarray(weights)) for weights in (tree.left, tree.draws, tree.estimates))
    nodes = np.zeros((tree.memory(), tree.steps))
    rows = []
    for t in range(1, tree.steps + 1):
        height = (t & -t).bit_length() - 1
        node = r(draws[height] * np.eye(tree.steps)[t - 1])
        for i in range(height):
            node = r(node + r(estimates[height, i] * nodes[i]))
        total = np.zeros(tree.steps)
        for i in range(height):
            total = r(total + r(left[i] * nodes[i]))
        rows.append(r(node - total))
        nodes[height] = node
    return np.array(rows)


@pytest.mark.parametrize("who", RUNS, ids=Participation.summary)
@pytest.mark.parametrize("decoder", ["binary", "online"])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_trees_are_covered(decoder, decay, who, monkeypatch):
    tree = BinaryTree(STEPS, decoder=decoder, decay=decay)
    exact = tree.bracket(who)
    set_units(monkeypatch, FINE)
    covered = tree_sensitivity(exact.upper, tree.column_norms(), who)
    assert covered <= 2 * exact.upper
    for seed in (None, 0, 1, 2, 3):
        noise = tree_program(tree, np.random.default_rng(seed), 0 if seed is not None else -1)
        np.testing.assert_allclose(noise, tree.noising_matrix(), atol=60 * FINE)
        truth = strategy_sensitivity(np.linalg.inv(noise), who).lower
        assert truth <= covered
        assert seed is not None or truth > exact.upper  # smaller noise is less private: the mutant without rounding


@pytest.mark.parametrize("who", [Participation.single(1000), Participation.min_sep(1000, 250)], ids=repr)
def test_the_bounds_cost_next_to_nothing(who):
    bands = np.array([np.ones(1000), np.full(1000, 0.5)])
    bands[1, -1] = 0
    for mechanism in (BandedNoise(bands), BinaryTree(1000)):
        assert mechanism.program(who).sensitivity == pytest.approx(mechanism.sensitivity_upper_bound(who), rel=3e-7)
