"""The probe: what mixes, remembers or changes is refused with a way out; the engine is the fastest right one."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.adapters import torch_branches, torch_choice, torch_engines, torch_made_up, torch_probe
from corrnoise.simulations.adapters.torch_choice import Engines, engine_for
from corrnoise.simulations.adapters.torch_engines import Engine, Kind, unchanged
from corrnoise.simulations.adapters.torch_items import per_example

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

functional = torch.nn.functional
PAIR = torch.zeros(6), torch.tensor(0)
TOKENS = torch.zeros(12, dtype=torch.int64), torch.zeros(12, dtype=torch.int64)


def layer(**options: Any) -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(6, 3, **options)


class Words(torch.nn.Module):  # type: ignore[name-defined]
    """Scores of words, with the classes along the second axis."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(11, 6)
        self.scores = torch.nn.Linear(6, 11)

    def forward(self, words: Any) -> Any:
        return self.scores(torch.tanh(self.embedding(words))).transpose(1, 2)


class Then(torch.nn.Module):  # type: ignore[name-defined]
    """A linear layer and a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.layer = layer()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(self.layer(x))


# -- changes and history -----------------------------------------------------------------------------------------------


class Averaged(torch.nn.Module):  # type: ignore[name-defined]
    """A buffer that averages activations."""

    mean: Any

    def __init__(self, *, in_place: bool) -> None:
        super().__init__()
        self.layer = layer()
        self.register_buffer("mean", torch.zeros(6))
        self.in_place = in_place

    def forward(self, x: Any) -> Any:
        if self.in_place:
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        else:
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return self.layer(x)


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("engine", ["auto", "loop"])
def test_a_buffer_that_changes_is_refused_by_its_name(in_place: bool, engine: Any) -> None:
    model = Averaged(in_place=in_place)
    with pytest.raises(ValueError, match=r"mean of the model must not change .*eval\(\)"):
        engine_for(model, per_example(functional.cross_entropy), PAIR, engine=engine)
    assert type(model.mean) is torch.Tensor
    if not in_place:
        assert not model.mean.any()


def test_a_weight_that_a_forward_pass_rewrites_is_refused() -> None:
    class Rewriting(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer()

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                self.layer.weight.clamp_(max=10.0)
            return self.layer(x)

    with pytest.raises(ValueError, match=r"layer\.weight of the model must not change"):
        engine_for(Rewriting(), functional.cross_entropy, PAIR)


def test_attributes_of_a_pass_do_not_stay() -> None:
    """Under ``vmap`` a dead wrapper would stay, after which a state could not be saved."""

    class Keeping(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer()
            self.last = None

        def forward(self, x: Any) -> Any:
            self.last = self.layer(x)
            return self.last

    model = Keeping()
    rows = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    kinds: tuple[Kind, ...] = ("vmap", "loop")
    for kind in kinds:
        Engine(kind).gradients(model, functional.cross_entropy, rows)
        assert model.last is None
    with unchanged(model):
        model(rows[0])
    assert model.last is None


@pytest.mark.parametrize("declared", [False, True])
def test_a_loss_that_remembers_rows_is_refused(declared: bool) -> None:
    seen = []

    def loss(outputs: Any, targets: Any) -> Any:
        seen.append(outputs.detach().mean())
        return functional.cross_entropy(outputs, targets) * (1 + sum(seen[:-1], torch.zeros(())))

    with pytest.raises(ValueError, match="loss and model must not remember examples"):
        engine_for(layer(), per_example(loss) if declared else loss, PAIR)


def test_the_probe_leaves_generators_and_modes() -> None:
    model = torch.nn.Sequential(layer(), torch.nn.Dropout(), torch.nn.LSTM(3, 3, 2, dropout=0.5, batch_first=True))
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    engine_for(model, lambda outputs, _: outputs[0].square().sum(), (torch.zeros(4, 6), torch.tensor(0.0)))
    assert torch.equal(torch.rand(2), expected)
    assert model[2].dropout == 0.5


# -- mixing ------------------------------------------------------------------------------------------------------------


def normalised(x: Any) -> Any:
    return (x - x.mean(0)) / (x.std(0, correction=0) + 1e-3)


class Normalised(torch.nn.Module):  # type: ignore[name-defined]
    def forward(self, x: Any) -> Any:
        return normalised(x)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (torch.nn.Sequential(layer(), Normalised()), r"module '1' \(Normalised\) mixes examples"),
        (Then(normalised), r"model \(Then\) mixes examples"),
        (Then(lambda x: x.flip(0)), "mixes examples"),
        (Then(lambda x: x * x[:1].sum()), "mixes examples"),
        (Then(lambda x: torch.cumsum(x, 0)), "mixes examples"),
    ],
)
def test_a_model_that_mixes_examples_is_refused_by_module(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.*per_example"):
        engine_for(model, functional.cross_entropy, PAIR)
    assert engine_for(model, per_example(functional.cross_entropy), PAIR).kind in ("vmap", "loop")


def test_a_sequence_along_the_first_axis_is_refused() -> None:
    encoder = torch.nn.TransformerEncoderLayer(6, 2, 8, batch_first=False)
    with pytest.raises(ValueError, match=r"mixes examples.*batch_first=True"):
        engine_for(encoder, functional.mse_loss, (torch.zeros(4, 6), torch.zeros(4, 6)))
    first = torch.nn.TransformerEncoderLayer(6, 2, 8, batch_first=True)
    assert engine_for(first, functional.mse_loss, (torch.zeros(4, 6), torch.zeros(4, 6))).kind == "vmap"


def token_mean(outputs: Any, targets: Any) -> Any:
    losses = functional.cross_entropy(outputs, targets, reduction="none")
    return losses.sum() / (targets != -100).sum()


WEIGHTS = torch.tensor([1.0, 1.0, 1000.0])


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (torch.nn.CrossEntropyLoss(weight=WEIGHTS), False),
        (torch.nn.CrossEntropyLoss(), True),  # a mean over the tokens that are not ignored
        (token_mean, True),
        (lambda outputs, targets: functional.cross_entropy(outputs @ outputs.T, torch.arange(len(outputs))), False),
        (lambda outputs, targets: functional.cross_entropy(outputs, targets) * len(outputs) ** 2, False),
        (lambda outputs, targets: outputs.logsumexp(0).sum(), False),
        (lambda outputs, targets: functional.cross_entropy(outputs, targets, reduction="sum") ** 2, False),
    ],
)
def test_a_loss_that_is_neither_mean_nor_sum_is_refused(loss: Any, words: bool) -> None:
    model, item = (Words(), TOKENS) if words else (layer(), PAIR)
    with pytest.raises(ValueError, match=r"loss must be the mean or the sum .* per_example"):
        engine_for(model, loss, item)
    assert engine_for(model, per_example(loss), item).kind == "vmap"


def test_one_heavy_class_of_many_is_found() -> None:
    weights = torch.ones(150)
    weights[140] = 3.0
    with pytest.raises(ValueError, match="loss must be the mean or the sum"):
        engine_for(torch.nn.Linear(6, 150), torch.nn.CrossEntropyLoss(weight=weights), PAIR)


@pytest.mark.parametrize(
    "loss",
    [
        functional.cross_entropy,
        torch.nn.CrossEntropyLoss(label_smoothing=0.2),
        torch.nn.CrossEntropyLoss(reduction="sum"),
        torch.nn.MultiMarginLoss(),
        lambda outputs, targets: functional.nll_loss(functional.log_softmax(outputs, 1), targets),
        lambda outputs, targets: functional.cross_entropy(outputs, targets, weight=WEIGHTS, reduction="sum") / 8,
    ],
)
def test_means_and_sums_are_accepted(loss: Any) -> None:
    found = engine_for(layer(), loss, PAIR)
    assert (found.kind, found.why) == ("vmap", "")


def test_a_loss_for_tokens_with_a_constant_divisor_is_accepted() -> None:
    def loss(outputs: Any, targets: Any) -> Any:
        return functional.cross_entropy(outputs, targets, reduction="sum") / 12

    assert engine_for(Words(), loss, TOKENS).kind == "vmap"


@pytest.mark.parametrize("mutant", ["no ignored targets", "two classes", "one draw"])
def test_a_probe_that_tries_less_misses_losses(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mutant == "no ignored targets":
        monkeypatch.setattr(torch_probe, "with_ignored_targets", lambda *given: iter(()))
        assert engine_for(Words(), token_mean, TOKENS).kind == "vmap"
        return
    weights = torch.ones(150)
    weights[140] = 3.0
    if mutant == "one draw":
        monkeypatch.setattr(torch_probe, "CLASS_DRAWS", 2)
    else:
        usual = torch_made_up.made_up_targets
        monkeypatch.setattr(torch_probe, "made_up_targets", lambda target, count, seed: usual(target, 2, seed))
    assert engine_for(torch.nn.Linear(6, 150), torch.nn.CrossEntropyLoss(weight=weights), PAIR).kind == "vmap"


# -- engines -----------------------------------------------------------------------------------------------------------


class Branch(torch.nn.Module):  # type: ignore[name-defined]
    """Twice the scores of examples whose inputs have a negative sum."""

    def __init__(self, read: Any) -> None:
        super().__init__()
        self.layer = layer()
        self.drop = torch.nn.Dropout()
        self.read = read

    def forward(self, x: Any) -> Any:
        found = self.drop(self.layer(x))
        return found if self.read(x.sum() > 0) else 2 * found


@pytest.mark.parametrize("read", [bool, int, torch.Tensor.item, lambda found: bool((found & found).all())])
def test_a_model_that_branches_on_one_example_runs_in_several_passes(read: Any) -> None:
    """An example has the same bits whether others take its branch or not, dropout included."""
    loss = per_example(functional.cross_entropy)
    model = Branch(read)
    found = engine_for(model, loss, PAIR, clipping="example")
    assert (found.kind, found.branches) == ("vmap", True)
    x, y = torch.randn(6, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1, 2])
    x[::2] = x[::2].abs()
    x[1::2] = -x[1::2].abs()
    torch.manual_seed(5)
    both = found.gradients(model, loss, (x, y))
    x[1::2] = x[1::2].abs()
    torch.manual_seed(5)
    one = found.gradients(model, loss, (x, y))
    for first, second in zip(both.samples, one.samples, strict=True):
        assert torch.equal(first[::2], second[::2])
        assert not torch.equal(first[1::2], second[1::2])
    model.drop.eval()
    alone = Engine("loop").gradients(model, loss, (x, y)).samples
    for first, second in zip(found.gradients(model, loss, (x, y)).samples, alone, strict=True):
        torch.testing.assert_close(first, second)


def test_rows_that_disagree_by_one_bit_take_passes_of_their_own() -> None:
    """A leader that is not a number agrees with itself, and −0 is not 0."""
    readings = torch.tensor([0.0, -0.0, torch.nan, 1.0, 0.0])

    def run_pass(live: Any) -> Any:
        def one(value: Any) -> Any:
            with torch_branches.Branching(live):
                return value * 0 + float(value.item() == 1.0)

        return torch.func.vmap(one)(readings)

    taken: list[Any] = []

    def merge(_: Any, new: Any, live: Any) -> Any:
        taken.append(live.copy())
        return new

    found, passes = torch_branches.in_passes(5, run_pass, merge)
    assert passes == 4
    assert np.array(taken).sum(0).tolist() == [1] * 5
    assert found is not None


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.RNN, partial(torch.nn.RNN, nonlinearity="relu")])
@pytest.mark.parametrize(
    "options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False}, {"batch_first": True}]
)
def test_recurrent_layers_run_under_vmap(kind: Any, options: dict[str, Any]) -> None:
    class Recurrent(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.first = options.get("batch_first", False)
            self.layer = kind(6, 3, **options)

        def forward(self, x: Any) -> Any:
            outputs, last = self.layer(x if self.first else x.transpose(0, 1))
            return outputs.square().mean((0, 2))[..., None].sum() + last.sum()

    def loss(outputs: Any, _: Any) -> Any:
        return outputs.square()

    model = Recurrent()
    found = engine_for(model, per_example(loss), (torch.zeros(4, 6), torch.tensor(0.0)))
    assert (found.kind, found.why) == ("vmap", "")
    rows = torch.randn(5, 4, 6), torch.zeros(5)
    alone = Engine("loop").gradients(model, loss, rows).samples
    for one, other in zip(found.gradients(model, loss, rows).samples, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_model_that_vmap_cannot_run_has_the_loop() -> None:
    def read(found: Any) -> bool:
        return bool(found.detach().numpy().any())

    with pytest.raises(ValueError, match="mixes examples"):
        engine_for(Branch(read), functional.cross_entropy, PAIR)
    found = engine_for(Branch(read), per_example(functional.cross_entropy), PAIR)
    assert found.kind == "loop"
    assert found.why.startswith("RuntimeError: ")
    with pytest.raises(ValueError, match="engine must be 'loop' or 'auto' for this model, got 'vmap'"):
        engine_for(Branch(read), per_example(functional.cross_entropy), PAIR, engine="vmap")


class Doubled(torch.autograd.Function):  # type: ignore[name-defined]
    """A function whose rule for ``vmap`` is wrong: it takes the first row for all."""

    @staticmethod
    def forward(x: Any) -> Any:
        return 2 * x

    @staticmethod
    def setup_context(context: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return 2 * gradient

    @staticmethod
    def vmap(info: Any, dims: Any, x: Any) -> Any:
        return 2 * x[:1].expand_as(x), dims[0]


def test_a_wrong_rule_for_vmap_is_noticed() -> None:
    found = engine_for(Then(Doubled.apply), functional.cross_entropy, PAIR)
    assert found.kind == "loop"
    assert "a vmap rule of its own may mix rows" in found.why


def shifting(of_others: bool) -> Any:
    """An operator whose rule for rows mixes numbers above 10 only, into the other rows or into the large ones."""

    @torch.library.custom_op(f"corrnoise_tests::shifting_{of_others}".lower(), mutates_args=())
    def shifted(x: torch.Tensor) -> torch.Tensor:  # type: ignore[name-defined]
        return x.clone()

    def rows(info: Any, dims: Any, x: Any) -> Any:
        large = x.abs().flatten(1).amax(1).view(-1, *[1] * (x.dim() - 1)) > 10
        shift = torch.where(large, x, 0.0).mean(0) if of_others else torch.where(large, x.mean(0), 0.0)
        return x - shift, 0

    torch.library.register_vmap(shifted, rows)
    return lambda x: torch.tanh((x - x.detach() + shifted(x.detach())) / 1000)


@pytest.mark.parametrize("of_others", [True, False])
def test_rules_for_vmap_that_mix_large_rows_are_noticed(of_others: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Then(shifting(of_others))
    found = engine_for(model, functional.cross_entropy, PAIR)
    assert found.kind == "loop"
    assert "depends on large numbers of other rows" in found.why
    with pytest.raises(ValueError, match=r"engine must be 'loop' or 'auto' .* depends on large numbers"):
        engine_for(model, functional.cross_entropy, PAIR, engine="vmap")
    monkeypatch.setattr(torch_choice, "LARGE_FACTOR", 2)
    assert engine_for(model, functional.cross_entropy, PAIR).kind == "vmap"


def test_models_may_refuse_large_rows_or_round_them() -> None:
    def only_usual(x: Any) -> Any:
        if x.abs().max() > 10:
            raise ValueError("too large")
        return x

    for function in (only_usual, lambda x: torch.where(x.abs().amax() > 10, torch.sin(torch.exp(torch.sin(x))), x)):
        assert engine_for(Then(function), functional.cross_entropy, PAIR).kind == "vmap"


def test_factors_are_checked_against_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant forgets the positions of an index without gradient."""
    model = torch.nn.Sequential(torch.nn.Embedding(40, 30, padding_idx=1), torch.nn.Flatten(), torch.nn.Linear(90, 3))
    item = torch.zeros(3, dtype=torch.int64), torch.tensor(0)
    assert engine_for(model, functional.cross_entropy, item, clipping="ghost").factors == ("0.weight", "2.weight")
    right: Any = torch_engines.embedding_use

    def forgetful(*given: Any, **named: Any) -> Any:
        return right(*given, **named)._replace(padding=None)

    monkeypatch.setattr(torch_engines, "embedding_use", forgetful)
    found = engine_for(model, functional.cross_entropy, item, clipping="ghost")
    assert (found.factors, found.why) == ((), "the clipped sum of vmap differs from that of a loop")


