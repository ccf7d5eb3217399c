r"""Lints: signs of an unfair verdict in the records of claims.

``R1``: a statement with an order symbol, or a word of size without a number, is false and no constant is unspecified.
``R2``: a number that the paper does not print decides a counterexample: with ten or a thousand times more or less there is
none.  ``R3``: the sentence before a quotation has a condition that neither the quotation nor ``hypotheses`` has.  ``R4``:
an order symbol or a condition in the text that a quotation leaves out.

``R3`` and ``R4`` need the text of the paper.  ``python -m tools.quotations`` reads it and stores its findings in
``quotations.csv``, where a word written by hand says why a condition is not a hypothesis.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.quotations import quotation_of
from corrnoise.paper_checks.machinery.verdicts import FALSE

_FACTORS = (0.1, 10.0, 1e-3, 1e3)  #: changes of a number by R2
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
        "R1" to "R4".
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
    quotation = quotation_of(claim)
    if quotation is not None and quotation.condition and not quotation.word:
        yield Fault(claim.identifier, *quotation.condition.split(": ", 1))


def _numbers_chosen(claim: Claim) -> Iterator[str]:
    """The numbers of a counterexample that the paper does not print, and that decide it."""
    if not isinstance(claim.counterexample, Mapping):
        return
    printed = {float(number) for number in re.findall(r"\d+(?:\.\d+)?", claim.printed)}
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
    return tuple(fault for paper in papers for claim in paper.claims for fault in faults(claim))
