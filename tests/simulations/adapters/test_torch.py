"""Private training in PyTorch: sums of clipped gradients, and their noise.

Skipped where it is not installed (``pip install '.[torch]'``).
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import torch_engines, torch_factors
from corrnoise.simulations.adapters.torch import clipped_sum, private_gradient, trainable_size
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN, Grid, add_truncated, grid_of
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.small_network import (
    BATCH,
    BUDGET,
    EPOCHS,
    EXAMPLES,
    NOISE,
    by_hand,
    data,
    network,
)
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

# -- clipping ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("examples", [4, 1000])
def test_exact_sums_of_an_example_are_never_longer_than_the_clip_norm(dtype: Any, examples: int) -> None:
    """In rational numbers, for gradients of many scales; the mutants round to the nearest, or clip to the norm."""
    grid = grid_of(1.0, examples, 40, 1.0)
    torch.manual_seed(0)
    for scale in (1e-6, 0.1, 1, 100, 6e4 / 8):
        sample = [(scale * torch.randn(1, 5, 7)).to(dtype), (scale * torch.randn(1, 3)).to(dtype)]
        numbers = torch.cat([each.reshape(-1) for each in clipped_sum(sample, 1.0, grid)])
        assert numbers.dtype == getattr(torch, grid.dtype)
        assert sum(int(q) ** 2 for q in numbers) * Fraction(grid.unit) ** 2 <= 1
        clipped = torch.cat([each.reshape(-1) for each in clipped_sum(sample, 1.0)]) if dtype.itemsize > 2 else None
        if clipped is not None:
            assert (numbers.double() * grid.unit - clipped).abs().max() < grid.unit + 1e-7


def test_mutants_of_exact_sums_are_longer_than_the_clip_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of 1.6 units, which are rounded to 2; and a margin on the wrong side."""
    grid = Grid(-11, "int32", 4 * 2**11)
    sample = [torch.full((1, 1280**2), 10.0)]

    def length(numbers: Any, unit: float = grid.unit) -> float:
        return float(numbers.double().norm()) * unit

    assert length(clipped_sum(sample, 1.0, grid)[0]) <= 1
    assert length((sample[0] * _factors(sample[0]) / grid.unit).round()) > 1.2
    monkeypatch.setattr(torch_factors, "MARGIN", 1 + 1e-4)
    fine = Grid(-20, "int32", 4 * 2**20)
    assert length(clipped_sum([torch.full((1, 4), 7.0)], 1.0, fine)[0], fine.unit) > 1


@given(st.integers(0, 2**32 - 1))
def test_exact_sums_of_neighbours_differ_by_one_gradient(seed: int) -> None:
    """For bfloat16, in whatever microbatches."""
    rng = np.random.default_rng(seed)
    grid = grid_of(1.0, 9, 8, 1.0)
    samples = torch.tensor(rng.normal(size=(9, 8)) * 10 ** rng.uniform(-3, 3, size=(9, 1))).bfloat16()
    whole = clipped_sum([samples], 1.0, grid)[0]
    without = sum(clipped_sum([samples[rows]], 1.0, grid)[0] for rows in ([5, 1], [8, 2, 3, 4], [6, 7]))
    change = (whole - without).tolist()
    assert change == clipped_sum([samples[:1]], 1.0, grid)[0].tolist()
    assert sum(q**2 for q in change) * Fraction(grid.unit) ** 2 <= 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the compiler
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_exact_sums_by_operations_are_those_of_the_kernel(compiled: bool) -> None:
    """The path of other devices than CPUs, in one piece and in several."""
    if compiled and shutil.which("g++") is None:
        pytest.skip("needs a compiler of C++")
    samples = torch.randn(5, 21) * 3
    samples[2, 0] = torch.inf
    factors = _factors(samples) * 2**26
    kernel, elsewhere, in_parts = torch.zeros((3, 21), dtype=torch.int32)
    add_truncated(samples.numpy(), factors.numpy(), kernel.numpy())
    torch_loop.sum_by_operations(samples, factors, elsewhere, compiled=compiled)
    assert torch.equal(kernel, elsewhere)
    assert kernel.abs().max() > 2**20
    with mock.patch.object(torch_loop, "TRUNCATED_AT_ONCE", 50):
        torch_loop.sum_by_operations(samples.view(5, 3, 7), factors, in_parts.view(3, 7))
    assert torch.equal(kernel, in_parts)


def _factors(samples: Any) -> Any:
    norms = samples.flatten(1).double().norm(dim=1)
    return torch.where(norms.isfinite(), (MARGIN / norms).clamp(max=1.0), 0.0).float()


