"""Proved noise: its integers are those of balls of Arb, whatever level finds them; limits, memory and refusals."""

from __future__ import annotations

import os
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from flint import ctx
from scipy import stats

import corrnoise as cn
from corrnoise.simulations.run import draws, exact_draws
from corrnoise.simulations.run.exact_numbers import Balls, Pairs
from corrnoise.simulations.run.exact_steps import exact_deviation, recurrence
from corrnoise.simulations.run.model_noise import ModelNoise
from corrnoise.simulations.run.proved import ProvedNoise, integers
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.participation import ANY_LENGTH, Participation
from tests.simulations.run.crashes import dies
from tests.simulations.run.sources import KEY, counted, known_key

SECRET = bytes(range(32))
EPOCHS = Participation.fixed_epochs(8, epochs=2)
SECTIONS = cn.mechanisms.ProductNoise([0.001, 0.02, 0.004, 0.05], [1, 1, -1, -1])
BANDED = cn.mechanisms.BandedNoise([[1.0] * 8, [-0.4375] * 7 + [0], [-0.15625] * 6 + [0, 0]])
FIRST = [142474604, -135481545, 53565260]  # at coordinates 0, 1, 1023 of step 0: made by an independent program
KNOWN = {
    "dpsgd": (cn.mechanisms.DPSGD(), [90586615, 212552761, -202697956], [-194249011, 264659371, 98294932]),
    "sections": (SECTIONS, [85884953, 217023652, -204465609], [-201711787, 261898979, 103302123]),
    "finite": (
        cn.mechanisms.FiniteNoise([1, -0.5, 0.25]),
        [19349313, 280293533, -229480586],
        [-203923667, 124512604, 213035225],
    ),
    "banded": (BANDED, [152919254, 153279585, -179263155], [-105085181, 310550198, 28236874]),
}
GROWING, SHRINKING = np.linspace(0.5, 2, 8), np.linspace(3, 0.3, 8)
FORMS: dict[str, Mechanism] = {
    **{name: known[0] for name, known in KNOWN.items()},
    "scaled sections": cn.mechanisms.ScaledNoise(SECTIONS, GROWING, SHRINKING),
    "scaled finite": cn.mechanisms.ScaledNoise(cn.mechanisms.FiniteNoise([1, -0.5, 0.25]), GROWING, SHRINKING),
    "four rows": cn.mechanisms.ProductNoise([1e-4, 0.02, 0.3, 1.3, 3e-4, 0.05, 0.7, 1.9], [1] * 4 + [-1] * 4),
    "buffers": cn.mechanisms.TimeVaryingBuffers(
        [0.9, 0.5, 0.0],
        np.linspace(0.1, 0.9, 24).reshape(8, 3),
        np.linspace(0.8, 0.2, 24).reshape(8, 3) * np.tile([8.0, 0.1], 4)[:, np.newaxis],  # rows have units of steps
        np.linspace(1.0, 2.0, 8),
    ),
    "replays": cn.mechanisms.TimeVaryingBuffers(
        [0.9, 0.5],
        np.linspace(0.1, 0.9, 16).reshape(8, 2),
        np.linspace(0.8, 0.2, 16).reshape(8, 2),
        np.linspace(1.0, 2.0, 8),
        replays=[[0.0] * 4 + [-0.4, 0.3, -0.2, 0.5]],
        period=4,
    ),
    "tree": cn.mechanisms.BinaryTree(8, decay=0.1),
    "matrix": cn.mechanisms.MatrixNoise(np.tril(np.cos(np.arange(64).reshape(8, 8))) + np.eye(8)),
}


def program_of(mechanism: Mechanism) -> Program:
    return mechanism.program(EPOCHS, dtype="exact")


def made(
    program: Program, size: int, steps: int = 3, scale: float = 10.96, unit: float = 2.0**-24, **options: object
) -> tuple[np.ndarray, ProvedNoise]:
    noise = ProvedNoise(program, size, 1, scale=scale, unit=unit, **options)  # type: ignore[arg-type]
    return np.array([noise.made(SECRET, step, b"", scale) for step in range(steps)]), noise


