"""Files and folders of version 0.1, which had one class of participations with a word for the kind."""

import re
from pathlib import Path

import pytest

import corrnoise as cn
from corrnoise.simulations.run.sampled import SampledBatches
from corrnoise.theory.participation import (
    BallsInBins,
    CyclicPoisson,
    FixedEpochs,
    MinSep,
    Participation,
    Poisson,
    RedrawnBins,
    Reshuffled,
    Sampled,
    Single,
)
from corrnoise.theory.participation.legacy import FIELD_DEFAULTS, legacy_participation, stable_text

GOLDEN = Path(__file__).parents[1] / "golden"

#: Participations, the fields of their text in version 0.1 that differ from the defaults, and the identity of batches.
RECORDED = [
    (Single(5), {"steps": 5, "count": 1}, "4dbeb38b5e1c2a9e1ccb5a61af1b3c47"),
    (Single(), {"count": 1}, None),
    (MinSep(9, 3, 2), {"steps": 9, "kind": "min-sep", "period": 3, "count": 2}, "7854da36f038635f195722ca08f1c451"),
    (
        FixedEpochs(9, epochs=3, secret=True),
        {"steps": 9, "kind": "fixed epochs", "period": 3, "count": 3, "secret": True},
        "37e4698ad1f63cfe0097573587d07047",
    ),
    (
        Reshuffled(9, period=4, unit="user", members=2),
        {"steps": 9, "kind": "reshuffled", "period": 4, "count": 3, "unit": "user", "members": 2},
        "ca1417e516c59b1e3bb0a665e42b090f",
    ),
    (
        Poisson(9, 0.25),
        {"steps": 9, "kind": "poisson", "count": 9, "rate": 0.25},
        "2128fc8b1b0e6760f61437b684b6c2e4",
    ),
    (
        CyclicPoisson(9, period=3, rate=0.5, capacity=4, examples=30),
        {
            **{"steps": 9, "kind": "cyclic poisson", "period": 3, "count": 3, "rate": 0.5},
            **{"capacity": 4, "examples": 30},
        },
        "f27e30ac4e4b17f97e62f08b28944220",
    ),
    (
        BallsInBins(9, period=3),
        {"steps": 9, "kind": "balls in bins", "period": 3, "count": 3},
        "62f1a3907e44431d1c527312094d37de",
    ),
    (
        RedrawnBins(9, period=4, examples=30),
        {"steps": 9, "kind": "redrawn bins", "period": 4, "count": 3, "examples": 30},
        "b3c2e35a253e3aa72b0a2cc5668f8565",
    ),
]
ORDER_OF_FIELDS = ["steps", "kind", "period", "count", "rate", "secret", "unit", "members", "capacity", "examples"]


@pytest.mark.parametrize(("who", "stored", "identity"), RECORDED, ids=lambda one: type(one).__name__)
def test_settings_and_identities_are_those_of_version_0_1(who: Participation, stored: dict, identity: str) -> None:
    fields = FIELD_DEFAULTS | stored
    text = ", ".join(f"{name}={fields[name]!r}" for name in ORDER_OF_FIELDS)
    assert stable_text(who) == f"Participation({text})"
    assert legacy_participation(**fields) == who
    if isinstance(who, Sampled):
        assert SampledBatches(who, 30).identity == identity
    elif identity is not None:
        assert cn.batches(who, 30, 3 if who.worst.period > 1 else 2, rng=0).identity == identity


def test_files_of_version_0_1_open() -> None:
    program = cn.load(GOLDEN / "program-0.1.json")
    assert program.participation == FixedEpochs(12, epochs=3)
    design = cn.load(GOLDEN / "design-0.1.json")
    assert design.participation == FixedEpochs(12, epochs=3)
    again = cn.design(design.budget, design.participation, memory=1)
    assert again.asked == design.asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "balls"}, "kind must be one of 'single', 'min-sep', .*, got 'balls'"),
        ({"kind": "min-sep", "rate": 0.1}, "rate must be one of"),
        ({"kind": "fixed epochs", "period": 4, "count": 2}, "count must be one of"),
        ({"kind": "balls in bins", "period": 2, "unit": "user"}, "unit must be one of"),
        ({"kind": "single", "period": 3}, "period must be one of"),
        ({"kind": "min-sep", "secret": True}, "secret must be one of"),
    ],
)
def test_foreign_arguments_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        legacy_participation(steps=10, **arguments)
    with pytest.raises(TypeError, match=re.escape("steps")):
        legacy_participation(steps="10")
