"""Frozen records that may hold arrays: equal, hashed, shown and rebuilt by the arguments that make them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar, dataclass_transform

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import with_usual_float_errors

Kind = TypeVar("Kind", bound="Record")


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(field,))
def record(kind: type[Kind]) -> type[Kind]:
    """Make a frozen dataclass of a subclass of ``Record``, which keeps the equality, hash and text of ``Record``."""
    return dataclass(frozen=True, eq=False, repr=False)(kind)


class Record:
    """Base of frozen dataclasses whose fields may be arrays; each is declared with the decorator ``record``.

    Public methods compute in NumPy's default error state, whatever the caller's.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        with_usual_float_errors(cls)

    def arguments(self) -> dict[str, Any]:
        """The arguments that rebuild this record: ``type(self)(**self.arguments())`` equals it.

        Returns
        -------
        dict
        """
        declared = set(getattr(type(self), "__dataclass_fields__", ()))
        init_only = declared - {one.name for one in fields(self)} if declared else ()  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if name not in init_only}

    def __post_init__(self) -> None:
        """Make arrays read-only; for records that do not check their arguments themselves."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                view = value.view()
                view.setflags(write=False)
                self._set(**{name: view})

    def _key(self) -> tuple[Any, ...]:
        return tuple(_hashable(value) for value in self.arguments().values())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        def shown(value: Any) -> str:
            return np.array2string(value, separator=", ") if isinstance(value, np.ndarray) else repr(value)

        with np.printoptions(threshold=8, edgeitems=3, floatmode="unique", linewidth=10**6):
            arguments = ", ".join(f"{name}={shown(value)}" for name, value in self.arguments().items())
        return f"{type(self).__name__}({arguments})"

    def _check(self, **ranges: int | str | tuple[str, ...] | type) -> None:
        """Check fields while the record is being made; fields whose default is None may be None.

        A range is the least integer, an interval of real numbers, a tuple of choices, ``bool``, or another class.
        """
        for name, allowed in ranges.items():
            value = getattr(self, name)
            if value is None and getattr(type(self), name, 0) is None:
                continue
            if isinstance(allowed, int):
                value = checks.integer(name, value, allowed)
            elif isinstance(allowed, str):
                value = checks.real(name, value, allowed)
            elif isinstance(allowed, tuple):
                value = checks.choice(name, value, allowed)
            else:
                value = checks.boolean(name, value) if allowed is bool else checks.instance(name, value, allowed)
            self._set(**{name: value})

    def _set(self, **values: Any) -> None:
        """Set fields of a frozen record while it is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _hashable(value: Any) -> Any:
    """The value of a field, with arrays as bytes also within sequences and mappings."""
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, tuple | list):
        return type(value), tuple(map(_hashable, value))
    if isinstance(value, Mapping):
        return tuple((key, _hashable(kept)) for key, kept in value.items())
    return value
