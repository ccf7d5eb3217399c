"""Runs of PyTorch: the content of checkpoints, and the facts that a resumed run compares."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.identity import simple
from corrnoise.simulations.adapters.torch import check_optimizer, check_products, check_types
from corrnoise.simulations.adapters.torch_random import TorchGenerators
from corrnoise.simulations.adapters.torch_shards import Group
from corrnoise.simulations.adapters.training import Parts
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
