"""Private training by Opacus: the model of the other loops, noise once a logical batch, workers, several processes.

Skipped where it is not installed (``pip install '.[opacus]'``).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters.opacus import make_private, optimizer_class
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.mechanisms.tree import BinaryTree
from tests.simulations.adapters.processes import made_by
from tests.simulations.adapters.small_network import (
    BATCH,
    BUDGET,
    NOISE,
    by_hand,
    data,
    flat,
    network,
    step,
    trained_by_hand,
    with_opacus,
)

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")
memory = pytest.importorskip("opacus.utils.batch_memory_manager")
torch.set_num_threads(1)


def test_opacus_and_torch_func_make_the_same_model() -> None:
    model, optimizer, loader = with_opacus()
    for inputs, targets in loader:
        step(model, optimizer, inputs, targets)
    assert optimizer.run.position == 20
    assert list(loader) == []
    optimizer.run.close()
    np.testing.assert_allclose(flat(model).numpy(), trained_by_hand(20).numpy(), atol=5e-6)


def test_physical_batches_get_noise_once_for_each_logical_one() -> None:
    found = []
    for physical in (BATCH, 5):
        model, optimizer, loader = with_opacus()
        with memory.BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=physical, optimizer=optimizer
        ) as batches:
            for inputs, targets in batches:
                step(model, optimizer, inputs, targets)
        assert optimizer.run.position == 20
        optimizer.run.close()
        found.append(flat(model).numpy())
    np.testing.assert_allclose(found[0], found[1], atol=2e-6)


@pytest.mark.parametrize("mechanism", [NOISE, DPSGD(), BinaryTree(20)], ids=repr)
def test_the_same_command_goes_on_and_a_crash_loses_nothing(mechanism: Any, tmp_path: Path) -> None:
    """The order is drawn once, and the noisy sums of the steps after the last checkpoint are kept."""
    for last in (6, 9, 100):
        wrapped, wrapper, loader = with_opacus(mechanism, order=None, folder=tmp_path / "run")
        assert wrapper.run.position == {6: 0, 9: 4, 100: 8}[last]
        assert len(loader) == 20 - wrapper.run.position
        assert wrapper.run.skipped == 0
        for inputs, targets in loader:
            step(wrapped, wrapper, inputs, targets)
            if wrapper.run.position == last:
                wrapper.run._durable.home.close()  # the process dies
                break
    assert wrapper.run.position == 20
    assert KEYS.isdisjoint(wrapper.state_dict())
    again, _, loader = with_opacus(mechanism, order=None, folder=tmp_path / "run")
    assert list(loader) == []
    np.testing.assert_array_equal(flat(again).numpy(), flat(wrapped).numpy())
    with pytest.raises(ValueError, match=r"loss was '[^']*cross_entropy', is '[^']*multi_margin_loss'"):
        with_opacus(mechanism, folder=tmp_path / "run", loss=torch.nn.functional.multi_margin_loss)


def test_the_loss_says_how_it_adds_up() -> None:
    found = []
    for reduction in ("mean", "sum"):
        loss = torch.nn.CrossEntropyLoss(reduction=reduction)
        model, _, loader = with_opacus(loss=loss)
        inputs, targets = next(iter(loader))
        loss(model(inputs), targets).backward()
        found.append(next(model.parameters()).grad_sample.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)
    assert with_opacus(loss=partial(torch.nn.functional.cross_entropy, reduction="sum"))[0].loss_reduction == "sum"
    with pytest.raises(ValueError, match="loss must have the reduction 'mean' or 'sum', got 'none'"):
        with_opacus(loss=torch.nn.CrossEntropyLoss(reduction="none"))


KEYS = {"corrnoise", "key", "memory"}


def test_a_state_is_taken_between_logical_batches_and_sums_are_long_enough() -> None:
    model, optimizer, _ = with_opacus()
    inputs, targets = data()
    optimizer.signal_skip_step()
    step(model, optimizer, inputs[:5], targets[:5])
    with pytest.raises(RuntimeError, match="between two logical batches"):
        optimizer.state_dict()
    _, run = by_hand()
    next(iter(run))
    for short in (torch.float16, torch.bfloat16):
        with pytest.raises(ValueError, match="sums must be of float32 or float64"):
            torch_loop.add_noise(run, [torch.zeros(run.size, dtype=short)])


def test_noise_and_clip_norm_cannot_be_changed() -> None:
    _, optimizer, _ = with_opacus()
    schedulers = pytest.importorskip("opacus.schedulers")
    for scheduler in (
        schedulers.ExponentialNoise(optimizer, gamma=0.9),
        schedulers.ExponentialGradClip(optimizer, gamma=0.9),
    ):
        with pytest.raises(AttributeError, match="must stay"):
            scheduler.step()
    accountant = pytest.importorskip("opacus.accountants").RDPAccountant()
    with pytest.raises(RuntimeError, match="do not cover correlated noise"):
        optimizer.attach_step_hook(accountant.get_optimizer_hook_fn(sample_rate=0.1))
    assert optimizer.epsilon(1e-5) == optimizer.run.epsilon(1e-5)
    assert optimizer.noise_multiplier == optimizer.run.multiplier
    for option in ({"secure_mode": True}, {"generator": torch.Generator()}, {"noise_multiplier": 1.0}):
        with pytest.raises(TypeError, match="unexpected keyword"):
            optimizer_class()(optimizer.original_optimizer, optimizer.run, **option)


def test_learning_rate_schedulers_work() -> None:
    model, optimizer, loader = with_opacus()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    inputs, targets = next(iter(loader))
    step(model, optimizer, inputs, targets)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.15)


def test_steps_that_are_not_those_of_the_order_are_refused() -> None:
    model, optimizer, loader = with_opacus()
    inputs, targets = data()
    with pytest.raises(RuntimeError, match="no batch was handed out for step 0"):
        step(model, optimizer, inputs[:BATCH], targets[:BATCH])
    model, optimizer, loader = with_opacus()
    inputs, targets = next(iter(loader))
    with pytest.raises(RuntimeError, match="must have the 12 examples of its batch, got 11"):
        step(model, optimizer, inputs[:11], targets[:11])
    model, optimizer, loader = with_opacus()
    with pytest.raises(RuntimeError, match="has got no noise"):
        list(loader)


@pytest.mark.parametrize("clipping", ["example", "ghost"])
def test_an_example_counts_once_in_its_batch(clipping: Any) -> None:
    """Two steps after one backward pass would add the same gradients twice, up to twice the clip norm each."""
    for again in (lambda wrapper: wrapper.step(), lambda wrapper: wrapper.clip_and_accumulate()):
        model, optimizer, loader = with_opacus(clipping=clipping)
        inputs, targets = next(iter(loader))
        optimizer.signal_skip_step()
        step(model, optimizer, inputs[:6], targets[:6])
        optimizer.signal_skip_step(False)
        with pytest.raises(RuntimeError, match="gradients of examples count once"):
            again(optimizer)
        assert optimizer.run.position == 0
        step(model, optimizer, inputs[6:], targets[6:])
        assert optimizer.run.position == 1


def test_accumulated_gradients_are_refused() -> None:
    model, optimizer, loader = with_opacus()
    model.allow_grad_accumulation()
    inputs, targets = next(iter(loader))
    for part in (slice(0, 6), slice(6, 12)):
        torch.nn.functional.cross_entropy(model(inputs[part]), targets[part]).backward()
    with pytest.raises(RuntimeError, match="must not be accumulated"):
        optimizer.step()


WORKERS = """
import sys
import torch
torch.set_num_threads(1)
from corrnoise.simulations.adapters.opacus import RunSampler
from tests.simulations.adapters.small_network import flat, step, with_opacus