@pytest.mark.parametrize("name", KNOWN)
def test_known_integers(name: str) -> None:
    mechanism, *later = KNOWN[name]
    program = program_of(mechanism)
    expected = [FIRST, *later]
    exact = integers(program, SECRET, scale=10.96, unit=2.0**-24, coordinates=[0, 1, 1023], steps=3)
    assert exact.tolist() == expected
    assert made(program, 1024)[0][:, [0, 1, 1023]].tolist() == expected


@pytest.mark.parametrize(
    ("name", "unit"), [*((name, 2.0**-24) for name in FORMS), ("dpsgd", 2.0**-30), ("four rows", 2.0**-30)]
)
def test_floats_pairs_and_balls_give_the_same_integers(name: str, unit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(FORMS[name])
    steps, count = (8, 12) if name in ("replays", "tree") else (3, 30)
    coordinates = range(2000, 2000 + count)
    exact = integers(program, SECRET, scale=10.96, unit=unit, coordinates=coordinates, steps=steps)
    found, noise = made(program, 2200, steps, unit=unit)
    np.testing.assert_array_equal(found[:, coordinates], exact)
    assert noise.refined < (0.2 if unit < 2.0**-29 else 0.002)
    monkeypatch.setattr(exact_draws, "NORMAL_ERROR", 1.0)  # everything is left open by floats
    paired, noise = made(program, 2200, steps, unit=unit)
    assert noise.refined == 1
    np.testing.assert_array_equal(paired, found)
    if name == "sections":
        monkeypatch.setattr(exact_draws, "PAIR_ERROR", 1.0)  # and by pairs
        np.testing.assert_array_equal(made(program, 30, unit=unit)[0], found[:, :30])


@pytest.mark.parametrize("name", FORMS)
def test_the_integers_are_the_noising_matrix_times_the_draws(name: str) -> None:
    """Up to the errors of memory and of floats here, of less than 2⁻¹⁵ of the noise."""
    program, spans = program_of(FORMS[name]), np.array([[0, 500]])
    z = np.empty((8, 500))
    for step, row in enumerate(z):
        exact_draws.fill_normals(exact_draws.step_key(SECRET, step, b""), spans, row)
    expected = 10.96 * 2**24 * (program.mechanism.noising_matrix(8) @ z)
    assert np.abs(made(program, 500, 8)[0] - expected).max() < 2.0**-15 * np.abs(expected).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
def test_many_integers_of_floats_are_those_of_pairs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = program_of(FORMS[name])
    found, noise = made(program, 100_000, 4, unit=2.0**-24)
    assert noise.opened / 400_000 == pytest.approx(noise.refined, rel=0.4, abs=3e-5)
    assert noise.refined < (1e-3 if name == "buffers" else 5e-4)  # whose rows change their units by a factor of 64
    monkeypatch.setattr(exact_draws, "NORMAL_ERROR", 1.0)
    np.testing.assert_array_equal(made(program, 100_000, 4, unit=2.0**-24)[0], found)


@pytest.mark.parametrize("name", ["dpsgd", "sections"])
@pytest.mark.parametrize("coordinate", [43_163, 182_514, 348_517, 1_112_687])
def test_words_that_floats_do_not_know_are_refined(name: str, coordinate: int) -> None:
    """Pairs of coordinates whose radius has an extreme word at step 0."""
    program = program_of(FORMS[name])
    pair = [coordinate, coordinate ^ 1024]
    found, noise = made(program, 2_000_000, 2, spans=[(each, 1) for each in sorted(pair)])
    assert noise.opened >= 2
    exact = integers(program, SECRET, scale=10.96, unit=2.0**-24, coordinates=sorted(pair), steps=2)
    np.testing.assert_array_equal(found, exact)


@pytest.mark.parametrize("name", ["sections", "scaled finite", "matrix"])
def test_every_cut_gives_the_same_integers(name: str) -> None:
    program = program_of(FORMS[name])
    whole = made(program, 140_000, 3)[0]
    spans = [(100, 1), (60_000, 70_000), (135_168, 4096)]
    columns = np.concatenate([np.arange(first, first + length) for first, length in spans])
    np.testing.assert_array_equal(made(program, 140_000, 3, spans=spans)[0], whole[:, columns])
    threads = ProvedNoise(program, 140_000, 2, scale=10.96, unit=2.0**-24)
    np.testing.assert_array_equal([threads.made(SECRET, step, b"", 10.96) for step in range(3)], whole)
    threads.close()


def test_a_delay_line_makes_its_draws_again() -> None:
    program = program_of(FORMS["scaled finite"])
    kept, ring = made(program, 3000, 5)
    again, replay = made(program, 3000, 5, memory="replay")
    np.testing.assert_array_equal(kept, again)
    assert (ring.rows, replay.rows) == (3, 0)


def test_nonces_make_other_noise() -> None:
    program = program_of(SECTIONS)
    nonces = [b"a" * 16, b"b" * 16, b"c" * 16]
    noise = ProvedNoise(program, 50, 1, scale=10.96, unit=2.0**-24)
    found = np.array([noise.made(SECRET, step, nonce, 10.96) for step, nonce in enumerate(nonces)])
    exact = integers(program, SECRET, scale=10.96, unit=2.0**-24, coordinates=range(50), steps=3, nonces=nonces)
    np.testing.assert_array_equal(found, exact)
    assert not (found == made(program, 50)[0]).any()


# -- limits ------------------------------------------------------------------------------------------------------------


def test_limits_are_those_of_the_linear_forms() -> None:
    """Σ |c| e + (m + 2) u Σ |c| A of the terms of v/u + D and of f y/h; a tenth, or one term less, is too small."""
    program = program_of(SECTIONS)
    zeros, poles = ([Fraction(each) for each in gaps.tolist()] for gaps in program.unscaled.sections())
    form = recurrence(program, 10.96, 2.0**-24)
    units = [Fraction(each) for each in form.units(0).tolist()]
    factor, u = Fraction(10.96) * 2**24, Fraction(1, 2**53)
    draw = (Fraction(19, 2), Fraction(1, 2**46))
    rows = [(2**31 * unit, unit / 2**17) for unit in units]

    def linear(terms: list[tuple[Fraction, tuple[Fraction, Fraction]]], *, errors: bool = True) -> Fraction:
        sizes = sum((abs(c) * term[0] for c, term in terms), Fraction(0))
        known = sum((abs(c) * term[1] for c, term in terms), Fraction(0))
        return known + ((len(terms) + 2) * u * sizes if errors else 0)

    one, gains = Fraction(1), [a - q for a, q in zip(zeros, poles, strict=True)]
    dither = (one, Fraction(1, 2**17))
    terms = [
        [(factor, draw), *((factor * gain, row) for gain, row in zip(gains, rows, strict=True))],
        [(1 / units[0], draw), ((1 - poles[0]) / units[0], rows[0]), (one, dither)],
        [
            (1 / units[1], draw),
            (gains[0] / units[1], rows[0]),
            ((1 - poles[1]) / units[1], rows[1]),
            (one, dither),
        ],
    ]
    found = form.limits(1, [])
    for limit, each in zip(found, terms, strict=True):
        assert linear(each, errors=False) <= Fraction(limit) < linear(each) * Fraction(3, 2)
        assert linear(each[:-1], errors=False) < Fraction(limit) * Fraction(99, 100)
    paired = form.limits(1, [], pairs=True)
    assert (paired < 2.0**-39).all()
    assert (paired >= 2.0**-40).all()


def test_differences_of_gaps_are_exact() -> None:
    for a, q in ((0.001, 0.3), (1.0, 1e-17), (0.1, 0.1 + 2.0**-40)):
        exact = Fraction(a) - Fraction(q)
        pair = Pairs(1).difference(a, q)
        assert Fraction(float(pair.high[0])) + Fraction(float(pair.low[0])) == exact
        with ctx.workprec(300):
            ball = Balls().difference(a, q)
            assert ball.is_exact()
            assert ball * exact.denominator == exact.numerator


def test_limits_of_substitution_follow_the_integers() -> None:
    form = recurrence(program_of(BANDED), 10.96, 2.0**-24)
    small, large = (form.limits(4, [size, size])[0] for size in (2.0**20, 2.0**38))
    assert small < 2.0**-16 < 2.0**-15 < large


@pytest.mark.parametrize("name", ["buffers", "replays", "mostly replays"])
def test_limits_of_buffers_have_the_units_of_the_step_that_wrote_them(name: str) -> None:
    replayed = cn.mechanisms.TimeVaryingBuffers(
        [0.9], np.full((8, 1), 1e-6), np.ones((8, 1)), np.ones(8), replays=[[0.0] * 4 + [3.0] * 4], period=4
    )
    program = program_of(replayed if name == "mostly replays" else FORMS[name])
    form, noise, u = recurrence(program, 10.96, 2.0**-24), program.mechanism, 2.0**-53
    for step in (1, 4, 5):
        read, written = form.units(step - 1), form.units(step)
        known = read / 2**17 + 2**31 * read * u
        y = (noise.outputs[step] * known).sum() + 2.0**-46 * (1 + np.abs(noise.replays[:, step]).sum())
        v = (noise.decays * known + noise.inputs[step] * y) / written + 2.0**-17
        expected = np.array([y * noise.scales[step] * 10.96 * 2**24, *v])
        found = form.limits(step, [])
        assert (expected <= found).all()
        assert (found < expected * 1.5).all()
    assert (form.read_units(0) == 0).all()


def test_limits_of_a_tree_are_those_of_its_node() -> None:
    program = program_of(FORMS["tree"])
    form, noise, u = recurrence(program, 10.96, 2.0**-24), program.mechanism, 2.0**-53
    for step in range(8):
        height = (step + 1 & -(step + 1)).bit_length() - 1
        known = form.read_units(step) / 2**17 + 2**31 * form.read_units(step) * u
        node = noise.draws[height] * 2.0**-46 + (np.abs(noise.estimates[height, :height]) * known).sum()
        y = node + (np.abs(noise.left[:height]) * known).sum()
        expected = np.array([y * 10.96 * 2**24, node / form.units(step)[0] + 2.0**-17])
        found = form.limits(step, [])
        assert (expected <= found).all()
        assert (found < expected * 1.5).all()


def test_the_noise_of_each_step_is_as_wide_as_the_grid() -> None:
    for scales in (
        {"step_scales": np.array([1.0] * 7 + [2.0**-20])},
        {"draw_scales": np.array([2.0**-20] + [1.0] * 7)},
    ):
        program = program_of(cn.mechanisms.ScaledNoise(SECTIONS, **scales))
        assert recurrence(program, 1.0, 2.0**-20).least_share == 1
        with pytest.raises(ValueError, match="as fine as the noise"):
            recurrence(program, 1.0, 2.0**-19)


def test_limits_of_a_resumed_substitution_know_its_integers() -> None:
    program = program_of(BANDED)
    _, noise = made(program, 50, 2)
    again = ProvedNoise(program, 50, 1, scale=10.96, unit=2.0**-24)
    again.memory = noise.memory
    assert list(again._largest) == [np.abs(noise.memory).max()] * 2


def test_replays_and_trees_are_refused_without_the_nonces_of_their_steps() -> None:
    for name, step, needed in (("replays", 4, 0), ("tree", 7, 3), ("tree", 3, 2)):
        program = program_of(FORMS[name])
        noise = made(program, 50, step)[1]
        again = ProvedNoise(program, 50, 1, scale=10.96, unit=2.0**-24)
        again.memory = noise.memory
        again.know({each: b"" for each in range(step) if each != needed})
        with pytest.raises(RuntimeError, match=f"nonce of step {needed}"):
            again.made(SECRET, step, b"", 10.96)
        again.know({needed: b""})
        found = again.made(SECRET, step, b"", 10.96)
        np.testing.assert_array_equal(found, made(program, 50, step + 1)[0][step])


@pytest.mark.parametrize("decoder", ["online", "binary"])
@pytest.mark.parametrize("decay", [0.0, 0.1, 0.7])
def test_the_sensitivity_of_a_tree_covers_its_stored_weights(decoder: str, decay: float) -> None:
    """N of the floats as rational numbers, inverted exactly; C has no negative entries."""
    tree = cn.mechanisms.BinaryTree(16, decoder=decoder, decay=decay)  # type: ignore[arg-type]
    who = Participation.fixed_epochs(16, epochs=4)
    draw, left = ([Fraction(weight) for weight in each.tolist()] for each in (tree.draws, tree.left))
    estimates = [[Fraction(weight) for weight in row] for row in tree.estimates.tolist()]
    sums = [[Fraction(0)] * 16 for _ in range(4)]  # of the columns of a class
    for column in range(16):
        nodes: dict[int, Fraction] = {}
        for t in range(1, 17):  # the rows of C, from y = e_column: z = (node − Σ a node')/c, node = y + Σ δ node'
            height = (t & -t).bit_length() - 1
            node = Fraction(t - 1 == column) + sum(left[b] * nodes[b] for b in range(height))
            z = (node - sum(estimates[height][b] * nodes[b] for b in range(height))) / draw[height]
            assert z >= 0
            nodes[height] = node
            sums[column % 4][t - 1] += z
    square = max(sum(each**2 for each in row) for row in sums)
    upper = Fraction(tree.program(who, dtype="exact").sensitivity)
    assert square <= upper**2 <= square * Fraction(1 + 1e-11)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_errors_of_memory_are_uniform_and_independent_of_the_draws() -> None:
    """Each p-value is below 1e-9 with probability 1e-9, and each correlation above 6.5 with less than that."""
    program, size = program_of(SECTIONS), 200_000
    _, noise = made(program, size, 1)
    key, spans = exact_draws.step_key(SECRET, 0, b""), np.array([[0, size]])
    z = np.empty(size)
    exact_draws.fill_normals(key, spans, z)
    dithers = (exact_draws.dither_bits([(key, 0), (key, 1)], spans) + 0.5) / 65536
    for row, unit in enumerate(recurrence(program, 10.96, 2.0**-24).units(0)):
        v = np.nan_to_num(z) / unit  # the draw of step 0 goes into each row
        known = ~np.isnan(z)
        error = (noise.memory[row] - dithers[row] - v)[known]
        v = v[known]
        assert np.abs(error).max() <= 0.5 + 2.0**-16
        assert stats.kstest(np.clip(error, -0.5, 0.5), "uniform", args=(-0.5, 1)).pvalue > 1e-9
        for other in (v, np.abs(v), np.mod(v, 1), np.cos(2 * np.pi * v), dithers[row][known]):
            assert abs(np.corrcoef(error, other)[0, 1]) * np.sqrt(size) < 6.5
        plain = np.floor(v + 0.5) - v  # without a dither the error tells v modulo u
        assert abs(np.corrcoef(plain, np.mod(v + 0.5, 1))[0, 1]) > 0.99


@pytest.mark.parametrize("name", FORMS)
def test_deviations_of_noise_and_rows_are_bounded(name: str) -> None:
    """The grid and the units rest on them; 20 000 coordinates show each to 3 %, with false alarms below 1e-9."""
    program = program_of(FORMS[name])
    matrix = program.mechanism.noising_matrix(8)
    norms = np.linalg.norm(matrix, axis=1)
    spread = 7.0 if name.startswith("scaled") else 1.000001  # factors of steps and draws are bounded apart
    assert norms.max() <= exact_deviation(program) <= norms.max() * spread
    if len(recurrence(program, 10.96, 2.0**-24).units(0)):
        deviations = np.array([np.std(made(program, 20_000, steps)[1].memory, axis=1) for steps in (1, 3, 6, 8)])
        assert (deviations.max(axis=0) <= 2.0**26 * 1.04).all()
        assert (deviations.max(axis=0) > 2.0**22).all()


@pytest.mark.parametrize("name", ["tree", "replays"])
def test_rows_are_read_with_the_dithers_of_the_steps_that_wrote_them(name: str) -> None:
    """A step in floats, from the integers in memory and dithers that are found by another way."""
    program, spans, mechanism = program_of(FORMS[name]), np.array([[0, 300]]), program_of(FORMS[name]).mechanism
    noise, form = ProvedNoise(program, 300, 1, scale=10.96, unit=2.0**-24), recurrence(program, 10.96, 2.0**-24)
    draws_so_far, rows = np.empty((8, 300)), np.zeros((noise.rows, 300))
    for step, z in enumerate(draws_so_far):
        key = exact_draws.step_key(SECRET, step, b"")
        exact_draws.fill_normals(key, spans, z)
        found = noise.made(SECRET, step, b"", 10.96) * 2.0**-24 / 10.96
        if name == "tree":
            height = [0, 1, 0, 2, 0, 1, 0, 3][step]
            node = mechanism.draws[height] * z + mechanism.estimates[height, :height] @ rows[:height]
            y = node - mechanism.left[:height] @ rows[:height]
            written = {height: node}
        else:
            u = z + (mechanism.replays[0, step] * draws_so_far[step - 4] if step >= 4 else 0.0)
            y = u - mechanism.outputs[step] @ rows
            after = mechanism.decays[:, np.newaxis] * rows + mechanism.inputs[step][:, np.newaxis] * y
            written, y = dict(enumerate(after)), y * mechanism.scales[step]
        assert np.abs(found - y).max() < 0.51 * 2.0**-24 / 10.96
        for (row, value), unit in zip(written.items(), form.units(step), strict=True):
            dither = (exact_draws.dither_bits([(key, row)], spans)[0] + 0.5) / 65536
            rows[row] = unit * (noise.memory[row] - dither)
            assert np.abs(rows[row] - value).max() < 0.51 * unit


def test_memory_takes_four_bytes_a_row() -> None:
    noise = made(program_of(SECTIONS), 100)[1]
    assert noise.memory.shape == (2, 100)
    assert noise.memory.itemsize == 4
    assert np.abs(noise.memory).max() > 2**24  # and has the digits that it can hold


# -- sensitivity and refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMS)
def test_the_sensitivity_is_that_of_the_stored_numbers(name: str) -> None:
    given = FORMS[name]
    program = program_of(given)
    assert program.sensitivity == program.mechanism.bracket(EPOCHS.worst).upper
    rounded = given.program(EPOCHS, dtype="float64")
    assert program.sensitivity < rounded.sensitivity < program.sensitivity * (1 + 1e-5)
    budget = cn.Budget(epsilon=2.0, delta=1e-6)
    assert program.multiplier(budget) < rounded.multiplier(budget)
    assert program.leading(4).sensitivity <= program.sensitivity


def test_other_forms_and_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="release='grid'"):
        SECTIONS.program(EPOCHS, dtype="exact", form="transform")
    with pytest.raises(ValueError, match="dtype='exact'"):
        ProvedNoise(SECTIONS.program(EPOCHS), 10, 1, scale=1.0, unit=2.0**-24)
    program = program_of(SECTIONS)
    with pytest.raises(ValueError, match="as fine as the noise"):
        ProvedNoise(program, 10, 1, scale=1.0, unit=2.0)
    with pytest.raises(ValueError, match="memory must be 'ring'"):
        ProvedNoise(program, 10, 1, scale=1.0, unit=2.0**-24, memory="replay")
    with pytest.raises(ValueError, match="size must keep a run within"):
        ProvedNoise(SECTIONS.program(ANY_LENGTH, "exact"), 2**62, 1, scale=1.0, unit=2.0**-24)
    slow = cn.mechanisms.ProductNoise([1e-10, 1e-9], [1, -1]).program(ANY_LENGTH, "exact")
    with pytest.raises(ValueError, match="poles must forget"):
        ProvedNoise(slow, 10, 1, scale=1.0, unit=2.0**-24)
    noise = ProvedNoise(program, 10, 1, scale=2.0**14, unit=2.0**-28)
    with pytest.raises(RuntimeError, match="range"):
        noise.made(SECRET, 0, b"", 2.0**14)


