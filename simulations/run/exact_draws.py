"""The draws of proved noise: real numbers, each the function of an endless stream of random bits.

Take the words W_s(j) of the streams s of ``cipher`` under the key of a step, and j₀ = 2048 b + (j mod 1024) in the
group b of the coordinate j.  The *normal* of j is sqrt(−2 log U) cos 2πV in the first half of its group, and
sqrt(−2 log U) sin 2πV in the second half, for U = 0.W_0(j₀) W_1(j₀) … and V = 0.W_0(j₀ + 1024) W_1(j₀ + 1024) … in base
2⁶⁴.  For random bits these are independent standard normals (Box and Muller 1958).  The *dither* of j in row i is
uniform on [0, 1): its first 16 bits come from the stream of halves 2¹⁶ (i + 1), and the following words from the
streams 2¹⁶ (i + 1) + 1, ….

There are three levels.  Floats hold a normal to 2⁻⁴⁶, a dither to 2⁻¹⁷; pairs of floats to 2⁻⁸⁰, a few coordinates at a
time; and balls of Arb to any precision: these are the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray

from corrnoise.simulations.run import cipher
from corrnoise.simulations.run.draws import keyed
from corrnoise.simulations.run.normals import fill_groups
from corrnoise.simulations.run.secret import Key
from corrnoise.simulations.run.spans import Spans
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.double_double_series import normal_pairs

NORMAL_ERROR, DITHER_ERROR = 2.0**-46, 2.0**-17  #: of floats
PAIR_ERROR = 2.0**-80  #: of pairs of floats
LARGEST_NORMAL = 9.5  #: of floats and pairs, in absolute value

_ROW_STREAMS = 2**16
_PAIRED_COORDINATES = 1024  # between a cosine and its sine


def step_key(secret: Key, step: int, nonce: bytes, *, draw: int = 0) -> bytes:
    """The key of ChaCha20 of a step, 32 bytes, which is kept as long as a row that this step wrote."""
    place = step.to_bytes(8, "little") + draw.to_bytes(8, "little")
    return keyed(secret, 32, b"draws" + place + nonce).digest()


# -- floats ------------------------------------------------------------------------------------------------------------


def fill_normals(key: bytes, spans: Spans, values: Array) -> None:
    """The normals of spans of coordinates to within ``NORMAL_ERROR``; NaN where one word does not tell so much."""
    key_words = cipher.words_of(key)

    def fill(first: int, groups: Array) -> None:
        words = np.empty(groups.shape[1:], np.uint64)
        cipher.fill_words(key_words, np.uint32(0), np.uint64(first), words)
        fill_groups(groups[0], words)

    _fill_spans(fill, spans, values[np.newaxis])


def dither_bits(rows: Sequence[tuple[bytes, int]], spans: Spans) -> NDArray[np.uint16]:
    """The first 16 bits of the dithers of spans of coordinates under keys in rows, shape (rows, coordinates)."""
    found = np.empty((len(rows), int(spans[:, 1].sum())), np.uint16)
    places = [(cipher.words_of(key), np.uint32(_stream(row, 0))) for key, row in rows]

    def fill(first: int, groups: NDArray[np.uint16]) -> None:
        for place, own in zip(places, groups, strict=True):
            cipher.fill_halves(*place, np.uint64(first), own)

    if places:
        _fill_spans(fill, spans, found)
    return found


def _fill_spans(fill: Callable[[int, NDArray[Any]], None], spans: Spans, values: NDArray[Any]) -> None:
    """Fill rows with those of spans, where ``fill`` fills groups in rows from the one of a number on."""
    done, size = 0, cipher.GROUP_COORDINATES
    for first, length in spans.tolist():
        start, skipped = divmod(first, size)
        target = values[:, done : done + length]
        done += length
        if skipped == 0 and length % size == 0 and target.flags.c_contiguous:
            fill(start, target.reshape(len(values), -1, size))
        else:
            groups = np.empty((len(values), -(-(skipped + length) // size), size), values.dtype)
            fill(start, groups)
            target[:] = groups.reshape(len(values), -1)[:, skipped : skipped + length]


def _stream(row: int, number: int) -> int:
    return _ROW_STREAMS * (row + 1) + number


# -- pairs of floats ---------------------------------------------------------------------------------------------------


def paired_normals(keys: Sequence[bytes], coordinates: NDArray[np.uint64]) -> list[tuple[Array, Array]]:
    """The normals of single coordinates under keys to within ``PAIR_ERROR``, as sums of two.

    They are NaN as for ``normal_pairs``.
    """
    radial = coordinates - coordinates % 2048 + coordinates % _PAIRED_COORDINATES
    places = np.concatenate([radial, radial + np.uint64(_PAIRED_COORDINATES)])
    words = cipher.words_at([key for key in keys for _ in (0, 1)], [0, 1] * len(keys), places)
    cosine = coordinates % 2048 < _PAIRED_COORDINATES
    results = []
    for own in words.reshape(len(keys), 2, 2, -1):  # of the streams, and of U and V
        found = np.empty((coordinates.size, 4))
        normal_pairs(np.ascontiguousarray(own.transpose(2, 1, 0)).reshape(-1, 4), found)
        results.append((np.where(cosine, found[:, 0], found[:, 2]), np.where(cosine, found[:, 1], found[:, 3])))
    return results


def paired_dithers(rows: Sequence[tuple[bytes, int]], coordinates: NDArray[np.uint64]) -> list[tuple[Array, Array]]:
    """The dithers of single coordinates under keys in rows, exact but for the rest of 2⁻⁸⁰, as sums of two."""
    keys = [key for key, _ in rows]
    bits, words = (
        cipher.words_at(keys, [_stream(row, number) for _, row in rows], coordinates, halves=number == 0)
        for number in (0, 1)
    )
    highs, lows = (words >> np.uint64(32)).astype(float), (words & np.uint64(0xFFFFFFFF)).astype(float)
    return list(zip(bits.astype(float) * 2.0**-16 + highs * 2.0**-48, (lows + 0.5) * 2.0**-80, strict=True))


# -- balls -------------------------------------------------------------------------------------------------------------


def _digits(key: bytes, streams: range, coordinate: int) -> int:
    """The words of a coordinate in several streams, one number."""
    found = cipher.words_at([key] * len(streams), streams, np.array([coordinate], np.uint64))
    return int.from_bytes(found[::-1].astype("<u8").tobytes(), "little")


def normal_ball(key: bytes, coordinate: int, words: int) -> arb:
    """A ball that holds the normal of a coordinate, from so many words of 64 bits."""
    with ctx.workprec(64 * words + 64):
        radial = coordinate - coordinate % 2048 + coordinate % _PAIRED_COORDINATES
        unit = arb(2) ** (-64 * words)
        u, v = (
            (arb(_digits(key, range(words), place)) + _UNIT_INTERVAL) * unit
            for place in (radial, radial + _PAIRED_COORDINATES)
        )
        radius = (-2 * u.log()).sqrt()
        angle = 2 * v
        return radius * (angle.cos_pi() if coordinate % 2048 < _PAIRED_COORDINATES else angle.sin_pi())


def dither_ball(key: bytes, row: int, coordinate: int, words: int) -> arb:
    """A ball that holds the dither of a coordinate in a row, from 16 bits and so many words of 64 bits."""
    with ctx.workprec(64 * words + 64):
        place = np.array([coordinate], np.uint64)
        first = int(cipher.words_at([key], [_stream(row, 0)], place, halves=True)[0, 0])
        digits = first << 64 * words | _digits(key, range(_stream(row, 1), _stream(row, 1 + words)), coordinate)
        return (arb(digits) + _UNIT_INTERVAL) * arb(2) ** (-64 * words - 16)


_UNIT_INTERVAL = arb(0.5, 0.5)
