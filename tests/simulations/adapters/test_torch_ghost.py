"""Ghost clipping: norms against rational numbers, sums against those of gradients of examples, and runs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.adapters import torch as torch_loop
from corrnoise.simulations.adapters import torch_ghost
from corrnoise.simulations.adapters.torch import clipped_sum, example_gradients
from corrnoise.simulations.adapters.torch_ghost import largest_ratio, linear_layers, squared_norm
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import MARGIN
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EXAMPLES, WORDS, KINDS, LENGTH = 24, 11, 5, 4
loss = torch.nn.functional.cross_entropy


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
    """And too large by rounding alone; in every precision, also where squares would vanish in it."""
    rng = np.random.default_rng(seed)
    a, b = (
        torch.tensor(rng.normal(size=(1, positions, size)) * 10.0**power).clamp(-6e4, 6e4).to(dtype)
        if dtype == torch.float16
        else torch.tensor(rng.normal(size=(1, positions, size)) * 10.0**power).to(dtype)
        for size, power in zip(sizes, powers, strict=True)
    )
    if opposite and positions > 1:
        a[:, 1], b[:, 1] = a[:, 0], -b[:, 0] * (1 + 1e-5)
    upper, kappa = squared_norm(a, b)
    true = exact_norm(a[0], b[0])
    assert true <= Fraction(upper.item()) <= true + Fraction(1, 10**12) * Fraction(kappa.item())
    pieces = [exact_norm(a[0, i : i + 1], b[0, i : i + 1]) for i in range(positions)]
    assert sum(float(each) ** 0.5 for each in pieces) ** 2 <= kappa.item() * (1 + 1e-14)


def test_the_norm_without_its_bound_of_rounding_is_too_small() -> None:
    a, b = cancelling(256, 20)
    upper, _ = squared_norm(a, b)
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
    clipped = true * (1 / norm.double()).clamp(max=1)
    assert clipped.max() > 2
    upper = squared_norm(a, b)[0].sqrt()
    assert (true * (1 / upper).clamp(max=1)).max() <= 1


def test_float64_is_refused() -> None:
    with pytest.raises(ValueError, match=r"b must be of float32, bfloat16 or float16, got torch\.float64"):
        squared_norm(torch.ones(1, 1, 2), torch.ones(1, 1, 2).double())


# -- sums --------------------------------------------------------------------------------------------------------------


class Network(torch.nn.Module):  # type: ignore[name-defined]
    """Layers of all kinds: of the linear ones ``twice`` and ``elsewhere`` are used more than once."""

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


def test_layers_are_those_whose_parameters_are_used_once() -> None:
    model = network()
    words, kinds = data()
    before = torch.get_rng_state()
    found = linear_layers(model, loss, words[:1], kinds[:1])
    assert [(each.name, each.positions) for each in found] == [("first", LENGTH), ("second", LENGTH)]
    assert torch.equal(torch.get_rng_state(), before)
    for times, expected in ((1, 2), (2, 0)):  # 5 (8 + 16) < 8 · 16, and 8 (16 + 16) = 16 · 16
        long = words[:1].repeat(1, 2)[:, : LENGTH * times]
        assert len(linear_layers(model, loss, long, kinds[:1])) == expected
    assert linear_layers(model.double(), loss, words[:1], kinds[:1]) == []


@pytest.mark.parametrize("clip_norm", [0.1, 1e3])
def test_sums_are_those_of_gradients_of_examples(clip_norm: float) -> None:
    model = network()
    found = torch_ghost.clipped_sum(model, loss, *data(), clip_norm, EXAMPLES)
    expected = clipped_sum(list(example_gradients(model, loss, *data()).values()), clip_norm)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == torch.float64
        torch.testing.assert_close(one.float(), other, rtol=1e-4, atol=1e-5 * other.abs().max().item())
    words, kinds = data()
    empty = torch_ghost.clipped_sum(model, loss, words[:0], kinds[:0], clip_norm, 1)
    assert not any(bool(each.any()) for each in empty)


def test_examples_that_are_not_finite_count_as_zero() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, KINDS))
    inputs, kinds = torch.randn(5, 6), data()[1][:5]
    kept = torch_ghost.clipped_sum(model, loss, inputs[1:], kinds[1:], 0.1, 5)
    for broken in (torch.nan, torch.inf):
        inputs[0, 2] = broken
        found = torch_ghost.clipped_sum(model, loss, inputs, kinds, 0.1, 5)
        torch.testing.assert_close(found, kept)


class Capricious(torch.nn.Module):  # type: ignore[name-defined]
    """A model that uses its layer now and then, by name."""

    def __init__(self, uses: list[int]) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16)
        self.uses = iter(uses)

    def forward(self, inputs: Any) -> Any:
        for _ in range(next(self.uses)):
            inputs = self.layer(input=inputs)
        return inputs


@pytest.mark.parametrize(("second", "message"), [(1, None), (0, "layer must be used .* got never"), (2, "got twice")])
def test_a_layer_is_used_once_in_every_step(second: int, message: str | None) -> None:
    def summed() -> Any:
        return torch_ghost.clipped_sum(Capricious([1, second]), product, torch.ones(3, 16), torch.ones(3, 16), 1.0, 3)

    if message is None:
        assert summed()[0].norm() > 0.1
    else:
        with pytest.raises(ValueError, match=message):
            summed()


class Opposed(torch.nn.Module):  # type: ignore[name-defined]
    """A model whose gradient at two positions nearly cancels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(16, 16, bias=False)

    def forward(self, inputs: Any) -> Any:
        one, other = self.layer(torch.stack([inputs, inputs], 1)).unbind(1)
        return 1e5 * (one - (1 + 1e-5) * other)


