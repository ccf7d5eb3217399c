"""``corrnoise design``: noise for a problem and a privacy budget, as files that a training program reads."""

from __future__ import annotations

import csv
import io
from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrnoise.solvers.designs import Design, Problem
    from corrnoise.theory.checks import Array

SUMMARY = "design noise for a problem and a budget: coefficients, poles, noise multiplier, expected errors"
EXAMPLE = (
    "corrnoise design --dimension 128 --decay 1 --learning-rate 0.02 --epsilon 2 --delta 1e-6 --steps 10000"
    " --output my-design"
)

#: Files that not every design has; those of an earlier design in the folder have another noise multiplier, and go.
OPTIONAL_FILES = ("coefficients.csv", "poles.csv", "stream.csv")

NOT_COVERED = (
    "The eigenvalues were computed from the data.  If these are private, the budget does not cover that: use public"
    " data, or release the spectrum privately."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    number: dict[str, Any] = {"type": float, "metavar": "X"}
    count: dict[str, Any] = {"type": int, "metavar": "N"}

    problem = parser.add_argument_group("the problem, in one of four ways")
    problem.add_argument("--eigenvalues", metavar="FILE", help="eigenvalues of the Hessian, one a line, or .npy")
    problem.add_argument(
        "--data",
        metavar="FILE",
        help="data matrix X, a row for each of n examples, as text, CSV or .npy: eigenvalues of X'X/n."
        " The privacy budget does not cover that these are computed from private data",
    )
    problem.add_argument(
        "--dimension", **count, help="number of eigenvalues k^-a, k = 1, 2, ...; with --strong-convexity, of parameters"
    )
    problem.add_argument("--decay", **number, help="a of the eigenvalues k^-a (default: 1)")
    problem.add_argument("--strong-convexity", **number, help="mu of a strongly convex loss, of which bounds are known")
    problem.add_argument("--smoothness", **number, help="L of a strongly convex loss")
    problem.add_argument("--learning-rate", **number, help="eta")
    problem.add_argument("--residual-std", **number, help="of the residuals of linear regression (default: 0)")
    problem.add_argument("--kurtosis", **number, help="of the inputs of linear regression (default: 3, Gaussian)")
    problem.add_argument("--gradient-noise-std", **number, help="of a strongly convex loss (default: 0)")

    privacy = parser.add_argument_group("the privacy budget, in one of two ways")
    privacy.add_argument("--rho", **number, help="zero-concentrated differential privacy of the run")
    privacy.add_argument("--epsilon", **number, help="epsilon of (epsilon, delta)-differential privacy of the run")
    privacy.add_argument("--delta", **number, help="delta, with --epsilon")
    privacy.add_argument("--clip-norm", **number, default=1.0, help="of the gradients (default: 1)")
    privacy.add_argument(
        "--adjacency",
        choices=("zero-out", "replace-one"),
        default="zero-out",
        help="what neighbouring data sets are (default: zero-out)",
    )

    run = parser.add_argument_group("the run")
    run.add_argument("--steps", **count, help="number of steps (default: any number, which takes a little more noise)")
    run.add_argument(
        "--initial-offset", **number, help="distance of the start to the minimum, in each eigendirection (default: 0)"
    )
    run.add_argument(
        "--tune-learning-rate",
        action="store_true",
        help="find the learning rate with the smallest error after --steps steps from --initial-offset",
    )
    run.add_argument("--tolerance", **number, default=1e-6, help="of the noise by poles (default: %(default)s)")
    parser.add_argument(
        "--output", metavar="DIR", default="corrnoise-design", help="folder for the files (default: %(default)s)"
    )


def run(arguments: Namespace) -> int:
    """Compute the design, write its files, print the report."""
    from corrnoise.figures.design import design_figure
    from corrnoise.figures.publication import publish
    from corrnoise.solvers.designs import design
    from corrnoise.support.files import whole_files
    from corrnoise.theory import checks

    rho, promised = _budget(arguments)
    problem, notes = _problem(arguments)
    offset = checks.real("--initial-offset", 0.0 if arguments.initial_offset is None else arguments.initial_offset)
    budget = {name: getattr(arguments, name) for name in ("clip_norm", "adjacency", "steps")}
    with _folder(Path(arguments.output)) as folder, whole_files(folder, stale=OPTIONAL_FILES) as staging:
        if arguments.tune_learning_rate:
            problem, note = _tuned(problem, arguments, rho)
            notes.append(note)
        kept = {**promised, "initial_offset": offset}
        found = design(problem, rho=rho, tolerance=arguments.tolerance, metadata=kept, **budget)
        figure = design_figure(found, offset)
        data = figure.data()
        report = "\n\n".join([_heading(found), *notes, _what_to_run(found), figure.report(data)]) + "\n"
        publish(figure, staging, data)
        found.save(staging.joinpath("design.npz"))
        for name, text in {"design.json": found.json(), "report.txt": report, **_tables(found)}.items():
            staging.joinpath(name).write_text(text, encoding="utf-8", newline="")
        paths = [folder / path.name for path in sorted(staging.iterdir())]
    print(report, *paths, sep="\n")
    return 0


@contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    """The folder, made if it is not there; and taken away again if nothing comes of it."""
    there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


# -- input -------------------------------------------------------------------------------------------------------------


def _budget(arguments: Namespace) -> tuple[float, dict[str, float]]:
    """ρ, and what was promised in other terms."""
    from corrnoise.theory.privacy import gaussian_rho

    pair = (arguments.epsilon, arguments.delta)
    if arguments.rho is not None and pair == (None, None):
        return arguments.rho, {}
    if arguments.rho is None and None not in pair:
        return gaussian_rho(*pair), {"epsilon": arguments.epsilon, "delta": arguments.delta}
    raise ValueError("the budget must be given either by --rho or by --epsilon and --delta")


def _problem(arguments: Namespace) -> tuple[Problem, list[str]]:
    """The problem (if the learning rate is to be tuned, at any), and what is to be said of it."""
    from corrnoise.theory.problems import LinearRegression
    from corrnoise.theory.strongly_convex import StronglyConvex

    def given(*names: str) -> dict[str, Any]:
        return {name: getattr(arguments, name) for name in names if getattr(arguments, name) is not None}

    sources = list(given("strong_convexity") or given("eigenvalues", "data", "dimension"))
    if len(sources) != 1:
        raise ValueError("the problem must be given by one of --eigenvalues, --data, --dimension, --strong-convexity")
    (source,) = sources
    for name, homes in _HOMES.items():
        if given(name) and source not in homes:
            raise ValueError(f"{_option(name)} must come with {' or '.join(map(_option, homes))}")
    if (arguments.learning_rate is None) != arguments.tune_learning_rate:
        raise ValueError("either --learning-rate or --tune-learning-rate must be given")
    tunable = source != "strong_convexity" and arguments.steps and arguments.initial_offset
    if arguments.tune_learning_rate and not tunable:
        raise ValueError("--tune-learning-rate needs eigenvalues, --steps and --initial-offset, not 0")
    if source == "strong_convexity":
        if arguments.smoothness is None:
            raise ValueError("--smoothness must come with --strong-convexity")
        options = given("smoothness", "learning_rate", "dimension", "gradient_noise_std")
        return StronglyConvex(arguments.strong_convexity, **options), []
    eigenvalues, notes = _spectrum(arguments, source)
    options = {"learning_rate": 1 / float(eigenvalues.sum()), **given("learning_rate", "residual_std", "kurtosis")}
    return LinearRegression(eigenvalues, **options), notes


#: Which options come with which descriptions of the problem only.
_HOMES = {
    "eigenvalues": ("eigenvalues",),
    "data": ("data",),
    "dimension": ("dimension", "strong_convexity"),
    "decay": ("dimension",),
    "smoothness": ("strong_convexity",),
    "gradient_noise_std": ("strong_convexity",),
    "residual_std": ("eigenvalues", "data", "dimension"),
    "kurtosis": ("eigenvalues", "data", "dimension"),
}


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _spectrum(arguments: Namespace, source: str) -> tuple[Array, list[str]]:
    """The eigenvalues, and what is to be said of them."""
    import numpy as np

    from corrnoise.theory import checks
    from corrnoise.theory.problems import power_law

    if source == "dimension":
        return power_law(arguments.dimension, 1.0 if arguments.decay is None else arguments.decay), []
    table = _numbers(Path(getattr(arguments, source)))
    if source == "eigenvalues":
        if 1 not in table.shape:
            raise ValueError(f"--eigenvalues must hold one number a line, got shape {table.shape}")
        return checks.reals("--eigenvalues", table.ravel(), "(0, 1e300]", ndim=1), []
    table = checks.reals("--data", table, "[-1e100, 1e100]")
    singular = np.linalg.svd(table, compute_uv=False)
    kept = singular > singular.max() * max(table.shape) * np.finfo(float).eps
    if not kept.any():
        raise ValueError("--data must not be 0 everywhere")
    notes = [NOT_COVERED]
    if kept.sum() < table.shape[1]:
        lost = table.shape[1] - int(kept.sum())
        notes.append(f"{lost} of {table.shape[1]} eigenvalues are 0 and were left out: the loss is flat there.")
    return singular[kept] ** 2 / table.shape[0], notes


def _numbers(path: Path) -> Array:
    """A table of numbers, shape (rows, columns), from .npy or text; names of columns in the first line are skipped."""
    import numpy as np

    if path.suffix == ".npy":
        try:
            array = np.atleast_1d(np.load(path, allow_pickle=False))
        except (EOFError, ValueError) as error:
            raise ValueError(f"{path} must be a file of numpy.save: {error}") from error
        table = array[:, np.newaxis] if array.ndim == 1 else array
    else:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} must be text in UTF-8 (or a file of numpy.save called *.npy): {error}") from error
        lines = [line for line in (line.partition("#")[0].strip() for line in text.splitlines()) if line]
        comma = "," if any("," in line for line in lines) else None
        if lines and all(map(_is_name, lines[0].split(comma))):
            del lines[0]
        if not lines:
            raise ValueError(f"{path} must hold numbers, got none")
        try:
            table = np.loadtxt(lines, delimiter=comma, ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path} must hold a table of numbers: {error}") from error
    if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iuf":
        raise ValueError(f"{path} must hold a table of real numbers, got shape {table.shape} of {table.dtype}")
    return table.astype(np.float64)


