"""The table, the machine it was measured on, and the file with both."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from benchmarks.core import Row
from corrnoise.support.files import write_whole

PACKAGES = ("corrnoise", "numpy", "scipy", "numba", "mpmath")
PEERS = ("jax-privacy", "jax")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def machine(peer: bool = False) -> dict[str, str]:
    """Processor, system and versions, with those of jax-privacy for a comparison with this ``peer``."""
    return {
        "processor": f"{_processor()}, {os.cpu_count()} logical cores",
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES + PEERS * peer},
    }


def machine_line(peer: bool = False) -> str:
    """The same as two lines of text."""
    facts = machine(peer)
    where = f"{facts.pop('processor')}; {facts.pop('system')}"
    return where + "\n" + ", ".join(f"{name} {number}" for name, number in facts.items())


_CASE = 18
_SIDE = 39

HEAD = (
    f"{'case':<{_CASE}} {'against':<{_SIDE}} {'ratio':>8} {'spread':>17} {'our ns':>8} {'its ns':>11} "
    f"{'difference':>10} {'our error':>9} {'its error':>9}  per"
)


def _number(x: float) -> str:
    return f"{x:.3g}" if 1e-3 <= x < 1e3 else f"{x:,.0f}" if x >= 1e3 else f"{x:.1e}"


def line(row: Row) -> str:
    """One row of the table; ns is the CPU time for one item, whose unit is in the column ``per``."""
    spread = f"{_number(row.low)} .. {_number(row.high)}"
    errors = " ".join(f"{'-' if e is None else f'{e:.1e}':>9}" for e in (row.error, row.other_error))
    verdict = "" if row.agrees else f"  DISAGREES (tolerance {row.tolerance:.0e})"
    return (
        f"{row.case:<{_CASE}} {row.other:<{_SIDE}} {_number(row.ratio):>8} {spread:>17} "
        f"{_number(row.seconds * 1e9):>8} {_number(row.other_seconds * 1e9):>11} "
        f"{row.difference:>10.1e} {errors}  {row.item}{verdict}"
    )


def save(file: Path, rows: Iterable[tuple[str, Row]], peer: bool = False) -> None:
    """Write machine and rows as JSON; the file is complete or not written."""
    content = {"machine": machine(peer), "rows": [{"benchmark": name, **asdict(row)} for name, row in rows]}
    write_whole(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
