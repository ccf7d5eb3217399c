"""The behaviour of the worker processes of every parallel command at an interrupt."""

import signal


def leave_interrupts() -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes: the process that started the workers ends them.

    For ``initializer`` of ``joblib.Parallel`` and ``joblib.parallel_config``.  Otherwise a worker that is between two
    tasks prints a traceback.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
