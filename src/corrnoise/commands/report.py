"""``corrnoise report``: check the claims of the papers and write one self-contained page, with the figures."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import starmap
from typing import TYPE_CHECKING

from corrnoise.commands import claims
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

SUMMARY = "check the claims and write them, with the figures, as one page to read in a browser"
EXAMPLE = "corrnoise report --output ledger.html"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    claims.add_arguments(parser)
    parser.add_argument("--badge", metavar="FILE", help="write the numbers of claims to this file as a picture in SVG")
    parser.add_argument("--no-figures", action="store_true", help="leave the figures out")
    parser.add_argument(
        "--output", metavar="FILE", default="corrnoise-report.html", help="the page (default: %(default)s)"
    )


def run(arguments: Namespace) -> int:
    """Check the selected claims, write the page; 0 if all is as recorded, 1 if not, 2 for an unknown name."""
    from corrnoise.figures import COMPANIONS, NAMES, paper_figure
    from corrnoise.paper_checks.machinery.badges import badge
    from corrnoise.paper_checks.machinery.report import report_page
    from corrnoise.support.files import write_whole
    from corrnoise.support.workers import default_processes

    papers = claims.among(arguments)
    chosen = claims.selected(arguments, papers)
    path = claims.output_path(arguments.output)
    badge_path = arguments.badge and claims.output_path(arguments.badge)
    outcomes = claims.checked(chosen, arguments)
    own = any(paper.package is None for paper in papers)
    names = [] if arguments.no_figures or own else [name for name in NAMES if name not in COMPANIONS]
    with progress_line() as show, default_processes(arguments.jobs or -1):

        def figure(number: int, name: str) -> PaperFigure:
            show(f"drawing {name}", number, len(names))
            return paper_figure(name)

        page = report_page(outcomes, papers, starmap(figure, enumerate(names)))
    write_whole(path, page)
    print(path)
    if badge_path:
        write_whole(badge_path, badge(outcomes))
        print(badge_path)
    return claims.exit_status(outcomes)
