r"""The ledger: statements of papers as functions of two sides, each checked by machine.

A claim gives the number of a statement, the statement as printed, and a function that returns its two sides:

    @PAPER.inequality(
        "Lemma C.21 (i)",
        printed=r"For all $a \in (0, 1)$, we have $I(a, a) \le 5 \log(8/a)$.",
        proof=f"{SHORT}#lemma-c21-and-remark-c23",
        rests_on=["corrnoise: γ (upper)"],
        domain={"a": log_scale(1e-300, 1)},
        sharp="constant",
        proved_constant=3.0216,
        mutants=[{"constant": 3.021}],
    )
    def lemma_c21_diagonal(a: float, constant: float = 5.0) -> Sides:
        '''The sharp constant is 2π/log 8 = 3.0216, attained as a → 1; as a → 0 the ratio tends to 2.'''
        return modulus_ratio_integral(a, a), constant * np.log(8 / a)

Constants are keyword arguments with their true values as defaults.  A *mutant* is a keyword that makes the statement
slightly wrong; the check must reject it.  The false constant of a printed statement is a keyword too; the
counterexample violates it.

The machinery computes the scale-free *margin* of the two sides.  For an inequality it is
(larger − smaller)/max(|smaller|, |larger|), which is 1 − smaller/larger for positive numbers.  For an identity it is
minus the relative difference.  The statement holds where the margin is at least minus the tolerance, which allows for
rounding.  The smallest margin over the domain shows how far a constant is from sharp.

``verdicts`` says what each verdict and each kind of evidence means.
"""

from __future__ import annotations

import inspect
import math
import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery import citations, theorems, verdicts
from corrnoise.paper_checks.machinery.certificates import OPEN, PROVED, REFUTED, BoxCertificate, certify_sides
from corrnoise.paper_checks.machinery.domains import Domain
from corrnoise.paper_checks.machinery.margins import agreements, least, margin_of_runs, margins
from corrnoise.paper_checks.machinery.names import Named
from corrnoise.paper_checks.machinery.power import Power, Ratios, moved, powers
from corrnoise.paper_checks.machinery.quantifiers import Family, Meanings, Quantifier, choices
from corrnoise.paper_checks.machinery.refutations import Ball, certainly_apart, equal_rationals
from corrnoise.paper_checks.machinery.search import Worst, worst_case
from corrnoise.paper_checks.machinery.sharpness import Interval, equality, interval
from corrnoise.paper_checks.machinery.statements import Statement, traced_statement
from corrnoise.paper_checks.machinery.terms import Untraceable, formula
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors

_IDENTITY_NUDGE = 1e-6  #: relative change of one side that makes the mutant of an identity without other mutants
FEW = 64  #: a finite domain with at most this many points is evaluated completely
_MAX_CERTIFICATE_BOXES = 20_000  #: of a certificate that could prove a claim, or refute a mutant
_MAX_CERTIFICATE_SECONDS = 10.0  #: where no certificate is recorded
_MAX_REFUTATION_BOXES = 2000  #: of a certificate that could only refute a claim whose proof is recorded
_MAX_ENUMERATED_POINTS = 10_000  #: of an identity that is proved by enumeration
_MIN_ACCEPTED_SHARE = 0.05  #: least share of the points drawn that must lie in the domain

Sides = tuple[Any, Any]
Point = Sequence[float] | Array


