"""The gradient of each example: of the user's model and loss on a batch with this example alone (the extra ``torch``).

Two engines compute it.  ``"vmap"`` runs all rows at once with ``torch.func``, which computes each row by itself;
``"loop"`` runs one row after another and works for every model.  No gradient of a batch's loss exists in either, so a
loss or a model that mixes examples cannot carry one example into the gradient of another.

In the vmap engine the gradient at a weight matrix may be left in factors (``torch_factors``).  ``Factored`` intercepts
the *functions* that use the weight, ``F.linear``, ``torch.addmm`` and ``F.embedding``: it records the input, and adds a
zero to the output whose gradient is the second factor.  So hooks, overridden ``forward`` methods and weights that are
used several times are covered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np

from corrnoise.simulations.adapters.torch_branches import Branching, Live, in_passes
from corrnoise.simulations.adapters.torch_factors import Factors
from corrnoise.simulations.adapters.torch_items import Loss, ModelError, chosen, count_of, loss_of, mapped, outputs_of
from corrnoise.support.extras import extra_module

Kind = Literal["vmap", "loop"]

CONTAINERS = (dict, list, set, deque, tuple, np.ndarray)  #: of attributes of modules, whose contents are restored
LIBRARIES = {"torch", "builtins", "corrnoise", "lightning", "transformers", "accelerate", "peft", "numpy", "weakref"}


class Gradients(NamedTuple):
    """The losses of some examples, and for each trained parameter their gradients."""

    losses: Any  #: shape (rows,)
    samples: list[Any]  #: tensors of shape (rows, …), or ``Factors``
    reads: bool = False  #: whether the model has read numbers of its data


@dataclass(frozen=True)
class Engine:
    """How the gradients of examples are computed.

    Parameters
    ----------
    kind : {"vmap", "loop"}
        All rows at once, or one after another.
    uses : dict
        For each weight in factors the uses that an example makes of it.
    branches : bool
        Whether the model branches on its data, so that a batch may take several passes.
    why : str
        Why a faster engine was not chosen; empty for the fastest.
    """

    kind: Kind
    uses: Mapping[str, tuple[Use, ...]] = field(default_factory=dict)
    branches: bool = False
    why: str = ""

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the weights whose gradients stay in factors."""
        return tuple(self.uses)

    @property
    def positions(self) -> int:
        """The most positions of a weight whose gradients stay in factors."""
        return max((sum(use.positions for use in each) for each in self.uses.values()), default=0)

    def gradients(self, model: Any, loss: Loss, rows: Any) -> Gradients:
        """The losses and gradients of rows.

        Parameters
        ----------
        model : torch.nn.Module
            The model; it is unchanged afterwards.
        loss : callable
            The loss of a batch with one example.
        rows : tuple or dict
            At least one row.

        Returns
        -------
        Gradients

        Raises
        ------
        ValueError
            A tensor of the model changed, or a weight in factors is used in another way than before.
        """
        trained = trained_parameters(model)
        if self.kind == "loop":
            return _one_by_one(model, loss, rows, trained)
        with unchanged(model):
            if self.uses:
                return gradients_at_once(model, loss, rows, trained, self.uses)
            return _in_passes(model, loss, rows, trained)


def trained_parameters(model: Any) -> dict[str, Any]:
    """The parameters of a model that need gradients, by their names."""
    return {name: each for name, each in model.named_parameters() if each.requires_grad}


# -- the model is as before --------------------------------------------------------------------------------------------


@contextmanager
def unchanged(model: Any) -> Iterator[None]:
    """A block after which each module has the parameters, buffers, attributes and containers of before.

    A tensor or array that changed is a ``ModelError``: the examples in it would be released without noise.  All but
    parameters have their old values again.
    """
    parameter = extra_module("torch.nn", "torch").Parameter
    modules = {name: each for name, each in model.named_modules() if not _is_scripted(each)}
    before = [place for name, each in modules.items() for place in _contents(name, each.__dict__)]
    tensors = [each for each in _tensors_in(model, before) if not each[1].is_inference()]
    versions = [(name, value, value._version) for name, value in tensors if isinstance(value, parameter)]
    copies = [(name, value, value.detach().clone()) for name, value in tensors if not isinstance(value, parameter)]
    registered = {name: {**each._parameters, **each._buffers} for name, each in modules.items()}
    changed: list[str] = []
    try:
        yield
    finally:
        for name, each in modules.items():
            known = registered[name]
            now = {**each._parameters, **each._buffers}
            changed += [_joined(name, key) for key in now if now[key] is not known.get(key)]
        changed += [place for place, container, kept in before if _refill(container, kept)]
        changed += [name for name, value, version in versions if value._version != version]
        changed += [name for name, value, kept in copies if _restore(value, kept)]
    if changed:
        raise ModelError(
            f"{changed[0]} of the model must not change in a forward pass, since it would be released without noise: "
            "freeze it (module.eval(), requires_grad=False), or keep it outside of the model"
        )


