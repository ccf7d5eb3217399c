"""Losses of users: the clipped sum of a run equals the sum of a plain loop, or the loss is refused with a remedy.

Each factory returns a model, data and a loss; ``EXPECTED`` says how the loss ends as it is, and under ``per_example``.
The model is small, so that only the loss matters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import corrnoise as cn
from tests.simulations.adapters import zoo
from tests.simulations.adapters.test_zoo import clip_norm_of, replaced, run_of
from tests.simulations.adapters.zoo import Case, Refusal, flat, floats, numbers

torch = pytest.importorskip("torch")
nn = torch.nn
F = torch.nn.functional
torch.set_num_threads(1)

pytestmark = pytest.mark.filterwarnings("ignore")  # of slow rules of vmap

LOSSES: dict[str, Callable[[], Case]] = {}
WEIGHTS = torch.tensor([0.2, 1.0, 3.0])
#: losses that raise for targets outside of [0, 1]
BOUNDED = {"binary_of_probabilities"}


def loss(function: Callable[[], Case]) -> Callable[[], Case]:
    """Register a loss by the name of its factory."""
    LOSSES[function.__name__] = function
    return function


def made(name: str) -> Case:
    with torch.random.fork_rng():
        torch.manual_seed(11)
        return LOSSES[name]()


def classes(loss_of: Any, count: int = 3) -> Case:
    return Case(zoo.mlp(classes=count), flat(classes=count), loss_of)


def regression(loss_of: Any, targets: Any = None) -> Case:
    return Case(zoo.mlp(), (floats(6), floats(3) if targets is None else targets), loss_of)


def token_classes(loss_of: Any) -> Case:
    """Classes of the tokens of a sequence, with some that are ignored."""
    targets = numbers(3, 5)
    targets[torch.arange(5) < numbers(4, 1)] = -100
    return Case(zoo.Lambda(lambda m, x: m.a(x).mT, a=zoo.mlp(4)), (floats(5, 4), targets), loss_of)


def pairs(loss_of: Any, targets: Any = None, parts: int = 2) -> Case:
    """Inputs in parts, with an embedding of each."""
    model = zoo.Lambda(lambda m, *parts: tuple(m.a(part) for part in parts), a=zoo.mlp())
    return Case(model, (tuple(floats(6) for _ in range(parts)), numbers(3) if targets is None else targets), loss_of)


# -- classes -----------------------------------------------------------------------------------------------------------


@loss
def cross_entropy() -> Case:
    return classes(F.cross_entropy)


@loss
def cross_entropy_module() -> Case:
    return classes(nn.CrossEntropyLoss())


@loss
def label_smoothing() -> Case:
    return classes(nn.CrossEntropyLoss(label_smoothing=0.1))


@loss
def soft_labels() -> Case:
    return regression(F.cross_entropy, torch.rand(zoo.EXAMPLES, 3).softmax(1))


@loss
def sums_of_losses() -> Case:
    return classes(partial(F.cross_entropy, reduction="sum"))


@loss
def losses_without_reduction() -> Case:
    return classes(partial(F.cross_entropy, reduction="none"))


@loss
def constant_divisor() -> Case:
    return classes(lambda o, t: F.cross_entropy(o, t, reduction="sum") / zoo.EXAMPLES)


@loss
def negative_log_likelihood() -> Case:
    return classes(lambda o, t: F.nll_loss(o.log_softmax(1), t))


@loss
def class_weights_in_a_function() -> Case:
    return classes(lambda o, t: F.cross_entropy(o, t, weight=WEIGHTS.to(o)))


@loss
def class_weights_in_a_module() -> Case:
    return classes(nn.CrossEntropyLoss(weight=WEIGHTS))


@loss
def class_weights_in_a_partial() -> Case:
    return classes(partial(F.cross_entropy, weight=WEIGHTS))


@loss
def class_weight_of_one_class() -> Case:
    """One of twenty classes has another weight."""
    weights = torch.ones(20)
    weights[17] = 5
    return classes(nn.CrossEntropyLoss(weight=weights), 20)


@loss
def own_class_weights() -> Case:
    """With the weights of the batch as divisor."""

    def own(o: Any, t: Any) -> Any:
        w = WEIGHTS.to(o)[t]
        return (w * F.cross_entropy(o, t, reduction="none")).sum() / w.sum()

    return classes(own)


@loss
def own_class_weights_as_a_mean() -> Case:
    return classes(lambda o, t: (WEIGHTS.to(o)[t] * F.cross_entropy(o, t, reduction="none")).mean())


@loss
def class_weights_as_a_sum() -> Case:
    return classes(lambda o, t: F.cross_entropy(o, t, weight=WEIGHTS.to(o), reduction="sum") / 8)


@loss
def weights_by_frequency() -> Case:
    """The weight of a class is its frequency in the batch."""

    def own(o: Any, t: Any) -> Any:
        counts = F.one_hot(t, 3).sum(0).to(o)
        return (F.cross_entropy(o, t, reduction="none") / counts[t]).mean()

    return classes(own)


@loss
def focal() -> Case:
    def own(o: Any, t: Any) -> Any:
        each = F.cross_entropy(o, t, reduction="none")
        return ((1 - (-each).exp()) ** 2 * each).mean()

    return classes(own)


@loss
def hinge() -> Case:
    return classes(F.multi_margin_loss)


@loss
def binary() -> Case:
    return regression(F.binary_cross_entropy_with_logits, torch.rand(zoo.EXAMPLES, 3).round())


@loss
def binary_with_weights() -> Case:
    """``pos_weight`` has no divisor."""
    case = binary()
    case.loss = lambda o, t: F.binary_cross_entropy_with_logits(o, t, pos_weight=WEIGHTS.to(o))
    return case


@loss
def binary_of_probabilities() -> Case:
    case = binary()
    case.model.append(nn.Sigmoid())
    case.loss = F.binary_cross_entropy
    return case


@loss
def margins_of_labels() -> Case:
    return regression(F.soft_margin_loss, torch.rand(zoo.EXAMPLES, 3).round() * 2 - 1)


@loss
def dice_of_each_example() -> Case:
    case = binary()
    case.loss = lambda o, t: (1 - 2 * (o.sigmoid() * t).sum(1) / (o.sigmoid() + t).sum(1)).mean()
    return case


@loss
def dice_of_the_batch() -> Case:
    case = binary()
    case.loss = lambda o, t: 1 - 2 * (o.sigmoid() * t).sum() / (o.sigmoid() + t).sum()
    return case


# -- tokens ------------------------------------------------------------------------------------------------------------


@loss
def token_means() -> Case:
    return token_classes(nn.CrossEntropyLoss(ignore_index=-100))


@loss
def token_sums() -> Case:
    return token_classes(lambda o, t: F.cross_entropy(o, t, reduction="sum") / t.shape[1] / t.shape[0])


@loss
def token_means_with_another_ignored_class() -> Case:
    case = token_classes(nn.CrossEntropyLoss(ignore_index=2))
    return Case(case.model, (case.data[0], case.data[1].clamp(min=0)), case.loss)


@loss
def own_token_means() -> Case:
    """The mean over the tokens that a mask keeps."""

    def own(o: Any, item: Any) -> Any:
        each = F.cross_entropy(o, item["tags"], reduction="none")
        return (each * item["mask"]).sum() / item["mask"].sum().clamp(min=1)

    case = token_classes(own)
    data = {"x": case.data[0], "tags": case.data[1].clamp(min=0), "mask": (case.data[1] >= 0).float()}
    return Case(zoo.Lambda(lambda m, x, **rest: m.a(x).mT, a=zoo.mlp(4)), data, own)


@loss
def own_token_means_of_an_integer_mask() -> Case:
    case = own_token_means()
    case.data["mask"] = case.data["mask"].long()
    return case


@loss
def own_token_means_of_a_logical_mask() -> Case:
    case = own_token_means()
    case.data["mask"] = case.data["mask"].bool()
    return case


@loss
def own_token_means_of_an_ignored_target() -> Case:
    def own(o: Any, t: Any) -> Any:
        return F.cross_entropy(o, t, reduction="sum") / (t != -100).sum().clamp(min=1)

    return token_classes(own)


@loss
def own_token_means_of_each_example() -> Case:
    case = own_token_means()

    def own(o: Any, item: Any) -> Any:
        each = F.cross_entropy(o, item["tags"], reduction="none") * item["mask"]
        return (each.sum(1) / item["mask"].sum(1).clamp(min=1)).mean()

    case.loss = own
    return case


@loss
def ctc() -> Case:
    def own(o: Any, t: Any) -> Any:
        words, lengths = t
        steps = torch.full((len(words),), o.shape[1])
        return F.ctc_loss(o.log_softmax(2).transpose(0, 1), words, steps, lengths, zero_infinity=True)

    model = zoo.Lambda(lambda m, x: m.a(x), a=zoo.mlp(4))
    return Case(model, (floats(6, 4), (1 + numbers(2, 2), 1 + numbers(2))), own)


# -- numbers -----------------------------------------------------------------------------------------------------------


@loss
def squares() -> Case:
    return regression(F.mse_loss)


@loss
def squares_in_a_module() -> Case:
    return regression(nn.MSELoss(reduction="sum"))


@loss
def absolute() -> Case:
    return regression(nn.L1Loss())


@loss
def smooth() -> Case:
    return regression(F.smooth_l1_loss)


@loss
def huber() -> Case:
    return regression(nn.HuberLoss(delta=0.5))


@loss
def quantile() -> Case:
    return regression(lambda o, t: torch.maximum(0.9 * (t - o), 0.1 * (o - t)).mean())


@loss
def root_of_the_mean() -> Case:
    return regression(lambda o, t: F.mse_loss(o, t).sqrt())


@loss
def divergence() -> Case:
    targets = torch.randn(zoo.EXAMPLES, 3).softmax(1)
    return regression(lambda o, t: F.kl_div(o.log_softmax(1), t, reduction="batchmean"), targets)


@loss
def divergence_as_a_mean() -> Case:
    targets = torch.randn(zoo.EXAMPLES, 3).softmax(1)
    return regression(lambda o, t: F.kl_div(o.log_softmax(1), t), targets)


@loss
def poisson() -> Case:
    return regression(F.poisson_nll_loss, torch.poisson(torch.full((zoo.EXAMPLES, 3), 2.0)))


@loss
def gaussian() -> Case:
    return regression(lambda o, t: F.gaussian_nll_loss(o[:, :1], t, F.softplus(o[:, 1:2])), floats(1))


@loss
def variance_of_the_batch() -> Case:
    return regression(lambda o, t: F.mse_loss(o, t) + (1 - o.var(0, correction=0)).relu().mean())


@loss
def explained_variance() -> Case:
    return regression(lambda o, t: (o - t).square().sum() / (t - t.mean(0)).square().sum().clamp(min=1e-3))


@loss
def risk_sets() -> Case:
    """The partial likelihood of survival times."""

    def own(o: Any, t: Any) -> Any:
        risk = o[:, 0][t.argsort(descending=True)]
        return (risk.logcumsumexp(0) - risk).mean()

    return regression(own, torch.rand(zoo.EXAMPLES))


# -- pairs -------------------------------------------------------------------------------------------------------------


def similarities(one: Any, other: Any) -> Any:
    return F.normalize(one, dim=1) @ F.normalize(other, dim=1).T / 0.5


@loss
def contrastive() -> Case:
    return pairs(lambda o, t: F.cross_entropy(similarities(*o), torch.arange(len(t))))


@loss
def contrastive_by_classes() -> Case:
    def own(o: Any, t: Any) -> Any:
        same = (t[:, None] == t[None]).to(o[0])
        return -(same * similarities(*o).log_softmax(1)).sum() / same.sum()

    return pairs(own)


@loss
def triplet() -> Case:
    return pairs(lambda o, t: F.triplet_margin_loss(*o), parts=3)


@loss
def triplet_of_the_batch() -> Case:
    """The nearest other example of the batch."""

    def own(o: Any, t: Any) -> Any:
        gaps = (o[:, None] - o[None]).square().sum(2) + 100 * torch.eye(len(o)).to(o)
        return F.cross_entropy(o, t) + (1 - gaps.amin(1)).relu().mean()

    return classes(own)


@loss
def cosine() -> Case:
    targets = torch.rand(zoo.EXAMPLES).round() * 2 - 1
    return pairs(lambda o, t: F.cosine_embedding_loss(*o, t), targets)


@loss
def ranking() -> Case:
    """All pairs of the batch."""

    def own(o: Any, t: Any) -> Any:
        gaps = o[:, None, 0] - o[None, :, 0]
        return F.softplus(-gaps * (t[:, None] - t[None]).sign()).mean()

    return regression(own, floats())


@loss
def centers() -> Case:
    fixed = torch.randn(3, 3)
    return classes(lambda o, t: F.cross_entropy(o, t) + (o - fixed.to(o)[t]).square().sum(1).mean())


@loss
def moving_centers() -> Case:
    """Centers that follow the outputs."""
    moving = torch.randn(3, 3)

    def own(o: Any, t: Any) -> Any:
        value = F.cross_entropy(o, t) + (o - moving.to(o)[t]).square().sum(1).mean()
        with torch.no_grad():
            moving.index_add_(0, t, (0.1 * (o.detach() - moving.to(o)[t])).to(moving))
        return value

    return classes(own)


@loss
def instances_of_the_model() -> Case:
    """The loss calls the model a second time."""
    model = zoo.mlp()

    def own(o: Any, item: Any) -> Any:
        again = model(item["x"] * 1.1)
        return F.cross_entropy(o, item["label"]) + F.mse_loss(again, o)

    wrapper = zoo.Lambda(lambda m, x, label: m.a(x), a=model)
    return Case(wrapper, {"x": floats(6), "label": numbers(3)}, own, double=False)


# -- penalties, memories and mixtures ----------------------------------------------------------------------------------


@loss
def penalty() -> Case:
    case = classes(None)
    case.loss = lambda o, t: F.cross_entropy(o, t) + 0.1 * sum(p.square().sum() for p in case.model.parameters())
    case.double = False
    return case


@loss
def penalty_of_a_sum() -> Case:
    case = penalty()
    parameters = list(case.model.parameters())
    case.loss = lambda o, t: F.cross_entropy(o, t, reduction="sum") + 0.1 * sum(p.square().sum() for p in parameters)
    return case


@loss
def counts() -> Case:
    """A counter that does not change the loss."""
    state = {"calls": 0}

    def own(o: Any, t: Any) -> Any:
        state["calls"] += 1
        return F.cross_entropy(o, t)

    return classes(own)


@loss
def anneals() -> Case:
    """A weight that changes with the calls."""
    state = {"calls": 0}

    def own(o: Any, t: Any) -> Any:
        state["calls"] += 1
        return F.cross_entropy(o, t) * 0.9 ** state["calls"]

    return classes(own)


@loss
def running_mean() -> Case:
    """The loss is divided by a mean of earlier losses."""
    state = {"mean": 1.0}

    def own(o: Any, t: Any) -> Any:
        value = F.cross_entropy(o, t)
        state["mean"] = 0.9 * state["mean"] + 0.1 * value.detach()
        return value / state["mean"]

    return classes(own)


@loss
def cache() -> Case:
    """Outputs of earlier examples are negatives."""
    seen: list[Any] = []

    def own(o: Any, t: Any) -> Any:
        value = F.cross_entropy(o, t) + sum((o * each.to(o)).sum(1).mean() for each in seen[-3:])
        seen.append(o.detach().mean(0))
        return value

    return classes(own)


@loss
def hardest_half() -> Case:
    def own(o: Any, t: Any) -> Any:
        each = F.cross_entropy(o, t, reduction="none")
        return each.sort(descending=True).values[: (len(each) + 1) // 2].mean()

    return classes(own)


@loss
def sorted_mean() -> Case:
    """A sorted batch has the same mean."""
    return classes(lambda o, t: F.cross_entropy(o, t, reduction="none").sort().values.mean())


@loss
def worst_example() -> Case:
    return classes(lambda o, t: F.cross_entropy(o, t, reduction="none").amax())


@loss
def soft_maximum() -> Case:
    return classes(lambda o, t: F.cross_entropy(o, t, reduction="none").logsumexp(0))


@loss
def normalised_outputs() -> Case:
    return classes(lambda o, t: F.cross_entropy((o - o.mean(0)) / (o.std(0, correction=0) + 0.1), t))


@loss
def mixed_up() -> Case:
    return classes(lambda o, t: 0.7 * F.cross_entropy(o, t) + 0.3 * F.cross_entropy(o, t.flip(0)))


@loss
def distilled() -> Case:
    """A teacher that the loss calls."""
    teacher = zoo.mlp().requires_grad_(False)

    def own(o: Any, item: Any) -> Any:
        return F.kl_div(o.log_softmax(1), teacher(item["x"].float()).softmax(1).to(o), reduction="batchmean")

    return Case(zoo.Lambda(lambda m, x: m.a(x), a=zoo.mlp()), {"x": floats(6)}, own)


@loss
def by_branch() -> Case:
    """Another loss for wrong predictions, for each example."""

    def own(o: Any, t: Any) -> Any:
        each = [
            F.cross_entropy(a[None], b[None]) * (1.0 if a.argmax() == b else 2.0) for a, b in zip(o, t, strict=True)
        ]
        return torch.stack(each).mean()

    return classes(own)


@loss
def number_of_python() -> Case:
    return classes(lambda o, t: float(F.cross_entropy(o, t)))


@loss
def several_values() -> Case:
    return classes(lambda o, t: {"loss": F.cross_entropy(o, t)})


@loss
def without_gradient() -> Case:
    return classes(lambda o, t: (o.argmax(1) != t).double().mean())


# -- expected results -------------------------------------------------------------------------------------------------

MIXED = Refusal("loss must be the mean or the sum", "per_example", "reduction='sum'")
REMEMBERS = Refusal("must not remember examples", "Keep")
NUMBER = Refusal("loss must return a number")

#: how a loss ends as it is, and under ``per_example``; None for "right"
EXPECTED: dict[str, tuple[Refusal | None, Refusal | None]] = {
    **dict.fromkeys(LOSSES, (None, None)),
    **dict.fromkeys(
        [
            "class_weights_in_a_function",
            "class_weights_in_a_module",
            "class_weights_in_a_partial",
            "class_weight_of_one_class",
            "own_class_weights",
            "weights_by_frequency",
            "dice_of_the_batch",
            "token_means",
            "token_means_with_another_ignored_class",
            "own_token_means",
            "own_token_means_of_an_integer_mask",
            "own_token_means_of_a_logical_mask",
            "own_token_means_of_an_ignored_target",
            "root_of_the_mean",
            "variance_of_the_batch",
            "explained_variance",
            "risk_sets",
            "contrastive",
            "contrastive_by_classes",
            "triplet_of_the_batch",
            "ranking",
            "penalty_of_a_sum",
            "hardest_half",
            "worst_example",
            "soft_maximum",
            "normalised_outputs",
            "mixed_up",
        ],
        (MIXED, None),
    ),
    **dict.fromkeys(["moving_centers", "anneals", "running_mean", "cache"], (REMEMBERS, REMEMBERS)),
    **dict.fromkeys(["losses_without_reduction", "number_of_python", "several_values"], (NUMBER, NUMBER)),
    "without_gradient": (Refusal("loss", "gradient"), Refusal("loss", "gradient")),
}


def gradients_of(name: str) -> np.ndarray:
    """Of a plain loop, each example with a model and a loss of its own."""
    rows, double = made(name).data, made(name).double
    found = []
    for number in range(zoo.EXAMPLES):
        case = made(name)
        model = case.model.double() if double else case.model
        row = zoo.tree(partial(zoo.row_of, number), rows)
        if double:
            row = zoo.tree(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, row)
        module = case.loss.double() if double and isinstance(case.loss, nn.Module) else case.loss
        if double and isinstance(module, partial) and "weight" in module.keywords:
            module = partial(module.func, weight=module.keywords["weight"].double())
        module(zoo.call(model, row), row if isinstance(row, dict) else row[1]).backward()
        trained = [each for each in model.parameters() if each.requires_grad]
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        found.append(np.concatenate([part.double().numpy().reshape(-1) for part in parts]))
    return np.stack(found)


def check(name: str, adapter: str, declared: bool, **options: Any) -> None:
    expected, case = EXPECTED[name][declared], made(name)
    case.declared = declared
    if expected is not None:
        with pytest.raises((ValueError, TypeError)) as caught:
            run_of(case, adapter, 1.0, **options)
        assert all(word in str(caught.value) for word in expected.words), str(caught.value)
        return
    gradients = gradients_of(name)
    clip_norm = clip_norm_of(gradients)
    found, right = run_of(case, adapter, clip_norm, **options)[1], zoo.clip(gradients, clip_norm)
    assert np.linalg.norm(found - right) <= 3e-3 * max(float(np.linalg.norm(right)), 1e-2 * clip_norm)


def test_there_are_losses_of_each_kind() -> None:
    assert len(LOSSES) >= 24
    assert set(EXPECTED) == set(LOSSES)


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_loss_is_right_or_refused(name: str) -> None:
    check(name, "torch", False)


@pytest.mark.parametrize("name", [name for name, each in EXPECTED.items() if each[0] is not None][::3])
def test_a_refused_loss_under_per_example(name: str) -> None:
    check(name, "torch", True)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("adapter", ["torch", "opacus"])
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize(
    "options", [{"clipping": "example"}, {"clipping": "ghost"}, {"engine": "loop"}, {"chunk_size": 3}], ids=str
)
def test_a_loss_with_each_adapter_clipping_and_engine(
    name: str, adapter: str, declared: bool, options: dict[str, Any]
) -> None:
    check(name, adapter, declared, **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in EXPECTED.items() if each[1] is None and name not in BOUNDED])
@pytest.mark.parametrize("clipping", ["example", "ghost"])
def test_an_example_moves_the_sum_of_a_loss_by_two_clip_norms(name: str, clipping: str) -> None:
    """Declared losses, too."""
    clip_norm = clip_norm_of(gradients_of(name))
    sums = []
    for change in (False, True):
        case = made(name)
        case.declared = EXPECTED[name][0] is not None
        data = replaced(case.data, "large", 3) if change else case.data
        sums.append(run_of(case, "torch", clip_norm, data, clipping=clipping)[1])
    assert np.linalg.norm(sums[0] - sums[1]) <= 2 * (1 + 1e-3) * clip_norm


@pytest.mark.slow
@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("adapter", ["torch", "opacus"])
def test_the_loss_of_a_model_of_transformers(adapter: str, declared: bool) -> None:
    """``model_loss`` is a mean over valid tokens."""
    case = zoo.made("llama")
    case.loss, case.declared = cn.torch.model_loss, declared
    if not declared:
        with pytest.raises(ValueError, match="per_example"):
            run_of(case, adapter, 1.0)
        return
    gradients = zoo.oracle("llama")
    clip_norm = clip_norm_of(gradients)
    found, right = run_of(case, adapter, clip_norm)[1], zoo.clip(gradients, clip_norm)
    assert np.linalg.norm(found - right) <= 3e-3 * np.linalg.norm(right)
