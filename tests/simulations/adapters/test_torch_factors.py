"""Clipping by factors: norms against rational numbers, sums against gradients of examples, blocks, and runs."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import torch_factors
from corrnoise.simulations.adapters.torch import clipped, clipped_sum
from corrnoise.simulations.adapters.torch_choice import example_gradients
from corrnoise.simulations.adapters.torch_engines import Engine, uses_of
from corrnoise.simulations.adapters.torch_factors import Blocks, Factors, blocks_of, clip_factors, norms_of, summed
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.pages import script

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EXAMPLES, WORDS, KINDS, LENGTH = 24, 11, 5, 4
loss = torch.nn.functional.cross_entropy


def linear(a: Any, b: Any) -> Factors:
    return Factors(a, b, "linear", torch.zeros(b.shape[2], a.shape[2]))


def exact_norm(a: Any, b: Any) -> Fraction:
    """The squared norm of the gradient of one example, from its Gram matrices in rational numbers."""
    rows, others = ([[Fraction(x) for x in row] for row in each.tolist()] for each in (a, b))

    def product(one: list[Fraction], other: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))

    places = range(len(rows))
    return sum((product(rows[i], rows[j]) * product(others[i], others[j]) for i in places for j in places), Fraction(0))


def cancelling(size: int, examples: int) -> tuple[Any, Any]:
    """Two positions whose gradients differ by 10⁻⁵ of them: the norm is 10⁻⁵ of each."""
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(examples, 1, size, generator=generator).repeat(1, 2, 1)
    b = torch.randn(examples, 1, size, generator=generator)
    return a, torch.cat([b, -(1 + 1e-5) * b], 1)


@given(
    seed=st.integers(0, 2**31),
    positions=st.integers(1, 4),
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    powers=st.tuples(st.floats(-37, 30), st.floats(-37, 30)),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float16]),
    opposite=st.booleans(),
)
def test_norms_are_never_too_small(
    seed: int,
    positions: int,
    sizes: tuple[int, int],
    powers: tuple[float, float],
    dtype: Any,
    opposite: bool,
) -> None:
    """And too large by a factor 1/0.98 of the square or by rounding in float64 alone, unless squares vanish."""
    rng = np.random.default_rng(seed)
    a, b = (
        torch.tensor(rng.normal(size=(1, positions, size)) * 10.0**power).clamp(-6e4, 6e4).to(dtype)
        if dtype == torch.float16
        else torch.tensor(rng.normal(size=(1, positions, size)) * 10.0**power).to(dtype)
        for size, power in zip(sizes, powers, strict=True)
    )
    if opposite and positions > 1:
        a[:, 1], b[:, 1] = a[:, 0], -b[:, 0] * (1 + 1e-5)
    found = norms_of(linear(a, b))
    true = exact_norm(a[0], b[0])
    upper, kappa = found.squares.item(), Fraction(found.kappa_squares.item())
    assert true <= Fraction(upper) <= true * Fraction(100, 98) + Fraction(1, 10**12) * kappa
    pieces = [exact_norm(a[0, i : i + 1], b[0, i : i + 1]) for i in range(positions)]
    assert sum(float(each) ** 0.5 for each in pieces) ** 2 <= float(kappa) * (1 + 1e-14)


@pytest.mark.parametrize("mutant", [False, True])
def test_norms_hold_where_squares_vanish(mutant: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of 2⁻¹⁵¹ are zero in float32, and 64 · 256 of them, squared and summed, have the norm 1/4."""
    a, b = torch.full((1, 64, 256), 2.0**-75.5), torch.full((1, 64, 256), 2.0**59.5)
    true = (256 * a[0, 0, 0].double() * b[0, 0, 0].double() * 64).square().item()
    assert true == pytest.approx(1 / 16)
    if mutant:
        monkeypatch.setattr(torch_factors, "PRECISE_SHARE", np.inf)
        computed = torch_factors.norms_in(linear(a, b), "float32")
        assert computed.least.item() < true / 100
        assert computed.squares.item() >= true
    else:
        assert true <= norms_of(linear(a, b)).squares.item() <= true * 1.001


def test_a_norm_without_its_bound_of_rounding_is_too_small() -> None:
    a, b = cancelling(256, 20)
    upper = norms_of(linear(a, b)).squares
    mutant = ((a.double() @ a.double().mT) * (b.double() @ b.double().mT)).sum((1, 2))
    true = [exact_norm(*pair) for pair in zip(a, b, strict=True)]
    assert all(Fraction(found) >= each for found, each in zip(upper.tolist(), true, strict=True))
    assert any(Fraction(found) < each for found, each in zip(mutant.tolist(), true, strict=True))
    np.testing.assert_allclose(upper, np.array([float(each) for each in true]), rtol=1e-2)