def test_clipped_sums_against_one_example_at_a_time() -> None:
    rng = np.random.default_rng(0)
    samples = [torch.tensor(rng.normal(size=(7, *shape)) * 3, dtype=torch.float32) for shape in ((4, 2), (3,))]
    samples[0][0] *= 1e-3
    samples[1][0] *= 1e-3
    found = clipped_sum(samples, 2.0)
    expected = [np.zeros((4, 2)), np.zeros(3)]
    for i in range(7):
        norm = np.sqrt(sum(float((each[i].double() ** 2).sum()) for each in samples))
        for total, each in zip(expected, samples, strict=True):
            total += each[i].double().numpy() * min(1.0, MARGIN * 2.0 / norm)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("grid", [None, Grid(-24, "int32", 7 * 2**24), Grid(-50, "int64", 7 * 2**50)])
def test_a_parameter_may_be_one_number_or_none(grid: Grid | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradients of examples have one axis, and count in the norm; the mutant leaves the number out of it."""
    torch.manual_seed(0)
    samples = [3 * torch.randn(7), torch.randn(7, 2, 3), torch.randn(7, 3, 0)]
    joined = torch.cat([each.reshape(7, -1) for each in samples], 1).double()
    norms = joined.norm(dim=1, keepdim=True)
    expected = (joined * (MARGIN / norms).clamp(max=1.0)).sum(0)

    def summed(found: list[Any], unit: float) -> Any:
        assert [each.shape for each in found] == [each.shape[1:] for each in samples]
        return torch.cat([each.reshape(-1).double() * unit for each in found])

    unit = 1.0 if grid is None else grid.unit
    torch.testing.assert_close(summed(clipped_sum(samples, 1.0, grid), unit), expected, rtol=1e-4, atol=1e-6)
    if grid is not None:
        whole = _factors(joined.float()) / grid.unit
        parts = [each.new_zeros(each.shape[1:], dtype=getattr(torch, grid.dtype)) for each in samples]
        made = [torch_loop.sum_by_operations(one, whole, total) for one, total in zip(samples, parts, strict=True)]
        torch.testing.assert_close(summed(made, unit), expected, rtol=1e-4, atol=1e-6)
    usual = torch_loop.squared_norms
    monkeypatch.setattr(torch_loop, "squared_norms", lambda rows: usual(rows) * (rows.shape[1] > 1))
    assert (summed(clipped_sum(samples, 1.0, grid), unit) - expected).abs().max() > 0.1


@pytest.mark.parametrize("size", [1, 3, 1023, 1024, 1025, 300_000])
@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e15])
def test_no_example_exceeds_the_clip_norm(size: int, scale: float) -> None:
    rng = np.random.default_rng(size)
    sample = torch.tensor(rng.normal(size=(1, size)) * scale, dtype=torch.float32)
    (total,) = clipped_sum([sample], 1e-3)
    norm = float(total.double().norm())
    assert norm <= 1e-3
    if float(sample.double().norm()) > 1e-3:
        assert norm >= 1e-3 * (1 - 1.5e-4)


def test_equal_gradients_are_clipped_where_a_plain_norm_in_float32_is_too_small() -> None:
    """Sums of equal squares are the worst for float32; the norm by ``tensor.norm`` lets them exceed the clip norm."""
    sample = torch.full((1, 3_000_000), 0.7, dtype=torch.float32)
    (total,) = clipped_sum([sample], 1.0)
    assert 1 - 1.4e-4 <= float(total.double().norm()) <= 1.0
    plain = sample[0].double().norm() / sample[0].norm().double()
    assert float(plain) > 1 + 1e-6


def test_gradients_beyond_the_range_of_squares_count_as_zero_and_tiny_clip_norms_are_refused() -> None:
    assert float(clipped_sum([torch.full((1, 3), 1e30)], 1.0)[0].abs().max()) == 0.0
    with pytest.raises(ValueError, match="clip_norm must"):
        clipped_sum([torch.ones(1, 3)], 1e-12)


def test_gradients_that_are_not_finite_count_as_zero() -> None:
    clean = [torch.ones(3, 2), torch.ones(3, 4)]
    broken = [each.clone() for each in clean]
    broken[0][1, 0] = float("nan")
    broken[1][2, 3] = float("inf")
    for total, rest in zip(clipped_sum(broken, 1.0), clipped_sum([each[:1] for each in clean], 1.0), strict=True):
        np.testing.assert_array_equal(total.numpy(), rest.numpy())


# -- torch.func --------------------------------------------------------------------------------------------------------


def test_the_gradient_is_that_of_single_examples_clipped_plus_noise() -> None:
    model, run = by_hand()
    inputs, targets = data()
    batch = next(iter(run))
    private_gradient(
        run, model, torch.nn.functional.cross_entropy, (inputs[batch], targets[batch]), chunk_size=5, clipping="example"
    )
    found = torch.cat([each.grad.reshape(-1) for each in model.parameters()]).double().numpy()
    run.close()
    _, again = by_hand()
    next(iter(again))
    expected = again.add_noise(np.zeros(again.size))
    for i in batch:
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(inputs[i : i + 1]), targets[i : i + 1]).backward()
        gradient = torch.cat([each.grad.reshape(-1) for each in model.parameters()]).double().numpy()
        expected += gradient * min(1.0, MARGIN / np.linalg.norm(gradient))
    np.testing.assert_allclose(found, expected / BATCH, atol=1e-6)


@pytest.mark.parametrize("chunk_size", [1, 5, 50])
def test_exact_sums_are_those_of_the_batch_whatever_the_chunks(chunk_size: int) -> None:
    inputs, _ = data()
    targets = torch.randn(EXAMPLES, 3, generator=torch.Generator().manual_seed(1)) / 100
    found = []
    for size in (None, chunk_size):
        model = torch.nn.Linear(6, 3, bias=False)
        with known_key():
            order = batches(EPOCHS, EXAMPLES, BATCH, 0)
            run = PrivateRun(BUDGET, EPOCHS, NOISE, 18, batches=order, sums="exact", release="grid")
        batch = run.next_batch()
        private_gradient(  # a gradient is one product of two numbers in each coordinate
            run,
            model,
            lambda outputs, target: (outputs * target).sum(),
            (inputs[batch], targets[batch]),
            chunk_size=size,
        )
        found.append(model.weight.grad)
    assert torch.equal(*found)


@pytest.mark.parametrize("clipping", ["example", "ghost"])
def test_the_rows_of_a_chunk_do_not_tell_who_takes_part(clipping: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampled batches of all sizes are computed in chunks of 8 rows, and rows that fill one up do not count."""
    who = Participation.poisson(20, 0.25)
    shapes = set()
    made = torch_engines.gradients_at_once

    def seen(model: Any, loss: Any, rows: Any, *others: Any) -> Any:
        shapes.add(len(rows[0]))
        return made(model, loss, rows, *others)

    model = torch.nn.Linear(6, 3)
    with known_key():
        run = PrivateRun(Budget(epsilon=50.0, delta=1e-5), who, DPSGD(), 21, batches=batches(who, EXAMPLES))
    inputs, targets = data()
    sizes: set[int] = set()
    loss = torch.nn.functional.cross_entropy
    for batch in run:
        monkeypatch.setattr(torch_loop, "add_noise", lambda _, sums: [each.float() for each in sums])
        with monkeypatch.context() as watched:
            if sizes:  # after the probe
                watched.setattr(torch_engines, "gradients_at_once", seen)
            private_gradient(run, model, loss, (inputs[batch], targets[batch]), clipping=clipping)
        run.add_noise(np.zeros(21, np.float32))
        samples = [each.flatten(1) for each in example_gradients(model, loss, (inputs[batch], targets[batch])).values()]
        expected = clipped_sum(samples, 1.0)
        for parameter, total in zip(model.parameters(), expected, strict=True):
            np.testing.assert_allclose(parameter.grad.flatten(), total.flatten() / 12.5, atol=1e-4)
        sizes.add(len(batch))
    assert len(sizes) > 5
    assert shapes == {8}


def test_layers_that_mix_examples_are_refused() -> None:
    _, run = by_hand()
    next(iter(run))
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
    model[1].requires_grad_(requires_grad=False)
    inputs, targets = data()
    with pytest.raises(ValueError, match=r"layer '1' must treat .* BatchNorm1d in training.*: use GroupNorm"):
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[:BATCH], targets[:BATCH]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.half(), "float32 or float64"),
        (lambda model: model.bfloat16(), "float32 or float64"),
        (lambda model: model[0].weight.requires_grad_(False), "must be 43 numbers"),
    ],
)
def test_parameters_that_the_noise_does_not_cover_are_refused(change: Any, message: str) -> None:
    model, run = by_hand()
    next(iter(run))
    change(model)
    inputs, targets = data()
    with pytest.raises(ValueError, match=message):
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[:BATCH], targets[:BATCH]))
    assert run.position == 0


