"""The common part of ``check`` and ``report``: options, the run with its progress bar, and the exit status."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import UsageError, jobs
from corrnoise.support.process import require_docstrings
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.ledger import Outcome
    from corrnoise.paper_checks.machinery.papers import ListedClaim, Paper


def _option(name: str, text: str) -> str:
    """One of the words in the table ``name`` of the ledger, in any case and with dashes or blanks."""
    from corrnoise.paper_checks.machinery import verdicts

    options: dict[str, str] = getattr(verdicts, name)
    wanted = text.replace("-", " ").lower()
    if wanted not in options:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(options)}")
    return wanted


def _verdict(text: str) -> str:
    return _option("VERDICTS", text)


def _evidence(text: str) -> str:
    return _option("EVIDENCE", text)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments that select claims, and the arguments of their checks."""
    parser.add_argument(
        "names",
        metavar="PAPER|CLAIM|FILE",
        nargs="*",
        help="papers and claims by the beginning of their names, such as 2310.06771, Lemma C.21, 'eq. (5)'; "
        "papers restrict claims; a file with claims that ends in .py is executed, and only its claims are checked "
        "(default: all)",
    )
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument(
        "--verdict",
        type=_verdict,
        metavar="V",
        help="only claims with this recorded verdict; may be repeated",
        **several,
    )
    parser.add_argument(
        "--evidence", type=_evidence, metavar="E", help="only claims with this evidence; may be repeated", **several
    )
    parser.add_argument("--thorough", action="store_true", help="search 32 times longer")
    parser.add_argument(
        "--jobs",
        type=jobs,
        metavar="N",
        help="number of processes; -1: one for each core (default: 1 for a few claims, otherwise -1)",
    )


def among(arguments: Namespace) -> tuple[Paper, ...]:
    """The papers of the files that are named, or all of the ledger; the names of the files are taken away."""
    from corrnoise.paper_checks.loading import load, papers

    files = [name for name in arguments.names if name.endswith(".py") and Path(name).is_file()]
    arguments.names = [name for name in arguments.names if name not in files]
    return tuple(paper for name in files for paper in load(name)) or papers()


def selected(arguments: Namespace, papers: Sequence[Paper]) -> tuple[ListedClaim, ...]:
    """The selected claims of these papers; remarks on names that mean many claims go to standard error.

    Raises
    ------
    UsageError
        If no claim is selected.
    """
    from corrnoise.paper_checks.machinery.selection import select

    try:
        chosen, remarks = select(papers, arguments.names)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for remark in remarks:
        print(f"corrnoise: note: {remark}", file=sys.stderr)
    wanted, evidence = arguments.verdict, arguments.evidence
    chosen = tuple(claim for claim in chosen if not wanted or claim.recorded in wanted)
    chosen = tuple(claim for claim in chosen if not evidence or {claim.evidence, claim.repair_evidence} & {*evidence})
    if not chosen:
        raise UsageError("no claim has the requested verdict and evidence")
    return chosen


def checked(chosen: Sequence[ListedClaim], arguments: Namespace) -> list[Outcome]:
    """The outcomes of the checks, in the order of the claims; a bar shows the progress.

    The foundations of the claims are checked too, and a foundation that is not as recorded shows in their outcomes.
    """
    require_docstrings("the claims")
    found: dict[int, Outcome] = {}
    with progress_line() as show:
        show("loading the claims")
        from corrnoise.paper_checks.loading import papers
        from corrnoise.paper_checks.machinery import running
        from corrnoise.paper_checks.machinery.foundations import Foundations

        holders = {one.holder.name: one.holder for one in chosen}
        foundations = Foundations(tuple({one.name: one for one in (*papers(), *holders.values())}.values()))
        wanted = [one.claim for one in chosen]
        claims = (*wanted, *(claim for claim in foundations.below(wanted) if claim not in set(wanted)))
        importable = all(paper.package for paper in holders.values())  # by other processes
        jobs = arguments.jobs if importable else 1
        with running.outcomes(claims, thorough=arguments.thorough, jobs=jobs) as results:
            show("claims", 0, len(claims))
            for index, outcome in results:
                found[index] = outcome
                show(outcome.claim.name, len(found), len(claims))
    return foundations.applied(found[index] for index in range(len(claims)))[: len(wanted)]


def output_path(output: str) -> Path:
    """The file to write; raise ``OSError`` before the work begins if it cannot be written."""
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise OSError(f"--output must be a file in an existing folder, got {output}")
    return path


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """0 if all outcomes are as recorded, otherwise 1, with a line on standard error for each that is not."""
    failures = [outcome for outcome in outcomes if not outcome.agrees]
    for outcome in failures:
        print(f"corrnoise: disagrees: {outcome.claim.paper}, {outcome.claim.name}: {outcome.reason}", file=sys.stderr)
    return 1 if failures else 0
