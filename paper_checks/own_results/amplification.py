"""Amplification by sampling: domination by the modulus of the strategy, and the price of a capacity.

Proofs are in ``docs/amplification-proofs.md``.  Both sides are integrals of hockey sticks over one or two standard normal
variables, by the trapezoidal rule.
"""

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import ndtr

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.theory.numerics.checks import Array

PROOFS = "docs/amplification-proofs.md"

_NORMAL_GRID = np.linspace(-9, 9, 361)
_GRID_MASS = np.exp(-_NORMAL_GRID * _NORMAL_GRID / 2) * (_NORMAL_GRID[1] - _NORMAL_GRID[0]) / math.sqrt(2 * math.pi)
_STEP_SETS = np.array([[0, 0], [1, 0], [0, 1], [1, 1]])  # of the two steps


def _delta(ratio: Array, mass: Array, epsilon: float, direction: str) -> float:
    """E_Q(Λ − K)₊ or E_Q(1 − KΛ)₊."""
    strike = math.exp(epsilon)
    gain = ratio - strike if direction == "remove" else 1 - strike * ratio
    return float((np.maximum(gain, 0.0) * mass).sum())


@PAPER.inequality(
    "A1",
    printed=r"A run with the strategy C, gradients of norm at most 1 that are chosen adaptively, and a set of steps S of the law $p_S$ that is independent of all else is dominated, in both directions, by the pair $\sum_S p_S N(\sum_{s \in S} |C|_{:,s}, \sigma^2 I)$ and $N(0, \sigma^2 I)$",
    reading="two steps, gradients in R, the second of which has a sign that depends on the first output",
    proof=f"{PROOFS}#theorem-1-domination",
    domain={
        "strategy": vector(linear(-1.5, 1.5), 3),
        "chances": vector(log_scale(0.01, 1), 4),
        "threshold": linear(-3, 3),
        "epsilon": linear(0.1, 1),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"modulus": False}],
    tolerance=1e-3,
    evaluations=128,
)
def domination(
    strategy: Array, chances: Array, threshold: float, epsilon: float, direction: str, modulus: bool = True
) -> Sides:
    """The adversary's δ against the δ of the pair.  With C in the place of |C| it is false.

    Both sides are integrated over the outputs of the two steps, and have errors of some 1e-4; 0.01 is added.  The integral
    of one step alone is compared with the curve of the normal distribution.
    """
    a, b, c = strategy
    law = chances / chances.sum()
    first, second = _NORMAL_GRID[:, np.newaxis], _NORMAL_GRID[np.newaxis, :]
    mass = np.outer(_GRID_MASS, _GRID_MASS)

    def delta(lower: Array, sign: Array) -> float:
        """δ with the entries C_11, C_21, C_22 and the second gradient ``sign``."""
        ratio = np.zeros(mass.shape)
        for chance, (one, two) in zip(law, _STEP_SETS, strict=True):
            start = one * lower[0]
            shift = one * lower[1] + two * lower[2] * sign
            ratio += chance * np.exp(start * first - start**2 / 2 + shift * second - shift**2 / 2)
        return _delta(ratio, mass, epsilon, direction)

    chosen = np.where(first > threshold, 1.0, -1.0)
    entries = np.array([a, b, c])
    pair = delta(np.abs(entries) if modulus else entries, np.ones_like(chosen))
    size = max(abs(a), 0.1)
    known = ndtr(size / 2 - epsilon / size) - math.exp(epsilon) * ndtr(-size / 2 - epsilon / size)
    found = _delta(np.exp(size * _NORMAL_GRID - size**2 / 2), _GRID_MASS, epsilon, direction)
    return 0.01 + np.array([delta(entries, chosen), known, found]), 0.01 + np.array([pair, found, known])


