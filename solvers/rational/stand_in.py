"""Noise with few poles in place of noise with a long memory: a product, or a factorised spectrum."""

from __future__ import annotations

from corrnoise.theory.mechanisms import rational as products
from corrnoise.theory.mechanisms.cepstral import CepstralNoise
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors


@usual_float_errors
def rational(noise: ToeplitzNoise, tolerance: float) -> PoleNoise | FiniteNoise:
    """Approximate correlated noise by noise with few poles, which takes O(poles) memory and time a step.

    The result differs from ``noise``: its privacy follows from *its own* sensitivity, never from the sensitivity of
    ``noise``.

    Parameters
    ----------
    noise : ProductNoise, CepstralNoise or FiniteNoise
        A product (``NuFTRL``, ``AntiPGD``, optimal noise, …) with exponents of at most 80 in modulus, without a pole on
        the unit circle and without a fractional zero within 1e-60 of it; a factorised spectrum; or noise with finitely
        many coefficients, which is returned unchanged.
    tolerance : float
        Bound of the relative error of the limiting sensitivity and of the averaged variances b(x) at the rates x of
        the noise, up to 1; in [1e-12, 1).  The power spectrum of the approximation of a product at a single frequency
        has errors of about sqrt(tolerance).

    Returns
    -------
    PoleNoise or FiniteNoise
        The approximation.

    Raises
    ------
    TypeError
        The noise is of another class.
    ValueError
        The memory of the noise does not decay (ν = 0), or too many poles would be needed.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.mechanisms.rational(cn.mechanisms.NuFTRL(0.01), 1e-6).poles.size
    6
    """
    if isinstance(noise, CepstralNoise):
        from corrnoise.solvers.rational.spectrum import reduced_noise  # which loads scipy.optimize

        return reduced_noise(noise, checks.real("tolerance", tolerance, "[1e-12, 1)"))
    if not isinstance(noise, ProductNoise | FiniteNoise):
        raise TypeError(f"noise must be ProductNoise, CepstralNoise or FiniteNoise, got {noise!r:.80}")
    return products.rational(noise, tolerance)
