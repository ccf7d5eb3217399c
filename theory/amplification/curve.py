"""Curves of privacy of sampled batches: brackets of δ, ε and the noise multiplier.

Let P be the law of the releases of a run that samples an example, Q the law without the example, Λ = dP/dQ.
Then δ_remove(ε) = E_Q(Λ − e^ε)₊ and δ_add(ε) = E_Q(1 − e^ε Λ)₊, and the run is (ε, δ)-DP if both are at most
δ.  They differ, and both are always computed; exactly, δ_add(ε) = 1 − e^ε + e^ε δ_remove(−ε).

A ``Curve`` brackets both for a noise multiplier σ.  ``epsilon_of`` and ``noise_multiplier_of`` invert it.  Each
result has been verified by an evaluation at exactly this number.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

Direction = Literal["remove", "add"]
DIRECTIONS: tuple[Direction, ...] = ("remove", "add")

_FIRST_STEP = 2.0**-36  # relative, from the root of the estimate to the first number that is verified
MULTIPLIER_RANGE = (1e-4, 1e38)  #: of noise multipliers
_LEAST_MULTIPLIER = 1e-3  # of a run that needs noise
_LARGEST_EPSILON = 1e6
_MIN_VALUE = 1e-320  # of values whose logarithm is taken
_MOST_STEPS = 100
_LAST_WIDTH = 1e-2  # relative, of a bracket of a root, over the resolution of the curve


@record
class DeltaBound(Record):
    """Two bounds of a number.

    Parameters
    ----------
    lower, upper : float
        The two ends.
    kind : str
        ``"certified"``, or the confidence of the bounds.
    comparison : str
        The pair of laws that was computed, in words.
    """

    lower: float
    upper: float
    kind: str
    comparison: str


class Curve(Record, ABC):
    """δ as a function of ε and of the noise multiplier, for both directions."""

    #: Whether some gradients reach the curve, so that lower ends are bounds for the run and not only for its pair.
    attained: bool

    @property
    def resolution(self) -> float:
        """A search ends where the logarithm of an estimate over its target is below this number."""
        return 1e-11

    @property
    def certifies(self) -> bool:
        """Whether the upper ends use the sampling; otherwise Monte Carlo alone does."""
        return True

    @property
    def largest_delta(self) -> float:
        """An upper end of δ at all ε >= 0 and all noise multipliers, up to rounding."""
        return 1.0

    @abstractmethod
    def delta(self, epsilon: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
        """A bracket of δ.

        Parameters
        ----------
        epsilon : float
            ε >= 0.
        noise_multiplier : float
            σ > 0: standard deviation of the independent noise over the clipping norm.
        direction : {"remove", "add"}
            ``"remove"`` or ``"add"``.
        """

    def estimate(self, epsilon: float, noise_multiplier: float, direction: Direction) -> tuple[float, float]:
        """Approximations of the two ends of ``delta``, for searches; the same arguments."""
        found = self.delta(epsilon, noise_multiplier, direction)
        return found.lower, found.upper


@record
class Amplified(Record):
    """The ε or the δ of a run with sampled batches.

    Parameters
    ----------
    quantity : {"epsilon", "delta"}
        ``"epsilon"`` or ``"delta"``.
    remove, add : float, int or str
        Brackets for the two directions.
    attained : bool
        Whether some gradients reach the pair of laws that was computed.  Then the lower ends are bounds for the run
        itself.
    """

    quantity: Literal["epsilon", "delta"]
    remove: DeltaBound
    add: DeltaBound
    attained: bool

    @property
    def lower(self) -> float:
        """The larger lower end."""
        return max(self.remove.lower, self.add.lower)

    @property
    def upper(self) -> float:
        """The larger upper end: a guarantee for the run."""
        return max(self.remove.upper, self.add.upper)

    @property
    def kind(self) -> str:
        """How sure the bounds are: the kind of both, or the two kinds."""
        return _joined(self.remove.kind, self.add.kind)

    @property
    def comparison(self) -> str:
        """The pair of laws that was computed, in words."""
        return _joined(self.remove.comparison, self.add.comparison)


def _joined(first: str, second: str) -> str:
    return first if first == second else f"remove: {first}; add: {second}"


def delta_of(curve: Curve, epsilon: float, noise_multiplier: float) -> Amplified:
    """δ at ε, in both directions.

    Parameters
    ----------
    curve : Curve
        The accountant's curve.
    epsilon : float
        ε >= 0.
    noise_multiplier : float
        σ > 0.
    """
    epsilon, sigma = _checked(epsilon, noise_multiplier)
    remove, add = (curve.delta(epsilon, sigma, direction) for direction in DIRECTIONS)
    return Amplified("delta", remove, add, curve.attained)


def epsilon_of(curve: Curve, delta: float, noise_multiplier: float, direction: Direction) -> DeltaBound:
    """The smallest ε such that the run is (ε, δ)-DP in one direction.

    Parameters
    ----------
    curve : Curve
        The accountant's curve.
    delta : float
        0 < δ < 1.
    noise_multiplier : float
        σ > 0.
    direction : {"remove", "add"}
        ``"remove"`` or ``"add"``.

    Returns
    -------
    float, int or str
        A bracket; δ at its upper end was verified to be at most ``delta``.  The upper end is ``inf`` if no ε up to 1e6
        suffices.
    """
    target = checks.real("delta", delta, "(0, 1)")
    _, sigma = _checked(0.0, noise_multiplier)
    checks.choice("direction", direction, DIRECTIONS)
    return _epsilon_of(curve, target, sigma, direction)


@lru_cache(maxsize=256)
def _epsilon_of(curve: Curve, target: float, sigma: float, direction: Direction) -> DeltaBound:
    zero = curve.delta(0.0, sigma, direction)

    def end(side: int, sign: int) -> float:
        """The first verified number on the safe side of the root of one end of δ."""

        def estimate(x: float) -> float:
            return curve.estimate(x, sigma, direction)[side]

        def verified(x: float) -> float:
            found = curve.delta(x, sigma, direction)
            return found.upper if side else found.lower

        root = falling_root(estimate, target, _LARGEST_EPSILON, curve.resolution, offset=0.0)
        if math.isinf(root):
            return math.inf
        return _verified(estimate, verified, target, root, sign, _LARGEST_EPSILON, offset=0.0)

    upper = 0.0 if zero.upper <= target else end(1, 1)
    lower = 0.0 if zero.lower <= target else end(0, -1)
    return DeltaBound(min(lower, upper), upper, zero.kind, zero.comparison)


def noise_multiplier_of(curve: Curve, epsilon: float, delta: float) -> float:
    """The smallest σ such that the run is (ε, δ)-DP, rounded up.

    Parameters
    ----------
    curve : Curve
        The accountant's curve.
    epsilon, delta : float
        ε >= 0 and 0 < δ < 1.

    Returns
    -------
    float
        A number that was verified: the upper ends of δ in both directions are at most ``delta``.

    Raises
    ------
    ValueError
        No number up to 1e38 suffices, or one below 1e-3 does: such a budget needs no noise.
    """
    epsilon = checks.real("epsilon", epsilon, "[0, inf)")
    target = checks.real("delta", delta, "(0, 1)")
    if not curve.certifies:
        raise ValueError(
            "accountant must be cn.privacy.MonteCarlo(…) for this sampling, got None: no certified bound uses it; "
            "participation.worst has the noise of the worst case"
        )
    return _noise_multiplier_of(curve, epsilon, target)


@lru_cache(maxsize=256)
def _noise_multiplier_of(curve: Curve, epsilon: float, target: float) -> float:
    low, high = (math.log(end) for end in MULTIPLIER_RANGE)

    def estimate(x: float, *directions: Direction) -> float:
        return max(curve.estimate(epsilon, math.exp(low + x), direction)[1] for direction in directions)

    def verified(x: float) -> float:
        return max(curve.delta(epsilon, math.exp(low + x), direction).upper for direction in DIRECTIONS)

    if curve.largest_delta <= target:  # a search would take seconds to say so
        raise _needless(curve, epsilon, target)
    root = falling_root(lambda x: estimate(x, "remove"), target, high - low, curve.resolution, start=-low, width=0.25)
    if math.isfinite(root) and estimate(root, "add") > target:
        root = falling_root(lambda x: estimate(x, "add"), target, high - low, curve.resolution, start=root, width=0.25)
    if math.isfinite(root):
        root = _verified(lambda x: estimate(x, *DIRECTIONS), verified, target, root, 1, high - low)
    if math.isinf(root):
        raise ValueError(
            f"budget must be reached by a noise multiplier up to {MULTIPLIER_RANGE[1]:g}, got epsilon={epsilon:g} and "
            f"delta={target:g}; take a larger epsilon or delta"
        )
    multiplier = math.exp(low + root)
    if multiplier < _LEAST_MULTIPLIER:
        raise _needless(curve, epsilon, target)
    return multiplier


def _needless(curve: Curve, epsilon: float, target: float) -> ValueError:
    """The refusal of a budget that needs no noise."""
    used = max(curve.delta(0.0, MULTIPLIER_RANGE[0], direction).upper for direction in DIRECTIONS)
    reason = (
        f"the run uses an example with probability at most {used:.3g}, below delta={target:g}, so that most "
        "examples train nothing; take more steps or a larger rate"
        if used <= target
        else f"a noise multiplier below {_LEAST_MULTIPLIER:g} is enough; take a smaller epsilon"
    )
    return ValueError(f"budget must need noise, got epsilon={epsilon:g} and delta={target:g}: {reason}")


def _height(value: float, target: float) -> float:
    return math.log(max(value, _MIN_VALUE)) - math.log(target)


def falling_root(
    curve: Callable[[float], float],
    target: float,
    largest: float,
    resolution: float,
    *,
    start: float = 1.0,
    width: float = 0.5,
    offset: float = 1.0,
) -> float:
    """Where a falling function of x in [0, largest] crosses ``target``; 0 or ``inf`` where it does not.

    By widening steps and then by the Illinois rule on logarithms.  The error of x is relative to ``offset`` + x.
    """
    left = right = min(start, largest)
    low = high = _height(curve(left), target)
    if low <= 0:
        while low <= 0:
            if left == 0:
                return 0.0
            right, high = left, low
            left = max(left - width, 0.0)
            low = _height(curve(left), target)
            width *= 2
    else:
        while high > 0:
            if right >= largest:
                return math.inf
            left, low = right, high
            right = min(right + width, largest)
            high = _height(curve(right), target)
            width *= 2
    kept = 0
    for _ in range(_MOST_STEPS):
        if right - left <= _LAST_WIDTH * resolution * (offset + right):
            break
        share = low / (low - high)
        middle = left + (right - left) * (share if 0 < share < 1 else 0.5)
        height = _height(curve(middle), target)
        if abs(height) <= resolution:
            return middle
        if height > 0:
            left, low = middle, height
            high = high / 2 if kept == 1 else high
            kept = 1
        else:
            right, high = middle, height
            low = low / 2 if kept == -1 else low
            kept = -1
    return right


def _verified(
    estimate: Callable[[float], float],
    verified: Callable[[float], float],
    target: float,
    root: float,
    sign: int,
    largest: float,
    offset: float = 1.0,
) -> float:
    """The first number found beyond ``root`` where the function is verified to be on the safe side of ``target``.

    ``sign`` is 1 for a number above the root, where the function must be at most ``target``, and −1 for one below.
    Without such a number it is 0 or ``inf``.
    """
    scale = offset + root or 1.0
    slope = (_height(estimate(root), target) - _height(estimate(root + 1e-5 * scale), target)) / (1e-5 * scale)
    step = _FIRST_STEP * scale
    x = root + sign * step
    while 0 < x <= largest:
        excess = sign * _height(verified(x), target)
        if excess <= 0:
            return x
        step = 8 * step
        x += sign * max(1.1 * excess / slope if slope > 0 else 0.0, step / 8)
    return 0.0 if sign < 0 else math.inf


def _checked(epsilon: float, noise_multiplier: float) -> tuple[float, float]:
    return checks.real("epsilon", epsilon, "[0, inf)"), checks.real("noise_multiplier", noise_multiplier, "(0, inf)")
