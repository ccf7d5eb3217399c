"""Bounded power spectra against mpmath: rounding, complex frequencies, singular ends."""

import cmath
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.mechanisms import spectra
from corrnoise.theory.mechanisms.banded_strategy import BandedStrategyNoise
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.spectra import SPECTRA, spectrum_of
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from tests.strategies import gaps, log_uniform, minimum_phase_coefficients, noises, product_noises

cepstral_noises = st.builds(
    lambda c, a, decay: CepstralNoise(np.array(c) * decay ** np.arange(len(c)), a),
    st.lists(st.floats(-1, 1), min_size=1, max_size=30),
    st.sampled_from([0.0, 0.5, -0.9, 0.99]),
    st.floats(0.1, 0.9),
)
pole_noises = st.builds(PoleNoise, st.lists(gaps(1e-6), min_size=1, max_size=3), st.just([0.3]))
banded_strategies = minimum_phase_coefficients().map(BandedStrategyNoise)
all_noises = noises() | cepstral_noises | pole_noises | banded_strategies
places = st.floats(1e-6, math.pi) | log_uniform(1e-9, 1.0).map(lambda t: math.pi - t)


def continued(noise, z):
    """S at a complex frequency, from B(e^{iz}) B(e^{−iz}) as its definition says, in mpmath's precision."""
    if isinstance(noise, BandedStrategyNoise):
        return 1 / continued(noise.inverse, z)
    if isinstance(noise, FiniteNoise):
        beta = [mp.mpf(float(b)) for b in noise.values]
        return mp.fprod(mp.fsum(b * mp.exp(sign * 1j * t * z) for t, b in enumerate(beta)) for sign in (1, -1))
    if isinstance(noise, CepstralNoise):
        a, total = mp.mpf(noise.warp), mp.mpf(0)
        for sign in (1, -1):
            point = mp.exp(sign * 1j * z)
            zeta = (point - a) / (1 - a * point)
            total += mp.fsum(mp.mpf(float(c)) * (zeta**n - (-a) ** n) for n, c in enumerate(noise.cepstrum, start=1))
        return mp.exp(total)
    squares = (
        (mp.mpf(float(a)) ** 2 + 4 * (1 - mp.mpf(float(a))) * mp.sin(z / 2) ** 2, mp.mpf(float(e)))
        for a, e in zip(noise.gaps, noise.exponents, strict=True)
    )
    return mp.fprod(square**e for square, e in squares)


# -- rounding ----------------------------------------------------------------------------------------------------------


def test_elementary_functions_are_right_to_four_units_in_the_last_place():
    """The assumption about numpy on which the bounds rest, on the ranges that occur, for 14 000 arguments."""
    rng = np.random.default_rng(0)
    half = np.concatenate([rng.uniform(0, math.pi / 2, 1000), math.pi / 2 - np.exp(rng.uniform(-25, 0, 1000))])
    base = np.exp(rng.uniform(-40, 1, 2000))
    exponent = rng.uniform(-4, 4, 2000)
    phases = rng.uniform(-40, 40, 2000)
    computed = {
        "cos": (np.cos(half), mp.cos, (half,)),
        "sin": (np.sin(half), mp.sin, (half,)),
        "hypot": (np.hypot(base, half), mp.hypot, (base, half)),
        "power": (base**exponent, mp.power, (base, exponent)),
        "atan2": (np.arctan2(half, base), mp.atan2, (half, base)),
        "exp": (np.exp(phases), mp.exp, (phases,)),
        "real": (np.exp(1j * phases).real, mp.cos, (phases,)),
    }
    with mp.workdps(40):
        for name, (values, exact, arguments) in computed.items():
            for value, *point in zip(values, *arguments, strict=True):
                right = exact(*(mp.mpf(float(x)) for x in point))
                assert abs(mp.mpf(float(value)) - right) <= 8 * mp.mpf(2) ** -53 * abs(right), (name, point)


@given(all_noises, places)
def test_values_are_rounded_up(noise, omega):
    """The bound exceeds the value at 40 digits; the computed value differs from it by no more than the allowance."""
    values, upper = spectrum_of(noise).rounded(np.array([omega]))
    with mp.workdps(40):
        exact = continued(noise, mp.mpf(omega)).real
        assert exact <= mp.mpf(upper[0])
        assert abs(mp.mpf(values[0]) - exact) <= mp.mpf(upper[0]) - mp.mpf(values[0])
    allowance = 1e-15 * np.abs(noise.coefficients(64)).sum() ** 2
    if isinstance(noise, BandedStrategyNoise):  # the rounding errors are those of the polynomial C, S = 1/|C|²
        allowance = 1e-12 * np.abs(noise.values).sum() * values[0] ** 1.5
    assert upper[0] <= values[0] * (1 + 1e-9) + allowance


def test_allowances_for_rounding_are_needed():
    """Some computed values lie below the exact ones: without the allowance the test above would fail."""
    below = 0
    with mp.workdps(40):
        for noise in (NuFTRL(0.013), FiniteNoise([1.0, -0.7, 0.3]), CepstralNoise([0.4, -0.3, 0.2], 0.5)):
            omega = np.linspace(0.1, 3.0, 50)
            values, _ = spectrum_of(noise).rounded(omega)
            below += sum(v < continued(noise, mp.mpf(w)).real for v, w in zip(values, omega, strict=True))
    assert below > 20