def product(outputs: Any, targets: Any) -> Any:
    return (outputs * targets).sum()


MANY = 250_000  # examples of the largest batch with two positions, for which K is 1.2


@pytest.mark.parametrize("largest", [10, MANY])
def test_one_example_moves_the_sum_by_at_most_the_clip_norm(largest: int) -> None:
    """And its terms are no larger than K clip norms, which bounds their rounding errors."""
    torch.manual_seed(3)
    inputs, targets = torch.randn(8, 16), torch.randn(8, 16)
    for clip_norm in (1e-3, 1.0):
        whole = torch_ghost.clipped_sum(Opposed(), product, inputs, targets, clip_norm, largest)[0]
        for i in range(len(inputs)):
            rest = torch.arange(len(inputs)) != i
            less = torch_ghost.clipped_sum(Opposed(), product, inputs[rest], targets[rest], clip_norm, largest)[0]
            moved = (whole - less).norm().item()
            assert moved <= clip_norm
            if largest == MANY:  # κ is 2·10⁵ times the norm
                assert moved <= 1e-5 * clip_norm * largest_ratio(2, MANY)
            else:
                assert moved >= (1 - 1e-3) * clip_norm


def test_autocast_leaves_the_clipping_alone() -> None:
    """It changes gradients, and not the products of float64 that clip them."""
    torch.manual_seed(3)
    inputs, targets = torch.randn(1, 16), torch.randn(1, 16)
    with torch.autocast("cpu", torch.bfloat16):
        sums = torch_ghost.clipped_sum(torch.nn.Linear(16, 16), product, inputs, targets, 1.0, 10)
    assert {each.dtype for each in sums} == {torch.float64}
    assert 1 - 1e-3 <= torch.cat([each.flatten() for each in sums]).norm().item() <= MARGIN * (1 + 1e-9)


@given(
    examples=st.integers(1, 10**5),
    lengths=st.lists(st.integers(1, 100), min_size=1, max_size=4),
    factor=st.sampled_from([1, 3]),
)
def test_the_margin_of_the_clip_norm_covers_the_rounding_of_two_sums(
    examples: int, lengths: list[int], factor: int
) -> None:
    """In rational numbers, with the relative error of the norms; a ratio three times as large is not covered.

    The parts of a batch may have examples of several lengths L.  A term of a part passes through at most B L additions
    in it, and B of parts.
    """
    unit = Fraction(1, 2**53)
    rounding = Fraction(0)
    for length in lengths:  # of equal shares of the examples
        try:
            ratio = factor * Fraction(largest_ratio(length, examples))
        except ValueError:
            return
        count = examples * length + examples + 2
        rounding += count * unit / (1 - count * unit) * ratio * Fraction(examples, len(lengths))
    total = Fraction(MARGIN) * (1 + Fraction(1, 10**6)) + 2 * rounding
    assert (total <= 1) == (factor == 1)


