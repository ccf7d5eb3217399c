"""Section 4, Appendices C, E and F: privacy."""

import math

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.margins import twice
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.paper_checks.shuffled_gradients.runs import nonexpansive_run
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.shuffled_gradients import amplification, schedules
from corrnoise.theory.papers.shuffled_gradients.accountants import published_rho
from corrnoise.theory.papers.shuffled_gradients.exact_runs import gaussian_renyi_divergence, linear_run_separation
from corrnoise.theory.privacy import gaussian_epsilon

RUN = {"samples": integers(1, 12), "epochs": integers(1, 20), "place": linear(0, 1), "rate": log_scale(1e-4, 2)}


def position(schedule: schedules.Schedule, place: float) -> int:
    """A position of a private record, by a number in [0, 1]."""
    return 1 + min(int(place * schedule.private.max()), int(schedule.private.max()) - 1)


def exact_sum(schedule: schedules.Schedule, place: float, rate: float) -> float:
    """The amplification sum that mean estimation really has: (Σ w s)²/Σ w² with all contractions 1 − η."""
    s, noise, _ = amplification.run_steps(schedule, position(schedule, place))
    return linear_run_separation(s, noise, np.full(s.size, 1 - rate))


@PAPER.inequality(
    "Proposition C.4",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"If f is an (α, ϵ)-RDP mechanism, it also satisfies $(\epsilon + \frac{\log 1/\delta}{\alpha-1}, \delta)$-DP for any $0 < \delta < 1$.",
    domain={
        "order": log_scale(1.01, 100),
        "delta": log_scale(1e-12, 0.99),
        "chance": log_scale(1e-12, 0.999),
        "loss": log_scale(1e-2, 1e4),
    },
    outside="The orders of an RDP mechanism are above 1; the proof holds for all of them, and for every mechanism.",
    mutants=[{"share": 0.99}],
    evaluations=2048,
)
def proposition_c4(order: float, delta: float, chance: float, loss: float, share: float = 1.0) -> Sides:
    """Checked on mechanisms with two outputs; one has the probability p and the loss log(p/q) > 0.

    They attain δ up to the factor 1/α (1 − 1/α)^{α − 1} (0.945 at α = 1.01), as does the conversion of Canonne, Kamath
    and Steinke is sharper.
    """
    likely = math.log(chance) + (order - 1) * loss
    unlikely = order * math.log1p(-chance) - (order - 1) * math.log1p(-chance * math.exp(-loss))
    divergence = float(np.logaddexp(likely, unlikely)) / (order - 1)
    epsilon = divergence + share * math.log(1 / delta) / (order - 1)
    return chance * -math.expm1(min(epsilon - loss, 0.0)), delta


@PAPER.identity(
    "Proposition C.5",
    printed=r"Let $f : \mathcal{D} \to \mathcal{R}_1$ be $(α, ϵ_1)$-RDP and $g : \mathcal{R}_1 \times \mathcal{D} \to \mathcal{R}_2$ be $(α, ϵ_2)$-RDP, then the mechanism defined as (X, Y), where $X \sim f(D)$ and $Y \sim g(X, D)$, satisfies $(\alpha, \epsilon_1 + \epsilon_2)$-RDP.",
    domain={"order": linear(1.1, 8), "means": vector(linear(-2, 2), 2), "variance": log_scale(0.5, 2)},
)
def proposition_c5(order: float, means: Array, variance: float) -> Sides:
    """An equality for independent Gaussian mechanisms."""
    spread = np.diag([variance, 1.0])
    zero = np.zeros(2)
    parts = [
        gaussian_renyi_divergence(order, [m], [[v]], [0.0], [[v]]) for m, v in zip(means, np.diag(spread), strict=True)
    ]
    return gaussian_renyi_divergence(order, means, spread, zero, spread), sum(parts)


