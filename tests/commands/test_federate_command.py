"""``corrnoise federate``: what it prints and writes, what it refuses, and that a killed driver goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corrnoise.__main__ import main
from corrnoise.simulations.noise_cancellation import distributed
from corrnoise.simulations.noise_cancellation.images import dealt_images
from corrnoise.simulations.noise_cancellation.run import simulate_federation
from corrnoise.simulations.noise_cancellation.server import Server
from corrnoise.simulations.noise_cancellation.storage import read_server
from corrnoise.solvers.noise_cancellation import named_noise
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import Budget
from tests.simulations.noise_cancellation.federations import Inline

SMALL = ("federate", "--machines", "20", "--participants", "10", "--rounds", "12", "--seed", "5")


def simulated() -> Array:
    """The model of the same run in one process."""
    data = dealt_images("digits", 20)
    protocol = data.protocol(
        Budget(32.0, clip_norm=3.0, adjacency="replace-one"),
        participants=10,
        rounds=12,
        noise=named_noise("best share", 12),
    )
    return simulate_federation(protocol, data.training, seed=5).point


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    monkeypatch.setattr(distributed, "_connected", lambda *_: nullcontext(Inline()))


def test_a_run_is_written_and_printed(inline: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main([*SMALL, "--delta", "1e-5", "--output", str(folder)]) == 0
    np.testing.assert_array_equal(np.load(folder / "model.npy"), simulated())
    written = json.loads((folder / "result.json").read_text())
    assert written["rounds"] == 12
    assert written["epsilon"] == pytest.approx(65.319, abs=1e-3)
    assert written["guarantee"].startswith("none, because the seed 5 is known")
    assert 0.2 < written["test_accuracy"] < 1
    output = capsys.readouterr()
    assert "test accuracy" in output.out
    assert f"{folder / 'result.json'}\n" in output.out
    assert not output.err
    assert {path.name for path in folder.iterdir()} == {"machines", "server.npz", "result.json", "model.npy"}
    assert (folder / "machines").stat().st_mode & 0o077 == 0  # data and secrets
    assert main([*SMALL, "--rho", "8", "--output", str(folder)]) == 1
    assert "folder must be new or of the same protocol" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--data", "mnist"), "--download must be True for 'MNIST'"),
        (("--participants", "21"), "--participants must be at most machines, got 21 of 20"),
        (("--participants", "0"), "--participants must be"),
        (("--machines", "2000"), "targets must have at least one example a machine, 2000, got 1077"),
        (("--rounds", "0"), "--rounds must be"),
        (("--rho", "0"), "--rho must lie in [1e-100, 1e100], got 0.0"),
        (("--clip-norm", "-1"), "--clip-norm must lie in [1e-100, 1e100]"),
        (("--learning-rate", "nan"), "--learning-rate must lie in (0, 1e100]"),
        (("--workers", "0"), "--workers must be"),
        (("--groups", "0"), "--groups must be"),
        (("--delta", "2"), "--delta must"),
        (("--seed", "-1"), "--seed must be"),
    ],
)
def test_bad_values_are_one_line_and_leave_nothing(
    options: tuple[str, ...], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], inline: None
) -> None:
    assert main([*SMALL, *options, "--output", str(tmp_path / "run")]) == 1
    output = capsys.readouterr()
    assert words in output.err
    assert output.err.count("\n") == 1
    assert not output.out
    assert not list(tmp_path.iterdir())


def test_an_interrupted_run_says_how_to_go_on(
    inline: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Server, "finish_round", interrupted)
        assert main([*SMALL, "--output", str(tmp_path)]) == 130
    assert "the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "result.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sent", "status", "word"), [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted")]
)
def test_a_run_that_is_told_to_stop_prints_no_traceback(sent: int, status: int, word: str, tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    command = [sys.executable, "-m", "corrnoise", "federate", "--rounds", "20000", "--output", str(tmp_path)]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 120
    while ((state := read_server(tmp_path)) is None or state.round < 3) and time.monotonic() < until:
        time.sleep(0.02)
    driver.send_signal(sent)
    _, error = driver.communicate(timeout=120)
    assert driver.returncode == status
    assert (
        error == f"corrnoise: finished rounds are kept in {tmp_path}; the same command continues\ncorrnoise: {word}\n"
    )


@pytest.mark.slow
def test_a_killed_driver_goes_on_from_the_last_finished_round(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs corrnoise[cluster]")
    command = [sys.executable, "-m", "corrnoise", *SMALL, "--workers", "1", "--output", str(tmp_path)]
    driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    until = time.monotonic() + 120
    while ((state := read_server(tmp_path)) is None or state.round < 3) and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    state = read_server(tmp_path)
    assert state is not None
    assert 3 <= state.round <= 12
    assert not (tmp_path / "result.json").exists()
    assert subprocess.run(command, capture_output=True, timeout=300, check=False).returncode == 0
    np.testing.assert_array_equal(np.load(tmp_path / "model.npy"), simulated())
