"""Files: they give back what was saved or nothing, and no number that privacy rests on is read from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.designs import storage
from corrnoise.designs.storage import KINDS, NAMES, load, save
from corrnoise.support import serialise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.design_examples import BUDGET, CASES, EPOCHED, STEPS, made
from tests.strategies import mechanisms, participations


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than all the rest."""
    monkeypatch.setattr("corrnoise.designs.figure.write_picture", lambda *_: None)
    monkeypatch.setattr("corrnoise.designs.memory_figure.write_memory_picture", lambda *_: None)


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
        assert again == found
        assert again.program() == found.program()
        assert (again.error, again.floor, again.notes) == (found.error, found.floor, found.notes)


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
        (put("stated", "multiplier", value=lambda x: x * (1 - 1e-13)), "multiplier must be at least"),
        (put("stated", "sensitivity", value=lambda x: x / 2), "sensitivity must be at least"),
        (put("stated", "rho", value=0.1), "rho must be at least 0.5"),
        (put("stated", "error", value=lambda x: x * 0.99), "error must be"),
        (put("stated", "floor", value=None), "floor must be"),
        (put("stated", "multiplier", value=None), "cannot be loaded"),
        (lambda thing: thing.pop("stated"), "cannot be loaded: 'stated'"),
        (lambda thing: thing["design"]._set(participation=Participation.single(STEPS)), "participation of the design"),
        (lambda thing: thing["design"]._set(budget=Budget(0.25)), "multiplier must be at least"),
        (lambda thing: thing["design"].optimum._set(mechanism=NuFTRL(0.1)), "sensitivity must be"),
        (lambda thing: thing["design"].optimum._set(error=1.0), "error must be"),
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
        (put("multiplier", value=lambda x: x * (1 - 1e-13)), "multiplier must be at least"),
        (put("sensitivity", value=1.0), "sensitivity must be at least"),
        (put("participation", value=Participation.min_sep(STEPS, 2)), "must be at least"),
        (put("budget", value=Budget(0.5, adjacency="replace-one")), "multiplier must be at least"),
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
    with pytest.raises(ValueError, match="sensitivity must be at least"):
        load(tmp_path / "program.json")


def test_no_flipped_byte_makes_another_design(tmp_path: Path) -> None:
    path = tmp_path / "design.npz"
    save(made("once"), path)
    rng = np.random.default_rng(0)
    data = path.read_bytes()
    for position in rng.choice(len(data), 200, replace=False).tolist():
        flipped = bytearray(data)
        flipped[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(flipped)
        with pytest.raises(ValueError, match="cannot be loaded"):
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
    with pytest.raises(TypeError, match="thing must be made of"):
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
        broken.setattr(storage, "_stated", fail)
        with pytest.raises(AssertionError):
            save(made("tree"), tmp_path, overwrite=True)
        with pytest.raises(AssertionError):
            save(made("tree"), tmp_path / "new")
    assert not (tmp_path / "new").exists()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    save(made("tree"), tmp_path, overwrite=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"design.npz", "report.txt", "programs.json", "mine.txt"}  # no table of the earlier design
    assert load(tmp_path) == made("tree")
    assert load(tmp_path).participation == EPOCHED
