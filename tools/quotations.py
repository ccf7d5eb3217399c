"""Quotations, found in the text of a paper: whether the ledger quotes it word for word, and where.

``python -m tools.quotations PAPER TEXT…`` looks for what each claim says is ``printed`` in the text of the paper,
converted from its PDF or web page, in one file or several.  It writes ``quotations.csv`` into the package of the paper.
Missing quotations are printed, up to the first character that differs.  The texts are not part of this project.
"""

import csv
import io
import re
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from corrnoise.paper_checks import NAMES, paper_ledger
from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.lints import conditions, order_symbol
from corrnoise.paper_checks.machinery.quotations import (
    FILE,
    Quotation,
    digest,
    parts,
    placed_characters,
    quotations_of,
)
from corrnoise.paper_checks.machinery.verdicts import FALSE
from corrnoise.support import serialise
from corrnoise.support.files import write_whole
from tools.inventory import PAPERS, landmarks

_MIN_PART_CHARACTERS = 3  #: characters of a part of a quotation
_MAX_QUOTED_CHARACTERS = (
    6000  #: characters of the text from the beginning of a quotation to its end, omissions included
)


_MAX_CONTEXT_CHARACTERS = 1500  #: before a quotation
_SENTENCE_END = re.compile(r"(?<=[a-z)\]$”*][.!?])\s+|(?<=\.\*)\s+|\n\s*\n")
_CONTINUES = re.compile(r"(?:Consequently|Thus|Hence|Therefore|Then|So|This gives|As a result)\b")


class Text:
    """The text of a paper, searched for quotations."""

    def __init__(self, text: str) -> None:
        self._text = text
        found = list(placed_characters(text))
        self._places = [place for place, _ in found]
        self._characters = "".join(character for _, character in found)
        self._landmarks = landmarks(text)

    def find(self, quotation: str) -> tuple[tuple[int, ...], str]:
        """The positions of the ends of a quotation's parts, two for each, and its first missing part.

        The shortest of several places counts; without positions the text does not have it.
        """
        sought = parts(quotation)
        if not sought or min(map(len, sought)) < _MIN_PART_CHARACTERS:
            return (), f"⟂ a part of fewer than {_MIN_PART_CHARACTERS} characters"
        shortest: tuple[int, tuple[int, ...]] | None = None
        missing = sought[0]
        start = self._characters.find(sought[0])
        while start >= 0:
            ends, lost = self._ends(sought, start)
            if not lost and (shortest is None or ends[-1] - start < shortest[0]):
                shortest = (ends[-1] - start, tuple(self._places[end - k % 2] for k, end in enumerate(ends)))
            missing = lost or missing
            start = self._characters.find(sought[0], start + 1)
        return ((), self._differs(missing)) if shortest is None else (shortest[1], "")

    def _ends(self, sought: Sequence[str], start: int) -> tuple[list[int], str]:
        """Where the parts of a quotation that begins at ``start`` begin and end, and the first that does not follow."""
        ends = [start]
        for part in sought:
            begin = self._characters.find(part, ends[-1], start + _MAX_QUOTED_CHARACTERS)
            if begin < 0:
                return ends, part
            ends += [begin, begin + len(part)]
        return ends[1:], ""

    def before(self, position: int) -> str:
        """The sentence before a position, the ones that it continues, and the part of a sentence that ends there."""
        text = self._text[max(0, position - _MAX_CONTEXT_CHARACTERS) : position]
        sentences = [found for found in _SENTENCE_END.split(text) if found.strip()]
        if not sentences:
            return ""
        broken = not _SENTENCE_END.search(text[-3:])  # the quotation begins within a sentence
        first = len(sentences) - 1 - broken
        while first > 0 and _CONTINUES.match(sentences[first].lstrip(" *$")):
            first -= 1
        return " ".join(sentences[max(first, 0) :])

    def between(self, positions: Sequence[int]) -> str:
        """The text that a quotation leaves out between its parts."""
        return " ".join(
            self._text[end + 1 : begin] for end, begin in zip(positions[1::2], positions[2::2], strict=False)
        )

    def _differs(self, part: str) -> str:
        """A missing part, with a mark behind its longest known beginning, and the text found instead."""
        longest = next(size for size in range(len(part), -1, -1) if part[:size] in self._characters)
        at = self._characters.find(part[:longest]) + longest
        return f"{part[:longest]} ⟂ {part[longest : longest + 30]} (the text goes on: {self._characters[at : at + 30]})"

    def landmark(self, position: int) -> tuple[str, str]:
        """The section at a position, and the numbered thing at or before it in that section."""
        at = bisect_right([start for start, _, _ in self._landmarks], position) - 1
        return self._landmarks[at][1:] if at >= 0 else ("", "")


def found(claim: Claim, texts: Sequence[Text], word: str = "") -> tuple[Quotation, str]:
    """The quotation of a claim, and what of it is missing."""
    for condition in claim.hypotheses:
        places = [text.find(condition) for text in texts]
        if not any(positions for positions, _ in places):
            return Quotation(claim.identifier, word=word), f"hypothesis {places[0][1]}"
    missing = []
    for text in texts:
        positions, lost = text.find(claim.printed)
        if positions:
            section, after = text.landmark(positions[0])
            before, between = text.before(positions[0]), text.between(positions)
            read = serialise.digest(f"{before}\n{between}".encode())[:12]
            condition = _condition(claim, before, between)
            kept = word if condition else ""
            return Quotation(claim.identifier, section, after, digest(claim.printed), kept, read, condition), ""
        missing.append(lost)
    return Quotation(claim.identifier, word=word), max(missing, key=lambda lost: lost.find("⟂"))


def _condition(claim: Claim, before: str, between: str) -> str:
    """Findings of the lints R3 and R4, before a refuted quotation and in the text that it leaves out."""
    if claim.truth != FALSE:  # a true statement without a condition says more
        return ""
    said = " ".join((claim.printed, *claim.hypotheses))
    for rule, text in (("R3", before), ("R4", between)):
        found = [word for word in conditions(text) if word not in conditions(said)]
        symbol = order_symbol(between) if rule == "R4" and not order_symbol(said) else ""
        if found or symbol:
            return f"{rule}: {', '.join([*found, *([symbol] if symbol else [])])}"
    return ""


def written(quotations: Sequence[Quotation]) -> str:
    """Quotations as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([field.name for field in fields(Quotation)])
    table.writerows(astuple(quotation) for quotation in quotations)
    return text.getvalue()


def main(arguments: Sequence[str]) -> int:
    """Look for the quotations of a paper in files, print missing ones, and write the places to its package."""
    name, *paths = arguments
    if name not in NAMES or not paths:
        print("arguments are the short name of a paper of the ledger and files with its text", file=sys.stderr)
        return 2
    folder = PAPERS / name.replace("-", "_")
    package = f"corrnoise.paper_checks.{folder.name}"
    words = {key: old.word for key, old in quotations_of(package).items()}
    texts = [Text(Path(path).read_text(encoding="utf-8")) for path in paths]
    rows = []
    for claim in paper_ledger(name).claims:
        quotation, missing = found(claim, texts, words.get(claim.identifier, ""))
        rows.append(quotation)
        if (missing or quotation.condition) and not quotation.word:
            print(f"{claim.module.rpartition('.')[2]}: {claim.name}: {missing or quotation.condition}")
    write_whole(folder / FILE, written(rows))
    print(f"{sum(bool(row.digest) for row in rows)} of {len(rows)} are there word for word", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
