"""The sections of the site, as ``docs/index.md`` lists them: a heading, and below it the pages.

>>> text = "# All\\n## One\\n[A](a.md), [b](b.md#c)\\n## Two\\nnothing\\n"
>>> sections(text)
{'One': ['a', 'b']}
"""

from __future__ import annotations

import re

#: Pages that the site makes, by the section that they are added to.
MADE = {"Tutorials": ["gallery/index"], "Explanation": ["claims"], "Reference": ["api/index", "command-line"]}


def sections(text: str) -> dict[str, list[str]]:
    """The pages of each section, each page once, in the order of their links."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    found = {}
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        pages = list(dict.fromkeys(re.findall(r"\]\(([\w-]+)\.md", body)))
        if pages:
            found[heading] = pages
    return found


def with_navigation(text: str) -> str:
    """The first page with its sections as hidden tables of contents, which make the sidebar."""
    for heading, pages in sections(text).items():
        listed = "\n".join([*pages, *MADE.get(heading, [])])
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{listed}\n```\n"
    return text
