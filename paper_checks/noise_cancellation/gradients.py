"""Sections 2.1, 3, 4.3 and 5.3, Appendix G: gradients and their errors, by enumeration."""

import math
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import twice
from corrnoise.paper_checks.noise_cancellation.oracles import affine_case, affine_losses, enumerated_variance
from corrnoise.paper_checks.noise_cancellation.paper import PAPER
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.noise_cancellation.bounds import sampling_variance
from corrnoise.theory.papers.noise_cancellation.sensitivity import LossClass, Losses

_NO_VARIANCE = 1e-12  #: of gradients of size 1, below which rounding is compared
FAMILIES = {"lipschitz": log_scale(1e-2, 1e2), "smoothness": log_scale(1e-2, 1e2), "diameter": log_scale(1e-2, 1e2)}


@PAPER.inequality(
    "Section 2.1 (variances)",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"$\exists \sigma \in [0, G]$ such: $E \| \nabla f_i(x; z) - \nabla f_i(x) \|^2 \le \sigma^2, \forall x \in \mathcal{K}$ … $\exists \xi \in [0, G]$ such: $\frac{1}{M}\sum_{i=1}^{M} \|\nabla f_i(x) - \nabla f(x)\|^2 \le \xi^2, \forall x \in \mathcal{K}$",
    domain={"shares": vector(linear(-1, 1), 6), "lipschitz": log_scale(1e-4, 1e4)},
    sharp="factor",
    mutants=[{"factor": 0.99}],
)
def variances(shares: Array, lipschitz: float, factor: float = 1.0) -> Sides:
    """Two machines of three examples.  The two variances together are at most $G^2$, at every point."""
    machines = lipschitz * shares.reshape(2, 3)
    within = machines.var(axis=1).mean()
    between = machines.mean(axis=1).var()
    return within + between, factor * lipschitz**2


@PAPER.inequality(
    "Section 2.1 (smoothness)",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"$\exists \sigma_L \in [0, L]$ such: $E \| (\nabla f_i(x;z) - \nabla f_i(x)) - (\nabla f_i(y;z) - \nabla f_i(y)) \|^2 \le \sigma_L^2 \| x - y \|^2, \forall x, y \in \mathcal{K}$ … $\exists \xi_L \in [0, L]$ such: $\frac{1}{M} \sum_{i=1}^{M} \| (\nabla f_i(x) - \nabla f(x)) - (\nabla f_i(y) - \nabla f(y)) \|^2 \le \xi_L^2 \| x - y \|^2, \forall x, y \in \mathcal{K}$",
    domain={
        "shares": vector(linear(0, 1), 6),
        "smoothness": log_scale(1e-4, 1e4),
        "losses": one_of("convex", "smooth"),
    },
    sharp="factor",
    mutants=[{"factor": 0.99}],
)
def smoothness_variances(shares: Array, smoothness: float, losses: Losses, factor: float = 1.0) -> Sides:
    """For convex losses L/2 suffices: curvatures lie in [0, L], and the gradient's change in a ball of radius L/2.

    Losses that need not be convex have curvatures in [−L, L], and attain L.
    """
    curvatures = smoothness * (shares if losses == "convex" else 2 * shares - 1)
    machines = curvatures.reshape(2, 3)
    both = machines.var(axis=1).mean() + machines.mean(axis=1).var()
    return math.sqrt(both), factor * (smoothness / 2 if losses == "convex" else smoothness)


