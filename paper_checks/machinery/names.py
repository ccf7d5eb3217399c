"""Names of claims, and names as people type them: ``Thm 2.1``, ``eq. (5)``, ``lemma c21``, ``gamma``, ``2310.06771``.

A name is compared word by word.  Words are runs of letters or of digits: case, accents, dots, dashes and parentheses do
not matter, and Greek letters are spelled out.  The report page has the same two functions, ``words`` and ``begins``,
which a test compares with these.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

Words = tuple[str, ...]

#: The kinds of statements.
KINDS = (
    *("theorem", "lemma", "proposition", "property", "corollary", "definition", "assumption", "remark", "conjecture"),
    *("equation", "figure", "table", "section", "appendix", "algorithm", "footnote"),
)
#: Abbreviations and plurals.  (The beginning of a word, such as ``eq`` or ``fig``, is understood without an entry.)
ABBREVIATIONS = {"eqn": "equation", "eqs": "equation", "figs": "figure", "tbl": "table", "thm": "theorem"}
ABBREVIATIONS |= {f"{kind}s": kind for kind in KINDS}
#: Greek letters and their names.
GREEK = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψω",
        (
            *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
            *("nu", "xi", "omicron", "pi", "rho", "sigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
        ),
        strict=True,
    )
)


def words(text: str) -> Words:
    """The words of a text.

    >>> words("Lemma C.21 (ii)"), words("γ∞ of R²"), words("Eqn. (5)")
    (('lemma', 'c', '21', 'ii'), ('gamma', 'of', 'r', '2'), ('equation', '5'))
    """
    return tuple(ABBREVIATIONS.get(word, word) for word in re.findall("[a-z]+|[0-9]+", spelled(text)))


def spelled(text: str) -> str:
    """A text in small letters without accents, with Greek letters as words."""
    letters = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text).lower())
    return "".join(f" {GREEK[letter]} " if letter in GREEK else letter for letter in letters)


def _same(word: str, typed: str, loosely: bool) -> bool:
    return word == typed or (loosely and typed.isalpha() and word.startswith(typed))


def begins(name: Sequence[str], typed: Sequence[str], *, loosely: bool = False) -> bool:
    """Whether a name starts with the typed words; ``loosely``: each may be the beginning of a word.

    >>> begins(words("Lemma C.21"), words("lemma c2")), begins(words("Equation (5)"), words("eq 5"), loosely=True)
    (False, True)
    """
    return len(typed) <= len(name) and agree(name, typed, loosely=loosely)


def agree(name: Sequence[str], typed: Sequence[str], *, loosely: bool = False) -> bool:
    """Whether one of two sequences of words is the beginning of the other, and neither is empty; see ``begins``."""
    return (
        bool(name) and bool(typed) and all(_same(word, part, loosely) for word, part in zip(name, typed, strict=False))
    )


@cache
def called(name: str) -> tuple[Words, Words]:
    """The words of a name, and the words without the first one, which is the kind of statement."""
    return words(name), words(name.partition(" ")[2])


def number_and_part(name: str) -> tuple[str, str]:
    """The number of a statement and the part in parentheses, which may be empty.

    >>> number_and_part("Lemma C.21 (i)"), number_and_part("Equation (53) (integrals)"), number_and_part("I(a, b)")
    (('Lemma C.21', '(i)'), ('Equation (53)', '(integrals)'), ('I(a, b)', ''))
    """
    found = re.fullmatch(r"(Equation \(\d+\)|.+?)(?: (\(.+))?", name)
    return (found[1], found[2] or "") if found else (name, "")


class Named:
    """The names of a claim, from its paper, the number of its statement and its part."""

    paper: str
    number: str
    part: str

    @property
    def name(self) -> str:
        """Number and part, as in ``Lemma C.21 (i)``."""
        return f"{self.number} {self.part}".strip()

    @property
    def identifier(self) -> str:
        """Paper and name in letters, digits, dots and dashes, for links and file names."""
        return f"{self.paper}-{re.sub(r'[^a-z0-9.]+', '-', spelled(self.name)).strip('-')}"
