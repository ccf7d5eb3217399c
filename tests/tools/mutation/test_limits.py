"""Limits of time and memory: what exceeds them ends, and afterwards all is as before."""

import signal
import threading

import numpy as np
import pytest

from tools.mutation.limits import OutOfTimeError, memory_limit, time_limit


def endless():
    while True:
        pass


def test_what_takes_too_long_ends():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(OutOfTimeError), time_limit(0.05):
        endless()
    assert signal.getsignal(signal.SIGALRM) == before
    with time_limit(60):
        pass
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_in_another_thread_there_is_no_limit_and_no_error():
    done = []

    def work():
        with time_limit(0.01):
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_what_needs_too_much_memory_ends():
    with pytest.raises(MemoryError), memory_limit(2**28):
        np.ones(2**30)
    assert np.ones(2**20).sum() == 2**20
    with memory_limit(2**28):
        assert np.ones(2**20).sum() == 2**20
