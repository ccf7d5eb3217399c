"""The audit of the loop that Opacus runs, clipping included; skipped where PyTorch or Opacus is not installed.

The keys of the runs are not seeded: the level is 1e-6.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters.opacus import optimizer_class
from corrnoise.simulations.audit import audit
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")
torch.set_num_threads(1)

CANARIES = 1200
NOISE = NuFTRL(0.02)
EPOCHS = Participation.fixed_epochs(40, epochs=4)
ORDER = batches(EPOCHS, 10 * CANARIES, CANARIES, rng=0)
BUDGET = Budget(epsilon=5.0, delta=1e-5)


def through_opacus(gradients_of: Any, budget: Budget = BUDGET) -> np.ndarray:
    """Gradients of examples become those of a model of one parameter, and an optimizer step what is released."""
    size = gradients_of[0].shape[1]
    run = PrivateRun(budget, EPOCHS, NOISE, size, batches=ORDER)
    model = torch.nn.Parameter(torch.zeros(size))
    optimizer = optimizer_class()(torch.optim.SGD([model], lr=1.0), run)
    released = []
    for _, gradients in zip(run, gradients_of, strict=True):
        examples = np.zeros((CANARIES, size), dtype=np.float32)
        examples[: len(gradients)] = gradients
        model.grad_sample = torch.from_numpy(examples)
        optimizer.step()
        optimizer.zero_grad()
        released.append(model.detach().numpy().copy())
    run.close()
    return -CANARIES * np.diff(np.array(released), axis=0, prepend=0.0)


def audited(release: Any) -> Any:
    return audit(release, (BUDGET, streaming(NOISE, EPOCHS)), canaries=CANARIES, idle=1200, level=1e-6, rng=1)


def test_the_loop_of_opacus_is_as_claimed() -> None:
    found = audited(through_opacus)
    assert found.verdict == "nothing found", found.report()
    assert found.mu_lower_bound > found.mu / 2  # with this many canaries eight standard deviations below the mean


def test_a_loop_that_clips_to_three_times_the_norm_is_found() -> None:
    """The noise grows with the clip norm, so that privacy does not suffer."""
    found = audited(lambda given: through_opacus(given, Budget(epsilon=5.0, delta=1e-5, clip_norm=3.0)))
    assert (found.verdict, found.cause) == ("noise not as claimed", "the noise is larger than claimed")


def test_noise_taken_off_by_half_is_found() -> None:
    def halved(given: Any) -> np.ndarray:
        sums = np.array([np.minimum(1, 1 / np.maximum(np.linalg.norm(b, axis=1), 1e-9)) @ b for b in given])
        return (sums + through_opacus(given)) / 2

    found = audited(halved)
    assert (found.verdict, found.cause) == ("not private as claimed", "the noise is smaller than claimed")
