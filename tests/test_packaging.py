"""Wheel, source distribution, import name and test command; no path of one machine is in the repository."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FACE = ROOT / "src/corrnoise"
FLOORS = ("theory", "solvers", "simulations", "figures", "paper_checks")
DATA = {".py", ".mplstyle", ".css", ".html", ".js", ".csv", ".json"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_continuous_integration_runs_the_commands_of_the_readme() -> None:
    _, *commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert [line for line in (ROOT / ".ci/run").read_text().splitlines() if ".venv" in line] == [
        line for command in commands for line in command.splitlines()
    ]


#: What takes long to import, or is used in one place only.
HEAVY = {"cvxpy", "jinja2", "joblib", "latex2mathml", "matplotlib", "mpmath", "numba", "scipy.optimize", "scipy.signal"}
BUDGET = "import corrnoise as cn; budget, run = cn.Budget(epsilon=2, delta=1e-6), cn.Participation.min_sep(8, 4)"


@pytest.mark.parametrize(
    ("work", "imported"),
    [
        ("import corrnoise", set()),
        (f"{BUDGET}; cn.mechanisms.DPSGD().program(run).multiplier(budget)", set()),
        ("import corrnoise as cn; cn.LinearRegression([1], .1).stationary_error(cn.mechanisms.NuFTRL(.1))", set()),
        ("import corrnoise as cn; cn.Design, cn.load, cn.claims(), cn.losses, cn.papers", {"numba"}),
        (f"{BUDGET}; cn.design(budget, run, memory=2)", {"numba", "scipy.optimize"}),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(work: str, imported: set[str]) -> None:
    done = run("-c", f"import sys; {work}; print(set(sys.modules) & {HEAVY | set(FLOORS)})")
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"'(.*?)'", done.stdout)) == imported


def test_the_import_itself_needs_no_numbers() -> None:
    assert run("-c", "import sys, corrnoise; assert not {'numpy', 'scipy'} & set(sys.modules)").returncode == 0


KEPT = {".ci", ".github", ".pre-commit-config.yaml"}


def left_behind(_: str, names: list[str]) -> set[str]:
    """What belongs to one machine."""
    hidden = {name for name in names if name.startswith(".") and name not in KEPT}
    return hidden | {name for name in names if name in ("build", "__pycache__") or name.endswith(".egg-info")}


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    clean = folder / "clone"  # a build leaves folders behind, which the next build would pack
    shutil.copytree(ROOT, clean, symlinks=True, ignore=left_behind)
    done = run("-m", "build", "--no-isolation", "--outdir", str(folder), str(clean))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def modules() -> set[str]:
    """All that is imported or read at run time, as in the wheel."""
    found = {"corrnoise/py.typed"}
    for room in (FACE, *(path for path in FACE.iterdir() if path.is_dir() and path.name not in FLOORS)):
        files = [path for path in room.iterdir() if path.suffix in (".py", ".pyi", ".html", ".css")]
        found |= {f"corrnoise/{path.relative_to(FACE).as_posix()}" for path in files}
    for floor in FLOORS:
        files = [path for path in (ROOT / floor).rglob("*") if path.suffix in DATA]
        found |= {f"corrnoise/{path.relative_to(ROOT).as_posix()}" for path in files}
    return found | {f"corrnoise/docs/{path.name}" for path in (ROOT / "docs").glob("*.md")}


def test_the_wheel_holds_every_module_and_nothing_else(distributions: Path) -> None:
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        assert {name for name in wheel.namelist() if ".dist-info/" not in name} == modules()


def test_the_source_distribution_holds_the_documents(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    documents = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*") if path.is_file()}
    top = {"README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"}
    top |= {"LICENSE", "NOTICE", "pyproject.toml", "setup.py", "recipe/recipe.yaml", ".pre-commit-config.yaml"}
    forge = {path.relative_to(ROOT).as_posix() for path in (ROOT / ".github").rglob("*.*") if path.is_file()}
    assert len(forge) > 6
    assert documents | top | forge <= packed


def test_the_source_distribution_holds_all_tests_and_the_tools(distributions: Path) -> None:
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    kept = {".py", ".json", ".npz", ".toml", ".css"}
    for folder in ("tests", "tools", "benchmarks"):
        files = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.suffix in kept}
        assert len(files) > 5
        assert files <= packed


@pytest.mark.slow
def test_tests_run_from_the_source_distribution(distributions: Path, tmp_path: Path) -> None:
    """Beside the installed package, as a packager runs them."""
    with tarfile.open(next(distributions.glob("*.tar.gz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    with zipfile.ZipFile(next(distributions.glob("*.whl"))) as wheel:
        wheel.extractall(tmp_path / "installed")
    [unpacked] = (path for path in tmp_path.iterdir() if path.name != "installed")
    names = [
        *(
            "tests/test_architecture.py",
            "tests/test_public_names.py",
            "tests/test_release.py",
            "tests/theory/test_privacy.py",
        ),
        *("tests/designs/test_storage.py", "tests/paper_checks/test_inventories.py", "tests/tools"),
        "tests/test_packaging.py::test_continuous_integration_runs_the_commands_of_the_readme",
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *names]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    done = subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


def test_no_path_of_one_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in listed or [str(path.relative_to(ROOT)) for floor in FLOORS for path in (ROOT / floor).rglob("*.py")]:
        path = ROOT / name
        if path.is_file() and path.suffix in DATA | {".md", ".toml", ".cff"} and path != Path(__file__):
            text = path.read_text(encoding="utf-8", errors="replace")  # the corpus has files that are not text
            assert not re.search(r"/(tmp|work|root|home)/", text), name
            assert os.sep != "/" or str(ROOT) not in text
