"""Bounds of privacy from the scores of canaries: what they refute, whatever the training loop is.

An auditor inserts canaries by coins, trains, and gives each canary a score that should be larger if the canary is in.
The highest scores are called in, the lowest are called out, and the number of correct guesses gives a bound
(``theory.auditing.one_run``, and ``theory.auditing.epsilon`` for independent canaries).  Guesses are about all
canaries, half as many, a quarter and so on, at both ends of the scores or one.  These tests are fixed before the scores
and share the level (union bound).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.auditing.plan import claimed
from corrnoise.support.wording import summary_html, summary_text
from corrnoise.theory.auditing.epsilon import independent_bound
from corrnoise.theory.auditing.findings import Verdict
from corrnoise.theory.auditing.one_run import one_run_bound
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Budget, gaussian_epsilon, zcdp_to_approx_dp

_FEWEST_GUESSES = 16  # about both ends, where there are as many canaries
_LEAST_EXCESS = 4  # of a test's level over the probability that a loop reveals as many coins as there are guesses


@record
class ScoreAudit(Record):
    """Lower bounds of privacy from scores; ``cn.audit_scores`` makes it.

    Attributes
    ----------
    verdict : str
        ``"nothing found"`` or ``"not private as claimed"``.
    epsilon : float
        Lower bound of ε at ``delta`` for any mechanism.
    mu : float
        Lower bound of μ if the mechanism is Gaussian.
    epsilon_gaussian : float
        The ε of ``mu`` at ``delta``: a lower bound if the mechanism is Gaussian.
    epsilon_independent : float
        Lower bound of ε at ``delta`` for any mechanism if the canaries are independent.
    delta, level : float
        δ of the bounds, and the probability that each bound exceeds the truth, at most.
    canaries : int
        Number of scores.
    claim : str
        The claim in words; empty without a claim.
    """

    verdict: Verdict
    epsilon: float
    mu: float
    epsilon_gaussian: float
    epsilon_independent: float
    delta: float
    level: float
    canaries: int
    claim: str

    def __str__(self) -> str:
        return self.report()

    def report(self) -> str:
        """The verdict, then the bounds with their assumptions, as text.

        Returns
        -------
        str
        """
        return summary_text(self._opening, self._facts())

    def _repr_html_(self) -> str:
        return summary_html(self._opening, self._facts())

    @property
    def _opening(self) -> str:
        if self.verdict == "nothing found":
            return "Nothing found: scores can refute a claim and cannot prove one."
        return "Not private as claimed: the canaries are recognised too often."

    def _facts(self) -> dict[str, str]:
        at = f"at delta {self.delta:.3g}"
        facts = {
            "Any noise": f"epsilon >= {self.epsilon:.4g} {at}",
            "Gaussian": f"mu >= {self.mu:.4g}, epsilon >= {self.epsilon_gaussian:.4g} {at}",
            "Independent": f"epsilon >= {self.epsilon_independent:.4g} {at}",
            "Scores": f"{self.canaries}; each bound exceeds the truth with probability at most {self.level:g}",
        }
        return ({"Claim": self.claim} if self.claim else {}) | facts


@usual_float_errors
def audit_scores(
    scores: ArrayLike, taken: ArrayLike, *, delta: float, level: float = 0.05, claim: Any = None
) -> ScoreAudit:
    """Lower bounds of privacy from the scores of canaries.

    Parameters
    ----------
    scores : array of float
        A score of each canary, shape (canaries,) or (runs, canaries): a larger score says that the canary is in.
    taken : array of bool
        Whether each canary was in, of the same shape: independent fair coins.
    delta : float
        δ in (0, 1) of the bounds.
    level : float, default 0.05
        The probability that a bound exceeds the truth, at most; in (0, 1).
    claim : Budget, design, private run or pair, optional
        What the verdict compares with.  A budget claims its (ε, δ) for any mechanism.  A design, a private run, or a
        pair of a budget and a program claims one Gaussian mechanism, if its batches are not sampled.

    Returns
    -------
    ScoreAudit
        The bounds and the verdict; ``report()`` puts them into words.

    Raises
    ------
    ValueError
        If an argument is out of its range, or the shapes differ.

    Notes
    -----
    The coins must be independent and fair, and hidden from the run that is not private.  The scores may depend on each
    other; ``epsilon_independent`` alone needs independent scores.  All bounds hold for several runs together.  Scores
    of one run refute a small ε alone: 1000 canaries that are all recognised refute ε = 4.5 at level 0.05 and δ = 1e-5.

    Examples
    --------
    >>> import numpy as np
    >>> import corrnoise as cn
    >>> rng = np.random.default_rng(1)
    >>> taken = rng.random(2000) < 0.5
    >>> scores = rng.standard_normal(2000) + 3 * taken
    >>> found = cn.audit_scores(scores, taken, delta=1e-5, claim=cn.Budget(epsilon=1.0, delta=1e-5))
    >>> found.verdict
    'not private as claimed'
    >>> 1 < found.epsilon < found.epsilon_gaussian
    True
    """
    values, coins = _checked(scores, taken)
    delta = checks.real("delta", delta, "(0, 1)")
    level = checks.real("level", level, "(0, 1)")
    ranked = coins[np.argsort(values, kind="stable")]

    def largest(bound: Callable[..., float], of_delta: float | None, together: float = 0.0) -> float:
        tests = guesses(ranked, level, together)
        return max(bound(values.size, r, v, level=each, delta=of_delta) for r, v, each in tests)

    def any_mechanism(of_delta: float) -> float:
        return largest(one_run_bound, of_delta, of_delta)

    mu = largest(one_run_bound, None)
    words, broken = _compared(claim, mu, delta, any_mechanism)
    return ScoreAudit(
        "not private as claimed" if broken else "nothing found",
        any_mechanism(delta),
        mu,
        gaussian_epsilon(mu**2 / 2, delta) if mu else 0.0,
        largest(independent_bound, delta),
        delta,
        level,
        values.size,
        words,
    )


def _checked(scores: ArrayLike, taken: ArrayLike) -> tuple[Array, NDArray[np.bool_]]:
    """Scores and coins as vectors."""
    values = checks.reals("scores", scores)
    coins = np.asarray(taken)
    if coins.dtype != np.bool_ or coins.shape != values.shape or values.ndim not in (1, 2) or values.size < 2:
        raise ValueError(
            "taken must be an array of bool with the shape of scores, (canaries,) or (runs, canaries), at least 2, "
            f"got {coins.dtype} of shape {coins.shape} for scores of shape {values.shape}"
        )
    return values.ravel(), coins.ravel()


def guesses(ranked: NDArray[np.bool_], level: float, together: float) -> list[tuple[int, int, float]]:
    """The tests of an audit: numbers of guesses and of correct ones, with the level of each test.

    Parameters
    ----------
    ranked : array of bool
        The coins, by increasing scores.
    level : float
        The sum of the levels; half of it is for guesses about both ends, half for one end.
    together : float
        δ of a loop that may reveal r of m coins at once with probability δm/r, so that all guesses are correct.  If
        this is near the level of a test, r is left out.  For δ > 0 the lowest scores alone are left out, too.

    Returns
    -------
    list of tuples
    """
    halves = [ranked.size // 2]
    while True:
        half, each = halves[-1] // 2, level / (2 * len(halves) + 2)
        if 2 * half < max(_FEWEST_GUESSES, _LEAST_EXCESS * together * ranked.size / each):
            break
        halves.append(half)
    one_end = level / ((2 if together else 4) * len(halves))
    found = []
    for half in halves:
        high, low = int(ranked[-half:].sum()), int((~ranked[:half]).sum())
        found += [(2 * half, high + low, level / (2 * len(halves))), (half, high, one_end)]
        found += [] if together else [(half, low, one_end)]
    return found


def _compared(claim: Any, mu: float, delta: float, largest: Callable[[float], float]) -> tuple[str, bool]:
    """The claim in words, and whether the scores refute it."""
    if claim is None:
        return "", False
    budget, program = (claim, None) if isinstance(claim, Budget) else claimed(claim)
    if program is not None and not program.participation.sampled:
        promised = math.sqrt(2 * budget.gaussian_rho)
        return f"a Gaussian mechanism with mu = {promised:.4g}", mu > promised
    if budget.rho is not None:
        epsilon = zcdp_to_approx_dp(budget.rho, delta)
    else:
        assert budget.epsilon is not None
        assert budget.delta is not None
        delta, epsilon = budget.delta, budget.epsilon
    return f"epsilon = {epsilon:.4g} at delta {delta:.3g}", largest(delta) > epsilon
