"""Multipliers of the strongly convex bound: nonnegative mixtures of lag distributions.

A multiplier is Λ(ω) = c_0 + Σ_j c_j (1 − K_j(ω)), c >= 0, with kernels K_j(ω) = Σ_{τ≠0} k_τ e^{−iωτ}, where k >= 0 sums
to 1: the c_τ of ``corrnoise.theory.strongly_convex`` taken in bundles.  All kernels here are of one kind,

    K(ω) = e^{−iω·shift} (g/(1 − (1 − g) e^{−iω·step}))^power,

the negative binomial distribution on the lags shift + step × {0, 1, …}, or its mirror image.  With power 0 it is the
single lag ``shift``, with shift = step = power = 1 a geometric tail, and with larger powers a hump.  Tails reach
infinitely far, so a few dozen kernels do what would take thousands of single lags.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.checks import Array
from corrnoise.theory.quadrature import modulus
from corrnoise.theory.records import Record, record
from corrnoise.theory.strongly_convex import FrequencyCondition, frequency_condition

_LAGS = 20
_MIRRORED_LAGS = 8
_POWERS = (1, 4, 16)
_MORE_POWERS = (1, 2, 4, 8, 16)
_LARGEST_GAP = 0.9
_BLOCK = 2**10  # frequencies at a time
_PARTS = 2**17  # panels after which the slack is given up


def _power(x: Array, n: int) -> Array:
    """The n-th power, n >= 1, by squaring: several times as fast as ``**`` on complex arrays."""
    half = _power(x, n // 2) ** 2 if n > 1 else np.ones_like(x)
    return half * x if n % 2 else half


@record
class Kernels(Record):
    """Lag distributions; all fields have shape (n,).

    ``shifts`` (>= 1), ``steps``, ``gaps`` (0 < g <= 1) and ``powers`` are those of the formula, ``sides`` is 1, or −1
    for the mirror image (lags into the future).
    """

    shifts: Array
    steps: Array
    gaps: Array
    powers: Array
    sides: Array

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Kernels:
        """From rows (shift, step, gap, power, side)."""
        return cls(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)

    def chosen(self, which: NDArray[np.generic]) -> Kernels:
        """Some of them, by an index."""
        return Kernels(*(field[which] for field in self.arguments().values()))

    def and_also(self, other: Kernels) -> Kernels:
        """These and others."""
        both = zip(self.arguments().values(), other.arguments().values(), strict=True)
        return Kernels(*(np.concatenate(fields) for fields in both))

    def transforms(self, frequencies: Array) -> Array:
        """K_j(ω), complex, shape (frequencies, kernels)."""
        omega = frequencies[:, np.newaxis]
        phases, place = np.unique(self.sides * (self.powers * self.steps / 2 - self.shifts), return_inverse=True)
        values = np.exp(1j * phases * omega)[:, place]
        for step, power in {(step, power) for step, power in zip(self.steps, self.powers, strict=True) if power}:
            here = (self.steps == step) & (self.powers == power)
            gaps, half = self.gaps[here], omega * (step / 2)
            tail = gaps / (gaps * np.cos(half) + 1j * self.sides[here] * (2 - gaps) * np.sin(half))
            values[:, here] *= _power(tail, int(power))
        return values

    def derivative_bounds(self, low: Array, high: Array) -> tuple[Array, Array, Array]:
        """Upper bounds of |1 − K_j|, |K_j′| and |K_j″| on the intervals [low, high] in [0, π], shape (intervals, n).

        |1 − (1 − g) e^{iθ}| grows with the distance of θ from the multiples of 2π, which decides where it is smallest:
        at an end of the interval, unless a multiple lies inside.
        """
        ends = [edge[:, np.newaxis] * self.steps / 2 for edge in (low, high)]
        moduli = [modulus(self.gaps, np.cos(end), np.sin(end)) for end in ends]
        wraps = np.floor(ends[0] / math.pi) < np.floor(ends[1] / math.pi)
        smallest = np.where(wraps, self.gaps, np.minimum(*moduli))
        log_slope = self.steps * (1 - self.gaps) / smallest  # of g/(1 − (1 − g) e^{−iω·step})
        size = np.minimum((self.gaps / smallest) ** self.powers, 1.0)
        slope = self.shifts + self.powers * log_slope
        bend = slope**2 + self.powers * self.steps**2 * (1 - self.gaps) / smallest**2
        return np.minimum(1 + size, slope * high[:, np.newaxis]), size * slope, size * bend


def taps(lags: int) -> Kernels:
    """The single lags ±1, …, ±``lags``."""
    return Kernels.of([(lag, 1, 1, 0, side) for side in (1, -1) for lag in range(1, lags + 1)])


def _gaps(slow: float, fast: float) -> tuple[Array, Array]:
    """Gaps an octave apart, as small as the slowest mode, and those that suit the resonance at ω = π (2 − ηL wide)."""
    narrow = min(slow / 3, (2 - fast) / 10 if fast > 1 else _LARGEST_GAP / 2)
    gaps = np.geomspace(narrow, _LARGEST_GAP, 2 + math.ceil(math.log2(_LARGEST_GAP / narrow)))
    return gaps, gaps[gaps >= (2 - fast) / 11]


def rich_kernels(slow: float, fast: float) -> Kernels:
    """Some 50 to 150 kernels that suit most spectra, for m = ``slow``, l = ``fast``.

    Single lags into the past, tails and humps; where ηL > 1, odd and even lags apart and some into the future.
    """
    gaps, resonant = _gaps(slow, fast)
    rows = [(lag, 1, 1, 0, 1) for lag in range(1, _LAGS + 1)]
    rows += [(power, 1, g, power, 1) for power in _POWERS for g in gaps]
    if fast > 1:
        rows += [(2 * power - odd, 2, g, power, 1) for power in _POWERS for odd in (0, 1) for g in resonant]
        rows += [(lag, 1, 1, 0, -1) for lag in range(1, _MIRRORED_LAGS + 1)]
        rows += [(2, 2, g, 1, -1) for g in resonant]
    return Kernels.of(rows)


def further_kernels(slow: float, fast: float) -> Kernels:
    """Several hundred kernels of all shapes, into the past and into the future, for spectra that are unlike most."""
    gaps, resonant = _gaps(slow, fast)
    rows: list[tuple[float, ...]] = []
    for side in (1, -1):
        rows += [(lag, 1, 1, 0, side) for lag in range(1, 2 * _LAGS + 1)]
        rows += [(power, 1, g, power, side) for power in _MORE_POWERS for g in gaps]
        rows += [(2 * p - odd, 2, g, p, side) for p in _MORE_POWERS for odd in (0, 1) for g in resonant]
    return Kernels.of(rows)


@record
class Multiplier(Record):
    """Λ(ω) = constant + Σ_j weights_j (1 − K_j(ω)), a proof of a bound if its slack is positive everywhere.

    ``constant`` and ``weights`` (shape (n,)) are >= 0, for the dimensionless form of
    ``corrnoise.theory.strongly_convex`` with m = ``slow``, l = ``fast``.
    """

    slow: float
    fast: float
    criterion: str
    constant: float
    weights: Array
    kernels: Kernels

    @classmethod
    def constant_one(cls, slow: float, fast: float, criterion: str) -> Multiplier:
        """Λ = 1: for κ = 1, where every Λ > 0 gives the exact gain l/|1 − l − e^{iω}|²."""
        return cls(slow, fast, criterion, 1.0, np.empty(0), Kernels.of([]))

    def without_negligible(self) -> Multiplier:
        """The multiplier without weights below 1e-10 of the largest coefficient: simpler, and nearly as good."""
        kept = self.weights > 1e-10 * max(self.constant, self.weights.max(initial=0.0))
        kernels = self.kernels.chosen(kept)
        return Multiplier(self.slow, self.fast, self.criterion, self.constant, self.weights[kept], kernels)

    def at(self, frequencies: Array) -> tuple[Array, Array]:
        """Real and imaginary part of Λ(ω)."""
        total = self.constant + self.weights.sum()
        blocks = [frequencies[i : i + _BLOCK] for i in range(0, frequencies.size, _BLOCK)]
        values = [total - self.kernels.transforms(block) @ self.weights for block in blocks]
        both = np.concatenate(values) if values else np.empty(0, dtype=complex)
        return both.real, both.imag

    def condition(self, frequencies: Array) -> FrequencyCondition:
        """The condition that Λ has to meet."""
        return frequency_condition(self.slow, self.fast, frequencies, self.criterion)

    def gain(self, frequencies: Array) -> Array:
        """ξ(ω) at frequencies in [0, π] of any shape; ``inf`` where the slack is not positive."""
        omega = np.ravel(frequencies)
        return self.condition(omega).gain(*self.at(omega)).reshape(np.shape(frequencies))

    def least_slack(self, edges: Array) -> float:
        """A lower bound of the slack on all of [0, π], proved up to rounding; −inf where there is no positive one.

        On an interval of width h a function lies above its smaller end by no less than −h² max |u″|/8.  The intervals
        between ``edges``, which start at 0 and end at π, are halved until this is positive.
        """
        low, high = edges[:-1], edges[1:]
        least, parts = math.inf, 0
        while low.size:
            parts += low.size
            at_ends = np.minimum(*(self.condition(end).slack(*self.at(end)) for end in (low, high)))
            below = at_ends - (high - low) ** 2 / 8 * self._bend(low, high)
            if parts > _PARTS or not (at_ends > 0).all():
                return -math.inf
            proved = below > at_ends / 2
            least = min(least, float(below[proved].min(initial=math.inf)))
            low, high = low[~proved], high[~proved]
            middle = (low + high) / 2
            low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
        return least

    def _bend(self, low: Array, high: Array) -> Array:
        """An upper bound of |u″| on the intervals."""
        sizes, slopes, bends = (bound @ self.weights for bound in self.kernels.derivative_bounds(low, high))
        sizes = sizes + self.constant
        tilt, delta = abs(2 - self.slow - self.fast), self.fast - self.slow
        r = np.maximum(self.condition(low).r, self.condition(high).r)
        s = np.minimum(1.0, np.minimum(high, math.pi - low))
        real = tilt * sizes + 2 * tilt * s * slopes + r * bends  # of R a
        imaginary = s * sizes + 2 * slopes + s * bends  # of s b
        return 2 * (real + delta * imaginary) + 2 * abs(1 - self.fast) * (self.criterion == "objective")
