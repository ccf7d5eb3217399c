"""Factors of a product of independent likelihood ratios: Poisson-sampled steps, and Gaussian mechanisms at rate 1."""

from __future__ import annotations

from corrnoise.theory.numerics.records import Record, record


@record
class Factor(Record):
    """Steps of the same kind: an example is sampled at a rate and then moves the output by a norm.

    Parameters
    ----------
    rate : float
        q, 0 < q <= 1; 1 for a Gaussian mechanism.
    norm : float
        Δ > 0: the largest norm of the change of the output by the example, in units of the clipping norm.
    count : int
        T >= 1, the number of such steps.
    members : int, default 1
        k >= 1: how many examples are sampled, independently; j of them move the output by j Δ.
    """

    rate: float
    norm: float
    count: int
    members: int = 1

    def __post_init__(self) -> None:
        self._check(rate="(0, 1]", norm="(0, inf)", count=1, members=1)

    @property
    def reach(self) -> float:
        """The change k Δ of the output where all members are sampled."""
        return self.members * self.norm


def sampled_part(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """The factors of a rate below 1."""
    return tuple(factor for factor in factors if factor.rate < 1)


def gaussian_part(factors: tuple[Factor, ...]) -> float:
    """Σ T (k Δ)² over the factors of the rate 1."""
    return sum(factor.count * factor.reach**2 for factor in factors if factor.rate == 1)
