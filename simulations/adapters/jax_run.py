"""A private run of parameters of JAX, an optimizer and the data, which the same script resumes (the extra ``jax``).

    run = make_private(parameters, optax.sgd(2.0), (images, digits), loss=loss,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)
    trained = run.parameters

Rerun the script to start or resume the run, and to load the trained parameters of a finished one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.jax import Engine, check_parameters, engine_for, noisy_gradient, sum_of_batch
from corrnoise.simulations.adapters.jax_items import Examples, of_item
from corrnoise.simulations.adapters.jax_noise import maker_for
from corrnoise.simulations.adapters.jax_probe import check_loss
from corrnoise.simulations.adapters.options import JaxKeywords, JaxOptions, with_options
from corrnoise.simulations.adapters.training import AuditedRows, DataRun, Unprotected, source, warn_unprotected
from corrnoise.simulations.run.batches import AnyBatches
from corrnoise.simulations.run.durable import Carry
from corrnoise.support.extras import extra_module


class JaxRun(DataRun):
    """A ``PrivateRun`` that has parameters, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    parameters, optimizer : object
        As for ``make_private``.
    data : Examples
        The examples.
    options : JaxOptions
        The options.
    order : Batches or SampledBatches
        The batches of all steps.
    of_row : callable
        The loss of a row, with ``item``.

    Attributes
    ----------
    parameters : tree of arrays
        The parameters after the last step.
    state : tree of arrays
        The state of the optimizer after the last step.
    """

    def __init__(
        self,
        parameters: Any,
        optimizer: Any,
        data: Examples,
        options: JaxOptions,
        order: AnyBatches,
        of_row: Callable[..., Any],
    ) -> None:
        jax = extra_module("jax", "jax")
        self.parameters = jax.tree.map(jax.numpy.asarray, parameters)
        self.optimizer = optimizer
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r:.80}")
        self.state = optimizer.init(self.parameters)
        self._of_row = of_row
        self._update = jax.jit(optimizer.update)
        jax.eval_shape(self._update, self.parameters, self.state, self.parameters)  # which may ask for more than these
        carry = _carried(options.carry, options.folder)
        self._key = key = options.key
        parts = {"parameters": _Tree(self, "parameters"), "optimizer": _Tree(self, "state"), **carry}
        kinds = ", ".join(f"{name}: {type(each).__qualname__}" for name, each in sorted(carry.items()))
        about = {
            **_described("parameter", self.parameters),
            **_described("optimizer", self.state),
            "key": None if key is None else np.asarray(_numbers(key)).tobytes().hex(),
            "carried": kinds or None,
        }
        size = sum(leaf.size for leaf in jax.tree.leaves(self.parameters))
        maker = maker_for(jax.tree.leaves(self.parameters))
        super().__init__(options, data, order, parts, about, size, maker=maker)

    @property
    def engine(self) -> Engine:
        """How the gradients of examples are computed: ``kind``, and ``why``."""
        leaves = extra_module("jax", "jax").tree.leaves(self.parameters)
        return engine_for(leaves, self._options.engine, self._options.chunk_size)

    def gradient(self, batch: ArrayLike, *, unprotected: bool = False) -> Any:
        """The mean of the clipped gradients of a batch, with the noise of its step: a tree like ``parameters``.

        Returns
        -------
        tree of arrays
            The gradient; ``(gradient, Unprotected(loss, norms, clipped))`` with ``unprotected``.
        """
        gradient, found = self._noisy_mean(batch)
        if not unprotected:
            return gradient
        warn_unprotected()
        return gradient, found

    def _stepped(self, batch: ArrayLike) -> Unprotected:
        gradient, found = self._noisy_mean(batch)
        updates, self.state = self._update(gradient, self.state, self.parameters)
        self.parameters = extra_module("optax", "jax").apply_updates(self.parameters, updates)
        return found

    def _noisy_mean(self, batch: ArrayLike) -> tuple[Any, Unprotected]:
        rows = self._with_keys(self.rows(batch), self.position, self.mine(batch))
        options = self._options
        return noisy_gradient(self, self._of_row, self.parameters, rows, options.chunk_size, options.engine)

    def _with_keys(self, rows: tuple[Any, ...], step: int, numbers: NDArray[np.int64]) -> tuple[Any, ...]:
        """Rows with the keys of a step and of the numbers of their examples, where the loss takes keys."""
        if self._key is None:
            return rows
        random = extra_module("jax.random", "jax")
        of_step = random.fold_in(self._key, step)
        return (*rows, extra_module("jax", "jax").vmap(partial(random.fold_in, of_step))(numbers))

    def _handled(self, batch: NDArray[np.int64]) -> Any:
        return self.data.rows(batch)

    def _mapped(self, function: Callable[..., Any], *rows: Any) -> Any:
        return extra_module("jax", "jax").tree.map(function, *rows)

    def _joined(self, rows: Sequence[Any]) -> Any:
        return self._mapped(lambda *parts: extra_module("jax.numpy", "jax").concatenate(parts), *rows)

    def _clipped_total(self, step: Any, rows: Any, numbers: NDArray[np.int64]) -> Any:
        given, options = self._with_keys(rows, 0, numbers), self._options
        return sum_of_batch(step, self._of_row, self.parameters, given, options.chunk_size, options.engine)[0]

    @contextmanager
    def _enlarged(self) -> Iterator[None]:
        kept = self.parameters
        self.parameters = self._mapped(lambda leaf: leaf * 10, kept)
        try:
            yield
        finally:
            self.parameters = kept

    def _is_half(self) -> bool:
        leaves = extra_module("jax", "jax").tree.leaves(self.parameters)
        return any(leaf.dtype not in ("float32", "float64") for leaf in leaves)

    def _twin(self, rows: AuditedRows, options: JaxOptions, order: AnyBatches) -> JaxRun:
        jax = extra_module("jax", "jax")
        leaves = jax.tree.leaves(self.parameters)
        dtype = jax.numpy.promote_types("float32", leaves[0].dtype)
        parts = np.split(np.zeros(rows.size, dtype), rows.ends([leaf.size for leaf in leaves])[:-1])
        optimizer = extra_module("optax", "jax").identity()
        given = replace(options, loss=_along, key=None)
        data: Any = rows
        return JaxRun(parts, optimizer, data, given, order, _along)

    def _flat_gradient(self, batch: ArrayLike) -> NDArray[np.float64]:
        leaves = extra_module("jax", "jax").tree.leaves(self.gradient(batch))
        return np.concatenate([np.ravel(leaf) for leaf in leaves]).astype(np.float64)


def _along(parameters: Any, row: Any) -> Any:
    """A linear loss whose gradient is the row, without products of matrices."""
    jnp = extra_module("jax.numpy", "jax")
    return jnp.sum(jnp.concatenate(parameters) * row)


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


def _carried(carry: Mapping[str, Any] | None, folder: Any) -> dict[str, Carry]:
    """The further content of checkpoints, checked."""
    found = {} if carry is None else dict(carry)
    if found and folder is None:
        raise ValueError("folder must be given where there is something to carry")
    for name, each in found.items():
        if not isinstance(name, str) or not name or "/" in name or name in ("parameters", "optimizer", "generators"):
            raise ValueError(
                f"carry must have names without '/' other than 'parameters', 'optimizer', 'generators', got {name!r}"
            )
        if not (callable(getattr(each, "save", None)) and callable(getattr(each, "load", None))):
            raise TypeError(
                f"carry must be objects with save(), which returns arrays by their names, and load(arrays), got "
                f"{type(each).__name__} for {name!r}"
            )
        arrays = each.save()
        numbers = isinstance(arrays, Mapping) and all(
            isinstance(key, str) and np.asarray(value).dtype.kind in "biufc" for key, value in arrays.items()
        )
        if not numbers:
            raise TypeError(f"carry[{name!r}].save() must return arrays of numbers by their names, got {arrays!r:.80}")
    return found


@with_options(JaxOptions)
def make_private(parameters: Any, optimizer: Any, data: Any, **options: Unpack[JaxKeywords]) -> JaxRun:
    """A private run that trains parameters; the same script starts and resumes it.

    The gradient of an example is the gradient of the loss of this example alone.  The loss is tried on made-up rows
    first; a loss that mixes or remembers examples is refused.

    The n examples have one random order for all epochs.  An epoch has floor(n/B) batches, so that the last n mod B
    examples of the order are left out (``run.batches.left_out``).

    Parameters
    ----------
    parameters : tree of arrays
        Arrays of any type of floats; of float64 only where JAX computes with 64 bits.
    optimizer : optax.GradientTransformation
        An optimizer that needs gradients and parameters alone.  Its state may have keys.
    data : tree of arrays
        Arrays of NumPy or JAX with the n examples along the first axis: a tuple, such as ``(inputs, targets)``, a
        dictionary, or trees of them.
    options : JaxOptions
        Keywords: the options that ``JaxOptions`` documents.

    Returns
    -------
    JaxRun
        ``for batch in run: run.step(batch)`` trains; ``run.parameters`` and ``run.state`` are those after the last
        step, and may be set to others of the same shapes and types.  ``run.gradient(batch)`` returns the gradient.

    Raises
    ------
    ValueError
        If an argument is out of its range, the loss mixes examples, or the folder belongs to a run with other settings,
        data, parameters, state of the optimizer, loss or item.
    TypeError
        If an argument has another type.
    BlockingIOError
        Another run uses the folder.
    """
    given = JaxOptions(**options)
    leaves = extra_module("jax", "jax").tree.leaves(parameters)
    check_parameters(leaves, exact=given.sums == "exact")
    examples = Examples(data)
    engine_for(leaves, given.engine, given.chunk_size)
    of_row = of_item(given.loss, given.item, data, keyed=given.key is not None)
    check_loss(of_row, parameters, examples.template, given.key, given.example, alone=given.engine == "loop")
    return JaxRun(parameters, optimizer, examples, given, source(given, len(examples)), of_row)
