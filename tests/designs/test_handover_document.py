"""The recipes of ``docs/handover.md``: each is run as it stands where its library is installed.

Recipes stand in ``py`` blocks.  The ``python`` blocks, which need no other library, make the design for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from corrnoise.designs.record import Design
from corrnoise.simulations.noise_stream import NoiseStream

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import NuFTRL

PAGE = (Path(__file__).parents[2] / "docs/handover.md").read_text(encoding="utf-8")
RECIPES = {
    f"{heading}, {number}" if number else heading: code
    for heading, text in re.findall(r"^#+ ([^\n]+)\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    for number, code in enumerate(re.findall(r"```py\n(.*?)```", text, re.DOTALL))
}
JAX = ["Buffers (BLT)", "Toeplitz strategy", "Dense noising matrix"]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks without other libraries define."""
    found: dict[str, Any] = {"print": lambda *_: None}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, found)
    return found


def run(heading: str, names: dict[str, Any]) -> dict[str, Any]:
    """The names after the recipe."""
    space = dict(names)
    exec(RECIPES[heading], space)
    return space


def test_the_page_has_these_recipes() -> None:
    assert list(RECIPES) == [*JAX, "Opacus", "TensorFlow Privacy", "opake", "opake, 1", "dp-accounting"]
    for heading, code in RECIPES.items():
        compile(code, heading, "exec")


def test_the_stream_has_the_multiplier_of_the_design(names: dict[str, Any]) -> None:
    design: Design = names["design"]
    assert design.stream_multiplier is not None
    assert names["stream"].scale == pytest.approx(design.stream_multiplier * design.clip_norm, rel=1e-15)
    assert (names["theirs"].min_sep, names["theirs"].count) == (design.min_sep, design.max_participations)


# -- dp-accounting -----------------------------------------------------------------------------------------------------


def test_the_event_has_the_budget_of_the_design(names: dict[str, Any]) -> None:
    pytest.importorskip("dp_accounting")
    assert run("dp-accounting", names)["epsilon"] == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(("factor", "holds"), [(1, True), (2, False)])
def test_the_event_of_a_stream(names: dict[str, Any], factor: int, holds: bool) -> None:
    """The line for other noise gives the multiplier of the design; a forgotten factor of 2 does not."""
    stream, design = names["stream"], names["design"]
    event = stream.scale / design.clip_norm / (factor * stream.sensitivity(design.run))
    ours = names["gaussian_noise_multiplier"](design.rho)
    assert (event == pytest.approx(ours, rel=1e-12)) is holds
    twice = NoiseStream.private(
        design.stream, 3, rho=design.rho, clip_norm=design.clip_norm, adjacency="replace-one", **names["run"]
    )
    assert twice.scale / design.clip_norm / (2 * twice.sensitivity(design.run)) == pytest.approx(ours, rel=1e-12)


# -- jax-privacy -------------------------------------------------------------------------------------------------------


@pytest.fixture
def jax() -> Iterator[Any]:
    found = pytest.importorskip("jax")
    pytest.importorskip("jax_privacy")
    before = {name: getattr(found.config, name) for name in ("jax_enable_x64", "jax_default_matmul_precision")}
    yield found
    for name, value in before.items():
        found.config.update(name, value)


SIZE = 1000  # arrays of noise
FORMS = dict(zip(JAX, ("buffers", "strategy_coef", "noising_coef"), strict=True))


def added_and_independent(heading: str, code: str, names: dict[str, Any], jax: Any) -> tuple[np.ndarray, np.ndarray]:
    """What the privatizer of a recipe adds to zeros, and what the strategy makes of it, over what it should be."""
    design: Design = names["design"]
    multiplier = design.multipliers(FORMS[heading])["float64"]
    steps = design.steps
    assert multiplier is not None
    assert steps is not None
    assert design.buffers is not None
    assert design.toeplitz is not None
    strategy = {
        "buffers": design.buffers.coefficients(steps),
        "strategy_coef": design.toeplitz.strategy_coef,
        "noising_coef": FiniteNoise(design.toeplitz.noising_coef).inverse_coefficients(steps),
    }[FORMS[heading]]

    space = {**names, "secret_key": jax.random.key(0)}
    exec(code, space)
    privatizer = space["privatizer"]
    gradients = np.zeros(SIZE)
    state = privatizer.init(gradients)
    update = jax.jit(privatizer.update)
    added = np.empty((steps, SIZE))
    for t in range(steps):
        added[t], state = update(gradients, state)
    independent = np.array([strategy[: t + 1][::-1] @ added[: t + 1] for t in range(steps)])
    return added, independent / (multiplier * design.clip_norm)


