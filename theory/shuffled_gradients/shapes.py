"""Checks of arrays whose shape other arguments decide."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory import checks
from corrnoise.theory.checks import Array

_ROUNDING = 1e-9  #: asymmetry that rounding may leave, relative to the largest entry


def shaped(name: str, values: ArrayLike, shape: tuple[int, ...], interval: str = "(-inf, inf)") -> Array:
    """Return ``values`` as a read-only array of the given shape with entries in ``interval``."""
    array = checks.reals(name, values, interval)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got shape {array.shape}")
    return array


def symmetric(name: str, values: ArrayLike, size: int) -> Array:
    """Return ``values`` as a read-only symmetric matrix of shape (``size``, ``size``)."""
    matrix = shaped(name, values, (size, size))
    difference = float(np.abs(matrix - matrix.T).max())
    if difference > _ROUNDING * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric, got entries that differ by {difference!r} from their mirror images"
        )
    return matrix


def positive_definite(name: str, values: ArrayLike, size: int) -> Array:
    """Return ``values`` as a read-only symmetric positive definite matrix of shape (``size``, ``size``)."""
    matrix = symmetric(name, values, size)
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least <= 0:
        raise ValueError(f"{name} must be positive definite, with eigenvalues in (0, inf), got {least!r}")
    return matrix
