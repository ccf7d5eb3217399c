"""Docstrings of the public names: numpydoc with types, sections for results and errors, examples to paste."""

import ast
import builtins
import doctest
import importlib
import inspect
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import corrnoise as cn
from corrnoise.support.deprecation import GOING

ROOT = Path(__file__).parents[1]
HOSTS = {"torch": "torch", "opacus": "opacus", "jax": "jax", "flower": "flwr"}  # modules and what they import
PAPERS = tuple(cn.papers.__all__)
OWN = [name for name in cn.__all__ if name not in HOSTS and callable(getattr(cn, name))]
MODULES = (
    *(name for name in cn.__all__ if name not in (*HOSTS, "papers") and inspect.ismodule(getattr(cn, name))),
    *(f"papers.{paper}" for paper in PAPERS),
)
VERB = re.compile(r"\b(is|are|be|was|has|have|must|may|can|gives?|returns?|holds?|takes?|that|which|whose)\b")
HEADER = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)* : (?P<type>.+)")
SENTENCE = re.compile(r"^ *Raises ``", re.M)
LONGEST_TYPE = 70  # characters
DOCUMENTED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module
FOLDERS = (
    *("src/corrnoise/support", "src/corrnoise/designs", "src/corrnoise/commands"),
    *("theory", "solvers", "simulations", "figures", "paper_checks", "tools", "benchmarks"),
)


def names_of(module: str) -> list[str]:
    """The public names of a module, as they follow ``cn.``."""
    return [f"{module}.{name}" for name in importlib.import_module(f"corrnoise.{module}").__all__]


NAMES = [*OWN, *(name for module in MODULES for name in names_of(module))]


def public(name: str) -> Any:
    """The object with a public name, such as ``mechanisms.NuFTRL``."""
    module, _, last = name.rpartition(".")
    return getattr(importlib.import_module(f"corrnoise.{module}" if module else "corrnoise"), last)


def members(name: str, item: Any) -> Iterator[tuple[str, Any, list[str]]]:
    """A public object and, of a class, its public members that stay, each with the docstrings that define it."""
    if not callable(item):
        return
    bases = inspect.getmro(item) if inspect.isclass(item) else (item,)
    yield name, item, [inspect.cleandoc(base.__doc__) for base in bases if base.__doc__ and base is not object]
    for member, value in inspect.getmembers_static(item) if inspect.isclass(item) else ():
        inner = getattr(value, "__func__", getattr(value, "func", getattr(value, "fget", value)))
        if member.startswith("_") or not getattr(inner, "__module__", "").startswith("corrnoise"):
            continue
        if inspect.isclass(inner) and member in vars(item):
            yield from members(f"{name}.{member}", inner)
        elif inspect.isfunction(inner) and f"{inner.__module__}.{inner.__qualname__}" not in GOING:
            texts = [getattr(base.__dict__.get(member), "__doc__", None) or "" for base in bases]
            attribute = inner is not getattr(value, "__func__", value)
            yield f"{name}.{member}", None if attribute else inner, [inspect.cleandoc(text) for text in texts if text]


