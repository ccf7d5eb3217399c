"""Theorems of ``proofs/``: the digest of what Coq states of each, from ``theorems.csv``, which ``tools.proofs`` writes.

A claim names its theorem and the digest of the statement that a person compared with the paper.  So a claim that names
another theorem, or a theorem with another statement, disagrees with its record.
"""

import csv
import hashlib
import io
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

FILE = "theorems.csv"
COLUMNS = ("theorem", "digest")
_DIGEST_DIGITS = 16


def digest(statement: str) -> str:
    """The digest of a statement as Coq prints it; line breaks do not count."""
    return hashlib.sha256(" ".join(statement.split()).encode()).hexdigest()[:_DIGEST_DIGITS]


@cache
def digests() -> Mapping[str, str]:
    """The digest of the statement of each theorem of ``proofs/``."""
    text = (files("corrnoise.paper_checks") / FILE).read_text(encoding="utf-8")
    return {row["theorem"]: row["digest"] for row in csv.DictReader(io.StringIO(text))}


def fault(theorem: tuple[str, str] | None) -> str:
    """Why a theorem, given by name and digest, is not the one of ``proofs/``; empty if it is, or is from elsewhere."""
    if theorem is None:
        return ""
    name, stated = theorem
    known = digests().get(name, stated)
    return "" if stated == known else f"the theorem {name} in Coq has the digest {known}, not {stated}"
