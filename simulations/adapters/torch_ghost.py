"""Clipping without the gradients of examples ("ghost clipping"), with norms that are proved (the extra ``torch``).

Let a layer y_l = W a_l + c be used at L positions l of an example, and let b_l be the gradient at y_l.  Then the
gradient of the example is Σ b_l a_lᵀ at W and Σ b_l at c, so that its squared norm is

    N = Σ_{l,m} (a_l·a_m + 1)(b_l·b_m)

and the sum of clipped gradients over the batch is a product of matrices, without a gradient of one example.  N cancels.
In float32, in which it is usually formed, it can be zero for a gradient of any norm.  Here it is formed in float64, and

    |N̂ − N| <= ε κ̂²,   κ = Σ_l |a_l||b_l|,   ε = ((1 + γ_a)(1 + γ_b) − 1)/((1 − γ_a)(1 − γ_b)) + (L² + 4) 2⁻⁵²,

with γ_a and γ_b for as many additions as a and b have entries.  So clipping by N⁺ = N̂ + ε κ̂² never clips too little.

The sum of f_i b_il a_ilᵀ over n = B L terms in float64 differs from the exact one by at most γ_{n+2} Σ_i f_i κ_i, in
whatever order it is added.  Factors with f_i κ_i <= K G make this at most γ_{n+2} B K G.  K is so chosen that twice
that, for two neighbours, is half of the margin that the clip norm has (``run/sums``); so the clip norm covers the sums.
B is the largest batch that the run can have, since the size of a sampled one depends on who takes part.
The proofs are in docs/ghost-clipping.md.

Layers are ``torch.nn.Linear`` whose L² is small beside their size, which are used once for an example, and whose
parameters nothing else uses.  All other parameters have their gradients formed for each example.  Examples are treated
one by one (``torch.func.vmap``), so that b_l depends on one example alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run.sums import MARGIN
from corrnoise.theory.numerics import checks

_UNIT = 2.0**-53
_SLACK = (1 - MARGIN) / 2  # of the clip norm, for the rounding of two sums


class Layer(NamedTuple):
    """A linear layer whose gradients of examples are not formed."""

    name: str  #: of the module
    module: Any
    weight: bool  #: whether it is trained
    bias: bool  #: whether there is one that is trained
    shape: Any  #: of the output for one example
    dtype: Any  #: of the output

    @property
    def positions(self) -> int:
        """L, of one example."""
        return int(self.shape.numel() // self.shape[-1])

    def parameter(self, part: str) -> str:
        """The name of its weight or bias in the model, which may be the layer itself."""
        return f"{self.name}.{part}" if self.name else part


def gamma(count: int) -> float:
    """The bound n u/(1 − n u) of the relative error of n operations in float64."""
    return count * _UNIT / (1 - count * _UNIT)


def squared_norm(a: Any, b: Any, *, weight: bool = True, bias: bool = False) -> tuple[Any, Any]:
    """Upper bounds of the squared norms of the gradients of examples at a linear layer, and of κ².

    Parameters
    ----------
    a, b
        The inputs and the gradients at the outputs, shapes (B, L, p) and (B, L, q), of float32 or shorter.
    weight, bias
        Whether these parameters are trained.

    Returns
    -------
    N⁺ and κ², shape (B,), float64, each at least its true value; not finite where a or b is not.

    Raises
    ------
    ValueError
        The tensors are of float64, whose squares may vanish.
    """
    torch = extra_module("torch", "torch")
    for name, each in (("a", a), ("b", b)):
        if each.dtype not in (torch.float32, torch.bfloat16, torch.float16):
            raise ValueError(f"{name} must be of float32, bfloat16 or float16, got {each.dtype}")
    inputs, outputs = a.double(), b.double()
    of_inputs = inputs @ inputs.mT * weight + bias
    of_outputs = outputs @ outputs.mT
    first, second = gamma(a.shape[2] + 1), gamma(b.shape[2])
    least = (1 - first) * (1 - second)
    error = ((1 + first) * (1 + second) - 1) / least + (a.shape[1] ** 2 + 4) * 2 * _UNIT
    diagonals = of_inputs.diagonal(dim1=1, dim2=2) * of_outputs.diagonal(dim1=1, dim2=2)
    kappa = diagonals.sqrt().sum(1).square()
    return (of_inputs * of_outputs).sum((1, 2)) + error * kappa, kappa / least * (1 + error)


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
        A layer computes in float64, or the batch is so large that rounding would exceed the margin of the clip norm.
    """
    torch = extra_module("torch", "torch")
    checks.real("clip_norm", clip_norm, "[1e-100, inf)")
    trained = {name: value.detach() for name, value in model.named_parameters() if value.requires_grad}
    sums = {name: value.new_zeros(value.shape, dtype=torch.float64) for name, value in trained.items()}
    if not len(inputs):
        return list(sums.values())
    layers = linear_layers(model, loss, inputs[:1], targets[:1])
    names = {each.parameter(part) for each in layers for part in ("weight", "bias")}
    others = {name: value for name, value in trained.items() if name not in names}
    activations, gradients, samples = _passes(model, loss, inputs, targets, trained, layers, list(others))

    norms = [
        squared_norm(a, b, weight=layer.weight, bias=layer.bias)
        for layer, a, b in zip(layers, activations, gradients, strict=True)
    ]
    of_others = [each.double().flatten(1).square().sum(1) for each in samples]
    squares = sum([norm for norm, _ in norms] + of_others)
    kappa = sum([most for _, most in norms] + of_others)
    terms = largest_batch * max((each.positions for each in layers), default=1)
    whole = torch.isfinite(squares) & torch.isfinite(kappa)
    factors = (clip_norm * MARGIN / squares.sqrt()).clamp(max=1.0)
    factors = torch.minimum(factors, clip_norm * largest_ratio(terms, largest_batch) / kappa.sqrt())
    factors = torch.where(whole, factors, 0.0)
    factors[len(factors) if count is None else count :] = 0.0

    for layer, a, b in zip(layers, activations, gradients, strict=True):
        weighted = (factors[:, None, None] * _finite(b, whole)).flatten(0, 1)
        if layer.weight:
            sums[layer.parameter("weight")] += weighted.mT @ _finite(a, whole).flatten(0, 1)
        if layer.bias:
            sums[layer.parameter("bias")] += weighted.sum(0)
    for name, each in zip(others, samples, strict=True):
        sums[name] += torch.einsum("i,i...->...", factors, _finite(each, whole))
    return list(sums.values())


