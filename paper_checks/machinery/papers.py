"""Papers: their claims, and how a claim is written.

A paper is a package whose ``paper.py`` declares ``PAPER``, its modules in order, and the statements about which there
is no claim, each with the reason.  The claims are listed in ``claims.csv`` (see ``listing``).  So a claim is found by
its name without importing a module of the paper, and a statement that was overlooked can be distinguished from one that
was left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from corrnoise.paper_checks.machinery.listing import ListedClaim, read_list
from corrnoise.paper_checks.machinery.verdicts import IDENTITY, INEQUALITY, Evidence, Relation

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.domains import Axis
    from corrnoise.paper_checks.machinery.ledger import Claim, Sides
    from corrnoise.paper_checks.machinery.quantifiers import Family, Quantifier

    Register = Callable[[Callable[..., Sides]], Claim]


class Fields(TypedDict, total=False):
    """The keywords with which a claim is written; only ``printed`` is required.  Texts hold LaTeX between dollars."""

    printed: Required[str]  #: the statement as published, word for word
    reading: str  #: the statement as it is understood, where the printed one needs it
    part: str  #: in parentheses, where a statement makes several claims
    domain: Mapping[str, Axis]  #: an axis for each argument of the function, in order
    constants: Mapping[str, Quantifier]  #: the quantifier of each constant of the statement; see quantifiers.py
    probability: str  #: the argument p of a statement that holds with probability 1 − p; see confidence.py
    evidence: Evidence  #: by default "searched" for an inequality, "exact" for an identity
    mutants: Sequence[Mapping[str, Any]]  #: false neighbours: constants with which the check must fail
    sharp: str  #: the constant whose sharp value is found
    proved_constant: (
        float | str
    )  #: the constant for which there is a proof or certificate, where it is not the stated one
    independent: str  #: what the two sides are computed by, where they share code
    counterexample: Mapping[str, Any] | Family  #: arguments at which the printed statement fails, or a family of them
    as_printed: Mapping[str, Any]  #: the constants with which the function is the printed statement
    corrected: str  #: the true statement, where the printed one is false
    unverifiable: str  #: why the statement cannot be checked, and what is checked instead
    transcription: str | None  #: which signs an electronic copy lost and were restored
    outside: str  #: which part of the statement's domain is left out, and the argument there
    proof: str  #: the file and heading of a proof, or the section of the paper
    rests_on: Sequence[str]  #: the claims that the proof uses: "N1", or "corrnoise: N1" of another paper
    conjecture: bool  #: not proved
    tolerance: float  #: of rounding, relative
    evaluations: int  #: budget of the search


def numbered(kind: str, *labels: str) -> tuple[str, ...]:
    """The numbers of several statements of one kind.

    >>> numbered("Lemma", "C.4", "C.6")
    ('Lemma C.4', 'Lemma C.6')
    """
    return tuple(f"{kind} {label}" for label in labels)


class Paper:
    """The statements of one paper, and the claims about them.

    Parameters
    ----------
    name
        Short name, as in ``corrnoise check correlated-noise``.
    source, title, authors
        Reference.
    package
        The package that holds the claims; None where they are registered by hand.
    modules
        Its modules with claims, in the order of the paper.
    no_claims
        Numbers of statements about which there is no claim, with the reason: a sentence that begins in lower case.
    """

    def __init__(
        self,
        name: str,
        *,
        source: str,
        title: str,
        authors: str,
        package: str | None = None,
        modules: Sequence[str] = (),
        no_claims: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.title = title
        self.authors = authors
        self.package = package
        self.modules = tuple(f"{package}.{module}" for module in modules)
        self.no_claims = dict(no_claims or {})
        self.registered: list[Claim] = []  #: the claims that were imported

    # -- statements and claims -----------------------------------------------------------------------------------------

    @property
    def listed(self) -> tuple[ListedClaim, ...]:
        """All claims as listed, in the order of the paper; no module is imported."""
        return self._list if self.package else tuple(map(self.listing_of, self.registered))

    def listing_of(self, claim: Claim) -> ListedClaim:
        """A claim of this paper as it is to be listed."""
        return ListedClaim(
            paper=self.name,
            source=self.source,
            number=claim.number,
            part=claim.part,
            module=claim.module,
            recorded=claim.recorded,
            evidence=claim.evidence,
            holder=self,
        )

    @cached_property
    def _list(self) -> tuple[ListedClaim, ...]:
        return read_list(self)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of all statements with claims, in the order of the paper."""
        return tuple(dict.fromkeys(claim.number for claim in self.listed))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, in the order of the paper; all modules are imported now."""
        for module in self.modules:
            import_module(module)
        return tuple(sorted(self.registered, key=self._place))

    def _place(self, claim: Claim) -> int:
        return self.modules.index(claim.module) if self.modules else 0

    def claim(self, module: str, number: str, part: str) -> Claim:
        """One claim; its module is imported now.

        Raises
        ------
        LookupError
            The module has no such claim: the list is not up to date.
        """
        if self.package:
            import_module(module)
        for claim in self.registered:
            if (claim.module, claim.number, claim.part) == (module, number, part):
                return claim
        raise LookupError(f"{module} has no claim {number} {part}; python -m tools.claims lists the claims anew")

    @staticmethod
    def section(claim: Claim) -> str:
        """The subject of the module of a claim: the first sentence of its docstring, without the full stop."""
        return re.split(r"\.(?:\s|$)", (sys.modules[claim.module].__doc__ or "").strip(), maxsplit=1)[0]

    # -- how a claim is written ----------------------------------------------------------------------------------------

    def inequality(self, number: str, **fields: Unpack[Fields]) -> Register:
        """Register a function that returns (smaller, larger), numbers or arrays of them, as the claim ``number``."""
        return self._register(INEQUALITY, number, {"evidence": "searched", **fields})

    def identity(self, number: str, **fields: Unpack[Fields]) -> Register:
        """Register a function that returns the left and the right side, numbers or arrays, as the claim ``number``."""
        return self._register(IDENTITY, number, {"evidence": "exact", **fields})

    def _register(self, relation: Relation, number: str, fields: Mapping[str, Any]) -> Register:
        def register(function: Callable[..., Sides]) -> Claim:
            from corrnoise.paper_checks.machinery.registration import written_claim

            claim = written_claim(self.name, self.source, relation, number, fields, function)
            for wrong, why in (
                (claim.identifier in {one.identifier for one in self.registered}, "there are two claims of that name"),
                (
                    self.package and claim.module not in self.modules,
                    f"{self.name} does not name its module {claim.module}",
                ),
                (claim.number in self.no_claims, "no_claims says why there is no claim about it"),
            ):
                if wrong:
                    raise ValueError(f"{claim.name}: {why}")
            self.registered.append(claim)
            return claim

        return register
