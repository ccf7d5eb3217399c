"""A private run that has its data, whichever library makes the gradients.

A library has four things of its own: its part of a checkpoint (``parts``), the facts about model and optimizer that a
resumed run compares (``about``), the sum of the clipped gradients of a batch, and the step of its optimizer.  The rest
is here: the order of the examples, the rows of a batch, the folder, the settings of a resumed run, and the generators
of NumPy and Python, which a checkpoint holds, too.
"""

from __future__ import annotations

import json
import math
import random
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.adapters.identity import of_function
from corrnoise.simulations.adapters.options import TrainingOptions
from corrnoise.simulations.adapters.sum_audit import (
    HALF_TOLERANCE,
    SUM_TOLERANCE,
    Example,
    SumAudit,
    SumChanges,
    changes,
    judged_sums,
)
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.run.batches import AnyBatches, batches
from corrnoise.simulations.run.durable import Carry
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.solvers.default import default_noise
from corrnoise.support.reading import json_value
from corrnoise.theory.numerics import checks
from corrnoise.theory.participation import Participation, Sampled

_MAX_CHUNK_FLOATS = 2**28  # floats, 1 GiB
_MIN_CHUNK_ROWS = 8  # rows of a chunk of a sampled batch
_OVERFLOW_SHARE = 1e-6  # of δ, for sampled batches that have more examples than slots


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
    """The loss and the norms of a batch, which may be empty, from arrays of shape (batch,)."""
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


def source(options: TrainingOptions, examples: int) -> AnyBatches:
    """The batches of a run over n examples; for ``epochs`` those of floor(n/B) steps each, in one random order."""
    if not examples:
        raise ValueError("data must have at least one example, got none")
    size = checks.integer("batch_size", options.batch_size, 1, largest=examples)
    if options.participation is not None:
        who = checks.instance("participation", options.participation, Participation)
        if isinstance(who, Sampled) and options.sums == "exact" and options.budget.delta is not None:
            who = who.with_room(examples, _OVERFLOW_SHARE * options.budget.delta)
        return batches(who, examples, size)
    times = checks.integer("epochs", options.epochs, 1)
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
    """Several things in one checkpoint."""

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


class AuditedRows:
    """The gradients of an auditor, of ``size`` numbers, in place of ``examples`` examples."""

    def __init__(self, examples: int, size: int) -> None:
        self._examples = examples
        self.size = size
        self.gradients = np.zeros((0, size))  #: of the batch that was handed out last

    def __len__(self) -> int:
        return self._examples

    def rows(self, batch: NDArray[np.int64]) -> tuple[Any, ...]:
        """The gradients of a batch; zeros where the auditor has fewer."""
        found = np.zeros((batch.size, self.size))
        found[: len(self.gradients)] = self.gradients
        return (found,)

    def identity(self) -> dict[str, Any]:
        """Nothing: such a run has no folder."""
        return {}

    def ends(self, sizes: Sequence[int]) -> list[int]:
        """The places behind the parts of a gradient, in the proportions of some ``sizes``."""
        ends = np.rint(np.cumsum(sizes) * (self.size / sum(sizes))).astype(int)
        return sorted({*ends.tolist()} - {0})


class _AuditedBatch(NamedTuple):
    """A batch of an auditor, in place of the batches of a run."""

    participation: Participation
    batch_size: int
    steps: int = 1

    def batch(self, step: int) -> NDArray[np.int64]:
        """Its places."""
        return np.arange(self.batch_size) + step

    def slots(self, step: int) -> NDArray[np.int64]:
        """The same places."""
        return self.batch(step)


