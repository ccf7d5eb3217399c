"""The experiments with shuffled gradients: algorithms at the same privacy, each at its best learning rate.

Every algorithm gets the noise multiplier that its accountant asks for, runs several times at every learning rate of a
grid, and is shown at the one whose last iterates have the smallest mean excess risk, as in the paper.  (That choice
looks at the private data, and no accountant covers it.)  Learning rates above 2/smoothness, where amplification by
iteration has no guarantee, are left out.  The grid is swept in parallel.

With one rate for both kinds of records a large one lets Priv-Pub forget its private phase, and a small one never ends
the public phase of Pub-Priv: ``public_rates`` gives these two a rate of their own for public epochs.  The interleaved
algorithm has one rate only, for its public steps hide the private ones with noise that scales with it.

``"published"`` accounting composes epochs and converts by ρ + 2 sqrt(ρ log(1/δ)); ``"sharp"`` amplifies over the whole
run, averages over secret permutations, and uses the curve of Gaussian mechanisms.

References
----------
Jiang, Sharma, Wu and Joshi, 2026: Section 6, Appendix H.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from corrnoise.simulations.shuffled_gradients.run import shuffled_run
from corrnoise.solvers.empirical_risk import empirical_risk_minimiser
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.problems.empirical_risk import Task
from corrnoise.theory.shuffled_gradients.accountants import Accountant, Training, accountant
from corrnoise.theory.shuffled_gradients.schedules import (
    Schedule,
    dp_shuffled,
    interleaved,
    private_then_public,
    public_then_private,
)

_ROUNDING = 1e-12  #: relative, of p K


def private_epochs(private_share: float, epochs: int) -> int:
    """The number ⌈p K⌉ of private epochs; a product that only rounding lifts above an integer is that integer."""
    return math.ceil(private_share * epochs * (1 - _ROUNDING))


#: Schedules by the names of the algorithms, from n, K and the share p of private steps.
ALGORITHMS: dict[str, Callable[[int, int, float], Schedule]] = {
    "DP-ShuffleG": lambda n, epochs, p: dp_shuffled(n, epochs),
    "Priv-Pub": lambda n, epochs, p: private_then_public(n, epochs, private_epochs(p, epochs)),
    "Pub-Priv": lambda n, epochs, p: public_then_private(n, epochs, private_epochs(p, epochs)),
    "Interleaved": lambda n, epochs, p: interleaved(n, epochs, round(p * n)),
    "Public only": lambda n, epochs, p: Schedule(n, np.zeros(epochs, dtype=int)),
    "Noise at the end": lambda n, epochs, p: dp_shuffled(n, epochs, "end"),
}
TWO_PHASES = ("Priv-Pub", "Pub-Priv")
ACCOUNTING = ("published", "sharp")
#: The grid of the paper: 0.5, 0.1, 0.05, …, 5e-9, 1e-9.
RATES = tuple(float(f"{digit}e-{k}") for k in range(1, 10) for digit in (5, 1))


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


def private_accountant(schedule: Schedule, *, order: str, accounting: str = "published") -> Accountant:
    """The accountant of an experiment, for learning rates up to 2/smoothness and clipping that keeps cocoercivity."""
    training = Training(schedule, learning_rate=1.0, smoothness=2.0, order=order, clipping="cocoercive")
    if checks.choice("accounting", accounting, ACCOUNTING) == "published" or schedule.placement == "end":
        return accountant(training, "per-epoch")
    secret = {"reshuffled": "whole-run reshuffled", "shuffled once": "whole-run shuffled once"}
    return accountant(training, secret.get(order, "whole-run"))


def noise_multiplier(
    schedule: Schedule, epsilon: float, delta: float, *, order: str = "reshuffled", accounting: str = "published"
) -> float:
    """The noise multiplier z = σ/G of an experiment."""
    conversion = "published" if accounting == "published" else "gaussian"
    found = private_accountant(schedule, order=order, accounting=accounting)
    return found.noise_multiplier(epsilon, delta, conversion=conversion)


def _excess(task: Task, schedule: Schedule, least: float, settings: dict[str, object], seeds: Sequence[int]) -> Array:
    """Excess risks of one run for each seed, shape (number of seeds, K + 1)."""
    runs = []
    for seed in seeds:
        iterates = shuffled_run(task, schedule, rng=np.random.SeedSequence(seed), **settings)  # type: ignore[arg-type]
        with np.errstate(over="ignore", invalid="ignore"):
            runs.append([task.objective(x) - least if np.isfinite(x).all() else math.inf for x in iterates])
    return np.array(runs)


def _admitted(name: str, rates: Sequence[float], largest: float) -> list[float]:
    """The learning rates that are at most ``largest``."""
    given = checks.vector(name, rates, "(0, inf)").tolist()
    admitted = [rate for rate in given if rate <= largest]
    if not admitted:
        raise ValueError(f"{name} must hold one of at most 2/smoothness = {largest!r}, got {given}")
    return admitted


def experiment(
    task: Task,
    algorithm: str,
    *,
    epsilon: float,
    delta: float = 1e-6,
    private_share: float = 0.5,
    epochs: int = 50,
    clip_norm: float = 10.0,
    order: str = "reshuffled",
    accounting: str = "published",
    rates: Sequence[float] = RATES,
    public_rates: Sequence[float] | None = None,
    runs: int = 10,
    seed: int = 0,
    jobs: int = 1,
) -> Experiment:
    """Run one algorithm at every learning rate and keep the best.

    Parameters
    ----------
    task
        Losses and records; as many public records as private ones.
    algorithm
        One of ``ALGORITHMS``.
    epsilon, delta
        Privacy of a run at a fixed learning rate, replace-one adjacency.
    private_share
        p, the share of private steps, for the algorithms that use both kinds.
    epochs, clip_norm, order
        K, G > 0, and the order of the private records.
    accounting
        ``"published"`` or ``"sharp"``.
    rates
        Learning rates > 0; those above 2/smoothness are left out.
    public_rates
        Learning rates of the public epochs of Priv-Pub and Pub-Priv, tried with each of ``rates``; None for the same.
    runs, seed
        Number of runs, and the seed of the first; the others follow.
    jobs
        Processes.

    Raises
    ------
    ValueError
        No learning rate is left, or an argument is out of its range.
    """
    from joblib import Parallel, delayed

    name = checks.choice("algorithm", algorithm, tuple(ALGORITHMS))
    n = len(checks.instance("task", task, Task).features)
    share, clip = checks.real("private_share", private_share, "(0, 1]"), checks.real("clip_norm", clip_norm, "(0, inf)")
    schedule = ALGORITHMS[name](n, checks.integer("epochs", epochs, 1), share)
    multiplier = noise_multiplier(
        schedule, epsilon, delta, order=order, accounting=accounting
    )  # 0: public records only
    if multiplier * clip == math.inf:
        raise ValueError(f"epsilon must be large enough for some finite noise, got {epsilon!r}")
    _, least = empirical_risk_minimiser(task)
    largest = 2 / task.largest_smoothness()
    private = _admitted("rates", rates, largest)
    tried = [(rate, rate) for rate in private]
    if public_rates is not None and name in TWO_PHASES:
        public = _admitted("public_rates", public_rates, largest)
        tried = [(rate, other) for rate in private for other in public]
    first = checks.integer("seed", seed, 0)
    seeds = range(first, first + checks.integer("runs", runs, 1))
    common = {"noise_std": multiplier * clip, "order": order, "clip_norm": clip}
    results = Parallel(n_jobs=jobs)(
        delayed(_excess)(task, schedule, least, {**common, "learning_rate": rate, "public_learning_rate": other}, seeds)
        for rate, other in tried
    )
    best = min(range(len(tried)), key=lambda k: float(results[k][:, -1].mean()))
    chosen = results[best]
    std = chosen.std(axis=0, ddof=1) if runs > 1 else np.zeros(epochs + 1)
    return Experiment(name, multiplier, *tried[best], chosen.mean(axis=0), std)
