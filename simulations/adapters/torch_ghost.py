"""Clipping without the gradients of examples ("ghost clipping"), with norms that are proved (the extra ``torch``).

Let a layer y_l = W a_l + c be used at L positions l of an example, and let b_l be the gradient at y_l.  Then the
gradient of the example at W is Σ b_l a_lᵀ, so that its squared norm is

    N = Σ_{l,m} (a_l·a_m)(b_l·b_m)

and the sum of clipped gradients over the batch is a product of matrices, without a gradient of one example.  N cancels.
In float32, in which it is usually formed, it can be zero for a gradient of any norm.  Here it is formed in float64, and

    |N̂ − N| <= ε κ̂²,   κ = Σ_l |a_l||b_l|,   ε = ((1 + γ_a)(1 + γ_b) − 1)/((1 − γ_a)(1 − γ_b)) + (L² + 4) 2⁻⁵²,

with γ_a and γ_b for as many additions as a and b have entries.  So clipping by N⁺ = N̂ + ε κ̂² never clips too little.

A sum of f_i b_il a_ilᵀ in float64 adds at most B L terms and then the parts of a batch, at most B.  So it differs from
the exact one by at most γ_{B(L+1)+2} Σ_i f_i κ_i, in whatever order it is added.  Factors with f_i κ_i <= K G make this
at most γ_{B(L+1)+2} B K G.  K is so chosen that twice that, for two neighbours, is half of the margin of the clip norm
(``run/sums``); so the clip norm covers the sums.  B is the largest batch that the run can have, since the size of a
sampled one depends on who takes part.  Exact sums are these, rounded to integers once (``rounded``), of gradients
clipped to as much less as this can add.  The proofs are in docs/ghost-clipping-proofs.md.

Such factors a and b stand for the gradients at the weight of a ``torch.nn.Linear`` where they are fewer numbers than
these, and where the weight is used once for an example.  All other parameters have gradients of examples.
``sums_of`` takes both from any library: here from ``torch.func.vmap``, which treats examples one by one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid
from corrnoise.theory.numerics import checks

_UNIT = 2.0**-53
_SLACK = (1 - MARGIN) / 2  # of the clip norm, for the rounding of two sums


class Layer(NamedTuple):
    """A linear layer at whose weight no gradients of examples are formed."""

    name: str  #: of the module
    module: Any
    shape: Any  #: of the output for one example
    dtype: Any  #: of the output

    @property
    def positions(self) -> int:
        """L, of one example."""
        return int(self.shape.numel() // self.shape[-1])

    def parameter(self, part: str) -> str:
        """The name of its weight or bias in the model, which may be the layer itself."""
        return f"{self.name}.{part}" if self.name else part


def by_factors(weight: Any, positions: int, *factors: Any) -> bool:
    """Whether factors stand for the gradients at a weight: of a type with norms here, and fewer numbers than these.

    Then L (p + q) < p q, so that the norms take fewer operations, too.

    Parameters
    ----------
    weight
        Of shape (q, p).
    positions
        L, of one example.
    factors
        The input and the output of the layer, or its gradient.
    """
    return positions * sum(weight.shape) < weight.numel() and not any(map(_too_wide, factors))


def _too_wide(factor: Any) -> bool:
    """Whether a tensor is of a type whose squares may vanish, or overflow, in float64."""
    torch = extra_module("torch", "torch")
    return factor.dtype not in (torch.float32, torch.bfloat16, torch.float16)


def gamma(count: int) -> float:
    """The bound n u/(1 − n u) of the relative error of n operations in float64."""
    return count * _UNIT / (1 - count * _UNIT)


def squared_norm(a: Any, b: Any) -> tuple[Any, Any]:
    """Upper bounds of the squared norms of Σ_l b_l a_lᵀ, the gradients of examples at a weight, and of κ².

    Parameters
    ----------
    a, b
        The inputs and the gradients at the outputs, shapes (B, L, p) and (B, L, q), of float32 or shorter.

    Returns
    -------
    N⁺ and κ², shape (B,), float64, each at least its true value; not finite where a or b is not.

    Raises
    ------
    ValueError
        The tensors are of float64, whose squares may vanish.
    """
    for name, each in (("a", a), ("b", b)):
        if _too_wide(each):
            raise ValueError(f"{name} must be of float32, bfloat16 or float16, got {each.dtype}")
    of_inputs, of_outputs = (each @ each.mT for each in (a.double(), b.double()))
    first, second = gamma(a.shape[2]), gamma(b.shape[2])
    least = (1 - first) * (1 - second)
    error = ((1 + first) * (1 + second) - 1) / least + (a.shape[1] ** 2 + 4) * 2 * _UNIT
    diagonals = of_inputs.diagonal(dim1=1, dim2=2) * of_outputs.diagonal(dim1=1, dim2=2)
    kappa = diagonals.sqrt().sum(1).square()
    return (of_inputs * of_outputs).sum((1, 2)) + error * kappa, kappa / least * (1 + error)


def sums_of(gradients: Sequence[Any], clip_norm: float, largest_batch: int, count: int | None = None) -> list[Any]:
    """The sum of the gradients of examples, each clipped to the clip norm, of which some are given by factors.

    Parameters
    ----------
    gradients
        For each parameter a tensor of shape (B, …) with the gradient of each example; or the factors a and b of
        ``squared_norm``, whose Σ_l b_l a_lᵀ is the gradient at a weight.
    clip_norm
        Largest norm of the gradient of an example, over all parameters together.
    largest_batch
        The largest number of examples that a batch of the run can have.  The sums of a batch may be added up from those
        of its parts.
    count
        How many examples count, from the first; None for all.

    Returns
    -------
    The sums, one for each parameter, of float64.  Examples whose gradient is not finite count as zero.

    Raises
    ------
    ValueError
        The batch is so large that rounding would exceed the margin of the clip norm.
    """
    torch = extra_module("torch", "torch")
    checks.real("clip_norm", clip_norm, "[1e-100, inf)")
    norms = [squared_norm(*each) if isinstance(each, tuple) else _whole_norm(each) for each in gradients]
    device = norms[0][0].device
    squares, kappa = (sum(each.to(device) for each in kind) for kind in zip(*norms, strict=True))
    positions = max((each[0].shape[1] for each in gradients if isinstance(each, tuple)), default=1)
    whole = torch.isfinite(squares) & torch.isfinite(kappa)
    factors = (clip_norm * MARGIN / squares.sqrt()).clamp(max=1.0)
    factors = torch.minimum(factors, clip_norm * largest_ratio(positions, largest_batch) / kappa.sqrt())
    factors = torch.where(whole, factors, 0.0)
    factors[len(factors) if count is None else count :] = 0.0

    def summed(gradient: Any) -> Any:
        if not isinstance(gradient, tuple):
            return torch.einsum("i,i...->...", factors.to(gradient.device), _finite(gradient, whole))
        a, b = (_finite(each, whole) for each in gradient)
        return (factors.to(b.device)[:, None, None] * b).flatten(0, 1).mT @ a.flatten(0, 1)

    return [summed(each) for each in gradients]


def _whole_norm(samples: Any) -> tuple[Any, Any]:
    """N and κ² of gradients that are there."""
    squares = rows(samples).double().square().sum(1)
    return squares, squares


def rows(samples: Any) -> Any:
    """The gradients of examples at a parameter, which may be a single number, as the rows of a matrix."""
    return samples.unsqueeze(-1).flatten(1)


def value_of(loss: Callable[[Any, Any], Any], output: Any, target: Any) -> Any:
    """The loss of a batch of one example.

    Raises
    ------
    ValueError
        It is no number.
    """
    found = loss(output, target)
    if (shape := getattr(found, "shape", None)) is None or len(shape):
        got = type(found).__name__ if shape is None else f"shape {tuple(shape)}"
        raise ValueError(f"loss must return a number, a tensor without axes, got {got}")
    return found


def clipped_sum(
    model: Any,
    loss: Callable[[Any, Any], Any],
    inputs: Any,
    targets: Any,
    clip_norm: float,
    largest_batch: int,
    count: int | None = None,
) -> list[Any]:
    """The sum of the gradients of examples, each clipped to the clip norm.

    Parameters
    ----------
    model, loss, inputs, targets
        As for ``private_gradient``; the model computes in float32 or shorter.
    clip_norm
        Largest norm of the gradient of an example, over all parameters together.
    largest_batch
        The largest number of examples that a batch of the run can have.  The sums of a batch may be added up from those
        of its parts.
    count
        How many examples count, from the first; None for all.

    Returns
    -------
    The sums, one for each trained parameter, of float64.  Examples whose gradient is not finite count as zero.

    Raises
    ------
    ValueError
        The batch is so large that rounding would exceed the margin of the clip norm.
    """
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    if not len(inputs):
        return [value.double().zero_() for value in trained.values()]
    layers = linear_layers(model, loss, inputs[:1], targets[:1])
    return sums_of(_passes(model, loss, inputs, targets, trained, layers), clip_norm, largest_batch, count)


def clip_norm_of_sums(run: PrivateRun) -> float:
    """The norm to which gradients are clipped: less than that of the run by what rounding to its grid can add.

    Raises
    ------
    ValueError
        The grid is so coarse that less than half of the clip norm would be left.
    """
    norm = run.budget.clip_norm
    if run.grid is None:
        return norm
    lost = run.ranks.count * run.grid.unit * math.sqrt(run.size)
    if not lost <= norm / 2:
        raise ValueError(
            f"the grid of exact sums must be finer for clipping='ghost': rounding {run.size} parameters to it moves a "
            f"sum by {lost:.3g}, and the clip norm is {norm:.3g}: take sums='float32', release='float'"
        )
    return norm - lost * (1 + 1e-9)


def rounded(sums: Sequence[Any], grid: Grid | None) -> list[Any]:
    """The sums of a batch as the integers of a grid, of which each is next to its number; None leaves them floats."""
    torch = extra_module("torch", "torch")
    if grid is None:
        return list(sums)
    return [(each / grid.unit).round().to(getattr(torch, grid.dtype)) for each in sums]


def largest_ratio(positions: int, largest_batch: int) -> float:
    """The K for which sums of B L products, with f κ <= K G, keep half of the margin of the clip norm.

    Raises
    ------
    ValueError
        It is below 1, so that all gradients would be clipped by it.
    """
    found = _SLACK / (2 * gamma(largest_batch * (positions + 1) + 2) * largest_batch)
    if not found >= 1:
        raise ValueError(
            f"batches of {largest_batch} examples with {positions} positions each are too large for clipping='ghost': "
            "choose a smaller batch or capacity, or clipping='example'"
        )
    return found


def _finite(values: Any, whole: Any) -> Any:
    """Examples in float64, where those that are not finite are zero."""
    return values.double().where(whole.to(values.device).view(-1, *[1] * (values.dim() - 1)), 0.0)


def linear_layers(model: Any, loss: Callable[[Any, Any], Any], example: Any, target: Any) -> list[Layer]:
    """The layers that need no gradients of examples: found by one example, of which shapes and uses count alone.

    Parameters
    ----------
    model, loss
        As for ``private_gradient``.
    example, target
        A batch of one.
    """
    torch = extra_module("torch", "torch")
    uses = Counter(id(value) for _, value in model.named_parameters(remove_duplicate=False))
    found: dict[str, list[Any]] = {}
    candidates = {
        name: module
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear
        and module.weight.requires_grad
        and all(uses[id(value)] == 1 for value in module.parameters())
    }

    def used(name: str, module: Any, given: Any) -> Any:
        """The output of a layer, through which its parameters have no gradient."""
        bias = None if module.bias is None else module.bias.detach()
        made = torch.nn.functional.linear(given, module.weight.detach(), bias)
        found.setdefault(name, []).append((given, made))
        return made

    devices = {each.device for each in model.parameters() if each.device.type == "cuda"}
    with (
        torch.random.fork_rng(devices),
        torch.enable_grad(),
        _hooks(candidates, lambda name, module, given, _: used(name, module, given)),
    ):
        value = value_of(loss, model(example), target)
    parameters = [each for module in candidates.values() for each in module.parameters() if each.requires_grad]
    elsewhere = set()
    if value.requires_grad and parameters:
        others = torch.autograd.grad(value, parameters, allow_unused=True)
        elsewhere = {id(each) for each, other in zip(parameters, others, strict=True) if other is not None}
    layers = []
    for name, uses_of in found.items():
        module = candidates[name]
        given, made = uses_of[0]
        layer = Layer(name, module, made.shape, made.dtype)
        alone = len(uses_of) == 1 and not any(id(each) in elsewhere for each in module.parameters())
        if alone and by_factors(module.weight, layer.positions, given, made):
            layers.append(layer)
    return layers


@contextmanager
def _hooks(modules: dict[str, Any], hook: Callable[[str, Any, Any, Any], Any]) -> Iterator[None]:
    """A block in which the outputs of modules are replaced by those of ``hook(name, module, input, output)``."""

    def replaced(name: str) -> Callable[..., Any]:
        return lambda module, given, named, output: hook(name, module, (*given, *named.values())[0], output)

    handles = [module.register_forward_hook(replaced(name), with_kwargs=True) for name, module in modules.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _passes(
    model: Any,
    loss: Callable[[Any, Any], Any],
    inputs: Any,
    targets: Any,
    trained: dict[str, Any],
    layers: Sequence[Layer],
) -> list[Any]:
    """The gradients of ``sums_of``, by factors at the weights of layers."""
    torch = extra_module("torch", "torch")
    func = extra_module("torch.func", "torch")
    places = {layer.name: number for number, layer in enumerate(layers)}
    own = {layer.parameter(part) for layer in layers for part in ("weight", "bias")}
    others = [name for name in trained if name not in own]

    def one(shifts: list[Any], free: list[Any], example: Any, target: Any) -> tuple[Any, list[Any]]:
        given: dict[str, Any] = {}

        def shifted(name: str, _module: Any, value: Any, output: Any) -> Any:
            if name in given:
                raise ValueError(f"{name} must be used once in every step, got twice, with clipping='ghost'")
            given[name] = value
            return output + shifts[places[name]]

        with _hooks({layer.name: layer.module for layer in layers}, shifted):
            parameters = {**trained, **dict(zip(others, free, strict=True))}
            output = func.functional_call(model, parameters, (example.unsqueeze(0),))
            value = value_of(loss, output, target.unsqueeze(0))
        if unused := places.keys() - given.keys():
            raise ValueError(f"{min(unused)} must be used once in every step, got never, with clipping='ghost'")
        return value, [given[name] for name in places]

    device = inputs.device
    shifts = [torch.zeros(layer.shape, dtype=layer.dtype, device=device) for layer in layers]
    free = [trained[name] for name in others]
    each = func.vmap(func.grad(one, argnums=(0, 1), has_aux=True), in_dims=(None, None, 0, 0), randomness="different")
    (gradients, samples), given = each(shifts, free, inputs, targets)
    found = dict(zip(others, samples, strict=True))
    for layer, *factors in zip(layers, given, gradients, strict=True):
        a, b = (each.reshape(len(inputs), layer.positions, -1) for each in factors)
        found |= {layer.parameter("weight"): (a, b), layer.parameter("bias"): b.double().sum(1)}
    return [found[name] for name in trained]
