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

    def fill(first: int, groups: Array) -> None:
        words = np.empty(groups.shape, np.uint64)
        cipher.fill_words(cipher.words_of(key), np.uint32(0), np.uint64(first), words)
        fill_groups(groups, words)

    _fill_spans(fill, spans, values)


def dither_bits(rows: Sequence[tuple[bytes, int]], spans: Spans) -> NDArray[np.uint16]:
    """The first 16 bits of the dithers of spans of coordinates under keys in rows, shape (rows, coordinates)."""

    def filler(key: bytes, row: int) -> Callable[[int, NDArray[Any]], None]:
        words, stream = cipher.words_of(key), np.uint32(_stream(row, 0))
        return lambda first, groups: cipher.fill_halves(words, stream, np.uint64(first), groups)

    found = np.empty((len(rows), int(spans[:, 1].sum())), np.uint16)
    for (key, row), values in zip(rows, found, strict=True):
        _fill_spans(filler(key, row), spans, values)
    return found


def _fill_spans(fill: Callable[[int, NDArray[Any]], None], spans: Spans, values: NDArray[Any]) -> None:
    """Fill values with those of spans, where ``fill`` fills whole groups from the one of a number on."""
    done, size = 0, cipher.GROUP_COORDINATES
    for first, length in spans.tolist():
        start, skipped = divmod(first, size)
        target = values[done : done + length]
        done += length
        if skipped == 0 and length % size == 0:
            fill(start, target.reshape(-1, size))
        else:
            groups = np.empty((-(-(skipped + length) // size), size), values.dtype)
            fill(start, groups)
            target[:] = groups.reshape(-1)[skipped : skipped + length]


def _stream(row: int, number: int) -> int:
    return _ROW_STREAMS * (row + 1) + number


# -- pairs of floats ---------------------------------------------------------------------------------------------------


def paired_normals(key: bytes, coordinates: NDArray[np.uint64]) -> tuple[Array, Array]:
    """The normals of single coordinates to within ``PAIR_ERROR``, as sums of two; NaN as for ``normal_pairs``."""
    radial = coordinates - coordinates % 2048 + coordinates % _PAIRED_COORDINATES
    words = [
        cipher.words_at(key, stream, radial + shift)
        for shift in (np.uint64(0), np.uint64(_PAIRED_COORDINATES))
        for stream in (0, 1)
    ]
    found = np.empty((coordinates.size, 4))
    normal_pairs(np.stack(words, axis=1), found)
    cosine = coordinates % 2048 < _PAIRED_COORDINATES
    return np.where(cosine, found[:, 0], found[:, 2]), np.where(cosine, found[:, 1], found[:, 3])


def paired_dither(key: bytes, row: int, coordinates: NDArray[np.uint64]) -> tuple[Array, Array]:
    """The dithers of single coordinates, exact but for the rest of 2⁻⁸⁰, as sums of two."""
    first = cipher.halves_at(key, _stream(row, 0), coordinates).astype(float)
    word = cipher.words_at(key, _stream(row, 1), coordinates)
    high, low = (word >> np.uint64(32)).astype(float), (word & np.uint64(0xFFFFFFFF)).astype(float)
    return first * 2.0**-16 + high * 2.0**-48, (low + 0.5) * 2.0**-80


# -- balls -------------------------------------------------------------------------------------------------------------


def _digits(key: bytes, streams: range, coordinate: int) -> int:
    """The words of a coordinate in several streams, one number."""
    found = 0
    for stream in streams:
        found = found << 64 | int(cipher.words_at(key, stream, np.array([coordinate], np.uint64))[0])
    return found


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
        first = int(cipher.halves_at(key, _stream(row, 0), np.array([coordinate], np.uint64))[0])
        digits = first << 64 * words | _digits(key, range(_stream(row, 1), _stream(row, 1 + words)), coordinate)
        return (arb(digits) + _UNIT_INTERVAL) * arb(2) ** (-64 * words - 16)


_UNIT_INTERVAL = arb(0.5, 0.5)
