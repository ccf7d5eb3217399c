"""Ghost clipping in Opacus: the sums of the other loops, layers of all kinds, the clip norm, and what is refused.

Skipped where it is not installed (``pip install '.[opacus]'``).
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.adapters import torch_ghost
from corrnoise.simulations.adapters.opacus import make_private, optimizer_class
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.pages import script
from tests.simulations.adapters.small_network import BATCH, BUDGET, flat, step, trained_by_hand, with_opacus

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")
memory = pytest.importorskip("opacus.utils.batch_memory_manager")
torch.set_num_threads(1)

WORDS, KINDS, LENGTH = 11, 5, 4
FLOATS: dict[str, Any] = {"sums": "float32", "release": "float"}
loss = torch.nn.functional.cross_entropy


@pytest.mark.parametrize("options", [{}, FLOATS], ids=["exact", "floats"])
@pytest.mark.parametrize("physical", [BATCH, 5])
def test_a_run_trains_the_model_of_the_other_loops(options: dict[str, Any], physical: int) -> None:
    model, optimizer, loader = with_opacus(clipping="ghost", **options)
    assert optimizer.run.level == ("idealised" if options else "grid")
    with memory.BatchMemoryManager(data_loader=loader, max_physical_batch_size=physical, optimizer=optimizer) as parts:
        for inputs, targets in parts:
            step(model, optimizer, inputs, targets)
    assert optimizer.run.position == 20
    np.testing.assert_allclose(flat(model).numpy(), trained_by_hand(20).numpy(), atol=2e-4)


def test_a_restart_compares_the_clipping(tmp_path: Path) -> None:
    _, optimizer, _ = with_opacus(clipping="ghost", folder=tmp_path / "run")
    optimizer.run.close()
    with pytest.raises(ValueError, match="clipping was 'ghost', is 'example'"):
        with_opacus(folder=tmp_path / "run")
    with pytest.raises(ValueError, match="clipping must be one of 'example', 'ghost', got 'fast'"):
        with_opacus(clipping="fast")


# -- one step of layers of all kinds -----------------------------------------------------------------------------------


class Network(torch.nn.Module):  # type: ignore[name-defined]
    """Linear layers with factors, and others: used twice, tied, narrow, of a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(WORDS, 8)
        self.norm = torch.nn.LayerNorm(8)
        self.first = torch.nn.Linear(8, 16)
        self.second = torch.nn.Linear(16, 16, bias=False)
        self.twice = torch.nn.Linear(16, 16)
        self.frozen = torch.nn.Linear(16, 16).requires_grad_(requires_grad=False)
        self.partly = torch.nn.Linear(16, 16)
        self.partly.weight.requires_grad_(requires_grad=False)
        self.narrow = torch.nn.Linear(16, 1)
        self.convolution = torch.nn.Conv1d(16, 16, 2)
        self.last = torch.nn.Linear(16, KINDS)
        self.tied = torch.nn.Linear(8, WORDS, bias=False)
        self.tied.weight = self.embedding.weight

    def forward(self, words: Any) -> Any:
        embedded = self.norm(self.embedding(words))
        hidden = torch.tanh(self.first(embedded))
        hidden = self.partly(self.frozen(self.second(hidden) + self.twice(torch.tanh(self.twice(hidden)))))
        scores = self.last(self.convolution(hidden.mT).mean(2)) + self.narrow(hidden).mean(1)
        return scores + self.tied(embedded).mean((1, 2))[:, None]


FACTORS = {"first.weight", "second.weight", "last.weight"}


def words(examples: int) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(2)
    return (
        torch.randint(0, WORDS, (examples, LENGTH), generator=generator),
        torch.randint(0, KINDS, (examples,), generator=generator),
    )


def begun(model: Any, rows: tuple[Any, Any], clip_norm: float = 1.0, **options: Any) -> tuple[Any, Any, Any]:
    """One step of all examples."""
    optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=0.1)
    count = len(rows[0])
    chosen: dict[str, Any] = {"loss": loss, "mechanism": DPSGD(), "clipping": "ghost"} | options
    budget = Budget(rho=0.5, clip_norm=clip_norm)
    return make_private(model, optimizer, rows, budget=budget, batch_size=count, epochs=1, **chosen)


def sums_of(model: Any, optimizer: Any, rows: tuple[Any, Any], criterion: Any = loss) -> list[Any]:
    """The clipped sums of a batch, before their noise."""
    optimizer.zero_grad()
    criterion(model(rows[0]), rows[1]).backward()
    optimizer.clip_and_accumulate()
    return [each.summed_grad for each in optimizer.params]


@pytest.mark.parametrize("clip_norm", [0.1, 1e3])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_sums_are_those_of_gradients_of_examples(clip_norm: float, reduction: str) -> None:
    found = []
    rows = words(6)
    criterion = torch.nn.CrossEntropyLoss(reduction=reduction)
    for clipping in ("ghost", "example"):
        torch.manual_seed(1)
        model = Network()
        wrapped, optimizer, _ = begun(model, rows, clip_norm, loss=criterion, clipping=clipping, **FLOATS)
        found.append(sums_of(wrapped, optimizer, rows, criterion))
        kept = {
            name
            for name, each in model.named_parameters()
            if each.requires_grad and each.grad_sample.shape[1:] != each.shape
        }
        assert kept == (FACTORS if clipping == "ghost" else set())
    for one, other in zip(*found, strict=True):
        assert one.dtype == torch.float64
        torch.testing.assert_close(one.float(), other, rtol=1e-4, atol=1e-5 * other.abs().max().item())


