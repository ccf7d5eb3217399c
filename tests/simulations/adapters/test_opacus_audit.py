"""The audit of the loop that Opacus runs, clipping included; skipped where PyTorch or Opacus is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corrnoise.simulations.training.keys import RunKey
from corrnoise.simulations.training.opacus_optimizer import optimizer_class

import corrnoise as cn

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")
torch.set_num_threads(1)

CANARIES = 300
NOISE = cn.NuFTRL(0.02)
ORDER = cn.fixed_order(examples=10 * CANARIES, batch_size=CANARIES, epochs=4, rng=0)
RHO = cn.gaussian_rho(5.0, 1e-5)


def through_opacus(batches: Any, *, clip_norm: float = 1.0) -> np.ndarray:
    """Gradients of examples become those of a model of one parameter, and an optimizer step what is released."""
    size = batches[0].shape[1]
    key = RunKey(bytes(range(32)))
    run = cn.PrivateRun(NOISE, size, ORDER, rho=RHO, clip_norm=clip_norm, adjacency="zero-out", key=key)
    model = torch.nn.Parameter(torch.zeros(size))
    optimizer = optimizer_class()(torch.optim.SGD([model], lr=1.0), run)
    released = []
    for _, gradients in zip(run, batches, strict=True):
        examples = np.zeros((CANARIES, size), dtype=np.float32)
        examples[: len(gradients)] = gradients
        model.grad_sample = torch.from_numpy(examples)
        optimizer.step()
        optimizer.zero_grad()
        released.append(model.detach().numpy().copy())
    run.close()
    return -CANARIES * np.diff(np.array(released), axis=0, prepend=0.0)


def audited(release: Any, level: float = 1e-4) -> Any:
    run: dict[str, Any] = {"rho": RHO, "steps": 40, "min_sep": 10, "max_participations": 4}
    return cn.audit(release, NOISE, delta=1e-5, clip_norm=1.0, canaries=CANARIES, idle=100, rng=1, level=level, **run)


def test_the_loop_of_opacus_is_as_claimed() -> None:
    found = audited(through_opacus)
    assert found.private_as_claimed, found.report()
    assert found.noise_as_claimed, found.report()
    assert found.epsilon_lower_bound > 0.3


def test_a_loop_that_clips_to_three_times_the_norm_is_found() -> None:
    found = audited(lambda batches: through_opacus(batches, clip_norm=3.0))
    assert not found.noise_as_claimed  # the noise grows with the clip norm, so that privacy does not suffer
    assert found.private_as_claimed


def test_noise_taken_off_by_half_is_found() -> None:
    def halved(batches: Any) -> np.ndarray:
        sums = np.array([np.minimum(1, 1 / np.maximum(np.linalg.norm(b, axis=1), 1e-9)) @ b for b in batches])
        return (sums + through_opacus(batches)) / 2

    found = audited(halved, level=0.05)
    assert not found.private_as_claimed
