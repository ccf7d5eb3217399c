"""The report: the ledger as one HTML page that needs no network.

The page shows every claim with typeset mathematics (MathML), its verdict, evidence and sharp constant.  Counterexamples
and worst cases unfold on demand.  The figures with their data and the documents with the proofs are embedded.  The page
can be filtered, searched, linked to, printed and used by keyboard, in light and dark.  ``report.html`` is the template;
``report.js`` and the style sheet of all pages are embedded in it.
"""

from __future__ import annotations

import base64
import gzip
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from jinja2 import Environment
from markupsafe import Markup

from corrnoise.paper_checks.machinery import wording
from corrnoise.paper_checks.machinery.foundations import Foundations
from corrnoise.paper_checks.machinery.headline import headline
from corrnoise.paper_checks.machinery.inventory import EQUATION, inventory_of
from corrnoise.paper_checks.machinery.ledger import Claim, Outcome
from corrnoise.paper_checks.machinery.names import ABBREVIATIONS, GREEK, called, words
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.power import COUNTS, Power, powers
from corrnoise.paper_checks.machinery.quantifiers import QUANTIFIERS
from corrnoise.paper_checks.machinery.verdicts import EVIDENCE, VERDICTS
from corrnoise.support.documents import Library
from corrnoise.support.drawings import Drawings
from corrnoise.support.pages import resource, templates
from corrnoise.support.typesetting import paragraphs, prose
from corrnoise.support.version import __version__, commit

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

_OWN_PACKAGE = "corrnoise.paper_checks.machinery"


def report_page(outcomes: Sequence[Outcome], papers: Sequence[Paper], figures: Iterable[PaperFigure] = ()) -> str:
    """The report on these outcomes, in this order, of claims of these papers as HTML, with these figures embedded."""
    library = Library()
    drawings = Drawings()
    graph = _Graph(Foundations(papers), [outcome.claim for outcome in outcomes])
    environment = _environment(library, graph)
    environment.filters["dashed"] = lambda text: text.replace(" ", "-")
    environment.globals["unclaimed"] = _unclaimed
    return environment.get_template("report.html").render(
        version=__version__,
        commit=commit(),
        date=_today(),
        script=Markup(resource(_OWN_PACKAGE, "report.js")),
        names={"greek": GREEK, "abbreviations": ABBREVIATIONS},
        verdicts=_counted(VERDICTS, [outcome.verdict for outcome in outcomes]),
        evidence=_counted(EVIDENCE, [kind for outcome in outcomes for kind in _kinds(outcome)]),
        quantifiers=[(word, meaning, 0) for word, meaning in QUANTIFIERS.items()],
        headline=headline([outcome.claim for outcome in outcomes]),
        mutants=_mutants(papers),
        total=len(outcomes),
        keys=_keys,
        kinds=_kinds,
        papers=[(paper, sections) for paper in papers if (sections := _sections(paper, outcomes))],
        figures=[_figure(figure, drawings) for figure in figures],
        shapes=drawings.shapes,
        documents=library.mentioned,
    )


def claim_pages(papers: Sequence[Paper]) -> Iterator[tuple[Claim, str]]:
    """Every claim of these papers, as recorded, and the content of its page as HTML.

    The counterexamples are computed; nothing else is checked.  Pages lie next to each other, named by the identifiers of
    the claims, and the pages of the documents one folder above.

    Parameters
    ----------
    papers : sequence of Paper
        Papers that hold all claims that their claims rest on.

    Yields
    ------
    claim : Claim
        In the order of the papers.
    html : str
        Without a heading.
    """
    claims = [(paper, claim) for paper in papers for claim in paper.claims]
    library = Library(lambda name, heading: f"../{name}.html" + (f"#{heading}" if heading else ""))
    graph = _Graph(Foundations(papers), [claim for _, claim in claims], "{}.html")
    template = _environment(library, graph).get_template("claim_page.html")
    for paper, claim in claims:
        outcome = Outcome(claim, claim.recorded, agrees=True, reason="", counterexample=claim.refutation())
        yield (
            claim,
            template.render(
                claim=claim, outcome=outcome, title=paper.title, verdict=VERDICTS[claim.recorded], evidence=EVIDENCE
            ),
        )


def _environment(library: Library, graph: _Graph) -> Environment:
    """The templates of claims, with links to documents and to other claims."""
    environment = templates(_OWN_PACKAGE)
    environment.filters["prose"] = lambda text: prose(text, library.link)
    environment.filters["paragraphs"] = lambda text: paragraphs(text, library.link)
    environment.globals["words"] = wording
    environment.globals["graph"] = graph
    return environment


def _today() -> str:
    """Today's date, or the date that SOURCE_DATE_EPOCH gives for a reproducible build."""
    told = os.environ.get("SOURCE_DATE_EPOCH")
    return (datetime.fromtimestamp(int(told), UTC) if told else datetime.now(UTC)).date().isoformat()