def largest_ratio(terms: int, largest_batch: int) -> float:
    """The K for which sums of ``terms`` products, with f κ <= K G, keep half of the margin of the clip norm.

    Raises
    ------
    ValueError
        It is below 1, so that all gradients would be clipped by it.
    """
    found = _SLACK / (2 * gamma(terms + 2) * largest_batch)
    if not found >= 1:
        raise ValueError(
            f"batches of {largest_batch} examples with {terms // largest_batch} positions each are too large for "
            "clipping='ghost': choose a smaller batch or capacity, or clipping='example'"
        )
    return found


def _finite(values: Any, whole: Any) -> Any:
    """Examples in float64, where those that are not finite are zero."""
    return values.double().where(whole.view(-1, *[1] * (values.dim() - 1)), 0.0)


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
        and any(value.requires_grad for value in module.parameters())
        and all(uses[id(value)] == 1 for value in module.parameters())
    }

    def used(name: str, module: Any, given: Any) -> Any:
        """The output of a layer, through which its parameters have no gradient."""
        bias = None if module.bias is None else module.bias.detach()
        made = torch.nn.functional.linear(given, module.weight.detach(), bias)
        found.setdefault(name, []).append(made)
        return made

    devices = {each.device for each in model.parameters() if each.device.type == "cuda"}
    with (
        torch.random.fork_rng(devices),
        torch.enable_grad(),
        _hooks(candidates, lambda name, module, given, _: used(name, module, given)),
    ):
        value = loss(model(example), target)
    parameters = [each for module in candidates.values() for each in module.parameters() if each.requires_grad]
    elsewhere = set()
    if value.requires_grad and parameters:
        others = torch.autograd.grad(value, parameters, allow_unused=True)
        elsewhere = {id(each) for each, other in zip(parameters, others, strict=True) if other is not None}
    layers = []
    for name, outputs in found.items():
        module = candidates[name]
        output = outputs[0]
        layer = Layer(
            name,
            module,
            module.weight.requires_grad,
            module.bias is not None and module.bias.requires_grad,
            output.shape,
            output.dtype,
        )
        alone = len(outputs) == 1 and not any(id(each) in elsewhere for each in module.parameters())
        if alone and 2 * layer.positions**2 < module.weight.numel():
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
    others: Sequence[str],
) -> tuple[list[Any], list[Any], list[Any]]:
    """Inputs of layers (B, L, p), gradients at their outputs (B, L, q), and gradients of other parameters (B, …)."""
    torch = extra_module("torch", "torch")
    func = extra_module("torch.func", "torch")
    places = {layer.name: number for number, layer in enumerate(layers)}

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
            value = loss(output, target.unsqueeze(0))
        if unused := places.keys() - given.keys():
            raise ValueError(f"{min(unused)} must be used once in every step, got never, with clipping='ghost'")
        return value, [given[name] for name in places]

    device = inputs.device
    shifts = [torch.zeros(layer.shape, dtype=layer.dtype, device=device) for layer in layers]
    free = [trained[name] for name in others]
    each = func.vmap(func.grad(one, argnums=(0, 1), has_aux=True), in_dims=(None, None, 0, 0), randomness="different")
    (gradients, samples), given = each(shifts, free, inputs, targets)
    rows = len(inputs)
    return (
        [a.reshape(rows, layer.positions, -1) for layer, a in zip(layers, given, strict=True)],
        [b.reshape(rows, layer.positions, -1) for layer, b in zip(layers, gradients, strict=True)],
        samples,
    )
