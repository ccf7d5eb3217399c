"""Files: they give back the saved object or nothing, and no number that privacy rests on is read from them."""

from __future__ import annotations

from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.designs import storage
from corrnoise.designs.storage import KINDS, NAMES, load, save
from corrnoise.support import serialise
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation import Participation, Poisson
from corrnoise.theory.privacy import Budget
from tests.design_examples import BUDGET, CASES, EPOCHED, STEPS, made
from tests.strategies import mechanisms, participations


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than all the rest."""
    monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
    monkeypatch.setattr("corrnoise.designs.memory_figure.write_memory_picture", lambda *_: None)


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("name", CASES)
def test_what_is_loaded_is_what_was_saved(name: str, tmp_path: Path) -> None:
    found = made(name)
    paths = save(found, tmp_path / "folder")
    names = {path.name for path in paths}
    assert {"design.npz", "report.txt", "programs.json"} <= names <= set(NAMES)
    scaled = getattr(found.mechanism, "step_scales", None) is not None
    assert ("scales.csv" in names) == scaled
    single = tmp_path / "design.json"
    save(found, single)
    for path in (tmp_path / "folder", tmp_path / "folder/design.npz", single):
        again = load(path)
        if name == "reshuffled":  # a search over patterns takes a second
            assert again.lower_bound is None
            again = again.with_floor()
        assert again == found
        assert again.program() == found.program()
        assert (again.error, again.lower_bound, again.notes) == (found.error, found.lower_bound, found.notes)


@given(participations(), st.data())
def test_programs_and_mechanisms_are_kept_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, who: Participation, data: st.DataObject
) -> None:
    file = tmp_path_factory.getbasetemp() / "thing.npz"
    mechanism = data.draw(mechanisms(who.steps))
    save(mechanism, file, overwrite=True)
    assert load(file) == mechanism
    try:
        program = mechanism.program(who)
    except ValueError:
        return  # noise with a memory as long as the run
    for thing in (program, program.record(BUDGET)):
        save(thing, file, overwrite=True)
        again = load(file)
        assert again == thing if not isinstance(thing, dict) else again.keys() == thing.keys()
    assert again["multiplier"] == program.multiplier(BUDGET)
    assert again["mechanism"] == program.mechanism
    assert all(np.array_equal(v, program.arrays[name]) for name, v in again["arrays"].items())


def rewritten(path: Path, change: Any) -> None:
    """Change what a file holds, with all digests right."""
    thing = serialise.load(path, KINDS)
    change(thing)
    serialise.save(thing, path, KINDS)


def put(*keys: str, value: Any) -> Any:
    def change(thing: Any) -> None:
        for key in keys[:-1]:
            thing = thing[key]
        thing[keys[-1]] = value(thing[keys[-1]]) if callable(value) else value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            put("stated", "multiplier", value=lambda x: x * (1 - 2e-9)),
            "multiplier is .* in it, and .* when it is computed",
        ),
        (
            put("stated", "multiplier", value=lambda x: x * (1 + 2e-9)),
            "multiplier is .* in it, and .* when it is computed",
        ),
        (put("stated", "scale", value=lambda x: x * 2), "scale is .* in it"),
        (put("stated", "sensitivity", value=lambda x: x / 2), "sensitivity is .* in it"),
        (put("stated", "rho", value=0.005), r"rho is 0\.005 in it, and 0\.5 when it is computed"),
        (put("stated", "epsilon", value=1.0), r"epsilon is 1\.0 in it, and None when it is computed"),
        (put("stated", "error", value=lambda x: x * 0.99), "error is .* in it"),
        (put("stated", "multiplier", value=None), "multiplier is None in it"),
        (put("stated", "multiplier", value="1"), "TypeError"),
        (lambda thing: thing.pop("stated"), "is damaged or foreign: KeyError: 'stated'"),
        (lambda thing: thing["design"]._set(participation=Participation.single(STEPS)), "participation of the design"),
        (lambda thing: thing["design"]._set(budget=Budget(0.25)), r"rho is 0\.5 in it, and 0\.25"),
        (lambda thing: thing["design"].optimum._set(mechanism=NuFTRL(0.1)), "sensitivity is .* in it"),
        (lambda thing: thing["design"].optimum._set(error=1.0), r"error of the mechanism is 1\.0 in it"),
    ],
)
def test_claims_that_are_too_good_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    """Also where the digest fits."""
    save(made("without factors"), tmp_path / "design.npz")
    rewritten(tmp_path / "design.npz", change)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "design.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("multiplier", value=lambda x: x * (1 - 2e-9)), "multiplier is .* in it, and .* when it is computed"),
        (put("scale", value=lambda x: x * 1.1), "scale is .* in it"),
        (put("memory", value=7), "memory is 7 in it"),
        (put("sensitivity", value=1.0), r"sensitivity is 1\.0 in it"),
        (put("participation", value=Participation.min_sep(STEPS, 2)), "is .* in it"),
        (put("budget", value=Budget(50.0)), "multiplier is .* in it"),
        (put("budget", value=Budget(0.5, adjacency="replace-one")), "multiplier is .* in it"),
        (put("dtype", value="float16"), "dtype must be one of"),
        (lambda thing: thing.pop("mechanism"), "it holds no design, program or mechanism"),
    ],
)
def test_a_record_of_a_program_is_computed_again(change: Any, message: str, tmp_path: Path) -> None:
    save(made("usual").program().record(BUDGET), tmp_path / "program.json")
    rewritten(tmp_path / "program.json", change)
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "program.json")


def test_a_program_with_a_smaller_sensitivity_is_refused(tmp_path: Path) -> None:
    program = made("usual").program()
    small = type(program)(**{**program.arguments(), "sensitivity": 1.0})
    save(small, tmp_path / "program.json")
    with pytest.raises(ValueError, match=r"sensitivity is 1\.0 in it"):
        load(tmp_path / "program.json")


def test_alternatives_are_judged_too(tmp_path: Path) -> None:
    save(made("usual"), tmp_path / "design.npz")
    rewritten(tmp_path / "design.npz", lambda thing: thing["design"].alternatives[-1]._set(error=1.0))
    with pytest.raises(ValueError, match=r"error of the mechanism is 1\.0 in it"):
        load(tmp_path / "design.npz")


def test_rho_beside_an_old_epsilon_is_refused_with_both(tmp_path: Path) -> None:
    """The ρ that (ε, δ) give is computed; the mutant compares nothing and takes 100 times the budget."""
    budget = Budget(epsilon=2.0, delta=1e-6)
    rho = budget.gaussian_rho
    path = tmp_path / "design.json"
    save(made("once", budget), path)
    rewritten(path, lambda thing: thing["design"]._set(budget=Budget(100 * rho)))
    with pytest.raises(ValueError, match=rf"rho is {rho!r} in it, and {100 * rho!r} when it is computed"):
        load(path)
    assert serialise.load(path, KINDS)["design"].budget.gaussian_rho == 100 * rho
    save(made("once", budget), path, overwrite=True)
    rewritten(path, put("stated", "epsilon", value=0.02))
    with pytest.raises(ValueError, match=r"epsilon is 0\.02 in it, and 2\.0"):
        load(path)


def nested(depth: int) -> Any:
    noise: Any = NuFTRL(0.1)
    for _ in range(depth - 1):
        outer = ScaledNoise(NuFTRL(0.1), np.ones(3))
        outer._set(noise=noise)
        noise = outer
    return noise


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Participation.single(10**7 + 1), "steps must be at most 10000000 for Single"),
        (BinaryTree(10**6 + 1), "steps must be at most 1000000 for BinaryTree"),
        (BinaryTree(10**18), "steps must be at most 1000000 for BinaryTree"),
        ([NuFTRL(0.1)], "it holds no design, program or mechanism"),
        ({"mechanism": 1}, "it holds no design, program or mechanism"),
        ([[BinaryTree(10**7)]], "steps must be at most"),
        (
            {"mechanism": NuFTRL(0.1), "participation": Participation.min_sep(10**9, 3)},
            "steps must be at most 10000000",
        ),
        (nested(4), "nested|noise must be"),
    ],
)
def test_what_would_take_long_is_refused_before_it_is_judged(thing: Any, message: str, tmp_path: Path) -> None:
    serialise.save(thing, tmp_path / "thing.npz", KINDS)
    with pytest.raises(ValueError, match=f"thing.npz is damaged or foreign: .*({message})"):
        load(tmp_path / "thing.npz")


@pytest.mark.parametrize("thing", [BinaryTree(10**6 + 1), Participation.single(10**7 + 1)])
def test_what_could_not_be_read_is_not_written(thing: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="steps must be at most"):
        save(thing, tmp_path / "thing.npz")
    assert list(tmp_path.iterdir()) == []


def test_limits_are_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants with ten times the limit let the same things pass."""
    storage.require_small(nested(3))
    storage.require_small(BinaryTree(10**6))
    large = MatrixNoise(np.eye(5))
    for kind, thing in ((BinaryTree, BinaryTree(10**6 + 1)), (object, Participation.single(10**7 + 1))):
        with pytest.raises(ValueError, match="steps must be at most"):
            storage.require_small(thing)
        monkeypatch.setitem(storage.MOST_STEPS, kind, storage.MOST_STEPS[kind] * 10)
        storage.require_small(thing)
    monkeypatch.setitem(storage.MOST_STEPS, MatrixNoise, 4)
    with pytest.raises(ValueError, match="steps must be at most 4 for MatrixNoise"):
        storage.require_small({"a": [large]})
    with pytest.raises(ValueError, match="nested at most 3 deep"):
        storage.require_small(nested(4))
    monkeypatch.setattr(storage, "MAX_NESTED_MECHANISMS", 30)
    storage.require_small(nested(4))


