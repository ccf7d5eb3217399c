"""The advice for each refusal of a folder: one table for all openings and for ``cn.run_status``."""

from __future__ import annotations

ADVICE = {
    "mark is missing": "the folder is a copy, or comes from another machine, where the run may go on. If it does not, "
    "moved=True says so, once; marks=… on the volume of the folder keeps the mark with it",
    "journal is older": "to go on would release steps twice; restore the newest, or begin a new run and add its ρ",
    "mark is older": "a part of the run was restored from a copy, or the run went on on another machine; restore the "
    "newest, or say moved=True once if the folder is the newest",
    "checkpoint is unknown": "restore the newest folder, or begin a new run and add its ρ",
    "version differs": "finish the run with the version that began it",
    "settings differ": "repeat the settings of the folder, or take another folder for another run",
    "multiplier is small": "begin a new run, and add its ρ",
    "mode": "chmod 600 it, if no other user has read it",
    "folder mode": "chmod 700 it, or take another folder; a file system without modes cannot keep a run",
    "owner": "take another folder, or make one in it",
    "foreign folder": "take a folder in it",
}
_OTHER_ADVICE = "restore the file, or the whole folder, from its newest copy"


def refused(name: str, cause: str, kind: type[Exception] = ValueError) -> Exception:
    """The error of a refusal: its cause, and the advice of the table."""
    return kind(f"{cause}: {ADVICE[name]}")


def explained(error: Exception) -> tuple[str, str]:
    """The cause and the advice of an error at an opening."""
    text = str(error)
    for advice in ADVICE.values():
        if text.endswith(f": {advice}"):
            return text.removesuffix(f": {advice}"), advice
    return text, _OTHER_ADVICE
