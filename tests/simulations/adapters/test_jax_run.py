"""A private run of parameters of JAX: the same command starts it, resumes it, and loads the trained parameters."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.jax import clipped_sum, private_gradient
from corrnoise.simulations.adapters.jax_run import JaxRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.proved import integers
from corrnoise.simulations.run.sums import Grid, grid_of
from corrnoise.theory.mechanisms.product import NuFTRL, ProductNoise
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import KEY, counted, known_key

jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
optax = pytest.importorskip("optax")

RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(50, 6)).astype("float32"), RNG.integers(3, size=50).astype("int32")
PARAMETERS = {"weight": np.full((6, 3), 0.1, np.float32), "bias": np.zeros(3, np.float32)}
NOISE = NuFTRL(0.05)
SIZE = 21
GRID = grid_of(1.0, 12, SIZE, 8.0)


def loss(parameters: Any, image: Any, digit: Any) -> Any:
    scores = image @ parameters["weight"] + parameters["bias"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, digit)


def with_dropout(parameters: Any, image: Any, digit: Any, key: Any) -> Any:
    return loss(parameters, image * jax.random.bernoulli(key, 0.5, image.shape), digit)


def command(place: Path | None, **options: Any) -> JaxRun:
    settings: dict[str, Any] = {
        "parameters": PARAMETERS,
        "optimizer": optax.adam(0.05, mu_dtype=jnp.bfloat16),
        "data": DATA,
        "loss": with_dropout,
        "key": jax.random.key(7),
        "budget": Budget(rho=0.5),
        "batch_size": 12,
        "epochs": 3,
        "mechanism": NOISE,
        "folder": None if place is None else Folder(place / "run", marks=place / "marks", checkpoint_every=5),
    } | options
    return make_private(settings.pop("parameters"), settings.pop("optimizer"), settings.pop("data"), **settings)


def flat(run: JaxRun) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(run.parameters)])


def test_an_interrupted_run_ends_with_the_parameters_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with dropout, a state of bfloat16, and keys in the state of the optimizer."""
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
    for optimizer in (
        optax.adam(0.05, mu_dtype=jnp.bfloat16),
        optax.chain(optax.add_noise(0.1, 0.5, key=jax.random.key(1)), optax.sgd(0.1)),
    ):
        found: list[np.ndarray] = []
        for stop in (12, 7):
            place = tmp_path / f"{stop} {len(found)} {id(optimizer)}"
            with counted():
                run = command(place, optimizer=optimizer)
                for batch in run:
                    run.step(batch)
                    if run.position == stop:
                        break
                run.close()
            with counted(1 + stop):  # after the key and a nonce for each step
                run = command(place, optimizer=optimizer)
                assert run.position == stop
                for batch in run:
                    run.step(batch)
            again = command(place, optimizer=optimizer)
            assert list(again) == []
            np.testing.assert_array_equal(flat(again), flat(run))
            found.append(flat(run))
        np.testing.assert_array_equal(found[0], found[1])


def test_a_gradient_is_that_of_the_batch_and_its_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
    with counted():
        run = command(None)
    with counted():
        by_hand = command(None)
    for _ in range(2):
        batch = run.next_batch()
        of_step = jax.random.fold_in(jax.random.key(7), by_hand.position)
        keys = jax.numpy.stack([jax.random.fold_in(of_step, number) for number in batch])
        assert np.array_equal(by_hand.next_batch(), batch)
        expected = private_gradient(by_hand, with_dropout, PARAMETERS, *(each[batch] for each in DATA), keys)
        found = run.gradient(batch)
        for one, two in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_array_equal(one, two)
    with pytest.raises(ValueError, match="the one that the run has handed out for step 2"):
        run.gradient(batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": (DATA[0] + np.float32(1e-6), DATA[1])}, "began: data digest differs: repeat the settings"),
        ({"data": (DATA[0], DATA[1].astype("int8"))}, r"data was '.*int32 \(50,\)', is '.*int8 \(50,\)'"),
        ({"loss": loss, "key": None}, "loss was '.*with_dropout', is '.*loss'"),
        ({"key": jax.random.key(8)}, "key was '0000000000000007|key was '0000000007000000"),
        ({"optimizer": optax.sgd(0.1, momentum=0.5)}, r"optimizer \[0\].trace"),
        (
            {
                "parameters": {"weight": np.zeros((3, 6), np.float32), "bias": np.zeros(3, np.float32)},
                "loss": lambda parameters, x, y, key: jnp.sum(parameters["weight"] @ x + parameters["bias"]),
            },
            r"parameter \['weight'\] was 'float32 \(6, 3\)', is 'float32 \(3, 6\)'",
        ),
        ({"budget": Budget(rho=0.4)}, "rho was 0.5, is 0.4"),
        ({"batch_size": 51}, "batch_size must"),
        ({"data": (DATA[0], DATA[1][:49])}, r"axis 0 of all arrays, got 50 in data\[0\] and 49 in data\[1\]"),
    ],
)
def test_what_the_run_does_not_cover_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    command(tmp_path).close()
    with pytest.raises(ValueError, match=message):
        command(tmp_path, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parameters": {**PARAMETERS, "scale": 1.0}}, "parameters must be of float32 .*, got float"),
        ({"parameters": optax.sgd(0.1), "optimizer": PARAMETERS}, "parameters must be of float32 .*, got function"),
        ({"parameters": {}}, "made-up example .* KeyError: 'weight'"),
        ({"optimizer": "sgd"}, "optimizer must be an optax.GradientTransformation, got 'sgd'"),
        ({"optimizer": optax.lbfgs()}, "missing 3 required keyword-only arguments"),
        ({"data": (DATA[0].tolist(), DATA[1])}, r"data\[0\] must be an array of NumPy or JAX .* got list: stack"),
        ({"data": (DATA[0][:0], DATA[1][:0])}, "data must have at least one example"),
        ({"loss": None}, "loss must be a function, got None"),
    ],
)
def test_a_stranger_is_told_what_is_wrong(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    """Before there is a folder."""
    with pytest.raises((ValueError, TypeError), match=message):
        command(tmp_path, **change)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_parameters_of_other_types_are_refused_before_there_is_a_folder(dtype: str, tmp_path: Path) -> None:
    """Those of float64 unless JAX computes with 64 bits, where they would become float32."""
    assert not jax.config.jax_enable_x64
    parameters = {**PARAMETERS, "bias": PARAMETERS["bias"].astype(jnp.dtype(dtype))}
    with pytest.raises(ValueError, match=f"parameters must be of float32 .*, got {dtype}"):
        command(tmp_path, parameters=parameters, sums="float32", release="float")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_parameters_of_half_precision_have_exact_sums(dtype: str) -> None:
    parameters = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), PARAMETERS)
    run = command(None, parameters=parameters, optimizer=optax.sgd(0.1))
    assert run.level == "grid"
    run.step(run.next_batch())
    assert {str(leaf.dtype) for leaf in jax.tree.leaves(run.parameters)} == {dtype}
    assert np.isfinite(flat(run).astype(float)).all()
    with pytest.raises(ValueError, match=r"parameters must be of float32 .*, got int32"):
        command(None, parameters={**PARAMETERS, "bias": np.zeros(3, np.int32)})


