"""Accountants: the strategy as they need it, the curve of Poisson batches, and batches that are cut to a capacity.

All rest on Theorem 1 (domination by the entrywise modulus of the strategy C), which needs the hypotheses

H1
    each example is clipped to the clipping norm;
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

from typing import Protocol

import numpy as np
from flint import arb, ctx

from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import Curve, DeltaBound, Direction
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF, rounded_up

MAX_NORMS = 8  #: of steps that are told apart; the steps of more norms are merged


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

    @property
    def certifies(self) -> bool:
        return self.whole.certifies

    @property
    def largest_delta(self) -> float:
        return self._raised(0.0, self.whole.largest_delta)[1]

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


def poisson_curve(
    strategy: Strategy, steps: int, rate: float, groups: int, column_error: float = 0.0, members: int = 1
) -> PoissonCurve:
    """The curve of steps that sample from groups of examples in turn.

    Columns of a group have disjoint supports, so that the pair of an example is a product over the steps of its group.

    Parameters
    ----------
    strategy : Strategy
        The mechanism that runs.
    steps : int
        n, the length of the run.
    rate : float
        0 < p <= 1: the probability of an example at a turn of its group.
    groups : int
        b, at least the number of bands of the strategy; 1 for Poisson sampling.
    column_error : float, default 0.0
        As for ``Participation.covering``.
    members : int, default 1
        k >= 1: how many examples of one user are sampled independently; more than one for Poisson sampling alone.

    Returns
    -------
    PoissonCurve
        Upper bounds of δ.

    Raises
    ------
    ValueError
        The strategy has too many bands.
    """
    bands = strategy.bands(steps)
    if bands > groups == 1:
        raise ValueError(
            f"strategy must have one band for Poisson sampling, got {bands}: with correlated noise the steps of an "
            "example are not independent; take cyclic_poisson with as many groups as bands, or balls_in_bins "
            "[H1 to H4 hold, but no accountant is known]"
        )
    if bands > groups:
        raise ValueError(
            f"strategy must have at most as many bands as there are groups, period={groups}, for cyclic Poisson "
            f"sampling, got {bands}: otherwise columns of one group overlap; take more groups, or balls_in_bins "
            "[H1 to H4 hold, but no accountant is known]"
        )
    norms = np.asarray(strategy.column_norms(steps), dtype=float)
    table = np.zeros((min(groups, norms.size), -(-norms.size // groups)))
    for group in range(table.shape[0]):
        turns = np.sort(norms[group::groups])[::-1]
        table[group, : turns.size] = turns
    above = (table.max(axis=0) + column_error) * (1 + 2 * UNIT_ROUNDOFF)
    below = (table[np.argmax(np.square(table).sum(axis=1))] - column_error) * (1 - 2 * UNIT_ROUNDOFF)
    if column_error == 0:  # the norms are taken as they are
        above = table.max(axis=0)
        below = table[np.argmax(np.square(table).sum(axis=1))]
    name = "Poisson" if groups == 1 else "cyclic Poisson"
    return PoissonCurve(
        _factors(above, rate, members, up=True),
        _factors(below[below > 0], rate, members, up=False),
        True,
        f"the product of {table.shape[1]} steps of {name} sampling, by the moduli of the columns (Theorem 1)",
    )


def _factors(norms: Array, rate: float, members: int, *, up: bool) -> tuple[Factor, ...]:
    """The steps of falling norms, those of equal norms as one factor; at most 8 norms remain."""
    values, counts = np.unique(norms, return_counts=True)
    parts = np.array_split(np.arange(values.size), min(MAX_NORMS, values.size)) if values.size else []
    return tuple(
        Factor(rate, float(values[part[-1] if up else part[0]]), int(counts[part].sum()), members)
        for part in reversed(parts)
    )
