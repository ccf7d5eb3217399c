"""Results of this project beyond the papers: bounds for any inputs, the integrals of ν-DP-FTRL, finite time.

Proofs are in ``docs/exact-errors.md``.
"""

import math
from typing import Any

import numpy as np

from corrnoise.paper_checks.correlated_noise.oracles import ANY_INPUTS, CLIP_NORMS, budget
from corrnoise.paper_checks.machinery import enclosures
from corrnoise.paper_checks.machinery.domains import linear, log_scale, noises, one_of, regressions, spectra, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.machinery.quadrature import circle_integral, modulus_at
from corrnoise.paper_checks.own_results.oracles import at_share
from corrnoise.paper_checks.own_results.paper import PAPER
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import elliptic
from corrnoise.theory.numerics.arithmetic import arithmetic
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.correlated_noise import published_bounds as bounds
from corrnoise.theory.problems.quadratic import LinearRegression

PROOFS = "docs/exact-errors.md"

QUIET = {"problem": regressions(residual_std=0.0)}


@PAPER.inequality(
    "N1",
    printed=r"$\frac{a}{4} \le F_\infty \le \frac{a}{2 (2 - \eta R^2)}$, $a = \eta (\sigma_{sgd}^2 \mathrm{Tr}[H] + \sigma^2 \sum_j b_j)$, if $E \|x\|^2 x x^\top \preceq R^2 H$ and $\eta R^2 < 2$",
    proof=f"{PROOFS}#n1-bounds-for-any-inputs",
    domain={
        "problem": regressions(largest=1.9, kurtosis=(1, 1000), multiplicity=10_000),
        "noise": noises(),
        "clip_norm": CLIP_NORMS,
    },
    mutants=[{"low": 1.001}, {"high": 0.999}, {"gaussian": True}],
    evaluations=256,
)
def n1(
    problem: LinearRegression,
    noise: ToeplitzNoise,
    clip_norm: float,
    low: float = 1.0,
    high: float = 1.0,
    gaussian: bool = False,
) -> Sides:
    """The upper bound is an equality for isotropic Gaussian inputs.  The lower one is approached as η → 0.

    With R² = Tr H + 2 ‖H‖, as for Gaussian inputs, it is false for inputs of larger kurtosis.
    """
    r2 = problem.trace + 2 * float(problem.eigenvalues.max()) if gaussian else problem.moment_bound
    upper = problem.upper_bound(noise, budget=budget(clip_norm), moment_bound=r2)
    quarter = (
        problem.upper_bound(noise, budget=budget(clip_norm)) * (2 - problem.learning_rate * problem.moment_bound) / 2
    )
    error = problem.stationary_error(noise, budget=budget(clip_norm))
    return np.array([low * quarter, error]), np.array([error, high * upper])


@PAPER.inequality(
    "N1 (dependent coordinates)",
    printed="N1 for inputs of which one coordinate is not 0, the $j$th with probability $p_j$",
    proof=f"{PROOFS}#n1-bounds-for-any-inputs",
    independent="both sides weight the same drive, and the statement holds for any drive",
    domain={
        "eigenvalues": spectra(4, 1e4, multiplicity=1000),
        "weights": vector(log_scale(1e-3, 1), 4),
        "share": log_scale(1e-6, 1.99),
        "residual_std": linear(0, 10),
        "noise": noises(),
    },
    mutants=[{"low": 1.001}, {"high": 0.999}],
    evaluations=256,
)
def n1_one_coordinate(
    eigenvalues: Array,
    weights: Array,
    share: float,
    residual_std: float,
    noise: ToeplitzNoise,
    low: float = 1.0,
    high: float = 1.0,
) -> Sides:
    """Then x_j² = λ_j/p_j, R² = max λ_j/p_j, and λ_j E (θ − θ*)_j² = η (s² λ_j + σ² b_j)/(2 − x_j/p_j) exactly, each direction alone.

    For p_j = λ_j/Tr H the upper bound is an equality.  So is the third inequality, Jensen's: the error is at least half the sum
    of the drive over 2 less the mean of x_j/p_j, weighted with the drive.
    """
    shares = np.resize(weights, eigenvalues.size) * eigenvalues
    p = shares / shares.sum()
    r2 = float((eigenvalues / p).max())
    problem = LinearRegression(eigenvalues, share / r2, residual_std)
    drive = problem.learning_rate * problem.drive(noise, noise.variance())
    error = float((drive / (2 - problem.rates / p)).sum()) / 2
    upper = problem.upper_bound(noise, moment_bound=r2)
    total = float(drive.sum())
    mean = problem.learning_rate * float((drive / np.resize(weights, drive.size)).sum() * shares.sum()) / total
    return np.array([low * total / 4, error, low * total / (2 - mean) / 2]), np.array([error, high * upper, error])


