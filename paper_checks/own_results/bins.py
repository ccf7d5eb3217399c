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
from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.orders import in_blocks, smallest_entry
from corrnoise.theory.amplification.ring import RingLaw
from corrnoise.theory.amplification.ring_transform import excursions
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import gaussian_deltas

ORDER = "docs/amplification-proofs.md#bins-the-convex-order-and-theorem-2"
RING = "docs/amplification-proofs.md#theorem-3-the-ring"
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
    v: Array, more: Array, vector: Array, share: float, epsilon: float, direction: str, copositive: bool = True
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
    domain={"v": grams(log_scale(0.05, 2), linear(0, 0.95)), "order": integers(2, 12), "epsilon": linear(0, 4)},
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
    domain={"v": grams(log_scale(0.1, 2), linear(-0.9, 0.95)), "epsilon": linear(0, 3)},
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
    printed=r"For Re u >= 0: $E e^{-u\Lambda} = \prod_k (1 - \lambda_k^b)\, \mathrm{tr} (K \Phi_u)^b$, and prices are sums of it with a known sign of the aliases",
    reading="δ from the sums is above δ for a ring of two bins, and at most 1 percent larger",
    proof=RING,
    domain={
        "shared": linear(0, 0.3),
        "own": linear(0.3, 1.5),
        "amplitude": linear(0, 1),
        "rate": linear(0, 0.8),
        "epsilon": linear(0, 1.5),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"wave": 0.97}, {"wave": 1.03}],
    tolerance=1e-5,
    evaluations=16,
)
def ring_of_two(
    shared: float, own: float, amplitude: float, rate: float, epsilon: float, direction: Direction, wave: float = 1.0
) -> Sides:
    """A diagonal of a(1 + λ²) and neighbours of 2aλ, since the two neighbours of a bin coincide."""
    between = shared + 2 * amplitude * rate
    diagonal = shared + own + amplitude * (1 + rate**2)
    truth = delta_of_two(np.array([[diagonal, between], [between, diagonal]]), epsilon, direction)
    found = RingLaw(2, shared * wave, own * wave, (amplitude * wave,), (rate,)).estimate(epsilon, direction)
    return np.array([truth, found]), np.array([found, 1.01 * truth + 1e-4])


@PAPER.inequality(
    "A5 (order)",
    printed=r"If $H_{ij} + N_{d(i,j)} \ge V_{ij}$ for $i \ne j$ with $N_d \ge 0$, and $H_{ii} \ge V_{ii} + r$ with the row sums $r$ of $N$, then $\Lambda_V \preceq \Lambda_H$",
    reading="two bins, where r is the one missing entry",
    proof=RING,
    rests_on=("corrnoise: A3",),
    domain={
        "v": grams(log_scale(0.1, 2), linear(0, 0.95)),
        "share": linear(0, 1),
        "epsilon": linear(0, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"raised": False}],
    tolerance=1e-6,
    evaluations=128,
)
def missing_entries(v: Array, share: float, epsilon: float, direction: str, raised: bool = True) -> Sides:
    """Without a larger diagonal the matrix with smaller entries gives less."""
    between = share * v[0, 1]
    diagonal = float(np.diagonal(v).max()) + (v[0, 1] - between if raised else 0.0)
    h = np.array([[diagonal, between], [between, diagonal]])
    return delta_of_two(v, epsilon, direction), delta_of_two(h, epsilon, direction)


@PAPER.inequality(
    "A5 (excursions)",
    printed=r"$|\mathrm{tr} A^b - \mathrm{tr} S^b| \le [x^b] \frac{x g'(x)}{1 - g(x)} + \mu^{b-2} \|T\|_F^2$",
    reading="random complex symmetric matrices of 12 rows, 6 of them in $S$",
    proof=RING,
    domain={"seed": integers(0, 999), "b": integers(3, 24), "leak": log_scale(0.01, 1)},
    mutants=[{"rotations": False}],
    tolerance=1e-9,
    evaluations=128,
)
def leaking_traces(seed: int, b: int, leak: float, rotations: bool = True) -> Sides:
    """Without the b/k rotations of a walk with k excursions the bound is too small."""
    rng = generator(seed)
    a = rng.standard_normal((12, 12)) + 1j * rng.standard_normal((12, 12))
    scale = np.where(np.arange(12) < 6, 1.0, leak)
    a = (a + a.T) * np.sqrt(np.outer(scale, scale))
    a /= np.linalg.norm(a, 2)
    s, out, t = a[:6, :6], a[6:, :6], a[6:, 6:]
    powers = [np.linalg.matrix_power(s, j) for j in range(b)]
    leaks = np.array([np.linalg.svd(out @ power @ out.T, compute_uv=False).sum() for power in powers])
    mu = float(np.linalg.norm(t, 2))
    walks = excursions(b, mu, leaks) / (1 if rotations else b)
    error = abs(np.trace(np.linalg.matrix_power(a, b)) - np.trace(np.linalg.matrix_power(s, b)))
    return float(error), walks + mu ** (b - 2) * float(np.linalg.norm(t)) ** 2


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
def interval_of_delta(v: Array, epsilon: float, kind: str, calibration: int, draws: int, scale: float = 1.0) -> Sides:
    """A false alarm has at most the probability 1e-12 at a point, and 1e-9 in a search.

    Half or one and a half of δ is outside of the interval somewhere.
    """
    sample, bound = sampler(v, epsilon, kind, calibration)
    deviation = float(sample(generator(200 + calibration), 2000).std())
    low, high = interval(sample(generator(draws), 10000), bound, 1e-12, deviation)
    delta = scale * delta_of_two(v, epsilon, "add" if kind == "add" else "remove")
    return np.array([low, delta]), np.array([delta, high])
