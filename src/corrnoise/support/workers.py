"""Worker processes of this machine, if the extra ``parallel`` is installed; otherwise this process does the work."""

from __future__ import annotations

import functools
import logging
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from itertools import starmap
from typing import Any, TypeVar

Item = TypeVar("Item")

_default_jobs = ContextVar("default_jobs", default=1)


def leave_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes: the process that started the workers ends them.

    Every worker runs it first.  Otherwise a worker that is between two tasks prints a traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def process_count(jobs: int | None, tasks: int | None = None) -> int:
    """Return the number of worker processes for some tasks; 1 stands for this process.

    Without joblib it is 1.  The log says so once, if more were requested.

    Parameters
    ----------
    jobs : int, optional
        The requested number of processes, −1 for one per core; None: the number of ``default_processes``, or 1.
    tasks : int, optional
        The number of tasks, if it is known.

    Returns
    -------
    int
        The number of processes, at least 1.
    """
    jobs = _default_jobs.get() if jobs is None else jobs
    count = jobs if jobs > 0 else os.cpu_count() or 1
    count = max(count if tasks is None else min(count, tasks), 1)
    if count > 1 and find_spec("joblib") is None:
        _log_missing_joblib()
        return 1
    return count


@functools.cache
def _log_missing_joblib() -> None:
    logging.getLogger(__name__).warning(
        "joblib is not installed, so one process does all the work: pip install 'corrnoise[parallel]'"
    )


@contextmanager
def default_processes(jobs: int) -> Iterator[None]:
    """Make ``jobs`` processes the default of ``results`` in a block.

    Parameters
    ----------
    jobs : int
        The number of processes; −1 for one per core.
    """
    token = _default_jobs.set(jobs)
    try:
        yield
    finally:
        _default_jobs.reset(token)


@contextmanager
def results(
    work: Callable[..., Item],
    cases: Iterable[tuple[Any, ...]],
    jobs: int | None,
    *,
    ordered: bool = True,
    **options: Any,
) -> Iterator[Iterator[Item]]:
    """Yield the results of a function for many cases; the end of the block stops the worker processes.

    Parameters
    ----------
    work : Callable
        A function that other processes can import.
    cases : Iterable[tuple]
        The arguments of each call.
    jobs : int, optional
        The number of processes, as in ``process_count``.
    ordered : bool
        Whether results come in the order of the cases, or as soon as they are ready.
    **options : Any
        Further options of ``joblib.Parallel``.

    Yields
    ------
    Iterator
        The results.
    """
    count = process_count(jobs)
    if count == 1:
        yield starmap(work, cases)
        return
    from joblib import Parallel, delayed

    class Workers(Parallel):
        def _warn_exit_early(self) -> None:
            """Drop results without a warning: only an interrupt or an error ends the block early, and says so."""

    options |= {"return_as": "generator" if ordered else "generator_unordered", "initializer": leave_interrupts}
    found = Workers(count, "loky", **options)(delayed(work)(*case) for case in cases)
    try:
        yield found
    finally:
        found.close()
