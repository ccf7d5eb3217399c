"""Correlated noise that a stream can run: a cascade of first-order sections, O(number of poles) a step.

    B(z) = Π_i (1 − (1 − a_i) z)/(1 − (1 − q_i) z)

is ``ProductNoise`` with the exponents ±1, so its coefficients, sensitivities and errors are those of a product.  A
section turns its input x into y = x + (a − q) u and its state into u + (x − q u): the gaps a and q of its zero and its
pole are all it needs, and no 1 − q is ever rounded.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np

from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record


@record
class PoleNoise(ProductNoise):
    """Rational noise with real zeros and poles, β_0 = 1.

    Parameters
    ----------
    zeros
        Gaps a_i of the zeros, 0 <= a <= 2.
    poles
        Gaps q_i of the poles, 0 < q < 2.

    A zero and a pole with the same gap cancel; missing ones lie at gap 1 (no memory).  Coefficients that vanish after
    a while (``AntiPGD``) are zeros with poles at gap 1.
    """

    gaps: Array = field(init=False)
    exponents: Array = field(init=False)

    def __init__(self, zeros: ArrayLike, poles: ArrayLike) -> None:
        a, q = checks.vector("zeros", zeros, "[0, 2]"), checks.vector("poles", poles, "(0, 2)")
        super().__init__(np.concatenate([a, q]), np.concatenate([np.ones(a.size), -np.ones(q.size)]))
