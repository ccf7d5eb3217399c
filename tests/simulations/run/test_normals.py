"""Normals from words: the words against published ones, each normal against mpmath, and their distribution."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

from corrnoise.simulations.run import draws, normals
from corrnoise.simulations.run.normals import fill

EXTREME = [0, 1, 2, 2**53, 2**61 - 1, 2**61, 2**61 + 1, 2**62, 2**63 - 1, 2**63, 2**63 + 2**62, 2**64 - 2, 2**64 - 1]
BLOCK = 1024


def filled(size: int, key: int = 5, number: int = 0, first: int = 0, dtype: type = np.float64) -> np.ndarray:
    values: np.ndarray = np.full(size, np.nan, dtype)
    fill(values, np.uint64(key), np.uint64(number), first)
    return values


def philox(counter: int, key: int, rounds: int = 10) -> list[int]:
    """Philox4x32 in Python's integers: four words of 32 bits, from a counter of 128 bits and a key of 64."""
    c = [counter >> 32 * k & 0xFFFFFFFF for k in range(4)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(rounds):
        p = 0xD2511F53 * c[0]
        q = 0xCD9E8D57 * c[2]
        c = [(q >> 32) ^ c[1] ^ k[0], q & 0xFFFFFFFF, (p >> 32) ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def made(counter: int, key: int, size: int = 1) -> tuple[np.ndarray, np.ndarray]:
    radial = np.empty(size, np.uint64)
    angular = np.empty(size, np.uint64)
    first = np.uint64(counter & 0xFFFFFFFFFFFFFFFF)
    normals.philox(np.uint64(key), np.uint64(counter >> 64), first, radial, angular)
    return radial, angular


PUBLISHED = [  # counter, key and words of philox4x32-10 in the known answers of Random123, first word first
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def joined(text: str) -> int:
    return sum(int(word, 16) << 32 * k for k, word in enumerate(text.split()))


@pytest.mark.parametrize(("counter", "key", "words"), PUBLISHED)
def test_the_words_are_the_published_ones(counter: str, key: str, words: str) -> None:
    radial, angular = made(joined(counter), joined(key))
    assert int(radial[0]) | int(angular[0]) << 64 == joined(words)
    assert joined(words) == sum(word << 32 * k for k, word in enumerate(philox(joined(counter), joined(key))))
    nine = philox(joined(counter), joined(key), rounds=9)
    assert joined(words) != sum(word << 32 * k for k, word in enumerate(nine))


def test_the_words_of_many_counters_are_those_of_each() -> None:
    key = 0x0123456789ABCDEF
    counter = (7 << 64) + 2**32 - 50  # the lower half carries within the block
    radial, angular = made(counter, key, 100)
    for j in range(100):
        a, b, c, d = philox(counter + j, key)
        assert (int(radial[j]), int(angular[j])) == (a | b << 32, c | d << 32)


def exact(radial: int, angular: int) -> tuple[mp.mpf, mp.mpf]:
    radius = mp.sqrt(-2 * mp.log((radial + mp.mpf(1) / 2) / mp.mpf(2) ** 64))
    angle = 2 * mp.pi * angular / mp.mpf(2) ** 64
    return radius * mp.cos(angle), radius * mp.sin(angle)


@pytest.mark.parametrize("seed", range(4))
def test_each_normal_is_the_transform_of_its_words_to_the_last_digits(seed: int) -> None:
    """Random words, words that begin with many zeros or ones, and all pairs of extreme words."""
    rng = np.random.default_rng(seed)
    random = rng.integers(0, 2**64, 400, dtype=np.uint64)
    small = random >> rng.integers(0, 64, 400).astype(np.uint64)
    extreme = np.array(EXTREME, np.uint64)
    radial = np.concatenate([random, small, ~small, np.repeat(extreme, extreme.size)])
    angular = np.concatenate([rng.permutation(small), random, random, np.tile(extreme, extreme.size)])
    radii, cosines, sines = np.empty((3, radial.size))
    normals.logarithms(radial, radii)
    normals.turned(radii, angular, cosines, sines)
    worst = 0.0
    with mp.workdps(40):
        for j in range(radial.size):
            true_ones = exact(int(radial[j]), int(angular[j]))
            for value, true in zip((cosines[j], sines[j]), true_ones, strict=True):
                scale = abs(true) if abs(true) > 1e-30 else mp.mpf(1)  # sin(π) is 0, and mpmath's π is not π
                worst = max(worst, float(abs(value - true) / scale))
    assert worst < 1e-15


def test_a_wrong_coefficient_is_noticed() -> None:
    """The mutant of the test above: the last coefficient of the cosine left out moves a normal by more than 1e-15."""
    x = np.pi / 4
    series = sum(c * x ** (2 * k) for k, c in enumerate(normals.COSINE_COEFFICIENTS[:-1]))
    assert abs(series - np.cos(x)) > 1e-15


def test_float32_normals_are_the_rounded_ones() -> None:
    np.testing.assert_array_equal(filled(5000, dtype=np.float32), filled(5000).astype(np.float32))


def test_no_word_is_used_twice() -> None:
    values = filled(70_000, key=3)
    assert np.isfinite(values).all()
    assert np.unique(np.abs(values)).size == values.size
    assert not np.isin(filled(100, key=3, number=1), values).any()  # another upper half of the counter


def test_each_coordinate_comes_from_its_counter() -> None:
    """Cosine and sine of a pair are 1024 coordinates apart, in blocks of 2048."""
    values = filled(5000, key=9, number=4)
    for i in (0, 1, 1023, 1024, 2047, 2048, 4999):
        block, place = divmod(i, 2 * BLOCK)
        a, b, c, d = philox((4 << 64) + BLOCK * block + place % BLOCK, 9)
        cosine, sine = exact(a | b << 32, c | d << 32)
        assert values[i] == pytest.approx(float(cosine if place < BLOCK else sine), rel=1e-14)
        assert values[i] != pytest.approx(float(sine if place < BLOCK else cosine), rel=1e-6)


@pytest.mark.parametrize("lag", [1, BLOCK, 2 * BLOCK])
def test_they_are_standard_normals(lag: int) -> None:
    """Distribution, tails, and pairs of neighbours, of radius and angle, and of blocks; each at level 1e-7."""
    values = filled(2_000_000, key=12, number=2**36)
    assert stats.kstest(values, "norm").pvalue > 1e-7
    beyond = int((np.abs(values) > 4).sum())
    assert stats.binomtest(beyond, values.size, 2 * stats.norm.sf(4)).pvalue > 1e-7
    for power in (1, 2, 3, 4):
        one = values[lag:] ** power
        other = values[:-lag] ** power
        score = np.corrcoef(one, other)[0, 1] * np.sqrt(one.size)
        assert 2 * stats.norm.sf(abs(score)) > 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("processor", ["generic", "haswell"])
def test_another_processor_makes_the_same_numbers(processor: str, tmp_path: Path) -> None:
    """Compiled for processors with other vectors, with and without multiplication and addition in one operation."""
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("these are processors of the x86 family")
    script = (
        "from corrnoise.simulations.run.draws import normals; print(normals(bytes(32), 0, 0, 10_001).tobytes().hex())"
    )
    other = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **other}, capture_output=True, text=True, check=True
    )
    values = draws.normals(bytes(32), 0, 0, 10_001)
    assert found.stdout.strip() == values.tobytes().hex()
