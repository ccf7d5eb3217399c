"""``corrnoise design``: make noise for a problem and a privacy budget, and write files for a training program."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed, option

if TYPE_CHECKING:
    from corrnoise.designs.covered_noise import Problem
    from corrnoise.designs.spectra import Spectrum
    from corrnoise.theory.numerics.checks import Array

SUMMARY = "design noise for a run and a budget: the best mechanism, its noise multiplier, files for training programs"
EXAMPLE = "corrnoise design --epsilon 2 --delta 1e-6 --steps 2000 --epochs 4 --memory 4 --output my-design"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    number: dict[str, Any] = {"type": float, "metavar": "X"}
    count: dict[str, Any] = {"type": int, "metavar": "N"}

    problem = parser.add_argument_group(
        "the problem, in one of four ways; none of them where no spectrum is known, which needs --steps or --epochs"
    )
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
    problem.add_argument(
        "--strong-convexity", **number, help="mu of a strongly convex loss, for which bounds are known"
    )
    problem.add_argument("--smoothness", **number, help="L of a strongly convex loss")
    problem.add_argument("--learning-rate", **number, help="eta, of the mean gradient of a batch")
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
        "--max-participations", **count, default=1, help="steps in which one example takes part, at most (default: 1)"
    )
    run.add_argument(
        "--min-sep", **count, default=1, help="steps between two of them, j - i for the steps i and j (default: 1)"
    )
    run.add_argument("--epochs", **count, help="times that the data are visited, in the SAME order every time")
    run.add_argument("--steps-per-epoch", **count, help="length of an epoch, with --epochs")
    run.add_argument("--examples", **count, help="number of examples of an epoch, with --epochs and --batch-size")
    run.add_argument("--batch-size", **count, help="examples a step (default: 1)")
    run.add_argument(
        "--initial-offset", **number, help="distance of the start to the minimum, in each eigendirection (default: 0)"
    )
    run.add_argument(
        "--tune-learning-rate",
        action="store_true",
        help="find the learning rate with the smallest error after --steps steps from --initial-offset",
    )
    run.add_argument(
        "--judged",
        choices=("second half", "last"),
        default="second half",
        help="errors of learning that count where a mechanism is chosen (default: the mean over the second half)",
    )
    run.add_argument("--tolerance", **number, default=1e-6, help="of the noise by poles (default: %(default)s)")
    optimiser = parser.add_argument_group("the optimiser, where no problem is given")
    optimiser.add_argument("--momentum", **number, default=0.0, help="of the optimiser (default: 0)")
    optimiser.add_argument("--weight-decay", **number, default=0.0, help="of the optimiser (default: 0)")
    optimiser.add_argument("--cool-down", **number, help="share of the run in which the learning rate falls to 0")
    optimiser.add_argument("--learning-rates", metavar="FILE", help="learning rates of all steps, one a line, or .npy")

    limit = parser.add_argument_group("what a stream may keep, in arrays of the size of the gradient")
    limit.add_argument("--memory", type=_memory, metavar="N", help="at most so many, of any kind (inf: no limit)")
    limit.add_argument("--poles", **count, help="only noise with at most so many poles")
    limit.add_argument("--bands", **count, help="only noise with at most so many bands; p bands keep p - 1 arrays")
    limit.add_argument(
        "--no-scales",
        action="store_true",
        help="no factor for each step, so that other libraries can run the noise, which is then a little worse",
    )
    parser.add_argument(
        "--output", metavar="DIR", default="corrnoise-design", help="folder for the files (default: %(default)s)"
    )
    parser.add_argument("--force", action="store_true", help="overwrite the files of a design that is in the folder")


def run(arguments: Namespace) -> int:
    """Make the design, write its files, print the report."""
    from corrnoise.designs.files import checked_folder
    from corrnoise.designs.make import design
    from corrnoise.support.progress import progress_line

    with names_as_typed(*_NAMES), _files_as_typed(), progress_line() as show:
        checked_folder(arguments.output, overwrite=arguments.force)
        problem, notes = _problem(arguments)
        found = design(
            problem,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            rho=arguments.rho,
            steps=arguments.steps,
            min_sep=arguments.min_sep,
            max_participations=arguments.max_participations,
            clip_norm=arguments.clip_norm,
            adjacency=arguments.adjacency,
            epochs=arguments.epochs,
            steps_per_epoch=arguments.steps_per_epoch,
            examples=arguments.examples,
            batch_size=arguments.batch_size,
            momentum=arguments.momentum,
            weight_decay=arguments.weight_decay,
            learning_rates=_learning_rates(arguments),
            cool_down=arguments.cool_down,
            memory=arguments.memory,
            poles=arguments.poles,
            bands=arguments.bands,
            scales=not arguments.no_scales,
            judged=arguments.judged,
            initial_offset=0.0 if arguments.initial_offset is None else arguments.initial_offset,
            tune_learning_rate=arguments.tune_learning_rate,
            tolerance=arguments.tolerance,
            notes=notes,
            progress=show,
        )
        show("files")
        paths = found.save(arguments.output, overwrite=arguments.force)
    print(found.report(), *paths, sep="\n")
    return 0


# -- names -------------------------------------------------------------------------------------------------------------

_NAMES = (
    *("eigenvalues", "data", "dimension", "decay", "strong_convexity", "smoothness", "learning_rate", "residual_std"),
    *("kurtosis", "gradient_noise_std", "rho", "epsilon", "delta", "clip_norm", "adjacency", "steps"),
    *("min_sep", "max_participations"),
    *("initial_offset", "tune_learning_rate", "tolerance", "epochs", "steps_per_epoch", "examples", "batch_size"),
    *("momentum", "weight_decay", "learning_rates", "cool_down", "memory", "poles", "bands"),
)


def _memory(text: str) -> float:
    """A number of arrays, or ``inf``."""
    if text == "inf":
        return math.inf
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is no number of arrays, which is 1, 2, ... or inf for any")
    return int(text)


def _learning_rates(arguments: Namespace) -> Array | None:
    from corrnoise.designs.spectra import numbers_from_file

    if arguments.learning_rates is None:
        return None
    return numbers_from_file(arguments.learning_rates, "--learning-rates")


@contextmanager
def _files_as_typed() -> Iterator[None]:
    """Say ``--output`` in errors about the folder, and what to give to overwrite a design."""
    try:
        yield
    except OSError as error:
        if not str(error).startswith("folder "):
            raise
        text = str(error).replace("folder", "--output", 1).replace("overwrite it", "give --force to overwrite it")
        raise type(error)(text) from error


# -- the problem -------------------------------------------------------------------------------------------------------

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


def _problem(arguments: Namespace) -> tuple[Problem | None, tuple[str, ...]]:
    """The problem, at any learning rate if that is to be tuned, and sentences about it; None where none is given."""
    from corrnoise.theory.problems.quadratic import LinearRegression
    from corrnoise.theory.problems.strongly_convex import StronglyConvex

    def given(*names: str) -> dict[str, Any]:
        values = {name: getattr(arguments, name) for name in names}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    sources = list(given("strong_convexity") or given("eigenvalues", "data", "dimension"))
    if not sources and given("steps", "epochs"):
        for name in given(*_HOMES, "learning_rate", "initial_offset", "tune_learning_rate"):
            raise ValueError(f"{option(name)} must come with a problem, such as --eigenvalues")
        return None, ()
    if len(sources) != 1:
        raise ValueError(
            "the problem must be given by one of --eigenvalues, --data, --dimension, --strong-convexity, or by none of "
            "them where no spectrum is known, with --steps or --epochs"
        )
    (source,) = sources
    for name, homes in _HOMES.items():
        if given(name) and source not in homes:
            raise ValueError(f"{option(name)} must come with {' or '.join(map(option, homes))}")
    if (arguments.learning_rate is None) != arguments.tune_learning_rate:
        raise ValueError("either --learning-rate or --tune-learning-rate must be given")
    tunable = source != "strong_convexity" and arguments.steps and arguments.initial_offset
    if arguments.tune_learning_rate and not tunable:
        raise ValueError("--tune-learning-rate needs eigenvalues, --steps and --initial-offset, not 0")
    if source == "strong_convexity":
        if arguments.smoothness is None:
            raise ValueError("--smoothness must come with --strong-convexity")
        options = given("smoothness", "learning_rate", "dimension", "gradient_noise_std")
        return StronglyConvex(arguments.strong_convexity, **options), ()
    spectrum = _spectrum(arguments, source)
    anywhere = {"learning_rate": 1 / float(spectrum.eigenvalues.sum())}
    options = {**anywhere, **given("learning_rate", "residual_std", "kurtosis")}
    return LinearRegression(spectrum.eigenvalues, **options), spectrum.notes


def _spectrum(arguments: Namespace, source: str) -> Spectrum:
    """The eigenvalues, and sentences about them."""
    from corrnoise.designs.make import LARGEST_DIMENSION
    from corrnoise.designs.spectra import Spectrum, eigenvalues_from_file, eigenvalues_of_data
    from corrnoise.theory.problems.quadratic import power_law

    if source == "eigenvalues":
        return eigenvalues_from_file(arguments.eigenvalues, "--eigenvalues")
    if source == "data":
        return eigenvalues_of_data(arguments.data, "--data")
    if arguments.dimension > LARGEST_DIMENSION:
        raise ValueError(
            f"--dimension must be at most {LARGEST_DIMENSION}, beyond which errors take longer than minutes, got "
            f"{arguments.dimension}"
        )
    return Spectrum(power_law(arguments.dimension, 1.0 if arguments.decay is None else arguments.decay))