@PAPER.identity(
    "Lemma 2.1",
    printed=r"Let $\mathcal{M} \subseteq [M]$, and $z_i \sim \mathcal{D}_i$. Define $g(x) = \frac{1}{|\mathcal{M}|} \sum_{i \in \mathcal{M}} \nabla f_i(x; z_i)$, for all $x \in \mathcal{K}$. If $z_i$ are independent, and $\mathcal{M}$ is chosen uniformly from all subsets of size m: $E \|g(x) - \nabla f(x)\|^2 \le \frac{1}{m} (\sigma^2 + \frac{M - m}{M - 1}\xi^2), \forall x \in \mathcal{K}$ $E \|(g(x) - \nabla f(x)) - (g(y) - \nabla f(y))\|^2 \le \frac{1}{m} (\sigma_L^2 + \frac{M - m}{M - 1}\xi_L^2) \|x - y\|^2, \forall x, y \in \mathcal{K}$",
    domain={
        "machines": integers(2, 5),
        "participants": integers(1, "machines"),
        "gradients": vector(linear(-1, 1), 10),
    },
    mutants=[{"replacement": True}],
    evaluations=128,
)
def lemma_21(machines: int, participants: int, gradients: Array, replacement: bool = False) -> Sides:
    """An identity, with the mean variance and ξ² at the point in place of their bounds; M >= 2."""
    values = gradients[: 2 * machines].reshape(machines, 2)
    sigma, xi = math.sqrt(values.var(axis=1).mean()), math.sqrt(values.mean(axis=1).var())
    big = machines + 1 if replacement else machines
    exact = sampling_variance(sigma, xi, machines=big, participants=participants)
    return 1 + enumerated_variance(values, participants), 1 + exact


@PAPER.identity(
    "Equation (10)",
    printed=r"Upon choosing $\beta_t = 1 - \frac{\alpha_{t-1}}{\alpha_t}$, and denoting $q_t := \alpha_t d_t$, the gradient estimate update of $μ^2$ -SGD in Equation (9) can be written as follows (proof in Appendix C.1): $s_t := \alpha_t \nabla f(x_t; z_t) - \alpha_{t-1} \nabla f(x_{t-1}; z_t)$ $q_t = q_{t-1} + s_t$",
    domain={"now": vector(linear(-1, 1), 6), "then": vector(linear(-1, 1), 6)},
    mutants=[{"shift": 1}],
)
def equation_10(now: Array, then: Array, shift: int = 0) -> Sides:
    """For any gradients at x_t and x_{t−1}."""
    d = 0.0
    q = 0.0
    momentum = []
    sums = []
    for t in range(1, now.size + 1):
        beta = 1 - (t - 1) / (t + shift)
        d = now[t - 1] + (1 - beta) * (d - then[t - 1])
        q += t * now[t - 1] - (t - 1) * then[t - 1]
        momentum.append(t * d)
        sums.append(q)
    return np.array(momentum) + 100, np.array(sums) + 100


@PAPER.inequality(
    "Lemma 4.2 (norm)",
    proof="docs/noise-cancellation-proofs.md#sensitivity",
    printed=r"Let $\mathcal{K} \subset \mathbb{R}^d$ be a convex set of diameter D, and $\{f_i(\cdot; z)\}_{z \in \mathcal{Z}_i}$ be a family of convex G-Lipschitz and L-smooth functions. Assume $\alpha_t = t$ and define S := G + 2LD, $\tilde{\sigma} := \sigma + 2\sigma_L D$, $\tilde{\xi} := \xi + 2\xi_L D$: $||s_{t,i}|| \le S$",
    domain={**FAMILIES, "rounds": integers(1, 10**5, log=True)},
    sharp="factor",
    mutants=[{"factor": 0.9999}],
)
def lemma_42_norm(lipschitz: float, smoothness: float, diameter: float, rounds: int, factor: float = 1.0) -> Sides:
    r"""Attained is $S_t = G + 2LD \frac{t-1}{t+1}$, below S for every t, by the slope $G - L \max(x_t - x, 0)$ on [0, D] with
    $x_{t-1} = 0$ and $w_t = D$.  As printed, the proof bounds $\|w_t - x_t\|$ by D.
    """
    step = 2 * diameter / (rounds + 1)
    at_last = lipschitz
    at_first = lipschitz - smoothness * step
    return rounds * at_last - (rounds - 1) * at_first, factor * (lipschitz + 2 * smoothness * diameter)


