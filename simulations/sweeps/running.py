"""Sweeps: many simulations, on the cores of this machine or of a cluster, that can be stopped and resumed.

``sweep`` runs points in any order and anywhere.  With a directory each finished one is written there at once, whole or
not at all, as ``<key>.json``, and is never computed again.  Numbers are written so that they are read back without
loss.

A result depends on its point alone, not on the number of processes, on who ran it or on whether it was resumed, among
machines of one kind of processor.  To that end rational approximations, whose last digits can depend on the number of
threads of the linear algebra, are made here and not by the workers.  Points of one seed share their random draws, so
that differences between noises are paired comparisons.
"""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from corrnoise.simulations.quadratic import Simulation, heavy_tails_known, rational_engine, simulate
from corrnoise.simulations.sweeps.points import SweepPoint, grid
from corrnoise.support.cache import keep, kept
from corrnoise.support.cluster import client_of
from corrnoise.support.progress import progress_line
from corrnoise.support.serialise import by_name, rebuilt
from corrnoise.support.version import __version__
from corrnoise.support.workers import process_count, results
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks

__all__ = ["SweepOutcome", "SweepPoint", "grid", "simulate", "sweep"]

Result = tuple[int, Simulation | None, str | None, float]  # index of the point, simulation or error, seconds


# -- files -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SweepOutcome:
    """The outcome of a point."""

    point: SweepPoint  #: the point
    simulation: Simulation | None  #: its result; None if it failed
    error: str | None  #: what went wrong, with the name of the point; None if nothing did
    seconds: float  #: how long it took when it was computed


def store_outcome(directory: Path, outcome: SweepOutcome) -> None:
    result = {"simulation": vars(outcome.simulation), "seconds": outcome.seconds}
    keep(directory, outcome.point.description(), result)


def stored_outcome(directory: Path, point: SweepPoint) -> SweepOutcome | None:
    """The finished point, or None without one; a damaged or foreign file does not count."""
    try:
        result = kept(directory, point.description())
        return SweepOutcome(point, _simulation(result["simulation"]), None, float(result["seconds"]))
    except FileNotFoundError:
        return None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        warnings.warn(f"{point.name} is computed again ({told(error)})", RuntimeWarning, stacklevel=2)
        return None


def _simulation(record: dict[str, Any]) -> Simulation:
    noise = rebuilt(record["noise"], by_name(PoleNoise, FiniteNoise))
    estimators = {name: (float(mean), float(error)) for name, (mean, error) in record["estimators"].items()}
    numbers = ("mean", "standard_error", "effective_sample_size", "clipped_fraction")
    return Simulation(**record | {n: float(record[n]) for n in numbers} | {"noise": noise, "estimators": estimators})


# -- running -----------------------------------------------------------------------------------------------------------


def run_point(index: int, point: SweepPoint, noise: ToeplitzNoise, version: str) -> Result:
    """Run one point in one thread, with ``noise``, the rational form of its noise; called on the workers."""
    start = perf_counter()
    simulation, error = None, None
    try:
        if version != __version__:
            raise RuntimeError(f"the worker has corrnoise {__version__}, the sweep is of corrnoise {version}")
        with heavy_tails_known():  # the sweep has warned
            simulation = simulate(point.problem, noise, rng=point.seed, threads=1, progress=False, **point.options)
    except Exception as fault:
        error = told(fault)
    return index, simulation, error, perf_counter() - start


def told(fault: BaseException) -> str:
    """Kind and message of an error, in one line."""
    return f"{type(fault).__name__}: {' '.join(str(fault).split())}"


def task_of(index: int, point: SweepPoint) -> tuple[int, SweepPoint, ToeplitzNoise, str]:
    """The arguments of ``run_point``."""
    return index, point, _rational(point), __version__


def _rational(point: SweepPoint) -> ToeplitzNoise:
    """The noise that ``simulate`` runs, or the noise itself if that fails: then ``simulate`` gives the reason."""
    try:
        return rational_engine(point.problem, point.noise).noise
    except Exception:
        return point.noise


