"""The README and the documents: their examples run in order and print the numbers that stand beside them.

A number in a comment behind ``print(...)`` is the printed value, rounded to the digits shown.  A block of code that
begins with a decorator is a fragment.  Blocks with ``>>>`` are interactive examples, which return what they say.
"""

import ast
import contextlib
import doctest
import io
import re
from pathlib import Path

import pytest
from latex2mathml.converter import convert
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
LONG = [f"docs/{name}.md" for name in ("amplification", "correlated-noise", "designs", "finite-runs", "momentum")] + [
    f"docs/first-{name}.md" for name in ("design", "model")
]  #: whose examples are slow
MADE = {"docs/claims.md"}  #: pages that the site makes
FOLDERS = "docs|theory|solvers|simulations|figures|paper_checks|src|tests"
_NUMBER = re.compile(r"# (-?\d[\d.]*(?:e[+-]?\d+)?)\b")


def example(page: str) -> str:
    """All code of a page, in order."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    return "".join(block for block in blocks if not block.startswith(("@", ">>>")))


def claims(code: str) -> list[tuple[str, str]]:
    """What each ``print`` of the example claims to print, and what it prints."""
    lines = code.splitlines()
    found = []
    namespace: dict[str, object] = {}
    for statement in ast.parse(code).body:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(ast.Module([statement], []), "example", "exec"), namespace)
        said = _NUMBER.search(lines[(statement.end_lineno or 1) - 1])
        if said and ast.unparse(statement).startswith("print("):
            found.append((said[1], out.getvalue().strip()))
    return found


def agrees(said: str, printed: str) -> bool:
    mantissa, _, exponent = said.partition("e")
    digits = len(mantissa.partition(".")[2])
    return f"{float(printed):.{digits}{'e' if exponent else 'f'}}" == (
        f"{float(said):.{digits}e}" if exponent else said
    )


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (page in LONG)) for page in PAGES if example(page)]
)
def test_examples_print_what_they_say(page: str) -> None:
    found = claims(example(page))
    assert found, f"{page} prints nothing that can be compared"
    wrong = [f"{said}, not {printed}" for said, printed in found if not agrees(said, printed)]
    assert not wrong, f"{page} says {'; '.join(wrong)}"


def test_a_wrong_number_is_seen() -> None:
    code = "x = 2\nprint(x / 3)  # 0.667: two thirds\nprint(1e-8 / 3)  # 3.34e-09: wrong\nprint(\n    x\n)  # 3\n"
    assert [agrees(*pair) for pair in claims(code)] == [True, False, False]


def interactive(text: str) -> doctest.DocTest:
    """The interactive examples of a page; the fences around them are no part of the output."""
    plain = re.sub(r"^```.*$", "", text, flags=re.MULTILINE)
    return doctest.DocTestParser().get_doctest(plain, {}, "page", None, 0)


@pytest.mark.parametrize("page", PAGES)
def test_interactive_examples_return_what_they_say(page: str) -> None:
    assert doctest.DocTestRunner().run(interactive((ROOT / page).read_text(encoding="utf-8"))).failed == 0


def test_a_wrong_interactive_example_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctest.DocTestRunner().run(interactive("```python\n>>> 1 + 1\n3\n```\n")).failed == 1
    assert "Expected" in capsys.readouterr().out


def test_every_page_has_an_example() -> None:
    """Those of ``py`` blocks need a library, and run in the tests of its adapter; proofs need none."""
    for page in set(PAGES) - {"docs/index.md"}:  # the list of the others
        text = (ROOT / page).read_text(encoding="utf-8")
        assert page.endswith("-proofs.md") or "```py\n" in text or example(page) or interactive(text).examples, page


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 5000


def test_links_between_documents_lead_somewhere() -> None:
    for page in (*PAGES, "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        named = set(
            re.findall(r"`((?:docs|theory|solvers|simulations|figures|paper_checks|src|tests)/[\w/.-]*)`", text)
        )
        linked = {str(Path(page).parent / link) for link in re.findall(r"\]\((?!http|#)([^)#]+)", text)}
        missing = {name for name in (named | linked) - MADE if not (ROOT / name).exists()}
        assert not missing, f"{page} names {', '.join(sorted(missing))}"


# -- formulas ----------------------------------------------------------------------------------------------------------

_CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)


def eaten(text: str) -> list[str]:
    """Lines of a page in which Markdown takes signs of a formula for emphasis."""
    found = []
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        dollars = 0
        for child in token.children or ():
            dollars += child.content.count("$") if child.type == "text" else 0
            if child.type in ("em_open", "em_close", "strong_open", "strong_close") and dollars % 2:
                found.append(token.content)
    return found


def raw(text: str) -> list[str]:
    """Subscripts, superscripts and sums outside of formulas and code."""
    return re.findall(r".*(?:[\w)}\]|‖][_^]|[_^]\{|[Σ∫√]\s*\w).*", _FORMULA.sub("", _CODE.sub("", text)))


@pytest.mark.parametrize("page", PAGES)
def test_formulas_are_latex_and_stay_whole(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert not eaten(text)
    assert not raw(text)
    for display, inline in _FORMULA.findall(_CODE.sub("", text)):
        assert convert(display or inline).startswith("<math"), display or inline


def test_a_formula_that_is_eaten_or_raw_is_noticed() -> None:
    assert eaten("Let $\\theta^*$ be the minimiser, $\\eta^*$ the rate.\n")
    assert not eaten("Let $\\theta^\\ast$ be *the* minimiser, *all $x_j$* positive.\n")
    assert raw("with q_t = Σ λ_i") == ["with q_t = Σ λ_i"]
    assert not raw("with $q_t = \\sum \\lambda_i$ and `a_b`")
