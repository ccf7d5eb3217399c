"""The common part of the figures: one entry for each figure, and files that are whole or not there.

A figure is two functions: one computes its data, as records of plain arrays, and one draws them.  A third may simulate
random quantities whose exact values are the data; its records are drawn and written, too.  ``publish`` writes the
drawing as PDF and PNG and the data as CSV, under the style ``corrnoise.mplstyle``.  The same data give the same bytes
at every run: no dates are written, and settings of the user's own are set aside.
"""

from __future__ import annotations

import io
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.figures.series import Data, Series, SimulatedSeries, read_csv, series_text
from corrnoise.support.files import whole_files
from corrnoise.support.version import __version__
from corrnoise.theory.numerics.float_errors import usual_float_errors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

    from corrnoise.figures.simulation import Simulated, SimulationRun
else:
    Axes = Drawing = Any  # importing them takes a second

__all__ = [
    "PAGE_WIDTH",
    "Axes",
    "Data",
    "Drawing",
    "PaperFigure",
    "Series",
    "SimulatedSeries",
    "csv_text",
    "house_style",
    "legend_below",
    "publish",
    "read_csv",
    "subplots",
    "subplots_with_residuals",
    "svg_text",
    "write_figure",
]

PAGE_WIDTH = 6.75  #: inches, for three panels side by side


@dataclass(frozen=True)
class PaperFigure:
    """A figure of a paper, or one that goes on from there, drawn from formulas."""

    name: str  #: its name here, which its files bear
    source: str  #: where it stands
    title: str  #: its subject
    panels: Mapping[str, str]  #: for each panel what x and y are, with units
    parameters: Sequence[str]  #: the settings, a line each
    data: Callable[[], Data]  #: computes the records that are drawn
    draw: Callable[[Data], Drawing]  #: draws them
    report: Callable[[Data], str]  #: statements of the paper next to these records: differences, and why
    simulate: Callable[[SimulationRun], Simulated] | None = None  #: simulates the exact records
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


@usual_float_errors
def publish(figure: PaperFigure, directory: str | os.PathLike[str], data: Data | None = None) -> list[Path]:
    """Draw ``figure`` and write PDF, PNG and CSV to ``directory``, which is made where it is missing; return the paths.

    All three are complete before the first takes its name, so an error or an interruption leaves earlier files as they
    are.  An ``OSError`` says that the directory cannot be made or written to.  ``data`` are the records; None for
    ``figure.data()``, without simulations.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    with whole_files(directory) as staging:
        paths = write_figure(figure, figure.data() if data is None else data, staging)
        return [directory / path.name for path in paths]


@contextmanager
def house_style() -> Iterator[None]:
    """Draw in the style of the project, whatever the user's settings."""
    logging.getLogger("matplotlib").addFilter(_is_not_about_its_cache)
    import matplotlib

    with as_file(files("corrnoise.figures") / "corrnoise.mplstyle") as path, matplotlib.rc_context(fname=path):
        yield


def _is_not_about_its_cache(record: logging.LogRecord) -> bool:
    """Whether to show a message of matplotlib; without a home folder it works, and warns of a temporary cache."""
    return "temporary cache directory" not in str(record.msg)


@usual_float_errors
def svg_text(figure: PaperFigure, data: Data) -> str:
    """The drawing of ``data`` as SVG; the same data give the same text at every run."""
    file = io.StringIO()
    with house_style():
        figure.draw(data).savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def csv_text(figure: PaperFigure, data: Data) -> str:
    """``data`` as CSV with a header of comments; the numbers are read back without loss."""
    lines = [f"{figure.source}: {figure.title}", f"Computed by corrnoise {__version__}"]
    lines += [f"Panel {panel}: {axes}" for panel, axes in figure.panels.items()]
    return series_text(data, [*lines, *figure.parameters])


def write_figure(figure: PaperFigure, data: Data, folder: Path) -> list[Path]:
    """Write the drawing of ``data`` to ``folder`` as PDF and PNG, and ``data`` as CSV; return the paths."""
    pdf, png, table = (folder / f"{figure.name}.{suffix}" for suffix in ("pdf", "png", "csv"))
    with house_style():
        drawing = figure.draw(data)
        drawing.savefig(pdf, metadata={"CreationDate": None})
        drawing.savefig(png)
    table.write_text(csv_text(figure, data), encoding="utf-8", newline="")
    return [pdf, png, table]
