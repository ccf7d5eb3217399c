"""Papers from elsewhere: files with claims, and packages that are installed."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from corrnoise import paper_checks
from corrnoise.paper_checks.machinery.papers import Paper

ENTRY_POINT_GROUP = "corrnoise.papers"  #: of entry points, each MODULE:PAPER


def load(path: str | os.PathLike[str]) -> tuple[Paper, ...]:
    """Execute a Python file, as ``python FILE`` does, and return the papers whose claims it registers.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    tuple of Paper
        In the order of the file.

    Raises
    ------
    ValueError
        If the file fails or registers no claim, or if a paper has the name of a paper of the ledger.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> from corrnoise import ledger
    >>> papers = ledger.load("lemmas.py")  # doctest: +SKIP
    """
    file = Path(path)
    if file.suffix != ".py" or not file.is_file():
        raise OSError(f"path must be a Python file, got {file}")
    name = "claims_of_" + re.sub(r"\W", "_", file.stem)
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{file} fails: {type(error).__name__}: {error}") from error
    declared = {id(value): value for value in vars(module).values() if isinstance(value, Paper)}.values()
    found = tuple(paper for paper in declared if any(claim.module == name for claim in paper.registered))
    if not found:
        raise ValueError(f"{file} registers no claim: it needs a Paper, and functions under @PAPER.inequality")
    _require_new_names(found, paper_checks.NAMES, str(file))
    return found


def papers() -> tuple[Paper, ...]:
    """Return every paper of the ledger, then the papers that installed packages declare as entry points.

    The group of the entry points is ``corrnoise.papers``, and each is ``MODULE:PAPER``.  A package that cannot be
    imported is left out with a warning.

    Returns
    -------
    tuple of Paper

    Raises
    ------
    ValueError
        If two papers have one name.

    Examples
    --------
    >>> from corrnoise import ledger
    >>> ledger.papers()[0].name
    'correlated-noise'
    """
    found = list(paper_checks.papers())
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        try:
            paper = entry.load()
            if not isinstance(paper, Paper):
                raise TypeError(f"{entry.value} must be a Paper, got {type(paper).__name__}")
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            warnings.warn(f"the papers of the entry point {entry.name} are left out: {reason}", stacklevel=2)
            continue
        _require_new_names([paper], [one.name for one in found], f"the entry point {entry.name}")
        found.append(paper)
    return tuple(found)


def _require_new_names(found: Iterable[Paper], taken: Collection[str], place: str) -> None:
    for paper in found:
        if paper.name in taken:
            raise ValueError(f"{place}: another paper of the ledger is called {paper.name!r}; choose another name")