@PAPER.inequality(
    "A1 (others)",
    printed="A1 for two bins and one step of each, if all others draw their bins independently and have opposite gradients",
    proof=f"{PROOFS}#theorem-1-domination",
    domain={
        "others": integers(1, 4),
        "sigma": log_scale(0.5, 3),
        "epsilon": linear(0.1, 2),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"permutation": True}],
    tolerance=1e-3,
    evaluations=64,
)
def independent_others(others: int, sigma: float, epsilon: float, direction: str, permutation: bool = False) -> Sides:
    """The law of the outputs is a mixture over the bins of the others, which the adversary does not even know.

    One permutation that is cut into two equal batches does not sample so: σ = ε = 1 gives .1172 and .0915, the pair .0592 and .0502.
    """
    centre = -others / 2
    grid = np.linspace(-9 - others / (2 * sigma), 9 + others / (2 * sigma), 361)
    y, z = grid[:, np.newaxis], grid[np.newaxis, :]
    cell = (grid[1] - grid[0]) ** 2 / (2 * math.pi)

    def density(means: Mapping[tuple[float, float], float]) -> Array:
        return sum(
            (
                chance * np.exp(-((y - (u - centre) / sigma) ** 2 + (z - (v - centre) / sigma) ** 2) / 2)
                for (u, v), chance in means.items()
            ),
            start=np.zeros((grid.size, grid.size)),
        )

    where: dict[tuple[int, int], float] = {}  # own bin, others in the first bin
    for own in (0, 1):
        for k in range(others + 1):
            chance = math.comb(others, k) / 2**others
            if permutation:  # an odd number of others fills the batches, and one place there is the example's
                chance = float(k == (others + 1) // 2 - (own == 0))
            where[own, k] = chance / 2
    with_it: dict[tuple[float, float], float] = {}
    without: dict[tuple[float, float], float] = {}
    for (own, k), chance in where.items():
        rest = (-float(k), -float(others - k))
        moved = (rest[0] + (own == 0), rest[1] + (own == 1))
        with_it[moved] = with_it.get(moved, 0.0) + chance
        without[rest] = without.get(rest, 0.0) + chance
    p, q = density(with_it), density(without)
    first, second = _NORMAL_GRID[:, np.newaxis] / sigma, _NORMAL_GRID[np.newaxis, :] / sigma
    pair = (np.exp(first - 0.5 / sigma**2) + np.exp(second - 0.5 / sigma**2)) / 2
    bound = _delta(pair, np.outer(_GRID_MASS, _GRID_MASS), epsilon, direction)
    strike = math.exp(epsilon)
    gain = p - strike * q if direction == "remove" else q - strike * p
    return float(np.maximum(gain, 0.0).sum() * cell), bound + 1e-12


@PAPER.inequality(
    "A2",
    printed=r"$\delta \le (1 - \tau) \delta^* + \tau$ for batches that are cut to B examples, where $\delta^*$ is without cutting, and $\tau$ the probability that the others alone fill a batch",
    reading="one step of Poisson sampling, cut to B examples uniformly; the others have opposite gradients",
    proof=f"{PROOFS}#proposition-1-capacity",
    domain={
        "others": integers(2, 20),
        "capacity": integers(1, 6),
        "rate": linear(0.05, 0.9),
        "sigma": log_scale(0.4, 2),
        "epsilon": linear(0.1, 1.5),
        "direction": one_of("remove", "add"),
    },
    mutants=[{"marginal": True}],
    tolerance=1e-3,
    evaluations=128,
)
def capacity_price(
    others: int, capacity: int, rate: float, sigma: float, epsilon: float, direction: str, marginal: bool = False
) -> Sides:
    """Without the price, and at the rate of an example in the batch that is left, it is false.

    20 others, B = 1, rate ½, σ = ½, ε = 1: the adversary reaches .0239 for remove, the pair of the rate .0476 gives .0056.
    """
    most = min(others, capacity)
    y = np.arange(-(most + 9 * sigma), 1 + 9 * sigma, sigma / 40)

    def normal(mean: float) -> Array:
        return np.asarray(np.exp(-(((y - mean) / sigma) ** 2) / 2) / math.sqrt(2 * math.pi) / 40)

    p, q = np.zeros_like(y), np.zeros_like(y)
    full = inside = 0.0
    for k in range(others + 1):
        chance = math.comb(others, k) * rate**k * (1 - rate) ** (others - k)
        full += chance * (k >= capacity)
        kept = rate * min(1.0, capacity / (k + 1))
        inside += chance * kept
        for share, own, rest in ((kept, 1, min(k, capacity - 1)), (1 - kept, 0, min(k, capacity))):
            p += chance * share * normal(own - rest)
            q += chance * share * normal(-rest)
    strike = math.exp(epsilon)
    gain = p - strike * q if direction == "remove" else q - strike * p
    share, price = (inside, 0.0) if marginal else (rate, full)
    ratio = 1 - share + share * np.exp(_NORMAL_GRID / sigma - 0.5 / sigma**2)
    whole = _delta(ratio, _GRID_MASS, epsilon, direction)
    return float(np.maximum(gain, 0.0).sum()), (1 - price) * whole + price + 1e-12
