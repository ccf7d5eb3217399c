"""Convergence of shuffled gradient methods with noise and public data: published bounds and corrected ones.

After K epochs of n steps with learning rate η the excess risk E G(x^{K+1}) − G* is at most

    R²/(η n K) + 10 η² n² s² max_k L_k (1 + log K) + 2 M,    M = max_{s <= K} Σ_{k <= s} e_k/(s + 1 − k),
    e_k = C_k²/(2 n² β) + 5 η² L*_k D_k + (η + 5 η² n L_k) d σ_k²,

where R = ‖x_1 − x*‖, s² is the mean squared gradient of the private losses at x*, L_k and L*_k are the mean and the
largest smoothness of the records of epoch k, σ_k is the noise, and C_k², D_k measure how unlike the public records are.

The published noise term is 6 η² n L*_k d σ_k².  It is smaller by a factor of about η n L and false: Lemma D.10 bounds
the opposite sign of E ⟨noise, x⟩, and its Jacobian lacks the term −η I.  With f_i = ‖x‖²/2000, ψ = ‖x‖²/2, n = 100,
d = 1000, K = 10, η = 0.01, σ = 1, x_1 = x* = 0 the excess risk is 1.6656, the published bound 0.3963.  The ratio is
unbounded (smoothness → 0), so no constant saves it.  The correction is Stein's lemma for Lipschitz maps: every later
step is nonexpansive, so E ⟨noise_i, x⟩ <= η d σ².

Noise on the last step of an epoch only gives (η/n) d σ_k² instead, at the same privacy of an epoch.

References
----------
Jiang, Sharma, Wu and Joshi, 2026: Theorem 3.7 (D.14), Corollary 4.1 (E.1), Theorem D.15, Table 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from corrnoise.theory import checks
from corrnoise.theory.checks import Array
from corrnoise.theory.records import Record

_POSITIVE = "(0, 1e100]"
_NONNEGATIVE = "[0, 1e100]"


@dataclass(frozen=True, eq=False, repr=False)
class Bound(Record):
    """A bound of the excess risk by its sources, which ``total`` adds up."""

    initialisation: float
    shuffling: float
    dissimilarity: float
    noise: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.initialisation + self.shuffling + self.dissimilarity + self.noise


@dataclass(frozen=True, eq=False, repr=False)
class Run(Record):
    """A run, by the constants that the bounds need.

    Parameters
    ----------
    samples, epochs, dimension
        n, K, d >= 1.
    learning_rate
        η > 0.
    distance
        R = ‖x_1 − x*‖ >= 0.
    deviation
        s >= 0, root mean squared gradient of the private losses at x*.
    noise
        σ_k >= 0, a scalar or shape (K,).
    smoothness, largest_smoothness
        L_k and L*_k > 0, a scalar or shape (K,); L_k <= L*_k.
    private_smoothness
        Mean smoothness L of the private losses; None for the largest L_k.
    end_noise
        Noise on the last step of an epoch only.
    total_dissimilarity
        C_k = n ‖∇H_k‖ >= 0, a scalar or shape (K,), H_k the mean difference of private and public losses of epoch k.
    partial_dissimilarity
        D_k = (1/n) Σ_{n_k < i < n} C_i² >= 0, a scalar or shape (K,).
    beta
        0 < β <= μ_ψ − (smoothness of H_k); not needed, and 0, where there is no dissimilarity.
    """

    samples: int
    epochs: int
    dimension: int
    learning_rate: float
    distance: float
    deviation: float
    noise: ArrayLike
    smoothness: ArrayLike
    largest_smoothness: ArrayLike
    private_smoothness: float | None = None
    end_noise: bool = False
    total_dissimilarity: ArrayLike = 0.0
    partial_dissimilarity: ArrayLike = 0.0
    beta: float = 0.0

    def __post_init__(self) -> None:
        for name in ("samples", "epochs", "dimension"):
            checks.integer(name, getattr(self, name), 1)
        self._set(
            learning_rate=checks.real("learning_rate", self.learning_rate, _POSITIVE),
            distance=checks.real("distance", self.distance, _NONNEGATIVE),
            deviation=checks.real("deviation", self.deviation, _NONNEGATIVE),
            beta=checks.real("beta", self.beta, _NONNEGATIVE),
        )
        for name in ("noise", "total_dissimilarity", "partial_dissimilarity", "smoothness", "largest_smoothness"):
            interval = _POSITIVE if "smoothness" in name else _NONNEGATIVE
            values = checks.reals(name, getattr(self, name), interval)
            if values.shape not in ((), (self.epochs,)):
                raise ValueError(f"{name} must be a scalar or have shape ({self.epochs},), got shape {values.shape}")
            self._set(**{name: values})
        if np.any(np.asarray(self.smoothness) > np.asarray(self.largest_smoothness) * (1 + 1e-12)):
            raise ValueError("smoothness must be at most largest_smoothness")
        if np.any(self.total_dissimilarity) and self.beta == 0:
            raise ValueError("beta must be positive where total_dissimilarity is, got 0.0")

    @property
    def _mean_smoothness(self) -> float:
        """L̄, the larger of the private and the epochs' mean smoothness."""
        private = self.private_smoothness
        return max(float(np.max(self.smoothness)), 0.0 if private is None else private)

    def largest_learning_rate(self) -> float:
        """1/(2 n sqrt(10 L̄ max_k L*_k (1 + log K))), up to which the bound holds."""
        growth = 10 * self._mean_smoothness * float(np.max(self.largest_smoothness)) * (1 + math.log(self.epochs))
        return 1 / (2 * self.samples * math.sqrt(growth))

    def _noise_terms(self, published: bool) -> Array:
        eta, n = self.learning_rate, self.samples
        energy = self.dimension * np.square(self.noise)
        if published:
            return np.asarray(6 * eta**2 * n * np.asarray(self.largest_smoothness) * energy)
        if self.end_noise:
            return np.asarray(eta / n * energy)
        return np.asarray((eta + 5 * eta**2 * n * np.asarray(self.smoothness)) * energy)

    def _dissimilarity_terms(self) -> Array:
        eta, n = self.learning_rate, self.samples
        partial = 5 * eta**2 * np.asarray(self.largest_smoothness) * np.asarray(self.partial_dissimilarity)
        if self.beta == 0:
            return np.asarray(partial)
        return np.asarray(np.square(self.total_dissimilarity) / (2 * n**2 * self.beta) + partial)

    def excess_risk_upper_bound(self, *, published: bool = False) -> Bound:
        """Theorem 3.7 (D.14) corrected, or with the published noise term.

        The parts of M are those of the epoch s that maximises their sum.

        Raises
        ------
        ValueError
            ``learning_rate`` exceeds ``largest_learning_rate``.
        """
        self._require_small_steps()
        terms = (self._noise_terms(published), self._dissimilarity_terms())
        noise, other = (np.broadcast_to(term, (self.epochs,)) for term in terms)
        weights = 1 / np.arange(1.0, self.epochs + 1)
        sums = [np.convolve(terms, weights)[: self.epochs] for terms in (noise, other)]
        worst = int(np.argmax(sums[0] + sums[1]))
        return Bound(
            self.distance**2 / (self.learning_rate * self.samples * self.epochs),
            self._shuffling(),
            2 * float(sums[1][worst]),
            2 * float(sums[0][worst]),
        )

    def private_excess_risk_upper_bound(self, *, published: bool = False) -> Bound:
        """Corollary 4.1 (E.1) for DP-ShuffleG, corrected: the same with 1 + log K in place of the harmonic sums."""
        self._require_small_steps()
        if np.any(self._dissimilarity_terms()):
            raise ValueError("the corollary is for runs without public records")
        noise = 2 * float(np.max(self._noise_terms(published))) * (1 + math.log(self.epochs))
        initial = self.distance**2 / (self.learning_rate * self.samples * self.epochs)
        return Bound(initial, self._shuffling(), 0.0, noise)

    def _shuffling(self) -> float:
        steps = 10 * (self.learning_rate * self.samples * self.deviation) ** 2
        return steps * float(np.max(self.smoothness)) * (1 + math.log(self.epochs))

    def _require_small_steps(self) -> None:
        largest = self.largest_learning_rate()
        if self.learning_rate > largest * (1 + 1e-12):
            raise ValueError(f"learning_rate must lie in (0, {largest!r}] for the bound, got {self.learning_rate!r}")
