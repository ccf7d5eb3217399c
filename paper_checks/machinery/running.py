"""Checks of many claims, in this process or in several.  Results do not depend on the number of processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from corrnoise.paper_checks.machinery.kills import MOST, Kills, kills
from corrnoise.paper_checks.machinery.ledger import Claim, Outcome
from corrnoise.support.workers import leave_interrupts

Result = TypeVar("Result")

FEW = 16  #: up to this many claims are checked in less time than it takes to start processes


def _check(index: int, claim: Claim, thorough: bool) -> tuple[int, Outcome]:
    """Check one claim, here or in another process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests turn them into errors
        return index, claim.check(thorough)


def _kills(index: int, claim: Claim, most: int) -> tuple[int, Kills]:
    """Try the structural mutants of one claim, here or in another process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return index, kills(claim, most)


@contextmanager
def outcomes(
    claims: Sequence[Claim], *, thorough: bool = False, jobs: int | None = None
) -> Iterator[Iterator[tuple[int, Outcome]]]:
    """Indices of ``claims`` and their outcomes, in the order in which they are finished.

    Parameters
    ----------
    claims
        Claims of the papers of the ledger.
    thorough
        As for ``Claim.check``.
    jobs
        Number of processes, of one thread each; 1: this process; −1: one for each core; None: one for each core if
        there are more than ``FEW`` claims or the check is thorough, otherwise this process.

    Raises
    ------
    OSError
        A worker process died.
    """
    if jobs is None:
        jobs = -1 if thorough or len(claims) > FEW else 1
    with _results(_check, claims, thorough, jobs) as found:
        yield found


@contextmanager
def all_kills(
    claims: Sequence[Claim], *, most: int = MOST, jobs: int | None = None
) -> Iterator[Iterator[tuple[int, Kills]]]:
    """Indices of ``claims`` and the fates of at most ``most`` structural mutants of each; see ``outcomes``."""
    with _results(_kills, claims, most, -1 if jobs is None else jobs) as found:
        yield found


@contextmanager
def _results(
    work: Callable[[int, Claim, Any], tuple[int, Result]], claims: Sequence[Claim], option: Any, jobs: int
) -> Iterator[Iterator[tuple[int, Result]]]:
    jobs = min(jobs if jobs > 0 else os.cpu_count() or 1, len(claims))
    if jobs <= 1:
        yield (work(index, claim, option) for index, claim in enumerate(claims))
    else:
        with _in_processes(work, claims, option, jobs) as results:
            yield results


@contextmanager
def _in_processes(
    work: Callable[[int, Claim, Any], tuple[int, Result]], claims: Sequence[Claim], option: Any, jobs: int
) -> Iterator[Iterator[tuple[int, Result]]]:
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel, delayed, parallel_config

    tasks = (delayed(work)(index, claim, option) for index, claim in enumerate(claims))
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1, initializer=leave_interrupts):
        results = Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        try:
            yield results
        except BrokenProcessPool as error:
            raise OSError("a worker process died; --jobs 1 checks in this process") from error
        finally:
            with warnings.catch_warnings():  # about tasks whose results are lost when the run is interrupted
                warnings.filterwarnings("ignore", r"\d+ tasks (have been successfully executed|which were still)")
                results.close()
