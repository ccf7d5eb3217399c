"""Audits of runs of ``make_private``: the auditor's gradients take the place of the examples' own.

The level is 1e-6.  Each fault of an adapter is a mutant that an audit must name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax as jax_adapter
from corrnoise.simulations.adapters import jax_run, torch_run, training
from corrnoise.simulations.adapters import torch as torch_adapter
from corrnoise.simulations.adapters.training import UnprotectedWarning
from corrnoise.simulations.audit import audit
from corrnoise.simulations.run import draws, model_noise
from corrnoise.simulations.run.folder import Folder
from corrnoise.theory.auditing.findings import Audit
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.broken_loops import ANOTHER_RUN, MORE_THAN_CLAIMED, SMALL
from tests.simulations.adapters.pages import script

OPTIONS: dict[str, Any] = {
    "budget": Budget(epsilon=5.0, delta=1e-5),
    "batch_size": 10,
    "epochs": 2,
    "mechanism": NuFTRL(0.05),
}
POISSON = {"epochs": None, "participation": Participation.poisson(10, 0.5), "mechanism": DPSGD()}


def of_torch(**changed: Any) -> Any:
    """A run of two layers, with a bias that is not trained."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    model[0].bias.requires_grad = False
    optimizer = torch.optim.SGD((each for each in model.parameters() if each.requires_grad), lr=0.1)
    data = torch.randn(20, 6), torch.randint(3, (20,))
    loss = torch.nn.functional.cross_entropy
    return torch_run.make_private(model, optimizer, data, loss=loss, **(OPTIONS | changed))


def of_jax(**changed: Any) -> Any:
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    tree = {"weights": np.zeros((6, 3), np.float32), "bias": np.zeros(3, np.float32)}
    data = np.ones((20, 6), np.float32), np.zeros(20, np.int32)

    def loss(parameters: Any, inputs: Any, target: Any) -> Any:
        return -jax.nn.log_softmax(inputs @ parameters["weights"] + parameters["bias"])[target]

    return jax_run.make_private(tree, optax.sgd(0.1), data, loss=loss, **(OPTIONS | changed))


def audited(run: Any, **options: Any) -> Audit:
    return audit(run.audited(), run, **({"factor": 30.0, "idle": 40, "level": 1e-6, "rng": 1} | options))


def half_the_noise(made: Any) -> Any:
    return lambda *given, **options: made(*given, **options) / 2


def longer(clipped: Any) -> Any:
    return lambda samples, clip_norm, *rest, **options: clipped(samples, 1.5 * clip_norm, *rest, **options)


def last_outside(clipped: Any) -> Any:
    """The last parameter is clipped by itself."""

    def changed(samples: Any, *rest: Any, **options: Any) -> Any:
        parts = [clipped(some, *rest, **options) for some in (samples[:-1], samples[-1:])]
        return torch_adapter.Clipped([*parts[0].sums, *parts[1].sums], parts[0].norms)

    return changed


REFUSED = "the loop raised ValueError: total must have a norm of at most"  # the run itself notices it

#: Faults: the function to change, and the cause.
FAULTS: dict[str, tuple[Any, str, Any, str]] = {
    "half the noise": (model_noise, "step_scale", half_the_noise, SMALL),
    "1.5 times the clipping norm": (torch_adapter, "clipped", longer, REFUSED),
    "the last parameter outside the norm": (torch_adapter, "clipped", last_outside, MORE_THAN_CLAIMED),
    "one key": (draws, "fresh", lambda fresh: lambda size: bytes(size), ANOTHER_RUN),
}
QUICK = "the last parameter outside the norm"


def test_the_run_of_the_page_is_as_claimed() -> None:
    pytest.importorskip("torch").set_num_threads(1)
    scope: dict[str, Any] = {}
    with pytest.warns(UnprotectedWarning):
        exec(script("Audit"), scope)
    run, found = scope["run"], scope["found"]
    assert (scope["exact"].verdict, scope["exact"].move <= 1) == ("nothing found", True)
    assert found.verdict == "nothing found", found.report()
    assert found.mu_lower_bound > 0.6 * found.mu
    assert (run.position, run.handed) == (0, None)  # the run itself is untouched


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each != QUICK)) for each in FAULTS])
def test_a_fault_of_the_adapter_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, function, change, cause = FAULTS[name]
    run = of_torch()
    monkeypatch.setattr(place, function, change(getattr(place, function)))
    found = audited(run)
    assert found.cause.startswith(cause), found.report()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"release": "float", "sums": "float32"}, {"clipping": "ghost"}], ids=str)
def test_other_options_of_torch(options: dict[str, Any]) -> None:
    found = audited(of_torch(**options))
    assert found.verdict == "nothing found", found.report()


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, POISSON], ids=["epochs", "poisson"])
def test_a_run_of_jax_is_as_claimed(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    run = of_jax(**options)
    found = audited(run, idle=100, factor=4.0)
    assert found.verdict == "nothing found", found.report()
    monkeypatch.setattr(jax_adapter, "batches_of", Half)
    assert audited(run, idle=100, factor=4.0).verdict != "nothing found"


class Half:
    """The batches of a run whose sums are divided by half of the batch size."""

    def __init__(self, run: Any) -> None:
        self.batch_size = training.batches_of(run).batch_size / 2


@pytest.mark.parametrize("made", [of_torch, of_jax])
def test_a_run_with_a_folder_is_not_audited(made: Any, tmp_path: Path) -> None:
    run = made(folder=Folder(tmp_path / "run", marks=tmp_path / "marks"))
    with pytest.raises(ValueError, match="run must have no folder, no account and one process to be audited"):
        run.audited()
