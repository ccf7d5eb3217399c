"""A private run of a model of PyTorch: the same command starts it, resumes it, and loads the trained model."""

from __future__ import annotations

import itertools
import random
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import torch_random, training
from corrnoise.simulations.adapters.torch_items import Examples
from corrnoise.simulations.adapters.torch_layers import check_layers
from corrnoise.simulations.run import durable
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.proved import integers
from corrnoise.solvers.default import default_noise
from corrnoise.theory.mechanisms.product import DPSGD, ProductNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.small_network import BATCH, EXAMPLES, command, data, flat, with_rate
from tests.simulations.run.sources import KEY, counted, known_key

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

DATA = tuple(each.numpy() for each in data())


def test_an_interrupted_run_ends_with_the_model_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, with the state of Adam and of dropout, from the same order, key and nonces."""
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
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
        np.testing.assert_array_equal(flat(again.model).numpy(), flat(run.model).numpy())
        found.append(flat(run.model).numpy())
    np.testing.assert_array_equal(found[0], found[1])


def test_with_other_seeds_dropout_would_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant has seeds that no resumed run knows."""
    others = itertools.count()
    monkeypatch.setattr(torch_loop, "seeded", lambda seed: torch_random.seeded(next(others)))
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        test_an_interrupted_run_ends_with_the_model_of_one_that_was_not(tmp_path, monkeypatch)


def test_the_generators_of_all_gpus_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [torch.tensor([number], dtype=torch.uint8) for number in range(3)]
    found = {}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_rng_state_all", lambda: states)
    kept = torch_random.TorchGenerators().save()
    assert set(kept) == {"cpu", "cuda 0", "cuda 1", "cuda 2"}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)  # one is gone
    monkeypatch.setattr(torch.cuda, "set_rng_state", lambda state, number: found.update({number: int(state)}))
    first = torch.rand(3)
    torch_random.TorchGenerators().load(kept)
    assert found == {0: 0, 1: 1}
    assert torch.equal(torch.rand(3), first)


def test_the_order_is_drawn_once(tmp_path: Path) -> None:
    orders = []
    for _ in range(2):
        run = command(tmp_path)
        assert run.batches is not None
        orders.append(run.batches.orders)  # type: ignore[union-attr]
        run.close()
    np.testing.assert_array_equal(orders[0], orders[1])
    assert np.any(orders[0] != command(tmp_path / "other").batches.orders)  # type: ignore[union-attr]


def test_the_noise_that_was_found_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = command(tmp_path)
    who = Participation.fixed_epochs(12, epochs=3)
    assert run.participation == who
    assert run.program.mechanism == streaming(default_noise(who), who).mechanism
    run.close()
    monkeypatch.setattr(training, "default_noise", mock.Mock(side_effect=AssertionError))
    again = command(tmp_path)
    assert again.program.mechanism == run.program.mechanism
    again.close()
    with pytest.raises(ValueError, match="mechanism was None, is 'DPSGD"):
        command(tmp_path, mechanism=DPSGD())


def test_a_gradient_leaves_the_model_and_another_batch_is_refused() -> None:
    run = command(None)
    before = flat(run.model).numpy()
    batch = run.next_batch()
    for wrong in (batch[::-1], batch[:-1], np.delete(np.arange(EXAMPLES), batch)[:BATCH]):
        with pytest.raises(ValueError, match="the one that the run has handed out for step 0"):
            run.gradient(wrong)
    assert run.position == 0
    run.gradient(batch)
    np.testing.assert_array_equal(flat(run.model).numpy(), before)
    run.optimizer.step()
    assert np.all(flat(run.model).numpy() != before)
    with pytest.raises(RuntimeError, match="no batch was handed out"):
        run.gradient(run.batches.batch(1))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": (torch.zeros(3, 6), torch.zeros(2))}, "data must be a tuple"),
        (
            {"data": (torch.zeros(50, 6), torch.zeros(50), torch.zeros(50))},
            r"pairs \(inputs, target\) or dictionaries, got 3 parts.*item=",
        ),
        ({"batch_size": 51}, "batch_size must"),
        ({"epochs": 0}, "epochs must"),
        ({"model": torch.nn.Linear(6, 3)}, "exactly the parameters of the model"),
        ({"budget": Budget(rho=0.4)}, "rho was 0.5, is 0.4"),
        ({"batch_size": 25}, "batch size was 12, is 25"),
        ({"data": (data()[0] + 1e-6, data()[1])}, "began: data digest differs: repeat the settings"),
        ({"data": (data()[0].double(), data()[1])}, "must work on .* made-up example .* same dtype"),
        ({"data": (data()[0][:49], data()[1][:49])}, r"data was 'float32 \(50, 6\), int64.*is 'float32 \(49, 6\)"),
        (
            {"loss": torch.nn.functional.multi_margin_loss},
            "loss was '[^']*cross_entropy', is '[^']*multi_margin_loss': repeat the settings",
        ),
        (
            {"loss": torch.nn.CrossEntropyLoss(label_smoothing=0.1)},
            r"Loss\(.*label_smoothing=0.1, reduction='mean'",
        ),
        ({"carry": {"more": torch.nn.Linear(1, 1)}}, "carried was '', is 'more: Linear': repeat the settings"),
        ({"carry": {"more": 1}}, "carry must be objects with state_dict"),
        ({"carry": {"model": torch.nn.Linear(1, 1)}}, "carry must be objects with state_dict"),
    ],
)
def test_what_the_run_does_not_cover_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    command(tmp_path).close()
    with pytest.raises(ValueError, match=message):
        command(tmp_path, **change)


