"""The noise of a run on a device of JAX, or sharded across several, with its memory there (the extra ``jax``).

    run = PrivateRun(budget, epochs, mechanism, size, batches=order, maker=partial(JaxNoise, device=jax.devices()[0]))
    gradient = private_gradient(run, loss, parameters, *batch)

It has the bits of ``ModelNoise``, as ``torch_noise`` has.  Arithmetic has 64 bits, whatever ``jax_enable_x64`` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters import array_noise, array_normals
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import Memory
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker
from corrnoise.simulations.run.sums import Grid
from corrnoise.support.extras import extra_module
from corrnoise.theory.mechanisms.program import Program


class JaxNoise(array_noise.DeviceNoiseMaker):
    """The noise of a program on a device, one vector a step, from the first step on; used as ``ModelNoise`` is.

    The device is one of JAX, such as ``jax.devices()[0]``; or a ``NamedSharding`` that cuts a vector among all devices
    of a mesh with automatic axes: then each device makes and keeps its own part.  Vectors are filled up to equal parts,
    and the numbers behind the model are not used.
    """

    def __init__(
        self,
        program: Program,
        size: int,
        threads: int | None = None,
        *,
        device: Any,
        spans: Iterable[tuple[int, int]] | None = None,
        memory: Memory = "ring",
    ) -> None:
        super().__init__(program, size, spans=spans, memory=memory)
        self.device = device
        self._own = self.size
        self.size = filled_up(self.size, device)
        with in_64_bits(device) as jnp:
            place = device if is_cut(device) else None
            self._rows = [jnp.zeros(self.size, program.dtype, device=place) for _ in range(self.rows)]
            self._numbers = [jnp.asarray(each) for each in array_noise.numbers(program)]
            self._nu = jnp.asarray(-0.0)
            whole = len(self.spans) == 1
            ranges = [np.arange(first, first + length) for first, length in ([] if whole else self.spans.tolist())]
            self._places = int(self.spans[0, 0]) if whole else jnp.asarray(np.concatenate([np.arange(0), *ranges]))

    @property
    def _part(self) -> int:
        return self.size // self.device.num_devices if is_cut(self.device) else self.size

    def _computing(self) -> ExitStack:
        return in_64_bits(self.device)

    def _made(self, secret: bytes, step: int, nonce: bytes, factor: float, wide: bool) -> Any:
        jnp = extra_module("jax.numpy", "jax")
        scales = self._program.draw_scales
        before = 1.0 if scales is None else float(scales[step])
        seed = jnp.asarray(draws.seeds(secret, [step], nonces=[nonce])[0], jnp.int64)
        of_step = [each[step] if each.ndim == 2 else each for each in self._numbers]
        made, self._rows = _step(self._program.form, self.size, wide or str(self.dtype) == "float64", self.device)(
            seed, self._places, of_step, self._rows, before, factor, self._nu
        )
        return made if wide else made.astype(jnp.float32)

    def norm(self, total: Any) -> float:
        """The norm of a vector, formed in float64."""
        with in_64_bits(self.device) as jnp:
            return float(jnp.sqrt(jnp.square(total.astype(jnp.float64)).sum()))

    def _values(self, total: Any, grid: Grid) -> Any:
        return total.astype(float) * grid.unit

    def _released(self, total: Any, noise: Any, grid: Grid) -> tuple[Any, Any]:
        return _on_grid()(total, noise, grid.unit)

    def on_host(self, values: Any) -> NDArray[Any]:
        """An array of JAX as one of NumPy, without what fills it up."""
        return np.asarray(values)[: self._own]

    def on_device(self, values: NDArray[Any]) -> Any:
        """An array of NumPy as one of JAX on the device, filled up with zeros."""
        whole = np.pad(values, (0, filled_up(len(values), self.device) - len(values)))
        with in_64_bits(self.device) as jnp:
            return jnp.asarray(whole, device=self.device if is_cut(self.device) else None)


class in_64_bits(ExitStack):  # noqa: N801
    """A block where JAX computes with 64 bits on a device, whatever the mesh of the caller is; gives ``jax.numpy``."""

    def __init__(self, device: Any) -> None:
        super().__init__()
        self._device = device

    def __enter__(self) -> Any:
        jax = extra_module("jax", "jax")
        super().__enter__()
        self.enter_context(jax.enable_x64(True))
        if is_cut(self._device):
            self.enter_context(jax.set_mesh(self._device.mesh))
        elif self._device is not None:
            self.enter_context(jax.default_device(self._device))
        return jax.numpy


def is_cut(device: Any) -> bool:
    """Whether a device of a run is several, among which vectors are cut."""
    return isinstance(device, extra_module("jax.sharding", "jax").NamedSharding)


def filled_up(size: int, device: Any) -> int:
    """The length of vectors of a run on its device; several devices have equal parts."""
    count = device.num_devices if is_cut(device) else 1
    return -(-size // count) * count


@lru_cache(maxsize=8)
def _step(form: Any, size: int, wide: bool, device: Any) -> Callable[..., Any]:
    """The compiled program of a step, of the type of the noise."""
    jax = extra_module("jax", "jax")
    jnp = jax.numpy
    dtype = jnp.float64 if wide else jnp.float32

    def step(seed: Any, places: Any, of_step: Any, memory: Any, before: Any, factor: Any, nu: Any) -> Any:
        index = places if places.ndim else places + jnp.arange(size)
        own = nu.astype(dtype)
        draw = array_normals.normals(jnp, seed, index, nu).astype(dtype) * jnp.asarray(before, dtype) + own
        numbers = [each.astype(dtype) for each in of_step]
        made, after = array_noise.following(form, numbers, draw, [row.astype(dtype) for row in memory], own)
        kept = [row.astype(old.dtype) for row, old in zip(after, memory, strict=True)]
        return made * jnp.asarray(factor, dtype), kept

    return jax.jit(step, out_shardings=device if is_cut(device) else None)


@lru_cache(maxsize=1)
def _on_grid() -> Callable[..., Any]:
    jax = extra_module("jax", "jax")
    return jax.jit(partial(array_noise.on_grid, jax.numpy), static_argnums=2)


def sharding_of(leaf: Any) -> Any:
    """How an array is sharded across several devices; None for other arrays."""
    found: Any = getattr(leaf, "sharding", None)
    return found if is_cut(found) and found.num_devices > 1 else None


def maker_for(leaves: list[Any]) -> Callable[..., NoiseMaker]:
    """The maker of the noise of a run: on the device or mesh where parameters were put, or on the host."""
    put = [leaf for leaf in leaves if getattr(leaf, "committed", True)] or leaves
    devices = {device for leaf in put for device in leaf.devices()}
    places: set[Any] = devices or {None}
    if len(devices) > 1:
        module = extra_module("jax.sharding", "jax")
        meshes = {each and tuple(each.mesh.devices.flat) for each in map(sharding_of, put)}
        along = module.PartitionSpec("all")
        places = {each and module.NamedSharding(module.Mesh(np.array(each), "all"), along) for each in meshes}
    place, *others = places
    there = not others and place is not None and (is_cut(place) or place.platform != "cpu")
    return array_noise.where_possible(partial(JaxNoise, device=place)) if there else ModelNoise