def test_an_empty_batch_and_examples_that_are_not_finite_count_as_zero() -> None:
    inputs, kinds = torch.randn(5, 16), torch.arange(5)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, KINDS))
    wrapped, optimizer, _ = begun(model, (inputs, kinds), **FLOATS)
    assert not any(bool(each.any()) for each in sums_of(wrapped, optimizer, (inputs[:0], kinds[:0])))
    kept = sums_of(wrapped, optimizer, (inputs[1:], kinds[1:]))
    for broken in (torch.nan, torch.inf):
        inputs[0, 2] = broken
        for one, other in zip(sums_of(wrapped, optimizer, (inputs, kinds)), kept, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_the_integers_of_an_example_have_the_norm_of_a_clipped_gradient(dtype: Any) -> None:
    """In every precision, whose trained model is of this precision, too."""
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, KINDS)).to(dtype)
    rows = (100 * torch.randn(1, 16, dtype=dtype), torch.tensor([1]))
    wrapped, optimizer, loader = begun(model, rows)
    grid = optimizer.run.grid
    batch = next(iter(loader))
    integers = torch_ghost.rounded(sums_of(wrapped, optimizer, batch), grid)
    squares = sum(int(each) ** 2 for total in integers for each in total.flatten().tolist())
    assert Fraction(1 - 1e-3) ** 2 <= squares * Fraction(grid.unit) ** 2 <= 1
    optimizer.add_noise()
    assert {each.grad.dtype for each in model.parameters()} == {dtype}
    with mock.patch.object(torch_ghost, "clip_norm_of_sums", return_value=0.5):
        less = torch_ghost.rounded(sums_of(wrapped, optimizer, batch), grid)
    assert sum(int(each) ** 2 for total in less for each in total.flatten().tolist()) <= squares / 4 * 1.01
    with (
        mock.patch.object(type(optimizer.run), "largest_batch", 10**9),
        pytest.raises(ValueError, match="batches of 1000000000 examples with 1 positions each are too large"),
    ):
        sums_of(wrapped, optimizer, batch)


# -- the clip norm -----------------------------------------------------------------------------------------------------


def test_the_report_for_opacus_shows_a_gradient_beyond_its_clip_norm() -> None:
    """The script of the page runs, and its gradients have at most the clip norm here."""
    shown: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: shown.append(" ".join(map(str, words)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Opacus, about its generator
        exec(compile(script("Ghost clipping"), "report", "exec"), names)
    *_, largest, _, _, found = shown[-1].replace(":", "").split()
    assert float(largest) > 2
    assert float(found) < 1
    inputs, targets = names["inputs"], names["targets"]
    norms = []
    for row in range(len(inputs)):
        one = inputs[row : row + 1], targets[row : row + 1]
        wrapped, optimizer, _ = begun(names["Opposed"](), one, loss=torch.nn.L1Loss(), **FLOATS)
        (total,) = sums_of(wrapped, optimizer, one, torch.nn.L1Loss())
        norms.append(total.norm().item())
    assert 0.98 <= min(norms) <= max(norms) <= 1


def test_a_discarded_backward_pass_leaves_nothing() -> None:
    rows = words(6)
    torch.manual_seed(1)
    wrapped, optimizer, _ = begun(Network(), rows, **FLOATS)
    expected = sums_of(wrapped, optimizer, rows)
    optimizer._examples = 0
    optimizer.zero_grad()
    loss(wrapped(rows[0].flip(0)), rows[1]).backward()
    for one, other in zip(sums_of(wrapped, optimizer, rows), expected, strict=True):
        assert torch.equal(one, other)


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ghost", [True, False], ids=["ghost", "fast"])
def test_ghost_clipping_of_opacus_itself_is_refused(ghost: bool) -> None:
    """Its norms and its sums are not covered, so that no step is taken."""
    _, optimizer, loader = with_opacus()
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    wrapped = opacus.grad_sample.GradSampleModuleFastGradientClipping(
        model, max_grad_norm=BUDGET.clip_norm, use_ghost_clipping=ghost
    )
    own = optimizer_class()(torch.optim.SGD(model.parameters(), lr=0.1), optimizer.run)
    fast = pytest.importorskip("opacus.utils.fast_gradient_clipping_utils")
    criterion = fast.DPLossFastGradientClipping(wrapped, own, torch.nn.CrossEntropyLoss())
    inputs, targets = next(iter(loader))
    criterion(wrapped(inputs), targets).backward()
    with pytest.raises(RuntimeError, match=r"take make_private\(…, clipping='ghost'\)"):
        own.step()
    assert own.run.position == 0


def test_factors_without_ghost_clipping_are_refused() -> None:
    """An optimizer that takes them for gradients."""
    rows = words(6)
    wrapped, optimizer, loader = begun(Network(), rows)
    optimizer._ghost = False
    inputs, kinds = next(iter(loader))
    loss(wrapped(inputs), kinds).backward()
    with pytest.raises(ValueError, match="total must be a vector"):
        optimizer.step()
    assert optimizer.run.position == 0


def test_half_precision_needs_exact_sums_and_gradients_are_not_accumulated() -> None:
    model = torch.nn.Linear(16, KINDS).bfloat16()
    rows = (torch.randn(6, 16).bfloat16(), torch.arange(6) % KINDS)
    with pytest.raises(ValueError, match="parameters must be of float32 or float64"):
        begun(model, rows, **FLOATS)
    wrapped, optimizer, _ = begun(model, rows)
    wrapped.allow_grad_accumulation()
    for part in (slice(0, 3), slice(3, 6)):
        loss(wrapped(rows[0][part]), rows[1][part]).backward()
    with pytest.raises(RuntimeError, match="must not be accumulated"):
        optimizer.step()
