"""Training loops of users: a private loss, a guard against other gradients, and the loop of Opacus (extra ``torch``).

The gradient of ``private_loss()`` is the noisy mean gradient of the batch that the run has handed out, so any loop with
``loss.backward()`` works.  A guard refuses every other backward pass that reaches a trained parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import ref

from corrnoise.simulations.adapters.torch_engines import unchanged
from corrnoise.simulations.adapters.torch_items import ModelError, leaves, mapped
from corrnoise.simulations.adapters.torch_random import seeded
from corrnoise.simulations.extras import extra_module


class Guard:
    """Refuses gradients at trained parameters that do not come from the run.

    Parameters
    ----------
    parameters : list
        The trained parameters; their gradients are cleared.
    """

    def __init__(self, parameters: list[Any]) -> None:
        self._open = 0
        self._parameters = parameters
        me = ref(self)

        def refuse(_: Any) -> None:
            guard = me()
            if guard is None or guard._open:
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
        """A block that allows every backward pass."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


def private_loss(run: Any, value: float) -> Any:
    """A scalar whose backward pass makes the noisy gradient of the batch that was handed out.

    Parameters
    ----------
    run : TorchRun
        The run.
    value : float
        The value that the scalar shows.

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
    """The rows of each batch to come, for loops that take a loader; ``len`` counts the steps to come.

    Parameters
    ----------
    run : TorchRun
        The run.
    """

    def __init__(self, run: Any) -> None:
        self._run = run

    def __iter__(self) -> Iterator[Any]:
        for _ in self._run:
            yield mapped(lambda leaf: leaf.clone(), self._run.handed_rows())

    def __len__(self) -> int:
        return len(self._run)


# -- the loop of Opacus ------------------------------------------------------------------------------------------------


def forward_module(run: Any) -> Any:
    """The model of a run whose forward passes make no graph in training, and keep their inputs for ``Criterion``.

    Parameters
    ----------
    run : TorchRun
        The run.
    """
    torch = extra_module("torch", "torch")

    class Forward(torch.nn.Module):  # type: ignore[name-defined]
        """The model in a loop, with the parameters, the state and the modes of the given model."""

        def __init__(self) -> None:
            super().__init__()
            self.module = run.model
            self.given: Any = None

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            if not self.training:
                return self.module(*args, **kwargs)
            self.given = {**{f"[{k}]": each for k, each in enumerate(args)}, **kwargs}
            with unchanged(self.module), seeded(run.seed("forward")), torch.enable_grad():
                return _detached(self.module(*args, **kwargs))

        def state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.module.state_dict(*args, **kwargs)

        def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
            return self.module.load_state_dict(*args, **kwargs)

    return Forward()


def _detached(outputs: Any) -> Any:
    """Outputs without their graph, as far as they are tensors, tuples, lists or dictionaries."""
    if isinstance(outputs, extra_module("torch", "torch").Tensor):
        return outputs.detach()
    if type(outputs) in (tuple, list):
        return type(outputs)(map(_detached, outputs))
    if type(outputs) is dict:
        return {name: _detached(each) for name, each in outputs.items()}
    return outputs


class Criterion:
    """The loss of a loop over the loader of ``cn.opacus``: its backward pass makes the noisy gradient.

    Parameters
    ----------
    run : TorchRun
        The run.
    model : torch.nn.Module
        The result of ``forward_module``.
    """

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
        inputs = expected if isinstance(expected, dict) else expected[0]
        pairs = [] if self._model.given is None else [("inputs", self._model.given, inputs)]
        if targets is not None:
            pairs.append(("targets", targets, expected if isinstance(expected, dict) else expected[1]))
        self._model.given = None
        for name, given, rows in pairs:
            if not _equal(given, rows):
                raise ModelError(
                    f"{name} must be the ones that the loader has handed out, whose gradient the run computes.  "
                    "Change single examples in item=; examples cannot be mixed with each other"
                )
        return self.run.private_loss(unprotected=unprotected)


def _equal(given: Any, rows: Any) -> bool:
    """Whether two trees have the same tensors, in the order of their parts or by name."""
    torch = extra_module("torch", "torch")
    found, expected = ([leaf for _, leaf in leaves(each)] for each in (_as_tree(given), rows))
    return len(found) == len(expected) and all(
        isinstance(one, torch.Tensor) and one.shape == other.shape and bool(torch.equal(one.to(other), other))
        for one, other in zip(found, expected, strict=True)
    )


def _as_tree(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given
