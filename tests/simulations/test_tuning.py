"""A private search: what is drawn, kept, removed and published, also after a kill at every write."""

from __future__ import annotations

import json
import math
import os
import shutil
import stat
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

from corrnoise.simulations import tuning
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.tuning import tune
from corrnoise.support import files
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget
from corrnoise.theory.selection import Trials

BUDGET = Budget(epsilon=2.0, delta=1e-6, clip_norm=0.5)
TRIALS = Trials.negative_binomial(4)
CANDIDATES = [0.1, 0.2, 0.3, 0.4]


class Recorded:
    """A trial that notes its calls and scores by a table."""

    def __init__(self, scores: dict[float, Any] | None = None) -> None:
        self.calls: list[tuple[float, Path]] = []
        self.scores = scores or {}

    def __call__(self, candidate: float, budget: Budget, folder: Path) -> float:
        self.calls.append((candidate, folder))
        (folder / "model.txt").write_text(str(candidate))
        found = self.scores.get(candidate, candidate)
        if isinstance(found, Exception):
            raise found
        return found


def searched(folder: Path, trial: Any, **options: Any) -> Any:
    settings: dict[str, Any] = {"trials": TRIALS, "budget": BUDGET} | options
    return tune(trial, CANDIDATES, folder=folder, **settings)


def test_the_best_alone_is_kept(tmp_path: Path) -> None:
    trial = Recorded()
    found = searched(tmp_path / "search", trial)
    tried = [candidate for candidate, _ in trial.calls]
    assert CANDIDATES[found.candidate] == found.score == max(tried)
    assert Path(found.folder).joinpath("model.txt").read_text() == str(max(tried))
    assert sorted(each.name for each in (tmp_path / "search").iterdir()) == ["best", "lock", "search.json"]
    state = (tmp_path / "search" / "search.json").read_text()
    # Neither the number of trials nor their scores are there.
    assert set(json.loads(state)) == {"format", "settings", "identity", "winner"}
    again = Recorded()
    assert searched(tmp_path / "search", again) == found
    assert again.calls == []


def test_the_search_costs_its_budget(tmp_path: Path) -> None:
    budgets = []

    def trial(candidate: float, budget: Budget, folder: Path) -> float:
        budgets.append(budget)
        who = Participation.fixed_epochs(6, epochs=2)
        with PrivateRun(budget, who, DPSGD(), 3, folder=Folder(folder / "run", marks=tmp_path / "marks")) as run:
            for _ in run:
                run.add_noise(np.zeros(3))
        return candidate

    found = searched(tmp_path / "search", trial)
    assert set(budgets) == {found.trial}
    assert found.trial.clip_norm == 0.5
    assert found.trial.epsilon_at(1e-6) < 2.0
    assert 1.999 < found.profile.epsilon_at(1e-6) <= 2.0
    assert Path(found.folder, "run", "settings.json").exists()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_any_write_changes_nothing(tmp_path: Path, moment: str) -> None:
    """Every write, removal and renaming is interrupted once, before or after it; each finished trial is made once."""
    whole: dict[str, Any] = {"write": files.write_whole, "replace": os.replace, "rmtree": shutil.rmtree}
    cases = 0
    for dies_at in range(1, 20):
        folder, count = tmp_path / f"search-{dies_at}", [0]

        def dying(name: str, count: list[int] = count, dies_at: int = dies_at) -> Any:
            def done(*args: Any, **options: Any) -> None:
                count[0] += 1
                if count[0] == dies_at and moment == "before":
                    raise KeyboardInterrupt
                whole[name](*args, **options)
                if count[0] == dies_at and moment == "after":
                    raise KeyboardInterrupt

            return done

        first, drawn = Recorded(), list[int]()
        try:
            with (
                mock.patch.object(tuning, "write_whole", dying("write")),
                mock.patch("os.replace", dying("replace")),
                mock.patch("shutil.rmtree", dying("rmtree")),
            ):
                searched(folder, first)
        except KeyboardInterrupt:
            cases += 1
        state = folder / "search.json"
        if state.exists():
            drawn = json.loads(state.read_text()).get("drawn", drawn)
        second = Recorded()
        found = searched(folder, second)
        made = [candidate for candidate, _ in first.calls + second.calls]
        if drawn:
            assert max(CANDIDATES[i] for i in drawn) == found.score
            assert len(drawn) <= len(made) <= len(drawn) + 1  # the interrupted trial is repeated, in its folder
        assert sorted(each.name for each in folder.iterdir()) == ["best", "lock", "search.json"]
    assert cases >= 4


