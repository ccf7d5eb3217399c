"""NumPy's usual treatment of float errors, whatever ``np.seterr`` says: underflow is silent, other errors warn.

Tails of Gaussians and high powers underflow in nearly every public function, and 0 is the right value there.  A program
with ``np.seterr(all="raise")`` would otherwise end in the middle of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import numpy as np

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_INSIDE_CALL = ContextVar("_INSIDE_CALL", default=False)  #: whether a call of this thread has set the state
_SPECIAL_METHODS = ("__init__", "__post_init__", "__call__")  # special methods that compute


def usual_float_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Run a function in NumPy's default error state.

    Parameters
    ----------
    function : Callable
        A function, not a generator: the state would last while the generator waits.

    Returns
    -------
    Callable
        The same function, with the caller's error state restored after each call.
    """

    @functools.wraps(function)
    def usual(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if _INSIDE_CALL.get():  # the outermost call has set the state
            return function(*args, **kwargs)
        token = _INSIDE_CALL.set(True)
        try:
            with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
                return function(*args, **kwargs)
        finally:
            _INSIDE_CALL.reset(token)

    return usual


def with_usual_float_errors(kind: type) -> None:
    """Apply ``usual_float_errors`` to the public methods and properties that a class defines.

    Parameters
    ----------
    kind : type
        The class, which is changed.
    """
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name not in _SPECIAL_METHODS:
            continue
        changed: Any = None
        if isinstance(member, property) and member.fget is not None:
            changed = property(usual_float_errors(member.fget), member.fset, member.fdel, member.__doc__)
        elif isinstance(member, functools.cached_property):
            member.func = usual_float_errors(member.func)
        elif isinstance(member, classmethod | staticmethod):
            changed = type(member)(usual_float_errors(member.__func__))
        elif inspect.isfunction(member) and not inspect.isgeneratorfunction(member):
            changed = usual_float_errors(member)
        if changed is not None:
            setattr(kind, name, changed)
