"""The contribution of a client of a federation whose model is a module of PyTorch (the extra ``torch``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.torch import check_layers, example_gradients
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.federation.client import Corrections
from corrnoise.support.serialise import digest
from corrnoise.theory.numerics.checks import Array


def module_contribution(
    model: Any, loss: Callable[[Any, Any], Any], inputs: Any, targets: Any, *, chunk_size: int | None = None
) -> Corrections:
    """The contribution of a module on the data of a client; the guard of the client clips it.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` that treats each example by itself.  Its trained parameters, in the order of
        ``parameters()``, are the d numbers of the plan; they are overwritten.
    loss
        A function of outputs and targets that returns a number, called with batches of one example.
    inputs, targets
        Tensors with the examples of the client along the first axis.
    chunk_size
        How many gradients are computed at once; None for all of a batch.

    Raises
    ------
    ValueError
        A layer mixes examples, or there are not as many targets as inputs.
    """
    torch = extra_module("torch", "torch")
    check_layers(model)
    if len(inputs) != len(targets):
        raise ValueError(f"targets must be as many as inputs, {len(inputs)}, got {len(targets)}")
    trained = [each for each in model.parameters() if each.requires_grad]

    def gradients(point: Array, examples: NDArray[np.int64]) -> Array:
        parts = torch.from_numpy(point).split([each.numel() for each in trained])
        with torch.no_grad():
            for each, part in zip(trained, parts, strict=True):
                each.copy_(part.view_as(each))
        chosen = torch.from_numpy(examples)
        found = example_gradients(model, loss, inputs[chosen], targets[chosen], chunk_size=chunk_size)
        rows = torch.cat([each.flatten(1).double() for each in found.values()], dim=1)
        return np.asarray(rows.cpu().numpy())

    def digested(values: Any) -> list[Any]:
        flat = values.detach().cpu().contiguous().flatten()
        return [list(values.shape), str(values.dtype), digest(flat.view(torch.uint8).numpy().tobytes())]

    return Corrections(gradients, digest([digested(inputs), digested(targets)]))