@PAPER.inequality(
    "N2",
    printed=r"$\min_\beta F_\infty \ge \frac{\eta}{4} \sigma_{sgd}^2 \mathrm{Tr}[H] + \frac{\eta^2 G^2}{4 \rho} \frac{(\sum_j \lambda_j \gamma_\infty^2(x_j))^2}{\mathrm{Tr}[H]}$",
    proof=f"{PROOFS}#n2-a-lower-bound-for-all-noise",
    rests_on=["N1"],
    domain={"problem": ANY_INPUTS, "clip_norm": CLIP_NORMS},
    sharp="factor",
    mutants=[{"factor": 1.001}],
    evaluations=256,
)
def n2(problem: LinearRegression, clip_norm: float, factor: float = 1.0) -> Sides:
    """The privacy part has a log² of the learning rate, as the upper bound of Theorem 2.2 does."""
    bound = bounds.average_log_lower_bound(problem, budget=budget(clip_norm))
    return factor * bound, problem.optimal_error(budget=budget(clip_norm))


@PAPER.inequality(
    "N3 (error)",
    printed=r"For $\nu \le \eta \mu$ and all $x_j < 1$: $F_\infty \le \frac{1}{2 - \eta R^2} (\frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H] + \frac{\eta^2 G^2 \log(8/\nu)}{\rho \log^2 8} "
    r"\min\{\frac{1}{2} \mathrm{Tr}[H] \log(8/\nu), \frac{2}{\pi} \sum_j \lambda_j \log(8/x_j)\})$",
    proof=f"{PROOFS}#n3-ν-dp-ftrl-with-its-constants",
    rests_on=["N3, sharpened (one direction)", "N1"],
    domain={
        "problem": regressions(largest=1.999, kurtosis=(1, 1000), multiplicity=10_000),
        "share": log_scale(1e-6, 1),
        "clip_norm": CLIP_NORMS,
    },
    sharp="factor",
    mutants=[{"factor": 0.999}, {"private": 0.43}],
    evaluations=256,
)
def n3(problem: LinearRegression, share: float, clip_norm: float, factor: float = 1.0, private: float = 0.502) -> Sides:
    """Only one of the two logarithms depends on ν.  Residuals alone make it an equality.

    Without residuals 0.116 log² 8 = 0.502 of the bound is enough, by "N3, sharpened (error)", which is checked too.
    """
    if problem.rates.max() >= 1:
        return math.nan, math.nan
    nu = share * float(problem.rates.min())
    without = LinearRegression(problem.eigenvalues, problem.learning_rate, residual_std=0.0, kurtosis=problem.kurtosis)
    errors = [one.stationary_error(NuFTRL(nu), budget=budget(clip_norm)) for one in (problem, without)]
    largest = [bounds.nu_ftrl_upper_bound(one, nu, budget=budget(clip_norm)) for one in (problem, without)]
    return np.array(errors), np.array([factor, private]) * largest


#: b and a with 0 < a <= b < 1
GAPS = {"b": log_scale(1e-300, 0.9999), "a": log_scale(1e-300, "b")}


