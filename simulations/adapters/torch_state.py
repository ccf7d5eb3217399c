"""Runs of PyTorch: the content of checkpoints, and the facts that a resumed run compares."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.identity import simple
from corrnoise.simulations.adapters.torch import check_optimizers, check_products
from corrnoise.simulations.adapters.torch_random import TorchGenerators
from corrnoise.simulations.adapters.torch_shards import Group
from corrnoise.simulations.adapters.training import Parts, check_types
from corrnoise.simulations.run.durable import Carry
from corrnoise.simulations.run.sums import Sums
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks


class State:
    """A part of a checkpoint: the ``state_dict`` of a model, an optimizer, or a scheduler of learning rates."""

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


class OptimizerState(State):
    """A part of a checkpoint: the state of an optimizer, with the numbers that it started with.

    ``changed`` says whether a resumed run may start with others, such as learning rates, which then win over stored
    ones.
    """

    def __init__(self, owner: Any, *, changed: bool) -> None:
        super().__init__(owner)
        self._changed = changed
        self._numbers = numbers_of(owner)
        self._groups = [_simple_values(group) for group in owner.param_groups]

    def save(self) -> dict[str, NDArray[Any]]:
        """The state, and the numbers at the start."""
        return {**super().save(), "numbers": np.frombuffer(self._numbers.encode(), np.uint8)}

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Restore a saved state, unless it belongs to other numbers."""
        before = arrays["numbers"].tobytes().decode()
        if before != self._numbers and not self._changed:
            raise ValueError(
                f"the optimizer was {before!r} when the run began, is {self._numbers!r}: pass the same numbers, or "
                "changed='optimizer' to resume with the new ones"
            )
        super().load(arrays)
        if before != self._numbers:
            for group, values in zip(self._owner.param_groups, self._groups, strict=True):
                group.update(values)


def numbers_of(optimizer: Any) -> str:
    """The class of an optimizer, and the numbers of its groups."""
    return f"{type(optimizer).__qualname__}({'; '.join(simple(group) for group in optimizer.param_groups)})"


def _simple_values(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if isinstance(value, bool | int | float | str | tuple)}


def as_optimizers(optimizer: Any) -> list[Any]:
    """One or several optimizers as a list."""
    return list(optimizer) if isinstance(optimizer, list | tuple) else [optimizer]


def check_model(model: Any, optimizer: Any, sums: Sums) -> None:
    """Refuse a model that no run of PyTorch covers, before there is a folder.

    A trained parameter is of half precision without exact sums or no float, a layer mixes examples, the optimizer has
    other parameters or needs a closure, or products of matrices are set to be shorter than float32.
    """
    torch = extra_module("torch", "torch")
    checks.instance("model", model, torch.nn.Module)
    check_optimizers(model, as_optimizers(optimizer))
    check_types("parameters", [each for each in model.parameters() if each.requires_grad], half=sums == "exact")
    check_products()


def parts(
    model: Any, optimizer: Any, carry: Mapping[str, Any] | None, group: Group | None, changed: str | None = None
) -> dict[str, Carry]:
    """The content of a checkpoint; all processes of a job, the ``group``, start with the content of the first one."""
    own: dict[str, Carry] = {"model": State(model)}
    for number, each in enumerate(as_optimizers(optimizer)):
        own[f"optimizer {number}" if number else "optimizer"] = OptimizerState(each, changed=changed == "optimizer")
    more = {} if carry is None else dict(carry)
    for name, each in more.items():
        if name in (*own, "torch", "generators") or not (
            hasattr(each, "state_dict") and hasattr(each, "load_state_dict")
        ):
            raise ValueError(f"carry must be objects with state_dict and load_state_dict by their names, got {name!r}")
    found = {**own, **{name: State(each) for name, each in more.items()}}
    if group is not None:
        whole = Parts(found)
        whole.load(group.share(whole.save))
    return found if group is not None and group.rank else {**found, "torch": TorchGenerators()}


def about(model: Any, optimizer: Any, carry: Mapping[str, Any] | None) -> dict[str, str]:
    """The facts that a resumed run compares: parameters, the classes of the optimizers, and carried objects."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return {
        **{f"parameter {name}": f"{str(each.dtype)[6:]} {tuple(each.shape)}" for name, each in named},
        "optimizer": ", ".join(type(each).__qualname__ for each in as_optimizers(optimizer)),
        "carried": ", ".join(f"{name}: {type(each).__qualname__}" for name, each in sorted((carry or {}).items())),
    }
