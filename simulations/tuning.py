"""Private search for hyper-parameters: a random number of trials; the best alone is kept.

The folder of a search holds

===============  ==================================================================================================
file             content
===============  ==================================================================================================
``search.json``  the candidates of all trials and the scores so far, which are secret; after the end the winner alone
``trial-<i>``    the folder of trial i, which the trial fills
``best``         after the end: the folder of the winner
``lock``         is locked while a process uses the search; empty
===============  ==================================================================================================

The number of trials and their candidates are drawn once and written before the first trial.  A score is written before
the next trial begins.  A search that is killed repeats the trial that was interrupted, in its folder, and nothing else.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corrnoise.simulations.run import draws, owned
from corrnoise.simulations.run.account import Account
from corrnoise.support.files import sync_folder, write_whole
from corrnoise.support.reading import guarded, json_value
from corrnoise.theory.mechanisms.program import TOTAL_VARIATION
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Budget
from corrnoise.theory.profile import GaussianProfile, NearbyProfile, Profile
from corrnoise.theory.selection import Trials, selection, trial_budget

FORMAT = "corrnoise search 1"  #: of the folder
_STATE_FILE, _LOCK_FILE, _BEST_FOLDER = "search.json", "lock", "best"
_TRIAL_FOLDER = re.compile(r"trial-\d+", re.ASCII)


@record
class Tuned(Record):
    """The winner of a search; ``cn.tune`` makes it.

    Parameters
    ----------
    candidate : int or None
        The number of the winning candidate; None where the law of the trials allowed none and none was drawn.
    score : float
        The score of the winner.
    folder : str
        The folder that the winning trial has filled.
    trial : Budget
        The budget of each trial.
    profile : Profile
        The privacy of everything in this record and in ``folder``.
    """

    candidate: int | None
    score: float
    folder: str
    trial: Budget
    profile: Profile


def tune(
    trial: Callable[[Any, Budget, Path], float],
    candidates: Sequence[Any],
    *,
    trials: Trials,
    budget: Budget,
    folder: str | os.PathLike[str],
    account: Account | None = None,
) -> Tuned:
    """Try random candidates a random number of times, and keep the best; rerun the script to resume or to read it.

    Parameters
    ----------
    trial : callable
        ``trial(candidate, budget, folder)`` trains with a candidate and a budget for this trial, writes the files to
        publish into the folder, and returns the score.  The score comes from public data, or is paid for by the
        budget of the trial.  A trial that raises an ``Exception``, or returns NaN, counts as the worst.
    candidates : sequence
        At least one; each trial draws one candidate uniformly.
    trials : Trials
        The law of the number of trials.
    budget : Budget
        ε and δ of the winner, of its score and of its number.
    folder : path
        The folder of this search alone.  It is as secret as the data until the search has ended.
    account : Account, optional
        The account of the data set, whose plan has ``selection`` of the trials; it pays once for the whole search.

    Returns
    -------
    Tuned

    Raises
    ------
    ValueError
        An argument is out of its range, the folder is of another search or holds other files.
    RuntimeError
        Every trial failed.

    Notes
    -----
    The guarantee is for whoever sees the result alone.  Whoever can watch the search, or time it, sees more.  A trial
    must not depend on other trials.  The trials are Gaussian runs, or have at most this ρ as Gaussian mechanisms.

    Examples
    --------
    >>> import tempfile, corrnoise as cn
    >>> def trial(rate, budget, folder):
    ...     noise = cn.PrivateRun(budget, cn.Participation.single(10), cn.mechanisms.DPSGD(), size=1)
    ...     return -abs(rate - 0.1)  # a score that needs no data
    >>> law, budget = cn.privacy.Trials.binomial(40, 1.0), cn.Budget(epsilon=2.0, delta=1e-6)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cn.tune(trial, [0.1, 0.2], trials=law, budget=budget, folder=folder).candidate
    0
    """
    choices = list(candidates)
    if not choices:
        raise ValueError("candidates must be at least one, got none")
    one = trial_budget(budget, trials)
    home = Path(folder).absolute()
    owned.make_folder(home)
    owned.check_folder(home)
    lock = owned.locked(home / _LOCK_FILE, f"folder {home} is in use by another search: wait for its end")
    # A trial may have proved noise.
    ideal = GaussianProfile(one.gaussian_rho, adjacency=one.adjacency)
    place = selection(NearbyProfile(ideal, TOTAL_VARIATION), trials)
    try:
        settings = {
            **{"trials": repr(trials), "budget": repr(budget), "candidates": len(choices)},
            "account": None if account is None else account.identity,
        }
        state = _read(home, settings)
        if state is None:
            if account is not None:
                account.check(place)
            state = _begin(home, settings, trials)
        if account is not None:
            account.admit(f"search {state['identity']}", place, started=bool(state.get("scores", True)))
        if "winner" not in state:
            _try_all(home, state, trial, choices, one)
        winner = state["winner"]
    finally:
        lock.release()
    if winner is None:
        return Tuned(None, -math.inf, "", one, place)
    if winner["score"] is None:
        raise RuntimeError(
            "trial must succeed at least once, got exceptions and scores that are not finite; call trial(candidate, "
            "budget, folder) by itself on public data to see its error, and take a new folder"
        )
    return Tuned(winner["candidate"], winner["score"], str(home / _BEST_FOLDER), one, place)


def _read(home: Path, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The state of an earlier start; None for a new folder."""
    path = home / _STATE_FILE
    if not path.exists():
        strangers = sorted(each.name for each in home.iterdir() if each.name != _LOCK_FILE)
        if strangers:
            raise ValueError(f"folder must be new or that of this search, got {home} with {strangers[0]!r} in it")
        return None
    with guarded(path):
        state: dict[str, Any] = json_value(owned.read_bytes(path))
        if state.get("format") != FORMAT:
            raise ValueError(f"its format must be {FORMAT!r}, got {state.get('format')!r}")
    for name, value in settings.items():
        if state["settings"].get(name) != value:
            raise ValueError(
                f"folder {home} holds a search with {name} = {state['settings'].get(name)}, got {value}: take another "
                "folder, or the same arguments"
            )
    return state


