r"""The privacy of clients whose messages the server sees as sums only, by secure aggregation.

In round t the server learns the sum of the messages that arrive.  With the noising matrix W_i of client i over its n_i
participations, and S_i, T × n_i, whose column k is 1 in the round in which message k arrives, the noise of the sums has
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

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike


def aggregated_energies(noise: Mechanism, arrivals: Sequence[ArrayLike], rounds: int) -> Array:
    """The energies (K⁻¹)_tt of the rounds t = 1, …, T, shape (T,); 0 for rounds in which nothing arrives.

    Parameters
    ----------
    noise : of every client, over its participations
    arrivals : for each honest client the rounds in [1, T] in which its messages 1, 2, … arrive, not decreasing: a
        message that is merged into a later one arrives with it
    rounds : T >= 1
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
