"""Private gradients in PyTorch, without another library (the extra ``torch``).

    order = batches(participation, 1437, 71)
    run = PrivateRun(budget, participation, NuFTRL(0.02), trainable_size(model), batches=order)
    for batch in run:
        private_gradient(run, model, loss, (inputs[batch], targets[batch]))
        optimizer.step()

An engine (``torch_engines``) computes the gradient of each example on a batch with this example alone.  Each gradient
is clipped to the clipping norm over all parameters together.  The sum gets the noise of the step and is divided by the
batch size, which is the same number in all steps: a mean over the actual batch would depend on the other examples.
``optimizer`` is any optimizer of PyTorch: its step is post-processing.

A norm is the norm of the norms of blocks of 1024 numbers.  The relative error of a block in float32 is below 3.1e-5
(1026/2 units in the last place), in whatever order it is added, and blocks are added in float64.  So gradients are
clipped to 1 − 10⁻⁴ times the clipping norm, which covers the products, too.  (The norm of 9e5 numbers by
``tensor.norm`` in float32 may be 1e-5 too small.)  The gradient of an example that is not finite, or whose norm exceeds
1e19, counts as zero.

Norms are float32 or float64 for gradients of every precision: ``torch.autocast`` is off for them, gradients of half
precision become float32 before their norm is taken, and shorter products (TF32) are refused.  Sums are integers if the
run has a grid (``run/sums.py``), also for models of half precision, and otherwise float32 or float64: a sum that is
rounded once to bfloat16 changes by up to 6 clipping norms with one example of a batch of 1000.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters import torch_factors, torch_normals
from corrnoise.simulations.adapters.options import Clipping, EngineName
from corrnoise.simulations.adapters.torch_choice import Engines
from corrnoise.simulations.adapters.torch_engines import Engine, digest_of, trained_parameters
from corrnoise.simulations.adapters.torch_factors import Blocks, Factors
from corrnoise.simulations.adapters.torch_items import Loss, ModelError, chosen, leaves, mapped
from corrnoise.simulations.adapters.torch_random import seeded
from corrnoise.simulations.adapters.torch_shards import Group, layout_of
from corrnoise.simulations.adapters.training import Unprotected, batches_of, check_types, chunks, due, unprotected_of
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid, add_truncated
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

NORM_BLOCK = 1024  #: numbers whose norm is taken in float32
TRUNCATED_AT_ONCE = 2**24  #: numbers of gradients
_NO_FACTORS = Blocks(1, 1, "float32", math.inf, 0.0)  # of sums without factors
_RUN_ENGINES: WeakKeyDictionary[PrivateRun, Engines] = WeakKeyDictionary()


def trainable_size(model: Any) -> int:
    """Number of parameters of a module that are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def check_parameters(run: PrivateRun, parameters: Sequence[Any]) -> None:
    """Refuse parameters that the run does not cover: another number of them, or a type that its sums do not have."""
    check_types("parameters", parameters, half=run.grid is not None)
    if (found := sum(each.numel() for each in parameters)) != run.size:
        raise ValueError(f"the trained parameters must be {run.size} numbers during the whole run, got {found}")


def check_optimizers(model: Any, optimizers: Sequence[Any]) -> None:
    """Refuse optimizers that do not have each trained parameter of the model once, or that compute the loss.

    The noise of the run would not cover all their changes, or cover more; or they need more than a gradient.
    """
    library = extra_module("torch.optim", "torch")
    found: list[int] = []
    for each in optimizers:
        checks.instance("optimizer", each, library.Optimizer)
        closure = inspect.signature(each.step).parameters.get("closure")
        if closure is not None and closure.default is closure.empty:
            raise ValueError(f"optimizer must take steps without a closure, got {type(each).__name__}")
        found += [id(parameter) for group in each.param_groups for parameter in group["params"]]
    if sorted(found) != sorted(id(each) for each in model.parameters() if each.requires_grad):
        raise ValueError(
            "optimizer must have exactly the parameters of the model that are trained, each once: pass "
            "(p for p in model.parameters() if p.requires_grad) to it"
        )


class Clipped(NamedTuple):
    """The sum of clipped gradients, and the norms behind it."""

    sums: list[Any]  #: one for each parameter; float64 where the gradients are in factors
    norms: Any  #: upper bounds of the norms of the gradients of all examples, float64, shape (batch,)


