"""Propositions 13 to 18: geometric sums, binary digits and dyadic intervals."""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.momentum_aggregation.paper import PAPER
from corrnoise.theory.papers.momentum_aggregation.reconstruction import window_weights
from corrnoise.theory.papers.momentum_aggregation.trees import compose, levels

NOISE = "docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2"
EULER = 1 / (1 - math.exp(-1))  #: the constant of Propositions 13 and 14, 1.582

#: α = load/N, at most 1.
LOADS = {"examples": integers(1, 10**6, log=True), "load": log_scale(1e-3, 1e6)}


def epoch_exponent(examples: int, load: float) -> float:
    """−log (1 − α)^N for α = load/N; nan outside the domain, inf for α = 1."""
    alpha = load / examples
    if alpha > 1:
        return math.nan
    return math.inf if alpha == 1 else -examples * math.log1p(-alpha)


def geometric_sum(exponent: float) -> float:
    """1/(1 − e^{−exponent}); inf for a divergent sum."""
    return math.inf if exponent <= 0 else -1 / math.expm1(-exponent)


@PAPER.inequality(
    "Proposition 13",
    proof="Appendix F",
    printed=r"Let $\alpha \in (0,1]$ and N be an arbitrary positive integer. Then: $\sum_{i=0}^{\infty} (1-\alpha)^{Ni} \le \frac{1}{1-\exp(-1)} \max(1, \frac{1}{\alpha N})$",
    domain=LOADS,
    sharp="constant",
    mutants=[{"constant": 1.58}],
)
def proposition_13(examples: int, load: float, constant: float = EULER) -> Sides:
    r"""Sharp in the limit $N \to \infty$ at $\alpha = \frac{1}{N}$.  N = 10, α = 0.05: 2.4921 at most 3.1640."""
    return geometric_sum(epoch_exponent(examples, load)), constant * max(1.0, 1 / load)


@PAPER.inequality(
    "Equation (7)",
    proof=NOISE,
    rests_on=("Proposition 13",),
    printed=r"$\sum_{i=0}^{\infty} (1-\alpha)^{iN} \le \frac{1}{1-\exp(-1)} \le 2$",
    reading=r"for $\alpha \ge \frac{1}{N}$",
    domain={"examples": integers(1, 10**6, log=True), "load": log_scale(1, "examples")},
    sharp="constant",
    mutants=[{"constant": 1.58}, {"most": 1.5}],
)
def equation_7(examples: int, load: float, constant: float = EULER, most: float = 2.0) -> Sides:
    r"""Sharp in the limit $N \to \infty$ at $\alpha = \frac{1}{N}$, where the sum is 1.582."""
    found = geometric_sum(epoch_exponent(examples, load))
    return np.array([found, found]), np.array([constant, most])


#: γ in (0, 1), and α at most 1 with N α above ln 1/(1 − γ).
CROSS_BATCH = {**LOADS, "gamma": linear(1e-6, 0.999)}


@PAPER.inequality(
    "Proposition 14",
    proof="Appendix F",
    printed=r"Let $\gamma \in (0,1]$, $\frac{1}{N} \ln (\frac{1}{1-\gamma}) \le \alpha \le 1$ and let N be an arbitrary positive integer. Then: $\sum_{i=0}^{\infty} (1-\gamma)^{-i} (1-\alpha)^{Ni} \le \frac{1}{1-\exp(-1)} \max(1, \frac{1}{\alpha N - \ln(\frac{1}{1-\gamma})})$",
    domain=CROSS_BATCH,
    sharp="constant",
    mutants=[{"constant": 1.58}],
)
def proposition_14(examples: int, load: float, gamma: float, constant: float = EULER) -> Sides:
    r"""γ = 1, which is printed as admissible, satisfies the hypothesis nowhere; at equality of the hypothesis the right side is infinite.

    One display of the proof drops $(1 - \gamma)^{-i}$.  N = 10, α = 0.25, γ = 0.3: 1.0875 at most 1.5820.
    """
    excess = load + math.log1p(-gamma)
    if excess <= 0:
        return math.nan, math.nan
    total = geometric_sum(epoch_exponent(examples, load) + math.log1p(-gamma))
    return total, constant * max(1.0, 1 / excess)


@PAPER.inequality(
    "Proposition 14 (half)",
    proof="Appendix F",
    rests_on=("Proposition 14",),
    printed=r"if $\gamma \le 1/2$ and $\frac{1+\ln(2)}{N} \le \alpha$ : $\sum_{i=0}^{\infty} (1-\gamma)^{-i} (1-\alpha)^{Ni} \le \frac{1}{1-\exp(-1)}$",
    domain={
        "examples": integers(2, 10**6, log=True),
        "load": log_scale(1 + math.log(2), "examples"),
        "gamma": linear(0, 0.5),
    },
    sharp="constant",
    mutants=[{"constant": 1.58}],
)
def proposition_14_half(examples: int, load: float, gamma: float, constant: float = EULER) -> Sides:
    r"""N = 1 leaves no α.  Lemma 7 uses it at $\alpha = \frac{1}{N}$, outside its range, where the sum is 3.304 for N = 10, γ = ½."""
    return geometric_sum(epoch_exponent(examples, load) + math.log1p(-gamma)), constant


