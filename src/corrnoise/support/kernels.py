"""Compiled functions: numba with the options of this project, and a cache where one can be written."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np

_NUMBA_CONFIG: Any = numba.config  # its settings are made at run time


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function with numba, and keep the machine code in numba's cache.

    Without a writable cache folder, the function is compiled again in each process, and the log says so once.  With
    ``NUMBA_DISABLE_JIT=1`` Python runs the function, with the silent float arithmetic of machine code.

    Parameters
    ----------
    function : Callable
        The function; ``@kernel(fastmath=True)`` gives options and leaves it out.
    **options : Any
        Further options of ``numba.njit``.

    Returns
    -------
    Callable
        The compiled function.
    """
    if function is None:
        return functools.partial(kernel, **options)
    jit = functools.partial(numba.njit, nogil=True, error_model="numpy", **options)
    if _NUMBA_CONFIG.DISABLE_JIT:
        return _silent(function)
    if has_cache_home():
        try:
            cached: Any = jit(cache=True)(_named(function, options))
            os.makedirs(cached.stats.cache_path, exist_ok=True)  # numba does not check it for functions in zip files
            return cached
        except OSError:
            pass
        except RuntimeError as error:  # numba found no folder that it can write
            if "cannot cache" not in str(error):
                raise
    log_missing_cache()
    return jit()(function)


def is_kept(compiled: Any) -> bool:
    """Whether numba's cache has machine code of a kernel, for any types of arguments and any state of its source."""
    if not hasattr(compiled, "stats"):  # Python runs it
        return True
    function = compiled.py_func
    names = f"{Path(inspect.getfile(function)).stem}.{function.__qualname__}-*.nbi"
    return any(Path(compiled.stats.cache_path or "").glob(names))


def _named(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    """The function with its options in its name: numba's cache does not tell apart what differs in options alone."""
    if not options or not isinstance(function, FunctionType):
        return function
    known = {name: sorted(each) if isinstance(each, set) else each for name, each in options.items()}
    parts = function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    copy = functools.update_wrapper(FunctionType(*parts), function)
    copy.__qualname__ = re.sub(r"[^\w.]+", "_", f"{function.__qualname__} {known}")
    return copy


def has_cache_home() -> bool:
    """Whether numba's cache has an absolute path: without a home folder, numba would use ``./~/.cache``."""
    return any(os.path.isabs(path) for path in (_NUMBA_CONFIG.CACHE_DIR, os.path.expanduser("~")))


@functools.cache
def log_missing_cache() -> None:
    """Say once that compiled functions are not kept."""
    logging.getLogger(__name__).warning(
        "numba has no writable cache folder: functions are compiled again in each process, which takes some seconds; "
        "set NUMBA_CACHE_DIR to a writable folder of your own"
    )


def _silent(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def silent(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return silent
