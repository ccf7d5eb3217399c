"""Eigenvalues of a Hessian from files: as a list, or from a table of data.

Files are text or CSV with one row a line, with or without names of columns in the first line, or ``.npy``.  Error
messages count rows and columns from 1; the row is the line of the file.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np

from corrnoise.support import reading
from corrnoise.support.reading import LARGE, read_bytes
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array

NOT_COVERED = (
    "The eigenvalues were computed from the data.  If these are private, the budget does not cover that: use public"
    " data, or release the spectrum privately."
)
_NUMBER_RANGE = "[-1e100, 1e100]"  # squares of these stay finite
_MOST_TEXT = 2**28  # bytes of a table in text
_FEWEST_ROWS = 8  # fewest rows of a column that numbers the rows; fewer may be in order by chance


@dataclass(frozen=True)
class GivenSpectrum:
    """Eigenvalues, in descending order if they come from data, and sentences about them."""

    eigenvalues: Array
    notes: tuple[str, ...] = ()


def eigenvalues_from_file(path: str | os.PathLike[str], name: str = "path") -> GivenSpectrum:
    """Read eigenvalues, one a line.

    Parameters
    ----------
    path
        The file.
    name
        Its name in errors.

    Raises
    ------
    ValueError
        The file does not hold one positive number a line, or one line of them.
    OSError
        It cannot be read.
    """
    return GivenSpectrum(numbers_from_file(path, name))


def numbers_from_file(path: str | os.PathLike[str], name: str = "path") -> Array:
    """Read positive numbers, one a line, as ``eigenvalues_from_file``."""
    table = read_table(path, name)
    with _named(path):
        if 1 not in table.shape:
            raise ValueError(f"{name} must hold one number a line, got shape {table.shape}")
        return checks.reals(name, table.ravel(), "(0, 1e300]", ndim=1)


def eigenvalues_of_data(path: str | os.PathLike[str], name: str = "path") -> GivenSpectrum:
    """The eigenvalues of XᵀX/n for a data matrix X with a row for each of n examples.

    Parameters
    ----------
    path
        The file.
    name
        Its name in errors.

    Raises
    ------
    ValueError
        The file does not hold a table of finite numbers, all are 0, or the first column numbers the rows.
    OSError
        It cannot be read.
    """
    table = read_table(path, name)
    with _named(path):
        table = checks.reals(name, table, _NUMBER_RANGE)
        notes = [NOT_COVERED, *_order_note(table, name)]
    singular = np.linalg.svd(table, compute_uv=False)
    kept = singular > singular.max() * max(table.shape) * np.finfo(float).eps
    if not kept.any():
        raise ValueError(f"{name} must not be 0 everywhere")
    if (lost := table.shape[1] - int(kept.sum())) > 0:
        notes.append(f"{lost} of {table.shape[1]} eigenvalues are 0 and were left out: the loss is flat there.")
    return GivenSpectrum(singular[kept] ** 2 / table.shape[0], tuple(notes))


@contextmanager
def _named(path: str | os.PathLike[str]) -> Iterator[None]:
    """A block whose errors are about the numbers of a file, which they name."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}, in {os.fspath(path)}") from error


def _order_note(table: Array, name: str) -> list[str]:
    """Refuse a first column that numbers the rows; a sentence about one that rises from row to row."""
    first = table[:, 0]
    if len(first) < _FEWEST_ROWS or table.shape[1] == 1 or not (np.diff(first) > 0).all():
        return []
    if (np.diff(first) == 1).all():
        raise ValueError(
            f"{name} must hold features only, got a first column that numbers the rows, {first[0]:g}, {first[1]:g},"
            f" ..., {first[-1]:g}: remove it (or, if it is a feature, reorder the rows, which has no other effect)"
        )
    return [
        "The first column of the data rises from row to row and was taken as a feature.  If it is an identifier or a"
        " time,\nremove it."
    ]


# -- tables ------------------------------------------------------------------------------------------------------------


def read_table(path: str | os.PathLike[str], name: str = "path") -> Array:
    """A table of numbers, shape (rows, columns), from ``.npy`` or text.

    Raises
    ------
    ValueError
        The file holds something else; the message names the row and the column.
    OSError
        It cannot be read.
    """
    file = Path(path)
    table = _from_numpy(file, name) if file.suffix == ".npy" else _from_text(file, name)
    if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iuf":
        raise ValueError(
            f"{name} must hold a table of real numbers, got shape {table.shape} of {table.dtype} in {file}"
        )
    return table.astype(np.float64)


def _from_numpy(file: Path, name: str) -> Array:
    try:
        found: Array = np.atleast_1d(reading.array(read_bytes(file, LARGE)))
    except ValueError as error:
        raise ValueError(f"{name} must be a file of numpy.save if it is called *.npy, got {file}: {error}") from error
    return found[:, np.newaxis] if found.ndim == 1 else found


def _from_text(file: Path, name: str) -> Array:
    data = read_bytes(file, _MOST_TEXT)
    if file.suffix.lower() == ".json" or data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        raise ValueError(
            f"{name} must be text or CSV with one row a line, or .npy, got JSON in {file}: write it as a table first,"
            " for example with numpy.savetxt"
        )
    try:
        comma = "," if any("," in line for _, line in _lines(data)) else None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} must be text in UTF-8, or a file of numpy.save called *.npy, got {file}: {error}"
        ) from error
    lines = _lines(data)
    numbers = array("d")  # no list, whose numbers are four times as large
    first = columns = 0
    for place, (number, line) in enumerate(lines):
        cells = line.split(comma)
        if place == 0 and all(map(_is_name, cells)):
            continue
        numbers.extend(_number(cell, number, column, file, name) for column, cell in enumerate(cells, start=1))
        first, columns = (first, columns) if first else (number, len(cells))
        if len(cells) != columns:
            raise ValueError(
                f"{name} must hold a table, got {len(cells)} columns in row {number} of {file} and {columns} in row"
                f" {first}"
            )
    if not numbers:
        raise ValueError(f"{name} must hold numbers, got none in {file}")
    return np.array(numbers).reshape(-1, columns)


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """The numbers and the contents of the lines that are not empty, without comments."""
    for number, line in enumerate(TextIOWrapper(BytesIO(data), "utf-8-sig"), start=1):
        if line := line.partition("#")[0].strip():
            yield number, line


def _number(cell: str, row: int, column: int, file: Path, name: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ValueError(
            f"{name} must hold a table of numbers, got {cell.strip()!r} in row {row}, column {column} of {file}"
        ) from None


def _is_name(text: str) -> bool:
    """True if the cell contains a letter and does not start like a number, so that it names a column."""
    text = text.strip().strip("\"'")
    return any(map(str.isalpha, text)) and text[0] not in "+-.0123456789" and text.lower() not in ("nan", "inf")
