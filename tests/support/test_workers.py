"""Interrupts of worker processes."""

import signal

from joblib import Parallel, delayed

from corrnoise.support.workers import leave_interrupts


def test_workers_ignore_interrupts_and_this_process_does_not() -> None:
    ask = delayed(signal.getsignal)(signal.SIGINT)
    assert Parallel(2, "loky", initializer=leave_interrupts)([ask, ask]) == [signal.SIG_IGN, signal.SIG_IGN]
    assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
