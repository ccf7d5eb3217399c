"""The messages between server and clients: requests, replies, refusals and names; nothing here is secret.

A client counts its own participations k = 1, 2, …, whatever the rounds are.  Its reply is one vector, the sum of its
messages ``first`` to ``last``, which are all that the server has not acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from corrnoise.support.serialise import digest
from corrnoise.theory.numerics.checks import Array


@dataclass(frozen=True, eq=False)
class Request:
    """A question of the server to a client in a round."""

    run: str  #: the name of the run
    round: int  #: t >= 1
    #: x_t and x_{t−1}, shape (d,)
    current: Array
    previous: Array
    acknowledged: int  #: the last participation of the client that is on the disk of the server, 0 for none


@dataclass(frozen=True, eq=False)
class Reply:
    """The sum Q_last − Q_{first−1} of the messages of a client that the server has not acknowledged."""

    run: str
    name: str  #: of the client
    round: int
    #: the participations whose messages are added up, 1 <= first <= last
    first: int
    last: int
    vector: Array  #: shape (d,), float64

    def statement(self) -> bytes:
        """The bytes that a client signs: everything in the reply."""
        vector = digest(np.ascontiguousarray(self.vector, "<f8").tobytes())
        return repr((self.run, self.name, self.round, self.first, self.last, self.vector.shape, vector)).encode()


@dataclass(frozen=True)
class Refusal:
    """The answer of a client that refuses; its reason does not depend on its data."""

    run: str
    name: str
    round: int
    reason: str
    exhausted: bool = False  #: whether the client has used all its participations

    def statement(self) -> bytes:
        """The bytes that a client signs: everything in the refusal."""
        return repr((self.run, self.name, self.round, self.reason, self.exhausted)).encode()


@dataclass(frozen=True)
class Presence:
    """The name of a client, for a transport that knows addresses only; the question has the name ""."""

    run: str
    name: str  #: of the client
    challenge: str  #: fresh digits of whoever asks, so that an old answer does not count

    def statement(self) -> bytes:
        """The bytes that a client signs: everything in the answer."""
        return repr((self.run, self.name, self.challenge)).encode()


_FIELD_TYPES = {"str": str, "int": int, "bool": bool, "Array": np.ndarray}


def well_formed(message: Request | Reply | Refusal | Presence) -> bool:
    """Whether each field has its declared type, and no other: a sender may write anything."""
    return all(type(getattr(message, each.name)) is _FIELD_TYPES[str(each.type)] for each in fields(message))
