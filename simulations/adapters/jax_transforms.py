"""Correlated noise for compiled steps of JAX without a run (the extra ``jax``), in two forms.

``correlated_noise``
    A gradient transformation of optax, inside ``jax.jit``, whose arrays may be sharded.  It makes the draws of
    ``run/draws``.  It knows neither the batches nor a folder: the loop must keep to the participation, and must not
    release a step twice.
``noising_matrix``
    A ``StreamingMatrix`` for the privatizer of jax-privacy, which needs the multiplier of the program, a secret key and
    ``dtype=jax.numpy.float32``.  Without the type, the noise of a bfloat16 model has 8 bits.

Both form the noise from the sum of the clipped gradients of a step.  Memory is float32, whatever the model has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from corrnoise.simulations.adapters import array_noise, array_normals
from corrnoise.simulations.adapters.training import check_types
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.batches import check_not_sampled
from corrnoise.simulations.run.engines import streaming
from corrnoise.support.extras import extra_module
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Memory = tuple[Any, ...]


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
