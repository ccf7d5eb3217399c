"""The report: the ledger as one HTML page that needs no network.

Every claim with its mathematics typeset (MathML), its verdict, evidence and sharp constant, counterexamples and worst
cases folded out on demand, and the figures with their data.  The page can be filtered, searched, printed and used by
keyboard, in light and dark.  Style and behaviour are in ``report.css`` and ``report.js``, which are put into it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from corrnoise.paper_checks.machinery.ledger import INEQUALITY, VERDICTS, Outcome, Paper
from corrnoise.support.version import __version__

if TYPE_CHECKING:
    from corrnoise.figures.publication import PaperFigure

_HERE = Path(__file__).parent
_LONGEST = 600  # characters of an argument shown


def mathml(text: str) -> str:
    """HTML of plain prose with LaTeX between dollar signs, which becomes MathML."""
    from latex2mathml.converter import convert

    parts = re.split(r"\$([^$]*)\$", text)
    return "".join(convert(part) if k % 2 else escape(part) for k, part in enumerate(parts))


def _prose(text: str) -> str:
    """Paragraphs of a docstring: blank lines divide, ``names`` are code, dollars mathematics."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", text.strip()):
        pieces = re.split(r"``([^`]*)``", " ".join(block.split()))
        paragraphs.append("".join(f"<code>{escape(p)}</code>" if k % 2 else mathml(p) for k, p in enumerate(pieces)))
    return "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs if paragraph)


def _number(value: float) -> str:
    return f"{value:.6g}"


def _side(value: Any) -> str:
    """A side, in full precision where it is one number."""
    array = np.asarray(value, dtype=float)
    return repr(float(array)) if array.ndim == 0 else np.array2string(array, precision=10, separator=", ", threshold=20)


def _arguments(arguments: Mapping[str, Any]) -> str:
    rows = []
    for name, value in arguments.items():
        shown = repr(value.tolist() if isinstance(value, np.ndarray) else value)
        shown = shown if len(shown) <= _LONGEST else shown[:_LONGEST] + " …"
        rows.append(f"<tr><th scope=row>{escape(name)}</th><td><code>{escape(shown)}</code></td></tr>")
    return f"<table class=arguments>{''.join(rows)}</table>" if rows else "<p>It has no arguments.</p>"


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def _counterexample(outcome: Outcome) -> str:
    found = outcome.counterexample
    if found is None:
        return ""
    left, right = (
        ("smaller side", "larger side") if outcome.claim.relation == INEQUALITY else ("left side", "right side")
    )
    sides = (
        f"<p>Printed: {left} <code>{_side(found.sides[0])}</code>, {right} <code>{_side(found.sides[1])}</code>.</p>"
    )
    return _details("Counterexample to the printed statement, recomputed", _arguments(found.arguments) + sides)


def _check(outcome: Outcome) -> str:
    """How the claim was checked, and what the check would reject."""
    claim = outcome.claim
    lines = [("Domain", str(claim.domain) or "none: one evaluation")]
    if claim.relation == INEQUALITY:
        lines.append(("Smallest margin", f"{_number(outcome.margin)} ({outcome.accepted} of {outcome.tried} points)"))
    else:
        lines.append(("Largest relative difference", f"{_number(-outcome.margin)} ({outcome.accepted} points)"))
    if outcome.certificate is not None:
        lines.append(("Certificate", f"{outcome.certificate.answer}, {outcome.certificate.boxes} boxes"))
    if claim.outside:
        lines.append(("Outside the certified domain", claim.outside))
    mutants = "; ".join(f"{name} ({'rejected' if rejected else 'accepted'})" for name, rejected in outcome.mutants)
    lines.append(("False neighbours", mutants))
    lines.append(("Time", f"{outcome.seconds:.2f} s"))
    rows = "".join(f"<tr><th scope=row>{escape(name)}</th><td>{mathml(value)}</td></tr>" for name, value in lines)
    worst = f"<p>Worst case found:</p>{_arguments(outcome.worst)}" if outcome.worst else ""
    return _details("How it was checked", f"<table>{rows}</table>{worst}")


