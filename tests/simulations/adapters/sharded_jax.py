"""A job on eight virtual devices, which ``test_jax`` starts: sharded noise is that of one device, made in place."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.jax import correlated_noise
from corrnoise.simulations.adapters.jax_noise import JaxNoise, _step
from corrnoise.simulations.adapters.jax_run import JaxRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import known_key

STEPS = 3
COLLECTIVE = re.compile(r"= (\S+) (all-\w+|collective-\w+|reduce-scatter)")
ONE_TRUTH_VALUE = {("pred[]", "all-reduce")}  # whether the sums are finite on all devices
TREE = {"a": jnp.zeros((16, 24)), "b": (jnp.zeros(8), jnp.zeros(())), "c": jnp.zeros((5, 8, 4))}
SPECS = {"a": P("x", "y"), "b": (P(("x", "y")), P()), "c": P(None, "y", "x")}


def released(tree: Any) -> tuple[Any, Any, set[tuple[str, str]]]:
    """The noise of the last step, the state after it, and the communication of the compiled step."""
    transformation = correlated_noise(Budget(rho=0.5), Participation.single(STEPS), NuFTRL(0.02), key=bytes(range(32)))
    state = transformation.init(tree)
    update = jax.jit(transformation.update)
    text = update.lower(tree, state).compile().as_text()
    assert text is not None
    found = set(COLLECTIVE.findall(text))
    for _ in range(STEPS):
        noise, state = update(tree, state)
    return noise, state, found


def main() -> None:
    """Compare meshes of both kinds with one device."""
    expected = released(TREE)
    for kind in (AxisType.Auto, AxisType.Explicit):
        mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(kind, kind))
        with jax.set_mesh(mesh):
            cut = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), TREE, SPECS)  # noqa: B023
            noise, state, communication = released(cut)
        for one, other in zip(jax.tree.leaves(expected[:2]), jax.tree.leaves((noise, state)), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        assert communication == ONE_TRUTH_VALUE, communication
        for tree in (noise, *state.memory):
            for mine, like in zip(jax.tree.leaves(tree), jax.tree.leaves(cut), strict=True):
                assert mine.sharding.is_equivalent_to(like.sharding, like.ndim), mine.sharding
        print(kind.name)
    with known_key():
        train(Path(sys.argv[1]))
    print("run")


RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(50, 6)).astype("float32"), RNG.normal(size=50).astype("float32")
PARAMETERS = {"a": np.full((6, 8), 0.1, np.float32), "b": np.zeros(8, np.float32), "c": np.zeros((), np.float32)}


def loss(parameters: Any, example: Any, target: Any) -> Any:
    return jnp.square(jnp.tanh(example @ parameters["a"]) @ (1 + parameters["b"]) + parameters["c"] - target)


def run_of(mesh: Any, place: Path | None = None, **options: Any) -> JaxRun:
    """A run of 57 parameters, on one device or cut among the eight of a mesh, which have 64 numbers of its vectors."""
    specs = {"a": P("x", "y"), "b": P("y"), "c": P()}
    parameters: Any = PARAMETERS
    if mesh is not None:
        parameters = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), PARAMETERS, specs)
    folder = None if place is None else Folder(place / "run", marks=place / "marks", checkpoint_every=3)
    chosen: dict[str, Any] = {"loss": loss, "budget": Budget(rho=0.5), "batch_size": 12, "epochs": 1, "folder": folder}
    with mock.patch.object(training, "batches", partial(batches, rng=0)):
        return make_private(parameters, optax.sgd(0.05, momentum=0.5), DATA, mechanism=NuFTRL(0.05), **chosen | options)


def stepped(run: JaxRun, stop: int = 4) -> Any:
    for batch in run:
        run.step(batch)
        if run.position == stop:
            break
    return jax.tree.map(np.asarray, run.parameters)


def train(place: Path) -> None:
    """A run that is cut makes its noise in place, and trains as on one device, also from a folder."""
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto, AxisType.Auto))
    floats: Any = {"sums": "float32", "release": "float"}
    expected = stepped(run_of(None, **floats))
    cut = run_of(mesh, **floats)
    like = cut.parameters
    for one, other in zip(jax.tree.leaves(stepped(cut)), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for tree in (cut.parameters, cut.state[0].trace):
        assert jax.tree.all(jax.tree.map(lambda mine, leaf: mine.sharding == leaf.sharding, tree, like))
    noise = cut._noise
    assert isinstance(noise, JaxNoise)
    assert noise.memory.shape == (noise.rows, 57)
    assert {shard.data.shape for row in noise._rows for shard in row.addressable_shards} == {(8,)}
    alone = JaxNoise(streaming(DPSGD(), Participation.single(1)), 57, device=noise.device)
    assert alone.made(bytes(32), 0, b"", 1.0).sharding == noise.device  # and has the bits of the host
    with jax.enable_x64(True):
        program: Any = _step(noise._program.form, noise.size, True, noise.device)
        arguments = [jnp.zeros(4, jnp.int64), 0, noise._numbers, noise._rows, 1.0, 1.0, noise._nu]
        text = program.lower(*arguments).compile().as_text()
    assert not COLLECTIVE.findall(text)
    trained = []
    for number, (first, second) in enumerate(((None, None), (mesh, None), (None, mesh))):
        here = place / str(number)
        here.mkdir()
        run = run_of(first, here)
        stepped(run, 2)
        run.close()
        run = run_of(second, here)
        assert run.position == 2
        if second is not None:
            assert jax.tree.all(jax.tree.map(lambda mine, leaf: mine.sharding == leaf.sharding, run.parameters, like))
        trained.append(jax.tree.leaves(stepped(run)))
    for other in trained[1:]:
        for one, two in zip(trained[0], other, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-6)
    explicit = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
    assert run_of(explicit).device is None


if __name__ == "__main__":
    main()
