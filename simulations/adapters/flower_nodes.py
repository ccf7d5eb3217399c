"""Messages over Flower (the extra ``flower``), and the nodes of the clients that exchange them.

A node gets another number at each start.  So the server asks each node for the name of its client, in a ``Presence``
message.  A name with a public key in the roster must sign a fresh challenge.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any

import numpy as np

from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.federation import keys
from corrnoise.simulations.federation.messages import Presence, Refusal, Reply, Request, well_formed

EXTRA = "flower"
Message = Request | Reply | Refusal | Presence
_MESSAGE_KINDS: dict[str, type[Message]] = {kind.__name__: kind for kind in (Request, Reply, Refusal, Presence)}
_PAUSE_SECONDS = 1.0  # between two looks at the nodes
_log = logging.getLogger("flwr.corrnoise")  # shown where Flower's own lines are


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

    A content that is no message of a federation is a ``ValueError``: the sender may write anything.
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
                _log.warning("node %d does not show that it is a client of the roster: %.200s", node, reason)

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
