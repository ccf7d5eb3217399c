"""A private run of a model of PyTorch, its optimizer and its data, which the same script resumes (extra ``torch``).

    run = make_private(model, optimizer, (inputs, targets), loss=torch.nn.functional.cross_entropy,
                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for batch in run:
        run.step(batch)

Rerun the script to start or resume the run, and to load the trained model of a finished one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters import torch_state
from corrnoise.simulations.adapters.options import TorchKeywords, TorchOptions, with_options
from corrnoise.simulations.adapters.torch import noisy_gradient, sums_of_batch, trainable_size
from corrnoise.simulations.adapters.torch_choice import Engines
from corrnoise.simulations.adapters.torch_deterministic import watched, without_dropout
from corrnoise.simulations.adapters.torch_engines import Engine, unchanged
from corrnoise.simulations.adapters.torch_items import Examples, as_item, loss_of, mapped, outputs_of, stacked
from corrnoise.simulations.adapters.torch_loops import Guard, Loader, private_loss
from corrnoise.simulations.adapters.torch_noise import maker_for
from corrnoise.simulations.adapters.torch_random import seeded
from corrnoise.simulations.adapters.torch_shards import Group, group_of, several_processes
from corrnoise.simulations.adapters.training import AuditedRows, DataRun, Unprotected, source, warn_unprotected
from corrnoise.simulations.run.batches import AnyBatches
from corrnoise.support.extras import extra_module


class TorchRun(DataRun):
    """A ``PrivateRun`` that has a model, an optimizer and the data; ``make_private`` makes it.

    Parameters
    ----------
    model, optimizer : object
        As for ``make_private``.
    data : Examples
        The examples.
    options : TorchOptions
        The options.
    order : Batches or SampledBatches
        The batches of all steps.
    engines : Engines
        Finds the engine for each structure of the model.
    group : Group, optional
        The processes of the job; None for one.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        data: Examples,
        options: TorchOptions,
        order: AnyBatches,
        engines: Engines,
        group: Group | None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self._engines = engines
        self._template = data.template
        self._read: tuple[int, Any] = (-1, None)  # the step whose rows were read last, and these
        super().__init__(
            options,
            data,
            order,
            torch_state.parts(model, optimizer, options.carry, group, options.changed),
            {**torch_state.about(model, optimizer, options.carry), "clipping": options.clipping},
            trainable_size(model),
            ranks=group,
            asked=options.asked,
            maker=maker_for(next(model.parameters()).device),
        )
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
        """The examples of this process in the batch that was handed out last, on the device of the model.

        Returns
        -------
        tuple or dict of tensor

        Raises
        ------
        RuntimeError
            If no batch was handed out.
        """
        if (batch := self.handed) is None:
            raise RuntimeError("no batch was handed out: take the next one from the run or its loader")
        return self._rows_of(batch)

    def _rows_of(self, batch: ArrayLike) -> Any:
        if self.ranks.count == 1 and several_processes():
            raise RuntimeError(
                "make_private must be called after torch.distributed was initialised: otherwise each process trains a "
                "model of its own, and spends the budget.  Call torch.distributed.init_process_group() at the start"
            )
        mine = self.mine(batch)
        position, rows = self._read
        if position != self.position:
            with seeded(self.seed("data")):
                rows = self._on_device(self.data.rows(mine))
            self._read = self.position, rows
        return rows

    def loader(self) -> Loader:
        """The rows of each batch to come, for a loop that takes a loader.

        Returns
        -------
        Loader
        """
        return Loader(self)

    # -- gradients -----------------------------------------------------------------------------------------------------

    def gradient(self, batch: ArrayLike, *, unprotected: bool = False) -> Unprotected | None:
        """Set the gradients of the model to the mean of the clipped gradients of a batch, with the noise of its step.

        Returns
        -------
        Unprotected or None
            The numbers that are not private, if asked for.
        """
        found = self._noisy_mean(batch)
        if not unprotected:
            return None
        warn_unprotected()
        return found

    def _stepped(self, batch: ArrayLike) -> Unprotected:
        found = self._noisy_mean(batch)
        for each in torch_state.as_optimizers(self.optimizer):
            each.step()
        return found

    def _noisy_mean(self, batch: ArrayLike) -> Unprotected:
        self._guard.check(self.trained)
        rows = self._rows_of(batch)
        return noisy_gradient(self, self.model, self.loss, rows, self.engine, self._options.chunk_size)

    def _twin(self, rows: AuditedRows, options: TorchOptions, order: AnyBatches) -> TorchRun:
        torch = extra_module("torch", "torch")
        dtype = torch.promote_types(torch.float32, next(iter(self.trained)).dtype)
        sizes = np.diff([0, *rows.ends([each.numel() for each in self.trained])]).tolist()

        class Linear(torch.nn.Module):  # type: ignore[name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.parts = torch.nn.ModuleList(torch.nn.Linear(size, 1, bias=False, dtype=dtype) for size in sizes)

            def forward(self, inputs: Any) -> Any:
                parts = inputs.split(sizes, dim=-1)
                return sum(layer(part) for layer, part in zip(self.parts, parts, strict=True))

        model = Linear().to(next(iter(self.trained)).device)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        given = replace(options, loss=_sum_of_outputs, changed=None, asked=None)
        engines = Engines(given.clipping, given.engine)
        data: Any = _TensorRows(rows, dtype)
        return TorchRun(model, optimizer, data, given, order, engines, None)

    def _flat_gradient(self, batch: ArrayLike) -> NDArray[np.float64]:
        self.gradient(batch)
        flat = extra_module("torch", "torch").cat([each.grad.reshape(-1) for each in self.trained])
        found: NDArray[np.float64] = flat.double().cpu().numpy()
        return found

    def _handled(self, batch: NDArray[np.int64]) -> Any:
        with seeded(self.seed("data")):
            return self._on_device(self.data.rows(batch))

    def _mapped(self, function: Callable[..., Any], *rows: Any) -> Any:
        return mapped(function, *rows)

    def _joined(self, rows: Sequence[Any]) -> Any:
        return mapped(lambda *parts: extra_module("torch", "torch").cat(parts), *rows)

    def _clipped_total(self, step: Any, rows: Any, numbers: NDArray[np.int64]) -> Any:
        with without_dropout(self.model), watched():
            sums, _ = sums_of_batch(step, self.model, self.loss, rows, self.engine, self._options.chunk_size)
        return extra_module("torch", "torch").cat([each.detach().reshape(-1) for each in sums])

    @contextmanager
    def _enlarged(self) -> Iterator[None]:
        torch = extra_module("torch", "torch")
        kept = [each.detach().clone() for each in self.trained]
        with torch.no_grad():
            for each in self.trained:
                each.mul_(10)
        try:
            yield
        finally:
            with torch.no_grad():
                for each, before in zip(self.trained, kept, strict=True):
                    each.copy_(before)

    def _is_half(self) -> bool:
        torch = extra_module("torch", "torch")
        of_parameters = any(each.dtype not in (torch.float32, torch.float64) for each in self.trained)
        return of_parameters or bool(torch.is_autocast_enabled(self.trained[0].device.type))

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
        """A block that allows every backward pass, for losses of public data.

        Yields
        ------
        None
        """
        with self._guard.public():
            yield


