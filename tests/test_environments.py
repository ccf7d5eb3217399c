"""Environments of the host: containers, clusters, encodings, options of Python.  Every test starts a process.

The slow tests run a design, a run in a folder, a check and a figure in each environment; the others run the
calls that once failed there.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numba
import pytest

import corrnoise

SOURCES = Path(corrnoise.__file__).parents[1]
LIBRARIES = f"import sys; sys.path.insert(0, {str(Path(numba.__file__).parents[1])!r})"
NOWHERE = "/dev/null/none"  # no folder can be made there, not even by root
STRANGER = 54321  # a user without an entry in the table of users
FOLDERS = ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR", "NUMBA_CACHE_DIR")
HOMELESS = dict.fromkeys(FOLDERS)
UNWRITABLE = dict.fromkeys(FOLDERS, NOWHERE)
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root, to be another user")

COMMAND = "from corrnoise.__main__ import main; sys.exit(main())"
KERNEL = """
import logging; logging.basicConfig()
import corrnoise as cn
print(cn.mechanisms.NuFTRL(0.02).sensitivity(cn.Participation.fixed_epochs(40, epochs=4)))
"""
MULTIPLIER = """
import corrnoise as cn
program = cn.mechanisms.DPSGD().program(cn.Participation.poisson(200, 0.1))
print(program.multiplier(cn.Budget(epsilon=1.0, delta=1e-5)))
"""
NOISE = """
import hashlib
import numpy as np
import corrnoise as cn
from corrnoise.simulations.run.normals import fill
from corrnoise.simulations.run.stream import Stream
values = np.empty(1001)
fill(values, np.uint64(0x123456789ABCDEF0), np.uint64(2**63 + 5), 5)
digest = hashlib.sha256(values.tobytes())
for noise in (cn.mechanisms.FiniteNoise([1, -0.5]), cn.mechanisms.AntiPGD(0.2), cn.mechanisms.BinaryTree(8)):
    for one in Stream(noise.program(cn.Participation.fixed_epochs(8, epochs=2)), (33,), rng=7):
        digest.update(one.tobytes())
print(digest.hexdigest())
"""
EVERYTHING = """
from pathlib import Path
import numpy as np, corrnoise as cn
from corrnoise.figures import paper_figure
from corrnoise.figures.publication import publish
folder = Path(sys.argv[1])
budget, order = cn.Budget(epsilon=2.0, delta=1e-6, clip_norm=1.0), cn.Participation.fixed_epochs(40, epochs=4)
design = cn.design(budget, order, memory=1)
kept = cn.Folder(folder / "run", marks=folder / "marks")
run, model = design.run(3, batches=cn.batches(order, examples=320, batch_size=32), folder=kept), np.zeros(3)
for batch in run:
    model -= 0.1 * run.add_noise(np.zeros(3)) / 32
assert np.isfinite(model).all() and model.any()
assert len(publish(paper_figure("mean_estimation"), folder)) == 3
[claim] = cn.claims("correlated-noise", name="Lemma C.21 (i)")
try:
    print(f"{design.error:.9f}", claim.check().verdict)
except ImportError as error:
    assert sys.flags.optimize > 1, error
    print(f"{design.error:.9f}", "holds" if "run python without -OO" in str(error) else error)
"""
THREADS = """
import threading
import corrnoise as cn

def design(number):
    order = (cn.Participation.fixed_epochs, cn.Participation.reshuffled)[number % 2](40 + 4 * number, epochs=4)
    cn.design(cn.Budget(epsilon=2.0, delta=1e-6), order, memory=2)
    done.append(number)

