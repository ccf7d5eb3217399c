r"""Quotations: whether the ledger quotes a paper word for word, and where the quoted text stands.

``python -m corrnoise.paper_checks.machinery.quotations PAPER TEXT…`` looks for what each claim says is ``printed`` in the
text of the paper, converted from its PDF or web page, in one file or several.  It writes ``quotations.csv`` into the
package of the paper: for each claim the section in which the quotation begins, the numbered statement, table or
equation before it in that section, and a digest of the quotation.  So a statement that is changed afterwards is seen
without the text, which is not part of this project.  What is not found is printed, up to the first character that differs.

A quotation is compared by its *characters*: letters, digits, and the signs of relations, sums and differences.  Fonts,
blanks, brackets, bars, roots and the numbers of equations are left out, because electronic copies lose or move them.  ``…`` stands for text that is left out.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
import sys
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path

from corrnoise.paper_checks.machinery.inventory import landmarks
from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.mathematics import symbol
from corrnoise.support.files import write_whole

OMISSION = "…"
_FEWEST = 3  #: characters of a part of a quotation
_LONGEST = 6000  #: characters of the text from the beginning of a quotation to its end, omissions included
_SIGNS = "=≠≤≥<>≪≫≲≳≈⪯⪰∝∈∞∇+−"
_SAME = str.maketrans({"⩽": "≤", "⩾": "≥", "≃": "≈", "∆": "Δ", "Ω": "Ω", "µ": "μ", "∑": "", "ı": "i"})
_TOKEN = re.compile(
    r"\\(?:begin|end)\{\w+\*?\}(?:\{[lcr]+\})?|\\tag\{[^}]*\}|\\[A-Za-z]+|\\.|\(\s*\d{1,3}\s*\)|\$\$?|\n\s*\n|.",
    re.DOTALL,
)


@dataclass(frozen=True)
class Quotation:
    """Where a claim's statement is printed.

    ``after`` is the numbered statement, table or equation before it in the section, or that of which it is a part.
    ``digest`` identifies the characters of the quotation; it is empty where the text does not have them.  Then
    ``word``, written by hand, says in a word why.
    """

    claim: str
    section: str = ""
    after: str = ""
    digest: str = ""
    word: str = ""

    @property
    def place(self) -> str:
        """The place in words; empty if it is not known."""
        if not self.section:
            return ""
        section = f"Section {self.section}" if self.section[0].isdigit() else f"Appendix {self.section}"
        return f"{section}, at or after {self.after}" if self.after else section


def _characters(text: str) -> Iterator[tuple[int, str]]:
    """The characters by which texts are compared, with their positions.

    A hyphen is a minus between dollar signs only.  The number of an equation, in parentheses, is left out.
    """
    formula = ""
    for found in _TOKEN.finditer(text):
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
        for character in unicodedata.normalize("NFKC", token.translate(_SAME)).translate(_SAME):
            if character.isalnum() or character in _SIGNS:
                yield found.start(), character


def characters(text: str) -> str:
    r"""The characters by which a text is compared.

    >>> characters(r"Lemma: $\sigma_{dp}^2 \le \frac{1}{2 \rho}$ for non-trivial $B$")
    'Lemmaσdp2≤12ρfornontrivialB'
    """
    return "".join(character for _, character in _characters(text))


def parts(quotation: str) -> list[str]:
    """The characters of the parts between omissions; a formula that begins before an omission goes on after it."""
    found = []
    formula = False
    for part in quotation.split(OMISSION):
        found.append(characters("$ " + part if formula else part))
        formula ^= part.count("$") % 2 == 1
    return [part for part in found if part]


def digest(quotation: str) -> str:
    """What identifies the characters of a quotation."""
    return hashlib.sha256(OMISSION.join(parts(quotation)).encode()).hexdigest()[:12]


class Text:
    """The text of a paper, in which quotations are looked for."""

    def __init__(self, text: str) -> None:
        found = list(_characters(text))
        self._places = [place for place, _ in found]
        self._characters = "".join(character for _, character in found)
        self._landmarks = landmarks(text)

    def find(self, quotation: str) -> tuple[int | None, str]:
        """The position at which a quotation begins, and what of it is not there: its first part that is missing.

        Of several places that is taken from which the quotation ends soonest.
        """
        sought = parts(quotation)
        if not sought or min(map(len, sought)) < _FEWEST:
            return None, f"⟂ a part of fewer than {_FEWEST} characters"
        shortest: tuple[int, int] | None = None
        missing = sought[0]
        start = self._characters.find(sought[0])
        while start >= 0:
            end, lost = self._end(sought, start)
            if not lost and (shortest is None or end - start < shortest[0]):
                shortest = (end - start, self._places[start])
            missing = lost or missing
            start = self._characters.find(sought[0], start + 1)
        return (None, self._differs(missing)) if shortest is None else (shortest[1], "")

    def _end(self, sought: Sequence[str], start: int) -> tuple[int, str]:
        """Where a quotation ends that begins at ``start``, and its first part that does not follow."""
        end = start
        for part in sought:
            end = self._characters.find(part, end, start + _LONGEST)
            if end < 0:
                return end, part
            end += len(part)
        return end, ""

    def _differs(self, part: str) -> str:
        """A part that is not there, with a mark behind its longest beginning that is, and what the text has instead."""
        longest = next(size for size in range(len(part), -1, -1) if part[:size] in self._characters)
        at = self._characters.find(part[:longest]) + longest
        return f"{part[:longest]} ⟂ {part[longest : longest + 30]} (the text goes on: {self._characters[at : at + 30]})"

    def landmark(self, position: int) -> tuple[str, str]:
        """The section at a position, and the numbered thing at or before it in that section."""
        at = bisect_right([start for start, _, _ in self._landmarks], position) - 1
        return self._landmarks[at][1:] if at >= 0 else ("", "")


def found(claim: Claim, texts: Sequence[Text], word: str = "") -> tuple[Quotation, str]:
    """The quotation of a claim, and what of it is missing."""
    missing = []
    for text in texts:
        position, lost = text.find(claim.printed)
        if position is not None:
            section, after = text.landmark(position)
            return Quotation(claim.identifier, section, after, digest(claim.printed)), ""
        missing.append(lost)
    return Quotation(claim.identifier, word=word), max(missing, key=lambda lost: lost.find("⟂"))


# -- the file ----------------------------------------------------------------------------------------------------------

_FILE = "quotations.csv"


def written(quotations: Sequence[Quotation]) -> str:
    """Quotations as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([field.name for field in fields(Quotation)])
    table.writerows(astuple(quotation) for quotation in quotations)
    return text.getvalue()


