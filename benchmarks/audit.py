"""The audit on loops whose verdict is known: ``python -m benchmarks.audit``.

A correct loop combines a noise, a participation, an adjacency, a budget and one of these: the loop of the audit, a
``PrivateRun``, and ``run.audited()`` in PyTorch and JAX, also with Poisson batches.  At the level 0.2 each has another
verdict than "nothing found" with probability 0.2 at most.  With ``--broken`` the command audits the loops of
``tests/broken_loops.py`` with several seeds, and prints all results without their verdict and cause.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

import numpy as np

import corrnoise as cn
from corrnoise.simulations.audit import stream_release
from corrnoise.simulations.run.engines import streaming
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Adjacency
from tests.broken_loops import BROKEN, CLAIM, Loop

LEVEL = 0.2
ADJACENCIES: tuple[Adjacency, ...] = ("zero-out", "replace-one")
KINDS = ("stream",) * 17 + ("floats", "poisson") + ("torch", "jax")

CORRECT_LOOPS = 500


def of_torch(options: dict[str, Any]) -> Any:
    """A run of a small network of PyTorch."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    data = torch.zeros(20, 6), torch.zeros(20, dtype=torch.long)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return cn.torch.make_private(model, optimizer, data, loss=torch.nn.functional.cross_entropy, **options)


def of_jax(options: dict[str, Any]) -> Any:
    """A run of a linear model of JAX."""
    import optax

    def loss(parameters: Any, row: Any) -> Any:
        return (parameters * row).sum()

    return cn.jax.make_private(
        np.zeros(6, np.float32), optax.sgd(0.1), (np.ones((20, 6), np.float32),), loss=loss, **options
    )


def correct(number: int) -> tuple[Any, Any]:
    """A loop and its claim, by a number."""
    rng = np.random.default_rng((11, number))
    kind = KINDS[number % len(KINDS)]
    budget = cn.Budget(
        epsilon=float(rng.choice([1.0, 5.0, 8.0])),
        delta=1e-5,
        clip_norm=float(rng.choice([0.1, 1.0, 3.0])),
        adjacency="zero-out" if kind == "poisson" else ADJACENCIES[rng.integers(2)],
    )
    if kind in ("torch", "jax", "poisson"):
        exact = bool(rng.integers(2))
        options = {
            "budget": budget,
            "batch_size": 10,
            "mechanism": cn.mechanisms.DPSGD() if kind == "poisson" else noises(4)[rng.integers(3)],
            "sums": "exact" if exact else "float32",
            "release": "grid" if exact else "float",
        }
        order = {"participation": Participation.poisson(8, 0.5)} if kind == "poisson" else {"epochs": 2}
        run = (of_torch if kind == "torch" else of_jax)(options | order)
        return run.audited(), run
    who = participations()[rng.integers(4)]
    mechanism = noises(who.length)[rng.integers(5 if kind == "stream" else 3)]
    if kind == "stream":
        program = streaming(mechanism, who)
        return stream_release(budget, program, rng=rng), (budget, program)
    program = streaming(mechanism, who, "float32")

    def released(batches: Any) -> Any:
        run = cn.PrivateRun(budget, who, mechanism, batches[0].shape[1], dtype="float32")
        found = []
        for _, batch in zip(run, batches, strict=True):
            rows = batch[np.isfinite(batch).all(axis=1)]
            norms = np.maximum(np.linalg.norm(rows, axis=1), budget.clip_norm)
            found.append(run.add_noise((0.9999 * budget.clip_norm / norms) @ rows))
        return np.array(found)

    return released, (budget, program)


def participations() -> tuple[Any, ...]:
    """Of orders of a few steps."""
    return (
        Participation.min_sep(24, 6),
        Participation.fixed_epochs(12, epochs=3),
        Participation.single(8),
        Participation.reshuffled(12, epochs=3),
    )


def noises(steps: int) -> list[Mechanism]:
    """Noise of all forms; the first three also run in float32."""
    bands = np.array([np.ones(steps), np.append(np.full(steps - 1, 0.4), 0.0)])
    return [
        cn.mechanisms.NuFTRL(0.02),
        cn.mechanisms.DPSGD(),
        cn.mechanisms.FiniteNoise([1.0, -0.5]),
        cn.mechanisms.BandedNoise(bands),
        cn.mechanisms.BinaryTree(steps),
    ]


def alarms(numbers: Iterable[int], level: float = LEVEL) -> list[str]:
    """The correct loops that an audit does not pass, with its cause."""
    found = []
    for number in numbers:
        loop, claim = correct(number)
        made = cn.audit(loop, claim, factor=4.0, idle=100, level=level, rng=number)
        if made.verdict != "nothing found":
            found.append(f"{number} ({KINDS[number % len(KINDS)]}): {made.verdict}: {made.cause}")
    return found


def missed(seeds: Iterable[int]) -> list[str]:
    """The audits of broken loops whose verdict or cause is another than the known one."""
    found = []
    for name, (arguments, cause, refutes) in BROKEN.items():
        for seed in seeds:
            made = cn.audit(Loop(100 + seed, **arguments), CLAIM, rng=seed)
            if not made.cause.startswith(cause) or (made.verdict == "not private as claimed") != refutes:
                found.append(f"{name}, seed {seed}: {made.verdict}: {made.cause}")
    return found


def main() -> None:
    """Print the loops with a wrong verdict, and their number."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loops", type=int, default=CORRECT_LOOPS, help="number of correct loops")
    parser.add_argument("--broken", action="store_true", help="audit the broken loops instead")
    parser.add_argument("--seeds", type=int, default=1, help="number of audits of each broken loop")
    given = parser.parse_args()
    found = missed(range(given.seeds)) if given.broken else alarms(range(given.loops))
    total = len(BROKEN) * given.seeds if given.broken else given.loops
    print(
        "\n".join([*found, f"{len(found)} wrong of {total} audits of {'broken' if given.broken else 'correct'} loops"])
    )


if __name__ == "__main__":
    main()
