"""The package without the libraries of the extras ``parallel`` and ``ledger``, which a process hides."""

import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = "sys.modules.update(dict.fromkeys(('joblib', 'latex2mathml', 'markdown_it')))"
ONE_PROCESS = "joblib is not installed, so one process does all the work: pip install 'corrnoise[parallel]'\n"


def run(program: str, *arguments: object, hide: str = HIDDEN) -> subprocess.CompletedProcess[str]:
    code = f"import os, sys; os.cpu_count = lambda: 2; {hide}\nfrom corrnoise.__main__ import main\n{program}"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
def test_checks_and_figures_run_in_one_process_and_say_so_once(tmp_path: Path) -> None:
    program = """
import corrnoise as cn
assert len(cn.claims()) > 300
for words in (
    ["check", "Lemma C.21", "--jobs", "2"],
    ["figures", "mean_estimation", "--no-simulation", "--output", sys.argv[1]],
    ["simulate", "--steps", "20", "--dimension", "2", "--seeds", "2", "--jobs", "2", "--output", sys.argv[2]],
):
    assert main(words) == 0, words
"""
    done = run(program, tmp_path / "figures", tmp_path / "sweep")
    assert done.returncode == 0, done.stderr
    assert "all as recorded" in done.stdout
    assert done.stderr.count(ONE_PROCESS) == 1
    assert (tmp_path / "figures/mean_estimation.pdf").exists()


@pytest.mark.parametrize("library", ["latex2mathml", "markdown_it"])
def test_the_page_of_the_ledger_names_its_extra_before_the_work_begins(library: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = run("sys.exit(main(sys.argv[1:]))", "report", "--output", page, hide=f"sys.modules[{library!r}] = None")
    assert done.returncode == 1
    assert done.stderr == f"corrnoise: error: {library} is not installed: pip install 'corrnoise[ledger]'\n"
    assert not page.exists()
