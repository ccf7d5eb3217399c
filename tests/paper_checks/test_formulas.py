"""The formulas with which rates and bounds are checked, against the terms as they are printed.

Each test compares the code that users call with a second transcription at seeded points, and a false neighbour of the
transcription differs.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import agm

from corrnoise.paper_checks.correlated_noise.d11_to_d15 import GUARANTEE, guaranteed_run
from corrnoise.paper_checks.correlated_noise.oracles import CLIP_NORMS, budget
from corrnoise.paper_checks.machinery.domains import (
    Domain,
    integers,
    linear,
    log_scale,
    one_of,
    regressions,
    spectra,
    vector,
)
from corrnoise.paper_checks.momentum_aggregation import theorems_6_and_9
from corrnoise.paper_checks.noise_cancellation import convergence
from corrnoise.paper_checks.own_results.momentum import run_axes
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.papers.correlated_noise import published_bounds as bounds
from corrnoise.theory.papers.momentum_aggregation.bounds import BoundedTask
from corrnoise.theory.papers.momentum_aggregation.least_noise import noise_lower_bound, square_root_upper_bound
from corrnoise.theory.papers.momentum_aggregation.reconstruction import defect_bound
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_noise
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.participation import Participation


def theorem_52_formula(four=4.0, two=2.0, **setting):
    r"""The corrected bound holds for the published noise and learning rate; Φ adds up the waits of a machine.

    $u_{n+1} = u_n + 1 + 2 \eta L \sum_{k \le n} (A_k + A_{k-1})$, $A_k = u_0 + … + u_k$.
    """
    run = convergence._run(**setting)
    m, big, t, d = run.participants, run.machines, run.rounds, run.dimension
    g, smoothness, diameter = setting["lipschitz"], setting["smoothness"], setting["diameter"]
    slope, sigma, xi = (g * setting[name] for name in ("at_optimum", "deviation", "heterogeneity"))
    mu = math.sqrt(2 * setting["rho"])
    s = g + 2 * smoothness * diameter
    ell = 1 + math.log(t)

    def bound(smooth, noise):
        start = (slope + smooth * smoothness * diameter) / t
        sampled = math.sqrt(sigma**2 + xi**2) / math.sqrt(m * t)
        return four * diameter * (start + sampled + two * s * math.sqrt(noise * d) / (mu * m * t))

    rate = min(mu * diameter * m / (2 * s * t * math.sqrt(2 * big * d * ell)), 1 / (8 * smoothness * t))
    trusted = min(mu * diameter * m / (2 * s * t * math.sqrt(d)), 1 / (4 * smoothness * t))
    p = m / big
    u = [0.0]
    for n in range(t):
        u.append(u[n] + 1 + 2 * rate * smoothness * sum(sum(u[: k + 1]) + sum(u[:k]) for k in range(n + 1)))
    held = [
        p * (1 + p * (joined - 1)) * u[n] * (1 - p) ** (n - 1)
        for joined in range(1, t + 1)
        for n in range(1, t - joined + 2)
    ]
    phi = min(2 * sum(held) / (t * (t + 1)), 1 / p)
    added = phi * d * t * (t + 1) / (2 * m * p) * 4 * s**2 * ell / mu**2 * rate
    absent = (big - m) / (big - 1) if big > 1 else 0.0
    variance = (sigma**2 + absent * xi**2) / m
    errors = sum(math.sqrt(k * variance) for k in range(1, t + 1))
    gaps = 2 * diameter**2 / (rate * t * (t + 1)) + 4 * diameter * slope / (t + 1)
    corrected = gaps + 4 * (diameter * errors + added) / (t * (t + 1))
    found = run.upper_bound(cancelling_noise(t, growth=1), losses="smooth", learning_rate=rate)
    bounds = run.published_upper_bound(), run.trusted_upper_bound()
    left = [one for found in bounds for one in (found.total, found.learning_rate)]
    right = [bound(4, 2 * big * ell), rate, bound(2, 1), trusted, 2 * s * math.sqrt(t) / (mu * m), corrected]
    return [*left, run.trusted_std(), found.total] / np.array(right), 1.0


def theorem_9_formula(
    examples,
    dimension,
    epsilon,
    excess,
    smoothness,
    initial_error,
    six=6.0,
):
    """G = 1; T of Theorem 6 by bisection."""
    n, d, log = examples, dimension, excess * epsilon
    task = BoundedTask(n, d, theorems_6_and_9.budget(epsilon, excess), smoothness, initial_error)
    t = n ** (7 / 3) * epsilon ** (4 / 3) / d ** (2 / 3)
    if t < n:
        return math.nan, math.nan
    k = 16 * math.log2(t) * log
    first = (1.5 * initial_error + 24 * k * (1 + 2 * smoothness) + 12 * smoothness) * d ** (1 / 3)
    printed = first / (epsilon * n) ** (2 / 3) + six / math.sqrt(n)
    printed += (36 + 9 * smoothness) * k * math.sqrt(d) / (epsilon * n)
    defect = defect_bound(
        examples=n,
        alpha=1 / n,
        gamma=math.sqrt(n / t),
        lipschitz=1.0,
        smoothness=smoothness,
        learning_rate=1 / math.sqrt(n * t),
    )
    u = brentq(lambda u: u * math.log2(u) * math.sqrt(d * log) / n**2 - epsilon, 1, 1e30, rtol=1e-14)
    noise = 32 * math.sqrt(math.log2(u + 1) / math.log2(u))
    sixth = (initial_error + six * smoothness + noise) * math.sqrt(n / u)
    sixth += smoothness / (2 * math.sqrt(n * u)) + 2 / math.sqrt(n) + 2 * n / u
    left = [task.theorem_9(published=True), task.theorem_9(), task.theorem_6_steps(), task.theorem_6()]
    right = [printed, printed + 3 * n / t + 3 * defect / math.sqrt(n), u, sixth]
    return [a / b for a, b in zip(left, right, strict=True)], 1.0


def m2_formulas(examples, load, epochs, two=2.0):
    """For two epochs or more; one order and any order are told apart."""
    alpha = load / examples
    steps = examples * epochs
    a = (1 - alpha) ** examples
    s = alpha / float(agm(1.0, math.sqrt(alpha * (2 - alpha))))
    fixed, any_order = (
        order(steps, period=examples) for order in (Participation.fixed_epochs, Participation.reshuffled)
    )
    found = [square_root_upper_bound(alpha, fixed), square_root_upper_bound(alpha, any_order)]
    roots = [(1 + a) / (1 - a), 1 + two * (1 - alpha) / (1 - a)] if epochs > 1 else [1.0, 1.0]
    lower = math.sqrt(epochs) * max(s - (1 - alpha) / ((2 - alpha) * steps), 0.0)
    found.append(noise_lower_bound(alpha, steps=steps, epochs=epochs))
    return found, [*(s * math.sqrt(epochs * root) for root in roots), lower]


def m5_formula(lipschitz, drift, examples, alpha, gamma, two=2.0):
    """The drift is L η N."""
    a = (1 - alpha) ** examples
    rate = drift / (3 * examples)
    found = defect_bound(
        examples=examples, alpha=alpha, gamma=gamma, lipschitz=lipschitz, smoothness=3.0, learning_rate=rate
    )
    rough = lipschitz**2 * (2 / (1 - a**2) + (1 + 2 * gamma / (2 - gamma)) / (1 - a) ** 2)
    smooth = drift**2 / (gamma * (2 - gamma) * (1 - a) ** 2)
    return found**2, examples / (examples - 1) * two / (2 - alpha) * (smooth + rough)


def theorem_c14_formula(problem, gap, clip_norm, kurtosis, one=1.0):
    """For ν-DP-FTRL with a damping of 0.01 or more."""
    noise = NuFTRL(gap)
    found = bounds.theorem_c14_upper_bound(problem, noise, budget=budget(clip_norm), kurtosis_constant=kurtosis)
    r = math.sqrt(problem.learning_rate * problem.moment_bound)
    forms = sum(float(noise.averaged_variance(rate)) for rate in problem.rates)
    samples = (one + (1 - r) ** -2) * r**2 * problem.residual_std**2
    variance = clip_norm**2 * noise.limiting_sensitivity() ** 2 / (2 * budget(clip_norm).gaussian_rho)
    return found, samples + (1 + kurtosis / (1 - r) ** 2) * problem.learning_rate * variance * forms


def corollary_d15_formula(seven=7.0, **case):
    """D is the offset of each coordinate."""
    run = guaranteed_run(**case)
    values, t, rho, s2 = case["eigenvalues"], case["steps"], case["rho"], case["residual_std"] ** 2
    largest, least, trace = float(values.max()), float(values.min()), float(values.sum())
    kappa, effective, d = largest / least, trace / largest, values.size
    ell = math.log(t / case["p"])
    y = (kappa * effective) ** 2 * d / rho
    lengths = [y * ell**5, y * ell**seven * max(1.0, math.log(y))]
    rates = []
    for length, dimension in zip(lengths, (d, kappa * effective / t), strict=True):
        length = max(length, kappa * effective * ell)
        clipped = trace * run.initial_distance**2 + s2
        rate = kappa * effective * (dimension * clipped / rho + s2) / t
        rates.append(kappa * run.initial_error * math.exp(-t / length) + rate if t >= length else math.inf)
    found = [corollary(constant=1.0, polylog=1.0) for corollary in (run.corollary_d14_rate, run.corollary_d15_rate)]
    return found, rates


def theorem_d14_formula(
    corrected,
    samples,
    epochs,
    share,
    distance,
    deviation,
    beta,
    private,
    series,
    two=2.0,
    ten=10.0,
):
    r"""In three dimensions, $\hat{L}^{(k)*} = 3 \hat{L}^{(k)}$; corollaries have $1 + \log K$ for the sum over k."""
    noise, mean, total, partial = series.reshape(4, 6)[:, :epochs]
    largest = 3 * mean
    ell = 1 + math.log(epochs)
    limit = 1 / (2 * samples * math.sqrt(10 * max(private, mean.max()) * largest.max() * ell))
    eta = share * limit
    run = ConvergenceConstants(
        samples=samples,
        epochs=epochs,
        dimension=3,
        learning_rate=eta,
        distance=distance,
        deviation=deviation,
        noise=noise,
        smoothness=mean,
        largest_smoothness=largest,
        private_smoothness=private,
        total_dissimilarity=total,
        partial_dissimilarity=partial,
        beta=beta,
    )
    factors = eta + 5 * eta**2 * samples * mean if corrected else 6 * eta**2 * samples * largest
    terms = [
        c**2 / (2 * samples**2 * beta) + 5 * eta**2 * high * d + 3 * factor * sigma**2
        for c, high, d, factor, sigma in zip(total, largest, partial, factors, noise, strict=True)
    ]
    m = max(sum(terms[k - 1] / (s + 1 - k) for k in range(1, s + 1)) for s in range(1, epochs + 1))
    other = distance**2 / (eta * samples * epochs) + ten * eta**2 * samples**2 * deviation**2 * ell * mean.max()
    noisy = 2 * ell * 3 * (factors * noise**2).max()
    totals = run.excess_risk_upper_bound(printed=not corrected), run.corollary_upper_bound(printed=not corrected)
    left = [totals[0].total, totals[1].noise, totals[1].initialisation, run.largest_learning_rate()]
    return left / np.array([other + two * m, noisy, distance**2 / (eta * samples * epochs), limit]), 1.0


CASES = {
    theorem_52_formula: (
        {**convergence.RUNS, "participants": integers(1, 9), "ratio": integers(1, 4), "rounds": integers(2, 12)},
        [{"four": 4.001}, {"two": 2.001}],
    ),
    theorem_9_formula: (
        {
            **theorems_6_and_9.SETTINGS,
            "examples": integers(100, 10**6, log=True),
            "dimension": integers(1, 10, log=True),
        },
        [{"six": 6.001}],
    ),
    m2_formulas: (run_axes(300, 32, least=0.1), [{"two": 2.001}]),
    m5_formula: (
        {
            "lipschitz": log_scale(1e-2, 1e2),
            "drift": log_scale(1e-4, 1e2),
            "examples": integers(2, 60, log=True),
            "alpha": log_scale(1e-2, 1),
            "gamma": log_scale(1e-3, 1),
        },
        [{"two": 2.001}],
    ),
    theorem_c14_formula: (
        {
            "problem": regressions(most=3),
            "gap": log_scale(1e-2, 1),
            "clip_norm": CLIP_NORMS,
            "kurtosis": linear(0, 5),
        },
        [{"one": 1.001}],
    ),
    corollary_d15_formula: (
        GUARANTEE
        | {"eigenvalues": spectra(3, 10), "steps": integers(10**9, 10**20, log=True), "rho": log_scale(1, 1e3)},
        [{"seven": 7.01}],
    ),
    theorem_d14_formula: (
        {
            "corrected": one_of(False, True),
            "samples": integers(1, 9),
            "epochs": integers(1, 6),
            "share": log_scale(1e-2, 1),
            "distance": log_scale(1e-2, 1e2),
            "deviation": log_scale(1e-2, 1e2),
            "beta": log_scale(1e-2, 1e2),
            "private": log_scale(1e-2, 1e2),
            "series": vector(log_scale(1e-2, 1e2), 24),
        },
        [{"two": 2.001}, {"ten": 9.99}],
    ),
}


@pytest.mark.parametrize("formula", CASES, ids=lambda formula: formula.__name__)
def test_the_code_adds_up_the_terms_as_printed(formula):
    axes, neighbours = CASES[formula]
    domain = Domain(axes)
    points = [domain.arguments(point) for point in np.random.default_rng(7).random((64, domain.size))]

    def largest_difference(**constants):
        sides = [formula(**point, **constants) for point in points]
        found = [(left, right) for left, right in sides if not np.isnan(left).any()]
        assert len(found) >= 16
        return max(float(np.max(_difference(left, right))) for left, right in found)

    assert largest_difference() < 1e-10
    for neighbour in neighbours:
        assert largest_difference(**neighbour) > 1e-6


def _difference(left, right):
    left, right = np.broadcast_arrays(np.asarray(left, dtype=float), np.asarray(right, dtype=float))
    with np.errstate(invalid="ignore"):
        return np.where(left == right, 0.0, abs(left - right) / np.maximum(abs(left), abs(right)))
