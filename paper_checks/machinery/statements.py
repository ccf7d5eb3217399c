"""Statements: inequalities with a formula, which can be certified and written in Coq."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from corrnoise.paper_checks.machinery import certificates, coq
from corrnoise.paper_checks.machinery.domains import Domain
from corrnoise.paper_checks.machinery.terms import Formula, traced


@dataclass(frozen=True)
class Statement(Formula):
    """An inequality over ranges of real variables, as a formula."""

    def certify(self, *, boxes: int = 20_000, seconds: float | None = 60) -> certificates.BoxCertificate:
        """Prove the statement on its whole domain, refute it, or leave it open.

        Parameters
        ----------
        boxes : int, default 20_000
            The most boxes to treat.
        seconds : float or None, default 60
            The most seconds to take; None: any.

        Returns
        -------
        BoxCertificate
            ``answer`` is ``"proved"``, ``"refuted"`` or ``"open"``; ``record()`` exports a proof.
        """
        return certificates.certify(self, boxes=boxes, seconds=seconds)

    def coq(self, name: str) -> str:
        """The statement as a theorem of Coq, with a proof by interval arithmetic, as the text of a file.

        Parameters
        ----------
        name : str
            The theorem's name.

        Returns
        -------
        str
            A file for ``coqc``, which needs Debian's ``libcoq-interval``.
        """
        return coq.theorem(self, name)


def traced_statement(function: Callable[..., Any], domain: Domain, constants: Mapping[str, Any]) -> Statement:
    """The statement of a claim's function on its domain; ``Untraceable`` if it has no formula."""
    return Statement(**vars(traced(function, domain, constants)))
