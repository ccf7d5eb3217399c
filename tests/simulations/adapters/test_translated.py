"""The scripts of the README and of the pages for users of other libraries train as these pages say."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.simulations.adapters.pages import script


def trained(name: str, *libraries: str) -> dict[str, Any]:
    """What a script leaves, where its libraries are installed."""
    for library in (*libraries, "sklearn"):
        pytest.importorskip(library)
    names: dict[str, Any] = {"print": lambda words: None, "__name__": "script"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries
        exec(compile(script(name), name, "exec"), names)
    return names


@pytest.mark.slow
def test_the_quick_start_of_the_readme_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = trained("README", "torch")
    assert found["run"].position == 1437 // 23
    assert found["run"].epsilon(1e-5) == pytest.approx(8.0, rel=1e-6)
    assert found["accuracy"] > 0.7
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_first_model_is_trained_once_and_loaded_afterwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    first = trained("first model", "torch")
    assert first["run"].position == 1437 // 23
    assert first["accuracy"] > 0.8
    first["run"].close()
    again = trained("first model", "torch")
    assert len(again["run"]) == 0
    assert again["accuracy"] == first["accuracy"]
    again["run"].close()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "multiplier"), [("In Opacus", 1.174), ("from Opacus", 1.172)])
def test_scripts_for_opacus_train_with_the_noise_of_the_page(name: str, multiplier: float) -> None:
    found = trained(name, "torch", "opacus")
    assert found["multiplier"] == pytest.approx(multiplier, abs=5e-4)
    assert found["accuracy"] > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("name", ["In jax-privacy", "from jax-privacy"])
def test_scripts_for_jax_privacy_train(name: str) -> None:
    found = trained(name, "jax", "jax_privacy")
    assert found["accuracy"] > 0.75
    if "run" in found:
        assert found["run"].multiplier == pytest.approx(3.246, abs=5e-4)
    else:
        assert found["plan"].dp_event.event.event.noise_multiplier == pytest.approx(2.007, abs=5e-4)
