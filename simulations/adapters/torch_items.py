"""Examples as users have them, pairs or dictionaries of tensors, and the loss of an example (the extra ``torch``).

==================  ========================================================  =======================
item                call of the model                                         loss
==================  ========================================================  =======================
``(x, target)``     ``model(x)``; a tuple ``model(*x)``, a dict ``model(**x)``  ``loss(outputs, target)``
a dictionary        ``model(**item)``                                         ``loss(outputs, item)``
==================  ========================================================  =======================

Items are read one by one.  ``item=`` of ``make_private`` maps each item alone, so no example can change another one.
*Rows* are items that were stacked along a new first axis.  All items have the shapes and types of the first one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.identity import of_arrays, of_examples
from corrnoise.simulations.adapters.torch_random import generators_kept
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

Item = Any  #: a pair or a dictionary of tensors, possibly nested
Loss = Callable[[Any, Any], Any]  #: of outputs and targets


class ModelError(ValueError):
    """A model, a loss or data that no run covers."""


# -- what users write --------------------------------------------------------------------------------------------------


class per_example(partial):  # noqa: N801  # used like a function
    """Declare that the loss of one example by itself is the loss that you mean.

    ``make_private`` compares the loss of a made-up batch with the mean and the sum of the losses of its examples, and
    refuses a loss that differs from both: class weights, means over valid tokens, contrastive losses.  With this
    declaration the gradient of an example is that of ``loss`` on a batch with this example alone.

    Parameters
    ----------
    loss : callable
        A function of outputs and targets that returns a number.

    Examples
    --------
    >>> import corrnoise as cn
    >>> import torch  # doctest: +SKIP
    >>> loss = cn.torch.per_example(torch.nn.CrossEntropyLoss(weight=torch.ones(10)))  # doctest: +SKIP
    """


def model_loss(outputs: Any, item: Any) -> Any:
    """The loss that a model returns itself, such as the models of ``transformers`` with labels.

    Parameters
    ----------
    outputs : object
        Outputs with an attribute or a key ``loss``.
    item : object
        The example, which the model has seen.

    Returns
    -------
    tensor
    """
    return outputs["loss"] if isinstance(outputs, Mapping) else outputs.loss


def pad_to(length: int, fill: float = 0, values: Mapping[str, float] | None = None) -> Callable[[Item], Item]:
    """A function for ``item=`` that pads or cuts each one-dimensional tensor of an item to one length.

    Parameters
    ----------
    length : int
        Length of the result, at least 1.
    fill : float
        Value of the padding.
    values : dict, optional
        Other values of the padding, by the name of a part, such as ``{"labels": -100}``.

    Returns
    -------
    callable
        A function of an item.
    """
    size = checks.integer("length", length, 1)
    fills = dict(values or {})

    def padded(name: str, part: Any) -> Any:
        if part.dim() != 1:
            return part
        found = part.new_full((size,), fills.get(name, fill))
        found[: len(part)] = part[:size]
        return found

    return lambda item: mapped(padded, as_item(item), named=True)


# -- trees of tensors --------------------------------------------------------------------------------------------------


def mapped(function: Callable[..., Any], *trees: Any, named: bool = False, name: str = "") -> Any:
    """A tree of tensors whose leaves are the results of a function of the leaves of some trees of one structure.

    Where ``named``, the function takes the name of a leaf first, such as ``"inputs"`` or ``"labels"``; the whole tree
    has the ``name``.
    """
    first = trees[0]
    if isinstance(first, Mapping):
        return {key: mapped(function, *(each[key] for each in trees), named=named, name=str(key)) for key in first}
    if isinstance(first, tuple):
        names = ("inputs", "target") if not name and len(first) == 2 else [f"{name}[{k}]" for k in range(len(first))]
        parts = zip(names, zip(*trees, strict=True), strict=True)
        return tuple(mapped(function, *each, named=named, name=key) for key, each in parts)
    return function(name, *trees) if named else function(*trees)


def leaves(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree with their names."""
    found: list[tuple[str, Any]] = []
    mapped(lambda name, leaf: found.append((name, leaf)), tree, named=True)
    return found


