"""Kills: how the structural mutants of a claim fare in its check, and the record of that.

The record is a file in JSON.  A claim counts as not yet tried if its function, its domain, a function that mutants
change, or a constant that one of them reads has changed since it was recorded; their documentation may change.  Other
functions are not compared.  Why a mutant survives is written by hand in ``survivors.json``, by the identifier of the claim and the
text of the mutant.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import json
import random
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from types import FunctionType
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.ledger import FALSE, INEQUALITY, Claim
from corrnoise.paper_checks.machinery.limits import OutOfTimeError, memory_limit, time_limit
from corrnoise.paper_checks.machinery.search import sample_points, worst_case
from corrnoise.paper_checks.machinery.structural import Mutant, caches, functions_of, in_place, mutants_of

#: What may become of a mutant.
FATES = {
    "killed": "the check finds it to be false",
    "survived": "it says more than the claim, or something else, and the check finds nothing against it",
    "weaker": "no margin is smaller than that of the claim",
    "equal": "no margin differs from that of the claim",
    "undefined": "it has no value at most points of the domain, or takes too long",
}
MOST = 12  #: mutants of one claim, a seeded sample in which all kinds have equal parts
_POINTS = 16  #: points inside of the cube at which a mutant is compared with its claim, and as many on its faces
_SAME = 1e-12
_SECONDS = 30.0  #: a mutant that takes longer is undefined
_MEMORY = 2**31  #: bytes; a mutant that needs more has no value


@dataclass(frozen=True)
class Kills:
    """How the structural mutants of one claim fared.

    ``source`` identifies the text of the claim's function and of the other ``functions`` that mutants change, which are
    named as ``module:name``.  ``survivors`` are the mutants that survived, each with its smallest margin; ``of`` is the
    number of all mutants, of which ``fates`` counts those that were tried.
    """

    source: str
    of: int
    fates: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    survivors: tuple[tuple[str, float], ...] = ()
    functions: tuple[str, ...] = ()

    @property
    def killed(self) -> int:
        return self.fates.get("killed", 0)

    @property
    def telling(self) -> int:
        """The number of mutants that say more than the claim, or something else."""
        return self.killed + self.fates.get("survived", 0)


def source_of(claim: Claim, functions: Sequence[str] = ()) -> str:
    """What identifies the formulas and the domain of a claim, whatever is said about them and stands around them.

    Parameters
    ----------
    functions
        ``module:name`` of the functions beside the claim's own; one that is gone has no text, nor has its module.
    """
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(claim.function))).body
    texts = [_formulas(tree), _constants(tree, claim.function.__globals__), str(claim.domain)]
    for name in functions:
        module, path = name.split(":")
        found = _definitions(module).get(path)
        if found is None:
            texts.append("")
        else:
            texts += [_formulas(found), _constants(found, vars(importlib.import_module(module)))]
    return hashlib.sha256(" ".join(texts).encode()).hexdigest()[:16]


def _formulas(tree: ast.stmt) -> str:
    """The syntax tree of a function without its decorators and documentation."""
    if not isinstance(tree, ast.FunctionDef):
        return ast.dump(tree)
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    return f"{ast.dump(tree.args)} {[ast.dump(statement) for statement in body]}"


def _constants(tree: ast.stmt, known: Mapping[str, Any]) -> str:
    """The numbers, texts and sequences of them that a function reads from its module, with their names."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & known.keys()
    values = {name: known[name].tolist() if isinstance(known[name], np.ndarray) else known[name] for name in names}
    plain = (int, float, complex, str, tuple, list)
    return " ".join(f"{name} = {values[name]!r}" for name in sorted(values) if isinstance(values[name], plain))


@cache
def _definitions(module: str) -> Mapping[str, ast.FunctionDef]:
    """The functions and methods of a module that does not change while it is imported; none if it is gone."""
    if importlib.util.find_spec(module) is None:
        return {}
    source = inspect.getsource(importlib.import_module(module))
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{method.name}": method for method in node.body if isinstance(method, ast.FunctionDef)
            }
    return found


def _names(functions: Sequence[FunctionType]) -> tuple[str, ...]:
    """``module:name`` of functions; of a function inside another one, that of the other."""
    names = (f"{found.__module__}:{found.__qualname__.split('.<locals>')[0]}" for found in functions)
    return tuple(sorted(set(names)))


def _sample(mutants: Sequence[Mutant], most: int) -> list[Mutant]:
    """At most ``most`` mutants, taken in turn from those of each kind in a seeded order."""
    rng = random.Random(0)
    kinds: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for found in kinds.values():
        rng.shuffle(found)
    chosen: list[Mutant] = []
    while len(chosen) < most and any(kinds.values()):
        chosen += [found.pop() for found in kinds.values() if found]
    return chosen[:most]


