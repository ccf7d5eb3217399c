"""A private run that has its data, whichever library makes the gradients.

A library has four things of its own: its part of a checkpoint (``parts``), the facts about model and optimizer that a
resumed run compares (``about``), the sum of the clipped gradients of a batch, and the step of its optimizer.  The rest
is here: the order of the examples, the rows of a batch, the folder, the settings of a resumed run, and the generators
of NumPy and Python, which a checkpoint holds, too.
"""

from __future__ import annotations

import json
import math
import os
import random
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.identity import of_function
from corrnoise.simulations.run.batches import AnyBatches, batches
from corrnoise.simulations.run.durable import Carry
from corrnoise.simulations.run.engines import Choice
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.solvers.default import default_noise
from corrnoise.support.reading import json_value
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_AT_ONCE = 2**28  # floats, 1 GiB
_FEWEST = 8  # rows of a chunk of a sampled batch


class UnprotectedWarning(UserWarning):
    """A number of the private data was shown that no noise protects."""


def warn_unprotected() -> None:
    """Warn that the caller has asked for numbers without privacy."""
    warnings.warn(
        "losses and norms of private data are not protected by noise: do not publish them, and choose nothing by them",
        UnprotectedWarning,
        stacklevel=3,
    )


class Unprotected(NamedTuple):
    """Numbers of a step that are not private: they must not leave the machine, nor guide the training."""

    loss: float  #: mean loss of the batch
    norms: NDArray[np.float64]  #: of the gradients of its examples, before clipping
    clipped: float  #: share of the gradients that exceed the clipping norm


def unprotected_of(losses: NDArray[Any], norms: NDArray[Any], clip_norm: float) -> Unprotected:
    """The loss and the norms of a batch, which may be empty.

    Parameters
    ----------
    losses, norms : array
        Of its examples, shape (batch,).
    clip_norm : float
        The clipping norm.
    """
    if not len(losses):
        return Unprotected(0.0, np.zeros(0), 0.0)
    return Unprotected(float(losses.mean()), norms, float(np.mean(~(norms <= clip_norm))))


class Data(Protocol):
    """Examples by their numbers."""

    def __len__(self) -> int:
        """The number of examples."""

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        """The rows of some examples: arrays with the examples along the first axis."""

    def identity(self) -> dict[str, Any]:
        """The facts that a restart compares, of JSON types."""


