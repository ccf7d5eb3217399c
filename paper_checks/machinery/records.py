"""Claims and outcomes in the terms of JSON, for other programs; see ``corrnoise.support.serialise``."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery import wording
from corrnoise.paper_checks.machinery.ledger import Claim, Outcome
from corrnoise.paper_checks.machinery.power import powers
from corrnoise.paper_checks.machinery.quotations import place
from corrnoise.support.mathematics import plain as plain_text
from corrnoise.support.serialise import plain

_CLAIM_FIELDS = (
    *("paper", "source", "name", "number", "part", "identifier"),
    *("printed", "reading", "transcription", "hypotheses", "undecided", "note"),
    *("truth", "evidence", "repair", "repair_evidence", "recorded", "identity_proof"),
    *("proof", "disproof", "theorem", "rests_on", "outside", "independent", "constants", "definitions", "meanings"),
    *("probability", "proved_constant", "relation", "tolerance", "evaluations"),
)
_OUTCOME_FIELDS = ("verdict", "agrees", "reason", "margin", "tried", "accepted", "sharp", "elsewhere", "seconds")


def _described(value: Any) -> Any:
    """A value in the terms of JSON, or as text where no other description fits."""
    try:
        return plain(value)
    except TypeError:
        return repr(value)


def _arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _described(value) for name, value in arguments.items()}


def claim_record(claim: Claim) -> dict[str, Any]:
    """A claim as it is written, without its function."""
    record = {name: _described(getattr(claim, name)) for name in _CLAIM_FIELDS}
    mutants = [_arguments(mutant) for mutant in claim.mutants]
    return record | {
        "place": place(claim),
        "domain": str(claim.domain),
        "as_printed": _arguments(claim.as_printed),
        "mutants": mutants,
    }


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """The outcome of a check, with the claim that was checked."""
    certificate = outcome.certificate
    power = powers().get(outcome.claim.identifier)
    found = outcome.counterexample
    return {
        "claim": claim_record(outcome.claim),
        **{name: _described(getattr(outcome, name)) for name in _OUTCOME_FIELDS},
        "why": plain_text(wording.reason(outcome)),
        "sharp_constant": outcome.claim.sharp,
        "sharp_interval": outcome.interval and [_described(outcome.interval.low), _described(outcome.interval.high)],
        "worst": _arguments(outcome.worst),
        "certificate": certificate
        and {name: _described(getattr(certificate, name)) for name in ("answer", "boxes", "box", "place")},
        "counterexample": found
        and {
            "arguments": _arguments(found.arguments),
            "choice": _arguments(found.choice),
            "sides": [_described(np.asarray(side, dtype=float)) for side in found.sides],
            "margin": _described(found.margin),
        },
        "power": power
        and {"telling": power.telling, "kill_rate": power.kill_rate, "blindness": power.blindness, **asdict(power)},
        "mutants": [{"mutant": mutant, "rejected": rejected} for mutant, rejected in outcome.mutants],
    }
