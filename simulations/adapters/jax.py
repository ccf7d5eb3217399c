"""The gradient of a private run in JAX (the extra ``jax``): clipped gradients of examples, and the noise of the run.

The noise is made on the host or on a device (``jax_noise``), and equals the noise in the other libraries.  Norms and
sums are formed without products of matrices, so that ``jax_default_matmul_precision`` changes the gradients of
examples, and not the clipping.  Where a run has a grid, its sums are integers (``run/sums``), also for models of half
precision.  ``jax_run`` has runs that keep parameters, optimizer and data, too; ``jax_transforms`` has the noise for
loops without a run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.jax_noise import filled_up, in_64_bits, is_cut, sharding_of
from corrnoise.simulations.adapters.options import EngineName
from corrnoise.simulations.adapters.training import Unprotected, batches_of, check_types, chunks, due, unprotected_of
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

LOOP_SIZE = 2**14  #: parameters of a model that the loop computes faster on a CPU


class Engine(NamedTuple):
    """How the gradients of examples are computed."""

    kind: EngineName  #: ``"vmap"`` for all of a chunk at once, or ``"loop"`` for one after another
    why: str  #: the reason


def engine_for(leaves: list[Any], engine: EngineName = "auto", chunk_size: int | None = None) -> Engine:
    """The engine of a run; ``"auto"``: the loop for at least 2**14 parameters on one CPU without a ``chunk_size``.

    The loop takes no ``chunk_size`` and no parameters on several devices.
    """
    asked = checks.choice("engine", engine, get_args(EngineName))
    places = {device for leaf in leaves for device in getattr(leaf, "devices", set)()}
    several = any(is_cut(getattr(leaf, "sharding", None)) for leaf in leaves) or len(places) > 1
    if asked == "vmap":
        return Engine("vmap", "engine='vmap' was passed")
    if asked == "loop":
        if chunk_size is not None:
            raise ValueError(
                f"chunk_size must be None with engine='loop', which computes one example at a time, got {chunk_size}"
            )
        if several:
            raise ValueError(
                "engine must be 'auto' or 'vmap' for parameters on a mesh or on several devices, got 'loop'"
            )
        return Engine("loop", "engine='loop' was passed")
    if chunk_size is not None:
        return Engine("vmap", f"chunk_size={chunk_size} was passed")
    if several or any(device.platform != "cpu" for device in places or extra_module("jax", "jax").devices()[:1]):
        return Engine("vmap", "the parameters do not lie on one CPU")
    if (size := sum(leaf.size for leaf in leaves)) < LOOP_SIZE:
        return Engine("vmap", f"the model has {size} parameters, fewer than {LOOP_SIZE}")
    return Engine("loop", f"on a CPU the loop is faster for at least {LOOP_SIZE} parameters")


def private_gradient(
    run: PrivateRun,
    loss: Callable[..., Any],
    parameters: Any,
    *batch: Any,
    chunk_size: int | None = None,
    engine: EngineName = "auto",
) -> Any:
    """The sum of the clipped gradients of a batch plus the noise of the step, over the batch size.

    Parameters
    ----------
    run : PrivateRun
        The private run, which has batches and has handed out this one.
    loss : callable
        A function of the parameters and one example, ``loss(parameters, *example)``, which returns a number.
    parameters : tree of arrays
        Arrays of float32 or float64, with as many numbers as the run; of any type of floats where the run has a grid.
    batch : trees of arrays
        Arrays with the examples along the first axis.
    chunk_size : int, optional
        How many examples ``engine="vmap"`` computes at once.  None for all, as far as their gradients fit into 1 GiB,
        and for a quarter of the slots of a sampled one.  Exact sums do not depend on it.
    engine : {"auto", "vmap", "loop"}
        ``"vmap"`` computes the examples of a chunk at once, ``"loop"`` one after another.

    Returns
    -------
    tree of arrays
        A tree like ``parameters``.  Gradients of examples that are not finite count as zero.

    Raises
    ------
    ValueError
        The parameters or the number of examples differ from the run, or the engine does not fit.
    RuntimeError
        No batch was handed out for this step, or the run is over.
    """
    return noisy_gradient(run, loss, parameters, batch, chunk_size, engine)[0]


def noisy_gradient(
    run: PrivateRun,
    loss: Callable[..., Any],
    parameters: Any,
    batch: tuple[Any, ...],
    chunk_size: int | None,
    engine: EngineName,
) -> tuple[Any, Unprotected]:
    """The gradient of ``private_gradient``, and the loss and the norms of the batch, which are not private."""
    jax = extra_module("jax", "jax")
    leaves, tree = jax.tree.flatten(parameters)
    total, kept = sum_of_batch(run, loss, parameters, batch, chunk_size, engine)
    noisy_sum: Any = run.add_noise(np.asarray(total) if run.device is None else total)
    cut = [each for each in map(sharding_of, leaves) if each is not None]
    whole = jax.sharding.NamedSharding(cut[0].mesh, jax.P()) if cut else None  # of leaves that were put nowhere
    like = tuple((leaf.shape, str(leaf.dtype), sharding_of(leaf) or whole) for leaf in leaves)
    with in_64_bits(run.device):  # noisy sums of exact sums may be of float64
        gradient = jax.tree.unflatten(tree, _parted(like)(noisy_sum, batches_of(run).batch_size))
    losses, norms = (_on_host([(each[place], each[2]) for each in kept]) for place in (0, 1))
    return gradient, unprotected_of(losses, norms, run.budget.clip_norm)


def sum_of_batch(
    run: Any,
    loss: Callable[..., Any],
    parameters: Any,
    batch: tuple[Any, ...],
    chunk_size: int | None,
    engine: EngineName,
) -> tuple[Any, list[tuple[Any, Any, NDArray[np.bool_]]]]:
    """The sum of the clipped gradients of a batch; losses and norms of its chunks, and which of them count."""
    jax = extra_module("jax", "jax")
    leaves = jax.tree.leaves(parameters)
    check_parameters(leaves, exact=run.grid is not None)
    if (found := sum(leaf.size for leaf in leaves)) != run.size:
        raise ValueError(f"parameters must be {run.size} numbers during the whole run, got {found}")
    expected = due(run)
    if (sizes := {len(each) for each in jax.tree.leaves(batch)}) != {expected}:
        found_sizes = ", ".join(map(str, sorted(sizes)))
        raise ValueError(f"batch must be arrays of the {expected} examples of the step, got {found_sizes}")
    made = looped_sum if engine_for(leaves, engine, chunk_size).kind == "loop" else vmapped_sum
    return made(run, loss, parameters, batch, chunk_size)


def _on_host(parts: list[tuple[Any, NDArray[np.bool_]]]) -> NDArray[np.float64]:
    """The numbers of some vectors that count as one array of NumPy."""
    return np.concatenate([np.zeros(0), *(np.asarray(each, float).reshape(-1)[counts] for each, counts in parts)])


def vmapped_sum(
    run: PrivateRun, loss: Callable[..., Any], parameters: Any, batch: tuple[Any, ...], chunk_size: int | None
) -> tuple[Any, list[tuple[Any, Any, NDArray[np.bool_]]]]:
    """The sum of ``sum_of_batch``, for the examples of a chunk at once."""
    jax = extra_module("jax", "jax")
    size = filled_up(run.size, run.device)
    clipped = clipped_sum(loss, run.budget.clip_norm, run.grid, size, run.device)
    with in_64_bits(run.device) as jnp:
        dtype = jnp.result_type("float32", *jax.tree.leaves(parameters)) if run.grid is None else run.grid.dtype
        total = jnp.zeros(size, dtype, device=run.device)
    kept = []
    for chunk in chunks(run, chunk_size, run.size):
        some = jax.tree.map(lambda each, at=chunk.rows: each[at], batch)
        part = clipped(parameters, chunk.counts, *some)
        with in_64_bits(run.device):
            total = total + part.total
        kept.append((part.losses, part.norms, chunk.counts))
    return total, kept


def looped_sum(
    run: PrivateRun, loss: Callable[..., Any], parameters: Any, batch: tuple[Any, ...], chunk_size: int | None
) -> tuple[Any, list[tuple[Any, Any, NDArray[np.bool_]]]]:
    """The same for one example after another, in one set of arrays, which stays in the cache of a CPU."""
    del chunk_size
    jax = extra_module("jax", "jax")
    jnp = jax.numpy
    leaves = jax.tree.leaves(parameters)
    add = clipped_addition(loss, run.budget.clip_norm, run.grid)
    with in_64_bits(None):
        sums = [
            jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, "float32") if run.grid is None else run.grid.dtype)
            for leaf in leaves
        ]
    kept = []
    arrays, tree = jax.tree.flatten(batch)
    for example in zip(*(_one_by_one(each) for each in arrays), strict=True):
        sums, value, norm = add(sums, parameters, *jax.tree.unflatten(tree, example))
        kept.append((value, norm, np.ones(1, bool)))
    with in_64_bits(run.device):
        total = _joined(sums, run.size)
    return total, kept


def _one_by_one(rows: Any) -> Any:
    """The rows of an array or of keys of JAX."""
    jax = extra_module("jax", "jax")
    return rows if jax.dtypes.issubdtype(rows.dtype, jax.dtypes.extended) else np.asarray(rows)


@lru_cache(maxsize=16)
def _parted(like: tuple[tuple[Any, str, Any], ...]) -> Any:
    """The compiled function that makes a vector over the batch size arrays of such shapes, types and shardings."""
    jax = extra_module("jax", "jax")

    def parted(vector: Any, batch_size: Any) -> list[Any]:
        first, found = 0, []
        for shape, dtype, _ in like:
            length = math.prod(shape)
            found.append((vector[first : first + length].reshape(shape) / batch_size).astype(dtype))
            first += length
        return found

    return jax.jit(parted, out_shardings=[sharding for *_, sharding in like])


def check_parameters(leaves: list[Any], *, exact: bool) -> None:
    """Refuse parameters that are not floats of a covered type, and float64 where JAX computes with 32 bits.

    With ``exact`` sums, which are integers, parameters may be of half precision.
    """
    check_types("parameters", leaves, half=exact)
    if not extra_module("jax", "jax").config.jax_enable_x64 and any(leaf.dtype == "float64" for leaf in leaves):
        raise ValueError("parameters must be of float32 unless jax_enable_x64 is set, got float64")


class _Clipped(NamedTuple):
    """The sum of the clipped gradients of some examples, and the numbers that it hides."""

    total: Any  #: a vector
    losses: Any  #: of all examples, shape (batch,)
    norms: Any  #: of the gradients of all examples, shape (batch,)


@lru_cache(maxsize=16)
def clipped_sum(loss: Callable[..., Any], clip_norm: float, grid: Grid | None, size: int, device: Any) -> Any:
    """The compiled function that sums the clipped gradients of the examples of a batch, in floats or on a grid.

    The sum is a vector of a size, filled up with zeros, on the device of a run.  The loss is differentiated on the mesh
    of its parameters, and all else has automatic axes.  Norm and sum use the same numbers: a compiler that formed a
    gradient twice might round it otherwise in the sum than in its norm.
    """
    jax = extra_module("jax", "jax")

    def summed(counts: Any, samples: list[Any]) -> tuple[Any, Any]:
        formed_once = jax.lax.optimization_barrier([_at_least_float32(leaf) for leaf in samples])
        each, norms = jax.vmap(partial(_clipped, clip_norm, grid))(counts, formed_once)
        if grid is None:
            return _joined([_sum_by_halves(leaf) for leaf in each], size), norms
        with jax.enable_x64(True):  # for integers of 64 bits
            integers = [leaf.astype(grid.dtype).sum(axis=0, dtype=grid.dtype) for leaf in each]
            return _joined(integers, size), norms

    def total(parameters: Any, counts: Any, *batch: Any) -> Any:
        losses, gradients = jax.vmap(partial(jax.value_and_grad(loss), parameters))(*batch)
        samples = jax.tree.leaves(gradients)
        meshes = [jax.typeof(leaf).sharding.mesh for leaf in samples]
        mesh = next((each for each in meshes if not each.empty), meshes[0])
        along = jax.sharding.NamedSharding(mesh, jax.P(mesh.explicit_axes) if is_cut(device) else jax.P())
        whole = jax.sharding.NamedSharding(mesh, jax.P())
        found, norms = jax.sharding.auto_axes(summed, out_sharding=(along, whole))(counts, samples)
        return _Clipped(found, losses, norms)

    return jax.jit(total, out_shardings=_Clipped(device, None, None) if is_cut(device) else None)


@lru_cache(maxsize=16)
def clipped_addition(loss: Callable[..., Any], clip_norm: float, grid: Grid | None) -> Any:
    """The compiled function that adds the clipped gradient of one example to sums, which it uses up.

    It returns sums, loss and norm.  Norm and sum use the same numbers.
    """
    jax = extra_module("jax", "jax")

    def add(sums: list[Any], parameters: Any, *example: Any) -> tuple[list[Any], Any, Any]:
        value, gradient = jax.value_and_grad(loss)(parameters, *example)
        formed_once = jax.lax.optimization_barrier([_at_least_float32(leaf) for leaf in jax.tree.leaves(gradient)])
        clipped, norm = _clipped(clip_norm, grid, True, formed_once)
        with jax.enable_x64(True):  # for integers of 64 bits
            return [total + leaf.astype(total.dtype) for total, leaf in zip(sums, clipped, strict=True)], value, norm

    return jax.jit(add, donate_argnums=0)


def _clipped(clip_norm: float, grid: Grid | None, counts: Any, leaves: list[Any]) -> tuple[list[Any], Any]:
    """The clipped gradient of an example, in units of the grid if there is one, and the norm before clipping."""
    jnp = extra_module("jax.numpy", "jax")
    largest = jnp.max(jnp.stack([jnp.abs(leaf).max(initial=0.0) for leaf in leaves]))
    unit = jnp.where(largest > 0, largest, 1.0)  # so that squares neither overflow nor vanish
    norm = unit * jnp.sqrt(sum(_sum_by_halves(jnp.square(leaf / unit).reshape(-1)) for leaf in leaves))
    factor = jnp.minimum(1.0, clip_norm * MARGIN / jnp.maximum(norm, clip_norm * MARGIN))
    scaled = factor if grid is None else factor / grid.unit
    return [jnp.where(counts & jnp.isfinite(norm), leaf * scaled, 0.0) for leaf in leaves], norm


def _joined(parts: list[Any], size: int) -> Any:
    """Arrays as one vector of a size, filled up with zeros."""
    jnp = extra_module("jax.numpy", "jax")
    flat = jnp.concatenate([each.ravel() for each in parts])
    return jnp.pad(flat, (0, size - flat.size))


def _at_least_float32(leaf: Any) -> Any:
    jnp = extra_module("jax.numpy", "jax")
    return leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))


def _sum_by_halves(values: Any) -> Any:
    """The sum over the first axis, of length n; of numbers >= 0 its relative error is below (log2(n) + 1) 2u."""
    jnp = extra_module("jax.numpy", "jax")
    rest = values
    while rest.shape[0] > 1:
        half = (rest.shape[0] + 1) // 2
        rest = rest[:half] + jnp.pad(rest[half:], [(0, 2 * half - rest.shape[0])] + [(0, 0)] * (rest.ndim - 1))
    return rest.sum(axis=0)
