"""Draws of proved noise: known numbers, and the errors of floats and pairs against balls, at extreme words, too."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.normals import fill_groups
from corrnoise.theory.numerics.double_double_series import normal_pairs

KEY = exact_draws.step_key(bytes(range(32)), 3, b"n" * 16)
NORMALS = {  # made by an independent program
    0: "1.29926357286706970496562747506",
    1023: "-0.697077780103310466410485972372",
    1024: "-0.429837655470630191094086862726",
    2047: "-1.12648653451658519879207871389",
    2048: "-1.16473780082194193544174046011",
    2**40: "-0.781670509662894240006926104967",
}
DITHERS = {
    (0, 0): "0.788507700046311327212012442064",
    (1, 1030): "0.594836673175757840932107432788",
    (2, 2048): "0.321286027935414984012653118435",
}
RADIAL = [0, 1, 2**20 - 1, 2**20, 2**46 - 1, 2**46, 2**64 - 2**34, 2**64 - 2**34 + 1, 2**64 - 2**20, 2**64 - 1]
RADIAL += [round(2.0 ** (63.5 - k)) + e for k in range(18) for e in (-1024, 0, 1024)]
ANGULAR = [(k * 2**61 + e) % 2**64 for k in range(8) for e in (-1, 0, 1)]


def test_the_key_is_the_known_one() -> None:
    assert KEY.hex().startswith("5b8cb4b435f362bd95bae1ffd27ff606")
    others = {exact_draws.step_key(bytes(32), 3, b""), exact_draws.step_key(bytes(range(32)), 4, b"n" * 16)}
    others |= {exact_draws.step_key(bytes(range(32)), 3, b"n" * 15), exact_draws.step_key(bytes(range(32)), 3, b"")}
    assert len(others | {KEY}) == 5


@pytest.mark.parametrize("coordinate", NORMALS)
def test_known_normals(coordinate: int) -> None:
    ball = exact_draws.normal_ball(KEY, coordinate, 3)
    assert ball.str(30, radius=False) == NORMALS[coordinate]
    [(high, low)] = exact_draws.paired_normals([KEY], np.array([coordinate], np.uint64))
    value = np.empty(1)
    exact_draws.fill_normals(KEY, np.array([[coordinate, 1]]), value)
    with ctx.workprec(300):
        assert abs(arb(high[0]) + arb(low[0]) - ball) < exact_draws.PAIR_ERROR
        assert abs(arb(value[0]) - ball) < exact_draws.NORMAL_ERROR
        assert exact_draws.normal_ball(KEY, coordinate, 16).rad() < 2.0**-900
        assert ball.overlaps(exact_draws.normal_ball(KEY, coordinate, 4))  # more words of the same number


@pytest.mark.parametrize(("row", "coordinate"), DITHERS)
def test_known_dithers(row: int, coordinate: int) -> None:
    ball = exact_draws.dither_ball(KEY, row, coordinate, 2)
    assert ball.str(30, radius=False) == DITHERS[row, coordinate]
    [(high, low)] = exact_draws.paired_dithers([(KEY, row)], np.array([coordinate], np.uint64))
    first = exact_draws.dither_bits([(KEY, row)], np.array([[coordinate, 1]]))[0, 0]
    with ctx.workprec(300):
        assert abs(arb(high[0]) + arb(low[0]) - ball) < exact_draws.PAIR_ERROR
        assert abs((float(first) + 0.5) * 2.0**-16 - ball) <= exact_draws.DITHER_ERROR
        assert ball.overlaps(exact_draws.dither_ball(KEY, row, coordinate, 3))


def normals_of(u: arb, v: arb) -> tuple[arb, arb]:
    radius = (-2 * u.log()).sqrt()
    return radius * (2 * v).cos_pi(), radius * (2 * v).sin_pi()


def test_extreme_words_are_known_to_their_errors_or_not_at_all() -> None:
    """The errors hold for all bits that may follow: at both ends of the interval of the words."""
    pairs = [(u, v) for k, u in enumerate(RADIAL) for v in (ANGULAR[k % 24], ANGULAR[(7 * k + 5) % 24])]
    words = np.full((1, 2048), 2**63, np.uint64)
    words[0, : len(pairs)] = [u for u, _ in pairs]
    words[0, 1024 : 1024 + len(pairs)] = [v for _, v in pairs]
    values = np.empty((1, 2048))
    fill_groups(values, words)
    rest = 0x9E3779B97F4A7C15
    longer = np.array([(u, rest, v, rest) for u, v in pairs], np.uint64)
    found = np.empty((len(pairs), 4))
    normal_pairs(longer, found)
    for k, (u, v) in enumerate(pairs):
        known, paired = 2**46 <= u <= 2**64 - 2**34, 2**20 <= u < 2**64 - 2**20
        assert np.isnan(values[0, [k, 1024 + k]]).all() != known
        assert np.isnan(found[k]).all() != paired
        with ctx.workprec(300):
            for end in (0, 1) if known else ():
                ends = normals_of((arb(u) + end) / arb(2) ** 64, (arb(v) + end) / arb(2) ** 64)
                for value, exact in zip((values[0, k], values[0, 1024 + k]), ends, strict=True):
                    assert abs(arb(value) - exact) < exact_draws.NORMAL_ERROR
            for end in (0, 1) if paired else ():
                ends = normals_of(*((arb((word << 64) + rest) + end) / arb(2) ** 128 for word in (u, v)))
                for value, exact in zip((found[k, :2], found[k, 2:]), ends, strict=True):
                    assert abs(arb(value[0]) + arb(value[1]) - exact) < exact_draws.PAIR_ERROR


def test_draws_have_their_laws_and_are_independent() -> None:
    """Each p-value is below 1e-9 with probability 1e-9."""
    spans = np.array([[0, 100_000]])
    z = np.empty(100_000)
    exact_draws.fill_normals(KEY, spans, z)
    z = np.nan_to_num(z)
    d = (exact_draws.dither_bits([(KEY, 0), (KEY, 1)], spans) + 0.5) / 65536
    assert stats.kstest(z, "norm").pvalue > 1e-9
    for row in d:
        assert stats.kstest(row, "uniform").pvalue > 1e-9
    columns = [z, z**2, *d, np.roll(z, 1024), np.roll(d[0], 64)]
    correlations = np.corrcoef(columns)[np.triu_indices(len(columns), 1)]
    assert np.abs(correlations).max() * np.sqrt(z.size) < 6.5


def test_every_cut_gives_the_same_draws() -> None:
    whole = np.empty(9000)
    exact_draws.fill_normals(KEY, np.array([[0, 9000]]), whole)
    bits = exact_draws.dither_bits([(KEY, 0), (KEY, 1)], np.array([[0, 9000]]))
    spans = np.array([[100, 1], [2048, 2048], [4000, 5000]])
    columns = np.concatenate([np.arange(first, first + length) for first, length in spans.tolist()])
    part = np.empty(columns.size)
    exact_draws.fill_normals(KEY, spans, part)
    np.testing.assert_array_equal(part, whole[columns])
    np.testing.assert_array_equal(exact_draws.dither_bits([(KEY, 0), (KEY, 1)], spans), bits[:, columns])
