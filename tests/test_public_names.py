"""The public names: listed once for users and once for type checkers, with an example that runs."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import corrnoise as cn
from tests.test_docstrings import PAPERS, members, names_of, public

ROOT = Path(__file__).parents[1]
FACE = ROOT / "src/corrnoise"
SHELVES = (
    "mechanisms",
    "families",
    "papers",
    "torch",
    "opacus",
    "jax",
    "flower",
    "participation",
    "privacy",
    "losses",
    "datasets",
    "ledger",
    "objectives",
)
NAMES = [name for name in cn.__all__ if name not in {"__version__", *SHELVES}]
#: What only a budget or a participation says.
CARRIED = {"rho", "epsilon", "adjacency", "clip_norm", "min_sep", "max_participations"}


def test_there_are_few_public_names() -> None:
    assert set(cn.__all__) == {*NAMES, *SHELVES, "__version__"}
    assert len(NAMES) + len(public("mechanisms").__all__) + len(PAPERS) + 3 <= 45
    with pytest.raises(AttributeError, match="nonsense"):
        _ = cn.nonsense  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("room", "stub", "package"),
    [
        (cn, "__init__", "corrnoise"),
        (cn.mechanisms, "mechanisms", "corrnoise"),
        (cn.families, "families", "corrnoise"),
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


WITHOUT_EXTRAS = [
    name for module in ("mechanisms", "losses", *(f"papers.{each}" for each in PAPERS)) for name in names_of(module)
]


@pytest.mark.parametrize("name", [*NAMES, *WITHOUT_EXTRAS])
def test_what_a_run_promises_is_carried_by_its_objects(name: str) -> None:
    """No budget or participation is typed in addition to these objects, and no multiplier comes without a program."""
    if name in ("Budget", "Participation"):
        return
    for member, item, _ in members(name, public(name)):
        if item is not None and not member.endswith(".delta_at"):  # it asks for the δ of an ε
            assert not CARRIED & set(inspect.signature(item).parameters), member
        assert "multiplier" not in member or name == "PrivateRun" or "papers" in name, member


def test_a_typed_budget_is_seen() -> None:
    assert CARRIED & set(inspect.signature(cn.Budget).parameters)
    assert CARRIED & set(inspect.signature(cn.privacy.gaussian_rho).parameters)


@pytest.mark.parametrize("name", NAMES)
def test_there_is_an_example(name: str) -> None:
    assert doctest.DocTestParser().get_examples(inspect.getdoc(public(name)) or ""), f"{name} has no example"


@pytest.mark.slow
def test_examples_in_docstrings_print_what_they_say() -> None:
    runner, modules = doctest.DocTestRunner(), [cn]
    modules += [importlib.import_module(found.name) for found in pkgutil.walk_packages(cn.__path__, "corrnoise.")]
    for module in modules:
        for test in doctest.DocTestFinder(exclude_empty=True).find(module):
            runner.run(test)
    assert (runner.failures, runner.tries > 100) == (0, True)