def clipped_sum(samples: Sequence[Any], clip_norm: float, grid: Grid | None = None) -> list[Any]:
    """The sum of gradients of examples, each clipped to ``MARGIN`` times the clipping norm.

    Parameters
    ----------
    samples : sequence of tensor
        For each parameter a tensor of shape (batch, …) with the gradient of each example, of any type of floats.
    clip_norm : float
        Largest norm of the gradient of an example, over all parameters together, at least 1e-9.
    grid : Grid, optional
        Of exact sums; None for sums of floats.

    Returns
    -------
    list of tensor
        The sums, one for each parameter, of float32 or float64, or integers in units of the grid.  Examples whose
        gradient is not finite count as zero.

    Raises
    ------
    ValueError
        The samples have different numbers of examples, or PyTorch is set to multiply matrices in a shorter type than
        float32, which no margin covers.
    """
    torch_factors.check_clip_norm(clip_norm)
    return clipped(samples, clip_norm, grid, _NO_FACTORS).sums


def clipped(
    gradients: Sequence[Any],
    clip_norm: float,
    grid: Grid | None,
    blocks: Blocks,
    counts: NDArray[np.bool_] | None = None,
    *,
    alone: bool = False,
) -> Clipped:
    """The sum of the clipped gradients that count, tensors of shape (batch, …) or ``Factors`` with ``like``.

    Sums of factors are rounded to the grid where they are ``alone``: a sum of several of them is rounded once.
    """
    torch = extra_module("torch", "torch")
    check_products()
    rows = {len(each.b) if isinstance(each, Factors) else len(each) for each in gradients}
    if len(rows) != 1:
        raise ValueError(f"samples must have the same number of examples for each parameter, got {sorted(rows)}")
    (number,) = rows
    tensors = [each.b if isinstance(each, Factors) else each for each in gradients]
    device = tensors[0].device
    with without_autocast(tensors):
        wholes = [each if isinstance(each, Factors) else _at_least_float32(each) for each in gradients]
        squares = torch.zeros(number, dtype=torch.float64, device=device)
        for each in wholes:
            if not isinstance(each, Factors):
                squares += squared_norms(_rows(each)).to(device)
        some = [each for each in wholes if isinstance(each, Factors)]
        kept = torch.from_numpy(np.ones(number, bool) if counts is None else counts).to(device)
        factors, norms = torch_factors.clip_factors(some, squares, clip_norm, blocks, kept)
        sums = [
            torch_factors.summed(each, factors, blocks, grid if alone else None)
            if isinstance(each, Factors)
            else _weighted(each, factors.to(each), grid, wide=bool(some))
            for each in wholes
        ]
    if grid is None:
        check_types("sums", sums)
    return Clipped(sums, norms)


def _at_least_float32(samples: Any) -> Any:
    torch = extra_module("torch", "torch")
    return samples if samples.dtype == torch.float64 else samples.float()


def _rows(samples: Any) -> Any:
    """The gradients of examples at a parameter, which may be a single number, as the rows of a matrix."""
    return samples.unsqueeze(-1).flatten(1)


def _weighted(gradients: Any, factors: Any, grid: Grid | None, *, wide: bool) -> Any:
    """Σ f_i g_i, where an example with f_i = 0 counts as zero, whatever its gradient."""
    torch = extra_module("torch", "torch")
    if grid is not None:
        return _integers(gradients, factors, grid)
    kept = gradients
    if not bool((factors > 0).all()):
        kept = gradients.where((factors > 0).view(-1, *[1] * (gradients.dim() - 1)), 0.0)
    if wide:
        factors, kept = factors.double(), kept.double()
    return torch.einsum("i,i...->...", factors, kept)


def _integers(gradients: Any, factors: Any, grid: Grid) -> Any:
    """The sum of trunc(s_i g_i), s_i = f_i 2⁻ᵏ, a tensor of the type of the grid."""
    torch = extra_module("torch", "torch")
    scaled = factors / grid.unit
    total = gradients.new_zeros(gradients.shape[1:], dtype=getattr(torch, grid.dtype))
    if gradients.device.type == "cpu":
        add_truncated(_rows(gradients).contiguous().numpy(), scaled.numpy(), total.view(-1).numpy())
        return total
    return sum_by_operations(gradients, scaled, total, compiled=torch_normals.compiles(gradients.device))


