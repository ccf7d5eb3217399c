"""Public names that will go: they still work, and warn."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
GOING: dict[str, str] = {}  #: the version in which each deprecated function goes, by its qualified name


def warn_caller(text: str) -> None:
    """Show a ``FutureWarning`` at the line outside of the package that led to the call."""
    frame, level = sys._getframe(2), 3
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("corrnoise."):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, FutureWarning, stacklevel=level)


def deprecated(version: str, *, instead: str) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Mark a function that goes in ``version``: each call warns and says what takes its place.

    The warning is a ``FutureWarning``, which Python shows to users by default, and names the line of the caller.
    """

    def marked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        name = f"{function.__module__}.{function.__qualname__}"
        GOING[name] = version

        @wraps(function)
        def warned(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            text = f"{function.__qualname__} goes in corrnoise {version}: use {instead}"
            warn_caller(text)
            return function(*args, **kwargs)

        return warned

    return marked


def renamed_keyword(
    version: str, old: str, new: str
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Accept a keyword argument under its old name until ``version``: such a call warns and names the new one.

    Parameters
    ----------
    version : str
        The version without the old name.
    old, new : str
        Names of the argument.

    Returns
    -------
    Callable
        A decorator of the function, whose argument has the new name.
    """

    def marked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        GOING[f"{function.__module__}.{function.__qualname__}({old}=)"] = version

        @wraps(function)
        def warned(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            if old in kwargs:
                text = f"{old}= goes in corrnoise {version}: use {new}="
                warn_caller(text)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return warned

    return marked
