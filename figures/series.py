"""The data of figures: records of plain arrays, and their tables."""

import os
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import numpy as np

from corrnoise.support.csv_tables import read_table, table_text
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

_CSV_COLUMNS = ["panel", "method", "kind", "x", "y"]
_SIMULATED_COLUMNS = ["standard_error", "exact", "z"]  # written if something was simulated; empty for the rest


@record
class Series(Record):
    """One curve, or one set of points, of one panel."""

    panel: str  #: which panel of the figure
    method: str  #: the name of the curve: an algorithm, or the parameter that tells the curves of a panel apart
    kind: str  #: what sort of statement y is, such as ``"exact"``, ``"lower bound"`` or ``"rate"``
    x: Array  #: finite numbers, shape (n,); units are stated by ``PaperFigure.panels``
    y: Array  #: the same

    def __post_init__(self) -> None:
        self._set(x=checks.reals("x", self.x, ndim=1), y=checks.reals("y", self.y, ndim=1))
        checks.same_length("x", self.x, "y", self.y)


@record
class SimulatedSeries(Series):
    """Points whose y was simulated and is known exactly as well."""

    standard_error: Array  #: of y, > 0, shape (n,)
    exact: Array  #: the expectation of y, shape (n,)

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


def series_text(data: Data, comments: Iterable[str]) -> str:
    """``data`` as CSV with a header of comments."""
    simulated = any(isinstance(s, SimulatedSeries) for s in data)
    columns = _CSV_COLUMNS + _SIMULATED_COLUMNS * simulated
    return table_text(columns, (row for s in data for row in _rows(s, simulated)), comments)


def _rows(series: Series, simulated: bool) -> Iterator[list[Any]]:
    numbers = [series.x.tolist(), series.y.tolist()]
    if isinstance(series, SimulatedSeries):
        numbers += [series.standard_error.tolist(), series.exact.tolist(), series.z.tolist()]
    elif simulated:
        numbers += [[""] * series.x.size] * len(_SIMULATED_COLUMNS)
    for row in zip(*numbers, strict=True):
        yield [series.panel, series.method, series.kind, *row]


def read_csv(path: str | os.PathLike[str]) -> Data:
    """Read a file of ``series_text``."""
    columns, rows = read_table(path)
    if columns not in (_CSV_COLUMNS, _CSV_COLUMNS + _SIMULATED_COLUMNS):
        raise ValueError(f"path must be a table with the columns {', '.join(_CSV_COLUMNS)}, got {', '.join(columns)}")
    series: list[Series] = []
    for (panel, method, kind), group in groupby(rows, key=lambda row: tuple(row[:3])):
        x, y, *rest = (
            np.array(column, float) for column in zip(*([v for v in row[3:] if v] for row in group), strict=True)
        )
        series.append(
            SimulatedSeries(panel, method, kind, x, y, *rest[:2]) if rest else Series(panel, method, kind, x, y)
        )
    return tuple(series)
