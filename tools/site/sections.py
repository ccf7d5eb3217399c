r"""The sections of the site, as ``docs/index.md`` lists them: a heading, and below it the pages with short titles.

>>> sections("# All\n## One\n[A](a.md), [b](b.md#c)\n## Two\nnothing\n")
{'One': {'a': 'A', 'b': 'b'}}
"""

from __future__ import annotations

import re

#: Pages that the site makes, by the section that they are added to.
MADE = {
    "Tutorials": {"gallery/index": "Examples"},
    "Explanation": {"claims": "Claims of the papers"},
    "Reference": {"api/index": "Public names", "command-line": "Command line", "families": "Families of noise"},
}


def sections(text: str) -> dict[str, dict[str, str]]:
    """The pages of each section and their titles, each page once, in the order of their links."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    found = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        pages = {page: title for title, page in reversed(re.findall(r"\[([^\]]+)\]\(([\w-]+)\.md", body))}
        if pages:
            found[heading] = dict(reversed(pages.items()))
    return found


def with_navigation(text: str) -> str:
    """The first page with hidden tables of contents, which make the sidebar, and an entry for searches."""
    title, rest = text.split("\n", 1)
    text = f"{title}\n\n```{{index}} ! install, ! installation, ! pip\n```\n{rest}"
    for heading, pages in sections(text).items():
        listed = "\n".join(f"{title} <{page}>" for page, title in (pages | MADE.get(heading, {})).items())
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n"
    return text
