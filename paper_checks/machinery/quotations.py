r"""Quotations: whether the ledger quotes a paper word for word, and where the quoted text stands.

``quotations.csv`` beside the paper says for each claim in which section its quotation begins, the numbered statement,
table or equation before it in that section, and a digest of the quotation.  So a statement that is changed afterwards is
seen without the text, which is not part of this project.  ``python -m tools.quotations`` finds the places in the text.

A quotation is compared by its *characters*: letters, digits, and the signs of relations, sums and differences.  Fonts,
blanks, brackets, bars, roots and the numbers of equations are left out, because electronic copies lose or move them.  ``…`` stands for text that is left out.
"""

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.support import serialise
from corrnoise.support.mathematics import symbol

OMISSION = "…"
_RELATION_SIGNS = "=≠≤≥<>≪≫≲≳≈⪯⪰∝∈∞∇+−"
_SAME_LETTERS = str.maketrans({"⩽": "≤", "⩾": "≥", "≃": "≈", "∆": "Δ", "Ω": "Ω", "µ": "μ", "∑": "", "ı": "i"})
_TOKEN_PATTERN = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}(?:\{[lcr]+\})?|\\tag\{[^}]*\}|\\[A-Za-z]+|\\.|\(\s*\d{1,3}\s*\)|\$\$?|\n\s*\n|.",
    re.DOTALL,
)


@dataclass(frozen=True)
class Quotation:
    """Where a claim's statement is printed.

    ``after`` is the numbered statement, table or equation before it in the section, or that of which it is a part.
    ``digest`` identifies the characters of the quotation; it is empty where the text does not have them.  Then
    ``word``, written by hand, says in a word why.

    ``context`` identifies the sentences before it and the text that it leaves out.  ``condition`` is what a lint finds there,
    see ``lints``; then ``word`` says why it is not a hypothesis of the statement.
    """

    claim: str
    section: str = ""
    after: str = ""
    digest: str = ""
    word: str = ""
    context: str = ""
    condition: str = ""

    @property
    def place(self) -> str:
        """The place in words; empty if it is not known."""
        if not self.section:
            return ""
        section = f"Section {self.section}" if self.section[0].isdigit() else f"Appendix {self.section}"
        return f"{section}, at or after {self.after}" if self.after else section


def placed_characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters that texts are compared by, with their positions.

    A hyphen is a minus between dollar signs only.  The number of an equation, in parentheses, is left out.
    """
    formula = ""
    for found in _TOKEN_PATTERN.finditer(text):
        token = found[0]
        if token in ("$", "$$"):
            formula = "" if formula else token
            continue
        if token.isspace() and formula == "$" and len(token) > 1:
            formula = ""  # a paragraph ends, and a lost dollar sign with it
        if token.startswith("\\"):
            token = symbol(token[1:]) if token[1:].isalpha() else ""
        elif token == "-":
            token = "−" if formula else ""
        elif token.startswith("(") and len(token) > 1:
            token = ""
        for character in unicodedata.normalize("NFKC", token.translate(_SAME_LETTERS)).translate(_SAME_LETTERS):
            if character.isalnum() or character in _RELATION_SIGNS:
                yield found.start(), character


def characters(text: str) -> str:
    r"""The characters that a text is compared by.

    >>> characters(r"Lemma: $\sigma_{dp}^2 \le \frac{1}{2 \rho}$ for non-trivial $B$")
    'Lemmaσdp2≤12ρfornontrivialB'
    """
    return "".join(character for _, character in placed_characters(text))


def parts(quotation: str) -> list[str]:
    """The characters of the parts between omissions; a formula that begins before an omission goes on after it."""
    found = []
    formula = False
    for part in quotation.split(OMISSION):
        found.append(characters("$ " + part if formula else part))
        formula ^= part.count("$") % 2 == 1
    return [part for part in found if part]


def digest(quotation: str) -> str:
    """The characters that identify a quotation."""
    return serialise.digest(OMISSION.join(parts(quotation)).encode())[:12]


# -- the file ----------------------------------------------------------------------------------------------------------

FILE = "quotations.csv"


@cache
def quotations_of(package: str) -> Mapping[str, Quotation]:
    """The quotations in the package of a paper, by the identifiers of their claims; empty if there are none."""
    path = files(package) / FILE
    if not path.is_file():
        return {}
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    return {row["claim"]: Quotation(**row) for row in rows}


def place(claim: Claim) -> str:
    """Where the statement of a claim is printed, or why it is not quoted word for word; empty if neither is known."""
    known = quotation_of(claim)
    return "" if known is None else known.place or f"not word for word: {known.word}"


def quotation_of(claim: Claim) -> Quotation | None:
    """The quotation of a claim; None if there is none, or if the statement has changed since."""
    package = claim.module.rpartition(".")[0]
    known = quotations_of(package).get(claim.identifier) if package else None
    return known if known is not None and known.digest in ("", digest(claim.printed)) else None
