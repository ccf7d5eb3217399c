"""Private gradients in PyTorch, without another library (the extra ``torch``).

    run = PrivateRun(budget, epochs, NuFTRL(0.02), trainable_size(model), batches=batches(epochs, 1437, 71))
    for batch in run:
        private_gradient(run, model, loss, inputs[batch], targets[batch])
        optimizer.step()

``torch.func`` gives the gradient of each example.  Each is clipped to the clip norm over all parameters together; their
sum gets the noise of the step, and is divided by the batch size.  This is the same number for all steps, also where
sampled batches vary: a mean over the actual batch would depend on who takes part.  ``optimizer`` is any optimizer of
PyTorch: what it makes of the noisy gradients is post-processing.

A norm is that of the norms of blocks of 1024 numbers.  The relative error of a block in float32 is below 3.1e-5
(1026/2 units in the last place), in whatever order it is added, and blocks are added in float64.  So gradients are
clipped to 1 − 10⁻⁴ times the clip norm, which covers the products, too.  (The norm of 9e5 numbers by ``tensor.norm`` in
float32 may be 1e-5 too small.)  The gradient of an example that is not finite, or whose norm exceeds 1e19, counts as
zero.

Norms are float32 or float64, whatever the gradients have been made in: ``torch.autocast`` is switched off for them,
gradients of half precision become float32 before their norm is taken, and shorter products (TF32) are refused.  Sums
are integers where the run has a grid (``run/sums.py``), also for models of half precision, otherwise float32 or
float64: a sum that is rounded once to bfloat16 changes by up to 6 clip norms with one example of a batch of 1000.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, get_args

import numpy as np

from corrnoise.simulations.adapters import torch_ghost, torch_normals
from corrnoise.simulations.adapters.torch_shards import Group, layout_of
from corrnoise.simulations.adapters.training import HostGenerators, batches_of, chunks, due
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid, add_truncated
from corrnoise.theory.numerics import checks

Clipping = Literal["example", "ghost"]

_BLOCK = 1024
_AT_ONCE = 2**24  # numbers of gradients that are truncated
_LEAST = 1e-9  # clip norms, beside which squares that vanish in float32 count nothing


def trainable_size(model: Any) -> int:
    """Number of parameters of a module that are trained.

    Parameters
    ----------
    model
        A ``torch.nn.Module``.
    """
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def check_parameters(run: PrivateRun, parameters: Sequence[Any]) -> None:
    """Refuse parameters that are not those of the run: another number of them, or a type that its sums do not cover.

    Raises
    ------
    ValueError
        The parameters are not covered by the noise of the run.
    """
    check_types("parameters", parameters, half=run.grid is not None)
    if (found := sum(each.numel() for each in parameters)) != run.size:
        raise ValueError(f"the trained parameters must be {run.size} numbers during the whole run, got {found}")


def check_optimizer(model: Any, optimizer: Any) -> None:
    """Refuse an optimizer that has other parameters than those of the model that are trained, or computes the loss.

    Raises
    ------
    ValueError
        The noise of the run does not cover all that the optimizer changes, or covers more; or the optimizer cannot take
        a step with a gradient alone.
    """
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise ValueError(f"optimizer must take steps without a closure, got {type(optimizer).__name__}")
    trained = {id(each) for each in model.parameters() if each.requires_grad}
    if trained != {id(each) for group in optimizer.param_groups for each in group["params"]}:
        raise ValueError("optimizer must have exactly the parameters of the model that are trained")


def clipped_sum(samples: Sequence[Any], clip_norm: float, grid: Grid | None = None) -> list[Any]:
    """The sum of gradients of examples, each clipped to ``MARGIN`` times the clip norm.

    Parameters
    ----------
    samples
        For each parameter a tensor of shape (batch, …) with the gradient of each example, of any type of floats.
    clip_norm
        Largest norm of the gradient of an example, over all parameters together.
    grid
        Of exact sums; None for sums of floats.

    Returns
    -------
    The sums, one for each parameter, of float32 or float64, or integers in units of the grid.  Examples whose gradient
    is not finite count as zero.

    Raises
    ------
    ValueError
        PyTorch is set to multiply matrices in a shorter type than float32, which no margin covers.
    """
    torch = extra_module("torch", "torch")
    check_products()
    checks.real("clip_norm", clip_norm, f"[{_LEAST}, inf)")
    with _without_autocast(samples):
        exact = [each if each.dtype == torch.float64 else each.float() for each in samples]
        squares = sum(_squared_norms(torch_ghost.rows(each)).to(samples[0].device) for each in exact)
        factors = (clip_norm * MARGIN / squares.sqrt()).clamp(max=1.0)
        whole = torch.isfinite(squares)
        factors = torch.where(whole, factors, 0.0)
        if grid is not None:
            return [_integers(each, factors.to(each), grid) for each in exact]
        sums = []
        for each in exact:
            kept = each if bool(whole.all()) else torch.nan_to_num(each, nan=0.0, posinf=0.0, neginf=0.0)
            sums.append(torch.einsum("i,i...->...", factors.to(each), kept))
    check_types("sums", sums)
    return sums


def _integers(gradients: Any, factors: Any, grid: Grid) -> Any:
    """The sum of trunc(s_i g_i), s_i = f_i 2⁻ᵏ, a tensor of the type of the grid."""
    torch = extra_module("torch", "torch")
    scaled = factors / grid.unit
    total = gradients.new_zeros(gradients.shape[1:], dtype=getattr(torch, grid.dtype))
    if gradients.device.type == "cpu":
        add_truncated(torch_ghost.rows(gradients).contiguous().numpy(), scaled.numpy(), total.view(-1).numpy())
        return total
    return _by_operations(gradients, scaled, total, compiled=torch_normals.compiles(gradients.device))


def _by_operations(gradients: Any, factors: Any, total: Any, *, compiled: bool = False) -> Any:
    """The same on any device; compiled for all examples at once, which reads them once and keeps nothing."""
    rows = len(gradients) if compiled else max(_AT_ONCE // max(total.numel(), 1), 1)
    add = torch_normals.program(_truncated_sum, compiled)
    flat = total.view(-1)
    parts = torch_ghost.rows(gradients).split(max(rows, 1)), factors.split(max(rows, 1))
    for some, each in zip(*parts, strict=True):
        flat += add(some, each, total.dtype)
    return total


def _truncated_sum(gradients: Any, factors: Any, dtype: Any) -> Any:
    """Σ trunc(s_i g_i) over the rows, where those with s_i = 0 count as zero, whatever they are."""
    torch = extra_module("torch", "torch")
    wide = factors[:, None]
    return torch.where(wide > 0, (gradients * wide).trunc(), 0.0).to(dtype).sum(0, dtype=dtype)


def check_types(name: str, tensors: Sequence[Any], *, half: bool = False) -> None:
    """Refuse tensors that are not float32 or float64, or of half precision where this is covered.

    Raises
    ------
    ValueError
        One of them is of another type.
    """
    torch = extra_module("torch", "torch")
    names = ("float32", "float64", *(("bfloat16", "float16") if half else ()))
    covered = [getattr(torch, each) for each in names]
    if others := [str(each.dtype) for each in tensors if each.dtype not in covered]:
        raise ValueError(f"{name} must be of {' or '.join(names)}, got {others[0]}")


def check_products() -> None:
    """Refuse settings with which a product of float32 matrices has fewer bits than float32."""
    torch = extra_module("torch", "torch")
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:  # a backend has a setting of its own
        precision = "fp32_precision of torch.backends"
    if precision != "highest":
        raise ValueError(f"torch.set_float32_matmul_precision must be 'highest' for clipping, got {precision!r}")


def _without_autocast(tensors: Iterable[Any]) -> ExitStack:
    """A block in which operations on the devices of tensors keep the type of what they get."""
    torch = extra_module("torch", "torch")
    block = ExitStack()
    for device in {each.device.type for each in tensors}:
        block.enter_context(torch.autocast(device, enabled=False))
    return block


def _squared_norms(rows: Any) -> Any:
    """Squared norms of the rows of a matrix, float64, with a relative error below 6.2e-5 each."""
    torch = extra_module("torch", "torch")
    even = rows.shape[1] // _BLOCK * _BLOCK
    blocks = (
        torch.linalg.vector_norm(rows[:, :even].unflatten(1, (even // _BLOCK, _BLOCK)), dim=2).double()
        if even
        else None
    )
    rest = torch.linalg.vector_norm(rows[:, even:], dim=1).double().square()
    return rest if blocks is None else rest + blocks.square().sum(dim=1)


def add_noise(run: PrivateRun, sums: Sequence[Any]) -> list[Any]:
    """The sums of a step plus its noise, a tensor for each parameter; several processes call it together.

    Parameters
    ----------
    run
        The private run, which has handed out the batch; its ``ranks`` is a ``Group`` where there are several processes.
    sums
        A tensor for each trained parameter, of float32 or float64, or of the integers of ``run.grid``, for which the
        noisy sums are float32.  Those of cut parameters are cut in the same way and have the examples of all processes;
        those of whole parameters have the examples of this process.

    Raises
    ------
    ValueError
        The sums are not those of the parameters of the group, or not covered by the noise.
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
    loss: Callable[[Any, Any], Any],
    inputs: Any,
    targets: Any,
    *,
    chunk_size: int | None = None,
    clipping: Clipping = "example",
) -> None:
    """Set the gradients of a model to the sum of the clipped gradients of a batch plus noise, over the batch size.

    Parameters
    ----------
    run
        The private run, which has batches and has handed out this one.
    model
        A ``torch.nn.Module`` that treats each example by itself.
    loss
        A function of outputs and targets that returns a number, such as ``torch.nn.functional.cross_entropy``.  It is
        called with batches of one example.
    inputs, targets
        Tensors with the examples of the batch along the first axis, those of this process where there are several.
    chunk_size
        How many examples are computed at once.  None for all, as far as their gradients fit into 1 GiB, and for a
        quarter of the expected number of a sampled batch.  Exact sums of gradients of examples do not depend on it.
    clipping
        ``"ghost"`` for sums without the gradients of examples (``torch_ghost``).

    Raises
    ------
    ValueError
        The parameters or the number of examples are not those of the run, or a layer mixes examples; or what ghost
        clipping does not cover.
    RuntimeError
        No batch was handed out for this step, or the run is over.
    """
    torch = extra_module("torch", "torch")
    check_layers(model)
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    check_parameters(run, list(trained.values()))
    if not len(inputs) == len(targets) == (expected := due(run)):
        raise ValueError(
            f"inputs and targets must be the {expected} examples of the batch, got {len(inputs)} and {len(targets)}"
        )

    checks.choice("clipping", clipping, get_args(Clipping))
    sums = [_zeros(each, run.grid, clipping) for each in trained.values()]
    with secret_generators(run, "loss"):
        for places, count in chunks(run, chunk_size, 0 if clipping == "ghost" else run.size):
            some = [each[torch.as_tensor(places, device=each.device)] for each in (inputs, targets)]
            for total, part in zip(sums, _sums_of(run, model, loss, some, count, clipping), strict=True):
                total += part
    noisy = add_noise(run, torch_ghost.rounded(sums, run.grid) if clipping == "ghost" else sums)
    by_name = dict(model.named_parameters())
    for name, total in zip(trained, noisy, strict=True):
        by_name[name].grad = (total / batches_of(run).batch_size).to(by_name[name].dtype)


