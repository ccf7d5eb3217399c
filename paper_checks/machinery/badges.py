"""Badges: the number of claims of each truth as a small picture in SVG, for a page that links to the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from markupsafe import escape

from corrnoise.paper_checks.machinery.ledger import Outcome

_LETTER_WIDTH = 6.6  #: of the text, in pixels
_MARGIN_WIDTH = 10
_BADGE_HEIGHT = 20


def badge(outcomes: Sequence[Outcome]) -> str:
    """The badge of these outcomes, such as "12 true · 3 false · 1 open"; red if one is not as recorded.

    Parameters
    ----------
    outcomes : sequence of Outcome
        The outcomes of checks.

    Returns
    -------
    str
        A picture in SVG.
    """
    counts = Counter(outcome.claim.truth for outcome in outcomes)
    text = " · ".join(f"{counts[truth]} {truth}" for truth in counts)
    failed = sum(not outcome.agrees for outcome in outcomes)
    text += f" · {failed} not as recorded" if failed else ""
    width = round(len(text) * _LETTER_WIDTH) + 2 * _MARGIN_WIDTH
    colour = "#a02020" if failed else "#205080"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_BADGE_HEIGHT}" role="img">'
        f"<title>{escape(text)}</title>"
        f'<rect width="{width}" height="{_BADGE_HEIGHT}" rx="3" fill="{colour}"/>'
        f'<text x="{_MARGIN_WIDTH}" y="14" fill="#fff" font-family="sans-serif" font-size="11" '
        f'textLength="{width - 2 * _MARGIN_WIDTH}">{escape(text)}</text></svg>\n'
    )
