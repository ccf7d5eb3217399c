"""The experiments with shuffled gradients: algorithms at the same privacy, each at its best learning rate.

Every algorithm gets the noise multiplier that its accountant asks for, runs several times at every learning rate of a
grid, and is shown at the one whose last iterates have the smallest mean excess risk, as in the paper.  (That choice
looks at the private data, and no accountant covers it.)  Learning rates above 2/smoothness, where amplification by
iteration has no guarantee, are left out.

With one rate for both kinds of records a large one lets Priv-Pub forget its private phase, and a small one never ends
the public phase of Pub-Priv: ``Setting.two_rates`` gives these two a rate of their own for public epochs.  The
interleaved algorithm has one rate only, for its public steps hide the private ones with noise that scales with it.

``"published"`` accounting composes epochs and converts by ρ + 2 sqrt(ρ log(1/δ)); ``"sharp"`` takes the tightest
accountant that holds.  Neither uses the regulariser's strong convexity, so that the noise is the same at every rate.

Source: Jiang, Sharma, Wu and Joshi, 2026: Section 6, Appendix H.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from corrnoise.simulations.papers.shuffled_gradients.run import shuffled_run
from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import (
    ORDERS,
    Schedule,
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)
from corrnoise.theory.papers.shuffled_gradients.task import Task
from corrnoise.theory.privacy import Budget

_RELATIVE_ROUNDING = 1e-12  #: relative, of p K


def private_epochs(private_share: float, epochs: int) -> int:
    """The number ⌈p K⌉ of private epochs; a product that only rounding lifts above an integer is that integer."""
    return math.ceil(private_share * epochs * (1 - _RELATIVE_ROUNDING))


#: Schedules by the names of the algorithms, from n, K and the share p of private steps.
ALGORITHMS: dict[str, Callable[[int, int, float], Schedule]] = {
    "DP-ShuffleG": lambda n, epochs, p: dp_shuffled(n, epochs=epochs),
    "Priv-Pub": lambda n, epochs, p: private_then_public(n, epochs=epochs, private_epochs=private_epochs(p, epochs)),
    "Pub-Priv": lambda n, epochs, p: public_then_private(n, epochs=epochs, private_epochs=private_epochs(p, epochs)),
    "Interleaved": lambda n, epochs, p: interleaved(n, epochs=epochs, private_per_epoch=round(p * n)),
    "Public only": lambda n, epochs, p: Schedule(n, np.zeros(epochs, dtype=int)),
    "Noise at the end": lambda n, epochs, p: dp_shuffled(n, epochs=epochs, placement="end"),
}
TWO_PHASES = ("Priv-Pub", "Pub-Priv")
Accounting = Literal["published", "sharp"]
ACCOUNTING: tuple[str, ...] = get_args(Accounting)
#: The grid of the paper: 0.5, 0.1, 0.05, …, 5e-9, 1e-9.
LEARNING_RATES = tuple(float(f"{digit}e-{k}") for k in range(1, 10) for digit in (5, 1))


@record
class Experiment(Record):
    """One algorithm at its best learning rate: excess risk G(x) − G* after 0, …, K epochs, shape (K + 1,).

    ``mean`` and ``std`` are over the runs (of one run: 0).  ``public_learning_rate`` is that of public epochs.
    """

    algorithm: str
    noise_multiplier: float
    learning_rate: float
    public_learning_rate: float
    mean: Array
    std: Array


@dataclass(frozen=True)
class Setting:
    """The settings that experiments vary besides the algorithm, its budget and the data."""

    order: str = "reshuffled"  #: of the private records, one of ``ORDERS``
    private_share: float = 0.5  #: p, the share of private steps, for the algorithms that use both kinds
    accounting: Accounting = "published"  #: or ``"sharp"``
    two_rates: bool = False  #: whether public epochs of Priv-Pub and Pub-Priv have a learning rate of their own


USUAL = Setting()


def private_run(
    budget: Budget,
    schedule: Schedule,
    *,
    learning_rate: float,
    smoothness: float,
    order: str,
    public_learning_rate: float | None = None,
) -> ShuffledGradients:
    """The run of an experiment: clipped gradients of the three convex losses, and the last iterate released."""
    return ShuffledGradients(
        budget,
        ORDERS[checks.choice("order", order, tuple(ORDERS))](schedule.samples, schedule.epochs),
        private=schedule.private,
        placement=schedule.placement,
        learning_rate=learning_rate,
        public_learning_rate=public_learning_rate,
        smoothness=smoothness,
        clipping="cocoercive",
        convex=True,
        released="last iterate",
    )


def noise_multiplier(run: ShuffledGradients, accounting: Accounting = "published") -> float:
    """The noise multiplier z = σ/G of an experiment."""
    if checks.choice("accounting", accounting, ACCOUNTING) == "published":
        return run.noise_multiplier("per-epoch", conversion="published")
    return run.noise_multiplier()


def _excess(task: Task, run: ShuffledGradients, least: float, multiplier: float, seeds: Sequence[int]) -> Array:
    """Excess risks of one run for each seed, shape (number of seeds, K + 1)."""
    runs = []
    for seed in seeds:
        found = shuffled_run(task, run, noise_multiplier=multiplier, rng=np.random.SeedSequence(seed))
        with np.errstate(over="ignore", invalid="ignore"):
            runs.append([task.objective(x) - least if np.isfinite(x).all() else math.inf for x in found.iterates])
    return np.array(runs)


@usual_float_errors
def experiment(
    task: Task,
    algorithm: str,
    budget: Budget,
    *,
    smoothness: float,
    setting: Setting = USUAL,
    epochs: int = 50,
    learning_rates: Sequence[float] = LEARNING_RATES,
    runs: int = 10,
) -> Experiment:
    """Run one algorithm at every learning rate and keep the best.

    There are as many public records as private ones.

    Parameters
    ----------
    task : Task
        Loss and records, such as ``task(name)``.
    algorithm : str
        A name of the paper, such as ``"Interleaved"``.
    budget : Budget
        ε and δ of a run at a fixed learning rate; its clipping norm is G.
    smoothness : float
        Upper bound of the smoothness of every admissible record; the private records must not decide it.
    setting : Setting, optional
        Order, share of private steps, accounting, and whether public epochs have their own learning rate.
    epochs : int, default 50
        At least 1.
    learning_rates : sequence of float, optional
        The grid; rates above 2/smoothness are left out.
    runs : int, default 10
        Runs at each rate, with the seeds 0, 1, …

    Returns
    -------
    Experiment

    Raises
    ------
    ValueError
        If no learning rate is left, a record is less smooth than stated, or an argument is out of its range.
    """
    name = checks.choice("algorithm", algorithm, tuple(ALGORITHMS))
    n = len(checks.instance("task", task, Task).features)
    share = checks.real("private_share", setting.private_share, "(0, 1]")
    schedule = ALGORITHMS[name](n, checks.integer("epochs", epochs, 1), share)
    bound = checks.real("smoothness", smoothness, "(0, inf)")
    given = checks.vector("learning_rates", learning_rates, "(0, inf)").tolist()
    admitted = [rate for rate in given if rate <= 2 / bound]
    if not admitted:
        raise ValueError(f"learning_rates must hold one of at most 2/smoothness = {2 / bound!r}, got {given}")
    tried = [(rate, rate) for rate in admitted]
    if setting.two_rates and name in TWO_PHASES:
        tried = [(rate, other) for rate in admitted for other in admitted]
    candidates = [
        private_run(
            budget, schedule, learning_rate=rate, public_learning_rate=other, smoothness=bound, order=setting.order
        )
        for rate, other in tried
    ]
    # The noise does not depend on the rates: no epoch of two phases holds both kinds of records.
    multiplier = noise_multiplier(candidates[0], setting.accounting)
    if multiplier * budget.clip_norm == math.inf:
        raise ValueError(f"budget must be large enough for some finite noise, got {budget!r}")
    _, least = empirical_risk_minimiser(task)
    seeds = range(checks.integer("runs", runs, 1))
    results = [_excess(task, run, least, multiplier, seeds) for run in candidates]
    best = min(range(len(tried)), key=lambda k: float(results[k][:, -1].mean()))
    chosen = results[best]
    std = chosen.std(axis=0, ddof=1) if runs > 1 else np.zeros(epochs + 1)
    return Experiment(name, multiplier, *tried[best], chosen.mean(axis=0), std)
