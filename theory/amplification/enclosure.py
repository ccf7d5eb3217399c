r"""The sums of the contour in balls, with bounds of all their errors: certified brackets of δ.

Nothing here rests on floats.  A plan names a finite sum; any plan gives a valid bracket, and a good one a narrow
bracket.  For equally spaced nodes the moments $M_i(\theta + ikh) = \sum_j w_j \rho_j^k$ are one product of two small
matrices.

*Smoothing.*  The ratio times an independent lognormal Y of mean 1 has a larger δ, and its integral is short.  As a
function of K = e^ε, δ is convex and falls: f(K).  So the smoothed curve f_s(K) = E f(K Y) satisfies, for every g > 0,

$$f(K) \ge 2 f_s(K_1) - f_s(K_2) - 2 E[f(K_1 Y); K_1 Y < K] - \frac{2 f(K)}{K_2 - K} E(K_1 Y - K_2)_+, \qquad
K_1 = (1 + g) K, \quad K_2 = (1 + 2 g) K,$$

and Chernoff's bound covers the third term.  The bracket is some (g t)² wide, where δ falls like K^{−t}.

*Wide steps.*  For Δ/σ > 30 the number of steps that sample the example is revealed: by joint convexity δ is at most the
mean of Gaussian curves.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from flint import acb, acb_mat, arb, ctx

from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import rounded_up

_BALL_BITS = 128
_MIN_FLOAT = 5e-324  # the smallest positive one
_MAX_REFINEMENTS = 4
_SURE_DEVIATIONS = 40.0  # of a binomial number, beyond those with a probability of 1e-300
WIDEST_STEP = 30.0  #: the largest Δ/σ of sampled steps with sums
NEEDED_ACCURACY = 9.0  #: −log of the errors of step and tail, relative to δ


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

    Without nodes, ``count=0``, only C(t') is meant.  ``bound`` and ``other_bound`` are log C(t) and log C(t') in
    float64, for estimates, ``accuracy`` is −log of the errors of step and tail relative to C(t), and ``smoothing`` the
    variance of ln Y.
    """

    order: float
    other: float
    step: float
    count: int
    lines: tuple[Line, ...]
    other_lines: tuple[Line, ...]
    shift: float
    bound: float
    other_bound: float
    accuracy: float
    smoothing: float

    def missing(self, delta: float) -> float:
        """The log of C(t)/δ if the sum is too inaccurate for δ, else 0."""
        lost = self.bound - math.log(max(delta, _MIN_FLOAT))
        return lost if self.accuracy - lost < NEEDED_ACCURACY else 0.0

    def gap(self, delta: float) -> float:
        """G of the lower end of a smoothed sum, for a number near δ."""
        lost = max(self.bound - math.log(max(delta, _MIN_FLOAT)), 0.0)
        return math.sqrt(self.smoothing * 2 * (lost + NEEDED_ACCURACY))


#: Factors, ε, σ, direction, and the log of C(t)/δ where the accuracy must be higher.
ContourPlan = Callable[[tuple[Factor, ...], float, float, Direction, float], Sum]


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
    low, high = 0.0, 1.0
    lost = 0.0
    for _ in range(_MAX_REFINEMENTS):
        with ctx.workprec(_BALL_BITS + math.ceil(lost / math.log(2))):
            pair = _Pair(factors, epsilon, sigma, direction)
            lower, upper, plan = pair.bracket(planned, lost)
            low = max(low, -rounded_up(-lower)) if lower.is_finite() else low
            high = min(high, rounded_up(pair.variation()), rounded_up(upper) if upper.is_finite() else 1.0)
        missing = plan.missing(high) if plan is not None else 0.0
        if missing <= lost + 1:
            break
        lost = missing
    return min(max(low, 0.0), 1.0) + 0.0, min(max(high, _MIN_FLOAT), 1.0)


def closed(factors: tuple[Factor, ...]) -> bool:
    """Whether δ has a closed form: Gaussian mechanisms alone, or one sampled step."""
    return all(one.rate == 1 for one in factors) or (len(factors) == 1 and factors[0].count == factors[0].members == 1)


