"""The forms of correlated noise that other libraries use, for export and import.

The literature on matrix factorisations calls the matrix of the noise coefficients β the *noising* matrix C⁻¹ and its
inverse the *strategy* C.  Both are lower-triangular Toeplitz matrices, given by their first columns (``noising_coef``,
``strategy_coef``).  The sensitivity is the largest column norm of the strategy.  There are two forms:

``ToeplitzForm``
    Both columns, for a given number of steps.
``BufferForm``
    A buffered linear Toeplitz (BLT) matrix, for any number of steps, of noise with distinct real poles:

        c_0 = 1,    c_t = Σ_i output_scale_i buf_decay_i^{t−1}    (t >= 1, 0⁰ = 1).

    Libraries that run BLTs take the BLT of the *strategy*, and invert it step by step.

The exported entries are rounded, and the program that runs them rounds again.  So each form has its own noise
multipliers, one for each way of running it (``theory.mechanisms.rounding``).  A noise multiplier is the standard
deviation of the independent noise in units of the clip norm, as everywhere in this library.  Libraries that account for
one Gaussian mechanism expect it in units of the sensitivity of the whole run: ``gaussian_noise_multiplier``.

For noise with the gaps a_k of its zeros and q_i of its poles the strategy has the decays 1 − a_k, and with as many
poles as zeros

    output_scale_k = Π_i (q_i − a_k)/Π_{j≠k} (a_j − a_k),

products of differences of the given numbers, so nothing cancels here.  If decays almost coincide, the scales are huge
with both signs, and they cancel in the program that runs them.  The noise multiplier is then huge too.

References
----------
H. B. McMahan, K. Pillutla, A streaming approach to private optimization with buffered linear Toeplitz matrices,
arXiv 2404.16706; H. B. McMahan, Z. Xu, Y. Zhang, arXiv 2408.08868 (BLTs and their inverses).
C. A. Choquette-Choo et al., Correlated noise mechanisms for differentially private learning, arXiv 2506.08201.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numba
import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.participation import Participation, Run
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import (
    DTYPES,
    Dtype,
    as_stored,
    buffer_sensitivity,
    convolution_sensitivity,
    exponential_norm,
    recurrence_sensitivity,
)
from corrnoise.theory.mechanisms.sensitivity import toeplitz_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Adjacency, rounded_up, safe_multiplier

Matrix = Literal["strategy", "noising"]
MATRICES: tuple[Matrix, ...] = ("strategy", "noising")
_BITS = 512  # enough for products of thousands of factors

#: The meaning of the names in exported files.
CONVENTIONS = {
    "noise_multiplier": (
        "standard deviation of the independent noise w over the clip norm; step t gets the noise sum_s beta_s w_(t-s), "
        "added to the sum of the clipped gradients; one multiplier for each thing that can be run, not interchangeable"
    ),
    "noise_multipliers": (
        "the same for each type in which all parameters, states, sums and products are floats of that type; null where "
        "the rounding errors of that type are not covered.  Accelerators multiply float32 matrices in shorter types by "
        "default, which is not covered: ask for the full precision (JAX: jax_default_matmul_precision = 'highest')"
    ),
    "gaussian_noise_multiplier": (
        "1/sqrt(2 rho), standard deviation over sensitivity of the whole run, which is one Gaussian mechanism; "
        "accountants take it (GaussianDpEvent), and it never scales the noise"
    ),
    "rho": "zero-concentrated differential privacy of the whole run; each example in at most one step",
    "step": (
        "one gradient step; the noise is added to the sum of its clipped gradients, before any division by the batch "
        "size; errors are for one example a step"
    ),
    "adjacency": (
        "zero-out: one example's gradient is replaced by zero; replace-one: by any other, which doubles the sensitivity"
    ),
    "noising_coef": "beta, first column of the noising matrix C^-1 (lower-triangular Toeplitz)",
    "strategy_coef": "first column of its inverse, the strategy C, whose column norm is the sensitivity",
    "buffers": (
        "buffered linear Toeplitz form of the strategy C: c_0 = 1, c_t = sum_i output_scale_i buf_decay_i^(t-1); the "
        "noise is C^-1 times independent noise, by the recurrence y = z - sum_i output_scale_i x_i, then "
        "x_i = buf_decay_i x_i + y"
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
        Upper bound of γ_T, zero-out, that is valid for the noise and for both rounded coefficient vectors, in exact
        arithmetic.
    """

    noising_coef: Array
    strategy_coef: Array
    sensitivity: float

    def sensitivity_as_run(self, *, matrix: Matrix, dtype: Dtype, participation: Participation | None = None) -> float:
        """Upper bound of the sensitivity of a run of T steps, zero-out, rounding errors included.

        Parameters
        ----------
        matrix
            ``"strategy"``: the noise is made from ``strategy_coef``, y_t = (z_t − Σ_{k>=1} c_k y_{t−k})/c_0.
            ``"noising"``: from ``noising_coef``, y_t = Σ_k β_k z_{t−k}.
        dtype
            Floating-point type of all numbers of the program, ``"float64"`` or ``"float32"``.
        participation
            How often one example takes part in the T steps; None for once.

        Returns
        -------
        The bound of ``recurrence_sensitivity`` or ``convolution_sensitivity``; ``inf`` if rounding errors may be as
        large as the noise.
        """
        if checks.choice("matrix", matrix, MATRICES) == "strategy":
            return recurrence_sensitivity(self.strategy_coef, dtype, participation)
        run = self.noising_coef.size if participation is None else participation
        return convolution_sensitivity(FiniteNoise(self.noising_coef), run, dtype)

    def noise_multiplier(
        self, rho: float, *, matrix: Matrix, dtype: Dtype = "float64", adjacency: Adjacency = "zero-out"
    ) -> float:
        """Standard deviation of the independent noise over the clip norm, for a ρ-zCDP run of T steps; never too small.

        The parameters are those of ``sensitivity_as_run``.

        Raises
        ------
        ValueError
            ``rho``, ``matrix``, ``dtype`` or ``adjacency`` is out of range.
        """
        gamma = max(self.sensitivity, self.sensitivity_as_run(matrix=matrix, dtype=dtype))
        return safe_multiplier(gamma, rho, adjacency)