@PAPER.inequality(
    "N3 (one logarithm)",
    printed=r"$I(\nu, x) \le \frac{8}{\log 8} \log(8/x)$ for $\nu \le x < 1$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
    rests_on=["I(a, b) (ends)", "γ (upper)"],
    domain=GAPS,
    outside=r"Up to $x = 1$ and below 1e-300 by the proof, which compares power series.",
    sharp="factor",
    mutants=[{"factor": 0.999}],
)
def n3_one_logarithm(b: float, a: float, factor: float = 1.0) -> Sides:
    """An equality as ν → 0 and x → 1."""
    return float(elliptic.modulus_ratio_integral(a, b)), factor * 8 / math.log(8) * math.log(8 / b)


@PAPER.inequality(
    "N3, sharpened (one direction)",
    printed=r"$\gamma_\infty^2(\nu) \frac{b(x)}{x} \le 0.232 \log(8/\nu) \log(8/x)$ for $\nu \le x < 1$",
    proof=f"{PROOFS}#n3-sharpened",
    domain={
        "depth": log_scale(enclosures.SHALLOWEST, enclosures.DEEPEST),
        "depth_nu": log_scale("depth", enclosures.DEEPEST),
    },
    evidence="certified",
    outside=r"For smaller $\nu$ by I(a, b) (ends) and Conjecture (means); the proof has the argument.",
    rests_on=["I(a, b) (ends)", "γ (slope)", "γ (lower)", "Conjecture (means)"],
    sharp="constant",
    mutants=[{"constant": "0.2316"}],
)
def n3_sharpened(depth: Any, depth_nu: Any, constant: str = "0.232") -> Sides:
    """In terms of log(8/x) and log(8/ν).  The quotient is largest at ν = x = 0.917: 0.23162."""
    m = arithmetic(depth)
    seen = (2 - enclosures.gap(depth)) * enclosures.ratio_integral(depth_nu, depth) / (2 * m.pi)  # b(x)/x
    return enclosures.inverse_mean_by_depth(depth_nu) * seen, m.number(constant) * depth


@PAPER.inequality(
    "N3, sharpened (error)",
    printed=r"For $\nu \le \eta \mu$: $F_\infty \le \frac{1}{2 - \eta R^2} (\frac{\eta \sigma_{sgd}^2}{2} \mathrm{Tr}[H] "
    r"+ 0.058 \frac{\eta^2 G^2}{\rho} \log(8/\nu) \sum_j \lambda_j \log(8/x_j))$ if all $x_j < 1$",
    proof=f"{PROOFS}#n3-sharpened",
    rests_on=["N3, sharpened (one direction)", "N1"],
    domain={
        "problem": regressions(largest=1.999, kurtosis=1.0, residual_std=0.0, multiplicity=10_000),
        "share": log_scale(1e-6, 1),
        "clip_norm": CLIP_NORMS,
    },
    sharp="constant",
    mutants=[{"constant": 0.0578}],
    evaluations=256,
)
def n3_sharpened_error(problem: LinearRegression, share: float, clip_norm: float, constant: float = 0.058) -> Sides:
    """By N1 and the other part, 0.058 = 0.232/4.  The bound is at most half of N3.

    Checked without residuals for random signs, whose ηλ_j may come near 1.
    """
    eta = problem.learning_rate
    x = problem.rates
    if x.max() >= 1:
        return math.nan, math.nan
    nu = share * float(x.min())
    logarithms = math.log(8 / nu) * float((problem.eigenvalues * np.log(8 / x)).sum())
    private = eta**2 * clip_norm**2 / budget(clip_norm).gaussian_rho
    bound = constant * private * logarithms / (2 - eta * problem.moment_bound)
    return problem.stationary_error(NuFTRL(nu), budget=budget(clip_norm)), bound


