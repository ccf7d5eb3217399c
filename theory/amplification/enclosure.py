r"""The sums of the contour in balls, with bounds of all their errors: certified brackets of δ.

Nothing here rests on floats.  A plan names a finite sum; any plan gives a valid bracket, and a good one a narrow
bracket.  For equally spaced nodes the moments $M_i(\theta + ikh) = \sum_j w_j \rho_j^k$ are one product of two small
matrices.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from flint import acb, acb_mat, arb, ctx

from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up

_BALL_BITS = 128
_MIN_FLOAT = 5e-324  # the smallest positive one
WIDEST = 30.0  #: the largest Δ/σ of sampled steps with sums; beyond it the total variation is enough


@record
class Line(Record):
    """A trapezoidal rule for moments: nodes (j · step + i · height), j = first, …, last."""

    height: float
    step: float
    first: int
    last: int


@record
class Sum(Record):
    """A finite sum for δ: t, t', the step h, the last node, the lines of the moments, the line of the tail's bound.

    Without nodes, ``count=0``, only C(t') is meant.  ``other_bound`` is log C(t') in float64, for estimates.
    """

    order: float
    other: float
    step: float
    count: int
    lines: tuple[Line, ...]
    other_lines: tuple[Line, ...]
    shift: float
    other_bound: float


ContourPlan = Callable[[tuple[Factor, ...], float, float, Direction], Sum]


def enclosure(
    factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction, planned: ContourPlan
) -> tuple[float, float]:
    """A bracket of δ; 0 at the lower end where no plan has few enough terms.

    Parameters
    ----------
    factors : tuple of Factor
        The product, without order.
    epsilon, sigma : float
        As for ``Curve.delta``.
    direction : {"remove", "add"}
        As for ``Curve.delta``.
    planned : callable
        Makes the plan.
    """
    with ctx.workprec(_BALL_BITS):
        pair = _Pair(factors, epsilon, sigma, direction)
        most = pair.variation()
        narrow = all(one.norm <= WIDEST * sigma for one in factors if one.rate < 1)
        lower, upper = pair.bracket(planned) if narrow or closed(factors) else (arb(0), most)
        low = -rounded_up(-lower) if lower.is_finite() else 0.0
        high = min(rounded_up(upper), rounded_up(most)) if upper.is_finite() else rounded_up(most)
    return min(max(low, 0.0), 1.0) + 0.0, min(max(high, _MIN_FLOAT), 1.0)


def closed(factors: tuple[Factor, ...]) -> bool:
    """Whether δ has a closed form: Gaussian mechanisms alone, or one sampled step."""
    return all(one.rate == 1 for one in factors) or (len(factors) == 1 and factors[0].count == 1)


class _Pair:
    """A product of factors at one σ, ε and direction."""

    def __init__(self, factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> None:
        self.factors = factors
        self.direction = direction
        self.key = (factors, epsilon, sigma, direction)
        self.epsilon = arb(epsilon)
        self.parts = [(arb(one.rate), arb(one.norm) / arb(sigma), one.count) for one in factors if one.rate < 1]
        squares = (one.count * (arb(one.norm) / arb(sigma)) ** 2 for one in factors if one.rate == 1)
        self.gaussian = sum(squares, arb(0))

    def bracket(self, planned: ContourPlan) -> tuple[arb, arb]:
        if not self.factors:
            return arb(0), arb(0)
        if not self.parts:
            both = _option(self.epsilon, self.gaussian.sqrt())
            return both, both
        if self.direction == "add" and self.gaussian == 0:
            least = sum((count * (1 - q).log() for q, _, count in self.parts), arb(0))
            if self.epsilon >= -least:  # e^ε Λ >= 1
                return arb(0), arb(0)
        if closed(self.factors):
            both = self._one_step()
            return both, both
        plan = planned(*self.key)
        if plan.count == 0:
            return arb(0), self._chernoff(plan)
        return self._contour(plan)

    def _one_step(self) -> arb:
        """One sampled step: q δ of the Gaussian mechanism at another ε."""
        q, r, _ = self.parts[0]
        if self.direction == "remove":
            strike = (self.epsilon.exp() - 1 + q) / q
            return q * _option(strike.log(), r)
        strike = ((-self.epsilon).exp() - 1 + q) / q
        if not strike > 0:  # too close to 0 for this precision
            return (self.epsilon.exp() * q * strike).union(arb(0))
        return self.epsilon.exp() * q * strike * _option(-strike.log(), r)

    def variation(self) -> arb:
        """1 − Π (1 − q)^T: the example is never sampled otherwise, and δ is at most the total variation for ε >= 0."""
        never = arb(1) if self.gaussian == 0 and self.epsilon >= 0 else arb(0)
        for q, _, count in self.parts:
            never *= (1 - q) ** count
        return 1 - never

    # -- the sum -------------------------------------------------------------------------------------------------------

    def _theta(self, t: float) -> arb:
        return 1 + arb(t) if self.direction == "remove" else -arb(t)

    def _contour(self, plan: Sum) -> tuple[arb, arb]:
        theta = self._theta(plan.order)
        size = plan.count + 1
        step = arb(plan.step)
        points = [acb(theta, k * step) for k in range(size)]
        terms = [self._outside(z) for z in points]
        tail = (-self.epsilon * arb(plan.order)).exp()
        end = plan.count * step
        tail *= (self.gaussian * (theta * (theta - 1) - end * end) / 2).exp() / (arb.pi() * end)
        for (q, r, count), line in zip(self.parts, plan.lines, strict=True):
            rule = _Rule(q, r, theta, line)
            error = rule.error()
            ball = acb(arb(0, error.upper()), arb(0, error.upper()))
            terms = [
                term * (moment + ball) ** count for term, moment in zip(terms, rule.powers(step, size), strict=True)
            ]
            tail *= rule.modulus(arb(plan.shift), end) ** count
        total = terms[0].real + 2 * sum((term.real for term in terms[1:]), arb(0))
        value = total * step / (2 * arb.pi())
        return value.lower() - self._aliases(plan).upper() - tail.upper(), value.upper() + tail.upper()

    def _aliases(self, plan: Sum) -> arb:
        """R of Poisson's summation formula."""
        turn = 2 * arb.pi() / arb(plan.step)
        first = (-turn * arb(plan.order)).exp()
        second = (-turn * (arb(plan.other) - arb(plan.order))).exp()
        return first / (1 - first) + self._chernoff(plan) * second / (1 - second)

    def _outside(self, z: acb) -> acb:
        """The part that does not depend on the moments."""
        exponent = self.epsilon * (1 - z if self.direction == "remove" else z)
        return (exponent + self.gaussian * z * (z - 1) / 2).exp() / (z * (z - 1))

    # -- Chernoff's bound ----------------------------------------------------------------------------------------------

    def _chernoff(self, plan: Sum) -> arb:
        """C(t'), an upper bound of δ."""
        t = arb(plan.other)
        theta = self._theta(plan.other)
        logs = t * t.log() - (1 + t) * t.log1p() - self.epsilon * t + self.gaussian * t * (1 + t) / 2
        for (q, r, count), line in zip(self.parts, plan.other_lines, strict=True):
            logs += count * _Rule(q, r, theta, line).largest().log()
        return logs.exp().upper()


