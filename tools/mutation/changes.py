"""The mutator: every change of a formula that a tester tries, as a change of the syntax tree of its function.

A term or factor is dropped, a sum becomes a maximum, a quantity becomes a constant, a quantity or number is scaled, two
arguments change places, an exponent or a logarithm changes, an operator is exchanged, a number grows or shrinks by 1.
What states no formula is left alone: subscripts, the arguments of ``int`` and ``round``, which make indices and counts,
conditions, texts, types and errors.

``sources`` writes the changes into the files of ``theory/``, for the tests; ``compiled`` puts them in the place of the
functions of a claim, for the ledger.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeGuard

FROZEN = "__frozen__"  #: the name of the function that freezes a quantity, in changed code
FREEZING = "quantity to constant"
#: Changes that replace a formula by an unrelated one.  The ledger's sample has none of them.
GROSS = ("exchange an operator", "step a number")
_LIBRARY_NAMES = {"np", "math", "m", "linalg", "special"}
_TO_MAXIMUM = {"sum": "max", "fsum": "max", "max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
_SYMMETRIC_FUNCTIONS = {"max", "min", "maximum", "minimum", "hypot", "agm", "twice"}
_MAX_SHOWN_CHARACTERS = 60  #: characters of an expression in a description
_BUILTIN_NAMES = {
    "float",
    "int",
    "abs",
    "len",
    "range",
    "bool",
    "str",
    "tuple",
    "list",
    "zip",
    "enumerate",
    "isinstance",
}
_WHOLE_FUNCTIONS = {"int", "round"}  #: make an index or a count of a number
_ARITHMETIC_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


class Change(NamedTuple):
    """One change of a syntax tree: the kind, the number of the node in the order of ``ast.walk``, and its successor."""

    kind: str
    node: int
    after: ast.expr


# -- changes of expressions --------------------------------------------------------------------------------------------


def _number(value: float) -> ast.expr:
    return ast.Constant(value) if value >= 0 else ast.UnaryOp(ast.USub(), ast.Constant(-value))


def _times(factor: float, node: ast.expr) -> ast.expr:
    return ast.BinOp(_number(factor), ast.Mult(), node)


def _power(node: ast.expr, exponent: float) -> ast.expr:
    return ast.BinOp(node, ast.Pow(), _number(exponent))


def _name(node: ast.expr) -> str:
    """The last name of a call."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _of_library(call: ast.Call) -> bool:
    """Whether a function of a library is called, or one of the language, or a class."""
    first = call.func
    while isinstance(first, ast.Attribute):
        first = first.value
    name = _name(call.func)
    known = isinstance(first, ast.Name) and first.id in _LIBRARY_NAMES | _BUILTIN_NAMES
    return known or name in _TO_MAXIMUM or name[:1].isupper() or name in ("number", "astype", "any", "all", "items")


