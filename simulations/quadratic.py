"""Simulation of private mean estimation and linear regression: Noisy-FTRL, and DP-FTRL with clipping.

``quadratic_chain.py`` runs one chain of φ_j = sqrt(λ_j) (θ_j − θ*_j), with F − F* = ½ ‖φ‖².  The noise is rational
(``rational``), and σ is computed from *its* sensitivity.

Three estimators of the stationary error, all unbiased for the same mean.  With φ runs its linear part φ⁰, whose error
q_0 is known, and the next term φ¹ of the same expansion, with error q_1; φ − φ⁰ is uncorrelated with φ⁰, so that

    plain:   ½ mean ‖φ‖²,      delta:  ½ (q_0 + mean ‖φ − φ⁰‖²),      delta1:  ½ (q_0 + q_1 + mean ‖φ − φ⁰ − φ¹‖²).

``plain`` assumes nothing; the others know the closed forms of q_0 and q_1 and have much smaller variance.

Chains are independent and have their own generators, so that the result depends on the seed alone and not on the
number of threads.  Idealised real numbers and an ordinary generator: for judging utility, not for releasing data.

Source: Choquette-Choo et al., arXiv 2310.06771: Algorithm 1, Figure 2, Property C.7.
"""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from corrnoise.simulations.quadratic_chain import Dynamics, Filter, Inputs, run_chain
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.simulations.standard_errors import inflation, long_run_error
from corrnoise.solvers.rational.stand_in import rational
from corrnoise.support.progress import progress_line
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.input_moments import InputMoments, fourth_moments_are_finite
from corrnoise.theory.problems.quadratic import MeanEstimation, QuadraticProblem, checked_quadratic

INPUTS = ("gaussian", "uniform", "signs", "student-t")
ESTIMATORS = ("plain", "delta", "delta1")
_NOISE_ERROR = 1e-8  # relative error of the rational noise, and the least of a standard error
_BURN_IN_TIMES = 6.0  # of burn-in: exp(-12) of the start is left
_BATCH_COUNT = 256


@record
class Simulation(Record):
    """The result of a simulation."""

    #: of F − F*, the plain estimator.  1.96 standard errors make a 95 % interval even where there are few independent
    #: stretches to estimate them from; they are ``inf`` where there is only one.
    mean: float
    standard_error: float
    #: mean and standard error of each estimator by name; with clipping only of ``"plain"``
    estimators: dict[str, tuple[float, float]]
    effective_sample_size: float  #: number of independent draws of F(θ) that would give the plain standard error
    clipped_fraction: float  #: share of the gradients that were clipped; 0 without clipping
    noise: ToeplitzNoise  #: the rational noise that was run
    #: steps a chain before and after recording began, and the number of chains
    burn_in: int
    steps: int
    chains: int


@record
class SimulatedCurve(Record):
    """A simulated learning curve: ``mean`` and ``standard_error`` of F − F* at ``steps``, arrays of one shape."""

    steps: NDArray[np.int64]
    mean: Array
    standard_error: Array
    noise: ToeplitzNoise


def input_moments(problem: QuadraticProblem, inputs: str) -> InputMoments:
    """The moments of the inputs' coordinates, checked against the kurtosis of the problem."""
    inputs = checks.choice("inputs", inputs, INPUTS)
    if isinstance(problem, MeanEstimation):
        return InputMoments.signs()  # the Hessian of a sample is constant, as with z² = 1
    if np.ptp(problem.kurtosis) > 0:
        raise ValueError(f"kurtosis must be one number for simulated inputs, got {problem.kurtosis!r}")
    kurtosis = float(np.max(problem.kurtosis))
    if inputs == "student-t":
        if not kurtosis > 3:
            raise ValueError(f"kurtosis must exceed 3 for student-t inputs (it sets their degrees), got {kurtosis!r}")
        return InputMoments.student_t(4 + 6 / (kurtosis - 3))
    moments = {"gaussian": InputMoments.gaussian, "uniform": InputMoments.uniform, "signs": InputMoments.signs}[
        inputs
    ]()
    if abs(moments.fourth - kurtosis) > 1e-9:
        raise ValueError(f"kurtosis of the problem must be {moments.fourth} for {inputs} inputs, got {kurtosis!r}")
    return moments