@PAPER.inequality(
    "Corollary 15",
    proof="Appendix F",
    rests_on=("Proposition 14",),
    printed=r"Suppose $\gamma \in (0,1]$ and $1 \ge \alpha \ge \frac{1}{N} \ln (\frac{1}{1-\gamma})$ : Then: $\sum_{j=0}^{i-1} (1-\gamma)^j (1-\alpha)^{(i-1-j)N} \le \frac{(1-\gamma)^{i-1}}{1-\exp(-1)} \max(1, \ \frac{1}{\alpha N - \ln(\frac{1}{1-\gamma})})$",
    domain={**CROSS_BATCH, "index": integers(1, 200, log=True)},
    sharp="constant",
    mutants=[{"constant": 1.5}],
)
def corollary_15(examples: int, load: float, gamma: float, index: int, constant: float = EULER) -> Sides:
    """By Proposition 14, where the sum is infinite."""
    excess = load + math.log1p(-gamma)
    exponent = epoch_exponent(examples, load)
    scale = (1 - gamma) ** (index - 1)
    if math.isnan(exponent) or excess <= 0 or scale < 1e-250:
        return math.nan, math.nan
    weight = window_weights(index, epoch_decay=math.exp(-exponent), gamma=gamma)[index]
    return weight, constant * scale * max(1.0, 1 / excess)


@PAPER.inequality(
    "Proposition 16",
    proof="Appendix F",
    theorem=("proposition_16", "08a77c4a28a55083"),
    printed=r"Let $\gamma \in (0, 1)$ and s be any integer. Suppose $b_R b_{R-1} \ldots b_0$ is the binary expansion of s, so that $s = \sum_{i=0}^{R} b_i 2^i$. Then: $\sum_{i=0}^{R} b_i \gamma^{2(s \bmod 2^i)} \le 1 + \sum_{i=1}^{R} \gamma^{2^i}$",
    independent="the left side adds up the digits of s, the right side is a sum over all heights",
    domain={"number": integers(1, 4095, log=True), "gamma": linear(1e-3, 1)},
    mutants=[{"stretch": 1.001}],
)
def proposition_16(number: int, gamma: float, stretch: float = 1.0) -> Sides:
    r"""An equality at s = 3.  The proof has the sharper $1 + \sum_{i=1}^R \gamma^{2(2^i - 1)}$, an equality at $s = 2^{R+1} - 1$.

    s = 11, γ = 0.9: 2.34144, at most 2.57021 (sharper), 2.89657 (printed).
    """
    digits = np.arange(levels(number))
    left = sum(gamma ** (2 * (number % 2 ** int(i))) for i in digits if number >> int(i) & 1)
    return left, 1 + float((gamma ** (stretch * 2.0 ** digits[1:])).sum())


LENGTHS = np.arange(1, 193)


@PAPER.inequality(
    "Proposition 18",
    printed=r"$|S| \le 2(1 + \lfloor \log_2(b - a + 1) \rfloor)$",
    domain={"first": integers(1, 64)},
    theorem=("proposition_18", "eeb550309e7f9195"),
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    sharp="constant",
    mutants=[{"constant": 0.49}],
)
def proposition_18(first: int, constant: float = 1.0) -> Sides:
    r"""Enumerated for $a \le 64$ and up to 192 steps.  Sharper for n = b − a + 1 at least 2:
    $\lfloor \log_2(n + 1) \rfloor + \lfloor \log_2(\frac{n}{2} + 1) \rfloor$, an equality for every such n and some a.
    """
    counts = [len(compose(first, first + int(n) - 1)) for n in LENGTHS]
    return np.array(counts), 2 * (constant + np.floor(np.log2(LENGTHS)))


@PAPER.inequality(
    "Proposition 18 (prefixes)",
    printed=r"In the special case that a = 1, $|S| \le 1 + \log_2(b)$",
    domain={"last": integers(1, 4095, log=True)},
    theorem=("proposition_18_prefixes", "72c0404f1a118ce0"),
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    sharp="constant",
    mutants=[{"constant": 0.99}],
)
def proposition_18_prefixes(last: int, constant: float = 1.0) -> Sides:
    """|S| is the number of binary digits 1 of b; an equality at b = 1."""
    return len(compose(1, last)), constant + math.log2(last)


@PAPER.identity(
    "Proposition 18 (cover)",
    printed=r"each element of COMPOSE(a, b) is an interval of the form $[q2^k + 1, (q + 1)2^k]$ for some $q, k \in \mathbb{N}$, the intervals in S are disjoint, and $[a, b] = \bigcup_{[x,y] \in S} [x, y]$",
    theorem=("proposition_18_cover", "27f9cfcfc51d4415"),
    independent="the left side lists the steps of the intervals, the right side those of [a, b]",
    domain={"first": integers(1, 500, log=True), "length": integers(1, 500, log=True)},
    mutants=[{"shift": 1}],
)
def proposition_18_cover(first: int, length: int, shift: int = 0) -> Sides:
    """The left side lists the steps of all intervals, and the remainders of their first steps by their sizes."""
    nodes = compose(first, first + length - 1)
    steps = [step for node in nodes for step in range(node.first, node.last + 1)]
    sizes = [node.last - node.first + 1 for node in nodes]
    dyadic = [
        (node.first - 1) % size + shift if size & (size - 1) == 0 else math.nan
        for node, size in zip(nodes, sizes, strict=True)
    ]
    return [*steps, *dyadic], [*range(first, first + length), *[0] * len(nodes)]
