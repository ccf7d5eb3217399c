"""Training loops of users: a private loss, a guard against other gradients, and the loop of Opacus (extra ``torch``).

The gradient of ``private_loss()`` is the noisy mean gradient of the batch that the run has handed out, so any loop with
``loss.backward()`` works.  A guard refuses every other backward pass that reaches a trained parameter.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import ref

from corrnoise.simulations.adapters.torch_engines import unchanged
from corrnoise.simulations.adapters.torch_items import ModelError, count_of, mapped
from corrnoise.simulations.adapters.torch_random import seeded
from corrnoise.support.extras import extra_module


class Guard:
    """Refuses gradients at trained parameters that do not come from the run; clears earlier ones."""

    def __init__(self, parameters: list[Any]) -> None:
        self._open = threading.local()
        self._parameters = parameters
        me = ref(self)

        def refuse(_: Any) -> None:
            guard = me()
            if guard is None or getattr(guard._open, "count", None):
                return
            for each in guard._parameters:
                each.grad = None
            raise RuntimeError(
                "backward must start from the private loss of the run: this gradient of private data has no noise.  "
                "Use run.step(batch), run.private_loss() or the returned criterion; for public data use run.public()"
            )

        for each in parameters:
            each.grad = None
            each.register_post_accumulate_grad_hook(refuse)

    @contextmanager
    def public(self) -> Iterator[None]:
        """A block that allows every backward pass of this thread."""
        self._open.count = int(getattr(self._open, "count", 0)) + 1
        try:
            yield
        finally:
            self._open.count -= 1

    def check(self, parameters: list[Any]) -> None:
        """Refuse other parameters than the guarded ones."""
        same = len(parameters) == len(self._parameters)
        if not (same and all(one is other for one, other in zip(parameters, self._parameters, strict=True))):
            raise ModelError(
                "the trained parameters must be the same tensors during the whole run: load states without "
                "assign=True, and do not freeze, unfreeze or replace parameters"
            )


def private_loss(run: Any, value: float) -> Any:
    """A scalar whose backward pass makes the noisy gradient of the batch that was handed out.

    Notes
    -----
    The gradient is multiplied by the gradient of the scalar, such as the scale of a ``GradScaler`` or the inverse
    number of accumulated steps; this factor must not depend on the data.
    """
    torch = extra_module("torch", "torch")
    step = run.position

    class PrivateLoss(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(_: Any, anchor: Any) -> Any:
            return anchor.detach() + value

        @staticmethod
        def backward(_: Any, scale: Any) -> None:
            if run.position != step or run.handed is None:
                raise RuntimeError("each batch has one backward pass: take the next batch of the run")
            parameters = run.trained
            before = [each.grad for each in parameters]
            run.gradient(run.handed)
            for each, earlier in zip(parameters, before, strict=True):
                each.grad *= scale.to(each.grad)
                if earlier is not None:
                    each.grad += earlier

    device = run.trained[0].device
    return PrivateLoss.apply(torch.zeros((), requires_grad=True, device=device))


class Loader:
    """The rows of each batch to come, for loops that take a loader; ``len`` counts the steps to come."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def __iter__(self) -> Iterator[Any]:
        for _ in self._run:
            yield mapped(lambda leaf: leaf.clone(), self._run.handed_rows())

    def __len__(self) -> int:
        return len(self._run)


# -- the loop of Opacus ------------------------------------------------------------------------------------------------


def forward_module(run: Any) -> Any:
    """The model of a run whose forward passes make no graph in training, and keep their inputs for ``Criterion``."""
    torch = extra_module("torch", "torch")

    class Forward(torch.nn.Module):  # type: ignore[name-defined]
        """The model in a loop, with the parameters, the state and the modes of the given model."""

        def __init__(self) -> None:
            super().__init__()
            self.module = run.model
            self.given: Any = None
            self.made: list[Any] = []

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if not self.training:
                return self.module(*args, **kwargs)
            given = {**{f"[{k}]": each for k, each in enumerate(args)}, **kwargs}
            self.given = {name: _copied(each) for name, each in given.items()}
            with unchanged(self.module), seeded(run.seed("forward")), torch.enable_grad():
                outputs = _closed(self.module(*args, **kwargs))
            self.made = _tensors(outputs)
            return outputs

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.module.state_dict(*args, **kwargs)

        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.module.load_state_dict(*args, **kwargs)

    return Forward()


