"""The texts about a claim and its outcome, for the terminal and for the report page.

The texts hold LaTeX between dollar signs and ``code`` between double backquotes.  In ``support``, ``mathematics.plain``
converts them to Unicode, ``typesetting.prose`` to HTML.
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.certificates import OPEN, BoxCertificate
from corrnoise.paper_checks.machinery.ledger import Claim, Counterexample, Outcome
from corrnoise.paper_checks.machinery.margins import margins
from corrnoise.paper_checks.machinery.power import powers
from corrnoise.paper_checks.machinery.quantifiers import chosen
from corrnoise.paper_checks.machinery.quotations import place
from corrnoise.paper_checks.machinery.verdicts import IDENTITY
from corrnoise.theory.numerics.records import Record

Line = tuple[str, str]  #: a title, and a text that may be empty

_MOST_ENTRIES = 12  #: longer arrays are abbreviated


# -- values ------------------------------------------------------------------------------------------------------------


def shown(value: Any, digits: int | None = None) -> str:
    """A value as text: numbers with ``digits``, or the fewest that identify them, and long arrays by their ends."""
    if isinstance(value, Record):
        arguments = ", ".join(f"{name}={shown(argument, digits)}" for name, argument in value.arguments().items())
        return f"{type(value).__name__}({arguments})"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, np.ndarray | list | tuple):
        array = np.asarray(value)
        options: dict[str, Any] = {"separator": ", ", "threshold": _MOST_ENTRIES, "max_line_width": 10**6}
        if digits is not None:
            options["formatter"] = {"float_kind": lambda number: f"{number:.{digits}g}"}
        text = np.array2string(array, floatmode="unique", **options)
        return re.sub(r" +(?=[,\]])|(?<=\[) +|(?<= ) +", "", text)  # without the blanks that align columns
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return repr(value) if digits is None else f"{value:.{digits}g}"
    return str(value)


def listed(arguments: Mapping[str, Any], digits: int | None = None) -> str:
    """Names and values; see ``shown``."""
    return ", ".join(f"``{name} = {shown(value, digits)}``" for name, value in arguments.items())


def _violated(found: Counterexample, claim: Claim) -> tuple[float, float]:
    """The two sides of a counterexample; for arrays the entries with the largest violation."""
    left, right = np.broadcast_arrays(*(np.asarray(side, dtype=float) for side in found.sides))
    pairs = list(zip(left.ravel(), right.ravel(), strict=True))
    if claim.relation == IDENTITY:
        return max(pairs, key=lambda pair: abs(pair[0] - pair[1]))
    return min(pairs, key=lambda pair: float(margins(*pair)))


# -- one line ----------------------------------------------------------------------------------------------------------


def reason(outcome: Outcome) -> str:
    """The reason for the verdict, in one line."""
    claim = outcome.claim
    found = outcome.counterexample
    if not outcome.agrees:
        return f"DISAGREES: {outcome.reason}"
    if claim.undecided is not None:
        return _first_clause(claim.undecided[1])
    if found is not None:
        left, right = _violated(found, claim)
        sign = "=" if claim.relation == IDENTITY else "≤"
        where = listed({**found.arguments, **claim.as_printed})
        said = f"as printed it says {left:.6g} {sign} {right:.6g}" + (f" at {where}" if where else "")
        every = ["choice of constants"] * bool(chosen(claim.constants)) + ["printed definition"] * bool(
            claim.definitions
        )
        return f"for every {' and '.join(every)}; {said}, {listed(found.choice)}" if every else said
    constant = f"; sharp: {sharp(outcome)}" if outcome.sharp is not None else ""
    proofs = {
        "machine-checked": f"theorem ``{claim.theorem[0]}`` in Coq; " if claim.theorem else "",
        "proved": f"proved in {claim.proof}; ",
        "cited": f"{claim.proof}; ",
    }
    false = "".join(f"; false with ``{symbol}`` {meaning}" for symbol, meaning, holds in outcome.elsewhere if not holds)
    return proofs.get(claim.evidence, "") + _found(outcome) + _choice(claim) + constant + false


def _choice(claim: Claim) -> str:
    """The choice of constants in the check of the statement."""
    values = {name: claim.default(name) for name in chosen(claim.constants)}
    return f", with {listed(values)}" if values else ""


def _first_clause(text: str) -> str:
    """A text up to the first stop, colon or comma outside of mathematics."""
    found = re.match(r"(?:\$[^$]*\$|[^$])*?(?=[.;:,](?: |$)|$)", text)
    return found[0] if found else text


def _found(outcome: Outcome) -> str:
    """The evidence for a statement that holds."""
    if outcome.certificate is not None and outcome.claim.checked_evidence == "certified":
        return f"{outcome.certificate.answer} on {_counted(outcome.certificate.boxes, 'box', 'boxes')}"
    points = _counted(outcome.accepted, "point", "points")
    if outcome.claim.relation == IDENTITY:
        return f"relative difference {_difference(outcome):.2g} at {points}"
    if outcome.claim.evidence == "simulated":
        return f"margin {outcome.margin:.3g} of the confidence limit"
    return f"no violation at {points}, smallest margin {max(outcome.margin, 0):.3g}"


def _certificate(found: BoxCertificate) -> str:
    """The answer of a certificate, and the box where it is open."""
    text = f"{found.answer}, {_counted(found.boxes, 'box', 'boxes')}"
    return f"{text}; undecided near {listed(found.place, 6)}" if found.answer == OPEN and found.place else text


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _difference(outcome: Outcome) -> float:
    """The largest relative difference of the two sides of an identity."""
    return abs(outcome.margin)


def sharp(outcome: Outcome) -> str:
    """Where the sharp value of the constant in question lies, and the stated one; empty if there is none."""
    if outcome.sharp is None:
        return ""
    return f"``{outcome.claim.sharp}`` {outcome.interval}, stated {float(outcome.claim.stated):.5g}"


# -- in full -----------------------------------------------------------------------------------------------------------


def definitions(claim: Claim) -> str:
    """The printed meanings of the symbols of a statement, their places, and the meanings that make it true."""
    return "; ".join(
        f"``{symbol}`` {meaning} ({place}): {'true' if meaning in claim.definitions[symbol] else 'false'}"
        for symbol, printed in claim.meanings.items()
        for meaning, place in printed.items()
    )


def statement(claim: Claim) -> list[Line]:
    """The statement, as printed and as corrected."""
    restored = claim.transcription and f"restored after conversion: {claim.transcription}"
    quantifiers = "; ".join(f"``{name}``: {quantifier}" for name, quantifier in claim.constants.items())
    return [
        ("as printed", claim.printed),
        ("place", place(claim)),
        ("transcription", restored or ""),
        ("hypotheses", "; ".join(f"“{one}”" for one in claim.hypotheses)),
        ("read as", claim.reading or ""),
        ("constants", quantifiers),
        ("definitions", definitions(claim)),
        ("as corrected" if claim.repair_evidence != "searched" else "proposed", claim.repair or ""),
        claim.undecided or ("", ""),
    ]


def counterexample(outcome: Outcome) -> list[Line]:
    """Where the printed statement fails; an empty list if it does not."""
    found = outcome.counterexample
    if found is None:
        return []
    names = ("left side", "right side") if outcome.claim.relation == IDENTITY else ("smaller side", "larger side")
    sides = [(name, f"``{shown(side)}``") for name, side in zip(names, found.sides, strict=True)]
    return [("counterexample", listed({**found.arguments, **outcome.claim.as_printed, **found.choice})), *sides]


def check(outcome: Outcome, digits: int | None = None) -> list[Line]:
    """How a claim was checked, and which false neighbours the check rejects; the worst case with so many ``digits``."""
    claim = outcome.claim
    certificate = outcome.certificate
    points = f"{outcome.accepted} of {outcome.tried} points lie in the domain"
    if claim.relation == IDENTITY:
        margin_line = ("difference", f"{_difference(outcome):.6g}, relative ({points})")
    else:
        margin_line = ("smallest margin", f"{outcome.margin:.6g} ({points})")
    domain = "; ".join(f"``{name}``: {axis.range}" for name, axis in claim.domain.axes.items())
    mutants = "; ".join(f"``{name}`` ({'rejected' if no else 'accepted'})" for name, no in outcome.mutants)
    return [
        ("evidence", claim.support),
        ("theorem in Coq", f"``{claim.theorem[0]}`` (``proofs/``)" if claim.theorem else ""),
        ("certificate", _certificate(certificate) if certificate else ""),
        ("independent", claim.independent or ""),
        ("searched", domain or "no arguments"),
        ("outside of it", claim.outside or ""),
        ("probability", f"at least 1 − ``{claim.probability}``" if claim.probability else ""),
        margin_line,
        ("worst case", listed(outcome.worst, digits)),
        ("sharp constant", sharp(outcome)),
        ("false neighbours", mutants),
        ("power", str(powers()[claim.identifier]) if claim.identifier in powers() else ""),
        ("seconds", f"{outcome.seconds:.2f}"),
    ]
