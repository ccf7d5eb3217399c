"""Audits of the package's own runs: runs with a folder through crashes, and the noise for optax.

The level is 1e-6.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax_transforms
from corrnoise.simulations.audit import audit
from corrnoise.simulations.auditing.loops import Stepwise
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.auditing.findings import Audit
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.broken_loops import clipped

NOISE = NuFTRL(0.02)
EPOCHS = Participation.fixed_epochs(12, epochs=3)
BUDGET = Budget(epsilon=5.0, delta=1e-5, adjacency="replace-one")
PROGRAM = streaming(NOISE, EPOCHS, "float32")
IDLE = 184
SIZE = 416 + IDLE


def audited(loop: Any, **options: Any) -> Audit:
    return audit(loop, (BUDGET, PROGRAM), factor=4.0, idle=IDLE, level=1e-6, rng=1, **options)


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
