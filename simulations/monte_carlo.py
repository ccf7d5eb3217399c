"""The Monte Carlo accountant: noise multipliers of balls in bins and of b-min-sep sampling by random draws.

``MonteCarlo`` chooses a noise multiplier by a search, and then certifies δ − β at exactly this number,
by draws from the operating system.  If P(δ(σ) > δ − β) <= β, then choice and run together are (ε, δ)-DP.

The k-th attempt has the confidence 1 − β/2^k, and other draws than the search.  ``amplification`` has the weights of
balls in bins, ``spaced`` those of b-min-sep sampling.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from corrnoise.simulations.amplification import addition_weights, interval_of_sampler, removal_weights
from corrnoise.simulations.random_numbers import generator
from corrnoise.simulations.run import draws
from corrnoise.simulations.spaced import addition_bound
from corrnoise.simulations.spaced import removal_weights as spaced_weights
from corrnoise.theory.amplification.accountant import CutCurve
from corrnoise.theory.amplification.bins import BinsCurve
from corrnoise.theory.amplification.curve import DIRECTIONS, Curve, Direction, noise_multiplier_of
from corrnoise.theory.amplification.spaced import SpacedCurve
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import Sampled
from corrnoise.theory.privacy import Budget, uncut_delta

_SEARCH_STEPS = 6  #: halvings of the range of ln σ
_SEARCH_RANGE = 0.4  # of ln σ below the known one, doubled where it is not enough
_LARGEST_SEARCH = 12.0  # of ln σ
_SEARCH_SHARE = 8  # of the draws of a certificate are made once for each σ of a search
_ATTEMPT_STEP = 5e-3  # relative, of σ from one attempt to the next
_MAX_ATTEMPTS = 20


@record
class MonteCarlo(Record):
    """An accountant of balls in bins and of b-min-sep sampling by random draws: its failure is a part of δ.

    Parameters
    ----------
    samples : int, default 100000
        Weights in each direction, >= 1000.
    failure : float, default 1e-10
        0 < β < 1: the probability over the draws that the noise multiplier is too small.

    Notes
    -----
    Whoever computes m multipliers and takes the least has the failure m β.

    Examples
    --------
    >>> import corrnoise as cn
    >>> program = cn.mechanisms.DPSGD().program(cn.Participation.balls_in_bins(2, period=2))
    >>> budget = cn.Budget(epsilon=1.0, delta=1e-2)
    >>> accountant = cn.privacy.MonteCarlo(samples=4000, failure=1e-6)
    >>> 1.0 < program.multiplier(budget, accountant=accountant) / program.multiplier(budget) < 1.2
    True
    """

    samples: int = 100_000
    failure: float = 1e-10

    def __post_init__(self) -> None:
        self._check(samples=1000, failure="(0, 1)")

    def multiplier(self, program: Program, budget: Budget) -> float:
        """The noise multiplier of a program; ``certificate`` has its evidence.

        Parameters
        ----------
        program : Program
            The noise of a run with balls in bins or b-min-sep sampling.
        budget : Budget
            ε and δ.

        Returns
        -------
        float
        """
        return self.certificate(program, budget).noise_multiplier

    def certificate(self, program: Program, budget: Budget) -> MonteCarloCertificate:
        """A noise multiplier that draws from the operating system have verified.

        Parameters
        ----------
        program, budget : Program and Budget
            As for ``multiplier``.

        Returns
        -------
        MonteCarloCertificate

        Raises
        ------
        ValueError
            The run has other batches, or the failure is not below δ.
        """
        target = self._target(program, budget)
        curve = _mixture_of(program.curve)
        epsilon = checks.real("epsilon", budget.epsilon, "[0, inf)")
        if curve.certifies:
            largest = noise_multiplier_of(curve, epsilon, target)
        else:
            largest = Budget(epsilon=epsilon, delta=target).multiplier(program.sensitivity)

        def suffices(x: float) -> bool:
            """Whether σ is likely to pass, by fewer draws that are counted several times."""
            draws_made = max(self.samples // _SEARCH_SHARE, 1000)
            draft = MonteCarloCertificate(largest * math.exp(x), epsilon, target, draws_made, self.failure, _seed(), 1)
            repeats = max(self.samples // draws_made, 1)
            return all(draft.upper(curve, each, repeats) <= target for each in DIRECTIONS)

        low, high = -_SEARCH_RANGE, 0.0
        while low > -_LARGEST_SEARCH and suffices(low):
            low, high = 2 * low, low
        while high - low > _SEARCH_RANGE / 2**_SEARCH_STEPS:
            middle = (low + high) / 2
            low, high = (low, middle) if suffices(middle) else (middle, high)
        for attempt in range(1, _MAX_ATTEMPTS):
            sigma = largest * math.exp(high) * (1 + _ATTEMPT_STEP * (attempt - 1))
            found = MonteCarloCertificate(sigma, epsilon, target, self.samples, self.failure, _seed(), attempt)
            if found.holds(curve):
                return found
        raise ValueError(f"samples must be larger, got {self.samples}: no multiplier was verified for {budget!r}")

    def _target(self, program: Program, budget: Budget) -> float:
        """δ of the curve without capacity, less the failure."""
        program.check_amplified(budget)
        assert budget.delta is not None
        assert isinstance(program.participation, Sampled)
        overflow = program.participation.overflow
        target = uncut_delta(budget.delta, overflow) - self.failure / (1 - overflow) * (1 + 2.0**-50)
        if not target > 0:
            raise ValueError(f"failure must be below delta={budget.delta:g}, got {self.failure:g}")
        return target * (1 - 2.0**-50)

    def verified(self, program: Program, budget: Budget, described: Mapping[str, Any]) -> MonteCarloCertificate:
        """The certificate that a run keeps, whose draws are made again.

        Parameters
        ----------
        program, budget : Program and Budget
            As for ``multiplier``.
        described : mapping
            ``certificate(…).arguments()``.

        Returns
        -------
        MonteCarloCertificate

        Raises
        ------
        ValueError
            The certificate is for another budget, or its draws do not verify it.
        """
        found = MonteCarloCertificate(**described)
        asked = (budget.epsilon, self._target(program, budget), self.samples, self.failure)
        if (found.epsilon, found.delta, found.samples, found.failure) != asked:
            raise ValueError(f"certificate must be for {asked}, got {found!r}")
        if not found.holds(_mixture_of(program.curve)):
            raise ValueError(f"certificate must be verified by its draws, got {found!r}: begin a new run")
        return found


@record
class MonteCarloCertificate(Record):
    """A noise multiplier with the draws that verify it; ``MonteCarlo.certificate`` makes it.

    Parameters
    ----------
    noise_multiplier : float
        σ.
    epsilon, delta : float
        The ε, and the δ that σ is verified for, in both directions.
    samples : int
        Weights in each direction.
    failure : float
        β of all attempts together.
    seed : int
        Of the draws, from the operating system after σ was chosen.
    attempt : int
        k >= 1: the number of the attempt, which fails with probability β/2^k.
    """

    noise_multiplier: float
    epsilon: float
    delta: float
    samples: int
    failure: float
    seed: int
    attempt: int

    def __post_init__(self) -> None:
        self._check(noise_multiplier="(0, inf)", epsilon="[0, inf)", delta="(0, 1)", samples=1000, failure="(0, 1)")
        self._check(seed=0, attempt=1)

    def multiplier(self, program: Program, budget: Budget) -> float:
        """The noise multiplier of the run that it was made for.

        Parameters
        ----------
        program, budget : Program and Budget
            As for ``MonteCarlo.multiplier``.

        Returns
        -------
        float
        """
        return self.noise_multiplier

    def upper(self, curve: BinsCurve | SpacedCurve, direction: Direction, repeats: int = 1) -> float:
        """An upper bound of δ in one direction, which fails with probability β/2^{k+1}.

        Parameters
        ----------
        curve : BinsCurve or SpacedCurve
            The curve of the run.
        direction : {"remove", "add"}
            The direction.
        repeats : int, default 1
            How often each draw is counted, in a search; more than once certifies nothing.

        Returns
        -------
        float
        """
        pilot, rng = np.random.SeedSequence([self.seed, DIRECTIONS.index(direction)]).spawn(2)
        share = self.failure / 2**self.attempt  # of two ends, and the upper one alone is used
        sigma, source = self.noise_multiplier, generator(pilot)
        if isinstance(curve, SpacedCurve) and direction == "add":
            return addition_bound(
                curve,
                self.epsilon,
                sigma,
                samples=self.samples,
                repeats=repeats,
                pilot=source,
                rng=generator(rng),
                beta=share / 2,
            )
        if isinstance(curve, SpacedCurve):
            sampler = spaced_weights(curve, self.epsilon, sigma)
        else:
            make = removal_weights if direction == "remove" else addition_weights
            sampler = make(curve.upper * (1 + 1e-14) / sigma**2, self.epsilon, source)
        return interval_of_sampler(sampler, source, generator(rng), self.samples, share, repeats)[1]

    def holds(self, curve: BinsCurve | SpacedCurve) -> bool:
        """Whether the draws verify σ.

        Parameters
        ----------
        curve : BinsCurve or SpacedCurve
            The curve of the run.

        Returns
        -------
        bool
        """
        return all(self.upper(curve, direction) <= self.delta for direction in DIRECTIONS)


def _seed() -> int:
    return int.from_bytes(draws.fresh(7), "little")


def _mixture_of(curve: Curve) -> BinsCurve | SpacedCurve:
    whole = curve.whole if isinstance(curve, CutCurve) else curve
    if not isinstance(whole, BinsCurve | SpacedCurve):
        raise ValueError(
            "accountant must be None except for balls in bins and b-min-sep sampling, got a run with "
            f"{type(whole).__name__}"
        )
    return whole
