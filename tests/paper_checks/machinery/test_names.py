"""Names as people type them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.paper_checks.machinery.names import GREEK, agree, begins, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lemma C.21", "lemma c 21"),
        ("lemma c21", "lemma c 21"),
        ("LEMMA  (C-21)", "lemma c 21"),
        ("Equation (5)", "equation 5"),
        ("Eqn. (5)", "equation 5"),
        ("eq5", "eq 5"),
        ("Thm 2.1", "theorem 2 1"),
        ("Theorems", "theorem"),
        ("Fig. 1 (η → 0, η → 1)", "fig 1 eta 0 eta 1"),
        ("2310.06771", "2310 06771"),
        ("arXiv:2310.06771", "arxiv 2310 06771"),
        ("γ_∞² of ν-Noisy-FTRL", "gamma 2 of nu noisy ftrl"),
        ("R²", "r 2"),
        ("ϵ ϕ ς ε φ σ", "epsilon phi sigma epsilon phi sigma"),
        ("Rényi", "renyi"),
        ("κ̂", "kappa"),
        ("I(a, b)", "i a b"),
        ("Lemma D.10", "lemma d 10"),
        ("", ""),
        ("∞ ≤ …", ""),
    ],
)
def test_words(text, expected):
    assert " ".join(words(text)) == expected


#: How people may write what stands between the words of a name.
BETWEEN = st.sampled_from([" ", "  ", ".", "-", " (", ") ", ", ", ": ", "_", "/"])
NAME = st.lists(
    st.sampled_from([*"abcdefg", "lemma", "equation", *GREEK, "1", "2", "21", "06"]), min_size=1, max_size=5
)


@given(NAME, st.lists(BETWEEN, min_size=4, max_size=4), st.booleans())
def test_case_and_punctuation_do_not_matter(parts, between, upper):
    plain = " ".join(parts)
    typed = parts[0] + "".join(space + part for space, part in zip(between, parts[1:], strict=False))
    assert words(typed.upper() if upper else typed) == words(plain)
    assert words(" ".join(words(plain))) == words(plain)


@given(NAME, NAME)
def test_a_name_begins_with_its_own_beginnings_and_with_nothing_else(parts, others):
    name = words(" ".join(parts))
    for length in range(1, len(name) + 1):
        assert begins(name, name[:length])
        assert begins(name, [word[0] if word.isalpha() else word for word in name[:length]], loosely=True)
    other = words(" ".join(others))
    assert begins(name, other) == (name[: len(other)] == other)
    assert agree(name, other) == (begins(name, other) or begins(other, name))


def test_numbers_are_never_cut_short():
    for typed in ("C.2", "c.2", "Lemma C.2"):
        assert not begins(words("Lemma C.21"), words(typed), loosely=True)
    assert begins(words("Lemma C.2 (i)"), words("Lem C2"), loosely=True)
    assert not begins(words("Lemma C.2 (i)"), words("Lem C2"))
    assert not begins(words("Lemma C.2"), ())
