"""``corrnoise run``: the state of the folder of a run, which may be in use; no file changes.

Exit status: 0 the run can be resumed, is in use or finished, or starts in this folder; 1 it is refused; 2 errors in the
arguments.
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

SUMMARY = "show where the run in a folder resumes, its spent budget, and why it would be refused"
EXAMPLE = "corrnoise run digits --json"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a run, as given to folder=")
    parser.add_argument(
        "--marks", metavar="DIR", help="the folder of the outside marks (default: that of the user's state)"
    )
    parser.add_argument("--json", action="store_true", help="print the fields of the status as JSON")


def run(arguments: Namespace) -> int:
    """Print the status of a run; 1 if it is refused."""
    from corrnoise.commands.options import UsageError
    from corrnoise.simulations.run.status import run_status

    try:
        status = run_status(arguments.folder, marks=arguments.marks)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if arguments.json:
        print(json.dumps(status.arguments(), indent=1, ensure_ascii=False))
    else:
        print(status.summary())
    return int(status.state == "refused")
