"""The noise of one machine over its participations k = 1, …, n, whatever the rounds they fall in.

A machine sends s_k + y_k − y_{k−1}, y_0 = 0: it adds fresh noise and takes back some of the old.  The server's sum then
holds the prefix noise y_k only.  Every such noise is y = σ P z with independent standard Gaussian z, a lower-triangular
P with positive diagonal and a scale σ.  The messages carry the noise σ W z, W the first difference of P, so this is the
correlated noise of the rest of this project, with one machine's participations for steps and W for the noise
coefficient matrix.  In particular

* independent y_k of constant variance are anti-PGD, W = (1, −1, 0, …);
* noise that is never taken back (Alternative 2) is DP-SGD, W = I;
* square-root noise is ν-DP-FTRL with ν = 0, W the Toeplitz matrix of (1 − z)^½.

A machine makes the noise message by message: ``step`` takes what it has kept and the fresh draws of a participation,
and returns the noise of the message and what to keep.  ``memory`` says how many vectors that is.

Three numbers decide how good a noise is:

* the energy of a participation, the squared norm of its column of the strategy W⁻¹, which sets how much noise privacy
  takes: a shift Δ_j of the j-th message spends Δ_j² e_j/(2σ²) of zero-concentrated differential privacy;
* the variance of y_k, which is what the server's estimate carries;
* J = 1ᵀΣ1 + tr Σ with Σ = PPᵀ, which is what linear losses feel (``regret_energy``).

References
----------
Reshef and Levy, ICML 2025: equations (13) and (14), Section 4.1 (Alternative 2), Theorem 5.2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.linalg import solve_triangular, toeplitz
from scipy.signal import lfilter

from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD
from corrnoise.theory.mechanisms.rounding import section_sensitivity
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record

_ROUNDING = 1e-9  #: relative, which outweighs the rounding of every sum and solution here
_SHORT = (FiniteNoise, DPSGD, AntiPGD)  #: noise whose coefficients vanish beyond its memory
_CONDITION = 1e6  #: with which n eps cond(P) is below a tenth of that


class MachineNoise(Record, ABC):
    """Noise y = P z of one machine at unit scale, over any number of participations up to ``longest``."""

    @property
    def longest(self) -> int | None:
        """The largest number of participations that the noise is made for; None for any number."""
        return None

    @abstractmethod
    def memory(self, participations: int) -> int:
        """The most vectors that a machine keeps between its participations, the first ``participations`` of them."""

    def draws(self, participation: int) -> int:
        """How many fresh draws the ``participation``-th message takes, participations counted from 1."""
        return 1

    def start(self, dimension: int) -> Array:
        """What a machine keeps before its first participation, shape (vectors, dimension)."""
        return np.zeros((0, dimension))

    @abstractmethod
    def step(self, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
        """The noise of a message, and what the machine keeps after it.

        Parameters
        ----------
        kept
            What it kept, shape (vectors, d); of ``start`` before the first message.
        fresh
            Independent standard normal numbers, shape (``draws(participation)``, d).
        participation
            k >= 1, of this message.

        Returns
        -------
        (W z)_k at unit scale, shape (d,), and a new array of kept vectors.  Arguments are not changed.
        """

    @abstractmethod
    def _prefix_factor(self, participations: int) -> Array:
        """P."""

    def _strategy(self, participations: int) -> Array:
        """W⁻¹ = P⁻¹A."""
        ones = np.tril(np.ones((participations, participations)))
        strategy: Array = solve_triangular(self._prefix_factor(participations), ones, lower=True)
        return strategy

    def _energies(self, participations: int) -> Array:
        """Squared column norms of the strategy."""
        return np.square(self._strategy(participations)).sum(axis=0)

    def _largest_energies(self, participations: int) -> Array:
        """The largest energy of a participation that is followed by at most 0, 1, … others."""
        sums = np.cumsum(np.square(self._strategy(participations)), axis=0)
        column = np.arange(participations)
        last = np.minimum(column + column[:, np.newaxis], participations - 1)
        largest: Array = sums[last, column].max(axis=1)
        return largest

    def _variances(self, participations: int) -> Array:
        """Diagonal of PPᵀ."""
        return np.square(self._prefix_factor(participations)).sum(axis=1)

    def _column_sums(self, participations: int) -> Array:
        """Pᵀ1."""
        return self._prefix_factor(participations).sum(axis=0)

    def _checked(self, participations: int) -> int:
        n = checks.integer("participations", participations, 1)
        if self.longest is not None and n > self.longest:
            raise ValueError(f"participations must be at most {self.longest}, for which the noise is made, got {n}")
        return n

    def prefix_factor(self, participations: int) -> Array:
        """P, shape (n, n), lower triangular: the server's sum holds y = P z after each participation."""
        return self._prefix_factor(self._checked(participations))

    def message_factor(self, participations: int) -> Array:
        """W, shape (n, n), lower triangular: message k carries the noise (W z)_k, the first difference of P z."""
        factor = self.prefix_factor(participations)
        factor[1:] -= factor[:-1].copy()
        return factor

    def covariance(self, participations: int) -> Array:
        """Σ = PPᵀ, shape (n, n), the covariance of the prefix noise."""
        factor = self.prefix_factor(participations)
        return factor @ factor.T

    def energies(self, participations: int) -> Array:
        """e_1, …, e_n, shape (n,): what each participation spends in a run of n, at unit shift and scale, times 2.

        e_j = (1ᵀ_{≥j} Σ⁻¹ 1_{≥j}), the squared norm of column j of W⁻¹.  Relative error below 1e-12.
        """
        return self._energies(self._checked(participations))

    def largest_energies(self, participations: int) -> Array:
        """The largest energy of a participation followed by at most 0, 1, …, n−1 others, shape (n,), increasing."""
        return self._largest_energies(self._checked(participations))

    def rounding(self, participations: int) -> float:
        """A factor, at least 1, by which energies are multiplied where privacy rests on them."""
        self._checked(participations)
        return 1 + _ROUNDING

    def sensitivity_upper_bound(self, participations: int) -> float:
        """sqrt(max_j e_j), rounded up: by what a shift is multiplied, over σ, to give sqrt(2ρ)."""
        return float(np.sqrt(self.energies(participations).max() * self.rounding(participations)))

    def variances(self, participations: int) -> Array:
        """Var y_1, …, Var y_n at unit scale, shape (n,)."""
        return self._variances(self._checked(participations))

    def mean_variance(self, participations: int) -> float:
        """The mean over k of Var y_k at equal privacy: of noise with largest energy 1."""
        return float(self.variances(participations).mean() * self.energies(participations).max())

    def regret_energy(self, participations: int) -> float:
        """J = 1ᵀΣ1 + tr Σ at equal privacy: of noise with largest energy 1.

        For linear losses, without projection and over whole holding times, which are geometric, the term
        Σ_t E ⟨Y_t, x* − w_{t+1}⟩ of the regret is η M d J/(2 m² p²), p = m/M.
        """
        n = self._checked(participations)
        total = np.square(self._column_sums(n)).sum() + self._variances(n).sum()
        return float(total * self._energies(n).max())


