"""Noise in a momentum: the square root mechanism is as good as any in long runs; the additional noise of the tree."""

from itertools import product
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import Axis, integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.momentum_aggregation.oracles import ORDERS
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.objectives.workloads import MomentumAverage
from corrnoise.theory.papers.momentum_aggregation.least_noise import (
    noise_limit,
    noise_lower_bound,
    square_root_upper_bound,
)
from corrnoise.theory.papers.momentum_aggregation.reconstruction import defect_bound, lemma_17_defect
from corrnoise.theory.papers.momentum_aggregation.sensitivity import printed_node_count, squared_weights
from corrnoise.theory.papers.momentum_aggregation.trees import decoder_variance, levels
from corrnoise.theory.participation import Participation


def run_axes(examples: int, epochs: int, least: float) -> dict[str, Axis]:
    """N, N α and the number of epochs, up to these numbers of examples and epochs."""
    return {
        "examples": integers(1, examples, log=True),
        "load": log_scale(least, "examples"),
        "epochs": integers(1, epochs, log=True),
    }


PROOF = "docs/momentum-aggregation-proofs.md#the-least-noise-of-a-momentum"


@PAPER.inequality(
    "M1 (upper)",
    proof=PROOF,
    printed=r"Momentum with the noise of ν-DP-FTRL, ν = α, has a standard deviation of at most $S = \frac{\alpha}{\mathrm{agm}(1, "
    r"\sqrt{\alpha (2 - \alpha)})}$ in every step, for one participation, $\rho = \frac{1}{2}$ and clip norm 1",
    domain={"alpha": log_scale(1e-4, 1), "steps": integers(1, 5000, log=True)},
    sharp="factor",
    mutants=[{"factor": 0.99}],
    evaluations=128,
)
def m1_upper(alpha: float, steps: int, factor: float = 1.0) -> Sides:
    r"""$S = \frac{\alpha}{\pi} (\log \frac{8}{\alpha} + o(1))$ does not grow with T, and the limit $T \to \infty$ attains it.

    The noise of the tree as published grows with $\log_2 T$ at fixed α.
    """
    error = NuFTRL(alpha).max_error(Participation.single(steps), MomentumAverage(steps, alpha=alpha))
    return error, factor * noise_limit(alpha)


@PAPER.inequality(
    "M1 (lower)",
    proof=PROOF,
    printed=r"No mechanism has a smaller root mean square over T steps than $S - \frac{1 - \alpha}{(2 - \alpha) T}$",
    domain={"alpha": log_scale(1e-4, 0.99), "steps": integers(1, 200, log=True)},
    sharp="deduction",
    mutants=[{"deduction": 0.3}],
    evaluations=128,
)
def m1_lower(alpha: float, steps: int, deduction: float = 1.0) -> Sides:
    r"""$\frac{\|A\|_*}{T}$ is a bound of every factorisation.  With M1 (upper) the square root is optimal up to a relative
    $O(\frac{1}{\alpha T})$.

    The smaller side is $T S - \|A\|_*$, the larger one the deduction, $\frac{1 - \alpha}{2 - \alpha}$; so an error in S counts as it
    does in long runs.
    """
    norm = float(np.linalg.svd(MomentumAverage(steps, alpha=alpha).matrix(), compute_uv=False).sum())
    return steps * noise_limit(alpha) - norm, deduction * (1 - alpha) / (2 - alpha)


@PAPER.inequality(
    "M2 (upper)",
    proof=PROOF,
    printed=r"In E epochs of N steps of one order the same noise has at most $S \sqrt{E \frac{1 + a}{1 - a}}$, $a = (1 - \alpha)^N$",
    domain=run_axes(300, 32, least=0.1),
    sharp="factor",
    mutants=[{"factor": 0.95}],
    evaluations=128,
)
def m2_upper(examples: int, load: float, epochs: int, factor: float = 1.0) -> Sides:
    r"""At $\alpha \ge \frac{1}{N}$ the factor is at most $\sqrt{\frac{e + 1}{e - 1}} = 1.471$: so close is the square root to the optimum of
    M2 (lower) in long runs.
    """
    alpha = load / examples
    steps = examples * epochs
    who = Participation.fixed_epochs(steps, epochs=epochs)
    error = NuFTRL(alpha).max_error(who, MomentumAverage(steps, alpha=alpha))
    return error, factor * square_root_upper_bound(alpha, who)