@PAPER.identity(
    "γ (closed form)",
    printed=r"$\gamma_\infty^2(\nu) = \frac{1}{\mathrm{agm}(\nu, 2 - \nu)}$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"nu": log_scale(1e-3, 1)},
    mutants=[{"two": 2.001}],
    tolerance=1e-12,
    evaluations=32,
)
def gamma_closed_form(nu: float, two: float = 2.0) -> Sides:
    """Compared with the sum of squares of the inverse coefficients, (½)_t/t! (1 − ν)^t, until they vanish."""
    series = NuFTRL(nu).inverse_coefficients(int(25 / nu) + 10)
    return float(np.square(series).sum()), 1 / float(elliptic.agm(nu, two - nu))


@PAPER.inequality(
    "γ (slope)",
    printed=r"$\gamma_\infty^2(a) - \gamma_\infty^2(b) \le \frac{1}{\pi} \log(b/a)$ for $0 < a \le b \le 1$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    domain={"b": log_scale(1e-290, 1), "ratio": log_scale(1e-10, 0.9)},
    outside=r"From $0.9 b$ to $b$ and below 1e-300 by the proof, which bounds the derivative by $\log(1/a)$.",
    sharp="factor",
    mutants=[{"factor": 0.9999}],
)
def gamma_slope(b: float, ratio: float, factor: float = 1.0) -> Sides:
    """a is ``ratio`` b.  The quotient of the sides tends to 1 as b → 0."""
    m = arithmetic(b, ratio)
    difference = elliptic.mean_inverse_modulus(b * ratio) - elliptic.mean_inverse_modulus(b)
    return difference, -factor * m.log(ratio) / m.pi


@PAPER.inequality(
    "γ (upper)",
    printed=r"$\gamma_\infty^2(\nu) \le \frac{1}{\log 8} \log(8/\nu)$ for $0 < \nu \le 1$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    rests_on=["γ (slope)"],
    domain={"nu": log_scale(1e-300, 1)},
    sharp="factor",
    mutants=[{"factor": 0.9999}],
)
def gamma_upper(nu: float, factor: float = 1.0) -> Sides:
    """It is an equality at ν = 1; as ν → 0 the right side is π/log 8 = 1.51 times the left."""
    m = arithmetic(nu)
    return elliptic.mean_inverse_modulus(nu), factor * m.log(8 / nu) / m.log(m.number(8))


@PAPER.inequality(
    "γ (lower)",
    printed=r"$\gamma_\infty^2(\nu) \ge \frac{1}{\pi} \log(8/\nu)$ for $0 < \nu \le 1$",
    proof=f"{PROOFS}#γ-the-sensitivity-of-ν-dp-ftrl",
    rests_on=["correlated-noise: Property F.10 (lower)"],
    domain={"nu": log_scale(1e-300, 1)},
    sharp="factor",
    mutants=[{"factor": 1.0001}],
)
def gamma_lower(nu: float, factor: float = 1.0) -> Sides:
    """The difference falls to 0 with ν."""
    m = arithmetic(nu)
    return factor * m.log(8 / nu) / m.pi, elliptic.mean_inverse_modulus(nu)


@PAPER.identity(
    "I(a, b)",
    printed=r"$I(a, b) = \int_{-\pi}^{\pi} \frac{|1 - a - e^{i\omega}|}{|1 - b - e^{i\omega}|^2} d\omega = \frac{4 A}{B^2} \mathrm{cel}(\frac{a}{A}, \frac{b^2}{B^2}, 1, \frac{a^2}{A^2})$, $A = 2 - a$, $B = 2 - b$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
    domain={"a": log_scale(1e-12, 0.999), "b": log_scale(1e-12, 0.999)},
    mutants=[{"nudge": 1e-6}],
    tolerance=1e-12,
    evaluations=128,
)
def integral_by_quadrature(a: float, b: float, nudge: float = 0.0) -> Sides:
    """Compared with the integral itself, by a quadrature that knows no elliptic integral."""
    value = circle_integral(lambda cosine, sine: modulus_at(a, cosine, sine) / modulus_at(b, cosine, sine) ** 2)
    return float(elliptic.modulus_ratio_integral(a, b)) * (1 + nudge), value


