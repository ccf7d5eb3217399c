"""Two processes of PyTorch: killed and resumed, with the bits of one process, whole and cut in any way."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.simulations.adapters.pages import script

sharded = pytest.importorskip("tests.simulations.adapters.sharded")


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of runs whose two processes were killed after some steps, and what they have released."""
    path = tmp_path_factory.mktemp("shards")
    for mode in sharded.MODES:
        (path / mode).mkdir()
    assert started(path, dies=True) == [-signal.SIGKILL, -signal.SIGKILL]
    return path


def started(path: Path, *, dies: bool) -> list[int | None]:
    """The exit statuses of two processes."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=sharded.job, args=(rank, path, dies)) for rank in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        process.kill()
    return [process.exitcode for process in processes]


def released(path: Path) -> dict[int, np.ndarray]:
    return {int(each.stem.partition("-")[2]): np.load(each) for each in path.glob("noisy-*.npy")}


@pytest.mark.parametrize("mode", sharded.MODES)
def test_one_process_goes_on_with_the_shards_of_two(mode: str, killed: Path, tmp_path: Path) -> None:
    true = sharded.one_process(tmp_path / "one", mode)
    before = released(killed / mode)
    assert before.keys() == set(range(sharded.KILLED))
    shutil.copytree(killed / mode, tmp_path / mode)
    after = sharded.one_process(tmp_path / mode, mode)
    assert len(after) == sharded.STEPS - sharded.KILLED
    np.testing.assert_array_equal([*(before[step] for step in sorted(before)), *after], true)


@pytest.mark.slow
def test_the_example_of_the_page_runs_alone(tmp_path: Path) -> None:
    meeting = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
    code = script("processes") + "print(run.position, float(noisy[0].std()) > 0)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=os.environ | meeting, capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == ["40", "True"]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return int(one.getsockname()[1])


@pytest.mark.slow
def test_two_processes_go_on(killed: Path, tmp_path: Path) -> None:
    path = tmp_path / "all"
    shutil.copytree(killed, path)
    assert started(path, dies=False) == [0, 0]
    for mode in sharded.MODES:
        assert (path / mode / f"position-{sharded.KILLED}").exists()
        made = released(path / mode)
        true = sharded.one_process(tmp_path / mode, mode)
        np.testing.assert_array_equal([made[step] for step in range(sharded.STEPS)], true)
