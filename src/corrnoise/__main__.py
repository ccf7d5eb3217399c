"""The command line: ``corrnoise COMMAND``, where ``corrnoise --help`` shows an example of each.

A command is an entry of ``COMMANDS``: its arguments, and a function that runs it and returns the exit status.  What a
command needs is imported when it runs, so that help is immediate.  Exit status: 0 success, 1 an error (one line on
stderr), 2 misuse, 130 interruption.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from corrnoise import __version__, check_command, design_command, report_command, simulate_command


class Command(NamedTuple):
    """One command."""

    name: str
    summary: str
    example: str
    arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], int]


@contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show ``text`` on stderr meanwhile, if that is a terminal."""
    shown = sys.stderr.isatty()
    if shown:
        print(text, end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _figure_name(text: str) -> str:
    from corrnoise.figures import NAMES

    if text not in NAMES:
        raise ArgumentTypeError(f"there is no figure {text!r}; the figures are {', '.join(NAMES)}")
    return text


def _figures_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names", metavar="NAME", nargs="*", type=_figure_name, help="figures to draw (default: all but companions)"
    )
    parser.add_argument("--all", action="store_true", help="draw the companions of long experiments too")
    parser.add_argument("--list", action="store_true", help="list the figures and stop")
    parser.add_argument(
        "--output", metavar="DIR", default="corrnoise-figures", help="folder for the files (default: %(default)s)"
    )
    parser.add_argument("--no-simulation", action="store_true", help="draw the exact curves only")
    parser.add_argument("--full", action="store_true", help="simulate with ten seeds and four times the steps")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the simulations (default: 0)")
    parser.add_argument("--jobs", metavar="N", type=int, default=-1, help="simulations at a time (default: one a core)")
    parser.add_argument("--cluster", metavar="ADDRESS", help="Dask scheduler of a cluster that simulates instead")


def _figures(arguments: Namespace) -> int:
    from corrnoise.figures import COMPANIONS, NAMES, paper_figure
    from corrnoise.figures.publication import publish
    from corrnoise.figures.simulation import THOROUGH, SimulationRun

    everything = arguments.all or arguments.list
    names = list(dict.fromkeys(arguments.names)) or [name for name in NAMES if everything or name not in COMPANIONS]
    run = SimulationRun(
        Path(arguments.output, "simulations"),
        arguments.seed,
        jobs=arguments.jobs,
        cluster=arguments.cluster,
        **(THOROUGH if arguments.full else {}),
    )
    failures: list[str] = []
    for number, name in enumerate(names, start=1):
        figure = paper_figure(name)
        if arguments.list:
            print(f"{name:<26} {figure.source}: {figure.title}")
            continue
        with _progress(f"{name} ({number} of {len(names)}) ..."):
            data = figure.data()
            if figure.simulate and not arguments.no_simulation:
                simulated, failed = figure.simulate(run)
                data, failures = data + simulated, [*failures, *failed]
            paths = publish(figure, arguments.output, data)
            report = figure.report(data)
        print(f"{name}: {figure.source}, {figure.title}\n", *paths, f"\n{report}\n", sep="\n")
    for failure in failures:
        print("corrnoise: error:", failure, file=sys.stderr)
    return 1 if failures else 0


COMMANDS = (
    Command(
        name="figures",
        summary="draw the papers' figures from exact formulas and simulations, as PDF, PNG and CSV",
        example="corrnoise figures linear_regression --output plots",
        arguments=_figures_arguments,
        run=_figures,
    ),
    Command(
        name="design",
        summary="design noise for a problem and a budget: coefficients, poles, noise multiplier, expected errors",
        example=design_command.EXAMPLE,
        arguments=design_command.add_arguments,
        run=design_command.run,
    ),
    Command(
        name="simulate",
        summary="simulate private linear regression on a grid, on several cores or a cluster, beside the exact errors",
        example=simulate_command.EXAMPLE,
        arguments=simulate_command.add_arguments,
        run=simulate_command.run,
    ),
    Command(
        name="check",
        summary="check the claims of the papers: verdict, evidence, sharp constant, counterexamples",
        example=check_command.EXAMPLE,
        arguments=check_command.add_arguments,
        run=check_command.run,
    ),
    Command(
        name="report",
        summary="check the claims and write them, with the figures, as one page to read in a browser",
        example=report_command.EXAMPLE,
        arguments=report_command.add_arguments,
        run=report_command.run,
    ),
)


def _parser() -> ArgumentParser:
    examples = "\n".join(f"  {command.example}" for command in COMMANDS)
    parser = ArgumentParser(
        prog="corrnoise",
        description="Correlated noise for differentially private optimisation.",
        epilog=f"examples:\n{examples}",
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"corrnoise {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        subparser = commands.add_parser(
            command.name, help=command.summary, description=command.summary, epilog=f"example: {command.example}"
        )
        command.arguments(subparser)
        subparser.set_defaults(run=command.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line with the arguments ``argv`` (None: those of the process) and return the exit status."""
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except SystemExit as stop:  # argparse: help, version, misuse
        return int(stop.code or 0)
    except KeyboardInterrupt:
        print("corrnoise: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has left, as in `corrnoise figures | head -1`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ArithmeticError, ImportError, OSError, ValueError) as error:
        print("corrnoise: error:", " ".join(str(error).split()), file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
