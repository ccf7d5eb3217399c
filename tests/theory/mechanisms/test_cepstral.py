"""Noise given by its cepstrum: against power series at 40 digits, products, brute force, and with known errors."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.product import NuFTRL, ProductNoise
from corrnoise.theory.numerics import warped_series
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from tests import oracles
from tests.strategies import exponents, log_uniform

RATES = np.concatenate([np.geomspace(1e-12, 1.0, 20), [1.5, 2 - 1e-6]])
FREQUENCIES = np.concatenate([np.geomspace(1e-9, np.pi, 40), np.pi - np.geomspace(1e-9, 1.0, 20)])

# -- oracles -----------------------------------------------------------------------------------------------------------


def multiplied(x: list[mpf], y: list[mpf]) -> list[mpf]:
    return [mp.fdot(x[: t + 1], y[t::-1]) for t in range(len(x))]


@workdps(60)
def warped_powers(warp: float, count: int, steps: int) -> list[list[mpf]]:
    """Power series of ζ⁰, …, ζ^{count−1} in z, from ζ = −a + (1 − a²) Σ a^{k−1} zᵏ, multiplied out."""
    a = mpf(warp)
    zeta = [-a] + [(1 - a * a) * a ** (k - 1) for k in range(1, steps)]
    powers = [[mpf(1)] + [mpf(0)] * (steps - 1)]
    for _ in range(1, count):
        powers.append(multiplied(powers[-1], zeta))
    return powers


@workdps(60)
def series(cepstrum: list[float], warp: float, steps: int) -> list[mpf]:
    """exp(Σ c_n (ζⁿ − (−a)ⁿ)) in powers of z: n β_n = Σ k l_k β_{n−k} with the logarithm l."""
    powers = warped_powers(warp, len(cepstrum) + 1, steps)
    logarithm = [mp.fsum(mpf(c) * p[k] for c, p in zip(cepstrum, powers[1:], strict=True)) for k in range(steps)]
    beta = [mpf(1)]
    for n in range(1, steps):
        beta.append(mp.fsum(k * logarithm[k] * beta[n - k] for k in range(1, n + 1)) / n)
    return beta


@workdps(40)
def product_cepstrum(product: ProductNoise, warp: float) -> np.ndarray:
    """c_n = Σ e ((−a)ⁿ − pⁿ)/n of Π (1 − r z)^e ∝ Π ((1 − p ζ)/(1 + a ζ))^e, with p = (r − a)/(1 − ra)."""
    a, images = mpf(warp), []
    for gap, e in zip(product.gaps, product.exponents, strict=True):
        r = 1 - mpf(gap)
        images.append((float((r - a) / (1 - r * a)), e))
    longest = max([abs(p) for p, _ in images] + [abs(warp)])
    n = np.arange(1, 2 + (math.ceil(math.log(1e-18) / math.log(longest)) if longest else 0))
    return sum((e * ((-warp) ** n - p**n) / n for p, e in images), np.zeros(n.size))


CASES = [([], 0.0), ([0.5], 0.0), ([0.3, -0.2, 0.7], 0.0), ([0.3, -0.2, 0.7], 0.6), ([-1.0, 0.5], -0.5), ([1.0], 0.9)]


def products() -> st.SearchStrategy[ProductNoise]:
    """Features at 0 and at π, wide enough for a few thousand coefficients without a warp."""
    gap = log_uniform(1e-2, 1.0) | log_uniform(1e-2, 1.0).map(lambda a: 2 - a)
    factors = st.lists(st.tuples(gap, exponents()), min_size=1, max_size=3)
    return factors.map(lambda fs: ProductNoise([a for a, _ in fs], [e for _, e in fs]))


def warps() -> st.SearchStrategy[float]:
    return st.just(0.0) | st.floats(-0.95, 0.95)


# -- coefficients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cepstrum", "warp"), CASES)
def test_coefficients_and_inverse_against_power_series(cepstrum, warp):
    noise, size = CepstralNoise(cepstrum, warp), 1e-15 * math.sqrt((1 + abs(warp)) / (1 - abs(warp)))
    for got, signed in ((noise.coefficients(40), cepstrum), (noise.inverse_coefficients(40), [-c for c in cepstrum])):
        exact = series(signed, warp, 40)
        assert got[0] == 1
        assert max(abs(mpf(x) - y) for x, y in zip(got, exact, strict=True)) < 2 * size
    if cepstrum:
        mutant = CepstralNoise([cepstrum[0] * (1 + 1e-6), *cepstrum[1:]], warp).coefficients(40)
        exact = series(cepstrum, warp, 40)
        assert max(abs(mpf(x) - y) for x, y in zip(mutant, exact, strict=True)) > 1e-8


@pytest.mark.parametrize("warp", [0.3, -0.9, 1 - 2.0**-8])
def test_unwarped_series_against_multiplied_powers(warp):
    weights = np.random.default_rng(1).normal(size=50)
    found = np.empty(30)
    warped_series.unwarped(weights, warp, found)
    powers = warped_powers(warp, 50, 30)
    exact = [mp.fsum(mpf(w) * p[t] for w, p in zip(weights, powers, strict=True)) for t in range(30)]
    assert max(abs(mpf(x) - y) for x, y in zip(found, exact, strict=True)) < 1e-15
    mutant = np.empty(30)
    warped_series.unwarped(weights, warp * (1 + 1e-6), mutant)
    assert max(abs(mpf(x) - y) for x, y in zip(mutant, exact, strict=True)) > 1e-7


def test_unwarped_series_after_a_long_cascade():
    """ζᵐ has norm 1, the value 1 at z = 1 and (−a)ᵐ at z = 0."""
    count, warp = 2000, 1 - 2.0**-5
    last, found = np.zeros(count), np.empty(count * 70)
    last[-1] = 1.0
    warped_series.unwarped(last, warp, found)
    assert abs(np.linalg.norm(found) - 1) < 1e-14
    assert abs(found.sum() - 1) < 1e-12
    assert abs(found[0] - (-warp) ** (count - 1)) < 1e-15


# -- against products --------------------------------------------------------------------------------------------------


def discrepancies(noise: CepstralNoise, product: ProductNoise) -> dict[str, float]:
    """Relative differences of all that is public."""

    def relative(x, y):
        return float(np.max(np.abs(np.asarray(x) / y - 1)))

    steps = 300
    who = Participation.single(steps)
    exact, inverse = product.coefficients(steps), product.inverse_coefficients(steps)
    return {
        "power": relative(noise.power_spectrum(FREQUENCIES), product.power_spectrum(FREQUENCIES)),
        "variance": relative(noise.averaged_variance(RATES), product.averaged_variance(RATES)),
        "sensitivity": relative(noise.limiting_sensitivity(), product.limiting_sensitivity()),
        "finite sensitivity": relative(noise.sensitivity(who), product.sensitivity(who)),
        "coefficients": float(np.linalg.norm(noise.coefficients(steps) - exact) / np.linalg.norm(exact)),
        "inverse": float(np.linalg.norm(noise.inverse_coefficients(steps) - inverse) / np.linalg.norm(inverse)),
    }


@given(products(), warps())
def test_everything_against_products(product, warp):
    found = discrepancies(CepstralNoise(product_cepstrum(product, warp), warp), product)
    assert max(found.values()) < 1e-11, found
    assert max(found["variance"], found["sensitivity"], found["power"]) < 2e-12, found


@given(products(), warps(), st.integers(0, 20))
def test_a_false_neighbour_of_the_cepstrum_is_seen(product, warp, place):
    c = product_cepstrum(product, warp)
    if np.abs(c[min(place, c.size - 1)]) < 1e-3:
        return
    c[min(place, c.size - 1)] *= 1 + 1e-6
    assert discrepancies(CepstralNoise(c, warp), product)["power"] > 1e-10


@pytest.mark.parametrize("nu", [1e-6, 2 - 1e-6])
def test_features_a_millionth_wide(nu):
    """With the warp that balances the ends, against the closed forms, and within the errors that are stated."""
    warp = math.copysign(1 - 2.0**-9, 1 - nu)
    noise, product = CepstralNoise(product_cepstrum(NuFTRL(nu), warp), warp), NuFTRL(nu)
    assert noise.cepstrum.size < 50_000
    rates = RATES if nu < 1 else 2 - RATES[:-1]
    assert np.allclose(noise.averaged_variance(rates), product.averaged_variance(rates), rtol=2e-13, atol=0)
    with workdps(40):
        gamma = 1 / mp.sqrt(mp.agm(mpf(nu), 2 - mpf(nu)))
    value, error = noise._limiting()
    assert oracles.relative_error(value, gamma) < 1e-14 < error < 1e-12
    frequencies = FREQUENCIES if nu < 1 else np.abs(np.pi - FREQUENCIES)
    assert np.allclose(noise.power_spectrum(frequencies), product.power_spectrum(frequencies), rtol=1e-9, atol=0)
    inverse, error = noise._inverse(2000)
    exact, _ = product._inverse(2000)
    assert np.linalg.norm(inverse - exact) <= error * np.linalg.norm(exact)
    assert error < 1e-9
    assert np.linalg.norm(inverse - exact) < 2e-12 * np.linalg.norm(exact)


# -- privacy -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cepstrum", "warp"), CASES[1:])
def test_sensitivity_against_the_inverse_matrix(cepstrum, warp):
    noise = CepstralNoise(cepstrum, warp)
    exact = oracles.sensitivity([float(b) for b in series(cepstrum, warp, 8)], 8)
    assert oracles.relative_error(noise.sensitivity(Participation.single(8)), exact) < 1e-14
    assert oracles.relative_error(noise.sensitivity(Participation.single(8)) * (1 + 1e-6), exact) > 1e-7


@given(products(), warps(), st.integers(1, 100))
def test_figures_for_a_release_are_never_too_small(product, warp, steps):
    """The bounds hold against a product whose own errors, 1e-14, are added; and they are not far off."""
    noise = CepstralNoise(product_cepstrum(product, warp), warp)
    upper = noise.sensitivity_upper_bound(Participation.single(steps))
    assert product.sensitivity(Participation.single(steps)) <= upper * (1 + 2e-14)
    assert upper <= product.sensitivity(Participation.single(steps)) * (1 + 1e-7)
    exact = product.limiting_sensitivity() / math.sqrt(2)
    assert (
        exact <= Budget(1.0).multiplier(noise.sensitivity_upper_bound(ANY_LENGTH)) * (1 + 2e-14) <= exact * (1 + 1e-10)
    )


@pytest.mark.parametrize(("cepstrum", "warp"), CASES)
def test_averaged_variance_and_limit_by_sums_over_time(cepstrum, warp):
    noise = CepstralNoise(cepstrum, warp)
    steps = 60 if warp == 0 else 800
    beta, inverse = (CepstralNoise(sign * np.array(cepstrum), warp).coefficients(steps) for sign in (1, -1))
    for x in (1e-3, 0.3, 1.0, 1.9):
        assert oracles.relative_error(noise.averaged_variance(x), oracles.averaged_variance(beta, x)) < 1e-13
    assert oracles.relative_error(noise.limiting_sensitivity(), oracles.norm(inverse)) < 1e-14


def test_averaged_variance_at_the_ends_is_the_power_there():
    noise = CepstralNoise([0.3, -0.2, 0.7], 0.6)
    assert noise.averaged_variance(1e-300) == pytest.approx(float(noise.power_spectrum(0.0)), rel=1e-14)
    assert noise.averaged_variance(math.nextafter(2.0, 0.0)) == pytest.approx(
        float(noise.power_spectrum(np.pi)), rel=1e-13
    )
    assert noise.averaged_variance(1.0) == pytest.approx(float(np.square(noise.coefficients(300)).sum()), rel=1e-14)
    assert noise.averaged_variance(np.full((2, 3), 0.1)).shape == (2, 3)
    assert noise.averaged_variance([]).shape == (0,)
    assert noise.power_spectrum(np.zeros((3, 1))).shape == (3, 1)


# -- identity and bad input --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cepstrum", "warp", "error", "words"),
    [
        ([[0.1]], 0.0, ValueError, r"cepstrum must be a vector of numbers in .*, got shape \(1, 1\)"),
        ([0.1, math.nan], 0.0, ValueError, r"cepstrum must lie in \(-inf, inf\), got nan"),
        ([0.1j], 0.0, TypeError, "cepstrum must hold real numbers"),
        ([0.1], 1.0, ValueError, r"warp must lie in \(-1, 1\), got 1.0"),
        ([0.1], "0", TypeError, "warp must be a real number"),
    ],
)
def test_bad_arguments(cepstrum, warp, error, words):
    with pytest.raises(error, match=words):
        CepstralNoise(cepstrum, warp)


def test_what_leaves_the_range_of_floats_or_of_grids_is_refused():
    for ask in (CepstralNoise([400.0]).limiting_sensitivity, lambda: CepstralNoise([-400.0]).coefficients(3)):
        with pytest.raises(ArithmeticError, match="must not exceed 300"):
            ask()
    long = np.zeros(2**21)
    long[-1] = 0.1
    with pytest.raises(ArithmeticError, match="not resolved"):
        CepstralNoise(long).limiting_sensitivity()
    with pytest.raises(ValueError, match="rates must lie in"):
        CepstralNoise([0.1]).averaged_variance(2.0)
    with pytest.raises(ValueError, match="steps must be an integer >= 1"):
        CepstralNoise([0.1]).coefficients(0)
