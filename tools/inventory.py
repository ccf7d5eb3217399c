"""The inventory of a paper, extracted from its text: every numbered statement, table, figure, algorithm and equation.

``python -m tools.inventory PAPER TEXT…`` reads the text of a paper, converted from its PDF, in
one file or several, and writes ``inventory.csv`` into the package of the paper: the label of each entry, its
section, and the numbered statement before it in that section.  So the list of statements does not depend on the
claims of the ledger.  The texts themselves are not part of this project.

An entry begins a line: its kind, its number, and a stop, colon, bracket or capital.  A number in parentheses is an
equation where it continues the longest rising sequence of such numbers, which leaves references out.  If the sequence
leaves a number out, the equation is listed where its predecessor stands.
"""

import csv
import io
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from corrnoise.paper_checks.machinery.inventory import EQUATION, Entry, read
from corrnoise.support.files import write_whole

PAPERS = Path(__file__).parents[1] / "paper_checks"
STATEMENTS = (
    *("Theorem", "Lemma", "Corollary", "Proposition", "Property", "Remark", "Definition", "Assumption", "Conjecture"),
    *("Fact", "Observation", "Example"),
)
OTHERS = ("Table", "Figure", "Algorithm")

_STATEMENT_LABEL = r"(?:[A-Z]\.)?\d+(?:\.\d+)*(?!\.?\d)"
_STATEMENT_ENTRY = re.compile(
    rf"^[\s*#>]*({'|'.join((*STATEMENTS, *OTHERS))})\s+({_STATEMENT_LABEL})\**\s*(?=[.:]|\(|\*\*|$|(?<=\s)[A-Z*(])",
    re.MULTILINE,
)
_APPENDIX_ENTRY = re.compile(rf"\(proof in [^)]*\): ({'|'.join(STATEMENTS)})\s+({_STATEMENT_LABEL})(?=[.\s(])")
_SECTION_ENTRY = re.compile(
    r"^[\s#*]*(?:Appendix\s+)?([A-HJ-Z]|\d)((?:\.\d+)*)\.?[\s*]*\s?(?=[A-Z])([^\n]{3,90})(?<!\t\d)(?<!\t\d\d)$",
    re.MULTILINE,
)
_EQUATION_NUMBER = re.compile(r"\((\d{1,3})\)|\\tag\{(\d{1,3})\}")
_EQUATION_REFERENCE = re.compile(
    r"(?<!\\)\b(?:Equations?|Eqs?|Items?|from|in|by|see|and|of|to|with|using|also|under|between)\.?[\s~]*$",
    re.IGNORECASE,
)  #: what stands before a reference to an equation
_FIRST_APPENDIX = 100
_MAX_EQUATION_GAP = 4  #: a larger step in the sequence of equations is none


def _sections(text: str) -> Iterator[tuple[int, str]]:
    """Positions and labels of consecutive headings; a table of contents is left out."""
    found = []
    for heading in _SECTION_ENTRY.finditer(text):
        first = int(heading[1]) if heading[1].isdigit() else _FIRST_APPENDIX + ord(heading[1]) - ord("A")
        found.append((heading.start(), (first, *map(int, heading[2].split(".")[1:])), heading[1] + heading[2]))
    labels = {start: label for start, _, label in found}
    last: tuple[int, ...] = (0,)
    for start, numbers in _rising([(start, numbers) for start, numbers, _ in found]):
        if _follows(numbers, last):
            last = numbers
            yield start, labels[start]


def _follows(numbers: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Whether a section is the next one: a part of the last, or the next on its level or on a higher one."""
    depth = len(numbers)
    if depth > len(last):
        return numbers == (*last, 1)
    return numbers[:-1] == last[: depth - 1] and (
        numbers[-1] == last[depth - 1] + 1 or (numbers == (_FIRST_APPENDIX,) and last[0] < _FIRST_APPENDIX)
    )


def _rising(found: Sequence[tuple[int, Any]]) -> list[tuple[int, Any]]:
    """The longest strictly rising sequence of values, given as (position, value); of equal ones the last."""
    ends: list[Any] = []
    places: list[int] = []
    before: list[int] = []
    for k, (_, number) in enumerate(found):
        at = bisect_left(ends, number)
        if at == len(ends):
            ends.append(number)
            places.append(k)
        else:
            ends[at] = number
            places[at] = k
        before.append(places[at - 1] if at else -1)
    chain = []
    k = places[-1] if places else -1
    while k >= 0:
        chain.append(found[k])
        k = before[k]
    return chain[::-1]


def _equations(text: str) -> Iterator[tuple[int, str]]:
    """The positions and labels of the numbered equations."""
    numbers = [
        (found.start(), int(found[1] or found[2]))
        for found in _EQUATION_NUMBER.finditer(text)
        if not _EQUATION_REFERENCE.search(text, max(found.start() - 40, 0), found.start())
    ]
    last = 0
    position = 0
    for start, number in _rising(numbers):
        if number - last > _MAX_EQUATION_GAP:
            break
        yield from ((position, f"{EQUATION} ({missing})") for missing in range(last + 1, number))
        yield start, f"{EQUATION} ({number})"
        last = number
        position = start


def extracted(*texts: str) -> list[Entry]:
    """The entries of the texts, in their order, each once."""
    entries: dict[str, Entry] = {}
    for text in texts:
        for entry in _entries(text):
            entries.setdefault(entry.label, entry)
    return list(entries.values())


def _entries(text: str) -> Iterator[Entry]:
    after = ""
    place = ""
    for _, section, label in landmarks(text):
        if section != place:
            after = ""
            place = section
        if not label:
            continue
        yield Entry(label, section, after)
        if label.partition(" ")[0] in STATEMENTS:
            after = label


def landmarks(text: str) -> list[tuple[int, str, str]]:
    """The positions of headings, statements, tables, figures, algorithms and equations, with their sections and labels.

    A heading has no label.
    """
    sections = list(_sections(text))
    found = [
        (m.start(), f"{m[1]} {m[2]}") for pattern in (_STATEMENT_ENTRY, _APPENDIX_ENTRY) for m in pattern.finditer(text)
    ]
    marks = []
    section = ""
    headings = dict(sections)
    for start, label in sorted([*found, *_equations(text), *((start, "") for start, _ in sections)]):
        section = headings.get(start, section) if not label else section
        marks.append((start, section, label))
    return marks


# -- the file ----------------------------------------------------------------------------------------------------------


def written(entries: Sequence[Entry]) -> str:
    """Entries as CSV."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["label", "section", "after", "word"])
    table.writerows([entry.label, entry.section, entry.after, entry.word] for entry in entries)
    return text.getvalue()


def main(arguments: Sequence[str]) -> int:
    """Extract the inventory of a paper from files, print it, and write it to the package of the paper."""
    name, *paths = arguments
    folder = PAPERS / name.replace("-", "_")
    if not folder.is_dir() or not paths:
        print("arguments are the short name of a paper of the ledger and files with its text", file=sys.stderr)
        return 2
    path = folder / "inventory.csv"
    words = {entry.label: entry.word for entry in read(path.read_text(encoding="utf-8"))} if path.is_file() else {}
    entries = extracted(*(Path(path).read_text(encoding="utf-8") for path in paths))
    entries = [replace(entry, word=words.get(entry.label, "")) for entry in entries]
    write_whole(path, written(entries))
    print(written(entries), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