def sum_by_operations(gradients: Any, factors: Any, total: Any, *, compiled: bool = False) -> Any:
    """The same on any device; compiled for all examples at once, which reads them once and keeps nothing."""
    rows = len(gradients) if compiled else max(TRUNCATED_AT_ONCE // max(total.numel(), 1), 1)
    add = torch_normals.program(_truncated_sum, compiled)
    flat = total.view(-1)
    parts = _rows(gradients).split(max(rows, 1)), factors.split(max(rows, 1))
    for some, each in zip(*parts, strict=True):
        flat += add(some, each, total.dtype)
    return total


def _truncated_sum(gradients: Any, factors: Any, dtype: Any) -> Any:
    """Σ trunc(s_i g_i) over the rows; a row with s_i = 0 counts as zero, whatever it is."""
    torch = extra_module("torch", "torch")
    wide = factors[:, None]
    return torch.where(wide > 0, (gradients * wide).trunc(), 0.0).to(dtype).sum(0, dtype=dtype)


def check_products() -> None:
    """Refuse settings that give a product of float32 matrices fewer bits than float32."""
    torch = extra_module("torch", "torch")
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # a backend has a setting of its own
        precision = "fp32_precision of torch.backends"
    if precision != "highest":
        raise ValueError(f"torch.set_float32_matmul_precision must be 'highest' for clipping, got {precision!r}")


def without_autocast(tensors: Iterable[Any]) -> ExitStack:
    """A block where operations on the devices of tensors keep the type of their arguments."""
    torch = extra_module("torch", "torch")
    block = ExitStack()
    for device in {each.device.type for each in tensors}:
        block.enter_context(torch.autocast(device, enabled=False))
    return block


def squared_norms(rows: Any) -> Any:
    """Squared norms of the rows of a matrix, float64, with a relative error below 6.2e-5 each."""
    torch = extra_module("torch", "torch")
    even = rows.shape[1] // NORM_BLOCK * NORM_BLOCK
    blocks = (
        torch.linalg.vector_norm(rows[:, :even].unflatten(1, (even // NORM_BLOCK, NORM_BLOCK)), dim=2).double()
        if even
        else None
    )
    rest = torch.linalg.vector_norm(rows[:, even:], dim=1).double().square()
    return rest if blocks is None else rest + blocks.square().sum(dim=1)


def add_noise(run: PrivateRun, sums: Sequence[Any]) -> list[Any]:
    """The sums of a step plus its noise, a tensor for each parameter; several processes call it together.

    Parameters
    ----------
    run : PrivateRun
        The private run, which has handed out the batch; its ``ranks`` is a ``Group`` where there are several processes.
    sums : sequence of tensor
        A tensor for each trained parameter, of float32 or float64, or of the integers of ``run.grid``, whose
        noisy sums are float32.  Those of cut parameters are cut in the same way and have the examples of all processes;
        those of whole parameters have the examples of this process.

    Returns
    -------
    list of tensor

    Raises
    ------
    ValueError
        The sums do not belong to the parameters of the group, or the noise does not cover them.
    """
    group = run.ranks
    if not isinstance(group, Group):
        return _noisy(run, sums)
    if [layout_of(each) for each in sums] != group.layouts:
        raise ValueError("sums must have the shapes, meshes and placements of the parameters of the group")
    if group.cut:
        noisy = _noisy(run, [each.to_local() for each in sums])
        whole = extra_module("torch.distributed.tensor", "torch").DTensor.from_local
        return [
            whole(part, each.device_mesh, each.placements, shape=each.shape, stride=each.stride())
            for each, part in zip(sums, noisy, strict=True)
        ]
    if run.grid is None:
        check_types("sums", sums)
    total = extra_module("torch", "torch").cat([each.detach().reshape(-1) for each in sums])
    if not bool(total.isfinite().all()):
        raise ValueError("sums must be finite, also where other processes add the noise")
    first, length = group.spans[0] if len(group.spans) else (0, 0)
    if run.grid is None:
        own = total[first : first + length]
        own.copy_(_noisy(run, [own])[0])
    else:  # integers are added before the noise, so that the release is on the grid
        group.add(total)
        own = _noisy(run, [total[first : first + length]])[0]
        total = own.new_zeros(group.size)
        total[first : first + length] = own
    group.add(total)
    return _cut_as(sums, total)


def _noisy(run: PrivateRun, sums: Sequence[Any]) -> list[Any]:
    """The sums of the coordinates of this process plus their noise."""
    torch = extra_module("torch", "torch")
    if run.grid is None:
        check_types("sums", sums)
    total = torch.cat([each.detach().reshape(-1).to(run.device or "cpu") for each in sums])
    noisy = run.add_noise(total.numpy() if run.device is None else total)
    return _cut_as(sums, torch.as_tensor(noisy))


def _cut_as(sums: Sequence[Any], total: Any) -> list[Any]:
    """A vector as tensors like some sums; those of integers become float32."""
    parts = total.split([each.numel() for each in sums])
    return [
        (part.to(each) if each.is_floating_point() else part.to(each.device)).view_as(each)
        for each, part in zip(sums, parts, strict=True)
    ]


def private_gradient(
    run: PrivateRun,
    model: Any,
    loss: Loss,
    rows: Any,
    *,
    chunk_size: int | None = None,
    clipping: Clipping = "auto",
    engine: EngineName = "auto",
    example: Any = None,
) -> Unprotected:
    """Set the gradients of a model to the sum of the clipped gradients of a batch plus noise, over the batch size.

    Parameters
    ----------
    run : PrivateRun
        The private run, which has batches and has handed out this one.
    model : torch.nn.Module
        The model; it is unchanged but for the gradients.
    loss : callable
        A function of outputs and targets that returns a number, such as ``torch.nn.functional.cross_entropy``.  It is
        called with batches of one example.
    rows : tuple or dict
        ``(inputs, targets)``, or a dictionary of tensors, with the examples of the batch along the first axis; those of
        this process if there are several.
    chunk_size : int, optional
        How many examples are computed at once.  None for all, as far as their gradients fit into 1 GiB, and for a
        quarter of the slots of a sampled one.
    clipping, engine, example : object
        As for ``make_private``; they count at the first call of a run.

    Returns
    -------
    Unprotected
        Loss and norms of the batch, which are not private.

    Raises
    ------
    ValueError
        The run has other parameters or another number of examples, or the model or the loss is refused.
    RuntimeError
        No batch was handed out for this step, or the run is over.
    """
    check_parameters(run, list(trained_parameters(model).values()))
    engines = _RUN_ENGINES.setdefault(run, Engines(clipping, engine, example))
    template = mapped(lambda leaf: leaf.new_zeros(leaf.shape[1:]), rows)
    return noisy_gradient(run, model, loss, rows, engines.engine(model, loss, template), chunk_size)


def noisy_gradient(
    run: PrivateRun, model: Any, loss: Loss, rows: Any, engine: Engine, chunk_size: int | None
) -> Unprotected:
    """Set the gradients of a model as ``private_gradient`` does, with an engine that is known."""
    sums, found = sums_of_batch(run, model, loss, rows, engine, chunk_size)
    for parameter, total in zip(trained_parameters(model).values(), add_noise(run, sums), strict=True):
        parameter.grad = (total / batches_of(run).batch_size).to(parameter.dtype)
    return found


def sums_of_batch(
    run: Any, model: Any, loss: Loss, rows: Any, engine: Engine, chunk_size: int | None
) -> tuple[list[Any], Unprotected]:
    """The sums of the clipped gradients of a batch, one for each parameter; and its loss and norms."""
    trained = trained_parameters(model)
    check_parameters(run, list(trained.values()))
    sizes = {len(leaf) for _, leaf in leaves(rows)}
    if sizes != {expected := due(run)}:
        raise ValueError(f"rows must be the {expected} examples of the batch, got {', '.join(map(str, sorted(sizes)))}")
    blocks, clip_norm = _NO_FACTORS, torch_factors.check_clip_norm(run.budget.clip_norm)
    if engine.uses:
        same_order = next(iter(trained.values())).device.type == "cpu" and not run.participation.sampled
        blocks = torch_factors.blocks_of(run.largest_batch, engine.positions, "float32" if same_order else "float64")
        clip_norm = torch_factors.clip_norm_of_sums(run)
    digests = [digest_of(each) for each in trained.values()]
    whole = sum(each.numel() for name, each in trained.items() if name not in engine.uses)
    sums: list[Any] = []
    losses: list[Any] = []
    norms: list[Any] = []
    parts = list(chunks(run, 1 if engine.kind == "loop" else chunk_size, whole))
    for chunk in parts:
        with seeded(run.seed(f"loss {chunk.first}")):
            gradients = engine.gradients(model, loss, chosen(rows, chunk.rows))
        part = clipped(gradients.samples, clip_norm, run.grid, blocks, chunk.counts, alone=len(parts) == 1)
        sums = part.sums if not sums else [total + more for total, more in zip(sums, part.sums, strict=True)]
        losses.append(gradients.losses[chunk.counts])
        norms.append(part.norms[chunk.counts])
    if not sums:
        sums = [_zeros(each, run.grid) for each in trained.values()]
    for (name, each), digest in zip(trained.items(), digests, strict=True):
        if digest_of(each) != digest:
            raise ModelError(f"{name} must not change in a forward pass, since it would be released without noise")
    found = unprotected_of(_on_host(losses), _on_host(norms), run.budget.clip_norm)
    return [torch_factors.rounded(each, run.grid) for each in sums], found


def _on_host(parts: list[Any]) -> Any:
    """Vectors of chunks as one array of NumPy, float64."""
    torch = extra_module("torch", "torch")
    return torch.cat(parts or [torch.zeros(0)]).double().cpu().numpy()


def _zeros(parameter: Any, grid: Grid | None) -> Any:
    """The sum of no gradients."""
    torch = extra_module("torch", "torch")
    dtype = grid.dtype if grid is not None else "float64" if parameter.dtype == torch.float64 else "float32"
    return torch.zeros(parameter.shape, dtype=getattr(torch, dtype), device=parameter.device)
