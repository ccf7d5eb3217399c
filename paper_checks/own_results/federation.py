"""Federated clients: a mechanism over their own participations, restored states, and sums of messages."""

from functools import cache, reduce
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, vector
from corrnoise.paper_checks.machinery.enclosures import monotone
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.oracles import arrivals_of
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.papers.noise_cancellation.aggregation import aggregated_energies
from corrnoise.theory.papers.noise_cancellation.coupling import growing_noise_factor
from corrnoise.theory.participation import Participation

PAGE = "docs/federated-proofs.md"


def _share(share: float) -> PoleNoise:
    """Noise where a client takes back a share."""
    return PoleNoise([0.0], [share])


@PAPER.identity(
    "F1",
    proof=f"{PAGE}#the-noise-of-a-client",
    printed=r"With shift bounds $\Delta_k$ the messages are $\rho$-zCDP with $\rho = \gamma^2 / (2 \sigma^2)$, where $\gamma$ is the "
    r"sensitivity of $C \operatorname{diag}(\Delta)$",
    reading=r"one participation: $\gamma^2$ is the largest $\Delta_k^2$ times the squared norm of column k",
    domain={"share": log_scale(1e-3, 0.99), "shifts": vector(log_scale(0.1, 10), 6)},
    mutants=[{"power": 1.0}],
    tolerance=1e-9,
    evaluations=128,
)
def f1(share: float, shifts: Array, power: float = 2.0) -> Sides:
    """The messages over their shifts carry the noise diag(1/Δ) N z, whose strategy is C diag(Δ)."""
    noise = _share(share)
    energies = np.square(noise.column_norms(6))
    scaled = ScaledNoise(noise, step_scales=1 / shifts)
    return float(scaled.sensitivity(Participation.single(6))) ** 2, float((shifts**power * energies).max())