def relaxation_rate(problem: QuadraticProblem) -> float:
    """The slowest rate of relaxation of second moments, 1 − the largest eigenvalue of their recursion; > 0 if stable.

    It is the root ε below all y_j = x_j (2 − (1 + (k_j − 2)/m) x_j) of Σ x_j²/(m (y_j − ε)) = 1, here
    ε = min y − s Σ x_j²/m.
    """
    x = problem.rates
    m = problem.batch_size
    own = x * (2 - (1 + (np.asarray(problem.kurtosis) - 2) / m) * x)
    total = float((x * x).sum()) / m
    slowest = int(own.argmin())
    weights, gaps = x * x / (m * total), (own - own[slowest]) / total

    def excess(s: float) -> float:
        return float((weights / (gaps + s)).sum()) - 1

    return float(own[slowest]) - total * float(brentq(excess, weights[slowest] / 2, 2.0))


class RationalEngine(NamedTuple):
    """The rational noise to run, as a record and as a filter."""

    noise: ToeplitzNoise
    filter: Filter

    def relaxation_rate(self) -> float:
        """How fast the variances of the slowest section relax."""
        return 2 * float(np.minimum(self.filter.poles, 2 - self.filter.poles).min(initial=0.5))


_rational = functools.lru_cache(maxsize=64)(rational)


def rational_engine(problem: QuadraticProblem, noise: ToeplitzNoise) -> RationalEngine:
    """The cheapest rational noise whose averaged variances at the rates of the problem are right to ``_NOISE_ERROR``.

    (At rates below the gaps of the noise they are less precise than the tolerance.)
    """
    rational = noise
    rates = problem.rates[problem.rates < 2]
    for tolerance in () if isinstance(noise, PoleNoise) else (_NOISE_ERROR, 1e-2 * _NOISE_ERROR, 1e-12):
        rational = _rational(noise, tolerance)
        errors = rational.averaged_variance(rates) / noise.averaged_variance(rates) - 1
        if (np.abs(errors) <= _NOISE_ERROR).all():
            break
    if isinstance(rational, FiniteNoise):
        return RationalEngine(rational, Filter(rational.values.copy(), np.empty(0), np.empty(0)))
    assert isinstance(rational, PoleNoise)
    zeros, poles = rational.sections()
    return RationalEngine(rational, Filter(np.ones(1), zeros - poles, poles))


class _Chains(NamedTuple):
    """``sums`` of squares over the batches of all chains, shape (chains, batches, 3), in units of ``unit``²."""

    sums: Array
    fourth_powers: float
    clipped: int
    unit: float


class _ChainSetting(NamedTuple):
    """The numbers of the steps of a chain; the limit of the norm of a gradient is ``inf`` without clipping."""

    problem: QuadraticProblem
    engine: RationalEngine
    variance: float
    moments: InputMoments
    limit: float


def _run_chains(
    setting: _ChainSetting,
    edges: NDArray[np.int64],
    *,
    burn_in: int,
    chains: int,
    rng: Seed,
    start: Array,
    controls: bool,
    threads: int | None,
    progress: bool | None,
) -> _Chains:
    problem, engine, variance, moments, limit = setting
    entropy = generator(rng).integers(2**32, size=8)
    seeds = np.random.SeedSequence(entropy.tolist()).spawn(chains)
    sums, stopped = np.zeros((chains, edges.size - 1, 3)), np.zeros(1, np.bool_)
    roots = np.sqrt(problem.eigenvalues)
    step_noise = problem.learning_rate * math.sqrt(variance) / problem.batch_size
    # a power of two, so that squares stay in the range of floats and nothing is rounded
    unit = 2.0 ** math.frexp(max(problem.residual_std, step_noise * roots.max(), np.abs(start).max()))[1]
    dynamics = Dynamics(
        problem.rates, roots, problem.residual_std / unit, step_noise / unit, limit / unit, problem.batch_size
    )

    def one(index: int) -> tuple[float, int]:
        squares, clipped = run_chain(
            np.random.Generator(np.random.SFC64(seeds[index])),
            Inputs(moments.code, moments.freedom),
            engine.filter,
            dynamics,
            start / unit,
            controls,
            burn_in,
            edges,
            sums[index],
            stopped,
        )
        return float(squares), int(clipped)

    workers = os.cpu_count() if threads is None else checks.integer("threads", threads, 1)
    with progress_line(progress) as show, ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(one, index) for index in range(chains)]
        show("chains", 0, chains)
        try:
            for done, future in enumerate(as_completed(futures), 1):
                future.result()
                show("chains", done, chains)
        except BaseException:  # an interrupt, too, ends running and waiting chains
            stopped[0] = True
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    results = [future.result() for future in futures]
    return _Chains(sums, math.fsum(r[0] for r in results), sum(r[1] for r in results), unit)


