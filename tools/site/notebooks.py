"""The tutorials as notebooks: the text and the code of a page, with the output of the code."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from pathlib import Path
from typing import Any

TUTORIALS = ("first-model", "first-design", "first-claim")

_CODE_BLOCK = re.compile(r"^```py(?:thon)?\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
_PAGE_LINK = re.compile(r"\]\(([\w-]+\.md(?:#[\w-]+)?)\)")
_PAGES_ADDRESS = "https://github.com/corrnoise/corrnoise/blob/main/docs"


def notebook(page: str, *, execute: bool) -> dict[str, Any]:
    """A page of Markdown as a notebook.

    Parameters
    ----------
    page : str
        The text; each block of Python becomes a code cell.
    execute : bool
        Whether the cells hold the output of the code.  The code runs in an empty folder.  A cell stays without output
        if it needs a library that is not installed.

    Returns
    -------
    dict
        The notebook in the format 4.5, of JSON types.
    """
    pieces = _CODE_BLOCK.split(_PAGE_LINK.sub(rf"]({_PAGES_ADDRESS}/\1)", page))
    printed = _printed(pieces[1::2]) if execute else [""] * (len(pieces) // 2)
    cells: list[dict[str, Any]] = []
    for number, piece in enumerate(pieces):
        text = piece.strip("\n")
        if number % 2 == 0 and text:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": text})
        elif number % 2:
            shown = printed[number // 2]
            outputs = [{"output_type": "stream", "name": "stdout", "text": shown}] if shown else []
            count = number // 2 + 1 if execute else None
            cells.append(
                {"cell_type": "code", "execution_count": count, "metadata": {}, "outputs": outputs, "source": text}
            )
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _printed(codes: list[str]) -> list[str]:
    """The output of each piece of code, run one after the other in one namespace."""
    namespace: dict[str, Any] = {}
    found = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for code in codes:
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(ImportError):
                exec(compile(code, "tutorial", "exec"), namespace)
            found.append(out.getvalue())
    return found


def write_notebooks(source: Path, *, execute: bool) -> None:
    """Write the tutorials in the folder ``source`` as notebooks, and link each one on its page."""
    folder = source / "notebooks"
    folder.mkdir()
    for name in TUTORIALS:
        page = source / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        made = json.dumps(notebook(text, execute=execute), indent=1, ensure_ascii=False)
        (folder / f"{name}.ipynb").write_text(f"{made}\n", encoding="utf-8")
        heading, introduction, rest = text.split("\n\n", 2)
        link = f"Download this page as a notebook: {{download}}`{name}.ipynb <notebooks/{name}.ipynb>`."
        page.write_text(f"{heading}\n\n{introduction}\n\n{link}\n\n{rest}", encoding="utf-8")
