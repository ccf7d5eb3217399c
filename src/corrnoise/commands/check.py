"""``corrnoise check``: check the claims of the papers, and print a table, details or JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from corrnoise.commands import claims
from corrnoise.commands.options import UsageError
from corrnoise.commands.tables import aligned
from corrnoise.support.version import __version__

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.ledger import Outcome
    from corrnoise.paper_checks.machinery.papers import ListedClaim

SUMMARY = "check the claims of the papers: verdict, evidence, sharp constant, counterexamples"
EXAMPLE = "corrnoise check Lemma C.21 --thorough"
_MAX_BOXES = 20_000  # of the certificate of an inequality
_MAX_DETAILED_CLAIMS = 3  # claims at most that are shown in detail without being asked
_VERDICT_COLOURS = {
    "holds": "32",
    "holds corrected": "33",
    "false": "31",
    "open": "36",
    "no data": "36",
    "vacuous": "36",
    "error": "31",
}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    claims.add_arguments(parser)
    parser.add_argument("--list", action="store_true", help="list the claims as recorded and stop")
    parser.add_argument(
        "--details", action="store_true", help=f"details of each claim (default: of {_MAX_DETAILED_CLAIMS} at most)"
    )
    parser.add_argument("--json", action="store_true", help="print everything that was found as JSON")
    parser.add_argument("--output", metavar="FILE", help="write to this file instead of the terminal")
    parser.add_argument("--inequality", metavar="TEXT", help="certify this inequality, as 'x*log(4/x) <= log(2-x)'")
    parser.add_argument(
        "--for", dest="ranges", metavar="RANGES", help="the ranges of its variables, as '0 < x <= 0.19'"
    )
    parser.add_argument("--certificate", metavar="FILE", help="write the proof of the inequality to this file as JSON")
    parser.add_argument("--coq", metavar="FILE", help="write the inequality to this file as a theorem in Coq")


def run(arguments: Namespace) -> int:
    """Check the selected claims, print the outcomes; 0 if all is as recorded, 1 if not, 2 for an unknown name."""
    if arguments.inequality is not None or arguments.ranges is not None:
        return _inequality(arguments)
    if arguments.certificate is not None or arguments.coq is not None:
        raise UsageError("--certificate and --coq need --inequality and --for")
    chosen = claims.selected(arguments, claims.among(arguments))
    path = None if arguments.output is None else claims.output_path(arguments.output)
    outcomes = [] if arguments.list else claims.checked(chosen, arguments)
    if arguments.list:
        text = _listing(chosen, arguments.json)
    elif arguments.json:
        text = _json(outcomes, arguments.thorough)
    else:
        text = _report(outcomes, detailed=arguments.details, terminal=path is None and sys.stdout.isatty())
    if path is None:
        print(text)
    else:
        from corrnoise.support.files import write_whole

        write_whole(path, text + "\n")
        print(path)
    return claims.exit_status(outcomes)


# -- an inequality -----------------------------------------------------------------------------------------------------


def _inequality(arguments: Namespace) -> int:
    """Certify the inequality of the command line; 0 proved, 1 refuted, 4 open."""
    from corrnoise.paper_checks.machinery.expressions import statement
    from corrnoise.support.files import write_whole

    if arguments.names or arguments.inequality is None or arguments.ranges is None:
        raise UsageError("an inequality needs --inequality and --for, and no names of claims")
    try:
        stated = statement(arguments.inequality, arguments.ranges)
    except ValueError as error:
        raise UsageError(str(error)) from error
    found = stated.certify(boxes=_MAX_BOXES * (32 if arguments.thorough else 1), seconds=None)
    lines = [f"{found.answer} on {found.boxes} boxes"]
    if found.place is not None:
        where = ", ".join(f"{name} = {value!r}" for name, value in found.place.items())
        lines.append(f"{'false' if found.answer == 'refuted' else 'undecided'} at {where}")
    lines += [f"left out: {stated.left_out}"] if stated.left_out else []
    record = found.record(f"{arguments.inequality} for {arguments.ranges}") if found.answer == "proved" else None
    if arguments.certificate is not None and record is not None:
        write_whole(arguments.certificate, json.dumps(record) + "\n")
        lines.append(f"certificate: {arguments.certificate}")
    if arguments.coq is not None:
        write_whole(arguments.coq, stated.coq("statement"))
        lines.append(f"theorem: {arguments.coq}")
    place = found.place and dict(found.place)
    answer = {"answer": found.answer, "boxes": found.boxes, "place": place, "certificate": record}
    print(json.dumps(answer) if arguments.json else "\n".join(lines))
    return {"proved": 0, "refuted": 1}.get(found.answer, 4)


# -- records -----------------------------------------------------------------------------------------------------------


def _json(outcomes: Sequence[Outcome], thorough: bool) -> str:
    from corrnoise.paper_checks.machinery.records import outcome_record

    record = {"corrnoise": __version__, "thorough": thorough, "agree": all(outcome.agrees for outcome in outcomes)}
    return json.dumps(
        record | {"outcomes": [outcome_record(outcome) for outcome in outcomes]},
        indent=1,
        allow_nan=False,
    )


def _listing(chosen: Sequence[ListedClaim], as_json: bool) -> str:
    if as_json:
        from corrnoise.paper_checks.machinery.records import claim_record

        return json.dumps([claim_record(one.claim) for one in chosen], indent=1, allow_nan=False)
    rows = [["paper", "statement", "recorded", "evidence"]]
    return "\n".join(aligned(rows + [[c.paper, c.name, c.recorded, c.support] for c in chosen]))


# -- text --------------------------------------------------------------------------------------------------------------


def _report(outcomes: Sequence[Outcome], *, detailed: bool, terminal: bool) -> str:
    """A table with a reason for each verdict, or details of each claim; then a legend and a summary line."""
    width = max(shutil.get_terminal_size((100, 24)).columns, 60)
    coloured = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    if detailed or len(outcomes) <= _MAX_DETAILED_CLAIMS:
        parts = [_details(outcome, width, coloured) for outcome in outcomes]
    else:
        parts = [*_tables(outcomes, width if terminal else None, coloured), _legend(outcomes, width)]
    return "\n\n".join([*parts, _summary(outcomes)])


def _painted(text: str, outcome: Outcome, coloured: bool) -> str:
    code = _VERDICT_COLOURS[outcome.verdict] if outcome.agrees else "1;31"
    return f"\x1b[{code}m{text}\x1b[0m" if coloured else text


def _tables(outcomes: Sequence[Outcome], width: int | None, coloured: bool) -> list[str]:
    """A table for each paper; lines longer than ``width`` are cut."""
    from corrnoise.paper_checks.machinery.wording import reason
    from corrnoise.support.mathematics import plain

    rows = [[o.claim.name, o.verdict, o.claim.support, " ".join(plain(reason(o)).split())] for o in outcomes]
    lines = iter(aligned(rows))
    tables = []
    for (paper, source), found in groupby(outcomes, key=lambda outcome: (outcome.claim.paper, outcome.claim.source)):
        table = [f"{paper} ({source})"]
        for outcome in found:
            line = next(lines)
            cut = line if width is None or len(line) <= width else line[: width - 1] + "…"
            table.append(_painted(cut, outcome, coloured))
        tables.append("\n".join(table))
    return tables


def _legend(outcomes: Sequence[Outcome], width: int) -> str:
    """The meaning of the verdicts and kinds of evidence that occur."""
    from corrnoise.paper_checks.machinery.verdicts import EVIDENCE, VERDICTS

    claims = [outcome.claim for outcome in outcomes]
    found = {outcome.verdict for outcome in outcomes} | {
        kind for claim in claims for kind in (claim.evidence, claim.repair_evidence)
    }
    meanings = [(word, meaning) for word, meaning in (*VERDICTS.items(), *EVIDENCE.items()) if word in found]
    return "\n".join(line for word, meaning in meanings for line in _wrapped(word, meaning, width, indent=""))


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(outcome.verdict for outcome in outcomes)
    failed = sum(not outcome.agrees for outcome in outcomes)
    number = f"{len(outcomes)} claim" + "s" * (len(outcomes) != 1)
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    found = f"{number}: {verdicts}; " + (f"{failed} not as recorded" if failed else "all as recorded")
    return found if len(outcomes) == 1 else f"{found}\n{_evidence(outcomes)}"


def _evidence(outcomes: Sequence[Outcome]) -> str:
    """The matrix of truth and evidence of the records, and the sentence about it."""
    from corrnoise.paper_checks.machinery.headline import headline

    found = headline([outcome.claim for outcome in outcomes])
    rows = [["", *found.columns], *([row, *map(str, counts)] for row, counts in found.rows)]
    return "\n".join([*aligned(rows), found.sentence])


def _wrapped(title: str, text: str, width: int, indent: str = "  ") -> list[str]:
    """A text with a title, wrapped to ``width`` characters."""
    first = f"{indent}{title:<18}"
    return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=" " * len(first))


def _details(outcome: Outcome, width: int, coloured: bool) -> str:
    """All information about one claim."""
    from corrnoise.paper_checks.machinery import wording
    from corrnoise.support.mathematics import plain

    claim = outcome.claim
    notes = [("" if k else "note", paragraph) for k, paragraph in enumerate(claim.note.split("\n\n"))]
    lines = [
        *wording.statement(claim),
        ("verdict", _painted(outcome.verdict, outcome, coloured)),
        ("disagrees", outcome.reason),
        *notes,
        ("proof", claim.proof or ""),
        ("disproof", claim.disproof or ""),
        ("rests on", ", ".join(claim.rests_on)),
        *wording.counterexample(outcome),
        *wording.check(outcome),
    ]
    texts = [f"{claim.name}, {claim.paper} ({claim.source})"]
    for title, text in lines:
        if text:
            texts += _wrapped(title, plain(text), width)
    return "\n".join(texts)