def test_batches_that_no_margin_covers_are_refused() -> None:
    assert largest_ratio(1, 256) > 1e6
    with pytest.raises(ValueError, match="batches of 1000000 examples with 2 positions each are too large"):
        largest_ratio(2, 10**6)


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
    for clip_norm in np.linspace(1, 1 + 2**-10, 20).tolist():
        run = coarse_run(clip_norm)
        assert run.grid is not None
        assert run.grid.dtype == "int32"
        unit = run.grid.unit
        norm = clip_norm if mutant else torch_ghost.clip_norm_of_sums(run)
        ones = torch.ones(1, 1, 32)
        (alone,) = torch_ghost.sums_of([(ones, ones)], norm, run.largest_batch)
        over = (alone[0, 0] / unit).item() % 1
        other = ones * unit * (0.5 - over / 2)  # for the gradient of another example
        both = torch.cat([ones, ones]), torch.cat([ones, other])
        (whole,) = torch_ghost.rounded(torch_ghost.sums_of([both], norm, run.largest_batch), run.grid)
        (less,) = torch_ghost.rounded(torch_ghost.sums_of([(ones, other)], norm, run.largest_batch), run.grid)
        assert whole.dtype == torch.int32
        largest = max(largest, (whole - less).double().norm().item() * unit / clip_norm)
    assert (largest <= 1) == (not mutant)
    assert largest > 1 - 2e-3


def test_each_process_rounds_its_own_sum() -> None:
    """And each number to the nearest integer, of either sign."""
    run = coarse_run()
    lost = 1 - torch_ghost.clip_norm_of_sums(run)
    with mock.patch.object(PrivateRun, "ranks", mock.Mock(count=3)):
        assert 1 - torch_ghost.clip_norm_of_sums(run) == pytest.approx(3 * lost, rel=1e-6)
    assert run.grid is not None
    exact = torch.linspace(-3, 3, 61, dtype=torch.float64) * run.grid.unit
    (found,) = torch_ghost.rounded([exact], run.grid)
    assert (found * run.grid.unit - exact).abs().max() <= run.grid.unit / 2


def test_a_grid_that_is_too_coarse_is_refused() -> None:
    budget, once = Budget(rho=1e-16), Participation.single(1)
    order = batches(once, 8, 8, 0)
    run = PrivateRun(budget, once, DPSGD(), 10**4, batches=order, sums="exact", release="grid")
    with pytest.raises(ValueError, match="grid of exact sums must be finer for clipping='ghost': rounding 10000 param"):
        torch_ghost.clip_norm_of_sums(run)


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
        torch_loop.private_gradient(run, model, loss, inputs[batch], kinds[batch], clipping="ghost")
    assert run.grid is not None
    assert {each.dtype for each in seen[0]} == {getattr(torch, run.grid.dtype)}
    squares = sum(int(each) ** 2 for total in seen[0] for each in total.flatten().tolist())
    assert Fraction(1 - 1e-3) ** 2 <= squares * Fraction(run.grid.unit) ** 2 <= 1
    with (
        mock.patch.object(torch_ghost, "clip_norm_of_sums", return_value=0.5),
        mock.patch.object(torch_loop, "add_noise", noiseless),
    ):
        torch_loop.private_gradient(run, model, loss, inputs[batch], kinds[batch], clipping="ghost")
    assert sum(int(each) ** 2 for total in seen[1] for each in total.flatten().tolist()) <= squares / 4 * 1.01
    with (
        mock.patch.object(PrivateRun, "largest_batch", 10**9),
        pytest.raises(ValueError, match="batches of 1000000000 examples with 1 positions each are too large"),
    ):
        torch_loop.private_gradient(run, model, loss, inputs[batch], kinds[batch], clipping="ghost")


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
    with pytest.raises(ValueError, match="clipping must be one of 'example', 'ghost', got 'fast'"):
        command(clipping="fast")