class DataRun(PrivateRun):
    """A ``PrivateRun`` that has its data; libraries derive theirs from it.

    Parameters
    ----------
    options : TrainingOptions
        The options.
    data : Data
        The examples.
    order : Batches or SampledBatches
        The batches of all steps.
    parts : dict
        What checkpoints hold of the library, by names.
    about : dict
        Facts of the library that a resumed run compares, of JSON types.
    size : int
        The number of parameters.
    further : object
        Further arguments of ``PrivateRun``.

    Attributes
    ----------
    loss : callable
        The loss function.
    """

    _next_call = "for batch in run: run.step(batch)"

    def __init__(
        self,
        options: TrainingOptions,
        data: Data,
        order: AnyBatches,
        parts: Mapping[str, Carry],
        about: Mapping[str, Any],
        size: int,
        **further: Any,
    ) -> None:
        self._options, self.loss, self.data = options, options.loss, data
        self._parts = Parts({**parts, "generators": HostGenerators()})
        folder = options.folder
        if folder is not None:
            folder = folder if isinstance(folder, Folder) else Folder(folder)
            named = data.identity() if folder.data is None else {"data": folder.data}
            item = {"item": None} if options.item is None else of_function("item", options.item)
            further["settings"] = {**about, **item, **named, **of_function("loss", options.loss)}
            further["carry"] = self._parts
        super().__init__(
            options.budget,
            order.participation,
            default_noise if options.mechanism is None else options.mechanism,
            size,
            batches=order,
            folder=folder,
            account=options.account,
            accountant=options.accountant,
            sums=options.sums,
            release=options.release,
            **further,
        )

    @abstractmethod
    def gradient(self, batch: ArrayLike, *, unprotected: bool = False) -> Any:
        """The mean of the clipped gradients of a batch, with the noise of its step.

        Parameters
        ----------
        batch : array of int
            The numbers of the examples, as the run has handed them out.
        unprotected : bool, default False
            Whether the mean loss, the norms and the share of clipped gradients are returned, which are not private.

        Returns
        -------
        object
            As the library says.

        Raises
        ------
        ValueError
            The step has another batch, or model, parameters or loss are refused.
        RuntimeError
            No batch was handed out for this step, or the run is over.
        """

    def step(self, batch: ArrayLike, *, unprotected: bool = False) -> Unprotected | None:
        """Make the gradient of ``gradient``, and take a step of the optimizer along it.

        Parameters
        ----------
        batch, unprotected : array of int, bool
            As for ``gradient``, which also raises the same errors.

        Returns
        -------
        Unprotected or None
            The numbers that are not private, if asked for.
        """
        found = self._stepped(batch)
        if not unprotected:
            return None
        warn_unprotected()
        return found

    @abstractmethod
    def _stepped(self, batch: ArrayLike) -> Unprotected:
        """Take the step, and return the numbers that are not private."""

    def audited(self) -> Callable[[Sequence[Any]], NDArray[np.float64]]:
        """A loop for ``cn.audit`` with the batches, the clipping, the sums, the noise and the division of this run.

        Returns
        -------
        callable
            Of the gradients of each step, for ``cn.audit(run.audited(), run)``.  Each call makes a run of its own with
            the options of this one, which stays as it is.  The model is linear: the gradient of an example is a row of
            the auditor, cut into parameters in the proportions of the model's own.

        Raises
        ------
        ValueError
            The run has a folder, an account or several processes.
        """
        if self._durable is not None or self._account is not None or self.ranks.count > 1:
            raise ValueError("run must have no folder, no account and one process to be audited: make one without them")

        def released(given: Sequence[Any]) -> NDArray[np.float64]:
            order, first = batches_of(self), given[0]
            who = order.participation
            if isinstance(who, Sampled):
                if who.capacity is not None:
                    who = replace(who, capacity=None, examples=None)  # of other examples
                examples = len(first)
                size = max(1, round(batches(who, examples).batch_size))
                rows = AuditedRows(examples, first[[0]].shape[1])
            else:
                size = max(1, *map(len, given))
                rows = AuditedRows(math.ceil(order.examples / order.batch_size) * size, first.shape[1])
            left_out = ("folder", "account", "carry", "item", "example", "epochs")
            own: dict[str, Any] = dict.fromkeys(left_out)
            mechanism = self._program.mechanism
            options = replace(self._options, **own, participation=who, batch_size=size, mechanism=mechanism)
            run = self._twin(rows, options, source(options, len(rows)))
            found = []
            for batch, gradients in zip(run, given, strict=True):
                rows.gradients = gradients[batch] if who.sampled else gradients
                found.append(size * run._flat_gradient(batch))
            return np.array(found)

        return released

    @abstractmethod
    def _twin(self, rows: AuditedRows, options: Any, order: AnyBatches) -> Any:
        """A run with other data, whose model is linear: the gradient of a row is the row."""

    @abstractmethod
    def _flat_gradient(self, batch: ArrayLike) -> NDArray[np.float64]:
        """The result of ``gradient`` as a vector."""

    def audit_sums(self, *, examples: int = 64, rng: Seed = None) -> SumAudit:
        """Audit the clipped sums of this run through its model and its loss, exactly and without noise.

        The present model is audited, and the same with ten times its weights.  The run itself stays as it is.

        Parameters
        ----------
        examples : int, default 64
            How many examples, at least 1; they are drawn from the data, and come in batches of eight.
        rng : int, SeedSequence or Generator, optional
            For the examples.

        Returns
        -------
        SumAudit
            The verdict and its cause.  It comes from private data without noise, with an ``UnprotectedWarning``.

        Raises
        ------
        ValueError
            The run has several processes, or ``examples`` is out of its range.
        """
        if self.ranks.count > 1:
            raise ValueError(f"run must have one process to be audited, got {self.ranks.count}: make one without them")
        count = min(checks.integer("examples", examples, 1), len(self.data))
        warn_unprotected()
        numbers = np.sort(generator(rng).permutation(len(self.data))[:count])
        some = [Example(int(each), self._handled(np.array([each]))) for each in numbers]
        sums = 0

        def total(batch: Sequence[Example]) -> NDArray[np.float64]:
            nonlocal sums
            sums += 1
            if not batch:
                return np.zeros(self.size)
            own = ("budget", "device", "grid", "largest_batch", "participation", "ranks", "seed", "size")
            step = SimpleNamespace(batches=_AuditedBatch(self.participation, len(batch)), position=0)
            vars(step).update({name: getattr(self, name) for name in own})
            row_numbers = np.array([each.number for each in batch])
            found = self._clipped_total(step, self._joined([each.row for each in batch]), row_numbers)
            unit = 1.0 if self.grid is None else self.grid.unit
            return self._noise.on_host(found).astype(np.float64) * (unit / self.budget.clip_norm)

        found = list(changes(total, some, self._mapped))
        with self._enlarged():
            for three in changes(total, some, self._mapped):
                found.append(
                    three and SumChanges(*(each._replace(where=f"{each.where}, weights x 10") for each in three))
                )
        return judged_sums(found, sums, HALF_TOLERANCE if self._is_half() else SUM_TOLERANCE)

    @abstractmethod
    def _handled(self, batch: NDArray[np.int64]) -> Any:
        """The rows of some examples, as for a step."""

    @abstractmethod
    def _mapped(self, function: Callable[..., Any], *rows: Any) -> Any:
        """A tree of rows whose leaves are the results of a function."""

    @abstractmethod
    def _joined(self, rows: Sequence[Any]) -> Any:
        """The rows of several batches as one."""

    @abstractmethod
    def _clipped_total(self, step: Any, rows: Any, numbers: NDArray[np.int64]) -> Any:
        """The sum of the clipped gradients of a batch, without noise, as a vector."""

    @abstractmethod
    def _enlarged(self) -> AbstractContextManager[None]:
        """A block with ten times the weights of the model."""

    @abstractmethod
    def _is_half(self) -> bool:
        """Whether the model computes in half precision."""

    def rows(self, batch: ArrayLike) -> tuple[Any, ...]:
        """The examples of this process in the batch that was handed out last.

        Parameters
        ----------
        batch : array_like
            The numbers of the examples of the batch; another batch is a ``ValueError``.

        Returns
        -------
        tuple
        """
        return self.data.rows(self.mine(batch))

    def mine(self, batch: ArrayLike) -> NDArray[np.int64]:
        """The numbers of the examples of this process in the batch that was handed out last.

        Parameters
        ----------
        batch : array_like
            The numbers of the examples of the batch.

        Returns
        -------
        array of int
        """
        chosen = np.asarray(batch)
        order = batches_of(self)
        if self.position < order.steps and not np.array_equal(chosen, order.batch(self.position)):
            raise ValueError(f"batch must be the one that the run has handed out for step {self.position}")
        return chosen[_mine(self, chosen.size)]


