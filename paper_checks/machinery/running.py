"""Checks of many claims, in this process or in several.  Results do not depend on the number of processes."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from corrnoise.paper_checks.machinery.ledger import Claim, Outcome
from corrnoise.support import workers

Result = TypeVar("Result")

FEW = 16  #: up to this many claims are checked in less time than it takes to start processes


def _check(claim: Claim, thorough: bool) -> Outcome:
    """Check one claim, here or in another process."""
    return claim.check(thorough)


@contextmanager
def outcomes(
    claims: Sequence[Claim], *, thorough: bool = False, jobs: int | None = None
) -> Iterator[Iterator[tuple[int, Outcome]]]:
    """Indices of ``claims`` and their outcomes, as ``results`` has them.

    If ``jobs`` is None there is one process for each core if there are more than ``FEW`` claims or the check is thorough,
    otherwise this process.
    """
    if jobs is None:
        jobs = -1 if thorough or len(claims) > FEW else 1
    with results(partial(_check, thorough=thorough), claims, jobs) as found:
        yield found


@contextmanager
def results(
    work: Callable[[Claim], Result], claims: Sequence[Claim], jobs: int
) -> Iterator[Iterator[tuple[int, Result]]]:
    """Indices of ``claims`` and what ``work`` returns for them, as soon as they are ready.

    ``work`` is a function that other processes can import, and the claims are in the ledger.  ``jobs`` is the number
    of processes, of one thread each; 1: this process; −1: one for each core.  A worker that dies is an ``OSError``.
    """
    jobs = workers.process_count(jobs, len(claims))
    if jobs == 1:
        yield ((index, work(claim)) for index, claim in enumerate(claims))
    else:
        with _in_processes(work, claims, jobs) as found:
            yield found


def _numbered(work: Callable[[Claim], Result], index: int, claim: Claim) -> tuple[int, Result]:
    return index, work(claim)


@contextmanager
def _in_processes(
    work: Callable[[Claim], Result], claims: Sequence[Claim], jobs: int
) -> Iterator[Iterator[tuple[int, Result]]]:
    from concurrent.futures.process import BrokenProcessPool

    tasks = ((work, index, claim) for index, claim in enumerate(claims))
    with workers.results(_numbered, tasks, jobs, ordered=False, batch_size=1, inner_max_num_threads=1) as found:
        try:
            yield found
        except BrokenProcessPool as error:
            raise OSError("a worker process died; --jobs 1 checks in this process") from error