@PAPER.identity(
    "I(a, b) (Carlson)",
    printed="The same by Carlson's $R_F$ and $R_J$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
    evidence="computed",
    domain={"a": log_scale(1e-12, 0.999), "b": log_scale(1e-12, 0.999)},
    mutants=[{"three": 3.001}],
    evaluations=64,
)
def integral_by_carlson(a: float, b: float, three: float = 3.0) -> Sides:
    """Compared with Carlson's R_F and R_J in ball arithmetic, by another reduction."""
    from flint import acb, ctx

    with ctx.workprec(160):
        x, y = acb(a), acb(b)
        u, v = 2 - x, 2 - y
        weight = (y - x) * (x + y - x * y)
        first = 4 * (x / y) ** 2 * acb.elliptic_rf(acb(0), x * x, u * u)
        second = 16 / acb(three) * weight * x**2 / y**4 * acb.elliptic_rj(acb(0), x * x, u * u, (x * v / y) ** 2)
        return float(elliptic.modulus_ratio_integral(a, b)), float((first + second).real)


@PAPER.inequality(
    "I(a, b) (ends)",
    printed=r"$I(a, b) \le \frac{a}{b} I(b, b) + (1 - \frac{a}{b}) I(0, b)$ for $0 \le a \le b < 1$, $I(b, b) = 2 \pi \gamma_\infty^2(b)$, "
    r"$I(0, b) = \frac{8 \mathrm{artanh} \sqrt{1 - b}}{(2 - b) \sqrt{1 - b}}$",
    proof=f"{PROOFS}#ia-b-the-averaged-variance-of-ν-dp-ftrl",
    domain=GAPS,
    outside=r"Up to $b = 1$ and below 1e-300 by the proof: $I$ is convex in $a$ for every $b$.",
    sharp="factor",
    mutants=[{"factor": 0.9999}, {"eight": 7.999}],
    tolerance=1e-10,
)
def integral_between_its_ends(b: float, a: float, factor: float = 1.0, eight: float = 8.0) -> Sides:
    """Convex functions are below their chords.  An equality as a → 0 and at a = b."""
    root = math.sqrt(1 - b)
    zero = eight * math.log((1 + root) / math.sqrt(b)) / ((2 - b) * root)
    equal = 2 * math.pi * float(elliptic.mean_inverse_modulus(b))
    return float(elliptic.modulus_ratio_integral(a, b)), factor * (a / b * equal + (1 - a / b) * zero)


@PAPER.inequality(
    "γ (any noise)",
    printed=r"$\gamma_\infty^2 \ge \frac{1}{2\pi} \int |B|^{-2} d\omega$ for all $\beta \in \ell^2$, with equality for outer $B$",
    proof=f"{PROOFS}#the-limit-of-the-sensitivity",
    domain={"zeros": vector(linear(-2, 2), 3)},
    mutants=[{"factor": 1.001}],
)
def gamma_any_noise(zeros: Array, factor: float = 1.0) -> Sides:
    """Polynomials with the real zeros 1/z_k, also inside the unit circle, where γ_T grows without bound; |z_k| within 0.1 of 1 are left out.

    γ_T after 400 steps is compared with the integral on 4096 points.
    """
    if (np.abs(np.abs(zeros) - 1) < 0.1).any():
        return math.nan, math.nan
    noise = FiniteNoise(np.poly(zeros))
    omega = 2 * np.pi * np.arange(4096) / 4096
    column = noise.inverse_coefficients(400)
    return factor * float((1 / noise.power_spectrum(omega)).mean()), float(column @ column)


