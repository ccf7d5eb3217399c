"""Theorems 4, 8 and 10: the privacy of the releases of the trees, by exact sensitivities."""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.momentum_aggregation.oracles import ORDERS
from corrnoise.paper_checks.momentum_aggregation.paper import PAPER
from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.papers.momentum_aggregation.sensitivity import (
    ALL_NODES,
    ReleasedNodes,
    node_count,
    printed_node_count,
    squared_weights,
)
from corrnoise.theory.papers.momentum_aggregation.trees import levels
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import gaussian_epsilon

PRIVACY = "docs/momentum-aggregation-proofs.md#what-one-example-changes"


@PAPER.inequality(
    "Theorem 10",
    proof="Appendix C, read from the last release to the first",
    printed=r"Let V to be the maximum over all $s \in \{1,\ldots, N\}$ of the total number of sets $S_i$ such that $s \in S_i$ (i.e. $V = \sup_s |IN(s)|$). Then Algorithm 5 is $(\alpha, V\alpha\rho^2/2)$ Renyi differentially private for all $\alpha$.",
    domain={"order": log_scale(1.1, 10), "rho": log_scale(0.05, 1), "adaptivity": linear(0, 3)},
    sharp="factor",
    mutants=[{"factor": 0.99}],
    tolerance=1e-9,
    evaluations=128,
)
def theorem_10(order: float, rho: float, adaptivity: float, factor: float = 1.0) -> Sides:
    r"""By quadrature, for two releases where the second changes by $\Delta \cos(c f_1)$ when the example does; V = 2, Δ = 1.

    For $\alpha > 1$.  The proof integrates out coordinates in an order that adaptivity does not allow; from the last one to the first
    it is right.  With a bound $d_i(s)$ for each release, $\mu^2 = \max_s \sum_i d_i(s)^2 / s_i^2$ is sharper.
    """
    x = np.linspace(-14.0 / rho, order + 14.0 / rho, 4001)  # of the first release, noise 1/ρ
    log_p = -((x * rho) ** 2) / 2
    log_q = -(((x - 1) * rho) ** 2) / 2
    second = (order - 1) * order * (rho * np.cos(adaptivity * x)) ** 2 / 2
    density = rho / math.sqrt(2 * math.pi)
    integral = np.exp(order * log_q + (1 - order) * log_p + second).sum() * (x[1] - x[0]) * density
    return math.log(integral) / (order - 1), factor * 2 * order * rho**2 / 2


BUDGETS = {"nodes": integers(1, 1000, log=True), "share": log_scale(1e-3, 1), "log": log_scale(1e-2, 100)}


@PAPER.inequality(
    "Theorem 10 (conversion)",
    proof=PRIVACY,
    printed=r"supposing $\rho \le \sqrt{\frac{\log(1/\delta)}{V}}$, we then set $\alpha = 1 + \frac{\sqrt{\log(1/\delta)}}{\rho\sqrt{V}}$ to get $(V\rho^2 + \rho\sqrt{V\log(1/\delta)}, \delta)$",
    reading=r"$l = \log \frac{1}{\delta}$ below",
    repair=r"$(\frac{V \rho^2}{2} + \frac{3}{2} \rho \sqrt{V l}, \delta)$",
    domain=BUDGETS,
    as_printed={"square": 1.0, "linear": 1.0},
    evidence="counterexample",
    counterexample={"nodes": 1, "share": 0.1 / math.sqrt(5 * math.log(10)), "log": 5 * math.log(10)},
    mutants=[{"linear": 1.499}, {"square": 1.0, "linear": 1.0}],
)
def theorem_10_conversion(nodes: int, share: float, log: float, square: float = 0.5, linear: float = 1.5) -> Sides:
    r"""V = 1, ρ = 0.1, δ = 1e-5: printed 0.3493, true 0.5140.  The last step, $2 \rho \sqrt{V l}$, is right: see the part (final)."""
    m = arithmetic(log)
    rho = share * m.sqrt(log / nodes)
    order = 1 + m.sqrt(log / nodes) / rho
    converted = nodes * order * rho**2 / 2 + log / (order - 1)
    return converted, square * nodes * rho**2 + linear * rho * m.sqrt(nodes * log)


