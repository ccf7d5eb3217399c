"""Claims of a paper of their own, for tests of the ledger's machinery."""

from corrnoise.paper_checks.machinery.domains import linear
from corrnoise.paper_checks.machinery.papers import Paper

UNIT = {"x": linear(0, 1)}


def small(name="small", **fields):
    """A paper without claims."""
    return Paper(name, **{"source": "nowhere", "title": "Small", "authors": "Nobody", **fields})


def claim(function, relation="inequality", name="Lemma 1", paper=None, **fields):
    """The function as a claim, with what every claim needs where ``fields`` do not give it."""
    function.__doc__ = function.__doc__ or "A note."
    mutants = {"mutants": [{"c": -1.0}]} if relation == "inequality" else {}
    needed = {"printed": "$x$", "domain": UNIT, **mutants}
    return getattr(paper or small(), relation)(name, **needed | fields)(function)


def below(x, c=1.0):
    """True for c = 1, and sharp."""
    return x * x, c * x