@PAPER.inequality(
    "Remark C.7",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"taking one gradient step of a convex and L-smooth objective f, i.e., $g(x) = x - \eta \nabla_{x} f(x)$, where the learning rate $\eta \le 2/L$, is contractive.",
    domain={"smoothness": log_scale(1e-3, 1e3), "share": linear(0, 1), "step": linear(0, 1)},
    outside=r"Nothing: $\eta L/2$ and the share of the curvature in $L$ lie in [0, 1], and no side depends on $L$.",
    mutants=[{"most": 2.01}],
)
def remark_c7(smoothness: float, share: float, step: float, most: float = 2.0) -> Sides:
    """|1 − η λ| <= 1 for every curvature 0 <= λ <= L.  Clipping can destroy it for general losses, not for these three."""
    return abs(1 - step * most / smoothness * share * smoothness), 1.0


@PAPER.inequality(
    "Remark C.7 (footnote 1)",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed="the Lipschitzness assumption can be removed by using gradient clipping [5] in practice.",
    repair="where clipped gradients are those of a convex function with the same smoothness: mean estimation, generalised "
    "linear models",
    domain={"angle": linear(0, 1.57), "kept": log_scale(1e-3, 1), "rate": linear(0, 2)},
    outside=r"Nothing: $0 \le \eta L \le 2$, clipping keeps at most all, and $I - \eta k (I - g g^\top)$ has the eigenvalues 1 and $1 - \eta k$ at every angle.",
    as_printed={"curvature": 0.01},
    counterexample={"angle": 0.62, "kept": 1.0, "rate": 1.0},
    evidence="counterexample",
    mutants=[{"curvature": 0.5}],
)
def clipping(angle: float, kept: float, rate: float, curvature: float = 1.0) -> Sides:
    """How much a clipped step stretches small differences: f = xᵀ diag(1, κ) x/2, a gradient clipped to ``kept`` of itself.

    κ = 0.01 (not mean estimation, which has κ = 1): a clipped gradient (0.41, 0.29), η = 1, stretches by 1.149.  The
    worst gradient stretches by 1.151.
    """
    m = arithmetic(angle, curvature)
    cos, sin, rate = m.cos(angle), m.sin(angle), rate * kept
    a, b = 1 - rate * sin * sin, rate * cos * sin * curvature  # the rows of I − η (I − g gᵀ) diag(1, κ), g = ∇f/‖∇f‖
    c, d = rate * cos * sin, 1 - rate * cos * cos * curvature
    norm = (m.sqrt((a + d) ** 2 + (b - c) ** 2) + m.sqrt((a - d) ** 2 + (b + c) ** 2)) / 2
    return norm, 1 + m.number("1e-12")


@PAPER.inequality(
    "Theorem C.9",
    proof="docs/shuffled-gradients-proofs.md#amplification-across-epochs",
    printed=r"Let $s_t := \sup_{x} \|g_t(x) - g'_t(x)\|$, where $\rho_t \sim \mathcal{N}(0, \sigma^2 \mathbb{I}_d)$ for all t. Let $a_1, \ldots, a_T$ be a sequence of reals and let $z_t := \sum_{i \le t} s_i - \sum_{i \le t} a_i$. If $z_t \ge 0$ for all t and $z_T = 0$, then $D_\alpha(X_T \| X'_T) \le \sum_{t=1}^T \frac{\alpha a_t^2}{2\sigma^2}$",
    domain={
        "sensitivities": vector(linear(0, 1), 6),
        "noise": vector(log_scale(0.1, 2), 6),
        "contraction": linear(0.3, 1),
    },
    mutants=[{"factor": 0.99}],
)
def theorem_c9(sensitivities: Array, noise: Array, contraction: float, factor: float = 1.0) -> Sides:
    """With the best plan a_t (a taut string), also for contractions below 1; attained by linear maps."""
    s = np.where(sensitivities < 0.5, 0, sensitivities)
    exact = linear_run_separation(s, noise, np.full(6, contraction))
    return exact, factor * amplification.best_plan_cost(s, noise, contraction)


