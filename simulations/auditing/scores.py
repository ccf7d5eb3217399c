"""Bounds of privacy from the scores of canaries: what they refute, whatever the training loop is.

An auditor inserts canaries by coins, trains, and gives each canary a score that should be larger if the canary is in.
The canaries with the highest scores are called in, as many with the lowest are called out, and the number of correct
guesses gives a bound (``theory.auditing.one_run``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from corrnoise.simulations.auditing.plan import claimed
from corrnoise.support.wording import summary_html, summary_text
from corrnoise.theory.auditing.epsilon import error_rate_bound
from corrnoise.theory.auditing.findings import Verdict
from corrnoise.theory.auditing.one_run import one_run_bound
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Budget, gaussian_epsilon, zcdp_to_approx_dp

_GUESS_SHARES = (1.0, 0.5, 0.25, 0.1, 0.04, 0.016)  # of the canaries; each share has an equal part of the level


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
        Lower bound of ε at ``delta`` if the scores are independent, from the error rates of a threshold.
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
    The bounds need no assumption about the scores, which may depend on each other, and hold for several runs together.
    The coins must be independent and fair, and hidden from the run that is not private.  Scores of one run refute a
    small ε alone: 1000 canaries that are all recognised refute ε = 4.6 at level 0.05 and δ = 1e-5.

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
    counts = list(_guesses(values, coins))
    each = level / len(_GUESS_SHARES)

    def largest(of_delta: float | None) -> float:
        return max(one_run_bound(values.size, r, v, level=each, delta=of_delta) for r, v in counts)

    mu = largest(None)
    words, broken = _compared(claim, mu, delta, largest)
    return ScoreAudit(
        "not private as claimed" if broken else "nothing found",
        largest(delta),
        mu,
        gaussian_epsilon(mu**2 / 2, delta) if mu else 0.0,
        error_rate_bound(values, coins, delta=delta, level=level),
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


def _guesses(scores: Array, taken: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Numbers of guesses and of correct ones: the highest scores as in, as many of the lowest as out."""
    ranked = taken[np.argsort(scores, kind="stable")]
    halves = sorted({min(max(1, round(share * scores.size / 2)), scores.size // 2) for share in _GUESS_SHARES})
    return [(2 * half, int(ranked[-half:].sum() + (~ranked[:half]).sum())) for half in halves]


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