done = []
threads = [threading.Thread(target=design, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(done))
"""


@dataclass(frozen=True)
class Environment:
    """Options of Python, variables that are set or (None) missing, code that runs first, the user, and the package."""

    options: tuple[str, ...] = ()
    variables: Mapping[str, str | None] = field(default_factory=dict)
    before: str = ""
    stranger: bool = False
    zipped: bool = False


ENVIRONMENTS = {
    "usual": Environment(),
    "random user without HOME": Environment(variables=HOMELESS, stranger=True),
    "read-only package and home": Environment(variables=HOMELESS | {"HOME": "/"}, stranger=True),
    "no numba cache": Environment(variables=UNWRITABLE, zipped=True),
    "ascii": Environment(variables={"PYTHONIOENCODING": "ascii"}),
    "-OO": Environment(options=("-OO",)),
    "zip": Environment(zipped=True),
    "np.seterr": Environment(before="import numpy; numpy.seterr(all='raise')"),
    "-W error": Environment(options=("-W", "error")),
    "NUMBA_DISABLE_JIT": Environment(variables={"NUMBA_DISABLE_JIT": "1"}),
    "-I": Environment(options=("-I",)),
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in a zip file, without its type stubs, as some tools pack it."""
    path = tmp_path_factory.mktemp("zip") / "corrnoise.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for folder, _, names in os.walk(SOURCES / "corrnoise", followlinks=True):
            for name in names:
                if not name.endswith((".pyc", ".pyi")) and Path(folder).name != "docs":
                    packed.write(Path(folder, name), Path(folder, name).relative_to(SOURCES))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder that every user may write, also below folders that only their owner reads."""
    folder = Path("/tmp") if os.name == "posix" else tmp_path
    made = tmp_path if folder is tmp_path else folder / f"corrnoise-{os.getpid()}-{tmp_path.name}"
    made.mkdir(exist_ok=True)
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def run(
    code: str, environment: Environment, archive: Path, place: Path, *arguments: str, **settings: Any
) -> subprocess.CompletedProcess[str]:
    """Run Python code in an environment."""
    source = shutil.copy(archive, place) if environment.zipped else SOURCES
    program = f"{LIBRARIES}; sys.path.insert(0, {str(source)!r})\n{environment.before}\n{code}"
    variables = {**os.environ, **environment.variables}
    options: dict[str, Any] = {
        "env": {name: value for name, value in variables.items() if value is not None},
        "cwd": place,
        "capture_output": "stdout" not in settings,
        "text": True,
        "timeout": 600,
        "check": False,
    }
    interpreter = sys.executable
    if environment.stranger:
        options |= {"user": STRANGER, "group": STRANGER, "extra_groups": []}
        interpreter = readable_interpreter(options)
    command = [interpreter, *environment.options, "-c", program, *arguments]
    return subprocess.run(command, **options | settings)


def readable_interpreter(options: dict[str, Any]) -> str:
    """An interpreter of this version that another user can start; skip where none reads this installation."""
    probe = f"{LIBRARIES}; open({str(SOURCES / 'corrnoise/__init__.py')!r}); import numba"
    for interpreter in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        try:
            subprocess.run([interpreter, "-c", probe], **options | {"check": True})
        except (OSError, subprocess.CalledProcessError):
            continue
        return interpreter
    pytest.skip("another user cannot read this installation")


def cases(*names: str) -> list[object]:
    """Environments as parameters of a test."""
    return [
        pytest.param(ENVIRONMENTS[name], id=name, marks=[as_root][: ENVIRONMENTS[name].stranger])
        for name in names or ENVIRONMENTS
    ]


@pytest.mark.slow
@pytest.mark.parametrize("environment", cases())
def test_everything_runs(environment: Environment, archive: Path, place: Path) -> None:
    done = run(EVERYTHING, environment, archive, place, str(place))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "9.786344602 holds\n"
    assert "Warning" not in done.stderr
    assert "Matplotlib" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment", cases("random user without HOME", "read-only package and home", "no numba cache")
)
def test_kernels_compile_without_a_cache_and_the_log_says_so_once(
    environment: Environment, archive: Path, place: Path
) -> None:
    done = run(KERNEL, environment, archive, place)
    assert (done.returncode, done.stdout) == (0, "3.401387132393663\n"), done.stderr
    assert done.stderr.count("numba has no writable cache folder") == 1
    assert {path.name for path in place.iterdir()} <= {"corrnoise.zip"}  # no folder named "~"


@pytest.mark.slow
@pytest.mark.parametrize("environment", cases("NUMBA_DISABLE_JIT", "zip", "-I", "-OO"))
def test_kernels_run(environment: Environment, archive: Path, place: Path) -> None:
    done = run(KERNEL, environment, archive, place)
    assert (done.returncode, done.stdout) == (0, "3.401387132393663\n"), done.stderr


def test_noise_has_the_same_bits_without_the_compiler(archive: Path, place: Path) -> None:
    compiled, plain = (run(NOISE, ENVIRONMENTS[name], archive, place) for name in ("usual", "NUMBA_DISABLE_JIT"))
    assert compiled.returncode == plain.returncode == 0, plain.stderr
    assert compiled.stdout == plain.stdout
    assert not plain.stderr


@pytest.mark.parametrize("environment", cases("np.seterr", "-W error"))
def test_the_caller_decides_about_its_own_float_errors_and_warnings_only(
    environment: Environment, archive: Path, place: Path
) -> None:
    done = run(MULTIPLIER, environment, archive, place)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(5.42689, rel=1e-5)


@pytest.mark.slow
def test_threads_design_where_warnings_are_errors(archive: Path, place: Path) -> None:
    done = run(THREADS, ENVIRONMENTS["-W error"], archive, place)
    assert done.stdout == "[0, 1, 2, 3, 4, 5, 6, 7]\n", done.stderr
    assert not done.stderr


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1", "ascii"])
def test_characters_that_an_encoding_lacks_are_replaced(encoding: str, archive: Path, place: Path) -> None:
    environment = Environment(variables={"PYTHONIOENCODING": encoding})
    done = run(COMMAND, environment, archive, place, "check", "Lemma C.21 (i)")
    assert done.returncode == 0, done.stderr
    assert "For all a ? (0, 1), we have I(a, a) ? 5 log(8/a)." in done.stdout
    assert "Error" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes files")
@pytest.mark.parametrize(("closing", "shown"), [(">&-", ""), ("2>&-", "paper"), ("<&- >&- 2>&-", "")])
def test_closed_files_swallow_what_is_printed(closing: str, shown: str, place: Path) -> None:
    program = f"import sys; sys.path.insert(0, {str(SOURCES)!r}); {COMMAND}"
    shell = ["sh", "-c", f'"$@" {closing}', "sh", sys.executable, "-c", program, "check", "--list", "Lemma C.21"]
    done = subprocess.run(shell, cwd=place, capture_output=True, text=True, timeout=600, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(shown)
    assert bool(done.stdout) == bool(shown)


@pytest.mark.parametrize("words", [("--help",), ("check", "--list")])
def test_a_reader_who_leaves_causes_no_message(words: tuple[str, ...], archive: Path, place: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run(COMMAND, ENVIRONMENTS["usual"], archive, place, *words, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert not done.stderr
    assert done.returncode in (0, 1)  # argparse ignores errors when it prints help


def test_a_check_without_docstrings_names_what_is_missing(archive: Path, place: Path) -> None:
    done = run(COMMAND, ENVIRONMENTS["-OO"], archive, place, "check", "Lemma C.21 (i)")
    assert done.returncode == 1
    assert done.stderr == (
        "corrnoise: error: the claims need their docstrings, which python -OO removes: run python without -OO\n"
    )


def interpreters() -> list[str]:
    """The interpreters of the supported versions that are on the path."""
    found = [shutil.which(f"python3.{minor}") for minor in range(11, 15)]
    return sorted({sys.executable, *(path for path in found if path)})


def version_of(interpreter: str) -> str:
    command = [interpreter, "-c", "import sys; print(sys.version_info[:2] >= (3, 11))"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout


COMPILED = """
import pathlib, sys
for path in pathlib.Path(sys.argv[1], "corrnoise").rglob("*.py"):
    compile(path.read_bytes(), str(path), "exec")
"""


@pytest.mark.parametrize("interpreter", interpreters())
def test_every_version_of_python_reads_the_sources(interpreter: str, archive: Path, place: Path) -> None:
    if version_of(interpreter) != "True\n":
        pytest.skip("it does not start")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(place / "sources")
    command = [interpreter, "-W", "error", "-c", COMPILED, str(place / "sources")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    needs = subprocess.run([interpreter, "-c", "import numba, lazy_loader"], capture_output=True, check=False)
    if needs.returncode == 0:
        program = f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{KERNEL}"
        done = subprocess.run([interpreter, "-c", program], capture_output=True, text=True, timeout=600, check=False)
        assert re.fullmatch(r"3\.4013871323936\d+\n", done.stdout), done.stderr
