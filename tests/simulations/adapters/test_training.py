"""Runs of all libraries: their options and batches; killed scripts resume, bit for bit."""

from __future__ import annotations

import inspect
import json
import os
import random
import re
import subprocess
import sys
from dataclasses import MISSING, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Required, get_origin, get_type_hints

import numpy as np
import pytest

from corrnoise.simulations.adapters import jax_run, opacus, torch_run
from corrnoise.simulations.adapters.options import (
    JaxKeywords,
    JaxOptions,
    TorchKeywords,
    TorchOptions,
    TrainingOptions,
)
from corrnoise.simulations.adapters.training import HostGenerators, Parts, chunks, source
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation, Sampled
from corrnoise.theory.privacy import Budget
from tests.simulations.adapters.killed import LIBRARIES, STEPS_OF_EPOCH
from tests.test_docstrings import documented

SCRIPT = Path(__file__).with_name("killed.py")
ROOT = Path(__file__).parents[3]


def killed(heading: str, place: Path, *numbers: int) -> list[dict[str, Any]]:
    """The results of the starts of the example; the first start is not killed."""
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    for name in ("sklearn", *LIBRARIES[heading]):
        if find_spec(name.partition(".")[0]) is None:
            pytest.skip(f"{name} is not installed")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), heading, str(place), *map(str, numbers)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def agree(heading: str, place: Path, seed: int, kills: int, epochs: int) -> float | None:
    """Kill the script and resume it; the accuracy that it prints, which equals that of a run that is not killed."""
    whole, *starts, resumed, again = killed(heading, place, seed, kills, epochs)
    assert starts[0] == {"signal": 9}
    to_come = [int(re.findall(r"(\d+) steps to come", each["printed"])[0]) for each in (whole, resumed, again)]
    of_epoch = STEPS_OF_EPOCH.get(heading, 20)
    assert to_come[0] == of_epoch * epochs
    every = 2 * epochs if heading == "Sampled batches" else of_epoch  # a tenth of the run, or an epoch
    assert to_come[1] % every == 0  # from the last checkpoint on
    assert to_come[2] == 0
    assert whole["digest"] == resumed["digest"] == again["digest"]
    found = re.search(r"^.*(?:accuracy|before,) ([\d.]+)[\s\S]*", whole["printed"], re.MULTILINE)
    if found is None:  # it prints no result
        return None
    assert heading == "first model" or f"{to_come[0]} of {to_come[0]} done" in found[0]
    for each in (resumed, again):
        assert each["printed"].endswith(f"\n{found[0]}")
    return float(found[1])


@pytest.mark.parametrize("heading", LIBRARIES)
def test_the_script_of_the_page_is_killed_and_ends_with_the_model_of_one_that_was_not(
    heading: str, tmp_path: Path
) -> None:
    """At a random write of a run of two epochs, with dropout; the third start trains nothing.

    The accuracy is about 0.8, and 0.47 with adapters; an untrained model has 0.1, and 0.43 without adapters.
    """
    accuracy = agree(heading, tmp_path, seed=len(heading), kills=1, epochs=2)
    assert (accuracy is None) == (heading == "Export")
    assert accuracy is None or accuracy > (0.45 if heading == "Low-rank adapters" else 0.6)


@pytest.mark.slow
@pytest.mark.parametrize("heading", LIBRARIES)
@pytest.mark.parametrize("seed", range(3))
def test_scripts_are_killed_several_times(heading: str, seed: int, tmp_path: Path) -> None:
    """The accuracy of the whole example is about 0.88, and 0.65 with the weight decay of the Trainer."""
    least = 0.6 if heading == "Trainer" else 0.75
    accuracy = agree(heading, tmp_path, seed=100 + seed, kills=4, epochs=20)
    assert accuracy is None or accuracy > least


def test_generators_go_on_where_they_were() -> None:
    def drawn() -> list[float]:
        return [random.random(), random.gauss(), np.random.normal(), np.random.rand()]  # noqa: NPY002

    both = Parts({"one": HostGenerators()})
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    drawn()  # a second normal of each is kept
    kept = both.save()
    assert set(kept) == {"one/numpy", "one/python"}
    first = drawn()
    drawn()
    both.load(kept)
    assert drawn() == first
    assert drawn() != first


def options(**changed: Any) -> TrainingOptions:
    return TrainingOptions(**{"loss": print, "budget": Budget(1.0), "batch_size": 4, **changed})


def test_batches_are_those_of_whole_epochs_or_of_a_participation() -> None:
    who = Participation.reshuffled(8, epochs=2)
    assert source(options(epochs=3, batch_size=5), 17).participation == Participation.fixed_epochs(9, epochs=3)
    assert source(options(participation=who), 17).orders.shape == (2, 17)  # type: ignore[union-attr]
    for epochs, size, name in ((1, 18, "batch_size"), (1, 0, "batch_size"), (0, 4, "epochs")):
        with pytest.raises(ValueError, match=f"{name} must"):
            source(options(epochs=epochs, batch_size=size), 17)
    for times, order in ((None, None), (2, who)):
        with pytest.raises(ValueError, match="and not both"):
            options(epochs=times, participation=order)


DOORS = [
    (torch_run.make_private, TorchOptions),
    (opacus.make_private, TorchOptions),
    (jax_run.make_private, JaxOptions),
]


@pytest.mark.parametrize(("door", "kind"), DOORS)
def test_a_door_shows_and_documents_each_option(door: Any, kind: Any) -> None:
    shown = inspect.signature(door).parameters
    assert {each.name for each in fields(kind)} <= set(shown)
    assert "options" not in shown
    assert all(shown[each.name].default == each.default for each in fields(kind) if each.default is not MISSING)
    assert documented(door.__doc__) == list(shown)
    assert documented(inspect.cleandoc(door.__wrapped__.__doc__))[-1] == "options"