def test_a_batch_of_another_size_is_refused() -> None:
    model, run = by_hand()
    next(iter(run))
    inputs, targets = data()
    with pytest.raises(ValueError, match="12 examples of the batch, got 11"):
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[:11], targets[:11]))


def test_a_smaller_last_batch_is_divided_by_the_same_number() -> None:
    who = Participation.fixed_epochs(10, epochs=2)
    model = network()
    run = PrivateRun(BUDGET, who, NOISE, trainable_size(model), batches=batches(who, EXAMPLES, BATCH, 0))
    inputs, targets = data()
    sizes = []
    for batch in run:
        sizes.append(len(batch))
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[batch], targets[batch]))
    assert sizes == [12, 12, 12, 12, 2] * 2
    without = by_hand(batches=None)[1]
    next(iter(without))
    with pytest.raises(ValueError, match="run must have batches here"):
        private_gradient(without, model, torch.nn.functional.cross_entropy, (inputs[:12], targets[:12]))


@pytest.mark.parametrize("backend", ["legacy", "cuda.matmul", "mkldnn.matmul"])
def test_clipping_in_shorter_types_is_refused(backend: str) -> None:
    owner = torch.backends
    for name in backend.split(".") if backend != "legacy" else []:
        owner = getattr(owner, name, None)
    if backend == "legacy":
        torch.set_float32_matmul_precision("high")
    elif hasattr(owner, "fp32_precision"):
        owner.fp32_precision = "tf32" if backend == "cuda.matmul" else "bf16"
    else:
        pytest.skip("this PyTorch has no setting for each backend")
    try:
        with pytest.raises(ValueError, match="must be 'highest'"):
            clipped_sum([torch.ones(2, 2)], 1.0)
    finally:
        if backend == "legacy":
            torch.set_float32_matmul_precision("highest")
        else:
            owner.fp32_precision = "ieee"
    clipped_sum([torch.ones(2, 2)], 1.0)


