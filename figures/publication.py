"""The common part of the figures: one entry for each figure, and files that are whole or not there.

A figure is two functions: one computes its data, as records of plain arrays, and one draws them.  A third may simulate
what the data state exactly; its records are drawn and written beside the others.  ``publish`` writes the drawing as PDF
and PNG and the data as CSV, under the style ``corrnoise.mplstyle``.  The same data give the same bytes at every run: no
dates are written, and settings of the user's own are set aside.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.figures.series import Data, Series, SimulatedSeries, read_csv, series_text
from corrnoise.support.files import whole_files
from corrnoise.support.version import __version__

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from corrnoise.figures.simulation import Simulated, SimulationRun
else:
    Axes = Drawing = Any  # importing them takes a second

__all__ = [
    "PAGE_WIDTH",
    "STYLE",
    "Axes",
    "Data",
    "Drawing",
    "PaperFigure",
    "Series",
    "SimulatedSeries",
    "csv_text",
    "legend_below",
    "publish",
    "read_csv",
    "subplots",
    "subplots_with_residuals",
    "svg_text",
    "write_figure",
]

STYLE = Path(__file__).with_name("corrnoise.mplstyle")
PAGE_WIDTH = 6.75  #: inches, for three panels side by side


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, or one that goes on from there, drawn from formulas."""

    name: str  #: its name here, which its files bear
    source: str  #: where it stands
    title: str  #: what it shows
    panels: Mapping[str, str]  #: for each panel what x and y are, with units
    parameters: Sequence[str]  #: the settings, a line each
    data: Callable[[], Data]  #: computes the records that are drawn
    draw: Callable[[Data], Drawing]  #: draws them
    report: Callable[[Data], str]  #: what the paper states beside these records, where the two differ, and why
    simulate: Callable[[SimulationRun], Simulated] | None = None  #: what the records state exactly, if it is random
    on_cluster: bool = False  #: whether the simulation can run on the workers of a cluster
    on_original_data: Callable[[], PaperFigure] | None = None  #: on the paper's data, fetched, if this is on stand-ins


def subplots(height: float, rows: int = 1, columns: int = 1, *, width: float = PAGE_WIDTH, **options: Any) -> Any:
    """A drawing of so many inches, and its panels as ``matplotlib.figure.Figure.subplots`` returns them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


def subplots_with_residuals(height: float, columns: int, *, residuals: bool, sharex: Any) -> Any:
    """As ``subplots``: a row of panels, and below it a lower one for ``residuals``."""
    rows = 2 if residuals else 1
    options = {"sharex": sharex, "sharey": "row", "squeeze": False, "height_ratios": [3, 1][:rows]}
    return subplots(3.9 if residuals else height, rows, columns, **options)


def legend_below(figure: Drawing, axes: Axes, columns: int | None = None) -> None:
    """The legend of one panel for all, below them; in two rows if ``columns`` is None."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns or len(labels) // 2)


def publish(figure: PaperFigure, directory: str | os.PathLike[str], data: Data | None = None) -> list[Path]:
    """Draw ``figure`` and write PDF, PNG and CSV to ``directory``, which is made where it is missing; return the paths.

    All three are complete before the first takes its name, so an error or an interruption leaves what was there.  An
    ``OSError`` says that the directory cannot be made or written to.  ``data`` are the records; None for
    ``figure.data()``, without simulations.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with whole_files(directory) as staging:
        paths = write_figure(figure, figure.data() if data is None else data, staging)
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
    return series_text(data, [*lines, *figure.parameters])


def write_figure(figure: PaperFigure, data: Data, folder: Path) -> list[Path]:
    """Write the drawing of ``data`` to ``folder`` as PDF and PNG, and ``data`` as CSV; return the paths."""
    import matplotlib

    pdf, png, table = (folder / f"{figure.name}.{suffix}" for suffix in ("pdf", "png", "csv"))
    with matplotlib.rc_context(fname=STYLE):
        drawing = figure.draw(data)
        drawing.savefig(pdf, metadata={"CreationDate": None})
        drawing.savefig(png)
    table.write_text(csv_text(figure, data), encoding="utf-8", newline="")
    return [pdf, png, table]
