"""The inventory of a paper: every numbered statement, table, figure, algorithm and equation, as ``inventory.csv`` lists them.

The list lies next to the paper.  ``python -m tools.inventory`` extracts it from the paper's text, so that it does not
depend on the claims of the ledger.
"""

import csv
import io
from dataclasses import dataclass
from importlib.resources import files

EQUATION = "Equation"


@dataclass(frozen=True)
class Entry:
    """One numbered thing of a paper.

    ``section`` is where it stands, ``after`` the numbered statement before it in that section, if there is one.
    ``word`` says in a word, written by hand, why the ledger has no claim about it.
    """

    label: str
    section: str
    after: str = ""
    word: str = ""

    @property
    def kind(self) -> str:
        return self.label.partition(" ")[0]


def read(text: str) -> list[Entry]:
    """Entries from CSV."""
    return [Entry(**row) for row in csv.DictReader(io.StringIO(text))]


def inventory_of(package: str) -> list[Entry]:
    """The inventory in the package of a paper; empty if there is none."""
    path = files(package) / "inventory.csv"
    return read(path.read_text(encoding="utf-8")) if path.is_file() else []
