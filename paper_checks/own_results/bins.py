"""Balls in bins: the order of Gram matrices, and the comparisons that rest on it.

Proofs are in ``docs/amplification-proofs.md``.  Two bins stand for all: their δ is an integral of the formula of Black and
Scholes over one standard normal variable, and independent of the laws of the accountant.
"""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.oracles import above_on_the_orthant, delta_of_two, grams, sampler
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.simulations.amplification import interval
from corrnoise.simulations.random_numbers import generator
from corrnoise.theory.amplification.chain import chain_law
from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.orders import in_blocks, smallest_entry
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import gaussian_deltas

ORDER = "docs/amplification-proofs.md#bins-the-convex-order-and-theorem-2"
_EQUAL_BINS = np.full(2, 0.5)


@PAPER.inequality(
    "A3",
    printed=r"Let $V$ and $H$ be positive semidefinite with $\pi^\top (H - V) \pi \ge 0$ for all $\pi \ge 0$. Then $\Lambda_V \preceq \Lambda_H$, and both $\delta$ are ordered",
    reading="two bins, where such a difference is the sum of a non-negative and a semidefinite matrix",
    proof=ORDER,
    domain={
        "v": grams(log_scale(0.1, 1.5), linear(-0.9, 0.95)),
        "more": vector(linear(0, 0.5), 2),
        "vector": vector(linear(-0.7, 0.7), 2),
        "share": linear(0, 0.9),
        "epsilon": linear(0, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"copositive": False}],
    tolerance=1e-6,
    evaluations=256,
)
def copositive_order(
    v: Array,
    more: Array,
    vector: Array,
    share: float,
    epsilon: float,
    direction: str,
    copositive: bool = True,
) -> Sides:
    """H is V and a semidefinite and a non-negative matrix.  It is not enough that the diagonal of H − V is non-negative."""
    h = above_on_the_orthant(v, more, vector, share)
    if not copositive:
        h = np.diag(np.diagonal(h))
    return delta_of_two(v, epsilon, direction), delta_of_two(h, epsilon, direction)


@PAPER.inequality(
    "A3 (smallest entry)",
    printed=r"$K$: $sJ + diag(V_{ii} - s)$, where $s$ is the smallest of all entries, lies below $V$",
    proof=ORDER,
    rests_on=("corrnoise: A3",),
    domain={
        "v": grams(log_scale(0.1, 2), linear(0, 0.95)),
        "epsilon": linear(0, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"all_entries": False}],
    tolerance=1e-6,
    evaluations=128,
)
def smallest_of_all(v: Array, epsilon: float, direction: str, all_entries: bool = True) -> Sides:
    """The smallest entry off the diagonal does not do.

    The columns (1, 1.5), (0, 1) with σ = 1.5 and ε = 1 have δ_remove = .1012; with that entry K would give .1089.
    """
    if all_entries:
        found = smallest_entry(v, _EQUAL_BINS)
        k = np.diag(found.own) + found.shared
    else:
        k = np.diag(np.maximum(np.diagonal(v) - v[0, 1], 0.0)) + v[0, 1]
    return delta_of_two(k, epsilon, direction), delta_of_two(v, epsilon, direction)


@PAPER.inequality(
    "A3 (blocks)",
    printed=r"$M$: with the membership $A$ of bins in blocks, $V \ge A^\top M A$ for $M = (A V^{-1} A^\top)^{-1}$",
    reading="two bins in one block: one Gaussian curve of the variance M is below δ",
    proof=ORDER,
    rests_on=("corrnoise: A3",),
    domain={
        "v": grams(log_scale(0.1, 2), linear(-0.9, 0.95)),
        "epsilon": linear(0, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"average": True}],
    tolerance=1e-6,
    evaluations=128,
)
def one_block(v: Array, epsilon: float, direction: str, average: bool = False) -> Sides:
    """The mean of the entries of V in the place of M does not do."""
    blocks = in_blocks(v, 2)
    assert blocks is not None
    variance = v.mean() if average else blocks[0][0, 0]
    curve = float(gaussian_deltas(np.array(variance / 2), epsilon, upper=False))
    return curve, delta_of_two(v, epsilon, direction)


@PAPER.inequality(
    "A4 (Hölder)",
    printed=r"For integers $\alpha \ge 2$, $E \Lambda^\alpha$ is … at most $\prod_{k<\alpha} \max_i b^{-1} \sum_j e^{k V_{ij}}$. … $\delta_{remove} \le E \Lambda^\alpha e^{-(\alpha - 1)\varepsilon} (1 - 1/\alpha)^\alpha/(\alpha - 1)$",
    reading="two bins, whose moments are sums over the number of indices that are 1",
    proof=ORDER,
    independent="The matrix is the argument; the smaller side is an enumeration of moments and an integral, the larger one is neither.",
    domain={
        "v": grams(log_scale(0.05, 2), linear(0, 0.95)),
        "order": integers(2, 12),
        "epsilon": linear(0, 4),
    },
    mutants=[{"largest": False}, {"decay": 0}],
    tolerance=1e-6,
    evaluations=128,
)
def holder_and_chernoff(v: Array, order: int, epsilon: float, largest: bool = True, decay: int = 1) -> Sides:
    """Neither the mean over i in the place of the maximum nor the exponent αε gives a bound."""
    moment = 0.0
    for j in range(order + 1):
        exponent = math.comb(j, 2) * v[0, 0] + j * (order - j) * v[0, 1] + math.comb(order - j, 2) * v[1, 1]
        moment += math.comb(order, j) / 2**order * math.exp(exponent)
    means = [np.exp(k * v).mean(axis=1) for k in range(1, order)]
    product = math.prod(float(row.max() if largest else row.mean()) for row in means)
    chernoff = math.exp(-(order - decay) * epsilon) * (1 - 1 / order) ** order / (order - 1)
    return np.array([moment, delta_of_two(v, epsilon, "remove")]), np.array([product, moment * chernoff])


