"""Tables as CSV text: comments, a row of columns, rows.  Numbers are read back without loss."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from typing import Any

from corrnoise.support.reading import guarded, read_bytes


def table_text(columns: Sequence[str], rows: Iterable[Iterable[Any]], comments: Iterable[str] = ()) -> str:
    """The table as text; comments stand before it, each after ``# ``.  None is an empty cell."""
    file = io.StringIO()
    file.writelines(f"# {comment}\n" for comment in comments)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()


def read_table(path: str | os.PathLike[str]) -> tuple[list[str], list[list[str]]]:
    """The columns and the rows of a file of ``table_text``, without the comments."""
    with guarded(path):
        text = io.StringIO(read_bytes(path).decode(), newline="")
        columns, *rows = csv.reader(line for line in text if not line.startswith("#"))
        return columns, rows
