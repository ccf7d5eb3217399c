"""What an audit can conclude: lower bounds of a privacy loss from how well canaries are recognised.

A *canary* is a gradient that takes part in a run or does not, by the toss of a fair coin.  The auditor sees a score of
each canary, guesses who took part, and counts.  A private mechanism forces many errors; few errors refute a
claim.  Each bound here is exceeded by the truth except with probability ``level``, whatever the scores are.

================================  =======================================  ==================================
function                          needs                                    refutes
================================  =======================================  ==================================
``epsilon_lower_bound``           independent scores: many runs, or        (ε, δ)-differential privacy
                                  coordinates with independent noise
``gaussian_lower_bound``          the same                                 one Gaussian mechanism
``one_run_epsilon_lower_bound``   independent coins only: one run          (ε, δ)-differential privacy
``one_run_gaussian_lower_bound``  independent coins only: one run          one Gaussian mechanism
================================  =======================================  ==================================

One Gaussian mechanism has the parameter μ = sqrt(2ρ): the distance of the means of a score with and without the
canary, in standard deviations.  Correlated noise is such a mechanism.

References
----------
C. J. Clopper and E. S. Pearson, Biometrika 26, 1934.
J. Dong, A. Roth, W. J. Su, "Gaussian differential privacy", arXiv 1905.02383.
T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", arXiv 2305.08846, Theorem 5.2.
S. Mahloujifar, L. Melis, K. Chaudhuri, "Auditing f-differential privacy in one run", arXiv 2410.22235, Algorithm 3.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv, ndtr, ndtri

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

_LARGEST = 2000.0  #: of ε and μ; a larger lower bound is reported as this one
_HALVINGS = 60


def clopper_pearson_upper_bound(events: int, trials: int, level: float) -> float:
    """The upper end of the one-sided confidence interval of Clopper and Pearson.

    Parameters
    ----------
    events, trials
        Number of events among independent trials, 0 <= events <= trials, trials >= 1.
    level
        Probability with which the bound may fail, in (0, 1).

    Examples
    --------
    >>> round(clopper_pearson_upper_bound(0, 100, 0.05), 5)  # 1 − 0.05^(1/100)
    0.02951
    """
    trials = checks.integer("trials", trials, 1)
    events = _count("events", events, trials)
    level = checks.real("level", level, "(0, 1)")
    return _upper(np.array([events]), trials, level).item()


def _upper(events: Array, trials: int, level: float) -> Array:
    below = np.minimum(events, trials - 1)
    return np.where(events < trials, betaincinv(below + 1.0, trials - below, 1 - level), 1.0)


def _count(name: str, value: object, most: int) -> int:
    number = checks.integer(name, value, 0)
    if number > most:
        raise ValueError(f"{name} must be at most {most}, got {number}")
    return number


def _checked_counts(false_positives: int, absent: int, false_negatives: int, present: int) -> tuple[int, int, int, int]:
    absent = checks.integer("absent", absent, 1)
    present = checks.integer("present", present, 1)
    return (
        _count("false_positives", false_positives, absent),
        absent,
        _count("false_negatives", false_negatives, present),
        present,
    )


def _largest(refuted: Callable[[float], bool]) -> float:
    """The largest x in [0, 2000] that is refuted, from below, or 0; what is refuted at x is refuted below x."""
    if not refuted(0.0):
        return 0.0
    low = 0.0
    high = 1.0
    while high < _LARGEST and refuted(high):
        low = high
        high = 2 * high
    if high >= _LARGEST:
        return min(low, _LARGEST)
    for _ in range(_HALVINGS):
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
    false_positives, absent
        How many of the canaries that did not take part were guessed to have taken part.
    false_negatives, present
        How many of the canaries that took part were guessed not to have taken part.
    delta
        δ in [0, 1).
    level
        Probability with which the bound may exceed the truth, in (0, 1).

    Notes
    -----
    (ε, δ)-differential privacy means 1 − FNR <= e^ε FPR + δ and 1 − FPR <= e^ε FNR + δ.  Both rates are replaced by
    upper confidence bounds, each at level/2.

    Examples
    --------
    >>> round(epsilon_lower_bound(10, 1000, 10, 1000, delta=1e-5, level=0.05), 3)
    3.982
    """
    counts = _checked_counts(false_positives, absent, false_negatives, present)
    delta = checks.real("delta", delta, "[0, 1)")
    level = checks.real("level", level, "(0, 1)")
    positive, negative = _rates(*counts, level)
    gains = [(1 - b - delta) / a for a, b in ((positive, negative), (negative, positive))]
    return max(0.0, math.log(max(1.0, *gains)))


