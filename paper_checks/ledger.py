r"""The ledger: statements of papers as functions of two sides, each checked by machine.

A claim says where it stands and what is printed there, and a function returns its two sides:

    @PAPER.inequality(
        "Lemma C.21",
        part="(i)",
        printed=r"$I(a, a) \le 5 \log(8/a)$ for $0 < a < 1$",
        domain={"a": log_scale("1e-300", "1")},
        evidence="certified",
        outside="Below 1e-300: K(k) <= (1 + k'²/4) log(4/k') (Property F.10) gives I(a, a) <= 2.0001 log(8/a).",
        sharp="constant",
        mutants=[{"constant": "3.02"}],
    )
    def lemma_c21_diagonal(a: Any, constant: str = "5") -> Sides:
        '''I(a, a) = 2π/agm(a, 2 − a).  Sharp is 2π/log 8 = 3.0216, attained as a → 1; as a → 0 the ratio tends to 2.'''
        m = arithmetic(a)
        return 2 * m.pi * inverse_mean(a), m.number(constant) * m.log(8 / a)

Constants are keyword arguments with their true values as defaults; a *mutant* is a keyword that makes the statement
slightly wrong, which the check must reject; what is false as printed is a keyword too, violated by the counterexample.

The machinery forms the scale-free *margin* of the two sides: 1 − smaller/larger of an inequality between positive
numbers, in general (larger − smaller)/max(|smaller|, |larger|), and minus the relative difference of an identity.  The
statement holds where the margin is at least minus the tolerance, which is for rounding.  The smallest margin over
the domain tells how far a constant is from sharp.

Verdicts
--------
``holds``
    True as printed.  Roots and fraction bars that only an electronic copy lost are restored first (``transcription``).
``holds corrected``
    False as printed, and a repair that keeps its purpose holds.
``false``
    What it was printed for fails too.
``not checkable``
    Constants are unspecified: the note says what was checked instead.

Evidence, strongest first: ``certified`` (ball arithmetic over the domain; the note says what is outside), ``exact``
(identity or enumeration), ``searched`` (worst case over the domain), ``simulated`` (the smaller side is a confidence
limit; the note states the false-alarm rate).
"""

from __future__ import annotations

import inspect
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import numpy as np

from corrnoise.paper_checks.certification import Certificate, certify
from corrnoise.paper_checks.domains import Axis, Domain
from corrnoise.paper_checks.margins import agreement, margin
from corrnoise.paper_checks.search import Worst, equality, worst_case
from corrnoise.theory.checks import Array

HOLDS, CORRECTED, FALSE, NOT_CHECKABLE = VERDICTS = ("holds", "holds corrected", "false", "not checkable")
ERROR = "error"  #: the verdict of a check that could not be carried out
EVIDENCE = ("certified", "exact", "searched", "simulated")
INEQUALITY, IDENTITY = "<=", "="

_NUDGE = 1e-6  #: relative, by which an identity is made wrong where it has no mutants of its own
_FEW = 64  #: points of a finite domain, up to which all are evaluated in any case
_FEWEST = 0.05  #: share of the points drawn that a check must accept

Sides = tuple[Any, Any]
Point = Sequence[float] | Array


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Where a printed statement fails: the arguments, and both sides there."""

    arguments: Mapping[str, Any]
    sides: Sides
    margin: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one check found.

    Attributes
    ----------
    claim
        The claim that was checked.
    verdict
        One of ``VERDICTS``, found afresh, or ``"error"`` where the check could not be carried out.
    agrees
        The verdict is the recorded one, every mutant was rejected, and the evidence is of the recorded strength.
    reason
        Why it does not agree, or empty.
    margin, worst
        The smallest margin found and the arguments there (for an identity minus the largest relative difference).  A
        search ends at the first violation, so below minus the tolerance the margin need not be the smallest.
    tried, accepted
        Points of the domain evaluated, and those of them that the domain admits.
    certificate
        The answer of ball arithmetic, where the evidence is ``certified``.
    sharp
        The value of the constant in question at which the worst case found is an equality; None where there is none.
    counterexample
        Of the printed statement, recomputed; None where it is true.
    mutants
        Each mutant and whether it was rejected.
    seconds
        Wall time.
    """

    claim: Claim
    verdict: str
    agrees: bool
    reason: str
    margin: float = math.nan
    worst: Mapping[str, Any] = field(default_factory=dict)
    tried: int = 0
    accepted: int = 0
    certificate: Certificate | None = None
    sharp: float | None = None
    counterexample: Counterexample | None = None
    mutants: tuple[tuple[str, bool], ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, eq=False)
