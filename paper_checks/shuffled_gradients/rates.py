"""Table 1 and Appendix E.3: the rates at equal privacy, and the comparison with DP-SGD."""

import math

import numpy as np
from scipy.optimize import minimize_scalar

from corrnoise.paper_checks.machinery.domains import integers, log_scale
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.theory.papers.shuffled_gradients.table_rates import bound_coefficients, leading_rate


@PAPER.identity(
    "Table 1 (rates)",
    printed=r"These choices yield the empirical excess risk of DP-ShuffleG in of $\tilde{O}((\frac{1}{\epsilon}\sqrt{\frac{d}{n}})^{4/3})$. … It also reduces the privacy-related term compared to DP-ShuffleG, at the cost of an additional error term due to dissimilarity.",
    undecided=(
        "vacuous",
        "Rates without constants that rest on Corollary 4.1; checked instead is the optimum over η of the noise "
        "and initialisation terms as corrected, which gives sqrt(d A/(n K))/ε with the amplification sum A",
    ),
    domain={"distance": log_scale(0.1, 10), "noise": log_scale(1e-3, 10), "steps": log_scale(10, 1e6)},
    tolerance=1e-7,
    mutants=[{"two": 2.001}],
    evaluations=64,
)
def table_1_rates(distance: float, noise: float, steps: float, two: float = 2.0) -> Sides:
    """min over η of R²/(η n K) + 2 η d σ² (1 + log K) = 2 sqrt(2 R² d σ² (1 + log K)/(n K)).

    With composed epochs, σ² ~ K/ε²: sqrt(d/n)/ε.  With amplification over the run, A → (K − 1)/n + 1: sqrt(d)/(n ε), the
    lower bound.
    """
    best = minimize_scalar(
        lambda u: distance**2 / (math.exp(u) * steps) + 2 * math.exp(u) * noise,
        bounds=(-30, 30),
        method="bounded",
        options={"xatol": 1e-9},
    )
    return best.fun, two * math.sqrt(2 * distance**2 * noise / steps)


@PAPER.inequality(
    "Appendix E.3",
    printed=r"setting the number of epochs as $K = O(\frac{n\epsilon^2}{d})$ to minimize the above bound",
    reading=r"the bound is that of Corollary E.1 with $\sigma^2 = O(K \log(1/\delta)/\epsilon^2)$ and the best η",
    domain={
        "epochs": log_scale(2, 1e16),
        "samples": integers(10, 1000, log=True),
        "dimension": integers(10, 1000, log=True),
    },
    counterexample={"epochs": 1e16, "samples": 100, "dimension": 1000},
    mutants=[{"constant": 10.0}],
    evaluations=64,
)
def appendix_e3(epochs: float, samples: int, dimension: int, constant: float = 1000.0) -> Sides:
    r"""n = 100, d = 1000, ε = 1, δ = 1e-6, R = G = L = s = 1: 17.3, 0.262, 7.05e-4 at K = 1e2, 1e8, 1e16.

    The printed bound has no minimum in K: it falls below the lower bound $\sqrt{d}/(n \epsilon)$ that the paper cites.  The
    corrected one does not.  Compared is the smallest value for K up to 1000 n ε²/d, at least 2, with any other K.
    """
    most = max(constant * samples / dimension, 2.0)

    def bound(epochs: float) -> float:
        run = bound_coefficients(
            "DP-ShuffleG", samples=samples, dimension=dimension, epsilon=1.0, epochs=epochs, accounting="published"
        ).best()
        return run.excess_risk_upper_bound

    return min(bound(k) for k in np.geomspace(2, most, 30)), bound(epochs)


@PAPER.inequality(
    "Section 4 (comparison with DP-SGD)",
    proof="docs/shuffled-gradients-proofs.md#rates",
    evidence="searched",
    printed=r"The lower bound for empirical excess risk when minimizing convex, smooth objectives is $\Omega(\sqrt{d}/(n\epsilon))$ [2]. DP-GD and DP-SGD achieve matching upper bounds. However, the above bound suggests a worse empirical excess risk for DP-ShuffleG.",
    domain={
        "samples": integers(100, 10**16, log=True),
        "dimension": integers(1, 1000, log=True),
        "epsilon": log_scale(0.1, 5),
    },
    counterexample={"samples": 10**16, "dimension": 10, "epsilon": 1.0},
    mutants=[{"constant": 100.0}],
    evaluations=64,
)
def comparison(samples: int, dimension: int, epsilon: float, constant: float = 1000.0) -> Sides:
    r"""As printed, up to a constant; n = 1e16, d = 10, ε = 1 has 7.1e-14 where the printed rate is 1e-10.

    With the corrected noise term, amplification over the whole run and $K = \max(n, (n \epsilon/\sqrt{d})^{3/2})$ epochs it
    is at most $13 \frac{\sqrt{d}}{n \epsilon} \sqrt{(1 + \log K) \log(1/\delta)}$ where $\sqrt{d} \le n \epsilon/2$: the rate of
    DP-SGD.  (R = G = L = s = 1, δ = 1e-6; found by search.)  No practical run has that many epochs.
    """
    epochs = max(samples, (samples * epsilon / math.sqrt(dimension)) ** 1.5)
    value = (
        bound_coefficients("DP-ShuffleG", samples=samples, dimension=dimension, epsilon=epsilon, epochs=epochs)
        .best()
        .excess_risk_upper_bound
    )
    return leading_rate(
        "DP-ShuffleG", samples=samples, dimension=dimension, epsilon=epsilon, accounting="published"
    ), constant * value


@PAPER.inequality(
    "Appendix E.3 (learning rate)",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"The learning rate is set to be $\eta = O(\frac{\|x_1^{(1)} - x^*\|^{2/3}}{nL^*(K(1+\log K))^{1/3}})$ to optimize the convergence bound, while satisfying the conditions of both Corollary E.1 (convergence) and Lemma E.2 (privacy).",
    corrected=r"for $K \ge 80 \sqrt{10} R^2 \sqrt{1 + \log K}$, that is 253 times the rest",
    domain={"distance": log_scale(1e-3, 10), "samples": integers(1, 1000, log=True), "more": log_scale(1, 1e3)},
    as_printed={"epochs": 50.0},
    counterexample={"distance": 1.0, "samples": 1000, "more": 1.0},
    mutants=[{"constant": 250.0}],
)
def appendix_e3_rate(
    distance: float, samples: int, more: float, constant: float = 80 * math.sqrt(10), epochs: float | None = None
) -> Sides:
    """L = L* = 1.  At K = 50, the number of epochs of the experiments, it does not for R = 1: K >= 670 is needed."""
    if epochs is None:
        epochs = 1.0
        for _ in range(60):  # the smallest K that the condition allows, at least 1
            epochs = max(more * constant * distance**2 * math.sqrt(1 + math.log(epochs)), 1.0)
    ell = 1 + math.log(epochs)
    eta = distance ** (2 / 3) / (samples * (epochs * ell) ** (1 / 3))
    return eta, (1 + 1e-12) / (2 * samples * math.sqrt(10 * ell))