# -- runs --------------------------------------------------------------------------------------------------------------

BUDGET = cn.Budget(epsilon=2.0, delta=1e-6, clip_norm=0.5)
ORDER = cn.batches(EPOCHS, 40, 10)


def run_of(mechanism: Mechanism = SECTIONS, budget: cn.Budget = BUDGET, **options: Any) -> cn.PrivateRun:
    given: dict[str, Any] = {"batches": ORDER, "sums": "exact", "release": "proved", "threads": 1, **options}
    return cn.PrivateRun(budget, EPOCHS, mechanism, 3000, **given)


@pytest.mark.parametrize("name", FORMS)
def test_a_run_releases_the_grid_times_sum_and_integers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "fresh", lambda size: bytes(range(size)))
    run = run_of(FORMS[name])
    grid = run.grid
    assert grid is not None
    assert grid.unit >= 2.0**-28 * run.scale * exact_deviation(run.program)
    total = np.arange(-1500, 1500, dtype=grid.dtype)
    exact = integers(run.program, SECRET, scale=run.scale, unit=grid.unit, coordinates=range(9), steps=3)
    for step, batch in zip(range(3), run, strict=False):
        noisy = run.add_noise(total)
        assert batch.size == 10
        np.testing.assert_array_equal(noisy[:9], ((total[:9] + exact[step]) * grid.unit).astype(np.float32))


