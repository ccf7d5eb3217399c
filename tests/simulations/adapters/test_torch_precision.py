"""Models, losses and loops that compute in half precision, and the precision of products."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import training
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.run.batches import batches
from tests.simulations.adapters.small_network import command, data, with_rate
from tests.simulations.run.sources import counted

torch = pytest.importorskip("torch")


class Frozen(torch.nn.Module):  # type: ignore[name-defined]
    """A frozen layer of half precision inside of a model of single precision."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = torch.nn.Linear(6, 6).bfloat16().requires_grad_(requires_grad=False)
        self.trained = torch.nn.Linear(6, 3)

    def forward(self, inputs: Any) -> Any:
        return self.trained(self.frozen(inputs.bfloat16()).float())


def under_autocast(outputs: Any, targets: Any) -> Any:
    with torch.autocast("cpu", torch.bfloat16):
        return torch.nn.functional.cross_entropy(outputs @ torch.eye(3), targets)


def coarse(outputs: Any, targets: Any) -> Any:
    return torch.nn.functional.cross_entropy(outputs.bfloat16(), targets)


@pytest.mark.parametrize(
    ("model", "loss", "autocast"),
    [
        (Frozen(), torch.nn.functional.cross_entropy, False),
        (torch.nn.Linear(6, 3), under_autocast, False),
        (torch.nn.Linear(6, 3), coarse, False),
        (torch.nn.Linear(6, 3), torch.nn.functional.cross_entropy, True),
    ],
    ids=["frozen layer", "loss under autocast", "loss of half precision", "loop under autocast"],
)
def test_coarse_gradients_of_examples_are_clipped_in_single_precision(model: Any, loss: Any, autocast: bool) -> None:
    """The sum moves by at most the clip norm with one of 500 examples; rounded to bfloat16 it would move by more."""
    for each in model.parameters():
        each.data.fill_(0.0 if each.requires_grad else 0.3)
    inputs = torch.randn(1, 6, generator=torch.Generator().manual_seed(0)).expand(500, 6) * 50
    targets = torch.zeros(500, dtype=torch.int64)
    sums = []
    for count in range(480, 501):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = example_gradients(model, loss, (inputs[:count], targets[:count]))
            total = torch_loop.clipped_sum(list(found.values()), 0.1)
        assert {part.dtype for part in total} == {torch.float32}
        sums.append(torch.cat([part.reshape(-1) for part in total]).double())
    assert max(float((more - less).norm()) for less, more in itertools.pairwise(sums)) <= 0.1
    assert max(float((more.bfloat16() - less.bfloat16()).norm()) for less, more in itertools.pairwise(sums)) > 0.11


@pytest.mark.parametrize("layer", [0, 2])
def test_a_single_layer_of_half_precision_is_refused(layer: int, tmp_path: Path) -> None:
    chosen = with_rate(0.1)
    chosen["model"][layer].half()
    with pytest.raises(ValueError, match=r"parameters must be of float32 or float64, got torch\.float16"):
        command(tmp_path, **chosen, sums="float32", release="float")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_model_of_half_precision_trains_with_exact_sums(
    dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted, it ends with the bits of a run that was not."""
    monkeypatch.setattr(training, "batches", partial(batches, rng=0))
    inputs, targets = data()
    found = []
    for stop in (12, 7):
        with counted():
            for end in (stop, 12):
                torch.manual_seed(1)
                chosen = with_rate(0.25)
                chosen["model"].to(dtype)
                run = command(tmp_path / str(stop), data=(inputs.to(dtype), targets), **chosen)
                for batch in run:
                    run.step(batch)
                    if run.position == end:
                        break
                run.close()
        assert run.level == "grid"
        assert {each.dtype for each in run.model.parameters()} == {dtype}
        found.append(torch.cat([each.detach().float().reshape(-1) for each in run.model.parameters()]).numpy())
    np.testing.assert_array_equal(*found)


def test_models_of_half_precision_are_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    model = torch.nn.Linear(6, 3).bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    with pytest.raises(ValueError, match=r"parameters must be of float32 or float64, got torch\.bfloat16"):
        command(tmp_path, model=model, optimizer=optimizer, sums="float32", release="float")
    assert not (tmp_path / "run").exists()


def test_shorter_products_are_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    torch.set_float32_matmul_precision("high")
    try:
        with pytest.raises(ValueError, match="must be 'highest'"):
            command(tmp_path)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert not (tmp_path / "run").exists()