def test_a_tree_of_many_steps_is_read(tmp_path: Path) -> None:
    program = BinaryTree(10**4).program(Participation.fixed_epochs(10**4, epochs=10), "float64")
    save(program.record(BUDGET), tmp_path / "tree.json")
    assert load(tmp_path / "tree.json")["sensitivity"] == program.sensitivity


def test_no_flipped_byte_makes_another_design(tmp_path: Path) -> None:
    path = tmp_path / "design.npz"
    save(made("once"), path)
    rng = np.random.default_rng(0)
    data = path.read_bytes()
    for position in rng.choice(len(data), 200, replace=False).tolist():
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="is damaged or foreign: its digest is wrong"):
            load(path)


def test_names_and_folders_are_checked(tmp_path: Path) -> None:
    found = made("once")
    with pytest.raises(TypeError, match="path must be a path"):
        load(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"path must end with '.json' or '.npz' for Program"):
        save(found.program(), tmp_path / "program")
    save(found, tmp_path / "design.json")
    with pytest.raises(FileExistsError, match="path must not be a file that is there"):
        save(found, tmp_path / "design.json")
    with pytest.raises(NotADirectoryError, match="folder must be a folder"):
        save(found, _file(tmp_path))
    with pytest.raises(TypeError, match="thing must be a design, a mechanism, a program or its record"):
        save(object(), tmp_path / "thing.json")


