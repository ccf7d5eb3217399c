r"""The contour: δ of products of Poisson-sampled Gaussian steps as an integral over a line of the complex plane.

A step that samples an example at the rate q and adds noise of standard deviation σ/Δ has the likelihood ratio
$A = 1 - q + q e^{r x - r^2/2}$ with $r = \Delta/\sigma$ and x standard normal under Q.  A run is a product of
independent steps and of one Gaussian mechanism; $M(z) = E_Q \Lambda^z = e^{s z (z - 1)/2} \prod_i M_i(z)^{T_i}$.  For
θ > 1, and for θ < 0,

$$\delta_{remove}(\varepsilon) = \frac1{2\pi} \int \frac{M(z) e^{\varepsilon (1 - z)}}{z (z - 1)} du, \qquad
\delta_{add}(\varepsilon) = \frac1{2\pi} \int \frac{M(z) e^{\varepsilon z}}{z (z - 1)} du, \qquad z = \theta + iu.$$

Both are sums over $u = k h$, with these errors (proofs in ``docs/amplification-proofs.md``).  Let t = θ − 1 > 0 for
remove and t = −θ > 0 for add, $c(t) = t^t (1 + t)^{-1-t}$, and C(t) = c(t) M e^{−εt}, which is at least δ.

*step*
    By Poisson summation the infinite sum exceeds δ by R >= 0, which is at most
    $\sum_{j \ge 1} e^{-2\pi jt/h} + C(t') e^{-2\pi j(t'-t)/h}$, for every t' > t.
*moments*
    $M_i(z) = \int \varphi(w) A(w)^z dw$ over the line Im w = a, where $|A^{iu}| \le 1$ for u >= 0.  The trapezoidal
    rule of step $h_x$ has an error of at most $(e^{2a^2} \kappa + 1) M_i(\theta)/(e^{2\pi a/h_x} - 1)$, where
    2a < π/r, and κ = 1 for θ > 0, $\cos(ra)^\theta$ for θ < 0.
*tail*
    $|M_i(\theta + iu)| \le B_i(u) = \int |\varphi(w) A(w)^\theta| e^{-u \arg A(w)} dw$ over any such line, and B falls
    in u.  The terms beyond u = U have a sum of at most $e^{-\varepsilon t} B(U)/(\pi U)$.

Few steps of small rates have slowly falling moments.  Their ratio is multiplied with an independent lognormal Y whose
logarithm has the least variance s such that 10 000 nodes are enough; see ``enclosure`` for the lower end.

``estimate`` sums in float64, for searches.  ``enclosure`` evaluates the same finite sums, and bounds of the three
errors, in balls: what ``delta`` returns is certified.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from corrnoise.theory.amplification.curve import Curve, DeltaBound, Direction
from corrnoise.theory.amplification.enclosure import WIDEST_STEP, Line, Sum, closed, enclosure
from corrnoise.theory.amplification.factors import Factor, gaussian_part, sampled_part
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record

#: −log of the errors of step and tail, relative to the Chernoff bound, and the most nodes that each is worth
_ACCURACY_LEVELS = ((32.0, 5000), (24.0, 10_000), (17.0, 20_000))
_SMOOTHED_ACCURACY, _MAX_SMOOTHED_NODES = 24.0, 10_000
_MAX_NODE_PRODUCT = 2e7  # nodes of the sum times those of a moment
_MAX_SMOOTHING = 0.05  # of s t (t + 1)/2, the relative error that smoothing adds to δ
_FIRST_ORDER, _MIN_ORDER = 0.15, 1e-7  # the lowest t: at first, and where large ε need lower ones
_RANGE_STEP = 30.0  # between the lowest t
_MAX_FLOAT_LOSS = 18.0  # log of C(t)/δ for sums in float64
_MAX_CANCELLATION = 6.0  # log of the cancellation that is allowed
_MAX_LOG_DELTA = 700.0  # −log of the smallest δ that is bracketed from both sides
_MOMENT_ACCURACY = 66.0  # −log of the relative error of the trapezoidal rule
_HALF_WIDTH = 14.0  # of the normal density
_LOG_NORM_STRIDE = 1e-4  # of differences of ln δ
_LEAST_DELTA = 1e-300  # whose logarithm is taken


@record
class PoissonCurve(Curve):
    """The curve of a product of Poisson-sampled steps and Gaussian mechanisms.

    Parameters
    ----------
    above, below : tuple of Factor
        The factors of the pair that bounds the run from above, and of one that is not above it.
    attained : bool
        Whether some gradients reach the pair ``below``.
    comparison : str
        The pair in words.
    """

    above: tuple[Factor, ...]
    below: tuple[Factor, ...]
    attained: bool
    comparison: str

    def __post_init__(self) -> None:
        for name in ("above", "below"):
            for factor in getattr(self, name):
                checks.instance(name, factor, Factor)

    @property
    def largest_delta(self) -> float:
        return -math.expm1(_log_unused(self.above)) if gaussian_part(self.above) == 0 else 1.0

    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        upper = _enclosed(self.above, epsilon, noise_multiplier, direction)
        lower = upper if self.below == self.above else _enclosed(self.below, epsilon, noise_multiplier, direction)
        return DeltaBound(min(lower[0], upper[1]), upper[1], "certified", self.comparison)

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        upper = _estimated(self.above, epsilon, noise_multiplier, direction)
        lower = upper if self.below == self.above else _estimated(self.below, epsilon, noise_multiplier, direction)
        return lower[0], upper[1]

    def slopes(self, epsilon: float, noise_multiplier: float, direction: Direction) -> Array:
        """Approximate derivatives of ln δ by the logarithms of the norms of ``above``.

        They are differences of sums with one plan, as a plan takes most of the time of an estimate.

        Parameters
        ----------
        epsilon : float
            ε >= 0.
        noise_multiplier : float
            σ > 0.
        direction : {"remove", "add"}
            The direction.

        Returns
        -------
        array of float
            One for each factor.
        """
        key = epsilon, noise_multiplier, direction
        found = _planned_sum(self.above, *key)

        def log_delta(factors: tuple[Factor, ...]) -> float:
            value = _estimated(factors, *key) if found is None else _summed(factors, *key, found[0])
            return math.log(max(value[1], _LEAST_DELTA))

        here = log_delta(self.above)
        around = [
            (*self.above[:i], replace(one, norm=one.norm * math.exp(_LOG_NORM_STRIDE)), *self.above[i + 1 :])
            for i, one in enumerate(self.above)
        ]
        return (np.array([log_delta(factors) for factors in around]) - here) / _LOG_NORM_STRIDE


def _log_unused(factors: tuple[Factor, ...]) -> float:
    """The logarithm of the probability that no sampled step uses the example."""
    return sum(part.count * part.members * math.log1p(-part.rate) for part in sampled_part(factors))


@lru_cache(maxsize=1024)
def _enclosed(factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> tuple[float, float]:
    return enclosure(factors, epsilon, sigma, direction, planned)


def _estimated(factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> tuple[float, float]:
    key = factors, epsilon, sigma, direction
    found = _planned_sum(*key)
    if found is None:
        return _enclosed(*key)
    _, lower, upper = found
    logs = _log_unused(factors) + (epsilon if direction == "add" else 0.0)
    most = -math.expm1(logs) if gaussian_part(factors) == 0 and epsilon >= 0 else 1.0
    return min(lower, most), min(upper, most)


def _planned_sum(
    factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction
) -> tuple[Sum, float, float] | None:
    """A plan and bounds of δ by its sum in float64; None where that sum is not accurate."""
    key = factors, epsilon, sigma, direction
    if closed(factors) or max(part.reach for part in sampled_part(factors)) > WIDEST_STEP * sigma:
        return None
    plan = planned(*key, 0.0)
    if plan.count == 0:
        return None
    lower, upper = _summed(*key, plan)
    if missing := plan.missing(upper):
        if missing > _MAX_FLOAT_LOSS or (plan := planned(*key, missing)).count == 0:
            return None
        lower, upper = _summed(*key, plan)
    return None if plan.bound - math.log(max(upper, 1e-300)) > _MAX_FLOAT_LOSS else (plan, lower, upper)


# -- the choice of the contour -----------------------------------------------------------------------------------------


def _log_ratio(w: Any, part: Factor, r: float) -> Any:
    """Ln A(w) for real or complex w, |Im w| < π/(kr)."""
    q = part.rate
    if part.members > 1:
        j = np.arange(part.members + 1)
        chances = special.xlogy(j, q) + special.xlog1py(part.members - j, -q) + np.log(special.comb(part.members, j))
        logs = chances + j * r * np.asarray(w)[..., None] - (j * r) ** 2 / 2
        most = logs.real.max(axis=-1)
        return most + np.log(np.exp(logs - most[..., None]).sum(axis=-1))
    exponent = r * w - r * r / 2
    large = exponent.real > 30
    small = np.log1p(q * np.expm1(np.where(large, 0.0, exponent)))
    return np.where(
        large, exponent + math.log(q) + np.log1p((1 - q) / q * np.exp(-np.where(large, exponent, 30.0))), small
    )


def _log_sum(logs: Array) -> Array:
    """Logarithm of the sum over the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(logs - most).sum(axis=-1)) + most[..., 0])


