"""Correlated noise as a program makes it: the sensitivity that covers rounding errors.

A program makes the noise y from independent noise z by a recurrence in floating-point arithmetic.  Each operation
returns the exact result times 1 + δ with |δ| <= u, where u is the unit roundoff.  For fixed δ the program is a linear
map y = N z, and a run that releases g + N z has the sensitivity of the *strategy* N⁻¹: its largest column norm.  The
functions here bound this norm for all δ.  A product of m factors 1 + δ or 1/(1 + δ) lies within 1 ± ε_m with

    ε_m = (1 − u)^{−m} − 1,

and every entry of the strategy is a sum of terms that carry such factors.  There are four kinds of programs:

``recurrence_sensitivity``
    y_t = (z_t − Σ_{k>=1} c_k y_{t−k})/c_0, the strategy step by step.  A term takes part in as many operations as there
    are coefficients, in whatever order they are added: |ΔC[t, t−k]| <= ε |c_k|.
``buffer_sensitivity``
    y_t = z_t − Σ_i ω_i x_i and then x_i ← θ_i x_i + y_t.  After k steps a buffer has taken 2k roundings, so that the
    terms of ΔC are again exponentials, ω_i θ_i^{k−1} ((1 − u)^{−2k−P} − 1) for P buffers.
``section_sensitivity``
    A cascade of sections y = x + (a − q) s and then s ← s + (x − q s).
``convolution_sensitivity``
    y_t = Σ_k β_k z_{t−k}, directly or by fast Fourier transforms.  Here N is perturbed, not its inverse C:
    (N + ΔN)⁻¹ = (1 + C ΔN)⁻¹ C, hence a factor 1/(1 − ‖C‖ ‖ΔN‖).

If an example takes part k times, its k columns of C and of ΔC count.  The sensitivity of C is that of
``theory.mechanisms.sensitivity``, and ΔC adds k times its largest column norm at most.

The bounds cover any program of the stated form whose operations all have the unit roundoff of the stated type, with
sums in any order and with fused operations.  At both ends of the program they allow for float32: the independent noise
and its standard deviation may be rounded to it, and so may the finished noise.  That takes 2.4e-7 of the sensitivity.
The bounds do not cover overflow and underflow, nor matrix products in a shorter type, which accelerators use by
default, nor that δ depends on z and that floating-point noise is discrete.

References
----------
N. J. Higham, Accuracy and stability of numerical algorithms, 2nd edition, Sections 2.2, 3.1 and 24.1.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from flint import arb, ctx

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.participation import Participation, Run, participation_of
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.sensitivity import norm, toeplitz_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import rounded_up

Dtype = Literal["float64", "float32"]
DTYPES: tuple[Dtype, ...] = ("float64", "float32")

_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}
_BITS = 512  # of sums of exponentials whose decays differ
_CASCADE_BITS = 2048  # of products of sections, whose decays may all but coincide
_APART = 2.0**-80  # relative distance of decays that are taken as different
_AT_THE_ENDS = 4  # roundings to float32 of a standard deviation, its products with clip norm and z, and finished noise


def as_stored(values: Array, dtype: Dtype) -> Array:
    """Return ``values`` rounded to ``dtype``, as float64."""
    checks.choice("dtype", dtype, DTYPES)
    with np.errstate(over="ignore"):
        return values.astype(dtype).astype(np.float64)


def growth(operations: int, dtype: Dtype) -> arb:
    """(1 − u)^{−m}, the largest product of m = ``operations`` rounding factors."""
    return 1 / (1 - arb(_UNITS[checks.choice("dtype", dtype, DTYPES)])) ** operations


def at_the_ends() -> arb:
    """The growth by roundings to float32 of the independent noise and of the finished noise."""
    return growth(_AT_THE_ENDS, "float32")


# -- sums of exponentials ----------------------------------------------------------------------------------------------


def exponential_norm(first: arb, scales: list[arb], decays: list[arb], steps: int | None) -> arb:
    """The 2-norm of c_0 = ``first``, c_t = Σ_i scales_i decays_i^{t−1}, for t < ``steps`` or without end.

    In closed form.  Decays may be equal.  Without end the norm is ``inf`` unless all decays are below 1.
    """
    later = None if steps is None else steps - 1
    if later is None and any(abs(decay).upper() >= 1 for decay in decays):
        return arb(math.inf)
    square = first * first
    for i, (scale, decay) in enumerate(zip(scales, decays, strict=True)):
        square += scale * scale * _geometric_sum(decay * decay, later)
        for weight, other in zip(scales[:i], decays[:i], strict=True):
            square += 2 * scale * weight * _geometric_sum(decay * other, later)
    return square.sqrt()


def _geometric_sum(ratio: arb, terms: int | None) -> arb:
    """Σ_{n < terms} ratioⁿ."""
    if terms is None:
        return 1 / (1 - ratio)
    if not (1 - ratio).contains(0):
        return (1 - ratio**terms) / (1 - ratio)
    last = ratio**terms
    return terms * arb(1).union(last)


# -- recurrences -------------------------------------------------------------------------------------------------------


def recurrence_sensitivity(strategy_coef: Array, dtype: Dtype, participation: Participation | None = None) -> float:
    """Upper bound of the sensitivity of a run that inverts a Toeplitz strategy step by step.

    Parameters
    ----------
    strategy_coef
        First column of the strategy, one coefficient for each step of the run, shape (T,).  The program stores it as
        ``dtype``.
    dtype
        ``"float64"`` or ``"float32"``.
    participation
        How often one example takes part in these T steps; None for once.
    """
    stored = as_stored(strategy_coef, dtype)
    largest = float(np.abs(stored).max())
    if not 0 < largest < math.inf:
        return math.inf
    with ctx.workprec(_BITS):
        column = largest * arb(math.fsum(np.square(stored / largest))).sqrt() * (1 + arb(2) ** -50)
        factor = growth(stored.size + 1, dtype)
        if participation is None or participation.single:
            return rounded_up(column * factor * at_the_ends())
        exact = toeplitz_sensitivity(stored, participation).upper
        return _finite((exact + participation.count * column * (factor - 1)) * at_the_ends())


def buffer_sensitivity(buf_decay: Array, output_scale: Array, run: Run, dtype: Dtype) -> float:
    """Upper bound of the sensitivity of a run that inverts a buffered linear Toeplitz strategy step by step.

    Parameters
    ----------
    buf_decay, output_scale
        θ and ω, shape (P,) each.  The program stores them as ``dtype``.
    run
        The number of steps, or the participation; None for any length.  Then the bound is ``inf`` unless every |θ| is
        a few units below 1.
    dtype
        ``"float64"`` or ``"float32"``.
    """
    who = participation_of(run)
    steps = None if who is None else who.steps
    decay = as_stored(buf_decay, dtype)
    scale = as_stored(output_scale, dtype)
    if not np.isfinite(scale).all():
        return math.inf
    decay, scale = decay[scale != 0], scale[scale != 0]
    with ctx.workprec(_BITS):
        thetas = [arb(value) for value in decay.tolist()]
        omegas = [arb(value) for value in scale.tolist()]
        if who is None or who.single:
            exact = exponential_norm(arb(1), omegas, thetas, steps)
        else:
            exact = arb(_sum_of_exponentials_sensitivity(decay, scale, who))
        factor = growth(decay.size + 2, dtype)
        raised = [abs(theta) * growth(2, dtype) for theta in thetas]
        scales = [abs(omega) * factor for omega in omegas] + [-abs(omega) for omega in omegas]
        error = exponential_norm(factor - 1, scales, raised + [abs(theta) for theta in thetas], steps)
        return _finite((exact + (1 if who is None else who.count) * error) * at_the_ends())


def _sum_of_exponentials_sensitivity(decay: Array, scale: Array, participation: Participation) -> float:
    """Upper bound of the sensitivity of the strategy 1, Σ_i ω_i, Σ_i ω_i θ_i, … in exact arithmetic."""
    if not np.isfinite(scale).all() or (np.abs(decay) > 1).any():
        return math.inf
    powers = np.arange(participation.steps - 1, dtype=float)
    coefficients = np.ones(participation.steps)
    sizes = np.ones(participation.steps)
    coefficients[1:] = 0.0
    sizes[1:] = 0.0
    for theta, omega in zip(decay.tolist(), scale.tolist(), strict=True):
        term = omega * np.power(theta, powers)
        coefficients[1:] += term
        sizes[1:] += np.abs(term)
    # A power has a relative error of a few units, and each addition one of the sum of sizes.
    error = (decay.size + 8) * _UNITS["float64"] * norm(sizes) / norm(coefficients)
    return toeplitz_sensitivity(coefficients, participation, error=error).upper


def section_sensitivity(noise: PoleNoise, run: Run, dtype: Dtype = "float64") -> float:
    """Upper bound of the sensitivity of a run whose noise is a cascade of sections.

    The section with the gaps a and q turns x into y = x + (a − q) s and s into s + (x − q s).  Its strategy has the
    coefficients 1 and (q − a) (1 − a)^{k−1}.  Rounding moves 1 − a by at most η = ε_1 + ε_4 (q + |a − q|), the first
    coefficient by ε_1, and the factor q − a by ε_5.  The error of a product of sections is bounded, coefficient by
    coefficient, by the difference of two products of sections with positive coefficients.

    Parameters
    ----------
    noise
        Its sections are run.  Their gaps must be numbers of ``dtype``; a − q may be rounded to it.
    run
        The number of steps, or the participation; None for any length.
    dtype
        ``"float64"`` or ``"float32"``, of all operations.

    Raises
    ------
    ValueError
        A gap is no number of ``dtype``.
    """
    who = participation_of(run)
    steps = None if who is None else who.steps
    exact = _upper_bound(noise, who)
    if math.isinf(exact):
        return exact
    zeros, poles = noise.sections()
    if not all(np.array_equal(as_stored(gaps, dtype), gaps) for gaps in (zeros, poles)):
        raise ValueError(f"noise must have gaps that are {dtype} numbers, got {noise!r}")
    with ctx.workprec(_CASCADE_BITS):
        one = growth(1, dtype)
        four = growth(4, dtype)
        weights: list[arb] = []
        decays: list[arb] = []
        raised: list[arb] = []
        below = arb(0)
        for a, q in sorted(zip(zeros.tolist(), poles.tolist(), strict=True), key=lambda pair: abs(1 - pair[0])):
            weight = abs(arb(a) - arb(q))
            decay = _at_least(abs(1 - arb(a)), below * (1 + arb(_APART)))
            moved = decay + (one - 1) + (four - 1) * (arb(q) + weight)
            weights.append(weight)
            decays.append(decay)
            raised.append(_at_least(moved, raised[-1] * (1 + arb(_APART))) if raised else moved)
            below = decay
        nominal = _product_of_sections(arb(1), weights, decays)
        perturbed = _product_of_sections(one, [weight * growth(5, dtype) for weight in weights], raised)
        scales = perturbed + [-scale for scale in nominal]
        error = exponential_norm(one**zeros.size - 1, scales, raised + decays, steps)
        return _finite((exact + (1 if who is None else who.count) * error) * at_the_ends())


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


def _upper_bound(noise: ToeplitzNoise, participation: Participation | None) -> float:
    """An upper bound of the sensitivity of a participation, or of γ_∞."""
    if participation is None:
        return noise.noise_multiplier(0.5)  # γ/sqrt(2ρ), rounded up
    return noise.sensitivity_upper_bound(**participation.arguments_of_sensitivity)


def _finite(bound: arb) -> float:
    return rounded_up(bound) if bound.is_finite() else math.inf


# -- convolutions ------------------------------------------------------------------------------------------------------


def convolution_sensitivity(
    noise: ToeplitzNoise, run: Run, dtype: Dtype, *, by: Literal["sums", "transforms"] = "sums"
) -> float:
    """Upper bound of the sensitivity of a run that multiplies independent noise by the noising matrix.

    Parameters
    ----------
    noise
        Its coefficients, rounded to ``dtype``, are multiplied with the noise.
    run
        The number of steps, or the participation; None for any length, which takes ``FiniteNoise``.
    dtype
        ``"float64"`` or ``"float32"``.
    by
        ``"sums"``: each entry is a sum of products, in any order.  ``"transforms"``: fast Fourier transforms over all
        steps, with an error of at most 32 u log2(2T) ‖β‖₁ ‖z‖₂.

    Returns
    -------
    The bound, ``inf`` where the errors are not small beside 1/‖C‖.
    """
    who = participation_of(run)
    steps = None if who is None else who.steps
    if steps is None:
        coefficients = checks.instance("noise", noise, FiniteNoise).values
    else:
        coefficients = np.trim_zeros(noise.coefficients(steps), "b")
    stored = as_stored(coefficients, dtype)
    if not np.isfinite(stored).all() or stored[0] == 0:
        return math.inf
    made = noise if by == "transforms" else FiniteNoise(stored)
    gamma = _upper_bound(made, None if who is None else Participation(who.steps))
    size = float(np.abs(stored).sum())
    # ‖c‖₁ <= sqrt(T) ‖c‖₂; and |B| has the slope n ‖β‖₁ at most, hence max |1/B| <= π n ‖β‖₁ γ².
    strategy_size = math.pi * stored.size * size * gamma**2 if steps is None else math.sqrt(steps) * gamma
    operations = stored.size if by == "sums" else 32 * math.ceil(math.log2(2 * (steps or stored.size)))
    if not math.isfinite(strategy_size):
        return math.inf
    with ctx.workprec(_BITS):
        error = growth(operations + 1, dtype) - 1
        loss = arb(strategy_size) * arb(size) * error * (1 + arb(2) ** -40)
        exact = arb(gamma if who is None or who.single else _upper_bound(made, who))
        return _finite(exact * at_the_ends() / (1 - loss)) if loss < 1 else math.inf