class Items(torch.utils.data.Dataset):  # type: ignore[name-defined]
    """Examples by the names of their parts."""

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, number: int) -> Any:
        return {"input": data()[0][number], "target": data()[1][number]}


def test_a_stranger_is_told_what_is_wrong(tmp_path: Path) -> None:
    """Before there is a folder, where possible; the same call with valid arguments is accepted."""

    def refused(
        model: Any, message: str, kind: Any = ValueError, optimizer: Any = torch.optim.SGD, **change: Any
    ) -> None:
        with pytest.raises(kind, match=message):
            command(tmp_path, model=model, optimizer=optimizer(model.parameters(), lr=0.1), **change)
        assert not (tmp_path / "run").exists()

    plain = torch.nn.Linear(6, 3)
    both = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.Linear(3, 3, dtype=torch.complex64))
    words = torch.nn.Sequential(torch.nn.Embedding(20, 3, sparse=True), torch.nn.Flatten(), torch.nn.Linear(18, 3))
    refused(both, r"parameters must be of float32 or float64 or bfloat16 or float16, got torch\.complex64")
    refused(words, "layer '0' must have sparse=False")
    refused(plain, "optimizer must take steps without a closure, got LBFGS", optimizer=torch.optim.LBFGS)
    refused(plain, "got ndarray in place of a tensor", TypeError, data=DATA)
    refused(plain, "data must have at least one example", data=(torch.zeros(0, 6), torch.zeros(0)))
    refused(plain, "loss must be a function, got None", TypeError, loss=None)
    none = torch.nn.CrossEntropyLoss(reduction="none")
    refused(plain, r"loss must return a number, a tensor without axes, got shape \(1,\)", loss=none)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*data()), batch_size=5)
    refused(plain, r"pass loader\.dataset as data and its batch_size as batch_size", TypeError, data=loader)
    refused(plain, "made-up example .* unexpected keyword argument", data=Items())
    for each in (torch.nn.Linear(6, 3).double(), torch.nn.Sequential(torch.nn.Embedding(20, 3), *words[1:])):
        check_layers(each)
        torch_loop.check_optimizers(each, [torch.optim.Adam(each.parameters())])


