"""Processes of their own for tests whose code forks, or has several ranks."""

from __future__ import annotations

import os
import subprocess
import sys
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
