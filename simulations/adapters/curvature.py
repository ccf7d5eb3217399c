"""Products of Hessians with vectors, in PyTorch and JAX (the extras ``torch`` and ``jax``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics.checks import Array

Product: TypeAlias = Callable[[Array, tuple[Any, ...]], Array]  #: of a vector, and of the data of the loss


def of_torch(model: Any, loss: Callable[[Any, Any], Any]) -> tuple[Product, int]:
    """The product for a mean loss over the trained parameters of a module, and their number."""
    func = extra_module("torch.func", "torch")
    torch = extra_module("torch", "torch")
    trained = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    if not trained:
        raise ValueError("model must have trained parameters")
    sizes = [each.numel() for each in trained.values()]

    def product(vector: Array, data: tuple[Any, ...]) -> Array:
        *inputs, targets = data

        def mean(parameters: Any) -> Any:
            return loss(func.functional_call(model, parameters, tuple(inputs)), targets)

        parts = torch.as_tensor(vector).split(sizes)
        tangents = {
            name: part.to(each).view_as(each) for (name, each), part in zip(trained.items(), parts, strict=True)
        }
        _, found = func.jvp(func.grad(mean), (trained,), (tangents,))
        return np.concatenate([found[name].detach().double().cpu().numpy().ravel() for name in trained])

    return product, sum(sizes)


def of_jax(parameters: Any, loss: Callable[..., Any]) -> tuple[Product, int]:
    """The product for the mean over examples of a loss of parameters and one example, and the number of parameters."""
    jax = extra_module("jax", "jax")
    flat, whole = extra_module("jax.flatten_util", "jax").ravel_pytree(parameters)
    if not flat.size:
        raise ValueError("model must have parameters")

    def mean(vector: Any, data: tuple[Any, ...]) -> Any:
        return jax.vmap(lambda *example: loss(whole(vector), *example))(*data).mean()

    @jax.jit
    def compiled(vector: Any, data: tuple[Any, ...]) -> Any:
        return jax.jvp(lambda point: jax.grad(mean)(point, data), (flat,), (vector.astype(flat.dtype),))[1]

    def product(vector: Array, data: tuple[Any, ...]) -> Array:
        return np.asarray(compiled(np.asarray(vector, flat.dtype), data), dtype=float)

    return product, int(flat.size)