@PAPER.identity(
    "Theorem C.9 (linear maps)",
    printed=r"Let $s_t := \sup_{x} \|g_t(x) - g'_t(x)\|$, where $\rho_t \sim \mathcal{N}(0, \sigma^2 \mathbb{I}_d)$ for all t.",
    reading="the distance of two runs over their variance, for linear maps, with which the theorem is checked",
    independent="one side goes through the steps, the other one has products of contractions by logarithms",
    domain={
        "contractions": vector(linear(-1, 1), 5),
        "sensitivities": vector(linear(0, 1), 5),
        "noise": vector(log_scale(0.1, 2), 5),
    },
    mutants=[{"power": 1.99}],
)
def linear_maps(contractions: Array, sensitivities: Array, noise: Array, power: float = 2.0) -> Sides:
    """The runs are apart by a constant over a standard deviation; 1 is added."""
    apart = 0.0
    variance = 0.0
    for c, s, tau in zip(contractions, sensitivities, noise, strict=True):
        apart = c * apart + s
        variance = c**2 * variance + tau**2
    return 1 + linear_run_separation(sensitivities, noise, contractions), 1 + abs(apart) ** power / variance


@PAPER.inequality(
    "Theorem C.9 (over all epochs)",
    rests_on=["Theorem C.9"],
    proof="docs/shuffled-gradients-proofs.md#amplification-across-epochs",
    printed=r"If $z_t \ge 0$ for all t and $z_T = 0$, then $D_\alpha(X_T \| X'_T) \le \sum_{t=1}^T \frac{\alpha a_t^2}{2\sigma^2}$",
    reading="for the contractive noisy iterations of a whole run",
    domain=RUN,
    mutants=[{"factor": 0.97}],
)
def theorem_c9_over_all_epochs(samples: int, epochs: int, place: float, rate: float, factor: float = 1.0) -> Sides:
    r"""The n K steps of a run are one such iteration: $\sum a_t^2$ is A = (K − 1)/n + 1/(n − j + 1) in units of (2 η G)².

    Against exact Gaussian runs of mean estimation.  The paper has the theorem for each epoch, and composes.
    """
    schedule = schedules.dp_shuffled(samples, epochs=epochs)
    return exact_sum(schedule, place, rate), factor * amplification.amplification_sum(
        schedule, position(schedule, place)
    )


@PAPER.inequality(
    "Lemma 4.2",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    rests_on=["Lemma E.3", "Proposition C.4"],
    printed=r"Under Assumptions 3.1, 3.2 and 3.3, given the learning rate $\eta \le 1/L$, DP-ShuffleG is $(\frac{2\alpha G^2 K}{\sigma^2} + \frac{\log 1/\delta}{\alpha-1}, \delta)$-DP, for $\alpha > 1, \delta \in (0, 1)$",
    reading=r"as Lemma E.2: $(\alpha, 2 \alpha G^2 K/\sigma^2)$-RDP",
    domain=RUN,
    sharp="factor",
    mutants=[{"factor": 0.95}],
)
def lemma_42(samples: int, epochs: int, place: float, rate: float, factor: float = 1.0) -> Sides:
    """True; it is the composition of one Gaussian step an epoch, and needs neither convexity nor small steps."""
    schedule = schedules.dp_shuffled(samples, epochs=epochs)
    return exact_sum(schedule, place, rate), factor * float(amplification.epoch_amplification_sums(schedule).max())


@PAPER.identity(
    "Appendix E.2 (tightness)",
    printed="For Incremental Gradient Methods (IG) and Shuffle Once (SO), it is not hard to see that the worst-case privacy loss bound presented above is tight.",
    repair=r"for one epoch or one sample, or if the iterate of every epoch is released; with the last one released it is "
    r"$2 \alpha G^2 A/\sigma^2$, $A = \frac{K-1}{n} + 1$, for a given order, and smaller still for a secret permutation",
    domain={"samples": integers(1, 12), "epochs": integers(1, 20)},
    as_printed={"across": False},
    counterexample={"samples": 10, "epochs": 50},
    mutants=[{"extra": 1e-6}],
)
def tightness(samples: int, epochs: int, across: bool = True, extra: float = 0.0) -> Sides:
    """The bound of the whole run, and a run that attains it.  n = 10, K = 50: 5.9 suffices where 50 is printed.

    The run forgets all noise before the record's first use, keeps everything between, and contracts by n at the last use.
    """
    schedule = schedules.dp_shuffled(samples, epochs=epochs)
    s, noise, contractions = amplification.run_steps(schedule, samples)
    contractions[-1] /= samples
    contractions[samples - 1] = 0.0
    attained = linear_run_separation(s, noise, contractions)
    whole = nonexpansive_run(schedule).accountant("whole-run").sums[0]
    return np.array([whole, attained]), (epochs - 1) / samples + 1 + extra if across else float(epochs)


