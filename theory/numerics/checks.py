"""Checks of arguments: one place, one wording.

A bad argument raises ``ValueError``, or ``TypeError`` if it has the wrong type.  The message names the argument, its
value and the admissible range.  Ranges are written as intervals: ``"[0, 2)"``, ``"(0, inf)"``.  An infinite end is
always open, so every checked number is finite.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import NDArray

Array = NDArray[np.float64]
Kind = TypeVar("Kind")
Option = TypeVar("Option", bound=str)

_MAX_ASYMMETRY = 1e-9  #: largest asymmetry that counts as rounding, relative to the largest entry
_LARGEST_INTEGER = 10**18  # no array is longer


def _ends(interval: str) -> tuple[float, float]:
    low, high = interval[1:-1].split(",")
    return float(low), float(high)


def _inside(values: Array, interval: str) -> NDArray[np.bool_]:
    low, high = _ends(interval)
    above = values >= low if interval[0] == "[" else values > low
    below = values <= high if interval[-1] == "]" else values < high
    return above & below & np.isfinite(values)


def frozen(array: Array) -> Array:
    """Return ``array``, made read-only."""
    array.setflags(write=False)
    return array


def real(name: str, value: object, interval: str = "(-inf, inf)") -> float:
    """Return ``value`` as a float in ``interval``."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number in {interval}, got {value!r}")
    try:
        number = float(value)
    except OverflowError:
        number = np.inf
    if not _inside(np.asarray(number), interval):
        raise ValueError(f"{name} must lie in {interval}, got {value!r}")
    return number


def reals(
    name: str, values: object, interval: str = "(-inf, inf)", *, ndim: int | None = None, shared: bool = False
) -> Array:
    """Return ``values`` as a read-only float64 array in C order with entries in ``interval``.

    ``ndim=1`` demands a non-empty vector.  ``None`` allows any shape, a scalar included.  The array is a copy, because
    even a read-only one may have views that others write to; ``shared`` says that it need not be, if it is read-only.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers in {interval}, got {values!r:.80}") from error
    if array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must hold real numbers in {interval}, got {values!r:.80}")
    if ndim == 1 and (array.ndim != 1 or array.size == 0):
        raise ValueError(f"{name} must be a non-empty vector of numbers in {interval}, got shape {array.shape}")
    if array.flags.writeable or not shared:
        array = array.copy()
    array = np.asarray(array, dtype=np.float64, order="C")
    if array.size and not _inside(np.array([array.min(), array.max()]), interval).all():
        bad = ~_inside(array, interval)
        share = f" ({int(bad.sum())} of {array.size} entries)" if array.ndim else ""
        raise ValueError(f"{name} must lie in {interval}, got {float(array[bad].flat[0])!r}{share}")
    return frozen(array)


def vector(name: str, values: object, interval: str = "(-inf, inf)") -> Array:
    """Return ``values`` as a read-only vector, possibly empty; a number is a vector of one."""
    array = np.atleast_1d(reals(name, values, interval))
    if array.ndim > 1:
        raise ValueError(f"{name} must be a vector of numbers in {interval}, got shape {array.shape}")
    return array


def scalar_or_vector(name: str, values: object, interval: str, size: int) -> Array:
    """Return ``values`` as a read-only array of shape () or (``size``,)."""
    array = reals(name, values, interval)
    if array.shape not in ((), (size,)):
        raise ValueError(f"{name} must be a scalar or have shape ({size},), got shape {array.shape}")
    return array


def shaped(name: str, values: object, shape: tuple[int, ...], interval: str = "(-inf, inf)") -> Array:
    """Return ``values`` as a read-only array of the given shape with entries in ``interval``."""
    array = reals(name, values, interval)
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got shape {array.shape}")
    return array


def symmetric(name: str, values: object, size: int) -> Array:
    """Return ``values`` as a read-only symmetric matrix of shape (``size``, ``size``)."""
    matrix = shaped(name, values, (size, size))
    difference = float(np.abs(matrix - matrix.T).max())
    if difference > _MAX_ASYMMETRY * np.abs(matrix).max():
        raise ValueError(
            f"{name} must be symmetric, got entries that differ by {difference!r} from their mirror images"
        )
    return matrix


def positive_definite(name: str, values: object, size: int) -> Array:
    """Return ``values`` as a read-only symmetric positive definite matrix of shape (``size``, ``size``)."""
    matrix = symmetric(name, values, size)
    least = float(np.linalg.eigvalsh(matrix)[0])
    if least <= 0:
        raise ValueError(f"{name} must be positive definite, with eigenvalues in (0, inf), got {least!r}")
    return matrix


def integer(name: str, value: object, minimum: int, *, largest: int = _LARGEST_INTEGER) -> int:
    """Return ``value`` as an int, at least ``minimum`` and at most ``largest``."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer >= {minimum}, got {value!r}")
    number = int(value)
    if number < minimum:
        raise ValueError(f"{name} must be an integer >= {minimum}, got {value!r}")
    if number > largest:
        raise ValueError(f"{name} must be an integer in [{minimum}, {largest}], got {value!r}")
    return number


def seed(name: str, value: object) -> int:
    """Return ``value``, an integer from 0 to 2^128 that seeds a generator."""
    return integer(name, value, 0, largest=2**128)


def choice(name: str, value: object, options: tuple[Option, ...]) -> Option:
    """Return ``value``, one of ``options``."""
    if not isinstance(value, str) or value not in options:
        from corrnoise.support.suggestions import did_you_mean  # here, as only an error needs it

        near = did_you_mean(value, options) if isinstance(value, str) else ""
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}, got {value!r}{near}")
    return options[options.index(value)]


def boolean(name: str, value: object) -> bool:
    """Return ``value``, True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def instance(name: str, value: object, kind: type[Kind]) -> Kind:
    """Return ``value``, an instance of ``kind``."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be a {kind.__name__}, got {value!r:.80}")
    return value


def same_length(first: str, one: Array, second: str, other: Array) -> None:
    """Refuse two vectors of different length."""
    if one.shape != other.shape:
        raise ValueError(f"{first} and {second} must have the same length, got {one.size} and {other.size}")
