"""Papers: their claims, and how a claim is written.

A paper is a package whose ``paper.py`` declares ``PAPER``, its modules in order, and the statements without a claim,
each with the reason.  ``claims.csv`` next to it lists the claims in the order of the paper;
``python -m tools.claims`` writes it from the claims, and a test compares the two.  So a claim is found by its name without
importing a module of the paper, and a statement that was overlooked can be distinguished from one that was left out.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from corrnoise.paper_checks.machinery.names import Named
from corrnoise.paper_checks.machinery.verdicts import (
    IDENTITY,
    INEQUALITY,
    Evidence,
    Relation,
    Truth,
    Undecided,
    support_of,
    verdict_of,
)

if TYPE_CHECKING:
    from corrnoise.paper_checks.machinery.domains import Axis
    from corrnoise.paper_checks.machinery.ledger import Claim, Sides
    from corrnoise.paper_checks.machinery.quantifiers import Family, Meanings, Quantifier

    Register = Callable[[Callable[..., Sides]], Claim]


class Fields(TypedDict, total=False):
    """The keywords of a claim; only ``printed`` is required.  Texts hold LaTeX between dollars."""

    printed: Required[str]  #: the statement as published, word for word
    reading: str  #: the statement as it is understood, where the printed one needs it
    domain: Mapping[str, Axis]  #: an axis for each argument of the function, in order
    constants: Mapping[str, Quantifier]  #: the quantifier of each constant of the statement; see quantifiers.py
    #: for each symbol with several meanings in the paper, the meanings that make the statement true, as corrected where it
    #: is false; the meaning in force is the first, and the default of the function's keyword
    definitions: Mapping[str, Sequence[str]]
    probability: str  #: the argument p of a statement that holds with probability 1 − p; see margins.py
    #: of the truth.  Of a true statement by default "machine-checked" with a theorem, and "proved" with a proof; without
    #: one "exact" with an ``identity_proof``; an identity, and an inequality whose domain has at most 64 points, are
    #: "computed", others "searched".  Of a false statement by default "computed", and with a disproof "proved", or "family"
    #: where constants may be chosen.  Of an undecided one it is the evidence of the statement that is checked instead.
    evidence: Evidence
    mutants: Sequence[Mapping[str, Any]]  #: false variants: constants that must make the check fail
    sharp: str  #: the constant whose sharp value is found
    proved_constant: float | str  #: the constant that has a proof or certificate, if not the stated one
    independent: str  #: the methods of the two sides, where they share code
    counterexample: Mapping[str, Any] | Family  #: arguments that violate the printed statement, or a family of them
    #: the constants that make the function the printed statement; by default ``printed`` or ``published`` is True
    as_printed: Mapping[str, Any]
    hypotheses: Sequence[str]  #: conditions of the statement that are printed elsewhere, word for word
    repair: str  #: a true statement that keeps the purpose, where the printed one is false
    repair_evidence: Evidence  #: of the repair, by default as ``evidence`` of a true statement
    #: how an identity is known to be exact: "enumeration" of a finite domain with rational sides; without it an identity
    #: is "computed"
    identity_proof: str
    #: the verdict where the statement as printed is neither true nor false; why, and the statement that is checked instead
    undecided: tuple[Undecided, str]
    transcription: str | None  #: which signs an electronic copy lost and were restored
    outside: str | None  #: which part of the statement's domain is left out, and the argument there
    proof: str  #: the file and heading of a proof, the section of the paper, or the published theorem that is cited
    disproof: str  #: the file and heading of a proof that the printed statement is false, as a family needs it
    #: the theorem of a file in proofs/ that is the statement, as repaired where the printed one is false, and the digest
    #: of its statement in theorems.csv
    theorem: tuple[str, str]
    rests_on: Sequence[str]  #: the claims that the proof uses: "N1", or "corrnoise: N1" of another paper
    tolerance: float  #: of rounding, relative
    evaluations: int  #: budget of the search


def numbered(kind: str, *labels: str) -> tuple[str, ...]:
    """The numbers of several statements of one kind.

    >>> numbered("Lemma", "C.4", "C.6")
    ('Lemma C.4', 'Lemma C.6')
    """
    return tuple(f"{kind} {label}" for label in labels)


@dataclass(frozen=True)
class ListedClaim(Named):
    """A claim as it is listed; ``claim``, ``check()`` and every field of ``Claim`` that is not listed import its module."""

    #: the short name of the paper, and its reference
    paper: str
    source: str
    #: the number of the statement, and the part in parentheses
    number: str
    part: str
    module: str  #: the module that holds the claim
    truth: Truth
    evidence: Evidence  #: one of ``EVIDENCE``
    repair: str | None
    repair_evidence: Evidence | None
    holder: Paper = field(repr=False, compare=False)

    @property
    def recorded(self) -> str:
        """The verdict as recorded, one of ``VERDICTS``."""
        return verdict_of(self.truth, self.repair)

    @property
    def support(self) -> str:
        """The evidence of the truth and of the repair, in a few words."""
        return support_of(self.evidence, self.repair_evidence)

    @property
    def claim(self) -> Any:
        """The ``Claim`` itself."""
        return self.holder.claim(self.module, self.number, self.part)

    def check(self, thorough: bool = False) -> Any:
        """Check the claim, and return an ``Outcome``; see ``Claim.check``."""
        return self.claim.check(thorough)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # what copying and printing look for
            raise AttributeError(name)
        return getattr(self.claim, name)

    def __reduce__(self) -> tuple[Callable[[str, str, str], ListedClaim], tuple[str, str, str]]:
        return _find, (f"{self.holder.package}.paper", self.number, self.part)


def _find(module: str, number: str, part: str) -> ListedClaim:
    """The listed claim with this number and part of the paper that a module declares."""
    return next(one for one in import_module(module).PAPER.listed if (one.number, one.part) == (number, part))


FILE = "claims.csv"
_LIST_COLUMNS = ("module", "number", "part", "truth", "evidence", "repair", "repair_evidence")


def written(claims: Iterable[ListedClaim]) -> str:
    """A list of claims as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(_LIST_COLUMNS)
    for one in claims:
        table.writerow([one.module.rpartition(".")[2], *(getattr(one, name) for name in _LIST_COLUMNS[1:])])
    return text.getvalue()


