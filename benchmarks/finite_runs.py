"""Toeplitz mechanisms of finite runs: products, the optimal banded strategy, the optimal buffers.

Each search is compared with one evaluation of the error at the optimum that it finds, in the same run: an optimiser
cannot take less.  A small search is also compared with the same search by numerical derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy.fft
import scipy.optimize

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.toeplitz import best_toeplitz
from corrnoise.theory.mechanisms import buffered
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.power_series import multiplied
from corrnoise.theory.objectives.toeplitz_errors import Aggregate, error_weights, strategy_error
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation


def _transformed(one: Array, other: Array) -> Array:
    length = scipy.fft.next_fast_len(2 * one.size, real=True)
    product = scipy.fft.rfft(one, length) * scipy.fft.rfft(other, length)
    return np.asarray(scipy.fft.irfft(product, length)[: one.size])


def _convolved(one: Array, other: Array) -> Array:
    return np.convolve(one, other)[: one.size]


@benchmark
def toeplitz_product(setting: Setting) -> Iterator[Row]:
    """The product of two Toeplitz matrices of n steps; differences in the 2-norm."""
    size = setting.pick(10_000, 2000)
    short = NuFTRL(0.0).inverse_coefficients(size)
    for steps in setting.pick([10**4, 10**5], [2000, 8000]):
        c = NuFTRL(0.0).inverse_coefficients(steps)
        ours = Side("product", partial(multiplied, c, c), steps)
        floor = Side("three FFTs: the floor", partial(_transformed, c, c), steps)
        scaled = "" if steps == size else f", {size:.0e} steps, scaled"
        direct = Side("numpy convolve" + scaled, partial(_convolved, short, short), size * size / steps)
        yield setting.compare(f"n = {steps:.0e}", ours, floor, item="step", tolerance=1e-11, in_norm=True)
        part = slice(size)
        yield setting.compare(f"n = {steps:.0e}", ours, direct, item="step", tolerance=1e-11, where=part, in_norm=True)


def _numerically(loss: Callable[[Array], float], start: Array) -> float:
    """The root mean squared error at the minimum of the logarithm of its square, by numerical derivatives."""
    return math.exp(scipy.optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-5}).fun / 2)


@benchmark
def banded_toeplitz(setting: Setting) -> Iterator[Row]:
    """The error of the optimal strategy with p bands after n steps, one participation, without the certificate."""
    for steps, bands in setting.pick([(1000, 8), (10**4, 32), (10**5, 32)], [(200, 4), (1000, 16)]):
        who = Participation.single(steps)
        weights = error_weights(steps, steps, "mean")

        def loss(tail: Array, weights: Array = weights) -> float:
            strategy = np.concatenate([[1.0], tail])
            return math.log(strategy_error(strategy, weights)[0]) + math.log(strategy @ strategy)

        def searched(who: Participation = who, bands: int = bands) -> float:
            return best_toeplitz(PrefixSums(who.length), who, bands).mean_error(who)

        def evaluated(tail: Array, loss: Callable[[Array], float] = loss) -> float:
            return math.exp(loss(tail) / 2)

        found = best_toeplitz(PrefixSums(steps), who, bands).inverse_coefficients(bands)
        ours = Side("best_toeplitz", searched, 1)
        once = Side("one evaluation: the floor", partial(evaluated, found[1:]), 1)
        case = f"n = {steps:.0e}, p = {bands}"
        yield setting.compare(case, ours, once, item="optimum", tolerance=1e-10)
        if bands <= 8:
            start = NuFTRL(0.0).inverse_coefficients(bands)[1:]
            other = Side("BFGS, numerical derivatives", partial(_numerically, loss, start), 1)
            yield setting.compare(case, ours, other, item="optimum", tolerance=1e-8)


@benchmark
def buffers(setting: Setting) -> Iterator[Row]:
    """The error of the optimal mechanism with d buffers after n steps, one participation."""
    cases: list[tuple[int, int, Aggregate]] = setting.pick(
        [(1000, 3, "max"), (10**4, 4, "max"), (10**4, 3, "mean"), (10**6, 6, "max")], [(1000, 2, "mean")]
    )
    for steps, count, objective in cases:
        who = Participation.single(steps)

        def searched(who: Participation = who, count: int = count, objective: Aggregate = objective) -> float:
            noise = best_buffers(
                PrefixSums(who.length) if objective == "mean" else LargestError(PrefixSums(who.length)), who, count
            )
            return noise.mean_error(who) if objective == "mean" else noise.max_error(who)

        noise = best_buffers(PrefixSums(steps) if objective == "mean" else LargestError(PrefixSums(steps)), who, count)
        zeros, poles = buffered.interlacing(noise)

        def evaluated(
            zeros: Array = zeros, poles: Array = poles, who: Participation = who, objective: Aggregate = objective
        ) -> float:
            square = buffered.squared_sensitivity(zeros, buffered.scales(zeros, poles), who)
            return math.sqrt(square * buffered.squared_error(zeros, poles, steps=who.length, aggregate=objective))

        ours = Side("best_buffers", searched, 1)
        other = Side("one evaluation: the floor", evaluated, 1)
        case = f"n = {steps:.0e}, d = {count}, {objective}"
        yield setting.compare(case, ours, other, item="optimum", tolerance=1e-10)
