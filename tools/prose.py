"""List prose that readers stumble over: ``python -m tools.prose [PATH …]``, by default README.md and ``docs/``.

Paths are pages of Markdown, files of Python, whose docstrings and comments count, and folders of such files. The rules
know patterns, not meaning. A row is a place to look at, and the last line has the places per 1000 words.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MAX_PLACES_PER_1000_WORDS = 1.5
MAX_PLACES_PER_1000_WORDS_OF_SOURCES = 2.5

#: Advice, and the pattern of the places that need it. A space stands for any white space.
RULES = {
    "start a new sentence, or repeat the noun": r"(?:about|after|against|at|by|for|from|in|into|of|on|over|through|to"
    r"|under|with|within|without) (?:which|whom)",
    "repeat the noun": r"(?:that of|those (?:of|that|which|who|whose|with|in|for))(?! course)",
    "use a noun in place of the clause": r"what (?:an?|are|can|has|have|is|it|may|must|no|remains|the|they|was|were)",
    "negate the verb": r"(?:is|are|was|were) no (?!longer|more|less|smaller|larger|better|worse)\w+",
    "use a common word": r"(?:anew|afresh|amongst|beside|begun|hitherto|lest|there(?:by|in|of)|upon|where(?:by|in|of)"
    r"|whence)",
    "name the person or program": r"(?:any|every|no|some)body|people (?:do|run|have|type)",
    "name the things": r"(?:all|both|each|every one|few|many|most|neither|none|one|several|some) of"
    r" (?:them|those|these(?=[.,;:]))",
    "start with the subject": r"(?-i:Of|Among) (?:the|all|these|those)",
    "end the sentence with a full stop": r"(?-i:[a-z]+\x20(?:It|Positive|The|These|They|This|With))",
    "use the field's term": r"promis(?:e|es|ed)|tak(?:e|es|en|ing) part|clip norms?|go(?:es|ing)? on with|cut among"
    r"|(?:may|can) be spent|visits|classified rightly",
}
_COMPILED = {
    advice: re.compile(rf"\b(?:{pattern})\b".replace(" ", r"\s+"), re.IGNORECASE) for advice, pattern in RULES.items()
}
_HIDDEN = re.compile(
    r"```.*?```|\$\$.*?\$\$|`[^`]*`|\$[^$\n]*(?:\n[^$\n]+)?\$|\]\([^)]*\)|^#[^\n]*", re.DOTALL | re.MULTILINE
)

#: Openings of sentences that were rewritten and must not return.
OLD_SENTENCES = (
    "is the theory of this as code",
    "noise that keeps at most four arrays of the model's size",
    "may be cut among processes",
    "the error over that of the best possible noise",
    "below this epsilon it is, above it",
    "It is a row of every design",
    "who runs a federation",
    "In the environment of the tests these run",
    "the share of test examples that are classified rightly",
    "promises less about the steps of an example",
    "The verdict is found afresh",
    "is begun, gone on with and",
    "each example draws for itself when it takes part",
    "The states that no other replaces",
    "What else the command must say again",
    "A secret number for what is drawn in the step to come",
    "of which no accountant promises anything",
    "whose draw the memory after so many steps has",
)


class Place(NamedTuple):
    """A place to look at."""

    line: int
    words: str
    advice: str


def text_of(path: Path) -> str:
    """A page, or the docstrings and comments of a file of Python, each in its line."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    lines = [""] * (text.count("\n") + 2)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node, clean=False)
            for number, line in enumerate((docstring or "").splitlines()):
                lines[node.body[0].lineno - 1 + number] = line
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] += token.string.lstrip("#: ")
    return re.sub(r"^ *(?:>>>|\.\.\.) .*$", "", "\n".join(lines), flags=re.MULTILINE)


def sources(folder: Path) -> list[Path]:
    """The pages and the files of Python in a folder."""
    return sorted(file for file in folder.rglob("*") if file.suffix in (".md", ".py"))


def rate(texts: Iterable[str]) -> float:
    """Places per 1000 words."""
    found = list(texts)
    return 1000 * sum(len(list(places(text))) for text in found) / max(sum(map(number_of_words, found)), 1)


def prose_of(page: str) -> str:
    """The prose of a page, line by line: code, formulas, addresses and headings are blank."""
    return _HIDDEN.sub(lambda found: "X" + "\n" * found[0].count("\n"), page)


def places(page: str) -> Iterator[Place]:
    """Places of a page of Markdown that match a rule, in the order of the rules."""
    text = prose_of(page)
    for advice, pattern in _COMPILED.items():
        for found in pattern.finditer(text):
            yield Place(text.count("\n", 0, found.start()) + 1, " ".join(found[0].split()), advice)


def number_of_words(page: str) -> int:
    """Words of the prose of a page."""
    return len(re.findall(r"[^\W\d_][\w'-]+", prose_of(page)))


def old_sentences(text: str) -> list[str]:
    """Rewritten sentences that a page or a source has again."""
    plain = " ".join(re.sub(r"\n\s*#", " ", text).split())
    return [sentence for sentence in OLD_SENTENCES if sentence in plain]


def pages() -> list[Path]:
    """README.md and the pages of ``docs/``."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def main(arguments: list[str] | None = None) -> int:
    """Print the places and their number per 1000 words; the exit status is 1 above the limit."""
    parser = argparse.ArgumentParser(prog="python -m tools.prose", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="pages, files of Python, folders")
    given = parser.parse_args(arguments).paths or pages()
    files = [file for path in given for file in (sources(path) if path.is_dir() else [path])]
    texts = {file: text_of(file) for file in files}
    for path, text in texts.items():
        for place in sorted(places(text)):
            print(f"{path}:{place.line}: {place.words!r}: {place.advice}")
    found, words = rate(texts.values()), sum(map(number_of_words, texts.values()))
    print(f"{found * words / 1000:.0f} places in {words} words: {found:.1f} per 1000")
    return int(found > MAX_PLACES_PER_1000_WORDS)


if __name__ == "__main__":
    sys.exit(main())