def as_item(given: Any) -> Item:
    """An item of a data set, or a result of ``item=``, as a pair or a dictionary of tensors."""
    if isinstance(given, Mapping):
        return {str(name): _as_tensors(part, str(name)) for name, part in given.items()}
    if not isinstance(given, tuple | list) or len(given) != 2:
        found = f"{len(given)} parts" if isinstance(given, tuple | list) else type(given).__name__
        raise ValueError(
            f"items of data must be pairs (inputs, target) or dictionaries, got {found}: make one of each item with "
            "item=, such as item=lambda parts: ((parts[0], parts[1]), parts[2])"
        )
    return _as_tensors(given[0], "inputs"), _as_tensors(given[1], "target")


def _as_tensors(part: Any, name: str) -> Any:
    """A part of an item with tensors in place of arrays, numbers and lists of numbers."""
    torch = extra_module("torch", "torch")
    if isinstance(part, torch.Tensor):
        return part.detach()
    if isinstance(part, Mapping):
        return {str(key): _as_tensors(each, str(key)) for key, each in part.items()}
    if isinstance(part, np.ndarray | np.generic) and part.dtype.kind in "biuf":
        return torch.as_tensor(part)
    if isinstance(part, bool | int | float):
        return torch.tensor(part)
    if isinstance(part, tuple | list) and part:
        if isinstance(part, list) and all(isinstance(each, bool | int | float | list) for each in part):
            try:
                return torch.tensor(part)
            except (TypeError, ValueError):
                pass  # a list of other things, or of lists of several lengths
        else:
            return tuple(_as_tensors(each, f"{name}[{k}]") for k, each in enumerate(part))
    raise TypeError(
        f"{name} of an item must be a tensor or a number, got {type(part).__name__}: convert it with item=, which maps "
        "each item of data"
    )


def stacked(items: Sequence[Item], template: Item) -> Any:
    """Items as rows, with the shapes and types of the first item; without items, tensors without rows."""
    torch = extra_module("torch", "torch")
    shapes = dict(_described(template))
    for item in items:
        found = dict(_described(item))
        if found != shapes:
            part = next(name for name in {**shapes, **found} if found.get(name) != shapes.get(name))
            raise ValueError(
                f"{part} must have the shape and type of the first item in every item of data, {shapes.get(part)}, got "
                f"{found.get(part)}: pad it with item=cn.torch.pad_to(length), or convert it with item="
            )
    if not items:
        return mapped(lambda leaf: leaf.new_empty((0, *leaf.shape)), template)
    return mapped(lambda *parts: torch.stack(parts), *items)


def _described(item: Item) -> list[tuple[str, str]]:
    return [(name, f"{str(leaf.dtype)[6:]} {tuple(leaf.shape)}") for name, leaf in leaves(item)]


def count_of(rows: Any) -> int:
    """The number of rows."""
    return len(leaves(rows)[0][1])


def chosen(rows: Any, places: Any) -> Any:
    """Some rows by their places, a slice or an array of numbers."""
    torch = extra_module("torch", "torch")

    def taken(leaf: Any) -> Any:
        return leaf[places if isinstance(places, slice) else torch.as_tensor(places, device=leaf.device)]

    return mapped(taken, rows)


def outputs_of(model: Callable[..., Any], rows: Any) -> Any:
    """The outputs of a model for rows."""
    inputs = rows if isinstance(rows, Mapping) else rows[0]
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def loss_of(loss: Loss, outputs: Any, rows: Any) -> Any:
    """The loss of rows, which must be a number."""
    value = loss(outputs, rows if isinstance(rows, Mapping) else rows[1])
    if (shape := getattr(value, "shape", None)) is None or len(shape):
        got = type(value).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ModelError(f"loss must return a number, a tensor without axes, got {got}")
    return value


