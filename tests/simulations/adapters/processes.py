"""Separate processes, for tests of forks and of jobs with several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def made_by(script: str, *arguments: list[str]) -> None:
    """Run a script in processes of their own, one for each list of arguments, at once."""
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", script, *each],
            cwd=root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for each in arguments
    ]
    for process in running:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output


@contextmanager
def process_group(meeting: str, rank: int, count: int = 2) -> Iterator[None]:
    """A Gloo group of ``count`` processes, which meet at a file; each process ends with the block.

    PyTorch keeps a group for ever after ``fully_shard``, or if ``torch.distributed.fsdp`` is first imported while the
    group exists. The group's threads then run while the interpreter ends, and sometimes abort it (SIGABRT): so a
    process that is finished does not wait for that.
    """
    import torch

    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=count)
    yield
    torch.distributed.barrier()
    sys.stdout.flush()
    os._exit(0)
