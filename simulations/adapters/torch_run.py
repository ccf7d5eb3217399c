"""A private run of a model of PyTorch, its optimizer and its data, which the same script resumes (extra ``torch``).

    run = make_private(model, optimizer, (inputs, targets), loss=torch.nn.functional.cross_entropy,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)

Rerun the script to start or resume the run, and to load the trained model of a finished one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from numpy.typing import ArrayLike

from corrnoise.simulations.adapters import torch_state
from corrnoise.simulations.adapters.identity import of_function
from corrnoise.simulations.adapters.torch import (
    noisy_gradient,
    trainable_size,
)
from corrnoise.simulations.adapters.torch_engines import Engine, unchanged
from corrnoise.simulations.adapters.torch_items import (
    Examples,
    Item,
    Loss,
    as_item,
    loss_of,
    mapped,
    outputs_of,
    stacked,
)
from corrnoise.simulations.adapters.torch_loops import Guard, Loader, private_loss
from corrnoise.simulations.adapters.torch_noise import maker_for
from corrnoise.simulations.adapters.torch_probe import Clipping, EngineName, Engines
from corrnoise.simulations.adapters.torch_random import seeded
from corrnoise.simulations.adapters.torch_shards import group_of
from corrnoise.simulations.adapters.training import DataRun, Unprotected, source, warn_unprotected
from corrnoise.simulations.extras import extra_module
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
    model, optimizer, loss, chunk_size : object
        As for ``make_private``.
    engines : Engines
        Finds the engine for each structure of the model.
    template : tuple or dict
        The first item of the data.
    arguments, options : object
        Of ``DataRun``, without the loss.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        loss: Loss,
        engines: Engines,
        template: Item,
        *arguments: Any,
        chunk_size: int | None = None,
        **options: Any,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.loss = loss
        self._engines = engines
        self._template = template
        self._chunk_size = chunk_size
        self._read: tuple[int, Any] = (-1, None)  # the step whose rows were read last, and these
        super().__init__(loss, *arguments, **options)
        self._guard = Guard(self.trained)

    @property
    def trained(self) -> list[Any]:
        """The parameters that are trained."""
        return [each for each in self.model.parameters() if each.requires_grad]

    @property
    def engine(self) -> Engine:
        """How the gradients of examples are computed: ``kind``, ``factors``, and ``why`` no faster way was taken."""
        return self._engines.engine(self.model, self.loss, self._template)

    def _on_device(self, rows: Any) -> Any:
        device = next(self.model.parameters()).device
        return mapped(lambda leaf: leaf.to(device), rows)

    # -- batches -------------------------------------------------------------------------------------------------------

    def handed_rows(self) -> Any:
        """The examples of this process in the batch that was handed out last, on the device of the model."""
        if (batch := self.handed) is None:
            raise RuntimeError("no batch was handed out: take the next one from the run or its loader")
        return self._rows_of(batch)

    def _rows_of(self, batch: ArrayLike) -> Any:
        mine = self.mine(batch)
        position, rows = self._read
        if position != self.position:
            with seeded(self.seed("data")):
                rows = self._on_device(self.data.rows(mine))
            self._read = self.position, rows
        return rows

    def loader(self) -> Loader:
        """The rows of each batch to come, for a loop that takes a loader."""
        return Loader(self)

    # -- gradients -----------------------------------------------------------------------------------------------------

    def gradient(self, batch: ArrayLike, *, unprotected: bool = False) -> Unprotected | None:
        """Set the gradients of the model to the mean of the clipped gradients of a batch, with the noise of its step.

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

        Raises
        ------
        ValueError
            The step has another batch, or the model or the loss is refused.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """
        self._guard.check(self.trained)
        rows = self._rows_of(batch)
        found = noisy_gradient(self, self.model, self.loss, rows, self.engine, self._chunk_size)
        if not unprotected:
            return None
        warn_unprotected()
        return found

    def step(self, batch: ArrayLike, *, unprotected: bool = False) -> Unprotected | None:
        """Set the gradients as ``gradient`` does, and take a step of each optimizer.

        Parameters
        ----------
        batch, unprotected : array of int, bool
            As for ``gradient``.
        """
        found = self.gradient(batch, unprotected=unprotected)
        for each in torch_state.as_optimizers(self.optimizer):
            each.step()
        return found

    def private_loss(self, *, unprotected: bool = False) -> Any:
        """A scalar whose ``backward`` makes the noisy mean gradient of the batch that was handed out.

        Parameters
        ----------
        unprotected : bool
            Whether its value is the mean loss, which is not private; otherwise it is 0.

        Returns
        -------
        tensor
            The scalar, for one backward pass.
        """
        value = 0.0
        self._guard.check(self.trained)
        rows = mapped(lambda leaf: leaf.clone(), self.handed_rows())
        if unprotected:
            warn_unprotected()
            with seeded(self.seed("shown loss")), extra_module("torch", "torch").no_grad(), unchanged(self.model):
                value = float(loss_of(self.loss, outputs_of(self.model, rows), rows))
        return private_loss(self, value)

    @contextmanager
    def public(self) -> Iterator[None]:
        """A block that allows every backward pass, for losses of public data."""
        with self._guard.public():
            yield


def make_private(
    model: Any,
    optimizer: Any,
    data: Any,
    *,
    loss: Loss,
    budget: Budget,
    batch_size: int,
    epochs: int | None = None,
    participation: Participation | None = None,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    carry: Mapping[str, Any] | None = None,
    item: Callable[[Any], Any] | None = None,
    sums: Sums = "exact",
    release: Release = "grid",
    clipping: Clipping = "auto",
    engine: EngineName = "auto",
    chunk_size: int | None = None,
    example: Any = None,
    changed: Literal["optimizer"] | None = None,
    asked: str | None = None,
) -> TorchRun:
    """A private run that trains a model; the same script starts and resumes it.

    The gradient of an example is the gradient of the loss on a batch with this example alone.  Model and loss are tried
    on made-up rows first; what mixes examples is refused.

    The n examples have one random order for all epochs.  An epoch has floor(n/B) batches, so that the last n mod B
    examples of the order are left out (``run.batches.left_out``).

    Parameters
    ----------
    model : torch.nn.Module
        The model, with trained parameters of any type of floats.
    optimizer : torch.optim.Optimizer or list
        One or several optimizers that have exactly its trained parameters, each once.
    data : tuple, dict or Dataset
        A pair ``(inputs, targets)`` or a dictionary of tensors with the n examples along the first axis; or a
        ``Dataset`` with a length and items by number, which are such pairs or dictionaries.
    loss : callable
        A function of outputs and targets that returns a number, such as ``torch.nn.functional.cross_entropy``; of
        outputs and the item where items are dictionaries, such as ``cn.torch.model_loss``.
    budget : Budget
        The privacy budget of the whole run, and the clipping norm.
    batch_size : int
        B, 1 <= B <= n, the divisor of sums; the expected size of sampled batches.
    epochs : int, optional
        How often each example is used, at least 1, in one random order.
    participation : Participation, optional
        Another data order in place of ``epochs``, also sampled batches.
    mechanism : Mechanism, optional
        The noise; None for ``cn.default_noise``, whose result the folder keeps.
    folder : path or Folder, optional
        Where the run is kept.  None for a run that ends with the process.
    carry : dict, optional
        Further content of checkpoints: objects with ``state_dict`` and ``load_state_dict`` by their names, such as a
        scheduler of learning rates.
    item : callable, optional
        A function that maps each item of the data by itself, such as ``cn.torch.pad_to(128)``.
    sums, release : str
        ``"exact"`` and ``"grid"``: sums are integers, and releases are on their grid.  ``"float32"`` and ``"float"``
        for floats; models of half precision need exact sums.
    clipping : {"auto", "example", "ghost"}
        ``"example"`` forms the gradient of each example.  ``"ghost"`` leaves gradients at weight matrices in factors,
        which takes less memory.  ``"auto"`` does so where it takes fewer operations.
    engine : {"auto", "vmap", "loop"}
        ``"vmap"`` computes all examples at once, ``"loop"`` one after another.  ``"auto"`` takes the fastest one that
        agrees with the loop; ``run.engine`` says which.
    chunk_size : int, optional
        How many examples of a batch are computed at once.  None for all, as far as their gradients fit into 1 GiB, and
        for a quarter of the expected number of a sampled batch.
    example : object, optional
        A public or made-up item that tries model and loss, if they do not take random numbers.
    changed : {"optimizer"}, optional
        Whether a resumed run may have other numbers of the optimizer, such as learning rates, which then win over those
        of the checkpoint.
    asked : str, optional
        ``design.asked``, if ``mechanism`` comes from a search: a resumed run then takes the stored mechanism.

    Returns
    -------
    TorchRun
        ``for batch in run: run.step(batch)`` trains the model; ``run.gradient(batch)`` leaves the step of the optimizer
        to the caller.  Model and optimizer have the state of the last checkpoint, or of the end of a finished run.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, the model or the loss mixes examples, or the folder belongs to a run with other
        settings, data, model, optimizer or loss.
    BlockingIOError
        Another run uses the folder.

    Notes
    -----
    Checkpoints hold the generators of PyTorch (CPU and CUDA), NumPy and Python.  Dropout and random changes of examples
    draw from the secret of the run, so a resumed run draws the same numbers.

    In a job of several processes (``torch.distributed`` is initialised) all call this function with the same arguments
    and a whole model, and share each batch and the noise.  All see the folder, which the first holds; the others start
    with its model and optimizer, and their generators are not kept.
    """
    torch_state.check_model(model, optimizer, sums)
    examples = Examples(data, item)
    if chunk_size is not None:
        checks.integer("chunk_size", chunk_size, 1)
    if changed not in (None, "optimizer"):
        raise ValueError(f"changed must be 'optimizer' or None, got {changed!r:.80}")
    of_item = {} if item is None else of_function("item", item)
    group = group_of(model)
    order = source(epochs, len(examples), batch_size, participation)
    if example is not None:
        example = as_item(example if item is None else item(example))
        stacked([example], examples.template)
    engines = Engines(clipping, engine, example)
    engines.engine(model, loss, examples.template)
    return TorchRun(
        model,
        optimizer,
        loss,
        engines,
        examples.template,
        examples,
        torch_state.parts(model, optimizer, carry, group, changed),
        {**torch_state.about(model, optimizer, carry), "clipping": clipping, "item": None, **of_item},
        trainable_size(model),
        budget=budget,
        mechanism=mechanism,
        order=order,
        folder=folder,
        sums=sums,
        release=release,
        chunk_size=chunk_size,
        ranks=group,
        asked=asked,
        maker=maker_for(next(model.parameters()).device),
    )