def correlation(values: np.ndarray) -> float:
    """The correlation of neighbouring steps."""
    return float((values[1:] * values[:-1]).mean() / np.square(values).mean())


def largest_error(values: np.ndarray) -> float:
    """The variance is 1 and the correlation 0: the mean of n squares or products has sqrt(2/n) at most.

    Six of these standard deviations are exceeded once in 5e8 runs.
    """
    return 6 * math.sqrt(2 / values.size)


@pytest.mark.parametrize("heading", JAX)
def test_jax_privacy_adds_the_noise_that_is_promised(heading: str, names: dict[str, Any], jax: Any) -> None:
    added, independent = added_and_independent(heading, RECIPES[heading], names, jax)
    error = largest_error(independent)
    assert abs(float(np.square(independent).mean()) - 1) < error
    assert abs(correlation(independent)) < error < abs(correlation(added))


@pytest.mark.parametrize(
    ("heading", "right", "wrong"),
    [(JAX[0], " * design.clip_norm", ""), (JAX[1], "strategy_coef)", "noising_coef)")],
    ids=["a forgotten clip norm", "the other column"],
)
def test_mistakes_are_seen(heading: str, right: str, wrong: str, names: dict[str, Any], jax: Any) -> None:
    assert RECIPES[heading].count(right) == 1
    _, independent = added_and_independent(heading, RECIPES[heading].replace(right, wrong), names, jax)
    error = largest_error(independent)
    assert max(abs(float(np.square(independent).mean()) - 1), abs(correlation(independent))) > error


# -- Opacus, TensorFlow and opake --------------------------------------------------------------------------------------


class Tensor(np.ndarray):
    """The few methods of a tensor that the recipe uses."""

    def numel(self) -> int:
        return self.size

    def view_as(self, other: np.ndarray) -> np.ndarray:
        return self.reshape(other.shape)

    def to(self, other: np.ndarray) -> np.ndarray:
        return self.astype(other.dtype)


class Optimizer:
    """The optimiser of Opacus as far as the recipe uses it, with noise multiplier 0."""

    def __init__(self, optimizer: Any, *, noise_multiplier: float, max_grad_norm: float, expected_batch_size: int):
        assert noise_multiplier == 0.0
        self.params, self.max_grad_norm, self.expected = optimizer, max_grad_norm, expected_batch_size

    def add_noise(self) -> None:
        for p in self.params:
            p.grad = p.summed_grad.copy()


def tensor(shape: tuple[int, ...], value: float) -> Any:
    return np.full(shape, value, np.float32).view(Tensor)


def stand_in(monkeypatch: pytest.MonkeyPatch, **modules: dict[str, Any]) -> None:
    for name, contents in modules.items():
        module = ModuleType(name.replace("_DOT_", "."))
        module.__dict__.update(contents)
        monkeypatch.setitem(__import__("sys").modules, module.__name__, module)


