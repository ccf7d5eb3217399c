"""Citations: versions of claims, and entries for BibTeX."""

import hashlib
import json
from collections.abc import Mapping, Sequence

from corrnoise.support.version import __version__

_VERSION_DIGITS = 12  #: of the digest


def version(printed: str, hypotheses: Sequence[str], constants: Mapping[str, str], formula: str) -> str:
    """The first digits of a digest of the statement."""
    content = json.dumps([printed, list(hypotheses), dict(constants), formula])
    return hashlib.sha256(content.encode()).hexdigest()[:_VERSION_DIGITS]


def entry(identifier: str, title: str, version: str, formula: str) -> str:
    """An entry for BibTeX; ``formula`` is the digest that a certificate of the claim has, or empty."""
    certificate = f", certificate {formula}" if formula else ""
    return (
        f"@misc{{{identifier},\n  title = {{{{{title}}}}},\n"
        f"  note = {{claim {identifier}, version {version}{certificate}}},\n"
        f"  howpublished = {{corrnoise {__version__}}},\n}}\n"
    )
