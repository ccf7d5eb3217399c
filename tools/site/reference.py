"""The reference: a page for each public name, in the groups of the public names, and the help of the command line."""

from __future__ import annotations

import importlib
import inspect
import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import corrnoise as cn
from corrnoise.__main__ import COMMANDS
from corrnoise.__main__ import main as command_line

#: The groups of the names of ``corrnoise`` itself.
OWN = {
    "Guarantee": ("Budget", "Participation"),
    "Noise for a run": ("design", "Design", "SGD", "optimise", "default_noise", "Optimum", "save", "load"),
    "Runs": ("PrivateRun", "Folder", "run_status", "batches", "audit", "audit_scores", "tune", "Account"),
    "Errors": ("LinearRegression", "MeanEstimation", "StronglyConvex", "hessian_spectrum", "simulate"),
    "Papers": ("claims",),
    "Reports": ("show_versions",),
}
SHELVES = (
    "mechanisms",
    "objectives",
    "families",
    "participation",
    "privacy",
    "torch",
    "opacus",
    "jax",
    "flower",
    "losses",
    "datasets",
    "ledger",
)
PAPERS = ("correlated_noise", "shuffled_gradients", "noise_cancellation", "momentum_aggregation")


def write_reference(source: Path) -> None:
    """Write ``api/``, ``command-line.md``, `XX in the folder ``source``."""
    folder = source / "api"
    folder.mkdir()
    rooms = ["corrnoise", *(f"corrnoise.{name}" for name in SHELVES), *(f"corrnoise.papers.{name}" for name in PAPERS)]
    for room in rooms:
        (folder / f"{room}.md").write_text(_room(room, folder), encoding="utf-8")
    contents = "\n".join(f"{room}" for room in rooms)
    index = f"# Public names\n\n{_STABILITY_NOTE}\n\n```{{toctree}}\n{contents}\n```\n"
    (folder / "index.md").write_text(index, encoding="utf-8")
    (source / "command-line.md").write_text(_command_line(), encoding="utf-8")
    (source / "families.md").write_text(_families(), encoding="utf-8")


_STABILITY_NOTE = """`import corrnoise as cn` gives all of these names. They, the command line and saved files stay
stable; other modules may move from one version to the next."""


def ungrouped() -> set[str]:
    """The public names of ``corrnoise`` that no group lists, and the names of groups that are not public."""
    listed = {name for names in OWN.values() for name in names}
    return listed ^ {name for name in cn.__all__ if name not in {"__version__", "papers", *SHELVES}}


def _room(room: str, folder: Path) -> str:
    """The page of a module: its names, a line each; the page of each name is written to ``folder``."""
    module: Any = importlib.import_module(room)
    groups = OWN if room == "corrnoise" else {"": tuple(getattr(module, "__all__", ()))}
    if room == "corrnoise" and (differ := ungrouped()):
        raise ValueError(f"OWN must list the public names, and differs in {', '.join(sorted(differ))}")
    text = f"# {room.replace('corrnoise', 'cn', 1)}\n\n{_first(module)}\n"
    for heading, names in groups.items():
        rows = "".join(f"| [`{name}`]({room}.{name}.rst) | {_first(getattr(module, name))} |\n" for name in names)
        text += (f"\n## {heading}\n" if heading else "") + f"\n| name | purpose |\n|---|---|\n{rows}"
    everything = [name for group in groups.values() for name in group]
    for name in everything:
        (folder / f"{room}.{name}.rst").write_text(_entry(room, name, getattr(module, name)), encoding="utf-8")
    hidden = "\n".join(f"{room}.{name}" for name in everything)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{hidden}\n```\n"


def _first(item: Any) -> str:
    """The first sentence of a docstring, or the names of families, for a cell of a table."""
    if isinstance(item, tuple):
        return ", ".join(one.name for one in item)
    text = " ".join((inspect.getdoc(item) or "").split("\n\n")[0].split())
    return text.replace("``", "`").replace("|", r"\|")


def _entry(room: str, name: str, item: Any) -> str:
    kind = "class" if inspect.isclass(item) else "function" if callable(item) else "data"
    title = f"{room.replace('corrnoise', 'cn', 1)}.{name}"
    if kind == "class" and item.__name__ != name:
        return f"{title}\n{'=' * len(title)}\n\nAnother name of :doc:`{room}.{item.__name__}`.\n"
    options = "   :members:\n   :inherited-members: object\n" if kind == "class" else ""
    if room != "corrnoise" and getattr(cn, name, None) is item:
        options += "   :no-index:\n"  # its own page is the one of ``cn``
    return f"{title}\n{'=' * len(title)}\n\n.. currentmodule:: {room}\n\n.. auto{kind}:: {room}.{name}\n{options}"


def _command_line() -> str:
    """The help of the command line and of each of its commands."""
    text = "# Command line\n"
    for words in ([], *([name] for name in COMMANDS)):
        with redirect_stdout(io.StringIO()) as shown:
            command_line([*words, "--help"])
        text += f"\n## {' '.join(['corrnoise', *words])}\n\n```text\n{shown.getvalue().rstrip()}\n```\n"
    return text


def _families() -> str:
    """The families of noise, from the registry."""
    text = "# Families of noise\n\n"
    text += "`cn.optimise(family=...)`, `cn.design(family=...)` and `corrnoise design --family` take these names, and\n"
    text += f"without a name compare {_first(cn.families.DEFAULT)}. All others are baselines, which\n"
    text += (
        "`corrnoise design --baselines` compares, too. A family of your own is a subclass of `cn.families.Family`.\n\n"
    )
    text += "| name | noise | source | other names |\n|---|---|---|---|\n"
    for family in map(cn.families.by_name, cn.families.names()):
        text += f"| {family.name} | {_first(type(family))} | {family.source} | {', '.join(family.aliases)} |\n"
    return text
