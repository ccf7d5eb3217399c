"""The loop of Opacus with one changed name; gradients of examples as in ``cn.torch`` (extra ``torch``).

    model, optimizer, criterion, loader = make_private(model, optimizer, (inputs, targets), loss=F.cross_entropy,
                                                       budget=budget, batch_size=71, epochs=20, folder="digits")
    for x, y in loader:  # the steps to come
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

Nothing of Opacus is imported.  Its hooks give gradients of modules, not of examples: they are wrong for position tables
with one row, weights that functions use, and losses that depend on other examples.
"""

from __future__ import annotations

from typing import Any, Unpack

from corrnoise.simulations.adapters import torch_run
from corrnoise.simulations.adapters.options import TorchKeywords, TorchOptions, with_options
from corrnoise.simulations.adapters.torch_loops import Criterion, Loader, forward_module


@with_options(TorchOptions)
def make_private(
    model: Any, optimizer: Any, data: Any, **options: Unpack[TorchKeywords]
) -> tuple[Any, Any, Criterion, Loader]:
    """A private run in the shape of a loop of Opacus; the same script starts and resumes it.

    Parameters
    ----------
    model, optimizer, data : object
        As for ``corrnoise.torch.make_private``.
    options : TorchOptions
        Keywords: the options that ``TorchOptions`` documents.

    Returns
    -------
    tuple
        The model for the loop, whose forward passes in training make no graph; the optimizer; the criterion, whose
        ``run`` is the private run and whose backward pass makes the noisy gradient; and the loader of the steps to
        come.  The returned model has the state of the given one.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the folder belongs to another run, as for ``cn.torch.make_private``.
    TypeError
        If an argument has another type.
    BlockingIOError
        If another run uses the folder.
    """
    run = torch_run.make_private(model, optimizer, data, **options)
    forward = forward_module(run)
    return forward, optimizer, Criterion(run, forward), run.loader()