def test_norms_in_float32_let_gradients_exceed_the_clip_norm() -> None:
    """Clipped to 1 by such a norm, a gradient has a norm of more than 2; by the norm here, at most 1."""
    a, b = (each * 20 for each in cancelling(512, 64))
    norm = ((a @ a.mT) * (b @ b.mT)).sum((1, 2)).clamp(min=0).sqrt()
    gradients = torch.einsum("blq,blp->bqp", b.double(), a.double())
    true = gradients.flatten(1).norm(dim=1)
    assert (true > 1).all()
    by_mutant = true * (1 / norm.double()).clamp(max=1)
    assert by_mutant.max() > 2
    upper = norms_of(linear(a, b)).squares.sqrt()
    assert (true * (1 / upper).clamp(max=1)).max() <= 1


def test_one_example_that_cancels_leaves_the_norms_of_the_others() -> None:
    """An example takes its norm from float64 by itself, whoever else needs it."""
    a, b = torch.randn(5, 2, 64), torch.randn(5, 2, 64)
    alone = norms_of(linear(a, b))
    a[3], b[3] = (each[0] for each in cancelling(64, 1))
    found = norms_of(linear(a, b))
    kept = torch.arange(5) != 3
    assert torch.equal(found.squares[kept], alone.squares[kept])
    assert not torch.equal(torch_factors.norms_in(linear(a, b), "float64").squares[kept], alone.squares[kept])


def test_norms_of_an_embedding_are_those_of_its_rows() -> None:
    ids = torch.tensor([[3, 1, 3, 0], [2, 2, 2, 2]])
    b = torch.randn(2, 4, 6)
    true = torch.zeros(2, 5, 6, dtype=torch.float64).index_put(
        (torch.arange(2)[:, None], ids), b.double(), accumulate=True
    )
    found = norms_of(Factors(ids, b, "embedding", torch.zeros(5, 6)))
    exact = true.flatten(1).square().sum(1)
    assert (found.squares >= exact).all()
    torch.testing.assert_close(found.squares, exact, rtol=1e-4, atol=0)


def test_float64_is_refused() -> None:
    with pytest.raises(ValueError, match=r"b must be of float32, bfloat16 or float16, got torch\.float64"):
        norms_of(linear(torch.ones(1, 1, 2), torch.ones(1, 1, 2).double()))


# -- sums --------------------------------------------------------------------------------------------------------------


class Network(torch.nn.Module):  # type: ignore[name-defined]
    """Layers of all kinds, of which ``twice`` and ``elsewhere`` are used more than once."""

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
        self.elsewhere = torch.nn.Linear(16, KINDS)
        self.tied = torch.nn.Linear(8, WORDS, bias=False)
        self.tied.weight = self.embedding.weight

    def forward(self, words: Any) -> Any:
        embedded = self.norm(self.embedding(words))
        hidden = torch.tanh(self.first(embedded))
        hidden = self.partly(self.frozen(self.second(hidden) + self.twice(self.twice(hidden))))
        scores = self.elsewhere(hidden.mean(1)) + torch.nn.functional.linear(hidden[:, 0], self.elsewhere.weight)
        return scores + self.tied(embedded).mean((1, 2))[:, None]


def network() -> Network:
    torch.manual_seed(1)
    return Network()


def data() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(2)
    return (
        torch.randint(0, WORDS, (EXAMPLES, LENGTH), generator=generator),
        torch.randint(0, KINDS, (EXAMPLES,), generator=generator),
    )


def test_weights_in_factors_are_those_that_known_functions_use() -> None:
    model = network()
    words, kinds = data()
    before = torch.get_rng_state()
    found = uses_of(model, loss, (words[:1], kinds[:1]))
    counts = {name: (len(each), sum(use.positions for use in each)) for name, each in found.items()}
    assert counts == {
        "first.weight": (1, LENGTH),
        "second.weight": (1, LENGTH),
        "twice.weight": (2, 2 * LENGTH),
        "elsewhere.weight": (2, 2),
    }  # the embedding is used by two kinds of functions
    assert torch.equal(torch.get_rng_state(), before)
    assert uses_of(model.double(), loss, (words[:1], kinds[:1])) == {}


