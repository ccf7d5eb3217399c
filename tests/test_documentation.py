"""The examples of ``docs/`` return what they say, the pages begin with what they are for, and links lead somewhere."""

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.glob("*.md"))


def examples(text: str) -> doctest.DocTest:
    """The interactive examples of a page; the fences around them are no part of the output."""
    plain = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    return doctest.DocTestParser().get_doctest(plain, {}, "page", None, 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_return_what_they_say(page):
    assert doctest.DocTestRunner().run(examples(page.read_text(encoding="utf-8"))).failed == 0


def test_a_wrong_example_is_noticed(capsys):
    assert doctest.DocTestRunner().run(examples("```python\n>>> 1 + 1\n3\n```\n")).failed == 1
    assert "Expected" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["accuracy", "exact-errors", "glossary", "notation", "strongly-convex-bound"])
def test_pages_have_examples(name):
    assert len(examples((DOCS / f"{name}.md").read_text(encoding="utf-8")).examples) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([\w-]+\.md)\)", page.read_text(encoding="utf-8")):
        assert (DOCS / target).is_file(), target
