"""Summaries: a first sentence and named facts, as text and as HTML; and sizes in words."""

from __future__ import annotations

from html import escape

BYTE_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
LINE_WIDTH = 112  #: characters
NAME_WIDTH = 13  #: characters of the name of a fact and its colon


def buffers_in_words(count: int) -> str:
    """A number of buffers.

    Parameters
    ----------
    count : int
        At least 0.

    Returns
    -------
    str
    """
    return "no buffer" if count == 0 else "1 buffer" if count == 1 else f"{count} buffers"


def bytes_in_words(size: int) -> str:
    """A number of bytes in the unit that puts it below 1024.

    Parameters
    ----------
    size : int
        At least 0.

    Returns
    -------
    str
    """
    power = min(max(0, size.bit_length() - 1) // 10, len(BYTE_UNITS) - 1)
    return f"{size / 1024**power:.3g} {BYTE_UNITS[power]}"


def wrapped(text: str, indent: int = 9) -> str:
    """A line in several lines, the further ones indented.

    Parameters
    ----------
    text : str
        One line.
    indent : int, default 9
        Spaces at the beginning of further lines.

    Returns
    -------
    str
    """
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) > LINE_WIDTH and word:
            lines.append(" " * indent)
        lines[-1] += (" " if lines[-1] else "") + word
    return "\n".join(lines)


def listed(facts: dict[str, str]) -> str:
    """Facts with their names, one below the other.

    Parameters
    ----------
    facts : dict
        Texts by name.

    Returns
    -------
    str
    """
    return "\n".join(wrapped(f"{name + ':':<{NAME_WIDTH}}{text}", NAME_WIDTH - 1) for name, text in facts.items())


def summary_text(opening: str, facts: dict[str, str]) -> str:
    """A summary for a terminal.

    Parameters
    ----------
    opening : str
        The result or the recommendation, in a sentence.
    facts : dict
        Texts by name.

    Returns
    -------
    str
    """
    return f"{wrapped(opening, 0)}\n{listed(facts)}"


def summary_html(opening: str, facts: dict[str, str]) -> str:
    """A summary for a notebook.

    Parameters
    ----------
    opening : str
        The result or the recommendation, in a sentence.
    facts : dict
        Texts by name.

    Returns
    -------
    str
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts.items())
    return f"<p>{escape(opening)}</p><table>{rows}</table>"
