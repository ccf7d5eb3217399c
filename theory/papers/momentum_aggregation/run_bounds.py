"""Bounds of E ‖∇F(ŵ)‖ for runs with exactly calibrated noise and any parameters, N and T/N powers of two.

Theorems 6 and 9 fix the parameters and the published noise.  Here the corrected lemmas are put together for any α, η, γ
and number of epochs, with the noise of ``calibration``:

    R/(η T) + L η/2 + 2 (Lemma 11, averaged over the run, + the defect of Lemma 17 + the noise of the momentum)

for a new random order in every epoch.  With N = 2^k and E = 2^j epochs the sums of squared weights have closed forms.
Nodes of at most N steps lie within an epoch.  An example at position p of it is in the prefix node of level b < k if
the binary digit b of p − 1 is 0, and then 2^b − 1 − ((p − 1) mod 2^b) steps before its end.  The largest sum over these
levels is c_0, by the recursion c_b = max(1 + (1 − α)^{2^{b+1}} c_{b+1}, c_{b+1}), c_k = 0, over the digits.  A node of
2^m epochs has at most the weight w_m = 1 + a + … + a^{2^m − 1}, a = (1 − α)^N.  So prefixes of Algorithm 1 have

    U <= c_0 E + Σ_{m=0}^j max(E/2^{m+1}, 1) w_m²,

all nodes of two epochs 2 (k + 1), and the nodes of the others (E − 1)(k + 1).

The variances that reach the momentum of Algorithm 2 are bounded by Σ_i K_i² <= 1/(γ (2 − γ)(1 − a)²), by at most
floor(log2(N + 1)) + floor(log2(N/2 + 1)) nodes in a window (Proposition 18), and by Proposition 16 for prefixes.

Source: H. Tran, A. Cutkosky, Momentum Aggregation for Private Non-convex ERM, NeurIPS 2022: Lemmas 5, 11, 12, 17,
Propositions 16 and 18.
"""

from __future__ import annotations

import math

from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import record
from corrnoise.theory.papers.momentum_aggregation.bounds import (
    BoundedTask,
    descent_upper_bound,
    momentum_error_upper_bound,
)
from corrnoise.theory.papers.momentum_aggregation.reconstruction import defect_bound
from corrnoise.theory.papers.momentum_aggregation.trees import largest_decoder_variance

_MAX_EXAMPLES = 2**40  #: examples
_MIN_ALPHA = 2.0**-50  #: of α
_MAX_HEIGHT = 59  #: of prefixes whose variance counts: for α above the least one longer nodes add less than e^{−1000}


