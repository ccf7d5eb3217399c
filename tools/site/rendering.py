"""Formulas as MathML, which browsers show without a script, and docstrings as numpydoc reads them: for Sphinx."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

from corrnoise.support.typesetting import mathematics

_DOLLAR_FORMULA = re.compile(r"(?<![\\$\w])\$([^$\n]+(?:\n[^$\n]+)*)\$(?![$\w])")


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{mathematics(node.astext())}</span>')
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def _marked(text: str) -> str:
    """A docstring with formulas between dollar signs as roles; other bars outside of code are bars, and no markup."""
    pieces = re.split(r"(``.+?``|:math:`[^`]*`|^ *(?:>>>|\.\.\.) .*$)", _DOLLAR_FORMULA.sub(_role, text), flags=re.M)
    return "".join(piece if k % 2 else piece.replace("|", r"\|") for k, piece in enumerate(pieces))


def _role(found: re.Match[str]) -> str:
    return f":math:`{' '.join(found[1].split())}`"


def _described(text: str) -> str:
    """A docstring in whose section *Parameters* what stands behind a name is a description, and not a type."""
    parts = re.split(r"^(Parameters\n-+\n)(.*?)(?=^\S[^\n]*\n---+$|\Z)", text, flags=re.M | re.DOTALL)
    for k in range(2, len(parts), 3):
        parts[k] = re.sub(r"^(\S[^:\n]*?) : ", r"\1\n    ", parts[k], flags=re.M)
    return "".join(parts)


def _docstring(app: Any, what: str, name: str, item: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _described(_marked("\n".join(lines))).split("\n")


def setup(app: Any) -> dict[str, bool]:
    """Register the renderer, which takes the place of scripts."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.connect("autodoc-process-docstring", _docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
