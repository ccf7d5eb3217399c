"""Lint, format and types of the whole repository, each a test of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("ruff", "check", "--quiet", "."), id="lint"),
        pytest.param(("ruff", "format", "--check", "--quiet", "."), id="format"),
        pytest.param(("mypy",), id="types", marks=pytest.mark.slow),
    ],
)
def test_static(command: tuple[str, ...]) -> None:
    if "mypy" in command and not (ROOT / "src/corrnoise/theory").exists():
        pytest.skip("type checkers follow the links of a checkout, which a source distribution does not hold")
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.fail(f"{' '.join(command)}\n{done.stdout}{done.stderr}", pytrace=False)
