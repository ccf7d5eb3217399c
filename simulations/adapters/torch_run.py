"""A private run of a model of PyTorch, its optimizer and its data, which a restart continues (the extra ``torch``).

    run = make_private(model, optimizer, (inputs, targets), loss=torch.nn.functional.cross_entropy,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)

The same command begins the run, goes on with it after a crash, and loads the trained model once it is finished.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, get_args

from numpy.typing import ArrayLike

from corrnoise.simulations.adapters import torch_state
from corrnoise.simulations.adapters.torch import (
    Clipping,
    private_gradient,
    secret_generators,
    trainable_size,
)
from corrnoise.simulations.adapters.torch_noise import maker_for
from corrnoise.simulations.adapters.torch_shards import group_of
from corrnoise.simulations.adapters.training import DataRun, source
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import Release, Sums
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget


class TorchRun(DataRun):
    """A ``PrivateRun`` that has a model, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    model, optimizer, loss, clipping, chunk_size
        As for ``make_private``.
    arguments, options
        Of ``DataRun``, without the loss.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Callable[[Any, Any], Any],
        *arguments: Any,
        clipping: Clipping = "example",
        chunk_size: int | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self.clipping: Clipping = clipping
        self.chunk_size = chunk_size
        super().__init__(loss, *arguments, **options)

    def gradient(self, batch: ArrayLike) -> None:
        """Set the gradients of the model to the mean of the clipped gradients of a batch, with the noise of its step.

        Parameters
        ----------
        batch
            The numbers of the examples, as the run has handed them out.

        Raises
        ------
        ValueError
            The batch is not that of the step, a layer mixes examples, or a sum would be of half precision.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """
        with secret_generators(self, "data"):
            rows = self.rows(batch)
        if len(rows) != 2 or not all(hasattr(each, "to") for each in rows):
            kinds = ", ".join(type(each).__name__ for each in rows)
            raise ValueError(f"data must have items of two tensors, inputs and targets, got {kinds:.60}")
        inputs, targets = (each.to(next(self.model.parameters()).device) for each in rows)
        private_gradient(
            self, self.model, self.loss, inputs, targets, chunk_size=self.chunk_size, clipping=self.clipping
        )

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
    data: Any,
    *,
    loss: Callable[[Any, Any], Any],
    budget: Budget,
    batch_size: int,
    epochs: int | Participation,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    carry: Mapping[str, Any] | None = None,
    sums: Sums = "exact",
    release: Release = "grid",
    clipping: Clipping = "example",
    chunk_size: int | None = None,
) -> TorchRun:
    """A private run that trains a model, and that the same command goes on with after a crash.

    Noise is made where the model is.  The n examples have one random order for all epochs.  An epoch has floor(n/B)
    batches, so that the last n mod B examples of the order are left out (``run.batches.left_out``).

    Parameters
    ----------
    model
        A ``torch.nn.Module`` that treats each example by itself, with trained parameters of any type of floats.
    optimizer
        An optimizer of PyTorch over exactly its trained parameters.
    data
        Inputs and targets: a tuple of two tensors with the n examples along the first axis, or a ``Dataset`` with a
        length and items by number.
    loss
        A function of outputs and targets that returns a number, such as ``torch.nn.functional.cross_entropy``.
    budget
        What the whole run may spend, and the clip norm.
    batch_size
        B, 1 <= B <= n, by which sums are divided; the expected size of sampled batches.
    epochs
        How often an example takes part, at least 1; or a participation, for other orders and for sampled batches.
    mechanism
        The noise; None for the best noise of two arrays for the running sums, which the folder keeps.
    folder
        Where the run is kept, a path or a ``Folder``.  None for a run that ends with the process.
    carry
        What checkpoints hold besides the model, the optimizer and the generators: objects with ``state_dict`` and
        ``load_state_dict`` by their names, such as a scheduler of learning rates.
    sums, release
        ``"exact"`` and ``"grid"``: sums are integers, and releases are on their grid.  ``"float32"`` and ``"float"``
        for floats; models of half precision need exact sums.
    clipping
        ``"ghost"`` for sums without the gradients of examples, in less time and memory; ``"example"`` for gradients of
        examples.
    chunk_size
        How many examples of a batch are computed at once.  None for all, as far as their gradients fit into 1 GiB, and
        for a quarter of the expected number of a sampled batch.

    Returns
    -------
    The run.  ``for batch in run: run.step(batch)`` trains the model; ``run.gradient(batch)`` leaves the step of the
    optimizer to the caller.  Model and optimizer are those of the last checkpoint, and of the end once it is finished.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the folder is that of a run with other settings, data, model, optimizer or
        loss, or of another version of this package.
    BlockingIOError
        Another run uses the folder.

    Notes
    -----
    Checkpoints hold the generators of PyTorch (CPU and CUDA), NumPy and Python, so that dropout and random changes of
    the examples go on as without the crash.  Generators that the caller has made are not among them.

    In a job of several processes (``torch.distributed`` is initialised) all call this function with the same arguments
    and a whole model, and share each batch and the noise.  All see the folder, which the first holds; the others begin
    with its model and optimizer, and their generators are not kept.
    """
    checks.choice("clipping", clipping, get_args(Clipping))
    torch_state.check_model(model, optimizer, sums)
    own, _ = torch_state.dataset_of(data)
    if isinstance(data, tuple) and len(data) != 2:
        raise ValueError(f"data must be a tuple of inputs and targets, got {len(data)} tensors")
    if chunk_size is not None:
        checks.integer("chunk_size", chunk_size, 1)
    group = group_of(model)
    return TorchRun(
        model,
        optimizer,
        loss,
        own,
        torch_state.parts(model, optimizer, carry, group),
        {**torch_state.about(model, optimizer, carry), "clipping": clipping},
        trainable_size(model),
        budget=budget,
        mechanism=mechanism,
        order=source(epochs, len(own), batch_size),
        folder=folder,
        sums=sums,
        release=release,
        clipping=clipping,
        chunk_size=chunk_size,
        ranks=group,
        maker=maker_for(next(model.parameters()).device),
    )
