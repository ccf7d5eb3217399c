"""Settings of the suite: hypothesis draws the same examples at every run, nothing is timed, interrupts are heard."""

import os
import signal

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the workers of the suite share the cores

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
