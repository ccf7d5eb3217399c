"""Two actors that share a folder, drawn at random: no noise is shown twice, whatever happens to the files."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from corrnoise.simulations.run import draws
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.spans import Spans
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

WHO = Participation.fixed_epochs(6, epochs=2)
ACTORS = st.integers(0, 1)


class Actors(RuleBasedStateMachine):
    """Openings, steps, crashes and clean ends of two actors; and a folder that is cut, restored and copied."""

    @initialize()
    def begin(self) -> None:
        self.base = Path(tempfile.mkdtemp())
        self.folders = [self.base / "first"]
        self.runs: list[PrivateRun | None] = [None, None]
        self.shown: list[tuple[int, bytes]] = []
        self.last = b""  # the link of the last record of which a step was shown
        self.excused = False
        self.snapshot: list[bytes] = []
        self.opened(0, 0)
        self.crash(0)

    def files(self, folder: int = 0) -> list[Path]:
        path = self.folders[folder]
        identity = draws.derived((path / "key").read_bytes(), b"identity").hex()
        return [path / "journal", path / "mark", self.base / "marks" / identity]

    def opened(self, actor: int, folder: int) -> None:
        kept = Folder(self.folders[folder], ahead=1 + actor, checkpoint_every=2, marks=self.base / "marks")
        there = self.folders[folder].exists()
        newest = not there or any(self.last in f.read_bytes() for f in self.files(folder) if f.exists())
        try:
            self.runs[actor] = PrivateRun(Budget(0.5), WHO, AntiPGD(0.3), 3, folder=kept)
        except (ValueError, BlockingIOError):
            return
        self.excused |= not newest

    @rule(actor=ACTORS, folder=ACTORS)
    def open(self, actor: int, folder: int) -> None:
        if self.runs[actor] is None and folder < len(self.folders):
            self.opened(actor, folder)

    @rule(actor=ACTORS, last=st.booleans())
    def step(self, actor: int, last: bool) -> None:
        """A step; the process may die after it was noted and before it is shown."""
        run = self.runs[actor]
        if run is None:
            return
        try:
            step = run.next_batch()
            noise = run.add_noise(np.zeros(3)).tobytes()
        except RuntimeError:  # all steps were made, or another program has changed the journal
            self.crash(actor)
            return
        if last:
            self.crash(actor)
            return
        assert run._durable is not None
        self.last = run._durable._own.journal._links[-1].hex().encode()
        if not self.excused:
            assert step not in [earlier for earlier, _ in self.shown]
        assert noise not in [earlier for _, earlier in self.shown]
        self.shown.append((step, noise))

    @rule(actor=ACTORS)
    def crash(self, actor: int) -> None:
        if (run := self.runs[actor]) is not None and run._durable is not None:
            run._durable.home.close()
        self.runs[actor] = None

    @rule(actor=ACTORS)
    def end(self, actor: int) -> None:
        if (run := self.runs[actor]) is not None:
            try:
                run.close()
            except RuntimeError:
                self.crash(actor)
        self.runs[actor] = None

    @precondition(lambda self: self.shown)
    @rule(length=st.integers(0, 400))
    def cut(self, length: int) -> None:
        journal = self.files()[0]
        journal.write_bytes(journal.read_bytes()[:length])

    @rule()
    def remember(self) -> None:
        self.snapshot = [f.read_bytes() for f in self.files()]

    @precondition(lambda self: self.snapshot)
    @rule(chosen=st.sets(st.integers(0, 2), min_size=1))
    def restore(self, chosen: set[int]) -> None:
        for k in chosen:
            self.files()[k].write_bytes(self.snapshot[k])

    @precondition(lambda self: len(self.folders) == 1)
    @rule()
    def copied(self) -> None:
        self.folders.append(self.base / "second")
        shutil.copytree(self.folders[0], self.folders[1])

    def teardown(self) -> None:
        for actor in range(2):
            self.crash(actor)
        shutil.rmtree(self.base)


@pytest.mark.parametrize("examples", [25, pytest.param(1000, marks=pytest.mark.slow)])
def test_two_actors(examples: int) -> None:
    with mock.patch.object(os, "fsync", return_value=None):
        run_state_machine_as_test(Actors, settings=settings(max_examples=examples, stateful_step_count=30))


@pytest.mark.parametrize("nonces", [True, False])
def test_noise_from_the_key_alone_is_found(nonces: bool) -> None:
    """The mutant: without the nonce a restoration of all that is kept makes the same noise again."""
    real = draws.filler

    def filler(secret: bytes, step: int, spans: Spans, nonce: bytes) -> Any:
        return real(secret, step, spans, nonce if nonces else b"")

    actors = Actors()
    with mock.patch.object(os, "fsync", return_value=None), mock.patch.object(draws, "filler", filler):
        actors.begin()
        actors.remember()
        actors.opened(0, 0)
        actors.step(0, False)
        actors.crash(0)
        actors.restore({0, 1, 2})
        actors.opened(0, 0)
        if nonces:
            actors.step(0, False)
            assert [step for step, _ in actors.shown] == [0, 0]
        else:
            with pytest.raises(AssertionError):
                actors.step(0, False)
        actors.teardown()