def _rates(false_positives: int, absent: int, false_negatives: int, present: int, level: float) -> tuple[float, float]:
    """Upper bounds of both error rates, which hold together except with probability ``level``."""
    positive = clopper_pearson_upper_bound(false_positives, absent, level / 2)
    negative = clopper_pearson_upper_bound(false_negatives, present, level / 2)
    return positive, negative


def gaussian_lower_bound(
    false_positives: int, absent: int, false_negatives: int, present: int, *, level: float
) -> float:
    """The largest μ >= 0 that the counts refute, for one Gaussian mechanism and independent scores.

    Parameters
    ----------
    false_positives, absent, false_negatives, present, level
        As for ``epsilon_lower_bound``.

    Notes
    -----
    One Gaussian mechanism has Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) <= μ (arXiv 1905.02383, Lemma 2.9 and (6)).

    Examples
    --------
    >>> round(gaussian_lower_bound(160, 1000, 160, 1000, level=0.05), 3)  # the rates are those of μ = 2
    1.799
    """
    counts = _checked_counts(false_positives, absent, false_negatives, present)
    level = checks.real("level", level, "(0, 1)")
    positive, negative = _rates(*counts, level)
    return max(0.0, float(-ndtri(positive) - ndtri(negative)))


def gaussian_detection_power(mu: float, factor: float, scores: int, level: float) -> float:
    """How probably ``gaussian_lower_bound`` refutes μ if the true parameter is ``factor`` times μ.

    Parameters
    ----------
    mu
        μ > 0, the claim.
    factor
        > 0; 2 if the noise is half of what is claimed.
    scores
        Number of scores with the canary, and of scores without, >= 1.
    level
        As for ``gaussian_lower_bound``.

    Returns
    -------
    The probability for the threshold in the middle of the two means, summed exactly over all counts.

    Examples
    --------
    >>> round(gaussian_detection_power(0.27, 2, 375, 0.05), 2)  # ε = 1 at δ = 1e-5
    0.54
    """
    mu = checks.real("mu", mu, "(0, inf)")
    factor = checks.real("factor", factor, "(0, inf)")
    scores = checks.integer("scores", scores, 1, largest=10**6)
    level = checks.real("level", level, "(0, 1)")
    error = float(ndtr(-factor * mu / 2))
    counts = np.arange(scores + 1.0)
    quantiles = ndtri(_upper(counts, scores, level / 2))  # increasing
    chances = np.diff(bdtr(counts, scores, error), prepend=0.0)
    most = np.searchsorted(quantiles, -mu - quantiles, side="left") - 1.0
    return float(chances @ np.where(most >= 0, bdtr(np.maximum(most, 0.0), scores, error), 0.0))


# -- one run -----------------------------------------------------------------------------------------------------------


def _checked_guesses(canaries: int, guesses: int, correct: int, level: float) -> tuple[int, int, int, float]:
    canaries = checks.integer("canaries", canaries, 1)
    guesses = _count("guesses", guesses, canaries)
    return canaries, guesses, _count("correct", correct, guesses), checks.real("level", level, "(0, 1)")


def one_run_epsilon_lower_bound(canaries: int, guesses: int, correct: int, *, delta: float, level: float) -> float:
    """The largest ε >= 0 that one run refutes, for (ε, δ)-differential privacy.

    Parameters
    ----------
    canaries
        m >= 1, each with a coin of its own.
    guesses, correct
        For how many canaries a guess is made, in [0, m], and how many guesses are right.  Which canaries are guessed
        may depend on their scores.
    delta
        δ in [0, 1).
    level
        Probability with which the bound may exceed the truth, in (0, 1).

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

    return _largest(refuted) if guesses else 0.0


def one_run_gaussian_lower_bound(canaries: int, guesses: int, correct: int, *, level: float) -> float:
    """The largest μ >= 0 that one run refutes, for one Gaussian mechanism.

    Parameters
    ----------
    canaries, guesses, correct, level
        As for ``one_run_epsilon_lower_bound``.

    Examples
    --------
    >>> round(one_run_gaussian_lower_bound(1000, 200, 190, level=0.05), 3)
    0.908
    """
    canaries, guesses, correct, level = _checked_guesses(canaries, guesses, correct, level)

    def refuted(mu: float) -> bool:
        right = level * correct / canaries
        wrong = level * (guesses - correct) / canaries
        for i in range(correct - 1, -1, -1):
            more = max(wrong, float(ndtr(ndtri(right) - mu)))
            if more == wrong:
                break
            right = min(right + i / (guesses - i) * (more - wrong), 1.0)
            wrong = more
        return right + wrong > guesses / canaries

    return _largest(refuted) if guesses else 0.0
