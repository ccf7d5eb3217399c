"""A private run of parameters of JAX, an optimizer and the data, which the same script resumes (the extra ``jax``).

    run = make_private(parameters, optax.sgd(2.0), (images, digits), loss=loss,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)
    trained = run.parameters

Rerun the script to start or resume the run, and to load the trained parameters of a finished one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.identity import of_function
from corrnoise.simulations.adapters.jax import Engine, EngineName, check_parameters, engine_for, noisy_gradient
from corrnoise.simulations.adapters.jax_items import Examples, of_item
from corrnoise.simulations.adapters.jax_noise import maker_for
from corrnoise.simulations.adapters.jax_probe import check_loss
from corrnoise.simulations.adapters.training import DataRun, Unprotected, source, warn_unprotected
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.durable import Carry
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import Release, Sums
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

Clipping = Literal["auto", "example"]


class JaxRun(DataRun):
    """A ``PrivateRun`` that has parameters, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    parameters, optimizer, key, loss, item, carry, engine, chunk_size : object
        As for ``make_private``.
    data : Examples
        The examples.
    of_row : callable
        The loss of a row, with ``item``.
    options : object
        As for ``DataRun``.

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
        key: Any,
        loss: Callable[..., Any],
        data: Examples,
        chunk_size: int | None,
        *,
        of_row: Callable[..., Any],
        item: Callable[[Any], Any] | None,
        carry: Mapping[str, Carry],
        engine: EngineName,
        **options: Any,
    ) -> None:
        jax = extra_module("jax", "jax")
        self.parameters = jax.tree.map(jax.numpy.asarray, parameters)
        self.optimizer = optimizer
        if not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise TypeError(f"optimizer must be an optax.GradientTransformation, got {optimizer!r:.80}")
        self.state = optimizer.init(self.parameters)
        self.loss = loss
        self._of_row = of_row
        self._key = key
        self._engine: EngineName = engine
        self._chunk_size = chunk_size
        self._update = jax.jit(optimizer.update)
        jax.eval_shape(self._update, self.parameters, self.state, self.parameters)  # which may ask for more than these
        parts = {"parameters": _Tree(self, "parameters"), "optimizer": _Tree(self, "state"), **carry}
        kinds = ", ".join(f"{name}: {type(each).__qualname__}" for name, each in sorted(carry.items()))
        about = {
            **_described("parameter", self.parameters),
            **_described("optimizer", self.state),
            "key": None if key is None else np.asarray(_numbers(key)).tobytes().hex(),
            "carried": kinds or None,
            **({"item": None} if item is None else of_function("item", item)),
        }
        size = sum(leaf.size for leaf in jax.tree.leaves(self.parameters))
        maker = maker_for(jax.tree.leaves(self.parameters))
        super().__init__(loss, data, parts, about, size, maker=maker, **options)

    @property
    def engine(self) -> Engine:
        """How the gradients of examples are computed: ``kind``, and ``why``."""
        return engine_for(extra_module("jax", "jax").tree.leaves(self.parameters), self._engine, self._chunk_size)

    def gradient(self, batch: ArrayLike, *, unprotected: bool = False) -> Any:
        """The mean of the clipped gradients of a batch, with the noise of its step: a tree like ``parameters``.

        Parameters
        ----------
        batch : array of int
            The numbers of the examples, as the run has handed them out.
        unprotected : bool
            Whether the mean loss, the norms and the share of clipped gradients are returned, too, which are not
            private.

        Returns
        -------
        tree of arrays
            The gradient; ``(gradient, Unprotected(loss, norms, clipped))`` with ``unprotected``.

        Raises
        ------
        ValueError
            The batch does not belong to the step, or the parameters have other shapes or types than at the beginning.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """
        gradient, found = self._noisy_mean(batch)
        if not unprotected:
            return gradient
        warn_unprotected()
        return gradient, found

    def step(self, batch: ArrayLike, *, unprotected: bool = False) -> Unprotected | None:
        """Take a step of the optimizer along the gradient of ``gradient``, to new ``parameters`` and ``state``.

        Parameters
        ----------
        batch : array of int
            The numbers of the examples, as the run has handed them out.
        unprotected : bool
            Whether the mean loss, the norms and the share of clipped gradients are returned, which are not private.

        Returns
        -------
        Unprotected or None
            These numbers, if asked for.
        """
        gradient, found = self._noisy_mean(batch)
        updates, self.state = self._update(gradient, self.state, self.parameters)
        self.parameters = extra_module("optax", "jax").apply_updates(self.parameters, updates)
        if not unprotected:
            return None
        warn_unprotected()
        return found

    def _noisy_mean(self, batch: ArrayLike) -> tuple[Any, Unprotected]:
        rows = self.rows(batch)
        if self._key is not None:
            random = extra_module("jax.random", "jax")
            of_step = random.fold_in(self._key, self.position)
            rows = (*rows, extra_module("jax", "jax").vmap(partial(random.fold_in, of_step))(self.mine(batch)))
        return noisy_gradient(self, self._of_row, self.parameters, rows, self._chunk_size, self._engine)


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