def tensors_of(model: Any) -> list[tuple[str, Any]]:
    """The parameters, buffers and tensors of attributes of a model, also those in its containers, with their names."""
    modules = [(name, each) for name, each in model.named_modules() if not _is_scripted(each)]
    return _tensors_in(model, [place for name, each in modules for place in _contents(name, each.__dict__)])


def _tensors_in(model: Any, places: list[tuple[str, Any, Any]]) -> list[tuple[str, Any]]:
    """The tensors in the containers of a model and in its scripted modules, with their names."""
    tensor = extra_module("torch", "torch").Tensor
    scripted = [(name, each) for name, each in model.named_modules() if _is_scripted(each)]
    return [
        (_joined(place, key), value)
        for place, container, _ in places
        for key, value in _members_of(container)
        if isinstance(value, tensor)
    ] + [
        (_joined(name, key), value)
        for name, each in scripted
        for key, value in (*each.named_parameters(recurse=False), *each.named_buffers(recurse=False))
    ]


def digest_of(tensor: Any) -> tuple[Any, ...]:
    """A sum of the bits of a tensor, in words of 64 bits where possible."""
    torch = extra_module("torch", "torch")
    if tensor.layout != torch.strided or tensor.is_quantized or not tensor.numel():
        return ()
    count = tensor.numel() * tensor.element_size()
    words = next(each for each in (torch.int64, torch.int32, torch.uint8) if count % each.itemsize == 0)
    with torch.no_grad():
        numbers = tensor.detach().contiguous().view(-1).view(torch.uint8).view(words)
        return int(numbers.sum(dtype=torch.int64)), tuple(tensor.shape)


def _restore(value: Any, kept: Any) -> bool:
    """Put a copy back into a tensor whose bits changed; whether they did."""
    torch = extra_module("torch", "torch")
    if value.layout != torch.strided or not value.numel():
        return False
    if value.shape == kept.shape and torch.equal(
        *(each.detach().contiguous().view(-1).view(torch.uint8) for each in (value, kept))
    ):
        return False
    value.data = kept
    return True


def _joined(place: str, key: Any) -> str:
    """The name of a member of a module or of one of its containers."""
    return f"{place}.{key}".lstrip(".") if isinstance(key, str) else f"{place}[{key}]"


def _is_scripted(module: Any) -> bool:
    """Whether the attributes of a module live in TorchScript."""
    return isinstance(module, extra_module("torch.jit", "torch").ScriptModule)


def _is_plain(thing: Any) -> bool:
    """Whether an attribute of a module is an object of the user with attributes of its own."""
    home = type(thing).__module__.partition(".")[0]
    return hasattr(thing, "__dict__") and not callable(thing) and not isinstance(thing, type) and home not in LIBRARIES


def _members_of(container: Any) -> list[tuple[Any, Any]]:
    """The members of a container with their keys or places; none of an array."""
    if isinstance(container, np.ndarray):
        return []
    return list(container.items()) if isinstance(container, dict) else list(enumerate(container))