@PAPER.inequality(
    "A4 (means)",
    printed=r"$\delta_{add}$ is at most the Gaussian curve of $\rho = \bar V/2$ at $\varepsilon - (\bar v - \bar V)/2$",
    reading="two bins",
    proof=ORDER,
    independent="The matrix is the argument; the smaller side is an integral over both bins, the larger one a Gaussian curve.",
    domain={
        "v": grams(log_scale(0.1, 2), linear(-0.9, 0.95)),
        "epsilon": linear(0, 3),
    },
    mutants=[{"shift": 0.0}, {"shift": 0.25}],
    tolerance=1e-6,
    evaluations=128,
)
def geometric_mean(v: Array, epsilon: float, shift: float = 0.5) -> Sides:
    """The curve at ε itself does not bound it: the geometric mean is smaller than the arithmetic one."""
    at = epsilon - shift * (float(np.diagonal(v).mean()) - float(v.mean()))
    return delta_of_two(v, epsilon, "add"), float(gaussian_deltas(v.mean() / 2, at))


@PAPER.inequality(
    "A5",
    printed=r"The chain law of $D\,1 + sJ + a \lambda^{|i-j|}$, from a grid of the state with any top, is above $\delta$ in both directions, with $\kappa$ and the masses above the grids in ϖ",
    reading="two bins, 16 chains with any s, 80 nodes of the sum and 32 of the state",
    proof="docs/amplification-proofs.md#theorem-3-the-chain-law",
    domain={
        "shared": linear(0, 0.5),
        "variance": one_of(0.2, 1.0),
        "correlation": one_of(0.3, 0.9),
        "own": one_of(0.1, 0.4),
        "top": one_of(0.5, 6.0),
        "epsilon": linear(0.2, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"cost": False}],
    tolerance=1e-6,
    evaluations=96,
)
def chain_of_two(
    shared: float,
    variance: float,
    correlation: float,
    own: float,
    top: float,
    epsilon: float,
    direction: Direction,
    cost: bool = True,
) -> Sides:
    """Without ϖ a grid with a low top gives too little for remove; for add values above the grid may be lowered."""
    bound = chain_law(2, variance, correlation, own, direction, 80, 32, top)
    between = shared + variance * correlation
    h = np.array([[variance + own + shared, between], [between, variance + own + shared]])
    found = bound.delta(epsilon, direction, shared)
    return delta_of_two(h, epsilon, direction), found - (0.0 if cost else bound.singular)


@PAPER.inequality(
    "A6",
    printed=r"The weights of Monte Carlo are at most their bounds",
    reading="1000 weights of each sampler, for two bins; with high orders 4 indices are drawn",
    proof="docs/amplification-proofs.md#monte-carlo-with-bounded-weights",
    independent="The bound is computed before anything is drawn, and sees no weight.",
    domain={
        "v": grams(log_scale(0.05, 2), linear(0, 0.999)),
        "epsilon": linear(0, 2),
        "kind": one_of("mixture", "ordered", "add"),
        "calibration": integers(0, 99),
        "draws": integers(100, 199),
    },
    mutants=[{"mixture": 0.9}, {"ordered": 0.9}, {"add": 0.9}],
    tolerance=1e-9,
    evaluations=96,
)
def bounded_weights(
    v: Array,
    epsilon: float,
    kind: str,
    calibration: int,
    draws: int,
    mixture: float = 1.0,
    ordered: float = 1.0,
    add: float = 1.0,
) -> Sides:
    """For every draw, and not only with a high probability; nine tenths of the bound of any sampler are exceeded."""
    sample, bound = sampler(v, epsilon, kind, calibration)
    share = {"mixture": mixture, "ordered": ordered, "add": add}[kind]
    return float(sample(generator(draws), 1000).max()), share * bound


@PAPER.inequality(
    "A6 (interval)",
    printed=r"The weights have the mean $\delta$, and both ends of their interval hold with the probability $1 - \beta$",
    reading=r"10000 weights of each sampler, for two bins, with $\beta = 10^{-12}$",
    proof="docs/amplification-proofs.md#monte-carlo-with-bounded-weights",
    evidence="simulated",
    domain={
        "v": grams(log_scale(0.2, 2), linear(0, 0.95)),
        "epsilon": linear(0, 1.5),
        "kind": one_of("mixture", "ordered", "add"),
        "calibration": integers(0, 99),
        "draws": integers(100, 199),
    },
    mutants=[{"scale": 0.5}, {"scale": 1.5}],
    tolerance=1e-9,
    evaluations=24,
)
def interval_ofdelta_of_two(
    v: Array, epsilon: float, kind: str, calibration: int, draws: int, scale: float = 1.0
) -> Sides:
    """A false alarm has at most the probability 1e-12 at a point, and 1e-9 in a search.

    Half or one and a half of δ is outside of the interval somewhere.
    """
    sample, bound = sampler(v, epsilon, kind, calibration)
    low, high = interval(sample(generator(draws), 10000), bound, 1e-12)
    delta = scale * delta_of_two(v, epsilon, "add" if kind == "add" else "remove")
    return np.array([low, delta]), np.array([delta, high])