def _file(folder: Path) -> Path:
    (folder / "file").write_text("mine")
    return folder / "file"


@pytest.mark.usefixtures("undrawn")
def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(made("usual"), tmp_path)
    (tmp_path / "poles.csv").write_text("of an earlier design")
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(
        FileExistsError, match=r"folder must not hold a design, got '.*choose another one, or overwrite"
    ):
        save(made("endless"), tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: object) -> NoReturn:
        raise AssertionError("too late")

    with monkeypatch.context() as broken:
        broken.setattr(storage, "stated_claims", fail)
        with pytest.raises(AssertionError):
            save(made("tree"), tmp_path, overwrite=True)
        with pytest.raises(AssertionError):
            save(made("tree"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    save(made("tree"), tmp_path, overwrite=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "design.html",
        "design.npz",
        "report.txt",
        "programs.json",
        "mine.txt",
    }  # no table of the earlier design
    assert load(tmp_path) == made("tree")
    assert load(tmp_path).participation == EPOCHED


@record
class Weekly(Poisson):
    """A sampler of a stranger."""

    day: int = 0


@pytest.mark.parametrize("door", Participation.doors)
def test_files_hold_each_participation(door: str, tmp_path: Path) -> None:
    given = {"steps": 12, "period": 3, "count": 2, "rate": 0.2, "epochs": 4}
    taken = signature(Participation.doors[door]).parameters.keys() - (
        {"period"} if door == "reshuffled" else {"epochs"}
    )
    who = getattr(Participation, door)(**{name: given[name] for name in given.keys() & taken})
    save(who, tmp_path / "file.json")
    assert load(tmp_path / "file.json") == who


def test_files_hold_a_registered_sampler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "KINDS", dict(KINDS))
    who = Weekly(12, 0.1, day=3)
    path = tmp_path / "program.json"
    for thing in (who, DPSGD().program(who)):
        with pytest.raises(TypeError, match=r"Weekly: designs\.storage\.register\(.*Weekly\) adds it"):
            save(thing, path)
    assert not path.exists()
    assert storage.register(Weekly) is storage.register(Weekly) is Weekly
    for thing in (who, DPSGD().program(who)):
        save(thing, path, overwrite=True)
        assert load(path) == thing
    monkeypatch.setattr(storage, "KINDS", dict(KINDS))
    with pytest.raises(ValueError, match="Weekly"):
        load(path)


@pytest.mark.parametrize(
    ("cls", "error", "text"),
    [
        (type("Poisson", (Poisson,), {}), ValueError, "a name that files do not have yet, got 'Poisson'"),
        (type("Participation", (Poisson,), {}), ValueError, "got 'Participation'"),
        (type("array", (Poisson,), {}), ValueError, "'array'"),
        (NuFTRL, TypeError, "a subclass of Participation"),
        (Poisson(3, 0.5), TypeError, "a subclass of Participation"),
    ],
)
def test_other_classes_are_not_registered(cls: Any, error: type[Exception], text: str) -> None:
    before = dict(KINDS)
    with pytest.raises(error, match=text):
        storage.register(cls)
    assert before == KINDS
