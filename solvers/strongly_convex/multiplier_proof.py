"""The bound that a multiplier proves: a certified upper bound of the mean of drive × gain over all frequencies.

Drive d σ² |B(ω)|² + σ_sgd² and gain ξ(ω) continue analytically to complex frequencies.  On a disc around each panel of
[0, π] the slack u has no zero and both are bounded, which gives a proved error of Gauss's rule
(``theory.numerics.quadrature``).  Panels are halved until the slack does not fall below half of its value at the
middle, and the proved error is below 1e-12 of the panel's share of the mean.  ``docs/strongly-convex-bound.md`` has the
bounds, and the assumptions of the proof on arithmetic.  It does not depend on how the multiplier was found.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from corrnoise.solvers.strongly_convex.multipliers import Multiplier
from corrnoise.theory.mechanisms.spectra import PowerSpectrum
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.quadrature import DISC, NODES, WEIGHTS, gauss_error
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_PANEL_ERROR = 1e-12  # largest proved error of a panel, relative to its part of the mean
MAX_PANELS = 2**15
_MIN_WIDTH = 2.0**-40  # least width of a panel, relative to its place; rounding would move the nodes of narrower ones
_FLAT_WIDTH = 1e-9  # relative to ημ or 2 − ηL: the gain is flat so near to a singularity of the drive
_NEAR_PI = 1e-10  # least distance of the panels from π, because their nodes are rounded


@dataclass(frozen=True)
class Drive:
    """E ‖ζ‖² by frequency: ``variance`` × |B(ω)|² from the privacy noise plus ``extra`` from the gradient noise."""

    spectrum: PowerSpectrum
    variance: float
    extra: float = 0.0

    def __call__(self, frequencies: Array) -> Array:
        """The drive at ``frequencies``, to rounding."""
        return self._from(self.spectrum.rounded(frequencies)[0])

    def rounded(self, frequencies: Array) -> tuple[Array, Array]:
        """The drive at ``frequencies`` to rounding, and an upper bound of it."""
        values, upper = self.spectrum.rounded(frequencies)
        return self._from(values), self._from(upper) * (1 + 8 * UNIT_ROUNDOFF)

    def on_discs(self, frequencies: Array, radii: Array) -> tuple[Array, Array]:
        """The drive at ``frequencies`` ω, and an upper bound of its modulus for |z − ω| <= radius."""
        values, largest = self.spectrum.on_discs(frequencies, radii)
        return self._from(values), self._from(largest) * (1 + 8 * UNIT_ROUNDOFF)

    def _from(self, spectrum: Array) -> Array:
        return self.variance * spectrum + self.extra


@dataclass(frozen=True)
class Proof:
    """A bound of the mean of drive × gain, proved by a multiplier; ``mean`` is ``inf`` if nothing is proved."""

    mean: float  #: of drive × gain, by Gauss's rule, to rounding
    quadrature_error: float  #: proved bound of the error of the rule
    rounding_error: float  #: proved bound of all rounding errors
    least_slack: float  #: positive lower bound of the slack over all frequencies; −inf without one
    edges: Array  #: of the panels, ascending; without the parts next to singular ends
    parts: Array  #: of ``mean``, panel by panel

    @property
    def upper_bound(self) -> float:
        """A certified upper bound of the mean of drive × gain."""
        return (self.mean + self.quadrature_error + self.rounding_error) * (1 + 4 * UNIT_ROUNDOFF)


def prove(multiplier: Multiplier, drive: Drive, edges: Array) -> Proof:
    """Bound the mean of drive × gain, starting from panels with ``edges`` from 0 to π.

    Returns the proof.  It proves nothing (``mean`` is ``inf``) if the slack vanishes somewhere, or if some 30 000
    panels do not resolve multiplier and drive.

    Raises
    ------
    ValueError
        If the multiplier has a negative coefficient, so the theorem does not apply.
    """
    if not (multiplier.constant >= 0 and (multiplier.weights >= 0).all()):
        raise ValueError("multiplier must have coefficients >= 0, or it proves nothing")
    nothing = Proof(math.inf, 0.0, 0.0, -math.inf, edges, np.empty(0))
    multiplier = multiplier.with_rates(math.nextafter(multiplier.slow, 0.0), math.nextafter(multiplier.fast, 2.0))
    edges, at_ends, least = _without_ends(multiplier, drive, edges)
    low, high = edges[:-1], edges[1:]
    done: list[tuple[Array, Array, Array]] = []
    panels = 0
    while low.size:
        middle = (low + high) / 2
        half = (high - low) / 2
        gains = multiplier.on_discs(middle, DISC * half)
        panels += low.size
        if panels > MAX_PANELS or not (gains.slack > 0).all() or (half < _MIN_WIDTH * high).any():
            return nothing
        drives, largest = drive.on_discs(middle, DISC * half)
        with np.errstate(over="ignore"):
            largest = largest * gains.largest_gain
        share = 2 * half * drives * gains.gain
        good = (gauss_error(half, largest) <= _PANEL_ERROR * share) & (gains.least_slack >= gains.slack / 2)
        done.append((low[good], high[good], largest[good]))
        least = min(least, float(gains.least_slack[good].min(initial=math.inf)))
        low, high, middle = low[~good], high[~good], middle[~good]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    low, high, largest = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = np.argsort(low)
    edges = np.append(low[order], high.max())
    parts, rounding = _integrated(multiplier, drive, edges, largest[order])
    quadrature = float(gauss_error(np.diff(edges) / 2, largest[order]).sum()) / math.pi
    return Proof(float(parts.sum()) + at_ends, quadrature, rounding, least, edges, parts)


def _integrated(multiplier: Multiplier, drive: Drive, edges: Array, largest: Array) -> tuple[Array, float]:
    """The mean of drive × gain by Gauss's rule, panel by panel, and a bound of all rounding errors together."""
    half = np.diff(edges) / 2
    nodes = edges[:-1, np.newaxis] + half[:, np.newaxis] * (1 + NODES)
    weights = half[:, np.newaxis] * WEIGHTS / math.pi
    drives, upper_drives = drive.rounded(nodes.ravel())
    gains, upper_gains = multiplier.rounded_gain(nodes.ravel())
    parts = (weights * (drives * gains).reshape(nodes.shape)).sum(axis=1)
    # The weights have errors of 64 units at most, and products and sums add less than that.
    upper = float((weights.ravel() * upper_drives * upper_gains).sum()) * (1 + 128 * UNIT_ROUNDOFF)
    # A node has an error of 8 units of the half width and one of its place, and |f′| is at most ``largest`` divided by
    # 2/3 of the half width.  math.pi is 2 units below π.
    misplaced = float(((25 * half + 3.2 * edges[1:]) * largest).sum()) + 2 * float(largest[-1])
    return parts, upper - float(parts.sum()) + UNIT_ROUNDOFF * misplaced / math.pi


def _without_ends(multiplier: Multiplier, drive: Drive, edges: Array) -> tuple[Array, float, float]:
    """The edges without the ends where the drive is singular, the mean there, and the least slack there.

    The mean is an upper bound, from the integral of the singularity and the largest gain next to it.
    """
    near_zero, near_pi = drive.spectrum.singular_ends
    flat = _FLAT_WIDTH * min(multiplier.slow, 2 - multiplier.fast)
    first = min(near_zero, flat)
    last = math.pi - (max(min(near_pi, flat), _NEAR_PI) if near_pi > 0 else 0.0)
    mean = 0.0
    least = math.inf
    for end, low, high, edge in ((0, 0.0, first, first), (1, last, math.pi, last)):
        if low == high:
            continue
        half = np.array([0.51 * (high - low)])
        gains = multiplier.on_discs(np.array([(low + high) / 2]), half)
        mass = drive.variance * drive.spectrum.near_end(end, edge) + drive.extra * float(half[0])
        mean += mass * float(gains.largest_gain[0])
        least = min(least, float(gains.least_slack[0]))
    inner = edges[(edges > first) & (edges < last)]
    return np.concatenate([[first], inner, [last]]), mean, least
