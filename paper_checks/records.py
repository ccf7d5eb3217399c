"""Claims and outcomes in the terms of JSON, for other programs.

Arrays are lists, problems and noises are mappings with the name of their class, and numbers that are not finite are the
strings ``"inf"``, ``"-inf"`` and ``"nan"``, which JSON lacks and ``float`` understands.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from corrnoise.paper_checks.ledger import Claim, Outcome
from corrnoise.simulations.sweep_points import plain

_FIELDS = (
    "paper",
    "source",
    "name",
    "number",
    "part",
    "identifier",
    "printed",
    "corrected",
    "unverifiable",
    "note",
    "proof",
    "transcription",
    "outside",
    "conjecture",
    "relation",
    "evidence",
    "recorded",
    "tolerance",
    "evaluations",
)


def _plain(value: Any) -> Any:
    """``value`` in the terms of JSON; what has none is shown as text."""
    try:
        return plain(value)
    except TypeError:
        return repr(value)


def _arguments(arguments: Any) -> dict[str, Any]:
    return {name: _plain(value) for name, value in arguments.items()}


def claim_record(claim: Claim) -> dict[str, Any]:
    """A claim as it is written, without its function."""
    record = {name: getattr(claim, name) for name in _FIELDS}
    mutants = [_arguments(mutant) for mutant in claim.mutants]
    return record | {"domain": str(claim.domain), "as_printed": _arguments(claim.as_printed), "mutants": mutants}


def outcome_record(outcome: Outcome) -> dict[str, Any]:
    """What a check found, with the claim that was checked."""
    certificate, found = outcome.certificate, outcome.counterexample
    numbers = {name: _plain(getattr(outcome, name)) for name in ("margin", "tried", "accepted", "sharp", "seconds")}
    return {
        "claim": claim_record(outcome.claim),
        "verdict": outcome.verdict,
        "agrees": outcome.agrees,
        "reason": outcome.reason,
        **numbers,
        "sharp_constant": outcome.claim.sharp,
        "worst": _arguments(outcome.worst),
        "certificate": certificate and {name: _plain(value) for name, value in vars(certificate).items()},
        "counterexample": found
        and {
            "arguments": _arguments(found.arguments),
            "sides": [_plain(np.asarray(side, dtype=float)) for side in found.sides],
            "margin": _plain(found.margin),
        },
        "mutants": [{"mutant": mutant, "rejected": rejected} for mutant, rejected in outcome.mutants],
    }
