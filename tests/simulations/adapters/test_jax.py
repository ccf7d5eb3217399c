"""Private training in JAX: with a private run, with optax, and with jax-privacy.

Skipped where they are not installed (``pip install '.[jax]'``).
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from corrnoise.simulations.adapters import array_normals
from corrnoise.simulations.adapters.jax import clipped_sum, private_gradient
from corrnoise.simulations.adapters.jax_transforms import correlated_noise, noising_matrix
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import ENGINES, streaming
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid, grid_of
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import KEY, known_key

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")
noise_addition = pytest.importorskip("jax_privacy.noise_addition")

NOISES = [DPSGD(), AntiPGD(0.3), NuFTRL(0.02), FiniteNoise([1.0, -0.5, -0.1])]
EPOCHS = Participation.fixed_epochs(12, epochs=3)
ORDER = batches(EPOCHS, 17, 4, rng=0)
BUDGET = Budget(rho=0.5, clip_norm=2.0)


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


def made(mechanism: Any) -> Any:
    return streaming(mechanism, EPOCHS, "float32")


def toeplitz(mechanism: Any) -> np.ndarray:
    return linalg.toeplitz(made(mechanism).mechanism.coefficients(ORDER.steps), np.zeros(ORDER.steps))


def noise_of(transformation: Any, parameters: Any, steps: int) -> list[Any]:
    state = transformation.init(parameters)
    update = jax.jit(transformation.update)
    found = []
    for _ in range(steps):
        noise, state = update(jax.tree.map(jnp.zeros_like, parameters), state)
        found.append(noise)
    return found


@pytest.mark.parametrize("mechanism", NOISES, ids=repr)
def test_the_streaming_matrix_is_the_noising_matrix(mechanism: Any) -> None:
    found = np.asarray(noising_matrix(made(mechanism)).materialize(ORDER.steps))
    np.testing.assert_allclose(found, toeplitz(mechanism), atol=2e-6)


@pytest.mark.parametrize("mechanism", NOISES[1:], ids=repr)
@pytest.mark.parametrize("library", ["ours", "jax-privacy"])
def test_the_noise_has_the_covariance_of_the_mechanism(mechanism: Any, library: str) -> None:
    """The whitened noise has unit variances and no correlations: 78 means of products, each at level 1e-8."""
    size = 40_000
    scale = PrivateRun(BUDGET, EPOCHS, mechanism, 1).scale
    if library == "ours":
        transformation = correlated_noise(BUDGET, EPOCHS, mechanism, key=KEY)
    else:
        key = jax.random.wrap_key_data(np.frombuffer(KEY[:8], np.uint32))
        transformation = noise_addition.matrix_factorization_privatizer(
            noising_matrix(made(mechanism)), stddev=scale, prng_key=key, dtype=jnp.float32
        )
    found = np.array(noise_of(transformation, jnp.zeros(size), ORDER.steps), float)
    white = linalg.solve_triangular(toeplitz(mechanism), found, lower=True) / scale
    deviations = (white @ white.T / size - np.eye(ORDER.steps)) * math.sqrt(size)
    deviations[np.diag_indices(ORDER.steps)] /= math.sqrt(2)
    assert np.abs(deviations).max() < stats.norm.isf(1e-8 / 2)
    correlations = np.corrcoef(found)  # dropped correlation would be seen
    assert np.abs(correlations[1:, :-1].diagonal()).max() > 0.1


@pytest.mark.parametrize("short", [jnp.float16, jnp.bfloat16])
def test_sums_of_half_precision_are_refused(short: Any) -> None:
    """Rounded once, a sum of 500 gradients of clip norm 1 moves by more than 1 with one of them."""
    transformation = correlated_noise(BUDGET, EPOCHS, NuFTRL(0.02))
    tree = {"a": jnp.zeros(3), "b": jnp.zeros(4)}
    state = transformation.init(tree)
    with pytest.raises(ValueError, match="sums must be of float32 or float64, got"):
        jax.jit(transformation.update)({**tree, "b": tree["b"].astype(short)}, state)
    sums = (np.arange(501) * 0.01).astype(short).astype(float)[:, None] * np.ones(10_000)
    assert np.linalg.norm(np.diff(sums, axis=0), axis=1).max() > 1.15


def test_sums_that_are_not_finite_use_no_noise() -> None:
    transformation = correlated_noise(BUDGET, EPOCHS, NuFTRL(0.02), key=KEY)
    update = jax.jit(transformation.update)
    tree = {"a": jnp.zeros(3), "b": jnp.zeros(4)}
    _, state = update(tree, transformation.init(tree))
    for broken in (jnp.nan, jnp.inf, -jnp.inf):
        refused, after = update({**tree, "b": tree["b"].at[1].set(broken)}, state)
        assert all(bool(jnp.isnan(leaf).all()) for leaf in jax.tree.leaves(refused))
        for one, two in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def test_arrays_of_a_tree_have_noise_of_their_own() -> None:
    tree = {"a": jnp.zeros((3, 2)), "b": (jnp.zeros(6), jnp.zeros(()))}
    found = noise_of(correlated_noise(BUDGET, EPOCHS, NuFTRL(0.02), key=KEY), tree, 2)
    values = np.concatenate([np.ravel(leaf) for step in found for leaf in jax.tree.leaves(step)])
    assert np.unique(values).size == values.size == 26
    assert jax.tree.structure(found[0]) == jax.tree.structure(tree)


def test_a_state_goes_on_bit_for_bit_and_survives_donation() -> None:
    transformation = correlated_noise(BUDGET, EPOCHS, NuFTRL(0.02))
    whole = []
    state = transformation.init(jnp.zeros(5))
    donating = jax.jit(transformation.update, donate_argnums=(1,))
    for step in range(8):
        if step == 4:
            kept = jax.tree.map(np.array, state)
        noise, state = donating(jnp.zeros(5), state)
        whole.append(np.asarray(noise))
    state = jax.tree.map(jnp.asarray, kept)
    for step in range(4, 8):
        noise, state = transformation.update(jnp.zeros(5), state)
        np.testing.assert_allclose(np.asarray(noise), whole[step], rtol=1e-5, atol=1e-6)
    transformation.init(jnp.zeros(5))  # the key has not been donated


def test_the_state_of_a_jitted_run_is_exact() -> None:
    transformation = correlated_noise(BUDGET, EPOCHS, NuFTRL(0.02), key=KEY)
    update = jax.jit(transformation.update)
    state = transformation.init(jnp.zeros(5))
    for _ in range(3):
        _, state = update(jnp.zeros(5), state)
    copied = jax.tree.map(lambda leaf: jnp.asarray(np.array(leaf)), state)
    for _ in range(3):
        (one, state), (two, copied) = update(jnp.zeros(5), state), update(jnp.zeros(5), copied)
        np.testing.assert_array_equal(np.asarray(one), np.asarray(two))


def test_after_the_last_step_there_is_no_gradient() -> None:
    found = noise_of(correlated_noise(BUDGET, EPOCHS, DPSGD()), jnp.zeros(3), ORDER.steps + 2)
    assert [bool(np.isnan(each).all()) for each in found] == [False] * ORDER.steps + [True, True]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"mechanism": BinaryTree(12)}, ValueError, "must be one of 'float64'"),
        ({"mechanism": ScaledNoise(DPSGD(), np.ones(12))}, ValueError, "must be one of 'float64'"),
        ({"key": 5}, ValueError, "key must be 16 to 64 bytes, got int"),
        ({"key": bytes(8)}, ValueError, "key must be 16 to 64 bytes, got 8"),
        ({"participation": Participation.single()}, ValueError, "participation must have a number of steps"),
        ({"participation": 12}, TypeError, "participation must be a Participation"),
        ({"mechanism": DPSGD(), "participation": Participation.poisson(12, 0.1)}, ValueError, r"\(H4\)"),
    ],
)
def test_bad_arguments_are_refused(change: dict, error: type[Exception], message: str) -> None:
    settings = {"mechanism": NuFTRL(0.02), "budget": BUDGET, "participation": EPOCHS, **change}
    with pytest.raises(error, match=message):
        correlated_noise(**settings)


# -- the draws ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compiled", [True, False])
def test_draws_have_the_bits_of_the_host(compiled: bool) -> None:
    """The mutant, whose ν is a constant, has products and sums that are rounded once."""
    size = 2**18
    true = draws.normals(KEY, 3, 0, size)
    with jax.enable_x64(True):
        seed = jnp.asarray(draws.seeds(KEY, [3])[0], jnp.int64)
        nu = jnp.asarray(-0.0, jnp.float64)

        def made(seed: Any, nu: Any) -> Any:
            return array_normals.normals(jnp, seed, jnp.arange(size), nu)

        np.testing.assert_array_equal(np.asarray((jax.jit(made) if compiled else made)(seed, nu)), true)
        if compiled and jax.default_backend() == "cpu":  # XLA contracts nothing on an H100
            mutant = np.asarray(jax.jit(lambda seed: made(seed, jnp.float64(-0.0)))(seed))
            assert 0 < (mutant != true).sum() < size / 20


@pytest.mark.parametrize("mechanism", NOISES, ids=repr)
def test_noise_is_that_of_a_run_on_the_host(mechanism: Any) -> None:
    """Memory has the same bits after twelve steps; the noise is scaled by numbers that are rounded elsewhere."""
    tree = {"a": jnp.zeros((50, 40)), "b": (jnp.zeros(3000), jnp.zeros(()))}
    size = 5001
    transformation = correlated_noise(BUDGET, EPOCHS, mechanism, key=KEY)
    state = transformation.init(tree)
    update = jax.jit(transformation.update)
    with known_key():
        host = PrivateRun(BUDGET, EPOCHS, mechanism, size)
    engine = ENGINES[made(mechanism).form](made(mechanism), size)
    values: Any = np.empty(size, np.float32)
    for step, _ in enumerate(host):
        found, state = update(tree, state)
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)])
        np.testing.assert_allclose(flat, host.add_noise(np.zeros(size)), rtol=1e-5, atol=1e-5 * host.scale)
        engine.step(draws.filler(KEY, step, np.array([[0, size]])), values, step)
    memory = [np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(row)]) for row in state.memory]
    for row, true in zip(memory, engine.memory, strict=False):
        np.testing.assert_array_equal(row, true)


def test_each_device_makes_its_own_noise(tmp_path: Path) -> None:
    """On eight virtual devices, in meshes with automatic and explicit axes, and in runs on these."""
    root = Path(__file__).parents[3]
    paths = os.pathsep.join([str(root / "src"), str(root)])
    environment = {
        **os.environ,
        "PYTHONPATH": paths,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
    }
    script = Path(__file__).with_name("sharded_jax.py")
    made = subprocess.run(
        [sys.executable, script, tmp_path], env=environment, capture_output=True, text=True, timeout=300
    )
    assert made.returncode == 0, made.stderr
    assert made.stdout.splitlines() == ["Auto Auto", "Explicit Explicit", "Explicit Auto", "Auto Explicit", "run"]


# -- a private run -----------------------------------------------------------------------------------------------------


def loss(parameters: Any, example: Any, target: Any) -> Any:
    return jnp.square(jnp.tanh(example @ parameters["w"]).sum() + parameters["b"] - target)


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(17, 3)).astype(np.float32) * 3, rng.normal(size=17).astype(np.float32)


def model() -> dict[str, Any]:
    return {"b": jnp.zeros(()), "w": jnp.full((3, 2), 0.1)}


def run() -> PrivateRun:
    with known_key():
        return PrivateRun(Budget(0.5, clip_norm=0.5), EPOCHS, NuFTRL(0.02), 7, batches=ORDER)


def test_the_gradient_is_that_of_single_examples_clipped_plus_noise() -> None:
    inputs, targets = examples()
    inputs[ORDER.batch(0)[1]] = np.inf  # whose gradient is nan
    private = run()
    batch = next(iter(private))
    found = private_gradient(private, loss, model(), inputs[batch], targets[batch])
    again = run()
    next(iter(again))
    expected = again.add_noise(np.zeros(again.size))
    for i in np.delete(batch, 1):
        gradient = jax.grad(loss)(model(), inputs[i], targets[i])
        flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(gradient)]).astype(float)
        expected += flat * min(1.0, 0.5 / np.linalg.norm(flat))
    np.testing.assert_allclose(
        np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found)]), expected / 4, atol=1e-5
    )


@pytest.mark.parametrize("size", [1, 3, 1000, 300_000])
@pytest.mark.parametrize("scale", [1.0, 1e15, 1e-30, 1e30])
def test_no_example_exceeds_the_clip_norm(size: int, scale: float) -> None:
    example = np.random.default_rng(size).normal(size=(1, size)).astype(np.float32) * np.float32(scale)
    clip_norm = 1e-3 * min(scale, 1.0)
    total = clipped_sum(lambda parameters, x: parameters @ x, clip_norm, None, size, None)(
        jnp.zeros(size), np.ones(1, bool), example
    ).total
    norm = np.linalg.norm(np.asarray(total, float))
    assert norm <= clip_norm
    if np.linalg.norm(example.astype(float)) > clip_norm:
        assert norm >= clip_norm * (MARGIN - 1e-5)


def summed(parameters: Any, x: Any) -> Any:
    return (parameters * x).sum()


def units(values: np.ndarray, clip_norm: float, grid: Grid, like: Any = np.float32) -> np.ndarray:
    """The integer sums of examples whose gradients are some rows."""
    made = clipped_sum(summed, clip_norm, grid, values.shape[1], None)
    found = made(jnp.zeros(values.shape[1], like), np.ones(len(values), bool), jnp.asarray(values, like))
    return np.asarray(found.total)


@given(
    scales=st.lists(st.floats(-6, 6), min_size=1, max_size=6),
    size=st.integers(1, 9),
    clip_norm=st.sampled_from([1e-3, 1.0, 7.7]),
    dtype=st.sampled_from(["float32", "bfloat16", "float16"]),
    deviation=st.sampled_from([1e-3, 1e6]),
)
def test_integers_of_an_example_are_within_the_clip_norm_and_add_up_exactly(
    scales: list[float], size: int, clip_norm: float, dtype: str, deviation: float
) -> None:
    """In rational numbers; the sum of the examples in another order is the same."""
    rng = np.random.default_rng(size)
    values = rng.normal(size=(len(scales), size)) * 10.0 ** np.array(scales)[:, np.newaxis]
    with np.errstate(over="ignore"):
        rows = values.astype(jnp.dtype(dtype))  # those of float16 may be infinite, and count as zero
    for parameters in (size, 2**30):  # of which many need integers of 64 bits
        grid = grid_of(clip_norm, 6, parameters, deviation)
        each = np.array([units(row[np.newaxis], clip_norm, grid, dtype) for row in rows])
        for integers in each:
            squared = sum(int(q) ** 2 for q in integers) * Fraction(grid.unit) ** 2
            assert squared <= Fraction(clip_norm) ** 2
        np.testing.assert_array_equal(units(rows[::-1], clip_norm, grid, dtype), each.sum(axis=0))


@pytest.mark.parametrize("grid", [None, Grid(-8, "int32", 2**8)])
def test_norms_and_sums_are_of_gradients_that_are_formed_once(grid: Grid | None) -> None:
    """By the barrier of the compiled program: without it a compiler may form a gradient twice, rounded otherwise."""
    made = clipped_sum(summed, 1.0, grid, 3, None)
    arguments = jnp.zeros(3), np.ones(2, bool), jnp.ones((2, 3))
    assert "optimization_barrier" in made.lower(*arguments).as_text()
    assert "optimization_barrier" not in jax.jit(jax.grad(summed)).lower(arguments[0], jnp.ones(3)).as_text()


def test_gradients_are_truncated() -> None:
    """Rounded to the nearest integers, a gradient of the clip norm would exceed it."""
    unit = 2.0**-8
    grid = Grid(-8, "int32", 2**8)
    entry = 0.6 * unit
    gradient = np.full((1, int(1 / entry**2)), entry * MARGIN, np.float32)
    assert not units(gradient, 1.0, grid).any()
    assert np.linalg.norm(np.round(gradient / unit) * unit) > 1.2


def test_what_the_run_does_not_cover_is_refused() -> None:
    inputs, targets = examples()
    private = run()
    batch = next(iter(private))
    for parameters, chosen, message in (
        ({"b": jnp.zeros(()), "w": jnp.zeros((3, 3))}, batch, "must be 7 numbers"),
        (jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), model()), batch, "float32 or float64, got bfloat16"),
        (model(), batch[:3], "4 examples of the step, got 3$"),
    ):
        with pytest.raises(ValueError, match=message):
            private_gradient(private, loss, parameters, inputs[chosen], targets[chosen])
    assert private.position == 0
