"""Two actors that share a folder, drawn at random: no noise is shown twice, whatever happens to the files."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from corrnoise.simulations.run import draws, folder
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.journal import Chain
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
        self.touched: set[str] = set()
        self.snapshot: tuple[dict[str, bytes], bytes] | None = None
        self.opened(0, 0)
        self.crash(0)

    def mark(self) -> Path:
        identity = draws.derived((self.folders[0] / "key").read_bytes(), b"identity").hex()
        return self.base / "marks" / identity

    def files(self) -> dict[str, bytes]:
        """The files of the first folder by their names."""
        return {each.name: each.read_bytes() for each in self.folders[0].iterdir()}

    def opened(self, actor: int, folder: int) -> None:
        kept = Folder(self.folders[folder], ahead=1 + actor, checkpoint_every=2, marks=self.base / "marks")
        with suppress(ValueError, BlockingIOError):
            self.runs[actor] = PrivateRun(Budget(0.5), WHO, AntiPGD(0.3), 3, folder=kept)

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
        except (RuntimeError, OSError):  # all steps were made, or another program has changed the journal
            self.crash(actor)
            return
        if last:
            self.crash(actor)
            return
        if len(self.touched) < 2:
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
            except (RuntimeError, OSError):
                self.crash(actor)
        self.runs[actor] = None

    @precondition(lambda self: self.shown)
    @rule(length=st.integers(0, 400))
    def cut(self, length: int) -> None:
        journal = max(self.folders[0].glob("journal-*"))
        journal.write_bytes(journal.read_bytes()[:length])
        self.touched.add("folder")

    @rule()
    def remember(self) -> None:
        self.snapshot = (self.files(), self.mark().read_bytes())

    @precondition(lambda self: self.snapshot)
    @rule(chosen=st.sets(st.sampled_from(["folder", "mark"]), min_size=1))
    def restore(self, chosen: set[str]) -> None:
        assert self.snapshot is not None
        files, mark = self.snapshot
        if "folder" in chosen:
            for name in self.files().keys() - files.keys():
                (self.folders[0] / name).unlink()
            for name, content in files.items():
                if name != "lock":
                    (self.folders[0] / name).touch(0o600)
                    (self.folders[0] / name).write_bytes(content)
        if "mark" in chosen:
            self.mark().write_bytes(mark)
        self.touched |= chosen

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
    with mock.patch.object(os, "fsync", return_value=None), mock.patch.object(folder, "_LOCK_SECONDS", 0.0):
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
        actors.restore({"folder", "mark"})
        actors.opened(0, 0)
        if nonces:
            actors.step(0, False)
            assert [step for step, _ in actors.shown] == [0, 0]
        else:
            with pytest.raises(AssertionError):
                actors.step(0, False)
        actors.teardown()


@pytest.mark.parametrize("reads", [True, False])
def test_a_mark_that_is_not_read_is_found(reads: bool) -> None:
    """The mutant: a folder that was restored alone releases a step again."""
    actors = Actors()
    ignored = mock.patch.object(Chain, "check", Chain.check if reads else lambda *_, **__: None)
    with mock.patch.object(os, "fsync", return_value=None), ignored:
        actors.begin()
        actors.remember()
        actors.opened(0, 0)
        actors.step(0, False)
        actors.crash(0)
        actors.restore({"folder"})
        actors.opened(0, 0)
        if reads:
            assert actors.runs == [None, None]
        else:
            with pytest.raises(AssertionError):
                actors.step(0, False)
        actors.teardown()
