"""Registration: how a function becomes a claim of a paper, and which claims are refused."""

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

from corrnoise.paper_checks.machinery.domains import Domain
from corrnoise.paper_checks.machinery.independence import shared
from corrnoise.paper_checks.machinery.ledger import FEW, Claim, Sides
from corrnoise.paper_checks.machinery.names import number_and_part
from corrnoise.paper_checks.machinery.quantifiers import Meanings, chosen, faults
from corrnoise.paper_checks.machinery.verdicts import (
    EVIDENCE,
    IDENTITY,
    INEQUALITY,
    REFUTED,
    TRUE,
    UNDECIDED,
    Evidence,
    Relation,
)
from corrnoise.support.process import require_docstrings

IDENTITY_PROOFS = ("enumeration",)
#: evidence that a statement is false
_OF_FALSE: tuple[Evidence, ...] = ("machine-checked", "proved", *REFUTED, "computed")
_OWN_PROOF = r"[\w./-]+\.[a-z]+(#|$)"  #: a file, and a heading of it
_CITED_PROOF = r"\d$|^(Appendix|Section) \w+"
_AS_PRINTED = ("printed", "published")  #: arguments that make the printed statement of a function, if they are True


def _evidence(relation: Relation, fields: Mapping[str, Any], finite: bool) -> dict[str, Any]:
    """The evidence of the truth and of the repair, by default after what the fields have."""
    evidence: Evidence = "computed" if relation == IDENTITY or finite else "searched"
    own_proof = re.match(_OWN_PROOF, fields.get("proof") or "")
    given: tuple[tuple[str, Evidence], ...] = (
        ("identity_proof", "exact"),
        ("proof", "proved" if own_proof else "cited"),
        ("theorem", "machine-checked"),
    )
    for name, kind in given:
        if name in fields:
            evidence = kind
    refutation = "computed"
    if "disproof" in fields:
        refutation = "family" if chosen(fields.get("constants", {})) else "proved"
    found: dict[str, Any] = {"evidence": fields.get("evidence", refutation if "counterexample" in fields else evidence)}
    if "repair" in fields or "repair_evidence" in fields:
        found["repair_evidence"] = fields.get("repair_evidence", evidence)
    return found


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
    require_docstrings("the claims")
    number, part = number_and_part(name)
    parameters = inspect.signature(function).parameters.values()
    derived: dict[str, Any] = {
        "number": number,
        "part": part,
        "domain": Domain(fields.get("domain", {})),
        "as_printed": fields.get("as_printed", {p.name: True for p in parameters if p.name in _AS_PRINTED}),
        "mutants": tuple(fields.get("mutants", ())),
        "rests_on": tuple(fields.get("rests_on", ())),
        "hypotheses": tuple(fields.get("hypotheses", ())),
    }
    derived |= _evidence(relation, fields, finite=derived["domain"].all_points(FEW) is not None)
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
    evidence = claim.checked_evidence
    kinds = {claim.evidence, evidence}
    unrepaired = false and claim.repair is None
    proved = claim.proof is not None or evidence == "certified"
    same = "" if claim.independent else ", ".join(sorted(shared(claim)))
    for wrong, why in (
        (not kinds <= set(EVIDENCE), f"evidence must be one of {', '.join(EVIDENCE)}, got {', '.join(sorted(kinds))}"),
        (
            false and claim.evidence not in _OF_FALSE,
            f"evidence that it is false must be one of {', '.join(_OF_FALSE)}, got {claim.evidence!r}",
        ),
        (
            (claim.evidence in REFUTED and not false) or claim.repair_evidence in REFUTED,
            f"only a false statement has the evidence {' or '.join(REFUTED)}",
        ),
        (
            claim.evidence == "counterexample"
            and (chosen(claim.constants) or not isinstance(claim.counterexample, Mapping)),
            "where constants may be chosen, or symbols have meanings with other arguments, one counterexample does not "
            "refute: evidence must be 'family', 'proved' or 'computed'",
        ),
        (claim.evidence == "family" and not chosen(claim.constants), "a family needs constants that may be chosen"),
        (
            evidence == "computed" and endless and relation == INEQUALITY and not unrepaired,
            "of inequalities only those with a finite domain can be computed",
        ),
        (
            (evidence == "exact") != (claim.identity_proof is not None)
            or claim.identity_proof not in (None, *IDENTITY_PROOFS),
            f"what is exact, and nothing else, has an identity_proof: {' or '.join(IDENTITY_PROOFS)}",
        ),
        (evidence == "certified" and not certifiable, "only an inequality over scalar axes can be certified"),
        ((claim.repair is None) != (claim.repair_evidence is None), "a repair, and nothing else, has repair_evidence"),
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
        ((claim.repair or claim.as_printed) and claim.truth == TRUE, "a repair needs a counterexample"),
        (
            isinstance(claim.counterexample, Mapping) and set(claim.counterexample) != axes,
            "a counterexample has the arguments of the domain",
        ),
        (same, f"both sides come from {same}, so it needs the reason why they are independent"),
        (
            evidence == "proved" and not unrepaired and not re.match(_OWN_PROOF, claim.proof or ""),
            f"what is proved needs the place of its proof, a file and its heading, got {claim.proof!r}",
        ),
        (
            false and claim.evidence in ("proved", "family") and not re.match(_OWN_PROOF, claim.disproof or ""),
            "what is proved to be false, for every choice of the constants if there are any, needs the place of that proof "
            f"in disproof, got {claim.disproof!r}",
        ),
        (claim.disproof and not false, "only a false statement has a disproof"),
        (
            "cited" in kinds and not re.search(_CITED_PROOF, claim.proof or ""),
            "what is cited needs in proof the published theorem with its number, or the appendix with the paper's own proof",
        ),
        (
            ("machine-checked" in kinds) != bool(claim.theorem),
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