class _TensorRows:
    """The gradients of an auditor as pairs of tensors; the targets count for nothing."""

    def __init__(self, rows: AuditedRows, dtype: Any) -> None:
        torch = extra_module("torch", "torch")
        self._rows, self._dtype = rows, dtype
        self.template = torch.zeros(rows.size, dtype=dtype), torch.zeros(())

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        torch = extra_module("torch", "torch")
        (found,) = self._rows.rows(batch)
        return torch.from_numpy(found).to(self._dtype), torch.zeros(batch.size)


def _sum_of_outputs(outputs: Any, _: Any) -> Any:
    return outputs.sum()


@with_options(TorchOptions)
def make_private(model: Any, optimizer: Any, data: Any, **options: Unpack[TorchKeywords]) -> TorchRun:
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
    options : TorchOptions
        Keywords: the options that ``TorchOptions`` documents.

    Returns
    -------
    TorchRun
        ``for batch in run: run.step(batch)`` trains the model; ``run.gradient(batch)`` leaves the step of the optimizer
        to the caller.  Model and optimizer have the state of the last checkpoint, or of the end of a finished run.

    Raises
    ------
    ValueError
        If an argument is out of its range, the model or the loss mixes examples, or the folder belongs to a run with
        other settings, data, model, optimizer or loss.
    TypeError
        If an argument has another type.
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
    given = TorchOptions(**options)
    torch_state.check_model(model, optimizer, given.sums)
    examples = Examples(data, given.item)
    group = group_of(model)
    order = source(given, len(examples))
    example = given.example
    if example is not None:
        example = as_item(example if given.item is None else given.item(example))
        stacked([example], examples.template)
    engines = Engines(given.clipping, given.engine, example)
    engines.engine(model, given.loss, examples.template)
    return TorchRun(model, optimizer, examples, given, order, engines, group)
