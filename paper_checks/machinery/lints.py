r"""Lints: signs of an unfair verdict in the records of claims.

``R1``: a statement with an order symbol, or a word of size without a number, is false and no constant is unspecified.
``R2``: a number that the paper does not print decides a counterexample: with ten or a thousand times more or less there is
none.  ``R3``: the sentence before a quotation has a condition that neither the quotation nor ``hypotheses`` has.  ``R4``:
an order symbol or a condition in the text that a quotation leaves out.  ``R5``: an inequality between real arguments ends
at a number that is not printed, ``outside`` does not say what lies beyond, and the certificate proves nothing there, or a
search finds a violation.  ``R6``: the text of a proof, from the name of the claim to ∎, uses a claim that is not in
``rests_on``.

``R3`` and ``R4`` need the text of the paper.  ``python -m tools.quotations`` reads it and stores its findings in
``quotations.csv``, where a word written by hand says why a condition is not a hypothesis.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.names import words
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.quotations import quotation_of
from corrnoise.paper_checks.machinery.verdicts import FALSE, INEQUALITY
from corrnoise.support.headings import section

_FACTORS = (0.1, 10.0, 1e-3, 1e3)  #: changes of a number by R2
_SEARCHES_BEYOND = 64  #: points of a range beyond an end that R5 looks at
_ORDER_PATTERN = re.compile(
    r"\\mathcal\{O\}|\bO\(|\\tilde\{?O|\\tilde\{\\mathcal|\\(?:tilde)?\\?Omega\(|\\Theta|\\lesssim|\\gtrsim|\\approx|[≲≳≈]"
    r"|[Oo]rder of|up to (?:absolute )?constants|omitting log|ignoring [\w-]+ (?:constants|terms)|constant level"
)
_SIZE_PATTERN = re.compile(r"\b(?:nearly|significantly|marginal(?:ly)?|suggests?|unlikely|worse|orders of magnitude)\b")
_CONDITION_PATTERN = re.compile(
    r"\b(?:[Ww]hen|[Ii]f|[Ss]uppose|[Aa]ssum(?:e|ing)|[Pp]rovided|[Ss]ufficiently|(?:is|are) (?:small|large)|finite)\b"
)


@dataclass(frozen=True)
class Fault:
    """A sign of an unfair verdict.

    Parameters
    ----------
    claim : str
        The identifier of the claim.
    rule : str
        "R1" to "R6".
    text : str
        The findings.
    """

    claim: str
    rule: str
    text: str


def order_symbol(text: str) -> str:
    """The first order symbol or word of size in a text; empty if there is none."""
    found = _ORDER_PATTERN.search(text) or _SIZE_PATTERN.search(text)
    return found[0] if found else ""


def conditions(text: str) -> tuple[str, ...]:
    """The words of a text that begin or state a condition."""
    return tuple(dict.fromkeys(found.lower() for found in _CONDITION_PATTERN.findall(text)))


def faults(claim: Claim) -> Iterator[Fault]:
    """The faults of one claim."""
    if claim.truth == FALSE and not claim.constants:
        symbol = order_symbol(claim.printed) or order_symbol(claim.reading or "")
        if symbol:
            yield Fault(claim.identifier, "R1", f"{symbol!r} in a false statement without unspecified constants")
    yield from (Fault(claim.identifier, "R2", text) for text in _numbers_chosen(claim))
    yield from (Fault(claim.identifier, "R5", text) for text in _ends_chosen(claim))
    quotation = quotation_of(claim)
    if quotation is not None and quotation.condition and not quotation.word:
        yield Fault(claim.identifier, *quotation.condition.split(": ", 1))


def _numbers_chosen(claim: Claim) -> Iterator[str]:
    """The numbers of a counterexample that the paper does not print, and that decide it."""
    if not isinstance(claim.counterexample, Mapping):
        return
    printed = _numbers(claim.printed)
    known = {*claim.constants, *claim.definitions, *claim.as_printed, *claim.domain.axes}
    for name, parameter in inspect.signature(claim.function).parameters.items():
        value = parameter.default
        if name in known or type(value) not in (int, float) or value in (0, 1) or float(value) in printed:
            continue
        for factor in _FACTORS:
            changed = {**claim.as_printed, name: type(value)(value * factor)}
            try:
                margin = claim.margin(claim.counterexample, **changed)
            except (ArithmeticError, LookupError, ValueError):  # the number is not free
                continue
            if not margin < -claim.tolerance:
                yield f"{name} = {value:g} decides the counterexample, and is not printed"
                break


def _numbers(text: str) -> set[float]:
    """The numbers in a text, fractions among them."""
    fractions = re.findall(r"\\frac\{?(\d+)\}?\{?([1-9]\d*)\}?|(\d+)/([1-9]\d*)", text)
    found = {float(a or c) / float(b or d) for a, b, c, d in fractions}
    return found | {float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", text)}


def _ends_chosen(claim: Claim) -> Iterator[str]:
    """The ends of the domain that the statement does not have, where something lies beyond them."""
    if (
        claim.outside
        or claim.undecided
        or claim.recorded == FALSE
        or claim.relation != INEQUALITY
        or not claim.domain.ball
    ):
        return
    stated = _numbers(" ".join((claim.printed, claim.reading or "", claim.repair or "", *claim.hypotheses)))
    for name, end, beyond in claim.domain.beyond():
        if float(end) in stated:
            continue
        if claim.checked_evidence == "certified":
            yield f"{name} ends at {end}, which is not printed, and so does the certificate"
        elif replace(claim, domain=beyond).fails(_SEARCHES_BEYOND):
            yield f"it fails where {name} is beyond {end}, which is not printed"


# -- proofs ------------------------------------------------------------------------------------------------------------


def names_it(text: str, claim: Claim) -> bool:
    """Whether a text names a claim: its number, and in some place after it its part."""
    said = f" {' '.join(words(text))} "
    return all(f" {' '.join(words(name))} " in said for name in (claim.number, claim.part) if name)


def unnamed(claim: Claim, numbers: Iterable[str], text: str) -> Iterator[str]:
    """The statements that a proof of a claim uses and ``rests_on`` does not name.

    A proof begins with the name in italics, and ends with ∎ or before the next name.  "The bound of" a theorem is not
    its truth.
    """
    known = {rest.rpartition(": ")[2].partition(" (")[0] for rest in claim.rests_on} | {claim.number}
    for title, proof in re.findall(r"\*((?!Proof)[A-Z][^*]+)\*((?:(?!\*(?!Proof)[A-Z])[^∎])*)", text):
        said = " ".join(proof.split()) if names_it(title, claim) else ""
        for number in numbers:
            if number not in known and re.search(rf"(?<!bound of )(?<![\w.]){re.escape(number)}(?![\w.]*\w)", said):
                yield number


def proof_in(place: str) -> str:
    """The section of the installed documents that a place names, as ``docs/short-proofs.md#remark-12``."""
    file, _, heading = place.partition("#")
    found = section((files("corrnoise") / file).read_text(encoding="utf-8"), heading)
    if not found:
        raise ValueError(f"a proof must stand in a section of a document, got {place!r}")
    return found


def _foundations_left_out(claim: Claim, numbers: Sequence[str]) -> Iterator[Fault]:
    for place in dict.fromkeys((claim.proof or "", claim.disproof or "")):
        if place.startswith("docs/") and (files("corrnoise") / "docs").is_dir():
            for number in unnamed(claim, numbers, proof_in(place)):
                yield Fault(claim.identifier, "R6", f"the proof uses {number}, which is not in rests_on")


def lint(papers: Iterable[Paper]) -> tuple[Fault, ...]:
    """Signs of unfair verdicts in the claims of papers.

    Parameters
    ----------
    papers : iterable of Paper
        Their claims are imported.

    Returns
    -------
    tuple of Fault
        Empty if no verdict looks unfair.
    """
    return tuple(
        fault
        for paper in papers
        for claim in paper.claims
        for fault in (*faults(claim), *_foundations_left_out(claim, paper.numbers))
    )
