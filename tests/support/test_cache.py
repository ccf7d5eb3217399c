"""Kept results: found again, never mistaken for others, and refused when they are damaged."""

import math
from pathlib import Path

import numpy as np
import pytest

from corrnoise.support.cache import keep, kept, kept_file
from corrnoise.support.serialise import save
from corrnoise.theory.mechanisms.product import NuFTRL

SETTINGS = {"noise": NuFTRL(0.1), "steps": (1, 2), "rates": np.array([0.5, math.inf])}


def test_what_is_kept_is_found_in_plain_words(tmp_path: Path) -> None:
    keep(tmp_path, SETTINGS, {"mean": math.nan, "values": np.array([1 / 3, 5e-324])})
    assert kept(tmp_path, SETTINGS) == {"mean": "nan", "values": [1 / 3, 5e-324]}
    assert [*tmp_path.iterdir()] == [kept_file(tmp_path, SETTINGS)]
    keep(tmp_path, SETTINGS, 2)
    assert kept(tmp_path, SETTINGS) == 2


def test_other_settings_have_other_files(tmp_path: Path) -> None:
    keep(tmp_path, SETTINGS, 1)
    for other in (SETTINGS | {"noise": NuFTRL(0.2)}, SETTINGS | {"steps": [1, 2, 3]}, [SETTINGS]):
        with pytest.raises(FileNotFoundError):
            kept(tmp_path, other)
    moved = kept_file(tmp_path, [SETTINGS])
    kept_file(tmp_path, SETTINGS).rename(moved)
    with pytest.raises(ValueError, match=rf"{moved.name} keeps the result of other settings"):
        kept(tmp_path, [SETTINGS])


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    keep(tmp_path, SETTINGS, 0.125)
    path = kept_file(tmp_path, SETTINGS)
    path.write_bytes(path.read_bytes().replace(b"0.125", b"0.250"))
    with pytest.raises(ValueError, match=rf"{path.name} is damaged or foreign: its digest is wrong"):
        kept(tmp_path, SETTINGS)
    for foreign in ([1, 2], {"result": 1}):
        save(foreign, path)
        with pytest.raises(ValueError, match="keeps the result of other settings"):
            kept(tmp_path, SETTINGS)


@pytest.mark.slow
def test_too_large_a_file_is_neither_written_nor_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a list has 1000001 items, more than 1000000"):
        keep(tmp_path, SETTINGS, np.zeros(10**6 + 1))
    kept_file(tmp_path, SETTINGS).write_bytes(bytes(2**26 + 1))
    with pytest.raises(ValueError, match="it has 67108865 bytes, more than 67108864"):
        kept(tmp_path, SETTINGS)