def source(
    epochs: int | Participation | None, examples: int, batch_size: int, participation: Participation | None = None
) -> AnyBatches:
    """The batches of a run over some data.

    Parameters
    ----------
    epochs : int, optional
        How often each example is used, in one random order for all epochs of floor(n/B) batches.
    examples, batch_size : int
        As for ``batches``.
    participation : Participation, optional
        Another data order, which may be sampled: then B is the expected size of a batch.

    Raises
    ------
    ValueError, TypeError
        Not exactly one of ``epochs`` and ``participation`` is given, or an argument is out of its range.
    """
    if isinstance(epochs, Participation):
        warnings.warn("pass a Participation as participation=; epochs= takes a number", FutureWarning, stacklevel=3)
        epochs, participation = None, epochs
    if (epochs is None) == (participation is None):
        found = "neither" if epochs is None else "both"
        raise ValueError(f"epochs (a number) or participation must be given, and not both, got {found}")
    if not examples:
        raise ValueError("data must have at least one example, got none")
    size = checks.integer("batch_size", batch_size, 1, largest=examples)
    if participation is not None:
        return batches(checks.instance("participation", participation, Participation), examples, size)
    times = checks.integer("epochs", epochs, 1)
    return batches(Participation.fixed_epochs(examples // size * times, epochs=times), examples, size)


class HostGenerators:
    """The generators of NumPy and Python that functions without a generator of their own draw from, in checkpoints."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Their states, as the bytes of JSON."""
        state = np.random.get_state(legacy=False)  # noqa: NPY002  # of the user's code
        assert isinstance(state, dict)
        return {
            "numpy": _text(state | {"state": {name: _plain(value) for name, value in state["state"].items()}}),
            "python": _text(random.getstate()),
        }

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Go on from the states that were saved."""
        state = json_value(arrays["numpy"].tobytes())
        if "key" in state["state"]:
            state["state"]["key"] = np.array(state["state"]["key"], np.uint32)
        np.random.set_state(state)  # noqa: NPY002
        version, words, normal = json_value(arrays["python"].tobytes())
        random.setstate((version, tuple(words), normal))


def _text(value: Any) -> NDArray[np.uint8]:
    """A value of JSON types as an array."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


class Parts:
    """Several things in one checkpoint.

    Parameters
    ----------
    parts
        The things by their names.
    """

    def __init__(self, parts: Mapping[str, Carry]) -> None:
        self._parts = parts

    def save(self) -> dict[str, NDArray[Any]]:
        """The arrays of all parts."""
        return {f"{part}/{name}": kept for part, each in self._parts.items() for name, kept in each.save().items()}

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Restore the saved arrays."""
        for part, each in self._parts.items():
            own = {name: kept for name, kept in arrays.items() if name.startswith(f"{part}/")}
            each.load({name.removeprefix(f"{part}/"): kept for name, kept in own.items()})


class DataRun(PrivateRun):
    """A ``PrivateRun`` that has its data; libraries derive theirs from it.

    Parameters
    ----------
    loss
        The loss function, whose name and text a restart compares.
    data
        The examples.
    parts
        What checkpoints hold of the library, by names.
    about
        Facts of the library that a resumed run compares, of JSON types.
    size, budget, folder
        As for ``PrivateRun``.
    mechanism
        As for ``PrivateRun``; None for ``cn.default_noise``.
    order
        The batches, from ``source``.
    options
        Further ones of ``PrivateRun``.
    """

    def __init__(
        self,
        loss: Any,
        data: Data,
        parts: Mapping[str, Carry],
        about: Mapping[str, Any],
        size: int,
        *,
        budget: Budget,
        mechanism: Mechanism | Choice | None,
        order: AnyBatches,
        folder: str | os.PathLike[str] | Folder | None,
        **options: Any,
    ) -> None:
        if not callable(loss):
            raise TypeError(f"loss must be a function, got {loss!r:.80}")
        self.data = data
        self._parts = Parts({**parts, "generators": HostGenerators()})
        carry = settings = None
        if folder is not None:
            folder = folder if isinstance(folder, Folder) else Folder(folder)
            named = data.identity() if folder.data is None else {"data": folder.data}
            settings = {**about, **named, **of_function("loss", loss)}
            carry = self._parts
        options |= {"batches": order, "folder": folder, "carry": carry, "settings": settings}
        noise = default_noise if mechanism is None else mechanism
        super().__init__(budget, order.participation, noise, size, **options)

    def rows(self, batch: ArrayLike) -> tuple[Any, ...]:
        """The examples of this process in the batch that was handed out last; ``ValueError`` for another batch.

        Parameters
        ----------
        batch
            The numbers of the examples.
        """
        return self.data.rows(self.mine(batch))

    def mine(self, batch: ArrayLike) -> NDArray[np.int64]:
        """The numbers of the examples of this process in the batch that was handed out last.

        Parameters
        ----------
        batch
            The numbers of all examples.
        """
        chosen = np.asarray(batch)
        order = batches_of(self)
        if self.position < order.steps and not np.array_equal(chosen, order.batch(self.position)):
            raise ValueError(f"batch must be the one that the run has handed out for step {self.position}")
        return chosen[self.ranks.rank :: self.ranks.count]


def batches_of(run: PrivateRun) -> AnyBatches:
    """The batches of a run; ``ValueError`` for a run without batches."""
    if run.batches is None:
        raise ValueError("run must have batches here, got one without")
    return run.batches


def due(run: PrivateRun) -> int:
    """The number of examples of this process in the batch whose noise comes next.

    Raises
    ------
    RuntimeError
        The last step was made.
    """
    order = batches_of(run)
    if run.position == order.steps:
        raise RuntimeError(f"the run has made its {run.steps} steps: a further step is not covered by its noise")
    return len(range(run.ranks.rank, order.batch(run.position).size, run.ranks.count))


def chunks(run: PrivateRun, chunk_size: int | None, numbers: int) -> Iterator[tuple[NDArray[np.int64], int]]:
    """The examples of this process in the batch whose noise comes next, in chunks that are computed one after another.

    The shape of a chunk does not depend on the sampled examples, since a library may choose its kernels by it.  So the
    chunks of sampled batches have all the same number of rows.

    Parameters
    ----------
    run
        A private run with batches.
    chunk_size
        The number of examples of a chunk.  None for the batch, or a quarter of the expected size of a sampled one, but
        at most as many as need 1 GiB.
    numbers
        How many floats of memory an example takes.

    Yields
    ------
    The places of the rows in the batch, where the last ones may be repeated, and how many rows count.
    """
    order, count = batches_of(run), due(run)
    sampled = order.participation.sampled
    if chunk_size is None:
        share = order.batch_size / run.ranks.count
        usual = max(math.ceil(share / 4), _FEWEST) if sampled else math.ceil(share)
        size = max(min(usual, _AT_ONCE // max(numbers, 1)), 1)
    else:
        size = checks.integer("chunk_size", chunk_size, 1)
    for first in range(0, count, size):
        places = np.arange(first, first + size if sampled else min(first + size, count))
        yield np.where(places < count, places, first), min(size, count - first)
