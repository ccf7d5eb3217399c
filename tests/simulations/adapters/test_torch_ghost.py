"""Ghost clipping: norms against rational numbers, sums against those of gradients of examples, and runs."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.simulations.adapters import torch_ghost
from corrnoise.simulations.adapters.torch import clipped_sum, example_gradients
from corrnoise.simulations.adapters.torch_ghost import largest_ratio, linear_layers, squared_norm
from corrnoise.simulations.adapters.torch_run import TorchRun, make_private
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.sums import MARGIN
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.privacy import Budget

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

EXAMPLES, WORDS, KINDS, LENGTH = 24, 11, 5, 4
loss = torch.nn.functional.cross_entropy


def exact_norm(a: Any, b: Any, *, weight: bool = True, bias: bool = False) -> Fraction:
    """The squared norm of the gradient of one example, from its Gram matrices in rational numbers."""
    rows, others = ([[Fraction(x) for x in row] for row in each.tolist()] for each in (a, b))

    def product(one: list[Fraction], other: list[Fraction]) -> Fraction:
        return sum((x * y for x, y in zip(one, other, strict=True)), Fraction(0))

    return sum(
        (
            (product(rows[i], rows[j]) * weight + bias) * product(others[i], others[j])
            for i in range(len(rows))
            for j in range(len(rows))
        ),
        Fraction(0),
    )


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
    trained=st.sampled_from([(True, False), (True, True), (False, True)]),
    opposite=st.booleans(),
)
def test_norms_are_never_too_small(
    seed: int,
    positions: int,
    sizes: tuple[int, int],
    powers: tuple[float, float],
    trained: tuple[bool, bool],
    opposite: bool,
) -> None:
    """And too large by rounding alone; also where squares would vanish in float32."""
    rng = np.random.default_rng(seed)
    a, b = (
        torch.tensor(rng.normal(size=(1, positions, size)) * 10.0**power, dtype=torch.float32)
        for size, power in zip(sizes, powers, strict=True)
    )
    if opposite and positions > 1:
        a[:, 1], b[:, 1] = a[:, 0], -b[:, 0] * (1 + 1e-5)
    weight, bias = trained
    upper, kappa = squared_norm(a, b, weight=weight, bias=bias)
    true = exact_norm(a[0], b[0], weight=weight, bias=bias)
    assert true <= Fraction(upper.item()) <= true + Fraction(1, 10**12) * Fraction(kappa.item())
    pieces = [exact_norm(a[0, i : i + 1], b[0, i : i + 1], weight=weight, bias=bias) for i in range(positions)]
    assert sum(float(each) ** 0.5 for each in pieces) ** 2 <= kappa.item() * (1 + 1e-14)


def test_the_norm_without_its_bound_of_rounding_is_too_small() -> None:
    a, b = cancelling(256, 20)
    upper, _ = squared_norm(a, b)
    mutant = ((a.double() @ a.double().mT) * (b.double() @ b.double().mT)).sum((1, 2))
    true = [exact_norm(*pair) for pair in zip(a, b, strict=True)]
    assert all(Fraction(found) >= each for found, each in zip(upper.tolist(), true, strict=True))
    assert any(Fraction(found) < each for found, each in zip(mutant.tolist(), true, strict=True))
    np.testing.assert_allclose(upper, np.array([float(each) for each in true]), rtol=1e-2)


@pytest.mark.parametrize("library", ["products of float32", "opacus"])
def test_norms_in_float32_let_gradients_exceed_the_clip_norm(library: str) -> None:
    """Clipped to 1 by such a norm, a gradient has a norm of more than 2; by the norm here, at most 1."""
    a, b = (each * 20 for each in cancelling(512, 64))
    if library == "opacus":
        linear = pytest.importorskip("opacus.grad_sample.linear")
        layer = torch.nn.Linear(512, 512, bias=False)
        norm = linear.compute_linear_norm_sample(layer, [a], b)[layer.weight]
    else:
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
    assert [(each.name, each.weight, each.bias, each.positions) for each in found] == [
        ("first", True, True, LENGTH),
        ("second", True, False, LENGTH),
        ("partly", False, True, LENGTH),
    ]
    assert torch.equal(torch.get_rng_state(), before)
    long = words[:1].repeat(1, 4)  # 2 · 16² numbers of a Gram matrix are as many as a gradient has
    assert linear_layers(model, loss, long, kinds[:1]) == []


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


MANY = 300_000  # examples of the largest batch with two positions, for which K is 1.2


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
                assert moved <= 1e-5 * clip_norm * largest_ratio(2 * MANY, MANY)
            else:
                assert moved >= (1 - 1e-3) * clip_norm


def test_autocast_leaves_the_clipping_alone() -> None:
    """It changes gradients, and not the products of float64 that clip them."""
    torch.manual_seed(3)
    inputs, targets = torch.randn(1, 16), torch.randn(1, 16)
    with torch.autocast("cpu", torch.bfloat16):
        sums = torch_ghost.clipped_sum(torch.nn.Linear(16, 16), product, inputs, targets, 1.0, 10)
    assert {each.dtype for each in sums} == {torch.float64}
    assert 1 - 1e-3 <= torch.cat([each.flatten() for each in sums]).norm().item() <= 1


@given(examples=st.integers(1, 10**5), positions=st.integers(1, 100), factor=st.sampled_from([1, 3]))
def test_the_margin_of_the_clip_norm_covers_the_rounding_of_two_sums(
    examples: int, positions: int, factor: int
) -> None:
    """In rational numbers, with the relative error of the norms; a ratio three times as large is not covered."""
    terms = examples * positions
    try:
        ratio = factor * Fraction(largest_ratio(terms, examples))
    except ValueError:
        return
    unit = Fraction(1, 2**53)
    rounding = (terms + 2) * unit / (1 - (terms + 2) * unit)
    total = Fraction(MARGIN) * (1 + Fraction(1, 10**6)) + 2 * rounding * examples * ratio
    assert (total <= 1) == (factor == 1)


def test_batches_that_no_margin_covers_are_refused() -> None:
    assert largest_ratio(256, 256) > 1e6
    with pytest.raises(ValueError, match="batches of 1000000 examples with 2 positions each are too large"):
        largest_ratio(2 * 10**6, 10**6)


# -- runs --------------------------------------------------------------------------------------------------------------


def command(place: Path | None = None, **options: Any) -> TorchRun:
    model = network()
    settings: dict[str, Any] = {
        "loss": loss,
        "budget": Budget(rho=0.5),
        "batch_size": 6,
        "epochs": 3,
        "mechanism": NuFTRL(0.05),
        "folder": None if place is None else Folder(place / "run", marks=place / "marks"),
        "sums": "float32",
        "release": "float",
        "clipping": "ghost",
    } | options
    trained = [each for each in model.parameters() if each.requires_grad]
    return make_private(model, torch.optim.SGD(trained, lr=0.1), data(), **settings)


def test_a_run_trains_and_goes_on_with_the_same_clipping_only(tmp_path: Path) -> None:
    run = command(tmp_path)
    assert run.level == "idealised"
    for batch in run:
        run.step(batch)
        if run.position == 5:
            break
    run.close()
    with pytest.raises(ValueError, match="clipping was 'ghost', is 'example'"):
        command(tmp_path, clipping="example")
    run = command(tmp_path)
    for batch in run:
        run.step(batch)
    assert run.position == 12
    assert list(command(tmp_path)) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sums": "exact", "release": "grid"}, "clipping must be 'example' for exact sums, got 'ghost'"),
        ({"clipping": "fast"}, "clipping must be one of 'example', 'ghost', got 'fast'"),
    ],
)
def test_other_clipping_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        command(**change)
