"""``corrnoise federate``: a test bench of federated training, and the enrolment of clients."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corrnoise.commands.options import names_as_typed
from corrnoise.support.cluster import require_scheduler
from corrnoise.support.files import whole_files
from corrnoise.support.progress import progress_line

if TYPE_CHECKING:
    from corrnoise.simulations.federation.images import Images
    from corrnoise.simulations.federation.plan import Plan
    from corrnoise.simulations.federation.server import FederatedServer

SUMMARY = "enrol a client of a federation, or train on images that are dealt out to clients, as a test bench"
EXAMPLE = "corrnoise federate --machines 100 --participants 50 --adjacency replace-one --output federation"
EXHAUSTED = 3  #: exit status of a run that ended with too few clients for a whole round

NAMES = (
    "download",
    "machines",
    "participants",
    "rounds",
    "batch",
    "passes",
    "rho",
    "epsilon",
    "clip_norm",
    "learning_rate",
    "adjacency",
    "delta",
    "cluster",
    "plan",
    "folder",
    "name",
    "examples",
)
NOISES = ("best-share", "two-buffers", "nothing-taken-back", "constant")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("action", nargs="?", choices=("enrol",), help="make the folder of one client of a plan, once")
    for option, kind, text in (
        ("--plan", str, "enrol: file of the plan"),
        ("--folder", str, "enrol: new folder of the client, as secret as its data"),
        ("--name", str, "enrol: name of the client in the roster (default: the name of the folder)"),
        ("--examples", int, "enrol: number of examples of the client"),
    ):
        parser.add_argument(option, metavar="N" if kind is int else option[2:].upper(), type=kind, help=text)
    parser.add_argument(
        "--data", choices=("digits", "mnist"), default="digits", help="images to train on (default: digits)"
    )
    parser.add_argument("--download", action="store_true", help="fetch MNIST from OpenML, which --data mnist needs")
    for option, default, text in (
        ("--machines", 100, "clients, among which the images are dealt out"),
        ("--participants", 50, "clients that take part in a round"),
        ("--batch", 1, "examples of a client in a round"),
        ("--passes", 1, "passes over the examples of a client"),
    ):
        parser.add_argument(option, metavar="N", type=int, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--rounds", metavar="N", type=int, help="rounds (default: until the images are used)")
    for option, number, text in (
        ("--rho", None, "privacy budget of each unit, zCDP (default: 8)"),
        ("--epsilon", None, "privacy budget of each unit with --delta, in place of --rho"),
        ("--clip-norm", 3.0, "norm to which each correction of an example is clipped"),
        ("--learning-rate", 1.0, "learning rate, in units of one over the number of rounds"),
        ("--delta", 1e-5, "delta of --epsilon, or at which epsilon is printed"),
    ):
        shown = text if number is None else f"{text} (default: {number:g})"
        parser.add_argument(option, metavar="X", type=float, default=number, help=shown)
    parser.add_argument(
        "--unit", choices=("example", "client"), default="example", help="whose data are protected (default: example)"
    )
    parser.add_argument(
        "--adjacency", choices=("replace-one", "zero-out"), help="how neighbouring data differ; must be given"
    )
    parser.add_argument("--trust", choices=("local", "central"), default="local", help="who adds the noise")
    parser.add_argument("--noise", choices=NOISES, help="noise (default: the best that is known for the unit)")
    parser.add_argument("--cluster", "--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers see --output")
    parser.add_argument(
        "--output",
        metavar="DIR",
        default="corrnoise-federation",
        help="folder for the states of the run and its results (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Enrol a client; or run all rounds, or the remaining rounds of a run that was stopped."""
    with names_as_typed(*NAMES):
        if arguments.action == "enrol":
            return _enrol(arguments)
        if arguments.cluster is not None:
            require_scheduler(arguments.cluster)  # before large libraries are imported
        if arguments.adjacency is None:
            raise ValueError("adjacency must be given, 'replace-one' or 'zero-out', because privacy rests on it")
    from corrnoise.simulations.federation.bench import run_bench
    from corrnoise.simulations.federation.images import dealt_images

    folder = Path(arguments.output)
    with names_as_typed(*NAMES):
        data = dealt_images(arguments.data, arguments.machines, download=arguments.download)
        plan = _plan(data, arguments)
        guarantee = plan.guarantee(arguments.delta)
        for warning in plan.warnings(arguments.machines, delta=arguments.delta):
            print(f"corrnoise: warning: {warning}", file=sys.stderr)
    try:
        with progress_line() as show:
            show("starting")
            server = run_bench(
                plan,
                data.training,
                folder,
                cluster=arguments.cluster,
                after_round=lambda server: show("rounds", server.state.round - 1, plan.rounds),
            )
    except KeyboardInterrupt:
        print(f"corrnoise: finished rounds are kept in {folder}; the same command continues", file=sys.stderr)
        raise
    summary = _summary(data, plan, server) | guarantee
    _write(folder, summary, server)
    for name, value in summary.items():
        shown = f"{value:.6g}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<22} {shown}")
    print(f"\n{folder / 'result.json'}\n{folder / 'model.npy'}")
    left = sum(gone >= plan.rounds for gone in server.state.exhausted.values())
    return EXHAUSTED if arguments.machines - len(server.state.exhausted) + left < plan.participants else 0


