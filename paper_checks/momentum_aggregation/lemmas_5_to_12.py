"""Lemmas 5, 7, 11 and 12: errors of momenta, and what they cost."""

import math
from itertools import permutations
from typing import Any

import numpy as np
from scipy.special import gammaln

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.momentum_aggregation.lemma_17 import EPOCHS, two_examples
from corrnoise.paper_checks.momentum_aggregation.paper import PAPER
from corrnoise.theory.mechanisms.tree_orders import power, powers
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.momentum_aggregation import bounds
from corrnoise.theory.papers.momentum_aggregation.reconstruction import lemma_17_defect, window_weights
from corrnoise.theory.papers.momentum_aggregation.sensitivity import printed_node_count
from corrnoise.theory.papers.momentum_aggregation.trees import compose, decoder_variance, levels
from corrnoise.theory.privacy import Budget

ROUNDING = 1e-12  #: absolute, where both sides of Lemma 5 may be 0


@PAPER.inequality(
    "Lemma 5",
    proof="docs/momentum-aggregation-proofs.md#gradient-norms",
    printed=r"Suppose $w_1,\ldots, w_T$ is a sequence of iterates defined by $w_{t+1} = w_t - \eta \frac{\hat{m}_t}{\|\hat{m}_t\|}$ for some arbitrary sequence $\hat{m}_1,\ldots, \hat{m}_T$. Pick $\hat{w}$ uniformly at random from $w_1,\ldots, w_T$. Then: $E[\|\nabla F(\hat{w})\|] \le \frac{3E[(F(w_1) - F(w_{T+1}))]}{2\eta T} + \frac{3L\eta}{4} + \frac{3}{T}\sum_{t=1}^T E[\|\hat{\epsilon}_t\|]$",
    domain={
        "slope": linear(-1, 1),
        "curvature": linear(-1, 1),
        "start": linear(-1, 1),
        "errors": vector(linear(-2, 2), 3),
        "learning_rate": log_scale(1e-3, 10),
        "steps": integers(1, 3),
    },
    sharp="factor",
    proved_constant=2 / 3,
    mutants=[{"factor": 0.66}],
)
def lemma_5(
    slope: float, curvature: float, start: float, errors: Array, learning_rate: float, steps: int, factor: float = 1.0
) -> Sides:
    r"""Up to three steps on $F = b w + \frac{h}{2} w^2$, L = 1, with any errors of the momenta.  One step without error from the minimum of $F = \frac{1}{2} w^2$ makes both sides 0.

    The right side may be multiplied by ⅔: $\langle g, \frac{m}{\|m\|} \rangle \ge \|g\| - 2\|m - g\|$.  The proof takes another way, one
    step of which is false: $-\langle g, \frac{m}{\|m\|} \rangle \le 0$ for $\|m - g\| > \frac{1}{2} \|g\|$.
    """
    w = start
    norms = []
    for error in errors[:steps]:
        gradient = slope + curvature * w
        norms.append(abs(gradient))
        w -= learning_rate * (1 if gradient + error >= 0 else -1)
    decrease = slope * (start - w) + curvature / 2 * (start**2 - w**2)
    bound = bounds.descent_upper_bound(
        decrease=decrease,
        smoothness=1.0,
        learning_rate=learning_rate,
        steps=steps,
        mean_error=float(np.abs(errors[:steps]).mean()),
        published=True,
    )
    return float(np.mean(norms)), factor * bound + ROUNDING


