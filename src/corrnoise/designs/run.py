"""The run of a design, from what a training program knows: epochs, batches, momentum and schedule.

Participation is a promise of the data loader.  ``epochs=k`` promises that the data are visited in the *same order* in
every epoch.  Two participations of an example are then exactly one epoch apart, so that the promise implies
``min_sep`` = steps an epoch and ``max_participations`` = k.  The design rests on this weaker promise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from corrnoise.theory.participation import Participation, checked_run
from corrnoise.theory.workloads import MomentumSGD, PrefixSums, Workload
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike


class Run(NamedTuple):
    """The length of a run and who takes part when; ``steps`` is None for any length."""

    steps: int | None
    min_sep: int
    max_participations: int

    @property
    def participation(self) -> Participation | None:
        """None for single participation in a run of any length."""
        return checked_run(self.steps, self.min_sep, self.max_participations)


def run_of(
    steps: int | None,
    *,
    epochs: int | None,
    steps_per_epoch: int | None,
    examples: int | None,
    batch_size: int,
    min_sep: int,
    max_participations: int,
) -> Run:
    """The run, from epochs or from a participation.

    Raises
    ------
    ValueError
        Both are given; the length of an epoch is not known, or it is known twice and differs; the steps are no multiple
        of the epochs, or the examples no multiple of the batch.
    """
    if epochs is None:
        for name, value in (("steps_per_epoch", steps_per_epoch), ("examples", examples)):
            if value is not None:
                raise ValueError(f"{name} must come with epochs, got {value!r} without")
        run = Run(steps, min_sep, max_participations)
        _ = run.participation  # checks it
        return run
    for name, value in (("min_sep", min_sep), ("max_participations", max_participations)):
        if value != 1:
            raise ValueError(f"{name} must not come with epochs, which say the same, got {value!r}")
    count = checks.integer("epochs", epochs, 1)
    length = _length_of_epoch(count, steps, steps_per_epoch, examples, batch_size)
    return Run(count * length, length, count)


def _length_of_epoch(
    epochs: int, steps: int | None, steps_per_epoch: int | None, examples: int | None, batch_size: int
) -> int:
    lengths: dict[str, int] = {}
    if steps_per_epoch is not None:
        lengths["steps_per_epoch"] = checks.integer("steps_per_epoch", steps_per_epoch, 1)
    if examples is not None:
        if checks.integer("examples", examples, 1) % batch_size:
            raise ValueError(f"examples must be a multiple of batch_size={batch_size}, got {examples}")
        lengths["examples"] = examples // batch_size
    if steps is not None:
        if checks.integer("steps", steps, 1) % epochs:
            raise ValueError(f"steps must be a multiple of epochs={epochs}, got {steps}")
        lengths["steps"] = steps // epochs
    if not lengths:
        raise ValueError("epochs must come with steps, steps_per_epoch or examples, got none of them")
    (first, length), *others = lengths.items()
    for name, value in others:
        if value != length:
            raise ValueError(f"{name} must agree with {first}, which says {length} steps an epoch, got {value}")
    return length


def workload_of(
    steps: int,
    *,
    momentum: float,
    weight_decay: float,
    learning_rates: ArrayLike | None,
    cool_down: float | None,
) -> Workload:
    """The workload whose errors are those of the iterates."""
    rates = schedule(steps, learning_rates=learning_rates, cool_down=cool_down)
    momentum = checks.real("momentum", momentum, "[0, 1)")
    decay = checks.real("weight_decay", weight_decay, "[0, inf)")
    if momentum == 0 and decay == 0 and rates is None:
        return PrefixSums(steps)
    return MomentumSGD(steps, momentum=momentum, weight_decay=decay, learning_rates=rates)


def schedule(steps: int, *, learning_rates: ArrayLike | None, cool_down: float | None) -> Array | None:
    """Learning rates of all steps, shape (steps,); None for a constant one."""
    if cool_down is None:
        return (
            None if learning_rates is None else checks.shaped("learning_rates", learning_rates, (steps,), "(0, 1e100]")
        )
    if learning_rates is not None:
        raise ValueError("learning_rates must not come with cool_down, which is a schedule too")
    share = checks.real("cool_down", cool_down, "(0, 1]")
    return np.minimum(1.0, (steps - np.arange(steps)) / (share * steps))


def workload_in_words(workload: Workload) -> str:
    """What a workload is, for reports."""
    if not isinstance(workload, MomentumSGD):
        return "SGD with a constant learning rate"
    parts = [f"momentum {workload.momentum:g}"] if workload.momentum else []
    parts += [f"weight decay {workload.weight_decay:g}"] if workload.weight_decay else []
    rates: Any = workload.learning_rates
    if rates is not None:
        parts.append(f"learning rates from {rates.min():.6g} to {rates.max():.6g}")
    return f"SGD with {', '.join(parts)}"
