r"""Differential privacy of clients for any Flower strategy (the extra ``flower``), with correlated noise of the server.

    strategy = private_strategy(FedAdam(), budget=budget, participation=participation, clients=names,
                                clients_per_round=20, folder="run")
    strategy.start(grid, arrays)  # in the server app
    app = named_client(ClientApp())  # in the client app

In a round the clients of its batch train the model x by any number of local steps and return models y_i.  The server
clips each update y_i − x to norm G over all arrays together, adds the updates as integers on a grid, adds the noise of
a ``PrivateRun``, and divides by the number B of clients of a batch.  The strategy then aggregates one reply, the model
x plus this noisy mean, as if every client had returned it.

*The models of all rounds together have the guarantee of the run.*  Proof.  The batches of the run, which do not depend
on data, choose the clients of each round, and each name counts once in a round.  A client changes one term of the sum
in each round of its participation.  This term is a vector of integers q with ‖2ᵏ q‖ <= G (``run.sums``): the norm N of
an update of d numbers is computed in float64 with a relative error below (d + 2) 2⁻⁵³, less than the margin of G; an
update that is not finite, a malformed reply and a missing reply are the term zero.  Replies are functions of the data
of one client, of earlier models, and of public numbers, so the noise covers them (adaptive data).  The strategy sees
earlier models and noisy means only, and all it computes is post-processing.  ∎

Assumed: the server is trusted with the updates, and the connections are secret; a client has one name, and its training
uses no data of others; who is asked and who answers when may be public.  Poisoned models and timing are not covered.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.flower_models import Layout, add_clipped, flat, trees
from corrnoise.simulations.adapters.flower_nodes import EXTRA, LOG, Nodes, Rounds, packed, unpacked
from corrnoise.simulations.adapters.identity import in_words
from corrnoise.simulations.adapters.training import warn_unprotected
from corrnoise.simulations.federation.messages import Presence
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.folder import Folder
from corrnoise.simulations.run.model_noise import deviation
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Grid
from corrnoise.solvers.default import default_noise
from corrnoise.support.extras import extra_module
from corrnoise.support.serialise import digest
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_MAX_LOOKS = 5  # at the nodes by a strategy that configures a round: more mean that it waits for others
_LARGE_EPSILON = 10.0


# -- the side of a client ----------------------------------------------------------------------------------------------


def _partition(context: Any) -> str:
    return str(context.node_config["partition-id"])


def named_client(app: Any, name_of: Callable[[Any], str] = _partition) -> Any:
    """Let a client app tell the server the name of its client.

    Parameters
    ----------
    app : flwr.clientapp.ClientApp
        An app without a function for queries.
    name_of : callable
        A function of Flower's context that returns the name.  By default ``"partition-id"`` of the configuration of the
        node, which simulations set to ``"0"``, ``"1"``, …

    Returns
    -------
    flwr.clientapp.ClientApp
        The same app.

    Raises
    ------
    ImportError
        Flower is not installed.
    ValueError
        The app answers queries already.
    """
    flower = extra_module("flwr.app", EXTRA)

    def answered(message: Any, context: Any) -> Any:
        question, _ = unpacked(message.content)
        if not isinstance(question, Presence):
            raise ValueError(f"content must be a question for the name, got a {type(question).__name__}")
        return flower.Message(packed(replace(question, name=name_of(context))), reply_to=message)

    app.query()(answered)
    return app


# -- the side of the server --------------------------------------------------------------------------------------------


class _Population:
    """In place of Flower's grid for a strategy that configures a round: nodes that stand for all clients."""

    def __init__(self, clients: int) -> None:
        self._clients = clients
        self._looks = 0

    def get_node_ids(self) -> list[int]:
        """As many numbers as there are clients."""
        self._looks += 1
        if self._looks > _MAX_LOOKS:
            raise ValueError(
                f"strategy must not wait for more nodes than the {self._clients} clients: lower its "
                "min_available_nodes and min_train_nodes"
            )
        return list(range(1, self._clients + 1))


