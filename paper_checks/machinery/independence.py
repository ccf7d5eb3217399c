"""Independence: whether the two sides of a claim come from the same code, so that an error in it would not show.

The function of a claim is read, not run.  A side consists of the calls of the project's functions and methods that its
value depends on, through local variables too.  If the sides share such calls, and neither makes one of its own,
then whatever these calls return, the claim compares it with itself.  Such a claim must say in ``independent`` what makes
the comparison tell something, for instance a proof that it holds for any value of the shared quantity.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache

from corrnoise.paper_checks.machinery.ledger import Claim

_LIBRARY_NAMES = ("np", "math", "m", "linalg", "special", "optimize")
_OF_ARRAYS = (
    *("sum", "max", "min", "mean", "copy", "cumsum", "dot", "item", "ravel", "reshape", "size", "astype", "tolist"),
    *("items", "values", "append", "number", "prod", "trace", "all", "any", "round", "is_finite", "union"),
)
_OF_THE_LANGUAGE = (
    *("float", "int", "abs", "len", "range", "max", "min", "sum", "zip", "enumerate", "tuple", "list", "sorted"),
    *("bool", "isinstance", "map", "str", "pow", "round", "arithmetic"),
)


def _called(call: ast.Call) -> str | None:
    """The name of a function or method of the project; None for one of a library, an array or the language."""
    function = call.func
    if isinstance(function, ast.Name):
        return None if function.id in _OF_THE_LANGUAGE or function.id[:1].isupper() else function.id
    if isinstance(function, ast.Attribute):
        first = function.value
        while isinstance(first, ast.Attribute):
            first = first.value
        library = isinstance(first, ast.Name) and first.id in _LIBRARY_NAMES
        return None if library or function.attr in _OF_ARRAYS or function.attr[:1].isupper() else function.attr
    return None


def _targets(statement: ast.stmt) -> Iterator[tuple[list[str], ast.expr]]:
    """The names that a statement sets together, and the expression that they depend on."""
    found: list[tuple[ast.expr, ast.expr]] = []
    if isinstance(statement, ast.Assign):
        found = [(target, statement.value) for target in statement.targets]
    elif isinstance(statement, ast.AugAssign | ast.AnnAssign) and statement.value is not None:
        found = [(statement.target, statement.value)]
    elif isinstance(statement, ast.For):
        found = [(statement.target, statement.iter)]
    for target, value in found:
        yield [node.id for node in ast.walk(target) if isinstance(node, ast.Name)], value


def _computations(tree: ast.FunctionDef) -> dict[str, set[str]]:
    """The calls that each local name depends on, as their text."""
    found: dict[str, set[str]] = {}
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    for statement in sorted(statements, key=lambda node: node.lineno):
        for names, value in _targets(statement):
            calls = _depends(value, found)
            for k, name in enumerate(names):  # the parts of what one call returns are different things
                parts = {f"{call}[{k}]" for call in calls} if len(names) > 1 else calls
                found.setdefault(name, set()).update(parts)
    return found


def _depends(expression: ast.expr, known: dict[str, set[str]]) -> set[str]:
    """The calls that an expression depends on."""
    calls: set[str] = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Call) and _called(node) is not None:
            calls.add(ast.unparse(node))
        elif isinstance(node, ast.Name):
            calls |= known.get(node.id, set())
    return calls


def _entries(side: ast.expr) -> list[ast.expr]:
    """The entries of a side that is written as an array, or the side."""
    if isinstance(side, ast.Call) and side.args and _name(side.func) in ("array", "append", "concatenate"):
        first = side.args[0]
        return list(first.elts) if isinstance(first, ast.List | ast.Tuple) else list(side.args)
    return list(side.elts) if isinstance(side, ast.List) else [side]


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else ""


@cache
def shared(claim: Claim) -> frozenset[str]:
    """The calls that both sides of a claim share, if neither makes a call of its own; otherwise empty.

    Sides that are written as arrays are compared entry by entry.  Objects that are not functions in a file are skipped.
    """
    try:
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(claim.function))).body
    except (OSError, SyntaxError):
        return frozenset()  # typed in, or in the middle of an expression
    if not isinstance(tree, ast.FunctionDef):
        return frozenset()
    known = _computations(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            left, right = (_entries(side) for side in node.value.elts)
            pairs = zip(left, right, strict=True) if len(left) == len(right) else [tuple(node.value.elts)]
            for one, other in pairs:
                calls = _depends(one, known)
                if calls and calls == _depends(other, known):
                    return frozenset(calls)
    return frozenset()
