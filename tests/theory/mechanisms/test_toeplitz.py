"""Correlated noise: coefficients, spectra, averaged variances, sensitivities and identity, against oracles."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf, workdps

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget
from tests import oracles
from tests.strategies import gaps, log_uniform, minimum_phase_coefficients, noises, product_noises, rates

ENDS = [0.0, 1e-300, 1e-12, 1e-6, 0.1, 0.5, 1.0, 1.5, math.nextafter(2.0, 0.0)]
INF = math.inf

# -- coefficients ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", ENDS)
@pytest.mark.parametrize(("kind", "exponent"), [(NuFTRL, 0.5), (AntiPGD, 1.0), (None, -1.3)])
def test_coefficients_at_large_times(kind, exponent, a):
    """Relative error below 4e-16 above 1e-290, against the binomial theorem."""
    noise = kind(a) if kind else ProductNoise([a], [exponent])
    steps = 10**7 + 1 if a in (0.0, 1e-6) and kind is NuFTRL else 10**5 + 1
    for series, e in ((noise.coefficients(steps), exponent), (noise.inverse_coefficients(steps), -exponent)):
        assert series.shape == (steps,)
        for t in [0, 1, 2, 3, 7, 50, 400, 1023, 5000, 30_000, 10**5, steps // 2, steps - 1]:
            exact = oracles.binomial_coefficient(a, e, t)
            if abs(exact) > 1e-290:
                assert oracles.relative_error(series[t], exact) < 4e-16, t
            else:
                assert abs(series[t]) < 1e-289


@pytest.mark.parametrize("mutant", [ProductNoise([0.1], [0.5 + 1e-6]), NuFTRL(0.1 + 1e-6), AntiPGD(0.1)])
def test_false_neighbours_of_the_coefficients(mutant):
    exact = oracles.product_coefficients([0.1], [0.5], 5)
    assert oracles.worst_relative_error(NuFTRL(0.1).coefficients(5), exact) < 4e-16
    assert oracles.worst_relative_error(mutant.coefficients(5), exact) > 1e-7


@given(noises(), st.integers(1, 60))
def test_inverse_coefficients_invert(noise, steps):
    identity = np.convolve(noise.coefficients(steps), noise.inverse_coefficients(steps))[:steps]
    scale = np.convolve(np.abs(noise.coefficients(steps)), np.abs(noise.inverse_coefficients(steps)))[:steps]
    assert np.all(np.abs(identity - (np.arange(steps) == 0)) <= 1e-14 * scale + 1e-30)


def test_inverse_beyond_the_range_of_floats_is_refused():
    with pytest.raises(OverflowError, match="from step 9"):
        FiniteNoise([1, -2]).inverse_coefficients(2000)
    assert FiniteNoise([1, -2]).sensitivity(Participation.single(2000)) == INF
    assert FiniteNoise([1, -2]).sensitivity_upper_bound(Participation.single(2000)) == INF
    assert Budget(1.0).multiplier(FiniteNoise([1, -2]).sensitivity(Participation.single(2000))) == INF


@pytest.mark.parametrize(
    "noise",
    [ProductNoise([0.0], [300.0]), ProductNoise([0.0, 0.5], [300.0, 1.0]), FiniteNoise([1e200, 5e199]),
     FiniteNoise([1e-200, 5e-201])],
)  # fmt: skip
def test_privacy_figures_beyond_the_range_of_floats_are_never_nan(noise):
    who = Participation.single(4000)
    upper = noise.sensitivity_upper_bound(who)
    for figure in (noise.sensitivity(who), upper, Budget(1.0).multiplier(upper) if upper < 1e300 else upper):
        assert figure > 0


# -- one noise, several ways to write it -------------------------------------------------------------------------------

SAME = {
    "nu-FTRL": (NuFTRL(1e-3), ProductNoise([1e-3], [0.5])),
    "nu-FTRL, nu > 1": (NuFTRL(1.75), ProductNoise([1.75], [0.5])),
    "anti-PGD": (AntiPGD(1e-3), ProductNoise([1e-3], [1.0])),
    "independent": (DPSGD(), ProductNoise([0.3, 0.3], [1.0, -1.0])),
    "nu = 1": (NuFTRL(1.0), DPSGD()),
    "two factors": (FiniteNoise([1, -1.25, 0.375]), ProductNoise([0.25, 0.5], [1.0, 1.0])),
    "four factors": (FiniteNoise([1, -0.75, -0.75, 0.8125, -0.1875]), ProductNoise([0.25, 0.5, 2.0], [1, 2, 1.0])),
    "finite anti-PGD": (FiniteNoise([1, -0.75]), AntiPGD(0.25)),
}


def views(noise):
    """All that can be asked of a noise."""
    return {
        "coefficients": noise.coefficients(40),
        "inverse": noise.inverse_coefficients(40),
        "power": noise.power_spectrum(np.array([0.0, 1e-9, 0.1, 2.0, 3.14, -7.0])),
        "variance": noise.averaged_variance(np.array([1e-9, 1e-3, 0.3, 1.0, 1.7, 2 - 1e-9])),
        "sensitivity": np.array([noise.sensitivity(Participation.single(t)) for t in (1, 2, 30)]),
        "limit": np.array([noise.limiting_sensitivity()]),
    }


@pytest.mark.parametrize("case", SAME)
def test_equal_noise_has_equal_views(case):
    one, other = (views(noise) for noise in SAME[case])
    for view, value in one.items():
        np.testing.assert_allclose(value, other[view], rtol=3e-14, atol=1e-15, err_msg=view)


def test_views_tell_neighbours_apart():
    one, other = views(NuFTRL(1e-3)), views(ProductNoise([1e-3], [0.5 + 1e-6]))
    for view, value in one.items():
        assert not np.allclose(value, other[view], rtol=3e-14, atol=1e-15), view


@pytest.mark.parametrize("a", [2.0**-30, 0.25, 0.875])
def test_mirror_symmetry(a):
    """a → 2 − a turns β_t into (−1)ᵗ β_t, ω into π − ω and x into 2 − x."""
    x, omega = np.array([2.0**-20, 0.25, 1.0, 1.75]), np.array([0.0, 1e-3, 1.0])
    for one, other in [
        (NuFTRL(a), NuFTRL(2 - a)),
        (AntiPGD(a), AntiPGD(2 - a)),
        (ProductNoise([a, 0.5], [0.5, -1.0]), ProductNoise([2 - a, 1.5], [0.5, -1.0])),
        (FiniteNoise([1, -0.5, a]), FiniteNoise([1, 0.5, a])),
    ]:
        np.testing.assert_allclose(one.coefficients(9), other.coefficients(9) * (-1.0) ** np.arange(9), rtol=1e-15)
        np.testing.assert_allclose(one.averaged_variance(x), other.averaged_variance(2 - x), rtol=1e-13)
        np.testing.assert_allclose(one.power_spectrum(omega), other.power_spectrum(math.pi - omega), rtol=1e-9)
        assert math.isclose(one.limiting_sensitivity(), other.limiting_sensitivity(), rel_tol=1e-13)
        assert not np.allclose(one.averaged_variance(x), other.averaged_variance(x), rtol=1e-3)


# -- averaged variance -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.one_of(st.just(DPSGD()), gaps(1e-12).map(NuFTRL), gaps(1e-12).map(AntiPGD), product_noises(1e-12)), rates())
def test_averaged_variance_in_the_frequency_domain(noise, rate):
    exact = oracles.spectrum_mean(noise.gaps, noise.exponents, rate)
    stated = 1e-14 * (1 + np.abs(noise.exponents).sum())
    got = float(noise.averaged_variance(rate))
    assert oracles.relative_error(got, exact) < (4e-15 if isinstance(noise, NuFTRL | AntiPGD | DPSGD) else stated)


@given(
    st.one_of(
        st.just(DPSGD()),
        st.floats(0.05, 1.95).map(NuFTRL),
        st.floats(0.05, 1.95).map(AntiPGD),
        product_noises(0.05).filter(lambda noise: noise.gaps.max(initial=1.0) <= 1.95),
        minimum_phase_coefficients().map(FiniteNoise),
    ),
    st.floats(0.05, 1.95),
)
def test_time_and_frequency_domain_agree(noise, rate):
    """Σ_{t,τ} β_t β_τ (1 − x)^{|t−τ|} is the mean of |B|² x (2 − x)/|1 − x − e^{iω}|², Lemma C.4 made exact."""
    beta = noise.coefficients(900)
    got = float(noise.averaged_variance(rate))
    omega = np.arange(4096) * (2 * np.pi / 4096)
    low_pass = rate * (2 - rate) / np.abs(1 - rate - np.exp(1j * omega)) ** 2
    by_time = oracles.averaged_variance(beta, rate)
    by_series = (np.abs(np.fft.fft(beta, 4096)) ** 2 * low_pass).mean()
    by_spectrum = (noise.power_spectrum(omega) * low_pass).mean()
    for value in (by_time, by_series, by_spectrum):
        assert math.isclose(got, value, rel_tol=1e-11)
    if abs(rate - 1) > 0.01:
        assert not math.isclose(got, by_time / (2 - rate), rel_tol=1e-3)  # the printed weight, x instead of x (2 − x)
    assert not math.isclose(got * (1 + 1e-6), by_time, rel_tol=1e-11)


@pytest.mark.parametrize("noise", [DPSGD(), NuFTRL(0.0), NuFTRL(0.1), AntiPGD(0.0), ProductNoise([0, 0.1], [1, -0.5]),
                                   ProductNoise([0.0], [-0.5]), FiniteNoise([1, -2])])  # fmt: skip
def test_averaged_variance_keeps_the_shape(noise):
    for shape in [(), (0,), (3,), (2, 2)]:
        values = noise.averaged_variance(np.full(shape, 0.3))
        assert isinstance(values, np.ndarray)
        assert values.shape == shape
        assert values.dtype == np.float64
    assert (noise.averaged_variance(0.3) == INF) == (noise == ProductNoise([0.0], [-0.5]))


# -- power spectrum ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("omega", [0.0, 1e-300, 1e-12, 1e-3, 1.0, np.pi / 2, np.pi - 1e-9, np.pi, -1e-6, 7.0, 1e3])
def test_power_spectrum_at_all_frequencies(omega):
    product = ProductNoise([0, 1e-9, 2, 0.3], [0.5, -2, 1, -1.3])
    for noise in [DPSGD(), *map(NuFTRL, ENDS), *map(AntiPGD, ENDS), product]:
        exact = oracles.product_power(noise.gaps, noise.exponents, omega)
        if exact == 0 or exact > 1e-290:
            assert oracles.relative_error(noise.power_spectrum(omega), exact) < 1e-14, noise
    for beta in [[1.0], [1.0, -1.0], [1.0, 1.0], [1.0, -2.0, 1.0], [1.0, 0.3, -0.7, 0.2], [1.0, -1.0, 0.5, -0.5]]:
        root, exact = math.sqrt(FiniteNoise(beta).power_spectrum(omega)), mp.sqrt(oracles.polynomial_power(beta, omega))
        assert abs(root - exact) < 1e-15 * len(beta) * np.abs(beta).sum()
        if beta in ([1.0, -1.0], [1.0, -1.0, 0.5, -0.5]) and omega != 1e3:  # one zero at ω = 0
            assert oracles.relative_error(root, exact) < 1e-14 or abs(omega) < 1e-200


def test_power_spectrum_is_infinite_at_its_poles():
    assert ProductNoise([0.0], [-0.5]).power_spectrum([0.0, 1.0])[0] == INF
    assert ProductNoise([0.0, 2.0], [-1.0, 0.5]).power_spectrum(np.zeros((2, 1))).tolist() == [[INF], [INF]]


# -- sensitivity -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [DPSGD(), NuFTRL(0.0), NuFTRL(0.1), NuFTRL(1.5), AntiPGD(0.0), AntiPGD(0.3), ProductNoise([0.1, 2.0], [0.5, -1.0]),
     FiniteNoise([1, -2]), FiniteNoise([2.0, -1.0, 0.5]), FiniteNoise([1, 0.5, 3.0, -1.0])],
)  # fmt: skip
def test_sensitivity_is_the_largest_column_norm_of_the_explicit_inverse(noise):
    for steps in (1, 2, 3, 9):
        exact = oracles.sensitivity(noise.coefficients(steps), steps)
        assert oracles.relative_error(noise.sensitivity(Participation.single(steps)), exact) < 4e-15
        assert oracles.relative_error(noise.sensitivity(Participation.single(steps)), exact) < 4e-15
    assert oracles.relative_error(noise.sensitivity(Participation.single(9)) ** 2, exact) > 1e-6 or noise == DPSGD()


@given(noises(), st.integers(1, 200), st.integers(1, 200))
def test_sensitivity_never_decreases_and_tends_to_its_limit(noise, first, more):
    one, two = noise.sensitivity(Participation.single(first)), noise.sensitivity(Participation.single(first + more))
    assert 1 / abs(noise.coefficients(1)[0]) <= one * (1 + 1e-15)
    assert one <= two * (1 + 1e-15)
    assert two <= noise.limiting_sensitivity() * (1 + 1e-12)


@given(gaps(1e-9), st.integers(1, 3000))
def test_table_2_damped_anti_pgd(damping, steps):
    with workdps(40):
        a = mpf(damping)
        exact = mp.sqrt((1 - (1 - a) ** (2 * steps)) / (a * (2 - a)))
    assert oracles.relative_error(AntiPGD(damping).sensitivity(Participation.single(steps)), exact) < 4e-15
    assert oracles.relative_error(AntiPGD(damping).limiting_sensitivity(), 1 / mp.sqrt(a * (2 - a))) < 1e-15


@pytest.mark.parametrize("nu", ENDS[1:])
def test_limit_of_nu_ftrl(nu):
    with workdps(40):
        exact = mp.sqrt(1 / mp.agm(mpf(nu), 2 - mpf(nu)))
    assert oracles.relative_error(NuFTRL(nu).limiting_sensitivity(), exact) < 1e-15
    if nu > 1e-60:
        assert oracles.relative_error(ProductNoise([nu], [0.5]).limiting_sensitivity(), exact) < 1.5e-14


@pytest.mark.slow
@settings(max_examples=15)
@given(product_noises(1e-12))
def test_limit_of_products(noise):
    exact = mp.sqrt(oracles.spectrum_mean(noise.gaps, -noise.exponents))
    stated = 1e-14 * (1 + np.abs(noise.exponents).sum())
    assert oracles.relative_error(noise.limiting_sensitivity(), exact) < stated


def test_beyond_minimum_phase_the_integral_is_not_the_limit():
    """γ_T² = (4^T − 1)/3 for (1, −2); equation (5) as printed says 1/3."""
    noise = FiniteNoise([1, -2])
    for steps in (1, 2, 10, 25):
        assert noise.sensitivity(Participation.single(steps)) ** 2 == pytest.approx((4**steps - 1) / 3, rel=1e-15)
    assert noise.limiting_sensitivity() == noise.sensitivity_upper_bound(ANY_LENGTH) == INF
    omega = np.arange(256) * (2 * np.pi / 256)
    assert (1 / noise.power_spectrum(omega)).mean() == pytest.approx(1 / 3, rel=1e-14)
    assert FiniteNoise([-2, 1]).limiting_sensitivity() ** 2 == pytest.approx(1 / 3, rel=1e-15)


@pytest.mark.parametrize(
    "noise",
    [NuFTRL(0), AntiPGD(0), ProductNoise([0], [0.5]), ProductNoise([2], [0.7]), ProductNoise([0, 2], [0.2, 0.5]),
     FiniteNoise([1, -2, 1]), FiniteNoise([1, -1.5, 0.5]), FiniteNoise([1, 0, 1]), FiniteNoise([1, -2.5]),
     FiniteNoise([1, -2.125, 1.4375, -0.3125]),
     FiniteNoise([1.0, -1.1923573701797223, -0.6152852589280595, 0.8076426291077818])],  # the sum is exactly 0
)  # fmt: skip
def test_divergent_sensitivities_are_infinite(noise):
    assert noise.limiting_sensitivity() == INF
    assert noise.sensitivity_upper_bound(ANY_LENGTH) == noise.variance() == INF
    assert noise.sensitivity(Participation.single(4000)) > 1.2 * noise.sensitivity(Participation.single(40))


def test_weak_poles_on_the_circle_converge():
    for e in (0.4999, 0.3, -0.5, -2.0):
        with workdps(40):
            exact = mp.sqrt(mp.gamma(1 - 2 * mpf(e)) / mp.gamma(1 - mpf(e)) ** 2)
        assert oracles.relative_error(ProductNoise([0], [e]).limiting_sensitivity(), exact) < 1e-14 * (1 + abs(e))


# -- what a release rests on -------------------------------------------------------------------------------------------


def multiplier(noise, rho, who=ANY_LENGTH, adjacency="zero-out"):
    return Budget(rho, adjacency=adjacency).multiplier(noise.sensitivity_upper_bound(who))


def exact_sensitivity(noise, steps):
    if isinstance(noise, FiniteNoise):
        return oracles.norm(oracles.reciprocal(noise.values, steps))
    return oracles.norm(oracles.product_coefficients(noise.gaps, -noise.exponents, steps))


@given(noises(), st.integers(1, 80), log_uniform(1e-9, 1e9), st.sampled_from(["zero-out", "replace-one"]))
def test_privacy_never_errs_downwards(noise, steps, rho, adjacency):
    gamma = exact_sensitivity(noise, steps)
    assert gamma <= mpf(noise.sensitivity_upper_bound(Participation.single(steps))) <= gamma * (1 + mpf("1e-12"))
    assert oracles.relative_error(noise.sensitivity(Participation.single(steps)), gamma) < 1e-13
    with workdps(40):
        exact = gamma * (1 if adjacency == "zero-out" else 2) / mp.sqrt(2 * mpf(rho))
        assert (
            exact <= mpf(multiplier(noise, rho, Participation.single(steps), adjacency)) <= exact * (1 + mpf("1e-12"))
        )


@pytest.mark.slow
@given(noises(), log_uniform(1e-9, 1e9))
def test_privacy_never_errs_downwards_in_the_limit(noise, rho):
    with workdps(40):
        if isinstance(noise, FiniteNoise):
            square = oracles.exactly(oracles.squared_norm_of_reciprocal(noise.values))
        else:
            square = oracles.spectrum_mean(noise.gaps, -noise.exponents)
        exact = mp.sqrt(square / (2 * mpf(rho)))
        assert exact <= mpf(multiplier(noise, rho)) <= exact * (1 + mpf("1e-12"))


def test_without_the_margin_privacy_would_err_downwards():
    """The mutant: γ_T/sqrt(2ρ) in plain float64 is too small for some."""
    plain = [(NuFTRL(nu), t) for nu in np.linspace(0.1, 1.9, 19) for t in (2, 5, 9)]
    assert any(mpf(noise.sensitivity(Participation.single(t))) < exact_sensitivity(noise, t) for noise, t in plain)


@pytest.mark.parametrize("distance", [1e-2, 1e-4, 1e-8])
def test_ill_conditioned_noise_carries_its_error(distance):
    beta = np.convolve(np.convolve([1, -(1 - distance)], [1, -(1 - 2 * distance)]), [1, 1 - distance])
    noise = FiniteNoise(beta)
    with workdps(60):
        exact = mp.sqrt(oracles.exactly(oracles.squared_norm_of_reciprocal(noise.values)) / 2)
        assert exact <= mpf(multiplier(noise, 1.0))
        finite = exact_sensitivity(noise, 1500) / mp.sqrt(2)
        assert finite <= mpf(multiplier(noise, 1.0, Participation.single(1500)))


@pytest.mark.parametrize(
    "beta",
    [
        [1.0, 1.30685946360353, -0.38627998223778126, -0.6931394458414593],
        [1.0, 2.775999552275641, 2.5519996175160102, 0.7760000652403661],
        [1.0, -2.247467128811949, 1.4949344619516274, -0.24746733313967684],
    ],
)
def test_the_limit_of_ill_conditioned_noise_errs_on_the_safe_side(beta):
    """Double-double arithmetic loses half its digits here, so that γ_∞ alone would be too small."""
    noise = FiniteNoise(beta)
    with workdps(60):
        exact = mp.sqrt(oracles.exactly(oracles.squared_norm_of_reciprocal(beta)))
        assert exact <= mpf(multiplier(noise, 0.5)) <= exact * (1 + mpf("1e-6"))


@pytest.mark.parametrize(
    "first",
    [
        [1.0, -1.9751824336755028, 0.9751834138008406],
        [1.0, -1.9808863962190242, 0.9809617233420483],
        [1.0, 1.9572650237384601, 0.9572657089478932],
        [1.0, -0.9850546424383592, -0.9999975739514254, 0.9850528624485746],
    ],
)
def test_long_ill_conditioned_noise_carries_its_error(first):
    """4491 coefficients at 4500 steps, too many for the term by term route."""
    beta = np.zeros(4491)
    beta[: len(first)], beta[-1] = first, 1e-30  # the last one changes nothing that can be seen
    exact = oracles.norm(oracles.reciprocal(first, 4500, 60))
    assert exact <= FiniteNoise(beta).sensitivity_upper_bound(Participation.single(4500))


def test_units():
    assert AntiPGD(0.5).variance(Budget(2.0, clip_norm=3.0)) == pytest.approx(2.25 / 0.75, rel=1e-15)
    doubled = Budget(2.0, clip_norm=3.0, adjacency="replace-one")
    assert AntiPGD(0.5).variance(doubled) == pytest.approx(4 * 2.25 / 0.75, rel=1e-15)
    who = Participation.single(10)
    for noise in (NuFTRL(0.1), AntiPGD(0.1), FiniteNoise([1, -0.5])):
        single, double = (multiplier(noise, 0.5, who, kind) for kind in ("zero-out", "replace-one"))
        assert double == 2 * single
        assert multiplier(noise, 2.0, who) == pytest.approx(single / 2, rel=1e-15)


# -- identity ----------------------------------------------------------------------------------------------------------


def test_canonical_form_of_products():
    noise = ProductNoise([0.5, 1.0, 0.3, 0.5, 0.0], [0.5, 7.0, 0.0, 0.25, -0.5])
    assert noise.gaps.tolist() == [0.0, 0.5]
    assert noise.exponents.tolist() == [-0.5, 0.75]
    assert noise == ProductNoise([0.5, 0.0], [0.75, -0.5])
    assert hash(noise) == hash(ProductNoise([0.5, 0.0], [0.75, -0.5]))
    assert noise != ProductNoise([0.5, 0.0], [0.75, -0.5 + 1e-15])
    assert ProductNoise(0.5, 0.5) == ProductNoise([0.5], [0.5])
    assert ProductNoise([0.5, 0.5], [1.0, -1.0]).gaps.size == 0
    assert ProductNoise([-0.0], [0.5]) == ProductNoise([0.0], [0.5])
    assert FiniteNoise([1, 0.5, 0, 0]) == FiniteNoise([1.0, 0.5])
    assert FiniteNoise([1, -0.0, 1]) == FiniteNoise([1, 0, 1])
    assert NuFTRL(0.1) != ProductNoise([0.1], [0.5])  # equality is of one kind
    assert len({NuFTRL(0.1), NuFTRL(0.1), NuFTRL(0.2), DPSGD(), DPSGD()}) == 3
