"""The examples of ``docs/training.md`` that need a library."""

from __future__ import annotations

import re
from pathlib import Path

_PAGE = Path(__file__).parents[3] / "docs/training.md"


def script(heading: str) -> str:
    """The example under a heading."""
    section = _PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (block,) = re.findall(r"```py\n(.*?)```", section, re.DOTALL)
    return str(block)
