"""Correlated noise as a program makes it: the sensitivity that covers rounding errors.

A program makes the noise y from independent noise z by a recurrence in floating-point arithmetic
(``theory.numerics.rounding``).  For fixed rounding errors the program is a linear map y = N z, and a run that releases
g + N z has the sensitivity of the *strategy* N⁻¹: its largest column norm.  The functions here bound this norm for all
rounding errors.  A product of m factors 1 + δ or 1/(1 + δ) with |δ| <= u lies within 1 ± ε_m, ε_m = (1 − u)^{−m} − 1,
and every entry of the strategy is a sum of terms that carry such factors.  There are these kinds of programs:

``recurrence_sensitivity``
    y_t = (z_t − Σ_{k>=1} c_k y_{t−k})/c_0, the strategy step by step.  A term goes through as many operations as there
    are coefficients, in whatever order they are added: |ΔC[t, t−k]| <= ε |c_k|.
``buffer_sensitivity``
    y_t = z_t − Σ_i ω_i x_i and then x_i ← θ_i x_i + y_t.  After k steps a buffer has taken 2k roundings, so that the
    terms of ΔC are again exponentials, ω_i θ_i^{k−1} ((1 − u)^{−2k−P} − 1) for P buffers.
``section_sensitivity``
    A cascade of sections y = x + (a − q) s and then s ← s + (x − q s).
``convolution_sensitivity``
    y_t = Σ_k β_k z_{t−k}, directly or by fast Fourier transforms.  Here N is perturbed, not its inverse C:
    (N + ΔN)⁻¹ = (1 + C ΔN)⁻¹ C, hence a factor 1/(1 − ‖C‖ ‖ΔN‖).
``substitution_sensitivity``
    y_t = (z_t − Σ_{s<t} C_ts y_s)/C_tt over p bands.  The computed y solves (C + ΔC) y = z exactly, with
    |ΔC| <= ε_{p+1} |C| entry by entry (Higham, Theorem 8.5), so that no column of ΔC exceeds ε_{p+1} times the largest
    column of C.
``tree_sensitivity``
    A node is made of earlier nodes, of smaller heights each, and of one draw.  All weights are non-negative and a draw
    enters a node with the weight 1 at most, and at most one of the nodes that are then subtracted: |ΔN_tu| <= 2 ε_m,
    where a draw goes through m <= (h + 1)(h + 4) operations for h = log2(n) + 1 heights.
``scaled_sensitivity``
    D · program · G with positive diagonals D (steps) and G (draws), k participations, and γ the sensitivity of
    G⁻¹ C D⁻¹.  A program with the strategy C + ΔC has at most γ + k max_j |ΔC e_j|/(min g · min d): the added columns
    are G⁻¹ ΔC D⁻¹ e_j.  One that makes N + ΔN with ‖C ΔN‖ <= κ has at most γ/(1 − κ max g/min g), if this is positive:
    G⁻¹(N + ΔN)⁻¹ D⁻¹ = [1 + G⁻¹ C ΔN G]⁻¹ G⁻¹ C D⁻¹.

If an example is used k times, its k columns of C and of ΔC count.  ``theory.mechanisms.sensitivity`` gives the
sensitivity of C, and ΔC adds k times its largest column norm at most.

The bounds cover any program of the stated form whose operations all have the unit roundoff of the stated type, with
sums in any order and with fused operations.  At both ends of the program they allow for float32: the independent noise
and its standard deviation may be rounded to it, and so may the finished noise.  That takes 2.4e-7 of the sensitivity.
The bounds do not cover overflow and underflow, nor matrix products in a shorter type, which accelerators use by
default, nor that δ depends on z and that floating-point noise is discrete.

Source: N. J. Higham, Accuracy and stability of numerical algorithms, 2nd edition, Sections 2.2, 3.1 and 24.1.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from flint import arb, ctx

from corrnoise.theory.mechanisms.reshuffled import any_toeplitz_sensitivity
from corrnoise.theory.mechanisms.sensitivity import norm
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.rounding import (
    UNITS,
    Dtype,
    as_stored,
    at_the_ends,
    exponential_norm,
    finite_or_inf,
    growth,
    rounded_up,
)
from corrnoise.theory.participation import Order

_BALL_BITS = 512  # of sums of exponentials whose decays differ
_CASCADE_BITS = 2048  # of products of sections, whose decays may all but coincide
_MIN_SEPARATION = 2.0**-80  # relative distance of decays that are taken as different
_NORM_FACTOR = 1 + arb(2) ** -30  # more than the relative error of any norm below


# -- recurrences -------------------------------------------------------------------------------------------------------


def recurrence_sensitivity(strategy_coef: Array, dtype: Dtype, participation: Order) -> float:
    """Upper bound of the sensitivity of a run that inverts a Toeplitz strategy step by step, stored as ``dtype``."""
    stored = as_stored(strategy_coef, dtype)
    largest = float(np.abs(stored).max())
    if not 0 < largest < math.inf:
        return math.inf
    with ctx.workprec(_BALL_BITS):
        column = largest * arb(math.fsum(np.square(stored / largest))).sqrt() * (1 + arb(2) ** -50)
        factor = growth(stored.size + 1, dtype)
        if participation.once:
            return rounded_up(column * factor * at_the_ends())
        exact = any_toeplitz_sensitivity(stored, participation).upper
        return finite_or_inf((exact + participation.count * column * (factor - 1)) * at_the_ends())


def buffer_sensitivity(buf_decay: Array, output_scale: Array, participation: Order, dtype: Dtype) -> float:
    """Upper bound of the sensitivity of a run that inverts a buffered linear Toeplitz strategy step by step.

    θ and ω have the shape (P,), and the program stores them as ``dtype``.  For runs of any length the bound is ``inf``
    unless every |θ| is a few units below 1.
    """
    who = participation
    decay = as_stored(buf_decay, dtype)
    scale = as_stored(output_scale, dtype)
    if not np.isfinite(scale).all():
        return math.inf
    decay, scale = decay[scale != 0], scale[scale != 0]
    with ctx.workprec(_BALL_BITS):
        thetas = [arb(value) for value in decay.tolist()]
        omegas = [arb(value) for value in scale.tolist()]
        if who.once:
            exact = exponential_norm(arb(1), omegas, thetas, who.steps)
        else:
            exact = arb(_sum_of_exponentials_sensitivity(decay, scale, who))
        factor = growth(decay.size + 2, dtype)
        raised = [abs(theta) * growth(2, dtype) for theta in thetas]
        scales = [abs(omega) * factor for omega in omegas] + [-abs(omega) for omega in omegas]
        error = exponential_norm(factor - 1, scales, raised + [abs(theta) for theta in thetas], who.steps)
        return finite_or_inf((exact + who.count * error) * at_the_ends())


def _sum_of_exponentials_sensitivity(decay: Array, scale: Array, participation: Order) -> float:
    """Upper bound of the sensitivity of the strategy 1, Σ_i ω_i, Σ_i ω_i θ_i, … in exact arithmetic."""
    if not np.isfinite(scale).all() or (np.abs(decay) > 1).any():
        return math.inf
    powers = np.arange(participation.length - 1, dtype=float)
    coefficients = np.ones(participation.length)
    sizes = np.ones(participation.length)
    coefficients[1:] = 0.0
    sizes[1:] = 0.0
    for theta, omega in zip(decay.tolist(), scale.tolist(), strict=True):
        term = omega * np.power(theta, powers)
        coefficients[1:] += term
        sizes[1:] += np.abs(term)
    # A power has a relative error of a few units, and each addition one of the sum of sizes.
    error = (decay.size + 8) * UNITS["float64"] * norm(sizes) / norm(coefficients)
    return any_toeplitz_sensitivity(coefficients, participation, error=error).upper


def section_sensitivity(
    zeros: Array, poles: Array, exact: float, participation: Order, dtype: Dtype = "float64"
) -> float:
    """Upper bound of the sensitivity of a run whose noise is a cascade of sections.

    The section with the gaps a and q turns x into y = x + (a − q) s and s into s + (x − q s).  Its strategy has the
    coefficients 1 and (q − a) (1 − a)^{k−1}.  Rounding moves 1 − a by at most η = ε_1 + ε_4 (q + |a − q|), the first
    coefficient by ε_1, and the factor q − a by ε_5.  The error of a product of sections is bounded, coefficient by
    coefficient, by the difference of two products of sections with positive coefficients.

      ``exact`` is an upper
    bound of the sensitivity of the noise of these sections in exact arithmetic.

    Raises
    ------
    ValueError
        If ``dtype`` does not hold a gap; a − q may be rounded to it.
    """
    if math.isinf(exact):
        return exact
    if not all(np.array_equal(as_stored(gaps, dtype), gaps) for gaps in (zeros, poles)):
        raise ValueError(f"zeros and poles must be {dtype} numbers, got {zeros!r} and {poles!r}")
    with ctx.workprec(_CASCADE_BITS):
        one = growth(1, dtype)
        four = growth(4, dtype)
        weights: list[arb] = []
        decays: list[arb] = []
        raised: list[arb] = []
        below = arb(0)
        for a, q in sorted(zip(zeros.tolist(), poles.tolist(), strict=True), key=lambda pair: abs(1 - pair[0])):
            weight = abs(arb(a) - arb(q))
            decay = _at_least(abs(1 - arb(a)), below * (1 + arb(_MIN_SEPARATION)))
            moved = decay + (one - 1) + (four - 1) * (arb(q) + weight)
            weights.append(weight)
            decays.append(decay)
            raised.append(_at_least(moved, raised[-1] * (1 + arb(_MIN_SEPARATION))) if raised else moved)
            below = decay
        nominal = _product_of_sections(arb(1), weights, decays)
        perturbed = _product_of_sections(one, [weight * growth(5, dtype) for weight in weights], raised)
        scales = perturbed + [-scale for scale in nominal]
        error = exponential_norm(one**zeros.size - 1, scales, raised + decays, participation.steps)
        return finite_or_inf((exact + participation.count * error) * at_the_ends())


def _product_of_sections(first: arb, weights: list[arb], decays: list[arb]) -> list[arb]:
    """The scales of Π_i (first + weights_i z/(1 − decays_i z)) as a sum of exponentials with these decays."""
    scales = []
    for i, decay in enumerate(decays):
        scale = weights[i]
        for j, other in enumerate(decays):
            if j != i:
                scale = scale * (first + weights[j] / (decay - other))
        scales.append(scale)
    return scales


def _at_least(value: arb, floor: arb) -> arb:
    """The larger of the two, and a positive number."""
    return value.max(floor).max(arb(2) ** -200)


# -- convolutions ------------------------------------------------------------------------------------------------------


def convolution_sensitivity(
    stored: Array,
    once: float,
    exact: float,
    participation: Order,
    dtype: Dtype,
    *,
    by: Literal["sums", "transforms"] = "sums",
) -> float:
    """Upper bound of the sensitivity of a run that multiplies independent noise by the noising matrix.

    Returns the bound, ``inf`` where the errors are not small against 1/‖C‖.  The coefficients, shape (p,), are
    ``stored`` as numbers of ``dtype``.  ``once`` and ``exact`` are upper bounds of the sensitivity of this noise in
    exact arithmetic: for one participation, and for ``participation``.  An entry is a sum of products, in any order, or
    comes ``by="transforms"``: fast Fourier transforms over all steps, with an error of at most 32 u log2(2T) ‖β‖₁ ‖z‖₂.
    """
    steps = participation.steps
    if not np.isfinite(stored).all() or stored[0] == 0:
        return math.inf
    size = float(np.abs(stored).sum())
    # ‖c‖₁ <= sqrt(T) ‖c‖₂; and |B| has the slope n ‖β‖₁ at most, hence max |1/B| <= π n ‖β‖₁ γ².
    strategy_size = math.pi * stored.size * size * once**2 if steps is None else math.sqrt(steps) * once
    operations = stored.size if by == "sums" else 32 * math.ceil(math.log2(2 * (steps or stored.size)))
    if not math.isfinite(strategy_size):
        return math.inf
    with ctx.workprec(_BALL_BITS):
        error = growth(operations + 1, dtype) - 1
        loss = arb(strategy_size) * arb(size) * error * (1 + arb(2) ** -40)
        return finite_or_inf(arb(exact) * at_the_ends() / (1 - loss)) if loss < 1 else math.inf


# -- triangular strategies, scales, trees ------------------------------------------------------------------------------


def substitution_sensitivity(exact: float, column_norms: Array, bands: int, participation: Order) -> float:
    """Upper bound of the sensitivity of a run that inverts a triangular strategy step by step in float64.

    As for ``tree_sensitivity``; the program takes the entries of the ``bands`` as they are.
    """
    with ctx.workprec(_BALL_BITS):
        column = arb(float(column_norms.max())) * _NORM_FACTOR
        error = growth(bands + 1, "float64") - 1
        return finite_or_inf((arb(exact) + participation.count * column * error) * at_the_ends())


def scaled_sensitivity(
    exact: float,
    participation: Order,
    *,
    program: float,
    plain: float,
    additive: bool,
    step_scales: Array | None,
    draw_scales: Array | None,
    dtype: Dtype = "float64",
) -> float:
    """Upper bound of the sensitivity of a run that scales the steps, or the draws, of a Toeplitz program.

    ``exact`` is an upper bound of the sensitivity of the scaled noise in exact arithmetic.  ``program`` is the covered
    sensitivity of the Toeplitz program, and ``plain`` a lower bound of the sensitivity of its noise in exact
    arithmetic, both for single participation in the steps of the run.  The program perturbs the strategy
    (``additive``), as cascades, buffers and recurrences do, or the noise, as a convolution does.  The scales have the
    shape (n,).
    """
    if not (math.isfinite(program) and plain > 0):
        return math.inf
    least_step = 1.0 if step_scales is None else float(step_scales.min())
    least_draw = 1.0 if draw_scales is None else float(draw_scales.min())
    most_draw = 1.0 if draw_scales is None else float(draw_scales.max())
    products = (step_scales is not None) + (draw_scales is not None)
    with ctx.workprec(_BALL_BITS):
        if additive:
            error = arb(program) - arb(plain)  # at least the error of a column, and roundings at the ends
            whole = arb(exact) + participation.count * error / (arb(least_step) * arb(least_draw))
            return finite_or_inf(whole * at_the_ends() * growth(products, dtype))
        if draw_scales is None:
            return finite_or_inf(arb(exact) * arb(program) / arb(plain) * growth(products, dtype))
        lost = (1 - arb(plain) / arb(program)) * arb(most_draw) / arb(least_draw)
        left = 1 - lost
        return finite_or_inf(arb(exact) * at_the_ends() / left * growth(products, dtype)) if left > 0 else math.inf


def tree_sensitivity(exact: float, column_norms: Array, participation: Order) -> float:
    """Upper bound of the sensitivity of a run that makes the noise of a binary tree in float64.

    ``exact`` bounds the sensitivity in exact arithmetic; ``column_norms`` belong to the strategy, shape (n,).
    """
    steps = column_norms.size
    height = steps.bit_length()
    with ctx.workprec(_BALL_BITS):
        error = 2 * steps * (growth((height + 1) * (height + 4), "float64") - 1)
        strategy = arb(float(np.square(column_norms).sum())).sqrt() * _NORM_FACTOR  # the Frobenius norm
        left = 1 - strategy * error
        return finite_or_inf(arb(exact) * at_the_ends() / left) if left > 0 else math.inf
