"""Try a loss of JAX on made-up rows before the first step (the extra ``jax``).

``jax.vmap`` computes each row by itself, unless a function has a batching rule of its own: a callback that takes all
rows, or ``custom_vmap``.  So gradients of three made-up rows together must be the gradients of single rows, and the
losses must not depend on earlier rows.  The rows have the shapes and types of the data: floats are normal, integers are
0 and 1.

A rule may mix large rows only.  So the floats of the middle row, and then of all rows, are multiplied by 1000.  The
first step must not change the gradients of the other rows, and the second one must not change the middle gradient.
Each comparison is between two results of one compiled function, so rounding causes no refusal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from corrnoise.simulations.adapters.jax_items import arguments_of
from corrnoise.simulations.adapters.jax_noise import sharding_of
from corrnoise.support.extras import extra_module

ROWS = 3
GRADIENT_TOLERANCE = 5e-3
HALF_TOLERANCE = 3e-2  #: where parameters or data are of half precision
ROUNDING_SHARE = 1e-6  #: of the loss, below which gradients are rounding errors
LARGE_FACTOR = 1000  #: between the floats of large rows and of usual ones


def check_loss(
    loss: Callable[..., Any],
    parameters: Any,
    template: tuple[Any, ...],
    key: Any = None,
    example: Any = None,
    *,
    alone: bool = False,
) -> None:
    """Refuse a loss that is not a function of one example alone, as far as made-up rows show it.

    ``template`` has the arguments of the loss, or their shapes and types, with examples along the first axis; ``key``
    is for a loss that draws random numbers, ``example`` a public row for a loss that does not take random ones.
    Sharded parameters are not tried.  ``alone`` says that each example is computed alone, without the rules for
    several rows.
    """
    jax = extra_module("jax", "jax")
    if any(sharding_of(leaf) is not None for leaf in jax.tree.leaves(parameters)):
        return
    leaves, tree = jax.tree.flatten(template)
    if example is None:
        made = [_made_up(each.shape[1:], each.dtype, place) for place, each in enumerate(leaves)]
    else:
        made = _like(example, leaves, tree)
    rows = list(jax.tree.unflatten(tree, list(map(jax.numpy.asarray, made))))
    if key is not None:
        rows.append(jax.vmap(partial(jax.random.fold_in, key))(np.arange(ROWS)))
    single = [jax.tree.map(lambda each, at=number: each[at], rows) for number in range(ROWS)]
    both = jax.value_and_grad(loss)
    try:
        first = [both(parameters, *row) for row in single]
    except Exception as error:  # of any kind, from the user's code
        raise ValueError(
            "loss must return a number for the parameters and one example: for a made-up example with the shapes of "
            f"the data it raised {type(error).__name__}: {error!s:.300}.  If made-up values are the reason, pass a "
            "public row as example="
        ) from error
    again = [both(parameters, *row)[0] for row in reversed(single)]
    if [np.asarray(value).tobytes() for value, _ in first] != [np.asarray(each).tobytes() for each in again[::-1]]:
        raise ValueError(
            "loss must not remember examples: the loss of a made-up row changes after other rows.  Keep counters, "
            "caches and statistics out of it"
        )
    if alone:
        return
    every = jax.vmap(both, in_axes=(None, *(0 for _ in rows)))
    tolerance = HALF_TOLERANCE if any(map(_is_half, jax.tree.leaves((parameters, rows)))) else GRADIENT_TOLERANCE
    together = _by_row(every(parameters, *rows))
    _check_alike(together, [(float(value), _flat(gradient)) for value, gradient in first], range(ROWS), tolerance)
    try:
        one, all_of_them = (_by_row(every(parameters, *_enlarged(rows, places))) for places in (ROWS // 2, slice(None)))
    except Exception:  # of any kind, from the user's code, which may not take large rows
        return
    _check_alike(one, together, [number for number in range(ROWS) if number != ROWS // 2], tolerance)
    _check_alike(all_of_them, one, [ROWS // 2], tolerance)


def _by_row(found: tuple[Any, Any]) -> list[tuple[float, Any]]:
    """The loss and the flat gradient of each row."""
    tree = extra_module("jax", "jax").tree
    values, gradients = found
    return [(float(values[k]), _flat(tree.map(lambda leaf, at=k: leaf[at], gradients))) for k in range(ROWS)]


def _enlarged(rows: list[Any], places: int | slice) -> list[Any]:
    """Rows whose floats are multiplied by ``LARGE_FACTOR`` in some places."""
    jax = extra_module("jax", "jax")

    def larger(leaf: Any) -> Any:
        floats = jax.numpy.issubdtype(leaf.dtype, np.inexact)
        return leaf.at[places].multiply(LARGE_FACTOR) if floats else leaf

    return list(jax.tree.map(larger, rows))


def _check_alike(
    found: list[tuple[float, Any]], expected: list[tuple[float, Any]], rows: Iterable[int], tolerance: float
) -> None:
    """Refuse a loss where the gradient of a row is another one than expected."""
    for row in rows:
        value, gradient = expected[row]
        size = tolerance * np.linalg.norm(gradient) + ROUNDING_SHARE * max(abs(value), 0.1)
        if np.isfinite(size) and not np.linalg.norm(found[row][1] - gradient) <= size:
            raise ValueError(
                "loss must treat each example by itself: under jax.vmap the gradient of a made-up row depends on other "
                "rows.  Callbacks and custom_vmap rules must compute row by row (vmap_method='sequential'); "
                "engine='loop' does without such rules"
            )


def _made_up(shape: tuple[int, ...], dtype: Any, place: int) -> Any:
    """Three rows of an array."""
    rng = np.random.default_rng(place)
    kind = np.dtype(dtype).kind if np.dtype(dtype).kind in "biuf" else "f"
    if kind == "f":
        return rng.normal(size=(ROWS, *shape)).astype(np.float32).astype(dtype)
    found = rng.integers(2, size=(ROWS, *shape)) if shape else np.arange(ROWS) % 2
    return found.astype(dtype)


def _like(example: Any, leaves: list[Any], tree: Any) -> list[Any]:
    """Three rows like a public one: floats are times 1, 0.95 and 0.9."""
    jax = extra_module("jax", "jax")
    given, own = jax.tree.flatten(arguments_of(example))
    found = [(np.shape(each), str(np.asarray(each).dtype)) for each in given]
    wanted = [(each.shape[1:], str(each.dtype)) for each in leaves]
    if own != tree or found != wanted:
        raise ValueError(f"example must be one row of the data, of shapes and types {wanted}, got {found} in {own}")
    shares = (1.0, 0.95, 0.9)
    whole = [np.asarray(each) for each in given]
    return [
        np.stack(
            [
                each * np.asarray(share, each.dtype) if jax.numpy.issubdtype(each.dtype, np.inexact) else each
                for share in shares
            ]
        )
        for each in whole
    ]


def _is_half(leaf: Any) -> bool:
    return str(getattr(leaf, "dtype", "")) in ("float16", "bfloat16")


def _flat(tree: Any) -> Any:
    leaves = extra_module("jax", "jax").tree.leaves(tree)
    return np.concatenate([np.asarray(leaf, dtype=float).ravel() for leaf in leaves])
