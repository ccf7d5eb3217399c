"""Files of designs, programs and mechanisms.  A number that privacy rests on is computed again when a file is read.

A *design* has a single file, or a folder with ``design.npz``, which ``load`` reads, and the report, pictures, and
tables for other programs.  Everything else has a single file: a mechanism, a program, a budget, a participation, or the
record of a program with its claims, ``program.record(budget)``.  ``support.serialise`` writes the container; its digest
shows damage, not truth.

Claims are computed, never copied.  ``load`` computes sensitivities, multipliers, scales, ρ, ε and errors from the
mechanisms, participations and budget of the file, also for all alternatives, and returns the computed numbers.  Numbers
that the file states must agree to 10⁻⁹; otherwise the file is refused with both numbers.  Files hold no floors: floors
of short runs are computed again, the others are None (``designs.judging``).  An ``Optimum`` without its design is
refused, because its error cannot be computed.  Runs and matrices of more steps than ``MOST_STEPS``, and mechanisms
nested more than three deep, are refused before they are judged.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.designs.design import Design
from corrnoise.solvers.optimum import Certificate, Optimum, label
from corrnoise.support import serialise
from corrnoise.support.files import whole_files
from corrnoise.support.serialise import by_name
from corrnoise.support.things import checked_kinds
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import KINDS as NOISES
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import Sensitivity
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record
from corrnoise.theory.objectives.workloads import SGD, MatrixWorkload, MomentumAverage, MomentumSGD, PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.participation.legacy import legacy_participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.learning_objective import LearningObjective
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex

if TYPE_CHECKING:
    from corrnoise.designs.comparison import Comparison

#: Records that a file may hold by themselves: settings, which have no derived number, and programs.
ALONE = (
    *NOISES.values(),
    *(Program, Budget, Participation),
    *(SGD, PrefixSums, MomentumSGD, MomentumAverage, MatrixWorkload),
    *(LinearRegression, MeanEstimation, StronglyConvex, LearningObjective),
)
#: All records that a file may hold, by name; the others are parts of a design.
KINDS: dict[str, Callable[..., Any]] = {
    **by_name(*ALONE, *Participation.doors.values(), Design, Optimum, Certificate, Sensitivity),
    "Participation": legacy_participation,
}
#: All names of files of a design.  A design may lack some; files of an earlier design are removed.
NAMES = (
    *("design.npz", "programs.json", "report.txt", "coefficients.csv", "poles.csv", "scales.csv"),
    *("design.html", "epsilon.csv"),
    *("comparison.pdf", "comparison.png", "comparison.csv", "memory.pdf", "memory.png", "memory.csv"),
)
#: Steps of a run whose noise a file may hold, by kind; all others are Toeplitz noise.
MOST_STEPS = {MatrixNoise: 4096, BandedNoise: 4096, object: 10**7} | dict.fromkeys(
    (BinaryTree, ScaledNoise, TimeVaryingBuffers), 10**6
)

_MAIN_FILE = "design.npz"
_FILE_ENDINGS = (".json", ".npz")
_SAME_NUMBER = 1e-9  # relative difference allowed between a stated number and the computed one
MAX_NESTED_MECHANISMS = 3  # mechanisms in each other


def register(cls: type[Participation]) -> type[Participation]:
    """Let ``save`` and ``load`` know a participation of your own; a file names the class without its module.

    Register it before each ``save`` and ``load``, for example as a decorator of the class.

    Parameters
    ----------
    cls : type
        A class of ``Participation`` whose ``arguments()`` make an object again.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    TypeError
        It is not a subclass of ``Participation``.
    ValueError
        Files have another class of this name.
    """
    if not (isinstance(cls, type) and issubclass(cls, Participation)):
        raise TypeError(f"cls must be a subclass of Participation, got {cls!r:.80}")
    if KINDS.get(cls.__name__, cls) is not cls:
        raise ValueError(f"cls must have a name that files do not have yet, got {cls.__name__!r}")
    KINDS.update(checked_kinds({cls.__name__: cls}))
    return cls


# -- saving ------------------------------------------------------------------------------------------------------------


@usual_float_errors
def save(
    thing: Any,
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    comparison: Comparison | None = None,
    parameters: int | None = None,
) -> list[Path]:
    """Write a design to a folder, or a design, a program or a mechanism to a file: completely, or not at all.

    Parameters
    ----------
    thing : object
        A design; a mechanism, a program, ``program.record(budget)``; or an input of a design.
    path : path
        For a file a name that ends with ``.json`` or ``.npz``; a folder for designs otherwise, which is made if it is
        missing.
    overwrite : bool, default False
        Whether to replace files that are there.
    comparison : Comparison, optional
        For the folder of a design, ``design.comparison(…)``; None for the comparison from the minimum, if any.
    parameters : int, optional
        For the folder of a design, the size of the model, for the report.

    Returns
    -------
    list of Path
        The paths of the files.

    Raises
    ------
    FileExistsError
        A file of these names is there, and ``overwrite`` is False.
    ValueError
        If the thing cannot be saved.
    TypeError
        If an argument has another type.
    OSError
        The files cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import corrnoise as cn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = cn.save(cn.mechanisms.NuFTRL(0.01), f"{folder}/noise.json")
    ...     cn.load(f"{folder}/noise.json")
    NuFTRL(nu=0.01)
    """
    target = checked_path("path", path)
    if target.suffix in _FILE_ENDINGS:
        if target.exists() and not overwrite:
            raise FileExistsError(f"path must not be a file that is there, got {os.fspath(target)!r}: overwrite it")
        return [serialise.save(_with_claims(thing), target, KINDS)]
    if not isinstance(thing, Design):
        raise ValueError(f"path must end with '.json' or '.npz' for {type(thing).__name__}, got {os.fspath(target)!r}")
    return _save_folder(thing, target, overwrite, comparison, parameters)


def _with_claims(thing: Any) -> Any:
    """The thing as it is written, if ``load`` reads it again."""
    require_small(thing)
    if isinstance(thing, Design):
        alternatives = tuple(map(_without_floor, thing.alternatives))
        optimum = replace(_without_floor(thing.optimum), alternatives=alternatives)
        return {"design": replace(thing, optimum=optimum), "stated": stated_claims(thing)}
    if not isinstance(thing, ALONE) and not (isinstance(thing, Mapping) and "mechanism" in thing):
        raise TypeError(
            f"thing must be a design, a mechanism, a program or its record, or an input of a design, got {thing!r:.80}:"
            " save the design of an optimum"
        )
    return thing


def _without_floor(optimum: Optimum) -> Optimum:
    return replace(optimum, lower_bound=None, rigorous=False, certificate="")


def stated_claims(design: Design) -> dict[str, Any]:
    """The claims of a design."""
    program, budget = design.program(), design.budget
    gaussian = not design.participation.sampled
    return {
        "rho": budget.gaussian_rho if gaussian else None,
        "epsilon": budget.epsilon_at(budget.delta) if gaussian and budget.delta is not None else budget.epsilon,
        "sensitivity": program.sensitivity,
        "multiplier": program.multiplier(budget),
        "scale": program.scale(budget),
        "error": design.error,
    }


def _save_folder(
    design: Design, target: Path, overwrite: bool, comparison: Comparison | None, parameters: int | None
) -> list[Path]:
    from corrnoise.designs.export import programs_as_json, tables
    from corrnoise.designs.page import write_page
    from corrnoise.designs.report import report

    folder = checked_folder(target, overwrite=overwrite)
    if comparison is None and design.problem is not None:
        comparison = design.comparison()
    with _made(folder), whole_files(folder, stale=NAMES) as staging:
        serialise.save(_with_claims(design), staging / _MAIN_FILE, KINDS)
        texts = {"report.txt": report(design, comparison, parameters), "programs.json": programs_as_json(design)}
        for name, text in (texts | tables(design)).items():
            staging.joinpath(name).write_text(text, encoding="utf-8", newline="")
        if comparison is not None:
            from corrnoise.designs.figure import write_picture

            write_picture(design, comparison, staging)
        if design.alternatives:
            from corrnoise.designs.memory_figure import write_memory_picture

            write_memory_picture(design, staging)
        write_page(design, staging, comparison, parameters)
        return [folder / path.name for path in sorted(staging.iterdir())]


def checked_path(name: str, path: object) -> Path:
    """Return ``path`` as a path."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, as a string or os.PathLike, got {path!r}")
    return Path(path)


