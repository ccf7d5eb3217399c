"""``corrnoise federate``: a private federated run over processes, of this machine or of a cluster, which resumes."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed
from corrnoise.support.cluster import require_scheduler
from corrnoise.support.files import whole_files
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.simulations.noise_cancellation.images import Images
    from corrnoise.simulations.noise_cancellation.protocol import Protocol
    from corrnoise.simulations.noise_cancellation.run import FederatedResult

SUMMARY = "train on images that are dealt out to machines, with noise cancellation and a server that sees no example"
EXAMPLE = "corrnoise federate --machines 100 --participants 50 --rho 32 --noise best-share --output federation"

NAMES = (
    "download",
    "machines",
    "participants",
    "rounds",
    "workers",
    "groups",
    "rho",
    "clip_norm",
    "learning_rate",
    "delta",
    "seed",
    "cluster",
)
NOISES = (
    "published",
    "constant",
    "nothing-taken-back",
    "best-share",
    "two-buffers",
    "binary-tree",
    "square-root",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare what the command takes."""
    parser.add_argument(
        "--data", choices=("digits", "mnist"), default="digits", help="images to train on (default: digits)"
    )
    parser.add_argument("--download", action="store_true", help="fetch MNIST from OpenML, which --data mnist needs")
    for option, default, text in (
        ("--machines", 100, "machines, among which the images are dealt out"),
        ("--participants", 50, "machines that take part in a round"),
        ("--workers", 2, "processes to start on this machine"),
    ):
        parser.add_argument(option, metavar="N", type=int, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--rounds", metavar="N", type=int, help="rounds (default: a single pass over the images)")
    parser.add_argument("--groups", metavar="N", type=int, help="groups of machines, a task each (default: --workers)")
    for option, number, text in (
        ("--rho", 32.0, "privacy budget of each machine, zCDP"),
        ("--clip-norm", 3.0, "norm to which each correction of an example is clipped"),
        ("--learning-rate", 1.0, "learning rate, in units of one over the number of rounds"),
    ):
        parser.add_argument(option, metavar="X", type=float, default=number, help=f"{text} (default: {number:g})")
    parser.add_argument(
        "--noise", choices=NOISES, default="best-share", help="noise of each machine (default: best-share)"
    )
    parser.add_argument("--delta", metavar="X", type=float, help="print epsilon at this delta, too")
    parser.add_argument(
        "--seed",
        metavar="N",
        type=int,
        help="for a simulation that can be repeated; who knows it can take the noise off",
    )
    parser.add_argument(
        "--cluster",
        "--scheduler",
        metavar="ADDRESS",
        help="Dask scheduler, whose workers run the machines and must see --output",
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="corrnoise-federation",
        help="folder for the states of the run and its results (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Run all rounds, or those that are left of a run that was stopped, and write what came of them."""
    with names_as_typed(*NAMES):
        if arguments.cluster is not None:
            require_scheduler(arguments.cluster)  # before large libraries are imported
    from corrnoise.simulations.noise_cancellation.distributed import run_distributed
    from corrnoise.simulations.noise_cancellation.images import dealt_images

    folder = Path(arguments.output)
    with names_as_typed(*NAMES):
        data = dealt_images(arguments.data, arguments.machines, download=arguments.download)
        protocol = _protocol(data, arguments)
        guarantee = _guarantee(protocol, arguments.seed, arguments.delta)
        try:
            with progress_line() as show:
                show("starting")
                result = run_distributed(
                    protocol,
                    data.training,
                    seed=arguments.seed,
                    folder=folder,
                    cluster=arguments.cluster,
                    workers=arguments.workers,
                    groups=arguments.groups,
                    after_round=lambda server, _: show("rounds", server.round - 1, protocol.rounds),
                )
        except KeyboardInterrupt:
            print(f"corrnoise: finished rounds are kept in {folder}; the same command continues", file=sys.stderr)
            raise
    summary = _summary(data, protocol, result) | guarantee
    _write(folder, summary, result)
    for name, value in summary.items():
        print(
            f"{name.replace('_', ' '):<22} {value:.6g}"
            if isinstance(value, float)
            else f"{name.replace('_', ' '):<22} {value}"
        )
    print(f"\n{folder / 'result.json'}\n{folder / 'model.npy'}")
    return 0


def _protocol(data: Images, arguments: Namespace) -> Protocol:
    from corrnoise.solvers.noise_cancellation import named_noise
    from corrnoise.theory.numerics.checks import integer, real
    from corrnoise.theory.privacy import Budget

    participants = integer("participants", arguments.participants, 1)
    budget = Budget(arguments.rho, clip_norm=arguments.clip_norm, adjacency="replace-one")
    plain = data.protocol(budget, participants=participants, rounds=arguments.rounds, noise=None)
    return data.protocol(
        budget,
        participants=participants,
        rounds=arguments.rounds,
        noise=named_noise(arguments.noise.replace("-", " "), plain.uses),
        learning_rate=real("learning_rate", arguments.learning_rate, "(0, 1e100]") / plain.rounds,
    )


def _guarantee(protocol: Protocol, seed: int | None, delta: float | None) -> dict[str, Any]:
    """The privacy of the run: of whom, how much, and on which assumptions."""
    assert protocol.budget is not None
    found: dict[str, Any] = {"rho": protocol.budget.gaussian_rho}
    if delta is not None:
        found |= {"delta": delta, "epsilon": protocol.budget.epsilon_at(delta)}
    words = (
        "all messages of a machine together, for the replacement of one of its examples; the rounds in which it takes"
        " part are public, and its folder is secret"
    )
    if seed is not None:
        words = f"none, because the seed {seed} is known: a simulation; with a secret seed, {words}"
    return found | {"guarantee": words}


def _summary(data: Images, protocol: Protocol, result: FederatedResult) -> dict[str, Any]:
    from corrnoise.simulations.noise_cancellation.messages import vectors

    took_part = result.participations
    assert protocol.noise is not None
    return {
        "test_accuracy": protocol.loss.accuracy(result.point, *data.test),
        "rounds": protocol.rounds,
        "machines": protocol.machines,
        "noise": repr(protocol.noise),
        "noise_std": protocol.std,
        "vectors_kept": vectors(protocol.noise, protocol.uses),
        "participations": f"{took_part.min()} to {took_part.max()}",
        "refusals": result.refusals,
    }


def _write(folder: Path, summary: dict[str, Any], result: FederatedResult) -> None:
    import numpy as np

    with whole_files(folder) as staging:
        (staging / "result.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        np.save(staging / "model.npy", result.point)
