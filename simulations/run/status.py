"""The state of the folder of a run, which is read and not changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, Literal, get_args

from corrnoise.simulations.run import owned
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.folder import PROGRAM_FILE, Folder, Place
from corrnoise.simulations.run.journal import Chain
from corrnoise.simulations.run.mark import Mark
from corrnoise.simulations.run.refusals import explained
from corrnoise.simulations.run.summary import USUAL_DELTA, profile_of
from corrnoise.support.wording import summary_text
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Budget

State = Literal["absent", "empty", "unfinished", "ready", "in use", "finished", "refused"]
_MAX_READINGS = 3  # of a folder whose run writes at the same time
_SENTENCES = {
    "absent": "There is no folder {path}: a run with this path starts there.",
    "empty": "The folder {path} is empty: a run with this path starts there.",
    "unfinished": "The start of a run in {path} was interrupted: the same command starts it.",
    "ready": "The run in {path} has made {free} of {steps} steps: the same command resumes it.",
    "in use": "A process uses the run in {path}, which has made {free} of {steps} steps.",
    "finished": "The run in {path} is finished.",
    "refused": "The run in {path} is refused.",
}


@record
class RunStatus(Record):
    """The state of the folder of a run.

    Parameters
    ----------
    path : str
        The folder.
    state : {"absent", "empty", "unfinished", "ready", "in use", "finished", "refused"}
        "unfinished" is a folder whose start was interrupted, and "ready" a run that can be resumed.
    position : int, optional
        The steps in the last checkpoint that can be read; with kept releases all steps that were made.
    free : int, optional
        The number of steps that were started; the next one has this number.
    skipped : int, optional
        Steps that a resumed run does not show: started, and neither in the checkpoint nor kept.
    steps : int, optional
        The steps of the whole run; None also for a run of any length.
    budget : dict, optional
        The arguments of the budget.
    spent : float, optional
        The ε of all started steps, as ``PrivateRun.spent``, at the δ of the budget, or at 1e-6; None where the folder
        has no program.
    participation : str, optional
        The participation, in words.
    kept : bool, optional
        Whether releases are kept.
    records : int, optional
        The number of records of the journal since the start.
    checkpoints : tuple of int
        The positions of the checkpoints.
    marks : str
        The folder of the outside mark.
    version : str, optional
        The version of this package that began the run.
    cause : str
        The reason of a refusal, or of a last checkpoint that is not used; otherwise empty.
    advice : str
        The remedy; otherwise empty.
    """

    path: str
    _: KW_ONLY
    state: State
    marks: str
    position: int | None = None
    free: int | None = None
    skipped: int | None = None
    steps: int | None = None
    budget: Mapping[str, Any] | None = None
    spent: float | None = None
    participation: str | None = None
    kept: bool | None = None
    records: int | None = None
    checkpoints: tuple[int, ...] = ()
    version: str | None = None
    cause: str = ""
    advice: str = ""

    def __post_init__(self) -> None:
        checks.choice("state", self.state, get_args(State))

    def summary(self) -> str:
        """The state, the spent budget and the remedy of a refusal.

        Returns
        -------
        str
        """
        total = "any number of" if self.steps is None else self.steps
        opening = _SENTENCES[self.state].format(path=self.path, free=self.free or 0, steps=total)
        facts = {
            "Cause": self.cause,
            "Advice": self.advice,
            "Checkpoints": ", ".join(map(str, self.checkpoints)),
            "Resumes": "" if self.position is None else f"from step {self.position}, {self.skipped} are then skipped",
            "Spent": "" if self.spent is None else f"ε = {self.spent:.4g} by the steps that were started",
            "Budget": ", ".join(f"{name} {value}" for name, value in (self.budget or {}).items()),
            "Run": self.participation or "",
            "Releases": "" if self.kept is None else "kept" if self.kept else "not kept",
            "Journal": "" if self.records is None else f"{self.records} records",
            "Mark": self.marks,
            "Version": self.version or "",
        }
        return summary_text(opening, {name: text for name, text in facts.items() if text})


@usual_float_errors
def run_status(path: str | os.PathLike[str], *, marks: str | os.PathLike[str] | None = None) -> RunStatus:
    """The state of the folder of a run: where it resumes, its spent budget, and why it would be refused.

    It works next to a process that uses the run, and changes no file.  Settings are not compared, as only the command
    of the run has them.

    Parameters
    ----------
    path : path
        The folder of the run.
    marks : path, optional
        The folder of the outside marks, as that of ``cn.Folder``.

    Returns
    -------
    RunStatus

    Raises
    ------
    ValueError
        If ``marks`` lies in the folder.

    Examples
    --------
    >>> import corrnoise as cn
    >>> cn.run_status("a folder that is not there").state
    'absent'
    """
    place = Place(Folder(path, marks=marks))
    found: dict[str, Any] = {"path": str(place.path), "marks": str(place.marks)}
    for attempt in range(_MAX_READINGS):
        try:
            found["state"] = _found(place, found)
            break
        except Exception as error:
            found["state"] = "in use" if found.get("state") == "in use" else "refused"
            if found["state"] == "refused" or attempt == _MAX_READINGS - 1:
                found["cause"], found["advice"] = explained(error)
                break
    return RunStatus(**found)


def _found(place: Place, found: dict[str, Any]) -> State:
    """The state of a folder; further fields of ``RunStatus`` are put into ``found``."""
    if not place.path.exists():
        return "absent"
    if not place.names():
        return "empty"
    if not place.is_begun():
        return "unfinished"
    owned.check_folder(place.path)
    settings = place.read_settings()
    budget = {name: settings[name] for name in ("rho", "epsilon", "delta", "clip_norm", "adjacency")}
    found["budget"] = {name: value for name, value in budget.items() if value is not None}
    found |= {"version": settings["version"], "kept": settings["kept releases"]}
    found["participation"] = settings["participation"]
    found["checkpoints"] = tuple(place.numbers("checkpoint"))
    place.read_key()
    used = _is_used(place)
    if used:
        found["state"] = "in use"
    if place.marks.exists():
        owned.check_folder(place.marks)
    mark = Mark(place.mark_path)  # before the journal, which a run in use writes first
    head, _, problems = place.read_checkpoint(whole=False)
    chain = place.chain(head["position"])
    chain.check(mark, moved=used)
    place.check_known(head, chain)
    _describe(place, settings, head["position"], chain, Budget(**budget), found)
    if problems:
        found["cause"] = "; ".join(problems)
        found["advice"] = f"none is needed: the run resumes from checkpoint-{head['position']}"
    return "in use" if used else "finished" if chain.finished else "ready"


def _is_used(place: Place) -> bool:
    """Whether a process holds the folder or its mark; each lock is given back at once."""
    for path in (place.lock_path, place.mark_path.with_suffix(".lock")):
        if path.exists():
            try:
                owned.locked(path, "in use").release()
            except BlockingIOError:
                return True
    return False


def _describe(
    place: Place, settings: dict[str, Any], saved: int, chain: Chain, budget: Budget, found: dict[str, Any]
) -> None:
    """Put the progress of a run into ``found``."""
    kept = settings["kept releases"] and all(chain.has_release(step) for step in range(saved, chain.free))
    position = chain.free if kept else saved
    found |= {"position": position, "free": chain.free, "skipped": chain.free - position, "records": chain.length}
    if not (place.path / PROGRAM_FILE).exists():
        return
    mechanism, who = place.program()
    if who is not None:
        found |= {"participation": who.summary(), "steps": who.steps}
        program = streaming(mechanism, who, settings["arithmetic"])
        profile = profile_of(program, budget, settings["multiplier"], chain.free)
        found["spent"] = profile.epsilon_at(budget.delta or USUAL_DELTA)
