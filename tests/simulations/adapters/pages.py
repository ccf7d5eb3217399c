"""The examples of ``docs/training.md`` that need a library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from corrnoise.simulations.run import engines
from corrnoise.theory.mechanisms.product import NuFTRL

_PAGE = Path(__file__).parents[3] / "docs/training.md"


def script(heading: str) -> str:
    """The example under a heading."""
    section = _PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    return str(block)


def ran(heading: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names after the example under a heading has run in a folder, with noise that is not searched for."""
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(place / "state"))
    monkeypatch.setattr(engines, "best_buffers", lambda *given: NuFTRL(0.021))
    names: dict[str, Any] = {}
    exec(compile(script(heading), heading, "exec"), names)
    return names
