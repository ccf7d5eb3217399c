"""Runs whose noise a function finds: it is called once, for a new run, and the folder keeps what it found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations.run import durable
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.solvers.default import default_noise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

WHO = Participation.fixed_epochs(12, epochs=3)
BUDGET = Budget(epsilon=5.0, delta=1e-5)


def opened(path: Path | None, mechanism: Any, **options: Any) -> PrivateRun:
    folder = None if path is None else Folder(path, marks=path.with_name(f"{path.name} marks"))
    return PrivateRun(BUDGET, WHO, mechanism, 3, folder=folder, **options)


def stepped(run: PrivateRun, steps: int) -> None:
    for _ in range(steps):
        run.next_batch()
        run.add_noise(np.zeros(3))
    run.close()


def test_the_function_is_called_once_and_not_at_a_restart(tmp_path: Path) -> None:
    """The mutant calls it at the restart, too."""
    find = mock.Mock(side_effect=default_noise)

    def started_and_resumed(path: Path) -> None:
        first = opened(path, find)
        assert find.call_args_list == [mock.call(WHO, BUDGET)]
        stepped(first, 5)
        again = opened(path, find)
        assert (again.position, again.program, again.multiplier) == (5, first.program, first.multiplier)
        stepped(again, 7)
        assert opened(path, find).position == 12
        assert find.call_count == 1

    started_and_resumed(tmp_path / "run")
    real = durable.Durable._made

    def mutant(self: Any, mechanism: Any, *arguments: Any, **options: Any) -> Any:
        if self._own.settings is not None:
            mechanism(WHO, BUDGET)
        return real(self, mechanism, *arguments, **options)

    find.reset_mock()
    with mock.patch.object(durable.Durable, "_made", mutant), pytest.raises(AssertionError, match="assert 3 == 1"):
        started_and_resumed(tmp_path / "mutant")


@pytest.mark.parametrize(
    "noise", [DPSGD(), NuFTRL(0.05), AntiPGD(0.3), default_noise(WHO)], ids=lambda noise: type(noise).__name__
)
def test_the_folder_keeps_the_noise_that_was_found(noise: Mechanism, tmp_path: Path) -> None:
    first = opened(tmp_path / "run", lambda *_: noise)
    assert first.program == opened(None, noise).program
    stepped(first, 2)
    again = opened(tmp_path / "run", lambda *_: AntiPGD(0.31))
    assert again.program == first.program
    again.close()
    with pytest.raises(ValueError, match=f"mechanism was None, is '{type(noise).__name__}"):
        opened(tmp_path / "run", noise)


def test_a_function_and_the_question_it_answers(tmp_path: Path) -> None:
    first = opened(tmp_path / "run", default_noise, asked="a1")
    stepped(first, 2)
    again = opened(tmp_path / "run", mock.Mock(side_effect=AssertionError), asked="a1")
    assert again.program == first.program
    again.close()
    for asked in ("b2", None):
        with pytest.raises(ValueError, match="mechanism was 'the one of the search a1', is"):
            opened(tmp_path / "run", default_noise, asked=asked)


@pytest.mark.parametrize("bad", [None, "default", DPSGD, NuFTRL, 0.05])
def test_a_run_needs_noise_or_a_function_that_finds_it(bad: Any, tmp_path: Path) -> None:
    for path in (None, tmp_path / "run"):
        with pytest.raises(TypeError, match=r"mechanism must be a Mechanism or a function .*cn\.default_noise"):
            opened(path, bad)
        with pytest.raises(TypeError, match=r"mechanism\(participation, budget\) must be a Mechanism, got"):
            opened(path, lambda *_: bad)
    assert not (tmp_path / "run" / "settings.json").exists()


def test_a_run_loads_no_solver() -> None:
    """In a process of its own; the default noise does, so that the test can fail."""
    for work, loaded in (("cn.PrivateRun", False), ("cn.PrivateRun, cn.default_noise", True)):
        code = f"import sys, corrnoise as cn; {work}; print(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        modules = done.stdout.split()
        assert any(name.startswith("corrnoise.solvers") for name in modules) is loaded
        assert ("scipy.optimize" in modules) is loaded
        assert loaded or sum(name.startswith("corrnoise.") for name in modules) <= 75


def test_the_package_alone_loads_little() -> None:
    """In a process of its own; a run loads more, so that the test can fail."""
    for work, little in (("", True), ("corrnoise.PrivateRun", False)):
        code = f"import sys, corrnoise\n{work}\nprint(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert (len(done.stdout.split()) <= 110) is little
