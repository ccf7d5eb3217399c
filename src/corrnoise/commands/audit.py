"""``corrnoise audit``: is a training loop as private as its design claims, and is its noise as claimed?

Exit status: 0 nothing was found, 1 the loop is not as claimed, in its privacy or in its noise alone (the verdict says
which), 2 the loop could not be audited, errors in the arguments included.
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed
from corrnoise.support.files import write_whole
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.theory.auditing.findings import Audit

SUMMARY = "audit a training loop: is it as private as the design claims, and is its noise as claimed?"
EXAMPLE = "corrnoise audit design --loop my_training:release --output audit.json"

_NUMBER_OPTIONS = ("factor", "idle", "restarts", "grid", "level", "seed")
_EXIT_STATUS = {"nothing found": 0, "noise not as claimed": 1, "not private as claimed": 1, "could not be audited": 2}


def _loop(text: str) -> tuple[str, str]:
    """MODULE:NAME."""
    module, colon, name = text.partition(":")
    if not (module and colon and name):
        raise ArgumentTypeError(f"{text!r} is not of the form MODULE:NAME")
    return module, name


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("design", metavar="DESIGN", help="the design: a folder that corrnoise design has written")
    parser.add_argument(
        "--loop",
        type=_loop,
        metavar="MODULE:NAME",
        help="the loop, a function of the gradients of the examples of each step that returns what would be released, "
        "or a class with begin(folder) and step(gradients) (default: the stream of the design)",
    )
    for option, kind, default, text in (
        ("--factor", float, 1.1, "clip norms that are too large by this factor are found with probability 0.99"),
        ("--idle", int, 1000, "coordinates that show the noise alone"),
        ("--grid", float, 0.0, "the step of the grid to which releases are rounded, 0 for floats"),
        ("--level", float, 1e-3, "probability that a loop that is as claimed gets another verdict"),
    ):
        parser.add_argument(option, type=kind, default=default, metavar="N", help=f"{text} (default: %(default)s)")
    parser.add_argument(
        "--restarts", type=int, nargs="+", default=[], metavar="T", help="steps before which the loop is begun again"
    )
    parser.add_argument(
        "--not-finite",
        choices=("dropped", "refused"),
        default="dropped",
        help="what the loop must do with a gradient that is not finite (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, metavar="N", help="for the coins and the noise of the design's own stream")
    parser.add_argument("--output", metavar="FILE", help="write verdict, cause and tests as JSON, too")


def run(arguments: Namespace) -> int:
    """Audit, print the report, and return the exit status."""
    try:
        with names_as_typed(*_NUMBER_OPTIONS), progress_line() as show:
            show("auditing")
            found = _audited(arguments)
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        print("corrnoise: error:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    print(found.report())
    if arguments.output:
        write_whole(Path(arguments.output), json.dumps(_described(found), indent=1) + "\n")
        print(arguments.output)
    return _EXIT_STATUS[found.verdict]


def _audited(arguments: Namespace) -> Audit:
    from numpy.random import SeedSequence

    from corrnoise.designs.design import Design
    from corrnoise.designs.storage import load
    from corrnoise.simulations.audit import audit, stream_release
    from corrnoise.theory.numerics import checks

    try:
        design = load(arguments.design)
    except FileNotFoundError as error:
        text = f"DESIGN must be what corrnoise design --output has written, got {arguments.design}"
        raise ValueError(text) from error
    if not isinstance(design, Design):
        raise ValueError(f"DESIGN must be the folder or file of a design, got a {type(design).__name__}")
    if design.participation.steps is None:
        raise ValueError("DESIGN must have a number of steps, made with --steps, got one for runs of any length")
    seed = SeedSequence(None if arguments.seed is None else checks.seed("seed", arguments.seed))
    for_coins, for_noise = seed.spawn(2)
    if arguments.loop is not None:
        loop = _imported(*arguments.loop)
    else:
        loop = stream_release(design.budget, design.program(), rng=for_noise)
    return audit(
        loop,
        design,
        factor=arguments.factor,
        idle=arguments.idle,
        restarts=arguments.restarts,
        grid=arguments.grid,
        level=arguments.level,
        not_finite=arguments.not_finite,
        rng=for_coins,
    )


def _imported(module: str, name: str) -> Any:
    """The user's loop; modules of the current folder are found, as with ``python -m``."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = getattr(import_module(module), name, None)
    if not callable(found):
        raise ValueError(f"--loop must name a function or a class, and {module} has no {name}")
    return found


def _described(found: Audit) -> dict[str, Any]:
    tests = [
        {
            "test": test.name,
            "statistic": test.statistic,
            "where": test.where,
            "p": test.p,
            "level": test.level,
            "failed": test.failed,
            "refutes_privacy": test.refutes_privacy,
        }
        for test in found.tests
    ]
    claim = ("verdict", "cause", "mu", "mu_lower_bound", "delta", "level")
    effort = ("piles", "canaries", "idle", "runs", "lone_runs", "skipped", "not_finite")
    return {name: getattr(found, name) for name in (*claim, *effort)} | {"tests": tests}
