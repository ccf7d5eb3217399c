"""Keys and draws: what they depend on, and what they do not."""

from __future__ import annotations

import os
import stat
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from corrnoise.simulations.run.keys import Draws, RunKey

SECRET = bytes(range(32))


def first(draws: Draws, step: int, part: int, count: int = 8) -> np.ndarray:
    values = np.empty(count)
    draws.normals(step, part)(values)
    return values


def test_draws_follow_from_key_step_and_part_alone() -> None:
    draws = Draws(RunKey(SECRET))
    made = {(step, part): first(draws, step, part) for step, part in product(range(4), range(4))}
    again = Draws(RunKey(SECRET))
    for (step, part), values in reversed(made.items()):
        np.testing.assert_array_equal(first(again, step, part), values)
    everything = np.concatenate(list(made.values()))
    assert np.unique(everything).size == everything.size
    assert not np.isin(first(Draws(RunKey.new()), 0, 0), everything).any()


def test_draws_of_neighbouring_steps_and_parts_are_independent_normals() -> None:
    """Two tests at level 5e-7; the key is fixed, so that the outcome is."""
    draws = Draws(RunKey(SECRET))
    values = np.array([first(draws, step, part) for step, part in product(range(100), range(50))])
    assert stats.kstest(values.ravel(), "norm").pvalue > 5e-7
    covariance = values.reshape(100, -1)
    lagged = float((covariance[1:] * covariance[:-1]).mean()) * np.sqrt(covariance[1:].size)
    assert 2 * stats.norm.sf(abs(lagged)) > 5e-7


def test_a_fingerprint_tells_generators_apart_and_says_nothing_of_the_key() -> None:
    assert Draws(RunKey(SECRET)).fingerprint() == Draws(RunKey.new()).fingerprint()
    pytest.importorskip("randomgen")
    assert Draws(RunKey(SECRET), "aes").fingerprint() != Draws(RunKey(SECRET)).fingerprint()


def test_aes_is_aes_in_counter_mode() -> None:
    """Raw words against the published block of FIPS-197, Appendix C.1: key 00 01 … 0f, text 00 11 … ff."""
    randomgen = pytest.importorskip("randomgen")
    key = int.from_bytes(bytes(range(16)), "little")
    counter = int.from_bytes(bytes(17 * i for i in range(16)), "little")
    words = randomgen.AESCounter(key=key, counter=counter).random_raw(2)
    assert words.astype("<u8").tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_without_randomgen_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "randomgen", None)
    with pytest.raises(ImportError, match=r"corrnoise\[secure\]"):
        Draws(RunKey.new(), "aes")


def test_a_key_file_is_made_once_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "run.key"
    key = RunKey.kept_in(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert RunKey.kept_in(path).secret() == key.secret()
    assert len(key.secret()) == 32
    assert os.listdir(tmp_path) == ["run.key"]
    path.chmod(0o640)
    with pytest.raises(PermissionError, match="0600"):
        RunKey.kept_in(path)


@pytest.mark.parametrize("text", ["", "corrnoise key 1\n", "corrnoise key 1\nxyz\n", "corrnoise key 2\n" + 64 * "0"])
def test_a_file_that_is_no_key_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="holds no key"):
        RunKey.kept_in(path)
    assert path.read_text() == text


@pytest.mark.parametrize("secret", [b"", bytes(15), bytes(65)])
def test_short_keys_are_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        RunKey(secret)


def test_a_key_is_given_as_bytes_a_path_or_not_at_all(tmp_path: Path) -> None:
    assert RunKey.of(SECRET).secret() == SECRET
    assert RunKey.of(SECRET).path is None
    kept = RunKey.of(str(tmp_path / "run.key"))
    assert RunKey.of(tmp_path / "run.key").secret() == kept.secret()
    assert kept.path == tmp_path / "run.key"
    assert len(RunKey.of(None).secret()) == 32
    with pytest.raises(TypeError, match="key must be bytes, a path or None, got int"):
        RunKey.of(3)  # type: ignore[arg-type]


def test_a_key_is_bytes_and_is_not_shown() -> None:
    with pytest.raises(TypeError, match="must be bytes"):
        RunKey("0" * 32)  # type: ignore[arg-type]
    key = RunKey(SECRET)
    assert SECRET.hex() not in repr(key)
    assert key.identity in repr(key)
    assert key.identity != RunKey(bytes(32)).identity
