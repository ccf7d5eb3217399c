"""Rational noise with real poles, as gaps of zeros and poles or as buffers: O(number of poles) a step.

    B(z) = Π_i (1 − (1 − a_i) z)/(1 − (1 − q_i) z)

is ``ProductNoise`` with the exponents ±1, so that a product gives its coefficients, sensitivities and errors.
The project runs it as a cascade of sections.  Other libraries take its strategy C(z) = 1 + Σ_i ω_i z/(1 − θ_i z), whose
decays θ are the zeros of the noise, and whose zeros are its poles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.rounding import buffer_sensitivity
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import DTYPES, Dtype, as_stored
from corrnoise.theory.participation import Order

_BALL_BITS = 512  # enough for products of thousands of factors


@record
class PoleNoise(ProductNoise):
    """Rational noise with real zeros and poles, β_0 = 1.

    A zero and a pole with the same gap cancel; missing ones lie at gap 1 (no memory).

    Parameters
    ----------
    zeros : array_like
        Gaps a_i of the zeros, 0 <= a <= 2.
    poles : array_like
        Gaps q_i of the poles, 0 < q < 2.
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {**ProductNoise.FORMS, "buffers": DTYPES}

    gaps: Array = field(init=False)
    exponents: Array = field(init=False)

    def __init__(self, zeros: ArrayLike, poles: ArrayLike) -> None:
        a, q = checks.vector("zeros", zeros, "[0, 2]"), checks.vector("poles", poles, "(0, 2)")
        super().__init__(np.concatenate([a, q]), np.concatenate([np.ones(a.size), -np.ones(q.size)]))

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        if form != "buffers":
            return super().covered(participation, form, dtype)
        stored = self.buffers().stored_as(dtype)
        return stored, buffer_sensitivity(stored.buf_decay, stored.output_scale, participation, dtype)

    def buffers(self) -> BufferNoise:
        """The same noise as buffers of its strategy.

        Decays and scales have relative errors of about 1e-16 × P.  Coefficient t of the strategy has an error of about
        1e-16 × t times Σ_i |ω_i θ_i^{t−1}|, which is far more than the coefficient itself if decays almost coincide.
        The form ``"buffers"`` has the covered sensitivity of the rounded numbers.

        Returns
        -------
        BufferNoise

        Raises
        ------
        ValueError
            If the form does not exist: zeros coincide, the strategy has polynomial terms beyond one step, or a scale
            exceeds the range of floats.
        """
        poles = self.zeros  # of the strategy
        zeros = self.poles
        if zeros.size == poles.size + 1:
            poles = np.append(poles, 1.0)  # decay 0: a term of one step
        decay = 1 - poles
        if zeros.size > poles.size or np.unique(decay).size < poles.size:
            raise ValueError(f"noise must have distinct zeros, and as many as poles, got {self!r}")
        others = np.where(np.eye(poles.size, dtype=bool), 1.0, poles - poles[:, np.newaxis])
        # This order of the factors keeps the partial products within the range of floats.
        scale = decay ** (poles.size - zeros.size)
        with np.errstate(over="ignore", invalid="ignore"):
            for k in range(poles.size):
                scale = scale * (zeros[k] - poles if k < zeros.size else 1.0) / others[:, k]
        if not np.isfinite(scale).all():
            raise ValueError(f"noise must have zeros and poles further apart for scales within floats, got {self!r}")
        return BufferNoise(decay, scale)


@record
class BufferNoise(PoleNoise):
    """Noise whose strategy is given as buffers: c_0 = 1 and c_t = Σ_i ω_i θ_i^{t−1}.

    The gaps are correct to rounding, because these zeros are isolated exactly.  The recurrence of the form
    ``"buffers"`` is y = z − Σ_i ω_i x_i, then x_i ← θ_i x_i + y.

    Raises
    ------
    ValueError
        If the zeros of 1 + Σ ω/(p − θ) are not real, or lie so that the noise would not be stable or not minimum phase.
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"buffers": DTYPES, **ProductNoise.FORMS}

    buf_decay: Array  #: θ in [−1, 1], shape (P,); they are sorted in descending order
    output_scale: Array  #: ω, shape (P,)

    def __init__(self, buf_decay: ArrayLike, output_scale: ArrayLike) -> None:
        decay = checks.vector("buf_decay", buf_decay, "[-1, 1]")
        scale = checks.vector("output_scale", output_scale)
        checks.same_length("buf_decay", decay, "output_scale", scale)
        order = np.argsort(-decay, kind="stable")
        self._set(buf_decay=checks.frozen(decay[order]), output_scale=checks.frozen(scale[order]))
        used = self.output_scale != 0
        super().__init__(*_gaps(self.buf_decay[used], self.output_scale[used]))

    def arguments(self) -> dict[str, Any]:
        return {"buf_decay": self.buf_decay, "output_scale": self.output_scale}

    def forms(self) -> tuple[Form, ...]:
        return ("buffers",)

    def buffers(self) -> BufferNoise:
        return self

    def stored_as(self, dtype: Dtype) -> BufferNoise:
        """The buffers whose numbers are those of this one, rounded to ``dtype``.

        Raises
        ------
        ValueError
            If a scale exceeds the range of ``dtype``, or the rounded numbers are no noise with real and stable poles.
        """
        scale = as_stored(self.output_scale, dtype)
        if not np.isfinite(scale).all():
            raise ValueError(f"output_scale must lie within the range of {dtype}, got {self.output_scale!r}")
        return BufferNoise(as_stored(self.buf_decay, dtype), scale)


def _gaps(decay: Array, scale: Array) -> tuple[Array, Array]:
    """The gaps of zeros and poles of the noise whose strategy is 1 + Σ_i scale_i z/(1 − decay_i z)."""
    from flint import arb, ctx, fmpq, fmpq_poly

    decays = [fmpq(*value.as_integer_ratio()) for value in decay.tolist()]
    scales = [fmpq(*value.as_integer_ratio()) for value in scale.tolist()]
    factors = [fmpq_poly([-each, 1]) for each in decays]
    numerator: Any = math.prod(factors, start=fmpq_poly([1]))
    for i, each in enumerate(scales):
        numerator += each * math.prod(factors[:i] + factors[i + 1 :], start=fmpq_poly([1]))
    with ctx.workprec(_BALL_BITS):
        roots = numerator.complex_roots()  # with multiplicities
        if not all(root.imag == 0 for root, _ in roots):
            raise ValueError(f"buffers must be of noise with real poles, got decays {decay!r} and scales {scale!r}")
        poles = np.repeat([float(1 - root.real) for root, _ in roots], [count for _, count in roots])
        zeros = np.array([float(1 - arb(each)) for each in decays])
    if not ((zeros >= 0) & (zeros <= 2)).all() or not ((poles > 0) & (poles < 2)).all():
        raise ValueError(f"buffers must be of stable, minimum-phase noise, got decays {decay!r} and scales {scale!r}")
    return zeros, poles
