"""Sums over many poles on one side: as sums over few, and their zeros, without a subtraction that cancels."""

from __future__ import annotations

import math

import numba
import numpy as np

from corrnoise.theory.numerics.checks import Array

_GAUSS = 12  # points of a rule, for an octave


def condensed(places: Array, weights: Array) -> tuple[Array, Array]:
    """Fewer places and weights with the same Σ weights/(s + t), at any t with Re t >= 0, to rounding.

    Those in an octave are replaced by Gauss's rule of their measure.  Its error falls like (3 − sqrt(8))^{2n}, because
    −t is outside the ellipse through 0 with the foci 1 and 2; so it does for 1/(s² + t), t >= 0.
    """
    octaves = np.floor(np.log2(places))
    new: list[tuple[Array, Array]] = []
    for octave in np.unique(octaves):
        s, w = places[octaves == octave], weights[octaves == octave]
        if s.size > _GAUSS:
            nodes, w = _gauss(s / 2.0**octave, w)
            s = 2.0**octave * nodes
        new.append((s, w))
    return np.concatenate([s for s, _ in new]), np.concatenate([w for _, w in new])


def _gauss(places: Array, weights: Array) -> tuple[Array, Array]:
    """Gauss's rule of the measure of ``weights`` at ``places``, by Lanczos's process, orthogonalised in full."""
    basis = np.sqrt(weights / weights.sum())[np.newaxis]
    jacobi = np.zeros((_GAUSS, _GAUSS))
    for k in range(_GAUSS):
        image = places * basis[k]
        for _ in range(2):
            share = basis @ image
            image -= share @ basis
            jacobi[k, : k + 1] += share
        length = float(np.linalg.norm(image))
        if length <= 1e-14:  # no more than k + 1 places, to rounding
            break
        basis = np.vstack([basis, image / length])
    nodes, vectors = np.linalg.eigh(jacobi[: k + 1, : k + 1])
    return nodes, weights.sum() * vectors[0] ** 2


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _fill_zeros(poles, weights, symmetric, zeros):  # type: ignore[no-untyped-def]
    """Newton's method for log(sum over the poles below) − log(sum over those above), within a bracket.

    The unknown is the logarithm of (a − q_k)/(q_{k+1} − a), in which a sum over two poles only is linear.  No sum has
    terms of both signs.
    """
    for k in range(zeros.size):
        width = poles[k + 1] - poles[k]
        place, low, high = 0.0, -350.0, 350.0
        for _ in range(200):
            from_below, from_above = width / (1 + math.exp(-place)), width / (1 + math.exp(place))
            zero = poles[k] + from_below
            speed = from_below * (from_above / width)  # of the zero in its logarithm
            below, below_slope, above, above_slope = 0.0, 0.0, 0.0, 0.0
            for j in range(poles.size):
                distance = from_below + (poles[k] - poles[j]) if j <= k else from_above + (poles[j] - poles[k + 1])
                term, slope = weights[j] / distance, speed / distance
                if symmetric:
                    other = poles[j] + zero * (1 - poles[j])
                    term /= other
                    slope += speed * (1 - poles[j]) / other if j <= k else -speed * (1 - poles[j]) / other
                if j <= k:
                    below += term
                    below_slope += term * slope
                else:
                    above += term
                    above_slope += term * slope
            value = math.log(below / above)
            if value > 0:
                low = place
            else:
                high = place
            change = value / (below_slope / below + above_slope / above)
            # Over a unit of the unknown the slope changes by a bounded factor: a short step says where the zero is.
            settled = abs(change) <= 0.5 and abs(change) * speed <= 1e-15 * zero
            place = place + min(max(change, -10.0), 10.0)
            if settled:
                break
            if not low < place < high:
                place = (low + high) / 2
        zeros[k] = poles[k] + width / (1 + math.exp(-place))


def interlacing_zeros(gaps: Array, weights: Array, *, symmetric: bool = False) -> Array:
    """Gaps of the zeros of Σ weights/(1 − (1 − gaps) z), one between any two neighbouring poles.

    Parameters
    ----------
    gaps
        0 < q_1 < … < q_n < 2.
    weights
        Positive, shape (n,).
    symmetric
        Of Σ weights/((1 − p z) (1 − p/z)), p = 1 − q, instead.

    Returns
    -------
    Shape (n − 1,), with relative errors of about 1e-15 also where poles are close or weights of different size: neither
    side of Σ_below = Σ_above, nor any distance, takes a subtraction of computed numbers.
    """
    zeros = np.empty(gaps.size - 1)
    _fill_zeros(gaps, weights, symmetric, zeros)
    return zeros
