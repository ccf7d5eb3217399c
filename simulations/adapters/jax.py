"""Correlated noise in JAX (the extra ``jax``), in three forms.

``private_gradient``
    The gradient of a private run, whose noise is made on the host or on a device (``jax_noise``).  The run may have a
    folder, and all guards of ``PrivateRun`` hold.  The noise is the same as in the other libraries.
``correlated_noise``
    A gradient transformation of optax, inside ``jax.jit``, whose arrays may be sharded.  Its draws are those of
    ``run/draws``.  It knows neither the batches nor a folder: the loop must keep to the participation, and must not
    release a step twice.
``noising_matrix``
    A ``StreamingMatrix`` for the privatizer of jax-privacy, which needs the multiplier of the program, a secret key and
    ``dtype=jax.numpy.float32``.  Without the last, the noise of a bfloat16 model has 8 bits.

All form the noise from the sum of the clipped gradients of a step.  Memory is float32, whatever the model has.  Norms
and sums are formed without products of matrices, so that ``jax_default_matmul_precision`` changes the gradients of
examples, and not the clipping.  Where a run has a grid, its sums are integers (``run/sums``), also for models of half
precision.  ``jax_run`` has runs that keep parameters, optimizer and data, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters import array_noise, array_normals
from corrnoise.simulations.adapters.jax_noise import filled_up, in_64_bits, is_cut, sharding_of
from corrnoise.simulations.adapters.options import EngineName
from corrnoise.simulations.adapters.training import Unprotected, batches_of, check_types, chunks, due, unprotected_of
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import check_not_sampled
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Memory = tuple[Any, ...]

LOOP_SIZE = 2**14  #: parameters of a model that the loop computes faster on a CPU


# -- a private run ----------------------------------------------------------------------------------------------------


class Engine(NamedTuple):
    """How the gradients of examples are computed."""

    kind: EngineName  #: ``"vmap"`` for all of a chunk at once, or ``"loop"`` for one after another
    why: str  #: the reason


def engine_for(leaves: list[Any], engine: EngineName = "auto", chunk_size: int | None = None) -> Engine:
    """The engine of a run.

    Parameters
    ----------
    leaves : list of arrays
        The parameters.
    engine : {"auto", "vmap", "loop"}
        The engine that was asked for.
    chunk_size : int, optional
        The number of examples that ``"vmap"`` computes at once, if it was given.

    Returns
    -------
    Engine
        With ``"auto"`` the loop for at least 2**14 parameters on one CPU, unless there is a ``chunk_size``.

    Raises
    ------
    ValueError
        The engine is unknown, or it is the loop, and ``chunk_size`` is given or parameters lie on several devices.
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
        and for a quarter of the expected number of a sampled batch.  Exact sums do not depend on it.
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
    check_parameters(leaves, exact=run.grid is not None)
    if (found := sum(leaf.size for leaf in leaves)) != run.size:
        raise ValueError(f"parameters must be {run.size} numbers during the whole run, got {found}")
    expected = due(run)
    if (sizes := {len(each) for each in jax.tree.leaves(batch)}) != {expected}:
        found_sizes = ", ".join(map(str, sorted(sizes)))
        raise ValueError(f"batch must be arrays of the {expected} examples of the step, got {found_sizes}")
    made = _looped if engine_for(leaves, engine, chunk_size).kind == "loop" else _vmapped
    total, kept = made(run, loss, parameters, batch, chunk_size)
    noisy_sum: Any = run.add_noise(np.asarray(total) if run.device is None else total)
    cut = [each for each in map(sharding_of, leaves) if each is not None]
    whole = jax.sharding.NamedSharding(cut[0].mesh, jax.P()) if cut else None  # of leaves that were put nowhere
    like = tuple((leaf.shape, str(leaf.dtype), sharding_of(leaf) or whole) for leaf in leaves)
    with in_64_bits(run.device):  # noisy sums of exact sums may be of float64
        gradient = jax.tree.unflatten(tree, _parted(like)(noisy_sum, batches_of(run).batch_size))
    losses, norms = (_on_host([(each[place], each[2]) for each in kept]) for place in (0, 1))
    return gradient, unprotected_of(losses, norms, run.budget.clip_norm)


def _on_host(parts: list[tuple[Any, int]]) -> NDArray[np.float64]:
    """The first numbers of some vectors as one array of NumPy."""
    return np.concatenate([np.zeros(0), *(np.asarray(each, float).reshape(-1)[:count] for each, count in parts)])


def _vmapped(
    run: PrivateRun, loss: Callable[..., Any], parameters: Any, batch: tuple[Any, ...], chunk_size: int | None
) -> tuple[Any, list[tuple[Any, Any, int]]]:
    """The sum of the clipped gradients of a batch; losses and norms of its chunks, and how many of them count."""
    jax = extra_module("jax", "jax")
    size = filled_up(run.size, run.device)
    clipped = _clipped_sum(loss, run.budget.clip_norm, run.grid, size, run.device)
    with in_64_bits(run.device) as jnp:
        dtype = jnp.result_type("float32", *jax.tree.leaves(parameters)) if run.grid is None else run.grid.dtype
        total = jnp.zeros(size, dtype, device=run.device)
    kept = []
    for places, count in chunks(run, chunk_size, run.size):
        some = jax.tree.map(lambda each, at=places: each[at], batch)
        part = clipped(parameters, np.arange(len(places)) < count, *some)
        with in_64_bits(run.device):
            total = total + part.total
        kept.append((part.losses, part.norms, count))
    return total, kept


