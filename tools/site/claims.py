"""The claims of the papers: one table, and a page for each claim."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery.headline import headline
from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.report import claim_pages

_INTRODUCTION = """# Claims of the papers

Each numbered claim of the papers is a function of two sides that is checked by machine. The page of a claim has its
statement, the verdict, the evidence and, where the printed statement is false, a counterexample. `corrnoise report`
recomputes every check and writes one page with the margins. [The ledger](ledger.md) explains how to read it. The tables
show the recorded verdicts.
"""


def write_claims(source: Path) -> None:
    """Write ``claims.md`` and the folder ``claims`` with the page of each claim in the folder ``source``."""
    (source / "claims.md").write_text(table(papers()), encoding="utf-8")
    folder = source / "claims"
    folder.mkdir()
    for claim, text in pages(papers()):
        (folder / f"{claim.identifier}.md").write_text(text, encoding="utf-8")


def table(chosen: Sequence[Paper]) -> str:
    """The claims by paper, with the recorded verdict, the evidence and a link to the page of each."""
    listed = {paper.title: paper.listed for paper in chosen}
    found = headline([claim for claims in listed.values() for claim in claims])
    verdicts = list(dict.fromkeys(claim.recorded for claims in listed.values() for claim in claims))
    text = f"{_INTRODUCTION}\n| paper | claims | {' | '.join(verdicts)} |\n|---|---|{'---|' * len(verdicts)}\n"
    for title, claims in listed.items():
        counts = " | ".join(str(sum(claim.recorded == verdict for claim in claims)) for verdict in verdicts)
        text += f"| {title} | {len(claims)} | {counts} |\n"
    text += f"\n{found.sentence}\n\n| truth | {' | '.join(found.columns)} |\n|---|{'---|' * len(found.columns)}\n"
    text += "".join(f"| {truth} | {' | '.join(map(str, counts))} |\n" for truth, counts in found.rows)
    for title, claims in listed.items():
        text += f"\n## {title}\n\n| claim | verdict | evidence |\n|---|---|---|\n"
        for claim in claims:
            link = f"[{_escaped(claim.name)}](claims/{claim.identifier}.md)"
            text += f"| {link} | {claim.recorded} | {claim.support} |\n"
    return text


def pages(chosen: Sequence[Paper]) -> Iterator[tuple[Claim, str]]:
    """Every claim and its page, which also leads to the claims before and after it."""
    made = list(claim_pages(chosen))
    names = [claim for claim, _ in made]
    for (claim, html), before, after in zip(made, [None, *names], [*names[1:], None], strict=False):
        links = ["[All claims](../claims.md)"]
        links += [_link(f"Before: {before.name}", before)] if before else []
        links += [_link(f"Next: {after.name}", after)] if after else []
        text = f"# {_escaped(claim.name)}\n\n{' · '.join(links)}\n\n```{{raw}} html\n{html}\n```\n"
        yield claim, f"---\norphan: true\n---\n\n{text}"


def _link(text: str, claim: Claim) -> str:
    return f"[{_escaped(text)}]({claim.identifier}.md)"


def _escaped(text: str) -> str:
    """A name as text of Markdown."""
    return re.sub(r"([\\`*_{}\[\]<>|$])", r"\\\1", text)