def test_a_run_says_what_is_proved() -> None:
    run = run_of()
    assert (run.level, run.release, run.total_variation) == ("proved", "proved", 2.0**-256)
    assert "2^-256, if ChaCha20 cannot be told from random bits" in " ".join(run.summary().split())
    run.next_batch()
    run.add_noise(np.zeros(3000, run.grid.dtype))  # type: ignore[union-attr]
    report = run.report()
    assert (report["total variation"], report["generator"]) == (2.0**-256, "ChaCha20")
    assert 0 <= report["refined"] < 1e-2
    assert report["bytes of memory"] == 2 * 4 * 3000
    grid = run_of(release="grid")
    assert (grid.total_variation, grid.report()["total variation"]) == (None, None)
    assert grid.report()["refined"] is None
    assert grid.report()["generator"] == "Philox4x32-10"
    by_rho = run_of(budget=cn.Budget(rho=0.5))
    assert "within 2^-256 of 0.5-zCDP" in " ".join(by_rho.summary().split())


def test_delta_leaves_the_total_variation() -> None:
    run = run_of()
    multiplier = run.report()["multiplier"]
    assert multiplier == run.program.multiplier(BUDGET)
    larger = 0
    for delta in np.geomspace(0.01, 0.3, 60):
        given, below = (cn.Budget(epsilon=0.1, delta=each) for each in (float(delta), float(np.nextafter(delta, 0))))
        assert run.program.multiplier(given) == below.multiplier(run.program.sensitivity)
        larger += below.multiplier(run.program.sensitivity) > given.multiplier(run.program.sensitivity)
    assert larger  # the float below δ is not δ
    assert run.profile().epsilon_at(1e-6) <= 2.0  # at the δ of the budget
    ideal = run.program.profile(multiplier)
    for delta in (1e-3, 1e-9):
        assert run.profile().epsilon_at(delta) == ideal.epsilon_at(np.nextafter(delta, 0))
    assert run.profile().epsilon_at(2.0**-240) == np.inf  # the float below δ leaves too little
    assert run.profile().delta_at(1.0) > ideal.delta_at(1.0)
    assert run.profile(1).delta_at(80.0) >= np.exp(80.0) * 2.0**-256  # and of the first steps
    both = cn.privacy.compose(run.profile(), ideal, run.profile())
    assert both.epsilon_at(1e-5) > run.profile().epsilon_at(1e-5)
    assert both.delta_at(80.0) >= 2 * np.exp(80.0) * 2.0**-256
    with pytest.raises(ValueError, match="at most 69"):
        run_of(budget=cn.Budget(epsilon=70.0, delta=1e-6))
    with pytest.raises(ValueError, match="at least 2"):
        run_of(budget=cn.Budget(epsilon=2.0, delta=2.0**-101))


