"""The contribution of a client of a federation whose model is a module of PyTorch (the extra ``torch``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.options import EngineName
from corrnoise.simulations.adapters.torch_choice import engine_for, example_gradients
from corrnoise.simulations.federation.client import Corrections
from corrnoise.support.extras import extra_module
from corrnoise.support.serialise import digest
from corrnoise.theory.numerics.checks import Array


def module_contribution(
    model: Any,
    loss: Callable[[Any, Any], Any],
    inputs: Any,
    targets: Any,
    *,
    chunk_size: int | None = None,
    engine: EngineName = "auto",
) -> Corrections:
    """The contribution of a module on the data of a client; the guard of the client clips it.

    Parameters
    ----------
    model : torch.nn.Module
        The model.  Its trained parameters, in the order of ``parameters()``, are the d numbers of the plan; they are
        overwritten.
    loss : callable
        A function of outputs and targets that returns a number, called with batches of one example.
    inputs, targets : tensor
        The examples of the client along the first axis.
    chunk_size : int, optional
        How many gradients are computed at once; None for all of a batch.
    engine : {"auto", "vmap", "loop"}
        As for ``corrnoise.torch.make_private``.

    Returns
    -------
    Corrections

    Raises
    ------
    ValueError
        The model or the loss mixes examples, or there are not as many targets as inputs.
    """
    torch = extra_module("torch", "torch")
    if len(inputs) != len(targets):
        raise ValueError(f"targets must be as many as inputs, {len(inputs)}, got {len(targets)}")
    found = engine_for(model, loss, (inputs[0], targets[0]), clipping="example", engine=engine)
    trained = [each for each in model.parameters() if each.requires_grad]

    def gradients(point: Array, examples: NDArray[np.int64]) -> Array:
        parts = torch.from_numpy(point).split([each.numel() for each in trained])
        with torch.no_grad():
            for each, part in zip(trained, parts, strict=True):
                each.copy_(part.view_as(each))
        rows = []
        for chosen in torch.from_numpy(examples).split(chunk_size or max(len(examples), 1)):
            samples = example_gradients(model, loss, (inputs[chosen], targets[chosen]), engine=found)
            rows.append(torch.cat([each.reshape(len(chosen), -1).double() for each in samples.values()], dim=1))
        return np.asarray(torch.cat(rows).cpu().numpy())

    def digested(values: Any) -> list[Any]:
        flat = values.detach().cpu().contiguous().flatten()
        return [list(values.shape), str(values.dtype), digest(flat.view(torch.uint8).numpy().tobytes())]

    return Corrections(gradients, digest([digested(inputs), digested(targets)]))
