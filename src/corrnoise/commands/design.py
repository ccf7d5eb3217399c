"""``corrnoise design``: the best noise for a run and a budget, with a report and files for training programs."""

from __future__ import annotations

import math
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed, option
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.designs.design import Problem
    from corrnoise.designs.spectra import GivenSpectrum
    from corrnoise.theory.objectives.base import Minimisable
    from corrnoise.theory.participation import Participation
    from corrnoise.theory.privacy import Budget

SUMMARY = "design noise for a run and a budget: the best mechanism, how to run it, files for training programs"
EXAMPLE = (
    "corrnoise design --epsilon 2 --delta 1e-6 --examples 50000 --batch-size 128 --epochs 3 --memory 4 "
    "--output my-design"
)
SAMPLINGS = ("best", "none", "poisson", "cyclic-poisson", "balls-in-bins")
ORDERS = ("fixed", "reshuffled", "min-sep")
_NUMBER_OPTION: dict[str, Any] = {"type": float, "metavar": "X"}
_COUNT_OPTION: dict[str, Any] = {"type": int, "metavar": "N"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the command."""
    parser.usage = f"{parser.prog} --epsilon X --delta X --examples N --batch-size N --epochs N [more, see below]"
    usual = parser.add_argument_group("the usual options")
    usual.add_argument(
        "--epsilon", **_NUMBER_OPTION, help="epsilon of (epsilon, delta)-differential privacy of the run"
    )
    usual.add_argument("--delta", **_NUMBER_OPTION, help="delta, with --epsilon")
    usual.add_argument(
        "--examples", **_COUNT_OPTION, help="number of examples of the data; the rest of an epoch is left out"
    )
    usual.add_argument("--batch-size", **_COUNT_OPTION, help="examples a step (default: 1)")
    usual.add_argument("--epochs", **_COUNT_OPTION, help="number of epochs (default: 1)")
    usual.add_argument(
        "--sampling",
        choices=SAMPLINGS,
        default="none",
        help="how batches are sampled, with --examples, --batch-size and --epochs; 'best' chooses noise and sampler "
        "together, and 'none' keeps --order (default: none)",
    )
    usual.add_argument(
        "--memory",
        type=_memory,
        metavar="N",
        help="largest number of buffers of the model's size; 0: independent noise, inf: any number "
        "(default: at most 16, and the fewest within 1 percent of the best)",
    )
    _add_run(parser)
    _add_problem(parser)


def _add_run(parser: ArgumentParser) -> None:
    run = parser.add_argument_group("other ways to describe the run")
    run.add_argument("--steps", **_COUNT_OPTION, help="number of steps of the run, in place of --examples")
    run.add_argument("--steps-per-epoch", **_COUNT_OPTION, help="number of steps of an epoch, in place of --examples")
    run.add_argument(
        "--order",
        choices=ORDERS,
        default="fixed",
        help="data order of the loop: the SAME order in every epoch, a new order in each, or participations of an "
        "example at least an epoch, or --separation steps, apart (default: fixed)",
    )
    run.add_argument(
        "--separation",
        **_COUNT_OPTION,
        help="smallest number of steps from one participation of an example to the next, for --order min-sep",
    )
    run.add_argument(
        "--participations",
        **_COUNT_OPTION,
        help="largest number of participations of an example, for --order min-sep (default: any)",
    )
    budget = parser.add_argument_group("other ways to describe the budget")
    budget.add_argument("--rho", **_NUMBER_OPTION, help="zero-concentrated differential privacy, in place of --epsilon")
    budget.add_argument("--clip-norm", **_NUMBER_OPTION, default=1.0, help="of the gradients (default: 1)")
    budget.add_argument(
        "--adjacency",
        choices=("zero-out", "replace-one"),
        default="zero-out",
        help="how neighbouring data sets differ (default: zero-out)",
    )
    noise = parser.add_argument_group("the noise and the files")
    noise.add_argument(
        "--family",
        metavar="NAME",
        help="the only family to be tried, such as BLT; the site lists all names",
    )
    noise.add_argument("--baselines", action="store_true", help="compare all families of noise in the literature, too")
    noise.add_argument(
        "--replays",
        type=_replays,
        default=0,
        metavar="R",
        help="earlier draws that a step may make again, in fixed epochs: time in place of memory; auto: at most 3, and "
        "the fewest within 0.5 percent of the best (default: 0)",
    )
    noise.add_argument("--parameters", **_COUNT_OPTION, help="size of the model, for the bytes of memory in the report")
    noise.add_argument(
        "--output", metavar="DIR", default="corrnoise-design", help="folder for the files (default: %(default)s)"
    )
    noise.add_argument("--force", action="store_true", help="overwrite the files of a design that is in the folder")
    optimiser = parser.add_argument_group("the optimiser, where no problem is given")
    optimiser.add_argument("--momentum", **_NUMBER_OPTION, default=0.0, help="of the optimiser (default: 0)")
    optimiser.add_argument("--weight-decay", **_NUMBER_OPTION, default=0.0, help="of the optimiser (default: 0)")
    optimiser.add_argument(
        "--cool-down", **_NUMBER_OPTION, help="share of the run in which the learning rate falls to 0"
    )
    optimiser.add_argument("--learning-rates", metavar="FILE", help="learning rates of all steps, one a line, or .npy")


def _add_problem(parser: ArgumentParser) -> None:
    problem = parser.add_argument_group("a problem of known spectrum, in one of four ways")
    problem.add_argument("--eigenvalues", metavar="FILE", help="eigenvalues of the Hessian, one a line, or .npy")
    problem.add_argument(
        "--data",
        metavar="FILE",
        help="data matrix X, a row for each of n examples, as text, CSV or .npy: eigenvalues of X'X/n."
        " The privacy budget does not cover that these are computed from private data",
    )
    problem.add_argument(
        "--dimension",
        **_COUNT_OPTION,
        help="number of eigenvalues k^-a, k = 1, 2, ...; with --strong-convexity, of parameters",
    )
    problem.add_argument("--decay", **_NUMBER_OPTION, help="a of the eigenvalues k^-a (default: 1)")
    problem.add_argument(
        "--strong-convexity", **_NUMBER_OPTION, help="mu of a strongly convex loss, for which bounds are known"
    )
    problem.add_argument("--smoothness", **_NUMBER_OPTION, help="L of a strongly convex loss")
    problem.add_argument("--learning-rate", **_NUMBER_OPTION, help="eta, of the mean gradient of a batch")
    problem.add_argument("--residual-std", **_NUMBER_OPTION, help="of the residuals of linear regression (default: 0)")
    problem.add_argument(
        "--kurtosis", **_NUMBER_OPTION, help="of the inputs of linear regression (default: 3, Gaussian)"
    )
    problem.add_argument("--gradient-noise-std", **_NUMBER_OPTION, help="of a strongly convex loss (default: 0)")
    problem.add_argument(
        "--initial-offset",
        **_NUMBER_OPTION,
        help="distance of the start to the minimum, in each eigendirection (default: 0)",
    )
    problem.add_argument(
        "--tune-learning-rate",
        action="store_true",
        help="find the learning rate with the smallest error at the end of the run from --initial-offset",
    )
    problem.add_argument(
        "--judged",
        choices=("second half", "last"),
        help="errors of learning that count (default: the mean over the second half)",
    )


def run(arguments: Namespace) -> int:
    """Make the design, write its files, print the summary."""
    with names_as_typed(*_OPTION_NAMES), _files_as_typed(), progress_line() as show:
        show("loading")
        from corrnoise.designs.make import design
        from corrnoise.designs.storage import checked_folder, save
        from corrnoise.theory.privacy import Budget

        checked_folder(arguments.output, overwrite=arguments.force)
        budget = Budget(
            arguments.rho,
            epsilon=arguments.epsilon,
            delta=arguments.delta,
            clip_norm=arguments.clip_norm,
            adjacency=arguments.adjacency,
        )
        problem, notes = _problem(arguments)
        participation, left_out = _participation(arguments, problem)
        objective, tuned = _objective(arguments, problem, participation, budget, show)
        data: dict[str, Any] = {}
        if arguments.sampling == "best":
            data = {name: getattr(arguments, name) for name in ("examples", "batch_size", "epochs")}
        found = design(
            budget,
            "best" if data else _sampled(arguments, participation),
            objective,
            **data,
            memory=arguments.memory,
            replays=arguments.replays,
            family=_families(arguments),
            notes=(*left_out, *notes, *tuned),
            progress=show,
        )
        comparison = None if found.problem is None else found.comparison(arguments.initial_offset or 0.0, show)
        show("files")
        options: dict[str, Any] = {"comparison": comparison, "parameters": arguments.parameters}
        paths = save(found, arguments.output, overwrite=arguments.force, **options)
    print(found.summary(arguments.parameters or 10**6), *found.notes, *paths, sep="\n")
    return 0


def _families(arguments: Namespace) -> str | tuple[str, ...] | None:
    """The value of ``family``: a name, or all names with ``--baselines``."""
    if not arguments.baselines:
        return str(arguments.family) if arguments.family is not None else None
    if arguments.family is not None:
        raise ValueError("--family must not come with --baselines, which compares all families")
    from corrnoise.solvers.families.registry import names

    return names()


# -- names -------------------------------------------------------------------------------------------------------------

_OPTION_NAMES = (
    *("eigenvalues", "data", "dimension", "decay", "strong_convexity", "smoothness", "learning_rate", "residual_std"),
    *("kurtosis", "gradient_noise_std", "rho", "epsilon", "delta", "clip_norm", "adjacency", "steps", "family"),
    *("initial_offset", "epochs", "steps_per_epoch", "examples", "batch_size", "separation", "participations", "order"),
    *("momentum", "weight_decay", "learning_rates", "cool_down", "memory", "replays", "parameters"),
)


def _memory(text: str) -> float:
    """A number of buffers, or ``inf``."""
    if text == "inf":
        return math.inf
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} must be a number of buffers: 0, 1, 2, ... or inf for any")
    return int(text)


def _replays(text: str) -> int | str:
    """A number of replays, or ``auto``."""
    if text != "auto" and not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} must be a number of draws: 0, 1, 2, ... or auto to choose it")
    return text if text == "auto" else int(text)


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


# -- the run -----------------------------------------------------------------------------------------------------------


def _participation(arguments: Namespace, problem: Problem | None) -> tuple[Participation, tuple[str, ...]]:
    """The participation, and a sentence about the examples that are left out."""
    from corrnoise.theory.numerics import checks
    from corrnoise.theory.participation import Participation

    if arguments.order != "min-sep":
        for name in ("separation", "participations"):
            if getattr(arguments, name) is not None:
                raise ValueError(f"{option(name)} must come with --order min-sep")
    epochs = 1 if arguments.epochs is None else checks.integer("epochs", arguments.epochs, 1)
    length, notes = _epoch(arguments)
    if length is None and arguments.steps is None:
        if problem is not None and arguments.epochs is None and arguments.order == "fixed":
            return Participation.single(), notes
        raise ValueError("the run must be given by --examples and --batch-size, by --steps, or by --steps-per-epoch")
    steps, length = _lengths(arguments.steps, length, epochs)
    if arguments.order == "min-sep":
        apart = length if arguments.separation is None else checks.integer("separation", arguments.separation, 1)
        most = (
            None if arguments.participations is None else checks.integer("participations", arguments.participations, 1)
        )
        if apart > steps:
            raise ValueError(f"separation must be at most the {steps} steps of the run, got {apart}")
        fit = -(-steps // apart)
        if most is not None and most > fit:
            notes += (f"Only {fit} of at most {most} participations fit into {steps} steps that are {apart} apart.",)
        return Participation.min_sep(steps, apart, most), notes
    if epochs == 1:
        return Participation.single(steps), notes
    if arguments.order == "reshuffled":
        return Participation.reshuffled(steps, period=length), notes
    return Participation.fixed_epochs(steps, period=length), notes


def _sampled(arguments: Namespace, order: Participation) -> list[Participation]:
    """The order, or the ways of sampling of the kind that is asked for, with batches of the same mean size."""
    from corrnoise.solvers.families.registry import USUAL_MEMORY
    from corrnoise.solvers.sampled import samplers
    from corrnoise.theory.participation import Participation

    if arguments.sampling == "none":
        return [order]
    if order.steps is None or None in (arguments.examples, arguments.batch_size):
        raise ValueError("--sampling must come with --examples, --batch-size and --epochs")
    period = arguments.examples // arguments.batch_size
    memory = arguments.memory
    most = USUAL_MEMORY if memory is None else memory
    found = samplers(order.steps, period, arguments.batch_size / arguments.examples, most)
    sampler = getattr(Participation, arguments.sampling.replace("-", "_"))
    found = [one for one in found if isinstance(one, sampler)]
    if not found:
        raise ValueError(f"--sampling {arguments.sampling} needs an epoch of more steps, or --memory 1 or more")
    return found


def _lengths(steps: int | None, length: int | None, epochs: int) -> tuple[int, int]:
    """The numbers of steps of the run and of an epoch, if one is known."""
    from corrnoise.theory.numerics import checks

    if steps is None:
        assert length is not None
        return length * epochs, length
    if checks.integer("steps", steps, 1) % epochs:
        raise ValueError(f"steps must be a multiple of epochs={epochs}, got {steps}")
    if length not in (None, steps // epochs):
        raise ValueError(
            f"steps must be the {epochs} times {length} steps of all epochs, {epochs * (length or 0)}, got {steps}"
        )
    return steps, steps // epochs


def _epoch(arguments: Namespace) -> tuple[int | None, tuple[str, ...]]:
    """The number of steps of an epoch, if it is known without the steps of the run, and the examples left out."""
    from corrnoise.theory.numerics import checks

    length = arguments.steps_per_epoch
    if length is not None:
        checks.integer("steps_per_epoch", length, 1)
    if arguments.examples is None:
        return length, ()
    examples = checks.integer("examples", arguments.examples, 1)
    size = 1 if arguments.batch_size is None else checks.integer("batch_size", arguments.batch_size, 1)
    if size > examples:
        raise ValueError(f"batch_size must be at most the {examples} examples, got {size}")
    found, rest = divmod(examples, size)
    if length not in (None, found):
        raise ValueError(f"steps_per_epoch must be {found} for {examples} examples in batches of {size}, got {length}")
    if not rest:
        return found, ()
    return found, (
        f"An epoch has {found} steps of {size} examples; {rest} of the {examples} examples are left out of it.",
    )


def _objective(
    arguments: Namespace,
    problem: Problem | None,
    participation: Participation,
    budget: Budget,
    show: Any,
) -> tuple[Minimisable, tuple[str, ...]]:
    """The objective, at the learning rate that is given or found, and a sentence about that."""
    from corrnoise.theory.objectives.workloads import SGD
    from corrnoise.theory.problems.learning_objective import LearningObjective
    from corrnoise.theory.problems.quadratic import QuadraticProblem

    optimiser = {name: getattr(arguments, name) for name in ("momentum", "weight_decay", "cool_down")}
    if problem is None:
        rates = None
        if arguments.learning_rates is not None:
            from corrnoise.designs.spectra import numbers_from_file

            rates = numbers_from_file(arguments.learning_rates, "--learning-rates")
        size = 1 if arguments.batch_size is None else arguments.batch_size
        return SGD(**optimiser, learning_rates=rates, batch_size=size), ()
    for name, value in {**optimiser, "learning_rates": arguments.learning_rates}.items():
        if value:
            raise ValueError(
                f"{option(name)} must not come with a problem, whose errors are those of SGD with a constant learning "
                "rate: leave the problem out, and the noise is the best for the iterates of this optimiser"
            )
    notes: tuple[str, ...] = ()
    if arguments.tune_learning_rate:
        assert isinstance(problem, QuadraticProblem)
        show("the best learning rate")
        problem, notes = _tuned(problem, participation, arguments.initial_offset, budget)
    if arguments.judged is None:
        return problem, notes
    if not isinstance(problem, QuadraticProblem) or participation.steps is None:
        raise ValueError("--judged must come with --eigenvalues and a number of steps")
    return LearningObjective(problem, participation.steps, weights=arguments.judged), notes


def _tuned(problem: Any, participation: Participation, offset: float, budget: Budget) -> tuple[Any, tuple[str, ...]]:
    """The problem at the best learning rate for the run, with the noise that is optimal for long runs."""
    from corrnoise.designs.comparison import several
    from corrnoise.solvers.tuning import best_learning_rate, stationary_noise

    long = several(participation)
    found = best_learning_rate(
        problem,
        participation,
        lambda one: stationary_noise(one, participation=long),
        initial_offset=offset,
        budget=budget,
    )
    tuned = type(problem)(**{**problem.arguments(), "learning_rate": found.learning_rate})
    return tuned, (
        f"The learning rate {found.learning_rate!r} has the smallest expected error after {participation.steps} steps "
        f"from this\nstart, {found.error:.6g}, with the best noise for long runs at each learning rate.",
    )


# -- the problem -------------------------------------------------------------------------------------------------------

#: The descriptions of the problem that each option needs.
_PROBLEM_OPTIONS = {
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
    if not sources:
        for name in given(*_PROBLEM_OPTIONS, "learning_rate", "initial_offset", "tune_learning_rate", "judged"):
            raise ValueError(f"{option(name)} must come with a problem, such as --eigenvalues")
        return None, ()
    if len(sources) != 1:
        raise ValueError("the problem must be given by one of --eigenvalues, --data, --dimension, --strong-convexity")
    (source,) = sources
    for name, homes in _PROBLEM_OPTIONS.items():
        if given(name) and source not in homes:
            raise ValueError(f"{option(name)} must come with {' or '.join(map(option, homes))}")
    if (arguments.learning_rate is None) != arguments.tune_learning_rate:
        raise ValueError("either --learning-rate or --tune-learning-rate must be given")
    finite = given("steps", "examples", "steps_per_epoch")
    if arguments.tune_learning_rate and not (source != "strong_convexity" and finite and arguments.initial_offset):
        raise ValueError("--tune-learning-rate needs eigenvalues, a number of steps and --initial-offset, not 0")
    if source == "strong_convexity":
        if arguments.smoothness is None:
            raise ValueError("--smoothness must come with --strong-convexity")
        options = given("smoothness", "learning_rate", "dimension", "gradient_noise_std")
        return StronglyConvex(arguments.strong_convexity, **options), ()
    spectrum = _spectrum(arguments, source)
    anywhere = {"learning_rate": 1 / float(spectrum.eigenvalues.sum())}
    options = {**anywhere, **given("learning_rate", "residual_std", "kurtosis", "batch_size")}
    return LinearRegression(spectrum.eigenvalues, **options), spectrum.notes


def _spectrum(arguments: Namespace, source: str) -> GivenSpectrum:
    """The eigenvalues, and sentences about them."""
    from corrnoise.designs.make import LARGEST_DIMENSION
    from corrnoise.designs.spectra import GivenSpectrum, eigenvalues_from_file, eigenvalues_of_data
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
    return GivenSpectrum(power_law(arguments.dimension, 1.0 if arguments.decay is None else arguments.decay))
