"""Sums of factors in parts: the numbers of one product, in memory of their own."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any
from unittest import mock

import pytest

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import torch_factors
from corrnoise.simulations.adapters.torch_factors import Blocks, Factors, summed
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid, add_floats
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

torch = pytest.importorskip("torch")

KINDS = pytest.mark.parametrize("kind", ["linear", "transposed", "embedding"])
BLOCKS = Blocks(4, 4, "float32", 4.0, 0.0)
GRID = Grid(1, "int32", 2**20)


def factors(kind: str, examples: int = 6, inputs: int = 5, outputs: int = 7, dtype: Any = None) -> Factors:
    """Small integers, whose products and sums are exact in every arithmetic."""
    a = torch.randint(-9, 9, (examples, 4, inputs)).to(dtype or torch.float32)
    b = torch.randint(-9, 9, (examples, 4, outputs)).to(a)
    shapes = {"linear": (outputs, inputs), "transposed": (inputs, outputs), "embedding": (9, outputs)}
    return Factors(torch.randint(9, (examples, 4)) if kind == "embedding" else a, b, kind, b.new_zeros(shapes[kind]))


def expected(given: Factors) -> Any:
    """The sum of the gradients of all examples, float64."""
    b = given.b.double()
    if given.kind == "embedding":
        a = torch.nn.functional.one_hot(given.a, 9).double()
        return torch.einsum("eij,eik->jk", a, b)
    found = torch.einsum("eij,eik->jk", given.a.double(), b)
    return found if given.kind == "transposed" else found.T


def check(found: Any, given: Factors) -> None:
    """Compare a sum of floats, or of integers in units of ``GRID``."""
    exact = expected(given)
    assert torch.equal(found.double(), exact if found.is_floating_point() else (exact / 2).round())


def shared(one: Any, other: Any) -> bool:
    """Whether two tensors have memory in common."""
    return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())


@KINDS
def test_a_sum_in_parts_is_the_sum_in_one_part(kind: str) -> None:
    given = factors(kind)
    with mock.patch.object(torch_factors, "SUMMED_AT_ONCE", 2 * given.weight.shape[1]):
        found = [summed(given, torch.ones(6), BLOCKS, grid) for grid in (None, GRID)]
    assert [each.dtype for each in found] == [torch.float64, torch.int32]
    for each in found:
        check(each, given)


@KINDS
def test_sums_have_memory_of_their_own(kind: str) -> None:
    """Of equal and of different sizes and types, one within the other: the mutant keeps its buffers for the next."""
    sizes: list[dict[str, Any]] = [{}, {}, {"inputs": 8}, {"outputs": 3}, {"examples": 9}, {"dtype": torch.bfloat16}]
    pieces = [factors(kind, **each) for each in sizes]
    inside: list[Any] = []

    def sums() -> list[Any]:
        return [summed(each, torch.ones(len(each.b)), BLOCKS, grid) for each in pieces for grid in (None, GRID)]

    def others(total: Any, product: Any) -> None:
        if not inside:
            inside.append(None)
            inside[:] = sums()
        add_floats(total, product)

    first = sums()
    with mock.patch.object(torch_factors, "add_floats", others):
        second = sums()
    assert len(inside) == (0 if kind == "embedding" else len(first))
    for found in (first, second, inside):
        for number, each in enumerate(found):
            check(each, pieces[number // 2])
    given = [each for piece in pieces for each in (piece.a, piece.b, piece.weight)]
    assert not any(shared(*pair) for pair in combinations([*first, *second, *inside, *given], 2))


@KINDS
@pytest.mark.parametrize("sizes", [{"examples": 0}, {"inputs": 0}, {"outputs": 0}], ids=str)
def test_sums_of_nothing_are_zero(kind: str, sizes: dict[str, int]) -> None:
    """No memory that was not written; the mutant leaves the sum of no products as it is."""
    given = factors(kind, **sizes)
    filled = mock.patch.object(torch, "empty", lambda *shape, **options: torch.full(*shape, 7, **options))
    for grid in (None, GRID):
        with filled:
            found = summed(given, torch.ones(len(given.b)), BLOCKS, grid)
        assert found.shape == given.weight.shape
        check(found, given)


def test_an_example_that_does_not_count_stays_in_its_factors() -> None:
    """Its gradients, which are not finite, count as zero in a copy."""
    given = factors("linear")
    given.a[2], given.b[3] = math.nan, math.inf
    before = given.a.clone(), given.b.clone()
    counts = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    found = summed(given, counts, BLOCKS)
    check(found, given._replace(a=given.a[counts > 0], b=given.b[counts > 0]))
    for each in zip((given.a, given.b), before, strict=True):
        torch.testing.assert_close(*each, rtol=0, atol=0, equal_nan=True)


def test_gradients_of_a_step_are_nowhere_else() -> None:
    """Neither in the batch, the model nor the gradients of another step, and a later step leaves them alone."""
    steps = 2
    once = Participation.single(steps)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 3))
    size = sum(each.numel() for each in model.parameters())
    rows = torch.randn(4, 16), torch.randint(3, (4,))
    before = [each.clone() for each in rows]
    order = batches(once, 4 * steps, 4, 0)
    run = PrivateRun(Budget(rho=0.5), once, DPSGD(), size, batches=order, sums="exact", release="grid")
    found: list[Any] = []
    copies: list[Any] = []
    for _ in run:
        torch_loop.private_gradient(run, model, torch.nn.functional.cross_entropy, rows, clipping="ghost")
        found += [each.grad for each in model.parameters()]
        copies += [each.grad.clone() for each in model.parameters()]
    assert all(torch.equal(*pair) for pair in zip([*rows, *found], [*before, *copies], strict=True))
    assert not any(shared(*pair) for pair in combinations([*rows, *found, *model.parameters()], 2))