def test_sampled_runs_are_proved_too() -> None:
    sampled = Participation.poisson(8, rate=0.25)
    budget = cn.Budget(epsilon=2.0, delta=1e-6)
    batches = cn.batches(sampled, 40)
    with known_key():
        run = cn.PrivateRun(
            budget, sampled, cn.mechanisms.DPSGD(), 100, batches=batches, sums="exact", release="proved", threads=1
        )
    for step, batch in enumerate(run):
        words = draws.words(draws.derived(KEY, b"batches", size=32), b"take", step, 40, generator="ChaCha20")
        np.testing.assert_array_equal(batch, np.flatnonzero(words < 2.0**62))
        run.add_noise(np.zeros(100, run.grid.dtype))  # type: ignore[union-attr]
    assert run.profile().epsilon_at(1e-6) <= 2.0
    assert run.report()["multiplier"] < budget.multiplier(run.program.sensitivity)


@pytest.mark.parametrize(
    "options",
    [
        {"maker": partial(ModelNoise)},
        {"dtype": "float64"},
        {"sums": "float32"},
        {"release": "grid", "dtype": "exact"},
    ],
)
def test_other_runs_are_refused(options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"grid|float"):
        run_of(**options)
    assert not list(tmp_path.iterdir())


def releases(run: cn.PrivateRun, until: int) -> list[bytes]:
    found = []
    while run.position < until:
        run.next_batch()
        found.append(run.add_noise(np.zeros(3000, run.grid.dtype)).tobytes())  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("name", FORMS)
