"""Tests of noise: is it there, is it new, and does it have the claimed size, correlation and shape?

The noise of ``runs`` runs of T steps is seen in n *idle* coordinates, in units of the claimed standard deviation of the
independent noise.  ``raw`` has the shape (runs, T, n) and, as claimed, columns N(0, K).  ``white`` is L⁻¹ raw with
L Lᵀ = K; as claimed all its entries are independent and N(0, 1).  ``centred`` is ``white`` less the mean over the
coordinates of each run and step, which removes a constant offset and one degree of freedom.

All p-values are exact or too large for every number of coordinates.  Three rules keep causes apart:

* a test for noise that is absent or used again counts only where the statistic is near 0 compared with ``size``, the
  mean square of the noise, so that noise of another size or correlation does not set it off;
* tests of correlations are divided by an independent estimate of the size, so that noise of another size does not;
* the mean is tested by Hotelling's statistic, so that noise of another covariance does not.

*Bartlett.*  For T rows and N >= T columns of independent standard normal numbers, the Cholesky factor L of W Wᵀ has
independent entries, N(0, 1) below the diagonal and L_tt² ~ χ² of N − t degrees of freedom.  Hence sums over the
subdiagonals are independent, and divided by the root mean square of the diagonal they have Student's distribution.
The rows are cut into windows of at most N/2 steps, whose factors are independent.

References
----------
M. S. Bartlett, Proc. R. Soc. Edinburgh 53, 1933.
P. Massart, Ann. Probab. 18, 1990 (the constant of the Kolmogorov–Smirnov bound).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, chdtr, chdtrc, fdtrc, log_ndtr, ndtr, stdtr

from corrnoise.theory.auditing.evidence import Evidence, evidence
from corrnoise.theory.numerics.checks import Array

Places = NDArray[np.intp]

_NEAR_ZERO = 1e-6  # of the mean square: noise that is absent, up to rounding in float32
_USED_AGAIN = 0.1  # of the mean square of the difference of two steps
_REUSE_COSINE = 0.5  # the cosine of noise that is used again
_OTHER_SIGN = 0.35  # of its numbers at most, so that a few that are large do not look so
_ALMOST_NONE = 0.1  # of the mean square: noise of a coordinate that heavy tails or another correlation do not explain
_OUTLIER_FACTOR = 10  # times the median over the coordinates
_MAX_ATOM = 2.0**-20  # of the standard deviation: atoms that noise may have
_HASHED_ROWS = 16  # of columns, to find columns that are near each other
_BLOCK_COLUMNS = 1024  # columns compared at once
_TINY_NORM = 1e-300


def centred(white: Array) -> Array:
    """The noise less its mean over the coordinates of each run and step."""
    return white - white.mean(axis=2, keepdims=True)


# -- noise that is absent ----------------------------------------------------------------------------------------------


def no_noise(white: Array) -> Evidence:
    """Σ W²/N of all noise, if it is near 0."""
    mean = float(np.mean(white**2))
    return evidence(mean, chdtr(white.size, white.size * mean) if mean < _NEAR_ZERO else 1.0)


def least_coordinate(energies: Array, freedom: Array, size: float, places: Places, *, absent: bool) -> Evidence:
    """The smallest mean square of a coordinate, for its degrees of freedom; if ``absent``, only below a tenth."""
    chances = chdtr(freedom, energies)
    if absent:
        chances = np.where(energies < _ALMOST_NONE * freedom * size, chances, 1.0)
    least = int(np.argmin(chances))
    share = energies[least] / max(freedom[least], 1)
    return evidence(share, chances[least], f"coordinate {places[least]}").among(energies.size)


def step_without_noise(raw: Array, covariance: Array) -> Evidence:
    """The smallest Σ_j (R_tj − mean)²/K_tt of a step, if it is near 0."""
    runs, steps, idle = raw.shape
    energies = (centred(raw) ** 2).sum(axis=2) / np.diag(covariance)
    run, step = np.unravel_index(int(np.argmin(energies)), energies.shape)
    least = float(energies[run, step])
    near = least < _NEAR_ZERO * min(float(energies.mean()), idle - 1.0)
    return evidence(least / (idle - 1), chdtr(idle - 1, least) if near else 1.0, _at(step)).among(runs * steps)


def _at(step: object) -> str:
    return f"step {int(step) + 1}"  # type: ignore[call-overload]


# -- noise that is used again ------------------------------------------------------------------------------------------


def _blocks(columns: Array) -> Iterator[tuple[int, Array]]:
    """Inner products of columns with all later ones, a block of rows of the Gram matrix at a time."""
    for first in range(0, columns.shape[1], _BLOCK_COLUMNS):
        yield first, columns[:, first : first + _BLOCK_COLUMNS].T @ columns[:, first:]


def _upper(products: Array, value: float) -> Array:
    """The products of different columns; others are replaced by ``value``."""
    products[np.tril_indices(products.shape[0], 0, products.shape[1])] = value
    return products


def _nearest(columns: Array, size: float) -> tuple[Evidence, tuple[int, int]]:
    """The smallest |c_i ± c_j|²/(2D) of two columns of white noise, shape (D, d), if it is near 0, and the columns.

    Columns that are near each other are near in the row that sorts them.  Columns that are near 0 themselves
    are left out.
    """
    length, count = columns.shape
    if length == 0:
        return evidence(1.0, 1.0), (0, 0)
    widest = columns[int(np.argmax(columns.std(axis=1)))]
    columns = columns * np.where(widest < 0, -1.0, 1.0)
    widest = np.abs(widest)
    order = np.argsort(widest, kind="stable")
    order = order[(columns[:, order] ** 2).sum(axis=0) > _NEAR_ZERO * length * size]
    row = widest[order]
    most = 2 * _NEAR_ZERO * length * size
    for apart in range(1, order.size):
        near = np.flatnonzero((row[apart:] - row[:-apart]) ** 2 <= most)
        if not near.size:
            break
        first = columns[:_HASHED_ROWS, order[near]] - columns[:_HASHED_ROWS, order[near + apart]]
        near = near[(first**2).sum(axis=0) <= most]
        if not near.size:
            continue
        one, other = order[near], order[near + apart]
        squares = ((columns[:, one] - columns[:, other]) ** 2).sum(axis=0)
        least = int(np.argmin(squares))
        if squares[least] < most:  # some pair, not the nearest of all: the p-value is then too large
            found = evidence(squares[least] / (2 * length), chdtr(length, squares[least] / 2))
            pair = int(one[least]), int(other[least])
            return found.among(count * (count - 1)), pair
    return evidence(1.0, 1.0), (0, 0)


def shared_noise(columns: Array, size: float, places: Places) -> Evidence:
    """Two coordinates with the same noise, up to the sign, among columns of white noise, shape (D, d)."""
    found, pair = _nearest(columns, size)
    first, second = sorted(int(places[column]) for column in pair)
    return found._replace(where=f"coordinates {first} and {second}" if found.p < 1 else "")


def used_again(noises: tuple[Array, Array], deviations: Array) -> Evidence:
    """Two steps of any runs with the same noise, up to the sign, raw or white; shapes (runs, T, n)."""
    tried = []
    for kind, scales in zip(noises, (deviations, np.ones_like(deviations)), strict=True):
        runs, steps, idle = kind.shape
        columns = (kind / scales[:, np.newaxis]).reshape(runs * steps, idle).T
        found, pair = _nearest(columns, min(1.0, float(np.mean(columns**2))))
        first, second = (f"step {i % steps + 1} of run {i // steps + 1}" for i in sorted(pair))
        tried.append(found._replace(where=f"{first} and {second}" if found.p < 1 else ""))
    return min(tried, key=lambda one: one.p).among(len(tried))


def largest_cosine(columns: Array) -> Evidence:
    """The largest cosine of two columns; its square has the distribution Beta(1/2, (D − 1)/2)."""
    length, count = columns.shape
    if length < 2:
        return evidence(0.0, 1.0)
    unit = columns / np.maximum(np.linalg.norm(columns, axis=0), _TINY_NORM)
    largest = max(float(np.abs(_upper(products, 0.0)).max()) for _, products in _blocks(unit))
    return cosine(largest, length).among(count * (count - 1) // 2)


def cosine(value: float, length: int) -> Evidence:
    """A cosine with a random direction in ``length`` dimensions, two-sided."""
    return evidence(value, betainc((length - 1) / 2, 0.5, max(0.0, 1 - value**2)))


def repeated_step(raw: Array, covariance: Array) -> Evidence:
    """The smallest |R_s − R_t|²/(K_ss + K_tt − 2 K_st) of a run, or with + for −.

    It counts where it is below a tenth of its mean and |R_s − R_t|² is below a tenth of |R_s|² + |R_t|².
    """
    runs, steps, idle = raw.shape
    if steps < 2:
        return evidence(1.0, 1.0)
    variances = np.diag(covariance)
    size = min(float(idle), float(np.mean((raw**2).sum(axis=(0, 2)) / variances)) / runs)
    least = (math.inf, 0, 0)
    for one in raw:
        products = one @ one.T
        for sign in (-1, 1):
            apart = np.add.outer(np.diag(products), np.diag(products))
            sums = apart + sign * 2 * products
            claimed = np.add.outer(variances, variances) + sign * 2 * covariance
            ratios = np.where(
                sums < _USED_AGAIN * apart, np.maximum(sums, 0.0) / np.maximum(claimed, _TINY_NORM), math.inf
            )
            ratios = _upper(ratios, math.inf)
            first, second = divmod(int(np.argmin(ratios)), steps)
            least = min(least, (float(ratios[first, second]), first, second))
    ratio, first, second = least
    if ratio >= _USED_AGAIN * size:
        return evidence(1.0, 1.0)
    where = f"steps {first + 1} and {second + 1}"
    return evidence(ratio / idle, chdtr(idle, ratio), where).among(runs * steps * (steps - 1))


def singular(factors: Sequence[Array], freedom: int, size: float) -> Evidence:
    """The smallest L_tt²/(N − t), the rest of a step given the earlier steps of its window, if it is near 0."""
    least = evidence(math.inf, 1.0)
    for first, factor in zip(np.cumsum([0, *map(len, factors)]), factors, strict=False):
        left = freedom - np.arange(len(factor))
        ratios = np.diag(factor) ** 2 / left
        step = int(np.argmin(ratios))
        if ratios[step] < least.statistic:
            p = chdtr(left[step], left[step] * ratios[step]) if ratios[step] < _NEAR_ZERO * size else 1.0
            least = evidence(ratios[step], p, _at(first + step))
    return least.among(sum(map(len, factors)))


def repeated_runs(centre: Array) -> tuple[Evidence, Evidence]:
    """The largest cosine of the noise of two runs: if it exceeds ½ and most signs agree, and anyhow."""
    runs, steps, idle = centre.shape
    flat = centre.reshape(runs, -1)
    unit = flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), _TINY_NORM)
    products = _upper(unit @ unit.T, 0.0)
    i, j = np.unravel_index(int(np.argmax(np.abs(products))), products.shape)
    value = float(products[i, j])
    found = cosine(value, steps * (idle - 1))._replace(where=f"runs {int(i) + 1} and {int(j) + 1}")
    found = found.among(runs * (runs - 1) // 2)
    again = abs(value) > _REUSE_COSINE and abs(float(np.mean(np.sign(flat[i] * flat[j])))) > 1 - 2 * _OTHER_SIGN
    return (found if again else found._replace(p=1.0)), found


def equal_values(released: Array, width: float) -> Evidence:
    """The number of pairs of equal values within a step, shape (runs, T, n), by Cantelli's inequality.

    Noise whose atoms are no wider than w = max(``width``, 2⁻²⁰) of its standard deviation has pairs of equal values
    with probability Σ p² <= w ∫φ² = w/(2 sqrt(π)), and triples with Σ p³ <= w² ∫φ³ = w²/(2π sqrt(3)).
    """
    runs, steps, idle = released.shape
    found = 0
    for row in released.reshape(-1, idle):
        _, counts = np.unique(row, return_counts=True)
        found += int((counts * (counts - 1)).sum()) // 2
    w = max(width, _MAX_ATOM)
    mean = runs * steps * idle * (idle - 1) / 2 * w / (2 * math.sqrt(math.pi))
    variance = mean + runs * steps * float(idle) ** 3 * w**2 / (2 * math.pi * math.sqrt(3))
    return evidence(found, variance / (variance + (found - mean) ** 2) if found > mean else 1.0)


# -- size and mean -----------------------------------------------------------------------------------------------------


def variance(energy: float, freedom: int) -> tuple[Evidence, Evidence]:
    """A mean square, of a sum with so many degrees of freedom: is it too small, is it too large?"""
    return evidence(energy / freedom, chdtr(freedom, energy)), evidence(energy / freedom, chdtrc(freedom, energy))


def least_step(raw: Array, covariance: Array) -> Evidence:
    """The smallest Σ (R_t − mean)²/K_tt of a step over all runs."""
    runs, steps, idle = raw.shape
    freedom = runs * (idle - 1)
    energies = (centred(raw) ** 2).sum(axis=(0, 2)) / np.diag(covariance)
    step = int(np.argmin(energies))
    return evidence(energies[step] / freedom, chdtr(freedom, energies[step]), _at(step)).among(steps)


def step_for_one_gradient(raw: Array, least: float) -> Evidence:
    """The smallest Σ_j (R_tj − mean)² of a step in units of ``least``, the variance that gives one step μ alone."""
    runs, steps, idle = raw.shape
    energies = (centred(raw) ** 2).sum(axis=2) / least
    step = int(np.argmin(energies.min(axis=0)))
    smallest = float(energies[:, step].min())
    return evidence(smallest / (idle - 1), chdtr(idle - 1, smallest), _at(step)).among(runs * steps)


def step_sizes(centre: Array) -> Evidence:
    """The most extreme share of a step in the sum of squares of white noise: a Beta distribution, two-sided."""
    runs, steps, idle = centre.shape
    if steps < 2:
        return evidence(1.0, 1.0)
    half = runs * (idle - 1) / 2
    energies = (centre**2).sum(axis=(0, 2))
    shares = energies / max(float(energies.sum()), _TINY_NORM)
    below = betainc(half, (steps - 1) * half, shares)
    above = betainc((steps - 1) * half, half, 1 - shares)
    chances = np.minimum(below, above)
    step = int(np.argmin(chances))
    return evidence(shares[step] * steps, chances[step], _at(step)).among(2 * steps)


# -- correlation -------------------------------------------------------------------------------------------------------


def bartlett(centre: Array) -> list[Array]:
    """Cholesky factors of the Gram matrices of windows of steps, which may be singular."""
    runs, steps, idle = centre.shape
    width = max(1, min(steps, runs * (idle - 1) // 2))
    found: list[Array] = []
    for first in range(0, steps, width):
        window = centre[:, first : first + width].transpose(0, 2, 1).reshape(runs * idle, -1)
        upper: Array = np.asarray(np.linalg.qr(window, mode="r"))
        found.append((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, np.newaxis]).T)
    return found


def correlations(factors: Sequence[Array], freedom: int, lags: Iterable[int]) -> tuple[Evidence, ...]:
    """Four tests of the factors: each of the lags, all lags together, all pairs of steps together, the largest pair.

    Parameters
    ----------
    factors : sequence of array of float
        What ``bartlett`` returns.
    freedom : int
        N, the degrees of freedom of a row.
    lags : iterable of int
        Distances of steps that are tested one by one.
    """
    left = sum(freedom - t for factor in factors for t in range(len(factor)))
    size = math.sqrt(sum(float((np.diag(factor) ** 2).sum()) for factor in factors) / left)
    longest = len(factors[0]) - 1
    if longest < 1:
        return (evidence(0.0, 1.0),) * 4
    sums = np.zeros(longest)
    for factor in factors:
        for lag in range(1, len(factor)):
            sums[lag - 1] += np.trace(factor, -lag)
    counts = np.array([sum(max(0, len(factor) - lag) for factor in factors) for lag in range(1, longest + 1)])
    scores = sums / np.sqrt(counts) / size
    below = np.concatenate([factor[np.tril_indices(len(factor), -1)] for factor in factors]) / size
    chosen = [lag for lag in sorted(set(lags)) if 1 <= lag <= longest]
    farthest = max(chosen, key=lambda lag: abs(float(scores[lag - 1])))
    each = _student(float(scores[farthest - 1]), left)._replace(where=f"steps {farthest} apart")
    together = float(np.mean(scores**2))
    pairs = float(np.mean(below**2))
    return (
        each.among(len(chosen)),
        evidence(together, fdtrc(longest, left, together)),
        evidence(pairs, fdtrc(below.size, left, pairs)),
        _student(float(np.abs(below).max()), left).among(below.size),
    )


def _student(value: float, freedom: int) -> Evidence:
    """A number with Student's distribution, two-sided."""
    return evidence(value, 2 * stdtr(freedom, -abs(value)))