def checked_folder(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Return ``folder`` as a path, if a design may be written there."""
    path = checked_path("folder", folder)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"folder must be a folder, got {os.fspath(path)!r}, which is a file")
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"folder must be writable, got {os.fspath(path)!r}")
    there = [name for name in NAMES if path.joinpath(name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"folder must not hold a design, got {os.fspath(path)!r} with {', '.join(there)}: choose another one, or "
            "overwrite it"
        )
    return path


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder if it is missing, and remove it again if the block fails."""
    there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


# -- loading -----------------------------------------------------------------------------------------------------------


@usual_float_errors
def load(path: str | os.PathLike[str]) -> Any:
    """Read a file of ``save``; the result is equal to the saved thing, bit for bit, but for lower bounds of long runs.

    Parameters
    ----------
    path : path
        A file, or the folder of a design.

    Returns
    -------
    object

    Raises
    ------
    TypeError
        ``path`` is not a path.
    ValueError
        The file is foreign, damaged or too large, or states a number that is another one when it is computed.
    OSError
        It cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import corrnoise as cn
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = cn.save(cn.mechanisms.AntiPGD(0.1), f"{folder}/noise.npz")
    ...     cn.load(f"{folder}/noise.npz")
    AntiPGD(damping=0.1)
    """
    file = checked_path("path", path)
    if file.is_dir():
        file = file / _MAIN_FILE
    return serialise.load(file, KINDS | {"Optimum": _optimum}, check=_checked)


def _checked(thing: Any) -> Any:
    """Return the thing in a file with its numbers computed again, if its claims hold."""
    require_small(thing)
    if isinstance(thing, Mapping) and isinstance(design := thing.get("design"), Design):
        if not design.participation.sampled:
            _compare(thing["stated"], {"rho": design.budget.gaussian_rho})
        from corrnoise.designs.judging import judged  # which loads the solvers

        design = replace(design, optimum=_with_present_names(design.optimum))
        again = replace(design, optimum=judged(design.optimum, design.objective, design.budget))
        for one, other in zip(_optima(design), _optima(again), strict=True):
            _compare(_claims(one), _claims(other))
        _compare(thing["stated"], stated_claims(again))
        return again
    if isinstance(thing, Mapping) and isinstance(thing.get("mechanism"), Mechanism):
        found = _made_again(thing).record(thing["budget"])
        _compare(thing, {name: found[name] for name in ("sensitivity", "multiplier", "scale", "memory")})
        return found
    if isinstance(thing, Program):
        program = _made_again(thing.arguments())
        _compare(thing.arguments(), {"sensitivity": program.sensitivity})
        return program
    if not isinstance(thing, ALONE):
        raise ValueError("it holds no design, program or mechanism, or a design without its claims")
    return thing


def _optimum(**arguments: Any) -> Optimum:
    """An optimum in a file; those of version 0.1 name the lower bound ``floor``."""
    if "floor" in arguments:
        arguments["lower_bound"] = arguments.pop("floor")
    return Optimum(**arguments)


def _with_present_names(optimum: Optimum) -> Optimum:
    """The optimum with the names of today; files of version 0.1 have older ones, with variant and sampler appended."""
    from corrnoise.solvers.families.registry import BY_NAME

    name = optimum.family.removesuffix(f", {optimum.sampler}")
    alternatives = tuple(map(_with_present_names, optimum.alternatives))
    found = BY_NAME.get(label(name, optimum.variant).casefold())
    if found is None:
        return replace(optimum, alternatives=alternatives)
    return replace(optimum, family=found.name, variant=found.variant, alternatives=alternatives)


def _optima(design: Design) -> tuple[Optimum, ...]:
    return (design.optimum, *design.alternatives)


def _claims(optimum: Optimum) -> dict[str, float]:
    return {"sensitivity": optimum.sensitivity.upper, "error of the mechanism": optimum.error}


def require_small(thing: Any, nested: int = 0) -> None:
    """Refuse what would take long to judge."""
    if isinstance(thing, Mechanism):
        nested += 1
        if nested > MAX_NESTED_MECHANISMS:
            raise ValueError(f"mechanisms must be nested at most {MAX_NESTED_MECHANISMS} deep")
    if isinstance(thing, Participation) and KINDS.get(type(thing).__name__) is not type(thing):
        name = f"{type(thing).__module__}.{type(thing).__qualname__}"
        raise TypeError(f"participation must be of a known class, got {name}: designs.storage.register({name}) adds it")
    if isinstance(thing, Mechanism | Participation) and thing.steps is not None:
        most = MOST_STEPS.get(type(thing), MOST_STEPS[object])
        if thing.steps > most:
            raise ValueError(f"steps must be at most {most} for {type(thing).__name__} in a file, got {thing.steps}")
    if isinstance(thing, Record):
        thing = thing.arguments()
    if isinstance(thing, Mapping):
        thing = list(thing.values())
    if isinstance(thing, list | tuple):
        for one in thing:
            require_small(one, nested)


def _made_again(described: Mapping[str, Any]) -> Program:
    return described["mechanism"].program(described["participation"], described["dtype"], described["form"])


def _compare(stated: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Refuse stated numbers that differ from the computed ones."""
    for name, value in found.items():
        claimed = stated[name]
        same = (
            claimed is value if value is None or claimed is None else math.isclose(claimed, value, rel_tol=_SAME_NUMBER)
        )
        if not same:
            raise ValueError(f"{name} is {claimed!r} in it, and {value!r} when it is computed")
