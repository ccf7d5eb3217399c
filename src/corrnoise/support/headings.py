"""Headings of documents in Markdown: their anchors, and the sections below them."""

import re


def anchor(heading: str) -> str:
    """The anchor of a heading, as common Markdown renderers make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> list[str]:
    """The headings of a document in Markdown, the title first."""
    return re.findall(r"^#+ (.+)$", text, re.MULTILINE)


def section(text: str, wanted: str) -> str | None:
    r"""The part of a document in Markdown under the heading with the anchor ``wanted``; None if there is none.

    It ends at the next heading of the same level or a higher one.

    >>> section("# A title\n## One\nx\n### Inside\ny\n## Two\nz", "one")
    '## One\nx\n### Inside\ny\n'
    """
    found = list(re.finditer(r"^(#+) (.+)$", text, re.MULTILINE))
    for k, heading in enumerate(found):
        if anchor(heading[2]) == wanted:
            later = (other.start() for other in found[k + 1 :] if len(other[1]) <= len(heading[1]))
            return text[heading.start() : next(later, len(text))]
    return None
