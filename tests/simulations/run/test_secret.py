"""Keys stand in objects that show nothing: not in variables, not in tracebacks, not in pickles."""

from __future__ import annotations

import copy
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import draws, model_noise
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.secret import Secret
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.sources import KEY, known_key, worst_case


def forms(key: bytes) -> list[str]:
    """How a key, or what gives its draws, may be shown."""
    seed = draws.seed_of(key, 0, 0, b"")
    sampler = draws.derived(key, b"batches", size=32)
    words = [str(int(each)) for each in draws.halves_of(seed)]
    return [each for one in (key, seed, sampler) for each in (repr(one), repr(one)[2:-1], one.hex())] + words


def shown(thing: Any, depth: int = 6) -> Iterator[str]:
    """The variables of an object, and of the objects in them."""
    yield repr(thing)
    if depth and hasattr(thing, "__dict__"):
        for each in vars(thing).values():
            yield from shown(each, depth - 1)
    if depth and isinstance(thing, list | tuple | dict):
        for each in thing.values() if isinstance(thing, dict) else thing:
            yield from shown(each, depth - 1)


def private(where: str, tmp_path: Path) -> PrivateRun:
    who = Participation.poisson(6, 0.25)
    with known_key(), worst_case():
        folder = Folder(tmp_path / "run", marks=tmp_path / "marks") if where == "folder" else None
        budget = Budget(epsilon=2.0, delta=1e-5)
        return PrivateRun(budget, who, DPSGD(), 3, batches=batches(who, 8), folder=folder)


WHERE = pytest.mark.parametrize("where", ["folder", "memory"])


@WHERE
def test_no_variable_shows_the_key(where: str, tmp_path: Path) -> None:
    run = private(where, tmp_path)
    next(iter(run))
    run.add_noise(np.zeros(3))
    text = "\n".join(shown(run))
    assert "<secret>" in text
    assert [form for form in forms(KEY) if form in text] == []


def text_of(error: BaseException) -> str:
    """A traceback with the variables of all frames."""
    return "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())


PLACES = {"noise": (model_noise, "step_scale"), "draws": (draws, "fill_spans"), "batch": (draws, "philox")}


@WHERE
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("hidden", [True, False])
def test_no_frame_shows_the_key(where: str, place: str, hidden: bool, tmp_path: Path) -> None:
    """Where a function without a frame of its own fails; the mutant is a key of plain bytes."""
    run = private(where, tmp_path)
    if not hidden:
        run._secret = KEY  # type: ignore[assignment]
    module, name = PLACES[place]
    if place != "batch":
        run.next_batch()
    with mock.patch.object(module, name, len), pytest.raises(TypeError, match="takes exactly one argument") as caught:
        run.next_batch() if place == "batch" else run.add_noise(np.zeros(3))
    text = text_of(caught.value)
    assert ("<secret>" in text) is (hidden or place == "batch")
    assert ([form for form in forms(KEY) if form in text] == []) is (hidden or place == "batch")


def test_a_secret() -> None:
    one = Secret(b"0123")
    assert one.reveal() == b"0123"
    assert f"{one} {one!r} {[one]}" == "<secret> <secret> [<secret>]"
    assert one == Secret(b"0123")
    assert one != Secret(b"0124")
    assert one != b"0123"
    assert not hasattr(one, "__dict__")
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="must not be copied or pickled"):
            copied(one)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    with mock.patch("hmac.compare_digest", return_value=True) as compared:
        assert one == Secret(b"0124")
    assert compared.call_count == 1


def test_draws_take_keys_of_both_kinds() -> None:
    for function in (
        lambda key: draws.normals(key, 3, 0, 5),
        lambda key: draws.words(key, b"take", 3, 5),
        lambda key: draws.seeds(key, [1, 2]),
        lambda key: draws.derived(key, b"link", b"x"),
    ):
        np.testing.assert_array_equal(function(Secret(KEY)), function(KEY))
    with pytest.raises(ValueError, match="secret must be 16 to 64 bytes, got 3"):
        draws.seeds(Secret(b"abc"), [1])


def test_a_federated_client_shows_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    from corrnoise.simulations.federation import client

    program = AntiPGD(0.3).program(Participation.single(4))
    plan = mock.Mock(program=program, dimension=3, noise_std=1.0)
    monkeypatch.setattr(draws, "fresh", lambda size: KEY[:size])
    with mock.patch.object(draws, "fill_spans", len), pytest.raises(TypeError) as caught:
        client.fresh_noise(plan, 0, np.zeros((1, 3)))
    text = text_of(caught.value)
    assert "<secret>" in text
    assert [form for form in forms(KEY) if form in text] == []
