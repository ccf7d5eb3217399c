"""A federation over Flower (the extra ``flower``), with any SuperLink between server and clients.

    app = client_app(client_of)  # client_of(context) -> FederatedClient, with the folder and the data of one owner
    app = server_app(server_of)  # server_of(context) -> FederatedServer, with the roster

Flower carries messages, and nothing else rests on it.  The state of a client is in its own folder, because Flower keeps
the state of a node in memory only.  Flower sends the text of an exception of a client to the server; here it stays in
the log of the client, because it may show data.

Flower also sends the *code* of the app from the server to the nodes.  The guarantee against any server is for nodes
that run code which their owners have approved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from corrnoise.simulations.adapters.flower_nodes import EXTRA, LOG, Nodes, Rounds, packed, unpacked
from corrnoise.simulations.federation.client import FederatedClient
from corrnoise.simulations.federation.messages import Presence, Refusal, Reply, Request
from corrnoise.simulations.federation.server import FederatedServer
from corrnoise.support.extras import extra_module
from corrnoise.theory.numerics import checks

# -- the side of a client ----------------------------------------------------------------------------------------------


def client_app(client_of: Callable[[Any], FederatedClient]) -> Any:
    """A ``flwr.clientapp.ClientApp`` that answers from the folder of a client.

    Parameters
    ----------
    client_of : callable
        A function of Flower's context that returns the client; ``context.node_config`` is what its owner has set.

    Returns
    -------
    flwr.clientapp.ClientApp

    Raises
    ------
    ImportError
        Flower is not installed.
    """
    flower = extra_module("flwr.app", EXTRA)
    app = extra_module("flwr.clientapp", EXTRA).ClientApp()

    def answered(message: Any, context: Any) -> Any:
        try:
            client = client_of(context)
            asked, _ = unpacked(message.content)
            if isinstance(asked, Presence):
                answer: Reply | Refusal | Presence = replace(asked, name=client.name)
            elif isinstance(asked, Request):
                answer = client.reply(asked)
            else:
                raise ValueError(f"content must be a request, got a {type(asked).__name__}")
            content = packed(answer, client.signature(answer))
        except Exception:
            LOG.exception("a request was not answered")
            raise RuntimeError("the client failed; its own log says why") from None
        return flower.Message(content, reply_to=message)

    app.query()(answered)
    app.train()(answered)
    return app


# -- the side of the server --------------------------------------------------------------------------------------------


class CorrelatedNoise(Rounds):
    """Flower's ``Strategy`` for the rounds of a ``FederatedServer``.

    Parameters
    ----------
    server : FederatedServer
        The server, with the plan, the roster and the folder.  Its plan says who adds the noise.
    patience : float, default 60.0
        Seconds that a round waits for as many clients as it asks, and for the names of new nodes, >= 0.

    Attributes
    ----------
    nodes
        The nodes of the clients.
    """

    def __init__(self, server: FederatedServer, *, patience: float = 60.0) -> None:
        self.server = checks.instance("server", server, FederatedServer)
        self.nodes = Nodes(server.plan.run, server.roster, checks.real("patience", patience, "[0, inf)"))
        self._asked: dict[int, str] = {}  # the client of each node that was asked in this round

    def summary(self) -> None:
        """Log the plan, its guarantee and its warnings; Flower calls this when a run starts."""
        plan = self.server.plan
        LOG.info("plan %r; noise %r; guarantee %s", plan.run, plan.mechanism, plan.guarantee(plan.budget.delta or 1e-5))
        for warning in plan.warnings(len(self.server.roster)):
            LOG.warning("%s", warning)

    @property
    def arrays(self) -> Any:
        """The model as Flower's arrays."""
        return extra_module("flwr.app", EXTRA).ArrayRecord([self.server.output])

    def run(
        self, grid: Any, *, timeout: float = 3600.0, evaluate: Callable[[Any], Mapping[str, float]] | None = None
    ) -> Any:
        """Run the rounds that are left.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Flower's grid.
        timeout : float, default 3600.0
            Seconds until a round ends without the missing replies; they come with later ones.
        evaluate : callable, optional
            A function of the model, shape (d,), on public data; its numbers are shown after each round.

        Returns
        -------
        flwr.serverapp.strategy.Result
        """
        record = extra_module("flwr.app", EXTRA).MetricRecord

        def shown(_: int, arrays: Any) -> Any:
            return record(dict(evaluate(arrays.to_numpy_ndarrays()[0]))) if evaluate is not None else None

        settings: dict[str, Any] = {} if evaluate is None else {"evaluate_fn": shown}
        left = self.server.plan.rounds + 1 - self.server.state.round
        start: Callable[..., Any] = getattr(self, "start")  # noqa: B009 - of Flower's class
        result = start(grid, self.arrays, num_rounds=left, timeout=timeout, **settings)
        state, plan = self.server.state, self.server.plan
        taken = [state.acknowledged.get(name, 0) for name in self.server.roster]
        LOG.info(
            "clients took part %d to %d of %d times, %d are exhausted; %d refusals, %d answers not taken",
            *(min(taken), max(taken), plan.participations, len(state.exhausted), state.refused, state.rejected),
        )
        return result

    # -- what Flower asks of a strategy --------------------------------------------------------------------------------

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """The requests of the round that is open in the folder of the server."""
        flower = extra_module("flwr.app", EXTRA)
        nodes = self.nodes.present(grid, lambda names: len(names) >= self.server.plan.participants)
        requests = self.server.requests(sorted(nodes))
        self._asked = {nodes[name]: name for name in requests}
        return [
            flower.Message(packed(request), nodes[name], flower.MessageType.TRAIN) for name, request in requests.items()
        ]

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Take the replies, each whole or not at all, and finish the round; the model, and counts of replies."""
        taken = sum([self._received(reply) for reply in replies])
        self.server.finish_round()
        state = self.server.state
        counts = {"taken": taken, "rejected": state.rejected, "exhausted": len(state.exhausted)}
        return self.arrays, extra_module("flwr.app", EXTRA).MetricRecord(counts)

    def _received(self, reply: Any) -> bool:
        """Give the reply of a node to the server; returns whether it was taken."""
        name = self._asked.get(reply.metadata.src_node_id, "")
        if reply.has_error():
            LOG.warning("the node of %.80r failed: %.200s", name, reply.error.reason)
            return False
        try:
            answer, signature = unpacked(reply.content)
        except ValueError as error:
            answer, signature = error, None
        return self.server.receive(name, answer, signature)


strategy = CorrelatedNoise  #: the name in use


def server_app(
    server_of: Callable[[Any], FederatedServer],
    *,
    timeout: float = 3600.0,
    patience: float = 60.0,
    evaluate: Callable[[Any], Mapping[str, float]] | None = None,
) -> Any:
    """A ``flwr.serverapp.ServerApp`` that runs the rounds of a server, or the rest of them after a restart.

    Parameters
    ----------
    server_of : callable
        A function of Flower's context that returns the server.
    timeout : float, default 3600.0
        As for ``CorrelatedNoise.run``.
    evaluate : callable, optional
        As for ``CorrelatedNoise.run``.
    patience : float, default 60.0
        As for ``CorrelatedNoise``.

    Returns
    -------
    flwr.serverapp.ServerApp

    Raises
    ------
    ImportError
        Flower is not installed.
    """
    app = extra_module("flwr.serverapp", EXTRA).ServerApp()

    def main(grid: Any, context: Any) -> None:
        server = server_of(context)
        try:
            CorrelatedNoise(server, patience=patience).run(grid, timeout=timeout, evaluate=evaluate)
        finally:
            server.close()

    app.main()(main)
    return app
