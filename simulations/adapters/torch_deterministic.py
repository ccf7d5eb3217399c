"""Passes of a model without dropout, and with constants in place of random tensors (the extra ``torch``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from corrnoise.simulations.adapters.torch_items import ModelError
from corrnoise.simulations.adapters.torch_random import generators_kept
from corrnoise.support.extras import extra_module


@contextmanager
def without_dropout(model: Any) -> Iterator[None]:
    """A block without dropout, after which generators and modules are as before."""
    torch = extra_module("torch", "torch")
    recurrent = (torch.nn.RNNBase, torch.nn.MultiheadAttention)
    rates = [(each, each.dropout) for each in model.modules() if isinstance(each, recurrent)]
    with generators_kept(), torch.enable_grad():
        for each, _ in rates:
            each.dropout = 0.0
        try:
            yield
        finally:
            for each, rate in rates:
                each.dropout = rate


def watched(*, neutral: bool = True) -> Any:
    """A mode of PyTorch that refuses generators of the model; if ``neutral``, random tensors are constant.

    ``half`` says whether a result was of half precision.
    """
    torch = extra_module("torch", "torch")
    mode = torch.overrides.TorchFunctionMode
    identities = {
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_alpha_dropout",
        "dropout_",
    }
    constants = {
        **dict.fromkeys(("rand", "rand_like", "uniform_"), 0.5),
        **dict.fromkeys(("randn", "randn_like", "normal", "normal_"), 0.0),
        **dict.fromkeys(("bernoulli", "bernoulli_", "exponential_"), 1.0),
    }

    halves = (torch.float16, torch.bfloat16)

    class Mode(mode):  # type: ignore[misc,valid-type]
        half = False

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            name = getattr(function, "__name__", "")
            if kwargs.get("generator") is not None:
                raise ModelError(
                    f"model and loss must draw from the default generators, got generator= in {name}: a run seeds "
                    "these for each step, and a generator of the model would pass from one example to the next"
                )
            if not neutral:
                return function(*args, **kwargs)
            if name in identities:
                return args[0] if args else kwargs["input"]
            if name == "rrelu":
                args, kwargs = args[:3], {**kwargs, "training": False}
            if name == "scaled_dot_product_attention":
                args, kwargs = (
                    args[:4],
                    {**dict(zip(("dropout_p", "is_causal"), args[4:6], strict=False)), **kwargs, "dropout_p": 0.0},
                )
            found = function(*args, **kwargs)
            self.half |= isinstance(found, torch.Tensor) and found.dtype in halves
            return found.detach().fill_(constants[name]) if name in constants else found

    return Mode()
