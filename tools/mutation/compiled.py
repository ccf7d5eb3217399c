"""Mutants of claims: changed code in the place of the functions that a claim runs, its own and formulas of papers."""

import ast
import copy
import functools
import gc
import inspect
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.ledger import Claim
from tools.mutation.changes import FREEZING, FROZEN, GROSS, Change, changed, changes, short

#: The rooms of ``theory`` that hold formulas of papers.
ROOMS = ("correlated_noise", "shuffled_gradients", "momentum_aggregation", "noise_cancellation")


@dataclass(frozen=True)
class Mutant:
    """A changed function: its name, the kind of the change, and what became of what."""

    function: FunctionType
    kind: str
    before: str
    after: str
    code: CodeType
    fixed: frozenset[str] = frozenset()  #: the parameters that occur only in a quantity that becomes a constant

    def __str__(self) -> str:
        return f"{self.function.__name__}: {self.before} → {self.after}"


class _Freezer:
    """Returns its first argument ever, if that is a number; other arguments are returned as they are."""

    def __init__(self) -> None:
        self.value: Any = None

    def __call__(self, value: Any) -> Any:
        scalar = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if self.value is None and scalar:
            self.value = value
        return self.value if scalar else value


@functools.cache
def _functions(path: str) -> Mapping[tuple[str, int], ast.FunctionDef]:
    """The functions of a file by name and first line, decorators included."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {(node.name, min([node.lineno, *(d.lineno for d in node.decorator_list)])): node for node in found}


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """The function with its code alone, without decorators, types and defaults."""
    bare = copy.deepcopy(function)
    bare.decorator_list = []
    bare.returns = None
    arguments = bare.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        argument.annotation = None
    for starred in (arguments.vararg, arguments.kwarg):
        if starred is not None:
            starred.annotation = None
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    return bare


def _compiled(function: ast.FunctionDef, path: str) -> CodeType:
    code = compile(ast.Module([function], []), path, "exec")
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


def mutants_of(function: FunctionType) -> Iterator[Mutant]:
    """Every mutant of one function but the gross ones; none if its code cannot be exchanged."""
    tree = _functions(function.__code__.co_filename).get((function.__code__.co_name, function.__code__.co_firstlineno))
    if tree is None:
        return
    bare = _bare(tree)
    for change in changes(bare):
        if change.kind in GROSS:
            continue
        before, mutated = changed(bare, change)
        code = _compiled(mutated, function.__code__.co_filename)
        if code.co_freevars == function.__code__.co_freevars:
            yield Mutant(
                function, change.kind, short(before), short(ast.unparse(change.after)), code, _fixed(bare, change)
            )


def _fixed(function: ast.FunctionDef, change: Change) -> frozenset[str]:
    """The parameters of a quantity that becomes a constant, if they occur only there, with no other variables."""
    if change.kind != FREEZING:
        return frozenset()
    arguments = function.args
    parameters = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    frozen = list(ast.walk(function))[change.node]
    inside = Counter(node.id for node in ast.walk(frozen) if isinstance(node, ast.Name))
    names = Counter(node.id for node in ast.walk(function) if isinstance(node, ast.Name))
    assigned = {
        node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    inner = any(isinstance(node, ast.Lambda | ast.FunctionDef) for node in ast.walk(function) if node is not function)
    alone = all(inside[name] == names[name] for name in inside.keys() & parameters)
    return (
        frozenset(inside.keys() & parameters) if alone and not inside.keys() & assigned and not inner else frozenset()
    )


# -- the functions of a claim ------------------------------------------------------------------------------------------


def _states_formulas(code: CodeType, claim: Claim) -> bool:
    """Whether code belongs to the module of the claim, or to a formula of a paper or a bound in ``theory``.

    The problems are arguments of the claims: another R², say, is another problem.
    """
    if not code.co_name.isidentifier():
        return False
    path = Path(code.co_filename)
    if path == Path(inspect.getfile(claim.function)):
        return True
    named = "bound" in code.co_name and path.parent.name != "problems"
    return "theory" in path.parts and (path.parent.name in ROOMS or named)


def caches() -> list[Any]:
    """All functions of the project that keep their values."""
    return [
        found
        for found in gc.get_objects()
        if type(found) is functools._lru_cache_wrapper and str(found.__module__).startswith("corrnoise.")
    ]


def functions_of(claim: Claim, points: Sequence[Any]) -> list[FunctionType]:
    """The functions with formulas that run when the claim is evaluated at points of its cube, the claim's own first."""
    for cache in caches():
        cache.cache_clear()
    codes: dict[CodeType, None] = {}

    def watch(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            codes[frame.f_code] = None

    places = [claim.domain.arguments(point) for point in points]
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        for arguments in places:
            claim.sides(arguments)
    finally:
        sys.setprofile(before)
    wanted = [code for code in codes if _states_formulas(code, claim)]
    owners = {found.__code__: found for found in gc.get_objects() if type(found) is FunctionType}
    return [owners[code] for code in wanted if code in owners]


@contextmanager
def in_place(mutant: Mutant, kept: Iterable[Any]) -> Iterator[None]:
    """Run with the mutant's code in the place of its function's; ``kept`` are the caches to empty."""
    function = mutant.function
    original = function.__code__
    function.__globals__[FROZEN] = _Freezer()
    function.__code__ = mutant.code
    try:
        for cache in kept:
            cache.cache_clear()
        yield
    finally:
        function.__code__ = original
        del function.__globals__[FROZEN]
        for cache in kept:
            cache.cache_clear()
