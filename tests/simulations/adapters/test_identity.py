"""Signs of data and losses: the same at each start, and others for other data."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters import identity
from corrnoise.simulations.adapters.identity import in_words, of_arrays, of_examples, of_function

INPUTS = np.arange(12.0).reshape(4, 3)
TARGETS = np.array([0, 1, 1, 2])


def test_arrays_have_types_shapes_and_a_digest() -> None:
    found = of_arrays((INPUTS, TARGETS))
    assert found["data"] == "float64 (4, 3), int64 (4,)"
    assert found == of_arrays((np.asfortranarray(INPUTS), TARGETS.copy()))
    changed = INPUTS.copy()
    changed[3, 2] += 1e-12
    others = [(changed, TARGETS), (INPUTS, TARGETS[::-1]), (INPUTS[::-1], TARGETS), (INPUTS,), (INPUTS.T, TARGETS)]
    digests = {of_arrays(each)["data digest"] for each in [*others, (INPUTS, TARGETS)]}
    assert len(digests) == 6


def test_of_large_arrays_some_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "MAX_WHOLE_BYTES", 1000)
    rows = np.arange(3000.0)
    first = of_arrays((rows,))
    for place, seen in ((0, True), (2999, True), (1, False)):
        other = rows.copy()
        other[place] += 1
        assert (of_arrays((other,)) != first) == seen


def test_tensors_of_all_types_have_a_digest() -> None:
    torch = pytest.importorskip("torch")
    values = torch.arange(6.0).reshape(3, 2)
    assert of_arrays((values,)) == of_arrays((values.numpy(),))
    assert of_arrays((values.bfloat16(),))["data"] == "bfloat16 (3, 2)"
    assert of_arrays((values.bfloat16(),)) != of_arrays((-values.bfloat16(),))


class Items:
    def __init__(self, change: int | None = None) -> None:
        self.change = change
        self._hook = change

    def read(self, number: int) -> Any:
        return {
            "picture": np.full((2, 2), float(number) + (number == self.change)),
            "label": number,
            "name": str(number),
        }


def test_examples_are_read_one_by_one() -> None:
    found = of_examples("Items", Items().read, 1000)
    assert found["data"] == "Items: int, str, float64 (2, 2)"
    assert found == of_examples("Items", Items().read, 1000)
    assert found != of_examples("Items", Items(999).read, 1000)
    assert found != of_examples("Items", Items().read, 999)
    rng = np.random.default_rng(0)
    assert of_examples("Noisy", lambda number: rng.normal(size=3), 9) == {"data": "Noisy: float64 (3,)"}


def loss_function(outputs: Any, targets: Any) -> Any:
    return abs(outputs - targets)  # the first


def test_functions_have_a_name_and_a_text() -> None:
    found = of_function("loss", loss_function)
    assert found["loss"].endswith("test_identity.loss_function")
    assert of_function("loss", partial(loss_function, targets=2))["loss digest"] == found["loss digest"]
    assert in_words(partial(loss_function, 1, targets="a")).endswith("loss_function(1, targets='a')")
    assert in_words(partial(loss_function, [1])).endswith("loss_function(list)")
    assert "loss digest" not in of_function("loss", np.sum)
    assert "loss digest" not in of_function("loss", abs)


def text_of(text: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(inspect, "getsource", lambda own: text)
    return of_function("loss", loss_function)["loss digest"]


def test_comments_and_spaces_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    one = text_of("def f(x):\n    return x + 1  # why\n", monkeypatch)
    assert one == text_of("def f( x ):\n\n    return x+1\n", monkeypatch)
    assert one != text_of("def f(x):\n    return x + 2\n", monkeypatch)
    assert text_of("    loss=lambda x: x),", monkeypatch) != text_of("    loss=lambda x: -x),", monkeypatch)


def test_objects_are_told_by_their_simple_attributes() -> None:
    assert in_words(Items(3)) == "Items(change=3)"
    assert in_words(Items(np.zeros(2))) == "Items()"  # type: ignore[arg-type]
