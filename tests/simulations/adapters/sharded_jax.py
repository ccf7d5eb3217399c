"""A job on eight virtual devices, which ``test_jax`` starts: sharded noise is that of one device, made in place."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from corrnoise.simulations.adapters.jax import correlated_noise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

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


if __name__ == "__main__":
    main()
