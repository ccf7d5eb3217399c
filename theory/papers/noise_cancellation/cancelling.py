"""The noise of one machine over its participations k = 1, …, n, whatever the rounds they fall in.

A machine sends s_k + y_k − y_{k−1}, y_0 = 0: it adds fresh noise and takes back some of the old.  The server's sum then
holds the prefix noise y_k only.  So a machine runs a mechanism of this project: its participations are the steps, its
messages carry the noise N z, and y are the prefix sums of N z.  With y_k = (1 − a) y_{k−1} + k^{g/2} z_k it is

    N = T(β) diag(k^{g/2}),    β(z) = (1 − z)/(1 − (1 − a) z),

which is independent noise for a = 0 (Alternative 2), anti-PGD without damping for a = 1, and else has one pole.  The
published noise of Theorem 5.2 has a = 1 and g = 1.

The energy e_j of a participation, the squared norm of its column of the strategy, sets how much noise privacy takes: a
shift Δ_j of the j-th message spends Δ_j² e_j/(2σ²) of zero-concentrated differential privacy.  The variance of y_k is
the noise in the server's estimate.

The mean variance of y_k at equal privacy is the squared ``mean_error`` of the prefix sums for one participation, and J
has the noise of ``regret_workload``, times its rows.  A machine may have fewer participations than its noise; N is
triangular, so that it has the noise of the first participations (``Mechanism.leading``).

Source: Reshef and Levy, ICML 2025: equations (13) and (14), Section 4.1 (Alternative 2), Theorem 5.2.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.objectives.workloads import MatrixWorkload


@usual_float_errors
def cancelling_noise(participations: int, *, share: float = 1.0, growth: float = 0.0) -> Mechanism:
    """Noise with the prefix noise y_k = (1 − a) y_{k−1} + k^{g/2} z_k; a machine keeps one vector of it, or none.

    e_j = j^{−g} + a² Σ_{k>j} k^{−g}.  For g = 0, e_1 = 1 + a²(n − 1) and Var y_k → 1/(a(2 − a)), so a = n^{−½} has
    server noise of order sqrt(n), where a = 1 has n.

    Parameters
    ----------
    participations : int
        n >= 1, for draws that grow; noise with ``growth=0`` is for any number.
    share : float, default 1.0
        A in [0, 1], the share of its last noise that a machine takes back.  1: all of it, as published; 0: none.
    growth : float, default 0.0
        g in [0, 4]: the fresh noise of participation k has variance k^g 1 as published in Theorem 5.2; 0 is constant.

    Returns
    -------
    Mechanism

    Examples
    --------
    >>> import corrnoise as cn
    >>> once = cn.Participation.single(100)
    >>> round(cn.papers.noise_cancellation.cancelling_noise(100).mean_error(once) ** 2, 6)
    100.0
    >>> round(cn.papers.noise_cancellation.cancelling_noise(100, share=0.1).mean_error(once) ** 2, 2)
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


def regret_workload(participations: int) -> MatrixWorkload:
    """The prefix sums of a machine and their sum, n + 1 rows, for n >= 1 participations.

    For linear losses, without projection and over whole holding times, which are geometric, the term Σ_t E ⟨Y_t, x* −
    w_{t+1}⟩ of the regret is η M d J/(2 m² p²), p = m/M, with the regret energy J = 1ᵀΣ1 + tr Σ of noise with largest
    energy 1.  J is n + 1 times the squared ``mean_error`` of this workload for one participation.

    Examples
    --------
    >>> from corrnoise.theory.participation import Participation
    >>> round(101 * cancelling_noise(100).mean_error(Participation.single(100), regret_workload(100)) ** 2, 4)
    20000.0
    """
    n = checks.integer("participations", participations, 1)
    sums = np.tril(np.ones((n, n)))
    return MatrixWorkload(np.vstack([sums, sums.sum(axis=0)]))
