"""Papers: their inventories, and how a claim is registered.

A paper is a package whose ``paper.py`` declares ``PAPER``.  The *inventory* of a paper lists every statement, either
under the module of the package that holds the claims about it, or with the reason why there is no claim.  So a claim is
found by the number of its statement without importing any other module of the paper, and a statement that was
overlooked can be distinguished from one that was left out.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from typing import Any, Required, TypedDict, Unpack

from corrnoise.paper_checks.machinery.domains import Axis, Domain
from corrnoise.paper_checks.machinery.independence import shared
from corrnoise.paper_checks.machinery.ledger import (
    EVIDENCE,
    IDENTITY,
    INEQUALITY,
    Claim,
    Evidence,
    Relation,
    Sides,
)
from corrnoise.paper_checks.machinery.quantifiers import Family, Quantifier, faults

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
    statements
        Modules of the package in the order of the paper, each with the numbers of the statements it has claims about.
    no_claims
        Numbers of statements about which there is no claim, with the reason: a sentence that begins in lower case.

    Raises
    ------
    ValueError
        A statement is both with and without claims.
    """

    def __init__(
        self,
        name: str,
        *,
        source: str,
        title: str,
        authors: str,
        package: str | None = None,
        statements: Mapping[str, Sequence[str]] | None = None,
        no_claims: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.source = source
        self.title = title
        self.authors = authors
        self.package = package
        self.statements = dict(statements or {})
        self.no_claims = dict(no_claims or {})
        self._claims: list[Claim] = []
        if both := self.no_claims.keys() & set(self.numbers):
            raise ValueError(f"no_claims must not name statements with claims, got {', '.join(sorted(both))}")

    # -- statements and claims -----------------------------------------------------------------------------------------

    @property
    def numbers(self) -> tuple[str, ...]:
        """The numbers of all statements with claims, in the order of the paper."""
        listed = (number for numbers in self.statements.values() for number in numbers)
        return tuple(dict.fromkeys([*listed, *(claim.number for claim in self._claims)]))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """All claims, in the order of the paper; all modules are imported now."""
        return self.claims_about(self.numbers)

    def claims_about(self, numbers: Collection[str]) -> tuple[Claim, ...]:
        """The claims about the statements with these numbers, in the order of the paper; their modules are imported."""
        for module, held in self.statements.items():
            if not set(held).isdisjoint(numbers):
                import_module(f"{self.package}.{module}")
        return tuple(claim for claim in sorted(self._claims, key=self._place) if claim.number in numbers)

    def _place(self, claim: Claim) -> int:
        return list(self.statements).index(self._module(claim)) if self.statements else 0

    def _module(self, claim: Claim) -> str:
        return claim.module.removeprefix(f"{self.package}.")

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
            derived = {
                "part": fields.get("part", ""),
                "domain": Domain(fields.get("domain", {})),
                "mutants": tuple(fields.get("mutants", ())),
                "rests_on": tuple(fields.get("rests_on", ())),
            }
            claim = Claim(
                paper=self.name,
                source=self.source,
                number=number,
                function=function,
                relation=relation,
                **{**fields, **derived},
            )
            self._validate(claim)
            self._claims.append(claim)
            return claim

        return register

    def _validate(self, claim: Claim) -> None:
        """Raise ``ValueError`` for a claim that could not be found, checked or rejected, or that contradicts itself."""
        parameters = inspect.signature(claim.function).parameters.values()
        open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
        names = {p.name for p in parameters if p.kind is not p.VAR_KEYWORD}
        free = {p.name for p in parameters if p.name in names and p.default is p.empty}
        axes = set(claim.domain.axes)
        named = {name for given in (*claim.mutants, claim.as_printed) for name in given}
        named |= {claim.sharp} if claim.sharp else set()
        certifiable = claim.relation == INEQUALITY and claim.domain.ball and axes
        false = claim.counterexample is not None
        unpinned = false and all(mutant == claim.as_printed for mutant in claim.all_mutants())
        proved = claim.proof is not None or claim.evidence == "certified"
        same = "" if claim.independent else ", ".join(sorted(shared(claim)))
        listed = not self.statements or claim.number in self.statements.get(self._module(claim), ())
        for wrong, why in (
            (claim.evidence not in EVIDENCE, f"evidence must be one of {', '.join(EVIDENCE)}, got {claim.evidence!r}"),
            (claim.evidence == "certified" and not certifiable, "only an inequality over scalar axes can be certified"),
            (not claim.printed.strip(), "it needs the statement as printed"),
            (not claim.note, "it needs a docstring"),
            (not claim.all_mutants(), "it needs a mutant that its check rejects"),
            (unpinned, "it needs a mutant of the corrected statement, besides the printed one"),
            (not free <= axes <= (axes if open_ended else names), "its domain must have an axis for each argument"),
            (not named <= names - axes, f"it has no constant {', '.join(sorted(named - (names - axes)))}"),
            (claim.sharp and claim.relation != INEQUALITY, "only an inequality has a sharp constant"),
            (claim.unverifiable is not None and false, "a claim that is not checkable has no counterexample"),
            ((claim.corrected or claim.as_printed) and not false, "a correction needs a counterexample"),
            (
                isinstance(claim.counterexample, Mapping) and set(claim.counterexample) != axes,
                "a counterexample has the arguments of the domain",
            ),
            (claim.identifier in {other.identifier for other in self._claims}, "there are two claims of that name"),
            (same, f"both sides come from {same}, so it needs the reason why they are independent"),
            (claim.evidence == "proved" and not claim.proof, "what is proved needs the place of its proof"),
            (claim.proved_constant is not None and not claim.sharp, "proved_constant needs the name of it in sharp"),
            (claim.proved_constant is not None and not proved, "proved_constant needs a proof or a certificate"),
            (claim.probability is not None and claim.probability not in axes, "probability must be an argument"),
            (claim.probability is not None and claim.relation == IDENTITY, "only an inequality has a probability"),
            *((True, fault) for fault in faults(claim.constants, axes, names, claim.counterexample)),
            (not listed, f"the inventory of {self.name} does not list it under {self._module(claim)}"),
        ):
            if wrong:
                raise ValueError(f"{claim.name}: {why}")
