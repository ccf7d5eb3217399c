"""The documents that claims refer to: every mention leads to a heading, and the HTML shows the document."""

import re
from pathlib import Path

import pytest

from corrnoise.paper_checks import claims
from corrnoise.support import documents
from corrnoise.support.documents import Library
from corrnoise.support.headings import anchor, headings

DOCS = Path(__file__).parents[3] / "docs"


def library(monkeypatch, tmp_path, **texts):
    (tmp_path / "docs").mkdir()
    for name, text in texts.items():
        (tmp_path / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(documents, "files", lambda package: tmp_path)
    return Library()


ONE = """# One: a title

Let $x_t$ be $w_{t*}$, not $x_{t*}$, and see `docs/two.md`; `code_$x$` stays, *this* is stressed.

$$
S_j = x^2
$$

## A part

| $a_1$ | b |
|---|---|
| 1 | 2 |
"""


def test_documents_that_are_mentioned_are_embedded(monkeypatch, tmp_path):
    two = "# Two\n\nSee `docs/one.md#a-part`, [one](one.md), [three](three.md#x) and `docs/three.md`.\n"
    shelf = library(monkeypatch, tmp_path, one=ONE, two=two, three="# Three\n")
    assert shelf.link("docs/two.md") == "<a href='#document-two'>Two</a>"
    assert shelf.link("docs/one.md") == "<a href='#document-one'>One: a title</a>"
    assert shelf.link("docs/one.md#a-part") == "<a href='#document-one-a-part'>One: a title, <em>A part</em></a>"
    two, one = shelf.mentioned()
    assert '<a href="#document-one">one</a>, three and the document <em>Three</em>' in two.html
    assert (one.identifier, one.title, two.title) == ("document-one", "One: a title", "Two")
    for piece in (
        "Let <math><msub><mi>x</mi><mi>t</mi></msub></math> be <math><msub><mi>w</mi><mrow><mi>t</mi>",
        "and see <a href='#document-two'>Two</a>;",
        "<code>code_$x$</code> stays, <em>this</em> is stressed",
        '<span class=wide><math display="block"><mrow><msub><mi>S</mi>',
        "<h4 id='document-one-a-part'>A part</h4>",
        "<th><math><msub><mi>a</mi><mn>1</mn></msub></math></th>",
    ):
        assert piece in one.html, piece
    assert "One: a title" not in one.html
    assert "<a href='#document-one-a-part'>" in two.html


def test_mentions_that_lead_nowhere_are_refused(monkeypatch, tmp_path):
    shelf = library(monkeypatch, tmp_path, one=ONE)
    with pytest.raises(ValueError, match=r"mention must name a heading of one.md \(a-part\), got 'docs/one.md#b'"):
        shelf.link("docs/one.md#b")
    with pytest.raises(ValueError, match=r"mention must be like docs/exact-errors.md#heading, got 'one.md'"):
        shelf.link("one.md")


def test_documents_that_are_not_installed_are_named(monkeypatch, tmp_path):
    shelf = library(monkeypatch, tmp_path)
    assert shelf.link("docs/exact-errors.md#x") == "the document <em>exact errors</em>"
    assert shelf.mentioned() == []


def test_headings_and_anchors():
    assert headings("# A\n\n## B: c\ntext # no\n") == ["A", "B: c"]
    assert anchor("N3: ν-DP-FTRL with its constants") == "n3-ν-dp-ftrl-with-its-constants"


@pytest.mark.slow
def test_every_document_can_be_embedded():
    shelf = Library()
    for path in DOCS.glob("*.md"):
        shelf.link(f"docs/{path.name}")
    embedded = shelf.mentioned()
    assert len(embedded) == len(list(DOCS.glob("*.md")))
    for document in embedded:
        shown = re.sub(r"<code>.*?</code>|<pre>.*?</pre>", "", document.html, flags=re.DOTALL)
        assert "$" not in shown, document.title
        assert not re.search(r"docs/[\w-]+\.md", shown), document.title


def test_every_mention_in_the_ledger_leads_to_a_document():
    shelf = Library()
    found = [mention for c in claims() for mention in re.findall(r"docs/[\w-]+\.md(?:#[\w-]+)?", f"{c.note} {c.proof}")]
    assert len(found) > 20
    for mention in found:
        assert "<a href='#document-" in shelf.link(mention)