@PAPER.inequality(
    "Section 4 (across epochs)",
    proof="docs/shuffled-gradients-proofs.md#amplification-across-epochs",
    printed="the regularization step at the end of each epoch (line 14 of Algorithm 1) need not be contractive. This prevents us from using PABI across epochs.",
    domain={"samples": integers(2, 2000, log=True), "epochs": integers(2, 1000, log=True)},
    counterexample={"samples": 1000, "epochs": 50},
    mutants=[{"share": 0.99}],
    evaluations=64,
)
def across_epochs(samples: int, epochs: int, share: float = 1.0) -> Sides:
    """As printed, that no less than K can be claimed: n = 1000, K = 50 has A = 1.049.

    Proximal maps of convex functions never expand, so A = (K − 1)/n + 1/(n − j + 1) for position j of a given order: see
    Theorem C.9 (over all epochs).
    """
    return share * epochs, nonexpansive_run(schedules.dp_shuffled(samples, epochs=epochs)).accountant("whole-run").sums[
        0
    ]


def many_records(constant: float) -> dict[str, float]:
    """So many records that reshuffling takes ``constant`` times less variance, see ``reshuffling``."""
    scale, exponent = _reshuffled_loss(constant)
    return {"log_samples": 2 * max(math.log(2 * scale) + exponent, 0.0) + 10, "exponent": 1.0}


def _reshuffled_loss(constant: float) -> tuple[float, float]:
    """K α r and x = α (α − 1) r, for r = C ρ/K, α = 1 + 2 log(1/δ)/ε, at ε = 1, δ = 1e-6 and K = 50."""
    order = 1 + 2 * math.log(1e6)
    ratio = constant * published_rho(1.0, 1e-6)
    return order * ratio, order * (order - 1) * ratio / 50


@PAPER.inequality(
    "Appendix E.2 (reshuffling)",
    printed=r"we argue that this potential improvement is limited to a constant level. Deriving a significantly smaller privacy loss bound in the RR setting – such as one that scales proportionally to $1/n$ – is unlikely without additional assumptions.",
    reading="the improvement is a factor that does not depend on n",
    repair=r"at order α and noise σ, with $x = \frac{2 \alpha (\alpha - 1) G^2}{\sigma^2}$ and the harmonic number $H_n$, the bound of one reshuffled "
    r"epoch over that of a given order lies between $\frac{H_n}{n}$ and $\min\{1, e^x \frac{H_n}{n}\}$",
    proof="docs/shuffled-gradients-proofs.md#rates",
    disproof="docs/shuffled-gradients-proofs.md#rates",
    rests_on=["Lemma E.3", "Theorem C.9"],
    constants={"constant": "unspecified"},
    counterexample=many_records,
    domain={"log_samples": linear(0, 11), "exponent": log_scale(1e-3, 30)},
    mutants=[{"low": 1.001}, {"high": 0.999}],
    evaluations=256,
)
def reshuffling(
    log_samples: float,
    exponent: float,
    constant: float = 1.0,
    low: float = 1.0,
    high: float = 1.0,
    published: bool = False,
) -> Sides:
    r"""For n bounded the gain is a constant, at most $n/H_n$; for fixed α and σ it is of order $n/\log n$.

    n = 100, x = 1: 0.05187377518 <= 0.0607242206188 <= 0.1410075404.  As printed the sides are ε = 1 and its bound for a reshuffled run
    of K = 50 epochs with C times less variance than a given order needs, δ = 1e-6.  The bound reaches 1 at log₁₀ n = 3.1125575,
    40.462141 and 125.49911 for C = 10, 300, 1000, and falls as n grows.
    """
    if published:
        scale, growth = _reshuffled_loss(constant)
        return 1.0, 0.5 + math.exp(min(math.log(scale) + growth + math.log1p(log_samples) - log_samples, 700.0))
    positions = np.arange(1.0, round(math.exp(log_samples)) + 1)
    harmonic = float((1 / positions).mean())
    ratio = float(np.log1p(np.expm1(exponent / positions).mean())) / exponent
    return np.array([low * harmonic, ratio]), np.array([ratio, high * min(1.0, math.exp(exponent) * harmonic)])


