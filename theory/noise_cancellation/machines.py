"""The noise of one machine over its participations k = 1, …, n, whatever the rounds they fall in.

A machine sends s_k + y_k − y_{k−1}, y_0 = 0: it adds fresh noise and takes back some of the old.  The server's sum then
holds the prefix noise y_k only.  So a machine runs a mechanism of this project: its participations are the steps, its
messages carry the noise N z, and y are the prefix sums of N z.  With y_k = (1 − a) y_{k−1} + k^{g/2} z_k it is

    N = T(β) diag(k^{g/2}),    β(z) = (1 − z)/(1 − (1 − a) z),

which is independent noise for a = 0 (Alternative 2), anti-PGD without damping for a = 1, and else has one pole.  The
published noise of Theorem 5.2 has a = 1 and g = 1.

The energy e_j of a participation, the squared norm of its column of the strategy, sets how much noise privacy takes: a
shift Δ_j of the j-th message spends Δ_j² e_j/(2σ²) of zero-concentrated differential privacy.  The variance of y_k is
what the server's estimate carries.

A machine may take part less often than its noise is made for; N is triangular, so that its noise is that of the first
participations (``leading``).

Source: Reshef and Levy, ICML 2025: equations (13) and (14), Section 4.1 (Alternative 2), Theorem 5.2.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import fftconvolve

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.matrix import BandedNoise, MatrixNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import Participation
from corrnoise.theory.workloads import PrefixSums

_DIRECT = 2**14  #: participations up to which sums are added one by one, and small ones keep their digits


def cancelling_noise(participations: int, *, share: float = 1.0, growth: float = 0.0) -> Mechanism:
    """Noise with the prefix noise y_k = (1 − a) y_{k−1} + k^{g/2} z_k, of which a machine keeps one vector, or none.

    e_j = j^{−g} + a² Σ_{k>j} k^{−g}.  For g = 0, e_1 = 1 + a²(n − 1) and Var y_k → 1/(a(2 − a)), so a = n^{−½} has
    server noise of order sqrt(n), where a = 1 has n.

    Parameters
    ----------
    participations : n >= 1, for which the draws grow; noise with ``growth=0`` is for any number
    share : a in [0, 1], the share of its last noise that a machine takes back.  1: all of it, as published; 0: none.
    growth : g in [0, 4]: the fresh noise of participation k has variance k^g
        1 as published in Theorem 5.2; 0 is constant.

    Examples
    --------
    >>> round(mean_variance(cancelling_noise(100), 100), 9)
    100.0
    >>> round(mean_variance(cancelling_noise(100, share=0.1), 100), 2)
    10.03
    """
    n = checks.integer("participations", participations, 1)
    share = checks.real("share", share, "[0, 1]")
    growth = checks.real("growth", growth, "[0, 4]")
    noise: ToeplitzNoise = AntiPGD(0.0)
    if share < 1:
        noise = PoleNoise([0.0], [share]) if share else DPSGD()
    if growth == 0:
        return noise
    return ScaledNoise(noise, draw_scales=np.arange(1.0, n + 1) ** (growth / 2))


def cancelling_parameters(noise: Mechanism) -> tuple[float, float]:
    """The share a and the growth g of ``cancelling_noise``; ``ValueError`` for other noise."""
    plain = noise.noise if isinstance(noise, ScaledNoise) else noise
    draws = noise.draw_scales if isinstance(noise, ScaledNoise) and noise.step_scales is None else np.ones(1)
    if plain in (DPSGD(), AntiPGD(0.0)):
        share = float(plain == AntiPGD(0.0))
    else:
        share = float(plain.poles[0]) if isinstance(plain, PoleNoise) and plain.poles.size == 1 else math.nan
    growth = math.nan if draws is None else round(2 * math.log2(float(draws[1])), 12) if draws.size > 1 else 0.0
    if draws is not None and 0 <= share <= 1 and 0 <= growth <= 4:
        same = cancelling_noise(draws.size, share=share, growth=growth)
        grown = np.arange(1.0, draws.size + 1) ** (growth / 2)
        if plain == getattr(same, "noise", same) and np.allclose(draws, grown, rtol=1e-11, atol=0):
            return share, growth
    raise ValueError(f"noise must be a cancelling_noise, got {noise!r:.80}")


def leading(noise: Mechanism, participations: int) -> Mechanism:
    """The noise of the first n >= 1 participations of a machine.

    Raises ``ValueError`` where the noise is made for fewer participations.
    """
    n = checks.integer("participations", participations, 1)
    checks.instance("noise", noise, Mechanism)  # type: ignore[type-abstract]
    if noise.steps is None or noise.steps == n:
        return noise
    if n > noise.steps:
        raise ValueError(f"participations must be at most {noise.steps}, for which the noise is made, got {n}")
    if isinstance(noise, BinaryTree):
        return BinaryTree(n, decoder=noise.decoder, decay=noise.decay)
    if isinstance(noise, ScaledNoise):
        steps, draws = (None if each is None else each[:n] for each in (noise.step_scales, noise.draw_scales))
        return ScaledNoise(noise.noise, steps, draws)
    if isinstance(noise, BandedNoise):
        diagonals = noise.diagonals[:n, :n]
        inside = np.add.outer(np.arange(len(diagonals)), np.arange(n)) < n
        return BandedNoise(np.where(inside, diagonals, 0.0))
    return MatrixNoise(noise.strategy()[:n, :n])


def energies(noise: Mechanism, participations: int) -> Array:
    """e_1, …, e_n, shape (n,): what each participation in a run of n spends at unit shift and scale, times 2."""
    first = leading(noise, participations)
    if (draws := _grown(first)) is None:
        return np.square(first.column_norms(participations))
    squares = np.square(first.noise.inverse_coefficients(participations))  # type: ignore[attr-defined]
    return _convolution(squares, draws[::-1] ** -2.0)[::-1]


def _grown(noise: Mechanism) -> Array | None:
    """The factors of draws of Toeplitz noise with no other factors; None for other noise."""
    return noise.draw_scales if isinstance(noise, ScaledNoise) and noise.step_scales is None else None


def _convolution(first: Array, second: Array) -> Array:
    """The first n entries of the convolution of two vectors of n non-negative numbers."""
    exact = first.size <= _DIRECT
    return np.asarray(np.convolve(first, second) if exact else fftconvolve(first, second))[: first.size]


def largest_energies(noise: Mechanism, participations: int) -> Array:
    """The largest energy of a participation followed by at most 0, 1, …, n − 1 others, shape (n,), increasing."""
    n = participations
    if noise.steps is None:
        return energies(noise, n)[::-1]
    draws = _grown(leading(noise, n))
    if draws is not None and (np.diff(draws) >= 0).all():  # the first participation has the least noise
        return np.cumsum(np.square(noise.noise.inverse_coefficients(n)) / draws**2)  # type: ignore[attr-defined]
    sums = np.cumsum(np.square(leading(noise, n).strategy(n)), axis=0)
    column = np.arange(n)
    last = np.minimum(column + column[:, np.newaxis], n - 1)
    return np.asarray(sums[last, column].max(axis=1))


def covered_sensitivity(noise: Mechanism, participations: int) -> float:
    """An upper bound of sqrt(max_j e_j) for the program that a machine runs, in float64, rounding errors included."""
    first = leading(noise, participations)
    form = None if first.forms() else "transform"
    return first.program(Participation.single(participations), "float64", form).sensitivity  # type: ignore[arg-type]


def prefix_variances(noise: Mechanism, participations: int) -> Array:
    """Var y_1, …, Var y_n at unit scale, shape (n,)."""
    first = leading(noise, participations)
    if (draws := _grown(first)) is None:
        return first.errors(PrefixSums(participations))
    prefix = np.cumsum(first.noise.coefficients(participations))  # type: ignore[attr-defined]
    return _convolution(prefix**2, draws**2)


def mean_variance(noise: Mechanism, participations: int) -> float:
    """The mean over k of Var y_k at equal privacy, of noise with largest energy 1: the squared mean error."""
    return float(prefix_variances(noise, participations).mean() * energies(noise, participations).max())


def regret_energy(noise: Mechanism, participations: int) -> float:
    """J = 1ᵀΣ1 + tr Σ at equal privacy, of noise with largest energy 1.

    For linear losses, without projection and over whole holding times, which are geometric, the term Σ_t E ⟨Y_t, x* −
    w_{t+1}⟩ of the regret is η M d J/(2 m² p²), p = m/M.
    """
    n = participations
    total = np.square(_total_prefix(leading(noise, n), n)).sum() + prefix_variances(noise, n).sum()
    return float(total * energies(noise, n).max())


def _total_prefix(noise: Mechanism, n: int) -> Array:
    """The coefficients of the draws in y_1 + … + y_n, up to their order for Toeplitz noise."""
    if isinstance(noise, ToeplitzNoise):
        return np.cumsum(np.cumsum(noise.coefficients(n)))
    if (draws := _grown(noise)) is not None:
        total = np.cumsum(np.cumsum(noise.noise.coefficients(n)))  # type: ignore[attr-defined]
        return np.asarray(total[::-1] * draws)
    return np.asarray(np.arange(n, 0, -1) @ noise.noising_matrix(n))
