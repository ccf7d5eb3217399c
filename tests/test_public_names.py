"""The public names: listed once for users and once for type checkers, documented, with an example that runs.

A parameter that is documented exists, and a parameter that exists is documented.  The place is the docstring of the
function, of the class for its constructor, and of the method or the method that it overrides.
"""

import doctest
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import corrnoise as cn

ROOT = Path(__file__).parents[1]
NAMES = [name for name in cn.__all__ if name != "__version__"]
Member = tuple[str, Any, list[str]]  #: a name, what it means, and the docstrings that may document its parameters


def documented(docstring: str) -> list[str]:
    """The names in the section *Parameters* of a docstring in the style of numpydoc."""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n---+$|\Z)", inspect.cleandoc(docstring), re.DOTALL | re.M)
    lines = section[1].splitlines() if section else []
    return [name.strip(" *") for line in lines if re.match(r"\S", line) for name in line.partition(" : ")[0].split(",")]


def members(name: str) -> Iterator[Member]:
    """A public name and, of a class, its public methods and properties that the project defines."""
    item = getattr(cn, name)
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


def test_names_are_the_same_for_users_and_type_checkers() -> None:
    text = (ROOT / "src/corrnoise/__init__.py").read_text()
    typed = {found[1] for found in re.finditer(r"^ +(?:from .* import )?(\w+) as \1\b", text, re.MULTILINE)}
    assert typed == set(NAMES) <= set(dir(cn))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cn.nonsense


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_documented(name: str) -> None:
    for member, item, docstrings in members(name):
        assert any(docstrings), f"{member} has no docstring"
        missing, invented = disagreement(item, docstrings)
        assert not missing, f"{member} does not document {', '.join(sorted(missing))}"
        assert not invented, f"{member} documents {', '.join(sorted(invented))} wrongly"


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(getattr(cn, name)) or ""), f"{name} has no example"


def test_examples_in_docstrings_print_what_they_say() -> None:
    command = ["-m", "pytest", "--doctest-modules", "--pyargs", "corrnoise", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=600)
    if done.returncode:
        pytest.fail(done.stdout, pytrace=False)


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
