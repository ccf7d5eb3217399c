"""A job on eight virtual devices, which ``test_jax`` starts: sharded noise is that of one device, made in place."""

from __future__ import annotations

import re
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from corrnoise.simulations.adapters import array_normals, training
from corrnoise.simulations.adapters import jax_transforms as adapter
from corrnoise.simulations.adapters.jax_noise import JaxNoise, _step, in_64_bits, is_cut
from corrnoise.simulations.adapters.jax_run import JaxRun, make_private
from corrnoise.simulations.adapters.jax_transforms import correlated_noise
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import known_key

STEPS = 3
drawn = adapter._draw
COLLECTIVE = re.compile(r"= (\S+) (all-\w+|collective-\w+|reduce-scatter)")
ONE_TRUTH_VALUE = {("pred[]", "all-reduce")}  # whether the sums are finite on all devices
TREE = {"a": jnp.zeros((16, 24)), "b": (jnp.zeros(8), jnp.zeros(())), "c": jnp.zeros((5, 8, 4)), "d": jnp.zeros((6, 7))}
SPECS = {
    "a": P("x", "y"),
    "b": (P(("x", "y")), P()),
    "c": P(None, "y", "x"),
    "d": P("x"),
}  # four devices have "d" alike
AUTO, EXPLICIT = AxisType.Auto, AxisType.Explicit
KINDS = ((AUTO, AUTO), (EXPLICIT, EXPLICIT), (EXPLICIT, AUTO), (AUTO, EXPLICIT))


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
    """Compare meshes of all kinds with one device."""
    expected = released(TREE)
    for kinds in KINDS:
        mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=kinds)
        with jax.set_mesh(mesh):
            specs = SPECS if kinds[0] == kinds[1] else SPECS | {"b": (P("y"), P())}  # JAX gathers axes of two kinds
            cut = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), TREE, specs)  # noqa: B023
            noise, state, communication = released(cut)
            with mock.patch.object(
                adapter, "_draw", lambda seed, zero, first, leaf: drawn(seed, zero, first + 1, leaf)
            ):
                wrong, *_ = released(cut)
        for one, other in zip(jax.tree.leaves(expected[:2]), jax.tree.leaves((noise, state)), strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
        assert not np.array_equal(np.asarray(wrong["a"]), np.asarray(expected[0]["a"]))
        assert communication == ONE_TRUTH_VALUE, communication
        for tree in (noise, *state.memory):
            for mine, like in zip(jax.tree.leaves(tree), jax.tree.leaves(cut), strict=True):
                assert mine.sharding.is_equivalent_to(like.sharding, like.ndim), mine.sharding
        print(*(kind.name for kind in kinds))
    with known_key():
        train(Path(sys.argv[1]))
    print("run")


RNG = np.random.default_rng(3)
DATA = RNG.normal(size=(50, 6)).astype("float32"), RNG.normal(size=50).astype("float32")
PARAMETERS = {"a": np.full((6, 8), 0.1, np.float32), "b": np.zeros(8, np.float32), "c": np.zeros((), np.float32)}


def whole(leaf: Any) -> Any:
    """A parameter on each device, as a loss on explicit axes must say."""
    mesh = jax.typeof(leaf).sharding.mesh
    return jax.sharding.reshard(leaf, NamedSharding(mesh, P())) if mesh.explicit_axes else leaf


def loss(parameters: Any, example: Any, target: Any) -> Any:
    a, b, c = (whole(parameters[name]) for name in "abc")
    return jnp.square(jnp.tanh(example @ a) @ (1 + b) + c - target)


def run_of(mesh: Any, place: Path | None = None, dtype: str = "float32", data: Any = DATA, **options: Any) -> JaxRun:
    """A run of 57 parameters, on one device or cut among those of a mesh: eight have 64 numbers of its vectors."""
    specs = {"a": P("x", "y"), "b": P("y"), "c": P()}
    parameters: Any = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), PARAMETERS)
    if isinstance(mesh, jax.Device):
        parameters = jax.device_put(parameters, mesh)
    elif mesh is not None:
        parameters = jax.tree.map(lambda leaf, spec: jax.device_put(leaf, NamedSharding(mesh, spec)), parameters, specs)
    parameters |= options.pop("beside", {})
    folder = None if place is None else Folder(place / "run", marks=place / "marks", checkpoint_every=3)
    chosen: dict[str, Any] = {"loss": loss, "budget": Budget(rho=0.5), "batch_size": 12, "epochs": 1, "folder": folder}
    chosen["mechanism"] = NuFTRL(0.05)
    with mock.patch.object(training, "batches", partial(batches, rng=0)):
        return make_private(parameters, optax.sgd(0.05, momentum=0.5), data, **chosen | options)


