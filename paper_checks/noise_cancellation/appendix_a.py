"""The lemmas of Appendix A, which prove Theorem 5.2."""

import math
from itertools import product

import numpy as np
from scipy.integrate import quad

from corrnoise.paper_checks.machinery.domains import linear, log_scale, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import sums
from corrnoise.paper_checks.noise_cancellation.oracles import path
from corrnoise.paper_checks.noise_cancellation.paper import PAPER
from corrnoise.theory.numerics.checks import Array


@PAPER.inequality(
    "Theorem A.1",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"Let $f : \mathcal{K} \to \mathbb{R}$ be a convex function. Also let $\{\alpha_t > 0\}$ and $\{w_t \in \mathcal{K}\}$. Let $\{x_t\}$ be the $\{\alpha_\tau\}_{\tau=1}^t$ weighted average of $\{w_\tau\}_{\tau=1}^t$, meaning: $x_t = \frac{1}{\alpha_{1:t}} \sum_{\tau=1}^t \alpha_\tau w_\tau$. Then the following holds for all $t \ge 1, x \in \mathcal{K}$: $\alpha_{1:t}(f(x_t) - f(x)) \le \sum_{\tau=1}^t \alpha_\tau \langle \nabla f(x_\tau), w_\tau - x \rangle$",
    domain={"curvature": linear(0, 1), "slope": linear(-1, 1), "steps": vector(linear(-1, 1), 5), "x": linear(-1, 1)},
    mutants=[{"sign": -1.0}],
)
def theorem_a1(curvature: float, slope: float, steps: Array, x: float, sign: float = 1.0) -> Sides:
    r"""For $f = \frac{h}{2} x^2 + b x$; an equality where h = 0."""
    w, average = path(steps)
    t = np.arange(1, steps.size + 1)

    def f(point: float) -> float:
        return curvature / 2 * point**2 + slope * point

    left = t.sum() * (f(float(average[-1])) - f(x))
    return sums([left], sign * t * (curvature * average + slope) * (w - x))


@PAPER.identity(
    "Lemma A.2",
    printed=r"Let $\{Z_t\}$ be a Martingale difference sequence w.r.t a Filtration $\{\mathcal{F}_t\}_t$, i.e. $E[Z_t|\mathcal{F}_{t-1}] = 0$, then: $E\|\sum_{\tau=1}^{t} Z_{\tau}\|^{2} = \sum_{\tau=1}^{t} E\|Z_{\tau}\|^{2}$",
    domain={"scales": vector(linear(-1, 1), 15)},
    mutants=[{"drift": 0.01}],
)
def lemma_a2(scales: Array, drift: float = 0.0) -> Sides:
    """By enumeration of four signs, each with a scale that depends on the signs before it."""
    sums, squares = [], []
    for signs in product((-1, 1), repeat=4):
        node = 0
        terms = []
        for sign in signs:
            terms.append((sign + drift) * scales[node])
            node = 2 * node + (1 if sign < 0 else 2)
        sums.append(sum(terms) ** 2)
        squares.append(sum(term**2 for term in terms))
    return 1e-3 + float(np.mean(sums)), 1e-3 + float(np.mean(squares))


@PAPER.inequality(
    "Lemma A.5",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"Let $\eta > 0$, and $\mathcal{K} \subset \mathbb{R}^d$ be a convex domain of bounded diameter D, also let $\{\tilde{q}_t \in \mathbb{R}^d\}_{t=1}^T$ be a sequence of arbitrary vectors. Then for any starting point $w_1 \in \mathbb{R}^d$, and an update rule $w_{t+1} = \Pi_{\mathcal{K}} (w_t - \eta \tilde{q}_t)$, $\forall t \ge 1$, the following holds $\forall x \in \mathcal{K}$: $\sum_{\tau=1}^{t} \langle \tilde{q}_{\tau}, w_{\tau+1} - x \rangle \le \frac{D^2}{2\eta} - \frac{1}{2\eta} \sum_{\tau=1}^{t} \|w_{\tau} - w_{\tau+1}\|^2$",
    repair=r"for $w_1 \in K$",
    domain={
        "diameter": log_scale(1e-2, 1e2),
        "start": linear(0, "diameter"),
        "gradients": vector(linear(-2, 2), 5),
        "rate": log_scale(1e-4, 1e3),
        "x": linear(0, "diameter"),
    },
    evidence="counterexample",
    counterexample={"diameter": 1.0, "start": 10.0, "gradients": np.zeros(5), "rate": 1.0, "x": 0.0},
    sharp="factor",
    mutants=[{"factor": 0.99}],
)
def lemma_a5(diameter: float, start: float, gradients: Array, rate: float, x: float, factor: float = 1.0) -> Sides:
    r"""K = [0, D].  D = 1, $w_1 = 10$, $\tilde{q} = 0$, η = 1: 0 at most −40, as printed.  The algorithms start in K."""
    w = start
    total = 0.0
    for q in gradients:
        new = min(max(w - rate * q, 0.0), diameter)
        total += q * (new - x) + (w - new) ** 2 / (2 * rate)
        w = new
    return total, factor * diameter**2 / (2 * rate)