def _begin(home: Path, settings: dict[str, Any], trials: Trials) -> dict[str, Any]:
    rng = np.random.Generator(np.random.Philox(key=int.from_bytes(draws.fresh(16), "little")))
    drawn = rng.integers(settings["candidates"], size=trials.draw(rng)).tolist()
    identity = draws.fresh(16).hex()
    state = {"format": FORMAT, "settings": settings, "identity": identity, "drawn": drawn, "scores": []}
    _write(home, state)
    return state


def _write(home: Path, state: dict[str, Any]) -> None:
    write_whole(home / _STATE_FILE, json.dumps(state), secret=True)


def _try_all(
    home: Path,
    state: dict[str, Any],
    trial: Callable[[Any, Budget, Path], float],
    choices: list[Any],
    one: Budget,
) -> None:
    """Make the trials that are left, and then remove all but the winner."""
    drawn, scores = state["drawn"], state["scores"]
    for number in range(len(scores), len(drawn)):
        place = home / f"trial-{number}"
        owned.make_folder(place)
        scores.append(_score(trial, choices[drawn[number]], one, place))
        _write(home, state)
    ranked = sorted(range(len(scores)), key=lambda i: (scores[i] is None, -(scores[i] or 0.0), i))
    best = home / _BEST_FOLDER
    if ranked and not best.exists():
        os.replace(home / f"trial-{ranked[0]}", best)
        sync_folder(home)
    for each in home.iterdir():
        if _TRIAL_FOLDER.fullmatch(each.name):
            shutil.rmtree(each)
    state["winner"] = {"candidate": drawn[ranked[0]], "score": scores[ranked[0]]} if ranked else None
    del state["drawn"], state["scores"]
    _write(home, state)


def _score(trial: Callable[[Any, Budget, Path], float], candidate: Any, one: Budget, place: Path) -> float | None:
    """The finite score of a trial; None where it fails, whatever the reason: it may depend on the data."""
    try:
        score = float(trial(candidate, one, place))
    except Exception:
        return None
    return score if math.isfinite(score) else None