def stepped(run: JaxRun, stop: int = 4) -> Any:
    for batch in run:
        run.step(batch)
        if run.position == stop:
            break
    return jax.tree.map(np.asarray, run.parameters)


def near(found: Any, expected: Any, rtol: float = 1e-5, atol: float = 1e-6) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one.astype(float), other.astype(float), rtol=rtol, atol=atol)


def same_shardings(found: Any, like: Any) -> bool:
    return bool(jax.tree.all(jax.tree.map(lambda mine, leaf: mine.sharding == leaf.sharding, found, like)))


def train(place: Path) -> None:
    """Runs that are cut make their noise in place, and train as on one device, also from a folder."""
    dense = MatrixNoise(np.tril(np.ones((4, 4))))
    floats: Any = {"sums": "float32", "release": "float"}
    expected = stepped(run_of(None, **floats))
    short = stepped(run_of(None, dtype="bfloat16"))
    meshes = [jax.make_mesh((2, 4), ("x", "y"), axis_types=kinds) for kinds in KINDS]
    for mesh in meshes:
        with jax.set_mesh(mesh):
            run = run_of(mesh, **floats)
            like = run.parameters
            near(stepped(run), expected)
            assert same_shardings(run.parameters, like), run.parameters
            assert same_shardings(run.state[0].trace, like), run.state
            in_place(run._noise)
        near(stepped(run_of(mesh)), expected, atol=1e-5)  # outside the mesh, and with exact sums
    near(stepped(run_of(meshes[1], dtype="bfloat16")), short, rtol=2**-7, atol=1e-3)
    for mesh in meshes[:2]:  # data that are cut, a parameter that was put nowhere, noise that the host alone makes
        rows = jax.device_put(DATA, NamedSharding(mesh, P("x")))
        near(stepped(run_of(mesh, data=rows)), expected, atol=1e-5)
        run = run_of(mesh, beside={"c": jnp.zeros(())})
        near(stepped(run), expected, atol=1e-5)
        assert is_cut(run.device)
        assert run.parameters["c"].sharding == NamedSharding(mesh, P())
        run = run_of(mesh, mechanism=dense)
        assert run.device is None
        near(stepped(run), stepped(run_of(None, mechanism=dense)), atol=1e-5)
    wrong_offset(run_of(meshes[0])._noise.device)
    few = jax.make_mesh((3, 1), ("x", "y"), axis_types=(EXPLICIT, AUTO), devices=jax.devices()[5:])
    trained = []
    for number, (first, second) in enumerate(
        ((None, None), (meshes[0], jax.devices()[3]), (None, meshes[1]), (meshes[1], meshes[2]), (meshes[3], few))
    ):
        here = place / str(number)
        here.mkdir()
        run = run_of(first, here)
        stepped(run, 2)
        run.close()
        run = run_of(second, here)
        assert run.position == 2
        if second is not None:
            assert same_shardings(run.parameters, run_of(second).parameters), run.parameters
        trained.append(stepped(run))
        near(trained[-1], trained[0])


def in_place(noise: Any) -> None:
    """Each device keeps its part of the noise of 57 parameters, without communication."""
    assert isinstance(noise, JaxNoise)
    assert noise.memory.shape == (noise.rows, 57)
    assert {shard.data.shape for row in noise._rows for shard in row.addressable_shards} == {(8,)}
    alone = JaxNoise(streaming(DPSGD(), Participation.single(1)), 57, device=noise.device)
    assert alone.made(bytes(32), 0, b"", 1.0).sharding == noise.device  # and has the bits of the host
    with in_64_bits(noise.device):
        program: Any = _step(noise._program.form, noise.size, True, noise.device)
        arguments = [jnp.zeros(4, jnp.int64), 0, noise._numbers, noise._rows, 1.0, 1.0, noise._nu]
        text = program.lower(*arguments).compile().as_text()
    assert not COLLECTIVE.findall(text)


def wrong_offset(device: Any) -> None:
    """The last of eight devices alone begins one coordinate too late, which its own comparison shows."""
    program = streaming(NuFTRL(0.05), Participation.single(1))
    normals = array_normals.normals

    def late(xp: Any, seed: Any, index: Any, nu: Any) -> Any:
        return normals(xp, seed, xp.where(index < 70_000, index, index + 1), nu)

    for mutant in (normals, late):
        _step.cache_clear()
        refused = pytest.raises(RuntimeError, match="other numbers than the host") if mutant is late else nullcontext()
        with mock.patch.object(array_normals, "normals", mutant), refused:
            JaxNoise(program, 80_000, device=device).made(bytes(32), 0, b"", 1.0)
    _step.cache_clear()


if __name__ == "__main__":
    main()