def _line(theta: float, r: float) -> tuple[float, float]:
    """The height a of the line of the moments, and the step on it, the largest of the accuracy."""
    width = np.linspace(0.02, 0.98, 97) * min(math.pi / r, 4.0)  # 2a; higher lines lose digits of floats, e^{a²/2}
    price = _MOMENT_ACCURACY + width * width / 2
    if theta < 0:
        price += theta * np.log(np.cos(r * width / 2))
    steps = math.pi * width / price
    best = int(np.argmax(steps))
    return float(width[best] / 2), float(steps[best])


def _nodes(theta: float, part: Factor, r: float, step: float) -> tuple[int, int]:
    """The first and the last node of the line, in steps."""
    left = _HALF_WIDTH + _peak(-theta * r, part, r)
    right = _HALF_WIDTH + max(theta, 0.0) * r * part.members
    return -math.ceil(left / step), math.ceil(right / step)


def _peak(move: float, part: Factor, r: float) -> float:
    """The distance from 0 to the largest φ(x) A(x)^θ for θ < 0, with ``move`` = −θ r: there x = θ (ln A)'(x)."""
    low, high, j = 0.0, max(move, 0.0) * part.members, np.arange(part.members + 1)
    chances = special.comb(part.members, j) * part.rate**j * (1 - part.rate) ** (part.members - j)
    while high - low > 0.01 * (1 + high):
        middle = (low + high) / 2
        terms = chances * np.exp(-j * r * middle - (j * r) ** 2 / 2)
        low, high = (middle, high) if middle * terms.sum() < move * (j @ terms) else (low, middle)
    return high


