"""Forms in which other libraries take correlated noise, and in which it is read from them.

The literature of matrix factorisations calls the matrix of the noise coefficients β the *noising* matrix C⁻¹ and its
inverse the *strategy* C; both are lower-triangular Toeplitz matrices, given by their first columns (``noising_coef``,
``strategy_coef``).  The sensitivity is the largest column norm of the strategy.  There are two forms:

``ToeplitzForm``
    Both columns, for a given number of steps.
``BufferForm``
    A buffered linear Toeplitz (BLT) matrix, for any number of steps, of noise with distinct real poles:

        c_0 = 1,    c_t = Σ_i output_scale_i buf_decay_i^{t−1}    (t >= 1, 0⁰ = 1).

    Libraries that run BLTs take those of the *strategy*, and invert it step by step.

What is handed over has rounded entries and is noise of its own, so every form has a noise multiplier of its own.  It is
the standard deviation of the independent noise in units of the clip norm, as everywhere here; libraries that account
for one Gaussian mechanism want it in units of the sensitivity of the whole run instead, ``gaussian_noise_multiplier``.

Of noise with the gaps a_k of its zeros and q_i of its poles the strategy has the decays 1 − a_k, and with as many poles
as zeros

    output_scale_k = Π_i (q_i − a_k)/Π_{j≠k} (a_j − a_k),

products of differences of what is given: nothing cancels.

References
----------
H. B. McMahan, K. Pillutla, A streaming approach to private optimization with buffered linear Toeplitz matrices,
arXiv 2404.16706; H. B. McMahan, Z. Xu, Y. Zhang, arXiv 2408.08868 (BLTs and their inverses).
C. A. Choquette-Choo et al., Correlated noise mechanisms for differentially private learning, arXiv 2506.08201.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from corrnoise.theory import checks
from corrnoise.theory.checks import Array, ArrayLike
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.privacy import rounded_up, safe_multiplier
from corrnoise.theory.records import Record, record
from corrnoise.theory.toeplitz_noise import ToeplitzNoise, checked_noise

MATRICES = ("strategy", "noising")
_BITS = 512  # so many that products of thousands of factors lose none that matter

#: What the names mean, for files that leave the house.
CONVENTIONS = {
    "noise_multiplier": (
        "standard deviation of the independent noise w over the clip norm; step t gets the noise sum_s beta_s w_(t-s), "
        "added to the sum of the clipped gradients; one multiplier for each thing that can be run, not interchangeable"
    ),
    "gaussian_noise_multiplier": (
        "1/sqrt(2 rho), standard deviation over sensitivity of the whole run, which is one Gaussian mechanism: what "
        "accountants take (GaussianDpEvent), never what scales the noise"
    ),
    "rho": "zero-concentrated differential privacy of the whole run; each example in at most one step",
    "adjacency": (
        "zero-out: one example's gradient is replaced by zero; replace-one: by any other, which doubles the sensitivity"
    ),
    "noising_coef": "beta, first column of the noising matrix C^-1 (lower-triangular Toeplitz)",
    "strategy_coef": "first column of its inverse, the strategy C, whose column norm is the sensitivity",
    "buffers": (
        "buffered linear Toeplitz form of the strategy C: c_0 = 1, c_t = sum_i output_scale_i buf_decay_i^(t-1); the "
        "noise is C^-1 times independent noise"
    ),
    "gaps": "B(z) = prod (1 - (1 - a) z)/prod (1 - (1 - q) z) with gaps a of zeros and q of poles",
}


# -- all coefficients --------------------------------------------------------------------------------------------------


@record
class ToeplitzForm(Record):
    """First columns of the noising matrix and of the strategy, for a given number of steps.

    Parameters
    ----------
    noising_coef
        β_0, …, β_{T−1}, shape (T,).
    strategy_coef
        The first T coefficients of 1/B, shape (T,).
    sensitivity
        An upper bound of γ_T, zero-out, of three kinds of noise that differ by rounding: of the noise itself, of the
        noising matrix with these very floats, and of the strategy with these very floats.
    """

    noising_coef: Array
    strategy_coef: Array
    sensitivity: float

    def noise_multiplier(self, rho: float, *, adjacency: str = "zero-out") -> float:
        """Standard deviation of the independent noise over the clip norm, for a ρ-zCDP run of T steps; never too small.

        Raises
        ------
        ValueError
            ``rho`` or ``adjacency`` is out of range.
        """
        return safe_multiplier(self.sensitivity, rho, adjacency)


def toeplitz_form(noise: ToeplitzNoise, steps: int) -> ToeplitzForm:
    """The coefficients of ``noise`` and of its inverse for a run of ``steps`` steps, and their sensitivity.

    O(steps log steps); the sensitivity exceeds γ_T by at most about 1e-10 for 10⁵ steps.
    """
    from flint import arb, ctx

    noising = checked_noise(noise).coefficients(checks.integer("steps", steps, 1))
    strategy = noise.inverse_coefficients(steps)
    largest = float(np.abs(strategy).max())
    with ctx.workprec(_BITS):  # the sum has a relative error below 2⁻⁵⁰
        norm = rounded_up(largest * arb(math.fsum(np.square(strategy / largest))).sqrt() * (1 + arb(2) ** -50))
    gamma = max(noise.sensitivity_upper_bound(steps), FiniteNoise(noising).sensitivity_upper_bound(steps), norm)
    for coefficients in (noising, strategy):
        coefficients.setflags(write=False)
    return ToeplitzForm(noising, strategy, gamma)


def noise_from_strategy(strategy_coef: ArrayLike, steps: int) -> FiniteNoise:
    """The noise of a Toeplitz strategy, for a run of at most ``steps`` steps.

    Parameters
    ----------
    strategy_coef
        First column of the strategy, its first entry not 0, zero after the last one (banded strategies): shape (n,),
        n <= ``steps`` or not.
    steps
        Number of noise coefficients that are kept: the noise is that of the strategy for so many steps only.

    Returns
    -------
    ``FiniteNoise``, with β_0 = 1/strategy_coef[0].  Its sensitivity for up to ``steps`` steps is that of the strategy.
    """
    return FiniteNoise(FiniteNoise(strategy_coef).inverse_coefficients(steps))


# -- buffers -----------------------------------------------------------------------------------------------------------


@record
class BufferForm(Record):
    """A buffered linear Toeplitz matrix: c_0 = 1 and c_t = Σ_i output_scale_i buf_decay_i^{t−1}.

    Parameters
    ----------
    buf_decay
        Decays, shape (P,), in descending order, 1 at most in modulus.
    output_scale
        Scales, shape (P,).
    matrix
        Which matrix: ``"strategy"``, as libraries that run BLTs expect, or ``"noising"``.
    """

    buf_decay: Array
    output_scale: Array
    matrix: str

    def __init__(self, buf_decay: ArrayLike, output_scale: ArrayLike, matrix: str = "strategy") -> None:
        decay, scale = checks.vector("buf_decay", buf_decay, "[-1, 1]"), checks.vector("output_scale", output_scale)
        checks.same_length("buf_decay", decay, "output_scale", scale)
        order = np.argsort(-decay, kind="stable")
        decay, scale = decay[order], scale[order]
        decay.setflags(write=False)
        scale.setflags(write=False)
        self._set(buf_decay=decay, output_scale=scale, matrix=checks.choice("matrix", matrix, MATRICES))

    def coefficients(self, steps: int) -> Array:
        """First column of the matrix, shape (steps,)."""
        powers = np.arange(checks.integer("steps", steps, 1) - 1)
        return np.append(1.0, (self.buf_decay[:, np.newaxis] ** powers * self.output_scale[:, np.newaxis]).sum(axis=0))

    def sensitivity_upper_bound(self, steps: int | None = None) -> float:
        """γ_T of the strategy with these very floats, zero-out, or γ_∞ for ``steps=None``, rounded up.

        ``inf`` where it diverges.  Single participation, in closed form by ball arithmetic.

        Raises
        ------
        ValueError
            This is a noising matrix; read it with ``noise_from_buffers`` and take the sensitivity of that noise.
        """
        from flint import arb, ctx

        if self.matrix != "strategy":
            raise ValueError(f"matrix must be 'strategy' (sensitivities are column norms of it), got {self.matrix!r}")
        later = None if steps is None else checks.integer("steps", steps, 1) - 1
        if later is None and (np.abs(self.buf_decay[self.output_scale != 0]) == 1).any():
            return math.inf
        with ctx.workprec(_BITS):
            pairs = [(arb(d), arb(s)) for d, s in zip(self.buf_decay.tolist(), self.output_scale.tolist(), strict=True)]
            square = arb(1)
            for decay, scale in pairs:
                for other, weight in pairs:
                    ratio = decay * other
                    if later is None:
                        total = 1 / (1 - ratio) if scale != 0 and weight != 0 else arb(0)
                    else:
                        total = arb(later) if ratio == 1 else (1 - ratio**later) / (1 - ratio)
                    square += scale * weight * total
            return rounded_up(square.sqrt())

    def noise_multiplier(self, rho: float, steps: int | None = None, *, adjacency: str = "zero-out") -> float:
        """Standard deviation of the independent noise over the clip norm that makes the run ρ-zCDP; never too small.

        Parameters and errors as in ``ToeplitzNoise.noise_multiplier`` and ``sensitivity_upper_bound``.
        """
        return safe_multiplier(self.sensitivity_upper_bound(steps), rho, adjacency)


def buffer_form(noise: PoleNoise, matrix: str = "strategy") -> BufferForm:
    """The strategy, or the noising matrix, of rational noise as a buffered linear Toeplitz matrix.

    Parameters
    ----------
    noise
        Rational noise, such as ``rational_approximation(…)`` returns.
    matrix
        ``"strategy"``: decays from the zeros of the noise; ``"noising"``: from its poles.

    Returns
    -------
    Its coefficients have the relative error of the powers of rounded decays, about 1e-16 × t.

    Raises
    ------
    ValueError
        Decays coincide, or the matrix has polynomial terms beyond one step: there is no such form.
    """
    if not isinstance(noise, PoleNoise):
        raise TypeError(f"noise must be PoleNoise, as rational_approximation(…) returns, got {noise!r}")
    strategy = checks.choice("matrix", matrix, MATRICES) == "strategy"
    poles, zeros = (noise.zeros, noise.poles) if strategy else (noise.poles, noise.zeros)
    if zeros.size == poles.size + 1:
        poles = np.append(poles, 1.0)  # of decay 0: a term of one step
    if zeros.size > poles.size or np.unique(poles).size < poles.size:
        raise ValueError(f"noise must have distinct {'zeros' if strategy else 'poles'}, and as many, got {noise!r}")
    decay = 1 - poles
    others = np.where(np.eye(poles.size, dtype=bool), 1.0, poles - poles[:, np.newaxis])
    # Multiplied in an order that keeps the partial products within the range of floats.
    scale = decay ** (poles.size - zeros.size)
    for k in range(poles.size):
        scale = scale * (zeros[k] - poles if k < zeros.size else 1.0) / others[:, k]
    return BufferForm(decay, scale, matrix)


def noise_from_buffers(form: BufferForm) -> PoleNoise:
    """The noise of a buffered linear Toeplitz matrix, strategy or noising matrix.

    Its gaps are right to rounding: the zeros of 1 + Σ output_scale/(p − buf_decay) are isolated exactly.

    Raises
    ------
    ValueError
        Zeros are complex, or lie so that the noise would not be stable or not minimum phase.
    """
    from flint import arb, ctx, fmpq, fmpq_poly

    if not isinstance(form, BufferForm):
        raise TypeError(f"form must be BufferForm, got {form!r}")
    kept = form.output_scale != 0
    decays, scales = ([fmpq(*value.as_integer_ratio()) for value in part[kept].tolist()] for part in _pair(form))
    factors = [fmpq_poly([-decay, 1]) for decay in decays]
    numerator: Any = math.prod(factors, start=fmpq_poly([1]))
    for i, scale in enumerate(scales):
        numerator += scale * math.prod(factors[:i] + factors[i + 1 :], start=fmpq_poly([1]))
    with ctx.workprec(_BITS):
        roots = numerator.complex_roots()  # with multiplicities
        if not all(root.imag == 0 for root, _ in roots):
            raise ValueError(f"form must have real zeros (noise with real zeros and poles), got {form!r}")
        ends = np.repeat([float(1 - root.real) for root, _ in roots], [count for _, count in roots])
        gaps = np.array([float(1 - arb(decay)) for decay in decays])
    zeros, poles = (gaps, ends) if form.matrix == "strategy" else (ends, gaps)
    if not ((zeros >= 0) & (zeros <= 2)).all() or not ((poles > 0) & (poles < 2)).all():
        raise ValueError(f"form must be of stable, minimum-phase noise, got {form!r}")
    return PoleNoise(zeros, poles)


def _pair(form: BufferForm) -> tuple[Array, Array]:
    return form.buf_decay, form.output_scale
