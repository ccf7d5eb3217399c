"""Quotations, found in the text of a paper: whether the ledger quotes it word for word, and where.

``python -m tools.quotations PAPER TEXT…`` looks for what each claim says is ``printed`` in the text of the paper,
converted from its PDF or web page, in one file or several.  It writes ``quotations.csv`` into the package of the paper.
Missing quotations are printed, up to the first character that differs.  The texts are not part of this project.
"""

import csv
import io
import sys
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple, fields
from pathlib import Path

from corrnoise.paper_checks import NAMES, paper_ledger
from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.quotations import (
    FILE,
    Quotation,
    digest,
    parts,
    placed_characters,
    quotations_of,
)
from corrnoise.support.files import write_whole
from tools.inventory import PAPERS, landmarks

_MIN_PART_CHARACTERS = 3  #: characters of a part of a quotation
_MAX_QUOTED_CHARACTERS = (
    6000  #: characters of the text from the beginning of a quotation to its end, omissions included
)


class Text:
    """The text of a paper, searched for quotations."""

    def __init__(self, text: str) -> None:
        found = list(placed_characters(text))
        self._places = [place for place, _ in found]
        self._characters = "".join(character for _, character in found)
        self._landmarks = landmarks(text)

    def find(self, quotation: str) -> tuple[int | None, str]:
        """The position of a quotation, and its first missing part.

        The shortest of several places counts.
        """
        sought = parts(quotation)
        if not sought or min(map(len, sought)) < _MIN_PART_CHARACTERS:
            return None, f"⟂ a part of fewer than {_MIN_PART_CHARACTERS} characters"
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
            end = self._characters.find(part, end, start + _MAX_QUOTED_CHARACTERS)
            if end < 0:
                return end, part
            end += len(part)
        return end, ""

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
    missing = []
    for text in texts:
        position, lost = text.find(claim.printed)
        if position is not None:
            section, after = text.landmark(position)
            return Quotation(claim.identifier, section, after, digest(claim.printed)), ""
        missing.append(lost)
    return Quotation(claim.identifier, word=word), max(missing, key=lambda lost: lost.find("⟂"))


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
        if missing and not quotation.word:
            print(f"{claim.module.rpartition('.')[2]}: {claim.name}: {missing}")
    write_whole(folder / FILE, written(rows))
    print(f"{sum(bool(row.digest) for row in rows)} of {len(rows)} are there word for word", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