def _edges(steps: int, batches: int) -> NDArray[np.int64]:
    """Where ``batches`` batches of nearly equal length begin, and the end of the last."""
    return np.array([steps * b // batches for b in range(batches + 1)], dtype=np.int64)


_heavy_tails_known = ContextVar("heavy_tails_known", default=False)


@contextmanager
def heavy_tails_known() -> Iterator[None]:
    """Do not warn of diverging fourth moments in a block whose caller has done so."""
    token = _heavy_tails_known.set(True)
    try:
        yield
    finally:
        _heavy_tails_known.reset(token)


@usual_float_errors
def simulate(
    problem: QuadraticProblem,
    noise: ToeplitzNoise,
    *,
    steps: int,
    chains: int,
    rng: Seed = None,
    budget: Budget = UNIT_BUDGET,
    clip: bool = False,
    inputs: str = "gaussian",
    burn_in: int | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Simulation:
    """Simulate the stationary error of Noisy-FTRL (``clip=False``) or DP-FTRL (``clip=True``).

    Parameters
    ----------
    problem : QuadraticProblem
        ``MeanEstimation`` or ``LinearRegression``.
    noise : ToeplitzNoise
        Correlated noise, with the σ² of its γ_∞ within ``budget``.
    steps : int
        Recorded steps a chain.
    chains : int
        Number of independent chains.
    rng : int, SeedSequence or Generator, optional
        Int, ``SeedSequence``, ``Generator`` or None.  With the same one the result is the same for any ``threads``.
    clip : bool, default False
        Clip gradients to the clipping norm of ``budget``, as privacy demands.  Any learning rate will do.
    inputs : str, default "gaussian"
        ``"gaussian"``, ``"uniform"``, ``"signs"`` (Rademacher) or ``"student-t"``, with the kurtosis of the problem (3,
        1.8, 1, or more than 3, which sets the degrees of freedom).  Ignored for ``MeanEstimation``.
    burn_in : int, optional
        Steps a chain before recording; None for 6 relaxation times 2/ε of the second moments and of the noise, after
        which exp(−12) of the start is left; hard clipping may slow relaxation down.
    threads : int, optional
        Number of threads; None for all cores.
    progress : bool, optional
        Show progress on standard error; None for: if it is a terminal.
    budget : Budget, optional
        ρ, clipping norm G and adjacency.

    Returns
    -------
    Simulation

    Raises
    ------
    ValueError
        If the second moments diverge (``problem.instability() >= 1``) without clipping, or γ_∞ is infinite.

    Warns
    -----
    RuntimeWarning
        The fourth moments diverge: the mean converges, but its standard error means nothing.  With batches of several
        examples this is not checked.

    Examples
    --------
    >>> import corrnoise as cn
    >>> problem = cn.MeanEstimation(0.1)
    >>> noise = cn.mechanisms.NuFTRL(0.1)
    >>> run = cn.simulate(problem, noise, steps=1000, chains=4, rng=1, progress=False)
    >>> bool(abs(run.mean - problem.stationary_error(noise)) < 6 * run.standard_error)
    True
    """
    moments = _checked(problem, noise, inputs)
    steps = checks.integer("steps", steps, 1)
    chains = checks.integer("chains", chains, 1)
    clip = checks.boolean("clip", clip)
    if not clip:
        _refuse_unstable(problem, moments)
    if math.isinf(noise.variance(budget)):
        raise ValueError(f"noise must have a finite limiting sensitivity, got {noise!r}")
    engine = rational_engine(problem, noise)
    variance = engine.noise.variance(budget)
    if burn_in is None:
        rate = relaxation_rate(problem) if problem.instability() < 1 else float(problem.rates.min())
        burn_in = math.ceil(2 * _BURN_IN_TIMES / min(rate, engine.relaxation_rate())) + engine.filter.head.size
    burn_in = checks.integer("burn_in", burn_in, 0)
    edges = _edges(steps, min(_BATCH_COUNT, steps))
    found = _run_chains(
        _ChainSetting(problem, engine, variance, moments, budget.clip_norm if clip else math.inf),
        edges,
        burn_in=burn_in,
        chains=chains,
        rng=rng,
        start=np.zeros(problem.eigenvalues.size),
        controls=not clip,
        threads=threads,
        progress=progress,
    )
    recorded, unit = chains * steps, found.unit * found.unit
    known = (0.0,) if clip else (0.0, *_linear_errors(problem, engine.noise, variance))
    estimators = {}
    for index, name in enumerate(ESTIMATORS[: len(known)]):
        sums = found.sums[:, :, index]
        mean = (unit * float(sums.sum()) / recorded + sum(known[: index + 1])) / 2
        error = unit * long_run_error(sums, np.diff(edges)) / 2 if math.isfinite(mean) else math.inf
        estimators[name] = (mean, max(error, _NOISE_ERROR * mean))
    mean, error = estimators["plain"]
    draws = 0.0
    if 0 < error < math.inf:
        draws = (found.fourth_powers / recorded / 4 - (mean / unit) ** 2) * (unit / error) ** 2
    return Simulation(
        mean,
        error,
        estimators,
        min(draws, float(recorded)),
        found.clipped / (recorded * problem.batch_size),
        engine.noise,
        burn_in,
        steps,
        chains,
    )


def _checked(problem: QuadraticProblem, noise: ToeplitzNoise, inputs: str) -> InputMoments:
    """The moments of the inputs, if problem and noise are what they should be."""
    checked_noise(noise)
    return input_moments(checked_quadratic(problem), inputs)


def _refuse_unstable(problem: QuadraticProblem, moments: InputMoments) -> None:
    if not problem.instability() < 1:
        raise ValueError(
            f"learning_rate must keep second moments finite: instability must be below 1, got {problem.instability()!r}"
        )
    known = _heavy_tails_known.get() or problem.batch_size > 1
    if not known and not fourth_moments_are_finite(problem.rates, moments):
        warnings.warn(
            "the fourth moments of the iterates diverge at this learning rate: standard errors mean nothing",
            RuntimeWarning,
            stacklevel=4,  # of the caller of ``simulate``, which has a decorator
        )


def _linear_errors(problem: QuadraticProblem, noise: ToeplitzNoise, variance: float) -> tuple[float, float]:
    """q_0 and q_1, the stationary ‖φ⁰‖² and ‖φ¹‖²."""
    x = problem.rates
    k = np.asarray(problem.kurtosis)
    first = problem.learning_rate * problem.drive(noise, variance) / (2 - x)
    second = x * ((k - 2) * first + first.sum()) / (problem.batch_size * (2 - x))
    return float(first.sum()), float(second.sum())


def simulate_learning_curve(
    problem: QuadraticProblem,
    noise: ToeplitzNoise,
    steps: int,
    *,
    chains: int,
    points: int = 200,
    rng: Seed = None,
    budget: Budget = UNIT_BUDGET,
    participation: Participation = ANY_LENGTH,
    clip: bool = False,
    initial_offset: ArrayLike = 0.0,
    threads: int | None = None,
) -> SimulatedCurve:
    """Simulate E F(θ_t) − F* as ``problem.learning_curve`` computes it, averaged over ``points`` blocks of steps.

    Inputs are Gaussian.

    ``SimulatedCurve.steps`` are the first steps of the blocks; a block's exact counterpart is the mean of the exact
    curve over it.  σ² belongs to the rational noise of the run, by its γ for ``participation``, by default γ_∞.  The
    other parameters are those of ``simulate``; ``chains`` is at least 2.  Any learning rate will do: what exceeds the
    range of floats is ``inf``.
    """
    moments = _checked(problem, noise, "gaussian")
    steps = checks.integer("steps", steps, 1)
    chains = checks.integer("chains", chains, 2)
    clip = checks.boolean("clip", clip)
    points = min(checks.integer("points", points, 1), steps)
    length = checks.instance("participation", participation, Participation).steps
    if length is not None and steps - 1 > length:  # the last is θ_{steps−1}
        raise ValueError(f"steps must be at most the {length} of participation + 1, got {steps}: no more are private")
    offset = checks.scalar_or_vector("initial_offset", initial_offset, "(-inf, inf)", problem.eigenvalues.size)
    engine = rational_engine(problem, noise)
    variance = engine.noise.variance(budget, participation)
    if math.isinf(variance):
        raise ValueError(f"noise must have a finite sensitivity, got {noise!r} for {participation!r}")
    edges = _edges(steps, points)
    found = _run_chains(
        _ChainSetting(problem, engine, variance, moments, budget.clip_norm if clip else math.inf),
        edges,
        burn_in=0,
        chains=chains,
        rng=rng,
        start=np.sqrt(problem.eigenvalues) * offset,
        controls=False,
        threads=threads,
        progress=False,
    )
    with np.errstate(over="ignore"):
        errors = found.unit * (found.unit * found.sums[:, :, 0] / (2 * np.diff(edges)))
        finite = np.isfinite(errors).all(axis=0)
        deviations = np.where(finite, np.where(finite, errors, 0.0).std(axis=0, ddof=1), math.inf)
        means = errors.mean(axis=0)
    return SimulatedCurve(edges[:-1], means, deviations * (inflation(chains - 1) / math.sqrt(chains)), engine.noise)
