"""Problems over which the claims are searched, and quantities of them that do without the formulas that are checked."""

import math
from functools import cache

import numpy as np

from corrnoise.paper_checks.machinery.domains import one_of, regressions
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import circle_mean, modulus
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.strongly_convex import StronglyConvex

STABLE = regressions(largest=1.0, multiplicity=10_000)  #: Gaussian inputs
ANY_INPUTS = regressions(kurtosis=(1, 1000), multiplicity=10_000)
NO_PRIVACY = Budget(1e30)  #: so large that the privacy noise is lost in rounding
F_IN_HALVES = {
    "whole": 2.0,
    "half": 1.0,
}  #: F by its meaning, in units of that with the factor ½, as errors are computed
SLOW = ProductNoise([1e-9], [-1.0])  #: noise that varies slowly
CLIP_NORMS = one_of(0.1, 1.0, 10.0)  #: G, with ρ = 1/G, so that a bound with other powers of G or ρ fails


def budget(clip_norm: float) -> Budget:
    """ρ = 1/G and G."""
    return Budget(1 / clip_norm, clip_norm=clip_norm)


def spectral_mean(noise: ToeplitzNoise, exponent: int, rate: float | None = None) -> float:
    """(1/2π) ∫ |B|^{2 exponent} dω, or of that over |1 − x − e^{iω}|² with x = ``rate``, by quadrature."""

    def integrand(c: Array, s: Array, w: Array) -> float:
        power = noise.power_spectrum(2 * np.arctan2(s, c)) ** exponent
        return float((w * power / (1 if rate is None else modulus(rate, c, s) ** 2)).sum())

    gap = 1.0 if rate is None else min(rate, 2 - rate)
    return float(circle_mean(integrand, near_zero=min(gap, 1e-7), near_pi=min(gap, 1e-7), agreement=1e-12))


def averages_by_quadrature(noise: ToeplitzNoise, rates: Array) -> Array:
    """b(x) = (x (2 − x)/2π) ∫ |B|²/|1 − x − e^{iω}|² dω by quadrature, shape of ``rates``; independent of ``averaged_variance``."""
    distinct, place = np.unique(rates, return_inverse=True)
    return np.array([x * (2 - x) * spectral_mean(noise, 1, float(x)) for x in distinct])[place]


def noise_matrix(noise: ToeplitzNoise, steps: int) -> Array:
    """The noise coefficients as a lower-triangular Toeplitz matrix, shape (steps, steps)."""
    from scipy.linalg import toeplitz

    return np.asarray(toeplitz(noise.coefficients(steps), np.zeros(steps)))


LOSS = StronglyConvex(6e-5, 0.04, 1.0)


def line(frequencies: Array) -> Array:
    """A power spectrum that is a narrow line."""
    return np.exp(-(((frequencies - math.pi / 4) / 0.01) ** 2) / 2) + 1e-8


@cache
def second_moment(chains: int = 64, steps: int = 2**15) -> tuple[float, float]:
    """E θ² of F' = L θ₊ − μ θ₋ under Gaussian noise with that spectrum, and its standard error."""
    white = np.random.default_rng(0).standard_normal((2 * steps, chains))
    scale = np.sqrt(line(np.linspace(0, math.pi, steps + 1)))
    theta = np.full(chains, -0.27)
    total = np.zeros(chains)
    for t, noise in enumerate(np.fft.irfft(np.fft.rfft(white, axis=0) * scale[:, np.newaxis], axis=0)):
        theta = theta - (np.maximum(LOSS.smoothness * theta, LOSS.strong_convexity * theta) + noise)
        total += theta**2 * (t >= steps)
    return float(total.mean()) / steps, float(total.std(ddof=1)) / steps / math.sqrt(chains)