def _copied(given: Any) -> Any:
    """A copy of a tensor or of a tree of tensors."""
    if isinstance(given, tuple | list):
        return tuple(map(_copied, given))
    if isinstance(given, dict):
        return {name: _copied(each) for name, each in given.items()}
    return given.detach().clone() if hasattr(given, "detach") else given


def _closed(outputs: Any) -> Any:
    """Outputs through which no gradient flows: tensors, tuples, lists and dictionaries; others keep their graph."""
    torch = extra_module("torch", "torch")

    class Outputs(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(_: Any, values: Any, anchor: Any) -> Any:
            return values.view_as(values)

        @staticmethod
        def backward(_: Any, gradient: Any) -> None:
            raise RuntimeError("the gradient is that of loss=: put all terms on outputs into loss=, not into the loop")

    if isinstance(outputs, torch.Tensor):
        if not outputs.is_floating_point():
            return outputs.detach()
        return Outputs.apply(outputs.detach(), torch.zeros((), requires_grad=True))
    if type(outputs) in (tuple, list):
        return type(outputs)(map(_closed, outputs))
    if type(outputs) is dict:
        return {name: _closed(each) for name, each in outputs.items()}
    return outputs


def _tensors(outputs: Any) -> list[Any]:
    """The tensors of outputs, also of mappings such as the outputs of ``transformers``."""
    if isinstance(outputs, extra_module("torch", "torch").Tensor):
        return [outputs]
    if isinstance(outputs, Mapping):
        outputs = list(outputs.values())
    if isinstance(outputs, tuple | list):
        return [tensor for each in outputs for tensor in _tensors(each)]
    return []


class Criterion:
    """The loss of a loop over the loader of ``cn.opacus``: its backward pass makes the noisy gradient."""

    def __init__(self, run: Any, model: Any) -> None:
        self.run = run
        self._model = model

    def __call__(self, outputs: Any, targets: Any = None, *, unprotected: bool = False) -> Any:
        """The private loss of the batch of the step, which has the value 0 unless ``unprotected``.

        Parameters
        ----------
        outputs : object
            The outputs of the model for the inputs of the batch.
        targets : tensor, tuple or dict, optional
            The targets of the batch, compared with the targets that the run has read.
        unprotected : bool
            Whether the value is the mean loss, which is not private.

        Raises
        ------
        ValueError
            Inputs or targets were changed in the loop: changes of single examples belong into ``item=``.
        """
        expected = self.run.handed_rows()
        inputs, answers = (expected, expected) if isinstance(expected, dict) else expected
        given, made = self._model.given, self._model.made
        self._model.given, self._model.made = None, []
        if self._model.training and count_of(expected):
            if given is None:
                raise ModelError("the outputs must come from the returned model, called once for each batch")
            if extra := [name for name, each in given.items() if not _tensors(_as_tree(each))]:
                raise ModelError(
                    f"the model must be called with the rows of the batch alone, got {extra[0]}: bind it before"
                )
            self._compare("inputs", given, inputs)
            known = {(each.data_ptr(), each.numel()) for each in made}
            if any((each.data_ptr(), each.numel()) not in known for each in _tensors(outputs)):
                raise ModelError("outputs must be those of the model: put what the loop does with them into loss=")
        if targets is not None:
            self._compare("targets", targets, answers)
        return self.run.private_loss(unprotected=unprotected)

    @staticmethod
    def _compare(name: str, given: Any, rows: Any) -> None:
        """Refuse other inputs or targets than those of the batch."""
        if not _equal(given, rows):
            raise ModelError(
                f"{name} must be the ones that the loader has handed out, whose gradient the run computes.  Change "
                "single examples in item=; examples cannot be mixed with each other"
            )


def _equal(given: Any, rows: Any) -> bool:
    """Whether two trees have the same tensors, by the names of a dictionary or in their order."""
    torch = extra_module("torch", "torch")
    if isinstance(given, dict) and isinstance(rows, dict) and set(given) <= set(rows):
        return all(_equal(each, rows[name]) for name, each in given.items())
    found, expected = (_tensors(_as_tree(each)) for each in (given, rows))

    def same(one: Any, other: Any) -> bool:
        if one.shape != other.shape:
            return False
        both = torch.isnan(one) & torch.isnan(other) if one.is_floating_point() and other.is_floating_point() else False
        return bool(((one == other) | both).all())

    return len(found) == len(expected) and all(
        same(one.detach().to(other.device), other) for one, other in zip(found, expected, strict=True)
    )


def _as_tree(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given