def _enrol(arguments: Namespace) -> int:
    from corrnoise.simulations.federation.client import enrol
    from corrnoise.simulations.federation.plan import Plan

    for name in ("plan", "folder", "examples"):
        if getattr(arguments, name) is None:
            raise ValueError(f"{name} must be given to enrol a client")
    client = arguments.name or Path(arguments.folder).name
    plan = Plan.load(arguments.plan)
    public = enrol(plan, client, arguments.folder, examples=arguments.examples)
    print(f"{client} {public or '(no key without the extra corrnoise[keys])'}")
    held = plan.guarantee(plan.budget.delta or 1e-5)
    epsilon = math.ceil(1e3 * held["epsilon"]) / 1e3
    print(
        f"corrnoise: the plan promises {held['rho']:.6g}-zCDP, or ({epsilon:.10g}, {held['delta']:g})-DP, for"
        f" one {held['unit']} with {held['adjacency']} adjacency, against {held['against']}",
        file=sys.stderr,
    )
    return 0


def _plan(data: Images, arguments: Namespace) -> Plan:
    from corrnoise.simulations.federation.plan import Plan
    from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
    from corrnoise.theory.numerics.checks import integer, real
    from corrnoise.theory.privacy import Budget

    batch = integer("batch", arguments.batch, 1)
    passes = integer("passes", arguments.passes, 1)
    participants = integer("participants", arguments.participants, 1)
    if participants > arguments.machines:
        raise ValueError(f"participants must be at most machines, got {participants} of {arguments.machines}")
    per_pass = max(1, min(len(targets) for _, targets in data.training) // batch)
    all_used = max(1, len(data.training) * per_pass * passes // participants)
    rounds = all_used if arguments.rounds is None else integer("rounds", arguments.rounds, 1)
    named: dict[str, Any] = {"nothing-taken-back": DPSGD(), "constant": AntiPGD(0.0)}
    budget = Budget(
        8.0 if arguments.rho is None and arguments.epsilon is None else arguments.rho,
        epsilon=arguments.epsilon,
        delta=None if arguments.epsilon is None else arguments.delta,
        clip_norm=arguments.clip_norm,
        adjacency=arguments.adjacency,
    )
    return Plan(
        data.name,
        data.loss,
        rounds=rounds,
        participants=participants,
        batch=batch,
        per_pass=per_pass,
        passes=passes,
        radius=5.0,
        learning_rate=real("learning_rate", arguments.learning_rate, "(0, 1e50]") / rounds,
        budget=budget,
        unit=arguments.unit,
        noise=named.get(arguments.noise, arguments.noise),
        trust=arguments.trust,
    )


def _summary(data: Images, plan: Plan, server: FederatedServer) -> dict[str, Any]:
    state = server.state
    taken = [state.acknowledged.get(name, 0) for name in server.roster]
    return {
        "test_accuracy": data.loss.accuracy(server.output, *data.test),
        "rounds": plan.rounds,
        "machines": len(taken),
        "noise": repr(plan.mechanism),
        "noise_std": plan.noise_std,
        "participations": f"{min(taken)} to {max(taken)} of {plan.participations}",
        "exhausted": len(state.exhausted),
        "rejected": state.rejected,
    }


def _write(folder: Path, summary: dict[str, Any], server: FederatedServer) -> None:
    import numpy as np

    with whole_files(folder) as staging:
        (staging / "result.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
        np.save(staging / "model.npy", server.output)