# -- data --------------------------------------------------------------------------------------------------------------


class Examples:
    """The examples of a run by their numbers, each mapped by ``item``.

    The data are a pair or a dictionary of tensors with the examples along the first axis, or an object with a length
    and items by number.
    """

    def __init__(self, data: Any, item: Callable[[Any], Any] | None = None) -> None:
        if item is not None and not callable(item):
            raise TypeError(f"item must be a function of one item of data, got {item!r:.80}")
        self._data, self._item = data, item
        self._tensors = data if isinstance(data, tuple | Mapping) else None
        if self._tensors is None:
            _check_data_set(data)
        self._length = len(data) if self._tensors is None else _length_of(self._tensors)
        if not self._length:
            raise ValueError("data must have at least one example, got none")
        with generators_kept():
            self.template = self[0]
            if item is not None and self._length > 1 and _bits(self._read(0)) != self._after_another():
                raise ModelError("item must map each item alone: the result for an item depends on the items before it")

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, number: int) -> Item:
        found = self._data[number] if self._tensors is None else chosen(self._tensors, number)
        item = as_item(found if self._item is None else self._item(found))
        return mapped(lambda leaf: leaf.clone(), item)  # of data sets that use one buffer for all items

    def rows(self, batch: NDArray[np.int64]) -> Any:
        """The examples with some numbers as rows."""
        if self._tensors is not None and self._item is None:
            return as_item(chosen(self._tensors, batch))
        return stacked([self[number] for number in batch.tolist()], self.template)

    def identity(self) -> dict[str, Any]:
        """Facts that a resumed run compares: a digest of tensors, and of some items of a data set."""
        if self._tensors is not None:
            return of_arrays(tuple(leaf for _, leaf in leaves(self._tensors)))
        if isinstance(self._data, extra_module("torch.utils.data", "torch").TensorDataset):
            return of_arrays(self._data.tensors)
        with generators_kept():
            return of_examples(type(self._data).__qualname__, self._read, len(self))

    def _after_another(self) -> bytes:
        self._read(1)
        return _bits(self._read(0))

    def _read(self, number: int) -> Item:
        """An item, read with the same state of all generators each time."""
        extra_module("torch", "torch").manual_seed(number)
        random.seed(number)
        np.random.seed(number)  # noqa: NPY002  # of the user's code
        return self[number]


def _bits(item: Item) -> bytes:
    """The bytes of all tensors of an item."""
    torch = extra_module("torch", "torch")
    flat = [leaf.cpu().contiguous().reshape(-1) for _, leaf in leaves(item)]
    return b"".join(leaf.view(torch.uint8).numpy().tobytes() for leaf in flat)


def _length_of(tensors: Any) -> int:
    """The number of examples in a tree of tensors."""
    tensor = extra_module("torch", "torch").Tensor
    parts = leaves(tensors)
    if others := [type(part).__name__ for _, part in parts if not isinstance(part, tensor)]:
        raise TypeError(
            f"data must be a tuple of tensors with the examples along the first axis, or a Dataset, got {others[0]} in "
            "place of a tensor: use torch.as_tensor"
        )
    if not parts or not all(part.dim() for _, part in parts) or len({len(part) for _, part in parts}) != 1:
        shapes = ", ".join(f"{name} {tuple(part.shape)}" for name, part in parts)
        raise ValueError(f"data must be a tuple of tensors with the same number of examples, got {shapes or 'none'}")
    return len(parts[0][1])


def _check_data_set(data: Any) -> None:
    """Refuse data without a length and items by number."""
    library = extra_module("torch.utils.data", "torch")
    if isinstance(data, library.DataLoader):
        raise TypeError(
            "data must be the examples, not a DataLoader: pass loader.dataset as data and its batch_size as batch_size"
        )
    known = hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, str | bytes)
    if isinstance(data, library.IterableDataset) or not known:
        raise TypeError(
            f"data must be a pair of tensors or a Dataset with a length and items by number, got {type(data).__name__}"
        )
