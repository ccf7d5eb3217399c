"""Statements with a probability: independent runs, and what they say about the probability of a violation.

A statement "with probability at least 1 − p" is a claim with ``probability="p"``.  Its function returns the sides of
independent runs, along the first axis.  A run violates the statement if any of its entries does.  The margin compares a
lower confidence limit of the probability of a violation with p: it is negative only if the runs show that the
probability is larger than p.

The limit is that of Clopper and Pearson, exact for independent runs.  It exceeds the true probability with a
probability of at most ``LEVEL``, which is the rate of false alarms at one point of the domain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaincinv

from corrnoise.paper_checks.machinery.margins import margin

LEVEL = 1e-10


def least_probability(violations: int, runs: int, level: float = LEVEL) -> float:
    """The lower confidence limit of the probability of a violation, of which ``violations`` were seen in ``runs``."""
    return float(betaincinv(violations, runs - violations + 1, level)) if violations else 0.0


def margin_of_runs(smaller: Any, larger: Any, allowed: float, tolerance: float) -> float:
    """The margin of the least probability of smaller > larger against ``allowed``; see ``margins.margin``.

    Parameters
    ----------
    smaller, larger
        Runs along axis 0; nan is a violation, because no run may be left out.
    allowed
        The probability p with which the statement may fail.
    tolerance
        Of rounding, relative.

    Raises
    ------
    ValueError
        There are too few runs: even if all of them violated the statement it would not be rejected.
    """
    s, g = np.broadcast_arrays(np.asarray(smaller, dtype=float), np.asarray(larger, dtype=float))
    runs = s.shape[0] if s.ndim else 1
    if least_probability(runs, runs) <= allowed:
        raise ValueError(f"{runs} runs cannot show a probability above {allowed:g}")
    fine = s - g <= tolerance * np.maximum(np.abs(s), np.abs(g))
    violations = runs - int(np.count_nonzero(fine.reshape(runs, -1).all(axis=1)))
    return margin(least_probability(violations, runs), allowed)
