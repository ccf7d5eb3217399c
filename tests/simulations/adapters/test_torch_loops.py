"""Loops of other libraries: their misuse is refused, and the trained model is exported."""

from __future__ import annotations

import copy
import os
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from corrnoise.simulations.adapters.torch_run import make_private
from tests.simulations.adapters.pages import script
from tests.simulations.adapters.processes import made_by, process_group
from tests.simulations.adapters.small_network import BUDGET, data, network

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
torch.set_num_threads(1)
DATA = '{"input_ids": tokens[:1600], "labels": labels[:1600]}'


def executed(name: str, place: Path, monkeypatch: pytest.MonkeyPatch, old: str = "", new: str = "") -> dict[str, Any]:
    """The names of the script of a page after one epoch without a folder, with a part of its text changed."""
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


JOB = """
import sys
from pathlib import Path
from tests.simulations.adapters.test_torch_loops import job
job(sys.argv[1].split(), Path(sys.argv[2]), int(sys.argv[3]))
"""


def job(names: list[str], place: Path, rank: int) -> None:
    """The scripts of pages in one of two processes; the ``Trainer`` wraps the model in DistributedDataParallel."""
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500"
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.functional.cross_entropy
    early = make_private(model, optimizer, data(), loss=loss, budget=BUDGET, batch_size=12, epochs=1)
    with process_group(f"{place}/meet", rank), pytest.MonkeyPatch.context() as patch:
        with pytest.raises(RuntimeError, match=r"after torch\.distributed was initialised"):
            early.step(early.next_batch())
        for name in names:
            run = executed(name, place, patch)["run"]
            assert (run.position, run.ranks.count) == (20, 2)
            own = torch.cat([each.detach().reshape(-1) for each in run.model.parameters()])
            both = [torch.empty_like(own) for _ in range(2)]
            torch.distributed.all_gather(both, own)
            assert torch.equal(*both)


def test_loops_of_other_libraries_share_a_run_among_two_processes(tmp_path: Path) -> None:
    """Both ranks end with one model; a run that was made before the ranks knew each other is refused."""
    needed = {"Trainer": "accelerate", "Accelerate": "accelerate", "Lightning": "lightning"}
    found = [name for name, library in needed.items() if find_spec(library)]
    made_by(JOB, *([" ".join(found), str(tmp_path), str(rank)] for rank in range(2)))
