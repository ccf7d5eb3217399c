"""The version, and the commit of a checkout."""

import os
import platform
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numba
import numpy as np
import pytest

from corrnoise.support import version


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one commit of a file, which stands for the module."""
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(variable, raising=False)

    def git(*arguments):
        names = ("-c", "user.name=Nobody", "-c", "user.email=nobody@example.org")
        return subprocess.run(
            ["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    file = tmp_path / "version.py"
    file.write_text("one")
    git("init", "-q")
    git("add", "version.py")
    git("commit", "-q", "-m", "one")
    monkeypatch.setattr(version, "__file__", str(file))
    return git


def test_the_commit_of_a_checkout(checkout, tmp_path):
    short = checkout("rev-parse", "--short", "HEAD").strip()
    assert version.commit() == short
    (tmp_path / "version.py").write_text("two")
    assert version.commit() == f"{short}-dirty"


def test_a_package_that_is_installed_inside_of_some_repository_has_no_commit(checkout, tmp_path, monkeypatch):
    (tmp_path / "installed.py").write_text("not tracked")
    monkeypatch.setattr(version, "__file__", str(tmp_path / "installed.py"))
    assert version.commit() is None


def test_without_a_repository_or_git_there_is_no_commit(checkout, tmp_path_factory, monkeypatch):
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "version.py"
    elsewhere.write_text("one")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(elsewhere.parent.parent))
    monkeypatch.setattr(version, "__file__", str(elsewhere))
    assert version.commit() is None
    monkeypatch.setenv("PATH", "")
    assert version.commit() is None


def test_the_versions_of_everything_are_shown_and_nothing_is_imported(capsys):
    version.show_versions()
    rows = dict(re.split(r"\s+", line, maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert rows["python"] == f"{platform.python_implementation()} {platform.python_version()}"
    assert rows["numpy"] == np.__version__
    assert rows["numba"] == numba.__version__
    assert {"corrnoise", "system", "processor", "torch", "jax", "opacus", "flwr"} <= set(rows)
    program = "import corrnoise as cn, sys; cn.show_versions(); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["-c", "import corrnoise as cn; cn.show_versions()"], 0),
        (["-m", "corrnoise", "check", "--list"], 1),
    ],
)
def test_a_reader_that_leaves_causes_no_traceback(command, status, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run([sys.executable, *command], stdout=writing, stderr=subprocess.PIPE, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (status, b"")


def test_a_library_that_is_missing_is_named(monkeypatch, capsys):
    monkeypatch.setattr(version, "LIBRARIES", ("numpy", "no-such-library"))
    version.show_versions()
    assert re.search(r"^no-such-library +not installed$", capsys.readouterr().out, re.MULTILINE)


def test_every_dependency_and_every_extra_is_shown():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = set(extras) - {"all", "completion", "docs", "test"}
    listed = {name for extra in used for name in extras[extra]}
    names = {re.split(r"[>=<\[]", one)[0] for one in {*project["dependencies"], *listed}}
    assert names - {"corrnoise"} <= set(version.LIBRARIES)
