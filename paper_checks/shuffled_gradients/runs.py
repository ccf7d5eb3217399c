"""The runs that claims are about, and the hypotheses that they fulfil, which are not part of a statement's formula."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.papers.shuffled_gradients.convergence import ConvergenceConstants
from corrnoise.theory.papers.shuffled_gradients.exact_runs import noise_variance, quadratic_run
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    ORDERS,
    Schedule,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.papers.shuffled_gradients.task import Regulariser, Task
from corrnoise.theory.papers.shuffled_gradients.task_constants import convergence_constants
from corrnoise.theory.privacy import Budget


def nonexpansive_run(schedule: Schedule, order: str = "given", learning_rate: float = 1.0) -> ShuffledGradients:
    """A run with convex losses and L = 1, nothing clipped; the last iterate is released."""
    return ShuffledGradients(
        Budget(1.0, adjacency="replace-one"),
        ORDERS[order](schedule.samples, schedule.epochs),
        private=schedule.private,
        placement=schedule.placement,
        learning_rate=learning_rate,
        smoothness=1.0,
        clipping="none",
        convex=True,
        released="last iterate",
    )


def noise_only(
    samples: int,
    epochs: int,
    learning_rate: float,
    smoothness: float,
    *,
    noise: float | Array = 1.0,
    dimension: int = 1,
    largest: float | None = None,
    **others: Any,
) -> ConvergenceConstants:
    """Constants of losses L ‖x‖²/2, from x_1 = x* = 0: all of the risk is due to the noise; L* is ``largest``, or L."""
    return ConvergenceConstants(
        samples=samples,
        epochs=epochs,
        dimension=dimension,
        learning_rate=learning_rate,
        distance=0.0,
        deviation=0.0,
        noise=noise,
        smoothness=smoothness,
        largest_smoothness=smoothness if largest is None else largest,
        **others,
    )


def noise_risk(run: ConvergenceConstants, ridge: float = 0.0) -> float:
    """The exact excess risk of ``noise_only`` with ψ = (μ/2) ‖x‖²."""
    smoothness = np.asarray(run.smoothness).item()
    sigma = np.asarray(run.noise).item()
    variance = sigma**2 * noise_variance(run.samples, run.epochs, run.learning_rate, smoothness, ridge=ridge)
    return run.dimension / 2 * (smoothness + ridge) * variance


def one_epoch_rate(samples: int, mean: float, largest: float) -> float:
    """The largest learning rate of the lemmas on one epoch, 1/(n sqrt(10 L̂ L̂*))."""
    return 1 / (samples * math.sqrt(10 * mean * largest))


def published_rate(run: ConvergenceConstants) -> float:
    """The largest learning rate that Theorem D.14 allows, as printed; that of G.7 for a projection."""
    mean = max(float(np.max(run.smoothness)), run.private_smoothness or 0.0) + (run.regulariser == "projection")
    largest = float(np.max(run.largest_smoothness))
    return one_epoch_rate(2 * run.samples, mean, largest * (1 + math.log(run.epochs)))


def only_noise(
    samples: int, dimension: int, epochs: int, smoothness: float, rate: float, noise: float | Array
) -> ConvergenceConstants:
    """A run that shows its noise only, η = ``rate`` or the largest that the theorem allows, if that is less."""
    largest = published_rate(noise_only(samples, epochs, 1.0, smoothness))
    return noise_only(samples, epochs, min(rate, largest), smoothness, noise=noise, dimension=dimension)


def exact_and_run(
    curvatures: Array,
    slopes: Array,
    convexity: float,
    share: float,
    distance: float,
    unit: float,
    epochs: int,
    noise: Array,
    sigma: float = 0.0,
    dimension: int = 1,
    beyond: float = 1.0,
) -> tuple[float, ConvergenceConstants]:
    """The exact excess risk of losses a ‖x‖²/2 − b u with ψ = (μ/2) ‖x‖², u the first coordinate of x, and the run.

    η is ``share`` of its limit times ``beyond``.  The run starts ``distance`` from x* along u.  Other coordinates show the noise only,
    which is ``sigma`` times that of the epoch (``noise``, repeated).  Slopes, distance and σ are in the same unit.
    """
    n = curvatures.size
    deviations = unit * sigma * np.resize(noise, epochs)
    forces = unit * slopes
    total = curvatures.mean() + convexity
    best = float(forces.mean() / total)
    deviation = math.sqrt(np.mean((curvatures * best - forces) ** 2))
    constants: dict[str, Any] = {
        "samples": n,
        "epochs": epochs,
        "dimension": dimension,
        "distance": unit * distance,
        "deviation": deviation,
        "noise": deviations,
        "smoothness": curvatures.mean(),
        "largest_smoothness": curvatures.max(),
    }
    eta = beyond * share * published_rate(ConvergenceConstants(learning_rate=1.0, **constants))
    run = ConvergenceConstants(learning_rate=eta, **constants)
    [mean], [[variance]] = quadratic_run(
        np.broadcast_to(curvatures[:, np.newaxis, np.newaxis], (epochs, n, 1, 1)),
        np.broadcast_to(forces[:, np.newaxis], (epochs, n, 1)),
        np.broadcast_to(deviations[:, np.newaxis], (epochs, n)),
        eta,
        ridge=convexity,
        start=[best + unit * distance],
    )
    return total / 2 * float((mean - best) ** 2 + dimension * variance), run


def mean_estimation(
    private: Array, public: Array, regulariser: Regulariser, schedule: Schedule, rate: float, order: str = "given"
) -> tuple[Task, ShuffledGradients, Array]:
    """Mean estimation in one dimension, a run of it, and its minimiser."""
    rows = private[:, np.newaxis]
    others = public[:, np.newaxis]
    task = Task(
        LinearLoss("mean", rows.shape[1]), regulariser, rows, np.zeros(private.size), others, np.zeros(public.size)
    )
    run = nonexpansive_run(schedule, order, learning_rate=rate)
    return task, run, regulariser.prox(rows.mean(axis=0), 1.0)


def public_constants(
    private: Array, public: Array, regulariser: Regulariser, schedule: Schedule, share: float, sigma: float
) -> tuple[float, ConvergenceConstants]:
    """The constants of mean estimation at a share of the largest learning rate, from x_1 = 0; and x*."""

    def at(rate: float) -> ConvergenceConstants:
        task, run, best = mean_estimation(private, public, regulariser, schedule, rate)
        radius = 10.0 + (regulariser.strength if regulariser.name == "ball" else 0.0)
        return convergence_constants(task, run, best, noise_std=sigma, radius=radius)

    best = float(regulariser.prox(private.mean(keepdims=True), 1.0)[0])
    return best, at(share * published_rate(at(1.0)))


def public_schedule(kind: str, samples: int, epochs: int, part: float) -> Schedule:
    """A schedule with public records."""
    some = 1 + min(int(part * (epochs - 1)), epochs - 2)
    count = 1 + int(part * (samples - 2))
    if kind == "private first":
        return private_then_public(samples, epochs=epochs, private_epochs=some)
    if kind == "public first":
        return public_then_private(samples, epochs=epochs, private_epochs=some)
    return interleaved(samples, epochs=epochs, private_per_epoch=count)


def l1_run(epochs: int, sigma: float) -> ConvergenceConstants:
    """n = 10 losses ‖x‖²/2, d = 50, η = 0.4/K, as λ → 0, with B at most std · sqrt(2 log 2d)."""
    n = 10
    d = 50
    eta = 0.4 / epochs
    size = sigma * math.sqrt(2 * math.log(2 * d) * noise_variance(n, epochs, eta, 1.0))
    return noise_only(n, epochs, eta, 1.0, dimension=d, noise=sigma, regulariser="lasso", size=size)


def projected_run(epochs: int, smoothness: float, scale: float) -> ConvergenceConstants:
    """One loss L x²/2, B = R, x_1 = x* = 0, σ = 1, η a share of its printed limit."""

    def run(eta: float) -> ConvergenceConstants:
        return noise_only(1, epochs, eta, smoothness, regulariser="projection")

    return run(scale * published_rate(run(1.0)))


def expected_risk(
    value: Callable[[Array], Array], epoch: tuple[float, float, float], epochs: int, prox: Callable[[Array], Array]
) -> float:
    """E value(x) after epochs x ← prox(c x + shift + N(0, s²)) from x_1 = 0, by quadrature; ``epoch`` is (c, shift, s)."""
    contraction, shift, deviation = epoch
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    reach = abs(shift) / max(1 - contraction, 1 / epochs) + 10 * deviation * math.sqrt(epochs) + 1e-12
    x = np.linspace(-reach, reach, 401)
    expected = value(x)
    arrivals = prox(contraction * x[:, np.newaxis] + shift + deviation * nodes)
    for _ in range(epochs):
        expected = np.interp(arrivals, x, expected) @ weights / math.sqrt(2 * math.pi)
    return float(np.interp(0.0, x, expected))
