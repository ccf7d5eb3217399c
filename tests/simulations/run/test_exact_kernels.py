"""The kernels of proved noise: their integers are those of balls of Arb, and draws that are prefetched are used."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import corrnoise as cn
from corrnoise.simulations.run import exact_draws
from corrnoise.simulations.run.exact_kernels import run_rows
from corrnoise.simulations.run.exact_steps import finest_unit
from corrnoise.simulations.run.proved import ProvedNoise, integers
from tests.simulations.run.crashes import dies
from tests.simulations.run.sources import counted
from tests.simulations.run.test_proved import FORMS, SECRET, made, program_of, releases, run_of

PREFETCH = ProvedNoise.prefetch


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("finer", [1, 256])
def test_many_integers_are_those_of_balls(name: str, finer: int) -> None:
    """176 000 in all, on the finest grid of a run, and on a finer one that leaves some of them open to floats."""
    program, coordinates = program_of(FORMS[name]), range(500, 2500)
    unit = 16 * finest_unit(program) / finer
    exact = integers(program, SECRET, scale=10.96, unit=unit, coordinates=coordinates, steps=4)
    found, noise = made(program, 2500, 4, unit=unit)
    np.testing.assert_array_equal(found[:, coordinates], exact)
    assert noise.opened or finer == 1 or name == "matrix"  # whose first steps are small


def test_zeros_have_no_sign() -> None:
    """A fingerprint of the noise would tell them apart, and other levels make 0."""
    [found] = made(program_of(FORMS["dpsgd"]), 2048, 1, scale=2.0, unit=1.0)[0]
    assert (found == 0).sum() > 200
    assert not np.signbit(found[found == 0]).any()


@pytest.mark.parametrize("cascade", [True, False])
def test_a_place_with_an_open_row_is_open_and_keeps_its_memory(cascade: bool) -> None:
    """Whichever row is open, and though the noise is certain."""
    rng = np.random.default_rng(1)
    numbers = np.array([[0.5, 0.25], [-0.2, 0.3], [0.7, 0.6], [2.0**-20] * 2, [2.0**-20] * 2])
    before, now = rng.integers(0, 2**16, (2, 2, 1500), np.uint16)
    for row in (0, 1):
        limits = np.where(np.arange(3) == row + 1, 0.4, 1e-6)
        x, memory, places = rng.normal(size=1500), rng.integers(0, 2**20, (2, 1500), np.int32), np.empty(1500, int)
        old = memory.copy()
        count = run_rows(x, memory, before, now, cascade, numbers, limits, 2.0**24, places)
        is_open = np.isin(np.arange(1500), places[:count])
        assert 0.7 < is_open.mean() < 0.9
        np.testing.assert_array_equal(np.isnan(x), is_open)
        np.testing.assert_array_equal((memory == old).all(axis=0), is_open)


@pytest.mark.parametrize("name", ["sections", "scaled finite", "replays", "tree", "banded"])
@pytest.mark.parametrize("threads", [1, 2])
def test_prefetched_draws_are_used_and_have_the_same_integers(name: str, threads: int) -> None:
    """Draws of another nonce are made again."""
    true, ahead = (ProvedNoise(program_of(FORMS[name]), 66_000, threads, scale=10.96, unit=2.0**-24) for _ in range(2))
    real, parts = exact_draws.fill_normals, 2
    for step in range(8):
        expected, keys = true.made(SECRET, step, b"right", 10.96), []

        def noted(key: bytes, *rest: Any) -> None:
            keys.append(key)  # noqa: B023
            real(key, *rest)

        with mock.patch.object(exact_draws, "fill_normals", noted):
            ahead.prefetch(SECRET, step, b"wrong" if step == 2 else b"right")
            np.testing.assert_array_equal(ahead.made(SECRET, step, b"right", 10.96), expected)
        assert keys.count(exact_draws.step_key(SECRET, step, b"right")) == parts
    np.testing.assert_array_equal(ahead.memory, true.memory)
    true.close()
    ahead.close()


@pytest.mark.parametrize("name", ["sections", "scaled finite"])
def test_a_run_that_prefetches_has_the_same_releases(name: str, tmp_path: Path) -> None:
    """With a crash and a restart between two steps."""
    found = []
    with mock.patch.object(os, "fsync", return_value=None):
        for ahead in (False, True):
            folder = cn.Folder(tmp_path / str(ahead), marks=tmp_path / f"{ahead} marks", checkpoint_every=3, ahead=4)
            with counted(), mock.patch.object(ProvedNoise, "prefetch", autospec=True, side_effect=PREFETCH) as fetched:
                run = run_of(FORMS[name], folder=folder, prefetch=ahead)
                shown = releases(run, 5)
                dies(run)
                with run_of(FORMS[name], folder=folder, prefetch=ahead) as run:
                    found.append(shown + releases(run, 8))
            assert fetched.called == ahead
    assert found[0] == found[1]
