"""A comparison of mechanisms by the models that they give, at equal privacy, epochs and batch size.

Every method has the same grid of learning rates and momenta.  It is tuned with seeds of its own and judged with others.
Runs of one seed share the split of the data, the order, the initial parameters and the independent draws, so that
methods are compared in pairs.  The learning rate falls linearly over the last quarter of the run.

The methods are the mechanisms of a fixed order of the data; correlated noise for sampled batches, tuned for prefix sums
at each ε; DP-SGD with Poisson batches; full batches with independent noise; and training without privacy.  Sampled
batches have the noise multiplier of the certified accountant.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Section 4, Figure 4, Appendix G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.datasets import load, standardised
from corrnoise.simulations.private_training.networks import Floats, Network, Runs, Task, trained
from corrnoise.simulations.run.batches import batches
from corrnoise.solvers.catalogue import DENSE
from corrnoise.solvers.families.toeplitz import damped_root, nu_ftrl
from corrnoise.solvers.objectives import RunObjective, run_objective
from corrnoise.solvers.optimise import optimise
from corrnoise.solvers.optimum import Optimum
from corrnoise.solvers.sampled import ways
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import MatrixNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.objectives.workloads import PrefixSums
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

CLIP_NORM = 1.0
DELTA = 1e-5
COOL_DOWN = 0.25  #: share of the run in which the learning rate falls to LAST of its value
LAST = 0.05
RATES = tuple(float(f"{0.02 * 1000 ** (k / 9):.2g}") for k in range(10))  #: 0.02 to 20
MOMENTA = (0.0, 0.9)
SAMPLED = "DP-SGD, sampled batches"
CYCLIC, BINS = "best bands, cyclic Poisson", "one buffer, balls in bins"
FULL = "full batches"
PUBLIC = "no privacy"
_BANDS = 16  # at most, less one
_AT_ONCE = 64  # runs, for the cache of the processor


def _optimal(participation: Participation) -> Mechanism:
    return optimise(PrefixSums(participation.length), participation, family=DENSE).mechanism


def _sums(participation: Participation) -> RunObjective:
    return run_objective(PrefixSums(participation.length))


#: The mechanisms of a fixed order, for a participation.
MECHANISMS: dict[str, Callable[[Participation], Mechanism]] = {
    "independent noise": lambda who: DPSGD(),
    "binary tree": lambda who: MatrixNoise.honaker(who.length),
    "online tree": lambda who: BinaryTree(who.length, decoder="online"),
    "square root": lambda who: NuFTRL(0.0),
    "ν-DP-FTRL": lambda who: nu_ftrl(_sums(who), who),
    "damped root": lambda who: damped_root(_sums(who), who, who.length),
    "dense optimum": _optimal,
}
#: Noise for sampled batches, which depends on ε.
AMPLIFIED = (CYCLIC, BINS)
#: Those of the small networks, and those of the paper's network, whose noise must stream.
METHODS = (*(name for name in MECHANISMS if name != "online tree"), SAMPLED, FULL, PUBLIC)
STREAMED = ("independent noise", "online tree", "square root", "ν-DP-FTRL", "damped root", SAMPLED, PUBLIC)


@record
class Experiment(Record):
    """Data, a network, and a plan of epochs."""

    name: str  #: ``"digits"``, ``"breast cancer"`` or ``"diabetes"``, as scikit-learn carries them, or ``"CIFAR-10"``
    #: as for ``Network``; its sizes are those of the data.  None for the convolutional network of the paper.
    network: Network | None
    training: int  #: n, the number of examples to train with; the rest is for testing
    #: B and k; an epoch has n // B steps
    batch_size: int
    epochs: int

    @property
    def task(self) -> Task:
        """The task of the network."""
        return "classification" if self.network is None else self.network.task

    @property
    def participation(self) -> Participation:
        """The value for a fixed order."""
        return Participation.fixed_epochs(self.epochs * (self.training // self.batch_size), epochs=self.epochs)


#: Softmax regression, for noise with sampled batches.
LINEAR = Experiment("linear digits", Network((64, 10)), 1437, 71, 10)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("digits", Network((64, 32, 10)), 1437, 71, 20),
        Experiment("breast cancer", Network((30, 2)), 455, 22, 10),
        Experiment("diabetes", Network((10, 1), "regression"), 353, 17, 10),
    )
}

CIFAR_10 = Experiment("CIFAR-10", None, 50_000, 500, 20)  #: in ``simulations.private_training.cifar``


class Run(NamedTuple):
    """One training run: a method at ε, with its learning rate and momentum."""

    method: str
    epsilon: float
    learning_rate: float
    momentum: float


def grid(method: str, epsilon: float) -> list[Run]:
    """All choices of learning rate and momentum."""
    return [Run(method, epsilon, rate, momentum) for rate in RATES for momentum in MOMENTA]


def noise_multiplier(experiment: Experiment, method: str, epsilon: float) -> float:
    """Standard deviation over clip norm of the independent noise, for (ε, ``DELTA``).

    Zero-out adjacency; that of DP-SGD is amplified by its Poisson batches.
    """
    if method == PUBLIC:
        return 0.0
    who = experiment.participation
    if method in AMPLIFIED:
        found = amplified(experiment, method, epsilon)
        return found.mechanism.program(found.participation).multiplier(Budget(epsilon=epsilon, delta=DELTA))
    if method == SAMPLED:
        sampled = Participation.poisson(who.length, experiment.batch_size / experiment.training)
        return DPSGD().program(sampled).multiplier(Budget(epsilon=epsilon, delta=DELTA, clip_norm=CLIP_NORM))
    gamma = math.sqrt(experiment.epochs) if method == FULL else mechanism(method, who).sensitivity_upper_bound(who)
    return Budget(epsilon=epsilon, delta=DELTA, clip_norm=CLIP_NORM).multiplier(gamma)


@cache
def amplified(experiment: Experiment, method: str, epsilon: float) -> Optimum:
    """The best noise for prefix sums with sampled batches, of one buffer in bins or of p bands for the best p."""
    budget, who = Budget(epsilon=epsilon, delta=DELTA), experiment.participation
    rate = experiment.batch_size / experiment.training
    tried = ways(who.length, who.period, rate, _BANDS)
    kind, memory = ("cyclic poisson", _BANDS) if method == CYCLIC else ("balls in bins", 1)
    chosen = [one for one in tried if one.kind == kind]
    found = [optimise(PrefixSums(who.length), one, memory=memory, budget=budget) for one in chosen]
    return min(found, key=lambda one: one.error_at(budget))


@cache
def mechanism(method: str, participation: Participation) -> Mechanism:
    """The mechanism of a method, one of ``MECHANISMS``."""
    return MECHANISMS[method](participation)


@cache
def _noising(method: str, participation: Participation) -> Array:
    return mechanism(method, participation).noising_matrix(participation.length)


def prefix_error(experiment: Experiment, method: str, epsilon: float) -> float:
    """Root mean square over the steps of the error of prefix sums, in units of the clip norm.

    For a mechanism of ``MECHANISMS`` or DP-SGD.
    """
    who = experiment.participation
    if method in AMPLIFIED:
        return amplified(experiment, method, epsilon).error_at(Budget(epsilon=epsilon, delta=DELTA))
    made = mechanism("independent noise" if method == SAMPLED else method, who)
    return noise_multiplier(experiment, method, epsilon) * math.sqrt(float(made.errors(PrefixSums(who.length)).mean()))


@cache
def _data(name: str) -> tuple[Floats, Floats]:
    """Features and targets.

    Pixels lie in [0, 1].  Features of tables are standardised over all rows, and targets of regression as well, which
    is not private.
    """
    features, targets, _ = load("digits" if name == LINEAR.name else name)
    if name in ("digits", LINEAR.name):
        return (features / 16).astype(np.float32), np.eye(10, dtype=np.float32)[targets]
    scaled = standardised(features).astype(np.float32)
    if name == "breast cancer":
        return scaled, np.eye(2, dtype=np.float32)[targets]
    return scaled, standardised(targets[:, np.newaxis]).astype(np.float32)


def scores(experiment: Experiment, runs: Sequence[Run], seed: Sequence[int]) -> Array:
    """The test score of each run: accuracy, or the coefficient of determination; shape (len(runs),).

    Parameters
    ----------
    experiment : Experiment
        One of ``EXPERIMENTS``, with a small network.
    runs : sequence of Run
        They share all that is random.
    seed : sequence of int
        Of the split, the order, the initial parameters and the noise.
    """
    network = experiment.network
    if network is None:
        raise ValueError(f"experiment must have a small network, got {experiment!r}")
    features, targets = _data(experiment.name)
    n = experiment.training
    for_split, for_order, for_start, for_noise = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(4))
    permutation = for_split.permutation(len(features))
    train = permutation[:n]
    test = permutation[n:]
    start = network.initial(for_start)
    steps = experiment.participation.length
    draws = for_noise.standard_normal((steps, start.size), dtype=np.float32)
    found = np.empty(len(runs))

    def run_all(chosen: list[int], taken: list[NDArray[Any]], noise: Floats, kinds: list[int], size: int) -> None:
        length = len(taken)
        fall = np.linspace(1, LAST, max(1, round(COOL_DOWN * length)))
        schedule = np.append(np.ones(length - fall.size), fall)
        for first in range(0, len(chosen), _AT_ONCE):
            part = chosen[first : first + _AT_ONCE]
            public = runs[part[0]].method == PUBLIC
            settings = Runs(
                np.array(kinds[first : first + _AT_ONCE]),
                scales=np.array([CLIP_NORM * noise_multiplier(experiment, *runs[i][:2]) for i in part]),
                learning_rates=np.array([runs[i].learning_rate for i in part]),
                momenta=np.array([runs[i].momentum for i in part]),
            )
            clip = math.inf if public else CLIP_NORM
            plan: dict[str, Any] = {"schedule": schedule, "batch_size": size, "clip_norm": clip}
            data = features[train], targets[train]
            last = trained(network, *data, taken, settings, start=start, noise=noise, **plan)
            found[part] = network.score(last, features[test], targets[test])

    order = batches(experiment.participation, n, experiment.batch_size, for_order)
    in_order = [order.batch(step) for step in range(steps)]
    sampled = [np.flatnonzero(for_order.random(n) < experiment.batch_size / n) for _ in range(steps)]
    everything = [np.arange(n)] * experiment.epochs
    who = experiment.participation
    names = list(dict.fromkeys(run.method for run in runs if run.method in MECHANISMS))
    chosen = [i for i, run in enumerate(runs) if run.method in MECHANISMS]
    if chosen:
        noise = np.stack([(_noising(name, who) @ draws).astype(np.float32) for name in names])
        run_all(chosen, in_order, noise, [names.index(runs[i].method) for i in chosen], experiment.batch_size)
    for method, taken, size in (
        (SAMPLED, sampled, experiment.batch_size),
        (FULL, everything, n),
        (PUBLIC, in_order, experiment.batch_size),
    ):
        chosen = [i for i, run in enumerate(runs) if run.method == method]
        if chosen:
            run_all(chosen, taken, draws[np.newaxis, : len(taken)], [0] * len(chosen), size)
    bins = for_order.integers(who.period, size=n)
    uniform = for_order.random((steps, n))
    for method, epsilon in dict.fromkeys(run[:2] for run in runs if run.method in AMPLIFIED):
        made = amplified(experiment, method, epsilon)
        p, rate = made.participation.period, made.participation.rate
        groups = bins if rate is None else np.arange(n) % p
        takes = [(groups == step % p) & (uniform[step] < (rate or 1.0)) for step in range(steps)]
        noise = (made.mechanism.noising_matrix(steps) @ draws).astype(np.float32)
        chosen = [i for i, run in enumerate(runs) if run[:2] == (method, epsilon)]
        run_all(
            chosen, [np.flatnonzero(one) for one in takes], noise[np.newaxis], [0] * len(chosen), experiment.batch_size
        )
    return found


def paired_interval(differences: Array, *, level: float = 0.95, resamples: int = 10_000) -> tuple[float, float]:
    """A bootstrap interval of the mean of paired differences, by percentiles and with a fixed seed.

    Parameters
    ----------
    differences : array of float
        One for each seed, shape (n,).
    level : float, default 0.95
        Confidence in (0, 1).
    resamples : int, default 10000
        How often the seeds are drawn anew.
    """
    drawn = np.random.default_rng(0).integers(differences.size, size=(resamples, differences.size))
    low, high = np.quantile(differences[drawn].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
