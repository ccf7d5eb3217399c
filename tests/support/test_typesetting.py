"""Texts as HTML: mathematics that can be broken, scripts in prose, nothing that is not escaped."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from corrnoise.paper_checks import claims
from corrnoise.support.typesetting import _pieces, mathematics, paragraphs, prose, scripts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("σ_sgd", "σ<sub>sgd</sub>"),
        ("D_α", "D<sub>α</sub>"),
        ("γ_∞²(ν)", "γ<sub>∞</sub>²(ν)"),
        ("(1 − η)^t/e^{−ηt}", "(1 − η)<sup>t</sup>/e<sup>−ηt</sup>"),
        ("β_{k+lag}", "β<sub>k+lag</sub>"),
        ("e^{(α−1)D_α}", "e<sup>(α−1)D<sub>α</sub></sup>"),
        ("‖δ^{(m)}‖²_H", "‖δ<sup>(m)</sup>‖²<sub>H</sub>"),
        ("log^½(1/ρ)", "log<sup>½</sup>(1/ρ)"),
        ("x_t, y_t.", "x<sub>t</sub>, y<sub>t</sub>."),
        ("1 <= x >= 2", "1 ≤ x ≥ 2"),
        ("1/sqrt(d) and sqrt π", "1/√(d) and √π"),
        ("a < b & c", "a &lt; b &amp; c"),
        ("a _ b ^ c", "a _ b ^ c"),
    ],
)
def test_scripts(text, expected):
    assert scripts(text) == expected


def test_prose():
    assert prose("a ``x_1 <= 2`` in $x$.") == "a <code>x_1 &lt;= 2</code> in <math><mi>x</mi></math>."
    assert prose("") == ""
    assert prose("see ``docs/one-two.md#three`` and docs/x.md.", lambda mention: Markup(f"[{mention}]")) == (
        "see [docs/one-two.md#three] and [docs/x.md]."
    )
    assert paragraphs("One\nline.\n\nTwo.") == "<p>One line.</p><p>Two.</p>"


def test_mathematics_is_short_and_escaped():
    assert mathematics(r"a \le b") == "<math><mi>a</mi><mo>≤</mo></math><wbr><math><mi>b</mi></math>"
    assert "&lt;" in mathematics("a < b")
    assert mathematics(r"\alpha") == "<math><mi>α</mi></math>"


@pytest.mark.parametrize(
    ("latex", "pieces"),
    [
        (r"a \le b", [r"a \le", " b"]),
        (r"f(a \le b) = c", [r"f(a \le b) =", " c"]),
        (r"\frac{a = b}{c} < d", [r"\frac{a = b}{c} <", " d"]),
        (r"|a = b| < \|c = d\|", [r"|a = b| <", r" \|c = d\|"]),
        (r"\left(a = b\right) = c", [r"\left(a = b\right) =", " c"]),
        ("a + b - c", ["a + b - c"]),
        (r"\Theta(\alpha \beta \gamma \delta \epsilon + b)", [r"\Theta(\alpha \beta \gamma \delta \epsilon +", " b)"]),
        ("x", ["x"]),
    ],
)
def test_formulas_are_cut_at_relations_outside_of_brackets(latex, pieces):
    assert list(_pieces(latex)) == pieces


LATEX = sorted({part for c in claims() for part in c.printed.split("$")[1::2]})


@given(st.sampled_from(LATEX))
def test_pieces_are_the_whole_and_balanced(latex):
    pieces = list(_pieces(latex))
    assert "".join(pieces) == latex
    for piece in pieces:
        assert piece.count("{") - piece.count("\\{") == piece.count("}") - piece.count("\\}")


def test_no_claim_shows_raw_scripts():
    """Prose, not code: every underscore and caret has become a subscript or superscript."""
    for claim in claims():
        for text in (claim.note, claim.outside, claim.undecided and claim.undecided[1], claim.transcription):
            shown = html.unescape(re.sub(r"<math>.*?</math>|<code>.*?</code>|<[^>]*>", " ", prose(text or "")))
            assert not re.search(r"[_^]", shown), (claim.name, shown)


@pytest.mark.parametrize("raw", ["σ_", "x^", "_x"])
def test_raw_scripts_would_be_noticed(raw):
    assert re.search(r"[_^]", prose(raw))
