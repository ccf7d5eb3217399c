"""``corrnoise figures``: the figures of the papers, from exact formulas and simulations."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from corrnoise.commands.options import jobs
from corrnoise.support.progress import progress_line

SUMMARY = "draw the papers' figures from exact formulas and simulations, as PDF, PNG and CSV"
EXAMPLE = "corrnoise figures linear_regression --output plots"


def _figure_name(text: str) -> str:
    from corrnoise.figures import NAMES

    if text not in NAMES:
        raise ArgumentTypeError(f"there is no figure {text!r}; the figures are {', '.join(NAMES)}")
    return text


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "names", metavar="NAME", nargs="*", type=_figure_name, help="figures to draw (default: all but companions)"
    )
    parser.add_argument("--all", action="store_true", help="draw the companions of long experiments too")
    parser.add_argument("--list", action="store_true", help="list the figures and stop")
    parser.add_argument(
        "--output", metavar="DIR", default="corrnoise-figures", help="folder for the files (default: %(default)s)"
    )
    parser.add_argument(
        "--download", action="store_true", help="fetch the paper's data sets for figures that are drawn on stand-ins"
    )
    parser.add_argument("--no-simulation", action="store_true", help="draw the exact curves only")
    parser.add_argument("--full", action="store_true", help="simulate with ten seeds and four times the steps")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the simulated markers (default: 0)")
    parser.add_argument("--jobs", metavar="N", type=jobs, default=-1, help="processes (default: -1, one a core)")
    parser.add_argument("--cluster", metavar="ADDRESS", help="Dask scheduler of a cluster that simulates instead")


def run(arguments: Namespace) -> int:
    """Draw the figures, print the paths of their files and what differs from the paper.

    A figure that needs an extra which is not installed is an error where it was asked for by name, and left out with a
    remark where it was not.
    """
    from joblib import parallel_config

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
        if arguments.download and figure.on_original_data is not None:
            figure = figure.on_original_data()
        if arguments.list:
            print(f"{name:<26} {figure.source}: {figure.title}")
            continue
        with progress_line() as show, parallel_config(n_jobs=arguments.jobs):
            show(f"{name} ({number} of {len(names)}) ...")
            try:
                data = figure.data()
            except ImportError as error:
                if arguments.names:
                    raise
                print(f"{name}: not drawn: {error}\n")
                continue
            if figure.simulate and not arguments.no_simulation:
                simulated, failed = figure.simulate(run)
                data, failures = data + simulated, [*failures, *failed]
            paths = publish(figure, arguments.output, data)
            report = figure.report(data)
        print(f"{name}: {figure.source}, {figure.title}\n", *paths, f"\n{report}\n", sep="\n")
    for failure in failures:
        print("corrnoise: error:", failure, file=sys.stderr)
    return 1 if failures else 0
