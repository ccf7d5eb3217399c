"""The check of the pages that were built: links lead somewhere, and nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED_ATTRIBUTES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class _Page(HTMLParser):
    """Identifiers, links and loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.identifiers: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Enter one tag."""
        given = {name: value or "" for name, value in attrs}
        self.identifiers |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loaded.append(given["href"])
        if _LOADED_ATTRIBUTES.get(tag) in given:
            self.loaded.append(given[_LOADED_ATTRIBUTES[tag]])


def faults(site: Path) -> Iterator[str]:
    """Links to pages or headings that do not exist, and addresses outside of the site that a page loads."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        name = path.relative_to(site)
        for loaded in page.loaded:
            if urlsplit(loaded).scheme not in ("", "data"):
                yield f"{name} loads {loaded}"
        for link in [*page.links, *page.loaded]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name} links to {link}, which does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].identifiers:
                yield f"{name} links to {link}, which has no such place"
