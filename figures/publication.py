"""What the figures share: records of data, one entry for each figure, files that are whole or not there.

A figure is two functions: one computes its data, as records of plain arrays, and one draws them.  A third may simulate
what the data state exactly; its records are drawn and written beside the others.  ``publish`` writes the drawing as PDF
and PNG and the data as CSV, under the style ``corrnoise.mplstyle``.  The same data give the same bytes at every run: no
dates are written, and settings of the user's own are set aside.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from corrnoise.support.files import whole_files
from corrnoise.support.version import __version__
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from corrnoise.figures.simulation import Simulated, SimulationRun

STYLE = Path(__file__).with_name("corrnoise.mplstyle")
PAGE_WIDTH = 6.75  #: inches, for three panels side by side

_COLUMNS = ["panel", "method", "kind", "x", "y"]
_SIMULATED_COLUMNS = ["standard_error", "exact", "z"]  # written if something was simulated; empty for the rest


@record
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


@record
class SimulatedSeries(Series):
    """Points whose y was simulated and is known exactly as well.

    Parameters
    ----------
    standard_error
        Of y, > 0, shape (n,).
    exact
        The expectation of y, shape (n,).
    """

    standard_error: Array
    exact: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            standard_error=checks.reals("standard_error", self.standard_error, "(0, inf)", ndim=1),
            exact=checks.reals("exact", self.exact, ndim=1),
        )
        checks.same_length("y", self.y, "standard_error", self.standard_error)
        checks.same_length("y", self.y, "exact", self.exact)

    @property
    def z(self) -> Array:
        """(y − exact)/standard error, shape (n,)."""
        return (self.y - self.exact) / self.standard_error


Data = tuple[Series, ...]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, or one that goes on from there, drawn from formulas.

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
        What the paper states beside these records, where the two differ, and why.
    simulate
        Simulates what the records state exactly; None if nothing of it is random.
    on_original_data
        The same figure on the paper's own data, which it fetches; None unless it is drawn on stand-ins.
    """

    name: str
    source: str
    title: str
    panels: Mapping[str, str]
    parameters: Sequence[str]
    data: Callable[[], Data]
    draw: Callable[[Data], Figure]
    report: Callable[[Data], str]
    simulate: Callable[[SimulationRun], Simulated] | None = None
    on_original_data: Callable[[], PaperFigure] | None = None


def publish(figure: PaperFigure, directory: str | os.PathLike[str], data: Data | None = None) -> list[Path]:
    """Draw ``figure`` and write PDF, PNG and CSV to ``directory``, which is made where it is missing.

    All three are complete before the first takes its name, so an error or an interruption leaves what was there.

    Parameters
    ----------
    figure
        What to draw.
    directory
        Where to.
    data
        Its records; None for ``figure.data()``, without simulations.

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
    with whole_files(directory) as staging:
        data = figure.data() if data is None else data
        paths = [staging / f"{figure.name}.{suffix}" for suffix in ("pdf", "png", "csv")]
        with matplotlib.rc_context(fname=STYLE):
            drawing = figure.draw(data)
            drawing.savefig(paths[0], metadata={"CreationDate": None})
            drawing.savefig(paths[1])
        paths[2].write_text(csv_text(figure, data), encoding="utf-8", newline="")
        return [directory / path.name for path in paths]


def svg_text(figure: PaperFigure, data: Data) -> str:
    """The drawing of ``data`` as SVG; the same data give the same text at every run."""
    import matplotlib

    file = io.StringIO()
    with matplotlib.rc_context(fname=STYLE):
        figure.draw(data).savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def csv_text(figure: PaperFigure, data: Data) -> str:
    """``data`` as CSV with a header of comments; the numbers are read back without loss."""
    lines = [f"{figure.source}: {figure.title}", f"Computed by corrnoise {__version__}"]
    lines += [f"Panel {panel}: {axes}" for panel, axes in figure.panels.items()]
    lines += figure.parameters
    file = io.StringIO()
    file.writelines(f"# {line}\n" for line in lines)
    writer = csv.writer(file, lineterminator="\n")
    simulated = any(isinstance(s, SimulatedSeries) for s in data)
    writer.writerow(_COLUMNS + _SIMULATED_COLUMNS * simulated)
    for s in data:
        columns = [s.x.tolist(), s.y.tolist()]
        if isinstance(s, SimulatedSeries):
            columns += [s.standard_error.tolist(), s.exact.tolist(), s.z.tolist()]
        elif simulated:
            columns += [[""] * s.x.size] * len(_SIMULATED_COLUMNS)
        writer.writerows([s.panel, s.method, s.kind, *row] for row in zip(*columns, strict=True))
    return file.getvalue()


def read_csv(path: str | os.PathLike[str]) -> Data:
    """Read a file of ``csv_text``."""
    with Path(path).open(newline="", encoding="utf-8") as file:
        columns, *rows = csv.reader(line for line in file if not line.startswith("#"))
    if columns not in (_COLUMNS, _COLUMNS + _SIMULATED_COLUMNS):
        raise ValueError(f"path must be a table with the columns {', '.join(_COLUMNS)}, got {', '.join(columns)}")
    series: list[Series] = []
    for (panel, method, kind), group in groupby(rows, key=lambda row: tuple(row[:3])):
        x, y, *rest = (
            np.array(column, float) for column in zip(*([v for v in row[3:] if v] for row in group), strict=True)
        )
        series.append(
            SimulatedSeries(panel, method, kind, x, y, *rest[:2]) if rest else Series(panel, method, kind, x, y)
        )
    return tuple(series)
