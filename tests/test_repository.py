"""The repository as a whole: lint, types, the import name, the lazy face, and the wheel."""

import inspect
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import corrnoise as cn

ROOT = Path(__file__).parents[1]
FLOORS = ("theory", "solvers", "simulations", "figures", "paper_checks")


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("command", [("ruff", "check", "."), ("ruff", "format", "--check", "."), ("mypy",)])
def test_static_checks(command):
    done = run("-m", *command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_continuous_integration_runs_the_command_of_the_readme():
    commands = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert commands[1] in (ROOT / ".ci/run").read_text().splitlines()


def test_floors_have_no_generic_name_and_no_upward_import():
    assert not set(FLOORS) & set(sys.modules)
    order = {name: height for height, name in enumerate(("support", *FLOORS))}
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            text = path.read_text()
            assert not re.search(r"^ *(from corrnoise import|import corrnoise$)", text, re.M), (
                f"{path} imports the face"
            )
            for other in re.findall(r"(?:from|import) corrnoise\.(\w+)", text):
                assert order[other] <= order[floor], f"{path} imports corrnoise.{other}"
    for path in (ROOT / "src/corrnoise/support").glob("*.py"):
        assert set(re.findall(r"corrnoise\.(\w+)", path.read_text())) <= {"support"}


def test_public_names_load_lazily_and_are_documented():
    fresh = (
        "import sys, corrnoise; print(sorted(set(sys.modules) & {'numpy', 'scipy', 'numba', 'cvxpy', 'matplotlib'}))"
    )
    assert run("-c", fresh).stdout.strip() == "[]"
    text = (ROOT / "src/corrnoise/__init__.py").read_text()
    typed = {found[1] for found in re.finditer(r"^ +(?:from .* import )?(\w+) as \1\b", text, re.M)}
    assert typed == set(cn.__all__) - {"__version__"} <= set(dir(cn))
    for name in typed:
        item = getattr(cn, name)
        assert inspect.getdoc(item), name
        fields = getattr(item, "__dataclass_fields__", {})  # documented as parameters of the class
        for member, value in inspect.getmembers(item) if inspect.isclass(item) else ():
            assert member.startswith("_") or member in fields or inspect.getdoc(value), f"{name}.{member}"
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = cn.nonsense


def test_docstring_example_of_the_package():
    done = run("-m", "pytest", "--doctest-modules", "--pyargs", "corrnoise", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout


def test_readme_examples_run_and_print_what_they_say():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    code = "\n".join(blocks)
    done = run("-c", code)
    assert done.returncode == 0, done.stderr
    claimed = re.findall(r"print\(.*# ([\d.]+):", code)
    printed = done.stdout.split()
    assert len(claimed) == len(printed) > 0
    for says, value in zip(claimed, printed, strict=True):
        digits = len(says.partition(".")[2])
        assert f"{float(value):.{digits}f}" == says


def test_wheel_holds_every_module_and_nothing_generic(tmp_path):
    clean = tmp_path / "clone"  # a build leaves folders behind, which the next build would pack
    left = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, clean, symlinks=True, ignore=left)
    done = run("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(clean))
    assert done.returncode == 0, done.stdout + done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    face = ROOT / "src/corrnoise"
    expected = {"corrnoise/py.typed"} | {f"corrnoise/{p.name}" for p in face.glob("*.py")}
    for room in (p for p in face.iterdir() if p.is_dir() and p.name not in FLOORS):
        expected |= {f"corrnoise/{room.name}/{p.name}" for p in room.glob("*.py")}
    for floor in FLOORS:
        files = [p for p in (ROOT / floor).rglob("*") if p.suffix in {".py", ".mplstyle", ".css", ".html", ".js"}]
        expected |= {f"corrnoise/{p.relative_to(ROOT).as_posix()}" for p in files}
    expected |= {f"corrnoise/docs/{p.name}" for p in (ROOT / "docs").iterdir()}
    assert packed == expected


def test_no_path_of_one_machine():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    for name in listed or [str(p.relative_to(ROOT)) for floor in FLOORS for p in (ROOT / floor).rglob("*.py")]:
        path = ROOT / name
        if (
            path.is_file()
            and path.suffix in {".py", ".md", ".toml", ".cff", ".mplstyle", ".css", ".html", ".js"}
            and path != Path(__file__)
        ):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"/(tmp|work|root|home)/", text), name
            assert os.sep != "/" or str(ROOT) not in text
