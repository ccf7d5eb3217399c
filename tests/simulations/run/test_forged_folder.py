"""Folders that another person made, with the key and so with right hashes: they are refused, not believed."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import journal
from corrnoise.simulations.run.folder import Folder, Home
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

SPANS = np.array([[0, 3]])


class Carry:
    """A model that is carried."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def save(self) -> dict[str, Any]:
        return {"x": self.x}

    def load(self, arrays: dict[str, Any], /) -> None:
        self.x = arrays["x"]


def opened(path: Path, carry: Carry | None = None) -> PrivateRun:
    return PrivateRun(Budget(0.5), Participation.single(6), AntiPGD(0.3), 3, folder=Folder(path), carry=carry)


def begun(path: Path) -> Home:
    """The folder of a run, in the hands of one who has the key."""
    with opened(path) as run:
        next(iter(run))
        run.add_noise(np.zeros(3))
    home = Home(Folder(path))
    home.go_on()
    return home


def checkpoint(**arrays: Any) -> Callable[[Home], None]:
    return lambda home: home.write_checkpoint(home.head(2, 1), arrays, 0)


def settings(text: str) -> Callable[[Home], None]:
    def forge(home: Home) -> None:
        (home.path / "settings.json").write_text(text)

    return forge


def pipe(home: Home) -> None:
    (home.path / "settings.json").unlink()
    os.mkfifo(home.path / "settings.json")


def too_far(home: Home) -> None:
    with mock.patch.object(journal, "MOST_AHEAD", 10**7):
        home.journal.begin(1, 10**6 + 2, bytes(16))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize(
    ("forged", "sentence"),
    [
        (checkpoint(memory=np.zeros((7, 7)), spans=SPANS), r"is damaged .* of 7 rows and their columns, got \(7, 7\)"),
        (checkpoint(memory=np.zeros((7, 3)), spans=SPANS), r"is damaged .* it has a memory of float64\(7, 3\)"),
        (checkpoint(x=np.zeros(3)), "checkpoint-2 is damaged or foreign: KeyError: 'spans'"),
        (settings("[" * 10**5), "settings.json is damaged or foreign: its JSON is nested more than 32 levels deep"),
        (settings('{"rho": NaN}'), "settings.json is damaged or foreign: NaN is not a number of JSON"),
        (settings("7"), "settings.json is damaged or foreign: "),
        (pipe, "settings.json is damaged or foreign: it is not a regular file"),
        (too_far, "begins 1000001 steps"),
    ],
)
def test_what_is_forged_with_the_key_is_refused(forged: Callable[[Home], None], sentence: str, tmp_path: Path) -> None:
    home = begun(tmp_path / "run")
    forged(home)
    home.close()
    with pytest.raises(ValueError, match=sentence) as caught:
        opened(tmp_path / "run")
    assert str(tmp_path / "run") in str(caught.value)


def test_arrays_of_a_checkpoint_are_of_plain_types_and_any_shape(tmp_path: Path) -> None:
    for value in (np.array(["a"]), np.array([None]), np.zeros(2, complex)):
        with pytest.raises(TypeError, match="arrays that are kept must be of booleans, integers or floats, got"):
            opened(tmp_path / "no", Carry(value))
    kinds = [np.arange(32.0).reshape(2, 2, 2, 2, 2).T, np.array(3, "i4"), np.zeros((0, 4), bool), np.ones(2, ">f4")]
    for number, value in enumerate(kinds):
        opened(tmp_path / str(number), Carry(value)).close()
        opened(tmp_path / str(number), found := Carry(None)).close()
        np.testing.assert_array_equal(found.x, value)
        assert found.x.dtype == value.dtype.newbyteorder("=")


def test_a_checkpoint_that_promises_more_than_it_has(tmp_path: Path) -> None:
    home = begun(tmp_path / "run")
    real = json.dumps

    def lying(value: Any, **options: Any) -> str:
        if "arrays" in value:
            value["arrays"]["memory"] = ["<f8", [10**12]]
        return real(value, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "dumps", lying)
        home.write("checkpoint-2", home.head(2, 1), {"memory": np.zeros(3)})
    home.close()
    (tmp_path / "run" / "checkpoint-0").unlink()
    (tmp_path / "run" / "checkpoint-1").unlink()
    with pytest.raises(ValueError, match=r"checkpoint-2 is damaged or foreign: its shape .* needs 8000000000000 bytes"):
        opened(tmp_path / "run")