def _is_name(text: str) -> bool:
    """Whether it names a column: it has a letter, and does not begin as a number does, however ill it goes on."""
    text = text.strip().strip("\"'")
    return any(map(str.isalpha, text)) and text[0] not in "+-.0123456789" and text.lower() not in ("nan", "inf")


def _tuned(problem: Any, arguments: Namespace, rho: float) -> tuple[Problem, str]:
    """The problem at the best learning rate for the horizon, and what was found."""
    from corrnoise.solvers.optimal_noise import optimal_noise
    from corrnoise.solvers.tuning import best_learning_rate
    from corrnoise.theory.privacy import zero_out_rho

    found = best_learning_rate(
        problem,
        arguments.steps,
        optimal_noise,
        initial_offset=arguments.initial_offset,
        rho=zero_out_rho(rho, arguments.adjacency),
        clip_norm=arguments.clip_norm,
    )
    tuned: Problem = type(problem)(**{**problem.arguments(), "learning_rate": found.learning_rate})
    note = f"The learning rate {found.learning_rate!r} has the smallest expected error after {arguments.steps} steps"
    return tuned, f"{note},\n{found.error:.6g}, of all, with the optimal noise for each and this start."


# -- output ------------------------------------------------------------------------------------------------------------


def _heading(design: Design) -> str:
    """The problem and the budget in words."""
    from corrnoise.theory.problems import LinearRegression
    from corrnoise.theory.strongly_convex import StronglyConvex

    problem = design.problem
    if isinstance(problem, LinearRegression):
        what = (
            f"linear regression, {problem.eigenvalues.size} eigenvalues from {problem.eigenvalues.min():.6g} to"
            f" {problem.eigenvalues.max():.6g},\n          residual std {problem.residual_std:g}, kurtosis"
            f" {problem.kurtosis:g}, learning rate {problem.learning_rate!r}"
        )
    elif isinstance(problem, StronglyConvex):
        what = (
            f"strongly convex losses, mu = {problem.strong_convexity:g}, L = {problem.smoothness:g},"
            f" dimension {problem.dimension},\n          gradient noise std {problem.gradient_noise_std:g},"
            f" learning rate {problem.learning_rate!r}"
        )
    else:
        what = repr(problem)
    pair = [f"{name} = {design.metadata[name]!r}" for name in ("epsilon", "delta") if name in design.metadata]
    promised = f" ({', '.join(pair)})" if pair else ""
    length = "any number of steps" if design.steps is None else f"{design.steps} steps"
    return "\n".join(
        [
            f"Problem:  {what}",
            f"Privacy:  rho = {design.rho!r} of zCDP{promised}, clip norm {design.clip_norm!r}, {design.adjacency},",
            f"          for {length}, each example in at most one of them",
        ]
    )


