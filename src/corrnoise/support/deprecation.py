"""Public names that will go: they still work, and warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
GOING: dict[str, str] = {}  #: the version in which each deprecated function goes, by its qualified name


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
            warnings.warn(text, FutureWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warned

    return marked
