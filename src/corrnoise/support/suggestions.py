"""Suggestions for misspelt words."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """End a message about an unknown word with the most similar known word.

    Parameters
    ----------
    word : str
        The unknown word.
    known : Iterable[str]
        The words that are understood.

    Returns
    -------
    str
        ``"; did you mean 'buffers'?"``, or an empty text if no known word is similar.
    """
    near = get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