def offset(white: Array, factors: Sequence[Array], drift: Array) -> Evidence:
    """The mean of the noise of a step over all coordinates and runs, by Hotelling's T² of each window.

    Parameters
    ----------
    white : array of float
        The noise, not centred.
    factors : sequence of array of float
        What ``bartlett`` returns.
    drift : array of float
        Largest means that the release may have, in white noise, shape (T, …): columns that may each be there with
        a factor in [−1, 1].
    """
    runs, _, idle = white.shape
    freedom = runs * (idle - 1)
    means = white.mean(axis=(0, 2))
    chances = []
    values = []
    first = 0
    for factor in factors:
        width = len(factor)
        try:
            scaled = np.linalg.solve(
                factor, np.column_stack([means[first : first + width], drift[first : first + width]])
            )
        except np.linalg.LinAlgError:  # a combination of steps has no noise
            return evidence(math.inf, 0.0)
        norms = np.linalg.norm(scaled, axis=0) * math.sqrt(runs * idle)
        square = max(0.0, float(norms[0] - norms[1:].sum())) ** 2
        ratio = square * (freedom - width + 1) / width
        chances.append(evidence(ratio, fdtrc(width, freedom - width + 1, ratio)).p)
        values.append(ratio)
        first += width
    return evidence(max(values), min(chances)).among(len(factors))


