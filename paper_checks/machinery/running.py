"""Many claims, checked one after another or in processes.  Results do not depend on the number of processes."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from corrnoise.paper_checks.machinery.ledger import Claim, Outcome

FEW = 16  #: so many claims are checked sooner than processes start


def _check(index: int, claim: Claim, thorough: bool) -> tuple[int, Outcome]:
    """Check one claim, here or in another process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests make errors of them
        return index, claim.check(thorough)


@contextmanager
def outcomes(
    claims: Sequence[Claim], *, thorough: bool = False, jobs: int | None = None
) -> Iterator[Iterator[tuple[int, Outcome]]]:
    """Indices of ``claims`` and their outcomes as they come.

    Parameters
    ----------
    claims
        Claims of the papers of the ledger.
    thorough
        As for ``Claim.check``.
    jobs
        Claims at a time, each in a process of one thread where there are several; −1: one a core; None: one a core if
        there are more than ``FEW`` claims or the check is thorough, else one.

    Raises
    ------
    OSError
        A worker process died.
    """
    if jobs is None:
        jobs = -1 if thorough or len(claims) > FEW else 1
    jobs = min(jobs if jobs > 0 else os.cpu_count() or 1, len(claims))
    if jobs <= 1:
        yield (_check(index, claim, thorough) for index, claim in enumerate(claims))
    else:
        with _in_processes(claims, thorough, jobs) as results:
            yield results


@contextmanager
def _in_processes(claims: Sequence[Claim], thorough: bool, jobs: int) -> Iterator[Iterator[tuple[int, Outcome]]]:
    from concurrent.futures.process import BrokenProcessPool

    from joblib import Parallel, delayed, parallel_config

    tasks = (delayed(_check)(index, claim, thorough) for index, claim in enumerate(claims))
    with parallel_config("loky", n_jobs=jobs, inner_max_num_threads=1):
        results = Parallel(return_as="generator_unordered", batch_size=1)(tasks)
        try:
            yield results
        except BrokenProcessPool as error:
            raise OSError("a worker process died; --jobs 1 checks in this process") from error
        finally:
            with warnings.catch_warnings():  # of tasks that were for nothing, when an interrupt ends the run
                warnings.filterwarnings("ignore", r"\d+ tasks (have been successfully executed|which were still)")
                results.close()
