"""Messages over Flower (the extra ``flower``), the nodes that exchange them, and the rounds of a strategy.

A node gets another number at each start.  So the server asks each node for the name of its client, in a ``Presence``
message.  A name with a public key in the roster must sign a fresh challenge.
"""

from __future__ import annotations

import logging
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from typing import Any, Self

import numpy as np

from corrnoise.simulations.federation import keys
from corrnoise.simulations.federation.messages import Presence, Refusal, Reply, Request, well_formed
from corrnoise.support.extras import extra_module

EXTRA = "flower"
Message = Request | Reply | Refusal | Presence
_MESSAGE_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in (Request, Reply, Refusal, Presence)}
_PAUSE_SECONDS = 1.0  # between two looks at the nodes
LOG = logging.getLogger("flwr.corrnoise")  # shown where Flower's own lines are


def packed(thing: Message, signature: str | None = None) -> Any:
    """The content of a Flower message: vectors as arrays, all else, with the signature, as settings."""
    app = extra_module("flwr.app", EXTRA)
    vectors = {name: value for name, value in vars(thing).items() if isinstance(value, np.ndarray)}
    words = {name: value for name, value in vars(thing).items() if name not in vectors}
    words |= {"kind": type(thing).__name__} | ({} if signature is None else {"signature": signature})
    arrays = app.ArrayRecord({name: app.Array(value) for name, value in vectors.items()})
    return app.RecordDict({"words": app.ConfigRecord(words), "vectors": arrays})


def unpacked(content: Any) -> tuple[Any, Any]:
    """The message in a content of ``packed``, with fields of their types and any values, and its unchecked signature.

    Other content is a ``ValueError``: the sender may write anything.
    """
    try:
        words = dict(content["words"])
        kind, signature = _MESSAGE_KINDS[words.pop("kind")], words.pop("signature", None)
        thing = kind(**words, **{name: array.numpy() for name, array in content["vectors"].items()})
        if not well_formed(thing):
            raise TypeError(f"{kind.__name__} with fields of other types")
    except Exception as error:  # of many types, as the sender may write anything
        raise ValueError(f"content must be a message of a federation, got {type(error).__name__}") from None
    return thing, signature


class Nodes:
    """The newest node of each client of a roster, which has the public key of each name, or None for no signature.

    Questions carry the name of the ``run``.  ``present`` waits ``patience`` seconds for clients and for new nodes.
    """

    def __init__(self, run: str, roster: Mapping[str, str | None], patience: float) -> None:
        self._run = run
        self._roster = roster
        self._patience = patience
        self.newest: dict[str, int] = {}  # of each client
        self._met: set[int] = set()  # nodes that have stated a name or have failed to

    def present(self, grid: Any, enough: Callable[[Set[str]], bool]) -> dict[str, int]:
        """The newest node of each connected client by its name, once the names are ``enough`` or patience ends."""
        until = time.monotonic() + self._patience
        while True:
            online = set(grid.get_node_ids())
            if strangers := online - self._met:
                self._meet(strangers, grid)
            here = {name: node for name, node in self.newest.items() if node in online}
            if enough(here.keys()) or time.monotonic() >= until:
                return here
            time.sleep(_PAUSE_SECONDS)

    def _meet(self, strangers: Set[int], grid: Any) -> None:
        """Ask new nodes for their names; a name with a key must sign the question."""
        flower = extra_module("flwr.app", EXTRA)
        question = Presence(self._run, "", secrets.token_hex(16))
        calls = [flower.Message(packed(question), node, flower.MessageType.QUERY) for node in sorted(strangers)]
        for reply in grid.send_and_receive(calls, timeout=self._patience):
            node = reply.metadata.src_node_id
            self._met.add(node)
            if not reply.has_error() and (name := self._name(reply.content, question)) is not None:
                self.newest[name] = node
            else:
                reason = reply.error.reason if reply.has_error() else "no name of the roster with its signature"
                LOG.warning("node %d does not show that it is a client of the roster: %.200s", node, reason)

    def _name(self, content: Any, question: Presence) -> str | None:
        """The client that an answer to a question shows; None if it shows none."""
        try:
            answer, signature = unpacked(content)
        except ValueError:
            return None
        name = answer.name if isinstance(answer, Presence) else None
        if not isinstance(name, str) or name not in self._roster or answer != replace(question, name=name):
            return None
        public = self._roster[name]
        return name if public is None or keys.signed(public, answer.statement(), signature) else None


class Rounds(ABC):
    """The methods that Flower calls in each round, whatever number it gives the round; an object is a ``Strategy``."""

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """An object of a class that Flower's ``Strategy`` is a base of, which exists where Flower is installed."""
        base = extra_module("flwr.serverapp.strategy", EXTRA).Strategy
        made: type[Self] = cls if issubclass(cls, base) else type(cls.__name__, (cls, base), {})
        return super().__new__(made)

    @abstractmethod
    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """The messages of a round, a list, as Flower reads it twice.

        Parameters
        ----------
        server_round : int
            Flower's count of rounds, which is ignored.
        arrays : flwr.app.ArrayRecord
            Flower's arrays of the model.
        config : flwr.app.ConfigRecord
            Flower's settings of the round.
        grid : flwr.serverapp.Grid
            Flower's grid.

        Returns
        -------
        list of flwr.app.Message
        """

    @abstractmethod
    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """The model after a round.

        Parameters
        ----------
        server_round : int
            Flower's count of rounds, which is ignored.
        replies : iterable of flwr.app.Message
            Flower's messages.

        Returns
        -------
        (flwr.app.ArrayRecord, flwr.app.MetricRecord)
            The model, and metrics.
        """

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """Nothing: what clients would say about their data has no noise.

        Parameters
        ----------
        server_round, arrays, config, grid : object
            As for ``configure_train``.

        Returns
        -------
        list of flwr.app.Message
        """
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Nothing, as nothing was asked.

        Parameters
        ----------
        server_round, replies : object
            As for ``aggregate_train``.

        Returns
        -------
        flwr.app.MetricRecord or None
        """
        return None