@pytest.mark.parametrize(("door", "kind"), DOORS)
def test_a_door_refuses_other_names(door: Any, kind: Any) -> None:
    with pytest.raises(TypeError, match=r"make_private\(\) has no option 'folders'; did you mean 'folder'\?"):
        door(None, None, None, folders="run")
    with pytest.raises(TypeError, match=r"make_private\(\) must be given budget, batch_size$"):
        door(None, None, None, loss=print)


@pytest.mark.parametrize(("keywords", "kind"), [(TorchKeywords, TorchOptions), (JaxKeywords, JaxOptions)])
def test_type_checkers_see_the_fields_of_the_options(keywords: Any, kind: Any) -> None:
    found = {name: get_type_hints(keywords)[name] for name in get_type_hints(kind) if name != "CLIPPINGS"}
    assert found == {name: each for name, each in get_type_hints(kind).items() if name != "CLIPPINGS"}
    assert set(found) == set(get_type_hints(keywords))
    hints = get_type_hints(keywords, include_extras=True)
    required = {name for name, each in hints.items() if get_origin(each) is Required}
    assert required == {each.name for each in fields(kind) if each.default is MISSING}


@pytest.mark.parametrize(
    ("kind", "changed", "message"),
    [
        (TrainingOptions, {"loss": None}, "loss must be a function, got None"),
        (TrainingOptions, {"item": 3}, "item must be a function, got 3"),
        (TrainingOptions, {"epochs": Participation.single(4)}, "epochs must be an integer.*pass it as participation="),
        (TrainingOptions, {"budget": 1.0}, "budget must be"),
        (TrainingOptions, {"clipping": "flat"}, "clipping must be one of 'auto', 'example', 'ghost'"),
        (TrainingOptions, {"engine": "fast"}, "engine must be"),
        (TrainingOptions, {"chunk_size": 0}, "chunk_size must"),
        (TorchOptions, {"changed": "model"}, "changed must be 'optimizer' or None, got 'model'"),
        (JaxOptions, {"clipping": "ghost"}, r"clipping must be 'auto' or 'example' in JAX, got 'ghost'.*cn\.torch"),
        (JaxOptions, {"clipping": "flat"}, "clipping must be one of 'auto', 'example'"),
    ],
)
def test_options_out_of_their_range_are_refused(kind: Any, changed: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        kind(**{"loss": print, "budget": Budget(1.0), "batch_size": 4, "epochs": 1, **changed})


def test_chunks_are_the_batch_in_order() -> None:
    once = Participation.single(3)
    run = PrivateRun(Budget(0.5), once, DPSGD(), 10, batches=batches(once, 12, 4))
    for size, lengths in ((None, [4]), (1, [1, 1, 1, 1]), (3, [3, 1]), (9, [4])):
        found = list(chunks(run, size, 10))
        assert np.concatenate([chunk.rows for chunk in found]).tolist() == [0, 1, 2, 3]
        assert [chunk.counts.tolist() for chunk in found] == [[True] * length for length in lengths]
    assert [len(chunk.rows) for chunk in chunks(run, None, 2**27)] == [2, 2]  # 1 GiB
    assert [len(chunk.rows) for chunk in chunks(run, None, 2**40)] == [1, 1, 1, 1]
    for wrong in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match="chunk_size"):
            list(chunks(run, wrong, 10))  # type: ignore[arg-type]


@pytest.mark.parametrize(("capacity", "sums", "size"), [(None, "exact", 1), (100, "exact", 25), (None, "float32", 10)])
def test_chunks_of_a_sampled_batch_have_one_shape(capacity: int | None, sums: Any, size: int) -> None:
    """And with exact sums an example has a slot that the others leave alone, or a chunk of its own."""
    who = Participation.poisson(30, 0.1, capacity=capacity, examples=capacity and 400)
    budget, order = Budget(epsilon=5.0, delta=1e-5), batches(who, 400, 40)
    run = PrivateRun(budget, who, DPSGD(), 2, batches=order, sums=sums, release="grid" if sums == "exact" else "float")
    sizes = set()
    for batch in run:
        found = list(chunks(run, None, 2))
        places = [(chunk.first + place, row) for chunk in found for place, row in enumerate(chunk.rows)]
        kept = np.concatenate([chunk.counts for chunk in found])
        counted = [pair for pair, counts in zip(places, kept, strict=True) if counts]
        assert sorted(row for _, row in counted) == list(range(len(batch)))
        assert {len(chunk.rows) for chunk in found} == {size}
        if capacity is not None:
            assert run.batches is not None
            assert dict(counted) == {slot: row for row, slot in enumerate(run.batches.slots(run.position))}  # type: ignore[union-attr]
        sizes.add(len(batch))
        run.add_noise(np.zeros(2, float if run.grid is None else run.grid.dtype))
    assert len(sizes) > 5


def test_a_sampled_run_gets_room_for_its_batches() -> None:
    """With exact sums the overflow is at most 1e-6 δ, and one slot less has more."""
    who = Participation.poisson(30, 0.1)
    budget = Budget(epsilon=5.0, delta=1e-5)
    made = source(TrainingOptions(loss=print, budget=budget, batch_size=40, participation=who), 400).participation
    assert isinstance(made, Sampled)
    assert made.capacity is not None
    assert made.overflow <= 1e-11 < replace(made, capacity=made.capacity - 1).overflow
    floats: dict[str, Any] = {"sums": "float32", "release": "float"}
    options = TrainingOptions(loss=print, budget=budget, batch_size=40, participation=who, **floats)
    assert source(options, 400).participation == who