@dataclass(frozen=True, eq=False)
class Counterexample:
    """Where a printed statement fails: the arguments, and both sides there; of a family the weakest member."""

    arguments: Mapping[str, Any]
    sides: Sides
    margin: float
    choice: Mapping[str, Any] = field(default_factory=dict)  #: of constants that may be chosen, and of meanings


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one check."""

    claim: Claim  #: the claim that was checked
    verdict: str  #: one of ``VERDICTS``, found by this check, or ``"error"`` if the check could not be carried out
    #: the verdict is the recorded one, every mutant was rejected, and the evidence is of the recorded strength
    agrees: bool
    reason: str  #: why it does not agree, or empty
    #: the smallest margin found and the arguments there (for an identity minus the largest relative difference).  A
    #: search ends at the first violation, so a margin below minus the tolerance need not be the smallest.
    margin: float = math.nan
    #: the smallest margin of each entry of the sides in each case, and the median, see ``search.Worst``
    smallest: tuple[float, ...] = ()
    medians: tuple[float, ...] = ()
    worst: Mapping[str, Any] = field(default_factory=dict)
    #: the numbers of points evaluated, and of points in the domain
    tried: int = 0
    accepted: int = 0
    certificate: BoxCertificate | None = None  #: the answer of ball arithmetic; None if the function has no formula
    #: the value of the constant in question that makes the worst case found an equality; None if no value does
    sharp: float | None = None
    #: the interval that holds the sharp constant: one end is ``sharp``, the other the constant that is proved
    interval: Interval | None = None
    #: the recomputed counterexample to the printed statement; None if the statement is true
    counterexample: Counterexample | None = None
    #: the symbols with several meanings, each meaning that is not in force, and whether the statement is true under it
    elsewhere: tuple[tuple[str, str, bool], ...] = ()
    mutants: tuple[tuple[str, bool], ...] = ()  #: each mutant and whether it was rejected
    seconds: float = 0.0  #: wall time


@dataclass(frozen=True, eq=False)
class Claim(Named):
    """One numbered statement; ``papers.Fields`` documents the fields.

    ``paper`` is the short name of the paper, ``source`` its reference, ``note`` the docstring of the function.  A claim
    of a paper of the ledger is sent to other processes by its name.
    """

    paper: str
    source: str
    number: str
    part: str
    printed: str
    function: Callable[..., Sides] = field(repr=False)
    relation: verdicts.Relation
    domain: Domain = field(repr=False)
    evidence: verdicts.Evidence
    reading: str | None = None
    hypotheses: tuple[str, ...] = ()
    repair: str | None = None
    repair_evidence: verdicts.Evidence | None = None
    identity_proof: str | None = None
    as_printed: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Quantifier] = field(default_factory=dict)
    definitions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    meanings: Meanings = field(default_factory=dict)
    probability: str | None = None
    counterexample: Mapping[str, Any] | Family | None = None
    undecided: tuple[verdicts.Undecided, str] | None = None
    sharp: str | None = None
    proved_constant: Any = None
    mutants: tuple[Mapping[str, Any], ...] = ()
    transcription: str | None = None
    outside: str | None = None
    proof: str | None = None
    disproof: str | None = None
    theorem: tuple[str, str] | None = None
    rests_on: tuple[str, ...] = ()
    independent: str | None = None
    tolerance: float = 1e-11
    evaluations: int = 512

    def __reduce__(self) -> tuple[Callable[[str, str, str], Claim], tuple[str, str, str]]:
        return _find, (self.module, self.number, self.part)

    @property
    def note(self) -> str:
        """Why the statement is true or false, which constant is sharp, and how it is checked."""
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def module(self) -> str:
        """The module that holds the function."""
        return self.function.__module__

    @property
    def truth(self) -> verdicts.Truth:
        """Whether the statement as printed is true, one of ``Truth``."""
        if self.undecided is not None:
            return self.undecided[0]
        return verdicts.TRUE if self.counterexample is None else verdicts.FALSE

    @property
    def recorded(self) -> str:
        """The verdict as recorded, one of ``VERDICTS``."""
        return verdicts.verdict_of(self.truth, self.repair)

    @property
    def checked_evidence(self) -> verdicts.Evidence:
        """The evidence of the statement that is checked: of the repair, if there is one."""
        return self.repair_evidence or self.evidence

    @property
    def support(self) -> str:
        """The evidence of the truth and of the repair, in a few words."""
        return verdicts.support_of(self.evidence, self.repair_evidence)

    # -- margins -------------------------------------------------------------------------------------------------------

    def sides(self, arguments: Mapping[str, Any], **constants: Any) -> Sides:
        """The two sides at ``arguments``; ``constants`` replace the default constants."""
        try:
            return self.function(**arguments, **constants)
        except Exception as error:
            error.add_note(_shown({**arguments, **constants}))
            raise

    def margin(self, arguments: Mapping[str, Any], **constants: Any) -> float:
        """The margin at ``arguments``; nan if the function rejects them as outside the domain."""
        return least(self.margins(arguments, **constants), self.tolerance)

    def margins(self, arguments: Mapping[str, Any], **constants: Any) -> Array:
        """The margins of the entries of both sides at ``arguments``; of runs there is one."""
        nudge = constants.pop("_nudge", 0.0)
        smaller, larger = self.sides(arguments, **constants)
        if self.probability is not None:
            return np.asarray(margin_of_runs(smaller, larger, float(arguments[self.probability]), self.tolerance))
        if self.relation == verdicts.INEQUALITY:
            return margins(smaller, larger)
        return agreements(np.asarray(smaller, dtype=float) * (1 + nudge), larger)

    def margin_at(self, point: Point, **constants: Any) -> float:
        """The margin at a point of the domain's cube."""
        return self.margin(self.domain.arguments(point), **constants)

    def holds_at(self, point: Point, **constants: Any) -> bool:
        """Whether the statement holds at a point of the cube; True if the point is outside the domain."""
        return not self.margin_at(point, **constants) < -self.tolerance

    def _worst(self, evaluations: int, seed: int = 0, **constants: Any) -> Worst:
        found: dict[bytes, Array] = {}

        def margins_at(point: Array) -> Array:
            """The margins, computed once where several points stand for the same arguments."""
            arguments = self.domain.arguments(point)
            key = pickle.dumps(arguments)
            if key not in found:
                found[key] = self.margins(arguments, **constants)
            return found[key]

        return worst_case(
            margins_at,
            self.domain.size,
            evaluations=evaluations,
            seed=seed,
            enough=-self.tolerance,
            points=self.domain.all_points(max(evaluations, FEW)),
            cases=self.domain.cases,
        )

    def fails(self, evaluations: int) -> bool:
        """Whether a search finds a violation; a function that refuses arguments says nothing about them."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self._worst(evaluations).margin < -self.tolerance
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError):
            return False

    def all_mutants(self) -> tuple[Mapping[str, Any], ...]:
        """The given mutants; for an identity without any, one side multiplied by 1 + 1e-6."""
        return self.mutants or (({"_nudge": _IDENTITY_NUDGE},) if self.relation == verdicts.IDENTITY else ())

    def rejects(self, mutant: Mapping[str, Any], evaluations: int, near: Point | None = None) -> bool:
        """Whether the check finds ``mutant`` to be false: at the point ``near``, by a search, or by a certificate."""
        if near is not None and not self.holds_at(near, **mutant):
            return True
        return self._worst(evaluations, **mutant).margin < -self.tolerance or self._answer(mutant) == REFUTED

    def constant(self, value: float) -> dict[str, Any]:
        """The keyword that sets the constant in question to ``value``, as a decimal string if its default is one."""
        return {str(self.sharp): repr(value) if isinstance(self.stated, str) else value}

    @property
    def stated(self) -> Any:
        """The constant in question as it is stated."""
        return self.default(str(self.sharp))

    def default(self, name: str) -> Any:
        """The value of a constant in the check of the statement."""
        return inspect.signature(self.function).parameters[name].default

    def _sharp(self, worst: Mapping[str, Any]) -> tuple[float | None, Interval | None]:
        """The value of the constant that makes the worst case found an equality, and the interval of the sharp one."""
        if self.sharp is None:
            return None, None

        def at_worst(value: float) -> float:
            return self.margin(worst, **self.constant(value))

        found = equality(at_worst, float(self.stated))
        bounds = None if found is None else interval(at_worst, found, self.proved)
        return (None, None) if bounds is None else (bounds.found, bounds)

    @property
    def proved(self) -> float | None:
        """The constant in question that the statement is proved with, if it is."""
        if self.proved_constant is not None:
            return float(self.proved_constant)
        strong = self.checked_evidence in ("machine-checked", "proved", "certified", "cited")
        return float(self.stated) if self.sharp and strong else None

    # -- the printed statement -----------------------------------------------------------------------------------------

    def refutation(self) -> Counterexample | None:
        """The recomputed counterexample; the one with the largest margin over all choices and meanings."""
        if self.counterexample is None:
            return None
        found = []
        for choice in choices(self.constants, self.meanings):
            arguments = self.counterexample(**choice) if callable(self.counterexample) else self.counterexample
            constants = {**self.as_printed, **choice}
            sides = self.sides(arguments, **constants)
            found.append(Counterexample(arguments, sides, self.margin(arguments, **constants), choice))
        return max(found, key=lambda one: math.inf if math.isnan(one.margin) else one.margin)

    def _apart(self) -> list[tuple[Ball, Ball] | None]:
        """Two entries of the sides that are apart at the counterexample, under each meaning; see ``certainly_apart``."""
        if not isinstance(self.counterexample, Mapping):
            return [None]
        return [
            certainly_apart(self.function, self.counterexample, {**self.as_printed, **choice}, self.relation)
            for choice in choices({}, self.meanings)
        ]

    def negation(self) -> Statement:
        """The statement that the printed one fails at the counterexample, between numbers.

        Returns
        -------
        Statement

        Raises
        ------
        Untraceable
            The claim is not refuted by one counterexample, or its sides there are no formulas.
        """
        pairs = self._apart() if self.evidence == "counterexample" else []
        both = pairs[0] if len(pairs) == 1 else None
        terms = [one.term for one in both or () if one.term is not None]
        if len(terms) < 2 or all(one.operation == "number" for one in terms):
            raise Untraceable("only sides that are formulas at one counterexample have a negation")
        return Statement(**vars(formula((), *terms, strict=True)))

    def _enumerated(self) -> bool:
        """Whether both sides are rational numbers and equal at every point of the domain."""
        points = self.domain.all_points(_MAX_ENUMERATED_POINTS) if self.domain.size else [()]
        return points is not None and all(
            equal_rationals(*self.sides(self.domain.arguments(np.asarray(point)))) for point in points
        )

    # -- the check -----------------------------------------------------------------------------------------------------

    @usual_float_errors
    def check(self, thorough: bool = False) -> Outcome:
        """Check the claim: worst case or certificate, counterexample, mutants, and the recorded ratios of the sides.

        ``thorough`` makes the search 32 times longer.  If the claim's function raises an exception, the verdict is
        ``"error"`` and the reason quotes it.
        """
        start = time.perf_counter()
        recorded = powers().get(self.identifier, Power())
        outcome = self.checked(recorded.ratios, thorough)
        return replace(outcome, seconds=time.perf_counter() - start)

    def checked(self, ratios: Ratios | None, thorough: bool = False) -> Outcome:
        """Check the claim with other ratios of the sides than recorded; None are not compared."""
        try:
            outcome = self._outcome(32 if thorough else 1)
        except Exception as error:
            reason = "; ".join((f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())))
            return Outcome(claim=self, verdict=verdicts.ERROR, agrees=False, reason=reason)
        if outcome.agrees:
            reason = moved(outcome.margin, outcome.smallest, outcome.medians, ratios, thorough)
            outcome = replace(outcome, agrees=not reason, reason=reason)
        return outcome

    def _outcome(self, effort: int) -> Outcome:
        evaluations = self.evaluations * effort
        certificate = self._certificate(effort)
        worst = self._worst(evaluations)
        found = not np.isnan(worst.margin)
        arguments = self.domain.arguments(worst.point) if found else {}
        true = worst.margin >= -self.tolerance and not (certificate and certificate.answer == REFUTED)
        false_at = self.refutation()
        refuted = false_at is not None and false_at.margin < -self.tolerance
        verdict = self._verdict(true, refuted)
        mutants = tuple(
            (_shown(mutant), self.rejects(mutant, evaluations, worst.point if found else None))
            for mutant in self.all_mutants()
        )
        sharp, bounds = self._sharp(arguments) if true else (None, None)
        elsewhere = tuple(self._elsewhere(evaluations)) if true else ()
        reason = self._disagreement(verdict, true, worst, certificate, mutants)
        if not reason and false_at is not None and not refuted:
            reason = f"the counterexample does not violate the printed statement (margin {false_at.margin:.3g})"
        if not reason and self.evidence == "counterexample" and None in self._apart():
            reason = "exact arithmetic does not show that the counterexample violates the printed statement"
        if not reason and self.identity_proof is not None and not self._enumerated():
            reason = "the sides are not equal rational numbers at every point of a finite domain"
        for symbol, meaning, holds in elsewhere:
            if not reason and holds != (meaning in self.definitions[symbol]):
                reason = (
                    f"with {symbol} = {meaning} it is {'true' if holds else 'false'}, which is not what is recorded"
                )
        if not reason and bounds is not None:
            reason = self._overstated(bounds, evaluations)
        return Outcome(
            claim=self._raised(certificate),
            verdict=verdict,
            agrees=not reason,
            reason=reason,
            margin=worst.margin,
            smallest=worst.smallest,
            medians=worst.medians,
            worst=arguments,
            tried=worst.tried,
            accepted=worst.accepted,
            certificate=certificate,
            sharp=sharp,
            interval=bounds,
            counterexample=false_at,
            elsewhere=elsewhere,
            mutants=mutants,
        )

    def _elsewhere(self, evaluations: int) -> Iterator[tuple[str, str, bool]]:
        """Whether the statement is true under the meanings of its symbols that are not in force."""
        for symbol, (in_force, *_) in self.definitions.items():
            for meaning in self.meanings[symbol]:
                if meaning != in_force:
                    yield symbol, meaning, not self.rejects({symbol: meaning}, evaluations)

    def statement(self, **constants: Any) -> Statement:
        """The statement as a formula, with the proved constant, or with the constants that are given.

        Parameters
        ----------
        **constants : object
            Values of keywords of the function.

        Returns
        -------
        Statement

        Raises
        ------
        Untraceable
            The claim is not an inequality between formulas of real numbers.
        """
        if self.relation != verdicts.INEQUALITY or self.probability is not None:
            raise Untraceable("only an inequality has a formula")
        return traced_statement(self.function, self.domain, constants or self._proved_constant())

    @property
    def version(self) -> str:
        """The first digits of a digest of the printed statement, its hypotheses, constants and formula."""
        return citations.version(self.printed, self.hypotheses, self.constants, self._formula_digest())

    def citation(self) -> str:
        """Return an entry for BibTeX with the identifier, the version and the digest of the formula, if there is one.

        Returns
        -------
        str
        """
        return citations.entry(self.identifier, f"{self.name} of {self.source}", self.version, self._formula_digest())

    def _formula_digest(self) -> str:
        try:
            return self.statement().digest
        except Untraceable:
            return ""

    def _proved_constant(self) -> dict[str, Any]:
        return {} if self.proved_constant is None else {str(self.sharp): self.proved_constant}

    def _certificate(self, effort: int) -> BoxCertificate | None:
        """The certificate, which a search cannot replace; where a proof is recorded, it only looks for a refutation."""
        try:
            statement = self.statement()
        except Untraceable:
            if self.checked_evidence != "certified":
                return None
            given = self._proved_constant()
            return certify_sides(lambda u: self.sides(self.domain.arguments(u), **given), self.domain.size)
        if self.checked_evidence == "certified":
            return statement.certify(boxes=_MAX_CERTIFICATE_BOXES * effort, seconds=None)
        most = _MAX_REFUTATION_BOXES if self.checked_evidence in verdicts.PROOFS else _MAX_CERTIFICATE_BOXES
        found = statement.certify(boxes=most * effort, seconds=_MAX_CERTIFICATE_SECONDS * effort)
        return self._beyond_rounding(found, self._proved_constant())

    def _beyond_rounding(self, found: BoxCertificate, constants: Mapping[str, Any]) -> BoxCertificate:
        """A certificate, whose refutation counts only beyond the tolerance, as rounded constants may violate less."""
        where = found.counterexample
        rounding = where is not None and not self.margin(where, **constants) < -self.tolerance
        return replace(found, answer=OPEN) if rounding else found

    def _raised(self, certificate: BoxCertificate | None) -> Claim:
        """The claim with the evidence of a certificate, if that is more than recorded."""
        proved = certificate is not None and certificate.answer == PROVED
        if not proved or self.checked_evidence not in verdicts.FOUND:
            return self
        if self.repair_evidence is None:
            return replace(self, evidence="certified")
        return replace(self, repair_evidence="certified")

    def _answer(self, mutant: Mapping[str, Any]) -> str:
        """The verdict of a certificate on a mutant; ``"open"`` if it has no formula."""
        try:
            statement = self.statement(**mutant)
        except Untraceable:
            return OPEN
        found = statement.certify(boxes=_MAX_CERTIFICATE_BOXES, seconds=_MAX_CERTIFICATE_SECONDS)
        return self._beyond_rounding(found, mutant).answer

    def _overstated(self, bounds: Interval, evaluations: int) -> str:
        """Why the constant that is said to be proved cannot be; empty if nothing speaks against it."""
        said = f"the constant {self.proved:g} is said to be proved" if self.proved is not None else ""
        if not bounds.low <= bounds.high:
            return f"{said}, and {bounds.found:g} is needed"
        if self.proved_constant is None:
            return ""
        if (float(self.proved_constant) > float(self.stated)) == bounds.above:
            return f"{said}, which is weaker than the stated one"
        against = self._worst(evaluations, **{str(self.sharp): self.proved_constant})
        return f"{said}, and fails (margin {against.margin:.3g})" if against.margin < -self.tolerance else ""

    def _verdict(self, true: bool, printed_false: bool) -> str:
        """The verdict, from whether the function's statement is true and the printed one is known to be false."""
        if self.undecided is not None:
            return self.undecided[0]
        if printed_false:
            return verdicts.CORRECTED if true and self.repair is not None else verdicts.FALSE
        return verdicts.HOLDS if true else verdicts.FALSE

    def _disagreement(
        self,
        verdict: str,
        true: bool,
        worst: Worst,
        certificate: BoxCertificate | None,
        mutants: tuple[tuple[str, bool], ...],
    ) -> str:
        """Why the outcome differs from the record; empty if it does not."""
        if worst.share < _MIN_ACCEPTED_SHARE:
            return f"only {worst.share:.2g} of the points drawn lie in the domain"
        if other := theorems.fault(self.theorem):
            return other
        answer = None if certificate is None else certificate.answer
        if verdict != self.recorded:
            where = certificate.counterexample if certificate is not None else None
            against = f"a certificate refutes it at {_shown(where)}" if where else f"margin {worst.margin:.3g}"
            return f"the verdict is {verdict!r}, recorded is {self.recorded!r} ({against})"
        if verdict in verdicts.UNDECIDED and not true:
            return f"what is checked instead fails (margin {worst.margin:.3g})"
        if self.checked_evidence == "certified" and certificate is not None and answer != (PROVED if true else REFUTED):
            return f"the certificate is {answer} after {certificate.boxes} boxes"
        for (name, rejected), mutant in zip(mutants, self.all_mutants(), strict=True):
            if not rejected:
                true_mutant = ", which a certificate proves" if self._answer(mutant) == PROVED else ""
                return f"accepts the mutant {name}{true_mutant}"
        return ""


def _shown(arguments: Mapping[str, Any]) -> str:
    if "_nudge" in arguments:
        return f"one side × (1 + {arguments['_nudge']:g})"
    return ", ".join(f"{name} = {value}" for name, value in arguments.items())


def _find(module: str, number: str, part: str) -> Claim:
    """The claim with this number and part, found through the ``PAPER`` that its module registers."""
    found: Claim = import_module(module).PAPER.claim(module, number, part)
    return found
