"""Quasi-Newton search for a minimum, which ends where its line search fails and never warns of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scipy.optimize import minimize

from corrnoise.theory.numerics.checks import Array

Loss = Callable[[Array], tuple[float, Array]]


def bfgs(loss: Loss, start: Array, options: Mapping[str, Any], stop: Callable[[Array], bool] | None = None) -> Array:
    """Minimise a smooth loss by the BFGS method.

    SciPy hides warnings of its line search by filters that all threads share, so they appear in other threads.  Where
    warnings are errors, the search ends at the last iterate, as it does where the line search finds no point.

    Parameters
    ----------
    loss : Callable
        Value and gradient, shape (n,), at a point, shape (n,).
    start : Array
        First point, shape (n,).
    options : Mapping
        Options of ``scipy.optimize.minimize``.
    stop : Callable, optional
        Whether to stop at an iterate.

    Returns
    -------
    Array
        The last iterate, shape (n,).
    """
    last = start

    def keep(point: Array) -> None:
        nonlocal last
        last = point.copy()
        if stop is not None and stop(last):
            raise StopIteration

    try:
        found: Array = minimize(loss, start, jac=True, method="BFGS", callback=keep, options=dict(options)).x
    except RuntimeWarning as warning:
        if type(warning).__name__ != "LineSearchWarning":
            raise
        return last
    return found
