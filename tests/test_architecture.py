"""The import graph: floors without upward imports, no circles between modules or rooms, pure functions in ``theory``.

Every import counts: at the top of a module, inside a function, and for type checkers only.  A circle of any of these
kinds means that two files cannot be understood one after the other.
"""

import ast
import functools
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACE = ROOT / "src/corrnoise"
FLOORS = ("theory", "solvers", "simulations", "figures", "paper_checks")
#: From the ground up; "" is the face itself.
ORDER = ("support", "theory", "solvers", "simulations", "figures", "designs", "paper_checks", "commands", "")
SEARCHES = {"scipy.optimize", "cvxpy"}
RANDOM = {"random", "secrets", "numpy.random"}
FILES = {"pathlib", "os", "io", "shutil", "tempfile", "matplotlib", "joblib"}
#: Packages that a floor does not import: theory is pure functions, solvers search but draw nothing and touch no file.
FORBIDDEN = {"theory": SEARCHES | RANDOM | FILES, "solvers": RANDOM | FILES}

Graph = dict[str, set[str]]


def sources() -> dict[str, str]:
    """The source of every module by its name without ``corrnoise.``; the face is "", its command line "__main__"."""
    found = {}
    for base, folders in ((ROOT, FLOORS), (FACE, ("support", "designs", "commands"))):
        for folder in folders:
            for path in (base / folder).rglob("*.py"):
                parts = path.relative_to(base).with_suffix("").parts
                found[".".join(part for part in parts if part != "__init__")] = path.read_text(encoding="utf-8")
    return found | {"": (FACE / "__init__.py").read_text(), "__main__": (FACE / "__main__.py").read_text()}


@functools.cache
def nodes(source: str) -> list[ast.AST]:
    """All nodes of a source, parsed once for all tests."""
    return list(ast.walk(ast.parse(source)))


@functools.cache
def imports(source: str, known: frozenset[str]) -> set[str]:
    """The modules that a source imports anywhere; modules of the project are named as in ``sources``."""
    found = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            for name in node.names:
                whole = f"{node.module}.{name.name}"
                inside = whole.removeprefix("corrnoise.") in known or whole in SEARCHES | RANDOM
                found.add(whole if inside else str(node.module))
    return {name.removeprefix("corrnoise").removeprefix(".") if "corrnoise" in name else name for name in found}


def graph(modules: Mapping[str, str]) -> Graph:
    """Every module with all that it imports."""
    known = frozenset(modules)
    return {name: imports(source, known) for name, source in modules.items()}


def floor(module: str) -> int:
    first = module.partition(".")[0]
    return ORDER.index(first if first in ORDER else "")


def upward(drawn: Graph) -> list[tuple[str, str]]:
    """Imports of the project that lead to a higher floor."""
    return [(a, b) for a, others in drawn.items() for b in others & drawn.keys() if floor(b) > floor(a)]


def circle(drawn: Mapping[str, Iterable[str]]) -> list[str]:
    """A circle of the graph, or nothing."""
    try:
        TopologicalSorter(drawn).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def room(module: str) -> str:
    """The package or module directly under the floor."""
    return ".".join(module.split(".")[:2])


def searching_runs(drawn: Graph) -> list[tuple[str, str]]:
    """Modules of runs that import a solver: a run takes a mechanism, or a function that finds it."""
    return [
        (module, other)
        for module, others in drawn.items()
        if module.startswith("simulations.run")
        for other in others
        if other.partition(".")[0] == "solvers"
    ]


def rooms(drawn: Graph) -> Graph:
    merged: Graph = {}
    for module, others in drawn.items():
        merged.setdefault(room(module), set()).update(room(other) for other in others & drawn.keys())
    return {name: others - {name} for name, others in merged.items()}


def impure(drawn: Graph) -> list[tuple[str, str]]:
    """Imports of other packages that a floor does not have."""
    return [
        (module, other)
        for module, others in drawn.items()
        for other in others
        for name in FORBIDDEN.get(module.partition(".")[0], ())
        if re.match(rf"{re.escape(name)}(\.|$)", other)
    ]


def test_the_house_stands() -> None:
    drawn = graph(sources())
    assert len(drawn) > 100
    assert sum(len(others & drawn.keys()) for others in drawn.values()) > 400
    assert upward(drawn) == []
    assert circle({name: others & drawn.keys() for name, others in drawn.items()}) == []
    assert circle(rooms(drawn)) == []
    assert impure(drawn) == []
    assert searching_runs(drawn) == []