def checked_machine_noise(noise: object) -> MachineNoise:
    """Return ``noise``, if it is the noise of a machine."""
    if not isinstance(noise, MachineNoise):
        raise TypeError(f"noise must be the noise of a machine such as CancellingNoise(), got {noise!r:.80}")
    return noise


@record
class CancellingNoise(MachineNoise):
    """y_k = (1 − a) y_{k−1} + k^{g/2} z_k: the machine takes back the share a of the noise that it last left behind.

    Parameters
    ----------
    share
        a in [0, 1].  1 cancels all of it, as published; 0 none (Alternative 2).
    growth
        g in [0, 4]: the fresh noise of participation k has variance k^g.  1 as published in Theorem 5.2; 0 is constant.

    Notes
    -----
    The machine keeps one vector, none for a = 0.  With C = diag(k^{−g/2}) (I − (1−a)S) A, S the shift and A the ones on
    and below the diagonal, e_j = j^{−g} + a² Σ_{k>j} k^{−g}.  For g = 0 and n participations, e = 1 + a²(n−1) and Var
    y_k → 1/(a(2−a)), so a = n^{−½} has server noise of order sqrt(n), where a = 1 has n.

    Examples
    --------
    >>> round(CancellingNoise().mean_variance(100), 9), round(CancellingNoise(share=0.1).mean_variance(100), 2)
    (100.0, 10.03)
    """

    share: float = 1.0
    growth: float = 0.0

    def __post_init__(self) -> None:
        self._set(share=checks.real("share", self.share, "[0, 1]"), growth=checks.real("growth", self.growth, "[0, 4]"))

    def memory(self, participations: int) -> int:
        self._checked(participations)
        return 1 if self.share else 0

    def start(self, dimension: int) -> Array:
        return np.zeros((self.memory(1), dimension))

    def step(self, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
        new = participation ** (self.growth / 2) * fresh[0]
        if not self.share:
            return new, kept
        prefix = (1 - self.share) * kept[0] + new
        return prefix - kept[0], prefix[np.newaxis]

    def _squares(self, participations: int) -> Array:
        return np.arange(1.0, participations + 1) ** self.growth

    def _prefix_factor(self, participations: int) -> Array:
        powers = (1 - self.share) ** np.arange(participations)
        return np.tril(toeplitz(powers)) * np.sqrt(self._squares(participations))

    def _energies(self, participations: int) -> Array:
        inverse = 1 / self._squares(participations)
        later = np.cumsum(inverse[::-1])[::-1] - inverse
        later[-1] = 0.0
        return inverse + self.share**2 * later

    def _largest_energies(self, participations: int) -> Array:
        later = 1 / self._squares(participations)
        later[0] = 0.0
        return 1 + self.share**2 * np.cumsum(later)

    def _variances(self, participations: int) -> Array:
        variances: Array = lfilter([1.0], [1.0, -((1 - self.share) ** 2)], self._squares(participations))
        return variances

    def _column_sums(self, participations: int) -> Array:
        remaining = np.cumsum((1 - self.share) ** np.arange(participations))[::-1]
        return np.sqrt(self._squares(participations)) * remaining


@record
class CorrelatedMachineNoise(MachineNoise):
    """Messages that carry correlated noise of this project, one step a participation.

    Parameters
    ----------
    noise
        Correlated noise with coefficients β: the k-th message carries Σ_j β_j z_{k−j}.  ``NuFTRL(0)`` is square-root
        noise, ``ProductNoise([0], [1 − b])`` has the prefix noise of (1 − z)^{−b}.

    Notes
    -----
    The machine keeps one vector for each pole of a ``PoleNoise`` (its buffers), as many z_j as there are coefficients,
    less one, of noise with few of them, and all z_j of any other noise.
    """

    noise: ToeplitzNoise

    def __post_init__(self) -> None:
        checked_noise(self.noise)

    def memory(self, participations: int) -> int:
        n = self._checked(participations)
        return self.noise.memory(n) if isinstance(self.noise, (PoleNoise, *_SHORT)) else n - 1

    def start(self, dimension: int) -> Array:
        return np.zeros((self.noise.memory(1) if isinstance(self.noise, PoleNoise) else 0, dimension))

    def step(self, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
        if not isinstance(self.noise, PoleNoise):
            drawn = np.vstack([kept, fresh])
            last = self.noise.coefficients(len(drawn))[::-1] @ drawn
            forgotten = len(drawn) - self.memory(participation + 1)
            return last, drawn[forgotten:]
        value = fresh[0]
        after = np.empty_like(kept)
        for i, (zero, pole) in enumerate(zip(*self.noise.sections(), strict=True)):
            state = kept[i]
            after[i] = state + (value - pole * state)
            value = value + (zero - pole) * state
        return value, after

    def _prefix(self, participations: int) -> Array:
        return np.cumsum(self.noise.coefficients(participations))

    def _prefix_factor(self, participations: int) -> Array:
        return np.tril(toeplitz(self._prefix(participations)))

    def rounding(self, participations: int) -> float:
        n = self._checked(participations)
        if isinstance(self.noise, PoleNoise):
            bound = section_sensitivity(self.noise, n)  # of the arithmetic of ``step``
        else:
            bound = self.noise.sensitivity_upper_bound(n)
        return max(1 + _ROUNDING, (bound / self.noise.sensitivity(n)) ** 2 + _ROUNDING)

    def _energies(self, participations: int) -> Array:
        return self._largest_energies(participations)[::-1]

    def _largest_energies(self, participations: int) -> Array:
        return np.cumsum(np.square(self.noise.inverse_coefficients(participations)))

    def _variances(self, participations: int) -> Array:
        return np.cumsum(np.square(self._prefix(participations)))

    def _column_sums(self, participations: int) -> Array:
        return np.cumsum(self._prefix(participations))[::-1]


@record
class FactorisedNoise(MachineNoise):
    """Noise y = P z by its matrix, such as the optimum of a factorisation.

    Parameters
    ----------
    factor
        P, shape (n, n), lower triangular with a positive diagonal, of a condition number below 1e6/n.
    """

    factor: Array

    def __init__(self, factor: ArrayLike) -> None:
        matrix = np.array(checks.reals("factor", factor))
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise ValueError(f"factor must be a square matrix, got shape {matrix.shape}")
        if np.triu(matrix, 1).any() or not (np.diag(matrix) > 0).all():
            raise ValueError(
                f"factor must be lower triangular with a diagonal in (0, inf), got the diagonal {np.diag(matrix)!r:.80}"
            )
        condition = float(np.linalg.cond(matrix))
        if not condition * matrix.shape[0] < _CONDITION:
            raise ValueError(f"factor must have a condition number in [1, {_CONDITION:g}/n), got {condition:.3g}")
        matrix.setflags(write=False)
        self._set(factor=matrix)

    @property
    def longest(self) -> int | None:
        return int(self.factor.shape[0])

    def memory(self, participations: int) -> int:
        return self._checked(participations) - 1

    def step(self, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
        drawn = np.vstack([kept, fresh])
        k = self._checked(participation) - 1
        row = self.factor[k, : k + 1].copy()
        if k:
            row -= self.factor[k - 1, : k + 1]
        return row @ drawn, drawn

    def _prefix_factor(self, participations: int) -> Array:
        return self.factor[:participations, :participations].copy()