@PAPER.inequality(
    "Lemma E.2",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    rests_on=["Lemma E.3", "Proposition C.4"],
    printed=r"DP-ShuffleG is $(\frac{2 \alpha G^2 K}{\sigma^2} + \frac{\log 1/\delta}{\alpha - 1}, \delta)$-DP",
    domain={
        "epochs": integers(1, 100, log=True),
        "multiplier": log_scale(0.5, 100),
        "order": log_scale(1.01, 100),
        "delta": log_scale(1e-12, 0.5),
    },
    mutants=[{"share": 0.5}],
    evaluations=256,
)
def lemma_e2(epochs: int, multiplier: float, order: float, delta: float, share: float = 1.0) -> Sides:
    """The composition of K Gaussian mechanisms, whose curve is exact, converted by Proposition C.4."""
    budget = nonexpansive_run(schedules.dp_shuffled(5, epochs=epochs)).accountant("per-step").zcdp(multiplier)
    return gaussian_epsilon(budget, delta), budget * order + share * math.log(1 / delta) / (order - 1)


@PAPER.inequality(
    "Lemma E.3",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    printed=r"Let $μ_1, \ldots, μ_m$ and $ν_1, \ldots, ν_m$ be distributions over $\mathbb{R}^d$. Then, for any RDP order $\alpha \ge 1$, and any coefficients $p_1, \ldots, p_m \ge 0$ that satisfy $p_1 + \ldots + p_m = 1$, the following inequality holds $e^{(\alpha-1)D_\alpha(\sum_{j=1}^m p_j \mu_j \| \sum_{j=1}^m p_j \nu_j)} \le \sum_{j=1}^m p_j \cdot e^{(\alpha-1)D_\alpha(\mu_j \| \nu_j)}$",
    domain={
        "order": linear(1, 12),
        "share": linear(0, 1),
        "first": vector(log_scale(0.01, 1), 6),
        "second": vector(log_scale(0.01, 1), 6),
    },
    mutants=[{"factor": 0.999}],
)
def lemma_e3(order: float, share: float, first: Array, second: Array, factor: float = 1.0) -> Sides:
    """Two pairs of distributions on three points; a mixture is a distribution, too."""
    mu, nu = (rows.reshape(2, 3) / rows.reshape(2, 3).sum(axis=1, keepdims=True) for rows in (first, second))
    p = np.array([share, 1 - share])
    mixed = np.sum((p @ mu) ** order * (p @ nu) ** (1 - order))
    mixed *= twice(float((p @ mu).sum()), 1.0)
    return mixed, factor * float(p @ np.sum(mu**order * nu ** (1 - order), axis=1))


def dominated(constant: float) -> dict[str, float]:
    """Two records, and so large an x that ``constant`` · exp(−x/2) is small."""
    x = 10 + 2 * math.log1p(constant)
    return {"samples": 2, "order": 29.0, "multiplier": math.sqrt(2 * 29 * 28 / x)}