class _Pair:
    """A product of factors at one σ, ε and direction."""

    def __init__(self, factors: tuple[Factor, ...], epsilon: float, sigma: float, direction: Direction) -> None:
        self.factors = factors
        self.direction = direction
        self.key = (factors, epsilon, sigma, direction)
        self.epsilon = arb(epsilon)
        self.parts = [
            (arb(one.rate), arb(one.norm) / arb(sigma), one.count, one.members) for one in factors if one.rate < 1
        ]
        squares = (one.count * (one.members * arb(one.norm) / arb(sigma)) ** 2 for one in factors if one.rate == 1)
        self.gaussian = sum(squares, arb(0))

    def bracket(self, planned: ContourPlan, lost: float) -> tuple[arb, arb, Sum | None]:
        """A lower and an upper bound, and the plan if there is a sum."""
        if not self.factors or not self.variation() > 0:
            return arb(0), arb(0), None
        if not self.parts:
            both = _option(self.epsilon, self.gaussian.sqrt())
            return both, both, None
        if closed(self.factors):
            both = self._one_step(*self.parts[0][:2])
            return both, both, None
        plan = planned(*self.key, lost) if all(k * r <= WIDEST_STEP for _, r, _, k in self.parts) else None
        if plan is not None and plan.count > 0:
            return *self._contour(plan), plan
        upper = self._revealed().upper()
        if plan is not None:
            upper = upper.min(self._chernoff(plan.other, plan.other_lines))
        lower = arb(0)
        for q, r, *_ in self.parts:  # a part of the releases, and of a group
            lower = lower.max(self._one_step(q, r))
        return lower, upper, None

    def _one_step(self, q: arb, r: arb) -> arb:
        """One sampled step: q δ of the Gaussian mechanism at another ε."""
        if self.direction == "remove":
            strike = (self.epsilon.exp() - 1 + q) / q
            return q * _option(strike.log(), r)
        strike = ((-self.epsilon).exp() - 1 + q) / q
        if not strike > 0:  # too close to 0 for this precision
            return (self.epsilon.exp() * q * strike).union(arb(0))
        return self.epsilon.exp() * q * strike * _option(-strike.log(), r)

    def variation(self) -> arb:
        """δ of noise without variance: the example is never sampled with the probability Π (1 − q)^T.

        It bounds δ for ε >= 0: Λ is at least this probability, so that δ_add <= 1 − e^ε Π (1 − q)^T.
        """
        never = arb(1) if self.gaussian == 0 and self.epsilon >= 0 else arb(0)
        for q, _, count, k in self.parts:
            never *= (1 - q) ** (count * k)
        return 1 - (never * self.epsilon.exp() if self.direction == "add" else never)

    def _revealed(self) -> arb:
        """The mean of the Gaussian curves of k uses of a member, with the largest rate and norm.

        The j members of a step move the output by j r, and Σ j² is at most the number of uses times the members.
        """
        total = sum(count * k for _, _, count, k in self.parts)
        q = max((q for q, *_ in self.parts), key=float)
        square = max((k * r**2 for _, r, _, k in self.parts), key=float)
        mean = total * float(q)
        reach = _SURE_DEVIATIONS * math.sqrt(mean) + _SURE_DEVIATIONS**2
        first, last = max(int(mean - reach), 0), min(int(mean + reach), total)
        log = arb(total + 1).lgamma() - arb(first + 1).lgamma() - arb(total - first + 1).lgamma()
        chance = (log + first * q.log() + (total - first) * (1 - q).log()).exp()
        found, left = arb(0), arb(1 if first > 0 or last < total else 0)
        for k in range(first, last + 1):
            if k > 0 or self.gaussian > 0:
                found += chance * _option(self.epsilon, (self.gaussian + k * square).sqrt())
            left -= chance
            chance *= arb(total - k) / (k + 1) * q / (1 - q)
        return found + left.max(arb(0))  # beyond the reach δ is at most 1

    # -- the sum -------------------------------------------------------------------------------------------------------

    def _theta(self, t: float) -> arb:
        return 1 + arb(t) if self.direction == "remove" else -arb(t)

    def _contour(self, plan: Sum) -> tuple[arb, arb]:
        theta = self._theta(plan.order)
        size = plan.count + 1
        step = arb(plan.step)
        end = plan.count * step
        gaussian = self.gaussian + arb(plan.smoothing)
        points = [acb(theta, k * step) for k in range(size)]
        terms = [(gaussian * z * (z - 1) / 2).exp() / (z * (z - 1)) for z in points]
        tail = (gaussian * (theta * (theta - 1) - end * end) / 2).exp() / (arb.pi() * end)
        for (q, r, count, k), line in zip(self.parts, plan.lines, strict=True):
            rule = _Rule(q, r, k, theta, line)
            error = rule.error()
            ball = acb(arb(0, error.upper()), arb(0, error.upper()))
            terms = [
                term * (moment + ball) ** count for term, moment in zip(terms, rule.powers(step, size), strict=True)
            ]
            tail *= rule.modulus(arb(plan.shift), end) ** count
        aliases = self._aliases(plan).upper()
        rows = math.isqrt(plan.count) + 1
        places = range(0, size, rows)

        def at(epsilon: arb) -> tuple[arb, arb]:
            """Bounds of δ of the smoothed pair at an ε that is not below that of the pair."""
            turns = [(epsilon * (-z if self.direction == "remove" else z)).exp() for z in points[:rows]]
            jumps = [(acb(0, k * step) * (-epsilon if self.direction == "remove" else epsilon)).exp() for k in places]
            turned = [term * turns[k % rows] * jumps[k // rows] for k, term in enumerate(terms)]
            total = turned[0].real + 2 * sum((term.real for term in turned[1:]), arb(0))
            value = total * step / (2 * arb.pi()) * (epsilon.exp() if self.direction == "remove" else 1)
            cut = (tail * (-epsilon * arb(plan.order)).exp()).upper()
            return value.lower() - aliases - cut, value.upper() + cut

        lower, upper = at(self.epsilon)
        if plan.smoothing == 0:
            return lower, upper
        gap = arb(plan.gap(float(upper)))
        s, t = arb(plan.smoothing), arb(plan.order)
        root = s.sqrt()
        left = (t * (t + 1) * s / 2 - t * gap.log1p()).exp() * _normal((s / 2 - gap.log1p()) / root + t * root)
        left *= self._chernoff(plan.order, plan.lines)
        right = (1 + gap) / (2 * gap) * _option(((1 + 2 * gap) / (1 + gap)).log(), root) * upper
        near, far = at(self.epsilon + gap.log1p())[0], at(self.epsilon + (2 * gap).log1p())[1]
        return 2 * near - far - 2 * left - 2 * right, upper

    def _aliases(self, plan: Sum) -> arb:
        """R of Poisson's summation formula."""
        turn = 2 * arb.pi() / arb(plan.step)
        first = (-turn * arb(plan.order)).exp()
        second = (-turn * (arb(plan.other) - arb(plan.order))).exp()
        t = arb(plan.other)
        smoothing = (arb(plan.smoothing) * t * (1 + t) / 2).exp()
        return first / (1 - first) + smoothing * self._chernoff(plan.other, plan.other_lines) * second / (1 - second)

    # -- Chernoff's bound ----------------------------------------------------------------------------------------------

    def _chernoff(self, order: float, lines: tuple[Line, ...]) -> arb:
        """C(t), an upper bound of δ."""
        t = arb(order)
        theta = self._theta(order)
        logs = t * t.log() - (1 + t) * t.log1p() - self.epsilon * t + self.gaussian * t * (1 + t) / 2
        for (q, r, count, k), line in zip(self.parts, lines, strict=True):
            logs += count * _Rule(q, r, k, theta, line).largest().log()
        return logs.exp().upper()


def _option(log_strike: arb, r: arb) -> arb:
    """E(L − K)₊ for a lognormal L of mean 1 and variance parameter r²; it is also E(1 − KL)₊."""
    root = arb(2).sqrt()
    x, y = (log_strike / r - r / 2) / root, (log_strike / r + r / 2) / root
    return (x.erfc() - log_strike.exp() * y.erfc()) / 2


def _normal(x: arb) -> arb:
    """Φ(x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


class _Rule:
    """The trapezoidal rule for the moments of one factor at θ + iu, on one line."""

    def __init__(self, q: arb, r: arb, members: int, theta: arb, line: Line) -> None:
        self.chances = [math.comb(members, j) * q**j * (1 - q) ** (members - j) for j in range(members + 1)]
        self.r = r
        self.reach = members * r
        self.theta = theta
        self.line = line
        self.step = arb(line.step)
        self.height = arb(line.height)
        self.scale = self.step / (2 * arb.pi()).sqrt()
        self.places = [j * self.step for j in range(line.first, line.last + 1)]
        self.logs, self.weights = self._on(self.height)

    def _on(self, height: arb) -> tuple[list[acb], list[acb]]:
        nodes = [acb(x, height) for x in self.places]
        logs = [_sum(self._terms(w)).log() for w in nodes]
        weights = [self.scale * (self.theta * log - w * w / 2).exp() for w, log in zip(nodes, logs, strict=True)]
        return logs, weights

    def _terms(self, w: Any) -> list[Any]:
        """The terms of A(w) = Σ_j p_j e^{j r w − j² r²/2}, where j members are sampled with probability p_j."""
        more = ((j * self.r * w - j * j * self.r * self.r / 2).exp() for j in range(1, len(self.chances)))
        return [self.chances[0], *(chance * each for chance, each in zip(self.chances[1:], more, strict=True))]

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
        if not twice * self.reach < arb.pi():
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
        if not 2 * height * self.reach < arb.pi():
            return arb("inf")
        logs, weights = self._on(height)
        total = sum((abs(weight) * (-u * log.imag).exp() for weight, log in zip(weights, logs, strict=True)), arb(0))
        # For Im w = b the integrand's modulus is the bound at b = 0 times a constant: arg A increases up to krb = π/2.
        strip = (arb.pi() / (2 * self.reach) - height).max(height).min(2 * arb.pi() / self.step)
        growth = ((height * height + strip * strip) / 2).exp() * self._kappa(height + strip)
        relative = 2 * growth / ((2 * arb.pi() * strip / self.step).exp() - 1)
        return total.upper() + self._cut(height) + relative * self.largest()

    def _kappa(self, height: arb) -> arb:
        """At least |A(x + ib)/A(x)|^θ for all |b| <= height."""
        return arb(1) if self.theta > 0 else (self.reach * height / 2).cos() ** self.theta

    def _cut(self, height: arb) -> arb:
        """A bound of the sum of all moduli beyond the first and the last node."""
        kappa = self._kappa(height)
        total = arb(0)
        for side, place in ((-1, self.places[0] - self.step), (1, self.places[-1] + self.step)):
            terms = self._terms(place)
            mean = _sum([j * term for j, term in enumerate(terms)]) / _sum(terms)
            slope = self.r * mean if side < 0 else self.reach  # the largest (ln A)' beyond the place
            fall = side * place - (side * self.theta).max(arb(0)) * slope
            if not fall > 0:
                return arb("inf")
            log = _sum(terms).log()
            size = self.scale * ((height * height - place * place) / 2 + self.theta * log).exp()
            total += kappa * size / (1 - (-fall * self.step).exp())
        return total.upper()


def _sum(terms: list[Any]) -> Any:
    return functools.reduce(operator.add, terms)


def _powers(first: list[acb], ratios: list[acb], rows: int) -> list[list[acb]]:
    found = [first]
    while len(found) < rows:
        found.append([value * ratio for value, ratio in zip(found[-1], ratios, strict=True)])
    return found
