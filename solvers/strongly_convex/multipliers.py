"""Multipliers of the strongly convex bound: nonnegative mixtures of lag distributions.

A multiplier is Λ(ω) = c_0 + Σ_j c_j (1 − K_j(ω)), c >= 0, with kernels K_j(ω) = Σ_{τ≠0} k_τ e^{−iωτ}, where k >= 0 sums
to 1.  A kernel bundles many c_τ of ``corrnoise.theory.problems.strongly_convex``.  All kernels here have the form

    K(ω) = e^{−iω·shift} (g/(1 − (1 − g) e^{−iω·step}))^power,

the transform of the negative binomial distribution on the lags shift + step × {0, 1, …}, or of its mirror image.  With
power 0 it is the single lag ``shift``, with shift = step = power = 1 a geometric tail, and with larger powers a hump.
Tails are infinitely long, so a few dozen kernels replace thousands of single lags.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import modulus
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.problems.strongly_convex import Criterion, FrequencyCondition, GainOnDiscs, frequency_condition

_LAG_COUNT = 20
_MIRRORED_LAGS = 8
_START_POWERS = (1, 4, 16)
_MORE_POWERS = (1, 2, 4, 8, 16)
_LARGEST_GAP = 0.9
_BLOCK_FREQUENCIES = 2**10  # frequencies that are treated at once
_MAX_CHANGE = 0.9  # largest relative change of a denominator with a bound


def _power(x: Array, n: int) -> Array:
    """The n-th power, n >= 1, by squaring, which is several times as fast as ``**`` on complex arrays."""
    half = _power(x, n // 2) ** 2 if n > 1 else np.ones_like(x)
    return half * x if n % 2 else half


@record
class Kernels(Record):
    """Lag distributions; all fields have shape (n,).

    ``shifts`` (>= 1), ``steps``, ``gaps`` (0 < g <= 1) and ``powers`` are as in the formula, ``sides`` is 1, or −1
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
        """The kernels that an index selects."""
        return Kernels(*(field[which] for field in self.arguments().values()))

    def and_also(self, other: Kernels) -> Kernels:
        """These kernels and others."""
        both = zip(self.arguments().values(), other.arguments().values(), strict=True)
        return Kernels(*(np.concatenate(fields) for fields in both))

    def transforms(self, frequencies: Array) -> Array:
        """K_j(ω), complex, shape (frequencies, kernels)."""
        omega = frequencies[:, np.newaxis]
        phases, place = np.unique(self.sides * (self.powers * self.steps / 2 - self.shifts), return_inverse=True)
        values = np.exp(1j * phases * omega)[:, place]
        for step, power in {(step, power) for step, power in zip(self.steps, self.powers, strict=True) if power}:
            here = (self.steps == step) & (self.powers == power)
            gaps = self.gaps[here]
            half = omega * (step / 2)
            tail = gaps / (gaps * np.cos(half) + 1j * self.sides[here] * (2 - gaps) * np.sin(half))
            values[:, here] *= _power(tail, int(power))
        return values

    def changes(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        """Bounds of the change of the kernels on discs of complex frequencies z.

        Returns upper bounds, shape (frequencies, n), of |K_j(z) − K_j(ω)| and of its even part |C_j(z) − C_j(ω)|,
        C_j(z) = (K_j(z) + K_j(−z))/2, for |z − ω| <= radius; ``inf`` if a pole may be close.

        With M = |1 − (1 − g) e^{iω step}| the denominator changes by the share q = (1 − g) (e^{r step} − 1)/M at most,
        so K_j(z)/K_j(ω) differs from 1 by e^{r shift} (1 − q)^{−power} − 1 at most.

        The even part is Σ k_τ cos τz.  It is flat at ω = 0 and changes by at most Σ k_τ (cosh τ(ω + r) − cosh τω)
        <= r (ω + r/2) Σ k_τ τ² e^{τ(ω + r)}, a second moment in closed form.
        """
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            r = radii[:, np.newaxis]
            half = frequencies[:, np.newaxis] * (self.steps / 2)
            size = modulus(self.gaps, np.cos(half), np.sin(half))
            share = (1 - self.gaps) * np.expm1(self.steps * r) / size
            growth = np.expm1(self.shifts * r - self.powers * np.log1p(-share))
            change = np.where(share <= _MAX_CHANGE, (self.gaps / size) ** self.powers * growth, np.inf)
            y = frequencies[:, np.newaxis] + r
            share = (1 - self.gaps) * np.expm1(self.steps * y) / self.gaps
            tail = self.steps * (1 - self.gaps) * np.exp(self.steps * y) / (self.gaps * (1 - share))
            mean = self.shifts + self.powers * tail
            variance = self.powers * tail * (self.steps + tail)
            transform = np.exp(self.shifts * y) * (1 - share) ** -self.powers
            even = r * (y - r / 2) * transform * (mean**2 + variance)
            return change, np.where((share <= _MAX_CHANGE) & (even < change), even, change)

    def rounding(self) -> Array:
        """Upper bounds of the errors of ``transforms``, in units of rounding, shape (n,)."""
        return 16 + 32 * self.powers + 4 * np.abs(self.powers * self.steps / 2 - self.shifts)


def taps(lags: int) -> Kernels:
    """The single lags ±1, …, ±``lags``."""
    return Kernels.of([(lag, 1, 1, 0, side) for side in (1, -1) for lag in range(1, lags + 1)])


def _gaps(slow: float, fast: float) -> tuple[Array, Array]:
    """Gaps an octave apart, from a third of ημ on, and the subset for the resonance at ω = π, which is 2 − ηL wide."""
    narrow = min(slow / 3, (2 - fast) / 10 if fast > 1 else _LARGEST_GAP / 2)
    gaps = np.geomspace(narrow, _LARGEST_GAP, 2 + math.ceil(math.log2(_LARGEST_GAP / narrow)))
    return gaps, gaps[gaps >= (2 - fast) / 11]


def rich_kernels(slow: float, fast: float) -> Kernels:
    """Some 50 to 150 kernels that suit most spectra, for m = ``slow``, l = ``fast``.

    They are single lags into the past, tails and humps.  For ηL > 1 there are also tails of odd and of even lags only,
    and some kernels into the future.
    """
    gaps, resonant = _gaps(slow, fast)
    rows = [(lag, 1, 1, 0, 1) for lag in range(1, _LAG_COUNT + 1)]
    rows += [(power, 1, g, power, 1) for power in _START_POWERS for g in gaps]
    if fast > 1:
        rows += [(2 * power - odd, 2, g, power, 1) for power in _START_POWERS for odd in (0, 1) for g in resonant]
        rows += [(lag, 1, 1, 0, -1) for lag in range(1, _MIRRORED_LAGS + 1)]
        rows += [(2, 2, g, 1, -1) for g in resonant]
    return Kernels.of(rows)


def further_kernels(slow: float, fast: float) -> Kernels:
    """Several hundred kernels of all shapes, into the past and into the future, for unusual spectra."""
    gaps, resonant = _gaps(slow, fast)
    rows: list[tuple[float, ...]] = []
    for side in (1, -1):
        rows += [(lag, 1, 1, 0, side) for lag in range(1, 2 * _LAG_COUNT + 1)]
        rows += [(power, 1, g, power, side) for power in _MORE_POWERS for g in gaps]
        rows += [(2 * p - odd, 2, g, p, side) for p in _MORE_POWERS for odd in (0, 1) for g in resonant]
    return Kernels.of(rows)


@record
class Multiplier(Record):
    """Λ(ω) = constant + Σ_j weights_j (1 − K_j(ω)), which proves a bound if its slack is positive at all frequencies.

    ``constant`` and ``weights`` (shape (n,)) are >= 0, for the dimensionless form of
    ``corrnoise.theory.problems.strongly_convex`` with m = ``slow``, l = ``fast``.
    """

    slow: float
    fast: float
    criterion: Criterion
    constant: float
    weights: Array
    kernels: Kernels

    @classmethod
    def constant_one(cls, slow: float, fast: float, criterion: Criterion) -> Multiplier:
        """Λ = 1: for κ = 1, where every Λ > 0 gives the exact gain l/|1 − l − e^{iω}|²."""
        return cls(slow, fast, criterion, 1.0, np.empty(0), Kernels.of([]))

    def without_negligible(self) -> Multiplier:
        """The multiplier without weights below 1e-10 of the largest coefficient, which hardly change the bound."""
        kept = self.weights > 1e-10 * max(self.constant, self.weights.max(initial=0.0))
        kernels = self.kernels.chosen(kept)
        return Multiplier(self.slow, self.fast, self.criterion, self.constant, self.weights[kept], kernels)

    def with_rates(self, slow: float, fast: float) -> Multiplier:
        """The same coefficients for other rates."""
        return Multiplier(slow, fast, self.criterion, self.constant, self.weights, self.kernels)

    def at(self, frequencies: Array) -> tuple[Array, Array]:
        """Real and imaginary part of Λ(ω)."""
        total = self.constant + self.weights.sum()
        blocks = [frequencies[i : i + _BLOCK_FREQUENCIES] for i in range(0, frequencies.size, _BLOCK_FREQUENCIES)]
        values = [total - self.kernels.transforms(block) @ self.weights for block in blocks]
        both = np.concatenate(values) if values else np.empty(0, dtype=complex)
        return both.real, both.imag

    def condition(self, frequencies: Array) -> FrequencyCondition:
        """The condition that Λ has to satisfy."""
        return frequency_condition(self.slow, self.fast, frequencies, self.criterion)

    def gain(self, frequencies: Array) -> Array:
        """ξ(ω) at frequencies in [0, π] of any shape; ``inf`` where the slack is not positive."""
        omega = np.ravel(frequencies)
        return self.condition(omega).gain(*self.at(omega)).reshape(np.shape(frequencies))

    def _error(self) -> float:
        """An upper bound of the error of ``at``, in modulus."""
        terms = self.weights.size
        errors = (self.weights * (self.kernels.rounding() + 2 * terms + 8)).sum() + self.constant * (terms + 4)
        return UNIT_ROUNDOFF * float(errors)

    def rounded_gain(self, frequencies: Array) -> tuple[Array, Array]:
        """ξ(ω) to rounding, and an upper bound of it; ``inf`` where the slack is not certainly positive."""
        a, b = self.at(frequencies)
        condition = self.condition(frequencies)
        return condition.gain(a, b), condition.upper_gain(a, b, self._error())

    def on_discs(self, frequencies: Array, radii: Array) -> GainOnDiscs:
        """Gain and slack at ``frequencies``, and their bounds on the discs |z − ω| <= ``radii``."""
        change, even = self.kernels.changes(frequencies, radii)
        error = self._error()
        changes = [np.where(np.isfinite(c).all(axis=1), c @ self.weights, np.inf) + error for c in (even, change)]
        return self.condition(frequencies).on_discs(*self.at(frequencies), radii, *changes)