def toeplitz_form(noise: ToeplitzNoise, run: int | Participation) -> ToeplitzForm:
    """The coefficients of ``noise`` and of its inverse for a run, and their sensitivity.

    The run is a number of steps, in which each example takes part at most once, or a participation.  It takes
    O(T log T).  For single participation the sensitivity exceeds γ_T by a relative 1e-10 at most for 10⁵ steps.
    """
    who = run if isinstance(run, Participation) else Participation(run)
    noising = checked_noise(noise).coefficients(who.steps)
    strategy = noise.inverse_coefficients(who.steps)
    gamma = max(
        noise.sensitivity_upper_bound(**who.arguments_of_sensitivity),
        FiniteNoise(noising).sensitivity_upper_bound(**who.arguments_of_sensitivity),
        toeplitz_sensitivity(strategy, who).upper,
    )
    for coefficients in (noising, strategy):
        coefficients.setflags(write=False)
    return ToeplitzForm(noising, strategy, gamma)


def noise_from_strategy(strategy_coef: ArrayLike, steps: int) -> FiniteNoise:
    """The noise of a Toeplitz strategy, for a run of at most ``steps`` steps.

    Parameters
    ----------
    strategy_coef
        First column of the strategy, shape (n,), with a first entry other than 0.  The entries after the last one are 0
        (banded strategies).
    steps
        Number of noise coefficients that are kept.  The noise is that of the strategy for this many steps only.

    Returns
    -------
    ``FiniteNoise``, with β_0 = 1/strategy_coef[0].  Its sensitivity for up to ``steps`` steps is that of the strategy.

    Raises
    ------
    ValueError
        ``strategy_coef`` is not a vector of finite numbers, or its first entry is 0.
    OverflowError
        The noise coefficients exceed the range of floats.
    """
    column = checks.reals("strategy_coef", strategy_coef, ndim=1)
    if column[0] == 0:
        raise ValueError(f"strategy_coef[0] must not be 0, got {float(column[0])!r}")
    steps = checks.integer("steps", steps, 1)
    try:
        noising = FiniteNoise(column).inverse_coefficients(steps)
    except OverflowError as error:
        raise OverflowError(
            f"strategy_coef must have an inverse within the range of floats for {steps} steps, got {column!r:.80}"
        ) from error
    return FiniteNoise(noising)


