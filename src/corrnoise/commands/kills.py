"""``corrnoise check --mutants``: try structural mutants of the claims, print and keep how they fared."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from corrnoise.commands import claims
from corrnoise.commands.tables import aligned
from corrnoise.support.files import write_whole
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.kills import Kills
    from corrnoise.paper_checks.machinery.ledger import Claim

_SURVIVORS = 3  # claims at most whose survivors are listed without being asked


def run(chosen: Sequence[Claim], arguments: Namespace) -> int:
    """Try the mutants of the chosen claims; 0, because a mutant that survives may be true."""
    from corrnoise.paper_checks.machinery.kills import remarks, written

    record = None if arguments.record is None else claims.output_path(arguments.record)
    found = _tried(chosen, arguments, record)
    if record is not None:
        for remark in remarks({claim.identifier: kills for claim, kills in zip(chosen, found, strict=True)}):
            print(f"corrnoise: note: {remark}", file=sys.stderr)
    if arguments.json:
        text = written({claim.identifier: kills for claim, kills in zip(chosen, found, strict=True)}).rstrip()
    else:
        text = _table(chosen, found, details=arguments.details or len(chosen) <= _SURVIVORS)
    if arguments.output is None:
        print(text)
    else:
        path = claims.output_path(arguments.output)
        write_whole(path, text + "\n")
        print(path)
    return 0


def _tried(chosen: Sequence[Claim], arguments: Namespace, path: Path | None) -> list[Kills]:
    """How the mutants fared, in the order of the claims; finished claims are kept in ``path`` at once.

    Claims that are in the record, and have not changed since, are not tried again.
    """
    from corrnoise.paper_checks.machinery import kills, running

    known = kills.read(path.read_text(encoding="utf-8")) if path is not None and path.is_file() else {}
    open_claims = [c for c in chosen if c.identifier not in known or not kills.is_current(known[c.identifier], c)]
    with progress_line() as show, running.all_kills(open_claims, jobs=arguments.jobs) as results:
        for done, (index, found) in enumerate(results, start=len(chosen) - len(open_claims) + 1):
            known[open_claims[index].identifier] = found
            if path is not None:
                write_whole(path, kills.written(known))
            show(f"{claims.bar(done, len(chosen))} {open_claims[index].name}")
    return [known[claim.identifier] for claim in chosen]


def _table(chosen: Sequence[Claim], found: Sequence[Kills], details: bool) -> str:
    """A line for each claim, its survivors if ``details``, and a legend with the sum."""
    from corrnoise.paper_checks.machinery.kills import FATES, reasons_for
    from corrnoise.paper_checks.machinery.wording import NO_REASON

    rows = [["paper", "statement", *FATES, "of"]]
    for claim, kills in zip(chosen, found, strict=True):
        counts = [str(kills.fates.get(fate, 0)) for fate in FATES]
        rows.append([claim.paper, claim.name, *counts, str(kills.of)])
    head, *lines = aligned(rows)
    listed = [head]
    for claim, line, kills in zip(chosen, lines, found, strict=True):
        listed.append(line)
        if details:
            known = reasons_for(claim)
            for mutant, margin in kills.survivors:
                listed += [f"    survived, smallest margin {margin:.3g}: {mutant}"]
                listed += [f"        {known.get(mutant, NO_REASON)}"]
    total: Counter[str] = sum((Counter(kills.fates) for kills in found), Counter())
    legend = [f"{total[fate]:>6} {fate}: {meaning}" for fate, meaning in FATES.items()]
    return "\n".join([*listed, "", *legend])


def refuse(arguments: Namespace) -> str | None:
    """Why the options do not fit together, or None."""
    if arguments.record is not None and not arguments.mutants:
        return "--record keeps the fates of mutants and needs --mutants"
    if arguments.mutants and arguments.list:
        return "--mutants and --list exclude each other"
    return None


def complain(reason: str) -> int:
    """Say why a command line is refused; its exit status."""
    print(f"corrnoise check: error: {reason}", file=sys.stderr)
    return 2
