"""The mechanisms that were compared, as rows of report, page and figures."""

from __future__ import annotations

import math
from typing import NamedTuple

from corrnoise.designs.design import Design
from corrnoise.solvers.optimum import Optimum


class ComparedNoise(NamedTuple):
    """A mechanism that was compared, with its error at the budget and over the lower bound, where one holds for it."""

    optimum: Optimum
    error: float
    over_floor: float | None
    chosen: bool


def rows(design: Design) -> list[ComparedNoise]:
    """All mechanisms that were compared, the chosen one first.

    Parameters
    ----------
    design : Design
        A design.

    Returns
    -------
    list of ComparedNoise
    """
    found = []
    for one in (design.optimum, *design.alternatives):
        error, floor = design.error_of(one), None if one.participation.sampled else design.lower_bound
        found.append(ComparedNoise(one, error, None if floor is None else error / floor, one is design.optimum))
    return found


def best_of_families(compared: list[ComparedNoise]) -> list[ComparedNoise]:
    """The row with the least error of each label, the best first.

    Parameters
    ----------
    compared : list of ComparedNoise
        From ``rows``.

    Returns
    -------
    list of ComparedNoise
    """
    ordered = sorted(compared, key=lambda row: row.error, reverse=True)
    return sorted({row.optimum.label: row for row in ordered}.values(), key=lambda row: row.error)


def gains(compared: list[ComparedNoise]) -> list[ComparedNoise]:
    """With growing memory, each row whose error is below the errors of all with less memory.

    Parameters
    ----------
    compared : list of ComparedNoise
        From ``rows``.

    Returns
    -------
    list of ComparedNoise
    """
    found: list[ComparedNoise] = []
    for row in sorted(compared, key=lambda row: (row.optimum.memory, row.error)):
        if row.error < min((one.error for one in found), default=math.inf):
            found.append(row)
    return found


def tables(compared: list[ComparedNoise]) -> dict[str, list[ComparedNoise]]:
    """The tables of the report and of the page by their titles.

    Parameters
    ----------
    compared : list of ComparedNoise
        From ``rows``.

    Returns
    -------
    dict
    """
    bought = gains(compared)
    bought += [row for row in compared if row.chosen and not any(one.chosen for one in bought)]
    return {
        "what memory buys": sorted(bought, key=lambda row: row.optimum.memory),
        "the best of each kind": best_of_families(compared),
    }