@pytest.mark.parametrize(
    ("module", "line", "fault"),
    [
        ("theory.privacy", "from corrnoise.solvers import tuning", upward),
        ("theory.privacy", "def f():\n    from corrnoise.simulations.quadratic import simulate", upward),
        ("support.files", "import corrnoise.theory.privacy", upward),
        ("figures.simulation", "from corrnoise import __version__", upward),
        ("figures.simulation", "import corrnoise", upward),
        ("designs.make", "from corrnoise.commands import tables", upward),
        ("designs.page", "def f():\n    from corrnoise.paper_checks import machinery", upward),
        ("theory.numerics.checks", "from corrnoise.theory import privacy", circle),
        (
            "theory.numerics.checks",
            "if TYPE_CHECKING:\n    from corrnoise.theory import privacy",
            circle,
        ),
        ("theory.numerics.arithmetic", "from corrnoise.theory.privacy import gaussian_rho", lambda d: circle(rooms(d))),
        ("theory.privacy", "from scipy import optimize", impure),
        ("theory.privacy", "from scipy.optimize import brentq", impure),
        ("solvers.tuning", "import numpy.random", impure),
        ("theory.privacy", "from pathlib import Path", impure),
        (
            "simulations.run.engines",
            "def f():\n    from corrnoise.solvers import default",
            searching_runs,
        ),
    ],
)
def test_a_planted_fault_is_seen(module: str, line: str, fault) -> None:
    modules = sources()
    drawn = graph(modules | {module: f"{modules[module]}\n{line}\n"})
    if fault is circle:
        drawn = {name: others & drawn.keys() for name, others in drawn.items()}
    assert fault(drawn)


def test_solvers_define_no_noise() -> None:
    homes = {
        name
        for name, source in sources().items()
        for node in nodes(source)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Noise") for base in node.bases)
    }
    assert "theory.mechanisms.product" in homes
    assert not [name for name in homes if name.startswith(("solvers.", "simulations.", "figures."))]


def one_word_constants(modules: Mapping[str, str]) -> set[str]:
    """Private constants whose names are one word, which rarely says what they limit, and in which unit."""
    return {
        f"{module}.{node.id}"
        for module, source in modules.items()
        for node in nodes(source)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and re.fullmatch("_[A-Z0-9]+", node.id)
    }


def test_private_constants_have_names_of_two_words() -> None:
    modules = sources()
    found = one_word_constants(modules)
    assert len(found) <= 53
    planted = modules | {"figures.simulation": f"{modules['figures.simulation']}\n_MOST = 1\n"}
    assert one_word_constants(planted) - found == {"figures.simulation._MOST"}


#: What reads bytes or makes digests, and the modules that do it for all others.
READERS = {
    r"\bnp\.load\(|\bpickle\.loads?\(|\bloadtxt\(|\bgenfromtxt\(|\bfromfile\(|\bZipFile\(\w+\)": {"support.reading"},
    r"\.read_bytes\(\)|\bjson\.loads?\(": {"support.reading"},
    r"\bimport hashlib\b|\bfrom hashlib\b": {
        "support.serialise",
        "simulations.run.draws",
        "simulations.adapters.identity",  # of more bytes than the memory holds
    },
}


def own_readers(modules: Mapping[str, str]) -> list[tuple[str, str]]:
    """Modules that read bytes from outside without the limits of ``support.reading``, or make digests of their own.

    The papers and pages of this project are not from outside.
    """
    return [
        (name, found[0])
        for name, source in modules.items()
        if not name.startswith("paper_checks.")
        for pattern, homes in READERS.items()
        if name not in homes and (found := re.search(pattern, source))
    ]


@pytest.mark.parametrize(
    "line", ["np.load(file)", "text = path.read_bytes()", "json.loads(text)", "import hashlib", "pickle.load(file)"]
)
def test_bytes_from_outside_have_one_reader(line: str) -> None:
    modules = sources()
    assert own_readers(modules) == []
    assert own_readers(modules | {"figures.simulation": f"{modules['figures.simulation']}\n{line}\n"})


def several_homes(modules: Mapping[str, str]) -> set[str]:
    """Names of classes that are defined in more than one module; a leading underscore does not count."""
    homes: dict[str, set[str]] = {}
    for module, source in modules.items():
        for node in nodes(source):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name.lstrip("_"), set()).add(module)
    return {name for name, found in homes.items() if len(found) > 1}


def test_a_class_name_has_one_home() -> None:
    modules = sources()
    found = several_homes(modules)
    assert len(found) <= 12
    assert not found & {"Run", "Plan", "Point", "Objective", "Spectrum", "Bound", "Progress"}
    planted = f"{modules['theory.privacy']}\nclass _Plan:\n    pass\n"
    assert several_homes(modules | {"theory.privacy": planted}) == found | {"Plan"}


#: Private names that subclasses and hosts outside of a module use, too.
PROTECTED = {"_check", "_repr_html_", "_replace", "_set"}


def private_names(source: str) -> set[str]:
    """The private names of functions, classes, variables and attributes that a source defines."""
    found = set()
    for node in nodes(source):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return {name for name in found if re.match("_[A-Za-z]", name)} - PROTECTED


def private_uses(source: str, defined: set[str]) -> set[str]:
    """The private names of other files that a test imports, reads, or names in a string to replace them."""
    found = set()
    for node in nodes(source):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.rpartition(".")[2])
    return found & defined - private_names(source)


def test_few_tests_touch_private_members() -> None:
    """Tests use what a module offers: an algorithm with tests of its own is a public function of its module."""
    defined = set().union(*map(private_names, sources().values()))
    tests = {path: path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)}
    found = {path for path, source in tests.items() if private_uses(source, defined)}
    assert len(found) <= 40
    for line in ("run._durable", "from corrnoise.simulations.run.folder import _state_folder", "'folder._make_marks'"):
        assert private_uses(line, defined)
    assert not private_uses("class A:\n    def f(self):\n        self._durable = 1\nA()._durable", defined)
