"""Benchmarks as registered functions that yield rows; each row compares two sides.

This module holds the registration, the two settings (full and quick), the comparison of numbers, and the run.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.timing import Side, measure

SUBJECTS = (
    "closed_forms",
    "coefficients",
    "devices",
    "finite_optimum",
    "finite_runs",
    "learning_curves",
    "private_steps",
    "sampling",
    "simulations",
    "strongly_convex",
    "training_noise",
)
PEER = "against_jax_privacy"  #: the subject that needs jax-privacy

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Times are in seconds an item, the smallest of all turns; ``ratio`` is the median over the turns of other/ours.
    ``difference`` is between the two results, ``error`` and ``other_error`` are relative to the exact numbers (None
    where none are given).
    """

    case: str
    ours: str
    other: str
    item: str
    ratio: float
    low: float
    high: float
    seconds: float
    other_seconds: float
    difference: float
    tolerance: float
    error: float | None = None
    other_error: float | None = None

    @property
    def agrees(self) -> bool:
        """The two sides computed the same numbers."""
        return self.difference <= self.tolerance


def relative_difference(values: ArrayLike, reference: ArrayLike, *, in_norm: bool = False) -> float:
    """Largest relative difference of an entry, or of the 2-norm; ``inf`` for different shapes and for nan."""
    x, y = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    if x.shape != y.shape:
        return np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.linalg.norm(x - y) / np.linalg.norm(y) if in_norm else (np.abs(x - y) / np.abs(y))[x != y]
    largest = float(np.max(gap, initial=0.0))
    return largest if np.isfinite(largest) else np.inf


@dataclass(frozen=True)
class Setting:
    """Sizes and durations: ``quick`` for the tests and a first look; only full results should be quoted."""

    quick: bool = False

    def pick(self, full: T, quick: T) -> T:
        """A size for either setting."""
        return quick if self.quick else full

    def compare(
        self,
        case: str,
        ours: Side,
        other: Side,
        *,
        item: str,
        tolerance: float,
        where: Any = ...,
        exact: tuple[Any, ArrayLike] | None = None,
        in_norm: bool = False,
        turns: int | None = None,
    ) -> Row:
        """Compare numbers, then time.

        Parameters
        ----------
        case : a description of the case, such as its size
        ours, other : the two sides; both are called once before anything is timed
        item : the unit of ``Side.items``
        tolerance : largest difference of sides that agree
        where : the part (an index) of our result that the other side computes
        exact : an index into that part, and the exact values there
        in_norm : differences are of the 2-norm, not of single entries
        turns : how often each side is timed; None for 7 times, or once in the quick setting
        """
        result = np.asarray(ours.run())[where]
        other_result = np.asarray(other.run())
        error = other_error = None
        if exact is not None:
            sample, values = exact
            error = relative_difference(result[sample], values, in_norm=in_norm)
            other_error = relative_difference(other_result[sample], values, in_norm=in_norm)
        timing = measure(ours, other, turns=turns or self.pick(7, 1), shortest=self.pick(0.05, 0.002))
        return Row(
            case=case,
            ours=ours.name,
            other=other.name,
            item=item,
            ratio=timing.ratio,
            low=timing.spread[0],
            high=timing.spread[1],
            seconds=min(timing.ours),
            other_seconds=min(timing.other),
            difference=relative_difference(other_result, result, in_norm=in_norm),
            tolerance=tolerance,
            error=error,
            other_error=other_error,
        )


Benchmark = Callable[[Setting], Iterable[Row]]

REGISTRY: dict[str, Benchmark] = {}


def benchmark(function: Benchmark) -> Benchmark:
    """Register a function of a setting that yields rows, under its own name; its docstring heads its table."""
    name = function.__name__.replace("_", "-")
    if name in REGISTRY:
        raise ValueError(f"there are two benchmarks named {name!r}")
    REGISTRY[name] = function
    return function


def load() -> dict[str, Benchmark]:
    """Import all subjects that need no other library, and return their benchmarks by name."""
    for subject in SUBJECTS:
        importlib.import_module(f"benchmarks.{subject}")
    return {name: function for name, function in REGISTRY.items() if not name.startswith("peer-")}


def load_peer() -> dict[str, Benchmark]:
    """The benchmarks against jax-privacy by name; ``ModuleNotFoundError`` names the extra where it is missing."""
    if importlib.util.find_spec("jax_privacy") is None:
        raise ModuleNotFoundError("jax-privacy is not installed: pip install -e '.[jax]'")
    importlib.import_module(f"benchmarks.{PEER}")
    return {name: function for name, function in REGISTRY.items() if name.startswith("peer-")}


def run(names: Iterable[str], setting: Setting) -> Iterator[tuple[str, Row]]:
    """Run benchmarks, and yield each row as soon as it is measured."""
    for name in names:
        for row in REGISTRY[name](setting):
            yield name, row
