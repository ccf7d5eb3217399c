"""Streams: the noise of a program against explicit convolutions and exact covariances; ends, seeds and scales."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, stats

from corrnoise.simulations.run.engines import TOLERANCE, streaming
from corrnoise.simulations.run.stream import Stream
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.program import Form, Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget

Values = NDArray[np.float64]

FINITE = FiniteNoise([1.0, -0.5, 0.25, -1e-3])
LONG = [
    DPSGD(),
    AntiPGD(0.0),
    AntiPGD(0.3),
    NuFTRL(0.01),
    NuFTRL(1e-8),
    NuFTRL(1.99),
    ProductNoise([1e-6, 0.1, 1.7], [-0.5, 1.5, 0.5]),
    ProductNoise([1e-3], [-1]),
    PoleNoise([0.01, 0.3], [0.1]),
    PoleNoise([0.3], [1.5, 0.1, 1e-6]),
]
FORTY = Participation.single(40)


def runnable(noise: ToeplitzNoise, tolerance: float = 1e-6) -> Mechanism:
    return noise if noise.forms() else rational(noise, tolerance)


PROGRAMS: dict[str, Program] = {
    "cascade": runnable(NuFTRL(0.01)).program(FORTY, "float64"),
    "delay line": FINITE.program(FORTY, "float64"),
    "exact": NuFTRL(0.01).program(FORTY, form="transform"),
    "tree": BinaryTree(40).program(FORTY),
    "float32": AntiPGD(0.3).program(FORTY, "float32"),
}
EACH = pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)


def take(stream: Stream, steps: int) -> NDArray[Any]:
    return np.array(list(islice(stream, steps)))


def draws(seed: int, steps: int, shape: tuple[int, ...]) -> Values:
    """The w that a stream of this seed takes."""
    return np.random.default_rng(seed).standard_normal((steps, *shape))


def convolved(beta: Values, w: Values) -> Values:
    """Σ β_τ w_{t−τ}, column by column."""
    return np.transpose([np.convolve(beta, column)[: len(w)] for column in w.T])


# -- the noise is the convolution --------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [*LONG, FINITE, NuFTRL(0.0)], ids=repr)
def test_an_exact_stream(noise: ToeplitzNoise) -> None:
    steps = 300
    matrix = linalg.toeplitz(noise.coefficients(steps), np.zeros(steps))
    program = noise.program(Participation.single(steps), form="transform")
    made = take(Stream(program, 2, rng=7), steps)
    expected = matrix @ draws(7, steps, (2,))
    scale = np.abs(matrix).sum(axis=1).max()
    assert np.abs(made - expected).max() < 1e-13 * scale
    assert np.abs(made * (1 + 1e-11) - expected).max() > 1e-13 * scale


def test_a_long_exact_stream_of_many_columns() -> None:
    steps, columns, noise = 5000, 501, NuFTRL(1e-8)  # transformed in more than one part
    program = noise.program(Participation.single(steps), form="transform")
    made, w = take(Stream(program, columns, rng=7), steps), draws(7, steps, (columns,))
    beta = noise.coefficients(steps)
    for t in (0, 1, 2500, 4999):
        assert np.abs(made[t] - beta[t::-1] @ w[: t + 1]).max() < 1e-12
        assert np.abs(made[t] * (1 + 1e-11) - beta[t::-1] @ w[: t + 1]).max() > 1e-12
    assert np.abs(made[:, [0, 500]] - convolved(beta, w[:, [0, 500]])).max() < 1e-12


@pytest.mark.parametrize("noise", LONG, ids=repr)
def test_a_cascade(noise: ToeplitzNoise) -> None:
    steps = 4000
    program = runnable(noise, 1e-3).program(Participation.single(steps), "float64")
    made, w = take(Stream(program, 2, rng=7), steps), draws(7, steps, (2,))
    beta = program.mechanism.coefficients(steps)
    assert program.form == "cascade"
    assert np.abs(made - convolved(beta, w)).max() < 1e-10
    wrong = beta.copy()
    wrong[1] += 1e-10
    assert np.abs(made - convolved(wrong, w)).max() > 1e-10
    if isinstance(noise, NuFTRL):  # the approximation's coefficients, not those of the noise approximated
        assert np.abs(made - convolved(noise.coefficients(steps), w)).max() > 1e-6


def test_a_cascade_of_more_elements_than_a_block() -> None:
    program = runnable(NuFTRL(1e-4)).program(ANY_LENGTH, "float64")
    made, w = take(Stream(program, 10_001, rng=7), 20), draws(7, 20, (10_001,))
    expected = linalg.toeplitz(program.mechanism.coefficients(20), np.zeros(20)) @ w
    assert np.abs(made - expected).max() < 1e-13


@pytest.mark.parametrize("noise", [FINITE, FiniteNoise([2.0]), FiniteNoise(np.linspace(3, -1, 11))], ids=repr)
@pytest.mark.parametrize("size", [3, 9000])
def test_a_delay_line_is_the_sum_in_the_order_of_the_coefficients(noise: FiniteNoise, size: int) -> None:
    program = noise.program(Participation.single(30), "float64")
    w = draws(7, 30, (size,))
    assert program.mechanism == noise
    for t, made in enumerate(Stream(program, size, rng=7)):
        expected = np.zeros(size)
        for age, beta in enumerate(noise.values[: t + 1]):
            expected += beta * w[t - age]
        np.testing.assert_array_equal(made, expected)
        assert (made != w[t]).any() or noise.values[0] == 1.0


def test_independent_noise_is_the_draws() -> None:
    found = take(Stream(DPSGD().program(ANY_LENGTH, "float64"), 5, rng=3), 50)
    np.testing.assert_array_equal(found, draws(3, 50, (5,)))


# -- the noise has the covariance it should have -----------------------------------------------------------------------

STEPS, ELEMENTS = 64, 100_000
FALSE_ALARM = 1e-7


def directions() -> Values:
    """What the noise is looked at through: single steps, sums over time, differences, a wave."""
    t = np.arange(STEPS)
    single = np.eye(STEPS)[[0, 1, 5, STEPS - 1]]
    sums = np.array([t < 4, t < 16, t >= 0, t >= 32], dtype=float)
    waves = np.array([(-1.0) ** t, np.cos(t), t - t.mean()])
    return np.concatenate([single, sums, waves])


def has_covariance_of(noise: Mechanism, made: Values) -> bool:
    """A test of made, shape (STEPS, ELEMENTS), that errs with a probability of at most FALSE_ALARM.

    For each direction v the Σ (v·y)² over the elements y is χ² with ELEMENTS degrees of freedom times ‖Bᵀ v‖²; over the
    sums of neighbouring elements, with half as many times twice that.  Two tails each, and the union bound.
    """
    v = directions()
    expected = np.square(v @ noise.noising_matrix(STEPS)).sum(axis=1)
    seen = v @ made
    neighbours = seen[:, ::2] + seen[:, 1::2]
    level = FALSE_ALARM / (4 * len(v))
    for values, variance in ((seen, expected), (neighbours, 2 * expected)):
        count = values.shape[1]
        statistic = np.square(values).sum(axis=1) / variance
        if not ((stats.chi2.ppf(level, count) < statistic) & (statistic < stats.chi2.isf(level, count))).all():
            return False
    return True


@pytest.mark.parametrize(
    ("noise", "form"),
    [
        (NuFTRL(0.2), None),
        (NuFTRL(0.2), "transform"),
        (FINITE, None),
        (AntiPGD(0.1), None),
        (ProductNoise([0.01, 0.3], [0.5, -0.5]), None),
        (BinaryTree(STEPS), None),
    ],
    ids=repr,
)
def test_covariance(noise: Mechanism, form: Form | None) -> None:
    who = Participation.single(STEPS)
    program = noise.program(who, form=form) if form else streaming(noise, who, "float64")
    made = take(Stream(program, ELEMENTS, rng=np.random.Generator(np.random.SFC64(11))), STEPS)
    assert has_covariance_of(program.mechanism, made)
    assert not has_covariance_of(DPSGD(), made)
    assert not has_covariance_of(program.mechanism, made * 1.03)
    assert not has_covariance_of(program.mechanism, made[::-1])  # a stream is not stationary
    made[:, 1::2] = made[:, ::2]
    assert not has_covariance_of(program.mechanism, made)  # nor are its elements copies


@pytest.mark.parametrize("wrong", [0.2 * 1.05, 0.2 / 1.05])
def test_noise_of_a_slightly_different_damping_is_rejected(wrong: float) -> None:
    """The sum over time differs by 4.4 %, ten standard deviations; six are needed."""
    program = NuFTRL(wrong).program(Participation.single(STEPS), form="transform")
    made = take(Stream(program, ELEMENTS, rng=np.random.Generator(np.random.SFC64(12))), STEPS)
    assert has_covariance_of(NuFTRL(wrong), made)
    assert not has_covariance_of(NuFTRL(0.2), made)
    assert not has_covariance_of(NuFTRL(0.9), made)


# -- budgets, ends and seeds -------------------------------------------------------------------------------------------


@EACH
def test_a_stream_ends_with_the_promise(program: Program) -> None:
    stream = Stream(program, 3, rng=4)
    assert iter(stream) is stream
    for count in range(40):
        assert stream.position == count
        next(stream)
    for _ in range(2):
        with pytest.raises(StopIteration, match="the stream has made its 40 steps"):
            next(stream)


def test_a_stream_of_any_length_does_not_end() -> None:
    program = streaming(NuFTRL(0.01), ANY_LENGTH, "float64")
    assert len(take(Stream(program, 2), 1000)) == 1000


@EACH
def test_a_budget_gives_the_scale(program: Program) -> None:
    budget = Budget(0.125, clip_norm=3.0)
    stream = Stream(program, 3, budget=budget, rng=np.random.default_rng(9))
    assert stream.scale == program.scale(budget) == pytest.approx(6 * program.sensitivity, rel=1e-12)
    unit = take(Stream(program, 3, rng=9), 40)
    np.testing.assert_allclose(take(stream, 40), stream.scale * unit, rtol=1e-15 if unit.dtype == float else 1e-6)


@pytest.mark.parametrize("seed", [3, np.random.SeedSequence(1)])
def test_a_seed_of_a_private_stream_is_refused(seed: Any) -> None:
    with pytest.raises(TypeError, match="rng must be None or a Generator whose seed is secret in a private run"):
        Stream(PROGRAMS["cascade"], 3, budget=Budget(1.0), rng=seed)


@EACH
def test_generators(program: Program) -> None:
    values = take(Stream(program, 3, rng=5), 10)
    for same in (np.random.SeedSequence(5), np.random.default_rng(5), np.int64(5)):
        np.testing.assert_array_equal(take(Stream(program, 3, rng=same), 10), values)  # type: ignore[arg-type]
    for other in (6, None, np.random.SeedSequence(5).spawn(1)[0], np.random.Generator(np.random.SFC64(5))):
        assert (take(Stream(program, 3, rng=other), 10) != values).all()


def test_streams_of_one_seed_have_the_same_draws() -> None:
    w = draws(5, 40, (2,))
    for program in (PROGRAMS["cascade"], PROGRAMS["exact"]):
        recovered = convolved(program.mechanism.inverse_coefficients(40), take(Stream(program, 2, rng=5), 40))
        np.testing.assert_allclose(recovered, w, atol=1e-12)


@EACH
@pytest.mark.parametrize(
    ("shape", "expected"), [((), ()), (0, (0,)), ((0,), (0,)), (4, (4,)), (np.int64(4), (4,)), ((2, 1, 3), (2, 1, 3))]
)
def test_shapes_and_types(program: Program, shape: Any, expected: tuple[int, ...]) -> None:
    stream = Stream(program, shape, rng=0)
    values = next(stream)
    assert stream.shape == values.shape == expected
    assert values.dtype == np.dtype(program.dtype)
    flat = next(Stream(program, math.prod(expected), rng=0))
    np.testing.assert_array_equal(values.ravel(), flat)


@EACH
def test_arrays_are_the_callers(program: Program) -> None:
    stream, other = Stream(program, 3, rng=0), Stream(program, 3, rng=0)
    for _ in range(10):
        values, same = next(stream), next(other)
        np.testing.assert_array_equal(values, same)
        values[:] = 1e9


@pytest.mark.parametrize(
    ("program", "shape", "options", "error", "message"),
    [
        (NuFTRL(0.1), 3, {}, TypeError, "program must be a Program"),
        (PROGRAMS["tree"], -1, {}, ValueError, "shape must be an integer >= 0, got -1"),
        (PROGRAMS["tree"], 2.5, {}, TypeError, "shape must be an integer >= 0, got 2.5"),
        (PROGRAMS["tree"], (2, "3"), {}, TypeError, "shape must be an integer"),
        (PROGRAMS["tree"], [2, 3], {}, TypeError, "shape must be an integer"),
        (PROGRAMS["exact"], 10**11, {}, ValueError, "shape must be smaller, got 100000000000, which takes"),
        (PROGRAMS["cascade"], 10**13, {}, ValueError, "shape must be smaller, got 10000000000000, which takes"),
        (PROGRAMS["tree"], 3, {"rng": -1}, ValueError, "rng must be an integer >= 0, .*, got -1"),
        (PROGRAMS["tree"], 3, {"rng": True}, TypeError, "rng must be an integer >= 0, .*, got True"),
        (NuFTRL(0.1).program(FORTY, form="noising column"), 3, {}, ValueError, "form must be one of 'cascade'"),
    ],
)
def test_bad_arguments(program: Any, shape: Any, options: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Stream(program, shape, **options)


def test_what_streams_here() -> None:
    """Noise with a long memory becomes rational within a thousandth; what cannot is refused."""
    noise = streaming(NuFTRL(0.01), FORTY)
    assert noise.mechanism.sensitivity(FORTY) == pytest.approx(NuFTRL(0.01).sensitivity(FORTY), rel=1e-3)
    assert streaming(PoleNoise([0.5], [0.25]), FORTY).mechanism == ProductNoise([0.5, 0.25], [1, -1])
    for bad, message in ((NuFTRL(0.0), "no fractional zero"), (ProductNoise([0.0], [-1.0]), "no pole")):
        with pytest.raises(ValueError, match=message):
            streaming(bad, FORTY)
    spectrum = CepstralNoise([-0.4, -0.1])
    for searched in (spectrum, ScaledNoise(spectrum, step_scales=np.ones(40))):
        with pytest.raises(TypeError, match=r"mechanism must be rational.*: pass cn\.mechanisms\.rational\(noise, 0\."):
            streaming(searched, FORTY)
    found = streaming(rational(spectrum, TOLERANCE), FORTY)
    assert found.mechanism.sensitivity(FORTY) == pytest.approx(spectrum.sensitivity(FORTY), rel=1e-3)
    for endless in (PoleNoise([0.0], [0.5]), FiniteNoise([1.0, -2.0])):
        with pytest.raises(ValueError, match="mechanism must have a finite sensitivity"):
            streaming(endless, ANY_LENGTH)


def test_noise_of_sampled_batches_is_no_stream_of_a_private_run() -> None:
    """A stream has no batches, so that nobody would draw them from a secret; unit noise covers nothing and is given."""
    budget = Budget(epsilon=2.0, delta=1e-6)
    for who in (Participation.poisson(8, 0.1), Participation.balls_in_bins(8, period=4)):
        with pytest.raises(ValueError, match=r"participation must not be sampled .* \(H4\)"):
            Stream(DPSGD().program(who), 3, budget=budget)
        assert len(list(Stream(DPSGD().program(who), 3))) == 8
        assert Stream(DPSGD().program(who.worst), 3, budget=budget).scale > 0