@PAPER.inequality(
    "M2 (reshuffled)",
    proof=PROOF,
    printed=r"For a new order in every epoch it has at most $S \sqrt{E (1 + \frac{2 (1 - \alpha)}{1 - a})}$",
    domain=run_axes(100, 16, least=0.1),
    mutants=[{"factor": 0.95}],
    tolerance=1e-8,
    evaluations=96,
)
def m2_reshuffled(examples: int, load: float, epochs: int, factor: float = 1.0) -> Sides:
    r"""The smaller side has the upper bound of the sensitivity that a run uses.  At $\alpha \ge \frac{1}{N}$ the factor of S is at most
    $2.041 \sqrt{E}$.
    """
    alpha = load / examples
    steps = examples * epochs
    noise = NuFTRL(alpha)
    largest = noise.errors(MomentumAverage(steps, alpha=alpha)).max() ** 0.5
    who = Participation.reshuffled(steps, epochs=epochs)
    return noise.sensitivity_upper_bound(who) * largest, factor * square_root_upper_bound(alpha, who)


@PAPER.inequality(
    "M2 (lower)",
    rests_on=("M1 (lower)",),
    proof=PROOF,
    printed=r"In $E = \frac{T}{N}$ epochs no mechanism has less than $\sqrt{E} (S - \frac{1 - \alpha}{(2 - \alpha) T})$, for one order or any",
    domain={**run_axes(1000, 16, least=0.3), "power": log_scale(0.1, 2)},
    sharp="factor",
    mutants=[{"factor": 1.3}],
    evaluations=128,
)
def m2_lower(examples: int, load: float, epochs: int, power: float, factor: float = 1.0) -> Sides:
    """The larger side is the error of the square root with other damping, ν = α ``power``."""
    alpha = load / examples
    steps = examples * epochs
    mechanism = NuFTRL(min(alpha * power, 1.0))
    error = mechanism.mean_error(Participation.fixed_epochs(steps, epochs=epochs), MomentumAverage(steps, alpha=alpha))
    return factor * noise_lower_bound(alpha, steps=steps, epochs=epochs), error


@PAPER.inequality(
    "M3",
    rests_on=("M1 (upper)", "M2 (upper)"),
    proof=PROOF,
    printed=r"The published noise of Algorithm 1 (Tran and Cutkosky) has at least 4 times the mean variance of the square root, for one order in "
    r"all epochs, N a divisor of T, and $\alpha \ge \frac{1}{N}$",
    domain=run_axes(200, 32, least=1),
    sharp="factor",
    mutants=[{"factor": 4.1}],
    evaluations=128,
)
def m3(examples: int, load: float, epochs: int, factor: float = 4.0) -> Sides:
    r"""4 at T = 1, then 5.33 at N = 1, T = 3, and 7.30 at N = T = 2.  At $\alpha = \frac{1}{N}$ it is 21.3 for N = 64, T = 1024, and grows
    without limit with T at fixed α in one epoch.
    """
    alpha = load / examples
    steps = examples * epochs
    who = Participation.fixed_epochs(steps, epochs=epochs)
    error = NuFTRL(alpha).mean_error(who, MomentumAverage(steps, alpha=alpha))
    nodes = printed_node_count(steps, examples, levels(steps))
    return factor * error**2, 4 * alpha**2 * nodes * float(decoder_variance(steps, alpha).mean())


