"""The draws by operations on arrays, in PyTorch and JAX on any device: the same bits as on the host.

``normals`` forms each coordinate by itself, of operations that IEEE 754 defines to the last bit.  Three things keep its
bits those of ``run/normals.py``, in eager and in compiled programs:

- A product that feeds a sum is formed as x·y + ν, where the argument ν holds −0.0.  A compiler may turn this into one
  fused operation, which returns the rounded product, and cannot fuse the sum that follows.  It would leave out a
  constant.
- Products of two words of 32 bits wrap in int64; shifts are masked.
- The root is wrong in the last place on some processors, and gets one step of Newton's method, where the square of
  the root is an exact sum of two floats (Dekker).

Devices without float64 are refused by the libraries themselves.
"""

from __future__ import annotations

from typing import Any

from corrnoise.simulations.run import normals as host

_LOW_WORD = 0xFFFFFFFF
_BLOCK_PAIRS = 1024
_ROUND_MULTIPLIERS = tuple(int(each) for each in host.ROUND_MULTIPLIERS)
_KEY_INCREMENTS = tuple(int(each) for each in host.KEY_INCREMENTS)
_ROOT_HALF = int(host.ROOT_HALF)
_ATANH_COEFFICIENTS, _SINE_COEFFICIENTS, _COSINE_COEFFICIENTS = (
    each.tolist() for each in (host.ATANH_COEFFICIENTS, host.SINE_COEFFICIENTS, host.COSINE_COEFFICIENTS)
)


def normals(xp: Any, seed: Any, index: Any, nu: Any) -> Any:
    """The standard normals of some coordinates, float64, of the shape of ``index``; may be compiled.

    ``xp`` is ``torch`` or ``jax.numpy`` with 64 bits; ``seed`` a row of ``draws.seeds``, int64; ``index`` the
    coordinates of the flattened model, int64; ``nu`` an array of float64 that holds −0.0, an argument of the compiled
    program.
    """
    place = index & (2 * _BLOCK_PAIRS - 1)
    radial, angular = _philox(seed, (index >> 11) * _BLOCK_PAIRS + (place & (_BLOCK_PAIRS - 1)))
    squared = _logarithms(xp, radial, nu)
    return _turned(xp, root_of(squared, xp.sqrt(squared), nu), angular, place >= _BLOCK_PAIRS, nu)


def _philox(seed: Any, counter: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Two words of 64 bits of each counter, as halves (low, high)."""
    k0, k1, c2, c3 = seed[0], seed[1], seed[2], seed[3]
    c0, c1 = counter & _LOW_WORD, counter >> 32
    for _ in range(host.PHILOX_ROUNDS):
        p0, p1 = c0 * _ROUND_MULTIPLIERS[0], c2 * _ROUND_MULTIPLIERS[1]
        c0, c1, c2, c3 = high_words(p1) ^ c1 ^ k0, p1 & _LOW_WORD, high_words(p0) ^ c3 ^ k1, p0 & _LOW_WORD
        k0, k1 = (k0 + _KEY_INCREMENTS[0]) & _LOW_WORD, (k1 + _KEY_INCREMENTS[1]) & _LOW_WORD
    return (c0, c1), (c2, c3)


def high_words(product: Any) -> Any:
    """The upper 32 bits of a product that may have wrapped."""
    return (product >> 32) & _LOW_WORD


def _real(xp: Any, whole: Any, nu: Any) -> Any:
    """Integers as float64, the type of ν."""
    return xp.asarray(whole, dtype=nu.dtype)


def _unit(xp: Any, low: Any, high: Any, nu: Any) -> Any:
    """(w + ½)/2⁶⁴, where the sum of the halves is rounded once."""
    return (_real(xp, high, nu) * 2.0**32 + _real(xp, low, nu) + 0.5) * 2.0**-64


def _logarithms(xp: Any, word: tuple[Any, Any], nu: Any) -> Any:
    """−2 log((w + ½)/2⁶⁴), as on the host."""
    low, high = word
    bits = _unit(xp, low, high, nu).view(low.dtype)
    power = (bits - _ROOT_HALF) >> 52
    fraction = (bits - (power << 52)).view(nu.dtype)
    exponent = _real(xp, power, nu)
    missing = _unit(xp, low ^ _LOW_WORD, high ^ _LOW_WORD, nu)
    excess = xp.where(power == 0, -missing, fraction - 1.0)
    s = excess / (excess + 2.0)
    z = s * s
    tail = _ATANH_COEFFICIENTS[10]
    for k in range(9, 0, -1):
        tail = (z * tail + nu) + _ATANH_COEFFICIENTS[k]
    rest = (s * z * tail + nu) + (exponent * host.LOG2_LOW + nu)
    return -2.0 * (exponent * host.LOG2_HIGH + (2.0 * s + rest))  # both products are exact


def root_of(x: Any, s: Any, nu: Any) -> Any:
    """The correctly rounded root of positive numbers x, from roots s with an error of a unit in the last place."""
    spread = s * (2.0**27 + 1) + nu
    high = spread - (spread - s)
    low = s - high
    square = s * s + nu
    error = ((high * high - square) + 2.0 * (high * low)) + low * low
    return s + ((x - square) - error) / (2.0 * s)


def _turned(xp: Any, radius: Any, word: tuple[Any, Any], sines: Any, nu: Any) -> Any:
    """The radius times the cosine of an angle, or its sine, as on the host."""
    low, high = word
    angle = low | (high << 32)
    quarter = ((angle + 2**61) >> 62) & 3
    x = _real(xp, angle - (quarter << 62), nu) * host.WORD_RADIANS + nu
    z = x * x
    sine = _SINE_COEFFICIENTS[7]
    for k in range(6, 0, -1):
        sine = (z * sine + nu) + _SINE_COEFFICIENTS[k]
    sine = x + (x * z * sine + nu)
    cosine = _COSINE_COEFFICIENTS[8]
    for k in range(7, 1, -1):
        cosine = (z * cosine + nu) + _COSINE_COEFFICIENTS[k]
    cosine = 1.0 - (0.5 * z - (z * z * cosine + nu))
    swapped = (quarter & 1) != sines  # the cosine of an odd quarter turn is a sine
    negative = xp.where(sines, quarter >> 1, ((quarter + 1) >> 1) & 1)
    return radius * xp.where(swapped, sine, cosine) * (1.0 - 2.0 * _real(xp, negative, nu))