def refused(use):
    try:
        use()
    except RuntimeError as error:
        assert "has got no noise" in str(error)
    else:
        raise AssertionError("a batch was handed out before the noise of the one before")

model, optimizer, loader = with_opacus(workers=2)
assert len(loader) == 20
for inputs, targets in loader:
    step(model, optimizer, inputs, targets)
    if optimizer.run.position == 3:
        break
for inputs, targets in loader:
    step(model, optimizer, inputs, targets)
assert optimizer.run.position == 20
torch.save(flat(model), sys.argv[1])

_, optimizer, loader = with_opacus(workers=1)
batches = iter(loader)
next(batches)
refused(lambda: next(batches))
_, optimizer, loader = with_opacus()
ahead = torch.utils.data.DataLoader(loader.dataset, batch_sampler=RunSampler(optimizer.run), num_workers=1)
refused(lambda: next(iter(ahead)))
"""


def test_workers_fetch_ahead_and_batches_come_in_step(tmp_path: Path) -> None:
    """In a process of its own, because workers are forked."""
    made_by(WORKERS, [str(tmp_path / "model")])
    found = torch.load(tmp_path / "model", weights_only=True)
    np.testing.assert_allclose(found.numpy(), trained_by_hand(20).numpy(), atol=5e-6)


def test_opacus_refuses_sums_of_half_precision_and_trains_under_autocast() -> None:
    model, optimizer, loader = with_opacus(sums="float32", release="float")
    batches_to_come = iter(loader)
    inputs, targets = next(batches_to_come)
    with torch.autocast("cpu", torch.bfloat16):
        step(model, optimizer, inputs, targets)
    assert optimizer.run.position == 1
    assert {each.grad.dtype for each in model.parameters()} == {torch.float32}
    inputs, targets = next(batches_to_come)
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.clip_and_accumulate()
    for each in model.parameters():
        each.summed_grad = each.summed_grad.bfloat16()
    with pytest.raises(ValueError, match="sums must be of float32"):
        optimizer.add_noise()
    assert optimizer.run.position == 1


def test_bad_data_sets_and_optimizers_are_refused() -> None:
    class Endless(torch.utils.data.IterableDataset):  # type: ignore[name-defined]
        def __iter__(self) -> Any:
            return iter(())

    model = network()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=1.0)
    chosen: Any = {"loss": None, "budget": BUDGET, "batch_size": BATCH, "epochs": 5, "mechanism": NOISE}
    with pytest.raises(ValueError, match="exactly the parameters of the model"):
        make_private(model, optimizer, data(), **chosen)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    for wrong in (Endless(), [1, 2]):
        with pytest.raises(TypeError, match=f"Dataset with items by number, got {type(wrong).__name__}"):
            make_private(model, optimizer, wrong, **chosen)


def test_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "opacus.validators", None)
    with pytest.raises(ImportError, match=r"corrnoise\[opacus\]"):
        with_opacus()


DISTRIBUTED = """
import sys
import torch
torch.set_num_threads(1)
from corrnoise.simulations.run.folder import Folder
from tests.simulations.adapters.test_opacus import by_hand, flat, optimizer_class, step, with_opacus
file, rank = sys.argv[1], int(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method="file://" + file, rank=rank, world_size=2)
model, optimizer, loader = with_opacus(order=0 if rank == 0 else 99)
for inputs, targets in loader:
    assert len(inputs) == 6
    step(model, optimizer, inputs, targets)
