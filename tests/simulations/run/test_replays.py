"""Runs with replayed draws: noise is N z with the nonces of the journal, also after cuts, crashes and clean ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.federation.plan import Plan
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import engine, streaming
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.journal import Journal
from corrnoise.simulations.run.model_noise import ModelNoise
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.mechanisms.time_varying import TimeVaryingBuffers
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from tests.simulations.run.test_spans import covered

STEPS, PERIOD, SIZE = 14, 4, 5
WHO = Participation.fixed_epochs(STEPS, period=PERIOD)
SECRET = bytes(range(32))
NONCES = Journal.nonces


def example(buffers: int = 2) -> TimeVaryingBuffers:
    rng = np.random.default_rng(0)
    outputs, inputs = rng.uniform(0.1, 0.6, (2, STEPS, buffers))
    again = 0.5 * rng.normal(size=(3, STEPS))
    for e, row in enumerate(again, 1):
        row[: e * PERIOD] = 0
    decays = np.linspace(0.4, 0.9, buffers)
    return TimeVaryingBuffers(decays, outputs, inputs, rng.uniform(0.5, 2, STEPS), replays=again, period=PERIOD)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with mock.patch.object(os, "fsync", return_value=None):
        yield


def nonce(step: int) -> bytes:
    return bytes([step, 7])


def normals(secret: bytes, nonces: dict[int, bytes], size: int) -> np.ndarray:
    return np.array([draws.normals(secret, t, 0, size, nonce=nonces[t]) for t in sorted(nonces)])


# -- the maker ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("buffers", [0, 2])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_noise_of_a_step_is_that_of_the_matrix(buffers: int, dtype: Any) -> None:
    program = example(buffers).program(WHO, dtype)
    expected = program.mechanism.noising(normals(SECRET, {t: nonce(t) for t in range(STEPS)}, 3000))
    spans = [(2500, 300), (7, 2), (100, 2200)]
    maker, shard = ModelNoise(program, 3000, 2), ModelNoise(program, 3000, 1, spans=spans)
    for t in range(STEPS):
        maker.prefetch(SECRET, t, nonce(t))
        found = maker.made(SECRET, t, nonce(t), 1.0)
        np.testing.assert_allclose(found, expected[t], atol=2e-6)
        np.testing.assert_array_equal(shard.made(SECRET, t, nonce(t), 1.0), found[covered(np.array(spans))])
    assert (maker.rows, maker.lookback, program.replays) == (buffers, 12, 3)
    maker.close()


def test_wide_noise_agrees_to_its_last_bits() -> None:
    program = example().program(WHO, "float64")
    expected = program.mechanism.noising(normals(SECRET, {t: nonce(t) for t in range(STEPS)}, 40))
    maker = ModelNoise(program, 40, 1)
    found = [maker.made(SECRET, t, nonce(t), 1.0, wide=True) for t in range(STEPS)]
    np.testing.assert_allclose(found, expected, atol=1e-14)


@pytest.mark.parametrize("mutant", ["present nonce", "other factor"])
def test_mutants_make_other_noise(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = example().program(WHO, "float64")
    expected = program.mechanism.noising(normals(SECRET, {t: nonce(t) for t in range(STEPS)}, 40))
    maker = ModelNoise(program, 40, 1)
    if mutant == "present nonce":
        monkeypatch.setattr(ModelNoise, "_known_nonce", lambda self, step: max(self._nonces.items())[1])
    else:
        rolled = np.roll(program.mechanism.replays, PERIOD, axis=1)  # of the step of the draw
        program.mechanism._set(replays=rolled)
    found = [maker.made(SECRET, t, nonce(t), 1.0, wide=True) for t in range(STEPS)]
    assert np.abs(np.array(found) - expected).max() > 0.05


def test_a_missing_nonce_is_an_error() -> None:
    maker = ModelNoise(example().program(WHO), SIZE, 1)
    maker.know({t: nonce(t) for t in range(1, 6)})
    maker.made(SECRET, 5, nonce(5), 1.0)
    other = ModelNoise(example().program(WHO), SIZE, 1)
    other.know({t: nonce(t) for t in range(2, 6)})
    with pytest.raises(RuntimeError, match="the nonce of step 1 is missing"):
        other.made(SECRET, 5, nonce(5), 1.0)


def test_what_keeps_no_draws_refuses() -> None:
    program = example().program(WHO)
    running = engine(program, 3)
    values = np.empty(3, program.dtype)
    for t in range(PERIOD):
        running.step(lambda fresh: fresh.fill(1.0), values, t)
    with pytest.raises(ValueError, match="mechanism must have no replays here"):
        running.step(lambda fresh: fresh.fill(1.0), values, PERIOD)


# -- runs --------------------------------------------------------------------------------------------------------------


class Carry:
    def save(self) -> dict[str, Any]:
        return {}

    def load(self, arrays: dict[str, Any], /) -> None:
        pass


def opened(path: Path, ahead: int, *, keeps: bool, every: int) -> PrivateRun:
    folder = Folder(
        path, marks=path.with_name("marks"), checkpoint_every=every, keep_releases=keeps, ahead=1 if keeps else ahead
    )
    return PrivateRun(Budget(0.5), WHO, example(), SIZE, folder=folder, carry=Carry(), dtype="float64")


def crashed(run: PrivateRun) -> None:
    assert run._durable is not None
    run._durable.home.close()
    run._noise.close()


def through_stops(path: Path, ahead: int, *, keeps: bool, every: int) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """The shown noise by its step, of a run that crashes and ends in turns; and N z by the last record of each step."""
    shown: dict[int, np.ndarray] = {}
    nonces: dict[int, bytes] = {}
    for stop, crash in ((4, True), (7, False), (8, True), (11, True), (12, False), (STEPS, False)):
        run = opened(path, ahead, keeps=keeps, every=every)
        while run.position < stop:
            step = run.next_batch()
            noise = run.add_noise(np.zeros(SIZE))
            assert step not in shown or np.array_equal(shown[step], noise)
            shown[step] = noise
        assert run._durable is not None
        secret, scale = run._secret, run.scale
        nonces |= NONCES(run._durable._own.journal, 0)
        (crashed if crash else PrivateRun.close)(run)
    assert len(set(nonces.values())) >= STEPS / ahead
    return shown, scale * example().noising(normals(secret.reveal(), nonces, SIZE))


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("ahead", [1, 3])
@pytest.mark.parametrize("every", [1, 5, 100])
def test_a_run_is_that_of_the_matrix_through_crashes_and_clean_ends(
    keeps: bool, ahead: int, every: int, tmp_path: Path
) -> None:
    shown, expected = through_stops(tmp_path / "run", ahead, keeps=keeps, every=every)
    assert len(shown) >= 8
    for step, noise in shown.items():
        np.testing.assert_allclose(noise, expected[step], atol=1e-5)


def test_the_first_record_of_a_step_that_was_freed_makes_other_noise(tmp_path: Path) -> None:
    take = Journal._take

    def keeps_what_was_freed(journal: Journal, header: bytes, *record: bytes) -> None:
        before = journal.started
        take(journal, header, *record)
        if header[:1] == b"c":
            journal.started = before

    def nonces_of_first(journal: Journal, first: int) -> dict[int, bytes]:
        found = {step: each.nonce for each in reversed(journal.started) for step in range(each.first, each.end)}
        return {step: found[step] for step in NONCES(journal, first)}

    with (
        mock.patch.object(Journal, "_take", keeps_what_was_freed),
        mock.patch.object(Journal, "nonces", nonces_of_first),
    ):
        shown, expected = through_stops(tmp_path / "run", 3, keeps=False, every=1)
    assert max(np.abs(noise - expected[step]).max() for step, noise in shown.items()) > 0.05


def test_a_resumed_run_reads_nonces_of_all_draws_that_are_made_again(tmp_path: Path) -> None:
    run = opened(tmp_path / "run", 1, keeps=False, every=9)
    for _ in range(9):
        run.next_batch()
        run.add_noise(np.zeros(SIZE))
    run.close()
    with mock.patch.object(Journal, "nonces", lambda self, first: NONCES(self, first + 12)):  # no lookback
        run = opened(tmp_path / "run", 1, keeps=False, every=9)
        run.next_batch()
        with pytest.raises(RuntimeError, match="the nonce of step 5 is missing"):
            run.add_noise(np.zeros(SIZE))


def test_a_stream_makes_earlier_draws_again() -> None:
    program = streaming(example(), WHO, "float64")
    made = np.array(list(Stream(program, SIZE, rng=3)))
    z = np.random.default_rng(3).standard_normal((STEPS, SIZE))
    np.testing.assert_allclose(made, example().noising(z), atol=1e-14)


def test_a_federation_refuses() -> None:
    given: dict[str, Any] = {"rounds": 12, "participants": 1, "batch": 1, "per_pass": PERIOD, "passes": 3}
    given |= {"radius": 1.0, "learning_rate": 0.1, "budget": Budget(0.5), "unit": "example"}
    with pytest.raises(ValueError, match="noise must have no replays"):
        Plan("run", 3, **given, noise=example().leading(12))