def test_the_recipe_for_opacus_with_a_stand_in(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(
        monkeypatch,
        torch={"from_numpy": lambda array: array.view(Tensor)},
        opacus={},
        opacus_DOT_optimizers={"DPOptimizer": Optimizer},
    )
    make = run("Opacus", names)["CorrelatedOptimizer"]
    parameters = [tensor((2, 3), 0.0), tensor((), 0.0), tensor((23,), 0.0)]
    added_by_a(make, parameters, lambda rows: rows, lambda p: tensor(p.shape, 5.0))


def test_the_recipe_for_opacus(names: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("opacus")
    make = run("Opacus", names)["CorrelatedOptimizer"]
    parameters = [torch.nn.Parameter(torch.zeros(shape)) for shape in ((2, 3), (), (23,))]
    added_by_a(
        make,
        parameters,
        lambda rows: torch.optim.SGD(rows, lr=1.0),
        lambda p: torch.full_like(p, 5.0, requires_grad=False),
    )


def added_by_a(make: Any, parameters: list[Any], optimizer: Any, fives: Callable[[Any], Any]) -> None:
    """Each parameter has its own part of one array of the stream."""
    stream, same = (NoiseStream(FiniteNoise([1.0, -0.5]), 30, rng=4, dtype="float32") for _ in range(2))
    correlated = make(optimizer(parameters), stream, clip_norm=2.0, expected_batch_size=8)
    assert correlated.max_grad_norm == pytest.approx(2.0, rel=2e-4)
    assert correlated.max_grad_norm < 2.0
    for _ in range(2):
        for p in parameters:
            p.summed_grad = fives(p)  # Opacus starts without, and refuses the sum of an earlier step
        correlated.add_noise()
        noise = np.concatenate([np.ravel(np.asarray(p.grad)) for p in parameters]) - 5
        assert noise == pytest.approx(next(same), abs=1e-6)


def two_streams() -> tuple[NoiseStream, NoiseStream]:
    """A stream, and the same again."""
    one, same = (NoiseStream(FiniteNoise([1.0, -0.5]), 30, rng=4, dtype="float32") for _ in range(2))
    return one, same


def test_the_recipe_for_tensorflow(names: dict[str, Any]) -> None:
    tf = pytest.importorskip("tensorflow")
    stream, same = two_streams()
    noisy = run("TensorFlow Privacy", {**names, "stream": stream})["noisy"]
    sums = [tf.fill(shape, 5.0) for shape in ((2, 3), (), (23,))]
    for _ in range(2):
        added = np.concatenate([np.ravel(total.numpy()) for total in noisy(sums)]) - 5
        assert added == pytest.approx(next(same), abs=1e-6)


def test_the_recipe_for_opake(names: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("opake")
    from opake.api.engine.types import ClippedPytree

    stream, same = two_streams()
    noisy = run("opake", {**names, "stream": stream})["noisy"]
    shapes = {"a": (2, 3), "b": (), "c": (23,)}
    sums = ClippedPytree({name: torch.full(shape, 5.0) for name, shape in shapes.items()}, names["design"].clip_norm)
    for _ in range(2):
        added = np.concatenate([np.ravel(total.numpy()) for total in noisy(sums).values()]) - 5
        assert added == pytest.approx(next(same), abs=1e-6)
    with pytest.raises(ValueError, match="clip norm"):
        noisy(ClippedPytree(sums.pytree, 2 * names["design"].clip_norm))


@pytest.mark.parametrize(("factor", "holds"), [(1.0, True), (1.1, False)])
def test_opake_makes_the_noise_that_is_promised(names: dict[str, Any], factor: float, holds: bool) -> None:
    """The strategy undoes what it adds to zeros: independent noise of the multiplier times the clip norm."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("opake")
    from opake.api.engine.types import ClippedPytree
    from opake.random import key

    zeros = {"a": torch.zeros(SIZE)}
    space = run("opake, 1", {**names, "gradients": zeros, "secret_key": key(3)})
    strategy = NuFTRL(0.0).inverse_coefficients(8)
    norm, state, rows = names["design"].clip_norm, space["state"], []
    for _ in range(40):
        added, state = space["noise_fn"](ClippedPytree(zeros, norm), state)
        rows.append(added.pytree["a"].numpy().astype(float))
    noise = np.array(rows)
    independent = sum(c * np.roll(noise, lag, axis=0) for lag, c in enumerate(strategy))[8:]
    scaled = independent / (factor * space["multiplier"] * norm)
    assert (abs(float(np.square(scaled).mean()) - 1) < largest_error(scaled)) is holds
    assert abs(correlation(scaled)) < largest_error(scaled)
