"""Every number of a file is edited in turn, with the digest made again: the file is refused, or nothing changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.designs.design import Design
from corrnoise.designs.make import design
from corrnoise.designs.page import write_page
from corrnoise.designs.report import report
from corrnoise.designs.storage import KINDS, load, save
from corrnoise.solvers.certified.floor import is_quick
from corrnoise.solvers.families.problem import Problem
from corrnoise.support import serialise
from corrnoise.support.serialise import digest
from corrnoise.theory.objectives.workloads import SGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.problems.quadratic import LinearRegression
from tests.design_examples import BUDGET, EPOCHED, made

#: Settings of a problem that no privacy number and no error of its design depends on: with other settings the file is
#: that of another, honest design.
FREE_SETTINGS = {"kurtosis", "residual_std"}
EDITS: dict[str, Any] = {"100 times": lambda x: 100 * x, "1.01 times": lambda x: 1.01 * x, "-1": lambda x: -1}

Place = tuple[str | int, ...]


def places(value: Any, here: Place = ()) -> Iterator[Place]:
    """The places of all numbers in parsed JSON."""
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*here, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield here


def edited(described: dict[str, Any], place: Place, edit: Any) -> bytes:
    """The file with another number at a place, and the right digest."""
    changed = copy.deepcopy({name: value for name, value in described.items() if name != "digest"})
    inner: Any = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = edit(inner[place[-1]])
    head = (json.dumps(changed, indent=1).removesuffix("\n}") + ",").encode()
    return head + f'\n "digest": "{digest(head)}"\n}}\n'.encode()


def shown(found: Design, folder: Path) -> tuple[Any, ...]:
    """All that a user sees of a design or that a run takes from it."""
    folder.mkdir(exist_ok=True)
    write_page(found, folder, None, None)
    program = found.program()
    everything = (found.optimum, *found.alternatives)
    return (
        report(found, None),
        (folder / "design.html").read_text(encoding="utf-8"),
        program.multiplier(found.budget),
        program.scale(found.budget),
        [(one.sensitivity, one.error, one.lower_bound, one.rigorous, one.optimality_gap) for one in everything],
    )


def is_close(found: Design, original: Design) -> bool:
    """Whether an edited mechanism moves no number by more than files may differ: its last coefficients are tiny."""
    numbers = [
        [one.program().multiplier(one.budget), one.error, *(each.error for each in one.alternatives)]
        for one in (found, original)
    ]
    return numbers[0] == pytest.approx(numbers[1], rel=2e-9, abs=0)


def survivors(thing: Any, folder: Path, count: int | None, seed: int) -> tuple[int, list[str]]:
    """How many edits of a saved thing were tried, and a list of edits that were read and changed it.

    ``count`` places are drawn, numbers outside of arrays first; None for all places.
    """
    path = folder / "thing.json"
    save(thing, path)
    original = load(path)
    before = shown(original, folder / "page") if isinstance(original, Design) else None
    described = json.loads(path.read_bytes())
    found = list(places(described["thing"]))
    if count is not None:
        order = np.random.default_rng(seed).permutation(len(found))
        found = [found[k] for k in sorted(order, key=lambda k: "values" in found[k])[:count]]
    wrong = []
    for place in found:
        for name, edit in EDITS.items():
            path.write_bytes(edited(described, ("thing", *place), edit))
            try:
                again = load(path)
            except ValueError:
                continue
            if again == original or FREE_SETTINGS & set(map(str, place)):
                continue
            if "alternatives" in place and place[-1] == "rate":  # of DP-SGD; its error is computed again
                continue
            if "mechanism" in place and is_close(again, original):
                continue
            if not isinstance(again, Design) or shown(again, folder / "page") != before:
                wrong.append(f"{name} at {place}")
    return 3 * len(found), wrong


def sampled() -> Design:
    """A design with DP-SGD with Poisson batches among its alternatives, and a user of two examples' worth of noise."""
    return design(Budget(epsilon=2.0, delta=1e-5), EPOCHED, memory=2)


@pytest.mark.parametrize("name", ["without factors", "endless", "convex"])
def test_no_edited_number_of_a_design_has_an_effect(name: str, tmp_path: Path) -> None:
    tried, wrong = survivors(made(name), tmp_path, 16, seed=1)
    assert tried >= 3 * 14
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", ["usual", "a problem", "once", "reshuffled", "tree", "Poisson"])
def test_no_edited_number_of_many_has_an_effect(name: str, tmp_path: Path) -> None:
    tried, wrong = survivors(sampled() if name == "Poisson" else made(name), tmp_path, 40, seed=2)
    assert tried >= 3 * (22 if name == "tree" else 30)  # all numbers of the file of a tree
    assert not wrong