@cache
def quotations_of(package: str) -> Mapping[str, Quotation]:
    """The quotations in the package of a paper, by the identifiers of their claims; empty if there are none."""
    path = files(package) / _FILE
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
    known = quotations_of(claim.module.rpartition(".")[0]).get(claim.identifier)
    return known if known is not None and known.digest in ("", digest(claim.printed)) else None


def main(arguments: Sequence[str]) -> int:
    """Look for the quotations of a paper in files, print what is not there, and write the places beside the paper."""
    name, *paths = arguments
    folder = Path(__file__).parents[1] / name.replace("-", "_")
    if not folder.is_dir() or not paths:
        print("arguments are the short name of a paper of the ledger and files with its text", file=sys.stderr)
        return 2
    package = f"corrnoise.paper_checks.{folder.name}"
    words = {key: old.word for key, old in quotations_of(package).items()}
    texts = [Text(Path(path).read_text(encoding="utf-8")) for path in paths]
    rows = []
    for claim in import_module(f"{package}.paper").PAPER.claims:
        quotation, missing = found(claim, texts, words.get(claim.identifier, ""))
        rows.append(quotation)
        if missing and not quotation.word:
            print(f"{claim.module.rpartition('.')[2]}: {claim.name}: {missing}")
    write_whole(folder / _FILE, written(rows))
    print(f"{sum(bool(row.digest) for row in rows)} of {len(rows)} are there word for word", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
