"""One digest of numbers that a move of code must not change: ``python -m tools.golden``.

Run it before and after the move, on one machine.  Each group of numbers has a digest, and ``all`` covers every group.
``--entries`` lists the numbers.  Privacy, batches and noise are compared bit for bit.  Results of searches are
rounded to 5 digits, because another order of additions may change the last ones.  Only public names make the runs and
the mechanisms, so that the tool survives the moves that it checks.
"""

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

import corrnoise as cn
from corrnoise.simulations.run.engines import engine, normals_of, streaming
from corrnoise.simulations.run.sampled import SampledBatches

N_STEPS = 24
SAMPLED_KEY = bytes(range(32))
N_EXAMPLES = 60
N_COORDINATES = 3
RELATIVE_DIGITS = ".5g"  # of results of searches

Entries = Iterator[tuple[str, Any]]


def orders() -> dict[str, Any]:
    """Orders of ``N_STEPS`` steps, by the calls that make them."""
    n, doors = N_STEPS, cn.Participation
    return {
        "single": doors.single(n),
        "single, users": doors.single(n, unit="user", members=3),
        "min-sep 1": doors.min_sep(n, 1),
        "min-sep 5": doors.min_sep(n, 5),
        "min-sep 5, 3 times": doors.min_sep(n, 5, 3),
        "min-sep 23": doors.min_sep(n, 23),
        "fixed 1": doors.fixed_epochs(n, period=1),
        "fixed 6": doors.fixed_epochs(n, epochs=4),
        "fixed 6, users": doors.fixed_epochs(n, epochs=4, unit="user", members=2),
        "fixed 10": doors.fixed_epochs(n, period=10),
        "fixed 12, secret": doors.fixed_epochs(n, epochs=2, secret=True),
        "reshuffled 3": doors.reshuffled(n, period=3),
        "reshuffled 6": doors.reshuffled(n, epochs=4),
        "reshuffled 6, secret": doors.reshuffled(n, epochs=4, secret=True),
        "reshuffled 10": doors.reshuffled(n, period=10),
    }


def sampled() -> dict[str, Any]:
    """Sampled participations of ``N_STEPS`` steps, by the calls that make them."""
    n, doors = N_STEPS, cn.Participation
    return {
        "poisson": doors.poisson(n, 0.25),
        "poisson, every example": doors.poisson(n, 1.0),
        "poisson, capacity": doors.poisson(n, 0.25, capacity=20, examples=N_EXAMPLES),
        "cyclic poisson": doors.cyclic_poisson(n, period=4, rate=0.5),
        "cyclic poisson, capacity": doors.cyclic_poisson(n, period=5, rate=0.5, capacity=8, examples=N_EXAMPLES),
        "bins": doors.balls_in_bins(n, period=6),
        "bins, capacity": doors.balls_in_bins(n, period=10, capacity=8, examples=N_EXAMPLES),
        "redrawn bins": doors.redrawn_bins(n, period=6),
        "redrawn bins, capacity": doors.redrawn_bins(n, period=10, capacity=8, examples=N_EXAMPLES),
    }


def mechanisms() -> dict[str, Any]:
    """Mechanisms of every form."""
    noises, n = cn.mechanisms, N_STEPS
    random = np.random.default_rng(0)
    return {
        "independent": noises.DPSGD(),
        "nu-DP-FTRL": noises.NuFTRL(0.02),
        "anti-PGD": noises.AntiPGD(0.1),
        "product": noises.ProductNoise([0.3, 0.7], [0.5, -0.25]),
        "tree": noises.BinaryTree(n),
        "binary tree": noises.BinaryTree(n, decoder="binary"),
        "three coefficients": noises.FiniteNoise([1.0, -0.5, 0.25]),
        "matrix": noises.MatrixNoise(np.tril(random.normal(size=(n, n))) * 0.2 + np.eye(n)),
    }


def _brackets() -> Entries:
    for (noise, mechanism), (order, who) in product(mechanisms().items(), orders().items()):
        found = mechanism.bracket(who)
        yield f"{noise}, {order}", [found.value.hex(), found.upper.hex(), found.rounding.hex(), found.exact]


def _relations() -> Entries:
    given = orders() | sampled()
    for (one, who), (other, required) in product(given.items(), repeat=2):
        yield f"{one}, {other}", [who.covered_by(required), who.satisfies(required)]


