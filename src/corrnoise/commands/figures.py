"""``corrnoise figures``: the figures of the papers, from exact formulas and simulations."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from corrnoise.commands.options import UsageError, jobs
from corrnoise.commands.tables import aligned
from corrnoise.support.cluster import require_scheduler
from corrnoise.support.progress import progress_line
from corrnoise.support.suggestions import did_you_mean

SUMMARY = "draw the papers' figures from exact formulas and simulations, as PDF, PNG and CSV"
EXAMPLE = "corrnoise figures linear_regression --output plots"


def _figure_name(text: str) -> str:
    from corrnoise.figures import NAMES

    if text not in NAMES:
        raise ArgumentTypeError(
            f"there is no figure {text!r}; the figures are {', '.join(NAMES)}{did_you_mean(text, NAMES)}"
        )
    return text


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
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
    if arguments.cluster is not None:
        require_scheduler(arguments.cluster)  # before large libraries are imported
    from corrnoise.figures import COMPANIONS, NAMES, paper_figure
    from corrnoise.figures.publication import publish
    from corrnoise.figures.simulation import THOROUGH, SimulationRun
    from corrnoise.support.workers import default_processes

    if arguments.list:
        print(*aligned([(name, f"{(one := paper_figure(name)).source}: {one.title}") for name in NAMES]), sep="\n")
        return 0
    names = list(dict.fromkeys(arguments.names)) or [name for name in NAMES if arguments.all or name not in COMPANIONS]
    run = SimulationRun(
        Path(arguments.output, "simulations"),
        arguments.seed,
        jobs=arguments.jobs,
        cluster=arguments.cluster,
        **(THOROUGH if arguments.full else {}),
    )
    simulated_here = [name for name in names if (one := paper_figure(name)).simulate and not one.on_cluster]
    if arguments.cluster and not arguments.no_simulation and simulated_here:
        raise UsageError(
            f"--cluster must be left out for {', '.join(simulated_here)}, which this machine simulates: draw "
            f"{'it' if len(simulated_here) == 1 else 'them'} in a run of its own, or give --no-simulation"
        )
    failures: list[str] = []
    with progress_line() as show, default_processes(arguments.jobs):
        for number, name in enumerate(names):
            show(name, number, len(names))
            figure = paper_figure(name)
            if arguments.download and figure.on_original_data is not None:
                figure = figure.on_original_data()
            try:
                data = figure.data()
            except ImportError as error:
                if arguments.names:
                    raise
                show("")
                print(f"{name}: not drawn: {error}\n")
                continue
            if figure.simulate and not arguments.no_simulation:
                simulated, failed = figure.simulate(run)
                data, failures = data + simulated, [*failures, *failed]
            before = _contents(Path(arguments.output), name)
            paths = publish(figure, arguments.output, data)
            after = _contents(Path(arguments.output), name)
            report = figure.report(data)
            show("")
            for path in paths:
                if path.name in before and before[path.name] != after[path.name]:
                    print(f"corrnoise: replaced: {path}, which was different", file=sys.stderr)
            print(f"{name}: {figure.source}, {figure.title}\n", *paths, f"\n{report}\n", sep="\n")
    for failure in failures:
        print("corrnoise: error:", failure, file=sys.stderr)
    return 1 if failures else 0


def _contents(folder: Path, name: str) -> dict[str, str]:
    """The digests of the files of a figure that are there now, by name."""
    from corrnoise.support.reading import read_bytes
    from corrnoise.support.serialise import digest

    return {path.name: digest(read_bytes(path)) for path in folder.glob(f"{name}.*") if path.is_file()}
