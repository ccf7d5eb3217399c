"""Rational approximations against graded Gauss–Legendre quadrature, elliptic integrals and recursions at 40 digits."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from mpmath import mp
from numpy.typing import NDArray

from corrnoise.solvers.optimal_noise import optimal_noise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.rational import (
    heights_of,
    mixture_of,
    rational,
)
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.strategies import product_noises

NUS = [1e-12, 1e-8, 1e-6, 1e-4, 0.01, 0.5, 1.0, 1.5, 1.99]
TOLERANCES = [1e-3, 1e-6, 1e-9]
ROUNDING = 1e-13  # of the oracle

PRODUCTS = [
    ProductNoise([1e-3], [-0.5]),
    ProductNoise([1e-4], [1.5]),
    ProductNoise([0.02], [-2.3]),
    ProductNoise([0.3], [7.5]),
    ProductNoise([1e-8, 0.5], [0.5, 0.5]),
    ProductNoise([1e-6, 1e-2], [0.5, -0.5]),
    ProductNoise([1e-4, 1e-3, 1e-2, 0.1, 1.3], [0.5, -0.5, 0.5, -0.5, -1]),
    ProductNoise([1e-4, 1.99], [0.5, 0.5]),
    ProductNoise([1e-5], [0.01]),
    ProductNoise([1e-5], [0.999]),
    ProductNoise([1e-2], [1e-9]),
    ProductNoise([1e-2], [3 - 1e-9]),
    ProductNoise([1.9, 1e-3], [-1.5, 2]),
    ProductNoise([1e-6, 1e-5, 1e-4, 1e-3, 1.5, 1.9], [0.3, 0.3, 0.3, 0.1, -0.5, 0.5]),
    ProductNoise([1e-4, 1e-4 * (1 + 1e-14), 0.1], [0.5, -0.5, 0.5]),
]

Grid = NDArray[np.float64]


# -- oracles -----------------------------------------------------------------------------------------------------------


def graded_nodes(smallest: float) -> tuple[Grid, Grid, Grid]:
    """cos²(ω/2), sin²(ω/2) and weights of (1/π) ∫_0^π dω: Gauss's rule on panels that shrink towards both ends."""
    x, w = np.polynomial.legendre.leggauss(20)
    edges = np.linspace(math.log(smallest) - 37, math.log(math.pi / 2), 8 + round(math.log(1 / smallest) + 37))
    half = np.diff(edges)[:, np.newaxis] / 2
    delta = np.exp((edges[:-1, np.newaxis] + half) + half * x)
    weights = (half * w * delta / math.pi).ravel()
    c, s = np.cos(delta.ravel() / 2) ** 2, np.sin(delta.ravel() / 2) ** 2
    return np.concatenate([c, s]), np.concatenate([s, c]), np.concatenate([weights, weights])


def distance(gap: Grid | float, c: Grid, s: Grid) -> Grid:
    """|1 − (1 − a) e^{iω}|²."""
    return np.asarray(np.square(gap) * c + np.square(2 - gap) * s)


def slowest_rate(noise: ProductNoise) -> float:
    inner = np.concatenate([noise.gaps, 2 - noise.gaps])
    return float(min(inner[inner > 0].min(initial=0.5), 0.5))


def reference(noise: ProductNoise, rates: Grid) -> tuple[Grid, float]:
    """b(x) at the rates and γ_∞."""
    c, s, w = graded_nodes(min(slowest_rate(noise), float(rates.min())))
    log_power = np.zeros(c.size)
    for a, e in zip(noise.gaps, noise.exponents, strict=True):
        log_power += e * np.log(distance(a, c, s))
    x = rates[:, np.newaxis]
    variances = (w * np.exp(log_power) * x * (2 - x) / distance(x, c, s)).sum(axis=1)
    return variances, math.sqrt(float((w * np.exp(-log_power)).sum()))


def approximation_error(noise: ProductNoise, approximation: ProductNoise, points: int = 211) -> float:
    """The largest relative error of γ_∞ and of b(x) between the smallest gap and 1, on a grid of our own."""
    rates = np.concatenate([np.geomspace(slowest_rate(noise), 1, points), np.linspace(0.5, 1, 20)])
    (b, gamma), (other_b, other_gamma) = reference(noise, rates), reference(approximation, rates)
    return float(max(np.abs(other_b / b - 1).max(), abs(other_gamma / gamma - 1)))