def batches_of(run: PrivateRun) -> AnyBatches:
    """The batches of a run; ``ValueError`` for a run without batches."""
    if run.batches is None:
        raise ValueError("run must have batches here, got one without")
    return run.batches


def due(run: PrivateRun) -> int:
    """The number of examples of this process in the batch whose noise comes next; an error after the last."""
    order = batches_of(run)
    if run.position == order.steps:
        raise RuntimeError(f"the run has made its {run.steps} steps: a further step is not covered by its noise")
    return int(np.count_nonzero(_mine(run, order.batch(run.position).size)))


def _slots(run: PrivateRun, size: int) -> NDArray[np.int64]:
    """The slots of the examples of a batch; their order, for batches that have none."""
    order: Any = batches_of(run)
    if capacity_of(order) is not None and run.position < order.steps:
        slots: NDArray[np.int64] = order.slots(run.position)
        return slots
    return np.arange(size)


def capacity_of(order: AnyBatches) -> int | None:
    """The number of slots of a batch; None without slots."""
    who = order.participation
    return who.capacity if isinstance(who, Sampled) else None


def _mine(run: PrivateRun, size: int) -> NDArray[np.bool_]:
    """Which examples of a batch belong to this process."""
    return _slots(run, size) % run.ranks.count == run.ranks.rank


