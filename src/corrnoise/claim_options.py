"""What the commands on claims share: which claims, how hard and how many at a time, a bar, and a file that is whole."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.options import jobs
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.paper_checks.ledger import Claim, Outcome


def _option(names: str, text: str) -> str:
    """One of the constants ``names`` of the ledger, in any case and with dashes or blanks."""
    from corrnoise.paper_checks import ledger

    options: tuple[str, ...] = getattr(ledger, names)
    wanted = text.replace("-", " ").lower()
    if wanted not in options:
        raise ArgumentTypeError(f"{text!r} is none of {', '.join(options)}")
    return wanted


def _verdict(text: str) -> str:
    return _option("VERDICTS", text)


def _evidence(text: str) -> str:
    return _option("EVIDENCE", text)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare which claims are meant, and how they are checked."""
    parser.add_argument(
        "names",
        metavar="PAPER|CLAIM",
        nargs="*",
        help="papers and claims by the beginning of their names (default: all)",
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
    parser.add_argument("--jobs", type=jobs, default=-1, metavar="N", help="claims at a time (default: -1, one a core)")


def selected(arguments: Namespace) -> list[Claim]:
    """The claims that are meant.

    Raises
    ------
    ValueError
        There are none.
    """
    from corrnoise.paper_checks import claims
    from corrnoise.paper_checks.checking import named

    chosen = named(claims(), arguments.names)
    chosen = [claim for claim in chosen if not arguments.verdict or claim.recorded in arguments.verdict]
    chosen = [claim for claim in chosen if not arguments.evidence or claim.evidence in arguments.evidence]
    if not chosen:
        raise ValueError("no claim has the verdict and the evidence asked for")
    return chosen


def checked(claims: Sequence[Claim], arguments: Namespace) -> list[Outcome]:
    """What checking finds, in the order of the claims."""
    from corrnoise.paper_checks.checking import outcomes

    found: dict[int, Outcome] = {}
    with progress_line() as show, outcomes(claims, arguments.thorough, arguments.jobs) as results:
        show(_bar(0, len(claims)))
        for index, outcome in results:
            found[index] = outcome
            show(f"{_bar(len(found), len(claims))} {outcome.claim.name}")
    return [found[index] for index in range(len(claims))]


def _bar(done: int, total: int) -> str:
    filled = 20 * done // total
    return f"{'█' * filled}{'░' * (20 - filled)} {done}/{total}"


def output_path(output: str) -> Path:
    """The file to write, which is refused before the work begins rather than after it."""
    path = Path(output)
    if path.is_dir() or not path.parent.is_dir():
        raise OSError(f"--output must be a file in an existing folder, got {output}")
    return path


def exit_status(outcomes: Sequence[Outcome]) -> int:
    """1 if an outcome is not as recorded, and then a line on standard error for each; else 0."""
    failures = [outcome for outcome in outcomes if not outcome.agrees]
    for outcome in failures:
        print(f"corrnoise: disagrees: {outcome.claim.paper}, {outcome.claim.name}: {outcome.reason}", file=sys.stderr)
    return 1 if failures else 0