def _contents(name: str, attributes: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The attributes of a module and the containers and arrays in them, each with its name and a shallow copy."""
    found: list[tuple[str, Any, Any]] = []
    queue: list[tuple[str, Any]] = [(name, attributes)]
    queue += [(_joined(name, key), vars(each)) for key, each in attributes.items() if _is_plain(each)]
    known = set()
    while queue:
        place, each = queue.pop()
        if id(each) in known:
            continue
        known.add(id(each))
        found.append((place, each, _copied(each)))
        for key, inside in _members_of(each):
            if isinstance(inside, CONTAINERS):
                own = key in ("_parameters", "_buffers", "_modules")  # whose members are known by their own names
                queue.append((place if own else _joined(place, key), inside))
    return found


def _copied(container: Any) -> Any:
    """The contents of a container, as ``_refill`` takes them."""
    if isinstance(container, np.ndarray):
        return container.copy()
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, kept: Any) -> bool:
    """Put the contents of a copy back into a container; whether it is an array that changed."""
    if isinstance(container, np.ndarray):
        if container.tobytes() == kept.tobytes():
            return False
        container[...] = kept
        return True
    if isinstance(container, tuple):
        return False
    same = len(container) == len(kept)
    if isinstance(container, dict):
        if not (same and all(container.get(key, container) is value for key, value in kept.items())):
            container.clear()
            container.update(kept)
    elif not (same and all(one is other for one, other in zip(container, kept, strict=True))):
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(kept)
    return False


# -- all rows at once --------------------------------------------------------------------------------------------------


class Use(NamedTuple):
    """One use of a weight matrix by a function."""

    kind: Literal["linear", "transposed", "embedding"]
    shape: Any  #: of the output for one example
    dtype: Any  #: of the output
    padding: int | None = None  #: index of an embedding without a gradient

    @property
    def positions(self) -> int:
        """The number of rows of the output."""
        return int(self.shape.numel() // self.shape[-1])


def Factored(weights: Mapping[int, str], shift: Callable[[str, Use, Any], Any]) -> Any:  # noqa: N802
    """A mode of PyTorch that leaves gradients at weight matrices in factors; ``weights`` names them by identity.

    ``shift`` maps the name of a weight, a use, and the output of its function to a summand for the output.  ``given``
    has the inputs of all uses by the names of the weights, ``elsewhere`` the names of weights that other functions
    took.
    """
    torch = extra_module("torch", "torch")
    functions: dict[Any, Callable[..., _Bound | None]] = {
        torch.nn.functional.linear: _linear,
        torch.addmm: _addmm,
        torch.nn.functional.embedding: embedding_use,
    }
    mode = extra_module("torch.overrides", "torch").TorchFunctionMode

    class Mode(mode):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__()
            self.given: dict[str, list[Any]] = {}
            self.elsewhere: set[str] = set()

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            bound = functions[function](*args, **kwargs) if function in functions else None
            found = function(*args, **kwargs)
            known = bound is not None and id(bound.weight) in weights
            if found is None or any(isinstance(each, torch.Tensor) for each in _members((found,))):
                others = bound.others if known and bound else _members((*args, *kwargs.values()))
                self.elsewhere |= {weights[id(each)] for each in others if id(each) in weights}
            if bound is None or not known:
                return found
            name = weights[id(bound.weight)]
            use = Use(bound.kind, found.shape, found.dtype, bound.padding)
            self.given.setdefault(name, []).append(bound.given)
            return found + shift(name, use, found)

    return Mode()


class _Bound(NamedTuple):
    """The arguments of a function that uses a weight matrix."""

    kind: Any
    weight: Any
    given: Any
    others: tuple[Any, ...]
    padding: int | None = None


def _linear(input: Any, weight: Any, bias: Any = None) -> _Bound | None:
    return _Bound("linear", weight, input, (input, bias))


def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> _Bound | None:
    return _Bound("transposed", mat2, mat1, (input, mat1)) if beta == alpha == 1 and out is None else None


def embedding_use(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> _Bound | None:
    """The use of a weight by an embedding; None where its gradient is no sum over positions."""
    if max_norm is not None or scale_grad_by_freq or sparse:
        return None
    padding = None if padding_idx is None else padding_idx % len(weight)
    return _Bound("embedding", weight, input, (), padding)


def _members(values: tuple[Any, ...]) -> Iterator[Any]:
    """Arguments or results of a function, and the members of their lists and tuples."""
    for each in values:
        if isinstance(each, list | tuple):
            yield from each
        else:
            yield each


def _in_passes(model: Any, loss: Loss, rows: Any, trained: dict[str, Any]) -> Gradients:
    """Whole gradients of all rows, in several passes if the model branches on its data."""
    torch = extra_module("torch", "torch")

    def merge(found: Gradients | None, more: Gradients, live: Any) -> Gradients:
        if found is None:
            return more
        kept = torch.as_tensor(live, device=more.losses.device)

        def merged(old: Any, new: Any) -> Any:
            return torch.where(kept.to(new.device).view(-1, *[1] * (new.dim() - 1)), new, old)

        samples = [merged(*pair) for pair in zip(found.samples, more.samples, strict=True)]
        return Gradients(merged(found.losses, more.losses), samples, reads=True)

    found, _ = in_passes(count_of(rows), lambda live: gradients_at_once(model, loss, rows, trained, {}, live), merge)
    gradients: Gradients = found
    return gradients


def gradients_at_once(
    model: Any, loss: Loss, rows: Any, trained: dict[str, Any], uses: Mapping[str, Any], live: Live | None = None
) -> Gradients:
    """The gradients of all rows by ``vmap``; a model with branches needs ``live``."""
    torch = extra_module("torch", "torch")
    func = extra_module("torch.func", "torch")
    values = {name: each.detach() for name, each in trained.items()}
    device = next(iter(values.values())).device if values else None
    free = {name: each for name, each in values.items() if name not in uses}
    names = {id(values[name]): name for name in uses}
    zeros = {
        name: [torch.zeros(use.shape, dtype=use.dtype, device=device) for use in each] for name, each in uses.items()
    }

    branching = Branching(live)

    def one(shifts: Any, free: Any, row: Any) -> tuple[Any, Any]:
        counts = dict.fromkeys(uses, 0)

        def shift(name: str, use: Use, _: Any) -> Any:
            place = counts[name]
            if place >= len(uses[name]) or use != uses[name][place]:
                raise ValueError(f"{name} must be used in each step as in the first: take clipping='example'")
            counts[name] += 1
            return shifts[name][place]

        parameters = {**values, **free}
        with branching, Factored(names, shift) as mode:
            alone = mapped(lambda leaf: leaf.unsqueeze(0), row)
            value = loss_of(loss, outputs_of(_with_parameters(model, parameters), alone), alone)
        if mode.elsewhere:
            raise ValueError(
                f"{min(mode.elsewhere)} must be used in each step as in the first: take clipping='example'"
            )
        return value, (value, mode.given)

    each = func.vmap(func.grad(one, argnums=(0, 1), has_aux=True), in_dims=(None, None, 0), randomness="different")
    if any(parameter._backward_hooks for parameter in trained.values()):
        raise ValueError("hooks of parameters change gradients in a loop only")
    with _without_hints():
        (shifted, samples), (losses, given) = each(zeros, free, rows)
    if losses.requires_grad:
        past = torch.autograd.grad(losses.sum(), list(trained.values()), allow_unused=True)
        if any(gradient is not None for gradient in past):
            raise ValueError("the loss uses trained parameters past the model, whose gradient a loop has only")
    found = {
        **samples,
        **{name: Factors.of(values[name], uses[name], given.get(name, []), shifted[name]) for name in uses},
    }
    return Gradients(losses.detach(), [found[name] for name in trained], branching.reads)


@contextmanager
def _without_hints() -> Iterator[None]:
    """A block without the warnings of ``vmap`` about operations that it runs row by row."""
    library = getattr(extra_module("torch", "torch")._C, "_functorch", None)
    change = getattr(library, "_set_vmap_fallback_warning_enabled", None)
    if change is None:
        yield
        return
    change(False)
    try:
        yield
    finally:
        change(True)


def _with_parameters(model: Any, parameters: dict[str, Any]) -> Callable[..., Any]:
    """The model as a function of its inputs, with other parameters."""
    call = extra_module("torch.func", "torch").functional_call
    return lambda *args, **kwargs: call(model, parameters, args, kwargs)


def uses_of(model: Any, loss: Loss, row: Any) -> dict[str, tuple[Use, ...]]:
    """The weight matrices that an example, the one row, uses by known functions alone, and these uses."""
    torch = extra_module("torch", "torch")
    values = {name: each.detach() for name, each in trained_parameters(model).items()}
    uses: dict[str, list[Use]] = {}

    def shift(name: str, use: Use, found: Any) -> Any:
        uses.setdefault(name, []).append(use)
        return torch.zeros_like(found)

    with unchanged(model), Factored({id(each): name for name, each in values.items()}, shift) as mode:
        loss_of(loss, outputs_of(_with_parameters(model, values), row), row)
    return {
        name: tuple(each)
        for name, each in uses.items()
        if name not in mode.elsewhere and values[name].dtype != torch.float64 and len({use.kind for use in each}) == 1
    }


# -- one row after another ---------------------------------------------------------------------------------------------


def _one_by_one(model: Any, loss: Loss, rows: Any, trained: dict[str, Any]) -> Gradients:
    """The gradients of rows by one backward pass for each."""
    torch = extra_module("torch", "torch")
    losses, samples = [], []
    for number in range(count_of(rows)):
        row = mapped(lambda leaf: leaf.clone(), chosen(rows, slice(number, number + 1)))
        with unchanged(model), torch.enable_grad():
            value = loss_of(loss, outputs_of(model, row), row)
            found: Any = [None] * len(trained)
            if value.requires_grad:
                found = torch.autograd.grad(value, list(trained.values()), allow_unused=True)
        losses.append(value.detach())
        samples.append([_dense(name, *each) for name, *each in zip(trained, found, trained.values(), strict=True)])
    return Gradients(torch.stack(losses), [torch.stack(each) for each in zip(*samples, strict=True)])


def _dense(name: str, gradient: Any, parameter: Any) -> Any:
    """The gradient at a parameter; zeros for one that the loss does not use."""
    if gradient is None:
        return parameter.detach().new_zeros(parameter.shape)
    if gradient.is_sparse:
        raise ModelError(f"{name} must have dense gradients, since noise is dense: use sparse=False")
    return gradient
