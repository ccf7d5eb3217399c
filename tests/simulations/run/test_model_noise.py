"""The noise of a model: any spans have the bits of the whole, and wide noise has no float32 but in its memory."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.model_noise import ModelNoise
from corrnoise.simulations.run.sums import Grid
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from tests.simulations.run.test_spans import covered

SECRET = bytes(range(32))
STEPS = 4
ONCE = Participation.single(STEPS)
MECHANISMS: dict[str, Mechanism] = {
    "independent": DPSGD(),
    "poles": NuFTRL(0.02),
    "delay line": FiniteNoise([1.0, -0.5, 0.25]),
    "scaled": ScaledNoise(FiniteNoise([1.0, -0.5]), step_scales=[1, 2, 3, 4], draw_scales=[4, 3, 2, 1]),
    "matrix": MatrixNoise(np.tril(np.ones((STEPS, STEPS)))),
    "tree": BinaryTree(STEPS),
}
EACH = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)


def made(noise: ModelNoise, **options: Any) -> np.ndarray:
    return np.array([noise.made(SECRET, t, bytes([t]), 2.5, **options) for t in range(STEPS)])


@EACH
def test_a_shard_has_the_bits_of_the_whole_in_the_order_of_its_spans(mechanism: Mechanism) -> None:
    """Parts of a shard begin in the middle of blocks; its memory has its coordinates alone."""
    size = 150_000
    program = streaming(mechanism, ONCE)
    spans = [(140_000, 5000), (3, 1), (10, 70_000), (80_001, 3)]
    whole, shard = ModelNoise(program, size, 1), ModelNoise(program, size, 2, spans=spans)
    at = covered(np.array(spans))
    np.testing.assert_array_equal(made(shard), made(whole)[:, at])
    np.testing.assert_array_equal(shard.memory, whole.memory[:, at])
    shard.close()


@EACH
def test_wide_noise_is_float64_throughout(mechanism: Mechanism) -> None:
    """It is the noise of the float64 program up to the rounding of a float32 memory, and is not rounded itself."""
    size = 1000
    program = streaming(mechanism, ONCE)
    wide = made(ModelNoise(program, size, 1), wide=True)
    narrow = made(ModelNoise(program, size, 1))
    exact = made(ModelNoise(Program(**program.arguments() | {"dtype": "float64"}), size, 1), wide=True)
    assert wide.dtype == np.float64
    assert narrow.dtype == np.float32
    scale = np.abs(wide).max()
    assert np.abs(wide - exact).max() <= scale * (1e-6 if program.dtype == "float32" else 0)
    assert np.abs(wide - narrow).max() <= 1e-6 * scale
    assert (wide != wide.astype(np.float32)).mean() > 0.99


def test_two_roundings_have_the_error_of_one() -> None:
    """Of float64 and then float32, in exact arithmetic; the mutant, float32 twice, exceeds it."""
    short, long = (Fraction(1, 2**bits) for bits in (24, 53))
    assert (1 + short / (1 + short)) * (1 + long) < 1 + short
    assert (1 - short / (1 + short)) * (1 - long) > 1 - short
    assert (1 + short / (1 + short)) ** 2 > 1 + short


@EACH
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("wide", [False, True])
def test_prefetched_draws_have_the_same_bits_and_leave_the_memory(
    mechanism: Mechanism, threads: int, wide: bool
) -> None:
    """They serve their step and nonce alone: others are drawn again."""
    program = streaming(mechanism, ONCE)
    true, ahead = (ModelNoise(program, 70_000, threads) for _ in range(2))
    for step in range(STEPS):
        before = ahead.memory
        ahead.prefetch(SECRET, step, b"wrong" if step == 2 else b"right", wide=wide or step == 3)
        np.testing.assert_array_equal(ahead.memory, before)
        found, expected = (each.made(SECRET, step, b"right", 1.0, wide=wide) for each in (ahead, true))
        np.testing.assert_array_equal(found, expected)
    true.close()
    ahead.close()


@EACH
@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "int32 on the grid", "int64 on the grid"])
def test_noise_is_added_in_parts_with_the_bits_of_the_whole(mechanism: Mechanism, kind: str) -> None:
    """On several threads, also where it was prefetched; mutants keep an array for the next step, or leave parts out."""
    dtype, _, on_grid = kind.partition(" ")
    grid = Grid(-20, dtype, 2**30) if dtype.startswith("int") else None  # type: ignore[arg-type]
    program = streaming(mechanism, ONCE)
    true, own = ModelNoise(program, 150_000, 1), ModelNoise(program, 150_000, 2)
    total = np.random.default_rng(0).integers(-(2**30), 2**30, true.size).astype(dtype)
    arrays = [total]
    for step in range(STEPS):
        place = SECRET, step, bytes([step]), 2.5
        if step % 2:
            own.prefetch(*place[:3], wide=bool(on_grid))
        expected = true.noisy(total.copy(), true.made(*place, wide=bool(on_grid)), grid, on_grid=bool(on_grid))
        arrays.append(own.added(total.copy(), *place, grid, on_grid=bool(on_grid)))
        np.testing.assert_array_equal(arrays[-1], expected, strict=True)
        assert not any(np.shares_memory(arrays[-1], each) for each in arrays[:-1])
    if on_grid:
        with pytest.raises(RuntimeError, match="noise must be below"):
            ModelNoise(program, 70_000, 2).added(total[:70_000], SECRET, 0, b"", 2.0**22, grid, on_grid=True)
    own.close()


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("mechanism", [MECHANISMS["delay line"], MECHANISMS["scaled"], FiniteNoise([2.0])], ids=repr)
def test_replay_has_the_bits_of_the_ring_and_no_memory(mechanism: Mechanism, wide: bool) -> None:
    program = streaming(mechanism, ONCE)
    ring, replay = (ModelNoise(program, 70_000, 1, memory=kind) for kind in ("ring", "replay"))
    np.testing.assert_array_equal(made(replay, wide=wide), made(ring, wide=wide))
    assert replay.memory.nbytes == 0 < ring.memory.nbytes
    assert replay.history == ring.history == program.memory


def test_replay_uses_the_nonces_of_earlier_steps() -> None:
    """The mutant: a draw that is made again under the nonce of the step that needs it."""
    program = streaming(MECHANISMS["delay line"], ONCE)
    ring, replay = (ModelNoise(program, 100, 1, memory=kind) for kind in ("ring", "replay"))
    ring.made(SECRET, 0, b"one", 1.0)
    replay.made(SECRET, 0, b"two", 1.0)
    assert (ring.made(SECRET, 1, b"two", 1.0) != replay.made(SECRET, 1, b"two", 1.0)).all()


@pytest.mark.parametrize("name", ["independent", "poles", "matrix", "tree"])
def test_only_a_delay_line_is_replayed(name: str) -> None:
    with pytest.raises(ValueError, match="memory must be 'ring' for noise that remembers more than draws"):
        ModelNoise(streaming(MECHANISMS[name], ONCE), 100, 1, memory="replay")


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_last_draws_make_the_memory_again(name: str) -> None:
    """Of noise with a history; the mutant, one draw less, leaves out a row of the ring."""
    program = streaming(MECHANISMS[name], ONCE)
    true, again, less = (ModelNoise(program, 100, 1) for _ in range(3))
    made(true)
    if name not in ("independent", "delay line", "scaled"):
        assert again.history is None
        return
    assert again.history == program.memory
    for step in range(STEPS - program.memory, STEPS):
        again.made(SECRET, step, bytes([step]), 2.5)
        if step > STEPS - program.memory:
            less.made(SECRET, step, bytes([step]), 2.5)
    after = [each.made(SECRET, 1, b"", 1.0) for each in (true, again, less)]
    np.testing.assert_array_equal(after[1], after[0])
    assert (after[2] != after[0]).any() == (program.memory > 0)


def test_a_rank_may_hold_nothing() -> None:
    noise = ModelNoise(streaming(NuFTRL(0.1), ONCE), 10, 1, spans=[])
    assert made(noise).shape == (STEPS, 0)
    assert noise.memory.shape[1] == 0
