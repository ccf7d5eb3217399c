"""How figures simulate their exact statements: how much, where results are kept, and the result.

Each point of a figure is simulated on its own and kept in a folder as soon as it is finished, so an interrupted run
goes on from there.  The results depend on the seed, the effort and the number of repeats alone.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.special import stdtrit

from corrnoise.figures.series import Data, SimulatedSeries
from corrnoise.support import cache
from corrnoise.support.progress import progress_line
from corrnoise.support.version import __version__
from corrnoise.support.workers import results
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

Item = TypeVar("Item")

FALSE_ALARM = 0.01  #: probability that the markers of a correct simulation exceed ``largest_allowed_z``


@dataclass(frozen=True)
class SimulationRun:
    """How a figure is simulated."""

    directory: Path | None = None  #: folder that keeps finished points; None to keep nothing
    seed: int = 0  #: >= 0
    effort: float = 1.0  #: multiplies the number of recorded steps, > 0
    repeats: int = 1  #: number of independent repetitions, >= 1
    jobs: int = 1  #: number of points that run at a time, >= 1; −1 for one a core
    cluster: str | None = None  #: address of the Dask scheduler of a cluster that simulates stationary errors instead
    progress: bool | None = None  #: whether to show progress on standard error; None: if it is a terminal

    def __post_init__(self) -> None:
        checks.seed("seed", self.seed)
        checks.real("effort", self.effort, "(0, inf)")
        checks.integer("repeats", self.repeats, 1)
        if self.jobs != -1:
            checks.integer("jobs", self.jobs, 1)

    def seeds(self, count: int) -> list[int]:
        """Seeds of ``count`` independent simulations; a shorter list is the head of a longer one."""
        return [int(s) for s in np.random.SeedSequence(self.seed).generate_state(count, np.uint64)]


#: The thorough run: ten seeds, and longer.
THOROUGH: dict[str, Any] = {"effort": 4.0, "repeats": 10}


class Simulated(NamedTuple):
    """Simulated data, and a line for each point that failed and is missing in them."""

    data: Data
    failures: tuple[str, ...]


def in_processes(work: Callable[..., Item], cases: Iterable[tuple[Any, ...]], jobs: int | None) -> list[Item]:
    """The results of ``work`` for each case, by so many processes; None: as ``default_processes`` says, or one."""
    with results(work, cases, jobs) as found:
        return list(found)


def as_finished(work: Callable[..., Item], cases: Sequence[tuple[Any, ...]], run: SimulationRun) -> Iterator[Item]:
    """The results of ``work``, in the order of the cases, by the processes of ``run``; how many have come is shown."""
    with results(work, cases, run.jobs) as found:
        yield from counted(found, len(cases), run.progress)


def counted(found: Iterable[Item], total: int, progress: bool | None) -> Iterator[Item]:
    """Pass results on, and show on standard error how many of ``total`` have come."""
    with progress_line(progress) as show:
        show("points", 0, total)
        for done, result in enumerate(found, 1):
            yield result
            show("points", done, total)


def kept(directory: Path | None, described: Any, compute: Callable[[], Array]) -> Array:
    """The vector that ``compute`` returns for the settings ``described``, from ``directory`` if it is there.

    It is kept there (None: nowhere); the directory is made where it is missing, or an ``OSError`` says why not.  The
    settings are all that determines the vector: numbers, strings, lists, and records of the theory.  It is computed
    if the file of these settings and this version is missing or damaged.
    """
    if directory is None:
        return compute()
    settings = [__version__, described]
    with suppress(FileNotFoundError, ValueError):  # none, or no whole one
        return np.array(cache.kept(directory, settings), np.float64)
    directory.mkdir(parents=True, exist_ok=True)
    values = compute()
    cache.keep(directory, settings, values)
    return values


def largest_allowed_z(markers: int, freedom: float = math.inf) -> float:
    """The bound of |z| of all ``markers``, dependent or not, with probability 1 − ``FALSE_ALARM`` or more.

    ``freedom``: degrees of freedom of the standard errors.
    """
    return -float(stdtrit(freedom, FALSE_ALARM / 2 / markers))


def agreement(data: Data, freedom: float = math.inf) -> str:
    """A sentence on the largest |z| of the simulated records."""
    z = np.concatenate([np.abs(s.z) for s in data if isinstance(s, SimulatedSeries)])
    return (
        f"{z.size} simulated markers: the largest |z| is {z.max():.2f} "
        f"(if all agree, above {largest_allowed_z(z.size, freedom):.2f} with probability {FALSE_ALARM:g} at most)."
    )