@PAPER.inequality(
    "Lemma E.3 (S_n)",
    printed=r"Consequently, the upper bound on $\epsilon_{\text{per-epoch}}^{(k)}$ becomes $\frac{1}{\alpha-1} \log S_n \approx \frac{2 \alpha G^2}{\sigma^2} - \log n$",
    hypotheses=(
        r"When n is small, the term S_n in bound is dominated by $e^{(\alpha-1) \frac{2\alpha G^2}{\sigma^2}}$ and $\frac{1}{n}$",
    ),
    reading=r"the sides differ by at most C times what is dominated, $\frac{n - 1}{\alpha - 1} e^{-x/2}$, $x = \frac{2 \alpha (\alpha - 1) G^2}{\sigma^2}$",
    repair=r"$\frac{1}{\alpha-1} \log S_n = \frac{2 \alpha G^2}{\sigma^2} - \frac{\log n}{\alpha - 1} + \theta$ with "
    r"$0 \le \theta \le \frac{1}{\alpha - 1} \log(1 + (n - 1) e^{-x/2})$",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    disproof="docs/shuffled-gradients-proofs.md#short-proofs",
    independent="the divergence comes from the accountant of the package, and its two bounds from a formula",
    domain={"samples": integers(1, 50), "order": linear(1.5, 30), "multiplier": log_scale(3, 100)},
    constants={"constant": "unspecified"},
    as_printed={"approximate": True},
    counterexample=dominated,
    mutants=[{"shift": 1}, {"half": 0.55}],
)
def lemma_e3_mixture(
    samples: int,
    order: float,
    multiplier: float,
    approximate: bool = False,
    shift: int = 0,
    half: float = 0.5,
    constant: float = 1.0,
) -> Sides:
    r"""The factor 1/(α − 1) of log n is lost between $S_n \approx \frac{1}{n} e^x$ and the next display.

    n = 2, α = 29, x = 10: exactly 0.332627434569, repaired 0.332387600694, printed −0.336004323417, although $S_n \ge 1$.  For fixed n
    and $x \to \infty$ the error of the printed form tends to $\frac{\alpha - 2}{\alpha - 1} \log n$, that of the repaired one to 0.
    """
    found = nonexpansive_run(schedules.dp_shuffled(samples, epochs=1), "reshuffled").accountant("epochs reshuffled")
    exact = found.renyi_divergence(order, multiplier)
    size = order * 2 / multiplier**2
    x = (order - 1) * size
    if approximate:
        return abs(exact - (size - math.log(samples))), constant * (samples - 1) * math.exp(-x / 2) / (order - 1)
    repaired = size - math.log(samples + shift) / (order - 1)
    most = math.log1p((samples - 1) * math.exp(-half * x)) / (order - 1)
    return np.array([repaired, exact]), np.array([exact, repaired + most])


@PAPER.inequality(
    "Lemma F.2",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    rests_on=["Theorem C.9", "Lemma E.3"],
    printed=r"Under Assumptions 3.1, D.1 and 3.3, if the learning rate is $\eta \le 1/L^*$, - Priv-Pub-ShuffleG is $(\frac{2\alpha G^2 S}{(\sigma_{\mathrm{pup}})^2} + \frac{\log 1/\delta}{\alpha-1}, \delta)$-DP. - Pub-Priv-ShuffleG is $(\frac{2\alpha G^2 (K-S)}{(\sigma_{\mathrm{pup}})^2} + \frac{\log 1/\delta}{\alpha-1}, \delta)$-DP. and if the learning rate is $\eta \le 1/\max\{L^*, \tilde{L}^*\}$, - Interleaved-ShuffleG is $(\frac{2\alpha(G^*)^2 K}{(n+1-n_d)(\sigma_{\mathrm{int}})^2} + \frac{\log 1/\delta}{\alpha-1}, \delta)$-DP.",
    domain={
        "kind": one_of("private first", "public first", "interleaved"),
        "samples": integers(2, 12),
        "epochs": integers(2, 12),
        "part": linear(0, 1),
        "place": linear(0, 1),
        "rate": log_scale(1e-4, 2),
    },
    mutants=[{"factor": 0.95}],
)
def lemma_f2(
    kind: str, samples: int, epochs: int, part: float, place: float, rate: float, factor: float = 1.0
) -> Sides:
    """True for G the Lipschitz constant of private losses alone, printed G*; the first two need no small steps."""
    share = 1 + int(part * (epochs - 2))
    count = 1 + int(part * (samples - 1))
    makers: dict[str, tuple[schedules.Schedule, float]] = {
        "private first": (schedules.private_then_public(samples, epochs=epochs, private_epochs=share), float(share)),
        "public first": (schedules.public_then_private(samples, epochs=epochs, private_epochs=share), float(share)),
        "interleaved": (
            schedules.interleaved(samples, epochs=epochs, private_per_epoch=count),
            epochs / (samples + 1 - count),
        ),
    }
    schedule, bound = makers[kind]
    return exact_sum(schedule, place, rate), factor * bound


def printed_loss(epsilon: float, delta: float, constant: float) -> float:
    """The ε at the printed order of Table 4, with σ² = C G² S log(1/δ)/ε²: L (q + q/(1 − q)), infinite for orders up to 1."""
    logarithm = math.log(1 / delta)
    share = epsilon / logarithm / math.sqrt(constant / 2)  # one over the order
    return logarithm * (share + share / (1 - share)) if share < 1 else math.inf


