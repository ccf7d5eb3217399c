"""Mutation testing: ``python -m tools.mutation`` changes formulas by machine, and an oracle must notice.

``tests`` changes the files of ``theory/``, and asks the tests that reach them; ``claims`` changes the formulas that the
claims of the ledger run, and asks the checks of these claims.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from functools import partial

from corrnoise.commands.options import jobs
from corrnoise.commands.tables import aligned
from corrnoise.paper_checks import claims as claims_of
from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery import running
from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.power import written
from corrnoise.paper_checks.machinery.selection import select
from corrnoise.support.files import write_whole
from corrnoise.support.progress import progress_line
from tools.mutation import kills, record, sources, workshop

_MAX_LISTED_CLAIMS = 3  # claims at most whose survivors are listed without being asked
NO_REASON = "true as far as searched, and no reason is written down"


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m tools.mutation", description="Change formulas: does an oracle notice?")
    oracles = parser.add_subparsers(title="oracles", metavar="ORACLE", required=True)

    tests = oracles.add_parser("tests", help="mutants of theory/, which the tests must kill")
    tests.add_argument("--all", action="store_true", help="every mutant instead of a sample")
    tests.add_argument("--sample", type=int, default=300, metavar="N", help="size of the sample (default: 300)")
    tests.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the sample (default: 0)")
    tests.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="mutants at a time")
    tests.add_argument("--module", metavar="NAME", help="only those of theory/NAME.py")
    tests.add_argument("--near", action="store_true", help="ask only the module's own tests, and keep results apart")
    tests.add_argument("--list", action="store_true", help="show the mutants and stop")
    tests.set_defaults(run=_by_tests)

    claims = oracles.add_parser("claims", help="mutants of claims, which the check must find to be false")
    claims.add_argument("names", metavar="PAPER|CLAIM", nargs="*", help="as for corrnoise check (default: all)")
    claims.add_argument("--jobs", type=jobs, default=-1, metavar="N", help="number of processes (default: the cores)")
    claims.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the sample (default: 0, the record)")
    claims.add_argument(
        "--details", action="store_true", help=f"list survivors (default: of {_MAX_LISTED_CLAIMS} claims)"
    )
    claims.add_argument(
        "--record", action="store_true", help="keep results in tools/mutation/claims.json, try only what changed since"
    )
    claims.set_defaults(run=_by_claims)
    return parser


def _by_tests(arguments: Namespace) -> int:
    """Try mutants of ``theory/``; 1 if too many survive, or one without a reason."""
    wanted = None if arguments.module is None else f"theory/{arguments.module}.py"
    found = [mutant for mutant in sources.mutants(workshop.ROOT) if wanted in (None, mutant.module)]
    if not found:
        raise ValueError(f"--module must name a file of theory/ with formulas, got {arguments.module}")
    chosen = found if arguments.all else sources.sample(found, arguments.sample, arguments.seed)
    if arguments.list:
        for mutant in chosen:
            print(f"{mutant.module}:{mutant.line} ({mutant.kind})\n- {mutant.before}\n+ {mutant.after}")
        print(f"{len(chosen)} of {len(found)} mutants")
        return 0
    return workshop.report(workshop.run(chosen, arguments.jobs, arguments.near))


def _by_claims(arguments: Namespace) -> int:
    """Try the mutants of claims; 0, because a mutant that survives may be true."""
    if arguments.record and arguments.seed:
        raise ValueError(f"--seed must be 0 with --record, got {arguments.seed}")
    chosen = [one.claim for one in select(papers(), arguments.names).claims]
    found = _tried(chosen, arguments)
    if arguments.record:
        for remark in record.remarks({claim.identifier: one for claim, one in zip(chosen, found, strict=True)}):
            print(f"note: {remark}", file=sys.stderr)
        numbers = record.numbers(record.recorded(), [one.claim for one in claims_of()])
        write_whole(record.NUMBERS, written(numbers))
    print(_table(chosen, found, details=arguments.details or len(chosen) <= _MAX_LISTED_CLAIMS))
    return 0


def _tried(chosen: Sequence[Claim], arguments: Namespace) -> list[record.Kills]:
    """How the mutants fared, in the order of the claims; with ``--record``, finished claims are kept at once."""
    known = dict(record.recorded()) if arguments.record else {}
    left = [c for c in chosen if c.identifier not in known or not record.is_current(known[c.identifier], c)]
    with (
        progress_line() as show,
        running.results(partial(kills.tried, seed=arguments.seed), left, arguments.jobs) as results,
    ):
        for done, (index, found) in enumerate(results, start=len(chosen) - len(left) + 1):
            known[left[index].identifier] = found
            if arguments.record:
                write_whole(record.RECORD, record.written(known))
            show(left[index].name, done, len(chosen))
    return [known[claim.identifier] for claim in chosen]


def _table(chosen: Sequence[Claim], found: Sequence[record.Kills], details: bool) -> str:
    """A line for each claim, its survivors if ``details``, and a legend with the sum."""
    rows = [["paper", "statement", *record.ENDS, "of"]]
    for claim, one in zip(chosen, found, strict=True):
        rows.append([claim.paper, claim.name, *(str(one.fates.get(fate, 0)) for fate in record.ENDS), str(one.of)])
    head, *lines = aligned(rows)
    listed = [head]
    reasons = record.reasons()
    for claim, line, one in zip(chosen, lines, found, strict=True):
        listed.append(line)
        if details:
            known = reasons.get(claim.identifier, {})
            for mutant, margin in one.survivors:
                listed += [f"    survived, smallest margin {margin:.3g}: {mutant}"]
                listed += [f"        {known.get(mutant, NO_REASON)}"]
    total: Counter[str] = sum((Counter(one.fates) for one in found), Counter())
    legend = [f"{total[fate]:>6} {fate}: {meaning}" for fate, meaning in record.ENDS.items()]
    return "\n".join([*listed, "", *legend])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit status is 2 for a usage error."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
