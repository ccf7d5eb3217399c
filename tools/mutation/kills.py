"""The oracle of the ledger: how the mutants of a claim fare in its check.

A mutant of a true inequality may be true as well.  So the fates are told apart, by the margins at points of the domain:
a mutant is *weaker* if no margin is smaller than that of the claim, and *equal* if none differs.  The others say more
than the claim, or something else: they *tell*, and are either killed or survive.  Equal mutants are inert: others are
drawn in their place.
"""

import random
import warnings
from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.search import sample_points, worst_case
from corrnoise.paper_checks.machinery.verdicts import FALSE, INEQUALITY
from tools.mutation.compiled import Mutant, caches, functions_of, in_place, mutants_of
from tools.mutation.limits import OutOfTimeError, memory_limit, time_limit
from tools.mutation.record import Kills, source_of
from tools.mutation.sources import in_turn

MOST = 12  #: mutants of one claim that are not inert, a seeded sample in which all kinds have equal parts
TELLING = 6  #: more are drawn until so many tell
DRAWN = 72  #: mutants of one claim that are compared with it, at most
_POINTS = 16  #: points inside of the cube at which a mutant is compared with its claim, and as many on its faces
_SAME = 1e-12
_SECONDS = 30.0  #: a mutant that takes longer is undefined
_MEMORY = 2**31  #: bytes; a mutant that needs more has no value


def _names(functions: Sequence[FunctionType]) -> tuple[str, ...]:
    """``module:name`` of functions; of a function inside another one, that of the other."""
    names = (f"{found.__module__}:{found.__qualname__.split('.<locals>')[0]}" for found in functions)
    return tuple(sorted(set(names)))


def _points(claim: Claim) -> list[Any]:
    """Points at which mutants are compared, a few of all kinds; fewer for claims that take long, of few evaluations."""
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
    """The fate of a mutant, and its smallest margin, by the claim's margins at the points, a typical one first."""
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


def tried(claim: Claim) -> Kills:
    """How the mutants of one claim fare, here or in another process, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kills(claim)


def kills(claim: Claim, most: int = MOST) -> Kills:
    """Try the mutants of a claim; of a claim that is false there are none."""
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
    for mutant in in_turn(found, DRAWN, random.Random(0).shuffle):
        drawn = fates.total() - fates["equal"]
        if drawn >= most and fates["killed"] + fates["survived"] >= min(TELLING, most):
            break
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
