"""The script on low-rank adapters: they alone are trained, and they alone get noise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.simulations.adapters.pages import script

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
torch.set_num_threads(1)


def flat(parameters: Any) -> Any:
    return torch.cat([each.detach().reshape(-1) for each in parameters])


def pretrained(begin: str) -> dict[str, Any]:
    """The names of the script at the begin of its run."""
    names: dict[str, Any] = {}
    exec(compile(begin, "the page", "exec"), names)
    return names


def command(place: Path, monkeypatch: pytest.MonkeyPatch, *, frozen: str = ".requires_grad_(False)") -> dict[str, Any]:
    """The names of the script after two epochs, with the parameters at the begin of the run."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    text = script("Low-rank adapters")
    for old, new in (("epochs=20", "epochs=2"), (".requires_grad_(False)", frozen)):
        assert text.count(old) == 1
        text = text.replace(old, new)
    begin, rest = text.split("run = cn.torch")
    names = pretrained(begin)
    names["first"] = {name: each.detach().clone() for name, each in names["model"].named_parameters()}
    exec(compile("run = cn.torch" + rest, "the page", "exec"), names)
    return names


def moved(names: dict[str, Any]) -> set[str]:
    return {
        name for name, each in names["model"].named_parameters() if not torch.equal(each.detach(), names["first"][name])
    }


def test_only_the_adapters_are_trained_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = command(tmp_path, monkeypatch)
    run = names["run"]
    assert run.position == 20
    assert run.size == 4 * (64 + 128) + 4 * (128 + 10)
    assert moved(names) == {"0.u", "0.v", "2.u", "2.v"}

    again = command(tmp_path, monkeypatch)  # finished: it trains nothing and loads the model
    assert list(again["run"]) == []
    assert torch.equal(flat(again["model"].parameters()), flat(names["model"].parameters()))


def test_a_base_that_is_not_frozen_is_trained_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above would fail for it."""
    names = command(tmp_path, monkeypatch, frozen="")
    assert names["run"].size > 4 * (64 + 128) + 4 * (128 + 10)
    assert {"0.base.weight", "2.base.bias"} <= moved(names)


def test_adapters_of_half_precision_are_refused_without_exact_sums() -> None:
    names = pretrained(script("Low-rank adapters").split("run = cn.torch")[0])
    names["model"].bfloat16()
    with pytest.raises(ValueError, match="parameters must be of float32 or float64, got"):
        names["cn"].torch.make_private(
            names["model"],
            torch.optim.SGD(names["trained"], lr=1.0),
            (torch.zeros(4, 64), torch.zeros(4, dtype=torch.long)),
            loss=names["loss"],
            budget=names["cn"].Budget(rho=0.5),
            batch_size=2,
            epochs=1,
            sums="float32",
            release="float",
        )