def _patterns() -> Entries:
    for order, who in orders().items():
        if (count := who.worst.number_of_patterns()) < 2000:
            yield order, [steps.tolist() for steps in who.worst.patterns()]
        yield order, [count, who.once, who.saturated, who.largest.tolist()]
        yield order, [[who.together(i, j) for j in range(N_STEPS)] for i in range(N_STEPS)]


def _batches() -> Entries:
    for sampler, who in sampled().items():
        bound = SampledBatches(who, N_EXAMPLES).bound(SAMPLED_KEY)
        yield sampler, [bound.batch_size.hex(), bound.largest_batch, who.overflow.hex()]
        yield sampler, [bound.batch(step).tolist() for step in range(N_STEPS)]
        yield sampler, bound.batch(1).tolist()
    for order, who in orders().items():
        found = cn.batches(who, N_EXAMPLES, 2, rng=0)
        yield order, [found.batch(step).tolist() for step in range(N_STEPS)]


def _multipliers() -> Entries:
    given = cn.Budget(epsilon=2.0, delta=1e-5)
    for (noise, mechanism), (order, who) in product(mechanisms().items(), (orders() | sampled()).items()):
        if order in sampled() and noise not in ("independent", "nu-DP-FTRL"):
            continue
        try:
            yield f"{noise}, {order}", streaming(mechanism, who).multiplier(given).hex()
        except ValueError:
            yield f"{noise}, {order}", "refused"


def _noise() -> Entries:
    given = orders()
    for (noise, mechanism), order in product(mechanisms().items(), ("single", "fixed 6", "reshuffled 6")):
        program = streaming(mechanism, given[order])
        makes, draw = engine(program, N_COORDINATES), normals_of(np.random.default_rng(1))
        values = np.empty(N_COORDINATES)
        for step in range(N_STEPS):
            makes.step(draw, values, step)
            yield f"{noise}, {order}, {step}", values.tobytes().hex()


def _errors() -> Entries:
    for (noise, mechanism), (order, who) in product(mechanisms().items(), orders().items()):
        yield f"{noise}, {order}", [format(mechanism.mean_error(who), ".10g"), format(mechanism.max_error(who), ".10g")]


def _searches() -> Entries:
    doors, given = cn.Participation, cn.Budget(epsilon=2.0, delta=1e-5)
    for who in (doors.single(40), doors.fixed_epochs(40, epochs=4), doors.reshuffled(40, epochs=4)):
        yield f"{who.count} times", format(cn.default_noise(who, given).mean_error(who), RELATIVE_DIGITS)
    least = cn.optimise(cn.SGD(), doors.fixed_epochs(40, epochs=4), memory=1)
    yield "memory 1", format(least.error, RELATIVE_DIGITS)
    regression = cn.LinearRegression([1.0, 0.2], 0.1)
    found = cn.optimise(regression, doors.fixed_epochs(40, epochs=4), memory=1)
    yield "regression", [format(found.error, RELATIVE_DIGITS), format(found.sensitivity.upper, RELATIVE_DIGITS)]


GROUPS: dict[str, Callable[[], Entries]] = {
    "brackets": _brackets,
    "relations": _relations,
    "patterns": _patterns,
    "batches": _batches,
    "multipliers": _multipliers,
    "noise": _noise,
    "errors": _errors,
    "searches": _searches,
}


def digests(show: bool = False) -> dict[str, str]:
    """Compute the digest of each group and, under ``"all"``, of all groups.

    Parameters
    ----------
    show : bool
        Whether to print every entry.

    Returns
    -------
    dict of str to str
        16 hexadecimal digits by group.
    """
    found = {}
    for group, entries in GROUPS.items():
        lines = [f"{name}: {value}" for name, value in entries()]
        if show:
            print("\n".join(f"{group}: {line}" for line in lines))
        found[group] = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
    found["all"] = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    return found


def main() -> int:
    """Print the digests."""
    parser = argparse.ArgumentParser(description="print a digest of numbers that a move of code must not change")
    parser.add_argument("--entries", action="store_true", help="print every number, too")
    for group, digest in digests(parser.parse_args().entries).items():
        print(f"{group:12} {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
