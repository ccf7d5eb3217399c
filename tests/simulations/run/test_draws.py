"""Draws: their definition by known numbers, what they depend on, and what they do not."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.draws import normals
from corrnoise.simulations.run.normals import fill

SECRET = bytes(range(32))
KNOWN = {  # made by an independent program in exact integers and mpmath
    0: -0.40277561716899296,
    1: 0.9258052182157609,
    1023: 0.7249200812432446,
    1024: -2.019402403869897,
    2047: 0.914457812999667,
    2048: 0.1583699469359427,
    65_535: -0.39284133320125963,
    65_536: 2.1830114347905387,
    299_999: -0.5421562413220683,
    2**40: 1.1708519183637125,
}


@pytest.mark.parametrize(("coordinate", "value"), KNOWN.items())
def test_known_draws(coordinate: int, value: float) -> None:
    assert normals(SECRET, 3, coordinate, 1) == value


def test_known_digest_of_a_million_draws() -> None:
    values = normals(SECRET, 3, 0, 10**6, dtype=np.float32).astype("<f4")
    assert hashlib.blake2b(values.tobytes(), digest_size=16).hexdigest() == "31d5d30ac6f0541671b4df610364f39c"


@given(first=st.integers(0, 9000), count=st.integers(0, 9000))
def test_every_cut_gives_the_same_numbers(first: int, count: int) -> None:
    whole = normals(SECRET, 1, 0, 18_000, nonce=b"n" * 16)
    np.testing.assert_array_equal(normals(SECRET, 1, first, count, nonce=b"n" * 16), whole[first : first + count])
    far = 2**40 * 2048 + first
    np.testing.assert_array_equal(normals(SECRET, 1, far, 100), normals(SECRET, 1, far - 50, 150)[50:])


@pytest.mark.parametrize(
    "other",
    [
        {"secret": bytes(32)},
        {"step": 4},
        {"draw": 1},
        {"nonce": bytes(15) + b"\1"},
        {"nonce": b""},
        {"first": 2048},
        {"step": 2**32 + 3},
    ],
)
def test_all_that_draws_depend_on_makes_others(other: dict[str, Any]) -> None:
    arguments: dict[str, Any] = {"secret": SECRET, "step": 3, "first": 0, "count": 2048, "draw": 0, "nonce": bytes(16)}
    found = normals(**arguments)
    assert not np.isin(normals(**arguments | other), found).any()


def test_a_filler_fills_its_spans_with_the_draw_of_a_number() -> None:
    draw = draws.filler(SECRET, 3, np.array([[5, 100], [3, 1]]), b"x")
    for number in range(2):
        values = np.empty(101)
        draw(values, number)
        whole = normals(SECRET, 3, 0, 105, draw=number, nonce=b"x")
        np.testing.assert_array_equal(values, [*whole[5:], whole[3]])


def test_a_table_of_seeds_gives_the_draws() -> None:
    """Row t holds key and number, low word first; steps, draws and nonces have seeds of their own."""
    table = draws.seeds(SECRET, (3, 7), draw=1, nonces=[b"a" * 16, b"b" * 16])
    assert table.shape == (2, 4)
    assert table.dtype == np.uint32
    for row, step, nonce in zip(table, (3, 7), (b"a" * 16, b"b" * 16), strict=True):
        key, number = row.view("<u8").astype(np.uint64)
        values = np.empty(50)
        fill(values, key, number, 9)
        np.testing.assert_array_equal(values, normals(SECRET, step, 9, 50, draw=1, nonce=nonce))
    assert (
        draws.seeds(SECRET, [3]).tobytes().hex() == f"{0xBCF659D33BBA7A125B77BE09C28F03DE.to_bytes(16, 'little').hex()}"
    )
    with pytest.raises(ValueError, match="nonces must be one for each of the 2 steps, got 1"):
        draws.seeds(SECRET, [1, 2], nonces=[b""])
    with pytest.raises(ValueError, match="secret must be 16 to 64 bytes"):
        draws.seeds(b"short", [1])


def test_draws_of_neighbouring_steps_and_nonces_are_independent_normals() -> None:
    """Three tests at level 3e-7; the key is fixed, so that the outcome is."""
    values = np.array([normals(SECRET, step, 0, 400, nonce=bytes([step % 2])) for step in range(100)])
    assert stats.kstest(values.ravel(), "norm").pvalue > 3e-7
    for one, other in ((values[1:], values[:-1]), (values[:, 1:], values[:, :-1])):
        lagged = float((one * other).mean()) * np.sqrt(one.size)
        assert 2 * stats.norm.sf(abs(lagged)) > 3e-7


def test_parts_of_a_hash_do_not_run_into_each_other() -> None:
    assert draws.derived(SECRET, b"link", b"ab", b"c") != draws.derived(SECRET, b"link", b"a", b"bc")
    assert draws.derived(SECRET, b"link", b"ab") != draws.derived(SECRET, b"mark", b"ab")
    assert len(draws.fresh(32)) == 32 != len(set(draws.fresh(32)) & set(draws.fresh(32)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"secret": bytes(15)}, "16 to 64 bytes"),
        ({"secret": "x" * 32}, "16 to 64 bytes"),
        ({"nonce": bytes(65)}, "at most 64 bytes"),
        ({"step": -1}, "step must"),
        ({"first": -1}, "first must"),
        ({"count": -1}, "count must"),
        ({"dtype": np.float16}, "dtype must be float32 or float64"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"secret": SECRET, "step": 0, "first": 0, "count": 1}
    with pytest.raises(ValueError, match=message):
        normals(**arguments | wrong)


def test_known_words_of_both_generators() -> None:
    """Those of ChaCha20 were made by an independent program; each word has a place of its own."""
    found = draws.words(SECRET, b"take", 6, 2, generator="ChaCha20")
    assert [hex(each) for each in found.tolist()] == ["0x6117e63121e89ce", "0x2851e46db15d5d89"]
    more = draws.words(SECRET, b"take", 6, 5000, generator="ChaCha20")
    np.testing.assert_array_equal(more[:2], found)
    assert np.unique(np.concatenate([more, draws.words(SECRET, b"take", 6, 5000)])).size == 10_000
