"""A private run of a model of PyTorch: the same command begins it, goes on with it, and loads what it has trained."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import torch_run
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.pages import script
from tests.simulations.run.sources import counted

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EXAMPLES = 50
BATCH = 12


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    inputs = torch.tensor(rng.normal(size=(EXAMPLES, 6)), dtype=torch.float32)
    return inputs, torch.tensor(rng.integers(3, size=EXAMPLES))


def command(place: Path | None, **options: Any) -> TorchRun:
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    settings: dict[str, Any] = {
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.05),
        "data": data(),
        "loss": torch.nn.functional.cross_entropy,
        "budget": Budget(rho=0.5),
        "batch_size": BATCH,
        "epochs": 3,
        "folder": None if place is None else Folder(place / "run", marks=place / "marks", checkpoint_every=5),
    } | options
    return make_private(settings.pop("model", model), settings.pop("optimizer"), settings.pop("data"), **settings)


def flat(run: TorchRun) -> np.ndarray:
    return torch.cat([each.detach().reshape(-1) for each in run.model.parameters()]).numpy()


def test_an_interrupted_run_ends_with_the_model_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with the state of Adam, from the same order, key and nonces."""
    monkeypatch.setattr(torch_run, "batches", partial(batches, rng=0))
    found = []
    for stop in (12, 7):
        place = tmp_path / str(stop)
        with counted():
            run = command(place)
            for batch in run:
                run.step(batch)
                if run.position == stop:
                    break
            run.close()
        with counted(1 + stop):  # after the key and a nonce for each step
            run = command(place)
            assert run.position == stop
            for batch in run:
                run.step(batch)
        assert run.position == 12
        again = command(place)
        assert list(again) == []
        np.testing.assert_array_equal(flat(again), flat(run))
        found.append(flat(run))
    np.testing.assert_array_equal(found[0], found[1])


def test_the_order_is_drawn_once(tmp_path: Path) -> None:
    orders = []
    for _ in range(2):
        run = command(tmp_path)
        assert run.batches is not None
        orders.append(run.batches.orders)
        run.close()
    np.testing.assert_array_equal(orders[0], orders[1])
    assert np.any(orders[0] != command(tmp_path / "other").batches.orders)  # type: ignore[union-attr]


def test_the_noise_that_was_found_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from corrnoise.simulations.run import engines

    run = command(tmp_path)
    who = Participation.fixed_epochs(12, epochs=3)
    assert run.participation == who
    assert run.program.mechanism.mean_error(who) < 0.99 * DPSGD().mean_error(who)
    run.close()
    monkeypatch.setattr(engines, "best_buffers", lambda *given: DPSGD())
    again = command(tmp_path)
    assert again.program.mechanism == run.program.mechanism
    again.close()
    with pytest.raises(ValueError, match="mechanism was None, is 'DPSGD"):
        command(tmp_path, mechanism=DPSGD())


def test_a_gradient_leaves_the_model_and_another_batch_is_refused() -> None:
    run = command(None)
    before = flat(run)
    batch = run.next_batch()
    for wrong in (batch[::-1], batch[:-1], np.delete(np.arange(EXAMPLES), batch)[:BATCH]):
        with pytest.raises(ValueError, match="the one that the run has handed out for step 0"):
            run.gradient(wrong)
    assert run.position == 0
    run.gradient(batch)
    np.testing.assert_array_equal(flat(run), before)
    run.optimizer.step()
    assert np.all(flat(run) != before)
    with pytest.raises(RuntimeError, match="no batch was handed out"):
        run.gradient(run.batches.batch(1))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": (torch.zeros(3, 6), torch.zeros(2))}, "data must be a tuple"),
        ({"data": [torch.zeros(3, 6), torch.zeros(3)]}, "data must be a tuple"),
        ({"batch_size": 51}, "batch_size must"),
        ({"epochs": 0}, "epochs must"),
        ({"model": torch.nn.Linear(6, 3)}, "exactly the parameters of the model"),
        ({"budget": Budget(rho=0.4)}, "rho was 0.5, is 0.4"),
        ({"batch_size": 25}, "batch size was 12, is 25"),
    ],
)
def test_what_the_run_does_not_cover_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    command(tmp_path).close()
    with pytest.raises(ValueError, match=message):
        command(tmp_path, **change)


def test_models_of_half_precision_are_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    model = torch.nn.Linear(6, 3).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(ValueError, match=r"parameters must be of float32 or float64, got torch\.bfloat16"):
        command(tmp_path, model=model, optimizer=optimizer)
    assert not (tmp_path / "run").exists()


def test_the_script_of_the_page_is_killed_and_goes_on(tmp_path: Path) -> None:
    """Its accuracy is about 0.88; an untrained model has 0.1.  The third start trains nothing."""
    pytest.importorskip("sklearn")
    (tmp_path / "train.py").write_text("import torch\ntorch.set_num_threads(1)\n" + script("PyTorch"))
    root = Path(__file__).parents[3]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "LOCALAPPDATA": str(tmp_path / "state"),
    }
    start = [sys.executable, "train.py"]
    journal = tmp_path / "digits/journal"
    with subprocess.Popen(start, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as first:
        until = time.monotonic() + 300
        while not journal.exists() or journal.read_bytes().count(b"\n") < 50:
            assert first.poll() is None
            assert time.monotonic() < until
            time.sleep(0.01)
        first.kill()
    begun = journal.read_bytes().count(b"\n")
    assert 50 <= begun < 400
    found = []
    for _ in range(2):
        ended = subprocess.run(
            start, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True
        )
        to_come, accuracy = re.findall(r"(\d+) steps to come\n(0\.\d\d), The noisy sums of all 400", ended.stdout)[0]
        found.append((int(to_come), float(accuracy)))
    assert 400 - begun <= found[0][0] <= 400 - begun + 20 + 1  # from the last checkpoint on, once an epoch
    assert found[0][1] > 0.7
    assert found[1] == (0, found[0][1])
