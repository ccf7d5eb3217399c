"""``corrnoise check``: the claims of the papers, checked afresh, as a table, in detail or as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from corrnoise import __version__, claim_options
from corrnoise.tables import aligned

if TYPE_CHECKING:
    from corrnoise.paper_checks.ledger import Claim, Outcome

SUMMARY = "check the claims of the papers: verdict, evidence, sharp constant, counterexamples"
EXAMPLE = 'corrnoise check "Lemma C.21" --thorough'
_DETAILED = 3  # claims at most that are shown in detail
_COLOURS = {"holds": "32", "holds corrected": "33", "false": "31", "not checkable": "36", "error": "31"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    claim_options.add_arguments(parser)
    parser.add_argument("--list", action="store_true", help="list the claims as recorded and stop")
    parser.add_argument("--json", action="store_true", help="print everything that was found as JSON")
    parser.add_argument("--output", metavar="FILE", help="write to this file instead of the terminal")


def run(arguments: Namespace) -> int:
    """Check the selected claims, print what was found; 0 if all is as recorded, 1 if not, 2 for an unknown name."""
    try:
        chosen = claim_options.selected(arguments)
    except ValueError as error:
        print(f"corrnoise check: error: {error}", file=sys.stderr)
        return 2
    path = None if arguments.output is None else claim_options.output_path(arguments.output)
    outcomes = [] if arguments.list else claim_options.checked(chosen, arguments)
    if arguments.list:
        text = _listing(chosen, arguments.json)
    elif arguments.json:
        text = _json(outcomes, arguments.thorough)
    else:
        text = _report(outcomes, colour=path is None and _coloured())
    if path is None:
        print(text)
    else:
        from corrnoise.support.files import write_whole

        write_whole(path, text + "\n")
        print(path)
    return claim_options.exit_status(outcomes)


# -- what is shown -----------------------------------------------------------------------------------------------------


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _json(outcomes: Sequence[Outcome], thorough: bool) -> str:
    from corrnoise.paper_checks.records import outcome_record

    record = {"corrnoise": __version__, "thorough": thorough, "agree": all(outcome.agrees for outcome in outcomes)}
    return json.dumps(
        record | {"outcomes": [outcome_record(outcome) for outcome in outcomes]},
        indent=1,
        ensure_ascii=False,
        allow_nan=False,
    )


def _listing(claims: Sequence[Claim], as_json: bool) -> str:
    if as_json:
        from corrnoise.paper_checks.records import claim_record

        return json.dumps([claim_record(claim) for claim in claims], indent=1, ensure_ascii=False, allow_nan=False)
    rows = [["paper", "statement", "recorded", "evidence"]]
    return "\n".join(aligned(rows + [[c.paper, c.name, c.recorded, c.evidence] for c in claims]))


def _sharp(outcome: Outcome) -> str:
    return "" if outcome.sharp is None else f"{outcome.claim.sharp} = {outcome.sharp:.5g}"


def _report(outcomes: Sequence[Outcome], *, colour: bool) -> str:
    """The table, details where there are few claims, and one line that sums up."""
    titles = ["paper", "statement", "verdict", "evidence", "margin", "sharp constant", "seconds", ""]
    rows = [
        [
            o.claim.paper,
            o.claim.name,
            o.verdict,
            o.claim.evidence,
            f"{o.margin:.3g}",
            _sharp(o),
            f"{o.seconds:.2f}",
            mark,
        ]
        for o, mark in ((outcome, "" if outcome.agrees else "DISAGREES") for outcome in outcomes)
    ]
    head, *lines = aligned([titles, *rows])
    if colour:
        head = f"\x1b[1m{head}\x1b[0m"
        codes = [_COLOURS[o.verdict] if o.agrees else "1;31" for o in outcomes]
        lines = [f"\x1b[{code}m{line}\x1b[0m" for code, line in zip(codes, lines, strict=True)]
    details = [_details(outcome) for outcome in outcomes] if len(outcomes) <= _DETAILED else []
    counts = Counter(outcome.verdict for outcome in outcomes)
    failed = sum(not outcome.agrees for outcome in outcomes)
    summary = f"{len(outcomes)} claims: {', '.join(f'{count} {verdict}' for verdict, count in counts.items())}; "
    summary += f"{failed} not as recorded" if failed else "all as recorded"
    return "\n\n".join(
        ["\n".join([head, *lines]), *details, summary.replace("1 claims", "1 claim", len(outcomes) == 1)]
    )


def _shown(value: Any) -> str:
    import numpy as np

    if isinstance(value, np.ndarray | np.generic | float):
        return np.array2string(np.asarray(value), precision=8, separator=", ", threshold=12)
    return str(value)


def _at(arguments: Any) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in arguments.items())


def _details(outcome: Outcome) -> str:
    """All there is to say about one claim."""
    from corrnoise.paper_checks.mathematics import plain

    claim, found, certificate = outcome.claim, outcome.counterexample, outcome.certificate
    sides = ("left", "right") if claim.relation == "=" else ("smaller", "larger")
    lines = [
        ("as printed", claim.printed),
        ("as corrected", claim.corrected),
        ("transcription", claim.transcription and f"restored after conversion: {claim.transcription}"),
        ("verdict", outcome.verdict + " (a conjecture)" * claim.conjecture),
        ("not checkable", claim.unverifiable),
        ("disagrees", outcome.reason),
        *(("note" if k == 0 else "", paragraph) for k, paragraph in enumerate(claim.note.split("\n\n"))),
        ("proof", claim.proof),
        ("evidence", claim.evidence),
        ("certificate", certificate and f"{certificate.answer}, {certificate.boxes} boxes"),
        ("outside of it", claim.outside),
        ("domain", str(claim.domain) or "no arguments"),
        ("margin", f"{outcome.margin:.6g} ({outcome.accepted} of {outcome.tried} points lie in the domain)"),
        ("worst case", _at(outcome.worst)),
        ("sharp constant", _sharp(outcome)),
        ("counterexample", found and f"{_at({**found.arguments, **claim.as_printed})}:"),
        *(("", f"{name} side {_shown(side)}") for name, side in zip(sides, found.sides if found else (), strict=False)),
        ("mutants", "; ".join(f"{name} ({'rejected' if no else 'accepted'})" for name, no in outcome.mutants)),
        ("seconds", f"{outcome.seconds:.2f}"),
    ]
    width = max(shutil.get_terminal_size((100, 24)).columns, 60)
    texts = [f"{claim.name}, {claim.paper} ({claim.source})"]
    for title, text in lines:
        if text:
            indent = f"  {title:<16}"
            texts += textwrap.wrap(plain(text), width, initial_indent=indent, subsequent_indent=" " * len(indent))
    return "\n".join(texts)
