"""ChaCha20 against RFC 8439 and against Python's integers; the addresses of words and halves."""

from __future__ import annotations

import numpy as np
import pytest

from corrnoise.simulations.run import cipher

KEY = bytes(range(32))
PUBLISHED = [  # key, counter, words 13 to 15 of the state, first 16 bytes of the block: RFC 8439, 2.3.2 and A.1
    (KEY, 1, (0x09000000, 0x4A000000, 0), "10f1e7e4d13b5915500fdd1fa32071c4"),
    (bytes(32), 0, (0, 0, 0), "76b8e0ada0f13d90405d6ae55386bd28"),
    (bytes(32), 1, (0, 0, 0), "9f07e7be5551387a98ba977c732d080d"),
    (bytes(31) + b"\1", 1, (0, 0, 0), "3aeb5224ecf849929b9d828db1ced4dd"),
    (b"\0\xff" + bytes(30), 2, (0, 0, 0), "72d54dfbf12ec44b362692df94137f32"),
]


def block(key: bytes, counter: int, stream: int, rounds: int = 20) -> list[int]:
    """A block of 16 words in Python's integers."""
    words = [*b"expand 32-byte k", *key]
    start = [int.from_bytes(bytes(words[i : i + 4]), "little") for i in range(0, 48, 4)]
    start += [counter & 0xFFFFFFFF, counter >> 32, stream, 0]
    x = list(start)
    for turn in range(rounds):
        for i in range(4):
            a, b, c, d = i, 4 + (i + turn % 2) % 4, 8 + (i + 2 * (turn % 2)) % 4, 12 + (i + 3 * (turn % 2)) % 4
            for target, other, mixed, shift in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[target] = (x[target] + x[other]) & 0xFFFFFFFF
                turned = x[mixed] ^ x[target]
                x[mixed] = (turned << shift | turned >> (32 - shift)) & 0xFFFFFFFF
    return [(one + other) & 0xFFFFFFFF for one, other in zip(x, start, strict=True)]


@pytest.mark.parametrize(("key", "counter", "rest", "first"), PUBLISHED)
def test_the_blocks_are_the_published_ones(key: bytes, counter: int, rest: tuple[int, int, int], first: str) -> None:
    high, stream, _ = rest
    made = cipher.chacha20(key, counter + (high << 32), 3, stream=stream)
    assert made[0].astype("<u4").tobytes()[:16].hex() == first
    for k in range(3):
        assert made[k].tolist() == block(key, counter + k + (high << 32), stream)
    assert made[0].tolist() != block(key, counter + (high << 32), stream, rounds=12)


def test_a_counter_carries_into_its_upper_word() -> None:
    made = cipher.chacha20(KEY, 2**32 - 2, 4)
    assert [each.tolist() for each in made] == [block(KEY, 2**32 - 2 + k, 0) for k in range(4)]


@pytest.mark.parametrize("group", [0, 3, 2**40 // 2048])
def test_words_and_halves_have_their_addresses(group: int) -> None:
    words, halves = np.empty((6, 2048), np.uint64), np.empty((6, 2048), np.uint16)
    cipher.fill_words(cipher.words_of(KEY), np.uint32(7), np.uint64(group), words)
    cipher.fill_halves(cipher.words_of(KEY), np.uint32(7), np.uint64(group), halves)
    coordinates = 2048 * group + np.arange(words.size, dtype=np.uint64)
    np.testing.assert_array_equal(cipher.words_at([KEY], [7], coordinates)[0], words.ravel())
    np.testing.assert_array_equal(cipher.words_at([KEY], [7], coordinates, halves=True)[0], halves.ravel())
    for place in (0, 255, 256, 1023, 1024, 2047, 2048 * 5 + 77):
        b, q, r = group + place // 2048, place % 2048 // 256, place % 256
        x = block(KEY, 256 * b + r, 7)
        assert int(words.ravel()[place]) == x[2 * q] | x[2 * q + 1] << 32
        q, r = place % 2048 // 64, place % 64
        assert int(halves.ravel()[place]) == block(KEY, 64 * b + r, 7)[q % 16] >> (16 if q >= 16 else 0) & 0xFFFF