@PAPER.inequality(
    "Theorem D.11, sharpened",
    printed=r"$E[F(\theta_t) - F_*] \le \frac{L}{\mu} (1 - \eta \mu (2 - \eta R^2))^t (F(\theta_0) - F_*) + F_\infty(\beta)$ for $\eta R^2 < 2$",
    proof=f"{PROOFS}#theorem-d11-sharpened",
    rests_on=["N1"],
    domain={
        "problem": regressions(most=4, condition=1e3, largest=1.9, kurtosis=(1, 1000), multiplicity=1000),
        "noise": noises(1e-3),
        "share": linear(1e-3, 1.9),
        "offset": log_scale(1e-2, 1e4),
        "start": one_of("all directions", "slowest direction"),
    },
    mutants=[{"factor": 0.9}, {"power": 1.05}, {"condition": 1.0}],
    evaluations=128,
)
def sharpened_d11(
    problem: LinearRegression,
    noise: ToeplitzNoise,
    share: float,
    offset: float,
    start: str,
    factor: float = 1.0,
    power: float = 1.0,
    condition: float | None = None,
) -> Sides:
    """The parts due to the start and to the noise are uncorrelated, so no triangle inequality is needed.

    An equality for isotropic Gaussian inputs without noise.  For ηR² <= 1 it implies the bound with e^{−ημt}.  Without L/μ it is false: a
    start in the slowest direction excites the others.

    η is ``share``/R², because the first 60 steps tell little about small learning rates.
    """
    problem = at_share(problem, share)
    rates = problem.rates
    slowest = float(rates.min())
    place = offset * ((rates == slowest) if start == "slowest direction" else np.ones(rates.size))
    curve = problem.learning_curve(noise, 60, initial_offset=place)
    contraction = 1 - slowest * (2 - problem.learning_rate * problem.moment_bound)
    first = float(rates.max()) / slowest if condition is None else condition
    transient = first * contraction ** (power * np.arange(61.0)) * curve[0]
    return curve, factor * (transient + problem.stationary_error(noise))


@PAPER.inequality(
    "Conjecture (means)",
    printed=r"$\frac{\pi}{2} (2 - x) \gamma_\infty^2(x) \ge \frac{2 \mathrm{artanh} \sqrt{1 - x}}{\sqrt{1 - x}}$ for $0 < x \le 0.53$",
    proof=f"{PROOFS}#the-conjecture",
    domain={"x": log_scale("1e-300", "0.53")},
    evidence="certified",
    outside=r"Below $10^{-300}$ by Property F.10 (lower) and Conjecture (means, small rates); the proof has the argument for $x \le 0.19$.",
    rests_on=["correlated-noise: Property F.10 (lower)", "Conjecture (means, small rates)"],
    sharp="constant",
    mutants=[{"constant": "1.003"}],
)
def conjecture_means(x: Any, constant: str = "1") -> Sides:
    """Both sides are multiplied by √(1 − x).  They are equal at x = 0.536316528, and their quotient tends to 1 as x → 0."""
    m = arithmetic(x)
    root = m.sqrt(1 - x)
    least = 2 * m.log(1 + root) - m.log(x)  # 2 artanh √(1 − x)
    return m.number(constant) * least, m.pi / 2 * (2 - x) * root * elliptic.mean_inverse_modulus(x)


@PAPER.inequality(
    "Conjecture (means, small rates)",
    printed=r"$x \log \frac{4}{x} \le \log(2 - x)$ for $0 < x \le 0.19$",
    proof=f"{PROOFS}#the-conjecture",
    domain={"x": log_scale("1e-300", "0.19")},
    sharp="factor",
    mutants=[{"factor": 1.03}],
)
def conjecture_means_of_small_rates(x: float, factor: float = 1.0) -> Sides:
    """The left side rises and the right side falls, so that x = 0.19 is the worst case."""
    m = arithmetic(x)
    return factor * x * m.log(4 / x), m.log(2 - x)