def test_a_weight_that_other_functions_use_is_whole() -> None:
    class Elsewhere(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(40, 40)
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.layer(x) + self.function(x, self.layer.weight)

    item = torch.zeros(40), torch.tensor(0)
    for function, factors in (
        (lambda x, weight: functional.linear(x, weight), ("layer.weight",)),
        (lambda x, weight: x @ weight, ()),
        (lambda x, weight: weight.square().sum() + 0 * x, ()),
        (lambda x, weight: x + weight.shape[0], ("layer.weight",)),
        (lambda x, weight: torch.stack([weight, weight]).sum() + 0 * x, ()),
        (lambda x, weight: weight.unbind()[0].sum() + 0 * x, ()),
    ):
        found = engine_for(Elsewhere(function), per_example(functional.cross_entropy), item)
        assert (found.factors, found.why) == (factors, "")


def test_terms_on_parameters_past_the_model_are_kept() -> None:
    """As in FedProx: the term is zero at the start, so no comparison of gradients can see that ``vmap`` drops it."""
    model = layer()
    start = [each.detach().clone() for each in model.parameters()]

    def loss(outputs: Any, targets: Any) -> Any:
        pairs = zip(model.parameters(), start, strict=True)
        return functional.cross_entropy(outputs, targets) + sum((one - other).square().sum() for one, other in pairs)

    found = engine_for(model, loss, PAIR)
    assert found.kind == "loop"
    assert "trained parameters past the model" in found.why


def test_hooks_of_parameters_have_the_loop() -> None:
    model = layer()
    model.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))
    found = engine_for(model, functional.cross_entropy, PAIR)
    assert (found.kind, found.why) == ("loop", "ValueError: hooks of parameters change gradients in a loop only")