class Claim:
    """One numbered statement; see the module for the fields that a claim is written with.

    ``paper`` is the short name of the paper, ``source`` its reference, ``note`` the docstring of the function.  A claim
    of a paper of the ledger is sent to other processes by its name.
    """

    paper: str
    source: str
    number: str
    part: str
    printed: str
    function: Callable[..., Sides] = field(repr=False)
    relation: str
    domain: Domain = field(repr=False)
    evidence: str
    corrected: str | None = None
    as_printed: Mapping[str, Any] = field(default_factory=dict)
    counterexample: Mapping[str, Any] | None = None
    unverifiable: str | None = None
    sharp: str | None = None
    mutants: tuple[Mapping[str, Any], ...] = ()
    transcription: str | None = None
    outside: str | None = None
    proof: str | None = None
    conjecture: bool = False
    tolerance: float = 1e-11
    evaluations: int = 512

    def __reduce__(self) -> tuple[Callable[[str, str], Claim], tuple[str, str]]:
        return _find, (self.paper, self.identifier)

    @property
    def name(self) -> str:
        """Number and part, as in ``Lemma C.21 (i)``."""
        return f"{self.number} {self.part}".strip()

    @property
    def identifier(self) -> str:
        """Paper and name in letters, digits, dots and dashes, for links and file names."""
        return f"{self.paper}-{re.sub(r'[^a-z0-9.]+', '-', self.name.lower()).strip('-')}"

    @property
    def note(self) -> str:
        """What is to be said about the statement and its check."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def recorded(self) -> str:
        """The verdict as recorded, one of ``VERDICTS``."""
        if self.unverifiable is not None:
            return NOT_CHECKABLE
        if self.counterexample is None:
            return HOLDS
        return CORRECTED if self.corrected is not None else FALSE

    # -- margins -------------------------------------------------------------------------------------------------------

    def sides(self, arguments: Mapping[str, Any], **constants: Any) -> Sides:
        """The two sides at ``arguments``, with other constants than the default ones if given."""
        try:
            return self.function(**arguments, **constants)
        except Exception as error:
            error.add_note(_shown({**arguments, **constants}))
            raise

    def margin(self, arguments: Mapping[str, Any], **constants: Any) -> float:
        """The margin at ``arguments``; nan where the function says that they are outside the domain."""
        nudge = constants.pop("_nudge", 0.0)
        smaller, larger = self.sides(arguments, **constants)
        if self.relation == INEQUALITY:
            return margin(smaller, larger, self.tolerance)
        return agreement(np.asarray(smaller, dtype=float) * (1 + nudge), larger, self.tolerance)

    def margin_at(self, point: Point, **constants: Any) -> float:
        """The margin at a point of the domain's cube."""
        return self.margin(self.domain.arguments(point), **constants)

    def holds_at(self, point: Point, **constants: Any) -> bool:
        """Whether the statement holds at a point of the cube; also where the domain rejects the point."""
        return not self.margin_at(point, **constants) < -self.tolerance

    def _worst(self, evaluations: int, seed: int = 0, **constants: Any) -> Worst:
        return worst_case(
            lambda point: self.margin_at(point, **constants),
            self.domain.size,
            evaluations=evaluations,
            seed=seed,
            enough=-self.tolerance,
            points=self.domain.all_points(max(evaluations, _FEW)),
        )

    def all_mutants(self) -> tuple[Mapping[str, Any], ...]:
        """The false neighbours: those given, or for an identity without any, one side off by a factor 1 + 1e-6."""
        return self.mutants or (({"_nudge": _NUDGE},) if self.relation == IDENTITY else ())

    def rejects(self, mutant: Mapping[str, Any], evaluations: int, near: Point | None = None) -> bool:
        """Whether the check finds ``mutant`` to be false, looking first at the point ``near``."""
        if near is not None and not self.holds_at(near, **mutant):
            return True
        return self._worst(evaluations, **mutant).margin < -self.tolerance

    def _sharp(self, worst: Mapping[str, Any]) -> float | None:
        """The value of the constant at which the worst case found is an equality."""
        if self.sharp is None:
            return None
        value = float(inspect.signature(self.function).parameters[self.sharp].default)
        return equality(lambda constant: self.margin(worst, **{str(self.sharp): repr(constant)}), value)

    # -- the check -----------------------------------------------------------------------------------------------------

    def check(self, thorough: bool = False) -> Outcome:
        """Check the claim: worst case or certificate, counterexample, mutants.  ``thorough`` looks 32 times longer.

        An exception inside the claim's function is an outcome: the verdict is ``"error"``, the reason says which.
        """
        start = time.perf_counter()
        try:
            outcome = self._outcome(self.evaluations * (32 if thorough else 1))
        except Exception as error:
            reason = "; ".join((f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))
            outcome = Outcome(claim=self, verdict=ERROR, agrees=False, reason=reason)
        return replace(outcome, seconds=time.perf_counter() - start)

    def _outcome(self, evaluations: int) -> Outcome:
        worst = self._worst(evaluations)
        found = not np.isnan(worst.margin)
        arguments = self.domain.arguments(worst.point) if found else {}
        certificate = None
        if self.evidence == "certified":
            certificate = certify(lambda u: self.sides(self.domain.arguments(u)), self.domain.size)
        true = worst.margin >= -self.tolerance and not (certificate and certificate.answer == "refuted")
        false_at = None
        if self.counterexample is not None:
            sides = self.sides(self.counterexample, **self.as_printed)
            false_at = Counterexample(self.counterexample, sides, self.margin(self.counterexample, **self.as_printed))
        verdict = self._verdict(true, false_at is not None and false_at.margin < -self.tolerance)
        mutants = tuple(
            (_shown(mutant), self.rejects(mutant, evaluations, worst.point if found else None))
            for mutant in self.all_mutants()
        )
        reason = self._disagreement(verdict, true, worst, certificate, mutants)
        return Outcome(
            claim=self,
            verdict=verdict,
            agrees=not reason,
            reason=reason,
            margin=worst.margin,
            worst=arguments,
            tried=worst.tried,
            accepted=worst.accepted,
            certificate=certificate,
            sharp=self._sharp(arguments) if true else None,
            counterexample=false_at,
            mutants=mutants,
        )

    def _verdict(self, true: bool, printed_false: bool) -> str:
        """The verdict, where the function's statement is ``true`` on the domain and the printed one is known false."""
        if self.unverifiable is not None:
            return NOT_CHECKABLE
        if printed_false:
            return CORRECTED if true and self.corrected is not None else FALSE
        return HOLDS if true else FALSE

    def _disagreement(
        self,
        verdict: str,
        true: bool,
        worst: Worst,
        certificate: Certificate | None,
        mutants: tuple[tuple[str, bool], ...],
    ) -> str:
        """Why what was found is not what is recorded, or empty."""
        if worst.share < _FEWEST:
            return f"only {worst.share:.2g} of the points drawn lie in the domain"
        if verdict != self.recorded:
            return f"the verdict is {verdict!r}, recorded is {self.recorded!r} (margin {worst.margin:.3g})"
        if verdict == NOT_CHECKABLE and not true:
            return f"what is checked instead fails (margin {worst.margin:.3g})"
        if certificate is not None and certificate.answer != ("proved" if true else "refuted"):
            return f"the certificate is {certificate.answer} after {certificate.boxes} boxes"
        accepted = [mutant for mutant, rejected in mutants if not rejected]
        return f"accepts the mutant {', '.join(accepted)}" if accepted else ""


