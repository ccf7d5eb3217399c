"""A private run of a model of PyTorch, its optimizer and its data, which a restart continues (the extra ``torch``).

    run = make_private(model, optimizer, (inputs, targets), loss=torch.nn.functional.cross_entropy,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)

The same command begins the run, goes on with it after a crash, and loads the trained model once it is finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.torch import (
    check_layers,
    check_optimizer,
    check_types,
    private_gradient,
    trainable_size,
)
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget


class _ModelAndOptimizer:
    """What a checkpoint holds besides the noise: the two states, each as the bytes of ``torch.save``."""

    def __init__(self, model: Any, optimizer: Any) -> None:
        self._parts = {"model": model, "optimizer": optimizer}

    def save(self) -> dict[str, NDArray[Any]]:
        torch = extra_module("torch", "torch")
        found = {}
        for name, part in self._parts.items():
            file = BytesIO()
            torch.save(part.state_dict(), file)
            found[name] = np.frombuffer(file.getvalue(), np.uint8)
        return found

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        torch = extra_module("torch", "torch")
        for name, part in self._parts.items():
            file = BytesIO(arrays[name].tobytes())
            part.load_state_dict(torch.load(file, map_location="cpu", weights_only=True))


class TorchRun(PrivateRun):
    """A ``PrivateRun`` that has a model, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    model, optimizer, data, loss
        As for ``make_private``.
    arguments, options
        Of ``PrivateRun``, without ``carry``.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        data: tuple[Any, Any],
        loss: Callable[..., Any],
        *arguments: Any,
        **options: Any,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self._data = data
        self._loss = loss
        carry = None if options.get("folder") is None else _ModelAndOptimizer(model, optimizer)
        super().__init__(*arguments, carry=carry, **options)

    def gradient(self, batch: ArrayLike) -> None:
        """Set the gradients of the model to the mean of the clipped gradients of a batch, with the noise of its step.

        Parameters
        ----------
        batch
            The numbers of the examples, as the run has handed them out.

        Raises
        ------
        ValueError
            The batch is not that of the step, or a layer mixes examples.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """
        rows = np.asarray(batch)
        assert self.batches is not None
        if self.position < self.batches.steps and not np.array_equal(rows, self.batches.batch(self.position)):
            raise ValueError(f"batch must be the one that the run has handed out for step {self.position}")
        inputs, targets = self._data
        chosen = extra_module("torch", "torch").as_tensor(rows)
        private_gradient(self, self.model, self._loss, inputs[chosen], targets[chosen])

    def step(self, batch: ArrayLike) -> None:
        """Set the gradients as ``gradient`` does, and take a step of the optimizer.

        Parameters
        ----------
        batch
            The numbers of the examples, as the run has handed them out.
        """
        self.gradient(batch)
        self.optimizer.step()


def make_private(
    model: Any,
    optimizer: Any,
    data: tuple[Any, Any],
    *,
    loss: Callable[[Any, Any], Any],
    budget: Budget,
    batch_size: int,
    epochs: int,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
) -> TorchRun:
    """A private run that trains a model, and that the same command goes on with after a crash.

    The n examples have one random order for all epochs.  An epoch has floor(n/B) batches, so that the last n mod B
    examples of the order are left out (``run.batches.left_out``).

    Parameters
    ----------
    model
        A ``torch.nn.Module`` that treats each example by itself, with trained parameters of float32 or float64.
    optimizer
        An optimizer of PyTorch over exactly its trained parameters.
    data
        Inputs and targets, tensors with the n examples along the first axis.
    loss
        A function of outputs and targets that returns a number, such as ``torch.nn.functional.cross_entropy``.
    budget
        What the whole run may spend, and the clip norm.
    batch_size
        B, 1 <= B <= n.
    epochs
        How often an example takes part, at least 1.
    mechanism
        The noise; None for the best noise of two buffers for the running sums, which the folder keeps.
    folder
        Where the run is kept, a path or a ``Folder``.  Checkpoints hold the state of the model and of the optimizer.
        None for a run that ends with the process.

    Returns
    -------
    The run.  ``for batch in run: run.step(batch)`` trains the model; ``run.gradient(batch)`` leaves the step of the
    optimizer to the caller.  Model and optimizer are those of the last checkpoint, and of the end once it is finished.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the folder is that of a run with other settings.
    BlockingIOError
        Another run uses the folder.

    Notes
    -----
    Generators of PyTorch are not kept: after a crash, dropout draws other numbers.
    """
    if not isinstance(data, tuple) or len(data) != 2 or len(data[0]) != len(data[1]):
        raise ValueError("data must be a tuple of inputs and targets of the same number of examples")
    check_optimizer(model, optimizer)
    check_types("parameters", [each for each in model.parameters() if each.requires_grad])
    check_layers(model)
    examples = len(data[0])
    size = checks.integer("batch_size", batch_size, 1, largest=examples)
    times = checks.integer("epochs", epochs, 1)
    who = Participation.fixed_epochs(examples // size * times, epochs=times)
    order = batches(who, examples, size)
    return TorchRun(
        model, optimizer, data, loss, budget, who, mechanism, trainable_size(model), batches=order, folder=folder
    )