def _order(t: Any, direction: Direction) -> Any:
    return 1 + t if direction == "remove" else -t


def _lines(theta: float, parts: tuple[Factor, ...], sigma: float) -> tuple[Line, ...]:
    found = []
    for part in parts:
        r = part.norm / sigma
        height, step = _line(theta, part.members * r)
        found.append(Line(height, step, *_nodes(theta, part, r, step)))
    return tuple(found)


@lru_cache(maxsize=4096)
def planned(factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction, lost: float = 0.0) -> Sum:
    """The finite sum that gives δ, of at most 20 000 terms, or else the best order of Chernoff's bound.

    The pair of t and t' gives the largest step.  The accuracy is the highest that the terms allow, and by e^{−lost}
    higher than usual.  The sum is smoothed where no other has few enough terms.
    """
    parts = sampled_part(factors)
    gaussian = gaussian_part(factors) / sigma**2
    orders, chernoff = _chernoff(factors, epsilon, sigma, direction)
    least = int(np.argmin(chernoff))
    best = float(chernoff[least])
    usable = np.flatnonzero(chernoff <= best + _MAX_CANCELLATION)
    levels = [*_ACCURACY_LEVELS, (_SMOOTHED_ACCURACY, 0)]
    for accuracy, most in [(level + lost, most) for level, most in levels] if -_MAX_LOG_DELTA < best < 1 else ():
        later = orders[None, :] - orders[usable, None]
        first = 2 * math.pi * orders[usable, None] / (accuracy - best)
        second = 2 * math.pi * later / np.maximum(chernoff[None, :] - best + accuracy, 1.0)
        steps = np.where(later > 0, np.minimum(first, second), 0.0)
        i, j = np.unravel_index(int(np.argmax(steps)), steps.shape)
        t, other, step = float(orders[usable[i]]), float(orders[j]), float(steps[i, j])
        if step <= 0:
            break
        theta = _order(t, direction)
        lines = _lines(theta, parts, sigma)
        smoothing = 0.0
        affordable = int(_MAX_NODE_PRODUCT / max(line.last - line.first for line in lines))
        if most == 0:
            most = min(_MAX_SMOOTHED_NODES, affordable)
            needed = accuracy + float(chernoff[usable[i]]) - best + _MAX_CANCELLATION
            smoothing = 2 * needed / (most * step) ** 2
            if smoothing * t * (t + 1) / 2 > _MAX_SMOOTHING:
                break
        longest = min(most, affordable) * step
        end, shift = _tail(parts, sigma, gaussian + smoothing, lines, theta, best, epsilon * t, accuracy, longest)
        if end <= longest:
            count = max(math.ceil(end / step), 1)
            others = _lines(_order(other, direction), parts, sigma)
            bounds = float(chernoff[usable[i]]), float(chernoff[j])
            return Sum(t, other, step, count, lines, others, shift, *bounds, accuracy, smoothing)
    order = float(orders[least])
    return Sum(order, order, 1.0, 0, (), _lines(_order(order, direction), parts, sigma), 0.0, best, best, 0.0, 0.0)