def _check_clipping(clipping: str) -> None:
    if clipping == "ghost":
        raise ValueError(
            "clipping must be 'auto' or 'example' in JAX, got 'ghost': a compiled loss does not show the calls whose "
            "gradients have factors.  cn.torch has it"
        )
    checks.choice("clipping", clipping, get_args(Clipping))


def make_private(
    parameters: Any,
    optimizer: Any,
    data: Any,
    *,
    loss: Callable[..., Any],
    budget: Budget,
    batch_size: int,
    epochs: int | None = None,
    participation: Participation | None = None,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    carry: Mapping[str, Carry] | None = None,
    item: Callable[[Any], Any] | None = None,
    key: Any = None,
    sums: Sums = "exact",
    release: Release = "grid",
    clipping: Clipping = "auto",
    engine: EngineName = "auto",
    chunk_size: int | None = None,
    example: Any = None,
) -> JaxRun:
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
    loss : callable
        A function that returns a number: ``loss(parameters, *row)`` for a tuple, ``loss(parameters, row)`` for a
        dictionary.  With a ``key`` it gets the key of the example as its last argument.
    budget : Budget
        The privacy budget of the whole run, and the clipping norm.
    batch_size : int
        B, 1 <= B <= n, the divisor of the sums; the expected size of sampled batches.
    epochs : int, optional
        How often each example is used, at least 1, in one random order.
    participation : Participation, optional
        Another data order in place of ``epochs``, also sampled batches.
    mechanism : Mechanism, optional
        The noise; None for ``cn.default_noise``, whose result the folder keeps.
    folder : path or Folder, optional
        Where the run is kept.  None for a run that ends with the process.
    carry : dict, optional
        Further content of checkpoints: objects by their names, with ``save()``, which returns arrays by their names,
        and ``load(arrays)``.
    item : callable, optional
        A function that maps each row by itself.  It is traced with the loss, which gets its result: a tuple as several
        arguments, any other tree as one.
    key : key of JAX, optional
        A key.  The loss gets another one for each example and step, for dropout, say; the same after a crash.  None for
        a loss without random numbers.
    sums, release : str
        ``"exact"`` and ``"grid"``: sums are integers, and releases are on their grid.  ``"float32"`` and ``"float"``
        for floats; parameters of half precision need exact sums.
    clipping : {"auto", "example"}
        Both form the gradient of each example.
    engine : {"auto", "vmap", "loop"}
        ``"vmap"`` computes the examples of a chunk at once, ``"loop"`` one after another.  ``"auto"`` takes the loop
        for at least 2**14 parameters on one CPU, unless there is a ``chunk_size``; ``run.engine`` says which.
    chunk_size : int, optional
        How many examples ``"vmap"`` computes at once.  None for all, as far as their gradients fit into 1 GiB, and for
        a quarter of the expected number of a sampled batch.
    example : tree of arrays, optional
        A public or made-up row to try the loss, if it does not take random numbers.

    Returns
    -------
    JaxRun
        ``for batch in run: run.step(batch)`` trains; ``run.parameters`` and ``run.state`` are those after the last
        step, and may be set to others of the same shapes and types.  ``run.gradient(batch)`` returns the gradient.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the loss mixes examples, or the folder belongs to a run with other settings,
        data, parameters, state of the optimizer, loss or item.
    BlockingIOError
        Another run uses the folder.
    """
    leaves = extra_module("jax", "jax").tree.leaves(parameters)
    check_parameters(leaves, exact=sums == "exact")
    examples = Examples(data)
    for name, function in (("loss", loss), ("item", item)):
        if not callable(function) and not (name == "item" and item is None):
            raise TypeError(f"{name} must be a function, got {function!r:.80}")
    _check_clipping(clipping)
    if chunk_size is not None:
        checks.integer("chunk_size", chunk_size, 1)
    engine_for(leaves, engine, chunk_size)
    of_row = of_item(loss, item, data, keyed=key is not None)
    check_loss(of_row, parameters, examples.template, key, example, alone=engine == "loop")
    return JaxRun(
        parameters,
        optimizer,
        key,
        loss,
        examples,
        chunk_size,
        of_row=of_row,
        item=item,
        carry=_carried(carry, folder),
        engine=engine,
        budget=budget,
        mechanism=mechanism,
        order=source(epochs, len(examples), batch_size, participation),
        folder=folder,
        sums=sums,
        release=release,
    )
