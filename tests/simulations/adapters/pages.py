"""The examples of the README and of ``docs/`` that need a library."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).parents[3] / "docs"
_PAGES = {
    "README": "../README.md",
    "first model": "first-model.md",
    "PyTorch": "training.md",
    "In Opacus": "from-opacus.md#In Opacus",
    "from Opacus": "from-opacus.md#Here",
    "In jax-privacy": "from-jax-privacy.md#In jax-privacy",
    "from jax-privacy": "from-jax-privacy.md#Here",
    "Sampled batches": "sampled-batches.md",
    "Low-rank adapters": "lora.md",
    "Opacus": "opacus.md",
    "Ghost clipping": "ghost-clipping.md",
    "JAX": "jax.md",
    "processes": "devices.md",
    "Audit": "audit.md",
    "loop": "loops.md",
    "Adam": "adam.md",
    "BERT": "hugging-face.md#BERT with attention masks",
    "GPT-2": "hugging-face.md#GPT-2 with LoRA",
    "Trainer": "hugging-face.md#Trainer",
    "Accelerate": "hugging-face.md#Accelerate",
    "Export": "hugging-face.md#Export",
    "Lightning": "lightning.md",
}


def script(library: str) -> str:
    """The example of a library, which is the only one of its page or of its section."""
    page, _, heading = _PAGES[library].partition("#")
    text = (_DOCS / page).read_text(encoding="utf-8")
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    return str(block)
