"""Claims of your own: papers, domains, statements from text, certificates and their verification."""

from corrnoise.paper_checks.loading import load, papers
from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.expressions import Malformed, statement
from corrnoise.paper_checks.machinery.headline import Headline, headline
from corrnoise.paper_checks.machinery.lints import Fault, lint
from corrnoise.paper_checks.machinery.papers import Paper
from corrnoise.paper_checks.machinery.terms import Untraceable
from corrnoise.paper_checks.machinery.verification import verify
from corrnoise.theory.numerics.arithmetic import arithmetic

__all__ = [
    "Fault",
    "Headline",
    "Malformed",
    "Paper",
    "Untraceable",
    "arithmetic",
    "headline",
    "integers",
    "linear",
    "lint",
    "load",
    "log_scale",
    "one_of",
    "papers",
    "statement",
    "vector",
    "verify",
]
