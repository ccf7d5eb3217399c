r"""The privacy of clients whose messages the server sees as sums only, by secure aggregation.

In round t the server learns the sum of the messages that arrive.  With the noising matrix W_i of client i over its n_i
participations, and S_i, T × n_i, whose column k is 1 in the round when message k arrives, the noise of the sums has
the covariance σ²K, K = Σ_i S_i W_i W_iᵀ S_iᵀ over the honest clients.  An example that is used once, in a message that
arrives in round t, has the energy (K⁻¹)_tt in place of e_k of a lone client, and spends Δ² (K⁻¹)_tt/(2σ²).

*Proof.*  Only row t of the sums is shifted, and with K = LLᵀ the strategy L⁻¹ is lower triangular, so that adaptive
query points are covered.

The arrivals must be fixed independently of the noise; otherwise take the largest energy over all that are allowed.
Where one client fails in a round, the others protect less in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import norm

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike


def aggregated_energies(noise: Mechanism, arrivals: Sequence[ArrayLike], rounds: int) -> Array:
    """The energies (K⁻¹)_tt of the rounds t = 1, …, T, shape (T,); 0 for rounds without arrivals.

    Parameters
    ----------
    noise : Mechanism
        Of every client, over its participations.
    arrivals : sequence of array_like
        For each honest client the rounds in [1, T] when its messages 1, 2, … arrive, not decreasing: a message that
        is merged into a later one arrives with it.
    rounds : int
        T >= 1.
    """
    total = np.zeros((checks.integer("rounds", rounds, 1),) * 2)
    for number, one in enumerate(arrivals):
        when = checks.reals(f"arrivals[{number}]", one, f"[1, {rounds}]", ndim=1)
        if (np.diff(when) < 0).any() or (when != np.floor(when)).any():
            raise ValueError(f"arrivals[{number}] must be whole rounds that do not decrease, got {when!r:.80}")
        if when.size:
            mixed = np.zeros((rounds, when.size))
            np.add.at(mixed, when.astype(int) - 1, np.asarray(noise.noising_matrix(when.size)))
            total += mixed @ mixed.T
    met = np.flatnonzero(np.diag(total))
    energies = np.zeros(rounds)
    if met.size:
        root = np.linalg.cholesky(total[np.ix_(met, met)])
        energies[met] = np.square(solve_triangular(root, np.eye(met.size), lower=True)).sum(axis=0)
    return energies


def clipping_range(
    noise: Mechanism,
    participations: int,
    *,
    scale: float,
    reach: float,
    coordinates: int,
    failure: float = 1e-9,
    merged: int = 1,
) -> float:
    """The range r for a quantiser that cuts each coordinate of a message to [−r, r] before it is masked.

    Noise that is cut no longer cancels: noise that is taken back must have been sent whole.  The range is the largest
    over the replies of g j + σ ‖P_k − P_{k−j}‖ Φ⁻¹(1 − β/(2 d n)), with j <= ``merged`` messages in a reply and the
    rows P_k of the prefix sums of the noising matrix.  By the union bound over d coordinates and n replies, a client
    has one cut with a probability of at most β.

    Parameters
    ----------
    noise : Mechanism
        Of a client, n >= 1.
    participations : int
        Of a client, n >= 1.
    scale, reach : float
        σ of the noise and the largest norm g of a contribution, in [0, 1e100].
    coordinates : int
        d >= 1.
    failure : float, default 1e-09
        β in (0, 1).
    merged : int, default 1
        The most messages that a reply adds up, in [1, n].

    Examples
    --------
    >>> from corrnoise.theory.mechanisms.poles import PoleNoise
    >>> round(clipping_range(PoleNoise([0.0], [0.3]), 40, scale=3.0, reach=1.0, coordinates=100), 2)
    24.82
    """
    n = checks.integer("participations", participations, 1)
    sigma = checks.real("scale", scale, "[0, 1e100]")
    g = checks.real("reach", reach, "[0, 1e100]")
    d = checks.integer("coordinates", coordinates, 1)
    beta = checks.real("failure", failure, "(0, 1)")
    most = checks.integer("merged", merged, 1, largest=n)
    prefixes = np.vstack([np.zeros(n), np.cumsum(noise.noising_matrix(n), axis=0)])
    quantile = float(norm.isf(beta / (2 * d * n)))
    spreads = (np.linalg.norm(prefixes[j:] - prefixes[:-j], axis=1).max() for j in range(1, most + 1))
    return max(g * j + sigma * float(spread) * quantile for j, spread in enumerate(spreads, 1)) * (1 + 1e-9)
