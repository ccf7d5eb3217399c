"""A secret key in an object that shows nothing: neither in messages and debuggers, nor in copies of the object."""

from __future__ import annotations

import hmac
from typing import NoReturn


class Secret:
    """Secret bytes, which only ``reveal`` returns.

    Two secrets are compared in constant time.  A secret is neither copied nor pickled.

    Examples
    --------
    >>> Secret(b"key of the run")
    <secret>
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the bytes, for use in one expression: a name would keep them in the frame."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]  # a hash of the bytes would show a part of them

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse copies and pickles."""
        raise TypeError("a secret must not be copied or pickled: whoever has it can compute the noise")


Key = bytes | Secret  #: a key as functions of draws take it