@dataclass(eq=False)
class Paper:
    """The statements of one paper, and the claims about them.

    Parameters
    ----------
    name : str
        The short name, as in ``corrnoise check correlated-noise``.
    source : str
        The reference.
    title, authors : str
        As printed.
    package : str, optional
        The package that holds the claims; None where they are registered by hand.
    modules : sequence of str, optional
        Its modules with claims, in the order of the paper.
    no_claims : dict, optional
        The reason why a numbered statement has no claim, by its number: a sentence in lower case.
    definitions : dict, optional
        The meanings of each symbol that the paper defines in several ways, and their places.
    """

    name: str
    source: str
    title: str
    authors: str
    package: str | None = None
    modules: Sequence[str] = ()
    no_claims: Mapping[str, str] = field(default_factory=dict)
    definitions: Meanings = field(default_factory=dict)
    registered: list[Claim] = field(default_factory=list, init=False, repr=False)  #: the claims that were imported

    def __post_init__(self) -> None:
        self.modules = [f"{self.package}.{module}" for module in self.modules]

    # -- statements and claims -----------------------------------------------------------------------------------------

    @property
    def listed(self) -> tuple[ListedClaim, ...]:
        """All claims as listed, in the order of the paper; no module is imported."""
        return self._list if self.package else tuple(map(self.listing_of, self.registered))

    def listing_of(self, claim: Claim) -> ListedClaim:
        """A claim of this paper as a row of the list.

        Parameters
        ----------
        claim : Claim
            A registered claim.

        Returns
        -------
        ListedClaim
        """
        return self._listed(claim.module, {name: getattr(claim, name) for name in _LIST_COLUMNS[1:]})

    def _listed(self, module: str, record: Mapping[str, Any]) -> ListedClaim:
        return ListedClaim(paper=self.name, source=self.source, module=module, holder=self, **record)

    @cached_property
    def _list(self) -> tuple[ListedClaim, ...]:
        """The list in the package; empty if there is none."""
        path = files(str(self.package)) / FILE
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))) if path.is_file() else ()
        return tuple(
            self._listed(
                f"{self.package}.{row['module']}",
                {name: row[name] for name in _LIST_COLUMNS[1:-2]}
                | {name: row[name] or None for name in _LIST_COLUMNS[-2:]},
            )
            for row in rows
        )

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

        Parameters
        ----------
        module : str
            The full name of its module.
        number, part : str
            The number of the statement, and the part in parentheses.

        Returns
        -------
        Claim

        Raises
        ------
        LookupError
            The list of the claims is not up to date.
        """
        if self.package:
            import_module(module)
        for claim in self.registered:
            if (claim.module, claim.number, claim.part) == (module, number, part):
                return claim
        raise LookupError(f"{module} has no claim {number} {part}; python -m tools.claims lists the claims anew")

    @staticmethod
    def section(claim: Claim) -> str:
        """The subject of the module of a claim: the first sentence of its docstring, without the full stop.

        Parameters
        ----------
        claim : Claim
            A registered claim.

        Returns
        -------
        str
        """
        return re.split(r"\.(?:\s|$)", (sys.modules[claim.module].__doc__ or "").strip(), maxsplit=1)[0]

    # -- how a claim is written ----------------------------------------------------------------------------------------

    def inequality(self, name: str, **fields: Unpack[Fields]) -> Register:
        """Register a function that returns (smaller, larger), numbers or arrays of them.

        Parameters
        ----------
        name : str
            The number of the statement, and in parentheses the part where it makes several claims.
        **fields : object
            The fields of the claim; ``Fields`` documents them.

        Returns
        -------
        callable
        """
        return self._register(INEQUALITY, name, fields)

    def identity(self, name: str, **fields: Unpack[Fields]) -> Register:
        """Register a function that returns the left and the right side, numbers or arrays.

        Parameters
        ----------
        name : str
            As for ``inequality``.
        **fields : object
            As for ``inequality``.

        Returns
        -------
        callable
        """
        return self._register(IDENTITY, name, fields)

    def _register(self, relation: Relation, name: str, fields: Mapping[str, Any]) -> Register:
        def register(function: Callable[..., Sides]) -> Claim:
            from corrnoise.paper_checks.machinery.registration import written_claim

            claim = written_claim(self.name, self.source, self.definitions, relation, name, fields, function)
            unnamed = self.package and claim.module not in self.modules
            for wrong, why in (
                (claim.identifier in {one.identifier for one in self.registered}, "there are two claims of that name"),
                (unnamed, f"{self.name} does not name its module {claim.module}"),
                (claim.number in self.no_claims, "no_claims says why there is no claim about it"),
            ):
                if wrong:
                    raise ValueError(f"{claim.name}: {why}")
            self.registered.append(claim)
            return claim

        return register
