"""``corrnoise audit``: is a training loop as private as its design claims, and is its noise as claimed?"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed
from corrnoise.support.files import write_whole

if TYPE_CHECKING:
    from corrnoise.designs.design import Design
    from corrnoise.simulations.audit import Audit, Release

SUMMARY = "audit a training loop: is it as private as the design claims, and is its noise as claimed?"
EXAMPLE = "corrnoise audit design --loop my_training:release --output audit.json"

_NUMBERS = ("canaries", "idle", "runs", "level", "delta", "seed")


def _loop(text: str) -> tuple[str, str]:
    """MODULE:FUNCTION."""
    module, colon, function = text.partition(":")
    if not (module and colon and function):
        raise ArgumentTypeError(f"{text!r} is not of the form MODULE:FUNCTION")
    return module, function


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument("design", metavar="DESIGN", help="the design: a folder that corrnoise design has written")
    parser.add_argument(
        "--loop",
        type=_loop,
        metavar="MODULE:FUNCTION",
        help="the loop, a function of the gradients of the examples of each step that returns what would be released "
        "(default: the stream of the design)",
    )
    for option, kind, default, text in (
        ("--canaries", int, 1000, "coordinates with a canary"),
        ("--idle", int, 1000, "coordinates that show the noise alone"),
        ("--runs", int, 1, "how often the loop is run; 2 or more find noise that repeats"),
        ("--level", float, 0.01, "probability that a loop that is as claimed fails"),
    ):
        parser.add_argument(option, type=kind, default=default, metavar="N", help=f"{text} (default: %(default)s)")
    parser.add_argument("--delta", type=float, metavar="X", help="at which epsilon is stated (default: the design's)")
    parser.add_argument("--seed", type=int, metavar="N", help="for the coins and the noise of the design's own stream")
    parser.add_argument("--output", metavar="FILE", help="write the tests as JSON, too")


def run(arguments: Namespace) -> int:
    """Audit, and print both answers; 0 if nothing was found against the claims, 1 otherwise."""
    from corrnoise.designs.design import Design
    from corrnoise.designs.storage import load

    design = load(arguments.design)
    if not isinstance(design, Design):
        raise ValueError(f"DESIGN must be the folder or file of a design, got a {type(design).__name__}")
    delta = arguments.delta if arguments.delta is not None else design.budget.delta
    if delta is None:
        raise ValueError("--delta must be given for a design whose budget is rho, got None")
    if design.participation.steps is None:
        raise ValueError("DESIGN must have a number of steps, made with --steps, got one for runs of any length")
    with names_as_typed(*_NUMBERS):
        found = _audited(design, delta, arguments)
    print(found.report())
    if arguments.output:
        write_whole(Path(arguments.output), json.dumps(_described(found), indent=1) + "\n")
        print(arguments.output)
    return 0 if found.private_as_claimed and found.noise_as_claimed else 1


def _audited(design: Design, delta: float, arguments: Namespace) -> Audit:
    from numpy.random import SeedSequence

    from corrnoise.simulations.audit import audit, stream_release
    from corrnoise.theory.numerics import checks

    program = design.program()
    seed = SeedSequence(None if arguments.seed is None else checks.seed("seed", arguments.seed))
    for_coins, for_noise = seed.spawn(2)
    if arguments.loop is not None:
        release = _imported(*arguments.loop)
    else:
        release = stream_release(design.budget, program, rng=for_noise)
    return audit(
        release,
        design.budget,
        program,
        delta=delta,
        canaries=arguments.canaries,
        idle=arguments.idle,
        runs=arguments.runs,
        level=arguments.level,
        rng=for_coins,
    )


def _imported(module: str, function: str) -> Release:
    """The user's function; modules of the current folder are found, as with ``python -m``."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    found = getattr(import_module(module), function, None)
    if not callable(found):
        raise ValueError(f"--loop must name a function, and {module} has no function {function}")
    release: Release = found
    return release


def _described(found: Audit) -> dict[str, Any]:
    return {
        "private_as_claimed": found.private_as_claimed,
        "noise_as_claimed": found.noise_as_claimed,
        "epsilon": found.epsilon,
        "delta": found.delta,
        "mu": found.mu,
        "epsilon_lower_bound": found.epsilon_lower_bound,
        "canaries": found.canaries,
        "idle": found.idle,
        "runs": found.runs,
        "level": found.level,
        "power": found.power,
        "privacy": [{"test": t.name, "epsilon_lower_bound": t.lower_bound, "passed": t.passed} for t in found.privacy],
        "noise": [{"test": t.name, "z": t.z, "p_value": t.p_value, "passed": t.passed} for t in found.noise],
    }