def _chernoff(factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> tuple[Array, Array]:
    """Values of t around the best one, and log C(t) there, approximately."""
    radii = [part.reach / sigma for part in sampled_part(factors)]
    low, high = _FIRST_ORDER, max(min(40 + 40 / min(radii), 300 / max(radii)), 2.0)
    while True:
        t = np.geomspace(low, high, 64)
        found = _log_bounds(t, factors, epsilon, sigma, direction)
        if np.argmin(found) > 0 or low < _MIN_ORDER:
            return t, found
        low, high = low / _RANGE_STEP, low * _RANGE_STEP


def _log_bounds(t: Array, factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> Array:
    theta = _order(t, direction)
    found = t * np.log(t) - (1 + t) * np.log1p(t) - epsilon * t + gaussian_part(factors) / sigma**2 * t * (1 + t) / 2
    for part in sampled_part(factors):
        r = part.norm / sigma
        step = 0.1 / max(1.0, part.members * r / 3)
        low, high = _nodes(float(theta.min()), part, r, step)[0], _nodes(float(theta.max()), part, r, step)[1]
        x = np.arange(low, high + 1) * step
        logs = -x * x / 2 + theta[:, None] * _log_ratio(x, part, r)
        found += part.count * (_log_sum(logs) + math.log(step / math.sqrt(2 * math.pi)))
    return np.where(np.isfinite(found), found, math.inf)


def _tail(
    parts: tuple[Factor, ...],
    sigma: float,
    gaussian: float,
    lines: tuple[Line, ...],
    theta: float,
    best: float,
    fall: float,
    accuracy: float,
    longest: float,
) -> tuple[float, float]:
    """U, and the height of the line that bounds the tail by the accuracy; ``inf`` if U is above ``longest``."""
    limit = min(min(math.pi / (part.reach / sigma) for part in parts), 20.0)
    found = (math.inf, 0.0)
    for share in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.48):
        shift = share * limit
        tables = []
        for part, line in zip(parts, lines, strict=True):
            x = np.arange(line.first, line.last + 1) * line.step
            logs = _log_ratio(x + 1j * shift, part, part.norm / sigma)
            fixed = -x * x / 2 + shift * shift / 2 + theta * logs.real + math.log(line.step / math.sqrt(2 * math.pi))
            tables.append((part.count, fixed, logs.imag))

        def excess(log_end: float, tables: list[tuple[int, Array, Array]] = tables) -> float:
            u = math.exp(log_end)
            total = gaussian * (theta * (theta - 1) - u * u) / 2 - fall - math.log(math.pi) - log_end
            return total + sum(count * float(_log_sum(fixed - u * phase)) for count, fixed, phase in tables) - best

        low, high = -5.0, min(math.log(found[0]), 20.0)
        if excess(min(math.log(longest), high)) > -accuracy:
            continue
        while high - low > 0.01:
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > -accuracy else (low, middle)
        found = (math.exp(high), shift)
    return found


# -- the sum in float64 ------------------------------------------------------------------------------------------------


def _summed(
    factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction, plan: Sum
) -> tuple[float, float]:
    """Lower and upper bounds of δ by the finite sum without its error of rounding."""
    theta = _order(plan.order, direction)
    z: Any = theta + 1j * plan.step * np.arange(plan.count + 1)
    logs = (gaussian_part(factors) / sigma**2 + plan.smoothing) * z * (z - 1) / 2
    for part, line in zip(sampled_part(factors), plan.lines, strict=True):
        r = part.norm / sigma
        w = np.arange(line.first, line.last + 1) * line.step + 1j * line.height
        ratio = _log_ratio(w, part, r)
        weights = -w * w / 2 + theta * ratio
        most = float(weights.real.max())
        rows = math.isqrt(plan.count) + 1
        small = np.exp(1j * plan.step * np.arange(rows)[:, None] * ratio)
        large = np.exp(weights - most + 1j * plan.step * rows * np.arange(rows)[:, None] * ratio)
        moments = (large @ small.T).ravel()[: plan.count + 1]
        logs += part.count * (np.log(moments) + most + math.log(line.step / math.sqrt(2 * math.pi)))

    def at(epsilon: float) -> float:
        terms = (np.exp(logs + epsilon * (1 - z if direction == "remove" else z)) / (z * (z - 1))).real
        return plan.step / (2 * math.pi) * float(terms[0] + 2 * terms[1:].sum())

    value = at(epsilon)
    first = math.exp(-2 * math.pi * plan.order / plan.step)
    second = math.exp(plan.other_bound - 2 * math.pi * (plan.other - plan.order) / plan.step)
    if plan.smoothing == 0:
        return max(value - first - second, 0.0), value
    gap = plan.gap(value)
    return max(2 * at(epsilon + math.log1p(gap)) - at(epsilon + math.log1p(2 * gap)), 0.0), value
