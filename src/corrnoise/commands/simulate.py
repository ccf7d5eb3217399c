"""``corrnoise simulate``: a grid of simulations of private linear regression, and the exact errors.

Eigenvalues are λ_k = k^−a, k = 1, …, d; a is the decay.
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import jobs, names_as_typed
from corrnoise.commands.tables import aligned

if TYPE_CHECKING:
    from corrnoise.simulations.sweeps.running import SweepOutcome
    from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
    from corrnoise.theory.problems.quadratic import LinearRegression

SUMMARY = "simulate private linear regression on a grid, on several cores or a cluster, beside the exact errors"
EXAMPLE = (
    "corrnoise simulate --dimension 128 --decay 1 --learning-rate 0.02 --noise dpsgd nu-ftrl"
    " --steps 20000 --chains 8 --seeds 10 --jobs 2 --output sweep"
)
LARGEST_DIMENSION = 1_000_000  #: its exact errors take about a minute each
LARGEST_POINT = 1e13  #: steps x chains x dimension of a point, about half a day on one core
_INPUT_KURTOSIS = {"gaussian": 3.0, "uniform": 1.8, "signs": 1.0}

Setting = tuple[int, float, float, str]  # dimension, decay, learning rate, noise


def _number(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} must be a number: {what} needs one after the colon") from None


def _noise(text: str) -> tuple[str, Callable[[LinearRegression], ToeplitzNoise]]:
    """``dpsgd``, ``nu-ftrl`` (ν = ημ), ``nu-ftrl:NU`` or ``anti-pgd:DAMPING``."""
    kind, colon, rest = text.partition(":")
    if text not in ("dpsgd", "nu-ftrl") and not (colon and kind in ("nu-ftrl", "anti-pgd")):
        raise ArgumentTypeError(f"there is no noise {text!r}; it is dpsgd, nu-ftrl, nu-ftrl:NU or anti-pgd:DAMPING")
    value = _number(rest, kind) if colon else None

    def make(problem: LinearRegression) -> ToeplitzNoise:
        from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL

        if kind == "dpsgd":
            return DPSGD()
        if value is None:
            return NuFTRL(problem.rates.min())
        return NuFTRL(value) if kind == "nu-ftrl" else AntiPGD(value)

    return text, make


def _inputs(text: str) -> tuple[str, float]:
    """The distribution of the inputs and its kurtosis."""
    name, _, rest = text.partition(":")
    if text in _INPUT_KURTOSIS:
        return text, _INPUT_KURTOSIS[text]
    if name == "student-t":
        return name, _number(rest, name)
    raise ArgumentTypeError(
        f"there are no inputs {text!r}; they are {', '.join(_INPUT_KURTOSIS)} or student-t:KURTOSIS"
    )


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command; several dimensions, decays, learning rates and noises form a grid."""
    several: dict[str, Any] = {"nargs": "+", "metavar": "X"}
    parser.add_argument("--dimension", type=int, default=[128], help="number of eigenvalues (default: 128)", **several)
    parser.add_argument("--decay", type=float, default=[1.0], help="a of the eigenvalues k^-a (default: 1)", **several)
    parser.add_argument("--learning-rate", type=float, default=[0.02], help="(default: 0.02)", **several)
    parser.add_argument(
        "--noise",
        nargs="+",
        metavar="NOISE",
        type=_noise,
        default=[_noise("dpsgd"), _noise("nu-ftrl")],
        help="dpsgd, nu-ftrl (nu = learning rate x smallest eigenvalue), nu-ftrl:NU, anti-pgd:DAMPING"
        " (default: dpsgd nu-ftrl)",
    )
    for option, kind, default, text in (
        ("--residual-std", float, 0.0, "standard deviation of the residuals"),
        ("--rho", float, 1.0, "privacy budget, zCDP"),
        ("--clip-norm", float, 1.0, "norm that sets the noise, and to which --clip clips"),
        ("--steps", int, 20000, "recorded steps a chain"),
        ("--chains", int, 8, "chains a point"),
        ("--seeds", int, 1, "number of seeds 0, 1, ..., each a point"),
        ("--jobs", jobs, 1, "worker processes; -1: one a core"),
    ):
        parser.add_argument(option, type=kind, default=default, metavar="X", help=f"{text} (default: %(default)s)")
    parser.add_argument("--clip", action="store_true", help="clip gradients (DP-FTRL); without, Noisy-FTRL")
    parser.add_argument(
        "--inputs",
        type=_inputs,
        default=("gaussian", 3.0),
        metavar="INPUTS",
        help="gaussian, uniform, signs or student-t:KURTOSIS (default: gaussian)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="Dask scheduler whose workers take the place of --jobs (corrnoise[cluster])",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="corrnoise-simulations",
        help="folder for results.csv and the finished points, which are not computed again (default: %(default)s)",
    )
    parser.add_argument("--force", action="store_true", help="replace a results.csv that holds other points")


