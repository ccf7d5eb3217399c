"""A small design and its file, for the tests of designs."""

from pathlib import Path
from typing import Any

from corrnoise.solvers.rational.exchange import buffer_form

from corrnoise.designs.files import archive
from corrnoise.designs.record import Design
from corrnoise.solvers.rational.approximation import rational_approximation
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.problems.quadratic import LinearRegression

PROBLEM = LinearRegression([1.0, 0.3, 0.01], 0.05, 0.2)
_APPROXIMATION = rational_approximation(NuFTRL(0.1), 1e-6)
assert isinstance(_APPROXIMATION, PoleNoise)
POLES: PoleNoise = _APPROXIMATION


def small(**changes: Any) -> Design:
    """A design that nothing was computed for, with some arguments changed."""
    arguments: dict[str, Any] = {
        "noise": NuFTRL(0.1),
        "stream": POLES,
        "buffers": buffer_form(POLES),
        "rho": 0.5,
        "steps": 5,
        "problem": PROBLEM,
        "initial_offset": 0.5,
        "notes": ("A sentence.",),
        "metadata": {"name": "small", "count": 3, "share": 0.1, "checked": True},
    }
    return Design(**{**arguments, **changes})


def written(design: Design, path: Path) -> Path:
    """``path``, which then holds the archive of ``design``."""
    path.write_bytes(archive(design))
    return path