def _sums(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    minus = isinstance(node.op, ast.Sub)
    yield "drop a term", node.left
    yield "drop a term", ast.UnaryOp(ast.USub(), node.right) if minus else node.right
    yield "change a sign", ast.BinOp(node.left, ast.Add() if minus else ast.Sub(), node.right)


def _products(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    quotient = isinstance(node.op, ast.Div)
    if not isinstance(node.right, ast.Constant):
        yield "drop a factor", node.left
    if not isinstance(node.left, ast.Constant):
        yield "drop a factor", ast.BinOp(ast.Constant(1.0), ast.Div(), node.right) if quotient else node.right


def _powers(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node.right, ast.Constant) and isinstance(node.right.value, int | float):
        exponent = node.right.value
        for other in (exponent - 1, exponent + 1) if abs(exponent) > 1 else (exponent / 2, exponent * 1.5):
            yield "change an exponent", _power(node.left, other)
    else:
        for factor in (0.95, 1.05):
            yield "change an exponent", ast.BinOp(node.left, ast.Pow(), _times(factor, node.right))


def _inner_products(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    product = ast.BinOp(node.left, ast.Mult(), node.right)
    yield "sum to maximum", ast.Call(ast.Attribute(product, "max", ast.Load()), [], [])


_OPERATOR_CHANGES: dict[type[ast.operator], Callable[[ast.BinOp], Iterator[tuple[str, ast.expr]]]] = {
    ast.Add: _sums,
    ast.Sub: _sums,
    ast.Mult: _products,
    ast.Div: _products,
    ast.Pow: _powers,
    ast.MatMult: _inner_products,
}


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name = _name(node.func)

    def with_arguments(arguments: list[ast.expr], function: ast.expr = node.func) -> ast.expr:
        return ast.Call(function, arguments, node.keywords)

    if name in _TO_MAXIMUM:
        other = _TO_MAXIMUM[name]
        function = (
            ast.Attribute(node.func.value, "max" if name == "fsum" else other, ast.Load())
            if isinstance(node.func, ast.Attribute) and name != "fsum"
            else ast.Name(other, ast.Load())
        )
        yield (
            ("sum to maximum" if "sum" in name else "exchange maximum and minimum"),
            with_arguments(node.args, function),
        )
        if name in ("max", "min", "maximum", "minimum") and len(node.args) > 1:
            for argument in node.args:
                yield "drop a term", argument
    if name == "sqrt" and node.args:
        yield "change an exponent", _power(node.args[0], 0.45)
        yield "change an exponent", _power(node.args[0], 0.55)
    if name in ("log", "log2") and len(node.args) == 1:
        yield "drop a logarithm", ast.Constant(1.0)
        yield "change an exponent", _power(node, 2.0)
    if name == "exp" and len(node.args) == 1:
        for factor in (0.95, 1.05):
            yield "change an exponent", with_arguments([_times(factor, node.args[0])])
    if not _of_library(node):
        for factor in (0.9, 1.1):
            yield "scale a quantity", _times(factor, node)
        yield FREEZING, _frozen(node)
    swappable = len(node.args) > 1 and not any(isinstance(argument, ast.Starred) for argument in node.args)
    if swappable and name not in _SYMMETRIC_FUNCTIONS and not _of_library(node):
        yield "exchange arguments", with_arguments([node.args[1], node.args[0], *node.args[2:]])


def _frozen(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(FROZEN, ast.Load()), [node], [])


def _expressions(node: ast.expr, scalars: set[str]) -> Iterator[tuple[str, ast.expr]]:
    """The changes of one expression; ``scalars`` are the names of arguments."""
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATOR_CHANGES:
        yield from _OPERATOR_CHANGES[type(node.op)](node)
        yield from _exchanged(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "exchange an operator", node.operand
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and node.value.id in scalars:
            yield FREEZING, _frozen(node)
            yield from (("scale a quantity", _times(factor, node)) for factor in (0.9, 1.1))
    elif isinstance(node, ast.Name) and node.id in scalars:
        yield FREEZING, _frozen(node)
    elif isinstance(node, ast.Constant) and _is_number(node.value):
        if node.value not in (0, 1):
            yield from (("change a number", _number(node.value * factor)) for factor in (2 / 3, 1.5))
        yield from (("step a number", _number(node.value + step)) for step in (1, -1))


def _exchanged(node: ast.BinOp) -> Iterator[tuple[str, ast.expr]]:
    """Other operators in the place of one; a sum for a difference is a change of sign."""
    if type(node.op) in _ARITHMETIC_OPERATORS:
        for other in _ARITHMETIC_OPERATORS:
            if other is not type(node.op) and {other, type(node.op)} != {ast.Add, ast.Sub}:
                yield "exchange an operator", ast.BinOp(node.left, other(), node.right)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, float | int) and not isinstance(value, bool)


class _Places(ast.NodeVisitor):
    """The expressions that state a formula: not subscripts, counts, conditions, texts, types or errors."""

    def __init__(self) -> None:
        self.found: list[ast.expr] = []

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(getattr(node, "ctx", None), ast.Store):
            return  # targets of assignments
        if isinstance(node, ast.expr):
            self.found.append(node)
        super().generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """The function of a call does not count as an expression of its own; the object before the dot does."""
        if isinstance(node.func, ast.Name) and node.func.id in _WHOLE_FUNCTIONS:
            return
        self.found.append(node)
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.visit(argument)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit(node.body)
        self.visit(node.orelse)

    def visit_If(self, node: ast.If) -> None:
        for statement in (*node.body, *node.orelse):
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def ignore(self, node: ast.AST) -> None:
        """These hold no formula."""

    visit_JoinedStr = visit_Raise = visit_Assert = visit_Import = visit_ImportFrom = visit_Compare = ignore  # noqa: N815


def changes(function: ast.FunctionDef) -> Iterator[Change]:
    """Every change of a function, in a fixed order."""
    scalars = {argument.arg for argument in (*function.args.args, *function.args.kwonlyargs)}
    numbers = {id(node): number for number, node in enumerate(ast.walk(function))}
    places = _Places()
    places.visit(function)
    for node in places.found:
        for kind, after in _expressions(node, scalars):
            yield Change(kind, numbers[id(node)], after)


def changed(function: ast.FunctionDef, change: Change) -> tuple[str, ast.FunctionDef]:
    """The expression before a change, and the function after it."""
    changed = copy.deepcopy(function)
    wanted = list(ast.walk(changed))[change.node]

    class Exchange(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return copy.deepcopy(change.after) if node is wanted else super().generic_visit(node)

    before = ast.unparse(wanted)
    return before, ast.fix_missing_locations(Exchange().visit(changed))


def short(text: str) -> str:
    """The text of an expression, cut where it is long."""
    text = text.replace(f"{FROZEN}(", "constant(")
    return text if len(text) <= _MAX_SHOWN_CHARACTERS else text[: _MAX_SHOWN_CHARACTERS - 1] + "…"