class Scaled(torch.nn.Module):  # type: ignore[name-defined]
    """Scores times a trained number, with a trained vector of none."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)
        self.scale = torch.nn.Parameter(torch.ones(()))
        self.nothing = torch.nn.Parameter(torch.ones(3, 0))

    def forward(self, x: Any) -> Any:
        return self.layer(x) * self.scale


@pytest.mark.parametrize("clipping", ["example", "ghost"])
def test_a_model_with_a_trained_number_trains(clipping: Any) -> None:
    model = Scaled()
    run = command(None, model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), clipping=clipping)
    for batch in run:
        run.step(batch)
    assert run.size == 22
    assert float(model.scale.detach()) != 1.0


def test_a_name_stands_for_the_data(tmp_path: Path) -> None:
    def named(name: str | None) -> Folder:
        return Folder(tmp_path / "run", marks=tmp_path / "marks", data=name)

    command(None, folder=named("digits 3")).close()
    command(None, folder=named("digits 3"), data=(data()[0] + 1, data()[1])).close()
    with pytest.raises(ValueError, match=r"began: data was 'digits 3', is 'digits 4': repeat the settings"):
        command(None, folder=named("digits 4"))
    with pytest.raises(ValueError, match="data was 'digits 3', is 'float32"):
        command(None, folder=named(None))


def test_another_optimizer_or_model_is_refused_and_another_version_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command(tmp_path, **with_rate(0.5)).close()
    with pytest.raises(
        ValueError,
        match=r"the optimizer was 'SGD\(.*lr=0.5.*' when the run began, is 'SGD\(.*lr=0.25.*changed='optimizer'",
    ):
        command(tmp_path, **with_rate(0.25))
    wider = torch.nn.Sequential(torch.nn.Linear(6, 5, bias=False), torch.nn.Linear(5, 2, False), torch.nn.Linear(2, 1))
    assert sum(each.numel() for each in wider.parameters()) == 43
    with pytest.raises(ValueError, match=r"parameter 0.weight was 'float32 \(4, 6\)', is 'float32 \(5, 6\)'"):
        command(
            tmp_path,
            model=wider,
            optimizer=torch.optim.SGD(wider.parameters(), lr=0.5),
            loss=lambda outputs, target: (outputs[:, 0] - target).square().mean(),
        )
    monkeypatch.setattr(durable, "__version__", "77.0")
    command(tmp_path, **with_rate(0.5)).close()


def test_a_resumed_run_may_change_the_learning_rate(tmp_path: Path) -> None:
    """Only if it says so; the new rate wins over the checkpoint, and the momentum is kept."""
    chosen = with_rate(0.5)
    chosen["optimizer"] = torch.optim.SGD(chosen["model"].parameters(), lr=0.5, momentum=0.9)
    run = command(tmp_path, **chosen)
    for batch in run:
        run.step(batch)
        if run.position == 5:
            break
    run.close()
    kept = run.optimizer.state_dict()["state"]
    rates = []
    for changed in ("optimizer", None):
        chosen = with_rate(0.25)
        chosen["optimizer"] = torch.optim.SGD(chosen["model"].parameters(), lr=0.25, momentum=0.9)
        run = command(tmp_path, **chosen, changed=changed)
        rates.append(run.optimizer.param_groups[0]["lr"])
        if changed:
            for number, state in run.optimizer.state_dict()["state"].items():
                assert torch.equal(state["momentum_buffer"], kept[number]["momentum_buffer"])
        run.step(next(iter(run)))
        run.close()  # the checkpoint has the new rate
    assert rates == [0.25, 0.25]
    with pytest.raises(ValueError, match="changed must be 'optimizer' or None, got 'model'"):
        command(tmp_path, **with_rate(0.25), changed="model")


def test_several_optimizers_share_the_parameters(tmp_path: Path) -> None:
    found = []
    for several in (False, True):
        model = with_rate(0.5)["model"]
        torch.manual_seed(2)
        for each in model.parameters():
            torch.nn.init.normal_(each)
        first, second = list(model[0].parameters()), list(model[2].parameters())
        optimizers = [torch.optim.SGD(part, lr=0.5) for part in (first, second)]
        place = tmp_path / str(several)
        for stop in (5, 12):
            with mock.patch.object(training, "batches", partial(batches, rng=0)), counted(0 if stop == 5 else 6):
                run = command(
                    place, model=model, optimizer=optimizers if several else torch.optim.SGD(model.parameters(), lr=0.5)
                )
                for batch in run:
                    run.step(batch)
                    if run.position == stop < 12:
                        break
                run.close()
        found.append(flat(run.model).numpy())
    np.testing.assert_array_equal(found[0], found[1])
    with pytest.raises(ValueError, match="each once"):
        command(tmp_path / "other", model=model, optimizer=[*optimizers, optimizers[0]])


def test_a_schedule_of_learning_rates_goes_on(tmp_path: Path) -> None:
    rates = []
    for stop in (5, 12):
        chosen = with_rate(0.5)
        schedule = torch.optim.lr_scheduler.MultiStepLR(chosen["optimizer"], [3, 8], 0.5)
        run = command(tmp_path, **chosen, carry={"schedule": schedule})
        for batch in run:
            run.step(batch)
            schedule.step()
            rates.append(schedule.get_last_lr()[0])
            if run.position == stop:
                break
        run.close()
    assert rates == [0.5] * 2 + [0.25] * 5 + [0.125] * 5


class Noisy(torch.utils.data.Dataset):  # type: ignore[name-defined]
    """Inputs that are changed at random each time that they are read."""

    def __init__(self, shift: float = 0.0) -> None:
        self.shift = shift

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, number: int) -> Any:
        inputs, targets = data()
        return inputs[number] + torch.rand(6) + np.random.rand() + random.random() + self.shift, targets[number]  # noqa: NPY002


def test_data_sets_that_draw_are_compared_and_go_on(tmp_path: Path) -> None:
    command(tmp_path, data=Noisy()).close()
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    own = Examples(Noisy()).identity()
    assert torch.equal(torch.rand(2), expected)
    assert own["data"] == "Noisy: float32 (6,), int64 ()"
    command(tmp_path, data=Noisy()).close()
    with pytest.raises(ValueError, match=r"began: data digest differs: repeat the settings"):
        command(tmp_path, data=Noisy(1e-3))


def test_a_data_set_trains_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
    found = []
    for given in (data(), torch.utils.data.TensorDataset(*data())):
        with counted():
            run = command(None, data=given)
        for batch in run:
            run.step(batch)
        found.append(flat(run.model).numpy())
    np.testing.assert_array_equal(found[0], found[1])


def test_proved_releases_have_the_integers_of_the_host() -> None:
    """The gradient of a loss without slope is the noise alone."""

    def level(scores: Any, digits: Any) -> Any:
        return 0.0 * scores.sum()

    sections = ProductNoise([0.001, 0.02, 0.004, 0.05], [1, 1, -1, -1])
    with known_key():
        run = command(None, release="proved", mechanism=sections, loss=level)
    grid = run.grid
    assert grid is not None
    assert run.level == "proved"
    given: dict[str, Any] = {"scale": run.scale, "unit": grid.unit, "coordinates": range(run.size), "steps": 3}
    for numbers in integers(run.program, KEY, **given):
        run.gradient(run.next_batch())
        found = torch.cat([each.grad.reshape(-1) for each in run.model.parameters()]).numpy()
        np.testing.assert_array_equal(found, (numbers * grid.unit).astype(np.float32) / np.float32(BATCH))
