"""The recipes of ``docs/handover.md``: each is run as it stands where its library is installed.

Recipes stand in ``py`` blocks.  The ``python`` blocks, which need no other library, make the design for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

PAGE = (Path(__file__).parents[2] / "docs/handover.md").read_text(encoding="utf-8")
RECIPES = {
    heading: code
    for heading, text in re.findall(r"^#+ ([^\n]+)\n(.*?)(?=^#+ |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    for code in re.findall(r"```py\n(.*?)```", text, re.DOTALL)
}
JAX = {"Buffers (BLT)": "buffers", "Toeplitz strategy": "strategy", "Dense noising matrix": "noising"}


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the blocks without other libraries define."""
    found: dict[str, Any] = {"print": lambda *_: None}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, found)
    return found


def test_the_page_has_these_recipes() -> None:
    assert list(RECIPES) == [*JAX, "TensorFlow Privacy", "opake", "dp-accounting"]
    for heading, code in RECIPES.items():
        compile(code, heading, "exec")


def test_the_event_has_the_budget_of_the_design(names: dict[str, Any]) -> None:
    pytest.importorskip("dp_accounting")
    space = dict(names)
    exec(RECIPES["dp-accounting"], space)
    assert space["epsilon"] == pytest.approx(2.0, rel=1e-3)


@pytest.fixture
def jax() -> Iterator[Any]:
    found = pytest.importorskip("jax")
    pytest.importorskip("jax_privacy")
    before = {name: getattr(found.config, name) for name in ("jax_enable_x64", "jax_default_matmul_precision")}
    yield found
    for name, value in before.items():
        found.config.update(name, value)


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("heading", JAX)
def test_jax_privacy_adds_the_noise_that_is_promised(
    heading: str, forgotten: bool, names: dict[str, Any], jax: Any
) -> None:
    """The strategy makes independent noise of what is added to zeros; not where the factors are forgotten."""
    program, budget, size = names[JAX[heading]], names["budget"], 1000
    assert program.step_scales is not None
    code = RECIPES[heading].replace("step_scales is not None", "step_scales is None") if forgotten else RECIPES[heading]
    if forgotten:
        code = code.replace("scales[:, None] * ", "")
    space = {**names, "secret_key": jax.random.key(0)}
    exec(code, space)
    privatizer = space["privatizer"]
    state = privatizer.init(np.zeros(size))
    update = jax.jit(privatizer.update)
    added = []
    for _ in range(program.participation.length):
        noisy, state = update(np.zeros(size), state)
        added.append(np.asarray(noisy))
    independent = program.mechanism.strategy() @ np.array(added) / program.scale(budget)
    # The mean of n squares or products has the standard deviation sqrt(2/n) at most; 6 are exceeded once in 5e8 runs.
    error = 6 * math.sqrt(2 / independent.size)
    assert (abs(float(np.square(independent).mean()) - 1) < error) != forgotten
    if not forgotten:
        assert abs(float((independent[1:] * independent[:-1]).mean())) < error


def test_tensors_of_opake_get_a_step_of_the_stream(names: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    space = {**names, "stream": iter([np.arange(30.0)])}
    exec(RECIPES["opake"], space)
    sums = {"a": torch.ones(2, 5), "b": torch.zeros(20)}
    found = space["noisy"](SimpleNamespace(sensitivity=0.5, pytree=sums))
    assert found["a"].tolist() == (1 + np.arange(10.0)).reshape(2, 5).tolist()
    assert found["b"].tolist() == np.arange(10.0, 30.0).tolist()
    with pytest.raises(ValueError, match=r"the noise is for the clip norm 0.5, got 0.6"):
        space["noisy"](SimpleNamespace(sensitivity=0.6, pytree=sums))
