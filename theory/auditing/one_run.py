"""A lower bound of privacy from one run with many canaries, for any trade-off function.

Fair coins say which of m canaries are in.  For every fixed choice of the other canaries, P₁(E) <= g(P₀(E)) and
P₀(E) <= g(P₁(E)) for all events E, with g = 1 − f concave and increasing.  A guesser names r canaries and calls each
in or out.  Let p_j = P[j guesses are correct].

**Theorem.**  For k = 1, …, r,

    Σ_{j>=k} j p_j / m  <=  g( Σ_{j>=k−1} (r − j) p_j / m ).

*Proof.*  Fix canary i and the other coins.  Let c' be the number of correct guesses about the others.  The event
{i called in, c' >= k − 1} has P₁ <= g(P₀), and the event {i called out, c' >= k − 1} has P₀ <= g(P₁).  Half the sum of
the left sides is P[i correct, c >= k]; half the sum of the arguments is P[i wrong, c >= k − 1].  As g is concave, the
halves, the average over the other coins and the average over i move inside.  Σ_i 1[i correct] = c and
Σ_i 1[i wrong] = r − c.  ∎

**Recursion.**  Suppose P[c >= v] >= τ.  With Q = P[c >= k] and D = Σ_{j>=k} (j − k) p_j / m, the inequality at k says
that the same numbers at k − 1 satisfy

    D' = D + Q/m,    Q' >= max(Q, (m (g⁻¹(D + k Q/m) + D) + Q) / (r − k + 1)).

Both increase with (Q, D).  So equality from (τ, 0) at k = v to k = 0 gives a lower bound of Σ p_j.  If it exceeds 1,
v correct guesses refute g at level τ.  The bound falls as g grows, and bisection finds the largest refuted μ or ε.

References
----------
T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run", arXiv 2305.08846.
S. Mahloujifar, L. Melis, K. Chaudhuri, "Auditing f-differential privacy in one run", arXiv 2410.22235.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtr, ndtri

from corrnoise.theory.auditing.epsilon import largest_refuted
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors

_ROUNDING_MARGIN = 1e-9  # of the total probability, above the rounding errors of the recursion


@usual_float_errors
def one_run_bound(canaries: int, guesses: int, correct: int, *, level: float, delta: float | None = None) -> float:
    """The largest μ, or ε, that the correct guesses of one run refute.

    Parameters
    ----------
    canaries : int
        m >= 1: canaries, each in or out by an independent fair coin.
    guesses : int
        r in [0, m]: for how many canaries a guess is made.  Their choice may depend on everything the run releases.
    correct : int
        In [0, r]: how many guesses are correct.
    level : float
        The probability that the bound exceeds the truth, at most; in (0, 1).
    delta : float, optional
        δ in [0, 1): the bound is an ε of (ε, δ)-differential privacy.  None: the bound is a μ of Gaussian differential
        privacy.

    Returns
    -------
    float
        The bound, in [0, 2000].

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.privacy.one_run_bound(1000, 100, 90, level=0.05), 4)
    0.6025
    >>> round(cn.privacy.one_run_bound(1000, 100, 90, level=0.05, delta=1e-5), 4)
    1.6143
    """
    canaries = checks.integer("canaries", canaries, 1)
    guesses = checks.integer("guesses", guesses, 0, largest=canaries)
    correct = checks.integer("correct", correct, 0, largest=guesses)
    level = checks.real("level", level, "(0, 1)")
    inverse_of = _gaussian if delta is None else _approximate(checks.real("delta", delta, "[0, 1)"))

    def refuted(value: float) -> bool:
        return _least_total(canaries, guesses, correct, level, inverse_of(value)) > 1 + _ROUNDING_MARGIN

    return largest_refuted(refuted)


def _gaussian(mu: float) -> Callable[[float], float]:
    """The inverse of g of μ-Gaussian differential privacy."""
    return lambda y: float(ndtr(ndtri(y) - mu))


def _approximate(delta: float) -> Callable[[float], Callable[[float], float]]:
    """The inverse of g of (ε, δ)-differential privacy, for each ε, where g(x) = e^ε x + δ is below 1."""

    def inverse_of(epsilon: float) -> Callable[[float], float]:
        shrink = math.exp(-epsilon)
        return lambda y: max((y - delta) * shrink, 0.0)

    return inverse_of


def _least_total(canaries: int, guesses: int, correct: int, level: float, inverse: Callable[[float], float]) -> float:
    """A lower bound of the total probability if v correct guesses have probability ``level``; inf if it exceeds 1."""
    tail, excess = level, 0.0
    for k in range(correct, 0, -1):
        reached = excess + k * tail / canaries
        if reached > 1 + _ROUNDING_MARGIN:
            return math.inf
        larger = (canaries * (inverse(min(reached, 1.0)) + excess) + tail) / (guesses - k + 1)
        if larger <= tail:  # then no later step is larger
            return tail
        excess += tail / canaries
        tail = larger
        if tail > 1 + _ROUNDING_MARGIN:
            return math.inf
    return tail
