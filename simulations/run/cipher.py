"""ChaCha20: the random bits of proved noise, as words of 64 bits with an address each.

The block function is that of RFC 8439, section 2.3, with a counter of 64 bits in the words 12 and 13, the number of
the *stream* in word 14, and 0 in word 15.  The coordinate j = 2048 b + 256 q + r, 0 <= q < 8 and 0 <= r < 256, has in
each stream the word x_{2q} + 2³² x_{2q+1} of the block 256 b + r.  Its 16 bits of a stream of *halves* come from the
block 64 b + r of j = 2048 b + 64 q + r, 0 <= q < 32 and 0 <= r < 64: the lower (q < 16) or the upper half of the word
q mod 16.

So 256 blocks are encrypted next to each other, which processors do for several blocks at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.kernels import kernel

GROUP_COORDINATES = 2048  #: coordinates whose words come from the same 256 blocks

_LANES = 256  # blocks that are encrypted next to each other
_DOUBLE_ROUNDS = 10
_CONSTANTS = np.frombuffer(b"expand 32-byte k", "<u4").astype(np.uint32)
_LOW_WORD = np.uint64(0xFFFFFFFF)


@kernel
def _quarter(a, b, c, d):  # type: ignore[no-untyped-def]
    a = np.uint32(a + b)
    d = np.uint32(d ^ a)
    d = np.uint32(np.uint32(d << np.uint32(16)) | np.uint32(d >> np.uint32(16)))
    c = np.uint32(c + d)
    b = np.uint32(b ^ c)
    b = np.uint32(np.uint32(b << np.uint32(12)) | np.uint32(b >> np.uint32(20)))
    a = np.uint32(a + b)
    d = np.uint32(d ^ a)
    d = np.uint32(np.uint32(d << np.uint32(8)) | np.uint32(d >> np.uint32(24)))
    c = np.uint32(c + d)
    b = np.uint32(b ^ c)
    b = np.uint32(np.uint32(b << np.uint32(7)) | np.uint32(b >> np.uint32(25)))
    return a, b, c, d


@kernel
def _double_round(x):  # type: ignore[no-untyped-def]
    """Four columns and four diagonals of each of the 256 blocks, whose word i has the place 256 i + r."""
    for r in range(256):
        a0, b0, c0, d0 = _quarter(x[r], x[1024 + r], x[2048 + r], x[3072 + r])
        a1, b1, c1, d1 = _quarter(x[256 + r], x[1280 + r], x[2304 + r], x[3328 + r])
        a2, b2, c2, d2 = _quarter(x[512 + r], x[1536 + r], x[2560 + r], x[3584 + r])
        a3, b3, c3, d3 = _quarter(x[768 + r], x[1792 + r], x[2816 + r], x[3840 + r])
        a0, b1, c2, d3 = _quarter(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter(a3, b0, c1, d2)
        x[r], x[256 + r], x[512 + r], x[768 + r] = a0, a1, a2, a3
        x[1024 + r], x[1280 + r], x[1536 + r], x[1792 + r] = b0, b1, b2, b3
        x[2048 + r], x[2304 + r], x[2560 + r], x[2816 + r] = c0, c1, c2, c3
        x[3072 + r], x[3328 + r], x[3584 + r], x[3840 + r] = d0, d1, d2, d3


@kernel
def encrypt(key, stream, counters, x):  # type: ignore[no-untyped-def]
    """Encrypt 256 counters: word i of the block r has the place 256 i + r of ``x``."""
    for i in range(4):
        x[256 * i : 256 * (i + 1)] = _CONSTANTS[i]
    for i in range(8):
        x[1024 + 256 * i : 1024 + 256 * (i + 1)] = key[i]
    for r in range(256):
        x[3072 + r] = np.uint32(counters[r] & _LOW_WORD)
        x[3328 + r] = np.uint32(counters[r] >> np.uint64(32))
    x[3584:3840] = stream
    x[3840:] = np.uint32(0)
    for _ in range(_DOUBLE_ROUNDS):
        _double_round(x)
    for i in range(4):
        for r in range(256):
            x[256 * i + r] = np.uint32(x[256 * i + r] + _CONSTANTS[i])
    for i in range(8):
        for r in range(256):
            x[1024 + 256 * i + r] = np.uint32(x[1024 + 256 * i + r] + key[i])
    for r in range(256):
        x[3072 + r] = np.uint32(x[3072 + r] + np.uint32(counters[r] & _LOW_WORD))
        x[3328 + r] = np.uint32(x[3328 + r] + np.uint32(counters[r] >> np.uint64(32)))
        x[3584 + r] = np.uint32(x[3584 + r] + stream)


@kernel
def fill_words(key, stream, group, words):  # type: ignore[no-untyped-def]
    """The words of the coordinates of groups from the one of number ``group`` on, shape (groups, 2048)."""
    x = np.empty(4096, np.uint32)
    counters = np.empty(256, np.uint64)
    for b in range(len(words)):
        for r in range(256):
            counters[r] = (group + np.uint64(b)) * np.uint64(256) + np.uint64(r)
        encrypt(key, stream, counters, x)
        row = words[b]
        for q in range(8):
            place = 512 * q
            for r in range(256):
                row[256 * q + r] = np.uint64(x[place + r]) | (np.uint64(x[place + 256 + r]) << np.uint64(32))


@kernel
def fill_halves(key, stream, group, halves):  # type: ignore[no-untyped-def]
    """The 16 bits of the coordinates of groups from the one of number ``group`` on, shape (groups, 2048)."""
    x = np.empty(4096, np.uint32)
    counters = np.empty(256, np.uint64)
    for first in range(0, len(halves), 4):
        for r in range(256):
            counters[r] = (group + np.uint64(first)) * np.uint64(64) + np.uint64(r)
        encrypt(key, stream, counters, x)
        for b in range(min(4, len(halves) - first)):
            row = halves[first + b]
            for q in range(16):
                for r in range(64):
                    word = x[256 * q + 64 * b + r]
                    row[64 * q + r] = np.uint16(word)
                    row[1024 + 64 * q + r] = np.uint16(word >> np.uint32(16))


@kernel
def _fill_words_at(keys, streams, coordinates, halves, found):  # type: ignore[no-untyped-def]
    """Encrypt the counters of single coordinates under several keys, 256 of them next to each other."""
    start = np.empty(4096, np.uint32)
    x = np.empty(4096, np.uint32)
    count = coordinates.size
    period = np.uint64(64 if halves else 256)
    for first in range(0, found.size, 256):
        size = min(256, found.size - first)
        for r in range(256):
            row, j = divmod(first + min(r, size - 1), count)
            counter = coordinates[j] // np.uint64(2048) * period + coordinates[j] % period
            for i in range(4):
                start[256 * i + r] = _CONSTANTS[i]
            for i in range(8):
                start[1024 + 256 * i + r] = keys[row, i]
            start[3072 + r] = np.uint32(counter & _LOW_WORD)
            start[3328 + r] = np.uint32(counter >> np.uint64(32))
            start[3584 + r] = streams[row]
            start[3840 + r] = np.uint32(0)
        x[:] = start
        for _ in range(_DOUBLE_ROUNDS):
            _double_round(x)
        for i in range(4096):
            x[i] = np.uint32(x[i] + start[i])
        for r in range(size):
            row, j = divmod(first + r, count)
            q = np.int64(coordinates[j] % np.uint64(2048) // period)
            if halves:
                word = x[256 * (q % 16) + r]
                found[row, j] = np.uint64(word & np.uint32(0xFFFF) if q < 16 else word >> np.uint32(16))
            else:
                found[row, j] = np.uint64(x[512 * q + r]) | (np.uint64(x[512 * q + 256 + r]) << np.uint64(32))


def chacha20(key: bytes, first: int, count: int, *, stream: int = 0) -> NDArray[np.uint32]:
    """The blocks of the counters first, first + 1, …, shape (count, 16).

    Parameters
    ----------
    key : bytes
        32 bytes.
    first : int
        The first counter, 0 <= first < 2⁶⁴.
    count : int
        How many blocks.
    stream : int, default 0
        The number of the stream, below 2³².

    Returns
    -------
    array of uint32
    """
    counters = np.uint64(first) + np.arange(-(-count // _LANES) * _LANES, dtype=np.uint64)
    found = np.empty((counters.size, 16), np.uint32)
    lanes = np.empty(16 * _LANES, np.uint32)
    for at in range(0, counters.size, _LANES):
        encrypt(words_of(key), np.uint32(stream), counters[at : at + _LANES], lanes)
        found[at : at + _LANES] = lanes.reshape(16, _LANES).T
    return found[:count]


def words_at(
    keys: Sequence[bytes], streams: Sequence[int], coordinates: NDArray[np.uint64], *, halves: bool = False
) -> NDArray[np.uint64]:
    """The words of single coordinates, or their 16 bits, under keys in their streams, shape (keys, coordinates)."""
    found = np.empty((len(keys), coordinates.size), np.uint64)
    if found.size:
        places = np.array(streams, np.uint32), np.asarray(coordinates, np.uint64)
        _fill_words_at(words_of(b"".join(keys)).reshape(-1, 8), *places, halves, found)
    return found


def words_of(key: bytes) -> NDArray[np.uint32]:
    """A key of 32 bytes, or several, as the compiled functions take it."""
    return np.frombuffer(key, "<u4").astype(np.uint32)
