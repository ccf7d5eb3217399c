"""Contributions of modules of PyTorch to a federation."""

from pathlib import Path

import numpy as np
import pytest

from corrnoise.simulations.adapters.torch_client import module_contribution
from corrnoise.simulations.federation.client import FederatedClient, enrol, linear_contribution
from corrnoise.simulations.federation.messages import Reply, Request
from corrnoise.theory.losses import LinearLoss
from tests.simulations.federation.federations import plan_of

torch = pytest.importorskip("torch")


def test_a_linear_module_contributes_what_the_linear_loss_does() -> None:
    rng = np.random.default_rng(0)
    loss = LinearLoss("squares", 3, 1.0, 1.0)
    features, targets = rng.uniform(-0.5, 0.5, (6, 3)), rng.uniform(-1, 1, 6)
    expected = linear_contribution(loss, features, targets)
    model = torch.nn.Linear(3, 1, bias=False).double()
    found = module_contribution(
        model,
        lambda output, target: (output[:, 0] - target).square().mean() / 2,
        torch.from_numpy(features),
        torch.from_numpy(targets),
    )
    other = module_contribution(
        model, torch.nn.functional.mse_loss, torch.from_numpy(features[::-1].copy()), torch.from_numpy(targets)[:, None]
    )
    assert found.data != other.data
    x, before = rng.normal(size=(2, 3)) / 3
    for t in (1, 7):
        for chosen in (np.array([4, 0]), np.array([2])):
            assert np.allclose(found(t, x, before, chosen), expected(t, x, before, chosen), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("unit", ["example", "client"])
def test_the_guard_holds_whatever_a_module_returns(tmp_path: Path, unit: str) -> None:
    """Examples that are huge, or not finite, move a message by the clip norm at most."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
    size = sum(each.numel() for each in model.parameters())
    plan = plan_of(model=size, unit=unit, noise=None, trust="central", radius=100.0)
    inputs = torch.ones(10, 2)
    targets = torch.zeros(10, dtype=torch.long)
    inputs[::2] = 1e30
    inputs[1] = torch.nan
    contribution = module_contribution(model, torch.nn.functional.cross_entropy, inputs, targets)
    enrol(plan, "a", tmp_path / "a", examples=10)
    client = FederatedClient(plan, "a", tmp_path / "a", contribution)
    for t in range(1, 6):
        reply = client.reply(Request("test", t, np.full(size, 3.0), np.full(size, -3.0), t - 1))
        assert isinstance(reply, Reply)
        assert np.isfinite(reply.vector).all()
        assert np.linalg.norm(reply.vector) <= 1 + 1e-12


def test_what_mixes_examples_is_refused() -> None:
    with pytest.raises(ValueError, match="by itself"):
        module_contribution(torch.nn.BatchNorm1d(3), torch.nn.functional.mse_loss, torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(ValueError, match="targets must be as many"):
        module_contribution(torch.nn.Linear(3, 1), torch.nn.functional.mse_loss, torch.ones(2, 3), torch.ones(3, 1))
