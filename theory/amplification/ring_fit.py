"""Rings above a Gram matrix: least squares propose them, and a larger D covers the entries that they miss.

Let f(d) be the largest entry V_ij of all pairs at the cyclic distance d.  A ring H with N_d >= 0 missing at the
distance d, H + N >= V entry by entry, and D raised by the row sums r of N is above V in the copositive order: r 1 − N
is diagonally dominant, and H + r 1 − V = (H + N − V) + (r 1 − N).  ``docs/amplification-proofs.md`` has the proof.

The ring with the least Σ w_d h_d is taken, where w_d is the posterior weight of two bins at the
distance d near Λ = e^ε: to first order this is δ.  The weights are means over a few draws.  They choose a ring and
prove nothing.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from scipy.special import logsumexp, ndtri

from corrnoise.theory.amplification.ring import RingLaw
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

_RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.84, 0.88, 0.91, 0.935, 0.955, 0.97, 0.98)
_MAX_WRAPPED = 0.7  #: λ^b; s stands for slower waves
_MIN_OWN_SHARE = 0.02  #: of D in f(0): with less Z falls slowly
_MIN_SHARE = 1e-3  #: of s and a in f(0): a smaller wave needs a fine lattice, and gains nothing
_FIT_SHARES = (1.0, 1.01, 1.02, 1.04, 1.07)  #: of s and a over least squares
_POSTERIOR_DRAWS = 300
_MAX_TILT_ORDER = 64
_LEVEL_WIDTH = 0.1  #: of ln Λ around ε


def largest_entries(gram: Array) -> Array:
    """f(d), the largest entry at each cyclic distance d = 0, …, ⌊b/2⌋.

    Parameters
    ----------
    gram : array of float
        V, shape (b, b).

    Returns
    -------
    array of float
        Shape (⌊b/2⌋ + 1,).
    """
    b = gram.shape[0]
    i = np.arange(b)
    return np.asarray(gram[i[:, np.newaxis], (i[:, np.newaxis] + i) % b].max(axis=0)[: b // 2 + 1])


def ring_shape(gram: Array, epsilon: float) -> RingLaw:
    """The ring above V with the smallest posterior weight.

    Parameters
    ----------
    gram : array of float
        V, shape (b, b), b >= 3.
    epsilon : float
        ε >= 0, where the posterior weights are taken.

    Returns
    -------
    RingLaw
    """
    b = gram.shape[0]
    entries = largest_entries(gram)
    d = np.arange(entries.size)
    weights = _multiplicities(b) * _posterior(gram, epsilon)
    root = np.sqrt(weights[1:])
    found = []
    for rates in combinations([rate for rate in _RATES if rate**b <= _MAX_WRAPPED], 2):
        waves = np.column_stack([np.ones(d.size), *(rate**d + rate ** (b - d) for rate in rates)])[1:]
        fit = np.linalg.lstsq(waves * root[:, np.newaxis], entries[1:] * root, rcond=None)[0]
        for share in _FIT_SHARES:
            shared, *amplitudes = (float(x) if x > _MIN_SHARE * entries[0] else 0.0 for x in fit * share)
            ring = ring_above(entries, b, RingLaw(b, shared, 1.0, tuple(amplitudes), rates))
            found.append((float(weights @ ring.row()[: d.size]), rates, share, ring))
    return min(found, key=lambda one: one[:3])[-1]


def ring_above(entries: Array, bins: int, shape: RingLaw) -> RingLaw:
    """The ring with s, a and λ of ``shape`` and a D that puts it above all Gram matrices with these largest entries.

    Parameters
    ----------
    entries : array of float
        f(d) for d <= b/2.
    bins : int
        b.
    shape : RingLaw
        Its D is not used.

    Returns
    -------
    RingLaw
    """
    row = shape.row()[: entries.size] * (1 - 64 * UNIT_ROUNDOFF)
    row[0] = (shape.row()[0] - shape.own) * (1 - 64 * UNIT_ROUNDOFF) - 64 * UNIT_ROUNDOFF * shape.own
    lacks = np.maximum(entries - row, 0.0)
    own = float(entries[0] - row[0] + _multiplicities(bins)[1:] @ lacks[1:]) * (1 + 1e-12) + 1e-12 * float(entries[0])
    own = max(own, _MIN_OWN_SHARE * float(entries[0]))
    return RingLaw(bins, shape.shared, own, shape.amplitudes, shape.rates)


def _multiplicities(bins: int) -> Array:
    """The number of bins at each cyclic distance from a bin."""
    d = np.arange(bins // 2 + 1)
    return np.where((d == 0) | (2 * d == bins), 1.0, 2.0)


def _posterior(gram: Array, epsilon: float) -> Array:
    """The mean posterior weight of two bins at each distance d <= b/2 near Λ = e^ε.

    With indices drawn one after another, as in the Monte Carlo of ``simulations.amplification``.
    """
    b = gram.shape[0]
    rng = np.random.Generator(np.random.PCG64(1))
    values, vectors = np.linalg.eigh(gram)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T  # the same for every choice of eigenvectors
    normal = ndtri(rng.random((_POSTERIOR_DRAWS, b))) @ root
    lean, weight = np.zeros(normal.shape), np.zeros(_POSTERIOR_DRAWS)
    least, order, chosen = math.inf, 1, (lean, weight)
    for a in range(1, _MAX_TILT_ORDER + 1):
        top = lean.max(axis=1)
        sums = np.cumsum(np.exp(lean - top[:, np.newaxis]), axis=1)
        weight = weight + top + np.log(sums[:, -1] / b)
        drawn = (sums < (rng.random(_POSTERIOR_DRAWS) * sums[:, -1])[:, np.newaxis]).sum(axis=1)
        lean = lean + gram[np.minimum(drawn, b - 1)]
        if a > 1:
            bound = logsumexp(weight) - (a - 1) * epsilon + a * math.log1p(-1 / a) - math.log(a - 1)
            if bound < least:
                least, order, chosen = bound, a, (lean, weight)
            elif a > order + 2:
                break
    lean, weight = chosen
    exponents = normal + lean - np.diagonal(gram) / 2
    total = logsumexp(exponents, axis=1)
    posterior = np.exp(exponents - total[:, np.newaxis])
    ratio = total - math.log(b)
    logs = weight - order * ratio - ((ratio - epsilon) / _LEVEL_WIDTH) ** 2 / 2
    shares = np.exp(logs - logsumexp(logs))
    pairs = shares @ np.fft.irfft(np.abs(np.fft.rfft(posterior, axis=1)) ** 2, n=b, axis=1)
    return np.asarray(np.maximum(pairs[: b // 2 + 1], 0.0))