@pytest.mark.slow
def test_cosine_sums_of_many_terms_are_interpolated():
    """Slowly and quickly decaying cepstra, at both ends, on and off the grid, at 40 digits."""
    for decay, warp in ((1.0, 0.0), (0.998, 0.99), (0.9, -0.5)):
        noise = CepstralNoise(0.3 * decay ** np.arange(1, 1500) / np.arange(1, 1500), warp)
        spectrum = spectrum_of(noise)
        grid = 2 * np.pi * np.array([0, 1, 5, 777, spectrum._grid // 2]) / spectrum._grid
        omega = np.concatenate([grid if warp == 0 else [0.0], [1e-9, 1e-3, 0.4, 2.9, math.pi - 1e-6, math.pi]])
        values, upper = spectrum.rounded(omega)
        with mp.workdps(40):
            exact = np.array([float(continued(noise, mp.mpf(w)).real) for w in omega])
        assert (exact <= upper).all()
        np.testing.assert_allclose(values, exact, rtol=1e-12)
        np.testing.assert_allclose(upper, values, rtol=1e-10)
        assert spectrum._interpolation_error(np.abs(noise.cepstrum)) <= 2e-16 * np.abs(noise.cepstrum).sum()


# -- complex frequencies -----------------------------------------------------------------------------------------------


@given(all_noises, places, log_uniform(1e-9, 0.5), st.floats(0, 2 * math.pi))
def test_bounds_on_discs(noise, omega, radius, angle):
    values, largest = spectrum_of(noise).on_discs(np.array([omega]), np.array([radius]))
    with mp.workdps(40):
        assert values[0] == pytest.approx(float(continued(noise, mp.mpf(omega)).real), rel=1e-6)
        for share in (1.0, 0.5):
            z = mp.mpf(omega) + share * radius * mp.expjpi(angle / math.pi)
            if math.isfinite(largest[0]):
                assert abs(continued(noise, z)) <= largest[0]


@given(all_noises, places)
def test_bounds_on_small_discs_are_close(noise, omega):
    """So that a bound that is a third too small, or of a disc half as large, would be refuted; and they grow."""
    spectrum = spectrum_of(noise)
    radius = 1e-4 * min(1.0, float(spectrum.reach(np.array([omega]))[0]))
    values, largest = spectrum.on_discs(np.array([omega]), np.array([radius]))
    slope = np.abs(noise.coefficients(64)).sum() ** 2 * 64**2 if isinstance(noise, FiniteNoise) else 0.0
    assert values[0] <= largest[0] <= 1.1 * values[0] + slope * radius
    larger = spectrum.on_discs(np.array([omega]), np.array([2 * radius]))[1]
    assert larger[0] >= largest[0]


def test_bounds_on_discs_are_not_idle():
    """They exceed the largest value on the rim by a small factor, though a zero or pole is near."""
    omega, radius = np.array([1e-6]), np.array([0.05])
    for exponent in (0.5, -0.5, 2.0):
        noise = ProductNoise([0.1], [exponent])
        largest = float(spectrum_of(noise).on_discs(omega, radius)[1][0])
        rim = [abs(complex(continued(noise, 1e-6 + 0.05 * cmath.exp(1j * t)))) for t in np.linspace(0, 2 * math.pi, 90)]
        assert max(rim) <= largest
        assert largest <= 4 * max(rim)
    finite = FiniteNoise([1.0] + 99 * [0.0] + [-0.5])
    largest = float(spectrum_of(finite).on_discs(np.array([1.0]), np.array([0.05]))[1][0])
    rim = [abs(complex(continued(finite, 1 + 0.05 * cmath.exp(1j * t)))) for t in np.linspace(0, 2 * math.pi, 90)]
    assert max(rim) <= largest <= 10 * max(rim)


@given(product_noises() | cepstral_noises, places)
def test_nothing_is_finite_beyond_the_reach(noise, omega):
    """Every pole or zero lies at ±i log|1 − a| above 0 or π, at least as far away as the reach."""
    spectrum = spectrum_of(noise)
    reach = float(spectrum.reach(np.array([omega]))[0])
    if isinstance(noise, ProductNoise):
        singular = [
            complex(0.0 if a < 1 else math.pi, math.log(abs(1 - a)) if a not in (0, 2) else 0) for a in noise.gaps
        ]
        distances = [abs(omega - z) for z in singular]
        if min(distances, default=math.inf) < math.inf:
            assert reach <= min(distances) * (1 + 1e-9)
            assert reach >= 0.2 * min(1.0, min(distances))
        assert spectrum.on_discs(np.array([omega]), np.array([1.01 * reach]))[1][0] == math.inf or not noise.gaps.size
    else:
        assert reach == math.inf


# -- singular ends -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-0.25, -0.45, -0.4999, 0.25, 0.5, 2.5])
@pytest.mark.parametrize("other", [(0.3, -1.0), (1.7, 0.7), (0.3, 0.5)])
@pytest.mark.parametrize("end", [0, 1])
def test_integral_beside_a_singular_end(exponent, other, end):
    noise = ProductNoise([2.0 * end, other[0]], [exponent, other[1]])
    spectrum = spectrum_of(noise)
    width = spectrum.singular_ends[end]
    assert spectrum.singular_ends[1 - end] == 0
    assert 0 < width <= 1e-9
    width = max(width, 1e-10)
    edge = math.pi - width if end else width
    with mp.workdps(40):
        start = abs(mp.pi * end - mp.mpf(edge))
        # ∫₀ʷ t^{2e} g(t) dt with g = S t^{−2e} smooth: t = w v^{1/(2e+1)} takes the singularity out.
        power = 2 * mp.mpf(exponent) + 1

        def smooth(v):
            t = start * v ** (1 / power)
            gap = mp.mpf(other[0]) if end == 0 else 2 - mp.mpf(other[0])  # mirrored, so that nothing cancels at π
            factor = (gap**2 + 4 * (1 - gap) * mp.sin(t / 2) ** 2) ** mp.mpf(other[1])
            return factor * (2 * mp.sin(t / 2) / t) ** (power - 1)

        exact = start**power / power * mp.quad(smooth, [mp.mpf(10) ** -30, 1]) / mp.pi
        bound = spectrum.near_end(end, edge)
        assert exact <= bound <= exact * (1 + 1e-5)  # at π the width is rounded up by 1e-16
        assert not exact <= bound * (1 - 2e-5)  # the check would notice a bound that is a little too small


@pytest.mark.parametrize("exponent", [0.5, 1.0, -0.3, -0.5, -1.0])
@pytest.mark.parametrize("distance", [1e-11, 1e-14])
def test_integral_beside_a_feature_too_close_to_pi_for_floats(exponent, distance):
    """Bounded where it is small; poles of order 1 or more make it too large, and are given up."""
    gap = 2 - distance
    spectrum = spectrum_of(ProductNoise([gap, 0.3], [exponent, 0.5]))
    width = 1e-10
    assert spectrum.singular_ends[1] > 0
    bound = spectrum.near_end(1, math.pi - width)
    if exponent <= -0.5:
        assert bound == math.inf
        return
    with mp.workdps(30):
        start = mp.pi - mp.mpf(math.pi - width)
        mirrored, other = 2 - mp.mpf(gap), 2 - mp.mpf(0.3)

        def power(t):
            near = mirrored**2 + 4 * (1 - mirrored) * mp.sin(t / 2) ** 2
            return near ** mp.mpf(exponent) * mp.sqrt(other**2 + 4 * (1 - other) * mp.sin(t / 2) ** 2)

        exact = mp.quad(power, [0, start / 1000, start / 100, start / 10, start]) / mp.pi
    assert exact <= bound <= 4 * exact


def test_regular_noise_has_no_singular_ends():
    for noise in (DPSGD(), NuFTRL(1e-9), FiniteNoise([1, -1 + 1e-9]), CepstralNoise([0.1])):
        assert spectrum_of(noise).singular_ends == (0.0, 0.0)
    with pytest.raises(NotImplementedError, match="no singular ends"):
        spectrum_of(FiniteNoise([1.0])).near_end(0, 0.1)


# -- kinds -------------------------------------------------------------------------------------------------------------


def test_every_kind_of_the_library_has_bounds():
    assert set(SPECTRA) == {kind for kind in KINDS.values() if issubclass(kind, ToeplitzNoise)}


def test_unknown_kinds_are_refused_also_subclasses(monkeypatch):
    class Louder(NuFTRL):
        def _power(self, cosine, sine):
            return 2 * super()._power(cosine, sine)

    with pytest.raises(TypeError, match="spectrum can be bounded"):
        spectrum_of(Louder(0.1))
    monkeypatch.setitem(SPECTRA, Louder, spectra.ProductSpectrum)
    assert spectrum_of(Louder(0.1)).noise == Louder(0.1)


@given(minimum_phase_coefficients())
def test_largest_modulus_of_a_polynomial(beta):
    """The bound from samples exceeds the largest modulus on a much finer grid, by 2 % at most."""
    spectrum = spectrum_of(FiniteNoise(beta))
    finest = np.abs(np.fft.rfft(beta, 2**14)).max()
    assert finest <= spectrum._largest <= 1.02 * finest + 1e-12


def test_anti_pgd_is_the_same_as_a_product_and_as_a_polynomial():
    omega, radii = np.linspace(0.1, 3, 20), np.full(20, 1e-3)
    as_product = spectrum_of(AntiPGD(0.2)).on_discs(omega, radii)
    as_polynomial = spectrum_of(FiniteNoise([1.0, -0.8])).on_discs(omega, radii)
    np.testing.assert_allclose(as_product[0], as_polynomial[0], rtol=1e-13)
    np.testing.assert_allclose(as_product[1], as_polynomial[1], rtol=2e-2)
