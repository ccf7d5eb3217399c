"""Convergence of shuffled gradient methods with noise and public data: published bounds and corrected ones.

After K epochs of n steps with learning rate η the excess risk E G(x^{K+1}) − G* is at most

    R²/(η n K) + 10 η² n² s² max_k L_k (1 + log K) + 2 M,    M = max_{s <= K} Σ_{k <= s} e_k/(s + 1 − k),
    e_k = C_k²/(2 n² β) + 5 η² L*_k D_k + (η + 5 η² n L_k) d σ_k²,

where R = ‖x_1 − x*‖, s² is the mean squared gradient of the private losses at x*, L_k and L*_k are the mean and the
largest smoothness of the records of epoch k, σ_k is the noise, and C_k², D_k measure how unlike the public records are
(Theorem 3.7 = D.14 as corrected).  ψ is any closed convex function: the l1 norm and projections need nothing else.  The
corollaries (4.1 = E.1, F.1, D.15, G.4, G.8) replace a sum over k by its largest term times 1 + log m, for m epochs that
have one: its weights are m of the numbers 1, 1/2, 1/3, ….

**The noise.**  The published noise term is false by an unbounded factor, and the additional terms of Theorems G.3 and
G.7 for a non-smooth ψ are not needed (docs/shuffled-gradients-proofs.md).  Noise on the last step of an epoch only
gives (η/n) d σ_k², at the same privacy of an epoch.  Where ψ confines x to a set of diameter δ, δ C_k/n may replace
C_k²/(2 n² β), without β.

Source: Jiang, Sharma, Wu and Joshi, 2026: Theorem 3.7 (D.14), Corollaries 4.1 (E.1), D.15 and F.1, Appendix G.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

RegulariserKind = Literal["smooth", "lasso", "projection"]
REGULARISERS: tuple[str, ...] = get_args(RegulariserKind)
_POSITIVE_INTERVAL = "(0, 1e100]"
_NONNEGATIVE_INTERVAL = "[0, 1e100]"


@record
class ConvergenceBound(Record):
    """A bound of the excess risk by its sources, which ``total`` adds up."""

    initialisation: float
    shuffling: float
    dissimilarity: float
    noise: float

    @property
    def total(self) -> float:
        """The bound."""
        return self.initialisation + self.shuffling + self.dissimilarity + self.noise


@record
class ConvergenceConstants(Record):
    """The constants of a run in the bounds; ``task_constants.convergence_constants`` finds them for a task."""

    _: KW_ONLY
    #: n, K, d >= 1
    samples: int
    epochs: int
    dimension: int
    learning_rate: float  #: η > 0
    distance: float  #: R = ‖x_1 − x*‖ >= 0
    deviation: float  #: s >= 0, root mean squared gradient of the private losses at x*
    noise: ArrayLike  #: σ_k >= 0, a scalar or shape (K,)
    #: L_k and L*_k > 0, a scalar or shape (K,); L_k <= L*_k
    smoothness: ArrayLike
    largest_smoothness: ArrayLike
    private_smoothness: float | None = None  #: mean smoothness L of the private losses; None for the largest L_k
    end_noise: bool = False  #: noise on the last step of an epoch only
    #: c_k = n ‖∇H_k‖ >= 0, a scalar or shape (K,), H_k the mean difference of private and public losses of epoch k
    total_dissimilarity: ArrayLike = 0.0
    partial_dissimilarity: ArrayLike = 0.0  #: D_k = (1/n) Σ_{n_k < i < n} C_i² >= 0, a scalar or shape (K,)
    beta: float = 0.0  #: 0 < β <= μ_ψ − (smoothness of H_k); not needed, and 0, without dissimilarity
    #: δ > 0 of a set that ψ confines x to, which makes β unnecessary; None for none.  The total dissimilarities then
    #: are suprema over that set.
    diameter: float | None = None
    #: ``"smooth"``, ``"lasso"`` or ``"projection"``: which published theorem is meant; the corrected one is for all
    regulariser: RegulariserKind = "smooth"
    size: float = 0.0  #: B >= 0 of Assumption G.1, which the published theorem for ``"lasso"`` uses

    def __post_init__(self) -> None:
        self._check(samples=1, epochs=1, dimension=1, end_noise=bool, regulariser=REGULARISERS)
        self._check(
            learning_rate=_POSITIVE_INTERVAL, diameter=_POSITIVE_INTERVAL, private_smoothness=_POSITIVE_INTERVAL
        )
        self._check(
            distance=_NONNEGATIVE_INTERVAL,
            deviation=_NONNEGATIVE_INTERVAL,
            beta=_NONNEGATIVE_INTERVAL,
            size=_NONNEGATIVE_INTERVAL,
        )
        for name in ("noise", "total_dissimilarity", "partial_dissimilarity", "smoothness", "largest_smoothness"):
            interval = _POSITIVE_INTERVAL if "smoothness" in name else _NONNEGATIVE_INTERVAL
            self._set(**{name: checks.scalar_or_vector(name, getattr(self, name), interval, self.epochs)})
        mean, largest = np.broadcast_arrays(self.smoothness, self.largest_smoothness)
        if (above := mean > largest * (1 + 1e-12)).any():
            raise ValueError(
                f"smoothness must be at most largest_smoothness, got {float(mean[above].flat[0])!r} where that is "
                f"{float(largest[above].flat[0])!r}"
            )
        if np.any(self.total_dissimilarity) and self.beta == 0 and self.diameter is None:
            raise ValueError("beta must be positive where total_dissimilarity is, got 0.0 and no diameter")

    @property
    def _mean_smoothness(self) -> float:
        """L̄, the larger of the private and the epochs' mean smoothness."""
        private = self.private_smoothness
        return max(float(np.max(self.smoothness)), 0.0 if private is None else private)

    def largest_learning_rate(self, *, printed: bool = False) -> float:
        """The largest learning rate of the bounds.

        Returns 1/(2 n sqrt(10 L̄ max_k L*_k (1 + log K))), L̄ the larger of L and max_k L_k; printed G.7 has L̄ + 1 for
        L̄.
        """
        mean = self._mean_smoothness + (printed and self.regulariser == "projection")
        growth = 10 * mean * float(np.max(self.largest_smoothness)) * (1 + math.log(self.epochs))
        return 1 / (2 * self.samples * math.sqrt(growth))

    def epoch_terms(self, *, printed: bool = False) -> tuple[Array, Array]:
        """The addition of an epoch to the bound of its last iterate: the parts of e_k, each of shape () or (K,)."""
        return self._noise_terms(printed), self._dissimilarity_terms(printed)

    def excess_risk_upper_bound(self, *, printed: bool = False) -> ConvergenceBound:
        """The bound of Theorem D.14 corrected, or as published (D.14, G.3, G.7, after ``regulariser``).

        The bound is given by its sources: the parts of M belong to the epoch s that maximises their sum.

        Raises
        ------
        ValueError
            If ``learning_rate`` exceeds ``largest_learning_rate``.
        """
        noise, other = self.epoch_terms(printed=printed)
        if noise.ndim == other.ndim == 0:  # the same in every epoch: s = K, and 1 + 1/2 + … + 1/K
            harmonic = float(digamma(self.epochs + 1) + np.euler_gamma)
            return self._bound(harmonic * float(noise), harmonic * float(other), printed)
        weights = 1 / np.arange(1.0, self.epochs + 1)
        sums = [np.convolve(np.broadcast_to(e, weights.shape), weights)[: self.epochs] for e in (noise, other)]
        worst = int(np.argmax(sums[0] + sums[1]))
        return self._bound(float(sums[0][worst]), float(sums[1][worst]), printed)

    def corollary_upper_bound(self, *, printed: bool = False) -> ConvergenceBound:
        """The bound of Corollaries E.1, D.15, F.1, G.4 and G.8 corrected, or as published.

        Returns the bound by its sources: in M the largest term of e_k times 1 + log m, m the number of epochs that have
        one, for noise and for dissimilarity.

        Raises
        ------
        ValueError
            If ``learning_rate`` exceeds ``largest_learning_rate``.
        """
        noise, other = (self._windowed(terms) for terms in self.epoch_terms(printed=printed))
        return self._bound(noise, other, printed)

    def _windowed(self, terms: Array) -> float:
        count = int(np.count_nonzero(terms)) * (self.epochs if terms.ndim == 0 else 1)
        return float(terms.max()) * (1 + math.log(max(count, 1)))

    def _bound(self, noise: float, dissimilarity: float, printed: bool) -> ConvergenceBound:
        largest = self.largest_learning_rate(printed=printed)
        if self.learning_rate > largest * (1 + 1e-12):
            raise ValueError(f"learning_rate must lie in (0, {largest!r}] for the bound, got {self.learning_rate!r}")
        initial = self.distance**2 / (self.learning_rate * self.samples * self.epochs)
        steps = 10 * (self.learning_rate * self.samples * self.deviation) ** 2
        shuffling = steps * float(np.max(self.smoothness)) * (1 + math.log(self.epochs))
        return ConvergenceBound(initial, shuffling, 2 * dissimilarity, 2 * noise)

    def _noise_terms(self, printed: bool) -> Array:
        eta, n = self.learning_rate, self.samples
        energy = self.dimension * np.square(self.noise)
        if printed:
            added = {"smooth": 0.0, "lasso": 2 * self.size / math.sqrt(2 * math.pi), "projection": 0.5}
            return np.asarray((6 * eta**2 * n * np.asarray(self.largest_smoothness) + added[self.regulariser]) * energy)
        if self.end_noise:
            return np.asarray(eta / n * energy)
        return np.asarray((eta + 5 * eta**2 * n * np.asarray(self.smoothness)) * energy)

    def _dissimilarity_terms(self, printed: bool) -> Array:
        eta = self.learning_rate
        n = self.samples
        total = np.asarray(self.total_dissimilarity)
        vanishing = np.asarray(self.largest_smoothness) * np.asarray(self.partial_dissimilarity)
        if printed and self.regulariser == "projection":
            vanishing = vanishing + np.square(total)
        lasting = np.zeros(())
        if self.diameter is not None and not printed:
            lasting = total * self.diameter / n
        elif self.beta > 0:
            lasting = np.square(total) / (2 * n**2 * self.beta)
        elif np.any(total):
            raise ValueError("beta must be positive for the published bound, got 0.0")
        return np.asarray(lasting + 5 * eta**2 * vanishing)