def test_a_restart_makes_skipped_steps_again(name: str, tmp_path: Path) -> None:
    """The integers of later steps are those of a run without a crash: with rows, draws and nonces of skipped steps."""

    def opened(place: str) -> cn.PrivateRun:
        folder = cn.Folder(tmp_path / place, marks=tmp_path / f"{place} marks", checkpoint_every=3, keep_releases=False)
        return run_of(FORMS[name], folder=folder)

    with mock.patch.object(os, "fsync", return_value=None):
        with counted(), opened("whole") as run:
            whole = releases(run, 8)
        with counted():
            run = opened("again")
            assert releases(run, 5) == whole[:5]
            dies(run)
            run = opened("again")
            assert (run.position, run.skipped) == (5, 2)  # the last checkpoint is before step 3
            assert releases(run, 7) == whole[5:7]
            run.close()
            with opened("again") as run:
                assert (run.position, run.skipped) == (7, 0)
                assert releases(run, 8) == whole[7:]


@pytest.mark.parametrize("name", ["sections", "buffers", "tree"])
def test_dithers_are_those_of_the_step_that_wrote_the_memory(name: str) -> None:
    """A maker whose memory is set back has the dithers of later steps."""
    program = program_of(FORMS[name])
    whole = made(program, 50, 8)[0]
    memory = made(program, 50, 3)[1].memory
    noise = made(program, 50, 6)[1]
    noise.memory = memory
    noise.know(dict.fromkeys(range(3), b""))
    np.testing.assert_array_equal([noise.made(SECRET, step, b"", 10.96) for step in range(3, 8)], whole[3:])


def test_a_restart_needs_the_nonce_of_the_step_that_wrote_the_memory() -> None:
    program = program_of(SECTIONS)
    _, noise = made(program, 50, 2)
    again = ProvedNoise(program, 50, 1, scale=10.96, unit=2.0**-24)
    again.memory = noise.memory
    with pytest.raises(RuntimeError, match="nonce of step 1"):
        again.made(SECRET, 2, b"", 10.96)
    again.know({1: b""})
    np.testing.assert_array_equal(again.made(SECRET, 2, b"", 10.96), made(program, 50)[0][2])