def strip_gap(width: float) -> Sides:
    """‖∇f(1, 0) − ∇f(0, 0)‖² and 2L(f(1, 0) − f(0, 0)), L = 1, on the thin strip [0, 1] × {0}.

    The Hessian at (x, 0) is the projector on (cos θ, sin θ) with cos θ = min(1, d/(1 − x + d)), d = ``width``; f is least,
    with gradient 0, at (0, 0).
    """

    def cosine(x: float) -> float:
        return width / (1 - x + width)

    along = quad(lambda x: cosine(x) ** 2, 0, 1)[0]
    across = quad(lambda x: cosine(x) * math.sqrt(1 - cosine(x) ** 2), 0, 1)[0]
    value = quad(lambda x: (1 - x) * cosine(x) ** 2, 0, 1)[0]
    return along**2 + across**2, 2 * value


@PAPER.inequality(
    "Lemma A.6",
    proof="docs/noise-cancellation-proofs.md#smoothness-beyond-the-set",
    printed=r"If $f : \mathcal{K} \to \mathbb{R}$ is convex and L-smooth, and $x^* = … \{f(x)\}$, then $\forall x \in \mathbb{R}^d$: $\|\nabla f(x) - \nabla f(x^*)\|^2 \le 2L(f(x) - f(x^*))$",
    repair=r"for f convex and L-smooth on $R^d$, and x in K",
    domain={"scales": vector(linear(0, 1), 3), "optimum": linear(-2, 2), "x": linear(0, 1), "width": linear(0.05, 0.3)},
    as_printed={"strip": True},
    counterexample={"scales": np.ones(3), "optimum": 0.0, "x": 1.0, "width": 0.2},
    mutants=[{"factor": 0.99}, {"strip": True}],
)
def lemma_a6(scales: Array, optimum: float, x: float, width: float, strip: bool = False, factor: float = 1.0) -> Sides:
    """Checked on K = [0, 1] for sums of Huber functions, and proved as printed if f extends.  It need not extend.

    On a strip thin enough, with a Hessian that turns along it and eigenvalues 0 and 1, the ratio of the sides is 1.523 for
    d = 0.2, 2.009 for 0.05, and grows like log(1/d).  (Mixed with a little of the identity, the eigenvalues stay inside
    (0, 1) on a strip of positive width.)  The sensitivity $2R_t$ needs smoothness on K only.  Points outside K are
    another matter: K = [1, 2], $f = x^2/2$, x = 0 gives 1 at most −1.
    """
    if strip:
        return strip_gap(width)
    bends = np.array([0.1, 0.5, 2.0])
    scales = scales / max(float(scales.sum()), 1e-9)

    def gradient(point: float) -> float:
        return float((scales * np.clip(point - optimum, -bends, bends)).sum())

    def value(point: float) -> float:
        distance = abs(point - optimum)
        return float((scales * np.where(distance <= bends, distance**2 / 2, bends * (distance - bends / 2))).sum())

    best = min(max(optimum, 0.0), 1.0)
    return 1 + (gradient(x) - gradient(best)) ** 2, 1 + float(factor) * 2 * (value(x) - value(best))


@PAPER.inequality(
    "Lemma A.7",
    printed=r"If $\mathcal{A}_t \le \frac{1}{2T} \sum_{\tau=1}^T \mathcal{A}_\tau + \mathcal{B}, \forall t \in [T]$, then $\mathcal{A}_t \le 2\mathcal{B}, \forall t \in [T]$.",
    theorem=("lemma_a7", "b7bd1401ac34fb47"),
    proof="docs/noise-cancellation-proofs.md#lemma-a7",
    domain={"values": vector(linear(-1, 1), 5)},
    sharp="factor",
    mutants=[{"factor": 1.99}],
)
def lemma_a7(values: Array, factor: float = 2.0) -> Sides:
    """With the least B that the hypothesis allows.  Attained where all values are equal, of any sign."""
    bound = values.max() - values.mean() / 2
    return values.max() + 10 * bound, (factor + 10) * bound
