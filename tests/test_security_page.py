"""The page Security, sentence by sentence: each has a test that fails if the sentence is false, or a citation.

``security_page.json`` maps each sentence (a row of a table counts as one, its head does not) to its evidence:

``path::name``
    A test, in a file below this folder.
``docs/page.md#heading``
    A proof or description on another page.
``cites: …``
    A published result or the documentation of another program.
``scope: …``, ``advice: …``
    A sentence that guarantees nothing: it limits the guarantee, or tells the reader what to do.
"""

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from tests.test_documentation import ROOT, lost_anchors

PAGE = ROOT / "docs/security.md"
EVIDENCE = Path(__file__).with_name("security_page.json")
GUARANTEES = {"Guarantees of a run in a folder", "The outside mark", "Sampled batches"}  #: headings


def sentences(text: str) -> dict[str, str]:
    """The sentences of a page, and the heading of each; the code of a page is tested elsewhere."""
    found = {}
    heading = ""
    plain = re.sub(r"```[^`]*```|^\|.*\|\n\|[-|]+\|$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n(?=[-#|]|\d+\. )", plain):
        line = " ".join(block.split())
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.startswith("|"):
            found[line] = heading
        elif line:
            item = re.sub(r"^(- |\d+\. )", "", line)
            found |= dict.fromkeys(re.split(r"(?<=[.?!])\s+(?=[A-Z*`$(])|(?<=\.[*)])\s+", item), heading)
    return found


@functools.cache
def names_of(file: str) -> frozenset[str]:
    """The names of the tests of a file."""
    tree = ast.parse((Path(__file__).parent / file).read_text(encoding="utf-8"))
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef) and each.name[:5] == "test_")


def fault(evidence: str, heading: str) -> str:
    """The fault of an entry; empty for evidence that exists."""
    file, _, name = evidence.partition("::")
    if name:
        exists = (Path(__file__).parent / file).exists() and name in names_of(file)
        return "" if exists else f"there is no test {evidence}"
    if evidence.startswith("docs/"):
        page = evidence.removeprefix("docs/").partition("#")[0]
        exists = (ROOT / "docs" / page).exists() and not lost_anchors(evidence.removeprefix("docs/"), ROOT / "docs")
        return "" if exists else f"there is no heading {evidence}"
    kind, _, words = evidence.partition(": ")
    if kind not in ("cites", "scope", "advice") or not words:
        return f"{evidence!r} is no evidence"
    return (
        f"a guarantee needs a test or a citation, got {evidence!r}" if kind != "cites" and heading in GUARANTEES else ""
    )


def faults(text: str, evidence: dict[str, list[str]]) -> list[str]:
    """Sentences without evidence, evidence without its test, and evidence of sentences that are gone."""
    said = sentences(text)
    found = [f"no evidence: {sentence}" for sentence in said if not evidence.get(sentence)]
    found += [f"no such sentence: {sentence}" for sentence in evidence.keys() - said.keys()]
    for sentence, entries in evidence.items():
        found += [why for each in entries if (why := fault(each, said.get(sentence, "")))]
    return found


def test_every_sentence_is_tested_or_cited() -> None:
    assert faults(PAGE.read_text(encoding="utf-8"), json.loads(EVIDENCE.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ({}, ["no evidence: No step is released twice."]),
        ({"No step is released twice.": []}, ["no evidence: No step is released twice."]),
        ({"No step is released twice.": ["test_golden.py::test_nothing"]}, ["there is no test test_golden.py::"]),
        ({"No step is released twice.": ["test_nothing.py::test_nothing"]}, ["there is no test test_nothing.py::"]),
        ({"No step is released twice.": ["docs/security.md#limits"]}, ["there is no heading docs/security.md#limits"]),
        ({"No step is released twice.": ["scope: so it is"]}, ["a guarantee needs a test or a citation"]),
        ({"No step is released twice.": ["cites: "]}, ["'cites: ' is no evidence"]),
        (
            {"No step is released twice.": ["cites: it"], "No noise comes twice.": ["cites: it"]},
            ["no such sentence: No noise comes twice."],
        ),
    ],
)
def test_each_kind_of_fault_is_found(entries: dict[str, list[str]], said: list[str]) -> None:
    found = faults("# Security\n\n## The outside mark\n\nNo step is\nreleased twice.\n", entries)
    assert len(found) == len(said)
    assert all(one.startswith(other) for one, other in zip(found, said, strict=True))


def test_sentences_items_and_rows_are_told_apart() -> None:
    text = (
        "# T\n\nOne `a.b` two. Three (four.) *Five.* Six\nseven: eight.\n\n| a | b |\n|---|---|\n| 1. A | 2 |\n\n"
        "## U\n\n1. Nine, 1.5 ten.\n   Eleven.\n- Twelve\n\n```python\nNo. Sentence.\n```\n"
    )
    assert list(sentences(text)) == [
        *("One `a.b` two.", "Three (four.)", "*Five.*", "Six seven: eight.", "| 1. A | 2 |"),
        *("Nine, 1.5 ten.", "Eleven.", "Twelve"),
    ]
    assert set(sentences(text).values()) == {"T", "U"}
