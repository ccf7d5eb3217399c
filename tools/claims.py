"""The lists of claims: ``python -m tools.claims`` writes ``claims.csv`` for each paper, from its claims.

``cn.claims()`` and the names on the command line are answered from these lists.
"""

import sys
from importlib import import_module
from pathlib import Path

from corrnoise.paper_checks import papers
from corrnoise.paper_checks.machinery.papers import FILE, written
from corrnoise.support.files import write_whole


def main() -> int:
    """Import all claims and list them; the number of claims of each paper is printed."""
    for paper in papers():
        package = import_module(str(paper.package))
        write_whole(Path(str(package.__file__)).parent / FILE, written(map(paper.listing_of, paper.claims)))
        print(f"{paper.name}: {len(paper.claims)} claims")
    return 0


if __name__ == "__main__":
    sys.exit(main())
