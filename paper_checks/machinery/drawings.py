"""Drawings of a page that has several: what they share is written once, and nothing visible is lost.

Matplotlib defines every letter and every marker in each drawing again.  Here a shape is written once for the page, under
a short name, and the drawings refer to it.  Coordinates are rounded to a tenth of a unit, of about 500 across a drawing.
"""

from __future__ import annotations

import re

from markupsafe import Markup

_SHAPE = re.compile(r'<path id="([^"]*)" ([^>]*)/>')
_LONELY = re.compile(r"<g>\s*((?:<(?:use|path|rect)\b[^>]*/>\s*)*)</g>\n?")


class Drawings:
    """The drawings of one page, and the shapes that they share."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of each shape

    def add(self, svg: str, name: str, title: str) -> Markup:
        """A drawing from its SVG: with a label, with unique identifiers, and without invisible parts.

        Parameters
        ----------
        svg
            As Matplotlib writes it.
        name
            What distinguishes the identifiers of this drawing from those of others.
        title
            What readers hear who do not see it.
        """
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
        svg = re.sub(r"<g id=\"[^\"]*\">", "<g>", svg)  # only shapes and clipping paths are referred to
        svg = re.sub(r"(?<= d=\")[^\"]*", lambda path: _tight(_rounded(path[0])), svg)
        svg = re.sub(r"(?<=translate\()[^)]*|(?<= x=\")[^\"]*|(?<= y=\")[^\"]*", lambda at: _rounded(at[0]), svg)
        svg = re.sub(r"(?<=style=\")[^\"]*", lambda style: re.sub(r"([:;]) ", r"\1", style[0]), svg)
        svg = re.sub(r'(<use [^>]*)transform="translate\(([^ )]+)(?: 0)?\)"', r'\1x="\2"', svg)
        known: dict[str, str] = {}
        svg = _SHAPE.sub(lambda shape: self._shared(shape, known), svg)
        svg = re.sub(r"<defs>\s*</defs>", "", svg)
        svg = re.sub(r'xlink:href="#([^"]*)"', lambda to: f'href="#{known.get(to[1], f"{name}-{to[1]}")}"', svg)
        svg = re.sub(r"(id=\"|url\(#)", rf"\g<1>{name}-", svg)
        while (fewer := _LONELY.sub(r"\1", svg)) != svg:
            svg = fewer
        label = Markup('<svg role="img" aria-label="{}"').format(title)
        return Markup(re.sub(r"\s*\n\s*", "\n", svg).replace("<svg", label, 1))

    def _shared(self, shape: re.Match[str], known: dict[str, str]) -> str:
        known[shape[1]] = self._names.setdefault(shape[2], f"s{len(self._names)}")
        return ""

    def shapes(self) -> Markup:
        """The shapes of all drawings that were added, as an invisible drawing."""
        paths = "\n".join(f'<path id="{name}" {shape}/>' for shape, name in self._names.items())
        return Markup(f"<svg class=shapes width=0 height=0 aria-hidden=true><defs>\n{paths}\n</defs></svg>")


def _rounded(numbers: str) -> str:
    """Coordinates with one decimal."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), numbers)


def _tight(path: str) -> str:
    """A path without blanks around its letters."""
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", path)