@PAPER.identity(
    "Lemma 4.2 (attained)",
    printed=r"Assume $\alpha_t = t$ and define S := G + 2LD, $\tilde{\sigma} := \sigma + 2\sigma_L D$, $\tilde{\xi} := \xi + 2\xi_L D$: $||s_{t,i}|| \le S$",
    reading=r"the norms and changes that are attained after t rounds, $S_t$, $2 R_t$ and $2 S_t$, with which privacy is checked",
    independent="one side is the code that users call, the other one has the corrections of losses that are written out",
    domain={**FAMILIES, "rounds": integers(1, 1000, log=True)},
    mutants=[{"two": 1.999}],
)
def lemma_42_attained(lipschitz: float, smoothness: float, diameter: float, rounds: int, two: float = 2.0) -> Sides:
    """The slopes G and G − L x on [0, D], from 0 towards D; convex losses have opposite slopes at one end, 0 and ±L D between."""
    family = LossClass(lipschitz, smoothness, diameter)
    moved = diameter * two / (rounds + 1)
    steep = rounds * lipschitz - (rounds - 1) * (lipschitz - smoothness * moved)
    convex = 2 * (rounds * lipschitz - (rounds - 1) * (lipschitz - smoothness * moved / 2))
    changes = [float(family.shifts(rounds, losses=losses)) for losses in ("convex", "smooth")]
    found = [float(family.correction_norm(rounds)), *changes, family.published_norm]
    return found, [steep, convex, 2 * steep, lipschitz + 2 * smoothness * diameter]


AFFINE: dict[str, Any] = {
    "slopes": vector(linear(0, 1), 6),
    "offsets": vector(linear(-1, 1), 6),
    "participants": integers(1, 3),
    "size": log_scale(1e-2, 1e2),
    "diameter": log_scale(1e-2, 1e2),
    "alike": one_of("machines", "examples", "means", "none"),
}


@PAPER.inequality(
    "Lemma 4.2 (variance)",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"$E\|s_t - \bar{s}_t\|^2 \le \frac{1}{m}(\tilde{\sigma}^2 + \frac{M-m}{M-1} \tilde{\xi}^2)$",
    domain={
        **AFFINE,
        "rounds": integers(1, 10**5, log=True),
        "before": linear(0, "diameter"),
        "target": linear(0, "diameter"),
        "bends": one_of(False, True),
    },
    sharp="factor",
    mutants=[{"factor": 0.99}],
    evaluations=192,
)
def lemma_42_variance(
    participants: int, rounds: int, before: float, target: float, bends: bool, factor: float = 1.0, **losses: Any
) -> Sides:
    r"""Attained without curvature, and with any as $t \to \infty$.  $x_t$ is the average with weights t, which is compared, too.

    Three machines of two examples on [0, D], the step from any $x_{t-1}$ = ``before`` towards any $w_t$ = ``target``.  The
    losses are quadratic, or with ``bends`` only between $x_{t-1}$ and $x_t$ and linear elsewhere: then σ is that at $x_t$.
    """
    slope, at_last = affine_losses(**losses)
    diameter = losses["diameter"]
    last = before + 2 / (rounds + 1) * (target - before)
    last = diameter * twice(last / diameter, ((rounds - 1) * before + 2 * target) / (rounds + 1) / diameter)
    low, high = (min(before, last), max(before, last)) if bends else (0.0, diameter)
    s = at_last + (rounds - 1) * slope * (last - before)
    ends = [at_last + slope * (end - last) for end in (low, high)]  # both variances are convex, so largest at an end
    sigma = max(math.sqrt(end.var(axis=1).max()) for end in ends)
    xi = max(math.sqrt(end.mean(axis=1).var()) for end in ends)
    sigma += 2 * math.sqrt(slope.var(axis=1).max()) * diameter
    xi += 2 * math.sqrt(slope.mean(axis=1).var()) * diameter
    bound = sampling_variance(sigma, xi, machines=3, participants=participants)
    if bound < _NO_VARIANCE * losses["size"] ** 2:
        return math.nan, math.nan
    return enumerated_variance(s, participants), factor * bound


