"""Mechanisms of a finite run as a program makes them in float64: sensitivities that cover rounding errors.

The model of rounding and of both ends of the program is that of ``theory.mechanisms.rounding``: for fixed rounding
errors the program is a linear map N + ΔN of the independent noise.  All bounds here are proved.  Each adds the error of
a column of the strategy k times for k participations, or divides by what is left of the noise.

``substitution_sensitivity``
    y_t = (z_t − Σ_{s<t} C_ts y_s)/C_tt over p bands.  The computed y solves (C + ΔC) y = z exactly, with
    |ΔC| <= ε_{p+1} |C| entry by entry (Higham, Theorem 8.5), so that no column of ΔC exceeds ε_{p+1} times the largest
    column of C.
``scaled_sensitivity``
    y_t = d_t x_t, where a program of ``rounding`` makes the Toeplitz noise x.  A cascade, buffers or a recurrence have
    the strategy C_x + ΔC_x, and ΔC_x diag(1/d) has columns of at most ‖ΔC_x‖/min d.  A convolution has the strategy
    (1 + C_x ΔN)⁻¹ C_x, and the factor 1/(1 − ‖C_x ΔN‖) holds also times diag(1/d).
``tree_sensitivity``
    N has more columns than rows.  A release with the covariance Σ = N Nᵀ has the sensitivity max |Σ^{−1/2} u| over the
    changes u of the gradients, at most |C u|.  If η = ‖Σ^{−1/2}‖ ‖ΔN‖ < 1 then ‖(N + ΔN)ᵀ v‖ >= (1 − η) ‖Nᵀ v‖ for all
    v, so that the sensitivity grows by 1/(1 − η) at most; and ‖Σ^{−1/2}‖ <= ‖C‖.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb, ctx

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import ScaledNoise
from corrnoise.theory.mechanisms.participation import Participation
from corrnoise.theory.mechanisms.rounding import Dtype, at_the_ends, growth
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.privacy import rounded_up

_BITS = 512
_NORMS = 1 + arb(2) ** -30  # more than the relative error of any norm below


def _finite(bound: arb) -> float:
    return rounded_up(bound) if bound.is_finite() else math.inf


def substitution_sensitivity(mechanism: Mechanism, participation: Participation) -> float:
    """Upper bound of the sensitivity of a run that inverts a triangular strategy step by step in float64.

    Parameters
    ----------
    mechanism
        With a square strategy of few or many bands, whose entries the program takes as they are.
    participation
        How often one example takes part in the run.
    """
    exact = mechanism.sensitivity_upper_bound(participation)
    with ctx.workprec(_BITS):
        column = arb(float(mechanism.column_norms().max())) * _NORMS
        error = growth(mechanism.bands + 1, "float64") - 1
        return _finite((arb(exact) + participation.count * column * error) * at_the_ends())


def scaled_sensitivity(
    mechanism: ScaledNoise,
    participation: Participation,
    *,
    program: float,
    cascade: bool,
    dtype: Dtype = "float64",
) -> float:
    """Upper bound of the sensitivity of a run that scales the steps of a Toeplitz program.

    Parameters
    ----------
    mechanism
        The Toeplitz noise of the program, and the scales.
    participation
        How often one example takes part in the run.
    program
        The bound of ``rounding`` for the Toeplitz noise and single participation in the steps of the run.
    cascade
        Whether the program perturbs the strategy, as cascades, buffers and recurrences do; a convolution does not.
    dtype
        Type in which the program multiplies by the scales, which must be numbers of that type.
    """
    exact = mechanism.sensitivity_upper_bound(participation)
    plain = mechanism.noise.sensitivity_bracket(Participation(mechanism.steps)).lower
    if not (math.isfinite(program) and plain > 0):
        return math.inf
    with ctx.workprec(_BITS):
        if cascade:
            error = arb(program) - arb(plain)  # at least that of a column, and roundings at the ends
            whole = (arb(exact) + participation.count * error / float(mechanism.scales.min())) * at_the_ends()
        else:
            whole = arb(exact) * arb(program) / arb(plain)
        return _finite(whole * growth(1, dtype))


def tree_sensitivity(tree: BinaryTree, participation: Participation) -> float:
    """Upper bound of the sensitivity of a run that makes the noise of a binary tree in float64.

    The noise of a step is the new node minus the nodes that it joins.  No weight of a draw exceeds 2 in size, and a
    draw takes part in at most 6 (log2(n) + 2) operations.

    Parameters
    ----------
    tree
        With either decoder.
    participation
        How often one example takes part in the run.
    """
    exact = tree.sensitivity_upper_bound(participation)
    with ctx.workprec(_BITS):
        operations = 6 * (tree.steps.bit_length() + 1)
        error = 2 * (arb(tree.steps) * arb(tree.draws)).sqrt() * (growth(operations, "float64") - 1)
        strategy = arb(float(np.square(tree.column_norms()).sum())).sqrt() * _NORMS  # the Frobenius norm
        left = 1 - strategy * error
        return _finite(arb(exact) * at_the_ends() / left) if left > 0 else math.inf
