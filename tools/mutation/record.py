"""The record of how the mutants of claims fared, and why some survive.

The record is ``claims.json``, which ``python -m tools.mutation claims --record`` writes.  A claim counts as not yet
tried if its function, its domain, a function that mutants change, or a constant that they read has changed
since; their documentation may change.  Other functions are not compared.  Why a mutant survives is written by hand in
``claims_survivors.json``, by the identifier of the claim and the text of the mutant; and so is why fewer than half of
the telling mutants of a claim are killed or noticed, or none.  The page of the ledger shows the numbers, from
``paper_checks/mutants.csv``.
"""

import ast
import copy
import importlib.util
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.ledger import Claim
from corrnoise.paper_checks.machinery.power import FATES, FILE, Power, Ratios
from corrnoise.support.serialise import digest

RECORD = Path(__file__).with_name("claims.json")
REASONS = Path(__file__).with_name("claims_survivors.json")
#: What the check of a mutant that is alive says.
ALIVE = {
    "noticed": "it is true as far as is searched, and the check disagrees with what is recorded of the claim",
    "shifted": "the check finds nothing, and the median ratio of the sides is another one than recorded",
    "elsewhere": "its check finds nothing, and that of an identity that runs the same formula finds it to be false",
    "survived": "it says more than the claim, or something else, and the check finds nothing against it",
}
ENDS = {"killed": FATES["killed"], **ALIVE, **{name: FATES[name] for name in ("weaker", "equal", "undefined")}}
FEW = "few are killed"  #: in the place of a mutant, for the reason why fewer than half are killed or noticed
_HALF_CASES = 0.5
NUMBERS = Path(__file__).parents[2] / "paper_checks" / FILE


@dataclass(frozen=True)
class Kills:
    """How the structural mutants of one claim fared.

    ``source`` identifies the text of the claim's function and of the other ``functions`` that mutants change, which are
    named as ``module:name``.  ``survivors`` are the mutants that survived, each with its smallest margin; ``of`` is the
    number of all mutants, of which ``fates`` counts those that were tried.
    """

    source: str
    of: int
    fates: Mapping[str, int] = field(default_factory=dict)
    kinds: Mapping[str, int] = field(default_factory=dict)
    survivors: tuple[tuple[str, float], ...] = ()
    functions: tuple[str, ...] = ()
    ratios: Ratios | None = None  #: of the smaller to the larger side; none for an identity

    @property
    def power(self) -> Power:
        """The numbers of mutants of each fate."""
        known = {name: count for name, count in self.fates.items() if name not in ALIVE}
        alive = sum(self.fates.get(name, 0) for name in ALIVE)
        return Power(**known, alive=alive, of=self.of, ratios=self.ratios)

    @property
    def needs_reason(self) -> bool:
        """Whether fewer than half of the telling mutants are killed or noticed, or none tells; not without mutants."""
        telling = self.power.telling
        found = self.fates.get("killed", 0) + self.fates.get("noticed", 0)
        return self.of > 0 and (not telling or found < _HALF_CASES * telling)


def source_of(claim: Claim, functions: Sequence[str] = ()) -> str:
    """A digest of the formulas and the domain of a claim, whatever is said about them and stands around them.

    The other ``functions`` are named ``module:name``; one that is gone has no text.
    """
    [tree] = ast.parse(textwrap.dedent(inspect.getsource(claim.function))).body
    texts = [_formulas(tree, claim.function.__globals__), str(claim.domain)]
    for name in functions:
        module, path = name.split(":")
        found = _definitions(module).get(path)
        texts.append("" if found is None else _formulas(found, vars(importlib.import_module(module))))
    return digest(" ".join(texts).encode())[:16]


def _formulas(tree: ast.stmt, known: Mapping[str, Any]) -> str:
    """The syntax tree of a function without decorators and documentation, constants of its module by their values."""
    tree = _Values(known).visit(copy.deepcopy(tree))
    if not isinstance(tree, ast.FunctionDef):
        return ast.dump(tree)
    body = tree.body[1:] if ast.get_docstring(tree, clean=False) is not None else tree.body
    return f"{ast.dump(tree.args)} {[ast.dump(statement) for statement in body]}"


class _Values(ast.NodeTransformer):
    """Replaces the names of numbers, texts and sequences of a module by their values; leaves out messages of errors.

    So constants may be renamed, and messages rewritten.
    """

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self._known.get(node.id)
        value = value.tolist() if isinstance(value, np.ndarray) else value
        return ast.Constant(repr(value)) if isinstance(value, int | float | complex | str | tuple | list) else node

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        return ast.Raise()


@cache
def _definitions(module: str) -> Mapping[str, ast.FunctionDef]:
    """The functions and methods of a module that does not change while it is imported; none if it is gone."""
    if importlib.util.find_spec(module) is None:
        return {}
    source = inspect.getsource(importlib.import_module(module))
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{method.name}": method for method in node.body if isinstance(method, ast.FunctionDef)
            }
    return found


# -- the record --------------------------------------------------------------------------------------------------------


def written(record: Mapping[str, Kills]) -> str:
    """A record as JSON, one claim a line, in the order of their identifiers."""
    lines = (f"{json.dumps(name)}: {json.dumps(asdict(record[name]), ensure_ascii=False)}" for name in sorted(record))
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read(text: str) -> dict[str, Kills]:
    """A record from JSON."""
    found = {}
    for name, fields in json.loads(text).items():
        survivors = tuple((mutant, margin) for mutant, margin in fields.pop("survivors"))
        known = fields.pop("ratios")
        ratios = known and Ratios(known["largest"], known["spread"], tuple(known["in_cases"]), tuple(known["medians"]))
        found[name] = Kills(functions=tuple(fields.pop("functions")), survivors=survivors, ratios=ratios, **fields)
    return found


def recorded() -> Mapping[str, Kills]:
    """The record; empty if there is none."""
    return read(RECORD.read_text(encoding="utf-8")) if RECORD.is_file() else {}


def is_current(found: Kills, claim: Claim) -> bool:
    """Whether neither the claim nor the formulas that it calls have changed since."""
    return found.source == source_of(claim, found.functions)


def numbers(record: Mapping[str, Kills], claims: Sequence[Claim]) -> dict[str, Power]:
    """How the mutants of each claim fared; claims that have changed since they were tried are left out."""
    found = ((claim, record[claim.identifier]) for claim in claims if claim.identifier in record)
    return {claim.identifier: one.power for claim, one in found if one.of and is_current(one, claim)}


# -- reasons -----------------------------------------------------------------------------------------------------------


def reasons() -> Mapping[str, Mapping[str, str]]:
    """Why mutants survive, by claim and mutant."""
    found: dict[str, dict[str, str]] = json.loads(REASONS.read_text(encoding="utf-8"))
    return found


def remarks(record: Mapping[str, Kills]) -> Iterator[str]:
    """Say what remains to do in ``claims_survivors.json``: reasons out of date, and reasons that are missing."""
    written_down = reasons()
    for name in sorted(record):
        survivors = dict(record[name].survivors)
        known = written_down.get(name, {})
        yield from (f"{name}: no survivor any more: {mutant}" for mutant in known if mutant not in (*survivors, FEW))
        if record[name].needs_reason != (FEW in known):
            yield f"{name}: {'has no reason for' if record[name].needs_reason else 'needs no reason for'}: {FEW}"
        yield from (
            f"{name}: survives with the margin {margin:.2g} and has no reason: {mutant}"
            for mutant, margin in survivors.items()
            if mutant not in known
        )
