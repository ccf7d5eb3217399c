"""Loops under audit: the gradients that they get, and what they do with them, exceptions included."""

from __future__ import annotations

import gc
import inspect
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.layout import AuditLayout
from corrnoise.theory.numerics.checks import Array

#: A loop: the gradients of the examples of each step, arrays of shape (examples, d), become releases, (steps, d).  A
#: sampled loop gets the data set in place of each array, ``Examples``, and takes its own batches from it.
Release = Callable[[Sequence[Any]], Array]


class Stepwise(Protocol):
    """A loop that can be restarted: a class; the auditor makes a new object of it after each crash."""

    def begin(self, folder: Path) -> int:
        """Begin, or resume from the folder; the number of the next step."""

    def step(self, gradients: Any) -> Array:
        """The release of the next step, shape (d,), for gradients (examples, d), or for ``Examples``."""


class AuditExamples:
    """The gradients that the examples of a pool have in one step; ``examples[batch]`` are the gradients of a batch."""

    def __init__(self, pool: Pool, step: int) -> None:
        self._pool, self._step = pool, step

    def __len__(self) -> int:
        return self._pool.examples

    def __getitem__(self, batch: Any) -> Array:
        numbers = np.atleast_1d(np.arange(self._pool.examples)[batch])
        self._pool.taken[self._step, numbers] = True
        return self._pool.rule(self._step, numbers)


class Pool(Sequence[AuditExamples]):
    """The data set of a sampled loop, ``pool[step][batch]``, which notes the batches that the loop draws.

    ``rule`` gives the gradients of some examples in a step, shape (numbers, d).  ``taken`` says who was in the batch of
    each step, shape (steps, examples).
    """

    def __init__(
        self, steps: int, examples: int, rule: Callable[[int, NDArray[np.intp]], Array], layout: AuditLayout
    ) -> None:
        self.examples = examples
        self.rule = rule
        self.layout = layout
        self.taken = np.zeros((steps, examples), dtype=bool)

    def __len__(self) -> int:
        return len(self.taken)

    def __getitem__(self, step: Any) -> Any:
        steps = range(len(self))[step]
        return [AuditExamples(self, each) for each in steps] if isinstance(steps, range) else AuditExamples(self, steps)


class EndedError(Exception):
    """The audit ends before any test; the arguments are the verdict and its cause."""


class AuditGradients(Sequence[Array]):
    """The gradients of the examples of each step, made again each time, so that a loop may overwrite them.

    ``rows`` holds for each step its canaries and the lengths of their gradients.
    """

    def __init__(self, rows: Sequence[tuple[NDArray[np.intp], Array]], layout: AuditLayout) -> None:
        self._rows = rows
        self.layout = layout

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, step: int) -> Array: ...

    @overload
    def __getitem__(self, step: slice) -> list[Array]: ...

    def __getitem__(self, step: int | slice) -> Array | list[Array]:
        if isinstance(step, slice):
            return [self[i] for i in range(*step.indices(len(self)))]
        return self.layout.gradients(*self._rows[step])


Given = AuditGradients | Pool


def stepwise(loop: object) -> bool:
    """Whether the loop is a class that can be restarted; anything but this and a function is refused."""
    if inspect.isclass(loop) and callable(getattr(loop, "begin", None)) and callable(getattr(loop, "step", None)):
        return True
    if not callable(loop) or inspect.isclass(loop):
        raise TypeError(
            "loop must be a function of the gradients of each step, or a class with the methods begin(folder) and "
            f"step(gradients), got {loop!r:.80}"
        )
    return False


def released(
    loop: Any, gradients: Given, run: int, crashes: Sequence[int] = (), probe: Given | None = None
) -> dict[int, Array]:
    """The releases of a run by their steps, the coordinates of canaries first.

    The object of a class is dropped before the steps ``crashes``, and another one takes its place, which gets the
    gradients of ``probe`` for steps that come again.
    """
    if not inspect.isclass(loop):
        return _whole(loop, gradients, run)
    with tempfile.TemporaryDirectory() as folder:
        return _step_by_step(loop, gradients, probe or gradients, crashes, Path(folder) / "run")


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """The releases of the loop; its exceptions are a verdict."""
    try:
        return function(*arguments)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}, line {last.lineno}"
        raise EndedError(
            "could not be audited", f"the loop raised {type(error).__name__}: {error} ({place})"
        ) from error


def _whole(loop: Any, gradients: Given, run: int) -> dict[int, Array]:
    shape = len(gradients), gradients.layout.size
    found = _numbers(_called(loop, gradients), shape, f"run {run + 1}")
    return dict(enumerate(found[:, gradients.layout.place]))


def _numbers(found: Any, shape: tuple[int, ...], where: str) -> Array:
    """A release as finite floats."""
    try:
        values = np.asarray(found)
        if values.dtype.kind not in "iufb":
            raise TypeError(f"an array of {values.dtype}")
    except Exception as error:
        raise EndedError(
            "could not be audited", f"the loop did not return an array of numbers: {error} ({where})"
        ) from error
    if values.shape != shape:
        raise EndedError("could not be audited", f"the loop returned the shape {values.shape}, not {shape} ({where})")
    if not np.isfinite(values).all():
        raise EndedError("not private as claimed", f"a release is not finite ({where})")
    return values.astype(np.float64)


def _step_by_step(loop: Any, gradients: Given, probe: Given, crashes: Sequence[int], folder: Path) -> dict[int, Array]:
    """The releases of a loop that is dropped and started again before each of the steps ``crashes``."""
    layout = gradients.layout
    found: dict[int, Array] = {}
    alive, step = _begun(loop, folder, len(gradients))
    waiting = list(crashes)
    while step < len(gradients):
        twice = step in found
        where = f"step {step + 1}"
        release = _numbers(_called(alive.step, (probe if twice else gradients)[step]), (layout.size,), where)
        if twice and not np.array_equal(release, found[step]):  # the same release again shows nothing new
            same = np.array_equal(release[layout.idle_places], found[step][layout.idle_places])
            how = "with the same noise" if same else "with other noise"
            raise EndedError("not private as claimed", f"a step is released twice, {how} ({where})")
        found[step] = release
        step += 1
        if waiting and step >= waiting[0]:
            waiting.pop(0)
            del alive
            gc.collect()
            alive, step = _begun(loop, folder, len(gradients))
    return {step: release[layout.place] for step, release in found.items()}


def _begun(loop: Any, folder: Path, steps: int) -> tuple[Any, int]:
    """A new object of the loop, and its next step."""
    alive = _called(loop)
    step = _called(alive.begin, folder)
    if isinstance(step, bool) or not isinstance(step, int | np.integer) or not 0 <= step <= steps:
        raise EndedError(
            "could not be audited", f"begin must return the number of the next step, 0 to {steps}, got {step!r:.80}"
        )
    return alive, int(step)