def neighbours(columns: Array) -> Evidence:
    """Correlation of each coordinate with the one before it, shape (D, n).

    Given the earlier columns, ⟨c_j, c_{j−1}⟩/|c_{j−1}| is N(0, 1) and independent of the rest of c_j, whose square
    has D − 1 degrees of freedom.  So the sum of the one over the root of the sum of the other is Student's.
    """
    length, count = columns.shape
    if length < 2:
        return evidence(0.0, 1.0)
    norms = np.linalg.norm(columns[:, :-1], axis=0)
    products = (columns[:, 1:] * columns[:, :-1]).sum(axis=0) / np.maximum(norms, _TINY_NORM)
    left = float((columns[:, 1:] ** 2).sum() - (products**2).sum())
    freedom = (count - 1) * (length - 1)
    score = float(products.sum()) / math.sqrt(count - 1) / math.sqrt(max(left / freedom, _TINY_NORM))
    return _student(score, freedom)


# -- shape -------------------------------------------------------------------------------------------------------------


def normal_shape(white: Array, drift: float) -> Evidence:
    """The distance of Kolmogorov and Smirnov from N(0, 1), with Massart's bound; means of at most ``drift`` pass."""
    values = ndtr(np.sort(white, axis=None))
    ranks = np.arange(white.size + 1) / white.size
    distance = float(max((ranks[1:] - values).max(), (values - ranks[:-1]).max()))
    least = max(0.0, distance - drift / math.sqrt(2 * math.pi))
    return evidence(distance, min(1.0, 2 * math.exp(-2 * white.size * least**2)))


