"""The identity of a process, also in a PID namespace, its output once the reader has left, and ``python -OO``."""

from __future__ import annotations

import os
import sys

Process = tuple[int, int]  #: the process number, and how many forks lie between the first process and this one

_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


def this_process() -> Process:
    """Return the identity of this process; its parents and its children have others.

    Returns
    -------
    tuple of int
        The process number and the count of forks.  Forks by C code run no hooks of Python, and are not counted.
    """
    return os.getpid(), _forks


def discard_output() -> None:
    """Send further standard output nowhere: after a ``BrokenPipeError``, as in ``corrnoise figures | head -1``."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def require_docstrings(things: str) -> None:
    """Raise ``ImportError`` under ``python -OO``, which removes the docstrings that ``things`` need.

    Parameters
    ----------
    things : str
        What needs them, in the plural.

    Raises
    ------
    ImportError
        The interpreter removes docstrings.
    """
    if sys.flags.optimize > 1:
        raise ImportError(f"{things} need their docstrings, which python -OO removes: run python without -OO")