def _in_processes(points: list[SweepPoint], jobs: int) -> Iterator[Result]:
    """Run the points in worker processes; when one dies, those under way are run again at the end, one by one."""
    left = deque(enumerate(points))
    running = dict[int, SweepPoint]()

    def tasks() -> Iterator[tuple[Any, ...]]:
        while left:
            index, point = left.popleft()
            running[index] = point
            yield task_of(index, point)

    parallel = partial(results, run_point, ordered=False, batch_size=1, max_nbytes=None)
    while left:
        with suppress(BrokenProcessPool), parallel(tasks(), jobs) as found:
            for result in found:
                del running[result[0]]
                yield result
    for index, point in list(running.items()):
        try:
            with parallel([task_of(index, point)], 2) as found:  # one job would run in this process
                yield from found
        except BrokenProcessPool:
            yield index, None, "the process that ran it died", 0.0


def _on_cluster(points: list[SweepPoint], address: str) -> Iterator[Result]:
    """Run the points on the workers of a Dask scheduler."""
    with client_of(address) as client:
        from distributed import as_completed

        futures = {
            client.submit(run_point, *task_of(index, point), pure=False): index for index, point in enumerate(points)
        }
        for future in as_completed(list(futures), loop=client.loop):
            try:
                yield future.result()
            except Exception as fault:  # the worker died, or lacks a library
                yield futures[future], None, told(fault), 0.0
            del futures[future]


def _results(points: list[SweepPoint], jobs: int, cluster: str | None) -> Generator[Result, None, None]:
    if cluster is not None:
        yield from _on_cluster(points, cluster)
    elif process_count(jobs) == 1:
        yield from (run_point(*task_of(index, point)) for index, point in enumerate(points))
    else:
        yield from _in_processes(points, jobs)


def sweep(
    points: Iterable[SweepPoint],
    *,
    directory: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    cluster: str | None = None,
    progress: bool | None = None,
) -> list[SweepOutcome]:
    """Simulate ``points``, each different one once, and return what became of them in their order.

    Finished points are kept in ``directory``, one file each, and found again.  A point that failed is tried again by
    the next sweep, and so is one whose file is damaged or holds something else, with a ``RuntimeWarning``; another one
    says that the fourth moments of some points diverge, so that their standard errors mean nothing.  ``jobs`` are
    worker processes of this machine, each with one thread; −1 for one a core, 1 for none but this one.  ``cluster`` is
    the address of a Dask scheduler whose workers take their place.  They need the same version of this package, and use
    one thread a point: start them with ``--nthreads 1``.  ``progress`` None is shown on a terminal only.
    """
    points = list(points)
    for point in points:
        if not isinstance(point, SweepPoint):
            raise TypeError(f"points must be of type SweepPoint, got {point!r}")
    if jobs != -1:
        checks.integer("jobs", jobs, 1)
    found: dict[str, SweepOutcome] = {}
    missing = {point.key: point for point in points}
    if directory is not None:
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        found = {key: outcome for key, point in missing.items() if (outcome := stored_outcome(directory, point))}
    _warn_of_heavy_tails(missing.values())
    left = [point for key, point in missing.items() if key not in found]
    failed = 0
    with closing(_results(left, jobs, cluster)) as finished, progress_line(progress) as show:
        if left:
            show("points", 0, len(left))
        for done, (index, simulation, error, seconds) in enumerate(finished if left else (), 1):
            outcome = found[left[index].key] = SweepOutcome(left[index], simulation, error, seconds)
            if directory is not None and simulation is not None:
                store_outcome(directory, outcome)
            failed += error is not None
            show("points" + f", {failed} failed" * (failed > 0), done, len(left))
    outcomes = [(point, found[point.key]) for point in points]
    return [
        SweepOutcome(point, o.simulation, o.error and f"{point.name}: {o.error}", o.seconds) for point, o in outcomes
    ]


def _warn_of_heavy_tails(points: Iterable[SweepPoint]) -> None:
    distinct = {(point.problem, point.options["inputs"], point.options["clip"]): point for point in points}
    heavy = [repr(point.problem) for point in distinct.values() if not point.has_standard_error()]
    if heavy:
        warnings.warn(
            f"the fourth moments of the iterates diverge, standard errors mean nothing: {'; '.join(heavy)}",
            RuntimeWarning,
            stacklevel=3,
        )
