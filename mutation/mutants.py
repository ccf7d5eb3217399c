"""The mutants of ``theory/``: formulas with a number or an arithmetic operator changed, as cosmic-ray makes them.

A formula is the right side of an assignment or what a function returns.  Left out is what states no formula: branches,
loops, messages, checks of arguments, indices, shapes, annotations, allowances for rounding (multiples of the unit
roundoff), and the constants at the heads of modules, which tune numerics (a finer step is no error).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

_ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Pow")
OPERATORS = (
    "core/NumberReplacer",
    *(f"core/ReplaceBinaryOperator_{x}_{y}" for x in _ARITHMETIC for y in _ARITHMETIC if x != y),
    "core/ReplaceUnaryOperator_Delete_USub",
)

_SILENT_CALLS = {
    "range",
    "real",
    "reals",
    "integer",
    "choice",
    "same_length",
    "next_fast_len",
    "reshape",
    "empty",
    "zeros",
    "ones",
    "full",
}
_SILENT_KEYWORDS = {"axis", "ndim", "kind", "length", "interval", "initial"}
_ROUNDOFF = {"UNIT", "_UNIT", "_DOUBLE_DOUBLE_UNIT"}

Span = tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Mutant:
    """One mutant: the ``occurrence``-th place that ``operator`` would change in ``module``."""

    module: str
    operator: str
    occurrence: int
    line: int

    def source(self, root: Path) -> str:
        """The mutated module."""
        mutated = mutate_code((root / self.module).read_text(), get_operator(self.operator)(), self.occurrence)
        assert mutated is not None
        return mutated

    def change(self, root: Path) -> tuple[str, str]:
        """The changed line, before and after."""
        before = (root / self.module).read_text().splitlines()[self.line - 1]
        return before.strip(), self.source(root).splitlines()[self.line - 1].strip()


class _Formulas(ast.NodeVisitor):
    """Spans of formulas, and of the silent parts inside them."""

    def __init__(self) -> None:
        self.formulas: list[Span] = []
        self.silent: list[Span] = []
        self.inside = 0

    def _span(self, node: ast.expr) -> Span:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.inside += 1
        for statement in node.body:
            self.visit(statement)
        self.inside -= 1

    def _formula(self, node: ast.Return | ast.Assign | ast.AugAssign | ast.Expr) -> None:
        if self.inside and node.value is not None and not isinstance(node.value, ast.Constant):
            self.formulas.append(self._span(node.value))
        self.generic_visit(node)

    visit_Return = visit_Assign = visit_AugAssign = _formula  # noqa: N815

    def visit_Lambda(self, node: ast.Lambda) -> None:
        if self.inside:
            self.formulas.append(self._span(node.body))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.silent.append(self._span(node.slice))
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.silent.append(self._span(node))

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.silent.append(self._span(node.test))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Mult) and getattr(node.right, "id", "") in _ROUNDOFF:
            self.silent.append(self._span(node))
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self.silent.append(self._span(node.exc))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _SILENT_CALLS:
            self.silent.append(self._span(node))
        self.silent += [self._span(k.value) for k in node.keywords if k.arg in _SILENT_KEYWORDS]
        self.generic_visit(node)


@cache
def _spans(source: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    # Columns of ast count bytes, those of cosmic-ray characters: compare in a source where they are the same.
    visitor = _Formulas()
    visitor.visit(ast.parse("".join(c if ord(c) < 128 else "x" for c in source)))
    return tuple(visitor.formulas), tuple(visitor.silent)


def _states_a_formula(source: str, place: tuple[int, int]) -> bool:
    formulas, silent = _spans(source)
    return any(a <= place < b for a, b in formulas) and not any(a <= place < b for a, b in silent)


def sample(found: Sequence[Mutant], size: int, seed: int) -> list[Mutant]:
    """A seeded sample, half of it changed numbers as far as there are so many, the rest changed operators.

    The order is that of hashes, so that a change of one module leaves most of the sample as it was.
    """

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.module} {mutant.operator} {mutant.occurrence}".encode()).digest()

    numbers = sorted((mutant for mutant in found if mutant.operator == OPERATORS[0]), key=rank)
    others = sorted((mutant for mutant in found if mutant.operator != OPERATORS[0]), key=rank)
    half = min(max(size // 2, size - len(others)), len(numbers))
    return numbers[:half] + others[: size - half]


def mutants(root: Path) -> Iterator[Mutant]:
    """Every mutant of a formula of ``theory/``, in a fixed order."""
    for path in sorted((root / "theory").rglob("*.py")):
        source = path.read_text()
        nodes = list(ast_nodes(get_ast(source)))
        for name in OPERATORS:
            operator = get_operator(name)()
            places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
            for occurrence, place in enumerate(places):
                if _states_a_formula(source, place):
                    yield Mutant(path.relative_to(root).as_posix(), name, occurrence, place[0])
