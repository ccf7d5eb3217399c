"""Correlated noise in Opacus, which gives the gradients of the examples (the extra ``opacus``).

    model, optimizer, loader = make_private(model, optimizer, (inputs, targets), loss=torch.nn.functional.cross_entropy,
                                            budget=budget, batch_size=71, epochs=20, folder="digits")
    for x, y in loader:  # the steps to come
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()

``optimizer`` is a ``DPOptimizer`` of Opacus that adds the noise of a ``PrivateRun`` once to each logical batch, also
where ``BatchMemoryManager`` cuts batches into physical ones.  Opacus's engine takes no part: its loader samples anew in
each epoch, and its accountants assume independent noise.  What the multiplier of the run does not cover is refused:
other noise multipliers and clip norms, accumulated gradients, other batches than those of the run, accountants,
parameters of half precision without exact sums, Opacus's own generator and secure mode, per-layer and adaptive
clipping, and Opacus's own ghost clipping: its norms in float32 may be zero for any gradient, and its second backward
pass adds other numbers than those whose norms it has formed.  ``clipping="ghost"`` keeps the inputs and the gradients
at the outputs of linear layers in place of the gradients of examples, clips by proved norms of these (``torch_ghost``),
and adds their products up, without a second pass.

``optimizer.state_dict()`` is that of the wrapped optimizer.  The state of the run is in its folder, and nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, get_args

from corrnoise.simulations.adapters import torch_ghost, torch_state
from corrnoise.simulations.adapters.torch import (
    Clipping,
    add_noise,
    begin_generators,
    check_parameters,
    clipped_sum,
    trainable_size,
)
from corrnoise.simulations.adapters.torch_noise import maker_for
from corrnoise.simulations.adapters.torch_shards import group_of
from corrnoise.simulations.adapters.training import DataRun, batches_of, due, source
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Release, Sums
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget


class CorrelatedNoise:
    """A mixin for an optimizer class of Opacus, see ``optimizer_class``.

    Parameters
    ----------
    optimizer
        The optimizer of PyTorch that takes the steps.
    run
        The private run.
    loss_reduction
        ``"mean"`` or ``"sum"``, that of the loss function.
    clipping
        ``"ghost"`` where the model has ``keep_factors``.

    Attributes
    ----------
    run
        The private run.
    """

    def __init__(
        self, optimizer: Any, run: PrivateRun, *, loss_reduction: str = "mean", clipping: Clipping = "example"
    ) -> None:
        self.run = run
        self._ghost = checks.choice("clipping", clipping, get_args(Clipping)) == "ghost"
        self._examples = 0
        super().__init__(  # type: ignore[call-arg]
            optimizer,
            noise_multiplier=run.multiplier,
            max_grad_norm=self.max_grad_norm,
            expected_batch_size=batches_of(run).batch_size / run.ranks.count,
            loss_reduction=loss_reduction,
        )
        check_parameters(run, self._trained())
        if (processes := getattr(self, "world_size", 1)) != run.ranks.count:
            raise ValueError(f"run must have the {processes} processes of the optimizer as its ranks")

    def _trained(self) -> list[Any]:
        return list(self.params)  # type: ignore[attr-defined]

    # -- numbers that privacy rests on ---------------------------------------------------------------------------------

    @property
    def noise_multiplier(self) -> float:
        """Standard deviation of the independent noise in units of the clip norm; schedulers cannot change it."""
        return self.run.multiplier

    @noise_multiplier.setter
    def noise_multiplier(self, value: float) -> None:
        if value != self.noise_multiplier:
            raise AttributeError(f"noise_multiplier must stay {self.noise_multiplier} in the whole run, got {value}")

    @property
    def max_grad_norm(self) -> float:
        """The norm to which gradients are clipped, slightly below the clip norm of the run."""
        return self.run.budget.clip_norm * MARGIN

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        if value != self.max_grad_norm:
            raise AttributeError(f"max_grad_norm must stay {self.max_grad_norm} in the whole run, got {value}")

    def epsilon(self, delta: float) -> float:
        """ε of the whole run, rounded up.

        Parameters
        ----------
        delta
            In (0, 1).
        """
        return self.run.epsilon(delta)

    def attach_step_hook(self, fn: object) -> None:
        """Refused: hooks are accountants of independent noise."""
        raise RuntimeError(
            "accountants of Opacus do not cover correlated noise: optimizer.epsilon(delta) is that of the run"
        )

    # -- a step --------------------------------------------------------------------------------------------------------

    @property
    def grad_samples(self) -> list[Any]:
        """The gradients of the examples, or their factors, of one backward pass."""
        return [_only(parameter) for parameter in self._trained()]

    def clip_and_accumulate(self) -> None:
        """Clip the gradients of the examples, and add them to those of the same logical batch."""
        parameters = self._trained()
        check_parameters(self.run, parameters)
        samples = self.grad_samples
        if any(hasattr(each, "counted") for each in samples):
            raise RuntimeError("gradients of examples count once: call zero_grad and backward before each step")
        if self._ghost:
            gradients = [_factors(*pair) for pair in zip(parameters, samples, strict=True)]
            sums = torch_ghost.sums_of(gradients, torch_ghost.clip_norm_of_sums(self.run), self.run.largest_batch)
        else:
            sums = clipped_sum(samples, self.run.budget.clip_norm, self.run.grid)
        for parameter, total in zip(parameters, sums, strict=True):
            before = getattr(parameter, "summed_grad", None)
            parameter.summed_grad = total if before is None or self._examples == 0 else before + total
        for each in samples:
            each.counted = True
        self._examples += len(samples[0])

    def add_noise(self) -> None:
        """Add the noise of the step to the sum of the clipped gradients, over all processes."""
        expected = due(self.run)
        if self._examples != expected:
            raise RuntimeError(f"a step must have the {expected} examples of its batch, got {self._examples}")
        parameters = self._trained()
        sums = [parameter.summed_grad for parameter in parameters]
        noisy = add_noise(self.run, torch_ghost.rounded(sums, self.run.grid) if self._ghost else sums)
        for parameter, total in zip(parameters, noisy, strict=True):
            parameter.grad = total.view_as(parameter).to(parameter.dtype)
        self._examples = 0

    def reduce_gradients(self) -> None:
        """Divide by the number of processes where losses are means; noisy sums are those of all processes already."""
        if self.loss_reduction == "mean":  # type: ignore[attr-defined]
            for parameter in self._trained():
                parameter.grad /= self.run.ranks.count

    def state_dict(self) -> dict[str, Any]:
        """The state of the wrapped optimizer; that of the run is in its folder, and nowhere else."""
        if self._examples:
            raise RuntimeError("a state must be taken between two logical batches")
        state: dict[str, Any] = self.original_optimizer.state_dict()  # type: ignore[attr-defined]
        return state


def _only(parameter: Any) -> Any:
    """The gradients of the examples of one backward pass."""
    samples = getattr(parameter, "grad_sample", None)
    if isinstance(samples, list):
        if len(samples) != 1:
            raise RuntimeError(f"gradients must not be accumulated over backward passes, got {len(samples)} passes")
        samples = samples[0]
    if samples is None:
        raise RuntimeError(
            "a parameter has no gradients of examples: is it used, was the model wrapped, backward called? Opacus's "
            "own ghost clipping has none, and norms that may be far too small: take make_private(…, clipping='ghost')"
        )
    return samples


def keep_factors(wrapped: Any) -> None:
    """Let a ``GradSampleModule`` keep the factors of the gradients of examples at the weights of linear layers.

    Parameters
    ----------
    wrapped
        The module; its optimizer has ``clipping="ghost"``.
    """
    linear = extra_module("torch.nn", "torch").Linear
    usual = wrapped.GRAD_SAMPLERS
    wrapped.GRAD_SAMPLERS = {**usual, linear: partial(_kept, usual[linear])}


def _kept(usual: Callable[..., Any], layer: Any, activations: list[Any], backprops: Any) -> Any:
    """The factors of ``torch_ghost.sums_of`` side by side, (B, L, p + q), where the weight is used once in a pass."""
    weight = layer.weight
    a, b = (each.flatten(1, -2) if each.dim() > 2 else each.unsqueeze(1) for each in (activations[0], backprops))
    alone = weight.requires_grad and weight._forward_counter == 1 and not hasattr(weight, "_current_grad_sample")
    if not (alone and torch_ghost.by_factors(weight, a.shape[1], a, b)):
        return usual(layer, activations, backprops)
    kept = {weight: extra_module("torch", "torch").cat([a, b], 2)}
    return kept if layer.bias is None else {**kept, layer.bias: b.double().sum(1)}


def _factors(parameter: Any, samples: Any) -> Any:
    """A gradient of examples, or its two factors."""
    if samples.shape[1:] == parameter.shape:
        return samples
    return samples.split((parameter.shape[1], parameter.shape[0]), 2)


@cache
def optimizer_class(*, distributed: bool = False) -> type[Any]:
    """The optimizer class of Opacus with correlated noise; it takes (optimizer, run).

    Parameters
    ----------
    distributed
        Whether it sums gradients over the processes of ``torch.distributed``.

    Raises
    ------
    ImportError
        Opacus is not installed.
    """
    module = extra_module("opacus.optimizers", "opacus")
    base = module.DistributedDPOptimizer if distributed else module.DPOptimizer
    return type("CorrelatedDPOptimizer", (CorrelatedNoise, base), {})


class RunSampler:
    """The batches of the steps to come, for the argument ``batch_sampler`` of a ``DataLoader``.

    In a job of several processes each takes a share of a batch.

    Parameters
    ----------
    run
        The private run.
    workers
        Whether workers of a loader fetch batches ahead of their steps.  Then ``RunLoader`` hands them out.
    """

    def __init__(self, run: PrivateRun, *, workers: bool = False) -> None:
        self.run = run
        self._workers = workers

    def __iter__(self) -> Iterator[list[int]]:
        ranks = self.run.ranks
        order = batches_of(self.run)
        coming = map(order.batch, range(self.run.position, order.steps)) if self._workers else self.run
        for batch in coming:
            if order.participation.sampled and not self._workers:
                begin_generators(self.run, "loop")
            yield batch[ranks.rank :: ranks.count].tolist()

    def __len__(self) -> int:
        return len(self.run)


class RunLoader:
    """A loader whose workers fetch batches ahead, and which hands each out after the noise of the one before.

    Parameters
    ----------
    loader
        A ``DataLoader`` with workers over ``RunSampler(run, workers=True)``.
    run
        The private run.
    """

    def __init__(self, loader: Any, run: PrivateRun) -> None:
        self.loader = loader
        self.run = run

    def __iter__(self) -> Iterator[Any]:
        fetched = iter(self.loader)
        for _ in self.run:
            found = next(fetched)
            if batches_of(self.run).participation.sampled:
                begin_generators(self.run, "loop")
            yield found

    def __len__(self) -> int:
        return len(self.run)


def make_private(
    model: Any,
    optimizer: Any,
    data: Any,
    *,
    loss: Callable[..., Any],
    budget: Budget,
    batch_size: int,
    epochs: int | Participation,
    mechanism: Mechanism | None = None,
    folder: str | os.PathLike[str] | Folder | None = None,
    carry: Mapping[str, Any] | None = None,
    workers: int = 0,
    sums: Sums = "exact",
    release: Release = "grid",
    clipping: Clipping = "example",
) -> tuple[Any, Any, Any]:
    """A private run with Opacus, which the same command goes on with after a crash: model, optimizer and loader.

    The n examples have one random order for all epochs.  An epoch has floor(n/B) batches, so that the last n mod B
    examples of the order are left out (``optimizer.run.batches.left_out``).  Sampled batches vary, and may be empty.

    Parameters
    ----------
    model
        A ``torch.nn.Module`` that Opacus's ``ModuleValidator`` accepts, with trained parameters of any type of floats.
    optimizer
        An optimizer of PyTorch over exactly its trained parameters.
    data
        A tuple of tensors with the n examples along the first axis, or a ``Dataset`` with a length and items by number.
    loss
        The loss function of the loop, which a restart compares.  One with an attribute or a keyword ``reduction`` has
        this reduction, ``"mean"`` or ``"sum"``; any other is a mean over the batch.
    budget, batch_size, epochs, mechanism, folder, carry, sums, release, clipping
        As for ``corrnoise.torch.make_private``.
    workers
        How many processes of the loader read the data ahead; 0 for none.

    Returns
    -------
    The wrapped model, the optimizer with ``run`` and ``epsilon(delta)``, and a loader of the steps to come.  Model and
    optimizer are those of the last checkpoint, and of the end once the run is finished.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the folder is that of a run with other settings, data, model, optimizer or
        loss, or of another version of this package.
    BlockingIOError
        Another run uses the folder.

    Notes
    -----
    In a job of several processes (``torch.distributed`` is initialised) all call this function with the same arguments,
    and share each batch and the noise.  All see the folder, which the first holds; the others begin with its model and
    optimizer, and their generators are not kept.  Those of workers are not kept either.  A crash skips the steps after
    the last checkpoint.
    """
    checks.choice("clipping", clipping, get_args(Clipping))
    extra_module("opacus.validators", "opacus").ModuleValidator.validate(model, strict=True)
    torch_state.check_model(model, optimizer, sums)
    own, dataset = torch_state.dataset_of(data)
    group = group_of(model)
    parts = torch_state.parts(model, optimizer, carry, group)
    run = DataRun(
        loss,
        own,
        parts,
        {**torch_state.about(model, optimizer, carry), "clipping": clipping},
        trainable_size(model),
        budget=budget,
        mechanism=mechanism,
        order=source(epochs, len(own), batch_size),
        folder=folder,
        maker=maker_for(next(model.parameters()).device),
        ranks=group,
        sums=sums,
        release=release,
    )
    if group is not None:
        model = extra_module("opacus.distributed", "opacus").DifferentiallyPrivateDistributedDataParallel(model)
    reduction = _reduction(loss)
    wrapped = extra_module("opacus.grad_sample", "opacus").GradSampleModule(model, loss_reduction=reduction)
    wrapped.forbid_grad_accumulation()
    if clipping == "ghost":
        keep_factors(wrapped)
    library = extra_module("torch.utils.data", "torch")
    generator = extra_module("torch", "torch").Generator()  # so that a loop draws nothing from that of the run
    generator.manual_seed(run.seed("workers"))  # from which workers draw
    loader = library.DataLoader(
        dataset,
        batch_sampler=RunSampler(run, workers=workers > 0),
        num_workers=workers,
        collate_fn=partial(torch_state.collated, dataset),
        generator=generator,
    )
    return (
        wrapped,
        optimizer_class(distributed=group is not None)(optimizer, run, loss_reduction=reduction, clipping=clipping),
        RunLoader(loader, run) if workers else loader,
    )


def _reduction(loss: Any) -> str:
    """How a loss function adds up the losses of examples."""
    found = str(getattr(loss, "reduction", getattr(loss, "keywords", {}).get("reduction", "mean")))
    if found not in ("mean", "sum"):
        raise ValueError(f"loss must have the reduction 'mean' or 'sum', got {found!r}")
    return found
