"""Registration: how a function becomes a claim of a paper, and which claims are refused."""

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from corrnoise.paper_checks.machinery.domains import Domain
from corrnoise.paper_checks.machinery.independence import shared
from corrnoise.paper_checks.machinery.ledger import FEW, Claim, Sides
from corrnoise.paper_checks.machinery.names import number_and_part
from corrnoise.paper_checks.machinery.quantifiers import Meanings, faults
from corrnoise.paper_checks.machinery.verdicts import EVIDENCE, IDENTITY, INEQUALITY, UNDECIDED, Relation

_AS_PRINTED = ("printed", "published")  #: arguments that make the printed statement of a function, if they are True


def written_claim(
    paper: str,
    source: str,
    meanings: Meanings,
    relation: Relation,
    name: str,
    fields: Mapping[str, Any],
    function: Callable[..., Sides],
) -> Claim:
    """The claim that a function and its fields make; a ``ValueError`` if it could not be rejected, or contradicts itself.

    See ``papers.Fields``.
    """
    if sys.flags.optimize > 1:
        raise ImportError("the claims need their docstrings, which python -OO removes: run python without -OO")
    number, part = number_and_part(name)
    parameters = inspect.signature(function).parameters.values()
    derived: dict[str, Any] = {
        "number": number,
        "part": part,
        "domain": Domain(fields.get("domain", {})),
        "as_printed": fields.get("as_printed", {p.name: True for p in parameters if p.name in _AS_PRINTED}),
        "mutants": tuple(fields.get("mutants", ())),
        "rests_on": tuple(fields.get("rests_on", ())),
    }
    if fields["evidence"] == "searched" and derived["domain"].all_points(FEW) is not None:
        derived["evidence"] = "computed"
    derived["meanings"] = {symbol: meanings.get(symbol, {}) for symbol in fields.get("definitions", ())}
    claim = Claim(paper=paper, source=source, function=function, relation=relation, **{**fields, **derived})
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    defaults = {p.name: p.default for p in parameters if p.kind is not p.VAR_KEYWORD}
    names = set(defaults)
    free = {p.name for p in parameters if p.name in names and p.default is p.empty}
    axes = set(claim.domain.axes)
    changed = {constant for given in (*claim.mutants, claim.as_printed) for constant in given}
    changed |= {claim.sharp} if claim.sharp else set()
    certifiable = claim.relation == INEQUALITY and claim.domain.ball and axes
    endless = claim.domain.all_points(FEW) is None
    false = claim.counterexample is not None
    unpinned = false and all(mutant == claim.as_printed for mutant in claim.all_mutants())
    proved = claim.proof is not None or claim.evidence == "certified"
    same = "" if claim.independent else ", ".join(sorted(shared(claim)))
    for wrong, why in (
        (claim.evidence not in EVIDENCE, f"evidence must be one of {', '.join(EVIDENCE)}, got {claim.evidence!r}"),
        (claim.evidence == "computed" and endless, "only a finite domain can be computed"),
        (claim.evidence == "certified" and not certifiable, "only an inequality over scalar axes can be certified"),
        (not claim.printed.strip(), "it needs the statement as printed"),
        (not claim.note, "it needs a docstring"),
        (not claim.all_mutants(), "it needs a mutant that its check rejects"),
        (unpinned, "it needs a mutant of the corrected statement, besides the printed one"),
        (not free <= axes <= (axes if open_ended else names), "its domain must have an axis for each argument"),
        (not changed <= names - axes, f"it has no constant {', '.join(sorted(changed - (names - axes)))}"),
        (claim.sharp and claim.relation != INEQUALITY, "only an inequality has a sharp constant"),
        (
            claim.undecided is not None and not (claim.undecided[0] in UNDECIDED and claim.undecided[1].strip()),
            f"undecided must be one of {', '.join(UNDECIDED)}, and the reason, got {claim.undecided!r}",
        ),
        (claim.undecided is not None and false, "a claim that is undecided has no counterexample"),
        ((claim.corrected or claim.as_printed) and not false, "a correction needs a counterexample"),
        (
            isinstance(claim.counterexample, Mapping) and set(claim.counterexample) != axes,
            "a counterexample has the arguments of the domain",
        ),
        (same, f"both sides come from {same}, so it needs the reason why they are independent"),
        (claim.evidence == "proved" and not claim.proof, "what is proved needs the place of its proof"),
        (
            claim.evidence == "cited" and not re.search(r"\d$", claim.proof or ""),
            "what is cited needs the published theorem, with its number, in proof",
        ),
        (
            (claim.evidence == "machine-checked") != bool(claim.theorem),
            "what is machine-checked, and nothing else, has a theorem in Coq",
        ),
        (claim.proved_constant is not None and not claim.sharp, "proved_constant needs the name of it in sharp"),
        (claim.proved_constant is not None and not proved, "proved_constant needs a proof or a certificate"),
        (claim.probability is not None and claim.probability not in axes, "probability must be an argument"),
        (claim.probability is not None and claim.relation == IDENTITY, "only an inequality has a probability"),
        *(
            (True, fault)
            for fault in faults(
                claim.constants, claim.definitions, claim.meanings, axes, defaults, claim.counterexample
            )
        ),
    ):
        if wrong:
            raise ValueError(f"{claim.name}: {why}")
    return claim
