"""The examples of ``docs/training.md`` that need a library."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_PAGE = Path(__file__).parents[3] / "docs/training.md"


def script(heading: str) -> str:
    """The example under a heading."""
    section = _PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    return str(block)


def ran(heading: str) -> dict[str, Any]:
    """The names after the example under a heading has run."""
    names: dict[str, Any] = {}
    exec(compile(script(heading), heading, "exec"), names)
    return names