@PAPER.inequality(
    "Table 4",
    printed=r"$\alpha = \frac{\sigma_{\mathrm{prp}} \sqrt{\log 1/\delta}}{G\sqrt{2S}}$ $(\sigma_{\text{prp}})^2 = \mathcal{O}(\frac{G^2 S \log 1/\delta}{\epsilon^2})$ … $\alpha = \frac{\sigma_{\mathrm{pup}} \sqrt{\log 1/\delta}}{G\sqrt{2(K-S)}}$ $(\sigma_{\text{pup}})^2 = \mathcal{O}(\frac{G^2 (K-S) \log 1/\delta}{\epsilon^2})$ … $\alpha = \frac{\sigma_{\mathrm{int}} \sqrt{(n+1-n_d) \log 1/\delta}}{G^* \sqrt{2K}}$ $(\sigma_{\text{int}})^2 = \mathcal{O}(\frac{(G^*)^2 K \log 1/\delta}{\epsilon^2 (n+1-n_d)})$ … Table 4: Choices of the order α in the RDP bound (Lemma F.2) and the resulting amount of noise required for each algorithm to ensure the output $x_1^{(K+1)}$ satisfies (ϵ, δ)-DP.",
    reading=r"for $\epsilon \le \frac{3}{2} \log \frac{1}{\delta}$, which contains all settings of the paper (ε <= 10, δ = 1e-6)",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    rests_on=["Lemma F.2"],
    constants={"constant": "unspecified"},
    domain={"share": log_scale(1e-3, 1.5), "delta": log_scale(1e-12, 0.5)},
    sharp="constant",
    mutants=[{"constant": 17.9}, {"two": 2.1}],
)
def table_4(share: float, delta: float, constant: float = 18.0, two: float = 2.0) -> Sides:
    r"""``share`` is ε/log(1/δ).  ε = 10, δ = 1e-6 and the constant 18 spend 7.726666977; the three rows are one formula.

    No constant serves all ε and δ: with $u = \sqrt{C/2}$ and ε = (1 + u) log(1/δ) the printed order is below 1.
    """
    epsilon = share * math.log(1 / delta)
    return printed_loss(epsilon, delta, constant * 2 / two), epsilon * (1 + 1e-12)


@PAPER.inequality(
    "Appendix F.3 (optimal order)",
    printed=r"We begin by determining the optimal order α in the RDP bound that minimizes the privacy loss, and the resulting amount of noise required for each algorithm to ensure the algorithm satisfies (ϵ, δ)-DP, as summarized in Table 4.",
    reading=r"no order has a smaller $\rho \alpha + \frac{L}{\alpha - 1}$ than the order $\sqrt{L/\rho}$ of Table 4, ρ the zCDP budget and $L = \log(1/\delta)$",
    repair=r"$\alpha = 1 + \sqrt{L/\rho}$",
    proof="docs/shuffled-gradients-proofs.md#short-proofs",
    disproof="docs/shuffled-gradients-proofs.md#short-proofs",
    domain={"share": log_scale(1e-4, 0.99), "delta": log_scale(1e-12, 0.5), "factor": log_scale(1e-2, 1e2)},
    as_printed={"one": 0.0},
    counterexample={"share": 0.5, "delta": 1e-6, "factor": 1.0},
    mutants=[{"one": 0.9}, {"one": 1.1}],
    tolerance=1e-9,
)
def optimal_order(share: float, delta: float, factor: float, one: float = 1.0) -> Sides:
    r"""``share`` is $q = \sqrt{\rho/L} < 1$; compared is any other order, $1 + $ ``factor`` $/q$.

    The printed order costs $L (q + \frac{q}{1 - q})$, the best one $L (q^2 + 2q)$: the excess is $L \frac{q^3}{1 - q} > 0$ for every ρ and δ.
    """
    logarithm = math.log(1 / delta)

    def loss(above: float) -> float:
        """The loss at the order 1 + ``above``."""
        return logarithm * (share**2 * (1 + above) + 1 / above) if above > 0 else math.inf

    return loss(one + 1 / share - 1), loss(factor / share)
