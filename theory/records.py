"""Frozen records that may hold arrays: equality and hash by value, arrays read-only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np


def _key(value: Any) -> Any:
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


class Record:
    """Base of frozen dataclasses (declared with ``eq=False``) whose fields may be arrays."""

    def _values(self) -> tuple[Any, ...]:
        return tuple(_key(getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._values() == other._values()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._values()))

    def __repr__(self) -> str:
        with np.printoptions(threshold=8, edgeitems=3, floatmode="unique", linewidth=10**6):
            shown = (
                f"{f.name}={np.array2string(v, separator=', ') if isinstance(v, np.ndarray) else repr(v)}"
                for f in fields(self)  # type: ignore[arg-type]
                for v in [getattr(self, f.name)]
            )
            return f"{type(self).__name__}({', '.join(shown)})"

    def _set(self, **values: Any) -> None:
        """Set fields of a frozen record while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)
