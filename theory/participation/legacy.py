"""The form of participations in files of version 0.1: one class with a word for its kind."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from corrnoise.theory.participation.base import Participation
from corrnoise.theory.participation.orders import FixedEpochs, MinSep, Reshuffled, Single
from corrnoise.theory.participation.sampled import BallsInBins, CyclicPoisson, Poisson, RedrawnBins

KIND_CLASSES: dict[str, type[Participation]] = {
    "single": Single,
    "min-sep": MinSep,
    "fixed epochs": FixedEpochs,
    "reshuffled": Reshuffled,
    "balls in bins": BallsInBins,
    "redrawn bins": RedrawnBins,
    "cyclic poisson": CyclicPoisson,
    "poisson": Poisson,
}
FIELD_DEFAULTS: dict[str, Any] = {
    "steps": None,
    "kind": "single",
    "period": 1,
    "count": None,
    "rate": None,
    "secret": False,
    "unit": "example",
    "members": 1,
    "capacity": None,
    "examples": None,
}


def legacy_participation(**arguments: Any) -> Participation:
    """Return the participation that the arguments of the one class of version 0.1 describe.

    Raises
    ------
    ValueError, TypeError
        The kind is unknown, an argument is out of its range, or the kind has no such argument.
    """
    given = FIELD_DEFAULTS | arguments
    kind = given.pop("kind")
    if kind not in KIND_CLASSES:
        raise ValueError(f"kind must be one of {', '.join(map(repr, KIND_CLASSES))}, got {kind!r}")
    own = {one.name for one in fields(KIND_CLASSES[kind]) if one.init}  # type: ignore[arg-type]
    found = KIND_CLASSES[kind](**{name: value for name, value in given.items() if name in own})
    for name, value in given.items():
        allowed = (None, found.worst.count) if name == "count" else (FIELD_DEFAULTS.get(name),)
        if name not in own and value not in allowed:
            raise ValueError(f"{name} must be one of {allowed} for the kind {kind!r}, got {value!r}")
    return found


def stable_fields(participation: Participation) -> dict[str, Any]:
    """The fields of a participation under the names of version 0.1, for digests of arguments.

    They are the same in all versions; ``arguments()`` of other classes than the eight.
    """
    kinds = {cls: kind for kind, cls in KIND_CLASSES.items()}
    if type(participation) not in kinds:
        return {"kind": type(participation).__name__} | participation.arguments()
    derived = {"kind": kinds[type(participation)], "count": participation.worst.count}
    return FIELD_DEFAULTS | derived | participation.arguments()


def stable_text(participation: Participation) -> str:
    """The text of a participation in settings and identities of runs: as version 0.1 wrote it, for its eight kinds.

    It is the same in all versions; other classes are shown as they are.
    """
    if type(participation) not in KIND_CLASSES.values():
        return repr(participation)
    return f"Participation({', '.join(f'{name}={value!r}' for name, value in stable_fields(participation).items())})"
