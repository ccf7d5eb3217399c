"""The guard: no copies, no second process, no second thread, no use after an interruption."""

from __future__ import annotations

import copy
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest

from corrnoise.simulations.run.guard import Guarded
from corrnoise.simulations.run.stream import Stream
from corrnoise.theory.mechanisms.product import AntiPGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

PROGRAM = AntiPGD(0.3).program(Participation.single(50))


class Counter(Guarded):
    """Counts, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def next(self, error: type[BaseException] | None = None) -> int:
        with self._alone(), self._making():
            before = self.count
            if error is not None:
                raise error
            self.count = before + 1
            return before


@pytest.mark.parametrize("made", [Counter, lambda: Stream(PROGRAM, 3, budget=Budget(0.5))])
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nothing_is_copied(made: Any, copied: Any) -> None:
    with pytest.raises(TypeError, match="must not be copied: both would add the same noise"):
        copied(made())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_an_interruption_breaks_for_good(error: type[BaseException]) -> None:
    counter = Counter()
    assert counter.next() == 0
    with pytest.raises(error):
        counter.next(error)
    with pytest.raises(RuntimeError, match="Counter was interrupted"):
        counter.next()


def test_another_process_is_refused_before_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread of the first process may hold the lock for ever in a copy of the process."""
    counter = Counter()
    held = threading.Thread(target=counter._lock.acquire)
    held.start()
    held.join()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="copy of its process"):
        counter.next()


def test_threads_share_a_stream_and_no_array_comes_twice() -> None:
    stream = Stream(PROGRAM, 3, budget=Budget(0.5))
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.extend(x.tobytes() for x in stream)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 50 == len(set(found))
    assert np.isfinite(np.frombuffer(b"".join(found), PROGRAM.dtype)).all()