def largest_value(white: Array, drift: float) -> tuple[Evidence, Evidence]:
    """Is the largest absolute value of N too small, is it too large?  It is below a with probability (2Φ(a) − 1)^N.

    Means of at most ``drift`` pass.
    """
    value = float(np.abs(white).max())

    def below(bound: float) -> float:
        """The logarithm of the probability that all values are below."""
        tail = 2 * math.exp(float(log_ndtr(-max(0.0, bound))))
        return white.size * math.log1p(-tail) if tail < 1 else -math.inf

    return evidence(value, math.exp(below(value + drift))), evidence(value, -math.expm1(below(value - drift)))


def greatest_coordinate(columns: Array, places: Places, *, outlying: bool) -> Evidence:
    """The largest mean square of a coordinate, shape (D, n); if ``outlying``, only above ten times the median."""
    length, count = columns.shape
    energies = (columns**2).sum(axis=0)
    most = int(np.argmax(energies))
    far = energies[most] > _OUTLIER_FACTOR * float(np.median(energies))
    p = 1.0 if outlying and not far else chdtrc(length, energies[most])
    return evidence(energies[most] / length, p, f"coordinate {places[most]}").among(count)


def coordinate_sizes(white: Array) -> Evidence:
    """Whether coordinates have noise of one size, shape (runs, T, n), by Bartlett's test of equal variances."""
    runs, steps, count = white.shape
    energies = np.maximum((white**2).sum(axis=(0, 1)), _TINY_NORM)
    freedom = runs * steps
    ratios = energies / energies.mean()
    statistic = -freedom * float(np.log(ratios).sum()) / (1 + (count + 1) / (3 * count * freedom))
    return evidence(math.sqrt(max(0.0, float(np.var(ratios)))), chdtrc(count - 1, statistic))