class PrivateStrategy(Rounds):
    """A Flower strategy whose models are private for its clients.

    Each update is clipped to the clipping norm over all arrays together, and the server adds the correlated noise of a
    ``PrivateRun`` to the sums.  The strategy aggregates the noisy mean as one reply, so numbers of examples are not
    weights.  The run chooses the clients of each round; the sampling of the strategy has no effect.  ``start`` runs it.

    Parameters
    ----------
    strategy : flwr.serverapp.strategy.Strategy
        A strategy that averages models and has the same message for all clients of a round, such as ``FedAvg``,
        ``FedAvgM``, ``FedProx``, ``FedAdam``, ``FedYogi`` or ``FedAdagrad``.
    budget : Budget
        The privacy budget of a client for the whole run, and the clipping norm of an update, at least 1e-9.
    participation : Participation
        How often, and how far apart, a client may train, and the number of rounds; ``unit="user"``, not sampled.
    clients : iterable of str
        The different names of all clients, as ``named_client`` states them.
    clients_per_round : int
        B, at least 1; the sum is divided by it, also where clients are missing.
    mechanism : Mechanism, optional
        The noise; None for ``cn.default_noise``.
    folder : path or Folder, optional
        Where the run is kept, with a checkpoint after each round for a path: the same script starts and resumes it.
        None for a run that ends with the process.
    patience : float
        Seconds that a round waits for its clients to connect, at least 0; clients that are missing count as zero.
    unprotected : bool
        Whether clients are asked to evaluate, and their metrics are aggregated, without privacy.

    Attributes
    ----------
    run : PrivateRun or None
        The run whose steps are the rounds; None before ``start``.
    nodes : Nodes
        The nodes of the clients.

    Raises
    ------
    ImportError
        Flower is not installed.
    ValueError
        If an argument is out of its range.
    TypeError
        If an argument has another type.
    """

    def __init__(
        self,
        strategy: Any,
        *,
        budget: Budget,
        participation: Participation,
        clients: Iterable[str],
        clients_per_round: int,
        mechanism: Mechanism | None = None,
        folder: str | os.PathLike[str] | Folder | None = None,
        patience: float = 60.0,
        unprotected: bool = False,
    ) -> None:
        self._strategy = checks.instance("strategy", strategy, extra_module("flwr.serverapp.strategy", EXTRA).Strategy)
        self._budget = checks.instance("budget", budget, Budget)
        checks.real("clip_norm", budget.clip_norm, "[1e-9, inf)")  # so that squares that underflow do not count
        self._participation = checks.instance("participation", participation, Participation)
        if participation.sampled or participation.unit != "user" or participation.members != 1:
            raise ValueError(
                "participation must be of clients, an order with unit='user' and members=1, got "
                f"{participation!r}: the nodes that are asked may be seen, so sampling in secret is not covered"
            )
        self._names = _distinct(clients)
        self._order = batches(participation, len(self._names), clients_per_round)
        self._mechanism = mechanism
        whole = folder is None or isinstance(folder, Folder)
        self._folder = folder if whole else Folder(folder, checkpoint_every=1)  # type: ignore[arg-type]
        self.nodes = Nodes(
            "private strategy", dict.fromkeys(self._names), checks.real("patience", patience, "[0, inf)")
        )
        self._unprotected = checks.boolean("unprotected", unprotected)
        if unprotected:
            warn_unprotected()
        self.run: PrivateRun | None = None
        self._asked: dict[int, str] = {}  # the client of each node that was asked in this round and has not answered

    # -- the run -------------------------------------------------------------------------------------------------------

    def start(
        self,
        grid: Any,
        initial_arrays: Any,
        num_rounds: int | None = None,
        timeout: float = 3600.0,
        train_config: Any = None,
        evaluate_config: Any = None,
        evaluate_fn: Callable[[int, Any], Any] | None = None,
    ) -> Any:
        """Run the rounds of the run, or the rest of them after a restart.

        Parameters
        ----------
        grid : flwr.serverapp.Grid
            Flower's grid.
        initial_arrays : flwr.app.ArrayRecord
            The model, floats.  A run with a folder resumes with the model of its last round.
        num_rounds : int, optional
            None or the number of steps of the participation.
        timeout : float
            Seconds that a round waits for replies; a client without one counts as an update of zero.
        train_config, evaluate_config : flwr.app.ConfigRecord, optional
            Settings for the clients.
        evaluate_fn : callable, optional
            A function of the number of the round and the model that returns a ``MetricRecord`` or None, on public data.

        Returns
        -------
        flwr.serverapp.strategy.Result
            Flower's result.  After a restart its rounds are counted from there.

        Raises
        ------
        ValueError
            If an argument is out of its range, the strategy cannot be wrapped, or the folder belongs to another run.
        RuntimeError
            If the strategy was started before, or no client of a round is connected.
        BlockingIOError
            If the folder is in use.
        """
        steps = self._order.steps
        if num_rounds not in (None, steps):
            raise ValueError(f"num_rounds must be None or the {steps} steps of the participation, got {num_rounds!r}")
        if self.run is not None:
            raise RuntimeError("the strategy was started before: make another one, which resumes from the folder")
        self._layout = Layout(initial_arrays)
        self._message(1, initial_arrays, extra_module("flwr.app", EXTRA).ConfigRecord(train_config))
        self._arrays = initial_arrays
        run = self.run = self._opened()
        done = run.position

        def shown(number: int, arrays: Any) -> Any:
            return None if evaluate_fn is None else evaluate_fn(done + number, arrays)

        flower_start: Callable[..., Any] = getattr(super(), "start")  # noqa: B009 - of Flower's class
        with run:
            result = flower_start(
                grid,
                self._arrays,
                num_rounds=steps - done,
                timeout=timeout,
                train_config=train_config,
                evaluate_config=evaluate_config,
                evaluate_fn=None if evaluate_fn is None else shown,
            )
        result.arrays = self._arrays
        return result

    def _opened(self) -> PrivateRun:
        """The run, new or resumed."""
        options: dict[str, Any] = {}
        if self._folder is not None:
            parts = [[name, list(shape), str(dtype)] for name, (shape, dtype) in self._layout.parts.items()]  # in order
            options = {
                "folder": self._folder,
                "carry": self,
                "settings": {
                    "strategy": in_words(self._strategy),
                    "clients digest": digest(list(self._names)),
                    "arrays digest": digest(parts),
                },
            }
        return PrivateRun(
            self._budget,
            self._participation,
            default_noise if self._mechanism is None else self._mechanism,
            self._layout.size,
            batches=self._order,
            sums="exact",
            release="grid",
            **options,
        )

    def save(self) -> dict[str, NDArray[Any]]:
        """The content of a checkpoint: the model, and the arrays that the strategy keeps, without its other state.

        Returns
        -------
        dict
            Arrays by their names.
        """
        return dict(flat("model", self._arrays)) | {
            name: each for key, value in vars(self._strategy).items() for name, each in flat(f"state {key}", value)
        }

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Resume from a checkpoint.

        Parameters
        ----------
        arrays : dict
            The arrays of ``save``.
        """
        for key, value in trees(arrays).items():
            if key == "model":
                self._arrays = value
            else:
                setattr(self._strategy, key.removeprefix("state "), value)

    def summary(self) -> None:
        """Log the guarantee and its warnings; Flower calls this when a run starts."""
        run = self._started()
        delta = self._budget.delta or 1e-5
        epsilon, clip_norm = run.profile().epsilon_at(delta), self._budget.clip_norm
        LOG.info(
            "guarantee: the models of %d rounds are %.4g-zCDP, epsilon %.4g at delta %g, for clients and %s adjacency, "
            "against readers of the models; the server is trusted",
            self._order.steps,
            self._budget.gaussian_rho,
            epsilon,
            delta,
            self._budget.adjacency,
        )
        LOG.info(
            "%d of %d clients a round, updates clipped to norm %.4g, noise multiplier %.4g, %s",
            self._order.batch_size,
            len(self._names),
            clip_norm,
            run.multiplier,
            self._participation.summary(),
        )
        if epsilon > _LARGE_EPSILON:
            LOG.warning("epsilon is %.3g at delta=%g, a weak guarantee", epsilon, delta)
        spread = run.scale * deviation(run.program) * run.size**0.5 / self._order.batch_size
        if spread > clip_norm:
            LOG.warning("the noise in the mean update has the norm %.3g, more than an update, %.3g", spread, clip_norm)
        self._strategy.summary()

    def _started(self) -> PrivateRun:
        if self.run is None:
            raise RuntimeError("the strategy has no run yet: call its start, which opens the run")
        return self.run

    # -- what Flower asks of a strategy --------------------------------------------------------------------------------

    def configure_train(self, server_round: int, arrays: Any, config: Any, grid: Any) -> list[Any]:
        """The messages of the strategy to the clients of the next batch of the run, a list, as Flower reads it twice.

        Raises
        ------
        ValueError
            The strategy trains no client, has another message for each, or waits for more nodes than there are clients.
        RuntimeError
            No client of the batch is connected, or the last round was made.
        """
        run = self._started()
        flower = extra_module("flwr.app", EXTRA)
        message = self._message(run.position + 1, arrays, config)
        names = [self._names[number] for number in run.next_batch()]
        here = self.nodes.present(grid, lambda present: set(names) <= present)
        self._asked = {here[name]: name for name in names if name in here}
        if not self._asked:
            raise RuntimeError(
                f"no client of round {run.position + 1} is connected: start the nodes, whose apps must be of "
                f"named_client; it needs {', '.join(names):.200}"
            )
        if missing := [name for name in names if name not in here]:
            LOG.warning("%d clients are not connected and count as zero: %.200s", len(missing), ", ".join(missing))
        self._arrays = arrays
        settings = {"ttl": message.metadata.ttl, "group_id": message.metadata.group_id}
        return [
            flower.Message(message.content, node, message.metadata.message_type, **settings) for node in self._asked
        ]

    def _message(self, number: int, arrays: Any, config: Any) -> Any:
        """The message of the strategy to any client, whatever nodes it samples."""
        found = list(self._strategy.configure_train(number, arrays, config, _Population(len(self._names))))
        if not found:
            raise ValueError("strategy must train clients: its fraction_train must be above 0")
        first = found[0]
        for each in found:
            if each.metadata.message_type != first.metadata.message_type or (
                each.content is not first.content and each.content != first.content
            ):
                raise ValueError("strategy must have the same message for all clients of a round, got two that differ")
        return first

    def aggregate_train(self, server_round: int, replies: Iterable[Any]) -> tuple[Any, Any]:
        """Give the strategy the model plus the noisy mean of the clipped updates, as one reply.

        Raises
        ------
        RuntimeError
            The round was not configured, or the strategy returns no model of the same arrays.
        """
        run, flower = self._started(), extra_module("flwr.app", EXTRA)
        assert run.grid is not None
        before = self._layout.vector(self._arrays)
        total = np.zeros(run.size, run.grid.dtype)
        contents = []
        for reply in replies:
            name = self._asked.pop(reply.metadata.src_node_id, None)
            why = "it was not asked, or has answered" if name is None else self._added(reply, before, run.grid, total)
            if why is None:
                contents.append(reply.content)
            else:
                LOG.warning("a reply of node %d does not count: %.200s", reply.metadata.src_node_id, why)
        self._asked = {}
        after = self._layout.arrays(before + run.add_noise(total) / self._order.batch_size)
        weight = getattr(self._strategy, "weighted_by_key", "num-examples")
        content = flower.RecordDict(
            {getattr(self._strategy, "arrayrecord_key", "arrays"): after, "metrics": flower.MetricRecord({weight: 1.0})}
        )
        asked = flower.Message(flower.RecordDict(), 1, flower.MessageType.TRAIN)
        model, metrics = self._strategy.aggregate_train(run.position, [flower.Message(content, reply_to=asked)])
        try:
            self._arrays = self._layout.arrays(self._layout.vector({} if model is None else model))
        except ValueError as error:
            raise RuntimeError(f"strategy must return a model of the same arrays: {error}") from None
        if self._unprotected and contents:
            with suppress(Exception):  # of many types, as clients may write anything
                metrics = self._strategy.train_metrics_aggr_fn(contents, weight)
        return self._arrays, metrics

    def _added(self, reply: Any, before: Array, grid: Grid, total: NDArray[Any]) -> str | None:
        """Add the clipped update of a reply to the sum; returns why it counts as zero, or None."""
        if reply.has_error():
            return str(reply.error.reason)
        try:
            (arrays,) = reply.content.array_records.values()
            with np.errstate(over="ignore", invalid="ignore"):
                update = self._layout.vector(arrays) - before
        except Exception as error:  # of many types, as the sender may write anything
            return f"{type(error).__name__}: {error}"
        return None if add_clipped(update, self._budget.clip_norm, grid, total) else "its update is not finite"

    def configure_evaluate(self, server_round: int, arrays: Any, config: Any, grid: Any) -> Any:
        """Nothing, as the metrics of clients have no noise; the messages of the strategy with ``unprotected=True``."""
        if not self._unprotected:
            return []
        return self._strategy.configure_evaluate(self._started().position, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Any]) -> Any:
        """Nothing; the metrics of the strategy with ``unprotected=True``."""
        return self._strategy.aggregate_evaluate(self._started().position, replies) if self._unprotected else None


def _distinct(clients: Iterable[str]) -> tuple[str, ...]:
    """The names of the clients, each once."""
    names = () if isinstance(clients, str) else tuple(clients)
    if not names or not all(isinstance(each, str) and each for each in names) or len(set(names)) != len(names):
        raise ValueError(f"clients must be different names, at least one, got {clients!r:.80}")
    return names


private_strategy = PrivateStrategy  #: the name in use
