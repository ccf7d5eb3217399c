"""Buffered linear Toeplitz mechanisms: errors and sensitivities in O(d²) for d buffers, whatever the number of steps.

The strategy is a sum of exponentials, and the noise, its inverse, is a sum of exponentials too:

    C(z) = 1 + Σ_i ω_i z/(1 − θ_i z) = Π_i (1 − θ'_i z)/(1 − θ_i z),        B = 1/C.

A stream needs d buffers.  All formulas are in terms of the gaps g_i = 1 − θ_i and h_i = 1 − θ'_i, which are the gaps
of the zeros and the poles of B.  If they interlace, 0 < g_1 < h_1 < g_2 < … < h_d < 1, then the *scales* ω_i, the
*residues* r_i and the limit c* of the partial sums b_t = β_0 + … + β_t = c* + Σ r_i θ'_iᵗ are positive:

    ω_i = Π_j (h_j − g_i)/Π_{j≠i} (g_j − g_i),
    r_i = −Π_j (g_j − h_i)/(h_i Π_{j≠i} (h_j − h_i)),        c* = Π_i g_i/h_i.

With the sums φ_n(x) = Σ_{t<n} xᵗ and ψ_n(x) = Σ_{t<n} (n − t)/n xᵗ the errors of prefix sums at unit noise are

    mean = c*² (n + 1)/2 + 2c* Σ r_i ψ_n(θ'_i) + Σ r_i r_j ψ_n(θ'_i θ'_j),

and the same with φ_n in place of ψ_n, and n in place of (n + 1)/2, for the largest error.

*Sensitivity.*  If all scales are >= 0 and all decays θ lie in [0, 1], then c_t >= 0 and c_t >= c_{t+1} for t >= 1.
For such a strategy the worst pattern of k participations that are at least b >= 1 steps apart is 0, b, 2b, …
(P1 of docs/finite-runs-proofs.md).  Between its participations m and m + 1 the sum of its columns is

    a_m = 1 + Σ_i ω_i Σ_{1<=l<=m} θ_i^{lb−1}        at step mb,
    Σ_i σ_i θ_i^{s−1},  σ_i = ω_i Σ_{l<=m} θ_i^{lb}      at step mb + s, s >= 1,

and the squared sensitivity is Σ_m (a_m² + Σ_ij σ_i σ_j φ_{L−1}(θ_i θ_j)), where L is the number of steps up to the
next participation, or to the end.

No formula subtracts numbers that are computed, except 1 − θ^{b−1}.  Relative errors are below 1e-13 for up to 4 buffers
with neighbouring gaps 1 percent apart, in runs of up to 10⁷ steps.  Arrays hold floats; or python-flint or mpmath
numbers (dtype object); or complex numbers x + i ε x' with ε = 1e-100, which come out with their derivatives (the
complex-step method).

Source: Dvijotham, McMahan, Pillutla, Steinke, Thakurta, arXiv 2404.16706 (buffers); McMahan, Xu, Zhang, arXiv
2408.08868 (sensitivities in closed form for several participations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.rounding import rounded_up
from corrnoise.theory.objectives.toeplitz_errors import Aggregate
from corrnoise.theory.participation import Participation, Reshuffled

Numbers = NDArray[Any]  # floats, complex numbers or objects, as above

_SERIES_TERMS = 13  # of series up to _MAX_ARGUMENT: _SHORT¹³/14! is below 1e-18
_MAX_ARGUMENT = 0.25
_BALL_BITS = 512


# -- geometric sums ----------------------------------------------------------------------------------------------------


def power_gap(gaps: Numbers, exponents: ArrayLike) -> Numbers:
    """1 − (1 − gap)ⁿ for 0 <= gap <= 1 and integers n >= 0, of one shape together."""
    n = np.asarray(exponents)
    if gaps.dtype == object:
        return np.asarray(1 - (1 - gaps) ** n)
    base = np.minimum(gaps.real, 1 - 2.0**-53)  # with a gap of 1, 0 · log(0) would be left
    logarithm = np.log1p(-base)
    value = -np.expm1(n * logarithm)
    if np.iscomplexobj(gaps):
        return np.asarray(value + 1j * gaps.imag * n * np.exp((n - 1) * logarithm))
    return np.asarray(value)


def _with_series(closed: Numbers, gaps: Numbers, n: NDArray[Any], order: int) -> Numbers:
    """``closed``, with Σ_j (−gap)ʲ (n + order − 1) ⋯ (n − j)/(order + j)! in place of it where n × gap is small.

    For order 1 this is φ_n, for order 2 it is n ψ_n.
    """
    small = n * gaps.real < _MAX_ARGUMENT
    if small.any():
        e = np.broadcast_to(gaps, small.shape)[small]
        m = np.broadcast_to(n, small.shape)[small]
        total = np.ones_like(e)
        for j in range(_SERIES_TERMS, 0, -1):
            total = 1 - e * (m - j) / (order + j) * total
        closed[small] = total * (m if order == 1 else m * (m + 1) / 2)
    return closed


def geometric_sum(gaps: Numbers, terms: ArrayLike) -> Numbers:
    """φ_n(x) = Σ_{t<n} xᵗ with x = 1 − gap, to rounding."""
    n = np.asarray(terms)
    if gaps.dtype == object:
        return np.asarray(np.frompyfunc(lambda e, m: (1 - (1 - e) ** m) / e if e != 0 else m * (e + 1), 2, 1)(gaps, n))
    return _with_series(power_gap(gaps, n) / np.where(gaps == 0, 1, gaps), gaps, n, 1)


def weighted_geometric_sum(gaps: Numbers, terms: int) -> Numbers:
    """ψ_n(x) = Σ_{t<n} (n − t)/n xᵗ with x = 1 − gap, to rounding."""
    n = terms
    if gaps.dtype == object:
        return np.asarray((n - (1 - gaps) * geometric_sum(gaps, n)) / (n * gaps))
    closed = (n - (1 - gaps) * geometric_sum(gaps, n)) / np.where(gaps == 0, 1, gaps)
    return _with_series(np.asarray(closed), gaps, np.asarray(n), 2) / n


# -- buffers -----------------------------------------------------------------------------------------------------------


def _others(gaps: Numbers) -> Numbers:
    """Π_{j≠i} (gap_j − gap_i), shape (…, d)."""
    differences = gaps[..., np.newaxis, :] - gaps[..., :, np.newaxis]
    places = np.arange(gaps.shape[-1])
    differences[..., places, places] = differences[..., places, places] * 0 + 1
    return np.asarray(differences.prod(axis=-1))


def scales(zeros: Numbers, poles: Numbers) -> Numbers:
    """ω, shape (…, d), of the strategy; ``zeros`` g and ``poles`` h have this shape."""
    return np.asarray((poles[..., np.newaxis, :] - zeros[..., :, np.newaxis]).prod(axis=-1) / _others(zeros))


def residues(zeros: Numbers, poles: Numbers) -> tuple[Numbers, Numbers]:
    """c*, shape (…), and r, shape (…, d), of the partial sums of the noise."""
    above = (zeros[..., np.newaxis, :] - poles[..., :, np.newaxis]).prod(axis=-1)
    return np.asarray((zeros / poles).prod(axis=-1)), np.asarray(-above / (poles * _others(poles)))


def _pairs(values: Numbers) -> Numbers:
    return values[..., :, np.newaxis] * values[..., np.newaxis, :]


def _pair_gaps(gaps: Numbers) -> Numbers:
    """1 − θ_i θ_j."""
    return gaps[..., :, np.newaxis] + gaps[..., np.newaxis, :] - _pairs(gaps)


def squared_error(zeros: Numbers, poles: Numbers, *, steps: int, aggregate: Aggregate) -> Numbers:
    """The mean or the largest squared error of prefix sums at unit noise, shape (…), of gaps g and h, shape (…, d)."""
    n = steps
    limit, weights = residues(zeros, poles)
    sums = weighted_geometric_sum if aggregate == "mean" else geometric_sum
    constant = limit**2 * (n + 1) / 2 if aggregate == "mean" else limit**2 * n
    single = (weights * sums(poles, n)).sum(axis=-1)
    double = (_pairs(weights) * sums(_pair_gaps(poles), n)).sum(axis=(-2, -1))
    return np.asarray(constant + 2 * limit * single + double)


def squared_sensitivity(gaps: Numbers, omega: Numbers, participation: Participation) -> Numbers:
    """The squared sensitivity of a strategy with scales >= 0 and decays in [0, 1], by the formula above, shape (…).

    The gaps g = 1 − θ and ω, of shape (…, d), are not checked here.
    """
    n = participation.length
    b = participation.worst.period
    k = participation.worst.count
    pairs = _pair_gaps(gaps)
    if k == 1:
        return np.asarray(1 + (geometric_sum(pairs, n - 1) * _pairs(omega)).sum(axis=(-2, -1)))
    times = np.arange(1, k + 1)[:, np.newaxis]
    epoch = power_gap(gaps, b)[..., np.newaxis, :]
    before = (1 - power_gap(gaps, b - 1))[..., np.newaxis, :]
    weights = omega[..., np.newaxis, :]
    sigma = weights * geometric_sum(epoch, times)
    first = 1 + (weights * before * geometric_sum(epoch, times - 1)).sum(axis=-1)
    full = geometric_sum(pairs, b - 1) * _pairs(sigma[..., :-1, :]).sum(axis=-3)
    last = geometric_sum(pairs, n - (k - 1) * b - 1) * _pairs(sigma[..., -1, :])
    return np.asarray((first * first).sum(axis=-1) + (full + last).sum(axis=(-2, -1)))


def sensitivity_upper_bound(decay_gaps: ArrayLike, output_scales: ArrayLike, participation: Participation) -> float:
    """Sensitivity of a buffered strategy, rounded up: exact but for the last bits, which are on the safe side.

    Returns the float next above the sensitivity of exactly these decays and scales.

    Raises
    ------
    ValueError
        If a scale is negative, a decay is outside [0, 1], or the order is reshuffled: the theorem does not cover it.
    """
    gaps = checks.vector("decay_gaps", decay_gaps, "[0, 1]")
    omega = checks.vector("output_scales", output_scales, "[0, inf)")
    checks.same_length("decay_gaps", gaps, "output_scales", omega)
    return _rounded_up(lambda: (balls(gaps), balls(omega)), participation)


def noise_sensitivity_upper_bound(noise: PoleNoise, participation: Participation) -> float:
    """The same for the strategy of ``noise``, whose zeros and poles interlace (``interlacing``)."""
    zeros, poles = interlacing(noise)
    return _rounded_up(lambda: (balls(zeros), scales(balls(zeros), balls(poles))), participation)


def interlacing(noise: PoleNoise) -> tuple[Array, Array]:
    """The gaps of zeros and poles of ``noise``, 0 <= g_1 < h_1 < g_2 < … < h_d <= 1; ``ValueError`` for others."""
    zeros, poles = checks.instance("noise", noise, PoleNoise).sections()
    order = np.column_stack([zeros, poles]).ravel()
    if not (np.diff(order) > 0).all() or order.max(initial=0) > 1:
        raise ValueError(
            f"noise must have zeros and poles whose gaps interlace, g_1 < h_1 < g_2 < … < h_d <= 1, got {noise!r}"
        )
    return zeros, poles


def balls(values: Array) -> Numbers:
    """Exact balls of python-flint with the values of floats."""
    from flint import arb

    return np.array([arb(value) for value in values.tolist()], dtype=object)


def _rounded_up(strategy: Callable[[], tuple[Numbers, Numbers]], participation: Participation) -> float:
    from flint import arb, ctx

    who = checks.instance("participation", participation, Participation).worst
    if isinstance(who, Reshuffled) and not who.once:
        raise ValueError(f"participation must not be reshuffled for the closed form, got {participation!r}")
    with ctx.workprec(_BALL_BITS):
        gaps, omega = strategy()
        if gaps.size == 0:
            return rounded_up(arb(who.count).sqrt())
        return rounded_up(squared_sensitivity(gaps, omega, who).item().sqrt())
