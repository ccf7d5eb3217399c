"""The examples of ``docs/`` that need a library."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).parents[3] / "docs"
_PAGES = {
    "PyTorch": "training.md",
    "Sampled batches": "sampled-batches.md",
    "Low-rank adapters": "lora.md",
    "Opacus": "opacus.md",
    "Ghost clipping": "ghost-clipping.md",
    "JAX": "jax.md",
    "processes": "devices.md",
}


def script(library: str) -> str:
    """The example of a library."""
    (block,) = re.findall(r"```py\n(.*?)```", (_DOCS / _PAGES[library]).read_text(encoding="utf-8"), re.DOTALL)
    return str(block)
