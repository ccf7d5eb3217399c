"""Rational noise against polynomials in exact fractions, and against partial fractions and matrices at 60 digits."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from mpmath import mp

from corrnoise.theory.mechanisms.poles import BufferNoise, PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, ProductNoise
from corrnoise.theory.numerics.rounding import DTYPES
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from tests.strategies import gaps

Gaps = list[float]

CASES: list[tuple[Gaps, Gaps]] = [
    ([], []),
    ([0.3], []),
    ([], [0.3]),
    ([0.01], [0.2]),
    ([0.0, 0.25], [0.125]),
    ([1e-12, 0.5, 1.75], [1.000001e-12, 0.02]),
    ([1.9], [1.5, 0.1, 1e-6]),
    ([0.5, 0.5, 0.5], [0.25, 0.25]),
    ([2.0, 1e-9, 3e-9, 5e-9], [2e-9, 4e-9, 6e-9]),
]


def many_gaps(most: int = 4) -> st.SearchStrategy[Gaps]:
    return st.lists(gaps(1e-9), max_size=most)


def distinct_gaps(low: float, least: int, most: int) -> st.SearchStrategy[Gaps]:
    return st.lists(gaps(low).filter(lambda a: a != 1), min_size=least, max_size=most, unique=True)


# -- oracles -----------------------------------------------------------------------------------------------------------


def polynomial(gaps: Gaps) -> list[Fraction]:
    """Coefficients of Π (1 − (1 − a) z), exactly."""
    product = [Fraction(1)]
    for a in gaps:
        r = 1 - Fraction(a)
        product = [x - r * y for x, y in zip([*product, Fraction(0)], [Fraction(0), *product], strict=True)]
    return product


def quotient(zeros: Gaps, poles: Gaps, steps: int) -> list[Fraction]:
    """The first coefficients of the quotient of two polynomials, by long division."""
    numerator, denominator = polynomial(zeros), polynomial(poles)
    series: list[Fraction] = []
    for t in range(steps):
        known = sum((denominator[k] * series[t - k] for k in range(1, min(t, len(poles)) + 1)), Fraction(0))
        series.append((numerator[t] if t < len(numerator) else Fraction(0)) - known)
    return series


def squared_norm(zeros: Gaps, poles: list[Any]) -> Any:
    """‖Π (1 − (1 − a) z)/Π (1 − (1 − q) z)‖² for distinct poles, more of them than zeros, by partial fractions."""
    with mp.workdps(60):
        p = [1 - mp.mpf(q) for q in poles]
        residues = []
        for i, x in enumerate(p):
            above = mp.fprod(1 - (1 - mp.mpf(a)) / x for a in zeros)
            residues.append(above / mp.fprod(1 - y / x for j, y in enumerate(p) if j != i))
        return mp.fsum(
            c * d / (1 - x * y) for c, x in zip(residues, p, strict=True) for d, y in zip(residues, p, strict=True)
        )


def cascade(zeros: np.ndarray, poles: np.ndarray, steps: int) -> list[Fraction]:
    """The impulse response of the sections as the module describes them."""
    states = [Fraction(0)] * len(poles)
    response = []
    for t in range(steps):
        x = Fraction(int(t == 0))
        for i, (a, q) in enumerate(zip(zeros.tolist(), poles.tolist(), strict=True)):
            u = states[i]
            states[i] = u + (x - Fraction(q) * u)
            x += (Fraction(a) - Fraction(q)) * u
        response.append(x)
    return response


def relative(values: np.ndarray, exact: list[Any]) -> float:
    """Largest relative error of the entries above 1e-290 in modulus."""
    errors = [
        abs(Fraction(v) / e - 1) if abs(e) > 1e-290 else abs(Fraction(v) - e)
        for v, e in zip(values.tolist(), exact, strict=True)
    ]
    return float(max(errors))


# -- the canonical form ------------------------------------------------------------------------------------------------


def test_canonical_form():
    noise = PoleNoise([0.7, 0.2, 1.0, 0.4, 0.2], [1.0, 0.9, 0.4, 0.1, 1.0])
    np.testing.assert_array_equal(noise.zeros, [0.2, 0.2, 0.7])
    np.testing.assert_array_equal(noise.poles, [0.1, 0.9])
    assert noise == PoleNoise([0.7, 0.2, 0.2], [0.9, 0.1])
    assert hash(noise) == hash(PoleNoise([0.2, 0.2, 0.7], [0.1, 0.9]))
    assert noise != PoleNoise([0.7, 0.2], [0.9, 0.1])
    assert noise != PoleNoise([0.7, 0.2, 0.2], [0.9, 0.1000000001])
    assert eval(repr(noise), {"PoleNoise": PoleNoise}) == noise
    assert PoleNoise(**noise.arguments()) == noise


def test_cancellation_needs_the_same_gap():
    assert PoleNoise([0.1, 0.3], [0.3, 0.1]) == PoleNoise([], [])
    assert PoleNoise([0.3, 0.3], [0.3]) == PoleNoise([0.3], [])
    almost = PoleNoise([0.3], [math.nextafter(0.3, 1.0)])
    assert almost.zeros.size == almost.poles.size == 1


@given(many_gaps(), many_gaps(), st.randoms(use_true_random=False))
def test_order_and_common_factors_do_not_matter(zeros, poles, random):
    noise = PoleNoise(zeros, poles)
    common = [0.125, 1.0, 1e-7]
    more_zeros, more_poles = zeros + common, poles + common
    random.shuffle(more_zeros)
    random.shuffle(more_poles)
    assert PoleNoise(more_zeros, more_poles) == noise
    assert not set(noise.zeros) & set(noise.poles)
    assert 1.0 not in {*noise.zeros, *noise.poles}


def test_arguments_are_numbers_or_vectors():
    assert PoleNoise(0.3, 0.2) == PoleNoise([0.3], (0.2,)) == PoleNoise((0.3,), np.array([0.2]))
    for bad in (([[0.3]], [0.2]), ([0.3], [[0.2]])):
        with pytest.raises(ValueError, match="must be a vector of numbers in"):
            PoleNoise(*bad)


@pytest.mark.parametrize(
    ("zeros", "poles", "error", "message"),
    [
        ([-0.1], [], ValueError, r"zeros must lie in \[0, 2\], got .*-0.1"),
        ([2.1], [], ValueError, r"zeros must lie in \[0, 2\]"),
        ([math.nan], [], ValueError, r"zeros must lie in \[0, 2\]"),
        ([], [0.0], ValueError, r"poles must lie in \(0, 2\), got .*0.0"),
        ([], [2.0], ValueError, r"poles must lie in \(0, 2\)"),
        ([], [math.inf], ValueError, r"poles must lie in \(0, 2\)"),
        (["a"], [], TypeError, "zeros must hold real numbers"),
        ([], [1j], TypeError, "poles must hold real numbers"),
        ([True], [], TypeError, "zeros must hold real numbers"),
        (None, [], TypeError, "zeros must hold real numbers"),
        ([1e-301], [], ValueError, "at least 1e-300"),
    ],
)
def test_bad_arguments(zeros, poles, error, message):
    with pytest.raises(error, match=message):
        PoleNoise(zeros, poles)


# -- coefficients and sections -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zeros", "poles"), CASES)
def test_coefficients_are_those_of_the_quotient(zeros, poles):
    noise = PoleNoise(zeros, poles)
    assert relative(noise.coefficients(40), quotient(zeros, poles, 40)) <= 4e-16
    assert relative(noise.inverse_coefficients(40), quotient(poles, zeros, 40)) <= 4e-16


@given(many_gaps(), many_gaps())
def test_random_coefficients_are_those_of_the_quotient(zeros, poles):
    noise = PoleNoise(zeros, poles)
    for values, exact in (
        (noise.coefficients(12), quotient(zeros, poles, 12)),
        (noise.inverse_coefficients(12), quotient(poles, zeros, 12)),
    ):
        largest = max(map(abs, exact))  # what the docstring adds for several factors
        for value, e in zip(values.tolist(), exact, strict=True):
            assert abs(Fraction(value) - e) <= 4e-16 * abs(e) + 1e-31 * largest


@pytest.mark.parametrize(("zeros", "poles"), CASES)
def test_sections_make_the_noise(zeros, poles):
    noise = PoleNoise(zeros, poles)
    a, q = noise.sections()
    assert a.shape == q.shape == (max(noise.zeros.size, noise.poles.size),)
    assert cascade(a, q, 30) == quotient(zeros, poles, 30)


@given(many_gaps(), many_gaps())
def test_random_sections_make_the_noise(zeros, poles):
    assert cascade(*PoleNoise(zeros, poles).sections(), 10) == quotient(zeros, poles, 10)


def test_a_wrong_section_is_noticed():
    a, q = PoleNoise([0.01], [0.2]).sections()
    assert cascade(a, q * (1 + 1e-15), 30) != quotient([0.01], [0.2], 30)
    assert cascade(q, a, 30) != quotient([0.01], [0.2], 30)
    assert relative(PoleNoise([0.01], [0.2 * (1 + 1e-14)]).coefficients(40), quotient([0.01], [0.2], 40)) > 4e-16


def test_padding_lies_at_gap_one():
    for noise in (PoleNoise([0.1, 0.2], []), PoleNoise([], [0.1, 0.2])):
        a, q = noise.sections()
        assert 1.0 in a or 1.0 in q
        assert a.size == q.size == 2
    assert PoleNoise([], []).sections()[0].size == 0


# -- sensitivity, spectrum and averaged variance -----------------------------------------------------------------------


@pytest.mark.parametrize(("zeros", "poles"), CASES)
@pytest.mark.parametrize("steps", [1, 2, 9])
def test_sensitivity_is_the_largest_column_norm_of_the_inverse(zeros, poles, steps):
    with mp.workdps(60):
        beta = [mp.mpf(b.numerator) / b.denominator for b in quotient(zeros, poles, steps)]
        matrix = mp.matrix(steps, steps)
        for i in range(steps):
            for j in range(i + 1):
                matrix[i, j] = beta[i - j]
        inverse = matrix**-1
        gamma = max(mp.norm(inverse[:, j]) for j in range(steps))
        noise = PoleNoise(zeros, poles)
        assert abs(noise.sensitivity(Participation.single(steps)) / gamma - 1) < 1e-15
        assert abs(noise.sensitivity(Participation.single(steps)) * (1 + 1e-14) / gamma - 1) > 1e-15
        assert gamma <= noise.sensitivity_upper_bound(Participation.single(steps)) <= gamma * (1 + 1e-14)
        multiplier = Budget(0.5).multiplier(noise.sensitivity_upper_bound(Participation.single(steps)))
        assert gamma <= multiplier <= gamma * (1 + 1e-14)


@given(distinct_gaps(1e-6, 1, 4), distinct_gaps(1e-6, 0, 4))
def test_limiting_sensitivity_by_partial_fractions(zeros, poles):
    poles = poles[: len(zeros) - 1]
    noise = PoleNoise(zeros, poles)
    exact = mp.sqrt(squared_norm(poles, zeros))
    assert abs(noise.limiting_sensitivity() / exact - 1) < 1e-14 * (1 + len(zeros) + len(poles))
    assert exact <= Budget(0.5).multiplier(noise.sensitivity_upper_bound(ANY_LENGTH)) <= exact * (1 + 1e-12)
    assert noise.sensitivity(Participation.single(50)) <= noise.limiting_sensitivity() * (1 + 1e-12)


@given(distinct_gaps(1e-9, 1, 4), many_gaps(3))
def test_averaged_variance_by_partial_fractions(poles, zeros):
    *poles, rate = poles
    zeros = zeros[: len(poles)]
    exact = rate * (2 - mp.mpf(rate)) * squared_norm(zeros, [*poles, rate])
    value = float(PoleNoise(zeros, poles).averaged_variance(rate))
    assert abs(value / exact - 1) < 1e-14 * (1 + len(zeros) + len(poles))
    assert abs(value * (1 + 1e-12) / exact - 1) > 1e-14 * (1 + len(zeros) + len(poles))


def test_one_section_in_closed_form():
    a, q, x = 0.01, 0.2, 0.05
    noise = PoleNoise([a], [q])
    # 1/B = 1 + (a − q) Σ (1 − a)^{t−1} z^t, and B the same with a and q exchanged.
    gamma = math.sqrt(1 + (a - q) ** 2 / (a * (2 - a)))
    variance = 1 + (a - q) ** 2 / (q * (2 - q)) * (1 + 2 * (1 - q) * (1 - x) / (q + x - q * x))
    variance += 2 * (a - q) * (1 - x) / (q + x - q * x)
    for exact, wrong, value in (
        (gamma, gamma * (1 + 1e-12), noise.limiting_sensitivity()),
        (variance, variance * (1 + 1e-12), noise.averaged_variance(x)),
    ):
        assert value == pytest.approx(exact, rel=3e-14, abs=0)
        assert value != pytest.approx(wrong, rel=3e-14, abs=0)


@pytest.mark.parametrize(("zeros", "poles"), CASES)
def test_power_spectrum_at_sixty_digits(zeros, poles):
    frequencies = [0.0, 1e-13, 1e-9, 1e-3, 1.0, 3.0, -2.0, 3.1415]
    with mp.workdps(60):
        for omega in frequencies:
            z = mp.expjpi(mp.mpf(omega) / mp.pi)
            b = mp.fprod(1 - (1 - mp.mpf(a)) * z for a in zeros) / mp.fprod(1 - (1 - mp.mpf(q)) * z for q in poles)
            value, exact = float(PoleNoise(zeros, poles).power_spectrum(omega)), abs(b) ** 2
            assert abs(value - exact) <= 1e-14 * exact
            if exact:
                assert abs(value * (1 + 1e-12) - exact) > 1e-14 * exact


def test_a_zero_on_the_unit_circle_has_no_limiting_sensitivity():
    assert PoleNoise([0.0], [0.5]).limiting_sensitivity() == math.inf
    assert PoleNoise([2.0], [0.5]).sensitivity_upper_bound(ANY_LENGTH) == math.inf
    assert math.isfinite(PoleNoise([1e-12], [0.5]).limiting_sensitivity())


def test_named_noise_is_a_special_case():
    rates = np.geomspace(1e-6, 1.9, 7)
    for named, noise in ((AntiPGD(0.2), PoleNoise([0.2], [])), (DPSGD(), PoleNoise([], []))):
        np.testing.assert_array_equal(noise.coefficients(9), named.coefficients(9))
        np.testing.assert_allclose(noise.averaged_variance(rates), named.averaged_variance(rates), rtol=1e-13)
        assert noise.limiting_sensitivity() == pytest.approx(named.limiting_sensitivity(), rel=1e-14)
    product = ProductNoise([0.2, 0.3], [2.0, -1.0])
    np.testing.assert_array_equal(PoleNoise([0.2, 0.2], [0.3]).coefficients(9), product.coefficients(9))


# -- buffers -----------------------------------------------------------------------------------------------------------


@st.composite
def simple_noises(draw: st.DrawFn, most: int = 4) -> PoleNoise:
    """Rational noise with simple zeros and poles, not too close to each other or to gap 1, and as many of both."""
    count = draw(st.integers(1, most))
    places = np.sort(draw(st.lists(gaps(1e-4), min_size=2 * count, max_size=2 * count, unique=True)))
    near = np.minimum(places, 2 - places)
    assume((np.diff(places) > 1e-3 * np.maximum(near[1:], near[:-1])).all() and (np.abs(places - 1) > 1e-3).all())
    shuffled = draw(st.permutations(places.tolist()))
    return PoleNoise(shuffled[:count], shuffled[count:])


def read(noise: PoleNoise) -> tuple[BufferNoise | None, float]:
    """The buffers of a noise, and by how much rounding of their numbers may move its gaps, relatively."""
    try:
        buffers = noise.buffers()
    except ValueError:  # rounding made two close zeros complex, or moved them anywhere
        return None, math.inf
    return buffers, 1e-9 * (1 + np.abs(buffers.output_scale).max()) ** 2


@given(simple_noises())
def test_buffers_are_the_strategy_of_the_noise_and_are_read_back(noise: PoleNoise) -> None:
    buffers, error = read(noise)
    if buffers is None or error > 1e-2:
        return
    steps = 30
    sizes = np.append(1.0, np.abs(buffers.output_scale) @ np.abs(buffers.buf_decay[:, None]) ** np.arange(steps - 1))
    strategy = np.append(1.0, buffers.output_scale @ buffers.buf_decay[:, None] ** np.arange(steps - 1))
    assert (np.abs(strategy - noise.inverse_coefficients(steps)) <= 1e-11 * sizes + 1e-30).all()
    assert buffers.inverse_coefficients(steps) == pytest.approx(strategy, rel=1e-9, abs=1e-12 * sizes.max())
    assert (np.diff(buffers.buf_decay) < 0).all()
    assert buffers.zeros == pytest.approx(noise.zeros, rel=1e-9, abs=error)
    assert buffers.poles == pytest.approx(noise.poles, rel=1e-9, abs=error)
    assert BufferNoise(**buffers.arguments()) == buffers == buffers.buffers()


@given(st.lists(st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 2)), min_size=1, max_size=4), st.integers(1, 50))
def test_programs_of_buffers_cover_the_floats_that_are_handed_over(pairs: Any, steps: int) -> None:
    try:
        buffers = BufferNoise([d for d, _ in pairs], [s for _, s in pairs])
    except ValueError:
        assume(False)
    for dtype in DTYPES:
        stored = buffers.stored_as(dtype)
        powers = stored.output_scale @ stored.buf_decay[:, None] ** np.arange(max(steps - 1, 0))
        exact = math.sqrt(1 + float(np.square(powers).sum()))
        covered = buffers.program(Participation.single(steps), dtype, "buffers").sensitivity
        assert exact * (1 - 1e-14) <= covered <= exact * (1 + (1e-6 if dtype == "float64" else 1e-2))


def test_decays_that_are_rounded_to_one_have_no_limit_but_a_horizon() -> None:
    buffers = PoleNoise([1e-20, 0.3], [0.1, 0.5]).buffers()
    assert buffers.buf_decay[0] == 1
    assert buffers.limiting_sensitivity() == math.inf
    assert math.isfinite(buffers.program(Participation.single(100), "float64", "buffers").sensitivity)
    with pytest.raises(ValueError, match="finite sensitivity"):
        buffers.program(Participation.single(), "float64", "buffers")


def test_published_buffers_have_the_published_privacy() -> None:
    """Two participations 50 steps apart in 100 steps with unit noise: ρ = 3.17226586, in federated-compute's tests."""
    buffers = BufferNoise(
        [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
        [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
    )

    def privacy(column: np.ndarray) -> float:
        return float(np.square(column + np.concatenate([np.zeros(50), column[:50]])).sum() / 2)

    column = buffers.inverse_coefficients(101)
    assert privacy(column[:100]) == pytest.approx(3.17226586, rel=1e-8)
    assert privacy(np.append(1.0, column[2:])) != pytest.approx(3.17226586, rel=1e-3)
    twice = Participation.min_sep(100, 50, 2)
    assert buffers.sensitivity(twice) ** 2 / 2 == pytest.approx(3.17226586, rel=1e-8)


@pytest.mark.parametrize(("zeros", "poles"), [([0.1, 0.1], [0.3, 0.4]), ([0.4], [0.1, 0.2, 0.3])])
def test_noise_without_buffers_is_refused(zeros: Gaps, poles: Gaps) -> None:
    with pytest.raises(ValueError, match="noise must have distinct"):
        PoleNoise(zeros, poles).buffers()


@pytest.mark.parametrize(
    ("decay", "scale", "message"),
    [
        ([0.5, 0.4], [1.0, -1.0], "real poles"),
        ([0.5], [3.0], "stable, minimum-phase noise"),  # a zero of the strategy inside the unit circle
        ([1.5], [1.0], r"buf_decay must lie in \[-1, 1\], got 1.5"),
        ([0.5], [1.0, 2.0], "the same length, got 1 and 2"),
        ([[0.5]], [[1.0]], "buf_decay must be a vector"),
    ],
)
def test_buffers_of_other_noise_are_refused(decay: Any, scale: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BufferNoise(decay, scale)


def test_scales_beyond_the_range_of_floats_are_refused() -> None:
    crowded = PoleNoise(0.5 + np.arange(40) * 1e-15, np.linspace(0.6, 0.9, 40))
    with pytest.raises(ValueError, match=r"further apart for scales within floats|distinct zeros"):
        crowded.buffers()
    with pytest.raises(ValueError, match="range of float32"):
        _large().stored_as("float32")


def _large() -> BufferNoise:
    """Buffers with a scale beyond float32, without the checks of the class."""
    buffers = BufferNoise([0.5], [0.1])
    buffers._set(output_scale=np.array([1e39]))
    return buffers