def section(docstring: str, title: str) -> list[str]:
    """The lines of a section of a docstring in the style of numpydoc."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n---+$|\Z)", docstring, re.DOTALL | re.M)
    return [line for line in found[1].splitlines() if line.strip()] if found else []


def headers(docstring: str, title: str) -> list[str]:
    """The lines of a section that are not indented."""
    return [line for line in section(docstring, title) if not line.startswith(" ")]


def documented(docstring: str) -> list[str]:
    """The names of the parameters in a docstring."""
    return [name.strip(" *") for line in headers(docstring, "Parameters") for name in line.split(" : ")[0].split(",")]


def is_type(text: str) -> bool:
    """Whether a text can be a type: short, without a verb, and without the full stop of a sentence."""
    return len(text) <= LONGEST_TYPE and not VERB.search(text) and text[-1] not in ".:;,"


def returns(item: Any) -> bool:
    """Whether a function or method is annotated to return something."""
    result = getattr(inspect.unwrap(item), "__annotations__", {}).get("return", "None")
    return not inspect.isclass(item) and str(result) not in ("None", "<class 'NoneType'>", "Never", "NoReturn")


def signature(item: Any, otherwise: list[str]) -> list[str]:
    """The parameters of a function or class, or ``otherwise`` where its C code does not tell them."""
    try:
        return [name for name in inspect.signature(item).parameters if name not in ("self", "cls")]
    except ValueError:
        return otherwise


def faults(item: Any, docstrings: list[str]) -> Iterator[str]:
    """The places where a docstring breaks the rules.

    Parameters
    ----------
    item : Any
        A function or class; None for a property.
    docstrings : list of str
        The docstring, and the docstrings of overridden methods, whose sections count too.
    """
    if not docstrings or not docstrings[0]:
        yield "no docstring"
        return
    summary = docstrings[0].split("\n\n")[0]
    if "\n" in summary or not summary.endswith("."):
        yield f"summary of more than one line, or without a full stop: {summary!r}"
    if any(SENTENCE.search(text) for text in docstrings):
        yield "a sentence in place of the section Raises"
    if names := unbound(docstrings[0]):
        yield f"the example does not say where {', '.join(sorted(names))} comes from: use cn."
    if item is None:
        return
    known = {name for text in docstrings for name in documented(text)}
    parameters = signature(item, sorted(known))
    yield from (f"parameter {name} is missing" for name in parameters if name not in known)
    own = documented(docstrings[0])
    yield from (f"{name} is not a parameter" for name in own if name not in parameters)
    yield from (f"{name} is documented twice" for name in sorted({name for name in own if own.count(name) > 1}))
    for line in headers(docstrings[0], "Parameters"):
        header = HEADER.fullmatch(line)
        if header is None or not is_type(header["type"]):
            yield f"not a name and a type: {line!r}"
    results = [line for title in ("Returns", "Yields") for text in docstrings for line in headers(text, title)]
    if returns(item) and not results:
        yield "no section Returns or Yields"
    yield from (f"not a type: {line!r}" for line in results if not is_type(line))
    for title in ("Parameters", "Raises"):
        lines = [*section(docstrings[0], title), ""]
        for line, following in itertools.pairwise(lines):
            if not line.startswith(" ") and not following.startswith("    "):
                yield f"no indented description in {title}: {line!r}"
    yield from (f"not an exception: {line!r}" for line in headers(docstrings[0], "Raises") if not line.isidentifier())


def unbound(docstring: str) -> set[str]:
    """The names that the example of a docstring uses and neither imports nor sets."""
    source = "".join(example.source for example in doctest.DocTestParser().get_examples(docstring))
    nodes = list(ast.walk(ast.parse(source)))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {(node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)}
    return used - bound - set(dir(builtins))


def faults_of(name: str) -> list[str]:
    """All faults of the docstrings of a public name and of its members."""
    return [
        f"{member}: {fault}" for member, item, texts in members(name, public(name)) for fault in faults(item, texts)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_public_names_follow_numpydoc(name: str) -> None:
    assert not faults_of(name)


@pytest.mark.parametrize("module", HOSTS)
def test_adapters_follow_numpydoc(module: str) -> None:
    pytest.importorskip(HOSTS[module])
    assert not [fault for name in names_of(module) for fault in faults_of(name)]


def sentences(path: Path) -> list[str]:
    """The functions and classes of a file whose docstrings have a line that starts with "Raises ``"."""
    nodes = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, DOCUMENTED)]
    return [getattr(node, "name", path.stem) for node in nodes if SENTENCE.search(ast.get_docstring(node) or "")]


def test_no_docstring_says_in_a_sentence_what_it_raises() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): names for path in paths if (names := sentences(path))}
    assert len(paths) > 100
    assert not found


def _example(first: float, second: float = 1.0) -> float:
    """Add two numbers.

    Parameters
    ----------
    first : float
        A number.
    second : float, default 1.0
        Another number.

    Returns
    -------
    float
        The sum.

    Raises
    ------
    ValueError
        If a number is negative.

    Examples
    --------
    >>> import numpy as np
    >>> [np.abs(x) for x in range(2)]
    [0, 1]
    """
    return first + second


def test_a_good_docstring_passes() -> None:
    assert list(faults(_example, [inspect.getdoc(_example) or ""])) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("Add two numbers.", "Add two numbers", "full stop"),
        ("Add two numbers.", "Add two\nnumbers.", "summary"),
        ("second : float, default 1.0\n    Another number.\n", "", "second is missing"),
        ("second : float, default 1.0", "third : float", "third is not a parameter"),
        ("second : float, default 1.0", "second", "not a name and a type"),
        ("second : float, default 1.0", "second : the number that is added", "not a name and a type"),
        ("second : float, default 1.0", "second : float.", "not a name and a type"),
        ("second : float, default 1.0", "second : " + "float, " * 10 + "float", "not a name and a type"),
        ("second : float", "first, second : float", "documented twice"),
        ("    Another number.\n", "", "no indented description in Parameters"),
        ("Returns\n-------\nfloat\n    The sum.\n", "", "no section Returns"),
        ("float\n    The sum.", "The sum.", "not a type"),
        ("Raises\n------\nValueError\n    If", "Raises ``ValueError`` if", "in place of the section"),
        ("ValueError\n", "ValueError, TypeError\n", "not an exception"),
        ("ValueError\n    If a number is negative.\n", "ValueError\n", "no indented description in Raises"),
        (">>> import numpy as np\n", "", "where np comes from"),
    ],
)
def test_a_bad_docstring_is_seen(old: str, new: str, fault: str) -> None:
    good = inspect.getdoc(_example) or ""
    assert old in good
    assert any(fault in found for found in faults(_example, [good.replace(old, new)]))


def test_what_an_overridden_method_documents_counts() -> None:
    good = inspect.getdoc(_example) or ""
    assert list(faults(_example, ["Add two numbers.", good])) == []
    assert "parameter first is missing" in list(faults(_example, ["Add two numbers."]))


def test_a_sentence_in_a_file_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('def f():\n    """One.\n\n    Raises ``ValueError`` always.\n    """\n', "utf-8")
    assert sentences(path) == ["f"]