@pytest.mark.parametrize("clip_norm", [0.1, 1e3])
def test_sums_are_those_of_gradients_of_examples(clip_norm: float) -> None:
    model = network()
    engine = Engine("vmap", uses_of(model, loss, tuple(each[:1] for each in data())))
    found = engine.gradients(model, loss, data()).samples
    sums = clipped(found, clip_norm, None, blocks_of(EXAMPLES, engine.positions)).sums
    expected = clipped_sum(list(example_gradients(model, loss, data()).values()), clip_norm)
    for one, other in zip(sums, expected, strict=True):
        assert one.dtype == torch.float64
        torch.testing.assert_close(one.float(), other, rtol=2e-3, atol=1e-3 * other.abs().max().item())


def one_sum(a: Any, b: Any, clip_norm: float, largest: int, blocks: Blocks | None = None) -> Any:
    """The clipped sum at a weight."""
    chosen = blocks_of(largest, a.shape[1]) if blocks is None else blocks
    return clipped([linear(a, b)], clip_norm, None, chosen).sums[0]


@pytest.mark.parametrize("broken", [torch.nan, torch.inf, 2.0**126.5])
def test_examples_without_a_finite_gradient_count_as_zero(broken: float) -> None:
    """Also one so large that products vanish beside it, where numbers near zero are flushed."""
    a, b = torch.randn(5, 3, 8), torch.randn(5, 3, 4)
    kept = one_sum(a[1:], b[1:], 0.1, 5)
    a[0, 1, 2] = broken
    torch.testing.assert_close(one_sum(a, b, 0.1, 5), kept)


def test_underflow_counts_in_all_blocks_of_an_example() -> None:
    """Blocks of one position each lose 64 times what one block loses."""
    a, b = torch.ones(2, 64, 4), torch.ones(2, 64, 4)
    a[0] *= 2.0**95
    lost = 2.0**-122 * 4 * 2.0**95
    blocks = Blocks(1, 1, "float32", 16.0, 1e-4)
    counts = torch.ones(2, dtype=torch.bool)
    for clip_norm, kept in ((2e6 * lost, False), (2e6 * 64 * lost, True)):
        factors, _ = clip_factors([linear(a, b)], torch.zeros(2, dtype=torch.float64), clip_norm, blocks, counts)
        assert (factors > 0).tolist() == [kept, True]