def _counted(meanings: Mapping[Any, str], found: Sequence[str]) -> list[tuple[str, str, int]]:
    """Words, their meanings, and their numbers in ``found``."""
    counts = Counter(found)
    return [(word, meaning, counts[word]) for word, meaning in meanings.items()]


def _kinds(outcome: Outcome) -> tuple[str, ...]:
    """The kinds of evidence of a claim, of its truth and of its repair."""
    claim = outcome.claim
    return tuple(dict.fromkeys(kind for kind in (claim.evidence, claim.repair_evidence) if kind))


def _keys(outcome: Outcome) -> str:
    """The names of a claim without its identifier, as words for the search on the page."""
    claim = outcome.claim
    keys = [" ".join(key) for key in (*called(claim.name), words(f"{claim.paper} {claim.name}")) if key]
    return "|".join(key for key in keys if key != re.sub(r"[-.]+", " ", claim.identifier))


def _sections(paper: Paper, outcomes: Sequence[Outcome]) -> list[tuple[str, str, list[Outcome]]]:
    """The outcomes of one paper by module: an identifier, the subject, and the outcomes."""
    own = [outcome for outcome in outcomes if outcome.claim.paper == paper.name]
    sections = []
    for module, group in groupby(own, key=lambda outcome: outcome.claim.module):
        found = list(group)
        identifier = f"section-{paper.name}-{module.rpartition('.')[2].replace('_', '-')}"
        sections.append((identifier, paper.section(found[0].claim), found))
    return sections


class _Graph:
    """The foundations of claims, as links for the claims that are on the page."""

    def __init__(self, foundations: Foundations, shown: Sequence[Claim], address: str = "#{}") -> None:
        self._foundations = foundations
        self._address = address  #: of a claim, by its identifier
        self._shown = set(shown)
        self.resting = [claim for claim in shown if claim.rests_on]

    def below(self, claim: Claim) -> Markup:
        """Links to the claims that ``claim`` rests on."""
        return self._links(claim, self._foundations.of(claim))

    def above(self, claim: Claim) -> Markup:
        """Links to the claims that rest on ``claim``."""
        return self._links(claim, self._foundations.above.get(claim, ()) if self._shown else ())

    def _links(self, claim: Claim, others: Sequence[Claim]) -> Markup:
        links = []
        for other in others:
            name = other.name if other.paper == claim.paper else f"{other.name} of {other.paper}"
            link = Markup('<a href="{}">{}</a>').format(self._address.format(other.identifier), name)
            links.append(Markup("{} ({})").format(link if other in self._shown else name, other.checked_evidence))
        return Markup(", ").join(links)


def _unclaimed(paper: Paper) -> list[tuple[str, str]]:
    """Numbered statements without a claim, and the reason; equations of one reason are one entry."""
    found = list(paper.no_claims.items())
    if paper.package is None:
        return found
    said = {*paper.numbers, *paper.no_claims}
    equations: dict[str, list[str]] = {}
    for entry in inventory_of(paper.package):
        if entry.kind == EQUATION and entry.label not in said:
            equations.setdefault(entry.word, []).append(entry.label.removeprefix(f"{EQUATION} "))
    several = (f"{EQUATION}{'s' * (len(numbers) > 1)} {', '.join(numbers)}" for numbers in equations.values())
    return [*found, *zip(several, equations, strict=True)]


def _mutants(papers: Sequence[Paper]) -> list[list[str]]:
    """The sums of the record of mutants: the heads of the columns, and a row for each paper that is recorded."""
    rows = [["paper", "claims", *COUNTS, "killed, of those that tell"]]
    for paper in papers:
        known = [powers()[one.identifier] for one in paper.listed if one.identifier in powers()]
        if known:
            total = sum(known, Power())
            rate = "" if total.kill_rate is None else f"{total.kill_rate:.1%}"
            rows.append([paper.name, str(len(known)), *(str(getattr(total, name)) for name in COUNTS), rate])
    return rows


# -- figures -----------------------------------------------------------------------------------------------------------


def _shortened(table: str) -> str:
    """A table with five digits of each number, which are enough for readers of the page; comments stay."""

    def short(line: str) -> str:
        return line if line.startswith("#") else _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.5g}", line)

    return "".join(map(short, table.splitlines(keepends=True)))


_LONG_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d{5,}(e[-+]\d+)?(?![\w.])")


def _figure(figure: PaperFigure, drawings: Drawings) -> dict[str, Any]:
    """A figure as the template needs it; ``missing`` says which extra it needs that is not installed."""
    from corrnoise.figures.publication import csv_text, svg_text

    shown = {"name": figure.name, "source": figure.source, "title": figure.title, "missing": None}
    try:
        data = figure.data()
    except ImportError as error:
        return {**shown, "missing": str(error)}
    table = gzip.compress(_shortened(csv_text(figure, data)).encode(), mtime=0)
    return {
        **shown,
        "table": base64.b64encode(table).decode(),
        "drawing": drawings.add(svg_text(figure, data), figure.name, figure.title),
        "report": figure.report(data),
    }
