"""Lower bounds of ε from how well canaries are recognised, for any (ε, δ)-private loop, whatever its noise.

A *canary* is a gradient that is in a run or not, by the toss of a fair coin.  The auditor sees a score of
each canary, guesses who took part, and counts.  A private mechanism forces many errors; few errors refute a
claim.  Each bound here is exceeded by the truth except with probability ``level``, whatever the scores are.

================================  ============================================================
function                          needs
================================  ============================================================
``epsilon_lower_bound``           independent scores: many runs, or coordinates with independent noise
``one_run_epsilon_lower_bound``   independent coins only: one run
================================  ============================================================

The verdict of an audit rests on ``canaries``, whose tests have more power; these bounds stand in reports.

References
----------
C. J. Clopper and E. S. Pearson, Biometrika 26, 1934.
T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", arXiv 2305.08846, Theorem 5.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtrc, betaincinv

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_MAX_EPSILON = 2000.0  #: of ε and μ; a larger lower bound is reported as this one
_MAX_HALVINGS = 60


def clopper_pearson_upper_bound(events: int, trials: int, level: float) -> float:
    """The upper end of the one-sided confidence interval of Clopper and Pearson.

    Parameters
    ----------
    events, trials : int
        Number of events among independent trials, 0 <= events <= trials, trials >= 1.
    level : float
        Largest probability that the bound fails, in (0, 1).

    Examples
    --------
    >>> round(clopper_pearson_upper_bound(0, 100, 0.05), 5)  # 1 − 0.05^(1/100)
    0.02951
    """
    trials = checks.integer("trials", trials, 1)
    events = _count("events", events, trials)
    level = checks.real("level", level, "(0, 1)")
    return float(betaincinv(events + 1.0, trials - events, 1 - level)) if events < trials else 1.0


def _count(name: str, value: object, most: int) -> int:
    number = checks.integer(name, value, 0)
    if number > most:
        raise ValueError(f"{name} must be at most {most}, got {number}")
    return number


def largest_refuted(refuted: Callable[[float], bool]) -> float:
    """The largest x in [0, 2000] that is refuted, from below, or 0; a claim that is refuted at x is refuted below x."""
    if not refuted(0.0):
        return 0.0
    low = 0.0
    high = 1.0
    while high < _MAX_EPSILON and refuted(high):
        low = high
        high = 2 * high
    if high >= _MAX_EPSILON:
        return min(low, _MAX_EPSILON)
    for _ in range(_MAX_HALVINGS):
        middle = (low + high) / 2
        if refuted(middle):
            low = middle
        else:
            high = middle
    return low


# -- independent scores ------------------------------------------------------------------------------------------------


def epsilon_lower_bound(
    false_positives: int, absent: int, false_negatives: int, present: int, *, delta: float, level: float
) -> float:
    """The largest ε >= 0 that the counts refute, for (ε, δ)-differential privacy and independent scores.

    Parameters
    ----------
    false_positives, absent : int
        How many absent canaries were guessed to be present.
    false_negatives, present : int
        How many of the canaries that took part were guessed not to have taken part.
    delta : float
        δ in [0, 1).
    level : float
        Largest probability that the bound exceeds the truth, in (0, 1).

    Notes
    -----
    (ε, δ)-differential privacy means 1 − FNR <= e^ε FPR + δ and 1 − FPR <= e^ε FNR + δ.  Both rates are replaced by
    upper confidence bounds, each at level/2.

    Examples
    --------
    >>> round(epsilon_lower_bound(10, 1000, 10, 1000, delta=1e-5, level=0.05), 3)
    3.982
    """
    absent = checks.integer("absent", absent, 1)
    present = checks.integer("present", present, 1)
    delta = checks.real("delta", delta, "[0, 1)")
    level = checks.real("level", level, "(0, 1)")
    positive = clopper_pearson_upper_bound(_count("false_positives", false_positives, absent), absent, level / 2)
    negative = clopper_pearson_upper_bound(_count("false_negatives", false_negatives, present), present, level / 2)
    gains = [(1 - b - delta) / a for a, b in ((positive, negative), (negative, positive))]
    return max(0.0, math.log(max(1.0, *gains)))


# -- one run -----------------------------------------------------------------------------------------------------------


def _checked_guesses(canaries: int, guesses: int, correct: int, level: float) -> tuple[int, int, int, float]:
    canaries = checks.integer("canaries", canaries, 1)
    guesses = _count("guesses", guesses, canaries)
    return canaries, guesses, _count("correct", correct, guesses), checks.real("level", level, "(0, 1)")


def one_run_epsilon_lower_bound(canaries: int, guesses: int, correct: int, *, delta: float, level: float) -> float:
    """The largest ε >= 0 that one run refutes, for (ε, δ)-differential privacy.

    Parameters
    ----------
    canaries : int
        m >= 1, each with a coin of its own.
    guesses, correct : int
        For how many canaries a guess is made, in [0, m], and how many guesses are right.  Which canaries are guessed
        may depend on their scores.
    delta : float
        δ in [0, 1).
    level : float
        Largest probability that the bound exceeds the truth, in (0, 1).

    Examples
    --------
    >>> round(one_run_epsilon_lower_bound(1000, 100, 95, delta=1e-5, level=0.05), 3)
    2.165
    """
    canaries, guesses, correct, level = _checked_guesses(canaries, guesses, correct, level)
    delta = checks.real("delta", delta, "[0, 1)")

    def refuted(epsilon: float) -> bool:
        chance = 1 / (1 + math.exp(-epsilon))

        def at_least(count: Array) -> Array:
            """P[Binomial >= count]."""
            return np.where(count > 0, bdtrc(np.maximum(count, 1.0) - 1, guesses, chance), 1.0)

        tail = at_least(np.array([float(correct)])).item()
        steps = np.arange(1.0, correct + 1)
        excess = np.max((at_least(correct - steps) - tail) / steps, initial=0.0)
        return bool(tail + 2 * canaries * delta * excess <= level)

    return largest_refuted(refuted) if guesses else 0.0
