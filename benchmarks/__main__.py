"""``python -m benchmarks``: measure, and print a table of ratios."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks import report
from benchmarks.core import Row, Setting, load, load_peer, run


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmarks; 1 if two sides disagree."""
    benchmarks = load()
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="CPU time of the other method over that of corrnoise, for each item; above 1, corrnoise is faster.",
        epilog="example: python -m benchmarks --only coefficients --json coefficients.json",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few repeats: a look, not to be quoted")
    parser.add_argument("--only", action="append", choices=benchmarks, metavar="NAME", help=f"{', '.join(benchmarks)}")
    parser.add_argument("--peer", action="store_true", help="against jax-privacy instead: pip install -e '.[jax]'")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write machine and results to FILE")
    options = parser.parse_args(arguments)
    if options.peer:
        if options.only:
            parser.error("--peer goes without --only")
        try:
            benchmarks = load_peer()
        except ModuleNotFoundError as error:
            parser.error(str(error))

    print(report.machine_line(options.peer))
    rows: list[tuple[str, Row]] = []
    for name, row in run(options.only or benchmarks, Setting(options.quick)):
        if not rows or rows[-1][0] != name:
            summary = (benchmarks[name].__doc__ or "").partition("\n")[0]
            print(f"\n{name}: {summary}\n{report.HEAD}")
        rows.append((name, row))
        print(report.line(row), flush=True)
    if options.json:
        report.save(options.json, rows, options.peer)
    return 0 if all(row.agrees for _, row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