class Capricious(torch.nn.Module):  # type: ignore[name-defined]
    """A model that uses its layer now and then, by name."""

    def __init__(self, uses: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.uses = uses

    def forward(self, inputs: Any) -> Any:
        for _ in range(self.uses):
            inputs = self.layer(input=inputs)
        return inputs


def product(outputs: Any, targets: Any) -> Any:
    return (outputs * targets).sum()


@pytest.mark.parametrize(("later", "refused"), [(1, False), (0, False), (2, True)])
def test_a_weight_has_the_uses_of_the_probe_or_fewer(later: int, refused: bool) -> None:
    rows = torch.randn(3, 16), torch.randn(3, 16)
    engine = Engine("vmap", uses_of(Capricious(1), product, tuple(each[:1] for each in rows)))
    if refused:
        with pytest.raises(ValueError, match=r"layer\.weight must be used in each step as in the first"):
            engine.gradients(Capricious(later), product, rows)
    else:
        model = Capricious(later)
        found = clipped(engine.gradients(model, product, rows).samples, 1.0, None, blocks_of(3, 1)).sums
        expected = clipped_sum(Engine("vmap").gradients(model, product, rows).samples, 1.0)
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one.float(), other, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("ratio", [None, 1.2])
def test_one_example_moves_the_sum_by_at_most_the_clip_norm(ratio: float | None) -> None:
    """And its terms are no larger than K clip norms, which bounds their rounding errors."""
    torch.manual_seed(3)
    a = torch.randn(8, 1, 16).repeat(1, 2, 1)
    b = 1e5 * torch.randn(8, 1, 16)
    b = torch.cat([b, -(1 + 1e-5) * b], 1)  # κ is 2·10⁵ times the norm
    blocks = blocks_of(10, 2) if ratio is None else blocks_of(10, 2)._replace(ratio=ratio)
    for clip_norm in (1e-3, 1.0):
        whole = one_sum(a, b, clip_norm, 10, blocks)
        for i in range(len(a)):
            rest = torch.arange(len(a)) != i
            moved = (whole - one_sum(a[rest], b[rest], clip_norm, 10, blocks)).norm().item()
            assert moved <= clip_norm
            assert moved <= 1.1e-5 * clip_norm * blocks.ratio


def test_a_sum_keeps_the_clip_norm_where_kappa_does_not_bind() -> None:
    torch.manual_seed(4)
    for a, b in ((torch.randn(1, 3, 40), torch.randn(1, 3, 30)), (torch.randn(1, 1, 2000), torch.randn(1, 1, 7))):
        norm = one_sum(a, b, 1.0, 50).norm().item()
        assert 1 - 6e-3 < norm <= 1


def test_autocast_leaves_the_clipping_alone() -> None:
    """It changes gradients, and not the products that clip them; the factor is no larger than in float64."""
    torch.manual_seed(3)
    a, b = torch.randn(1, 4, 16), torch.randn(1, 4, 16)
    with torch.autocast("cpu", torch.bfloat16):
        found = one_sum(a, b, 1.0, 10)
    assert found.dtype == torch.float64
    assert torch.equal(found, one_sum(a, b, 1.0, 10))


@pytest.mark.parametrize(
    ("positions", "expected", "rounding"),
    [
        (1, (32, 1), 2.594e-4),
        (16, (4, 16), 2.518e-4),
        (32, (2, 32), 1.780e-4),
        (128, (1, 128), 3.507e-4),
        (512, (1, 64), 3.561e-4),
        (2048, (1, 32), 3.668e-4),
    ],
)
def test_blocks_are_the_largest_that_keep_the_margin(
    positions: int, expected: tuple[int, int], rounding: float
) -> None:
    found = blocks_of(64, positions)
    assert (found.examples, found.positions) == expected
    assert found.rounding == pytest.approx(rounding, rel=1e-2)
    assert found.ratio == max(1.0, 2 * positions**0.5)


@given(
    largest=st.integers(1, 10**5),
    positions=st.integers(1, 3000),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_the_margin_covers_the_rounding_of_two_sums(largest: int, positions: int, dtype: str) -> None:
    """In rational numbers: clipped gradients, norms too small by 3.1e-5, and rounding; without r it is not covered."""
    try:
        found = blocks_of(largest, positions, dtype)
    except ValueError:
        assert largest * positions > 10**4
        return
    unit = Fraction(1, 2 ** (24 if dtype == "float32" else 53))
    inside = found.examples * found.positions + 2
    gamma = inside * unit / (1 - inside * unit)
    terms = found.examples * Fraction(found.ratio)
    count = -(-largest // found.examples) * -(-positions // found.positions)
    long = Fraction(1, 2**53)
    outside = count * long / (1 - count * long) * (1 + gamma) * largest * Fraction(found.ratio)
    rounding = 2 * gamma * terms + (2 * outside if dtype == "float32" else 0)
    clip = (Fraction(MARGIN) - Fraction(found.rounding)) * (1 + Fraction(1, 2**24)) ** 3
    total = clip / (1 - Fraction(31, 10**6)) + rounding
    assert total <= 1
    assert found.rounding <= 5e-4
    if rounding > Fraction(8, 10**5):
        assert total + Fraction(found.rounding) > 1


def test_rounding_of_blocks_stays_within_its_bound() -> None:
    """Sums of neighbours in float32 blocks against float64; a bound for one product alone would be exceeded."""
    torch.manual_seed(5)
    a, b = torch.randn(64, 32, 48), torch.randn(64, 32, 40)
    blocks = blocks_of(64, 32)
    other = a.clone()
    other[7] = -a[7]
    squares = torch.zeros(64, dtype=torch.float64)
    counts = torch.ones(64, dtype=torch.bool)
    sums = []
    for each in (a, other):
        factors, _ = clip_factors([linear(each, b)], squares, 1.0, blocks, counts)
        exact = torch.einsum("i,ilq,ilp->qp", factors.double(), b.double(), each.double())
        sums.append(summed(linear(each, b), factors, blocks) - exact)
    assert 1e-9 < (sums[0] - sums[1]).norm().item() <= blocks.rounding


def test_batches_that_no_margin_covers_are_refused() -> None:
    with pytest.raises(ValueError, match="batches of 1000000 examples with 2 positions each are too large"):
        blocks_of(10**6, 2, "float64")
    with pytest.raises(ValueError, match="batches of 1000000000 examples with 1 positions"):
        blocks_of(10**9, 1)


def test_the_report_for_opacus_shows_a_gradient_beyond_its_clip_norm() -> None:
    """The script of the page runs, and its gradients have at most the clip norm here."""
    pytest.importorskip("opacus")
    shown: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: shown.append(" ".join(map(str, words)))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Opacus, about its generator
        exec(compile(script("Ghost clipping"), "report", "exec"), names)
    *_, largest, _, _, theirs = shown[-1].replace(":", "").split()
    assert float(largest) > 2
    assert float(theirs) < 1
    model, rows = names["Opposed"](), (names["inputs"], names["targets"])
    engine = Engine("vmap", uses_of(model, torch.nn.L1Loss(), tuple(each[:1] for each in rows)))
    assert engine.factors == ("layer.weight",)
    samples = engine.gradients(model, torch.nn.L1Loss(), rows).samples
    for row in range(len(rows[0])):
        one = samples[0]._replace(a=samples[0].a[row : row + 1], b=samples[0].b[row : row + 1])
        found = clipped([one], 1.0, None, blocks_of(1, 2)._replace(ratio=1e9))
        assert 0.98 <= found.sums[0].norm().item() <= 1 < found.norms.item()
        assert 0 < clipped([one], 1.0, None, blocks_of(1, 2)).sums[0].norm().item() < 1e-4  # K binds


# -- exact sums --------------------------------------------------------------------------------------------------------


def coarse_run(clip_norm: float = 1.0) -> PrivateRun:
    """A run of 32 · 32 parameters with batches so large that its integers of 32 bits are coarse."""
    once = Participation.single(1)
    budget = Budget(rho=0.5, clip_norm=clip_norm)
    order = batches(once, 40_000, 40_000, 0)
    return PrivateRun(budget, once, DPSGD(), 1024, batches=order, sums="exact", release="grid")


@pytest.mark.parametrize("mutant", [False, True])
def test_rounding_to_the_grid_moves_the_integers_by_at_most_the_clip_norm(mutant: bool) -> None:
    """All 1024 coordinates are rounded up with an example and down without it.  Clipped to the clip norm of the run, as
    the mutant is, the integers would move by more."""
    largest = 0.0
    exact = Blocks(1, 1, "float64", 2.0, 0.0)
    for clip_norm in np.linspace(1, 1 + 2**-10, 20).tolist():
        run = coarse_run(clip_norm)
        assert run.grid is not None
        assert run.grid.dtype == "int32"
        unit = run.grid.unit
        norm = clip_norm if mutant else torch_factors.clip_norm_of_sums(run)
        ones = torch.ones(1, 1, 32)
        alone = one_sum(ones, ones, norm, 1, exact)
        over = (alone[0, 0] / unit).item() % 1
        other = ones * unit * (0.5 - over / 2)  # for the gradient of another example
        both = torch.cat([ones, ones]), torch.cat([ones, other])
        whole = torch_factors.rounded(one_sum(*both, norm, 1, exact), run.grid)
        less = torch_factors.rounded(one_sum(ones, other, norm, 1, exact), run.grid)
        assert whole.dtype == torch.int32
        largest = max(largest, (whole - less).double().norm().item() * unit / clip_norm)
    assert (largest <= 1) == (not mutant)
    assert largest > 1 - 2e-3


def test_each_process_rounds_its_own_sum() -> None:
    """And each number to the nearest integer, of either sign."""
    run = coarse_run()
    lost = 1 - torch_factors.clip_norm_of_sums(run)
    with mock.patch.object(PrivateRun, "ranks", mock.Mock(count=3)):
        assert 1 - torch_factors.clip_norm_of_sums(run) == pytest.approx(3 * lost, rel=1e-6)
    assert run.grid is not None
    exact = torch.linspace(-3, 3, 61, dtype=torch.float64) * run.grid.unit
    found = torch_factors.rounded(exact, run.grid)
    assert (found * run.grid.unit - exact).abs().max() <= run.grid.unit / 2


def test_a_grid_that_is_too_coarse_is_refused() -> None:
    budget, once = Budget(rho=1e-16), Participation.single(1)
    order = batches(once, 8, 8, 0)
    run = PrivateRun(budget, once, DPSGD(), 10**4, batches=order, sums="exact", release="grid")
    with pytest.raises(ValueError, match="grid of exact sums must be finer for clipping='ghost': rounding 10000 param"):
        torch_factors.clip_norm_of_sums(run)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("broken", [None, torch.nan, torch.inf])
def test_integers_of_models_of_any_precision_have_the_norm_of_a_clipped_gradient(dtype: Any, broken: Any) -> None:
    """One example of a run; with an example that is not finite beside it, which counts as zero."""
    torch.manual_seed(3)
    once = Participation.single(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, KINDS)).to(dtype)
    size = sum(each.numel() for each in model.parameters())
    inputs = 100 * torch.randn(2, 16, dtype=dtype)
    kinds = torch.tensor([1, 2])
    batch = slice(0, 1 if broken is None else 2)
    if broken is not None:
        inputs[1, 3] = broken
    order = batches(once, batch.stop, batch.stop, 0)
    run = PrivateRun(Budget(rho=0.5), once, DPSGD(), size, batches=order, sums="exact", release="grid")
    run.next_batch()
    seen: list[Any] = []

    def noiseless(_: Any, sums: list[Any]) -> list[Any]:
        seen.append(sums)
        return sums

    with mock.patch.object(torch_loop, "add_noise", noiseless):
        torch_loop.private_gradient(run, model, loss, (inputs[batch], kinds[batch]), clipping="ghost")
    assert run.grid is not None
    assert {each.dtype for each in seen[0]} == {getattr(torch, run.grid.dtype)}
    squares = sum(int(each) ** 2 for total in seen[0] for each in total.flatten().tolist())
    assert Fraction(1 - 1e-3) ** 2 <= squares * Fraction(run.grid.unit) ** 2 <= 1
    with (
        mock.patch.object(torch_factors, "clip_norm_of_sums", return_value=0.5),
        mock.patch.object(torch_loop, "add_noise", noiseless),
    ):
        torch_loop.private_gradient(run, model, loss, (inputs[batch], kinds[batch]), clipping="ghost")
    assert sum(int(each) ** 2 for total in seen[1] for each in total.flatten().tolist()) <= squares / 4 * 1.01
    with (
        mock.patch.object(PrivateRun, "largest_batch", 10**9),
        pytest.raises(ValueError, match="batches of 1000000000 examples with 1 positions each are too large"),
    ):
        torch_loop.private_gradient(run, model, loss, (inputs[batch], kinds[batch]), clipping="ghost")


def test_half_precision_needs_exact_sums() -> None:
    model = torch.nn.Linear(16, 16).bfloat16()
    options: dict[str, Any] = {"loss": loss, "budget": Budget(0.5), "batch_size": 2, "epochs": 1, "clipping": "ghost"}
    with pytest.raises(ValueError, match="parameters must be of float32 or float64"):
        make_private(
            model,
            torch.optim.SGD(model.parameters(), lr=0.1),
            (torch.zeros(4, 16), torch.zeros(4)),
            sums="float32",
            release="float",
            **options,
        )


# -- runs --------------------------------------------------------------------------------------------------------------


def command(place: Path | None = None, dtype: Any = torch.float32, **options: Any) -> TorchRun:
    model = network().to(dtype)
    settings: dict[str, Any] = {
        "loss": loss,
        "budget": Budget(rho=0.5),
        "batch_size": 6,
        "epochs": 3,
        "mechanism": NuFTRL(0.05),
        "folder": None if place is None else Folder(place / "run", marks=place / "marks"),
        "clipping": "ghost",
    } | options
    trained = [each for each in model.parameters() if each.requires_grad]
    return make_private(model, torch.optim.SGD(trained, lr=0.1), data(), **settings)


@pytest.mark.parametrize(
    ("options", "level"),
    [({}, "grid"), ({"dtype": torch.bfloat16}, "grid"), ({"sums": "float32", "release": "float"}, "idealised")],
    ids=str,
)
def test_a_run_trains_and_goes_on_with_the_same_clipping_only(
    options: dict[str, Any], level: str, tmp_path: Path
) -> None:
    run = command(tmp_path, **options)
    assert run.level == level
    for batch in run:
        run.step(batch)
        if run.position == 5:
            break
    run.close()
    with pytest.raises(ValueError, match="clipping was 'ghost', is 'example'"):
        command(tmp_path, **options, clipping="example")
    run = command(tmp_path, **options)
    for batch in run:
        run.step(batch)
    assert run.position == 12
    assert list(command(tmp_path, **options)) == []


def test_other_clipping_is_refused() -> None:
    with pytest.raises(ValueError, match="clipping must be one of 'auto', 'example', 'ghost', got 'fast'"):
        command(clipping="fast")
