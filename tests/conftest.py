"""Settings of the suite: every test draws the same random numbers at every run, and nothing is timed."""

import hashlib
import itertools
import os
import random
import secrets
import signal
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers of the suite share the cores

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

for name, examples in (("suite", 25), ("thorough", 500)):  # pytest --hypothesis-profile thorough
    settings.register_profile(
        name,
        derandomize=True,
        deadline=None,
        max_examples=examples,
        suppress_health_check=[HealthCheck.too_slow],
    )
settings.load_profile("suite")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # what a shell does to commands in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt themselves and their children


@pytest.fixture(autouse=True)
def _marks_of_runs(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Outside marks of private runs stand in a folder of the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.getbasetemp() / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(autouse=True)
def _seeded_numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys, nonces, orders of examples and initial weights from the name of the test.

    A test that fails then fails at every run; ``CORRNOISE_TEST_SEED=1 pytest`` draws other numbers.  A forked child
    draws other numbers than its parent, as it does with the operating system's; another process is not seeded.
    """
    name = f"{request.node.nodeid} {os.environ.get('CORRNOISE_TEST_SEED', '')}"
    parent, count = os.getpid(), itertools.count()

    def seeded(size: int) -> bytes:
        child = "" if os.getpid() == parent else f" in {os.getpid()}"
        return hashlib.shake_256(f"{name}{child} {next(count)}".encode()).digest(size)

    monkeypatch.setattr(secrets, "token_bytes", lambda size=32: seeded(size))
    monkeypatch.setattr(np.random.bit_generator, "randbits", lambda bits: int.from_bytes(seeded(bits // 8)))
    random.seed(name)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(int.from_bytes(seeded(4)))
