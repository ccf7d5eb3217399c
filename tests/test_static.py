"""Lint, format and types of the whole repository, each a test of its own."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACE = tuple(f"src/corrnoise/{room}" for room in ("support", "designs", "commands", "papers"))
ROOMS = ("theory", "solvers", "simulations", "figures", "paper_checks", "tools", "benchmarks", *FACE)


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


OPENING = re.compile(r"(What|That of|Those of)\b")  #: of sentences without a noun that says what the thing is


def openings(source: str) -> list[str]:
    """The first lines of docstrings that begin so."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(ast.parse(source)) if isinstance(node, kinds)]
    return [text.splitlines()[0] for text in found if OPENING.match(text)]


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    paths = [path for room in ROOMS for path in (ROOT / room).rglob("*.py")]
    assert len(paths) > 200
    found = {str(path.relative_to(ROOT)): openings(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_an_opening_without_a_noun_is_seen() -> None:
    assert openings('"""A module."""\ndef f():\n    """What it returns."""\n') == ["What it returns."]
    assert openings('def f():\n    """Whatever is there."""\n') == []
