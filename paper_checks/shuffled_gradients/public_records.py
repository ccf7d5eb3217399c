"""Theorem D.14 with public records, and with noise at the end of epochs, on exact quadratic runs."""

from itertools import permutations
from typing import Any

import numpy as np

from corrnoise.paper_checks.machinery.domains import integers, linear, log_scale, one_of, vector
from corrnoise.paper_checks.machinery.ledger import Sides
from corrnoise.paper_checks.shuffled_gradients.paper import PAPER
from corrnoise.paper_checks.shuffled_gradients.runs import (
    mean_estimation,
    noise_only,
    public_constants,
    public_schedule,
    published_rate,
)
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.papers.shuffled_gradients.exact_runs import quadratic_run
from corrnoise.theory.papers.shuffled_gradients.schedules import interleaved
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser
from corrnoise.theory.papers.shuffled_gradients.task_constants import convergence_constants

PUBLIC: dict[str, Any] = {
    "kind": one_of("private first", "public first", "interleaved"),
    "epochs": integers(2, 100, log=True),
    "private": vector(linear(-1, 1), 4),
    "public": vector(linear(-1, 1), 4),
    "part": linear(0, 1),
    "share": log_scale(1e-1, 1),
    "sigma": log_scale(1e-3, 1),
}


@PAPER.inequality(
    "Theorem D.14 (public records)",
    proof="docs/shuffled-gradients-proofs.md#the-convergence-theorem",
    rests_on=("Lemma D.6", "Lemma D.10 (as used)"),
    printed=r"$M = \max_{s \in [K]} (\frac{1}{2n^2\beta} \sum_{k=1}^s \frac{(C_n^{(k)})^2}{s+1-k} … + 5\eta^2 \sum_{k=1}^s \frac{\hat{L}^{(k)*} \frac{1}{n} \sum_{i=n_d^{(k)}+1}^{n-1} (C_i^{(k)})^2}{s+1-k}$",
    reading="the terms that public records add",
    domain={**PUBLIC, "share": log_scale(1e-6, 1), "sigma": log_scale(1e-6, 1), "convexity": log_scale(0.1, 1e8)},
    sharp="factor",
    mutants=[{"dissimilarity": 0.0}, {"factor": 0.4}],
    evaluations=256,
)
def theorem_d14_with_public_records(
    private: Array,
    public: Array,
    share: float,
    sigma: float,
    convexity: float,
    dissimilarity: float = 1.0,
    factor: float = 1.0,
    **plan: Any,
) -> Sides:
    """With the noise term as corrected.  Mean estimation with ψ = (μ/2) x² in a given order, so that β = μ.

    Where the last epoch alone uses public records and μ is large, exact/bound tends to 1/2.
    """
    schedule = public_schedule(samples=private.size, **plan)
    best, constants = public_constants(private, public, Regulariser("ridge", convexity), schedule, share, sigma)
    targets = np.array([[*private[:count], *public[: private.size - count]] for count in schedule.private.tolist()])
    noise = sigma * np.array([schedule.noisy_steps(count) for count in schedule.private.tolist()])
    [mean], [[variance]] = quadratic_run(
        np.ones((*targets.shape, 1, 1)), targets[..., np.newaxis], noise, constants.learning_rate, ridge=convexity
    )
    bound = constants.excess_risk_upper_bound()
    right = bound.total - (1 - dissimilarity) * bound.dissimilarity
    return (1 + convexity) / 2 * float((mean - best) ** 2 + variance), factor * right


@PAPER.identity(
    "Theorem D.14 (dissimilarities)",
    printed=r"$M = \max_{s \in [K]} (\frac{1}{2n^2\beta} \sum_{k=1}^s \frac{(C_n^{(k)})^2}{s+1-k} … + 5\eta^2 \sum_{k=1}^s \frac{\hat{L}^{(k)*} \frac{1}{n} \sum_{i=n_d^{(k)}+1}^{n-1} (C_i^{(k)})^2}{s+1-k}$",
    reading="the two terms of an epoch",
    domain={
        "private": vector(linear(-1, 1), 4),
        "public": vector(linear(-1, 1), 4),
        "kept": integers(0, 2),
        "convexity": log_scale(0.1, 10),
    },
    mutants=[{"lasting": 1 + 1e-6}, {"vanishing": 1 + 1e-6}],
    evaluations=128,
)
def dissimilarity_terms(
    private: Array, public: Array, kept: int, convexity: float, lasting: float = 1.0, vanishing: float = 1.0
) -> Sides:
    """Mean estimation, a fresh permutation, η = 1: C_i² is the mean over all 24 permutations."""
    schedule = interleaved(4, epochs=1, private_per_epoch=kept)
    n = 4
    task, run, best = mean_estimation(private, public, Regulariser("ridge", convexity), schedule, 1.0, "reshuffled")
    _, found = convergence_constants(task, run, best, noise_std=0.0, radius=1.0).epoch_terms()
    sums = [np.cumsum(private[list(order[kept:])] - public[: n - kept]) for order in permutations(range(n))]
    squares = np.square(sums).mean(axis=0)
    right = lasting * squares[-1] / (2 * n**2 * convexity) + vanishing * 5 * squares[:-1].sum() / n
    return 1e-3 + found, 1e-3 + right


@PAPER.inequality(
    "Theorem D.14 (noise at the end of epochs)",
    proof="docs/shuffled-gradients-proofs.md#the-convergence-theorem",
    rests_on=("Lemma D.6",),
    printed=r"$6\eta^2 n d \sum_{k=1}^s \frac{(\sigma^{(k)})^2 \hat{L}^{(k)*}}{s+1-k}$",
    reading=r"with noise on the last step of epochs only, $\frac{\eta}{n} d (\sigma^{(k)})^2$ suffices in its place",
    domain={
        "samples": integers(1, 400, log=True),
        "dimension": integers(1, 1000, log=True),
        "epochs": integers(1, 30),
        "smoothness": log_scale(1e-6, 1e3),
        "convexity": log_scale(1e-3, 1e6),
        "share": log_scale(1e-4, 1),
        "sigma": log_scale(1e-3, 1e3),
    },
    sharp="factor",
    mutants=[{"factor": 0.04}],
    evaluations=1024,
)
def theorem_d14_with_noise_at_the_end(
    samples: int,
    dimension: int,
    epochs: int,
    smoothness: float,
    convexity: float,
    share: float,
    sigma: float,
    factor: float = 1.0,
) -> Sides:
    """A statement of this project: losses L ‖x‖²/2, ψ = (μ/2) ‖x‖², x_1 = x* = 0."""

    def constants(rate: float) -> ConvergenceConstants:
        return noise_only(samples, epochs, rate, smoothness, noise=sigma, dimension=dimension, end_noise=True)

    eta = share * published_rate(constants(1.0))
    shrink = 1 / (1 + eta * samples * convexity)
    keep = (shrink * (1 - eta * smoothness) ** samples) ** 2
    variance = (eta * sigma * shrink) ** 2 * sum(keep**k for k in range(epochs))
    exact = dimension / 2 * (smoothness + convexity) * variance
    return exact, float(factor) * constants(eta).excess_risk_upper_bound().total
