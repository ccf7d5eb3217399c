"""Lower bounds of ε from error rates, for any (ε, δ)-private loop, whatever its noise, if scores are independent.

The auditor sees a score of each canary, calls those above a threshold in, and counts errors.  A private mechanism
forces many errors; few errors refute a claim.  Each bound exceeds the truth with
probability ``level`` at most.
``one_run`` has the bound that needs no independent scores.

References
----------
C. J. Clopper and E. S. Pearson, Biometrika 26, 1934.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_MAX_EPSILON = 2000.0  #: of ε and μ; a larger lower bound is reported as this one
_MAX_HALVINGS = 60
_CHOOSING_SHARE = 0.3  # of the canaries, which choose the threshold


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
    events = checks.integer("events", events, 0, largest=trials)
    level = checks.real("level", level, "(0, 1)")
    return float(betaincinv(events + 1.0, trials - events, 1 - level)) if events < trials else 1.0


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


def epsilon_lower_bound(
    false_positives: int, absent: int, false_negatives: int, present: int, *, delta: float, level: float
) -> float:
    """The largest ε >= 0 that the counts refute, for (ε, δ)-differential privacy and independent scores.

    Parameters
    ----------
    false_positives, absent : int
        How many absent canaries were guessed to be present.
    false_negatives, present : int
        How many present canaries were guessed to be absent.
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
    positives = checks.integer("false_positives", false_positives, 0, largest=absent)
    negatives = checks.integer("false_negatives", false_negatives, 0, largest=present)
    positive = clopper_pearson_upper_bound(positives, absent, level / 2)
    negative = clopper_pearson_upper_bound(negatives, present, level / 2)
    gains = [(1 - b - delta) / a for a, b in ((positive, negative), (negative, positive))]
    return max(0.0, math.log(max(1.0, *gains)))


def error_rate_bound(scores: Array, taken: NDArray[np.bool_], *, delta: float, level: float) -> float:
    """The ε that the error rates of a threshold refute, for independent scores.

    Parameters
    ----------
    scores : array of float
        Scores of canaries, shape (n,).
    taken : array of bool
        Whether each canary is in, shape (n,).
    delta : float
        δ in [0, 1).
    level : float
        The probability that the bound exceeds the truth, at most; in (0, 1).

    Returns
    -------
    float
        The bound; 0 if there are fewer than four canaries of a kind.

    Notes
    -----
    The threshold is the best one on 30 % of the canaries, chosen without their scores; the other 70 % give the bound.
    """
    order = np.random.default_rng(0).permutation(scores.size)
    cut = round(_CHOOSING_SHARE * scores.size)
    chosen, judged = order[:cut], order[cut:]
    if min(np.count_nonzero(taken[part] == kind) for part in (chosen, judged) for kind in (False, True)) == 0:
        return 0.0
    threshold = _best_threshold(scores[chosen], taken[chosen], scores.size, delta, level)
    above, there = scores[judged] > threshold, taken[judged]
    counts = [int(np.count_nonzero(part)) for part in (above & ~there, ~there, ~above & there, there)]
    return epsilon_lower_bound(*counts, delta=delta, level=level)


def _best_threshold(scores: Array, taken: NDArray[np.bool_], number: int, delta: float, level: float) -> float:
    """The threshold with the largest bound, if the other canaries have the same rates, smoothed by one error."""
    ranked = np.argsort(scores, kind="stable")
    present = int(taken.sum())
    missed = np.cumsum(taken[ranked])
    wrong = (scores.size - present) - np.cumsum(~taken[ranked])
    larger = (number - scores.size) / scores.size
    upper = [
        betaincinv((errors + 1) * larger + 1, np.maximum((trials - errors) * larger, 1e-3), 1 - level / 2)
        for errors, trials in ((wrong, scores.size - present), (missed, present))
    ]
    gains = np.maximum((1 - upper[1] - delta) / upper[0], (1 - upper[0] - delta) / upper[1])
    return float(scores[ranked[int(np.argmax(gains))]])
