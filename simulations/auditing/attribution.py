"""Which gradients count for too much: the cause behind failed tests of piles.  It never changes a verdict."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.auditing.piles import FIRST_LONG_BIN, MEMBERS, Piles, PileScores
from corrnoise.simulations.auditing.plan import AuditPlan
from corrnoise.theory.numerics.checks import Array

_LEAST_DECADE = -6
_CLIPPED_EXCESS = -10.0, 30.0
_HIGH_EXCESS = 4.0  # in standard errors
_LEAST_SHARE = 0.25  # of the variance of the excess, which a factor explains
_LEAST_MEAN_SQUARE = 6.0  # between the groups of a factor
_TOP_SHARE = 0.1
_PLACES = 8


def decades(first: int, last: int) -> str:
    """The lengths of bins in words."""
    return f"1e{_LEAST_DECADE + 2 * first} to 1e{_LEAST_DECADE + 2 * last + 2}"


def attributed(plan: AuditPlan, piles: Piles, scores: PileScores, shown: Array) -> str:
    """Lengths, steps or places whose gradients count for too much, or all, or some."""
    excess = shown - MEMBERS * scores.norm / np.sqrt(2)
    bins = range(FIRST_LONG_BIN)
    short = [number for number in bins if _standard_errors(excess[piles.bins == number]) > _HIGH_EXCESS]
    long = piles.bins >= FIRST_LONG_BIN
    y = np.clip(excess[long], *_CLIPPED_EXCESS)
    factors = {"lengths": piles.bins[long], "steps": piles.phases[long], "places": _places(piles)[long]}
    shares = {name: _explained(y, groups) for name, groups in factors.items()}
    name = max(shares, key=lambda one: shares[one][0])
    share, mean_square = shares[name]
    if share > _LEAST_SHARE and mean_square > _LEAST_MEAN_SQUARE:
        return _named(plan, name, _high_groups(y, factors[name]), short)
    ordered = np.sort(y)[: max(1, int((1 - _TOP_SHARE) * y.size))]
    if _standard_errors(ordered) > _HIGH_EXCESS:
        return "all gradients"
    if short:
        return _named(plan, "lengths", [], short)
    most = int(np.argmax(excess))
    rows = piles.layout.place[piles.layout.group(np.array([most])) + piles.layout.groups * np.arange(4)]
    return f"some gradients, as in coordinates {', '.join(map(str, sorted(rows.tolist())))}"


def _standard_errors(excess: Array) -> float:
    """The mean in units of its standard error."""
    return float(excess.mean() * np.sqrt(excess.size)) if excess.size else 0.0


def _explained(y: Array, groups: NDArray[np.intp]) -> tuple[float, float]:
    """The share of the variance that groups explain, less that of chance, and the mean square between them."""
    numbers = np.unique(groups)
    if numbers.size < 2:
        return 0.0, 0.0
    between = sum((groups == one).sum() * (y[groups == one].mean() - y.mean()) ** 2 for one in numbers)
    freedom = numbers.size - 1
    return float(between / max(((y - y.mean()) ** 2).sum(), 1e-300)) - freedom / y.size, float(between) / freedom


def _high_groups(y: Array, groups: NDArray[np.intp]) -> list[int]:
    """Groups nearer to the highest mean than to the lowest."""
    means = {int(one): float(y[groups == one].mean()) for one in np.unique(groups)}
    middle = (max(means.values()) + min(means.values())) / 2
    return [one for one, mean in means.items() if mean > middle]


def _places(piles: Piles) -> NDArray[np.intp]:
    """The eighth of the vector of a neighbouring group; 8 for spread ones."""
    groups = piles.layout.group(np.arange(piles.number))
    eighths = piles.layout.place[groups] * _PLACES // piles.layout.size
    return np.where(groups < piles.layout.neighbouring, eighths, _PLACES)


def _named(plan: AuditPlan, name: str, high: list[int], short: list[int]) -> str:
    """The groups of a factor in words."""
    if name == "lengths":
        bins = sorted({*high, *short})
        return f"some lengths: {decades(min(bins), max(bins))} clipping norms"
    if name == "steps":
        steps = sorted(int(step) + 1 for phase in high for step in plan.phases[phase])
        return f"some steps: {', '.join(map(str, steps[:6]))}{', …' if len(steps) > 6 else ''}"
    if _PLACES in high:
        return "gradients that are spread over the coordinates"
    return f"some places: {', '.join(str(one + 1) for one in high)} of the eighths of the coordinates"