assert optimizer.run.position == 20
try:
    optimizer.run.add_noise(torch.zeros(43).numpy())
except RuntimeError as error:
    assert "no batch was handed out" in str(error)
else:
    raise AssertionError("noise after the last step")
torch.save(flat(model), file + str(rank))
model, optimizer, loader = with_opacus(order=0 if rank == 0 else 99, clipping="ghost")
for inputs, targets in loader:
    step(model, optimizer, inputs, targets)
torch.save(flat(model), file + f" ghost {rank}")
try:
    optimizer_class(distributed=True)(optimizer.original_optimizer, by_hand()[1])
except ValueError as error:
    assert "run must have the 2 processes" in str(error)
else:
    raise AssertionError("each process would add all noise")

for last, begun in ((7, 0), (20, 7)):
    model, optimizer, loader = with_opacus(folder=Folder(file + " run", marks=file + " marks"))
    assert (optimizer.run.position, optimizer.run.skipped) == (begun, 3 if begun else 0)
    for inputs, targets in loader:
        step(model, optimizer, inputs, targets)
        if optimizer.run.position == last:
            optimizer.run._durable.home.close()  # the processes die
            break
assert optimizer.run.position == 20
torch.save(flat(model), file + f" resumed {rank}")
torch.distributed.destroy_process_group()
"""


def test_two_processes_make_the_model_of_one_and_noise_once(tmp_path: Path) -> None:
    made_by(DISTRIBUTED, *([str(tmp_path / "meet"), str(rank)] for rank in range(2)))
    model, optimizer, loader = with_opacus()
    for inputs, targets in loader:
        step(model, optimizer, inputs, targets)
    for rank in range(2):
        found = torch.load(f"{tmp_path}/meet{rank}", weights_only=True)
        np.testing.assert_allclose(found.numpy(), flat(model).numpy(), atol=5e-6)
        ghost = torch.load(f"{tmp_path}/meet ghost {rank}", weights_only=True)
        np.testing.assert_allclose(ghost.numpy(), flat(model).numpy(), atol=2e-4)
    one, two = (torch.load(f"{tmp_path}/meet resumed {rank}", weights_only=True).numpy() for rank in range(2))
    np.testing.assert_array_equal(one, two)
    assert np.any(one != flat(model).numpy())
