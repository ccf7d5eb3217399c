"""Models of users: the clipped sum of a run equals the sum of a plain loop, or ``make_private`` refuses with a remedy.

``zoo.EXPECTED`` says how each family ends.  The default part runs most small families once; the slow part has the
others, all clippings, engines and adapters, hostile examples and declared losses.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.adapters import training
from corrnoise.simulations.run.batches import batches
from tests.simulations.adapters import zoo
from tests.simulations.run.sources import known_key

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

pytestmark = pytest.mark.filterwarnings("ignore")  # of deprecated layers, and of slow rules of vmap

ALL = [pytest.param(name, marks=pytest.mark.slow) if name in zoo.SLOW else name for name in zoo.FAMILIES]
ACCEPTED = [name for name in zoo.FAMILIES if isinstance(zoo.EXPECTED.get(name), str)]
MIXING = [name for name, each in zoo.EXPECTED.items() if each in (zoo.Refusal(*zoo.MIXES), zoo.Refusal(*zoo.LOSS))]
CORE = [
    "perceptron",
    "cnn_groups",
    "lstm",
    "gru_two_way",
    "tied_embedding",
    "positions_of_one_row",
    "attention",
    "sequence_first_linear",
    "weight_in_a_function",
    "forward_hook",
    "mixture_of_experts",
    "branch_by_row",
    "dictionary_items",
    "siamese",
    "checkpointed",
    "dropout",
    "layer_drop",
    "keeps_the_last_output",
    "own_generator",
    "batch_norm_in_training",
    "average_by_assignment",
    "attention_over_examples",
]
#: one draw of a generator of NumPy counts for all rows of a pass of vmap
SHARED_DRAWS = {"augments"}
#: models that raise for numbers that are not finite
FINITE = {"reparametrised", "seeds_by_data"}
#: a cache that no example changes
CACHES = {"cached_table"}


def run_of(case: zoo.Case, adapter: str, clip_norm: float, data: Any = None, **options: Any) -> tuple[Any, np.ndarray]:
    """A run of one step, and the clipped sum of all examples."""
    model = case.model
    trained = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.SGD(trained, lr=0.1)
    make = cn.torch.make_private if adapter == "torch" else cn.opacus.make_private
    loss = cn.torch.per_example(case.loss) if case.declared else case.loss
    budget = cn.Budget(rho=1e12, clip_norm=clip_norm)
    options = {"loss": loss, "budget": budget, "mechanism": cn.mechanisms.DPSGD(), **case.options, **options}
    with known_key(), mock.patch.object(training, "batches", partial(batches, rng=0)):
        made = make(model, optimizer, case.data if data is None else data, batch_size=zoo.EXAMPLES, epochs=1, **options)
    if adapter == "torch":
        run: Any = made
        for batch in run:
            run.step(batch)
    else:
        forward, optimizer, criterion, loader = made
        run = criterion.run
        for rows in loader:
            optimizer.zero_grad()
            outputs = zoo.call(forward, rows)
            criterion(outputs, rows if isinstance(rows, dict) else rows[1]).backward()
            optimizer.step()
    sums = [(each.grad.double() * zoo.EXAMPLES).numpy().reshape(-1) for each in trained]
    return run, np.concatenate(sums)


def known_of(model: Any) -> dict[str, Any]:
    """Numbers and tensors of the attributes of modules, but for trained parameters."""
    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if isinstance(value, torch.nn.Parameter) and value.requires_grad:
            return
        if isinstance(value, torch.Tensor):
            found[name] = "of vmap" if torch._C._functorch.is_functorch_wrapped_tensor(value) else value.tolist()
        elif isinstance(value, bool | int | float | str):
            found[name] = value
        elif isinstance(value, dict):
            for key, each in value.items():
                add(f"{name}.{key}", each)
        elif isinstance(value, list | tuple):
            for key, each in enumerate(value):
                add(f"{name}.{key}", each)

    for name, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            for key in [key for key in module.__dict__ if not key.endswith("_hooks")]:
                add(f"{name}.{key}", module.__dict__[key])
    return found


def clip_norm_of(gradients: np.ndarray | None) -> float:
    """Clips half of the gradients."""
    return 1.0 if gradients is None else max(0.7 * float(np.median(np.linalg.norm(gradients, axis=1))), 1e-3)


def check(name: str, adapter: str, **options: Any) -> None:
    """A family ends as expected."""
    expected, case = zoo.EXPECTED[name], zoo.made(name)
    if isinstance(expected, zoo.Refusal):
        with pytest.raises((ValueError, TypeError)) as caught:
            run_of(case, adapter, 1.0, **options)
        assert all(word in str(caught.value) for word in expected.words), str(caught.value)
        return
    if options.get("engine") == "vmap" and expected == "loop":
        with pytest.raises(ValueError, match="engine must be 'loop' or 'auto'"):
            run_of(case, adapter, 1.0, **options)
        return
    gradients = None if case.random else zoo.oracle(name)
    clip_norm, before = clip_norm_of(gradients), known_of(case.model)
    run, found = run_of(case, adapter, clip_norm, **options)
    assert run.engine.kind == ("loop" if "loop" in (expected, options.get("engine")) else "vmap"), run.engine.why
    if options.get("engine") != "loop" and options.get("clipping") == "ghost":
        assert bool(run.engine.factors) == (expected == "factors")
    if options.get("clipping") == "example":
        assert not run.engine.factors
    if name not in CACHES:
        after = known_of(case.model)
        assert {key for key in {**before, **after} if before.get(key) != after.get(key)} == set()
    if gradients is None:
        assert np.linalg.norm(found) <= zoo.EXAMPLES * clip_norm * (1 + 1e-3)
        return
    right = zoo.clip(gradients, clip_norm)
    tolerance = 3e-2 if case.half else 3e-3
    assert np.linalg.norm(found - right) <= tolerance * max(float(np.linalg.norm(right)), 1e-3 * clip_norm)


def test_the_table_names_each_family() -> None:
    assert set(zoo.EXPECTED) == set(zoo.FAMILIES)
    assert len(zoo.FAMILIES) >= 57
    assert set(zoo.EXPECTED.values()) - {"factors", "vmap", "loop"} == {
        each for each in zoo.EXPECTED.values() if isinstance(each, zoo.Refusal)
    }


def test_the_oracle_is_right_for_a_gradient_by_hand() -> None:
    """Of a linear regression, with clipped and whole gradients."""
    case = zoo.made("linear_regression")
    x, t = (each.double().numpy() for each in case.data)
    weight, bias = (each.detach().double().numpy() for each in case.model.parameters())
    error = 2 * (x @ weight.T + bias - t)
    expected = np.concatenate([error * x, error], 1)
    assert np.allclose(zoo.oracle("linear_regression"), expected, rtol=1e-12, atol=1e-14)
    lengths = np.linalg.norm(expected, axis=1)
    for clip_norm in (1e9, float(np.median(lengths))):
        some = [row * min(1, clip_norm / length) for row, length in zip(expected, lengths, strict=True)]
        assert np.allclose(zoo.clip(expected, clip_norm), sum(some))


@pytest.mark.parametrize("name", ALL)
def test_a_family_ends_as_expected(name: str) -> None:
    check(name, "torch")


@pytest.mark.parametrize("name", CORE)
def test_a_family_in_the_loop_of_opacus(name: str) -> None:
    check(name, "opacus")


@pytest.mark.slow
@pytest.mark.parametrize("name", list(zoo.FAMILIES))
@pytest.mark.parametrize(
    "options",
    [{"clipping": "example"}, {"clipping": "ghost"}, {"engine": "loop"}, {"engine": "vmap"}, {"chunk_size": 3}],
    ids=lambda options: "-".join(map(str, *options.items())),
)
def test_a_family_with_each_clipping_and_engine(name: str, options: dict[str, Any]) -> None:
    check(name, "torch", **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(zoo.FAMILIES))
@pytest.mark.parametrize("clipping", ["auto", "example", "ghost"])
def test_a_family_in_the_loop_of_opacus_with_each_clipping(name: str, clipping: str) -> None:
    check(name, "opacus", clipping=clipping)


# -- one example -------------------------------------------------------------------------------------------------------


def replaced(data: Any, how: str, place: int = 0) -> Any:
    """The data with another example in place of one."""

    def changed(leaf: Any) -> Any:
        found = leaf.clone()
        if leaf.dtype == torch.bool:
            found[place] = ~leaf[place]
        elif leaf.is_floating_point():
            found[place] = {"large": -1e3 * leaf[place], "negative": -leaf[place], "infinite": leaf[place] * np.inf}[
                how
            ]
        else:  # other classes, and the same places that are ignored
            known = leaf[leaf >= 0]
            found[place] = torch.where(leaf[place] >= 0, known.max() + known.min() - leaf[place], leaf[place])
        return found

    return zoo.tree(changed, data)


def moves(name: str, hows: tuple[str, ...], place: int = 0, **options: Any) -> dict[str, float]:
    """By how many clipping norms the sum moves, where one example is replaced."""
    case = zoo.made(name)
    clip_norm = clip_norm_of(None if case.random else zoo.oracle(name))

    def total(data: Any) -> np.ndarray:
        return run_of(zoo.made(name), "torch", clip_norm, data, **options)[1]

    before = total(case.data)
    return {how: float(np.linalg.norm(total(replaced(case.data, how, place)) - before)) / clip_norm for how in hows}


def limit(name: str) -> float:
    return 2 * (1 + (1e-2 if zoo.made(name).half else 1e-3))


@pytest.mark.parametrize("name", [name for name in CORE[::2] if name in ACCEPTED])
def test_an_example_moves_the_sum_by_two_clip_norms(name: str) -> None:
    assert moves(name, ("large",))["large"] <= limit(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.parametrize("clipping", ["example", "ghost"])
def test_a_hostile_example_moves_the_sum_by_two_clip_norms(name: str, clipping: str) -> None:
    hows = ("large", "negative") if name in FINITE else ("large", "negative", "infinite")
    found = moves(name, hows, place=3, clipping=clipping)
    assert max(found.values()) <= limit(name), found


def test_a_generator_of_the_model_makes_examples_move_each_other() -> None:
    """Why models with a generator of their own are refused: the plain loop moves by more than two clipping norms."""

    def loop(data: Any) -> np.ndarray:
        model = zoo.made("own_generator").model
        found = []
        for x, t in zip(*data, strict=True):
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(x[None]), t[None]).backward()
            found.append(np.concatenate([each.grad.double().numpy().reshape(-1) for each in model.parameters()]))
        return np.stack(found)

    data = zoo.made("own_generator").data
    gradients = loop(data)
    clip_norm = 0.3 * float(np.median(np.linalg.norm(gradients, axis=1)))
    whole = zoo.clip(gradients, clip_norm)
    others = [zoo.clip(loop(replaced(data, "negative", place)), clip_norm) for place in range(zoo.EXAMPLES)]
    assert max(float(np.linalg.norm(whole - other)) for other in others) > 2.05 * clip_norm


# -- random models -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ACCEPTED)
def test_random_models_draw_for_each_example(name: str) -> None:
    """Equal examples have different gradients exactly where the model is random."""
    case = zoo.made(name)
    same = zoo.tree(lambda leaf: leaf[:1].expand_as(leaf).clone(), case.data)
    kind: Any = "loop" if zoo.EXPECTED[name] == "loop" else "vmap"
    found = cn.torch.example_gradients(case.model, case.loss, same, engine=cn.torch.Engine(kind))
    rows = torch.cat([each.double().reshape(zoo.EXAMPLES, -1) for each in found.values()], 1)
    gaps = (rows[1:] - rows[:1]).norm(dim=1) / rows.norm(dim=1).max().clamp(min=1e-9)
    assert bool((gaps > 1e-3).any()) == (case.random and name not in SHARED_DRAWS)


# -- declared losses ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", MIXING)
def test_a_refused_family_is_right_under_per_example(name: str) -> None:
    case = zoo.made(name)
    case.declared = True
    gradients = zoo.oracle(name)
    clip_norm = clip_norm_of(gradients)
    found = run_of(case, "torch", clip_norm)[1]
    right = zoo.clip(gradients, clip_norm)
    assert np.linalg.norm(found - right) <= 3e-3 * max(float(np.linalg.norm(right)), 1e-3 * clip_norm)
