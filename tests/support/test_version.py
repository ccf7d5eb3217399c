"""The version, and the commit of a checkout."""

import subprocess

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
