"""Exact audits of clipped sums through models and losses; each fault is a mutant that an audit must name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax as jax_adapter
from corrnoise.simulations.adapters import jax_run, torch_run
from corrnoise.simulations.adapters import torch as torch_adapter
from corrnoise.simulations.adapters.sum_audit import SumAudit
from corrnoise.simulations.adapters.training import UnprotectedWarning
from tests.simulations.adapters.test_audited import OPTIONS, POISSON, last_outside, longer, of_jax, of_torch

OTHERS = "an example changes what the others contribute by "
MOVES = "an example moves the sum by "


def sums_of(run: Any) -> SumAudit:
    with pytest.warns(UnprotectedWarning):
        found: SumAudit = run.audit_sums(examples=8, rng=1)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"release": "float", "sums": "float32"},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param(POISSON, marks=pytest.mark.slow),
        pytest.param({"clipping": "ghost"}, marks=pytest.mark.slow),
        pytest.param({"engine": "loop"}, marks=pytest.mark.slow),
    ],
)
def test_sums_of_torch_are_as_claimed(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    run = of_torch(**options)
    before = [each.detach().clone() for each in run.model.parameters()]
    state = torch.get_rng_state()
    found = sums_of(run)
    assert found.verdict == "nothing found", found
    assert 0.5 < found.move < 1
    assert str(found).startswith("Nothing found: an audit can refute a claim and cannot prove one.")
    assert all(map(torch.equal, run.model.parameters(), before))
    assert torch.equal(torch.get_rng_state(), state)
    assert (run.position, run.handed) == (0, None)
    for batch in run:
        run.step(batch)
    assert sums_of(run).verdict == "nothing found"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, POISSON, {"engine": "loop"}])
def test_sums_of_jax_are_as_claimed(options: dict[str, Any]) -> None:
    run = of_jax(**options)
    before = run.parameters
    found = sums_of(run)
    assert found.verdict == "nothing found", found
    assert 0.5 < found.move < 1
    assert run.parameters is before


# -- faults of adapters ------------------------------------------------------------------------------------------------


def as_unclipped(clipped: Any) -> Any:
    return lambda samples, clip_norm, *rest, **options: clipped(samples, 1e4 * clip_norm, *rest, **options)


def not_dropped(clipped: Any) -> Any:
    """Sums of gradients that are not finite are not finite."""

    def changed(samples: Any, *rest: Any, **options: Any) -> Any:
        found = clipped(samples, *rest, **options)
        return found._replace(sums=[each + 0 * part.sum() for each, part in zip(found.sums, samples, strict=True)])

    return changed


def as_a_batch(clipped: Any) -> Any:
    """A batch is clipped as a whole: its mean gradient has the length of one."""

    def changed(samples: Any, *rest: Any, **options: Any) -> Any:
        found = clipped(samples, *rest, **options)
        return found._replace(sums=[each / len(found.norms) for each in found.sums])

    return changed


FLOATS = {"release": "float", "sums": "float32", "clipping": "example"}
#: Faults: the change of ``clipped``, the cause, and the contents that show it.
FAULTS: dict[str, tuple[Any, str, str]] = {
    "1.5 times the clipping norm": (longer, MOVES + "1.5 clipping norms", ""),
    "the last parameter outside the norm": (last_outside, MOVES, ""),
    "no clipping": (as_unclipped, MOVES, "weights x 10"),
    "gradients that are not finite count": (not_dropped, MOVES + "inf", "floats not a number"),
    "clipped as a whole": (as_a_batch, OTHERS, ""),
}


QUICK = "1.5 times the clipping norm"


@pytest.mark.parametrize("name", [pytest.param(each, marks=[pytest.mark.slow] * (each != QUICK)) for each in FAULTS])
def test_a_fault_of_the_clipping_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    change, cause, contents = FAULTS[name]
    run = of_torch(**FLOATS)
    monkeypatch.setattr(torch_adapter, "clipped", change(torch_adapter.clipped))
    found = sums_of(run)
    assert found.cause.startswith(cause), found
    assert contents in found.cause
    assert (found.verdict == "not private as claimed") == (cause != OTHERS), found


@pytest.mark.slow
def test_a_long_clipping_norm_of_jax_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    run = of_jax(sums="float32", release="float")
    monkeypatch.setattr(jax_adapter, "MARGIN", 1.01)
    found = sums_of(run)
    assert found.cause.startswith(MOVES + "1.01 clipping norms"), found


# -- broken models and losses, which made-up rows do not show ----------------------------------------------------------


def test_a_model_that_mixes_padding_is_found() -> None:
    """A layer with a rule for rows that subtracts their mean where one row is zero."""
    torch = pytest.importorskip("torch")

    @torch.library.custom_op("corrnoise_tests::centred_around_padding", mutates_args=(), schema="(Tensor x) -> Tensor")
    def centred(x: Any) -> Any:
        return x.clone()

    def rows(info: Any, dims: Any, x: Any) -> Any:
        return torch.where((x == 0).flatten(1).all(1).any(), x - x.mean(0), x), 0

    torch.library.register_vmap(centred, rows)

    class Model(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(6, 3)

        def forward(self, x: Any) -> Any:
            return self.layer(x - x.detach() + centred(x.detach()))

    model = Model()
    data = torch.randn(20, 6), torch.randint(3, (20,))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = OPTIONS | {"loss": torch.nn.functional.cross_entropy, "clipping": "example"}
    run = torch_run.make_private(model, optimizer, data, **options)
    assert run.engine.kind == "vmap"
    found = sums_of(run)
    assert found.cause.startswith(OTHERS), found
    assert "floats 0" in found.cause


def test_contents_that_a_model_refuses_are_counted() -> None:
    run = of_torch(**FLOATS, engine="loop")

    def bounded(_: Any, given: Any) -> None:
        if given[0].abs().max() > 100:
            raise ValueError("too large")

    run.model.register_forward_pre_hook(bounded)
    found = sums_of(run)
    assert (found.verdict, found.refused) == ("nothing found", 4)  # 2 of 8 examples times 1000, at two sets of weights
    assert "4 times unusual contents" in str(found)


@pytest.mark.slow
def test_a_loss_that_scales_by_the_largest_row_is_found() -> None:
    jax, optax = pytest.importorskip("jax"), pytest.importorskip("optax")
    jnp = jax.numpy

    @jax.custom_batching.custom_vmap
    def scaled(x: Any) -> Any:
        return x

    @scaled.def_vmap
    def _(size: Any, batched: Any, x: Any) -> Any:
        return x / jnp.maximum(1, jnp.abs(x).max() / 1e5), batched[0]

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return -jax.nn.log_softmax(scaled(x) @ parameters["weights"])[y]

    data = np.full((20, 6), 500, np.float32), np.arange(20, dtype=np.int32) % 3
    run = jax_run.make_private({"weights": np.zeros((6, 3), np.float32)}, optax.sgd(0.1), data, loss=loss, **OPTIONS)
    found = sums_of(run)
    assert found.cause.startswith(OTHERS), found
