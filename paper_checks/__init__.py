"""Claims of papers, each checked by machine: what is printed, whether it is true, and what is true instead."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corrnoise.paper_checks.ledger import Claim, Paper

#: Every paper in the ledger, by its short name; each is the ``PAPER`` of the module or package of that name.
NAMES = ("correlated-noise", "shuffled-gradients", "corrnoise")
_MODULES = {
    "correlated-noise": "correlated_noise",
    "shuffled-gradients": "shuffled_gradients",
    "corrnoise": "own_results",
}


def paper_ledger(name: str) -> Paper:
    """Return the paper called ``name`` with its claims; its module is imported now."""
    if name not in NAMES:
        raise ValueError(f"paper must be one of {', '.join(NAMES)}, got {name!r}")
    paper: Paper = import_module(f"corrnoise.paper_checks.{_MODULES[name]}").PAPER
    return paper


def claims(paper: str | None = None) -> tuple[Claim, ...]:
    """The claims of one paper, or of all, in the order of the papers.

    Parameters
    ----------
    paper
        Short name: ``"correlated-noise"`` (arXiv 2310.06771), ``"shuffled-gradients"`` (arXiv 2502.03652), or
        ``"corrnoise"`` for what this project adds; None for all of them.

    Returns
    -------
    Records at once, without computing anything; ``claim.check()`` computes.

    Examples
    --------
    >>> import corrnoise as cn
    >>> [claim] = [c for c in cn.claims("correlated-noise") if c.name == "Lemma C.21 (i)"]
    >>> outcome = claim.check()
    >>> outcome.verdict, round(outcome.sharp, 4)
    ('holds', 3.0216)
    """
    return tuple(claim for name in (NAMES if paper is None else (paper,)) for claim in paper_ledger(name).claims)
