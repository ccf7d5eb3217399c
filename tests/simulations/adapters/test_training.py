"""What the runs of all libraries share: their scripts are killed and go on, bit for bit."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.adapters.training import HostGenerators, Parts, chunks, source
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

SCRIPT = Path(__file__).with_name("killed.py")
ROOT = Path(__file__).parents[3]
LIBRARIES = {"PyTorch": "torch", "Sampled batches": "torch", "Opacus": "torch", "JAX": "optax"}


def killed(heading: str, place: Path, *numbers: int) -> list[dict[str, Any]]:
    """What the starts of the example have found, one that is left alone first."""
    if not hasattr(os, "fork"):
        pytest.skip("processes cannot be forked here")
    pytest.importorskip("sklearn")
    pytest.importorskip(LIBRARIES[heading])
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


def agree(heading: str, place: Path, seed: int, kills: int, epochs: int) -> float:
    """Kill the script and let it go on; the accuracy in the end, which is that of a run that was left alone."""
    whole, *starts, resumed, again = killed(heading, place, seed, kills, epochs)
    assert starts[0] == {"signal": 9}
    to_come = [int(re.findall(r"(\d+) steps to come", each["printed"])[0]) for each in (whole, resumed, again)]
    assert to_come[0] == 20 * epochs
    every = 2 * epochs if heading == "Sampled batches" else 20  # a tenth of the run, or an epoch
    assert to_come[1] % every == 0  # from the last checkpoint on
    assert to_come[2] == 0
    assert whole["digest"] == resumed["digest"] == again["digest"]
    last = whole["printed"].splitlines()[1]
    assert last == again["printed"].splitlines()[1]
    assert f"The noisy sums of all {20 * epochs} steps are" in last
    return float(last.split(",")[0])


@pytest.mark.parametrize("heading", LIBRARIES)
def test_the_script_of_the_page_is_killed_and_ends_with_the_model_of_one_that_was_not(
    heading: str, tmp_path: Path
) -> None:
    """At a random write of a run of 40 steps, with dropout; the third start trains nothing.

    The accuracy is about 0.8; an untrained model has 0.1.
    """
    assert agree(heading, tmp_path, seed=len(heading), kills=1, epochs=2) > 0.6


@pytest.mark.slow
@pytest.mark.parametrize("heading", LIBRARIES)
@pytest.mark.parametrize("seed", range(3))
def test_scripts_are_killed_several_times(heading: str, seed: int, tmp_path: Path) -> None:
    """The accuracy of the whole example is about 0.88."""
    assert agree(heading, tmp_path, seed=100 + seed, kills=4, epochs=20) > 0.75


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


def test_batches_are_those_of_whole_epochs_or_of_a_participation() -> None:
    assert source(3, 17, 5).participation == Participation.fixed_epochs(9, epochs=3)
    assert source(None, 17, 4, Participation.reshuffled(8, epochs=2)).orders.shape == (2, 17)  # type: ignore[union-attr]
    for epochs, size, name in ((1, 18, "batch_size"), (1, 0, "batch_size"), (0, 4, "epochs")):
        with pytest.raises(ValueError, match=f"{name} must"):
            source(epochs, 17, size)
    who = Participation.reshuffled(8, epochs=2)
    for times, order in ((None, None), (2, who)):
        with pytest.raises(ValueError, match="and not both"):
            source(times, 17, 4, order)
    with pytest.warns(FutureWarning, match="pass a Participation as participation="):
        assert source(who, 17, 4).participation == who


def test_chunks_are_the_batch_in_order() -> None:
    once = Participation.single(3)
    run = PrivateRun(Budget(0.5), once, DPSGD(), 10, batches=source(None, 12, 4, once))
    for size, lengths in ((None, [4]), (1, [1, 1, 1, 1]), (3, [3, 1]), (9, [4])):
        found = list(chunks(run, size, 10))
        assert np.concatenate([places for places, _ in found]).tolist() == [0, 1, 2, 3]
        assert [count for _, count in found] == lengths
    assert [count for _, count in chunks(run, None, 2**27)] == [2, 2]  # 1 GiB
    assert [count for _, count in chunks(run, None, 2**40)] == [1, 1, 1, 1]
    for wrong in (0, 1.5):
        with pytest.raises((ValueError, TypeError), match="chunk_size"):
            list(chunks(run, wrong, 10))  # type: ignore[arg-type]


@pytest.mark.parametrize("capacity", [None, 100])
def test_chunks_of_a_sampled_batch_have_one_shape(capacity: int | None) -> None:
    who = Participation.poisson(30, 0.1, capacity=capacity, examples=capacity and 400)
    run = PrivateRun(Budget(epsilon=5.0, delta=1e-5), who, DPSGD(), 2, batches=source(None, 400, 40, who))
    sizes = set()
    for batch in run:
        found = list(chunks(run, None, 2))
        rows = np.concatenate([places[:count] for places, count in found])
        assert rows.tolist() == list(range(len(batch)))
        assert {len(places) for places, _ in found} == {10}
        sizes.add(len(batch))
        run.add_noise(np.zeros(2))
    assert len(sizes) > 5
