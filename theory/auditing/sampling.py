"""Tests of sampled batches: does every example draw for itself?

The auditor sees the examples of each batch of each run, ``taken`` of shape (runs, steps, examples).  As claimed, the
entries of a Poisson kind are independent with the probability ``rate`` (in the steps of the group), and the bins are
independent and uniform.  Binomial p-values are exact.  For the sizes x of batches, of n examples with the chance c, and
for the numbers of participations of the examples,

    E(λ) = Π exp(λ z²)/E exp(λ z²),   z = (x − nc)/sqrt(nc(1 − c)),

has the mean 1 for every λ, and so has its mean over some λ.  By Markov's inequality this exceeds 1/p with probability
p at most.  It grows where sizes differ too little (λ < 0), as in a cut permutation, or too much (λ > 0).  The
sizes of bins are multinomial, and each is binomial given those before it in the epoch.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, logsumexp
from scipy.stats import binom

from corrnoise.theory.auditing.evidence import Evidence, evidence
from corrnoise.theory.participation import BallsInBins, CyclicPoisson, Participation, Poisson, RedrawnBins

Taken = NDArray[np.bool_]
Steps = NDArray[np.intp]
TestedSampler = Poisson | CyclicPoisson | BallsInBins | RedrawnBins

_BET_EXPONENTS = np.array([-16.0, -4.0, -1.0, -0.25, 0.05, 0.15, 0.3, 0.45])


def batches(who: TestedSampler, taken: Taken, steps: Steps) -> dict[str, Evidence]:
    """Evidence of each test by its name.

    Parameters
    ----------
    who : Participation
        The claimed participation, of a sampled kind.
    taken : array of bool
        Who was in the batches of these steps, shape (runs, steps, examples).
    steps : array of int
        Their numbers, increasing.
    """
    found = {"batches, steps of an example": _structure(who, taken, steps), "batches, sizes": _sizes(who, taken, steps)}
    if isinstance(who, BallsInBins | RedrawnBins):
        again = _bins_again(who, taken, steps)
    else:
        turns = _turns(who, steps, taken.shape[2])
        hits, cells = int(taken.sum()), int(turns.sum()) * len(taken)
        found["batches, rate above"] = evidence(hits / cells, bdtrc(hits - 1, cells, who.rate) if hits else 1.0)
        found["batches, rate below"] = evidence(hits / cells, bdtr(hits, cells, who.rate))
        found["batches, numbers of participations"] = dispersion(
            taken.sum(axis=1).ravel(), np.tile(turns.sum(axis=0), len(taken)), np.full(taken[:, 0].size, who.rate)
        )
        pairs = taken[0 : len(taken) // 2 * 2 : 2] & taken[1::2][: len(taken) // 2]
        again = _two_sided(int(pairs.sum()), int(turns.sum()) * len(pairs), who.rate**2)
    return found | {"batches, drawn again": again}


def _turns(who: Participation, steps: Steps, examples: int) -> Taken:
    """Whether an example can be drawn in a step, shape (steps, examples)."""
    return np.equal.outer(steps % who.worst.period, np.arange(examples) % who.worst.period)


def _structure(who: TestedSampler, taken: Taken, steps: Steps) -> Evidence:
    """Whether each example has steps that its kind allows; others have probability 0."""
    examples = taken.shape[2]
    if isinstance(who, Poisson | CyclicPoisson):
        return _certain(taken & ~_turns(who, steps, examples), steps)
    epochs = steps // who.period
    for epoch in np.unique(epochs):
        counts = taken[:, epochs == epoch].sum(axis=1)
        whole = np.count_nonzero(epochs == epoch) == who.period
        if (wrong := (counts > 1) | (whole & (counts < 1))).any():
            return evidence(float(wrong.sum()), 0.0, f"epoch {int(epoch) + 1}")
    if isinstance(who, RedrawnBins):
        return evidence(0.0, 1.0)
    bins = np.zeros((len(taken), who.period, examples), dtype=bool)
    for step in range(steps.size):  # the bins that an example was seen in
        bins[:, steps[step] % who.period] |= taken[:, step]
    return evidence(float((many := bins.sum(axis=1) > 1).sum()), 0.0 if many.any() else 1.0)


def _certain(wrong: Taken, steps: Steps) -> Evidence:
    if not wrong.any():
        return evidence(0.0, 1.0)
    return evidence(float(wrong.sum()), 0.0, f"step {int(steps[np.nonzero(wrong)[1][0]]) + 1}")


def _sizes(who: TestedSampler, taken: Taken, steps: Steps) -> Evidence:
    """The sizes of batches; in an epoch of bins, each given the earlier ones."""
    sizes = taken.sum(axis=2)
    runs, _, examples = taken.shape
    if isinstance(who, Poisson | CyclicPoisson):
        trials = np.tile(_turns(who, steps, examples).sum(axis=1), runs)
        return dispersion(sizes.ravel(), trials, np.full(trials.size, who.rate))
    seen: list[tuple[int, int, float]] = []
    for run in range(runs):
        left, place = examples, 0
        for step, size in zip(steps.tolist(), sizes[run].tolist(), strict=True):
            if step >= who.period and isinstance(who, BallsInBins):
                break
            if step % who.period == 0:
                left, place = examples, 0
            if step % who.period != place or place == who.period - 1:  # a step is missing, or the size is the remainder
                continue
            seen.append((size, left, 1 / (who.period - place)))
            left, place = left - size, place + 1
    return dispersion(*(np.array(column) for column in zip(*seen, strict=True))) if seen else evidence(1.0, 1.0)


def _bins_again(who: BallsInBins | RedrawnBins, taken: Taken, steps: Steps) -> Evidence:
    """How often the bins of an example agree: in two runs, and in epochs that follow each other if they are redrawn."""
    whole = [epoch for epoch in np.unique(steps // who.period) if (steps // who.period == epoch).sum() == who.period]
    if not whole or who.period == 1:
        return evidence(0.0, 1.0)
    bins = np.array([taken[:, steps // who.period == epoch].argmax(axis=1) for epoch in whole])
    fixed = isinstance(who, BallsInBins)
    across = bins[:1] if fixed else bins
    found = _two_sided(int((across[:, 1:] == across[:, :-1]).sum()), across[:, 1:].size, 1 / who.period)
    if fixed or len(whole) < 2:
        return found
    after = _two_sided(int((bins[1:] == bins[:-1]).sum()), bins[1:].size, 1 / who.period)
    return min(found, after, key=lambda one: one.p).among(2)


def _two_sided(hits: int, trials: int, chance: float) -> Evidence:
    """A binomial number, two-sided; agreements of independent uniform bins are independent, also in a chain."""
    if not trials:
        return evidence(0.0, 1.0)
    above = bdtrc(hits - 1, trials, chance) if hits else 1.0
    return evidence(hits / trials, 2 * min(above, bdtr(hits, trials, chance)))


def dispersion(values: NDArray[Any], trials: NDArray[Any], chances: NDArray[Any]) -> Evidence:
    """Whether binomial numbers are spread as they should be, by the mean of E(λ) over some λ.

    Parameters
    ----------
    values, trials, chances : array
        The numbers, each binomial given those before it, and their parameters, vectors.
    """
    logs = np.zeros(_BET_EXPONENTS.size)
    squares = []
    for value, number, chance in zip(values.tolist(), trials.tolist(), chances.tolist(), strict=True):
        if number and 0 < chance < 1:
            square = (value - number * chance) ** 2 / (number * chance * (1 - chance))
            logs += _BET_EXPONENTS * square - logs_of_means(int(number), float(chance))
            squares.append(square)
    mean = float(logsumexp(logs)) - math.log(logs.size)
    return evidence(float(np.mean(squares)) if squares else 1.0, math.exp(-max(mean, 0.0)))


@lru_cache(maxsize=4096)
def logs_of_means(number: int, chance: float) -> NDArray[np.float64]:
    """Log E exp(λ z²) of a binomial number, for each λ."""
    values = np.arange(number + 1)
    squares = (values - number * chance) ** 2 / (number * chance * (1 - chance))
    found = logsumexp(binom.logpmf(values, number, chance) + np.multiply.outer(_BET_EXPONENTS, squares), axis=1)
    return np.asarray(found)