class Holder:
    """An object of a user."""

    def __init__(self) -> None:
        self.last: Any = None
        self.total = torch.zeros(3)


class Writing(torch.nn.Module):  # type: ignore[name-defined]
    """A model that writes what it sees somewhere, only for large inputs."""

    peak: Any

    def __init__(self, write: Any) -> None:
        super().__init__()
        self.layer = layer()
        self.register_buffer("peak", torch.zeros(()))
        self.kept: tuple[list[Any]] = ([],)
        self.array = np.zeros(3)
        self.holder = Holder()
        self.write = write

    def forward(self, x: Any) -> Any:
        if x.detach().abs().max() > 10:
            self.write(self, self.layer(x).detach())
        return self.layer(x)


@pytest.mark.parametrize(
    "write",
    [
        lambda m, h: m.peak.data.copy_(h.max()),
        lambda m, h: m.peak.copy_(h.max()),
        lambda m, h: m.peak.numpy().fill(float(h.max())),
        lambda m, h: m.layer.weight.data[0].fill_(float(h.max())),
        lambda m, h: m.array.__iadd__(h.numpy()[0]),
        lambda m, h: m.holder.total.add_(h[0]),
    ],
    ids=["data", "buffer", "numpy", "weight", "array", "object"],
)
def test_writes_that_made_up_rows_do_not_trigger_are_refused_and_undone(write: Any) -> None:
    model = Writing(write)
    run = cn.torch.make_private(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        (torch.cat([torch.randn(7, 6), torch.full((1, 6), 42.0)]), torch.arange(8) % 3),
        loss=per_example(functional.cross_entropy),
        budget=cn.Budget(1.0),
        batch_size=8,
        epochs=1,
        engine="loop",
    )
    with pytest.raises(ValueError, match="must not change in a forward pass"):
        run.step(run.next_batch())
    assert not model.peak.any()
    assert not model.array.any()
    assert not model.holder.total.any()
    assert run.position == 0