def _what_to_run(design: Design) -> str:
    """The noise multipliers, each with what it belongs to."""
    from corrnoise.theory.pole_noise import PoleNoise

    if isinstance(design.stream, PoleNoise):
        stream = ("poles.csv", design.stream_multiplier, f"a stream of {design.stream.poles.size} poles")
    else:
        stream = ("stream.csv", design.stream_multiplier, "a stream of finitely many coefficients")
    rows = [
        ("coefficients.csv", design.toeplitz_multiplier, "for the steps stated"),
        stream,
        ("buffers in design.json", design.buffers_multiplier, "for libraries that run BLT strategies"),
    ]
    lines = [f"  {name:<26}{value!r:<24}{text}" for name, value, text in rows if value is not None]
    return "\n".join(
        [
            "Noise multipliers, each for its own noise only:",
            "",
            *lines,
            "",
            "The independent noise of a step has the standard deviation multiplier x clip norm; the correlated noise",
            "made of it is added to the sum of the clipped gradients of the step.",
        ]
    )


def _tables(design: Design) -> dict[str, str]:
    """Coefficients and poles as CSV, by name of the file."""
    from corrnoise.theory.finite_noise import FiniteNoise
    from corrnoise.theory.pole_noise import PoleNoise

    tables = {}  # of the names OPTIONAL_FILES
    if design.toeplitz is not None:
        comments = [
            "first columns of the noising matrix and of the strategy; beta is noising_coef",
            f"noise multiplier: {design.toeplitz_multiplier!r}, for {design.steps} steps, each example in one at most",
        ]
        columns = (design.toeplitz.noising_coef.tolist(), design.toeplitz.strategy_coef.tolist())
        rows = zip(range(design.toeplitz.noising_coef.size), *columns, strict=True)
        tables["coefficients.csv"] = _csv(comments, ["t", "noising_coef", "strategy_coef"], rows)
    if isinstance(design.stream, PoleNoise):
        comments = [
            "sections of B(z) = prod (1 - (1 - zero_gap) z)/(1 - (1 - pole_gap) z)",
            f"noise multiplier: {design.stream_multiplier!r}",
        ]
        zeros, poles = (part.tolist() for part in design.stream.sections())
        tables["poles.csv"] = _csv(comments, ["zero_gap", "pole_gap"], zip(zeros, poles, strict=True))
    if isinstance(design.stream, FiniteNoise):
        comments = ["all noise coefficients of the stream", f"noise multiplier: {design.stream_multiplier!r}"]
        tables["stream.csv"] = _csv(comments, ["t", "noising_coef"], enumerate(design.stream.values.tolist()))
    return tables


def _csv(comments: Sequence[str], columns: Sequence[str], rows: Iterable[Sequence[float]]) -> str:
    file = io.StringIO()
    file.writelines(f"# {comment}\n" for comment in comments)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()