@PAPER.inequality(
    "Conjecture (falls)",
    printed=r"$\frac{2 - x}{1 - x} \gamma_\infty^2(x)$ falls for $0 < x \le 0.25$: $\frac{E(1 - x)}{K(1 - x)} \ge x (3 - x)$",
    proof=f"{PROOFS}#the-conjecture",
    domain={"x": log_scale("1e-300", "0.25")},
    evidence="certified",
    outside=r"Below $10^{-300}$ by γ (slope); the proof has the argument for $x \le 0.12$.",
    rests_on=["γ (slope)"],
    sharp="constant",
    mutants=[{"constant": "1.02"}],
)
def conjecture_falls(x: Any, constant: str = "1") -> Sides:
    """The two sides are equal at x = 0.25157, where the function has its least value."""
    return arithmetic(x).number(constant) * x * (3 - x), enclosures.elliptic_ratio(x)


@PAPER.inequality(
    "Conjecture (right of 0.2)",
    printed=r"$\frac{2 - x}{1 - x} \gamma_\infty^2(x) \le 2.89$ for $0.2 \le x \le \frac{1}{3}$",
    proof=f"{PROOFS}#the-conjecture",
    domain={"x": linear("0.2", "0.3334")},
    outside=r"Nothing: 0.3334 exceeds $\frac{1}{3}$.",
    evidence="certified",
    sharp="constant",
    mutants=[{"constant": "2.85"}],
)
def conjecture_right(x: Any, constant: str = "2.89") -> Sides:
    """It is an equality near x = 1/3: the domain ends at 0.3334."""
    return (1 + 1 / (1 - x)) * elliptic.mean_inverse_modulus(x), arithmetic(x).number(constant) + 0 * x


@PAPER.inequality(
    "Conjecture (left of 1/3)",
    printed=r"$\pi \frac{2 - x}{1 - x} \frac{\gamma_\infty^2(x)^2}{\log(8/x)} \ge 2.89$ for $0 < x \le \frac{1}{3}$",
    proof=f"{PROOFS}#the-conjecture",
    domain={"depth": log_scale("3.178", enclosures.DEEPEST)},
    evidence="certified",
    outside=r"For $\log(8/x) > 690$ the left side is at least $2 \gamma_\infty^2(x) \ge \frac{2}{\pi} \log(8/x)$, by γ (lower).",
    rests_on=["γ (lower)"],
    sharp="constant",
    mutants=[{"constant": "3.1"}],
)
def conjecture_left(depth: Any, constant: str = "2.89") -> Sides:
    """In terms of log(8/x)."""
    m = arithmetic(depth)
    share = enclosures.inverse_mean_by_depth(depth)  # γ²/log(8/x)
    return m.number(constant) + 0 * depth, m.pi * (1 + 1 / (1 - enclosures.gap(depth))) * share * share * depth


@PAPER.inequality(
    "Conjecture",
    printed=r"$\frac{F_\infty(\nu = \eta \mu)}{\min_\beta F_\infty} \le \frac{\log(8/(\eta \mu))}{\sum_j \lambda_j \log(8/x_j)/\mathrm{Tr}[H]}$ for Gaussian inputs without residuals and $\eta R^2 \le 1$",
    proof=f"{PROOFS}#the-conjecture",
    rests_on=[
        "E3 (no noise is better)",
        "γ (lower)",
        "Conjecture (means)",
        "Conjecture (falls)",
        "Conjecture (right of 0.2)",
        "Conjecture (left of 1/3)",
    ],
    domain=QUIET,
    mutants=[{"factor": 0.97}],
    tolerance=1e-10,
    evaluations=1024,
)
def conjecture(problem: LinearRegression, factor: float = 1.0) -> Sides:
    """Conjectured first, and proved.  It is an equality for H = λ I."""
    x = problem.rates
    eigenvalues = problem.eigenvalues
    average = float((eigenvalues * np.log(8 / x)).sum()) / float(eigenvalues.sum())
    error = problem.stationary_error(NuFTRL(float(x.min())))
    return error, factor * math.log(8 / float(x.min())) / average * problem.optimal_error()
