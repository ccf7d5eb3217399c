"""The public names: listed once for users and once for type checkers, documented, with an example that runs.

A parameter that is documented exists, and a parameter that exists is documented.  The place is the docstring of the
function, of the class for its constructor, and of the method or the method that it overrides.
"""

import doctest
import functools
import importlib
import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import corrnoise as cn

ROOT = Path(__file__).parents[1]
FACE = ROOT / "src/corrnoise"
SHELVES = ("mechanisms", "papers", "torch", "opacus", "jax", "flower", "privacy", "losses", "datasets")
PAPERS = ("correlated_noise", "momentum_aggregation", "noise_cancellation", "shuffled_gradients")
NAMES = [name for name in cn.__all__ if name not in {"__version__", *SHELVES}]
#: What only a budget or a participation says.
CARRIED = {"rho", "epsilon", "adjacency", "clip_norm", "min_sep", "max_participations"}
Member = tuple[str, Any, list[str]]  #: a name, what it means, and the docstrings that may document its parameters


def documented(docstring: str) -> list[str]:
    """The names in the section *Parameters* of a docstring in the style of numpydoc."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n---+$|\Z)", inspect.cleandoc(docstring), re.DOTALL | re.M)
    lines = section[1].splitlines() if section else []
    return [name.strip(" *") for line in lines if re.match(r"\S", line) for name in line.partition(" : ")[0].split(",")]


def public(name: str) -> Any:
    """The public name, which may be that of a shelf, as in ``mechanisms.NuFTRL``."""
    return functools.reduce(getattr, name.split("."), cn)


def shelved() -> list[str]:
    """The names on the shelves that need no extra."""
    rooms = ["mechanisms", "losses", *(f"papers.{paper}" for paper in PAPERS)]
    return [f"{room}.{name}" for room in rooms for name in public(room).__all__]


def members(name: str) -> Iterator[Member]:
    """A public name and, of a class, its public methods and properties that the project defines."""
    item = public(name)
    yield name, item, [inspect.getdoc(item) or ""]
    for member, value in inspect.getmembers_static(item) if inspect.isclass(item) else ():
        inner = getattr(value, "__func__", getattr(value, "fget", value))
        if not member.startswith("_") and inspect.isfunction(inner) and inner.__module__.startswith("corrnoise"):
            texts = [getattr(base.__dict__.get(member), "__doc__", None) or "" for base in item.__mro__]
            yield f"{name}.{member}", inner, texts


def disagreement(item: Any, docstrings: list[str]) -> tuple[set[str], set[str]]:
    """Parameters that are not documented, and documented names that are no parameters or are documented twice."""
    parameters = {name for name in inspect.signature(item).parameters if name not in {"self", "cls"}}
    known = {name for text in docstrings for name in documented(text)}
    own = Counter(documented(docstrings[0]))
    return parameters - known, {name for name, times in own.items() if name not in parameters or times > 1}


def test_there_are_few_public_names() -> None:
    assert set(cn.__all__) == {*NAMES, *SHELVES, "__version__"}
    assert len(NAMES) + len(public("mechanisms").__all__) + len(PAPERS) + 3 <= 39
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cn.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("room", "stub", "package"),
    [
        (cn, "__init__", "corrnoise"),
        (cn.mechanisms, "mechanisms", "corrnoise"),
        (cn.papers, "papers/__init__", "corrnoise.papers"),
    ],
)
def test_type_checkers_see_what_users_see(room: ModuleType, stub: str, package: str) -> None:
    lines = re.findall(r"^from (\.\S*) import (\w+) as (\w+)$", (FACE / f"{stub}.pyi").read_text("utf-8"), re.M)
    assert sorted(name for *_, name in lines) == sorted(room.__all__)
    for place, name, public_name in lines:
        home = importlib.import_module(place, package)
        assert name == public_name
        assert getattr(room, name) is (getattr(home, name, None) or importlib.import_module(f"{home.__name__}.{name}"))


@pytest.mark.parametrize("name", [*NAMES, *shelved()])
def test_what_a_run_promises_is_carried_by_its_objects(name: str) -> None:
    """No budget or participation is typed beside these objects, and no multiplier comes without a program."""
    if name in ("Budget", "Participation"):
        return
    for member, item, _ in members(name):
        if not member.endswith(".delta_at"):  # it asks for the δ of an ε
            assert not CARRIED & set(inspect.signature(item).parameters), member
        assert "multiplier" not in member or name == "PrivateRun" or "papers" in name, member


def test_a_typed_budget_is_seen() -> None:
    assert CARRIED & set(inspect.signature(cn.Budget).parameters)
    assert CARRIED & set(inspect.signature(cn.privacy.gaussian_rho).parameters)


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_documented(name: str) -> None:
    for member, item, docstrings in members(name):
        assert any(docstrings), f"{member} has no docstring"
        missing, invented = disagreement(item, docstrings)
        assert not missing, f"{member} does not document {', '.join(sorted(missing))}"
        assert not invented, f"{member} documents {', '.join(sorted(invented))} wrongly"


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(public(name)) or ""), f"{name} has no example"


def test_examples_in_docstrings_print_what_they_say() -> None:
    runner, modules = doctest.DocTestRunner(), [cn]
    modules += [importlib.import_module(found.name) for found in pkgutil.walk_packages(cn.__path__, "corrnoise.")]
    for module in modules:
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(test)
    assert (runner.failures, runner.tries > 100) == (0, True)


def _documents_too_much(first: float) -> None:
    """One.

    Parameters
    ----------
    first, second
        Two.
    """


def _documents_too_little(first: float, *, second: float) -> None:
    """One.

    Parameters
    ----------
    first
        A number.

    Returns
    -------
    second
        Not a parameter.
    """


@pytest.mark.parametrize(
    ("function", "found"),
    [(_documents_too_much, (set(), {"second"})), (_documents_too_little, ({"second"}, set()))],
)
def test_a_wrong_docstring_is_seen(function: Callable[..., None], found: tuple[set[str], set[str]]) -> None:
    assert disagreement(function, [inspect.getdoc(function) or ""]) == found
