"""A small network, its data, and private runs that train it, for the tests of PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters.torch import private_gradient, trainable_size
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

NOISE = NuFTRL(0.05)
BUDGET = Budget(rho=0.5)
EXAMPLES = 50
BATCH = 12
EPOCHS = Participation.fixed_epochs(20, epochs=5)


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return torch.tensor(rng.normal(size=(EXAMPLES, 6)), dtype=torch.float32), torch.tensor(
        rng.integers(3, size=EXAMPLES)
    )


def network() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))


def flat(model: Any) -> Any:
    return torch.cat([each.detach().reshape(-1) for each in model.parameters()])


def by_hand(mechanism: Any = NOISE, **options: Any) -> tuple[Any, PrivateRun]:
    model = network()
    settings = {"batches": batches(EPOCHS, EXAMPLES, BATCH, 0), **options}
    with known_key():
        return model, PrivateRun(BUDGET, EPOCHS, mechanism, trainable_size(model), **settings)


def trained_by_hand(steps: int) -> Any:
    model, run = by_hand()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.5)
    inputs, targets = data()
    for batch in run:
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[batch], targets[batch]))
        optimizer.step()
        if run.position == steps:
            break
    run.close()
    return flat(model)


def command(place: Path | None, **options: Any) -> TorchRun:
    """A run of a network with dropout by ``make_private``; ``options`` replace its arguments."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Dropout(), torch.nn.Linear(4, 3))
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


def with_rate(rate: float) -> dict[str, Any]:
    """The network and its optimizer with a learning rate, as arguments of ``command``."""
    model = network()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=rate)}
