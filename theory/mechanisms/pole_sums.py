"""The zeros of sums over poles on one side of 0, without cancellation."""

from __future__ import annotations

import math

import numpy as np

from corrnoise.support.kernels import kernel
from corrnoise.theory.numerics.checks import Array


@kernel
def _fill_zeros(poles, weights, symmetric, zeros):  # type: ignore[no-untyped-def]
    """Newton's method for log(sum over the poles below) − log(sum over those above), within a bracket.

    The unknown is u = log((a − q_k)/(q_{k+1} − a)).  For a sum over two poles the function is linear in u.  No sum has
    terms of both signs.
    """
    for k in range(zeros.size):
        width = poles[k + 1] - poles[k]
        place = 0.0
        low = -350.0
        high = 350.0
        for _ in range(200):
            from_below, from_above = width / (1 + math.exp(-place)), width / (1 + math.exp(place))
            zero = poles[k] + from_below
            speed = from_below * (from_above / width)  # derivative of the zero by u
            below, below_slope, above, above_slope = 0.0, 0.0, 0.0, 0.0
            for j in range(poles.size):
                distance = from_below + (poles[k] - poles[j]) if j <= k else from_above + (poles[j] - poles[k + 1])
                term = weights[j] / distance
                slope = speed / distance
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
            # Within a unit of u the slope changes by a bounded factor, so a short step bounds the error.
            settled = abs(change) <= 0.5 and abs(change) * speed <= 1e-15 * zero
            place = place + min(max(change, -10.0), 10.0)
            if settled:
                break
            if not low < place < high:
                place = (low + high) / 2
        zeros[k] = poles[k] + width / (1 + math.exp(-place))


def interlacing_zeros(gaps: Array, weights: Array, *, symmetric: bool = False) -> Array:
    """Gaps of the zeros of Σ weights/(1 − (1 − gaps) z), one between any two neighbouring poles, shape (n − 1,).

    Relative errors are about 1e-15, also where poles are close or weights have different sizes.  The equation Σ_below =
    Σ_above and all distances are computed without subtractions of computed numbers.  The gaps are in ascending order.
    ``symmetric``: the zeros of Σ weights/((1 − p z) (1 − p/z)) with p = 1 − q instead.
    """
    zeros = np.empty(gaps.size - 1)
    _fill_zeros(gaps, weights, symmetric, zeros)
    return zeros