# -- buffers -----------------------------------------------------------------------------------------------------------


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _invert(decay, scale, noise):  # type: ignore[no-untyped-def]
    """Replace ``noise`` by C⁻¹ times it, in the arithmetic of its own type."""
    buffers = np.zeros_like(decay)
    for t in range(noise.size):
        read = noise[t] - noise[t]
        for i in range(decay.size):
            read += scale[i] * buffers[i]
        noise[t] -= read
        for i in range(decay.size):
            buffers[i] = decay[i] * buffers[i] + noise[t]


@record
class BufferForm(Record):
    """A buffered linear Toeplitz matrix: c_0 = 1 and c_t = Σ_i output_scale_i buf_decay_i^{t−1}.

    Parameters
    ----------
    buf_decay
        Decays in [−1, 1], shape (P,); they are sorted in descending order.
    output_scale
        Scales, shape (P,).
    matrix
        The matrix that has these coefficients: ``"strategy"``, as libraries that run BLTs expect, or ``"noising"``.
    """

    buf_decay: Array
    output_scale: Array
    matrix: Matrix

    def __init__(self, buf_decay: ArrayLike, output_scale: ArrayLike, matrix: Matrix = "strategy") -> None:
        decay = checks.vector("buf_decay", buf_decay, "[-1, 1]")
        scale = checks.vector("output_scale", output_scale)
        checks.same_length("buf_decay", decay, "output_scale", scale)
        order = np.argsort(-decay, kind="stable")
        decay = decay[order]
        scale = scale[order]
        decay.setflags(write=False)
        scale.setflags(write=False)
        self._set(buf_decay=decay, output_scale=scale, matrix=checks.choice("matrix", matrix, MATRICES))

    def coefficients(self, steps: int) -> Array:
        """First column of the matrix, shape (steps,)."""
        powers = np.arange(checks.integer("steps", steps, 1) - 1)
        return np.append(1.0, (self.buf_decay[:, np.newaxis] ** powers * self.output_scale[:, np.newaxis]).sum(axis=0))

    def stored_as(self, dtype: Dtype) -> BufferForm:
        """The form whose entries are those of this one, rounded to ``dtype``.

        Raises
        ------
        ValueError
            A scale exceeds the range of ``dtype``.
        """
        return BufferForm(as_stored(self.buf_decay, dtype), as_stored(self.output_scale, dtype), self.matrix)

    def noise_as_run(self, independent: ArrayLike, *, dtype: Dtype) -> Array:
        """Return C⁻¹ times ``independent``, as the recurrence computes it in the arithmetic of ``dtype``.

        Parameters
        ----------
        independent
            z, shape (T,).  The unit vector (1, 0, …) gives the noise coefficients of the program.
        dtype
            ``"float64"`` or ``"float32"``.

        Returns
        -------
        y, shape (T,), with y_t = z_t − Σ_i output_scale_i x_i and then x_i ← buf_decay_i x_i + y_t.  It may hold
        ``inf`` and ``nan`` where the recurrence diverges.
        """
        self._check_strategy()
        checks.choice("dtype", dtype, DTYPES)
        noise: NDArray[Any] = checks.reals("independent", independent, ndim=1).astype(dtype)
        _invert(self.buf_decay.astype(dtype), self.output_scale.astype(dtype), noise)
        return noise.astype(np.float64)

    def sensitivity_upper_bound(self, steps: int | None = None) -> float:
        """γ_T of the strategy with exactly these floats, zero-out, or γ_∞ for ``steps=None``, rounded up.

        It is ``inf`` if γ_∞ diverges.  It holds for a single participation and for exact arithmetic, in closed form by
        ball arithmetic; ``sensitivity_as_run`` covers a program.

        Raises
        ------
        ValueError
            This is a noising matrix; read it with ``noise_from_buffers`` and take the sensitivity of that noise.
        """
        from flint import arb, ctx

        self._check_strategy()
        steps = None if steps is None else checks.integer("steps", steps, 1)
        kept = self.output_scale != 0
        with ctx.workprec(_BITS):
            scales = [arb(value) for value in self.output_scale[kept].tolist()]
            decays = [arb(value) for value in self.buf_decay[kept].tolist()]
            return rounded_up(exponential_norm(arb(1), scales, decays, steps))

    def sensitivity_as_run(self, steps: Run = None, *, dtype: Dtype) -> float:
        """Upper bound of the sensitivity of a run by the recurrence of ``noise_as_run``, rounding errors included.

        Parameters
        ----------
        steps
            Length of the run, or a participation; None for any length.
        dtype
            Floating-point type of all numbers of the program, ``"float64"`` or ``"float32"``.

        Raises
        ------
        ValueError
            This is a noising matrix.
        """
        self._check_strategy()
        return buffer_sensitivity(self.buf_decay, self.output_scale, steps, dtype)

    def noise_multiplier(
        self, rho: float, steps: int | None = None, *, dtype: Dtype = "float64", adjacency: Adjacency = "zero-out"
    ) -> float:
        """Standard deviation of the independent noise over the clip norm that makes the run ρ-zCDP; never too small.

        Parameters and errors are those of ``ToeplitzNoise.noise_multiplier`` and ``sensitivity_as_run``.
        """
        return safe_multiplier(self.sensitivity_as_run(steps, dtype=dtype), rho, adjacency)

    def _check_strategy(self) -> None:
        if self.matrix != "strategy":
            raise ValueError(f"matrix must be 'strategy' (sensitivities are column norms of it), got {self.matrix!r}")