def begin_generators(run: PrivateRun, purpose: str) -> None:
    """Begin the generators of PyTorch, NumPy and Python anew, from the secret of a run.

    What an example of a sampled batch draws (dropout, a random change of an image) depends on its place in the batch,
    and so on who else takes part.  Nobody outside knows these numbers then, and all places are alike.

    Parameters
    ----------
    run
        A private run.
    purpose
        As for ``run.seed``.
    """
    seed = run.seed(purpose)
    extra_module("torch", "torch").manual_seed(seed)
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002  # of the user's code


@contextmanager
def secret_generators(run: PrivateRun, purpose: str) -> Iterator[None]:
    """A block that draws from the secret of a run where batches are sampled; afterwards all generators are as before.

    Parameters
    ----------
    run, purpose
        As for ``begin_generators``.
    """
    if not batches_of(run).participation.sampled:
        yield
        return
    torch = extra_module("torch", "torch")
    host = HostGenerators()
    before = host.save()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with torch.random.fork_rng(devices):
        begin_generators(run, purpose)
        try:
            yield
        finally:
            host.load(before)


def _zeros(parameter: Any, grid: Grid | None, clipping: Clipping) -> Any:
    """The sum of no gradients."""
    torch = extra_module("torch", "torch")
    wide = clipping == "ghost" or parameter.dtype == torch.float64
    dtype = grid.dtype if grid is not None and clipping == "example" else "float64" if wide else "float32"
    return torch.zeros(parameter.shape, dtype=getattr(torch, dtype), device=parameter.device)


