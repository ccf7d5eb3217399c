"""``corrnoise audit``: both answers, the exit status, the user's own loop, and what is refused."""

import json
from pathlib import Path

import pytest

import corrnoise as cn
from corrnoise.__main__ import main

LOOP = """
import numpy as np
import corrnoise as cn
from corrnoise.simulations.audit import stream_release
design = cn.load({folder!r})
def release(batches):
    budget = cn.Budget(design.budget.gaussian_rho / {share} ** 2)
    return stream_release(budget, design.program())(batches)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "design"
    budget = cn.Budget(epsilon=5.0, delta=1e-5)
    cn.save(cn.design(budget, cn.Participation.min_sep(60, 20), memory=2), path)
    return path


def test_the_stream_of_a_design_is_as_claimed(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "audit.json"
    sizes = ["--canaries", "200", "--idle", "50", "--level", "1e-7", "--seed", "1"]
    assert main(["audit", str(folder), *sizes, "--output", str(output)]) == 0
    assert "private as claimed? nothing found against it" in capsys.readouterr().out
    found = json.loads(output.read_text())
    assert found["private_as_claimed"]
    assert found["noise_as_claimed"]
    assert len(found["privacy"]) == 4


def test_a_loop_of_the_user(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    for name, share in (("whole", 1.0), ("part", 0.4)):
        (tmp_path / f"{name}_loop.py").write_text(LOOP.format(folder=str(folder), share=share))
    sizes = ["--canaries", "600", "--idle", "50", "--level", "1e-3", "--seed", "1"]
    assert main(["audit", str(folder), *sizes, "--loop", "part_loop:release"]) == 1
    assert "private as claimed? REFUTED" in capsys.readouterr().out
    assert main(["audit", str(folder), *sizes, "--loop", "whole_loop:release"]) == 0
    assert main(["audit", str(folder), "--loop", "whole_loop:absent"]) == 1
    assert "whole_loop has no function absent" in capsys.readouterr().err


def test_what_is_refused(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(folder), "--canaries", "3"]) == 1
    assert "--canaries must be an integer >= 8, got 3" in capsys.readouterr().err
    assert main(["audit", str(folder), "--loop", "release"]) == 2
    assert main(["audit", str(tmp_path / "absent")]) == 1
    endless = tmp_path / "endless"
    cn.save(cn.design(cn.Budget(0.5), cn.Participation.single(), cn.MeanEstimation(0.1)), endless)
    capsys.readouterr()
    assert main(["audit", str(endless)]) == 1
    assert "--delta must be given" in capsys.readouterr().err
    assert main(["audit", str(endless), "--delta", "1e-5"]) == 1
    assert "DESIGN must have a number of steps" in capsys.readouterr().err
