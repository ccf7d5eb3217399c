"""Libraries that are installed only with an extra."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def extra_module(name: str, extra: str) -> Any:
    """The module ``name``, or an error that names the extra that installs it."""
    try:
        return import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        raise ImportError(f"{library} is not installed: pip install 'corrnoise[{extra}]'") from error
