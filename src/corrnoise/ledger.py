"""Claims of your own: a paper with its claims, and the domains of their arguments."""

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of
from corrnoise.paper_checks.machinery.papers import Paper

__all__ = ["Paper", "integers", "linear", "log_scale", "one_of"]
