"""Audits of the package's own runs: runs with a folder through crashes, and the adapters with models of layers.

The keys of the runs are not seeded: the level is 1e-6.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax as jax_adapter
from corrnoise.simulations.adapters import jax_transforms
from corrnoise.simulations.adapters import torch as torch_adapter
from corrnoise.simulations.audit import audit
from corrnoise.simulations.auditing.loops import Stepwise
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.auditing.findings import Audit
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.broken_loops import SMALL, clipped

NOISE = NuFTRL(0.02)
EPOCHS = Participation.fixed_epochs(12, epochs=3)
BUDGET = Budget(epsilon=5.0, delta=1e-5, adjacency="replace-one")
PROGRAM = streaming(NOISE, EPOCHS, "float32")
IDLE = 184
SIZE = 416 + IDLE


def audited(loop: Any, **options: Any) -> Audit:
    return audit(loop, (BUDGET, PROGRAM), factor=4.0, idle=IDLE, level=1e-6, rng=1, **options)


def run_for(given: Sequence[np.ndarray]) -> tuple[PrivateRun, int]:
    """A run with room for the largest batch, and this number of examples."""
    examples = max(len(gradients) for gradients in given)
    order = batches(EPOCHS, examples * EPOCHS.period, examples, rng=0)
    return PrivateRun(BUDGET, EPOCHS, NOISE, SIZE, batches=order, dtype="float32"), examples


# -- crashes -----------------------------------------------------------------------------------------------------------


class Kept:
    """A run in a folder."""

    ahead = 1

    def begin(self, folder: Path) -> int:
        marks = folder.with_name("marks")
        place = Folder(folder, marks=marks, ahead=self.ahead, checkpoint_every=5)
        self.run = PrivateRun(BUDGET, EPOCHS, NOISE, SIZE, folder=place, dtype="float32")
        return self.run.position

    def step(self, gradients: np.ndarray) -> np.ndarray:
        self.run.next_batch()
        return self.run.add_noise(clipped(gradients))


class Ahead(Kept):
    ahead = 3


class Deleted(Kept):
    """The folder and its outside marks are deleted at each restart."""

    def begin(self, folder: Path) -> int:
        for place in (folder, folder.with_name("marks")):
            shutil.rmtree(place, ignore_errors=True)
        return super().begin(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loop", "cause", "skipped"),
    [(Kept, "", 0), (Ahead, "", 2), (Deleted, "a step is released twice, with other noise (step 1)", 0)],
)
def test_a_run_with_a_folder_through_crashes(loop: type[Stepwise], cause: str, skipped: int) -> None:
    found = audited(loop, restarts=(5, 8))
    assert found.cause == cause, found.report()
    assert found.skipped == skipped


# -- models ------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, list[tuple[int, ...]]] = {
    "perceptron": [(20, 20), (20,), (9, 20)],
    "convolution": [(6, 3, 3, 3), (6,), (432,)],
}


def padded(gradients: np.ndarray, number: int) -> np.ndarray:
    """As many examples as the batch has, some without a gradient."""
    examples = np.zeros((number, SIZE), dtype=np.float32)
    examples[: len(gradients)] = gradients
    return examples


@pytest.mark.slow
@pytest.mark.parametrize(("model", "share"), [("convolution", 1.0), ("perceptron", 0.5)])
def test_models_of_torch(model: str, share: float) -> None:
    """The gradient of an example is the example."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)

    class Layers(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ParameterList([torch.randn(shape) for shape in SHAPES[model]])

        def forward(self, inputs: Any) -> Any:
            return inputs @ torch.nn.utils.parameters_to_vector(self.parameters())

    def loop(given: Sequence[np.ndarray]) -> np.ndarray:
        run, number = run_for(given)
        layers = Layers()
        released = []
        for _, gradients in zip(run, given, strict=True):
            torch_adapter.private_gradient(
                run,
                layers,
                lambda out, target: out.sum(),
                (torch.from_numpy(padded(gradients, number)), torch.zeros(number)),
            )
            noisy = number * torch.cat([layer.grad.reshape(-1) for layer in layers.parameters()]).numpy()
            released.append(noisy + (share - 1) * (noisy - clipped(gradients)))
        return np.array(released)

    found = audited(loop)
    assert found.cause == ("" if share == 1 else SMALL), found.report()


@pytest.mark.slow
def test_trees_of_jax() -> None:
    jax = pytest.importorskip("jax")
    tree = {"embedding": jax.numpy.ones((25, 20)), "dense": [jax.numpy.ones((4, 20)), jax.numpy.ones(20)]}

    def loss(parameters: Any, example: Any) -> Any:
        return jax.numpy.concatenate([leaf.ravel() for leaf in jax.tree.leaves(parameters)]) @ example

    def loop(given: Sequence[np.ndarray]) -> np.ndarray:
        run, number = run_for(given)
        released = []
        for _, gradients in zip(run, given, strict=True):
            noisy = jax_adapter.private_gradient(run, loss, tree, padded(gradients, number))
            released.append(number * np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(noisy)]))
        return np.array(released)

    found = audited(loop)
    assert found.cause == "", found.report()


@pytest.mark.slow
def test_the_transformation_of_optax() -> None:
    pytest.importorskip("optax")
    jax = pytest.importorskip("jax")

    def loop(given: Sequence[np.ndarray]) -> np.ndarray:
        noise = jax_transforms.correlated_noise(BUDGET, EPOCHS, NOISE)
        update = jax.jit(noise.update)
        state = noise.init(np.zeros(SIZE, np.float32))
        released = []
        for gradients in given:
            noisy, state = update(clipped(gradients).astype(np.float32), state)
            released.append(noisy)
        return np.array(released)

    found = audited(loop)
    assert found.cause == "", found.report()