def buffer_form(noise: PoleNoise, matrix: Matrix = "strategy") -> BufferForm:
    """The strategy, or the noising matrix, of rational noise as a buffered linear Toeplitz matrix.

    Parameters
    ----------
    noise
        Rational noise, such as ``rational_approximation(…)`` returns.
    matrix
        ``"strategy"``: decays from the zeros of the noise; ``"noising"``: from its poles.

    Returns
    -------
    The form.  Its entries have relative errors of about 1e-16 × P.  Coefficient t of the matrix has an error of about
    1e-16 × t times Σ_i |output_scale_i buf_decay_i^{t−1}|, which is far more than the coefficient itself if decays
    almost coincide.  ``sensitivity_as_run`` bounds the effect on privacy.

    Raises
    ------
    ValueError
        There is no such form: decays coincide, the matrix has polynomial terms beyond one step, or a scale exceeds the
        range of floats.
    """
    if not isinstance(noise, PoleNoise):
        raise TypeError(f"noise must be PoleNoise, as rational_approximation(…) returns, got {noise!r}")
    strategy = checks.choice("matrix", matrix, MATRICES) == "strategy"
    poles, zeros = (noise.zeros, noise.poles) if strategy else (noise.poles, noise.zeros)
    if zeros.size == poles.size + 1:
        poles = np.append(poles, 1.0)  # decay 0: a term of one step
    decay = 1 - poles
    if zeros.size > poles.size or np.unique(decay).size < poles.size:
        raise ValueError(f"noise must have distinct {'zeros' if strategy else 'poles'}, and as many, got {noise!r}")
    others = np.where(np.eye(poles.size, dtype=bool), 1.0, poles - poles[:, np.newaxis])
    # This order of the factors keeps the partial products within the range of floats.
    scale = decay ** (poles.size - zeros.size)
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(poles.size):
            scale = scale * (zeros[k] - poles if k < zeros.size else 1.0) / others[:, k]
    if not np.isfinite(scale).all():
        raise ValueError(f"noise must have zeros and poles further apart for scales within floats, got {noise!r}")
    return BufferForm(decay, scale, matrix)


def noise_from_buffers(form: BufferForm) -> PoleNoise:
    """The noise of a buffered linear Toeplitz matrix, strategy or noising matrix.

    Its gaps are correct to rounding, because the zeros of 1 + Σ output_scale/(p − buf_decay) are isolated exactly.

    Raises
    ------
    ValueError
        Zeros are complex, or lie so that the noise would not be stable or not minimum phase.
    """
    from flint import arb, ctx, fmpq, fmpq_poly

    if not isinstance(form, BufferForm):
        raise TypeError(f"form must be BufferForm, got {form!r}")
    kept = form.output_scale != 0
    decays = [fmpq(*value.as_integer_ratio()) for value in form.buf_decay[kept].tolist()]
    scales = [fmpq(*value.as_integer_ratio()) for value in form.output_scale[kept].tolist()]
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
