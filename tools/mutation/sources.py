"""The mutants of ``theory/``: files with one formula changed.

A formula is the right side of an assignment, the result of a function, or the value of an expression.  Left out is
what states no formula: branches, loops, messages, checks of arguments, indices, shapes, annotations, allowances for
rounding (multiples of the unit roundoff), and the constants at the heads of modules, which tune numerics (a finer step
is no error).
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from corrnoise.support.serialise import digest
from tools.mutation.changes import FREEZING, changes

_SILENT_CALLS = {
    *("range", "real", "reals", "integer", "choice", "same_length", "next_fast_len"),
    *("reshape", "empty", "zeros", "ones", "full"),
}
_SILENT_KEYWORDS = {"axis", "ndim", "kind", "length", "interval", "initial"}
_ROUNDOFF_NAMES = {"UNIT_ROUNDOFF", "_DOUBLE_DOUBLE_UNIT"}


@dataclass(frozen=True)
class Mutant:
    """A file whose bytes from ``start`` to ``end`` are replaced; ``before`` and ``after`` show the line."""

    module: str
    kind: str
    line: int
    before: str
    after: str
    start: int
    end: int
    text: str

    def source(self, root: Path) -> str:
        """The mutated file."""
        return _replaced((root / self.module).read_bytes(), self.start, self.end, self.text)

    @property
    def key(self) -> tuple[str, str, str]:
        """The module and its line before and after, which identify the mutant also when other lines move."""
        return self.module, self.before, self.after


def _replaced(source: bytes, start: int, end: int, text: str) -> str:
    return (source[:start] + text.encode() + source[end:]).decode()


# -- what states a formula ---------------------------------------------------------------------------------------------


def _all(*nodes: ast.AST) -> set[int]:
    return {id(part) for node in nodes for part in ast.walk(node)}


def _stated(node: ast.AST) -> set[int]:
    """The parts of a statement, or of an anonymous function, that may state a formula."""
    if isinstance(node, ast.Return | ast.Assign | ast.AugAssign | ast.Expr) and node.value is not None:
        return _all(node.value)
    return _all(node.body) if isinstance(node, ast.Lambda) else set()


def _silent(node: ast.AST) -> set[int]:
    """The parts of a node that state none."""
    if isinstance(node, ast.Subscript):
        return _all(node.slice)
    if isinstance(node, ast.IfExp):
        return _all(node.test)
    if isinstance(node, ast.Raise | ast.JoinedStr):
        return _all(node)
    if isinstance(node, ast.BinOp) and any(getattr(part, "id", "") in _ROUNDOFF_NAMES for part in ast.walk(node)):
        return {id(node)} if isinstance(node.op, ast.Add | ast.Sub) else _all(node)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = [keyword.value for keyword in node.keywords if keyword.arg in _SILENT_KEYWORDS]
        return _all(node) if name in _SILENT_CALLS else _all(*given)
    return set()


def _formulas(function: ast.FunctionDef) -> set[int]:
    nodes = list(ast.walk(function))
    return set().union(*map(_stated, nodes)) - set().union(*map(_silent, nodes))


def _functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """The functions and methods of a file; those inside others belong to them."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        else:
            yield from _functions(node)


# -- mutants -----------------------------------------------------------------------------------------------------------


def mutants(root: Path) -> Iterator[Mutant]:
    """Every mutant of a formula of ``theory/``, in a fixed order."""
    for path in sorted((root / "theory").rglob("*.py")):
        yield from mutants_of(path.relative_to(root).as_posix(), path.read_bytes())


def mutants_of(module: str, source: bytes) -> Iterator[Mutant]:
    """Every mutant of a formula of one file."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for function in _functions(ast.parse(source)):
        nodes = list(ast.walk(function))
        formulas = _formulas(function)
        for change in changes(function):
            node = nodes[change.node]
            if id(node) not in formulas or change.kind == FREEZING:  # a file has no typical point to freeze at
                continue
            assert isinstance(node, ast.expr)
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + node.end_col_offset
            text = ast.unparse(change.after)
            if not (isinstance(change.after, ast.Name | ast.Call | ast.Constant) or _stands_alone(source, start, end)):
                text = f"({text})"
            before, after = (
                found.splitlines()[node.lineno - 1].strip()
                for found in (source.decode(), _replaced(source, start, end, text))
            )
            yield Mutant(module, change.kind, node.lineno, before, after, start, end, text)


def _stands_alone(source: bytes, start: int, end: int) -> bool:
    """Whether what stands around an expression separates it from everything, so that it needs no brackets."""
    head = source[:start].rstrip()
    tail = source[end:].lstrip()
    if head.endswith((b"return", b"=")):
        return source[end:].startswith(b"\n") or tail.startswith(b")")
    return head.endswith((b"(", b"[", b",")) and tail.startswith((b")", b"]", b","))


# -- samples -----------------------------------------------------------------------------------------------------------


class _Kind(Protocol):
    @property
    def kind(self) -> str: ...


Found = TypeVar("Found", bound=_Kind)


def in_turn(found: Sequence[Found], most: int, shuffle: Callable[[list[Found]], None]) -> list[Found]:
    """At most ``most`` mutants, taken in turn from each kind, the last of each shuffled list first."""
    kinds: dict[str, list[Found]] = {}
    for mutant in found:
        kinds.setdefault(mutant.kind, []).append(mutant)
    for same in kinds.values():
        shuffle(same)
    chosen: list[Found] = []
    while len(chosen) < most and any(kinds.values()):
        chosen += [same.pop() for same in kinds.values() if same]
    return chosen[:most]


def sample(found: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """A seeded sample with equal parts of all kinds of changes.

    The order is that of hashes, so that a change of one module leaves most of the sample as it was.
    """

    def rank(mutant: Mutant) -> str:
        return digest(f"{seed} {' '.join(mutant.key)} {mutant.text}".encode())

    return in_turn(sorted(found, key=lambda mutant: mutant.kind), size, lambda same: same.sort(key=rank))