def sensitivity_by_recursion(noise: PoleNoise, steps: int) -> mp.mpf:
    """γ_T from the product of polynomials and geometric series, term by term at 100 digits (some 50 cancel)."""
    with mp.workdps(100):
        series = [mp.mpf(1)] + [mp.mpf(0)] * (steps - 1)
        for q in noise.poles:
            series = [b - (1 - mp.mpf(q)) * a for b, a in zip(series, [mp.mpf(0), *series], strict=False)]
        for a in noise.zeros:
            r = 1 - mp.mpf(a)
            for t in range(1, steps):
                series[t] += r * series[t - 1]
        return mp.sqrt(mp.fsum(b * b for b in series))


@pytest.mark.parametrize("nu", NUS)
def test_the_oracle_knows_the_elliptic_integrals(nu):
    rate = nu if nu < 1 else 0.3
    (variance, norm), gamma = reference(NuFTRL(nu), np.array([rate, 1.0]))
    with mp.workdps(40):
        m = (1 - mp.mpf(nu)) ** 2
        square = 2 / mp.pi * mp.ellipk(m)
        exact_norm = 2 / mp.pi * (2 * mp.ellipe(m) - (1 - m) * mp.ellipk(m))  # Σ β_t²
        assert abs(gamma**2 / square - 1) < ROUNDING
        assert abs(gamma**2 * (1 + 1e-12) / square - 1) > ROUNDING
        assert abs(norm / exact_norm - 1) < ROUNDING
        assert abs(norm * (1 + 1e-12) / exact_norm - 1) > ROUNDING
    assert variance == pytest.approx(float(NuFTRL(nu).averaged_variance(rate)), rel=ROUNDING, abs=0)


# -- the tolerance -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("nu", NUS)
def test_tolerance_is_kept_for_nu_ftrl(nu, tolerance):
    approximation = rational(NuFTRL(nu), tolerance)
    assert isinstance(approximation, PoleNoise)
    assert approximation_error(NuFTRL(nu), approximation) <= tolerance + ROUNDING


@pytest.mark.parametrize(
    ("gap", "exponent"), [(1e-12, 0.5), (1e-12, 0.9), (1e-9, 0.01), (1e-6, 0.99), (1e-6, 0.5), (0.01, -0.3), (1.5, 0.5)]
)
def test_the_smallest_tolerance_is_kept(gap, exponent):
    noise = ProductNoise([gap], [exponent])
    assert approximation_error(noise, rational(noise, 1e-12)) <= 1e-12 + ROUNDING


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("noise", PRODUCTS, ids=repr)
def test_tolerance_is_kept_for_products(noise, tolerance):
    assert approximation_error(noise, rational(noise, tolerance)) <= tolerance + ROUNDING


@given(product_noises(low=1e-5, most=3), st.sampled_from([0.3, 1e-2, 1e-5, 1e-8]))
@example(ProductNoise([4.54e-5, 6.738e-3], [1e-8, 0.5]), 1e-8)
def test_tolerance_is_kept_for_random_products(noise, tolerance):
    approximation = rational(noise, tolerance)
    assert approximation_error(noise, approximation, points=101) <= tolerance + ROUNDING


def test_a_missed_tolerance_is_noticed():
    noise = NuFTRL(1e-4)
    rough, fine = rational(noise, 1e-3), rational(noise, 1e-6)
    assert approximation_error(noise, rough) > 1e-6
    assert approximation_error(NuFTRL(1e-4 * (1 + 1e-4)), fine) > 1e-6
    assert approximation_error(noise, PoleNoise(fine.zeros * (1 + 1e-4), fine.poles)) > 1e-6


# -- the number of poles -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nu", "most"),
    [
        (1e-1, {1e-3: 3, 1e-6: 4, 1e-9: 7, 1e-12: 11}),
        (1e-2, {1e-3: 4, 1e-6: 6, 1e-9: 10, 1e-12: 16}),
        (1e-4, {1e-3: 6, 1e-6: 11, 1e-9: 16, 1e-12: 25}),
        (1e-6, {1e-3: 10, 1e-6: 15, 1e-9: 22, 1e-12: 33}),
        (1e-8, {1e-3: 13, 1e-6: 21, 1e-9: 28, 1e-12: 41}),
        (1e-12, {1e-3: 22, 1e-6: 33, 1e-9: 44, 1e-12: 56}),
    ],
)
def test_few_poles_are_enough(nu, most):
    for tolerance, count in most.items():
        assert 1 <= rational(NuFTRL(nu), tolerance).poles.size <= count


