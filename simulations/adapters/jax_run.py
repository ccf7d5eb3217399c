"""A private run of parameters of JAX, an optimizer and the data, which a restart continues (the extra ``jax``).

    run = make_private(parameters, optax.sgd(2.0), (images, digits), loss=loss,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)
    trained = run.parameters

The same command begins the run, goes on with it after a crash, and loads the trained parameters once it is finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.jax import check_parameters, private_gradient
from corrnoise.simulations.adapters.jax_noise import maker_for
from corrnoise.simulations.adapters.jax_probe import check_loss
from corrnoise.simulations.adapters.training import Arrays, DataRun, source
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import Release, Sums
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget


class JaxRun(DataRun):
    """A ``PrivateRun`` that has parameters, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    parameters, optimizer, key, loss, chunk_size
        As for ``make_private``.
    data, options
        As for ``DataRun``.

    Attributes
    ----------
    parameters
        The tree of parameters after the last step.
    state
        The state of the optimizer after the last step.
    """

    def __init__(
        self,
        parameters: Any,
        optimizer: Any,
        key: Any,
        loss: Callable[..., Any],
        data: Arrays,
        chunk_size: int | None,
        **options: Any,
    ) -> None:
        jax = extra_module("jax", "jax")
        self.parameters = jax.tree.map(jax.numpy.asarray, parameters)
        self.optimizer = optimizer
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r:.80}")
        self.state = optimizer.init(self.parameters)
        self.loss = loss
        self._key = key
        self._chunk_size = None if chunk_size is None else checks.integer("chunk_size", chunk_size, 1)
        self._update = jax.jit(optimizer.update)
        jax.eval_shape(self._update, self.parameters, self.state, self.parameters)  # which may ask for more than these
        parts = {"parameters": _Tree(self, "parameters"), "optimizer": _Tree(self, "state")}
        about = {
            **_described("parameter", self.parameters),
            **_described("optimizer", self.state),
            "key": None if key is None else np.asarray(_numbers(key)).tobytes().hex(),
        }
        size = sum(leaf.size for leaf in jax.tree.leaves(self.parameters))
        maker = maker_for(jax.tree.leaves(self.parameters))
        super().__init__(loss, data, parts, about, size, maker=maker, **options)

    def gradient(self, batch: ArrayLike) -> Any:
        """The mean of the clipped gradients of a batch, with the noise of its step: a tree like ``parameters``.

        Parameters
        ----------
        batch
            The numbers of the examples, as the run has handed them out.

        Raises
        ------
        ValueError
            The batch is not that of the step, or the parameters have other shapes or types than at the beginning.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """
        rows = self.rows(batch)
        if self._key is not None:
            random = extra_module("jax.random", "jax")
            of_step = random.fold_in(self._key, self.position)
            rows = (*rows, extra_module("jax", "jax").vmap(partial(random.fold_in, of_step))(self.mine(batch)))
        return private_gradient(self, self.loss, self.parameters, *rows, chunk_size=self._chunk_size)

    def step(self, batch: ArrayLike) -> None:
        """Take a step of the optimizer along the gradient of ``gradient``, to new ``parameters`` and ``state``.

        Parameters
        ----------
        batch
            The numbers of the examples, as the run has handed them out.
        """
        updates, self.state = self._update(self.gradient(batch), self.state, self.parameters)
        self.parameters = extra_module("optax", "jax").apply_updates(self.parameters, updates)


class _Examples(Arrays):
    """Data in arrays, which JAX may have cut among devices along any axes."""

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        """The rows of each array, on all devices that have a part of it."""
        jax = extra_module("jax", "jax")

        def taken(each: Any) -> Any:
            whole = jax.sharding.NamedSharding(jax.typeof(each).sharding.mesh, jax.P())
            return jax.sharding.auto_axes(lambda rows: rows[batch], out_sharding=whole)(each)

        return tuple(taken(each) if isinstance(each, jax.Array) else each[batch] for each in self._arrays)


class _Tree:
    """A part of a checkpoint: the tree of arrays and keys that is an attribute of a run."""

    def __init__(self, run: JaxRun, name: str) -> None:
        self._run, self._name = run, name

    def save(self) -> dict[str, NDArray[Any]]:
        leaves = extra_module("jax", "jax").tree.leaves(getattr(self._run, self._name))
        return {
            str(number): np.frombuffer(np.asarray(_numbers(leaf)).tobytes(), np.uint8)
            for number, leaf in enumerate(leaves)
        }

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        jax = extra_module("jax", "jax")
        leaves, tree = jax.tree.flatten(getattr(self._run, self._name))
        found = []
        for number, leaf in enumerate(leaves):
            like = np.asarray(_numbers(leaf))
            value = arrays[str(number)].view(like.dtype).reshape(like.shape)
            if _is_key(leaf):
                found.append(jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf)))
            else:
                found.append(_placed(value, leaf) if hasattr(leaf, "dtype") else type(leaf)(value.item()))
        setattr(self._run, self._name, jax.tree.unflatten(tree, found))


def _placed(value: NDArray[Any], like: Any) -> Any:
    """An array of NumPy as one of JAX, where another one was put."""
    return extra_module("jax", "jax").device_put(value, like.sharding if getattr(like, "committed", False) else None)


def _is_key(leaf: Any) -> bool:
    jax = extra_module("jax", "jax")
    return hasattr(leaf, "dtype") and jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _numbers(leaf: Any) -> Any:
    """A leaf, or the numbers of a key."""
    return extra_module("jax.random", "jax").key_data(leaf) if _is_key(leaf) else leaf


def _described(name: str, tree: Any) -> dict[str, str]:
    """The types and shapes of the leaves of a tree, by their places."""
    leaves, _ = extra_module("jax.tree_util", "jax").tree_flatten_with_path(tree)
    text = extra_module("jax.tree_util", "jax").keystr
    return {f"{name} {text(place)}": f"{np.asarray(_numbers(leaf)).dtype} {np.shape(leaf)}" for place, leaf in leaves}


def make_private(
    parameters: Any,
    optimizer: Any,
    data: tuple[Any, ...],
    *,
    loss: Callable[..., Any],
    budget: Budget,
    batch_size: int,
    epochs: int | None = None,
    participation: Participation | None = None,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    key: Any = None,
    sums: Sums = "exact",
    release: Release = "grid",
    chunk_size: int | None = None,
) -> JaxRun:
    """A private run that trains parameters, and that the same command goes on with after a crash.

    The n examples have one random order for all epochs.  An epoch has floor(n/B) batches, so that the last n mod B
    examples of the order are left out (``run.batches.left_out``).

    Parameters
    ----------
    parameters
        A tree of arrays of any type of floats; of float64 only where JAX computes with 64 bits.
    optimizer
        An ``optax.GradientTransformation`` that needs gradients and parameters alone.  Its state may have keys.
    data
        Arrays with the n examples along the first axis, such as inputs and targets.
    loss
        A function of the parameters and one example, ``loss(parameters, *example)``, which returns a number.  With a
        ``key`` it is ``loss(parameters, *example, key)``.
    budget
        What the whole run may spend, and the clip norm.
    batch_size
        B, 1 <= B <= n, by which sums are divided; the expected size of sampled batches.
    epochs
        How often each example is used, at least 1, in one random order.
    participation
        Another data order in place of ``epochs``, also sampled batches.
    mechanism
        The noise; None for the best noise of two arrays for the running sums, which the folder keeps.
    folder
        Where the run is kept, a path or a ``Folder``.  None for a run that ends with the process.
    key
        A key of JAX from which the loss gets one for each example and step, for dropout, say; the same after a crash.
        None for a loss without random numbers.
    sums, release
        ``"exact"`` and ``"grid"``: sums are integers, and releases are on their grid.  ``"float32"`` and ``"float"``
        for floats; parameters of half precision need exact sums.
    chunk_size
        How many examples of a batch are computed at once.  None for all, as far as their gradients fit into 1 GiB, and
        for a quarter of the expected number of a sampled batch.

    Returns
    -------
    The run.  ``for batch in run: run.step(batch)`` trains; ``run.parameters`` and ``run.state`` are those after the
    last step, and may be set to others of the same shapes and types.  ``run.gradient(batch)`` returns the gradient.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the folder is that of a run with other settings, data, parameters, state of
        the optimizer or loss.
    BlockingIOError
        Another run uses the folder.
    """
    check_parameters(extra_module("jax", "jax").tree.leaves(parameters), exact=sums == "exact")
    own = _Examples(data)
    if not callable(loss):
        raise TypeError(f"loss must be a function, got {loss!r:.80}")
    check_loss(loss, parameters, data, key)
    return JaxRun(
        parameters,
        optimizer,
        key,
        loss,
        own,
        chunk_size,
        budget=budget,
        mechanism=mechanism,
        order=source(epochs, len(own), batch_size, participation),
        folder=folder,
        sums=sums,
        release=release,
    )
