"""Standard normals from random words, by arithmetic that gives the same numbers on every machine.

Two words of 64 bits give two normals by the transform of Box and Muller: w gives the radius sqrt(−2 log((w + ½)/2⁶⁴)),
and the other the angle in units of 2π/2⁶⁴.  The logarithm, sine and cosine are polynomials, evaluated by additions,
multiplications, divisions and square roots alone, which IEEE 754 defines to the last bit.  The relative error of each
normal is below 1e-15.  The largest possible radius is 9.5, which true normals exceed with probability 2.7e-20.

The words are those of Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011): a counter is encrypted by ten rounds,
which processors do for several counters at once.  ``draws`` says which counter a coordinate has.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.support.kernels import kernel

_BLOCK_PAIRS = 1024  # pairs whose intermediate results stay in the first-level cache
WORD_RADIANS = 2 * math.pi * 2.0**-64
_LOW_WORD = np.uint64(0xFFFFFFFF)
ROUND_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY_INCREMENTS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
PHILOX_ROUNDS = 10
SMALLEST_WORD, LARGEST_WORD = np.uint64(2**46), np.uint64(2**64 - 2**34)  # of a radius that ``fill_groups`` knows
ROOT_HALF = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))  # the bits of sqrt(½)
LOG2_HIGH = float.fromhex("0x1.62e42feep-1")  # 32 bits of log 2: its multiples by exponents are exact
LOG2_LOW = 1.9082149292705877e-10  # log 2 − LOG2_HIGH
ATANH_COEFFICIENTS = np.array([2.0 / (2 * k + 1) for k in range(11)])  # 2 artanh(s) = Σ _ATANH_k s^{2k+1}, s² <= 0.0295
SINE_COEFFICIENTS = np.array([(-1.0) ** k / math.factorial(2 * k + 1) for k in range(8)])  # up to x¹⁵, |x| <= π/4
COSINE_COEFFICIENTS = np.array([(-1.0) ** k / math.factorial(2 * k) for k in range(9)])  # up to x¹⁶


def _logarithms(words, radii):  # type: ignore[no-untyped-def]
    """−2 log((w + ½)/2⁶⁴): with 2^k m and sqrt(½) <= m < sqrt(2), log m = 2 artanh((m − 1)/(m + 1))."""
    fraction = np.empty(words.size)
    bits = fraction.view(np.int64)
    exponent = np.empty(words.size)
    for j in range(words.size):
        fraction[j] = (np.float64(words[j]) + 0.5) * 2.0**-64
    for j in range(words.size):
        k = (bits[j] - ROOT_HALF) >> np.int64(52)
        exponent[j] = np.float64(k)
        bits[j] -= k << np.int64(52)
    for j in range(words.size):
        missing = (np.float64(~words[j]) + 0.5) * 2.0**-64  # 1 − fraction, exact to rounding
        excess = -missing if exponent[j] == 0.0 else fraction[j] - 1.0
        s = excess / (2.0 + excess)
        z = s * s
        tail = ATANH_COEFFICIENTS[10]
        for k in (9, 8, 7, 6, 5, 4, 3, 2, 1):
            tail = tail * z + ATANH_COEFFICIENTS[k]
        log = exponent[j] * LOG2_HIGH + (2.0 * s + (s * z * tail + exponent[j] * LOG2_LOW))
        radii[j] = -2.0 * log


def _turned(radii, words, cosines, sines):  # type: ignore[no-untyped-def]
    """The roots of ``radii`` times cosine and sine: of the nearest quarter turn, and of the rest in [−π/4, π/4]."""
    for j in range(words.size):
        quarter = (words[j] + np.uint64(1 << 61)) >> np.uint64(62)
        x = np.float64(np.int64(words[j] - (quarter << np.uint64(62)))) * WORD_RADIANS
        z = x * x
        sine = SINE_COEFFICIENTS[7]
        for k in (6, 5, 4, 3, 2, 1):
            sine = sine * z + SINE_COEFFICIENTS[k]
        sine = x + x * z * sine
        cosine = COSINE_COEFFICIENTS[8]
        for k in (7, 6, 5, 4, 3, 2):
            cosine = cosine * z + COSINE_COEFFICIENTS[k]
        cosine = 1.0 - (0.5 * z - z * z * cosine)
        swapped = (quarter & np.uint64(1)) != np.uint64(0)
        one = sine if swapped else cosine
        other = cosine if swapped else sine
        radius = math.sqrt(radii[j])
        left = ((quarter + np.uint64(1)) >> np.uint64(1)) & np.uint64(1)
        below = (quarter >> np.uint64(1)) & np.uint64(1)
        cosines[j] = radius * one * (1.0 - 2.0 * np.float64(left))
        sines[j] = radius * other * (1.0 - 2.0 * np.float64(below))


logarithms, turned = kernel(_logarithms), kernel(_turned)
_fused_logarithms, _fused_turned = (kernel(fastmath={"contract"})(each) for each in (_logarithms, _turned))


@kernel
def philox(key, number, first, radial, angular):  # type: ignore[no-untyped-def]
    """Philox4x32-10 of the counters (first + j, number), whose four words are two words of 64 bits."""
    for j in range(radial.size):
        counter = first + np.uint64(j)
        c0 = counter & _LOW_WORD
        c1 = counter >> np.uint64(32)
        c2 = number & _LOW_WORD
        c3 = number >> np.uint64(32)
        k0 = key & _LOW_WORD
        k1 = key >> np.uint64(32)
        for _ in range(PHILOX_ROUNDS):
            p0 = c0 * ROUND_MULTIPLIERS[0]
            p1 = c2 * ROUND_MULTIPLIERS[1]
            c0 = (p1 >> np.uint64(32)) ^ c1 ^ k0
            c1 = p1 & _LOW_WORD
            c2 = (p0 >> np.uint64(32)) ^ c3 ^ k1
            c3 = p0 & _LOW_WORD
            k0 = (k0 + KEY_INCREMENTS[0]) & _LOW_WORD
            k1 = (k1 + KEY_INCREMENTS[1]) & _LOW_WORD
        radial[j] = c0 | (c1 << np.uint64(32))
        angular[j] = c2 | (c3 << np.uint64(32))


@kernel
def fill(values, key, number, first):  # type: ignore[no-untyped-def]
    """Fill ``values`` with the normals of the coordinates first, first + 1, … of one key and upper half of counters."""
    radial = np.empty(_BLOCK_PAIRS, np.uint64)
    angular = np.empty(_BLOCK_PAIRS, np.uint64)
    radii = np.empty(_BLOCK_PAIRS)
    cosines = np.empty(_BLOCK_PAIRS)
    sines = np.empty(_BLOCK_PAIRS)
    done = 0
    while done < values.size:
        block = (first + done) // (2 * _BLOCK_PAIRS)
        low = (first + done) % (2 * _BLOCK_PAIRS)
        high = min(low + values.size - done, 2 * _BLOCK_PAIRS)
        start = 0
        end = _BLOCK_PAIRS
        if high <= _BLOCK_PAIRS:  # cosines alone
            start = low
            end = high
        elif low >= _BLOCK_PAIRS:  # sines alone
            start = low - _BLOCK_PAIRS
            end = high - _BLOCK_PAIRS
        pairs = end - start
        philox(key, number, np.uint64(block * _BLOCK_PAIRS + start), radial[:pairs], angular[:pairs])
        logarithms(radial[:pairs], radii[:pairs])
        turned(radii[:pairs], angular[:pairs], cosines[:pairs], sines[:pairs])
        if low < _BLOCK_PAIRS:
            here = min(high, _BLOCK_PAIRS) - low
            values[done : done + here] = cosines[low - start : low - start + here]
            done += here
            low = _BLOCK_PAIRS
        if high > _BLOCK_PAIRS:
            here = high - low
            values[done : done + here] = sines[low - _BLOCK_PAIRS - start : high - _BLOCK_PAIRS - start]
            done += here


@kernel
def fill_spans(values, key, number, spans):  # type: ignore[no-untyped-def]
    """Fill ``values`` with the normals of spans of coordinates, rows (first, length), one after the other."""
    done = 0
    for k in range(len(spans)):
        fill(values[done : done + spans[k, 1]], key, number, spans[k, 0])
        done += spans[k, 1]


@kernel
def fill_groups(values, words):  # type: ignore[no-untyped-def]
    """Fill groups of 2048 normals, rows of 1024 cosines and 1024 sines, from words of 64 bits that more bits follow.

    They are within 2⁻⁴⁶ of the normals of all these bits, and NaN where the radius has a word that cannot tell so much.
    Products may be fused with sums: the last bits differ between processors, and nothing depends on them.
    """
    radii = np.empty(_BLOCK_PAIRS)
    for b in range(len(words)):
        radial = words[b, :_BLOCK_PAIRS]
        _fused_logarithms(radial, radii)
        for j in range(_BLOCK_PAIRS):
            known = radial[j] >= SMALLEST_WORD and radial[j] <= LARGEST_WORD
            radii[j] = radii[j] if known else math.nan
        _fused_turned(radii, words[b, _BLOCK_PAIRS:], values[b, :_BLOCK_PAIRS], values[b, _BLOCK_PAIRS:])