def _sums_of(
    run: PrivateRun, model: Any, loss: Callable[[Any, Any], Any], rows: list[Any], count: int, clipping: Clipping
) -> list[Any]:
    """The sums of the clipped gradients of the first examples of a chunk."""
    inputs, targets = rows
    if clipping == "ghost":
        clip_norm = torch_ghost.clip_norm_of_sums(run)
        return torch_ghost.clipped_sum(model, loss, inputs, targets, clip_norm, run.largest_batch, count)
    samples = example_gradients(model, loss, inputs, targets)
    return clipped_sum([each[:count] for each in samples.values()], run.budget.clip_norm, run.grid)


def example_gradients(
    model: Any, loss: Callable[[Any, Any], Any], inputs: Any, targets: Any, *, chunk_size: int | None = None
) -> dict[str, Any]:
    """The gradient of each example by the name of the parameter, tensors of shape (batch, …); a batch may be empty.

    Parameters
    ----------
    model, loss, inputs, targets
        As for ``private_gradient``.
    chunk_size
        How many gradients are computed at once; None for all.
    """
    func = extra_module("torch.func", "torch")
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not len(inputs):
        return {name: value.new_zeros((0, *value.shape)) for name, value in trained.items()}

    def one(parameters: Any, example: Any, target: Any) -> Any:
        output = func.functional_call(model, parameters, (example.unsqueeze(0),))
        return torch_ghost.value_of(loss, output, target.unsqueeze(0))

    each = func.vmap(func.grad(one), in_dims=(None, 0, 0), randomness="different", chunk_size=chunk_size)
    found = each(trained, inputs, targets)
    return {name: found[name] for name in trained}


def check_layers(model: Any) -> None:
    """Refuse layers whose output for an example depends on the others, or with statistics or sparse gradients."""
    norms = extra_module("torch.nn.modules.batchnorm", "torch")
    for name, layer in model.named_modules():
        if isinstance(layer, norms._NormBase) and (layer.training or not layer.track_running_stats):
            raise ValueError(
                f"{name or 'model'} must treat each example by itself, got {type(layer).__name__} in training: use "
                "GroupNorm or LayerNorm"
            )
        if getattr(layer, "sparse", False):
            raise ValueError(f"{name or 'model'} must have sparse=False, since noisy gradients are dense")
