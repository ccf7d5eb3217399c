"""Common parts of runs of PyTorch and of Opacus: data, content of checkpoints, and facts that a restart compares."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.identity import of_arrays, of_examples, simple
from corrnoise.simulations.adapters.torch import check_layers, check_optimizer, check_products, check_types
from corrnoise.simulations.adapters.torch_shards import Group
from corrnoise.simulations.adapters.training import Arrays, Data, HostGenerators, Parts
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.durable import Carry
from corrnoise.simulations.run.sums import Sums
from corrnoise.theory.numerics import checks


class State:
    """A part of a checkpoint: the ``state_dict`` of a model, an optimizer, or a scheduler of learning rates.

    Parameters
    ----------
    owner
        What has the state.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = owner

    def save(self) -> dict[str, NDArray[Any]]:
        """The bytes of ``torch.save``."""
        file = BytesIO()
        extra_module("torch", "torch").save(self._owner.state_dict(), file)
        return {"state": np.frombuffer(file.getvalue(), np.uint8)}

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from the state that was saved."""
        torch = extra_module("torch", "torch")
        file = BytesIO(arrays["state"].tobytes())
        self._owner.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))


class TorchGenerators:
    """A part of a checkpoint: the generators of PyTorch, those of the CPU and of each GPU that is in use."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Their states."""
        torch = extra_module("torch", "torch")
        states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        found = {"cpu": torch.get_rng_state(), **{f"cuda {number}": each for number, each in enumerate(states)}}
        return {name: each.numpy().copy() for name, each in found.items()}

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from the states that were saved; those of GPUs that are not there any more are left."""
        torch = extra_module("torch", "torch")
        torch.set_rng_state(torch.from_numpy(arrays["cpu"]))
        for number in range(torch.cuda.device_count()):
            if f"cuda {number}" in arrays:
                torch.cuda.set_rng_state(torch.from_numpy(arrays[f"cuda {number}"]), number)


class Examples:
    """Data in a ``Dataset`` of PyTorch with a length and items by number.

    Parameters
    ----------
    dataset
        The data set; its items are read one by one and collated.
    """

    def __init__(self, dataset: Any) -> None:
        library = extra_module("torch.utils.data", "torch")
        if isinstance(dataset, library.IterableDataset) or not isinstance(dataset, library.Dataset):
            raise TypeError(
                f"data must be a tuple of tensors or a Dataset with items by number, got {type(dataset).__name__}"
            )
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        """The items of a batch, collated as a ``DataLoader`` does."""
        return tuple(collated(self._dataset, [self._dataset[number] for number in batch.tolist()]))

    def identity(self) -> dict[str, Any]:
        """A digest of all tensors of a ``TensorDataset``, and of some items of any other data set."""
        if isinstance(self._dataset, extra_module("torch.utils.data", "torch").TensorDataset):
            return of_arrays(self._dataset.tensors)
        with _generators_kept():
            return of_examples(type(self._dataset).__qualname__, self._read, len(self._dataset))

    def _read(self, number: int) -> Any:
        """An item, for which all generators stand where they always do."""
        extra_module("torch", "torch").manual_seed(number)
        random.seed(number)
        np.random.seed(number)  # noqa: NPY002  # of the user's code
        return self._dataset[number]


def collated(dataset: Any, items: list[Any]) -> Any:
    """Items collated as a ``DataLoader`` does; of an empty batch, tensors without rows.

    Parameters
    ----------
    dataset
        A data set with the shapes of the items.
    items
        Those of a batch.
    """
    collate = extra_module("torch.utils.data", "torch").default_collate
    return collate(items) if items else _emptied(collate([dataset[0]]))


def _emptied(thing: Any) -> Any:
    """Tensors, or several of them, without their rows."""
    if isinstance(thing, Mapping):
        return {name: _emptied(each) for name, each in thing.items()}
    return thing[:0] if hasattr(thing, "dtype") else [_emptied(each) for each in thing]


@contextmanager
def _generators_kept() -> Iterator[None]:
    """A block after which the generators are where they were."""
    everything = Parts({"host": HostGenerators(), "torch": TorchGenerators()})
    before = everything.save()
    try:
        yield
    finally:
        everything.load(before)


def dataset_of(data: Any) -> tuple[Data, Any]:
    """The data of a run, and the data set that a ``DataLoader`` reads, of a tuple of tensors or of a data set.

    Parameters
    ----------
    data
        A tuple of tensors with the examples along the first axis, or a ``Dataset``.
    """
    if isinstance(data, tuple):
        if others := [
            type(each).__name__ for each in data if not isinstance(each, extra_module("torch", "torch").Tensor)
        ]:
            raise TypeError(f"data must be a tuple of tensors or a Dataset, got a tuple with {others[0]}")
        return Arrays(data), extra_module("torch.utils.data", "torch").TensorDataset(*data)
    return Examples(data), data


def check_model(model: Any, optimizer: Any, sums: Sums) -> None:
    """Refuse a model that no run of PyTorch covers, before there is a folder.

    Parameters
    ----------
    model, optimizer, sums
        As for ``make_private``.

    Raises
    ------
    TypeError
        The model is no module, or the optimizer none of PyTorch.
    ValueError
        A trained parameter is of half precision without exact sums or no float, a layer mixes examples, the optimizer
        has other parameters or needs a closure, or products of matrices are set to be shorter than float32.
    """
    torch = extra_module("torch", "torch")
    checks.instance("model", model, torch.nn.Module)
    checks.instance("optimizer", optimizer, torch.optim.Optimizer)
    check_optimizer(model, optimizer)
    check_types("parameters", [each for each in model.parameters() if each.requires_grad], half=sums == "exact")
    check_layers(model)
    check_products()


def parts(model: Any, optimizer: Any, carry: Mapping[str, Any] | None, group: Group | None) -> dict[str, Carry]:
    """The content of a checkpoint.  All processes of a job begin with what the first one has.

    Parameters
    ----------
    model, optimizer, carry
        As for ``make_private``.
    group
        The processes of the job; None for one.  Only the first goes on with its generators.
    """
    own = {"model": model, "optimizer": optimizer}
    more = {} if carry is None else dict(carry)
    for name, each in more.items():
        if name in (*own, "torch", "generators") or not (
            hasattr(each, "state_dict") and hasattr(each, "load_state_dict")
        ):
            raise ValueError(f"carry must be objects with state_dict and load_state_dict by their names, got {name!r}")
    found: dict[str, Carry] = {name: State(each) for name, each in (own | more).items()}
    if group is not None:
        whole = Parts(found)
        whole.load(group.share(whole.save))
    return found if group is not None and group.rank else {**found, "torch": TorchGenerators()}


def about(model: Any, optimizer: Any, carry: Mapping[str, Any] | None) -> dict[str, str]:
    """The facts that a restart compares: parameters, the class and numbers of the optimizer, and what is carried.

    Parameters
    ----------
    model, optimizer, carry
        As for ``make_private``.
    """
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    groups = "; ".join(simple(group) for group in optimizer.param_groups)
    return {
        **{f"parameter {name}": f"{str(each.dtype)[6:]} {tuple(each.shape)}" for name, each in named},
        "optimizer": f"{type(optimizer).__qualname__}({groups})",
        "carried": ", ".join(f"{name}: {type(each).__qualname__}" for name, each in sorted((carry or {}).items())),
    }