def test_objects_of_attributes_are_as_before() -> None:
    def write(model: Any, seen: Any) -> None:
        model.kept[0].append(seen)
        model.holder.last = seen

    model = Writing(write)
    rows = torch.full((2, 6), 42.0), torch.tensor([0, 1])
    kinds: tuple[Kind, ...] = ("vmap", "loop")
    for kind in kinds:
        Engine(kind).gradients(model, functional.cross_entropy, rows)
        assert model.kept == ([],)
        assert model.holder.last is None


def test_a_model_may_change_its_input_in_place() -> None:
    class Shifted(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer()

        def forward(self, x: Any) -> Any:
            return self.layer(x.sub_(0.5))

    assert engine_for(Shifted(), functional.cross_entropy, PAIR).kind in ("vmap", "loop")
    x, y = torch.randn(4, 6), torch.tensor([0, 1, 2, 0])
    kept = x.clone()
    Engine("loop").gradients(Shifted(), functional.cross_entropy, (x, y))
    assert torch.equal(x, kept)


def test_modes_and_devices_without_gradients_are_named() -> None:
    with torch.inference_mode(), pytest.raises(ValueError, match=r"outside of torch\.inference_mode"):
        engine_for(layer(), functional.cross_entropy, PAIR)
    with pytest.raises(ValueError, match="weight must have values, got a tensor on the device 'meta'"):
        engine_for(torch.nn.Linear(6, 3, device="meta"), functional.cross_entropy, PAIR)


def test_an_engine_is_found_once_for_each_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    usual = torch_choice.engine_for

    def counted(*given: Any, **named: Any) -> Any:
        calls.append(1)
        return usual(*given, **named)

    monkeypatch.setattr(torch_choice, "engine_for", counted)
    engines, model = Engines(), torch.nn.Sequential(layer(), torch.nn.Dropout())
    for expected, change in enumerate(
        (lambda: None, model.eval, model.double, lambda: model[0].bias.requires_grad_(False))
    ):
        change()
        item = (PAIR[0].to(model[0].weight.dtype), PAIR[1])
        for _ in range(2):
            engines.engine(model, functional.cross_entropy, item)
        assert len(calls) == expected + 1


def test_values_that_made_up_rows_do_not_have_are_given_as_an_example() -> None:
    class Lengths(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer()

        def forward(self, x: Any, lengths: Any) -> Any:
            if not bool((lengths >= 2).all()):
                raise ValueError("lengths start at 2")
            return self.layer(x)

    item = ((torch.zeros(6), torch.tensor(3)), torch.tensor(0))
    with pytest.raises(ValueError, match=r"made-up example .* ValueError: lengths start at 2.* example="):
        engine_for(Lengths(), functional.cross_entropy, item)
    example = ((torch.ones(6), torch.tensor(3)), torch.tensor(0))
    assert engine_for(Lengths(), functional.cross_entropy, item, example=example).branches
