"""A lower bound of ε from guesses about independent canaries, for any (ε, δ)-private loop, whatever its noise.

Independent fair coins say which of m canaries are in, and each canary has a score.  The pairs of a coin and a score are
independent, and the two laws of a score, in and out, are (ε, δ)-indistinguishable.  A guesser sees all scores, names r
canaries and calls each in or out.  Let c of the guesses be correct, and q = e^ε/(1 + e^ε).

**Theorem.**  P[c >= v]  <=  Σ_j P[Bin(m, δ) = j] P[Bin(r − j, q) >= v − j],  where the last factor is 1 for j >= v.

*Proof.*  Two (ε, δ)-indistinguishable laws are the images, under one random map, of two laws on four symbols: with
probability δ the symbol reveals the coin, and otherwise it is the coin's randomised response, correct with probability
q (Kairouz, Oh and Viswanath).  The guesser may be given these m symbols in place of the scores.  The number of revealed
coins is J ~ Bin(m, δ).  Given the symbols, the other coins are independent, and a guess about one is correct with
probability q at most.  At most J guesses are about revealed coins.  So c is at most J + Bin(r − J, q) in distribution,
and r for J >= r.  ∎  With symbols for scores, the guesser that names revealed coins first attains the bound.

Canaries of one run are not independent in general.  A loop that reveals all coins together with probability δ, and
nothing otherwise, is (0, δ)-private, and all its guesses are correct with probability δ at least, far above the bound.
``one_run`` has the bound that needs no independence.

References
----------
P. Kairouz, S. Oh, P. Viswanath, "The composition theorem for differential privacy", arXiv 1311.0776.
T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", arXiv 2305.08846.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import betaincc, expit
from scipy.stats import binom

from corrnoise.theory.numerics import checks

_MAX_EPSILON = 2000.0  #: of ε and μ; a larger lower bound is reported as this one
_MAX_HALVINGS = 40  # of an interval that is not longer than its lower end, or 1
_LEFT_OUT = 1e-9  # of the level: the largest probability of numbers of revealed coins that are bounded together
_ROUNDING_MARGIN = 1e-9  # of the probability, above the rounding errors of its terms


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


def independent_bound(canaries: int, guesses: int, correct: int, *, level: float, delta: float) -> float:
    """The largest ε that the correct guesses refute, if the canaries are independent.

    Parameters
    ----------
    canaries : int
        m >= 1: canaries, each in or out by an independent fair coin, with independent scores.
    guesses : int
        r in [0, m]: for how many canaries a guess is made, fixed before the scores.  Which canaries these are may
        depend on all scores.
    correct : int
        In [0, r]: how many guesses are correct.
    level : float
        The probability that the bound exceeds the truth, at most; in (0, 1).
    delta : float
        δ in [0, 1).

    Returns
    -------
    float
        The bound, in [0, 2000].

    Examples
    --------
    >>> round(independent_bound(1000, 100, 90, level=0.05, delta=1e-5), 4)  # 1.6143 for canaries that are dependent
    1.6307
    """
    canaries = checks.integer("canaries", canaries, 1)
    guesses = checks.integer("guesses", guesses, 0, largest=canaries)
    correct = checks.integer("correct", correct, 0, largest=guesses)
    level = checks.real("level", level, "(0, 1)")
    delta = checks.real("delta", delta, "[0, 1)")
    few = min(correct, int(binom.isf(_LEFT_OUT * level, canaries, delta)) + 1)
    revealed = np.arange(few)
    chances = binom.pmf(revealed, canaries, delta)
    rest = float(binom.sf(few - 1, canaries, delta))

    def refuted(epsilon: float) -> bool:
        correct_too = betaincc(guesses - correct + 1, correct - revealed, expit(-epsilon))
        return (float(chances @ correct_too) + rest) * (1 + _ROUNDING_MARGIN) <= level

    return largest_refuted(refuted)
