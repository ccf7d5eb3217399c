"""Accountants: which curve covers which way of sampling, and what none of them covers.

All rest on Theorem 1 (domination by the entrywise modulus of the strategy C), which needs the hypotheses

H1
    each example is clipped to the clip norm;
H2
    the set of its steps has a fixed law, and is independent of the noise, the data, the outputs and of the
    participations of all other examples;
H3
    the others' contribution to a batch is the same with and without the example: sums are released, never means over
    the actual batch, and an empty batch releases noise;
H4
    the set of its steps stays secret, and a resumed run keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from flint import arb, ctx

from corrnoise.theory.amplification.bins import bins_curve, redrawn_bins_curve
from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import (
    DIRECTIONS,
    Amplified,
    Curve,
    DeltaBound,
    Direction,
    delta_of,
    epsilon_of,
)
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF, rounded_up
from corrnoise.theory.participation import Participation

_MAX_GROUPS = 8  # of steps with different norms; more are merged


class Strategy(Protocol):
    """The strategy C of a mechanism, for a run of n steps, as accountants ask for it."""

    def bands(self, n: int | None = None) -> int:
        """The number of diagonals of C that may hold other numbers than 0."""
        ...

    def column_norms(self, n: int | None = None) -> Array:
        """Euclidean norms of the columns of C, shape (n,)."""
        ...

    def strategy(self, n: int | None = None) -> Array:
        """C, shape (n, n)."""
        ...


def curve_of(strategy: Strategy, participation: Participation, column_error: float = 0.0) -> Curve:
    """The curve that covers a run with sampled batches.

    Parameters
    ----------
    strategy : Strategy
        The mechanism that runs.
    participation : Participation
        One of the sampled kinds.
    column_error : float, default 0.0
        The largest norm of the difference between a column of C and the column of the program, within the bands of C.

    Raises
    ------
    ValueError
        No accountant covers the participation or the strategy; the message names the hypothesis.
    """
    who = checks.instance("participation", participation, Participation)
    error = checks.real("column_error", column_error, "[0, inf)")
    if who.kind not in ACCOUNTANTS:
        raise ValueError(_refusal(who))
    if who.members > 1:
        raise ValueError(
            f"participation must have members=1 for an accountant of sampled batches, got {who.members}: "
            "the theorem bounds one example that is clipped (H1) and sampled (H2) by itself"
        )
    curve = ACCOUNTANTS[who.kind](strategy, who, error)
    return curve if who.overflow == 0 else CutCurve(curve, who.overflow, False)


def _refusal(who: Participation) -> str:
    if who.secret:
        return (
            f"participation must be of a sampled kind, got {who!r}: equal-size random batches violate H2, since the "
            "steps of an example depend on those of all others; take balls_in_bins, or use participation.worst"
        )
    return (
        f"participation must have an accountant, as {', '.join(ACCOUNTANTS)}, got {who!r}: amplification needs steps "
        "that each example draws for itself (H2), and that stay secret (H4)"
    )


@record
class CutCurve(Curve):
    """The curve of batches that are cut to a capacity: δ <= (1 − τ) δ* + τ (Proposition 1).

    Parameters
    ----------
    whole : Curve
        The curve δ* without capacity.
    overflow : float
        τ: probability that other examples alone fill a batch that can contain the example.
    attained : bool
        False: the bound is not reached.
    """

    whole: Curve
    overflow: float
    attained: bool

    @property
    def resolution(self) -> float:
        return self.whole.resolution

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        found = self.whole.delta(epsilon, noise_multiplier, direction)
        return DeltaBound(*self._raised(found.lower, found.upper), found.kind, f"{found.comparison}, or a full batch")

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        return self._raised(*self.whole.estimate(epsilon, noise_multiplier, direction))

    def _raised(self, lower: float, upper: float) -> tuple[float, float]:
        with ctx.workprec(128):
            tau = arb(self.overflow)
            low, high = (tau + (1 - tau) * arb(end) for end in (lower, upper))
            return -rounded_up(-low), min(rounded_up(high), 1.0)


# -- Poisson and cyclic Poisson ----------------------------------------------------------------------------------------


def _poisson(strategy: Strategy, who: Participation, error: float) -> Curve:
    if (bands := strategy.bands(who.length)) > 1:
        raise ValueError(
            f"strategy must have one band for Poisson sampling, got {bands}: with correlated noise the steps of an "
            "example are no independent factors; take cyclic_poisson with as many groups as bands, or balls_in_bins"
        )
    return _groups_curve(strategy, who, error, 1)


def _cyclic_poisson(strategy: Strategy, who: Participation, error: float) -> Curve:
    if (bands := strategy.bands(who.length)) > who.period:
        raise ValueError(
            f"strategy must have at most as many bands as there are groups, period={who.period}, for cyclic Poisson "
            f"sampling, got {bands}: otherwise columns of one group overlap"
        )
    return _groups_curve(strategy, who, error, who.period)


def _groups_curve(strategy: Strategy, who: Participation, error: float, groups: int) -> PoissonCurve:
    """Columns of a group have disjoint supports: the pair of an example is a product over the steps of its group."""
    assert who.rate is not None
    norms = np.asarray(strategy.column_norms(who.length), dtype=float)
    table = np.zeros((min(groups, norms.size), -(-norms.size // groups)))
    for group in range(table.shape[0]):
        steps = np.sort(norms[group::groups])[::-1]
        table[group, : steps.size] = steps
    above = (table.max(axis=0) + error) * (1 + 2 * UNIT_ROUNDOFF)
    below = (table[np.argmax(np.square(table).sum(axis=1))] - error) * (1 - 2 * UNIT_ROUNDOFF)
    if error == 0:  # the norms are taken as they are
        above = table.max(axis=0)
        below = table[np.argmax(np.square(table).sum(axis=1))]
    name = "Poisson" if groups == 1 else "cyclic Poisson"
    return PoissonCurve(
        _factors(above, who.rate, up=True),
        _factors(below[below > 0], who.rate, up=False),
        True,
        f"the product of {table.shape[1]} steps of {name} sampling, by the moduli of the columns (Theorem 1)",
    )


def _factors(norms: Array, rate: float, *, up: bool) -> tuple[Factor, ...]:
    """The steps of falling norms, those of equal norms as one factor; at most 8 norms remain."""
    values, counts = np.unique(norms, return_counts=True)
    parts = np.array_split(np.arange(values.size), min(_MAX_GROUPS, values.size)) if values.size else []
    return tuple(
        Factor(rate, float(values[part[-1] if up else part[0]]), int(counts[part].sum())) for part in reversed(parts)
    )


#: The accountant of each sampled kind: strategy, participation and column error to a curve.
ACCOUNTANTS: dict[str, Callable[[Strategy, Participation, float], Curve]] = {
    "poisson": _poisson,
    "cyclic poisson": _cyclic_poisson,
    "balls in bins": bins_curve,
    "redrawn bins": redrawn_bins_curve,
}


# -- a run -------------------------------------------------------------------------------------------------------------


class Runs(Protocol):
    """A program, as accountants see it."""

    @property
    def curve(self) -> Curve:
        """The curve of the program, with its rounding."""
        ...


class Makes(Protocol):
    """A mechanism, as accountants see it."""

    def program(self, participation: Participation) -> Runs:
        """The program that runs."""
        ...


def amplified(
    mechanism: Makes,
    visits: Participation,
    *,
    noise_multiplier: float,
    delta: float | None = None,
    epsilon: float | None = None,
) -> Amplified:
    """Certified brackets of the ε at δ, or of the δ at ε; the arguments are those of ``cn.privacy.amplified``.

    Raises
    ------
    ValueError
        If an argument is out of its range, or no accountant covers the run.

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.product import DPSGD
    >>> visits = Participation.poisson(1024, 0.01)
    >>> found = amplified(DPSGD(), visits, noise_multiplier=1.0, delta=1e-6)
    >>> round(found.upper, 4), found.kind, found.attained
    (2.1476, 'certified', True)
    """
    if (delta is None) == (epsilon is None):
        raise ValueError(f"either delta or epsilon must be given, got delta={delta!r} and epsilon={epsilon!r}")
    sigma = checks.real("noise_multiplier", noise_multiplier, "(0, inf)")
    who = checks.instance("visits", visits, Participation)
    if who.kind not in ACCOUNTANTS:
        raise ValueError(_refusal(who))
    curve = mechanism.program(who).curve
    if epsilon is not None:
        return delta_of(curve, epsilon, sigma)
    assert delta is not None
    remove, add = (epsilon_of(curve, delta, sigma, direction) for direction in DIRECTIONS)
    return Amplified("epsilon", remove, add, curve.attained)