def run(arguments: Namespace) -> int:
    """Sweep over the grid, write ``results.csv``, print the errors averaged over the seeds."""
    if arguments.cluster is not None:
        from corrnoise.support.cluster import require_scheduler

        require_scheduler(arguments.cluster)  # before large libraries are imported
    from corrnoise.simulations.sweeps.running import grid, sweep
    from corrnoise.support.csv_tables import table_text
    from corrnoise.support.files import write_whole
    from corrnoise.support.progress import progress_line
    from corrnoise.theory.numerics.checks import integer
    from corrnoise.theory.privacy import Budget
    from corrnoise.theory.problems.quadratic import LinearRegression, power_law

    inputs, kurtosis = arguments.inputs
    options = {name: getattr(arguments, name) for name in ("steps", "chains", "clip")}
    settings, points = [], []
    with names_as_typed("seeds", "dimension", "decay", "learning_rate", "residual_std", "rho", "clip_norm", *options):
        options["budget"] = Budget(arguments.rho, clip_norm=arguments.clip_norm)
        seeds = range(integer("seeds", arguments.seeds, 1))
        for d in arguments.dimension:
            _check_size(integer("dimension", d, 1), arguments.steps, arguments.chains)
        for d, decay, rate, (name, noise) in product(
            arguments.dimension, arguments.decay, arguments.learning_rate, arguments.noise
        ):
            problem = LinearRegression(power_law(d, decay), rate, arguments.residual_std, kurtosis=kurtosis)
            label = f"dimension {d}, decay {decay:g}, learning rate {rate:g}"
            points += grid({label: problem}, {name: noise}, seeds, inputs=inputs, **options)
            settings.append((d, decay, rate, name))
    folder = Path(arguments.output)
    if not arguments.force:
        _keep_other_results(folder / "results.csv", {point.key for point in points})
    try:
        outcomes = sweep(points, directory=folder, jobs=arguments.jobs, cluster=arguments.cluster)
    except KeyboardInterrupt:
        print(f"corrnoise: finished points are kept in {folder}; the same command continues", file=sys.stderr)
        raise
    groups = [outcomes[first : first + len(seeds)] for first in range(0, len(outcomes), len(seeds))]
    with progress_line() as show:
        show("exact errors")
        rows = [row for pair in zip(settings, groups, strict=True) for row in _rows(*pair)]
    write_whole(folder / "results.csv", table_text(list(rows[0]), (row.values() for row in rows)))
    _print_table([_averages(*pair) for pair in zip(settings, groups, strict=True)])
    print(f"\n{folder / 'results.csv'}")
    failures = [outcome.error for outcome in outcomes if outcome.error]
    for failure in failures:
        print(f"corrnoise: failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def _check_size(dimension: int, steps: int, chains: int) -> None:
    """Refuse points that no core finishes in a day."""
    if dimension > LARGEST_DIMENSION:
        raise ValueError(f"dimension must be at most {LARGEST_DIMENSION}, got {dimension}")
    if dimension * steps * chains > LARGEST_POINT:
        most = int(LARGEST_POINT / dimension / max(chains, 1))
        raise ValueError(
            f"steps must be at most {most} for {chains} chains in {dimension} dimensions, which take half a day a "
            f"point, got {steps}"
        )


def _keep_other_results(path: Path, keys: set[str]) -> None:
    """Refuse to replace a table that holds other points, or that is something else."""
    from corrnoise.support.csv_tables import read_table

    try:
        columns, rows = read_table(path)
    except FileNotFoundError:
        return
    except (OSError, ValueError):
        columns, rows = [], []
    place = columns.index("key") if "key" in columns else -1
    if place < 0 or not {row[place] for row in rows if len(row) > place} <= keys:
        raise FileExistsError(
            f"--output must hold no results of other points, got {path}: choose another folder, or give --force to "
            "replace it"
        )


def _exact(outcome: SweepOutcome) -> float:
    point = outcome.point
    return point.problem.stationary_error(point.noise, budget=point.options["budget"])


def _score(outcome: SweepOutcome, mean: float, exact: float, error: float) -> float | None:
    """How many standard errors lie between simulated and exact; None where that says nothing."""
    comparable = not outcome.point.options["clip"] and outcome.point.has_standard_error()
    return (mean - exact) / error if comparable and error > 0 and math.isfinite(error) else None


def _rows(setting: Setting, outcomes: Sequence[SweepOutcome]) -> Iterator[dict[str, Any]]:
    """One row of ``results.csv`` for each point; a failed one leaves fields empty."""
    from corrnoise.simulations.quadratic import ESTIMATORS

    exact = _exact(outcomes[0])
    for outcome in outcomes:
        point, found = outcome.point, outcome.simulation
        row = dict(zip(("dimension", "decay", "learning_rate", "noise"), setting, strict=True))
        row |= {"residual_std": point.problem.residual_std, "kurtosis": point.problem.kurtosis}
        options = dict(point.options)
        budget = options.pop("budget")
        row |= {"seed": point.seed, "rho": budget.rho, "clip_norm": budget.clip_norm, **options}
        row |= {"burn_in": found and found.burn_in, "exact": exact}
        for name in ESTIMATORS:
            mean, error = found.estimators.get(name, (None, None)) if found else (None, None)
            row |= {name: mean, f"{name}_standard_error": error}
        row["z"] = found and _score(outcome, found.mean, exact, found.standard_error)
        row["clipped_fraction"] = found and found.clipped_fraction
        row["effective_sample_size"] = found and found.effective_sample_size
        yield row | {"key": point.key, "error": outcome.error}


def _averages(setting: Setting, outcomes: Sequence[SweepOutcome]) -> list[str]:
    """One row of the printed table: the plain estimator, averaged over the seeds that did not fail."""
    exact = _exact(outcomes[0])
    found = [outcome.simulation for outcome in outcomes if outcome.simulation]
    start = [f"{value:g}" for value in setting[:3]] + [setting[3], f"{len(found)}/{len(outcomes)}", f"{exact:.6g}"]
    if not found:
        return [*start, "-", "-", "-"]
    mean = math.fsum(s.mean for s in found) / len(found)
    error = math.hypot(*(s.standard_error for s in found)) / len(found)
    z = _score(outcomes[0], mean, exact, error)
    return [*start, f"{mean:.6g}", f"{error:.2g}", "-" if z is None else f"{z:+.2f}"]


def _print_table(rows: list[list[str]]) -> None:
    titles = ["dimension", "decay", "learning rate", "noise", "seeds", "exact", "simulated", "standard error", "z"]
    print(*aligned([titles, *rows]), sep="\n")
