"""Loops of other libraries: their misuse is refused, and the trained model is exported."""

from __future__ import annotations

import copy
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.simulations.adapters.pages import script

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)
DATA = '{"input_ids": tokens[:1600], "labels": labels[:1600]}'


def executed(name: str, place: Path, monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> dict[str, Any]:
    """What the script of a page leaves after one epoch without a folder, with a part of its text changed."""
    monkeypatch.chdir(place)
    text = re.sub(r"    folder=.*\n(    carry=.*\n)?", "    mechanism=cn.mechanisms.DPSGD(),\n", script(name))
    assert old in text
    text = text.replace("epochs=20", "epochs=1").replace(old, new)
    names: dict[str, Any] = {"print": lambda words: None, "__name__": "recipe"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries
        exec(compile(text, "recipe", "exec"), names)
    return names


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("    def compute_loss", "    def other", "backward must start from the private loss"),
        ("    def get_train_dataloader", "    def other", "requires a train_dataset"),
        ("max_steps=len(run)", "max_steps=len(run), gradient_accumulation_steps=2", "step 0 has got no noise"),
        ("if model.training", "if True", "no batch was handed out"),
        (DATA, f"torch.utils.data.DataLoader({DATA})", "pass loader.dataset"),
        (DATA, '[{"input_ids": [k] * (1 + k), "labels": 0} for k in range(100)]', "pad it with item="),
        (DATA, '[{"text": "good", "labels": 0} for k in range(100)]', "text of an item must be a tensor"),
    ],
    ids=["loss", "loader", "accumulation", "evaluation", "DataLoader", "lengths", "text"],
)
def test_misuse_of_the_trainer_is_refused(
    old: str, new: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No step of the optimizer sees a gradient without noise."""
    pytest.importorskip("accelerate")
    with pytest.raises((RuntimeError, ValueError, TypeError), match=re.escape(message)):
        executed("Trainer", tmp_path, monkeypatch, old, new)


def test_the_trained_model_is_exported_as_a_plain_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the names of before, with tied weights, and without the guard of the run."""
    pytest.importorskip("safetensors")
    names = executed("Export", tmp_path, monkeypatch)
    model = names["model"]
    for other in (names["loaded"], names["again"], copy.deepcopy(model)):
        state = other.state_dict()
        assert list(state) == names["names"]
        for name, value in model.state_dict().items():
            assert torch.equal(state[name], value)
        assert other.lm_head.weight is other.transformer.wte.weight
        other(input_ids=names["private"], labels=names["private"]).loss.backward()
    with pytest.raises(RuntimeError, match="backward must start from the private loss"):
        model(input_ids=names["private"], labels=names["private"]).loss.backward()
