"""SIGTERM is always delivered: in a child process for each place in a loop where it may come."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.termination import Termination
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="forks"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),  # JAX, where other tests have started it
]
STEPS = 6
ENDED = -signal.SIGTERM
SWALLOWED, FAILED = 99, 98  # the exit status of a child that has outlived the signal; with an exception


class Model:
    """Counts its steps."""

    steps = 0

    def save(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self.steps)}

    def load(self, arrays: dict[str, np.ndarray], /) -> None:
        self.steps = int(arrays["steps"])


def opened(path: Path, model: Model) -> PrivateRun:
    folder = Folder(path, checkpoint_every=100, keep_releases=False)
    return PrivateRun(Budget(0.5), Participation.single(STEPS), AntiPGD(0.3), 3, folder=folder, carry=model)


def step(run: PrivateRun, model: Model) -> None:
    run.add_noise(np.zeros(3))
    model.steps += 1


def send() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def in_the_loop(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
            if run.position == 3:
                send()


def by_hand(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in range(3):
            run.next_batch()
            step(run, model)
        send()


def after_the_loop(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
        send()


def after_break(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
            if run.position == 3:
                break
        send()


def before_break(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
            if run.position == 3:
                send()
                break


def kept_iterator_next(run: PrivateRun, model: Model) -> None:
    with run:
        batches = iter(run)
        for _ in range(3):
            next(batches)
            step(run, model)
        send()
        next(batches)


def kept_iterator_close(run: PrivateRun, model: Model) -> None:
    batches = iter(run)
    for _ in range(3):
        next(batches)
        step(run, model)
    send()
    run.close()


def kept_iterator_after_close(run: PrivateRun, model: Model) -> None:
    batches = iter(run)
    for _ in range(3):
        next(batches)
        step(run, model)
    run.close()
    send()


def kept_iterator_twice(run: PrivateRun, model: Model) -> None:
    batches = iter(run)
    next(batches)
    step(run, model)
    send()
    send()


def last_step(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
            if run.position == STEPS:
                send()


def an_exception(run: PrivateRun, model: Model) -> None:
    with run:
        for _ in run:
            step(run, model)
            if run.position == 3:
                send()
                raise ZeroDivisionError


def ended_by_another_thread(run: PrivateRun, model: Model) -> None:
    batches: Any = iter(run)
    for _ in range(3):
        next(batches)
        step(run, model)
    thread = threading.Thread(target=batches.close)
    thread.start()
    thread.join()
    send()


def two_loops(run: PrivateRun, model: Model) -> None:
    first, second = iter(run), iter(run)
    for _ in range(3):
        next(first)
        step(run, model)
    next(second)
    del first
    send()
    del second


#: the status of each way, and the steps that the folder has then, None for the first checkpoint
WAYS: dict[str, tuple[Callable[[PrivateRun, Model], None], int, int | None]] = {
    "in the loop": (in_the_loop, 143, 3),
    "by hand": (by_hand, ENDED, None),
    "after the loop": (after_the_loop, ENDED, STEPS),
    "after break": (after_break, ENDED, None),
    "before break": (before_break, ENDED, 3),
    "kept iterator, next": (kept_iterator_next, 143, 3),
    "kept iterator, close": (kept_iterator_close, ENDED, 3),
    "kept iterator, after close": (kept_iterator_after_close, ENDED, 3),
    "kept iterator, twice": (kept_iterator_twice, ENDED, None),
    "last step": (last_step, 143, STEPS),
    "exception": (an_exception, ENDED, 3),
    "another thread": (ended_by_another_thread, ENDED, None),
    "two loops": (two_loops, ENDED, 3),
}


def status_of(act: Callable[[], None]) -> int:
    """The exit status of a child that does something, or the negative number of the signal that ended it."""
    child = os.fork()
    if not child:
        status = SWALLOWED
        try:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            act()
        except SystemExit as ended:
            status = int(ended.code or 0)
        except BaseException:
            status = FAILED
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def ended(way: str, path: Path) -> int:
    model = Model()
    return status_of(lambda: WAYS[way][0](opened(path, model), model))


@pytest.mark.parametrize("way", WAYS)
def test_the_signal_ends_the_process(way: str, tmp_path: Path) -> None:
    """Where it is obeyed between two steps, or a loop is left, nothing is lost."""
    _, status, steps = WAYS[way]
    assert ended(way, tmp_path / "run") == status
    again = opened(tmp_path / "run", model := Model())
    assert model.steps == (steps or 0)
    assert again.skipped == again.position - model.steps
    if steps == STEPS:
        assert list(again) == []


def deaf(self: Termination, *_: object) -> None:
    """A handler that does not restore the default action."""
    self._sent = self._hearing


MUTANTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "not delivered": ({"deliver": None}, ("before break", "kept iterator, close", "exception")),
    "heard after the loop": ({"deliver": None, "stop": None}, ("after the loop", "after break")),
    "heard twice": ({"_hear": deaf}, ("kept iterator, twice",)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_swallow_the_signal(mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, ways = MUTANTS[mutant]
    for name, change in changes.items():
        monkeypatch.setattr(Termination, name, change or (lambda self: None))
    if mutant == "heard twice":  # the end of the loop would deliver it, and the child ends within the loop
        monkeypatch.setattr(Termination, "deliver", lambda self: None)
    assert {ended(way, tmp_path / way) for way in ways} <= {SWALLOWED, FAILED}


def test_a_forked_child_of_a_loop_is_ended_and_writes_nothing(tmp_path: Path) -> None:
    """As ``multiprocessing.Pool.terminate`` does, which would wait for ever otherwise."""
    model = Model()
    with opened(tmp_path / "run", model) as run:
        for _ in run:
            step(run, model)
            if run.position == 2:
                before = {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()}
                reading, writing = os.pipe()
                child = os.fork()
                if not child:
                    os.write(writing, b"x")  # Python drops signals that come while it forks
                    time.sleep(30)
                    os._exit(SWALLOWED)
                os.read(reading, 1)
                os.kill(child, signal.SIGTERM)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == ENDED
                assert {each.name: each.read_bytes() for each in (tmp_path / "run").iterdir()} == before
                break


def test_a_child_that_is_forked_after_the_signal_lives(tmp_path: Path) -> None:
    """The signal was its parent's; the child leaves the loop without an end of the run."""

    def act() -> None:
        model = Model()
        run = opened(tmp_path / "run", model)
        batches: Any = iter(run)
        next(batches)
        step(run, model)
        send()
        child = os.fork()
        if not child:
            batches.close()
            os._exit(7)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    assert status_of(act) == 7
    assert opened(tmp_path / "run", model := Model()).position == 1
    assert model.steps == 0


def test_a_handler_that_the_loop_sets_stays(tmp_path: Path) -> None:
    def own(*_: object) -> None: ...

    before = signal.getsignal(signal.SIGTERM)
    try:
        for _ in (run := opened(tmp_path / "run", Model())):
            signal.signal(signal.SIGTERM, own)
            run.add_noise(np.zeros(3))
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
