"""The memory of the machine, and what does not fit into it."""

import os

import pytest

from corrnoise.support import memory


def test_what_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory", lambda: 2**30)
    memory.fits_into_memory("steps", 7, 2**30)
    with pytest.raises(ValueError, match=r"steps must be smaller, got 7, which takes 2 GiB of memory, of 1 GiB"):
        memory.fits_into_memory("steps", 7, 2**31)


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert memory.memory() > 2**20
    monkeypatch.setattr(os, "sysconf", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert memory.memory() == 8 * 2**30