# -- half precision ----------------------------------------------------------------------------------------------------


def of_one_example(dtype: Any = torch.float32) -> float:
    """The most by which one of about 1000 examples of clip norm 1 moves the clipped sum, under autocast to bfloat16."""
    sample = torch.full((1, 2500), 0.04, dtype=dtype)
    with torch.autocast("cpu", torch.bfloat16):
        sums = [clipped_sum([sample.expand(count, 2500)], 1.0)[0].double() for count in range(999, 1008)]
    return max(float((more - less).norm()) for less, more in itertools.pairwise(sums))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_one_example_moves_the_sum_by_at_most_the_clip_norm(dtype: Any) -> None:
    assert 0.999 < of_one_example(dtype) <= 1.0


def test_under_autocast_one_example_would_move_the_sum_by_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_loop, "without_autocast", lambda tensors: contextlib.nullcontext())
    with pytest.raises(ValueError, match=r"sums must be of float32 or float64, got torch\.bfloat16"):
        of_one_example()
    monkeypatch.setattr(torch_loop, "check_types", lambda *given: None)
    assert of_one_example() > 3.0


def test_norms_are_taken_in_single_precision() -> None:
    """The norm of a block, rounded to half precision, may be too small by more than the margin."""
    sample = (1 + torch.arange(30)[:, None] / 64).expand(30, 1000).half()
    truth = sample.double().square().sum(dim=1)
    assert float((torch_loop.squared_norms(sample) / truth).min()) < 1 - 3e-4
    for each in sample:
        (total,) = clipped_sum([each[None]], 1.0)
        assert 1 - 2e-4 < float(total.double().norm()) <= 1.0


@pytest.mark.parametrize("broken", ["bfloat16", "float16", "not finite", "too long"])
def test_sums_that_are_refused_use_no_noise(broken: str, tmp_path: Path) -> None:
    _, run = by_hand(folder=Folder(tmp_path / "run", marks=tmp_path / "marks"))
    sums = [torch.zeros(40), torch.zeros(3)]
    if broken == "not finite":
        sums[1][2] = float("nan")
    elif broken == "too long":
        sums[1][2] = 1.1 * BATCH
    else:
        sums[1] = sums[1].to(getattr(torch, broken))
    next(iter(run))
    journal = (tmp_path / "run/journal-0").read_bytes()
    with pytest.raises(ValueError, match=r"must be (of float32|finite)|must have a norm"):
        torch_loop.add_noise(run, sums)
    assert run.position == 0
    assert (tmp_path / "run/journal-0").read_bytes() == journal
    with torch.autocast("cpu", torch.bfloat16):
        found = torch_loop.add_noise(run, [torch.zeros(40), torch.zeros(3)])
    assert {each.dtype for each in found} == {torch.float32}
    assert (tmp_path / "run/journal-0").read_bytes() != journal


def test_a_private_gradient_under_autocast_is_of_single_precision() -> None:
    model, run = by_hand()
    inputs, targets = data()
    batch = next(iter(run))
    with torch.autocast("cpu", torch.bfloat16):
        private_gradient(run, model, torch.nn.functional.cross_entropy, (inputs[batch], targets[batch]))
    assert run.position == 1
    assert {each.grad.dtype for each in model.parameters()} == {torch.float32}