def _points(claim: Claim) -> list[Any]:
    """Points of the cube at which mutants are compared: the middle, and an equal part of its corners, faces and inside.

    There are fewer for claims that take long, which have few evaluations.
    """
    points = sample_points(claim.domain.size, _POINTS)
    most = min(len(points), max(claim.evaluations // 2, 4))
    return [points[k] for k in np.linspace(0, len(points) - 1, most).round().astype(int)]


def _margin(claim: Claim, point: Any) -> float:
    """The margin at a point; nan where a mutant has no value."""
    try:
        return claim.margin_at(point)
    except Exception:  # a mutant may do anything
        return np.nan


def fate(
    claim: Claim, mutant: Mutant, points: Sequence[Any], margins: Sequence[float], kept: Sequence[Any] = ()
) -> tuple[str, float]:
    """What becomes of a mutant, and its smallest margin.

    Parameters
    ----------
    points, margins
        Points of the domain's cube, a typical one first, and the margins of the claim there.
    kept
        The caches to empty.
    """
    with in_place(mutant, kept):
        found = []
        for point in points:
            found.append(_margin(claim, point))
            if found[-1] < -claim.tolerance:
                return "killed", found[-1]
        least = float(np.fmin.reduce(found))
        if np.isnan(found).sum() > np.isnan(margins).sum() + len(points) / 2:
            return "undefined", least
        change = np.asarray(found) - np.asarray(margins)
        if np.nanmax(np.abs(change), initial=0.0) <= _SAME:
            return "equal", least
        if claim.relation == INEQUALITY and np.nanmin(change, initial=0.0) >= -_SAME:
            return "weaker", least
        worst = worst_case(
            lambda point: _margin(claim, point),
            claim.domain.size,
            evaluations=claim.evaluations,
            enough=-claim.tolerance,
            points=claim.domain.all_points(max(claim.evaluations, _POINTS)),
        )
        return ("killed" if worst.margin < -claim.tolerance else "survived"), worst.margin


def kills(claim: Claim, most: int = MOST) -> Kills:
    """Try the structural mutants of a claim; of a claim that is false there are none."""
    if claim.recorded == FALSE:
        return Kills(source_of(claim), 0)
    points = _points(claim)
    margins = [_margin(claim, point) for point in points]
    start = next((k for k, value in enumerate(margins) if not np.isnan(value)), 0)
    points = [points[start], *points[:start], *points[start + 1 :]]
    margins = [margins[start], *margins[:start], *margins[start + 1 :]]
    functions = functions_of(claim, claim.domain.arguments(points[0]))
    found = [mutant for function in functions for mutant in mutants_of(function)]
    others = _names([function for function in functions if function is not claim.function])
    kept = caches()
    fates: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    survivors = []
    for mutant in _sample(found, most):
        try:
            with memory_limit(_MEMORY), time_limit(_SECONDS):
                end, least = fate(claim, mutant, points, margins, kept)
        except OutOfTimeError:
            end = "undefined"
            least = np.nan
        fates[end] += 1
        kinds[mutant.kind] += end == "killed"
        if end == "survived":
            survivors.append((str(mutant), float(f"{least:.3g}")))
    return Kills(source_of(claim, others), len(found), dict(fates), dict(kinds), tuple(survivors), others)


# -- the record --------------------------------------------------------------------------------------------------------


def written(record: Mapping[str, Kills]) -> str:
    """A record as JSON, one claim a line, in the order of their identifiers."""
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(record[name]), ensure_ascii=False)}" for name in sorted(record))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(text: str) -> dict[str, Kills]:
    """A record from JSON."""
    found = {}
    for name, fields in json.loads(text).items():
        survivors = tuple((mutant, margin) for mutant, margin in fields.pop("survivors"))
        found[name] = Kills(functions=tuple(fields.pop("functions")), survivors=survivors, **fields)
    return found


@cache
def published() -> Mapping[str, Kills]:
    """The record of this version of the project."""
    path = files("corrnoise.paper_checks") / "mutants.json"
    return read(path.read_text(encoding="utf-8")) if path.is_file() else {}


def is_current(found: Kills, claim: Claim) -> bool:
    """Whether neither the claim nor the formulas that it calls have changed since."""
    return found.source == source_of(claim, found.functions)


def published_for(claim: Claim) -> Kills | None:
    """The record of a claim; None if there is none, or if the claim has changed since."""
    found = published().get(claim.identifier)
    return found if found is not None and is_current(found, claim) else None


# -- reasons -----------------------------------------------------------------------------------------------------------


@cache
def reasons() -> Mapping[str, Mapping[str, str]]:
    """Why mutants survive, by claim and mutant."""
    path = files("corrnoise.paper_checks") / "survivors.json"
    found: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def reasons_for(claim: Claim) -> Mapping[str, str]:
    """Why the mutants of a claim survive, as far as a reason is written down."""
    return reasons().get(claim.identifier, {})


def remarks(record: Mapping[str, Kills]) -> Iterator[str]:
    """What is to be done by hand in ``survivors.json``: reasons that are out of date, and reasons that are missing."""
    for name in sorted(record):
        survivors = dict(record[name].survivors)
        known = reasons().get(name, {})
        yield from (f"{name}: no survivor any more: {mutant}" for mutant in known if mutant not in survivors)
        yield from (
            f"{name}: survives with the margin {margin:.2g} and has no reason: {mutant}"
            for mutant, margin in survivors.items()
            if mutant not in known
        )