def check_types(name: str, arrays: Iterable[Any], *, half: bool = False) -> None:
    """Refuse arrays that are not float32 or float64: rounding sums to fewer bits exceeds the clipping norm.

    ``half`` precision is covered where sums are integers.
    """
    covered = ("float32", "float64", *(("bfloat16", "float16") if half else ()))
    types = [str(getattr(each, "dtype", type(each).__name__)) for each in arrays]
    if others := [each for each in types if each.removeprefix("torch.") not in covered]:
        raise ValueError(f"{name} must be of {' or '.join(covered)}, got {others[0]}")


class Chunk(NamedTuple):
    """Rows that are computed at once."""

    first: int  #: the number of its first slot
    rows: NDArray[np.int64]  #: for each slot a place among the rows of this process; an empty one repeats another row
    counts: NDArray[np.bool_]  #: which slots are not empty


def chunks(run: PrivateRun, chunk_size: int | None, numbers: int) -> Iterator[Chunk]:
    """The examples of this process in the batch whose noise comes next, in chunks that are computed one after another.

    A library may choose its kernels by the shape of a chunk, and round a row by its place.  Neither depends on the
    other examples of a sampled batch: all chunks have the same shape, and the places are ``SampledBatches.slots``.
    Without a capacity there are no slots, and exact sums compute one row at a time.

    ``chunk_size`` None stands for the batch, or a quarter of the slots of a sampled one (of the expected size without a
    capacity), but at most for as many rows of that many ``numbers`` as need 1 GiB.  Empty chunks are left out.
    """
    order, processes = batches_of(run), run.ranks.count
    sampled = order.participation.sampled
    slots = _slots(run, order.batch(run.position).size)
    places = slots[slots % processes == run.ranks.rank] // processes
    capacity = capacity_of(order)
    number = places.size if capacity is None else -(-capacity // processes)
    if chunk_size is None:
        share = (order.batch_size if capacity is None else capacity) / processes
        usual = max(math.ceil(share / 4), _MIN_CHUNK_ROWS) if sampled else math.ceil(share)
        size = max(min(usual, _MAX_CHUNK_FLOATS // max(numbers, 1)), 1)
    else:
        size = checks.integer("chunk_size", chunk_size, 1)
    if sampled and capacity is None and run.grid is not None:
        size = 1
    by_place = np.argsort(places)
    for first in range(0, number, size):
        begin, end = np.searchsorted(places[by_place], (first, first + size))
        if begin == end:
            continue
        here = by_place[begin:end]
        rows = np.full(size if sampled else min(size, number - first), here[0])
        counts = np.zeros(rows.size, bool)
        rows[places[here] - first], counts[places[here] - first] = here, True
        yield Chunk(first, rows, counts)