def fresh_order_error(
    slopes: Array, lipschitz: float, curvature: float, alpha: float, learning_rate: float, step: int
) -> float:
    """E |m_t − F'(w_t)| for f_i' = b_i + h w, cut off at ±G, and w_1 = 0, over all orders of all epochs."""
    n = slopes.size
    orders = np.array(list(permutations(range(n))))
    epochs = -(-step // n)
    chosen = np.indices((len(orders),) * epochs).reshape(epochs, -1)
    w = np.zeros(chosen.shape[1])
    m = np.zeros(chosen.shape[1])
    for t in range(step):
        if t > 0:
            w = w - learning_rate * np.where(m >= 0, 1, -1)
        epoch, position = divmod(t, n)
        example = orders[chosen[epoch], position]
        m = (1 - alpha) * m + alpha * np.clip(slopes[example] + curvature * w, -lipschitz, lipschitz)
    gradient = np.clip(slopes + curvature * w[:, None], -lipschitz, lipschitz).mean(axis=1)
    return float(np.abs(m - gradient).mean())


@PAPER.inequality(
    "Lemma 11",
    proof="docs/momentum-aggregation-proofs.md#gradient-norms",
    printed=r"$E\|\epsilon_t\| \le 2G\sqrt{\alpha} + 2 \eta N L + \frac{\eta L}{\alpha}$",
    repair=r"$E\|\epsilon_t\| \le G \sqrt{\frac{\alpha}{2 - \alpha}} + 2 \eta (N - 1) L + \eta L \frac{1 - \alpha}{\alpha} + (1 - \alpha)^t G$",
    domain={
        "examples": integers(2, 3),
        "lipschitz": log_scale(0.1, 10),
        "slopes": vector(linear(-1, 1), 3),
        "curvature": linear(-10, 10),
        "alpha": log_scale(1e-3, 1),
        "learning_rate": log_scale(1e-6, 1e3),
        "step": integers(1, 15),
    },
    counterexample={
        "examples": 2,
        "lipschitz": 1.0,
        "slopes": np.ones(3),
        "curvature": 0.0,
        "alpha": 0.01,
        "learning_rate": 1e-6,
        "step": 1,
    },
    mutants=[{"factor": 0.9}, {"published": True}],
    evaluations=512,
)
def lemma_11(
    examples: int,
    lipschitz: float,
    slopes: Array,
    curvature: float,
    step: int,
    published: bool = False,
    factor: float = 1.0,
    **rates: Any,
) -> Sides:
    r"""Exact for two or three examples with a new random order in every epoch, by enumeration; the slopes are in units of G.

    As $m_0 = 0$, the error of a linear function is $(1 - \alpha)^t G$: 0.99 G against 0.2 G for α = 0.01, t = 1, and above the printed
    bound for all t up to 160.  With $m_1 = \nabla f(w_1, x)$ it is false too, for gradients ±G and $\alpha < \frac{1}{4}$.  For one order in
    all epochs and L > 0 there is no proof.  The last term of Theorem 6 pays for the missing part.
    """
    losses: dict[str, Any] = {"examples": examples, "lipschitz": lipschitz, "smoothness": abs(curvature)}
    bound = bounds.momentum_error_upper_bound(step, **losses, **rates, published=published)
    error = fresh_order_error(lipschitz * slopes[:examples], lipschitz, curvature, step=step, **rates)
    return error, factor * bound


def mean_norm(dimension: int) -> float:
    """E ‖z‖ for a standard Gaussian vector."""
    return math.sqrt(2) * math.exp(gammaln((dimension + 1) / 2) - gammaln(dimension / 2))


@PAPER.inequality(
    "Lemma 12",
    proof="docs/momentum-aggregation-proofs.md#gradient-norms",
    printed=r"Suppose $\alpha \ge \frac{1}{N}$. Then, $E[\|\hat{m}_t - m_t\|] \le 4\alpha G\sigma \sqrt{dV \log_2 T}$",
    repair=r"with $\log_2(T + 1)$",
    domain={
        "steps": integers(1, 5000, log=True),
        "examples": integers(1, 1000, log=True),
        "load": log_scale(1, "examples"),
        "dimension": integers(1, 10**6, log=True),
    },
    as_printed={"more": 0.0},
    counterexample={"steps": 3, "examples": 1000, "load": 1.0, "dimension": 10**6},
    sharp="factor",
    mutants=[{"factor": 0.99}, {"more": 0.0}],
)
def lemma_12(steps: int, examples: int, load: float, dimension: int, more: float = 1.0, factor: float = 1.0) -> Sides:
    r"""The smaller side is exact, for the step with the most noise, in units of $4 \alpha G \sigma \sqrt{V}$.

    The printed number of intervals, $\log_2 T$, is too small for $T = 2^k - 1$; the inequality fails at T = 1 and, for many dimensions
    and $\alpha < 0.2352$, at T = 3.  Proposition 16 gives much more: the number of intervals may be replaced by their weights, 6.72 for
    12 at $\alpha = \frac{1}{256}$, T = 4096.
    """
    variance = float(decoder_variance(steps, load / examples).max())
    return mean_norm(dimension) * math.sqrt(variance), factor * math.sqrt(dimension * math.log2(steps + more))


def nodes_variance(first: int, last: int, alpha: float) -> float:
    """Σ (1 − α)^{2(last − z)} over the nodes of [first, last], z their last steps."""
    gaps = np.array([last - node.last for node in compose(first, last)])
    return float(powers(alpha, 2 * gaps).sum())


def printed_noise(
    examples: int, epochs: int, alpha: float, gamma: float, smoothness: float, epsilon: float, log: float
) -> float:
    """Standard deviation of the noise in m̂_T of Algorithm 2 as printed with L restored, G = 1, T = ``epochs`` N."""
    steps = examples * epochs
    sigma = 4 * math.sqrt(log) / epsilon
    early = 3 * math.log2(examples)
    late = 4 * epochs * math.log2(examples)
    decay = power(alpha, examples)
    weights = window_weights(epochs, epoch_decay=decay, gamma=gamma) ** 2
    gradients = 16 * early * weights[epochs] * nodes_variance(1, examples, alpha)
    change = (2 * gamma * smoothness) ** 2  # (2 η N L)², η N = γ
    for i in range(1, epochs):
        last = steps - (i - 1) * examples
        window = weights[i] * late * nodes_variance(last - examples + 1, last, alpha)
        gradients += window * (16 * gamma**2 + (1 - gamma) ** 2 * change)
    remainders = change * late * nodes_variance(1, steps, alpha)
    return alpha * sigma * math.sqrt(gradients + remainders)


@PAPER.inequality(
    "Lemma 7",
    rests_on=("Proposition 18", "corrnoise: M5"),
    proof="docs/momentum-aggregation-proofs.md#the-noise-of-algorithm-2",
    printed=r"Suppose $\alpha \ge \frac{1}{N}$ and $\gamma \le \frac{1}{2}$, using the update of Algorithm 2, we have: $E[\|\hat{m}_t - m_t\|] \le \frac{192G\alpha \log_2 T \sqrt{d\log(1/\delta)}}{\epsilon} + \frac{128(G+2L)\alpha \sqrt{\eta dT \log(1/\delta)} \log_2 T}{\epsilon} + \frac{16\eta L\alpha \log_2 T \sqrt{3dTN \log(1/\delta)}}{\epsilon}$",
    reading=r"$l = \log \frac{1}{\delta}$ below",
    repair=r"for $T \ge N \ge 2$ and one order in all epochs; a new order in every epoch adds $\sqrt{\alpha} \Xi$, the bound of the defect of Lemma 17",
    domain={
        "examples": integers(2, 1023, log=True),
        "epochs": integers(1, 256, log=True),
        "load": log_scale(1, "examples"),
        "gamma": log_scale(1e-4, 1),
        "smoothness": log_scale(1e-3, 1e3),
        "epsilon": log_scale(1e-2, 1e6),
        "log": log_scale(1e-2, 100),
    },
    as_printed={"fresh": True},
    counterexample={
        "examples": 2,
        "epochs": 2,
        "load": 1.0,
        "gamma": 0.5,
        "smoothness": 1e-3,
        "epsilon": 1e6,
        "log": 11.5,
    },
    sharp="factor",
    mutants=[{"factor": 0.1}, {"fresh": True}],
    evaluations=256,
)
def lemma_7(
    examples: int,
    epochs: int,
    load: float,
    gamma: float,
    smoothness: float,
    epsilon: float,
    log: float,
    fresh: bool = False,
    factor: float = 1.0,
) -> Sides:
    r"""The smaller side is the exact standard deviation at t = T, G = 1, d = 1, with $\gamma = \eta N$ and $\delta_\Delta = \delta_r = 2 \eta N L$.

    At T = 1 the printed bound is 0, and the noise is not.  As printed, with $2 \eta N$, the noise does not vanish with G and L, and the bound does.  With a new order in every epoch the defect of
    Lemma 17 is an error without noise: two linear losses with slopes 0 and 1, T = 4, $\alpha = \gamma = \frac{1}{2}$ have $E\|\hat{m}_t - m_t\| \ge
    \frac{1}{16}$ for every ε.  The proof uses Proposition 14 outside its range; Young's inequality, $\sum_i K_i^2 \le \frac{1}{\gamma (2 - \gamma)
    (1 - a)^2}$ with $a = (1 - \alpha)^N$, repairs it for every γ in (0, 1], and 2L may be L/2.
    """
    alpha = load / examples
    noise = printed_noise(examples, epochs, alpha, gamma, smoothness, epsilon, log)
    if fresh and (examples, epochs) == (2, 2):  # both orders of the second epoch; the noise is symmetric
        slopes = np.tile([0.0, 1.0], EPOCHS)
        defects = [
            float(lemma_17_defect(two_examples(slopes, reverse)[2], 4, examples=2, alpha=alpha, gamma=gamma))
            for reverse in (0, 2)
        ]
        noise = max(noise, alpha * float(np.abs(defects).mean()))
    task = bounds.BoundedTask(examples, 1, Budget(epsilon=epsilon, delta=math.exp(-log)), smoothness)
    run: dict[str, Any] = {"steps": examples * epochs, "alpha": alpha, "learning_rate": gamma / examples}
    return noise, factor * task.lemma_7(**run, published=True)


@PAPER.inequality(
    "Lemma 12 (count)",
    theorem=("lemma_12_count", "0202947c0bfd14fd"),
    proof="docs/momentum-aggregation-proofs.md#gradient-norms",
    printed=r"Applying Lemma 11 and using Theorem 12 with $V = (\min(R, \lfloor \log_2(N) \rfloor) + 1) \frac{T}{N} + \sum_{j=\lfloor \log_2(N)+1 \rfloor}^R \lfloor \frac{T}{2^j} \rfloor \le 4 \log_2 T \frac{T}{N}$",
    domain={"examples": integers(1, 10**4, log=True), "epochs": integers(1, 10**4, log=True)},
    repair=r"for $T \ge 2$",
    as_printed={"least": 1},
    counterexample={"examples": 1, "epochs": 1},
    sharp="factor",
    mutants=[{"factor": 0.4}, {"least": 1}],
)
def lemma_12_count(examples: int, epochs: int, least: int = 2, factor: float = 1.0) -> Sides:
    r"""With $R = \lfloor \log_2 T \rfloor + 1$ and N dividing T.  T = 1 has V = 1 and $\log_2 T = 0$."""
    steps = examples * epochs
    if steps < least:
        return math.nan, math.nan
    return printed_node_count(steps, examples, levels(steps)), factor * 4 * epochs * math.log2(steps)