def _looped(
    run: PrivateRun, loss: Callable[..., Any], parameters: Any, batch: tuple[Any, ...], chunk_size: int | None
) -> tuple[Any, list[tuple[Any, Any, int]]]:
    """The same for one example after another, in one set of arrays, which stays in the cache of a CPU."""
    del chunk_size
    jax = extra_module("jax", "jax")
    jnp = jax.numpy
    leaves = jax.tree.leaves(parameters)
    add = _add_clipped(loss, run.budget.clip_norm, run.grid)
    with in_64_bits(None):
        sums = [
            jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, "float32") if run.grid is None else run.grid.dtype)
            for leaf in leaves
        ]
    kept = []
    arrays, tree = jax.tree.flatten(batch)
    for example in zip(*(_one_by_one(each) for each in arrays), strict=True):
        sums, value, norm = add(sums, parameters, *jax.tree.unflatten(tree, example))
        kept.append((value, norm, 1))
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
    """Refuse parameters that are no floats of a type that is covered, and float64 where JAX computes with 32 bits.

    Parameters
    ----------
    leaves : list
        Arrays.
    exact : bool
        Whether sums are integers, so that parameters may be of half precision.

    Raises
    ------
    ValueError
        An array has another type than the sums of gradients would have.
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
def _clipped_sum(loss: Callable[..., Any], clip_norm: float, grid: Grid | None, size: int, device: Any) -> Any:
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
def _add_clipped(loss: Callable[..., Any], clip_norm: float, grid: Grid | None) -> Any:
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


# -- inside a compiled step --------------------------------------------------------------------------------------------


def _checked(made: Program) -> Program:
    """A program that JAX runs in float32."""
    if made.form not in array_noise.FORMS or made.dtype != "float32" or made.draw_scales is not None:
        raise ValueError(
            "mechanism must be Toeplitz noise or time-varying buffers that run in float32, got "
            f"{made.mechanism!r:.80}: PrivateRun runs all kinds"
        )
    return made


def _next(made: Program, step: Any, draw: Any, memory: Memory, nu: Any) -> tuple[Any, Memory]:
    """The noise of a step from its draw, for one array, with the bits of the engines of a run."""
    jnp = extra_module("jax.numpy", "jax")
    of_step = [jnp.asarray(each)[step] if each.ndim == 2 else jnp.asarray(each) for each in array_noise.numbers(made)]
    noise, after = array_noise.following(made.form, of_step, draw, memory, nu)
    return noise, tuple(after)


def noising_matrix(made: Program) -> Any:
    """The noise of a program as a ``StreamingMatrix`` of jax-privacy.

    Parameters
    ----------
    made : Program
        A program of the form "cascade", "delay line", "buffers" or "time-varying buffers" in float32, with its factors
        of steps, if any.  The standard deviation for the privatizer is ``made.scale(budget)``.

    Returns
    -------
    StreamingMatrix
        Of ``jax_privacy.matrix_factorization``.

    Raises
    ------
    ValueError
        If the program does not run in float32.
    """
    streaming = extra_module("jax_privacy.matrix_factorization.streaming_matrix", "jax")
    jnp = extra_module("jax.numpy", "jax")
    rows = array_noise.rows(_checked(made))

    def init(value: Any) -> Memory:
        return (jnp.zeros((), jnp.int32), *(jnp.zeros(value.shape, jnp.float32) for _ in range(rows)))

    def following(value: Any, memory: Memory) -> tuple[Any, Memory]:
        step, *states = memory
        noise, after = _next(made, step, value.astype(jnp.float32), tuple(states), jnp.float32(-0.0))
        return noise.astype(value.dtype), (step + 1, *after)

    found = streaming.StreamingMatrix.from_array_implementation(init, following)
    if made.step_scales is None:
        return found
    return streaming.scale_rows_and_columns(found, row_scale=jnp.asarray(made.step_scales, jnp.float32))


class CorrelatedNoiseState(NamedTuple):
    """The state between two steps, which is secret."""

    seeds: Any  #: of the draws of all T steps, uint32, shape (T, 4)
    zero: Any  #: −0.0, float32, which must be an argument of a compiled step and no constant (``array_normals``)
    step: Any  #: number of steps made, int32
    memory: Memory  #: for each array a tree like the parameters, of float32, sharded like them


def correlated_noise(
    budget: Budget, participation: Participation, mechanism: Mechanism, *, key: bytes | None = None
) -> Any:
    """A gradient transformation of optax that adds correlated noise to sums of clipped gradients.

    The parameters may be sharded in any way.  Each device makes the noise of its own coordinates, which are numbered in
    the order of the leaves, and the devices tell each other only whether the sum is finite.

    Parameters
    ----------
    budget : Budget
        The privacy budget of the whole run, with the clipping norm of the gradients.
    participation : Participation
        The data order, with a number of steps; the loop keeps to it.
    mechanism : Mechanism
        Toeplitz noise or time-varying buffers, which run in float32.
    key : bytes, optional
        16 to 64 secret bytes that no other run has; None for 32 bytes of the operating system.

    Returns
    -------
    optax.GradientTransformation
        To be chained before the optimizer.  It takes sums of float32 or float64.
        After the last step of the run it returns nan, because a compiled function cannot raise; and also for a sum that
        is not finite, which uses no noise and leaves the state as it was.

    Raises
    ------
    ValueError
        If an argument is out of its range, batches are sampled, or the mechanism does not run in float32.
    TypeError
        If an argument has another type.
    """
    return noise_of_program(streaming(mechanism, participation, "float32"), budget, key=key)


def noise_of_program(program: Program, budget: Budget, *, key: bytes | None = None) -> Any:
    """The same for a program, which may be one of buffers, and may have a factor for each step.

    Parameters
    ----------
    program : Program
        Of the form "cascade", "delay line", "buffers" or "time-varying buffers" in float32.
    budget : Budget
        As for ``correlated_noise``.
    key : bytes, optional
        As for ``correlated_noise``.

    Returns
    -------
    optax.GradientTransformation

    Raises
    ------
    ValueError
        If the program does not run in float32, its batches are sampled, it has no number of steps, or the key is
        invalid.
    TypeError
        If an argument has another type.
    """
    jax = extra_module("jax", "jax")
    optax = extra_module("optax", "jax")
    jnp = jax.numpy
    made = _checked(program)
    check_not_sampled(made.participation)
    scale = made.scale(budget)
    if (steps := made.participation.steps) is None:
        raise ValueError("participation must have a number of steps, as each step has its seed, got one without end")
    scales = None if made.step_scales is None else jnp.asarray(made.step_scales, jnp.float32)
    seeds = draws.seeds(draws.fresh(draws.KEY_BYTES) if key is None else draws.checked_key("key", key), range(steps))

    def init(parameters: Any) -> CorrelatedNoiseState:
        zeros = tuple(
            jax.tree.map(lambda leaf: jnp.zeros_like(leaf, dtype=jnp.float32), parameters)
            for _ in range(array_noise.rows(made))
        )
        table = jnp.array(seeds, copy=True)
        return CorrelatedNoiseState(table, jnp.asarray(-0.0, jnp.float32), jnp.zeros((), jnp.int32), zeros)

    def update(updates: Any, state: CorrelatedNoiseState, params: Any = None) -> tuple[Any, CorrelatedNoiseState]:
        del params
        leaves, tree = jax.tree.flatten(updates)
        check_types("sums", leaves)
        finite = jnp.stack([jnp.asarray(True), *(jnp.isfinite(leaf).all() for leaf in leaves)]).all()
        covered = jnp.where(state.step < steps, scale, jnp.nan).astype(jnp.float32)
        if scales is not None:
            covered = covered * scales[jnp.minimum(state.step, scales.size - 1)]
        seed = state.seeds[jnp.minimum(state.step, steps - 1)]
        memories = [jax.tree.leaves(each) for each in state.memory]
        noisy = []
        after = []
        first = 0
        for number, leaf in enumerate(leaves):
            draw = _draw(seed, state.zero, first, leaf)
            first += leaf.size
            noise, memory = _next(made, state.step, draw, tuple(each[number] for each in memories), state.zero)
            noisy.append((leaf.astype(jnp.float32) + jnp.where(finite, covered, jnp.nan) * noise).astype(leaf.dtype))
            after.append(memory)
        kept = tuple(jax.tree.unflatten(tree, [each[row] for each in after]) for row in range(array_noise.rows(made)))
        made_or_not = jax.tree.map(
            lambda new, old: jnp.where(finite, new, old), (state.step + 1, kept), (state.step, state.memory)
        )
        return jax.tree.unflatten(tree, noisy), CorrelatedNoiseState(state.seeds, state.zero, *made_or_not)

    return optax.GradientTransformation(init, update)


def _draw(seed: Any, zero: Any, first: int, leaf: Any) -> Any:
    """The draws of the coordinates first, first + 1, … of an array, float32, sharded like it."""
    jax = extra_module("jax", "jax")
    with jax.enable_x64(True):
        jnp = jax.numpy
        index = jnp.asarray(first, jnp.int64)
        stride = 1
        for axis in range(leaf.ndim)[::-1]:
            along = jax.lax.broadcasted_iota(jnp.int64, leaf.shape, axis, out_sharding=jax.typeof(leaf).sharding)
            index = index + along * stride
            stride *= leaf.shape[axis]
        found = array_normals.normals(jnp, seed.astype(jnp.int64), index, zero.astype(float))
        return found.astype(jnp.float32)