def test_a_run_of_32_bits_does_not_go_on_with_64(tmp_path: Path) -> None:
    command(tmp_path).close()
    jax.config.update("jax_enable_x64", True)
    try:
        run = command(None, parameters=jax.tree.map(lambda leaf: leaf.astype(float), PARAMETERS))
        run.step(run.next_batch())
        assert {str(leaf.dtype) for leaf in jax.tree.leaves(run.parameters)} == {"float64"}
        with pytest.raises(ValueError, match=r"parameter \['bias'\] was 'float32 \(3,\)', is 'float64"):
            command(tmp_path, parameters=jax.tree.map(lambda leaf: leaf.astype(float), PARAMETERS))
    finally:
        jax.config.update("jax_enable_x64", False)


def coarse(parameters: Any, image: Any, digit: Any) -> Any:
    return loss(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), parameters), image.astype(jnp.bfloat16), digit)


@pytest.mark.parametrize(("function", "precision"), [(coarse, None), (loss, "bfloat16"), (loss, "tensorfloat32")])
def test_coarse_gradients_of_examples_are_clipped_in_single_precision(function: Any, precision: str | None) -> None:
    """The sum moves by at most the clip norm with one of 500 examples; rounded to bfloat16 it would move by more."""
    images = np.tile(DATA[0][:1] * 50, (500, 1))
    digits = np.full(500, 1, np.int32)
    with jax.default_matmul_precision(precision or "highest"):
        sums = [
            clipped_sum(function, 0.1, None, SIZE, None)(
                PARAMETERS, np.ones(count, bool), images[:count], digits[:count]
            ).total
            for count in (499, 500)
        ]
    assert {str(each.dtype) for each in sums} == {"float32"}
    less, more = map(np.asarray, sums)
    assert np.linalg.norm(less.astype(float)) > 40
    assert np.linalg.norm(more.astype(float) - less) <= 0.1
    rounded = [np.asarray(each.astype(jnp.bfloat16), float) for each in (less, more)]
    assert np.linalg.norm(rounded[1] - rounded[0]) > 0.11


@pytest.mark.parametrize("grid", [None, GRID])
def test_clipping_has_no_products_of_matrices(grid: Grid | None) -> None:
    """So that no setting for them makes it coarse."""

    def linear(parameters: Any, image: Any) -> Any:
        return sum((leaf * image).sum() for leaf in jax.tree.leaves(parameters))

    text = str(
        jax.make_jaxpr(clipped_sum(linear, 1.0, grid, SIZE, None))(PARAMETERS, np.ones(5, bool), np.ones(5, np.float32))
    )
    assert "dot_general" not in text
    assert "bf16" not in text
    assert text.count("= optimization_barrier") == 1  # the norm is of the same numbers as the sum
    assert "dot_general" in str(
        jax.make_jaxpr(clipped_sum(loss, 1.0, grid, SIZE, None))(PARAMETERS, np.ones(len(DATA[0]), bool), *DATA)
    )


def test_proved_releases_have_the_integers_of_the_host() -> None:
    """The gradient of a loss without slope is the noise alone, over a power of two."""

    def level(parameters: Any, image: Any, digit: Any, key: Any) -> Any:
        return 0.0 * loss(parameters, image, digit)

    sections = ProductNoise([0.001, 0.02, 0.004, 0.05], [1, 1, -1, -1])
    with known_key():
        run = command(None, release="proved", mechanism=sections, loss=level, batch_size=8, engine="loop")
    grid = run.grid
    assert grid is not None
    given: dict[str, Any] = {"scale": run.scale, "unit": grid.unit, "coordinates": range(SIZE), "steps": 3}
    for numbers in integers(run.program, KEY, **given):
        leaves = jax.tree.leaves(run.gradient(run.next_batch()))
        found = np.concatenate([np.ravel(leaf) for leaf in leaves])
        np.testing.assert_array_equal(found, (numbers * grid.unit).astype(np.float32) / 8)