def _option(log_strike: arb, r: arb) -> arb:
    """E(L − K)₊ for a lognormal L of mean 1 and variance parameter r²; it is also E(1 − KL)₊."""
    root = arb(2).sqrt()
    x, y = (log_strike / r - r / 2) / root, (log_strike / r + r / 2) / root
    return (x.erfc() - log_strike.exp() * y.erfc()) / 2


class _Rule:
    """The trapezoidal rule for the moments of one factor at θ + iu, on one line."""

    def __init__(self, q: arb, r: arb, theta: arb, line: Line) -> None:
        self.q = q
        self.r = r
        self.theta = theta
        self.line = line
        self.step = arb(line.step)
        self.height = arb(line.height)
        self.scale = self.step / (2 * arb.pi()).sqrt()
        self.places = [j * self.step for j in range(line.first, line.last + 1)]
        self.logs, self.weights = self._on(self.height)

    def _on(self, height: arb) -> tuple[list[acb], list[acb]]:
        nodes = [acb(x, height) for x in self.places]
        logs = [(1 - self.q + self.q * (self.r * w - self.r * self.r / 2).exp()).log() for w in nodes]
        weights = [self.scale * (self.theta * log - w * w / 2).exp() for w, log in zip(nodes, logs, strict=True)]
        return logs, weights

    def powers(self, step: arb, size: int) -> list[acb]:
        """The sums at u = 0, h, …, (size − 1) h."""
        rows = math.isqrt(size - 1) + 1
        ratios = [(acb(0, 1) * step * log).exp() for log in self.logs]
        jumps = [(acb(0, 1) * step * rows * log).exp() for log in self.logs]
        small = _powers([acb(1)] * len(ratios), ratios, rows)
        large = _powers(self.weights, jumps, -(-size // rows))
        product = acb_mat(large) * acb_mat(small).transpose()
        return product.entries()[:size]

    def _relative(self) -> arb:
        """The error of the rule over M(θ)."""
        twice = 2 * self.height
        if not twice * self.r < arb.pi():
            return arb("inf")
        edges = (twice * twice / 2).exp() * self._kappa(twice) + 1
        return edges / ((2 * arb.pi() * self.height / self.step).exp() - 1)

    def error(self) -> arb:
        """A bound of the error of the rule and of its cut, at every u >= 0."""
        return self._relative() * self.largest() + self._cut(self.height)

    def largest(self) -> arb:
        """An upper bound of M(θ)."""
        relative = self._relative()
        if not relative < 1:
            return arb("inf")
        total = sum((weight.real for weight in self.weights), arb(0)) + self._cut(self.height)
        return total.upper() / (1 - relative)

    def modulus(self, height: arb, u: arb) -> arb:
        """An upper bound of |M(θ + iv)| for all v >= u."""
        if not 2 * height * self.r < arb.pi():
            return arb("inf")
        logs, weights = self._on(height)
        total = sum((abs(weight) * (-u * log.imag).exp() for weight, log in zip(weights, logs, strict=True)), arb(0))
        # For Im w = b the integrand's modulus is the bound at b = 0 times a constant: arg A increases up to rb = π/2.
        strip = (arb.pi() / (2 * self.r) - height).max(height).min(2 * arb.pi() / self.step)
        growth = ((height * height + strip * strip) / 2).exp() * self._kappa(height + strip)
        relative = 2 * growth / ((2 * arb.pi() * strip / self.step).exp() - 1)
        return total.upper() + self._cut(height) + relative * self.largest()

    def _kappa(self, height: arb) -> arb:
        """At least |A(x + ib)/A(x)|^θ for all |b| <= height."""
        return arb(1) if self.theta > 0 else (self.r * height / 2).cos() ** self.theta

    def _cut(self, height: arb) -> arb:
        """A bound of the sum of all moduli beyond the first and the last node."""
        kappa = self._kappa(height)
        total = arb(0)
        for side, place in ((-1, self.places[0] - self.step), (1, self.places[-1] + self.step)):
            fall = side * place - (side * self.theta).max(arb(0)) * self.r
            if not fall > 0:
                return arb("inf")
            log = (1 - self.q + self.q * (self.r * place - self.r * self.r / 2).exp()).log()
            size = self.scale * ((height * height - place * place) / 2 + self.theta * log).exp()
            total += kappa * size / (1 - (-fall * self.step).exp())
        return total.upper()


def _powers(first: list[acb], ratios: list[acb], rows: int) -> list[list[acb]]:
    found = [first]
    while len(found) < rows:
        found.append([value * ratio for value, ratio in zip(found[-1], ratios, strict=True)])
    return found
