"""Closed forms of buffered mechanisms against their coefficients, 40 digits, enumeration and known values."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import buffered, toeplitz_losses
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.objectives import toeplitz_errors
from corrnoise.theory.participation import Participation
from tests.strategies import interlacing_gaps, log_uniform, participations

ORDERED = ("min-sep", "fixed epochs")  # the closed forms do not cover reshuffled orders


def multiprecision(values: np.ndarray) -> np.ndarray:
    return np.array([mpmath.mpf(value) for value in values.tolist()], dtype=object)


def strategy_of(scales, decays, n: int) -> np.ndarray:
    powers = np.asarray(decays)[:, np.newaxis] ** np.arange(n - 1)
    return np.concatenate([[1.0], np.asarray(scales) @ powers])


@given(gap=log_uniform(1e-14, 1.0) | st.just(0.0), n=st.integers(0, 10**7))
def test_geometric_sums_have_all_digits(gap, n):
    with mpmath.workdps(60):
        e = mpmath.mpf(gap)
        plain = mpmath.mpf(n) if gap == 0 else (1 - (1 - e) ** n) / e
        assert buffered.geometric_sum(np.array([gap]), n)[0] == pytest.approx(float(plain), rel=1e-14)
        if n > 0:
            weighted = mpmath.mpf(n + 1) / 2 if gap == 0 else (n - (1 - e) * plain) / (n * e)
            assert buffered.weighted_geometric_sum(np.array([gap]), n)[0] == pytest.approx(float(weighted), rel=1e-14)


@given(gaps=interlacing_gaps(smallest=1e-5), participation=participations(most=40, kinds=ORDERED))
def test_closed_forms_are_those_of_the_coefficients(gaps, participation):
    zeros, poles = gaps
    n = participation.steps
    strategy = PoleNoise(zeros, poles).inverse_coefficients(n)
    np.testing.assert_allclose(strategy_of(buffered.scales(zeros, poles), 1 - zeros, n), strategy, rtol=1e-11)
    square, _ = toeplitz_losses.squared_sensitivity(strategy, participation)
    closed = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation)
    assert closed == pytest.approx(square, rel=1e-12)
    upper = buffered.noise_sensitivity_upper_bound(PoleNoise(zeros, poles), participation)
    assert upper == pytest.approx(np.sqrt(square), rel=1e-13)
    for objective in toeplitz_errors.AGGREGATES:
        error, _ = toeplitz_errors.strategy_error(strategy, toeplitz_errors.error_weights(n, n, objective))
        assert buffered.squared_error(zeros, poles, steps=n, aggregate=objective) == pytest.approx(error, rel=1e-11)


@given(gaps=interlacing_gaps(), exponent=st.floats(0, 7), epochs=st.integers(1, 5))
def test_floats_agree_with_sixty_digits_in_runs_of_any_length(gaps, exponent, epochs):
    n = int(10**exponent)
    participation = Participation.min_sep(n, -(-n // epochs))
    zeros, poles = gaps
    with mpmath.workdps(60):
        exact = multiprecision(zeros), multiprecision(poles)
        pairs = [
            (
                buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation),
                buffered.squared_sensitivity(exact[0], buffered.scales(*exact), participation),
            )
        ] + [
            (
                buffered.squared_error(zeros, poles, steps=n, aggregate=objective),
                buffered.squared_error(*exact, steps=n, aggregate=objective),
            )
            for objective in toeplitz_errors.AGGREGATES
        ]
        for ours, truth in pairs:
            assert abs(ours.item() / truth.item() - 1) < 1e-13
        root = mpmath.sqrt(pairs[0][1].item())
        upper = buffered.noise_sensitivity_upper_bound(PoleNoise(zeros, poles), participation)
        assert root <= upper <= root * (1 + mpmath.mpf(2) ** -52)


@given(
    gaps=interlacing_gaps(most=3, smallest=1e-4),
    participation=participations(most=40, kinds=ORDERED),
)
def test_complex_steps_are_derivatives(gaps, participation):
    zeros, poles = gaps
    direction = np.linspace(0.3, -0.7, zeros.size) * zeros

    def value(zeros, poles):
        n = participation.steps
        total = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), participation)
        for objective in toeplitz_errors.AGGREGATES:
            total = total + buffered.squared_error(zeros, poles, steps=n, aggregate=objective)
        return np.asarray(total).item()

    step = value(zeros + 1e-100j * direction, poles + 0j).imag / 1e-100
    with mpmath.workdps(60):
        h = mpmath.mpf(10) ** -25
        exact = multiprecision(zeros), multiprecision(poles), multiprecision(direction)
        ends = [value(exact[0] + s * h * exact[2], exact[1]) for s in (1, -1)]
        numerical = (ends[0] - ends[1]) / (2 * h)
        assert step == pytest.approx(float(numerical), rel=1e-9, abs=1e-12 * float(ends[0]))


# -- sensitivity -------------------------------------------------------------------------------------------------------


@given(
    decays=st.lists(st.floats(0, 1), min_size=1, max_size=3),
    scale=st.floats(0, 2),
    participation=participations(most=9, kinds=ORDERED),
)
def test_no_pattern_is_worse_than_the_formula(decays, scale, participation):
    """The theorem by enumeration; decays and scales need not come from interlacing poles."""
    scales = scale * np.arange(1.0, len(decays) + 1)
    gaps = 1 - np.array(decays)
    n = participation.steps
    column = strategy_of(scales, 1 - gaps, n)
    matrix = np.array([[column[i - j] if i >= j else 0.0 for j in range(n)] for i in range(n)])
    worst = max(np.linalg.norm(matrix[:, pattern].sum(axis=1)) for pattern in participation.worst.patterns())
    upper = buffered.sensitivity_upper_bound(gaps, scales, participation)
    assert worst * (1 - 1e-13) <= upper <= worst * (1 + 1e-13)


def test_negative_scales_and_decays_are_refused_where_the_formula_would_be_too_small():
    """A scale of −1 and a decay of ½, in two steps with two participations: the formula gives 1, the truth is 5."""
    participation = Participation.min_sep(2, 1, 2)
    formula = buffered.squared_sensitivity(np.array([0.5]), np.array([-1.0]), participation)
    assert formula == pytest.approx(1.0)
    for arguments in (([0.5], [-1.0]), ([1.5], [1.0]), ([-0.5], [1.0])):
        with pytest.raises(ValueError, match=r"output_scales|decay_gaps"):
            buffered.sensitivity_upper_bound(*arguments, participation)
    with pytest.raises(ValueError, match="must not be reshuffled"):  # the formula would be too small
        buffered.sensitivity_upper_bound([0.5], [1.0], Participation.reshuffled(6, period=3))
    with pytest.raises(ValueError, match="interlace"):
        buffered.noise_sensitivity_upper_bound(PoleNoise([0.5], [0.2]), participation)


def test_the_known_production_mechanism():
    """Four buffers, 100 steps, two participations at least 50 steps apart: ρ = 3.17226586 at unit noise."""
    decays = [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778]
    scales = [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734]
    participation = Participation.min_sep(100, 50, 2)
    bound = buffered.sensitivity_upper_bound(1 - np.array(decays), scales, participation)
    assert bound**2 / 2 == pytest.approx(3.17226586, abs=5e-9)


def test_independent_noise_has_no_buffers():
    participation = Participation.min_sep(10, 3, 4)
    assert buffered.noise_sensitivity_upper_bound(PoleNoise([], []), participation) == 2.0