def _shown(arguments: Mapping[str, Any]) -> str:
    if "_nudge" in arguments:
        return f"one side × (1 + {arguments['_nudge']:g})"
    return ", ".join(f"{name} = {value}" for name, value in arguments.items())


def _find(paper: str, identifier: str) -> Claim:
    """The claim of the ledger by its identifier."""
    from corrnoise.paper_checks import paper_ledger

    return next(claim for claim in paper_ledger(paper).claims if claim.identifier == identifier)


class Paper:
    """The claims of one paper.

    Parameters
    ----------
    name
        Short name, as in ``corrnoise check correlated-noise``.
    source, title, authors
        Reference.
    """

    def __init__(self, name: str, *, source: str, title: str, authors: str) -> None:
        self.name, self.source, self.title, self.authors = name, source, title, authors
        self.claims: list[Claim] = []

    def arrange(self, sections: Sequence[ModuleType]) -> None:
        """Put the claims in the order of the modules that hold them, which is that of the paper."""
        place = {section.__name__: k for k, section in enumerate(sections)}
        self.claims.sort(key=lambda claim: place[claim.function.__module__])

    def _register(self, relation: str, number: str, **fields: Any) -> Callable[[Callable[..., Sides]], Claim]:
        def register(function: Callable[..., Sides]) -> Claim:
            axes: Mapping[str, Axis] = fields.pop("domain", {})
            mutants: Sequence[Mapping[str, Any]] = fields.pop("mutants", ())
            claim = Claim(
                paper=self.name,
                source=self.source,
                number=number,
                part=fields.pop("part", ""),
                function=function,
                relation=relation,
                domain=Domain(axes),
                mutants=tuple(mutants),
                **fields,
            )
            self._validate(claim)
            self.claims.append(claim)
            return claim

        return register

    def _validate(self, claim: Claim) -> None:
        """Refuse what could not be checked, could not fail, or says one thing and records another."""
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
            (claim.unverifiable is not None and false, "what is not checkable has no counterexample"),
            ((claim.corrected or claim.as_printed) and not false, "a correction needs a counterexample"),
            (false and set(claim.counterexample or ()) != axes, "a counterexample has the arguments of the domain"),
            (claim.identifier in {other.identifier for other in self.claims}, "there are two claims of that name"),
        ):
            if wrong:
                raise ValueError(f"{claim.name}: {why}")

    def inequality(self, number: str, **fields: Any) -> Callable[[Callable[..., Sides]], Claim]:
        """Register a function that returns (smaller, larger), numbers or arrays of them, as the claim ``number``."""
        return self._register(INEQUALITY, number, **{"evidence": "searched", **fields})

    def identity(self, number: str, **fields: Any) -> Callable[[Callable[..., Sides]], Claim]:
        """Register a function that returns the left and the right side, numbers or arrays, as the claim ``number``."""
        return self._register(IDENTITY, number, **{"evidence": "exact", **fields})