def outcomes(thing: Any, path: Path) -> Iterator[tuple[Place, Any]]:
    """The things read after the edits that are not refused, with the places of the edits."""
    save(thing, path)
    described = json.loads(path.read_bytes())
    for place in places(described["thing"]):
        for edit in EDITS.values():
            path.write_bytes(edited(described, ("thing", *place), edit))
            try:
                yield place, load(path)
            except ValueError:
                continue


def test_no_edited_number_of_a_record_has_an_effect(tmp_path: Path) -> None:
    """Arrays are made again from the mechanism, and all else is compared."""
    record = made("without factors").program().record(BUDGET)
    arrays = record["arrays"]
    for place, again in outcomes(record, tmp_path / "record.json"):
        assert {**again, "arrays": None} == {**record, "arrays": None}, place
        assert all(np.array_equal(again["arrays"][name], arrays[name]) for name in arrays), place


def test_an_edited_program_has_the_sensitivity_of_its_own_numbers(tmp_path: Path) -> None:
    """The members of a user and such settings may be edited: they make another program."""
    program = made("without factors").program()
    found = list(outcomes(program, tmp_path / "program.json"))
    assert {place[-1] for place, again in found if again != program} <= {"members"}
    for _, again in found:
        fresh = again.mechanism.program(again.participation, again.dtype, again.form)
        assert (again.sensitivity, again.multiplier(BUDGET)) == (fresh.sensitivity, fresh.multiplier(BUDGET))


@pytest.mark.parametrize("part", ["optimum", "sensitivity"])
def test_parts_of_a_design_are_no_files(part: str, tmp_path: Path) -> None:
    """Without the objective and the budget their numbers cannot be computed again."""
    found = made("without factors").optimum
    thing = found if part == "optimum" else found.sensitivity
    with pytest.raises(TypeError, match="save the design of an optimum"):
        save(thing, tmp_path / "part.json")
    serialise.save(thing, tmp_path / "part.json", KINDS)
    with pytest.raises(ValueError, match="it holds no design, program or mechanism"):
        load(tmp_path / "part.json")


def test_floors_of_short_runs_are_computed_and_others_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = made("without factors")
    save(found, tmp_path / "design.json")
    assert b'"lower_bound": null' in (tmp_path / "design.json").read_bytes()
    assert load(tmp_path / "design.json").lower_bound == found.lower_bound
    monkeypatch.setattr("corrnoise.designs.judging.is_quick", lambda *_: False)
    slow = load(tmp_path / "design.json")
    assert (slow.lower_bound, slow.optimality_gap, slow.error) == (None, None, found.error)
    assert "design.with_floor() computes it" in " ".join(report(slow, None).split())
    assert slow.with_floor() == found


@pytest.mark.parametrize(
    ("participation", "objective", "quick"),
    [
        (Participation.single(4096), SGD(), True),
        (Participation.single(4097), SGD(), False),
        (Participation.fixed_epochs(400, epochs=16), SGD(), True),
        (Participation.fixed_epochs(404, epochs=4), SGD(), False),
        (Participation.fixed_epochs(400, epochs=20), SGD(), False),
        (Participation.fixed_epochs(128, epochs=4), SGD(momentum=0.9), True),
        (Participation.fixed_epochs(132, epochs=4), SGD(momentum=0.9), False),
        (Participation.fixed_epochs(128, epochs=4), LinearRegression([1.0, 0.1], 0.1), True),
        (Participation.single(128), LinearRegression(1 / np.arange(1.0, 2001), 0.1), True),
    ],
)
def test_the_floors_that_are_quick_are_known_by_the_size(
    participation: Participation, objective: Any, quick: bool
) -> None:
    run = Problem(objective, participation)
    assert is_quick(run.objective, run.who) == quick


def test_an_honest_file_with_another_digest_is_read(tmp_path: Path) -> None:
    """So that edits are refused for their numbers."""
    path = tmp_path / "design.json"
    save(made("without factors"), path)
    described = json.loads(path.read_bytes())
    path.write_bytes(edited(described, ("version",), lambda _: "0"))
    assert load(path) == made("without factors")