@PAPER.inequality(
    "Theorem 10 (final)",
    proof=PRIVACY,
    rests_on=("Theorem 10 (conversion)",),
    printed=r"supposing $\rho \le \sqrt{\frac{\log(1/\delta)}{V}}$ … $\le (2\rho\sqrt{V\log(1/\delta)}, \delta)$ differential privacy.",
    domain=BUDGETS,
    sharp="constant",
    mutants=[{"constant": 1.99}],
)
def theorem_10_final(nodes: int, share: float, log: float, constant: float = 2.0) -> Sides:
    r"""An equality of the conversion at $\rho = \sqrt{\frac{l}{V}}$."""
    rho = share * math.sqrt(log / nodes)
    return nodes * rho**2 / 2 + 1.5 * rho * math.sqrt(nodes * log), constant * rho * math.sqrt(nodes * log)


LARGEST_LOG = 700.0  #: of 1/δ: near the smallest δ that is a float


def largest_weight(first: int, last: int, examples: int, alpha: float) -> float:
    """The largest weight of one example in a node, for a new order in every epoch: as late as can be in each."""
    ends = range(-(-first // examples) * examples, last + examples, examples)
    return math.fsum(power(alpha, last - min(last, end)) for end in ends)


@PAPER.inequality(
    "Theorem 4 (sensitivity)",
    proof=PRIVACY,
    printed=r"Thus, $f_{[y,z]}$ has sensitivity $\Delta_{[y,z]} = 2\alpha G \sum_{j=0}^{\lceil |z-y|/N \rceil - 1} (1-\alpha)^{jN} \le 4\alpha G$ (by proposition 13) for all [y, z] and $\alpha \ge \frac{1}{N}$.",
    repair=r"at most $2 \alpha G (1 + \frac{1}{1 - e^{-1}}) = 5.164 \alpha G$",
    domain={
        "examples": integers(1, 1000, log=True),
        "load": log_scale(1, "examples"),
        "level": integers(0, 14),
        "number": integers(0, 200),
    },
    as_printed={"constant": 4.0},
    counterexample={"examples": 5, "load": 1.0, "level": 3, "number": 1},
    sharp="constant",
    mutants=[{"constant": 4.9}, {"constant": 4.0}],
    evaluations=512,
)
def theorem_4_sensitivity(
    examples: int, load: float, level: int, number: int, constant: float = 2 + 2 / (1 - math.exp(-1))
) -> Sides:
    r"""In units of α G.  With a new order in every epoch an example can be the last of one epoch and the first of the next.

    N = 5, α = 0.2: node [9, 16] has 4.1243, node [1, 256] 4.3798; the supremum is approached at $\alpha = \frac{1}{N}$, $N \to \infty$.
    With one order in all epochs $2 \alpha G \sum_k (1 - \alpha)^{kN} \le 3.164 \alpha G$.  The proof's number of terms, $\lceil \frac{z - y}{N} \rceil$,
    is 0 for a leaf.  The sum over all nodes is another matter: see Theorem 4 (RDP).
    """
    size = 2**level
    weight = largest_weight(number * size + 1, (number + 1) * size, examples, load / examples)
    return 2 * weight, constant


@PAPER.inequality(
    "Theorem 4 (count)",
    proof=PRIVACY,
    printed=r"Let $V = (\min(R, \lfloor \log_2(N) \rfloor) + 1) \frac{T}{N} + \sum_{j=\lfloor \log_2(N)+1 \rfloor}^R \lfloor \frac{T}{2^j} \rfloor$ as in Algorithm 1.",
    reading="an index belongs to at most V nodes",
    repair="where N divides T",
    domain={"examples": integers(1, 24), "epochs": integers(1, 4), "short": linear(0, 1)},
    as_printed={"whole": False},
    counterexample={"examples": 1000, "epochs": 1, "short": 0.99},
    sharp="factor",
    mutants=[{"factor": 0.99}, {"whole": False}],
    evaluations=128,
)
def theorem_4_count(examples: int, epochs: int, short: float, whole: bool = True, factor: float = 1.0) -> Sides:
    r"""The smaller side is exact, for any orders.  Rounding $\frac{T}{N}$ up repairs it too.

    For $N \le 24$, $T \le 4N + 2$ it is too small in 1115 of the 1149 cases where N does not divide T, and in no other.  N = 1000,
    T = 10: V = 0.05, and the tree has nodes with 4 of every leaf.
    """
    steps = examples * epochs - (0 if whole else min(round(short * examples), examples - 1))
    height = levels(steps) - (1 if whole else 0)
    return node_count(steps, examples), factor * printed_node_count(steps, examples, height)


@PAPER.identity(
    "Theorem 4 (V)",
    printed=r"Let $V = (\min(R, \lfloor \log_2(N) \rfloor) + 1) \frac{T}{N} + \sum_{j=\lfloor \log_2(N)+1 \rfloor}^R \lfloor \frac{T}{2^j} \rfloor$ as in Algorithm 1.",
    reading="the formula with which it is checked",
    independent="one side is the code that users call, the other one counts level by level",
    domain={"examples": integers(1, 40), "steps": integers(1, 400, log=True), "height": integers(0, 12)},
    mutants=[{"more": 2}],
)
def theorem_4_v(examples: int, steps: int, height: int, more: int = 1) -> Sides:
    """Each level up to the size N counts T/N, and each other one its nodes."""
    count = sum(steps / examples if 2**j <= examples else steps // 2**j for j in range(height + more))
    return printed_node_count(steps, examples, height), count


@PAPER.inequality(
    "Theorem 4 (RDP)",
    reading="The noisy nodes are released, for any orders; the iterates are computed from them",
    rests_on=("Theorem 4 (sensitivity)", "Theorem 10"),
    proof=PRIVACY,
    printed=r"Algorithm 1 is $(z, \frac{z}{2 \sigma^2})$-RDP for all z",
    repair=r"where N divides T, $\alpha \ge \frac{1}{N}$ and $R \ge \lfloor \log_2 T \rfloor + 1$",
    domain={
        "examples": integers(1, 1023, log=True),
        "epochs": one_of(2, 1, 3, 4, 17, 32),  # a corner has two, where the ratio is largest
        "load": log_scale(1, "examples"),
        "order": one_of("reshuffled", "fixed"),
    },
    as_printed={"short": 0.99},
    counterexample={"examples": 1000, "epochs": 1, "load": 1.0, "order": "fixed"},
    sharp="factor",
    mutants=[{"factor": 0.49}, {"short": 0.99}],
    evaluations=96,
)
def theorem_4_rdp(
    examples: int, epochs: int, load: float, order: str, short: float = 0.0, factor: float = 1.0
) -> Sides:
    r"""The smaller side is $\frac{U}{4V}$, in units of $\frac{1}{\sigma^2}$, for the release of all nodes; it is exact.

    Where the statement is true it is so by a factor of 2 or more: most nodes change far less than $4 \alpha G$.  It comes near 2 for
    new orders, $\alpha = \frac{1}{N}$, $N = 2^k - 1$ and T = 2N: 0.4963 for N = 127, 0.4995 for N = 1023.  N = 1000, T = 10: 20, so that
    (1, 1e-5) becomes ε = 2.72; also with secret orders the Rényi divergence of order 20 is too large for T = 1.  The iterates
    alone are less than the nodes.
    """
    steps = examples * epochs - min(round(short * examples), examples - 1)
    spent = squared_weights(ORDERS[order](steps, period=examples), load / examples)
    return spent, factor * 4 * printed_node_count(steps, examples, levels(steps))


@PAPER.inequality(
    "Theorem 4 (small alpha)",
    rests_on=("Theorem 4 (RDP)",),
    proof=PRIVACY,
    printed=r"Suppose that f(w, x) is G-Lipschitz for all $w \in \mathbb{R}^d$, $x \in \mathcal{X}$, Algorithm 1 is $(z, \frac{z}{2\sigma^2})$ Renyi-differentially private for all z.",
    reading=r"for all $\alpha \in (0, 1]$, as nothing else is said",
    repair=r"for $\alpha \ge \frac{1}{N}$",
    domain={"exponent": integers(0, 6), "epochs": integers(1, 256, log=True), "load": log_scale(1e-2, 64)},
    as_printed={"least": 0.0},
    counterexample={"exponent": 2, "epochs": 256, "load": 0.01},
    mutants=[{"least": 0.0}, {"factor": 0.25}],
    evaluations=96,
)
def theorem_4_small_alpha(exponent: int, epochs: int, load: float, least: float = 1.0, factor: float = 1.0) -> Sides:
    r"""The statement has no condition on α, the proof needs one.  N a power of 2, N α = ``load``, any order: the smaller side is exact.

    N = 4, T = 1024, $\alpha = \frac{0.01}{N}$: $\frac{U}{4V} = 10.24$, and 6.14 for the nodes that are read, which makes (1, 1e-5) ε = 1.41.
    """
    examples = 2**exponent
    if not least <= load <= examples:
        return math.nan, math.nan
    steps = examples * epochs
    spent = squared_weights(Participation.fixed_epochs(steps, period=examples), load / examples)
    return spent, factor * 4 * printed_node_count(steps, examples, levels(steps))


@PAPER.inequality(
    "Theorem 4 (conversion)",
    proof=PRIVACY,
    rests_on=("Theorem 4 (threshold)",),
    printed=r"Algorithm 1 is $(z, \frac{z}{2\sigma^2})$ Renyi-differentially private for all z. Consequentially, if $\delta \ge \exp(-\epsilon)$, then with $\sigma \ge \frac{2\sqrt{\log(1/\delta)}}{\epsilon}$, Algorithm 1 is $(\epsilon, \delta)$-differentially private.",
    reading=r"$l = \log \frac{1}{\delta}$ below",
    repair=r"if $\delta \le e^{-\epsilon}$",
    hypotheses=(r"Suppose that f(w, x) is G-Lipschitz for all $w \in \mathbb{R}^d$, $x \in \mathcal{X}$,",),
    domain={"log": log_scale(1e-3, LARGEST_LOG), "excess": log_scale(1, 1e5)},
    counterexample={"log": math.log(2), "excess": math.log(2) / 10},
    sharp="factor",
    proved_constant=1 / 8 + math.sqrt(0.5),
    mutants=[{"factor": 0.82}],
    evaluations=96,
)
def theorem_4_conversion(log: float, excess: float, factor: float = 1.0) -> Sides:
    r"""The smaller side is exact for the Gaussian mechanism with this curve, $l$ = ``excess`` ε.

    The factor may be $\frac{1}{8} + \frac{1}{\sqrt{2}} = 0.8321$: the factor of the simple conversion, which is approached at l = ε → ∞.
    ε = 10, δ = 0.5: exact is 17.04.  (Algorithm 1 itself spends less than half of its curve, which is enough there; at ε = 10, δ = 0.9 the
    noisy node of N = T = 1, α = 1 has δ(10) = 0.9918.)  The direction is right, more generally, for $l \ge 0.4268 \epsilon$.
    """
    epsilon = log / excess
    return gaussian_epsilon(epsilon**2 / (8 * log), math.exp(-log)), factor * epsilon


@PAPER.inequality(
    "Theorem 4 (threshold)",
    proof=PRIVACY,
    printed=r"to obtain $(\epsilon, \delta)$-DP with $\epsilon = 1/2\sigma^2 + 2\sqrt{\log(1/\delta)/2\sigma^2}$",
    reading=r"that this is at most $\epsilon$ for $\sigma = \frac{2 \sqrt{l}}{\epsilon}$ if $\delta \ge e^{-\epsilon}$, $l = \log \frac{1}{\delta}$",
    repair=r"if $l \ge \frac{\epsilon}{8 (1 - \sqrt{\frac{1}{2}})} = 0.4268 \epsilon$, in particular if $\delta \le e^{-\epsilon}$",
    domain={"epsilon": log_scale(1e-3, 1e3), "excess": log_scale(1, 1e3)},
    as_printed={"threshold": 1.0},
    evidence="counterexample",
    counterexample={"epsilon": 10.0, "excess": 0.1},
    sharp="threshold",
    mutants=[{"threshold": 0.426}],
)
def theorem_4_threshold(epsilon: float, excess: float, threshold: float = 1 / (8 * (1 - math.sqrt(0.5)))) -> Sides:
    """The conversion with the best order, l = ``excess`` · ``threshold`` · ε; as printed the excess is at most 1."""
    log = excess * threshold * epsilon
    rho = epsilon**2 / (8 * log)
    return rho + 2 * arithmetic(rho).sqrt(rho * log), epsilon


def reduced_curve(examples: int, epochs: int, alpha: float, order: str) -> float:
    """k such that all nodes of Algorithm 2 with the printed noise, L restored, are (z, k z/2σ²)-RDP; an upper bound."""
    if examples == 1:
        return math.inf  # there is no noise
    steps = examples * epochs
    early = 3 * math.log2(examples)
    late = 4 * epochs * math.log2(examples)
    tree, first, differences = (
        squared_weights(ORDERS[order](steps, period=examples), alpha, nodes)
        for nodes in (ALL_NODES, ReleasedNodes(last=2 * examples), ReleasedNodes(first=examples + 1))
    )
    return first / (4 * early) + tree / (4 * late) + (differences + tree) / late


REDUCED = {
    "examples": integers(2, 128, log=True),
    "epochs": integers(2, 16, log=True),
    "load": log_scale(1, "examples"),
    "order": one_of("reshuffled", "fixed"),
}


@PAPER.inequality(
    "Theorem 8 (RDP)",
    reading="the noisy nodes of all trees are released, for any orders",
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    printed=r"Suppose $\alpha \ge 1/N$ and f is G-Lipschitz and L-smooth. Then Algorithm 2 is $(z, 3z/2\sigma^2)$ Renyi differentially private for all z.",
    repair=r"with $\delta_\Delta = \delta_r = 2 \eta N L$, $N \ge 128$, $T \ge 2N$, N divides T",
    definitions={"delta_r": ("2ηNL",)},
    domain={**REDUCED, "examples": integers(128, 512, log=True), "smoothness": log_scale(1, 10)},
    counterexample=lambda delta_r: {
        "examples": 128 if delta_r == "2ηN" else 1,
        "epochs": 16,
        "load": 1.0,
        "order": "fixed",
        "smoothness": 10.0,
    },
    sharp="constant",
    proved_constant=2.8,
    mutants=[{"constant": 1.3}],
    evaluations=64,
)
def theorem_8_rdp(
    examples: int, epochs: int, load: float, order: str, smoothness: float, delta_r: str = "2ηNL", constant: float = 3.0
) -> Sides:
    r"""The smaller side is an upper bound for all nodes.  It is proved to stay below 2.8.  For N = 1 the noise is $\log_2 1 = 0$.

    Without L the tree of r alone, at a fixed order, spends $L^2 U / V_{> 2N}$: 35 in place of 3 for L = 10, N = 64, T = 1024.  With all
    trees the bound 3 fails from L = 1.96 on, and (1, 1e-5) from L = 4.28 on.  The proof charges four releases with one each, so it gives 4;
    that 3 suffices is due to the slack of $V_{> 2N}$.
    """
    if delta_r == "2ηN":
        tree = squared_weights(Participation.fixed_epochs(examples * epochs, epochs=epochs), load / examples)
        return smoothness**2 * tree / (4 * epochs * math.log2(examples)), constant
    return reduced_curve(examples, epochs, load / examples, order), constant


@PAPER.inequality(
    "Theorem 8 (RDP, few examples)",
    undecided=(
        "open",
        r"the printed noise lacks L, and is false; with $\delta_\Delta = \delta_r = 2 \eta N L$, which is checked, and $2 \le N < 128$, it is neither proved nor "
        r"refuted for more epochs than were computed: it grows with $\frac{T}{N}$, to 2.52 for N = 2 and 2.21 for N = 3 at 512 epochs",
    ),
    printed=r"Suppose $\alpha \ge 1/N$ and f is G-Lipschitz and L-smooth. Then Algorithm 2 is $(z, 3z/2\sigma^2)$ Renyi differentially private for all z.",
    domain={**REDUCED, "examples": integers(2, 127, log=True)},
    evidence="searched",
    sharp="constant",
    mutants=[{"constant": 2.0}],
    evaluations=64,
)
def theorem_8_few_examples(examples: int, epochs: int, load: float, order: str, constant: float = 3.0) -> Sides:
    """As in Theorem 8 (RDP)."""
    return reduced_curve(examples, epochs, load / examples, order), constant


@PAPER.inequality(
    "Theorem 8 (conversion)",
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    printed=r"Algorithm 2 is $(z, 3z/2\sigma^2)$ Renyi differentially private for all z. With $\sigma \ge \frac{4\sqrt{\log(1/\delta)}}{\epsilon}$, Algorithm 2 is $(\epsilon, \delta)$-DP",
    reading=r"$l = \log \frac{1}{\delta}$ below",
    repair=r"for $l \ge 0.2419 \epsilon$, in particular for $\delta \le e^{-\epsilon}$",
    hypotheses=(r"Suppose $\alpha \ge 1/N$ and f is G-Lipschitz and L-smooth. Then",),
    domain={"log": log_scale(1e-3, LARGEST_LOG), "excess": log_scale(0.2419, 1e5)},
    counterexample={"log": 0.1, "excess": 0.005},
    sharp="factor",
    mutants=[{"factor": 0.99}],
    evaluations=96,
)
def theorem_8_conversion(log: float, excess: float, factor: float = 1.0) -> Sides:
    r"""The smaller side is exact for the Gaussian mechanism with this curve, l = ``excess`` ε.  The statement has no condition on δ.

    The simple conversion, $\frac{k \epsilon^2}{32 l} + 2 \sqrt{\frac{k}{32}} \epsilon \le \epsilon$, needs $l \ge 0.2419 \epsilon$ for
    k = 3, 0.4268 ε for k = 4 and 0.7461 ε for k = 5.
    """
    epsilon = log / excess
    return gaussian_epsilon(3 * epsilon**2 / (32 * log), math.exp(-log)), factor * epsilon


@PAPER.inequality(
    "Theorem 8 (first epochs)",
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    printed=r"for any index $i \in [1, N]$, $x_i$ can influence at most $1 + \lfloor \log_2(2N) \rfloor \le 3 \log_2(N)$ intervals [a, b] corresponding to nodes in the tree such that $b \le 2N$",
    repair=r"at most $3 \log_2 N$ for $N \ge 6$",
    domain={"examples": integers(6, 300, log=True)},
    as_printed={"occurrences": 1},
    counterexample={"examples": 2},
    sharp="constant",
    mutants=[{"constant": 2.99}],
    evaluations=96,
)
def theorem_8_first_epochs(examples: int, occurrences: int = 2, constant: float = 3.0) -> Sides:
    r"""An example occurs twice in [1, 2N].  Exact for N = 1, …, 9: 3, 5, 5, 7, 7, 7, 7, 9, 9; $3 \log_2 N$ is 0, 3, 4.75, 6, 6.97, 7.75, 8.42, 9, 9.51.

    So it is too small for $N \le 5$, and for N = 1 there is no noise at all.  Equality at N = 8; the count is at most
    $2 \lfloor \log_2 N \rfloor + 3$.
    """
    return node_count(2 * examples, examples), constant * math.log2(examples)


@PAPER.inequality(
    "Theorem 8 (later epochs)",
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    printed=r"the number of nodes any index i can influence is at most: $(\lfloor \log_2(N) \rfloor + 1) \frac{T}{N} + \sum_{j=\lfloor \log_2(N)+1 \rfloor}^{\lceil \log_2(T) \rceil} \lfloor \frac{T}{2^j} \rfloor \le 4\frac{T}{N} \log_2(N)$",
    repair=r"for $N \ge 2$ and $T \ge 2N$",
    domain={"examples": integers(2, 40, log=True), "epochs": linear(2, 8)},
    counterexample={"examples": 1000, "epochs": 0.01},
    evidence="counterexample",
    sharp="constant",
    mutants=[{"constant": 2.0}],
    evaluations=128,
)
def theorem_8_later_epochs(examples: int, epochs: float, constant: float = 4.0) -> Sides:
    """T is ``epochs`` N, rounded.  N = 1000, T = 10: printed 0.399, exact 4; N = 1: printed 0."""
    steps = max(round(examples * epochs), 1)
    m = arithmetic(epochs)
    return node_count(steps, examples), m.number(constant) * steps / examples * m.log(m.number(examples)) / m.log(
        m.number(2)
    )
