"""Many claims: which ones a name means, and checking them side by side.

A name selects papers and claims by what their names begin with: ``correlated-noise``, ``"Lemma C.21"``, ``C.21`` and
``"lemma c.21(i)"`` all do.  Results do not depend on the number of processes.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from difflib import get_close_matches

from joblib import Parallel, delayed, parallel_config

from corrnoise.paper_checks.ledger import Claim, Outcome

# -- names -------------------------------------------------------------------------------------------------------------


def _key(text: str) -> str:
    """Words of letters, digits and dots, in lower case: all that tells names apart."""
    return " ".join(re.findall(r"[\w.]+", text.lower()))


def _begins(name: str, wanted: str, *, within: bool = False) -> bool:
    """Whether ``name`` begins with ``wanted``, up to a blank or dot, or ``within`` a word but never within a number."""
    rest = name.removeprefix(wanted)
    if not wanted or not name.startswith(wanted):
        return False
    return rest[:1] in ("", " ", ".") or (within and not (wanted[-1].isdigit() and rest[0].isdigit()))


def _keys(claim: Claim) -> list[str]:
    """What a claim is called: with its paper, by its name, and without the kind of statement."""
    name = _key(claim.name)
    label = name.partition(" ")[2]
    return [_key(f"{claim.paper} {claim.name}"), name, *([label] if label else [])]


def named(claims: Sequence[Claim], names: Sequence[str]) -> list[Claim]:
    """The claims that any of ``names`` names, in the order of ``claims``; without names all of them.

    Raises
    ------
    ValueError
        A name selects nothing; the message says which names are close.
    """
    keys = {claim: _keys(claim) for claim in claims}
    chosen: dict[Claim, None] = {}
    for name in names:
        for within in (False, True):
            found = [claim for claim in claims if any(_begins(key, _key(name), within=within) for key in keys[claim])]
            if found:
                break
        else:
            shown = {key: claim.name for claim in claims for key in keys[claim][1:]}
            shown |= {_key(claim.paper): claim.paper for claim in claims}
            close = dict.fromkeys(shown[key] for key in get_close_matches(_key(name), shown, n=5, cutoff=0.6))
            hint = f"close are {', '.join(close)}; " if close else ""
            raise ValueError(f"there is no paper or claim {name!r}; {hint}corrnoise check --list shows all")
        chosen |= dict.fromkeys(found)
    return [claim for claim in claims if not names or claim in chosen]


# -- checking ----------------------------------------------------------------------------------------------------------


def _check(index: int, claim: Claim, thorough: bool) -> tuple[int, Outcome]:
    """Check one claim, here or in another process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the tests make errors of them
        return index, claim.check(thorough)


@contextmanager
def outcomes(claims: Sequence[Claim], thorough: bool, jobs: int) -> Iterator[Iterator[tuple[int, Outcome]]]:
    """Indices of ``claims`` and their outcomes as they come.

    Parameters
    ----------
    claims
        Claims of the papers of the ledger.
    thorough
        As for ``Claim.check``.
    jobs
        Claims at a time, each in a process of one thread where there are several; −1: one a core.

    Raises
    ------
    OSError
        A worker process died.
    """
    jobs = min(jobs if jobs > 0 else os.cpu_count() or 1, len(claims))
    if jobs == 1:
        yield (_check(index, claim, thorough) for index, claim in enumerate(claims))
        return
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
