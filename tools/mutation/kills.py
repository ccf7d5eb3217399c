"""The oracle of the ledger: how the mutants of a claim fare in its check.

A mutant of a true inequality may be true as well.  So the fates are told apart, by the margins at points of the
domain: a mutant is *weaker* if no margin up to 1 is smaller than the claim's, and *equal* if none differs by
more than the tolerance.  The others say more than the claim, or something else: they *tell*.  They are *killed* if
the search finds a violation.  Mutants that are true as far as is searched are *noticed* if the rest of the check
disagrees with the record: a largest ratio of the sides or the sharp constant is another one, a false neighbour of
the claim is accepted, the counterexample is none any more, or ball arithmetic proves nothing.  They are *shifted* if
only a median ratio of the sides is another one than recorded: so the formula is another one where the claim is far
from an equality, and nothing is said about its truth.  A mutant of a formula that several claims run is noticed
*elsewhere* if one is an identity, and its check disagrees.  The others survive.  Equal mutants are inert:
others are drawn in their place.

Two kinds of mutants follow from the claim, and are weaker, too.  If an argument occurs only in a quantity that becomes
a constant, and no other argument is bounded by it or bounds it, then the mutant is the claim at fixed values of that
argument.  If the sides equal the claim's where one argument is at an end of its range, or at the opposite place in
it, then the mutant is the claim at these other arguments.
"""

import random
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any

import numpy as np

from corrnoise.paper_checks import claims
from corrnoise.paper_checks.machinery.ledger import FEW, Claim
from corrnoise.paper_checks.machinery.power import Ratios, moved, ratio
from corrnoise.paper_checks.machinery.search import Worst, sample_points, worst_case
from corrnoise.paper_checks.machinery.verdicts import FALSE, INEQUALITY
from corrnoise.theory.numerics.checks import Array
from tools.mutation.compiled import Mutant, caches, functions_of, in_place, mutants_of
from tools.mutation.limits import OutOfTimeError, memory_limit, time_limit
from tools.mutation.record import Kills, recorded, source_of
from tools.mutation.sources import in_turn

MOST = 12  #: mutants of one claim that are not inert, a seeded sample with equal parts of all kinds
TELLING = 6  #: more are drawn until so many tell
DRAWN = 72  #: mutants of one claim that are compared with it, at most
_POINT_SEARCHES = (
    16  #: points inside of the cube where a mutant is compared with its claim, as many on its faces, and the worst
)
_SAME_VALUE = 1e-12
_RATIO_ROUNDING = 1e-12  #: of the searches that tell how far the largest ratio can be found again
_RATIO_SEARCHES = 3
_SAME_PLACE = 1e-3  #: relative changes of it that are no spread
_MAX_MUTANT_SECONDS = 30.0  #: a mutant that takes longer is undefined
_MAX_MUTANT_BYTES = 2**31  #: bytes; a mutant that needs more has no value


def _names(functions: Sequence[FunctionType]) -> tuple[str, ...]:
    """``module:name`` of functions; of a function inside another one, the outer one."""
    names = (f"{found.__module__}:{found.__qualname__.split('.<locals>')[0]}" for found in functions)
    return tuple(sorted(set(names)))


