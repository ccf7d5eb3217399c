"""Exact sums and releases on their grid, against rational numbers, and the mutants that privacy must not survive."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.run import sums
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid, add_truncated, grid_dtype, grid_exponent, grid_of, released
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import counted

#: Exponents for G = 1 of B examples, in int32 and int64.
EXPONENTS = {
    71: (-24, -56),
    256: (-22, -54),
    1000: (-21, -53),
    1024: (-20, -52),
    4096: (-18, -50),
    10_000: (-17, -49),
    65_536: (-14, -46),
}
NORMS = st.floats(2.0**-40, 2.0**40)
SIZES = st.integers(1, 10**6)


# -- the grid ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("examples", "exponents"), EXPONENTS.items())
def test_exponents(examples: int, exponents: tuple[int, int]) -> None:
    assert (grid_exponent(1.0, examples), grid_exponent(1.0, examples, "int64")) == exponents


@given(NORMS, SIZES, st.sampled_from([("int32", 2**31 - 1), ("int64", 2**63 - 1)]))
def test_it_is_the_smallest_that_fits(norm: float, examples: int, kind: tuple[Any, int]) -> None:
    """The mutant, a unit less, lets B aligned gradients overflow."""
    dtype, most = kind
    k = grid_exponent(norm, examples, dtype)
    assert examples * math.floor(Fraction(norm) / Fraction(2) ** k) <= most
    assert examples * math.floor(Fraction(norm) / Fraction(2) ** (k - 1)) > most


@given(NORMS, SIZES, st.integers(1, 10**9))
def test_the_shorter_type_is_taken_where_it_loses_little(norm: float, examples: int, size: int) -> None:
    lost = Fraction(2) ** (2 * grid_exponent(norm, examples)) * size
    assert (grid_dtype(norm, examples, size) == "int32") == (lost <= Fraction(norm) ** 2 / 2**20)


@given(NORMS, SIZES, st.integers(1, 10**9), st.floats(0.1, 100))
def test_grids_of_runs_have_room_for_the_noise(norm: float, examples: int, size: int, multiplier: float) -> None:
    grid = grid_of(norm, examples, size, multiplier * norm)
    assert grid.largest == examples * math.floor(Fraction(norm) / Fraction(grid.unit))
    assert grid.largest + 2**40 < 2**63
    assert grid.largest <= np.iinfo(grid.dtype).max
    assert grid.unit >= 2.0**-32 * multiplier * norm
    assert grid.unit < 2.0**-31 * multiplier * norm or grid.exponent <= grid_exponent(norm, examples, grid.dtype) + 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 5), "clip_norm"),
        ((2.0**-41, 5), "clip_norm must"),
        ((math.inf, 5), "clip_norm"),
        ((1.0, 0), "batch_size"),
        ((1.0, 2**31), "batch_size must"),
        ((1.0, 5, "int16"), "dtype must"),
    ],
)
def test_refusals_of_grids(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grid_exponent(*arguments)


# -- sums --------------------------------------------------------------------------------------------------------------


def truncated(gradients: np.ndarray, factors: np.ndarray, dtype: str = "int64") -> np.ndarray:
    total = np.zeros(gradients.shape[1], dtype)
    add_truncated(gradients, factors, total)
    return total


@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]))
def test_sums_are_those_of_rational_numbers(seed: int, dtype: str) -> None:
    """Each product is rounded once, then truncated."""
    rng = np.random.default_rng(seed)
    gradients = (rng.normal(size=(5, 7)) * 10.0 ** rng.uniform(-6, 6, size=(5, 1))).astype(dtype)
    factors = rng.uniform(0, 100, size=5).astype(dtype)
    factors[0] = 0
    gradients[0, :3] = [np.nan, np.inf, -np.inf]
    expected = [0] * 7
    for row, factor in zip(gradients[1:], factors[1:], strict=True):
        expected = [sum_ + math.trunc(Fraction(float(one * factor))) for sum_, one in zip(expected, row, strict=True)]
    assert truncated(gradients, factors).tolist() == expected


@given(st.integers(0, 2**32 - 1))
def test_sums_do_not_depend_on_the_order_nor_on_the_cut_nor_on_partial_overflow(seed: int) -> None:
    """In float32 they do."""
    rng = np.random.default_rng(seed)
    gradients = rng.normal(size=(64, 5)).astype(np.float32)
    factors = np.full(64, 2**31 / 70, np.float32)  # partial sums of a few rows wrap around
    gradients -= gradients.mean(axis=0)
    order, cut = rng.permutation(64), int(rng.integers(1, 63))
    whole = truncated(gradients, factors, "int32")
    parts = [truncated(gradients[rows], factors[rows], "int32") for rows in (order[:cut], order[cut:])]
    np.testing.assert_array_equal(whole, parts[0] + parts[1])
    assert (np.abs(truncated(gradients, factors)) < 2**31).all()
    np.testing.assert_array_equal(whole, truncated(gradients, factors).astype(np.int32))


# -- releases ----------------------------------------------------------------------------------------------------------

GRID = Grid(-21, "int32", 1000 * 2**21)


@given(
    st.integers(-(2**31) + 1, 2**31 - 1), st.floats(-1e3, 1e3) | st.integers(-(2**20), 2**20).map(lambda n: n / 2**22)
)
def test_a_release_is_the_floor_of_the_ideal_mechanism(total: int, noise: float) -> None:
    """⌊(h S + y)/h + ½⌋ in rational numbers, ties included."""
    unit = Fraction(GRID.unit)
    ideal = math.floor((unit * total + Fraction(noise)) / unit + Fraction(1, 2))
    found = released(np.array([total], np.int32), np.array([noise]), GRID)
    assert found.tolist() == [float(np.float32(float(unit * ideal)))]


def test_ties_do_not_show_the_sum() -> None:
    """The mutant rounds to even: from a sum of one unit half a unit gives 2, and 1 more than from none."""
    half = np.array([GRID.unit / 2])
    none, one = (float(released(np.array([k], np.int32), half, GRID)[0] / GRID.unit) for k in (0, 1))
    assert one - none == 1
    assert 1 + np.rint(0.5) != np.rint(1.5)


def shares(release: Callable[[int, np.ndarray], np.ndarray], event: Callable[[np.ndarray], np.ndarray]) -> list[float]:
    """How often the event has the releases of the sums 0 and 1, with noise of standard deviation 8."""
    noise = 8 * np.random.default_rng(0).standard_normal(2**20)
    return [float(np.mean(event(release(total, noise)))) for total in (0, 1)]


def test_a_sum_of_floats_plus_noise_in_floats_leaks_the_sum() -> None:
    """Whether it is a multiple of 2⁻²⁴: so δ >= 0.0332 for every ε, with one coordinate and a noise multiplier of 8."""

    def off_grid(values: np.ndarray) -> np.ndarray:
        return np.asarray(np.ldexp(values.astype(float), 24) % 1 != 0)

    floats = shares(lambda total, noise: np.float32(total) + noise.astype(np.float32), off_grid)
    below = [math.erf(8**-1 * 2.0**-j / math.sqrt(2)) for j in range(1, 60)]
    lower = sum((1 - 2.0**-j) * (below[j - 1] - below[j]) for j in range(1, 59))
    assert lower == pytest.approx(0.033228, abs=1e-6)
    # A binomial share of 2²⁰ is off by more than 5.5 standard deviations with probability 4e-8.
    assert floats[0] > lower - 5.5 * math.sqrt(lower / 2**20)
    assert floats[1] == 0
    unit = round(1 / GRID.unit)
    on_grid = shares(lambda total, noise: released(np.full(noise.size, total * unit, np.int32), noise, GRID), off_grid)
    assert on_grid == [0, 0]


def test_noise_that_was_rounded_to_float32_shows_the_parity_of_the_sum() -> None:
    """Beyond 8 a unit of float32 is two of the grid, hence an odd release has another sum."""
    noise = 8 * np.random.default_rng(1).standard_normal(2**18)
    beyond = noise[np.abs(noise) > 8.001]

    def odd(values: np.ndarray) -> float:
        found = np.empty(values.size)
        sums.release_of(np.zeros(values.size, np.int32), values, GRID.unit, found)
        return float(np.mean(found / GRID.unit % 2))

    assert odd(beyond) == pytest.approx(0.5, abs=5.5 * 0.5 / math.sqrt(beyond.size))
    assert odd(beyond.astype(np.float32).astype(float)) == 0


@pytest.mark.parametrize("largest", [2.0**40 * GRID.unit, -(2.0**40) * GRID.unit, math.inf, math.nan])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_noise_that_its_grid_cannot_hold_is_refused(largest: float, dtype: Any) -> None:
    with pytest.raises(RuntimeError, match="noise must be below"):
        released(np.zeros(3, dtype), np.array([0.0, largest, 1.0]), GRID)


# -- runs --------------------------------------------------------------------------------------------------------------

EPOCHS = Participation.fixed_epochs(12, epochs=2)
ORDER = batches(EPOCHS, 24, 4, rng=0)


def private(**options: Any) -> PrivateRun:
    settings: dict[str, Any] = {"batches": ORDER, "sums": "exact", "release": "grid"} | options
    return PrivateRun(Budget(0.5, clip_norm=2.0), EPOCHS, NuFTRL(0.1), 5, **settings)


def test_a_run_says_its_level_and_its_grid() -> None:
    found = {level: private(sums=sums_, release=release) for level, sums_, release in LEVELS}
    assert {level: run.level for level, run in found.items()} == {level: level for level, *_ in LEVELS}
    assert found["idealised"].grid is None
    report = found["grid"].report()
    assert report["level"] == "grid"
    assert report["grid exponent"] == grid_exponent(2.0, 4)
    assert report["multiplier"] == found["grid"].multiplier
    assert report["rho"] == 0.5
    assert (
        report["bytes of memory"] == found["grid"].program.memory * 5 * np.dtype(found["grid"].program.dtype).itemsize
    )


LEVELS = [("idealised", "float32", "float"), ("exact sums", "exact", "float"), ("grid", "exact", "grid")]


@pytest.mark.parametrize("release", ["float", "grid"])
def test_the_noise_is_that_of_a_run_of_floats(release: str) -> None:
    """Up to the grid and rounding."""
    runs = [private(release=release), private(sums="float32", release="float")]
    runs[1]._secret = runs[0]._secret
    grid = runs[0].grid
    assert grid is not None
    total = np.array([5, -7, 0, 10**6, -(2**25)], grid.dtype)
    for _ in range(6):
        for run in runs:
            run.next_batch()
        exact, floats = runs[0].add_noise(total), runs[1].add_noise(total * grid.unit)
        np.testing.assert_allclose(exact, floats, rtol=0, atol=grid.unit + 40 * runs[0].scale * 2.0**-24)
        assert release == "float" or (exact / grid.unit % 1 == 0).all()


@pytest.mark.parametrize(
    ("total", "message"),
    [
        (np.zeros(5), "5 numbers of int32, got .* of float64"),
        (np.zeros(5, np.int64), "numbers of int32, got .* of int64"),
        (np.zeros(4, np.int32), "5 numbers"),
        (np.array([2**31 - 1, 0, 0, 0, 0], np.int32), "at most .* units"),
        (np.array([0, -(2**31), 0, 0, 0], np.int32), "at most .* units"),
        (np.full(5, 2**29, np.int32), "norm of at most 8, as the sum of 4 clipped gradients"),
    ],
)
def test_sums_that_are_not_of_the_grid_are_refused(total: np.ndarray, message: str) -> None:
    run = private()
    run.next_batch()
    with pytest.raises(ValueError, match=message):
        run.add_noise(total)
    assert run.position == 0


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_largest_number_is_the_last_that_is_taken(sign: int) -> None:
    """The mutant takes all numbers where the norm is close to it."""
    run = private()
    run.next_batch()
    assert run.grid is not None
    with pytest.raises(ValueError, match=f"numbers of at most {run.grid.largest} units"):
        run.add_noise(np.array([0, 0, sign * (run.grid.largest + 1), 0, 0], run.grid.dtype))
    run.add_noise(np.array([0, 0, sign * run.grid.largest, 0, 0], run.grid.dtype))
    assert run.position == 1


def test_integers_are_refused_where_sums_are_floats() -> None:
    run = private(sums="float32", release="float")
    run.next_batch()
    with pytest.raises(ValueError, match=r"float32 or float64, got .* of int32"):
        run.add_noise(np.zeros(5, np.int32))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batches": None}, "batches must be given for exact sums"),
        ({"sums": "float32"}, "sums must be 'exact' for releases on a grid"),
        ({"sums": "int32"}, "sums must"),
        ({"release": "rint"}, "release must"),
    ],
)
def test_refusals_of_runs(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        private(**options)


def test_the_grid_of_sampled_batches_has_room_for_the_largest() -> None:
    """The mutant, the expected size, lets a full batch overflow."""
    who = Participation.poisson(3, 0.25)
    run = PrivateRun(
        Budget(epsilon=2.0, delta=1e-5), who, DPSGD(), 2, batches=batches(who, 1000), sums="exact", release="grid"
    )
    assert run.grid is not None
    assert run.grid.exponent == grid_exponent(1.0, 1000) > grid_exponent(1.0, 250)


def test_the_grid_is_fine_beside_the_noise_that_runs() -> None:
    """Also where the independent noise is small, because the mechanism enlarges it."""
    large = MatrixNoise(1e-12 * np.eye(12))
    run = PrivateRun(Budget(0.5, clip_norm=2.0), EPOCHS, large, 5, batches=ORDER, sums="exact", release="grid")
    spread = run.scale * 1e12
    assert run.grid is not None
    assert spread * 2.0**-33 < run.grid.unit < spread * 2.0**-24
    for _ in run:
        assert np.abs(run.add_noise(np.zeros(5, np.int32))).max() < 6 * spread


def test_a_run_goes_on_at_its_level_alone(tmp_path: Path) -> None:
    """Killed after 5 steps, it has the releases of a run that was not."""
    total = np.array([3, 1, 4, 1, 5], np.int32) * 2**20
    found: list[Any] = []
    for folder, ends in (("a", [12]), ("b", [5, 12])):
        with counted():
            found.append(steps_of(tmp_path / folder, ends, total))
    assert len(found[0]) == 12
    np.testing.assert_array_equal(*found)
    for options in ({"release": "float"}, {"sums": "float32", "release": "float"}):
        with pytest.raises(ValueError, match=r"release was 'grid', is 'float'|sums was 'exact', is 'float32'"):
            private(folder=tmp_path / "a", **options)


def steps_of(folder: Path, ends: list[int], total: np.ndarray) -> list[np.ndarray]:
    found = []
    for end in ends:
        run = private(folder=folder)
        for _ in run:
            found.append(run.add_noise(total))
            if run.position == end:
                break
        run.close()
    return found
