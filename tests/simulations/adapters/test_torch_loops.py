"""The recipes for loops of other libraries: all steps of the run, each with its noise."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.simulations.adapters.pages import script

torch = pytest.importorskip("torch")
optimizers = pytest.importorskip("torch.optim.optimizer")
torch.set_num_threads(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("heading", "library"), [("Trainer", "transformers"), ("Lightning", "lightning"), ("Accelerate", "accelerate")]
)
def test_the_recipe_of_the_page_makes_all_steps(
    heading: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(library)
    if heading == "Trainer":
        pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    steps: list[float] = []

    def note(optimizer: Any, *_: Any) -> None:
        steps.append(optimizer.param_groups[0]["params"][0].grad.norm().item())

    handle = optimizers.register_optimizer_step_post_hook(note)
    names: dict[str, Any] = {"print": lambda words: None, "__name__": "recipe"}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries
            exec(compile(script(heading), "recipe", "exec"), names)
    finally:
        handle.remove()
    assert names["run"].position == 20
    assert len(steps) == len(set(steps)) == 20
    assert min(steps) > 0