@PAPER.inequality(
    "Lemma 4.3",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    rests_on=("Lemma 4.2 (variance)",),
    printed=r"Algorithm 1 with weights $\alpha_t = t$ ensures: $E \| \varepsilon_t \|^2 := E \| q_t - \alpha_t \nabla f(x_t) \|^2 \le \frac{t}{m} (\tilde{\sigma}^2 + \frac{M - m}{M - 1} \tilde{\xi}^2)$",
    domain={**AFFINE, "steps": vector(linear(0, 1), 4), "steep": one_of(0.0, 1.0, 10.0)},
    sharp="factor",
    mutants=[{"factor": 0.5}],
    evaluations=192,
)
def lemma_43(slopes: Array, participants: int, steps: Array, steep: float, factor: float = 1.0, **losses: Any) -> Sides:
    r"""By (15) and Lemma A.2 the variance of $\varepsilon_t$ is the sum of those of $s_\tau$; attained without curvature.

    Quadratic losses on [0, D], three machines of two examples, four rounds of any path.  Of $2 \sigma_L D$ in
    $\tilde{\sigma}$ machines that are all alike need 0.29 $\sigma_L D$ in four rounds, and 0.44 in thirty.
    """
    h, b = affine_losses(steep * slopes, **losses)
    variance, sigma, xi = affine_case(h, b, steps, participants, losses["diameter"])
    bound = sampling_variance(sigma, xi, machines=3, participants=participants)
    if bound < _NO_VARIANCE * losses["size"] ** 2:
        return math.nan, math.nan
    return variance.sum(), factor * steps.size * bound


@PAPER.identity(
    "Equation (15)",
    printed=r"the error of of our weighted corrected momentum estimate $\varepsilon_t := q_t - \alpha_t \nabla f(x_t)$. Note that the update rule for $ε_t$ is (proof in Appendix D.3): $\varepsilon_t = \varepsilon_{t-1} + (s_t - \bar{s}_t)$",
    domain={"drawn": vector(linear(-1, 1), 10), "means": vector(linear(-1, 1), 6)},
    mutants=[{"weight": 1.001}],
)
def equation_15(drawn: Array, means: Array, weight: float = 1.0) -> Sides:
    """For any gradients: ``drawn`` are those of the examples at x_t and x_{t−1}, ``means`` those of f at x_0, …, x_5."""
    t = np.arange(1, 6)
    s = t * drawn[:5] - (t - 1) * drawn[5:]
    error = np.cumsum(s) - t * means[1:]
    mean_step = weight * t * means[1:] - (t - 1) * means[:-1]
    return error + 100, np.cumsum(s - mean_step) + 100


@PAPER.inequality(
    "Section 5.3 (smoothness)",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"We ran Algorithm 1 on MNIST using a logistic regression. The parameters are $G = \sqrt{2 \cdot 785} = 39.6, L = 785/2 =$ 392.5",
    reading=r"$L = 785/2$ for softmax regression with $\|x\|^2 \le 785$",
    domain={"weights": vector(log_scale(1e-9, 1), 4)},
    sharp="half",
    mutants=[{"half": 0.499}],
)
def softmax_smoothness(weights: Array, half: float = 0.5) -> Sides:
    r"""The Hessian is $(\mathrm{diag}\, p - p p^T) \otimes x x^T$; its largest eigenvalue is 1/2 at two equal probabilities."""
    p = weights / weights.sum()
    return float(np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))[-1]), half


@PAPER.identity(
    "Section 5.3 (constants)",
    printed=r"The parameters are $G = \sqrt{2 \cdot 785} = 39.6, L = 785/2 =$ 392.5, D = 0.1, which brings us S = 118.1.",
    domain={"digits": integers(1, 1)},
    tolerance=1e-6,
    mutants=[{"smoothness": 785.0}],
)
def experiment_constants(digits: int, smoothness: float = 392.5) -> Sides:
    r"""S = 118.1232.  No image attains G: a softmax error has norm at most $\sqrt{2}$, in the limit, and an image less than 785."""
    return np.array([LossClass(1570**0.5, smoothness, 0.1).published_norm, 1570**0.5]), np.array(
        [118.12322553, 39.62322551]
    )


def delayed_error(rounds: int, probability: float) -> float:
    """E of the sum of the squared gaps of the participations until round t, given that there is one in round t."""
    error = np.zeros(rounds + 1)
    for t in range(1, rounds + 1):
        gaps = np.arange(1, t)
        weights = probability * (1 - probability) ** (gaps - 1)
        error[t] = weights @ (error[t - gaps] + gaps**2) + (1 - probability) ** (t - 1) * t**2
    return float(error[rounds])