@PAPER.inequality(
    "F3",
    proof=f"{PAGE}#the-noise-of-a-client",
    printed=r"The sensitivity of fixed epochs of $p$ steps covers every schedule of the server, every drop-out and every early "
    r"end",
    reading="a client that ends after k of its participations; every example of its order, and all signs of its shifts",
    domain={
        "entries": vector(linear(-1, 1), 21),
        "pass_length": integers(1, 3),
        "first": integers(0, "pass_length"),
        "end": integers(1, 6),
    },
    mutants=[{"passes": False}],
    tolerance=1e-9,
    evaluations=512,
)
def f3(entries: Array, pass_length: int, first: int, end: int, passes: bool = True) -> Sides:
    """The last rows of C are dropped, and shifts may oppose each other."""
    c = np.zeros((6, 6))
    c[np.tril_indices(6)] = entries
    c[np.diag_indices(6)] = 1 + np.abs(np.diag(c))
    columns = np.arange(first, 6, pass_length)
    block = c[:end, columns]
    signs = 2.0 * np.indices((2,) * columns.size).reshape(columns.size, -1) - 1
    energies = np.square(block @ signs).sum(axis=0)
    who = Participation.fixed_epochs(6, epochs=6 // pass_length) if passes else Participation.single(6)
    return float(energies.max()), float(MatrixNoise(c).sensitivity_upper_bound(who)) ** 2


@PAPER.inequality(
    "F4",
    proof=f"{PAGE}#the-noise-of-a-client",
    printed=r"For any mechanism of unit sensitivity when every message may move, $\operatorname{Var} y_k \ge k^2$",
    domain={"share": log_scale(1e-8, 0.99), "steps": integers(1, 60), "step": linear(0, 1)},
    sharp="factor",
    mutants=[{"factor": 1.02}, {"power": 2.2}],
    evaluations=256,
)
def f4(share: float, steps: int, step: float, factor: float = 1.0, power: float = 2.0) -> Sides:
    """A shift by one unit vector in every message moves the prefix by k.  Independent noise attains it in the last one."""
    noise = _share(share)
    k = 1 + round(step * (steps - 1))
    gamma = float(noise.sensitivity(Participation.min_sep(steps, 1)))
    return factor * float(k) ** power, float(noise.errors(PrefixSums(steps))[k - 1]) * gamma**2


@PAPER.inequality(
    "F8",
    proof=f"{PAGE}#crashes-and-old-states",
    printed=r"If an older state is put back $r$ times, unnoticed, all that leaves is $(1 + r)\rho$-zCDP",
    domain={
        "share": log_scale(1e-3, 0.99),
        "pass_length": integers(1, 8),
        "first": integers(0, "pass_length"),
        "back": vector(linear(0, 1), 3),
        "restored": integers(0, 3),
    },
    sharp="factor",
    mutants=[{"factor": 0.99}, {"each": 0.5}],
    evaluations=512,
)
def f8(
    share: float, pass_length: int, first: int, back: Array, restored: int, factor: float = 1.0, each: float = 1.0
) -> Sides:
    """The nodes of the tree have draws of their own; those before a state that is put back are common to its paths."""
    strategy = np.tril(np.full((8, 8), share)) + (1 - share) * np.eye(8)
    pattern = np.zeros(8)
    pattern[first::pass_length] = 1.0
    energies = np.square(strategy @ pattern)
    tree = energies.sum() + sum(energies[round(8 * kept) :].sum() for kept in back[:restored])
    gamma = float(_share(share).sensitivity(Participation.min_sep(8, pass_length)))
    return float(tree), factor * (1 + each * restored) * gamma**2


@PAPER.inequality(
    "F10",
    proof=f"{PAGE}#secure-aggregation",
    printed=r"An example used once, in a message that arrives in round $t$, has the energy $(K^{-1})_{tt}$ in place of that of a "
    r"lone client, never more",
    domain={"share": log_scale(1e-3, 0.99), "members": vector(linear(0, 1), 18)},
    sharp="factor",
    mutants=[{"factor": 0.9}],
    evaluations=512,
)
def f10(share: float, members: Array, factor: float = 1.0) -> Sides:
    """Three clients in six rounds; alone in all its rounds, a client has no gain."""
    noise = _share(share)
    arrivals = arrivals_of(members, 6)
    energies = aggregated_energies(noise, arrivals, 6)
    worst = 0.0
    for when in arrivals:
        lone = np.square(noise.column_norms(when.size))
        worst = max(worst, float((energies[when.astype(int) - 1] / lone).max()))
    return worst, factor


@PAPER.identity(
    "F10 (groups)",
    proof=f"{PAGE}#secure-aggregation",
    printed=r"If $m$ clients always take part together, the gain is exactly $m$",
    rests_on=("corrnoise: F10",),
    domain={"share": log_scale(1e-3, 0.99), "clients": integers(1, 12), "steps": integers(1, 12)},
    mutants=[{"power": 0.5}],
    tolerance=1e-9,
    evaluations=64,
)
def f10_groups(share: float, clients: int, steps: int, power: float = 1.0) -> Sides:
    """K is m times the covariance of one client."""
    noise = _share(share)
    together = aggregated_energies(noise, [np.arange(1.0, steps + 1)] * clients, steps)
    return float(clients**power * together.max()), float(np.square(noise.column_norms(steps)).max())


@cache
def _waits(rounds: int) -> tuple[Any, Any]:
    """Polynomials A and B of 1 − p, with positive coefficients, such that Φ(T, p, 1/(8T)) = p A + p² B; in balls.

    A machine may wait for n of the T rounds from T − n + 1 rounds s on, whose s − 1 add up to (T − n + 1)(T − n)/2.
    """
    from flint import arb, arb_poly

    u = total = fed_back = arb(0)
    once, twice = [], []
    for left in range(rounds, 0, -1):
        u = u + 1 + fed_back / (4 * rounds)
        fed_back = fed_back + 2 * total + u
        total = total + u
        once.append(u * 2 * left / (rounds * (rounds + 1)))
        twice.append(u * left * (left - 1) / (rounds * (rounds + 1)))
    return arb_poly(once), arb_poly(twice)


def _coupling(rounds: int, probability: Any) -> Any:
    """Φ(T, p, 1/(8T)); for a ball p by the polynomials, which rise with p and with 1 − p."""
    if isinstance(probability, float):
        return growing_noise_factor(rounds, probability, 1 / (8 * rounds))
    once, twice = _waits(rounds)
    value = monotone(+1, +1)(lambda p, absent: p * once(absent) + p * p * twice(absent))
    return value(probability, 1 - probability)


@PAPER.inequality(
    "Theorem 5.2 (coupling)",
    proof="docs/noise-cancellation-proofs.md#the-corrected-theorem-52",
    printed=r"$\Phi(T, p, \frac{1}{8T}) \le 2$ for $T = 100$ and $p \ge 1/6.09$, $T = 1000$ and $p \ge 1/10.79$, $T = 10000$ and $p \ge 1/22.17$",
    domain={"share": linear("0", "1")},
    outside=r"Nothing: the share 0 is $p = 1$, and 1 the least $p$.",
    evidence="certified",
    mutants=[{"limits": ("6.1", "10", "22")}, {"limits": ("6", "10.8", "22")}, {"limits": ("6", "10", "22.2")}],
    evaluations=16,
)
def coupling(share: Any, limits: tuple[str, str, str] = ("6.09", "10.79", "22.17")) -> Sides:
    """In terms of log(1/p) over its largest value.  Φ is 1 at p = 1, and as p falls it falls a little before it rises."""
    m = arithmetic(share)
    factors = [
        _coupling(rounds, m.exp(-share * m.log(m.number(limit))))
        for rounds, limit in zip((100, 1000, 10_000), limits, strict=True)
    ]
    largest = max(factors) if isinstance(share, float) else reduce(lambda a, b: a.max(b), factors)
    return largest, m.number(2) + 0 * share
