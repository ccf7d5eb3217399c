"""``corrnoise audit``: verdict and cause, the exit status, the user's own loop, and refusals."""

import json
from pathlib import Path

import pytest

import corrnoise as cn
from corrnoise.__main__ import main
from corrnoise.theory.auditing.findings import TESTS

LOOP = """
import numpy as np
import corrnoise as cn
from corrnoise.simulations.audit import stream_release
design = cn.load({folder!r})
def loop(share):
    budget = cn.Budget(design.budget.gaussian_rho / share ** 2)
    return stream_release(budget, design.program())
whole = loop(1.0)
part = loop(0.4)
more = loop(1.3)
def broken(batches):
    raise RuntimeError("no device")
class Steps:
    def begin(self, folder):
        self.step_ = int(folder.read_text()) if folder.exists() else 0
        self.folder = folder
        return self.step_
    def step(self, gradients):
        raise RuntimeError("out of memory")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "design"
    budget = cn.Budget(epsilon=5.0, delta=1e-5)
    cn.save(cn.design(budget, cn.Participation.min_sep(24, 8), family="buffers", memory=2), path)
    return path


SIZES = ("--idle", "200", "--seed", "1")


def test_the_stream_of_a_design_is_as_claimed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "audit.json"
    assert main(["audit", str(folder), *SIZES, "--level", "1e-6", "--output", str(output)]) == 0
    assert capsys.readouterr().out.startswith("verdict: nothing found\nclaim: ")
    found = json.loads(output.read_text())
    assert found["verdict"] == "nothing found"
    assert not any(test["failed"] for test in found["tests"])
    assert len(found["tests"]) == len(TESTS)


def test_a_loop_of_the_user(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_loop.py").write_text(LOOP.format(folder=str(folder)))
    for name, status, said in (
        ("whole", 0, "verdict: nothing found"),
        ("part", 1, "verdict: not private as claimed\ncause: the noise is smaller than claimed"),
        ("more", 1, "verdict: noise not as claimed\ncause: the noise is larger than claimed"),
        ("broken", 2, "verdict: could not be audited\ncause: the loop raised RuntimeError: no device (my_loop.py"),
    ):
        assert main(["audit", str(folder), *SIZES, "--loop", f"my_loop:{name}"]) == status
        assert capsys.readouterr().out.startswith(said)
    assert main(["audit", str(folder), *SIZES, "--restarts", "12", "--loop", "my_loop:Steps"]) == 2
    assert "the loop raised RuntimeError: out of memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--idle", "3"], "--idle must be an integer >= 16, got 3"),
        (["--restarts", "12"], "--restarts must be () for a loop that is a function"),
        (["--loop", "math:absent"], "--loop must name a function or a class, and math has no absent"),
        (["--loop", "no_such_module_here:loop"], "No module named"),
        (["--loop", "release"], "is not of the form MODULE:NAME"),
    ],
)
def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert main(["audit", str(folder), *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.slow
def test_designs_that_cannot_be_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path / "absent")]) == 2
    assert "DESIGN must be what corrnoise design --output has written, got " in capsys.readouterr().err
    endless = tmp_path / "endless"
    cn.save(cn.design(cn.Budget(0.5), cn.Participation.single(), cn.MeanEstimation(0.1)), endless)
    capsys.readouterr()
    assert main(["audit", str(endless)]) == 2
    assert "DESIGN must have a number of steps" in capsys.readouterr().err
