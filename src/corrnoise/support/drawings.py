"""Drawings of a page that has several: shared shapes are written once, and nothing visible is lost.

Matplotlib defines every letter and every marker in each drawing again, writes each label letter by letter, and repeats
the style of each line.  Here a shape, a label and a style are written once for the page, under short names, and the
drawings refer to them.  Coordinates are rounded to a tenth of a unit, of about 500 across a drawing, and paths go from
point to point by differences.  The drawings are parts of an HTML page, where most attributes need no quotation marks.
"""

import re
from collections.abc import Iterator

from markupsafe import Markup

_SHAPE_PATH = re.compile(r'<path id="([^"]*)" ([^>]*)/>')
_PLAIN_GROUP = re.compile(r"<g>\s*((?:<(?:use|path|rect)\b[^>]*/>\s*)*)</g>\n?")
_LABEL_GROUP = re.compile(r"<g ([^>]*scale[^>]*)>\s*((?:<use [^>]*/>\s*){2,})</g>")  #: letters that stand together
_PATH_TOKEN = re.compile(r"[A-Za-z]|-?\d+(?:\.\d+)?(?:e-?\d+)?")
_COMMAND_ARGUMENTS = {"M": 2, "L": 2, "Q": 4, "C": 6, "Z": 0}  #: the commands that Matplotlib writes, and their numbers

Point = tuple[int, int]


class Drawings:
    """The drawings of one page, and the shapes and styles that they share."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of each shape
        self._texts: dict[str, str] = {}  # the name of each label
        self._styles: dict[str, str] = {}  # the class of each style
        self._clips = 0

    def add(self, svg: str, name: str, title: str) -> Markup:
        """A drawing from the SVG that Matplotlib writes: labelled, without invisible parts, with unique identifiers.

        They bear the ``name``.  The ``title`` is what readers hear who do not see the drawing.
        """
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg, flags=re.DOTALL)
        svg = re.sub(r" xmlns(:\w+)?=\"[^\"]*\"", "", svg)  # HTML needs none
        svg = re.sub(r"<g id=\"[^\"]*\">", "<g>", svg)  # only shapes and clipping paths are referred to
        svg = re.sub(r"(?<= d=\")[^\"]*", lambda path: by_differences(path[0]), svg)
        svg = re.sub(r"(?<=translate\()[^)]*|(?<= x=\")[^\"]*|(?<= y=\")[^\"]*", lambda at: _rounded(at[0]), svg)
        svg = re.sub(r"(?<=style=\")[^\"]*", lambda style: re.sub(r"([:;]) ", r"\1", style[0]), svg)
        svg = re.sub(r'(<use [^>]*)transform="translate\(([^ )]+)(?: 0)?\)"', r'\1x="\2"', svg)
        svg = re.sub(r'(<use [^>]*)transform="translate\(([^ )]+) ([^ )]+)\)"', r'\1x="\2" y="\3"', svg)
        svg = re.sub(r' style="([^"]*)"', self._classed, svg)
        known: dict[str, str] = {}
        svg = _SHAPE_PATH.sub(lambda shape: self._shared(shape, known), svg)
        svg = re.sub(r"<defs>\s*</defs>", "", svg)
        for clip in dict.fromkeys(re.findall(r'<clipPath id="([^"]*)"', svg)):
            known[clip] = f"k{self._clips}"
            self._clips += 1
        svg = re.sub(r'xlink:href="#([^"]*)"', lambda to: f'href="#{known.get(to[1], f"{name}-{to[1]}")}"', svg)
        svg = re.sub(r"(id=\"|url\(#)([^\")]*)", lambda to: to[1] + known.get(to[2], f"{name}-{to[2]}"), svg)
        svg = _LABEL_GROUP.sub(self._label, svg)
        while (fewer := _PLAIN_GROUP.sub(r"\1", svg)) != svg:
            svg = fewer
        label = Markup('<svg role="img" aria-label="{}"').format(title)
        return Markup(_unquoted(re.sub(r"\s*\n\s*", "\n", svg)).replace("<svg", label, 1))

    def _classed(self, style: re.Match[str]) -> str:
        return f' class="{self._styles.setdefault(style[1], f"d{len(self._styles)}")}"'

    def _shared(self, shape: re.Match[str], known: dict[str, str]) -> str:
        known[shape[1]] = self._names.setdefault(shape[2], f"s{len(self._names)}")
        return ""

    def _label(self, text: re.Match[str]) -> str:
        letters = re.sub(r'(?<= )x="0" |\s*\n', "", text[2])
        return f'<use href="#{self._texts.setdefault(letters, f"t{len(self._texts)}")}" {text[1]}/>'

    def shapes(self) -> Markup:
        """The shapes, labels and styles of all drawings that were added, as an invisible drawing."""
        styles = "\n".join(f".{name}{{{style}}}" for style, name in self._styles.items())
        paths = "\n".join(f'<path id="{name}" {shape}/>' for shape, name in self._names.items())
        labels = "\n".join(f'<g id="{name}">{letters}</g>' for letters, name in self._texts.items())
        return Markup(
            f"<style>\n{styles}\n</style>\n<svg class=shapes width=0 height=0 aria-hidden=true><defs>\n"
            f"{_unquoted(paths)}\n{_unquoted(labels)}\n</defs></svg>"
        )


def _unquoted(svg: str) -> str:
    """Attributes as HTML allows them: without quotation marks where the value has no blank."""
    return re.sub(r'="([^"\s\'=<>`]+)"( ?/(?=>))?', lambda value: f"={value[1]}{' /' if value[2] else ''}", svg)


# -- paths -------------------------------------------------------------------------------------------------------------


def by_differences(path: str) -> str:
    """A path with rounded coordinates, each relative to the last point.

    >>> by_differences("M 10 20 L 10.04 20.26 L 15 20.3 z")
    'M10 20v.3h5z'
    """
    at: Point = (0, 0)
    last = ""
    written = ""
    for command, points in _commands(path):
        if command == "M":
            [at] = points
            piece = "M" + _joined(at)
        elif command == "Z":
            piece = "z"
        else:
            here = at
            numbers = [number for x, y in points for number in (x - here[0], y - here[1])]
            at = points[-1]
            if command == "L" and 0 in numbers:
                command = "V" if numbers[0] == 0 else "H"
                numbers = [sum(numbers)]
            joined = _joined(numbers)
            follows = command == last
            piece = (" " * (joined[0] not in "-") if follows else command.lower()) + joined
        last = command
        written += piece
    return written


def _commands(path: str) -> Iterator[tuple[str, list[Point]]]:
    """The commands of a path with their points, in tenths of a unit."""
    tokens = _PATH_TOKEN.findall(path)
    place = 0
    command = ""
    while place < len(tokens):
        if tokens[place].isalpha():
            command = tokens[place].upper()
            place += 1
        count = _COMMAND_ARGUMENTS[command]
        numbers = [round(10 * float(number)) for number in tokens[place : place + count]]
        place += count
        yield command, list(zip(numbers[::2], numbers[1::2], strict=True))


def _joined(tenths: tuple[int, ...] | list[int]) -> str:
    """Numbers given in tenths, with blanks where no sign separates them."""
    written = ""
    for number in tenths:
        text = f"{number / 10:.1f}".removesuffix(".0")
        text = re.sub(r"^(-?)0\.", r"\1.", text)
        written += text if not written or text.startswith("-") else " " + text
    return written


def _rounded(numbers: str) -> str:
    """Coordinates with one decimal."""
    return re.sub(r"-?\d+\.\d+", lambda number: f"{float(number[0]):.1f}".removesuffix(".0"), numbers)
