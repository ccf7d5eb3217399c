"""The guard: no copies, no second process, no second thread, no use after an interruption."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.guard import Guarded
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.stream import Stream
from corrnoise.support import process
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # JAX, where other tests have started it
@pytest.mark.parametrize("counted", [True, False])
def test_a_child_with_the_number_of_its_parent_is_refused(counted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a PID namespace of its own; the mutant compares process numbers alone."""
    counter = Counter()
    number = os.getpid()
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        monkeypatch.setattr(os, "getpid", lambda: number)
        if not counted:
            monkeypatch.setattr(process, "_forks", process._forks - 1)
        try:
            os.write(writing, str(counter.next()).encode())
        except RuntimeError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reading, 1000)
    assert (b"copy of its process" in said) is counted
    assert counter.next() == 0


class Converted:
    """A sum that calls something else when it is converted."""

    def __init__(self, call: Any) -> None:
        self._call = call

    def __array__(self, *_: Any, **__: Any) -> Any:
        self._call()
        return np.zeros(3)


def calls(run: PrivateRun) -> dict[str, Any]:
    """The public methods that change a run."""
    return {
        "add_noise": lambda: run.add_noise(np.zeros(3)),
        "next_batch": run.next_batch,
        "iter": lambda: next(iter(run)),
        "close": run.close,
        "with": lambda: run.__exit__(None),
    }


@pytest.mark.parametrize("where", ["folder", "memory"])
@pytest.mark.parametrize("name", ["add_noise", "next_batch", "iter", "close", "with"])
@pytest.mark.parametrize("way", ["conversion", "signal", "carry"])
def test_a_run_is_not_used_from_within_itself(where: str, name: str, way: str, tmp_path: Path) -> None:
    """One batch has one noise; the call from within is refused, and the run goes on."""
    said: list[str] = []
    saving: list[Any] = []

    class Carry:
        def save(self) -> dict[str, Any]:
            for call in saving:
                call()
            return {}

        def load(self, arrays: dict[str, Any], /) -> None: ...

    folder = Folder(tmp_path / "run", checkpoint_every=1) if where == "folder" else None
    if way == "carry" and folder is None:
        return
    carry = Carry() if folder is not None else None
    run = PrivateRun(Budget(0.5), Participation.single(6), AntiPGD(0.3), 3, folder=folder, carry=carry)

    def within(*_: object) -> None:
        try:
            calls(run)[name]()
        except RuntimeError as error:
            said.append(str(error))

    run.next_batch()
    if way == "conversion":
        run.add_noise(Converted(within))
    elif way == "carry":
        run.add_noise(np.zeros(3))
        saving.append(within)
        run.next_batch()
        saving.clear()
        run.add_noise(np.zeros(3))
    else:
        before = signal.signal(signal.SIGUSR1, within)
        added = run._noise.added

        def interrupted(*arguments: Any, **options: Any) -> Any:
            os.kill(os.getpid(), signal.SIGUSR1)
            return added(*arguments, **options)

        try:
            with mock.patch.object(run._noise, "added", interrupted):
                run.add_noise(np.zeros(3))
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert len(said) == 1
    assert "PrivateRun is used from within itself" in said[0]
    assert run.position == (2 if way == "carry" else 1)
    assert run.next_batch() == run.position
    run.close()


def test_a_sum_that_a_thread_writes_into_is_checked_as_it_is_used() -> None:
    """The copy is made before the check, and it is released; the sum of the caller stays as it is."""
    run = PrivateRun(Budget(1e4), Participation.single(2), DPSGD(), 3)
    run.next_batch()
    total = np.zeros(3)
    checked = run._arithmetic.checked

    def late(*arguments: Any) -> Any:
        values = checked(*arguments)
        total[:] = 1e6
        return values

    with mock.patch.object(run._arithmetic, "checked", late):
        noisy = run.add_noise(total)
    assert abs(noisy).max() < 1e3
    np.testing.assert_array_equal(total, 1e6)
    kept = total.copy()
    run.next_batch()
    assert not np.shares_memory(run.add_noise(total), total)
    np.testing.assert_array_equal(total, kept)


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