@record
class DyadicTask(BoundedTask):
    """A task of N = 2^k examples, 1 <= k <= 40."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.examples.bit_count() != 1 or self.examples > _MAX_EXAMPLES:
            raise ValueError(f"examples must be a power of two of at most 2^40, got {self.examples}")

    @property
    def log2_examples(self) -> int:
        """K."""
        return self.examples.bit_length() - 1

    def _forgotten(self, alpha: float) -> float:
        """1 − a."""
        return 1.0 if alpha == 1.0 else -math.expm1(self.examples * math.log1p(-alpha))

    def _unit(self) -> float:
        """c/sqrt(2ρ), the noise for a sensitivity of 1."""
        return self.budget.multiplier(1.0)

    def _without_noise(self, steps: float, alpha: float, learning_rate: float) -> float:
        """Lemma 11, averaged over the run: its last term becomes (1 − α)(1 − (1 − α)^T) G/(α T)."""
        first = momentum_error_upper_bound(
            1,
            examples=self.examples,
            alpha=alpha,
            learning_rate=learning_rate,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
        )
        return first - (1 - alpha) * self.lipschitz * (1 - 1 / (alpha * steps))

    def _bound(self, steps: float, learning_rate: float, mean_error: float) -> float:
        """Lemma 5 for a number of steps that may be beyond integers."""
        return descent_upper_bound(
            decrease=self.initial_error / steps,
            smoothness=self.smoothness,
            learning_rate=learning_rate,
            steps=1,
            mean_error=mean_error,
        )

    def prefix_weights(self, log2_epochs: int, alpha: float) -> float:
        """Upper bound of U of Algorithm 1, j >= 0 and 0 < α <= 1; at most twice the exact value where computed."""
        decay = 1 - self._forgotten(alpha)
        epochs = 2.0**log2_epochs
        within = 0.0
        for level in reversed(range(self.log2_examples)):
            within = max(1 + power(alpha, 2 << level) * within, within)
        total = within * epochs
        weight = 1.0
        for m in range(log2_epochs + 1):
            total += max(epochs / 2.0 ** (m + 1), 1.0) * weight**2
            weight *= 1 + decay
            decay *= decay
        return total

    def algorithm_1(self, *, log2_epochs: int, alpha: float, learning_rate: float) -> float:
        """Bound of Algorithm 1 with exactly calibrated tree noise, j = ``log2_epochs``."""
        j, alpha = self._checked(log2_epochs, alpha)
        length = checks.real("learning_rate", learning_rate, "(0, inf)")
        steps = 2.0 ** (j + self.log2_examples)
        std = self._unit() * self.lipschitz * alpha * math.sqrt(self.prefix_weights(j, alpha))
        noise = std * math.sqrt(self.dimension * self._prefix_variance(j, alpha))
        return self._bound(steps, length, self._without_noise(steps, alpha, length) + noise)

    def algorithm_2(self, *, log2_epochs: int, alpha: float, learning_rate: float, gamma: float) -> float:
        """Bound of Algorithm 2' with its exactly calibrated noise, for 0 < γ < 1; others as for ``algorithm_1``."""
        j, alpha = self._checked(log2_epochs, alpha)
        length = checks.real("learning_rate", learning_rate, "(0, inf)")
        gamma = checks.real("gamma", gamma, "(0, 1)")
        epochs = 2.0**j
        steps = epochs * self.examples
        forgotten = self._forgotten(alpha)
        levels = self.log2_examples + 1
        drift = self.smoothness * length
        windows = math.floor(math.log2(self.examples + 1)) + math.floor(math.log2(self.examples / 2 + 1))
        held = windows / (gamma * (2 - gamma) * forgotten**2)
        prefixes = self._prefix_variance(j, alpha)
        trees = (
            (self.lipschitz, min(epochs, 2) * levels, (prefixes / (forgotten * (2 - forgotten)) + held) / epochs),
            (
                (1 - gamma) * drift * self.examples + gamma * self.lipschitz,
                (epochs - 1) * levels,
                held if epochs > 1 else 0.0,
            ),
            (drift * (self.examples - 1), self.prefix_weights(j, alpha), prefixes),
        )
        root = sum(change * math.sqrt(weights * variance) for change, weights, variance in trees)
        noise = self._unit() * alpha * math.sqrt(self.dimension) * root
        defect = math.sqrt(alpha) * defect_bound(
            examples=self.examples,
            alpha=alpha,
            gamma=gamma,
            lipschitz=self.lipschitz,
            smoothness=self.smoothness,
            learning_rate=length,
        )
        return self._bound(steps, length, self._without_noise(steps, alpha, length) + defect + noise)

    def _checked(self, log2_epochs: int, alpha: float) -> tuple[int, float]:
        j = checks.integer("log2_epochs", log2_epochs, 0, largest=1000 - self.log2_examples)
        return j, checks.real("alpha", alpha, f"[{_MIN_ALPHA!r}, 1]")

    def _prefix_variance(self, log2_epochs: int, alpha: float) -> float:
        """Proposition 16."""
        return largest_decoder_variance(1 << min(log2_epochs + self.log2_examples, _MAX_HEIGHT), alpha)