@PAPER.inequality(
    "Appendix G",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r'Note that τ is a geometric random variable with probability $p = \frac{m}{M}$. Nevertheless, to simplify the analysis let us look at the "average case", where $\tau = \frac{M}{m}$ … Thus, in total, we get: $E \|\varepsilon_t\|^2 = \frac{1}{m^2} \sum_{i \in \mathcal{M}_t} E \|\varepsilon_{t,i}\|^2 \le \frac{1}{m^2} \sum_{i \in \mathcal{M}_t} \frac{Mt}{m} \tilde{\sigma}^2 = \frac{Mt}{m^2} \tilde{\sigma}^2$',
    reading=r"the left side times $m$; $\tau$ is the gap between two rounds of a machine",
    repair=r"$\frac{2-p}{p} \tilde{\sigma}^2 t$ with $p = \frac{m}{M}$: the expectation over the gaps, not their mean",
    domain={"rounds": integers(1, 400, log=True), "probability": log_scale(0.05, 1)},
    as_printed={"mean_gap": True},
    counterexample={"rounds": 1200, "probability": 0.5},
    sharp="factor",
    mutants=[{"factor": 0.9}, {"mean_gap": True}],
    evaluations=64,
)
def appendix_g(rounds: int, probability: float, mean_gap: bool = False, factor: float = 1.0) -> Sides:
    r"""For additive noise of variance 1, without heterogeneity.  p = 1/2, t = 1200: 2.9967 t, printed 2 t.

    So Alternative 1 is worse than the simplified analysis says, which supports its conclusion.  With heterogeneity a term
    $t^2 \xi^2 \frac{M-m}{m(M-1)}$ is added, which does not shrink at all.
    """
    rate = 1 / probability if mean_gap else (2 - probability) / probability
    return delayed_error(rounds, probability), factor * rate * rounds


@PAPER.inequality(
    "Appendix G (heterogeneity)",
    proof="docs/noise-cancellation-proofs.md#short-proofs",
    printed=r"leads to the following additive term in the error bound, $\frac{2}{\alpha_{1:T}} D \sum_{\tau=1}^T \sqrt{E \|\varepsilon_\tau\|^2} \le \frac{4D}{T^2} \sqrt{\frac{M}{m}} \sum_{\tau=1}^T \sqrt{\frac{(\tilde{\sigma}^2 + \tilde{\xi}^2) \tau}{m}}$",
    reading=r"with heterogeneity, $\tilde{\sigma}^2 + \tilde{\xi}^2$ takes the place of $\tilde{\sigma}^2$ in the error of Alternative 1",
    repair=r"a term $t^2 \xi^2 \frac{M-m}{m(M-1)}$ is added, which no averaging over rounds makes smaller",
    domain={
        "machines": integers(2, 6),
        "participants": integers(1, "machines"),
        "gradients": vector(linear(-1, 1), 6),
        "rounds": integers(1, 400, log=True),
    },
    as_printed={"averaged": True},
    counterexample={"machines": 2, "participants": 1, "gradients": np.array([1.0, -1, 0, 0, 0, 0]), "rounds": 1200},
    mutants=[{"averaged": True}, {"factor": 0.99}],
    evaluations=96,
)
def appendix_g_heterogeneity(
    machines: int, participants: int, gradients: Array, rounds: int, averaged: bool = False, factor: float = 1.0
) -> Sides:
    r"""Linear losses $\langle b_i, x \rangle$ without sampling noise, where $q_{t,i} = t b_i$ exactly: by all subsets.

    M = 2, m = 1, b = ±1, t = 1200: 1 440 000, printed 2400.
    """
    b = gradients[:machines]
    error = rounds**2 * enumerated_variance(b[:, np.newaxis], participants)
    xi = float(b.std())
    if averaged:
        return error, machines / participants * xi**2 * rounds / participants
    if xi < 1e-6 or participants == machines:
        return math.nan, math.nan
    exact = rounds**2 * sampling_variance(0.0, xi, machines=machines, participants=participants)
    return error, factor * exact * (1 + 1e-12)