def _card(outcome: Outcome) -> str:
    claim = outcome.claim
    badges = [f"<span class='badge verdict'>{escape(outcome.verdict)}</span>"]
    badges += [f"<span class=badge>{escape(claim.evidence)}</span>"]
    if claim.conjecture:
        badges.append("<span class=badge>conjecture</span>")
    if outcome.sharp is not None:
        badges.append(f"<span class=badge>sharp: {escape(claim.sharp or '')} = {_number(outcome.sharp)}</span>")
    if not outcome.agrees:
        badges.append(f"<span class='badge alarm'>disagrees: {escape(outcome.reason)}</span>")
    parts = [f"<p class=statement>{mathml(claim.printed)}</p>"]
    if claim.corrected:
        parts.append(f"<p class=statement><b>Corrected:</b> {mathml(claim.corrected)}</p>")
    if claim.unverifiable:
        parts.append(f"<p><b>Not checkable:</b> {mathml(claim.unverifiable)}</p>")
    if claim.transcription:
        parts.append(f"<p class=aside>Transcription: {mathml(claim.transcription)}</p>")
    parts.append(_prose(claim.note))
    if claim.proof:
        parts.append(f"<p class=aside>Proof: <code>{escape(claim.proof)}</code></p>")
    parts += [_counterexample(outcome), _check(outcome)]
    verdict = escape(outcome.verdict.replace(" ", "-"))
    return (
        f"<article id='{claim.identifier}' data-verdict='{verdict}' data-evidence='{claim.evidence}' tabindex=-1>"
        f"<h3><a href='#{claim.identifier}'>{escape(claim.name)}</a> {' '.join(badges)}</h3>{''.join(parts)}</article>"
    )


def _figure(figure: PaperFigure) -> str:
    from corrnoise.figures.publication import csv_text, svg_text

    said = f"<b>{escape(figure.source)}.</b> {escape(figure.title)}"
    try:
        data = figure.data()
    except ImportError as error:  # an extra that is not installed
        missing = f"{said}: not drawn: {escape(str(error))}"
        return f"<figure id='figure-{figure.name}'><figcaption>{missing}</figcaption></figure>"
    table = base64.b64encode(csv_text(figure, data).encode()).decode()
    drawing = svg_text(figure, data)
    image = base64.b64encode(drawing.encode()).decode()
    svg = drawing[drawing.index("<svg") :]
    # Identifiers must be unique on the page, where several drawings stand.
    svg = re.sub(r"(id=\"|href=\"#|url\(#)", rf"\g<1>{figure.name}-", svg)
    svg = svg.replace("<svg", f'<svg role=img aria-label="{escape(figure.title, quote=True)}"', 1)
    return (
        f"<figure id='figure-{figure.name}'>{svg}<figcaption>{said}. "
        f"<a download='{figure.name}.csv' href='data:text/csv;base64,{table}'>Data (CSV)</a> "
        f"<a download='{figure.name}.svg' href='data:image/svg+xml;base64,{image}'>Drawing (SVG)</a>"
        f"{_details('What differs from the paper', f'<pre>{escape(figure.report(data))}</pre>')}</figcaption></figure>"
    )


def _section(paper: Paper, outcomes: Sequence[Outcome]) -> str:
    cards = "".join(_card(outcome) for outcome in outcomes if outcome.claim.paper == paper.name)
    head = f"{escape(paper.title)}</h2><p>{escape(paper.authors)}. {escape(paper.source)}.</p>"
    return f"<section class=claims><h2>{head}{cards}</section>" if cards else ""


def _filters(name: str, options: Iterable[str], outcomes: Sequence[Outcome]) -> str:
    """Toggle buttons with the number of claims each."""
    buttons = []
    for option in options:
        value = option.replace(" ", "-")
        count = sum((o.verdict if name == "verdict" else o.claim.evidence) == option for o in outcomes)
        buttons.append(
            f"<button type=button data-filter={name} data-value='{value}' aria-pressed=false>"
            f"{escape(option)} <span class=count>{count}</span></button>"
        )
    return f"<div role=group aria-label='{name}'>{''.join(buttons)}</div>"


def report_page(outcomes: Sequence[Outcome], papers: Sequence[Paper], figures: Sequence[PaperFigure] = ()) -> str:
    """The report as HTML.

    Parameters
    ----------
    outcomes
        What ``Claim.check`` found, in the order in which claims are shown.
    papers
        The papers whose claims they are.
    figures
        Figures to draw and embed.
    """
    evidence = list(dict.fromkeys(outcome.claim.evidence for outcome in outcomes))
    return Template((_HERE / "report.html").read_text(encoding="utf-8")).substitute(
        version=__version__,
        style=(_HERE / "report.css").read_text(encoding="utf-8"),
        script=(_HERE / "report.js").read_text(encoding="utf-8"),
        verdicts=_filters("verdict", VERDICTS, outcomes),
        evidence=_filters("evidence", evidence, outcomes),
        total=len(outcomes),
        sections="".join(_section(paper, outcomes) for paper in papers),
        figures="".join(_figure(figure) for figure in figures),
    )
