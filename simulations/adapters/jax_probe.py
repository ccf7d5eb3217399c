"""Try a loss of JAX on made-up rows before the first step (the extra ``jax``).

``jax.vmap`` computes each row by itself, unless a function has a batching rule of its own: a callback that takes all
rows, or ``custom_vmap``.  So gradients of three made-up rows together must be those of single rows, and the losses must
not depend on earlier rows.  The rows have the shapes and types of the data: floats are normal, integers are 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from corrnoise.simulations.adapters.jax_noise import sharding_of
from corrnoise.simulations.extras import extra_module

ROWS = 3
GRADIENT_TOLERANCE = 5e-3
HALF_TOLERANCE = 3e-2  #: where parameters or data are of half precision
ROUNDING_SHARE = 1e-6  #: of the loss, below which gradients are rounding errors


def check_loss(loss: Callable[..., Any], parameters: Any, arrays: tuple[Any, ...], key: Any = None) -> None:
    """Refuse a loss that is not a function of one example alone, as far as made-up rows show it.

    Parameters
    ----------
    loss : callable
        ``loss(parameters, *example)``, or ``loss(parameters, *example, key)`` with a key.
    parameters : tree of arrays
        The parameters; sharded ones are not tried.
    arrays : tuple of arrays
        Examples along the first axis; only shapes and types count.
    key : key of JAX, optional
        A key, if the loss draws random numbers.

    Raises
    ------
    ValueError
        The loss fails, is not a number, mixes rows, or remembers them.
    """
    jax = extra_module("jax", "jax")
    if any(sharding_of(leaf) is not None for leaf in jax.tree.leaves(parameters)):
        return
    rows = [jax.numpy.asarray(_made_up(each.shape[1:], each.dtype, place)) for place, each in enumerate(arrays)]
    if key is not None:
        rows.append(jax.vmap(partial(jax.random.fold_in, key))(np.arange(ROWS)))
    both = jax.value_and_grad(loss)
    try:
        first = [both(parameters, *(each[number] for each in rows)) for number in range(ROWS)]
    except Exception as error:  # of any kind, from the user's code
        raise ValueError(
            "loss must return a number for the parameters and one example: for a made-up example with the shapes of "
            f"the data it raised {type(error).__name__}: {error!s:.300}"
        ) from error
    again = [both(parameters, *(each[number] for each in rows))[0] for number in reversed(range(ROWS))]
    if [np.asarray(value).tobytes() for value, _ in first] != [np.asarray(each).tobytes() for each in again[::-1]]:
        raise ValueError(
            "loss must not remember examples: the loss of a made-up row changes after other rows.  Keep counters, "
            "caches and statistics out of it"
        )
    together = jax.vmap(both, in_axes=(None, *(0 for _ in rows)))(parameters, *rows)[1]
    tolerance = (
        HALF_TOLERANCE if any(_is_half(leaf) for leaf in (*jax.tree.leaves(parameters), *rows)) else GRADIENT_TOLERANCE
    )
    for number, (value, alone) in enumerate(first):
        one = _flat(alone)
        gap = np.linalg.norm(_flat(jax.tree.map(lambda leaf, at=number: leaf[at], together)) - one)
        size = tolerance * np.linalg.norm(one) + ROUNDING_SHARE * max(abs(float(value)), 0.1)
        if np.isfinite(size) and not gap <= size:
            raise ValueError(
                "loss must treat each example by itself: under jax.vmap the gradient of a made-up row depends on other "
                "rows.  Callbacks and custom_vmap rules must compute row by row (vmap_method='sequential')"
            )


def _made_up(shape: tuple[int, ...], dtype: Any, place: int) -> Any:
    """Three rows of an array."""
    rng = np.random.default_rng(place)
    kind = np.dtype(dtype).kind if np.dtype(dtype).kind in "biuf" else "f"
    if kind == "f":
        return rng.normal(size=(ROWS, *shape)).astype(np.float32).astype(dtype)
    found = rng.integers(2, size=(ROWS, *shape)) if shape else np.arange(ROWS) % 2
    return found.astype(dtype)


def _is_half(leaf: Any) -> bool:
    return str(getattr(leaf, "dtype", "")) in ("float16", "bfloat16")


def _flat(tree: Any) -> Any:
    leaves = extra_module("jax", "jax").tree.leaves(tree)
    return np.concatenate([np.asarray(leaf, dtype=float).ravel() for leaf in leaves])