@pytest.mark.parametrize(("nu", "count"), [(0.01, 6), (1e-4, 11), (1e-8, 21)])
def test_one_pole_less_is_not_enough(nu, count):
    noise = NuFTRL(nu)
    fewer = next(a for a in (rational(noise, 1.5**k * 1e-6) for k in range(1, 20)) if a.poles.size == count - 1)
    assert approximation_error(noise, fewer) > 1e-6


def interlace(first: Grid, second: Grid) -> bool:
    """first_0 < second_0 < first_1 < …"""
    if first.size - second.size not in (0, 1):
        return False
    merged = np.empty(first.size + second.size)
    merged[::2], merged[1::2] = first, second
    return bool((np.diff(merged) > 0).all())


OPTIMA = {  # tolerance: most poles
    "1/k, 128": (1 / np.arange(1, 129.0), 0.02, {1e-3: 6, 1e-6: 10, 1e-9: 14, 1e-12: 19}),
    "k^-2, 64": (np.arange(1, 65.0) ** -2, 0.02, {1e-3: 10, 1e-6: 14, 1e-9: 19, 1e-12: 26}),
    "(1, 1e-6)": (np.array([1, 1e-6]), 0.1, {1e-3: 12, 1e-6: 21, 1e-9: 29, 1e-12: 37}),
    "clusters": (np.outer([1, 1e-3], 1 + 1e-12 * np.arange(6)).ravel(), 0.04, {1e-6: 13, 1e-12: 24}),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_optimal_noise_takes_as_few_poles_as_one_factor(name):
    spectrum, eta, most = OPTIMA[name]
    noise = optimal_noise(LinearRegression(spectrum, eta))
    for tolerance, count in most.items():
        approximation = rational(noise, tolerance)
        assert approximation.poles.size <= count
        assert approximation_error(noise, approximation, points=99) <= tolerance + 2 * ROUNDING
        assert interlace(approximation.zeros, approximation.poles)
        assert approximation.zeros[0] == noise.gaps[0]


# -- the parts ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(-3, 3) | st.sampled_from([0.5, -0.5, 0.1, -0.3, 1 / 3]), min_size=1, max_size=12))
def test_heights_stay_between_0_and_1_with_the_fewest_powers(exponents):
    distances = np.abs(np.cumsum(exponents) - np.round(np.cumsum(exponents)))
    assume(not ((distances > 1e-15) & (distances < 1e-13)).any())  # integers or not, depending on rounding
    powers, heights, sines = heights_of(np.array(exponents))
    assert ((heights >= 0) & (heights <= 1)).all()
    np.testing.assert_allclose(sines, np.sin(np.pi * heights), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(sines > 0, (heights > 0) & (heights < 1))
    np.testing.assert_allclose(np.cumsum(powers) - heights, np.cumsum(exponents), rtol=0, atol=3e-14)
    # Of all integer paths h_k in [S_k, S_k + 1] the shortest, by dynamic programming.
    cost = {0: 0}
    for total in np.cumsum(exponents):
        nearest = round(float(total))
        places = range(math.ceil(total), math.floor(total) + 2)
        places = {nearest, nearest + 1} if abs(total - nearest) <= 1e-13 else set(places)
        cost = {h: min(c + abs(h - before) for before, c in cost.items()) for h in places}
    assert np.abs(powers).sum() <= min(cost.values())


def test_heights_of_an_optimum():
    powers, heights, sines = heights_of(np.array([0.5, -0.5, 0.5, -0.5, 0.5]))
    np.testing.assert_array_equal(powers, [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(heights, [0.5, 1, 0.5, 1, 0.5])
    np.testing.assert_array_equal(sines, [1, 0, 1, 0, 1])


def test_the_sine_keeps_its_digits_where_a_height_is_close_to_1():
    _, [height], [sine] = heights_of(np.array([1e-8]))
    exact = float(mp.sin(mp.pi * mp.mpf(1e-8)))
    assert sine == pytest.approx(exact, rel=1e-15, abs=0)
    assert math.sin(math.pi * height) != pytest.approx(exact, rel=1e-10, abs=0)


@pytest.mark.parametrize(
    ("gaps", "heights"),
    [
        ([1e-8], [0.5]),
        ([1e-3], [0.01]),
        ([1e-12], [0.99]),
        ([1e-6, 0.5], [0.5, 0.0]),
        ([1e-6, 1e-5, 0.1, 0.2], [0.5, 1, 0.3, 0.4]),
        ([1e-6, 1e-5, 0.1, 0.2], [0.5, 1, 0.5, 1]),
        ([0.1, 0.1 * (1 + 1e-14), 0.1 * (1 + 1e-10), 0.2], [0.5, 1, 0.5, 0.2]),
        ([0.01, 0.9], [0.7, 1e-9]),
    ],
)
def test_a_mixture_of_poles_is_the_product(gaps, heights):
    """On the unit circle, against mpmath."""
    a, e = np.array(gaps), np.array(heights)
    q, w = mixture_of(a, e, np.abs(np.sin(np.pi * (e - np.round(e)))))
    assert (w > 0).all()
    errors, changes = [], []
    with mp.workdps(40):
        poles = [(mp.mpf(x), mp.mpf(v)) for x, v in zip(q.tolist(), w.tolist(), strict=True)]
        exponents = np.append(0.0, e[:-1]) - e
        for frequency in [*np.geomspace(1e-13, 1, 15), math.pi]:
            u = -mp.expm1(1j * mp.mpf(frequency))  # 1 − z
            product = mp.fprod((x + (1 - x) * u) ** mp.mpf(v) for x, v in zip(gaps, exponents.tolist(), strict=True))
            errors.append(abs(mp.fsum(v / (x + (1 - x) * u) for x, v in poles) / product - 1))
            changes.append(abs(product ** mp.mpf(1e-10) - 1))
    assert max(errors) < 5e-14
    assert max(changes) > 5e-14


# -- where zeros and poles lie -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("nu", NUS)
def test_zeros_and_poles_interlace(nu, tolerance):
    noise = rational(NuFTRL(nu), tolerance)
    assert ((noise.poles > 0) & (noise.poles < 2)).all()
    assert noise.zeros.size == noise.poles.size
    if nu < 1:
        assert interlace(noise.zeros, noise.poles)
        assert noise.zeros[0] == nu
        assert noise.poles[-1] < 1
        assert not interlace(noise.poles, noise.zeros)
    if nu > 1:
        assert interlace(noise.poles, noise.zeros)
        assert noise.zeros[-1] == nu
        assert noise.poles[0] > 1


@pytest.mark.parametrize("exponent", [-0.01, -0.5, -0.99])
def test_a_negative_exponent_has_one_pole_more(exponent):
    noise = rational(ProductNoise([1e-5], [exponent]), 1e-6)
    assert interlace(noise.poles, noise.zeros)
    assert noise.poles.size == noise.zeros.size + 1
    assert noise.poles[0] > 1e-5


@pytest.mark.parametrize("tolerance", TOLERANCES)
@pytest.mark.parametrize("nu", NUS)
def test_zero_frequency(nu, tolerance):
    """|B(0)|² = ν, and the whole spectrum, keep about half of the digits."""
    approximation = rational(NuFTRL(nu), tolerance)
    frequencies = np.concatenate([[0.0], np.geomspace(1e-14, math.pi, 400)])
    exact = np.sqrt(distance(nu, np.cos(frequencies / 2) ** 2, np.sin(frequencies / 2) ** 2))
    error = np.abs(approximation.power_spectrum(frequencies) / exact - 1)
    assert exact[0] == pytest.approx(nu, rel=1e-15)
    assert error.max() < 2 * math.sqrt(tolerance)
    without_the_zero = PoleNoise(approximation.zeros[1:], approximation.poles[1:])
    if nu < 0.1:
        assert abs(without_the_zero.power_spectrum(0.0) / nu - 1) > 2 * math.sqrt(tolerance)


# -- noise that needs no approximation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("damping", [0.0, 1e-12, 0.3, 1.0, 1.7])
def test_anti_pgd_is_exact(damping):
    noise = rational(AntiPGD(damping), 0.5)
    assert noise == PoleNoise([damping], [])
    np.testing.assert_array_equal(noise.coefficients(9), AntiPGD(damping).coefficients(9))
    assert noise.limiting_sensitivity() == pytest.approx(AntiPGD(damping).limiting_sensitivity(), rel=1e-14)


def test_integer_exponents_are_exact():
    assert rational(DPSGD(), 0.5) == PoleNoise([], [])
    noise = ProductNoise([0.0, 0.2, 0.4, 1e-9, 2.0], [2, -3, 80, -1, 1])
    exact = PoleNoise([0.0] * 2 + [0.4] * 80 + [2.0], [0.2] * 3 + [1e-9])
    assert rational(noise, 0.5) == exact


def test_finite_noise_is_returned_as_it_is():
    noise = FiniteNoise([1.0, -2.0, 0.5])
    assert rational(noise, 0.5) is noise


def test_a_zero_on_the_unit_circle_beside_fractional_factors():
    noise = rational(ProductNoise([0.0, 0.01], [1, 0.5]), 1e-6)
    np.testing.assert_array_equal(noise.zeros[:2], [0.0, 0.01])
    assert noise.poles.size == noise.zeros.size - 1 <= 8
    assert noise.limiting_sensitivity() == math.inf
    rates = np.geomspace(0.01, 1, 50)
    exact = ProductNoise([0.0, 0.01], [1, 0.5]).averaged_variance(rates)
    np.testing.assert_allclose(noise.averaged_variance(rates), exact, rtol=1e-6)


def test_exponents_that_are_integers_but_for_rounding():
    rates = np.geomspace(0.01, 1, 50)
    for exponent, nearest in ((-1e-17, PoleNoise([], [])), (2 - 4e-16, PoleNoise([0.01] * 2, []))):
        noise = rational(ProductNoise([0.01], [exponent]), 1e-9)
        np.testing.assert_allclose(noise.averaged_variance(rates), nearest.averaged_variance(rates), rtol=1e-9)


# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [NuFTRL(0.01), NuFTRL(1e-8), NuFTRL(1.9), PRODUCTS[6]], ids=repr)
def test_noise_multipliers_are_those_of_the_approximation(noise):
    approximation = rational(noise, 1e-3)
    for steps in (1, 2, 3, 10, 120):
        gamma = sensitivity_by_recursion(approximation, steps)
        multiplier = Budget(0.5).multiplier(approximation.sensitivity_upper_bound(Participation.single(steps)))
        assert gamma <= multiplier <= gamma * (1 + 1e-13)
    gamma = reference(approximation, np.ones(1))[1]
    multiplier = Budget(0.5).multiplier(approximation.sensitivity_upper_bound(ANY_LENGTH))
    assert gamma * (1 - ROUNDING) <= multiplier <= gamma * (1 + 1e-11)


def test_the_multiplier_of_the_noise_approximated_would_be_too_small():
    noise, three = NuFTRL(0.01), Participation.single(3)
    approximation = rational(noise, 1e-6)
    gamma = sensitivity_by_recursion(approximation, 3)
    assert Budget(0.5).multiplier(noise.sensitivity_upper_bound(three)) < gamma * (1 - 1e-6)
    assert Budget(0.5).multiplier(approximation.sensitivity_upper_bound(three)) >= gamma


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (NuFTRL(0), r"no fractional zero .* got gap 0.0 with exponent 0.5"),
        (ProductNoise([0], [1.5]), "got gap 0.0 with exponent 1.5"),
        (ProductNoise([0], [-0.5]), "got gap 0.0 with exponent -0.5"),
        (ProductNoise([0], [-1]), r"no pole .* got gap 0.0 with exponent -1.0"),
        (ProductNoise([0.5, 2], [0.5, 0.5]), "got gap 2.0 with exponent 0.5"),
        (ProductNoise([2], [-2]), "got gap 2.0 with exponent -2.0"),
        (NuFTRL(1e-61), "got gap 1e-61 with exponent 0.5"),
        (ProductNoise([0.1], [81]), r"exponents in \[-80, 80\], got 81.0"),
        (ProductNoise([0.1], [-80.5]), r"exponents in \[-80, 80\], got -80.5"),
        (NuFTRL(1e-60), "tolerance must be larger for NuFTRL"),
        (NuFTRL(1e-20), "tolerance must be larger for NuFTRL"),
    ],
)
def test_noise_that_is_refused(noise, message):
    with pytest.raises(ValueError, match=message):
        rational(noise, 1e-9)


@pytest.mark.parametrize("tolerance", [0.0, 1e-13, 1.0, -1e-3, math.nan, math.inf])
def test_tolerances_out_of_range(tolerance):
    with pytest.raises(ValueError, match=r"tolerance must lie in \[1e-12, 1\)"):
        rational(NuFTRL(0.1), tolerance)


@pytest.mark.parametrize("tolerance", ["1e-3", None, True, 1j])
def test_tolerances_that_are_no_numbers(tolerance):
    with pytest.raises(TypeError, match="tolerance must be a real number"):
        rational(NuFTRL(0.1), tolerance)


def test_other_noise_is_refused():
    class White(ToeplitzNoise):
        coefficients = _inverse = _power = _limiting = averaged_variance = lambda *_: None

    for other in (None, 0.1, [1.0, -0.5], White()):
        with pytest.raises(TypeError, match="noise must be ProductNoise or FiniteNoise"):
            rational(other, 1e-3)
