"""Quotations: what counts as word for word, the place of a quotation, and the message about a missing one."""

import pytest

from corrnoise.paper_checks.machinery.quotations import Quotation, characters, digest, parts
from tests.small_claims import below, claim
from tools.quotations import Text, found

TEXT = """1 Introduction
We consider 𝜂 ≤ 1 and the noise 𝜎 𝖽𝗉 2 = 𝛾 ∞ ( 𝛃 ) 2 2 𝜌
for non-trivial 𝐵 . (1)
1.1Setup
Theorem 1.1 (Somebody, 2020). It holds: $$\\sum_{t=0}^{T-1} \\|x_t\\|^2 \\le \\frac{1}{2} \\log T \\tag{2}$$
for every $T \\geq 2$. The end.
Lemma 1.2. It holds: the other.
"""


def test_fonts_brackets_roots_and_numbers_of_equations_do_not_matter():
    noise = r"$\sigma_{dp}^2 = \gamma_\infty(\boldsymbol{\beta})^2/(2 \rho)$ for non-trivial $B$."
    assert Text(TEXT).find(rf"We consider $\eta \le 1$ and the noise {noise}")[1] == ""
    assert Text(TEXT).find(rf"We consider $\eta \le 1$ and the noise {noise}")[0][0] == TEXT.index("We consider")


@pytest.mark.parametrize(
    "quotation",
    [
        r"$\sum_{t=0}^{T+1} \|x_t\|^2$",  # another sign
        r"$\sum_{t=0}^{T} \|x_t\|^2$",  # a term left out
        r"$\|x_t\|^2 \le \frac{1}{3} \log T$",  # another constant
        r"$\|x_t\|^2 \ge \frac{1}{2} \log T$",  # another relation
        r"$\|x_t\|^2 \le \log T$",  # an omission that is not marked
        r"for all $T \ge 2$",  # another word
        "The end. … for every",  # another order
        "a",
    ],
)
def test_what_is_not_printed_is_not_found(quotation):
    positions, missing = Text(TEXT).find(quotation)
    assert positions == ()
    assert "⟂" in missing


def test_omissions_are_marked_and_may_stand_in_formulas():
    text = Text(TEXT)
    assert text.find(r"It holds: $\sum … \le \frac{1}{2} \log T$ … The end.")[1] == ""
    assert parts(r"$a - b … c - d$ is well-known") == ["a−b", "c−diswellknown"]


def test_the_place_is_where_the_whole_quotation_ends_soonest():
    text = Text(TEXT)
    (first, *_), _ = text.find("It holds: … the other")
    assert text.landmark(first) == ("1.1", "Lemma 1.2")
    (first, *_), _ = text.find("It holds")
    assert text.landmark(first) == ("1.1", "Theorem 1.1")
    assert text.landmark(TEXT.index("for non")) == ("1", "")


def test_a_difference_is_shown_where_it_begins():
    _, missing = Text(TEXT).find(r"$\|x_t\|^2 \le 3 \log T$")
    assert missing.startswith("xt2≤ ⟂ 3logT (the text goes on: 12logT")


LIMITED = """We assume much. If $n$ is small, $A$ grows. Consequently, $S \\le 3 n$ holds. It is long. When the sum is
finite, $x = 2$, up to terms $\\mathcal{O}(1)$, and $y = 3$.
"""


@pytest.mark.parametrize(
    ("printed", "hypotheses", "condition"),
    [
        (r"$S \le 3 n$ holds", (), "R3: if, is small"),
        (r"If $n$ is small, $A$ grows. Consequently, $S \le 3 n$ holds", (), "R3: assume"),
        (r"$S \le 3 n$ holds", ("If $n$ is small,",), ""),
        (r"When the sum is finite, $x = 2$, … and $y = 3$", (), "R4: \\mathcal{O}"),
        (r"When the sum is finite, $x = 2$, up to terms $\mathcal{O}(1)$, and $y = 3$", (), ""),
    ],
)
def test_a_condition_before_a_refuted_quotation_and_what_it_leaves_out_are_read(printed, hypotheses, condition):
    fields = {"printed": printed, "hypotheses": hypotheses}
    refuted = claim(below, **fields, as_printed={"c": 0.5}, counterexample={"x": 0.75})
    quotation, missing = found(refuted, [Text(LIMITED)])
    assert (quotation.condition, missing) == (condition, "")
    assert found(claim(below, **fields), [Text(LIMITED)])[0].condition == ""
    other = LIMITED.replace("$A$ grows", "$A$ may grow").replace("It is long", "It is short")
    assert ("grows" in printed) or quotation.context != found(refuted, [Text(other)])[0].context


def test_a_hypothesis_is_quoted_too():
    written = claim(below, printed=r"$S \le 3 n$ holds", hypotheses=("If $n$ is large,",))
    quotation, missing = found(written, [Text(LIMITED)])
    assert quotation.digest == ""
    assert missing.startswith("hypothesis Ifnis ⟂ large")


def test_digests_identify_the_characters():
    assert digest(r"$\eta \leq 1$") == digest(r"$\eta  \le 1$") != digest(r"$\eta < 1$")
    assert characters("−") == characters("$-$") == "−"
    assert digest("ab") != digest("a…b")


@pytest.mark.parametrize(
    ("quotation", "place"),
    [
        (Quotation("a", "2.1", "Theorem 2.1"), "Section 2.1, at or after Theorem 2.1"),
        (Quotation("a", "C.3"), "Appendix C.3"),
        (Quotation("a", word="a picture"), ""),
    ],
)
def test_places_in_words(quotation, place):
    assert quotation.place == place