def test_a_trial_that_fails_is_final(tmp_path: Path) -> None:
    broken: dict[float, Any] = {0.4: ValueError("diverged"), 0.3: math.nan, 0.2: math.inf}
    trial = Recorded(broken)
    found = searched(tmp_path / "search", trial, trials=Trials.binomial(40, 1.0))
    assert len(trial.calls) == 40
    assert found.score == 0.1
    with pytest.raises(RuntimeError, match="public data"):
        searched(tmp_path / "other", Recorded(dict.fromkeys(CANDIDATES, math.nan)))
    again = Recorded()
    with pytest.raises(RuntimeError, match="public data"):
        searched(tmp_path / "other", again)
    assert again.calls == []


def test_no_trial_may_be_drawn(tmp_path: Path) -> None:
    found = searched(tmp_path / "search", Recorded(), trials=Trials.binomial(1, 1e-9))
    assert (found.candidate, found.folder) == (None, "")


def test_candidates_are_drawn_uniformly(tmp_path: Path) -> None:
    """Counts of 400 draws within 6 standard deviations."""
    searched(tmp_path / "search", trial := Recorded(), trials=Trials.binomial(400, 1.0))
    counts = np.array([sum(candidate == each for candidate, _ in trial.calls) for each in CANDIDATES])
    assert counts.sum() == 400
    assert np.abs(counts - 100).max() <= 6 * math.sqrt(400 * 3 / 16)


@pytest.mark.skipif(os.name != "posix", reason="needs modes of files")
def test_the_folder_of_a_search_is_closed_to_others(tmp_path: Path) -> None:
    modes = []

    def trial(candidate: float, budget: Budget, folder: Path) -> float:
        modes.extend([folder.stat().st_mode, folder.parent.joinpath("search.json").stat().st_mode])
        return candidate

    searched(tmp_path / "search", trial)
    assert {stat.S_IMODE(mode) & 0o077 for mode in modes} == {0}


def test_other_searches_and_files_are_refused(tmp_path: Path) -> None:
    searched(tmp_path / "search", Recorded())
    for options, word in (
        ({"trials": Trials.poisson(4)}, "trials"),
        ({"budget": Budget(epsilon=1, delta=1e-6)}, "budget"),
    ):
        with pytest.raises(ValueError, match=f"search with {word}"):
            searched(tmp_path / "search", Recorded(), **options)
    with pytest.raises(ValueError, match="search with candidates"):
        tune(Recorded(), CANDIDATES[:2], trials=TRIALS, budget=BUDGET, folder=tmp_path / "search")
    with pytest.raises(ValueError, match="candidates must be at least one"):
        tune(Recorded(), [], trials=TRIALS, budget=BUDGET, folder=tmp_path / "new")
    with pytest.raises(ValueError, match="epsilon and delta"):
        searched(tmp_path / "new", Recorded(), budget=Budget(rho=0.5))
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        searched(tmp_path / "mine", Recorded())
    assert (tmp_path / "mine" / "thesis.tex").exists()

    def inside(candidate: float, budget: Budget, folder: Path) -> float:
        with pytest.raises(BlockingIOError, match="in use"):
            searched(tmp_path / "busy", Recorded())
        return candidate

    searched(tmp_path / "busy", inside)
