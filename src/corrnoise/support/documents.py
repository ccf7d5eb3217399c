"""The documents that claims refer to.  They are embedded in the report page, which then needs no other file.

A mention such as ``docs/exact-errors.md#n2-a-lower-bound-for-all-noise`` becomes a link to the heading on the page.
"""

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from markupsafe import Markup

from corrnoise.support.extras import extra_module
from corrnoise.support.headings import anchor, headings
from corrnoise.support.typesetting import display, mathematics

_markdown_it = extra_module("markdown_it", "ledger")

_PAGE_MENTION = re.compile(r"docs/([\w-]+)\.md(?:#([\w-]+))?")
_PAGE_LINK = re.compile(r"\[([^\]]*)\]\(([\w-]+)\.md(?:#[^)]*)?\)")
_ADDED_HEADING_LEVELS = 2  #: headings of a document are lowered by this number of levels on the page


class Document(NamedTuple):
    """A document on the page: its identifier there, its title, and the rest as HTML."""

    identifier: str
    title: str
    html: Markup


def _identifier(name: str) -> str:
    return f"document-{name}"


def _place_on_the_page(name: str, heading: str | None) -> str:
    return f"#{_identifier(name)}" + (f"-{heading}" if heading else "")


class Library:
    """The documents that were mentioned so far.

    Parameters
    ----------
    address : callable, optional
        The address of a document from its name and an anchor or None; by default its place on the same page.
    """

    def __init__(self, address: Callable[[str, str | None], str] = _place_on_the_page) -> None:
        self._address = address
        self._texts: dict[str, str | None] = {}  # in Markdown; None if a document is not installed
        self._embedded: set[str] | None = None  # the names of the documents on the page, once they are known

    def link(self, mention: str) -> Markup:
        """A link to a document or to one of its headings, which must exist; the title alone if it is not installed."""
        found = _PAGE_MENTION.fullmatch(mention)
        if found is None:
            raise ValueError(f"mention must be like docs/exact-errors.md#heading, got {mention!r}")
        name, wanted = found[1], found[2]
        text = self._text(name)
        if text is None:
            return Markup("the document <em>{}</em>").format(name.replace("-", " "))
        title, *others = headings(text)
        if self._embedded is not None and name not in self._embedded:
            return Markup("the document <em>{}</em>").format(title)
        if wanted is None:
            return Markup("<a href='{}'>{}</a>").format(self._address(name, None), title)
        by_anchor = {anchor(heading): heading for heading in others}
        if wanted not in by_anchor:
            raise ValueError(f"mention must name a heading of {name}.md ({', '.join(by_anchor)}), got {mention!r}")
        link = Markup("<a href='{}'>{}, <em>{}</em></a>")
        return link.format(self._address(name, wanted), title, by_anchor[wanted])

    def mentioned(self) -> list[Document]:
        """All documents that were mentioned so far; others that they mention are named only."""
        self._embedded = {name for name, text in self._texts.items() if text is not None}
        return [self._document(name) for name in list(self._texts) if name in self._embedded]

    def _text(self, name: str) -> str | None:
        if name not in self._texts:
            path = files("corrnoise") / "docs" / f"{name}.md"
            self._texts[name] = path.read_text(encoding="utf-8") if path.is_file() else None
        return self._texts[name]

    def _document(self, name: str) -> Document:
        title, _, body = str(self._texts[name]).partition("\n")
        html = self._markdown.render(_PAGE_LINK.sub(self._target, body), {"document": _identifier(name)})
        return Document(_identifier(name), title.removeprefix("# "), Markup(html))

    def _target(self, link: re.Match[str]) -> str:
        """A link of a document to another one: to its place on the page, or its text alone."""
        return f"[{link[1]}](#{_identifier(link[2])})" if link[2] in (self._embedded or ()) else link[1]

    @cached_property
    def _markdown(self) -> Any:
        library = self

        class Renderer(_markdown_it.renderer.RendererHTML):  # type: ignore[name-defined]
            """Formulas as MathML, lower headings that can be linked to, wide tables that scroll, and links.

            Rules return plain strings: added to ``Markup``, the tags of the renderer would be escaped.
            """

            def formula(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                return str((display if tokens[idx].block else mathematics)(tokens[idx].content))

            def code_inline(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                code = tokens[idx].content
                return str(
                    library.link(code) if _PAGE_MENTION.fullmatch(code) else Markup("<code>{}</code>").format(code)
                )

            def heading_open(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                tag = _lower(tokens[idx].tag)
                heading = anchor(tokens[idx + 1].content)
                return f"<{tag} id='{env['document']}-{heading}'>"

            def heading_close(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                return f"</{_lower(tokens[idx].tag)}>\n"

            def table_open(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                return "<div class=wide><table>\n"

            def table_close(self, tokens: Sequence[Any], idx: int, options: Any, env: Any) -> str:
                return "</table></div>\n"

        markdown = _markdown_it.MarkdownIt("commonmark", {"html": False}, renderer_cls=Renderer).enable("table")
        markdown.inline.ruler.before("escape", "formula", _formula)
        return markdown


def _formula(state: Any, silent: bool) -> bool:
    """The rule of markdown-it for what stands between dollar signs, or between double ones on lines of its own."""
    dollars = "$$" if state.src.startswith("$$", state.pos) else "$"
    end = state.src.find(dollars, state.pos + len(dollars))
    if state.src[state.pos] != "$" or end < 0:
        return False
    if not silent:
        token = state.push("formula", "", 0)
        token.content = state.src[state.pos + len(dollars) : end].strip()
        token.block = dollars == "$$"
    state.pos = end + len(dollars)
    return True


def _lower(tag: str) -> str:
    return f"h{int(tag[1]) + _ADDED_HEADING_LEVELS}"
