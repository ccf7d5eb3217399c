"""Worker processes: order, the default number, the end of a block, and interrupts."""

import os
import signal

import pytest

from corrnoise.support.workers import default_processes, process_count, results


def square(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def handler() -> object:
    return signal.getsignal(signal.SIGINT)


def test_workers_ignore_interrupts_and_this_process_does_not() -> None:
    with results(handler, [(), ()], 2) as found:
        assert list(found) == [signal.SIG_IGN, signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_come_in_order_from_the_processes_that_were_asked_for(jobs: int) -> None:
    with results(square, [(number,) for number in range(6)], jobs) as found:
        values, processes = zip(*found, strict=True)
    assert values == (0, 1, 4, 9, 16, 25)
    assert (os.getpid() in processes) == (jobs == 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a race of joblib at the end
def test_a_block_that_ends_early_drops_the_other_results_without_a_warning() -> None:
    with results(square, ((number,) for number in range(100)), 2, ordered=False, batch_size=1) as found:
        assert next(found)[0] >= 0
    assert list(found) == []


def test_the_default_number_of_processes_is_that_of_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert process_count(None) == 1
    with default_processes(-1):
        found = [process_count(jobs, tasks) for jobs, tasks in ((None, None), (None, 3), (2, None), (3, 0))]
    assert found == [4, 3, 2, 1]
    assert process_count(None) == 1