@PAPER.identity(
    "M4",
    proof="docs/momentum-aggregation-proofs.md#what-one-example-changes",
    evidence="computed",
    printed=r"A dynamic program over epochs finds the largest sum U of the squared weights of one example over the nodes of a tree",
    domain={
        "examples": integers(1, 4),
        "steps": integers(1, 16),
        "alpha": linear(0.01, 1),
        "order": one_of("reshuffled", "fixed"),
        "prefixes": one_of(True, False),
    },
    tolerance=1e-10,
    evaluations=96,
)
def m4(examples: int, steps: int, alpha: float, order: str, prefixes: bool) -> Sides:
    """The right side goes through all positions of the example in all epochs.

    N = 5, T = 20, α = 0.2, all nodes: U = 24.1499, at the steps 5, 8, 15 and 16.
    """
    nodes = [
        (s * size + 1, (s + 1) * size)
        for size in (1, 2, 4, 8, 16)
        for s in range(0, steps // size, 2 if prefixes else 1)
    ]
    epochs = -(-steps // examples)
    every = product(range(examples), repeat=epochs)
    patterns = every if order == "reshuffled" else ((p,) * epochs for p in range(examples))
    found = 0.0
    for pattern in patterns:
        times = [e * examples + p + 1 for e, p in enumerate(pattern) if e * examples + p < steps]
        weights = [sum((1 - alpha) ** (z - t) for t in times if y <= t <= z) for y, z in nodes]
        found = max(found, sum(weight**2 for weight in weights))
    who = ORDERS[order](steps, period=examples)
    if prefixes:
        return BinaryTree(steps, decoder="binary", decay=alpha).bracket(who).value ** 2, found
    return squared_weights(who, alpha), found


DEFECT = r"$\Xi^2 = \frac{N}{N - 1} \frac{2}{2 - \alpha} (\frac{(L \eta N)^2}{\gamma (2 - \gamma)(1 - a)^2} + G^2 (\frac{2}{1 - a^2} + "
DEFECT += r"\frac{1 + \frac{2 \gamma}{2 - \gamma}}{(1 - a)^2}))$"


@PAPER.inequality(
    "Theorem 9 (last step)",
    proof="docs/momentum-aggregation-proofs.md#gradient-norms",
    printed=r"$\frac{2}{\sqrt{2 - u^2}} + 2 s^2 u + 2 c (2.195 + 1.141 s u) \le 5.805 + 6.25 u^{4/3} \le 6 + 128 s$ for $u = N^{-1/2}$, $N \ge 2$, $s = 0.3419 u^{1/3}$, $c^2 = \frac{2}{(1 - u^2) (2 - u^2)}$",
    domain={"root": linear("0", "0.8909")},
    outside=r"Nothing: $u^{1/3} = N^{-1/6}$ is at most $2^{-1/6} = 0.890899$.",
    evidence="certified",
    sharp="least",
    mutants=[{"least": "5.804"}, {"slope": "6.23"}],
)
def theorem_9_last_step(root: Any, least: str = "5.805", slope: str = "6.25") -> Sides:
    """In terms of u^{1/3}: the first inequality.  It is sharp at both ends: √2 + 4.39 = 5.8042 as N → ∞, and at N = 2.

    The second is clear, as u <= 1 and 128 s = 43.76 u^{1/3}.
    """
    m = arithmetic(root)
    u = root * root * root
    s = m.number("0.3419") * root
    square = 2 - u * u
    c = m.sqrt(2 / (1 - u * u) / square)
    left = 2 / m.sqrt(square) + 2 * s * s * u + 2 * c * (m.number("2.195") + m.number("1.141") * s * u)
    return left, m.number(least) + m.number(slope) * root * u


@PAPER.inequality(
    "M5",
    proof="docs/momentum-aggregation-proofs.md#the-identity-behind-algorithm-2",
    printed=r"For a new random order in every epoch the defect of Lemma 17 (Tran and Cutkosky) obeys $E\|\alpha D_T\|^2 \le \alpha \Xi^2$, "
    + DEFECT,
    domain={
        "lipschitz": log_scale(1e-2, 1e2),
        "sizes": vector(linear(0.1, 1), 8),
        "sign": one_of(1, -1),
        "examples": integers(2, 60, log=True),
        "epochs": integers(2, 24, log=True),
        "rest": linear(0, 1),
        "alpha": log_scale(1e-2, 1),
        "gamma": log_scale(1e-3, 1),
    },
    sharp="factor",
    mutants=[{"factor": 0.3}],
    evaluations=128,
)
def m5(
    lipschitz: float,
    sizes: Array,
    sign: int,
    examples: int,
    epochs: int,
    rest: float,
    alpha: float,
    gamma: float,
    factor: float = 1.0,
) -> Sides:
    r"""Exact for examples whose gradients at the start of epoch e are plus and minus $s^e$ G ``sizes``[e mod 8] in turn, s = ``sign``.

    For the matrix $h_{px}$ of what example x contributes at position p, $\sum_p h_{p, x_p}$ has the variance
    $\frac{1}{N - 1} \sum h_{px}^2$ over all orders, if rows and columns of h have mean 0 (Hoeffding); and the orders of the
    epochs are independent.
    """
    steps = examples * epochs + min(int(rest * examples), examples - 1)
    weights = np.zeros((epochs + 1, examples))
    weights.flat[:steps] = lemma_17_defect(np.eye(steps), steps, examples=examples, alpha=alpha, gamma=gamma)
    levels = lipschitz * np.resize(sizes, epochs) * float(sign) ** np.arange(epochs)
    gradients = np.outer(levels, np.where(np.arange(examples) % 2, 1.0, -1.0))
    square = 0.0
    for e in range(epochs + 1):
        h = np.zeros((examples, examples))
        if e > 0:  # the changes of epoch e, with the order of epoch e
            h += np.outer(weights[e], gradients[e - 1])
        if e < epochs:  # those of epoch e + 1, whose examples of N steps before are in the order of epoch e
            h -= np.outer(weights[e + 1], gradients[e])
        h -= h.mean(axis=0)
        h -= h.mean(axis=1, keepdims=True)
        square += float(np.square(h).sum()) / (examples - 1)
    bound = defect_bound(
        examples=examples,
        alpha=alpha,
        gamma=gamma,
        lipschitz=float(np.abs(levels).max()),
        smoothness=1.0,
        learning_rate=float(np.abs(np.diff(levels)).max()) / examples,
    )
    return alpha**2 * square, factor * alpha * bound**2
