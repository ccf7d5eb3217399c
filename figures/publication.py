"""What the figures of the papers share: records of data, one entry for each figure, files that are whole or not there.

A figure is two functions: one computes its data, as records of plain arrays, and one draws them.  ``publish`` writes
the drawing as PDF and PNG and the data as CSV, under the style ``corrnoise.mplstyle``.  The same data give the same
bytes at every run: no dates are written, and settings of the user's own are set aside.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from corrnoise import __version__
from corrnoise.theory import checks
from corrnoise.theory.checks import Array
from corrnoise.theory.records import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = Path(__file__).with_name("corrnoise.mplstyle")
PAGE_WIDTH = 6.75  #: inches, for three panels side by side

_COLUMNS = ["panel", "method", "kind", "x", "y"]


@dataclass(frozen=True, eq=False, repr=False)
class Series(Record):
    """One curve, or one set of points, of one panel.

    Parameters
    ----------
    panel
        Which panel of the figure.
    method
        What is shown: an algorithm, or the parameter that tells the curves of a panel apart.
    kind
        What sort of statement y is, such as ``"exact"``, ``"lower bound"`` or ``"rate"``.
    x, y
        Finite numbers, shape (n,); units are stated by ``PaperFigure.panels``.
    """

    panel: str
    method: str
    kind: str
    x: Array
    y: Array

    def __post_init__(self) -> None:
        self._set(x=checks.reals("x", self.x, ndim=1), y=checks.reals("y", self.y, ndim=1))
        checks.same_length("x", self.x, "y", self.y)


Data = tuple[Series, ...]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, redrawn from formulas.

    Parameters
    ----------
    name
        Its name here, which its files bear.
    source
        Where it stands.
    title
        What it shows.
    panels
        For each panel what x and y are, with units.
    parameters
        The settings, a line each.
    data
        Computes the records that are drawn.
    draw
        Draws them.
    report
        What the paper states beside what was computed, where the two differ, and why.
    """

    name: str
    source: str
    title: str
    panels: Mapping[str, str]
    parameters: Sequence[str]
    data: Callable[[], Data]
    draw: Callable[[Data], Figure]
    report: Callable[[], str]


def publish(figure: PaperFigure, directory: str | os.PathLike[str]) -> list[Path]:
    """Compute and draw ``figure`` and write PDF, PNG and CSV to ``directory``, which is made where it is missing.

    All three are complete before the first takes its name, so an error or an interruption leaves what was there.

    Returns
    -------
    The paths of the files.

    Raises
    ------
    OSError
        The directory cannot be made or written to.
    """
    import matplotlib

    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{figure.name}-", dir=directory) as staging:
        data = figure.data()
        paths = [Path(staging, f"{figure.name}.{suffix}") for suffix in ("pdf", "png", "csv")]
        with matplotlib.rc_context(fname=STYLE):
            drawing = figure.draw(data)
            drawing.savefig(paths[0], metadata={"CreationDate": None})
            drawing.savefig(paths[1])
        write_csv(figure, data, paths[2])
        return [path.replace(directory / path.name) for path in paths]


def write_csv(figure: PaperFigure, data: Data, path: Path) -> None:
    """Write ``data`` with a header of comments; the numbers are read back without loss."""
    lines = [f"{figure.source}: {figure.title}", f"Computed by corrnoise {__version__}"]
    lines += [f"Panel {panel}: {axes}" for panel, axes in figure.panels.items()]
    lines += figure.parameters
    with path.open("w", newline="", encoding="utf-8") as file:
        file.writelines(f"# {line}\n" for line in lines)
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for s in data:
            writer.writerows([s.panel, s.method, s.kind, x, y] for x, y in zip(s.x.tolist(), s.y.tolist(), strict=True))


def read_csv(path: str | os.PathLike[str]) -> Data:
    """Read what ``write_csv`` wrote."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(line for line in file if not line.startswith("#"))
    if columns != _COLUMNS:
        raise ValueError(f"path must be a table with the columns {', '.join(_COLUMNS)}, got {', '.join(columns)}")
    series = []
    for (panel, method, kind), group in groupby(rows, key=lambda row: tuple(row[:3])):
        points = [(float(x), float(y)) for *_, x, y in group]
        xs, ys = zip(*points, strict=True)
        series.append(Series(panel, method, kind, list(xs), list(ys)))  # type: ignore[arg-type]
    return tuple(series)
