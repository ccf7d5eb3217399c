"""Claims of papers, each checked by machine: the printed statement, its truth, and a true statement in its place."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from corrnoise.support.suggestions import did_you_mean

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.papers import ListedClaim, Paper

#: Every paper in the ledger: its short name and its package, which declares ``PAPER`` in ``paper.py``.
_PAPER_PACKAGES = {
    "correlated-noise": "correlated_noise",
    "shuffled-gradients": "shuffled_gradients",
    "noise-cancellation": "noise_cancellation",
    "momentum-aggregation": "momentum_aggregation",
    "corrnoise": "own_results",
}
NAMES = tuple(_PAPER_PACKAGES)


def paper_ledger(name: str) -> Paper:
    """Return the paper called ``name``, one of ``NAMES``; its claims are imported when they are asked for."""
    if name not in NAMES:
        raise ValueError(f"paper must be one of {', '.join(NAMES)}, got {name!r}{did_you_mean(name, NAMES)}")
    paper: Paper = import_module(f"corrnoise.paper_checks.{_PAPER_PACKAGES[name]}.paper").PAPER
    return paper


def papers() -> tuple[Paper, ...]:
    """Every paper in the ledger."""
    return tuple(map(paper_ledger, NAMES))


def claims(paper: str | None = None, *, name: str | None = None) -> tuple[ListedClaim, ...]:
    """The claims of one paper, or of all, in the order of the papers.

    Parameters
    ----------
    paper : str, optional
        ``"correlated-noise"`` or ``"2310.06771"``, ``"shuffled-gradients"`` or ``"2502.03652"``,
        ``"noise-cancellation"``, ``"momentum-aggregation"`` or ``"2210.06328"``, ``"corrnoise"`` for the results of
        this project; None for every paper.
    name : str, optional
        The claims whose names begin like this, as on the command line: ``"Lemma C.21"``, ``"eq. 5"``, ``"Thm 2.1"``;
        None for every claim.

    Returns
    -------
    tuple of ListedClaim
        The claims as they are listed, with their names, recorded verdicts and evidence, at once.  A claim is imported
        when it is asked for anything else, as its statement ``claim.printed``; ``claim.check()`` computes.

    Raises
    ------
    ValueError
        For unknown papers and claims.
    TypeError
        If ``paper`` or ``name`` is not a string.

    Examples
    --------
    >>> import corrnoise as cn
    >>> [claim] = cn.claims("correlated-noise", name="Lemma C.21 (i)")
    >>> outcome = claim.check()
    >>> outcome.verdict, round(outcome.sharp, 4)
    ('holds', 3.0216)
    """
    from corrnoise.paper_checks.machinery.selection import papers_called, select

    for argument, value in (("paper", paper), ("name", name)):
        if not isinstance(value, str | None):
            raise TypeError(f"{argument} must be a string or None, got {value!r:.80}")
    among = papers() if paper is None else papers_called(papers(), paper)
    return select(among, [] if name is None else [name]).claims