def _points(claim: Claim) -> list[Any]:
    """Points where mutants are compared, a few of all kinds; fewer for claims that take long, of few evaluations."""
    points = sample_points(claim.domain.size, _POINT_SEARCHES)
    most = min(len(points), max(claim.evaluations // 2, 4))
    return [points[k] for k in np.linspace(0, len(points) - 1, most).round().astype(int)]


def _worst(claim: Claim, rng: np.random.Generator | None = None) -> Worst:
    """The worst case of the claim, as its check finds it, and nothing where a mutant fails; ``rng`` adds rounding."""

    def margins_at(point: Any) -> Any:
        try:
            margins = claim.margins(claim.domain.arguments(point))
        except Exception:  # a mutant may do anything
            return np.nan
        return (
            margins if rng is None else margins + _RATIO_ROUNDING * np.fmax(abs(margins), 1e-3) * rng.standard_normal()
        )

    return worst_case(
        margins_at,
        claim.domain.size,
        evaluations=claim.evaluations,
        enough=-claim.tolerance,
        points=claim.domain.all_points(max(claim.evaluations, FEW)),
        cases=claim.domain.cases,
    )


def _ratios(claim: Claim, worst: Worst) -> Ratios | None:
    """The ratios of the sides of an inequality; the spread is the largest relative change in other searches."""
    if claim.relation != INEQUALITY or np.isnan(worst.margin):
        return None
    largest = ratio(worst.margin)
    others = [1 - _worst(claim, np.random.default_rng(seed)).margin for seed in range(_RATIO_SEARCHES)]
    most = max(abs(other - largest) for other in others) / abs(largest) if largest else 0.0
    spread = 0.0 if most < _SAME_PLACE else float(f"{most:.2g}")
    return Ratios(largest, spread, tuple(map(ratio, worst.smallest)), tuple(map(ratio, worst.medians)))


def is_case(claim: Claim, mutant: Mutant) -> bool:
    """Whether a mutant is its claim at fixed values of some arguments, so that it follows from the claim."""
    bounds = {bound for axis in claim.domain.axes.values() for bound in axis.bounded_by}
    free = {name for name, axis in claim.domain.axes.items() if not axis.bounded_by} - bounds
    return mutant.function is claim.function and bool(mutant.fixed) and mutant.fixed <= free


def is_at_others(claim: Claim, points: Sequence[Any], found: Sequence[Array]) -> bool:
    """Whether the sides ``found`` of a mutant equal its claim's with one argument at an end, or opposite."""
    first = 0
    for axis in claim.domain.axes.values():
        place = slice(first, first + axis.size)
        first += axis.size
        for slope, start in ((0.0, 0.0), (0.0, 1.0), (-1.0, 1.0)):
            others = np.array(points)
            others[:, place] = start + slope * others[:, place]
            pairs = zip(found, (_sides(claim, point) for point in others), strict=True)
            if all(
                a.shape == b.shape and np.allclose(a, b, rtol=_SAME_VALUE, atol=0, equal_nan=True) for a, b in pairs
            ):
                return True
    return False


def _sides(claim: Claim, point: Any) -> Array:
    """Both sides at a point, in one row; nan where a side is undefined."""
    try:
        return np.concatenate([np.ravel(side).astype(float) for side in claim.sides(claim.domain.arguments(point))])
    except Exception:
        return np.array([np.nan])


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
        refused = bool((np.isnan(found) & ~np.isnan(margins)).any())
        if not refused and np.nanmax(np.abs(change), initial=0.0) <= max(_SAME_VALUE, claim.tolerance):
            return "equal", least
        rise = np.minimum(found, 1.0) - np.minimum(
            margins, 1.0
        )  # beyond 1 the smaller side is negative, the larger is not
        if not refused and claim.relation == INEQUALITY and np.nanmin(rise, initial=0.0) >= -_SAME_VALUE:
            return "weaker", least
        worst = _worst(claim)
        if worst.margin < -claim.tolerance:
            return "killed", worst.margin
        sides = [_sides(claim, point) for point in points]
    return ("weaker" if is_at_others(claim, points, sides) else "survived"), worst.margin


def noticed(claim: Claim, mutant: Mutant, ratios: Ratios | None, kept: Sequence[Any] = ()) -> str:
    """The fate of a mutant by the whole check of a claim, whose sides have these ``ratios``; "survived" if it agrees.

    A check disagrees, too, if a formula refuses an argument that the statement allows: it then ends with an error.
    """
    with in_place(mutant, kept):
        outcome = claim.checked(None)
    seen = not outcome.agrees or moved(outcome.margin, outcome.smallest, outcome.medians, ratios)
    return "noticed" if seen else "survived"


def _identities(mutant: Mutant) -> Iterator[Claim]:
    """The claims that are identities and run the function of a mutant, as recorded."""
    [name] = _names([mutant.function])
    known = {one for one, found in recorded().items() if name in found.functions and found.ratios is None}
    yield from (one.claim for one in claims() if one.identifier in known)


def tried(claim: Claim, seed: int = 0) -> Kills:
    """How the mutants of one claim fare, here or in another process, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kills(claim, seed=seed)


def kills(claim: Claim, most: int = MOST, seed: int = 0) -> Kills:
    """Try the mutants of a claim, in the order of a seed; of a claim that is false there are none."""
    if claim.recorded == FALSE:
        return Kills(source_of(claim), 0)
    worst = _worst(claim)
    ratios = _ratios(claim, worst)
    agrees = claim.checked(ratios).agrees
    points = [*_points(claim), *([] if np.isnan(worst.margin) else [worst.point])]
    margins = [_margin(claim, point) for point in points]
    start = next((k for k, value in enumerate(margins) if not np.isnan(value)), 0)
    points = [points[start], *points[:start], *points[start + 1 :]]
    margins = [margins[start], *margins[:start], *margins[start + 1 :]]
    functions = functions_of(claim, points)
    found = [mutant for function in functions for mutant in mutants_of(function)]
    others = _names([function for function in functions if function is not claim.function])
    kept = caches()
    fates: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    survivors = []
    for mutant in in_turn(found, DRAWN, random.Random(seed).shuffle):
        drawn = fates.total() - fates["equal"]
        if drawn >= most and fates["killed"] + fates["survived"] >= min(TELLING, most):
            break
        end = "weaker" if is_case(claim, mutant) else "undefined"
        least = np.nan
        with suppress(OutOfTimeError), memory_limit(_MAX_MUTANT_BYTES), time_limit(_MAX_MUTANT_SECONDS):
            if end != "weaker":
                end, least = fate(claim, mutant, points, margins, kept)
        with suppress(OutOfTimeError), memory_limit(_MAX_MUTANT_BYTES), time_limit(_MAX_MUTANT_SECONDS):
            if end == "survived" and agrees:
                end = noticed(claim, mutant, ratios, kept)
        with suppress(OutOfTimeError), memory_limit(_MAX_MUTANT_BYTES), time_limit(_MAX_MUTANT_SECONDS):
            if end == "survived" and any(
                noticed(other, mutant, None, kept) == "noticed" for other in _identities(mutant) if other is not claim
            ):
                end = "elsewhere"
        fates[end] += 1
        kinds[mutant.kind] += end == "killed"
        if end == "survived":
            survivors.append((str(mutant), float(f"{least:.3g}")))
    return Kills(source_of(claim, others), len(found), dict(fates), dict(kinds), tuple(survivors), others, ratios)
