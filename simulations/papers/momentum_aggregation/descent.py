"""The loops: normalised descent along a momentum (Algorithm 1) and along the reduced momentum (Algorithm 2').

Step t uses one example.  The momentum with noise m̂_t gives w_{t+1} = w_t − η m̂_t/‖m̂_t‖, and a momentum of 0 gives no
step.  The noise does not depend on the data and comes from outside.  The noise of ``methods`` makes a run
private.

A run has *settings* (learning rates, budgets, …) and *repetitions* (orders and noise).  All are computed together:
points have the shape (settings, repetitions, d).  Repetition k has the same order, noise and start in every setting, so
that differences between settings are paired.

The gradient of the regulariser is added exactly: clipping and noise are for the examples' part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.papers.momentum_aggregation.tree_noise import ReducedTrees
from corrnoise.support.memory import fits_into_memory
from corrnoise.support.progress import progress_line
from corrnoise.theory.losses import EmpiricalRisk, SmoothLoss
from corrnoise.theory.mechanisms.tree_orders import power
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.participation import FixedEpochs, Participation

Orders = NDArray[np.int64]
Step = Callable[[int, Array], Array]  #: w_{t+1} from t and w_t

_NORM_ROUNDING = 1e-12  # relative excess of a gradient over its bound that rounding explains


class Trajectories(NamedTuple):
    """Iterates of all settings and repetitions."""

    #: t of the recorded iterates w_t: spread evenly over 1, …, T, and last T + 1; shape (records + 1,)
    steps: NDArray[np.int64]
    points: Array  #: these iterates, shape (records + 1, …, repetitions, d), with the shape of the settings between

    def gradient_norms(self, risk: EmpiricalRisk) -> Array:
        """‖∇F(w_t)‖, shape (records + 1, …, repetitions).

        The mean over all but the last is near the mean of an iterate drawn from w_1, …, w_T, which theorems bound.
        """
        return np.stack([np.linalg.norm(risk.gradients(points), axis=-1) for points in self.points])


def draw_orders(participation: Participation, repetitions: int, rng: np.random.Generator) -> Orders:
    """The example of each step, shape (steps, repetitions): a permutation an epoch, or one for all fixed epochs."""
    steps = participation.length
    examples = participation.worst.period
    epochs = -(-steps // examples)
    drawn = 1 if isinstance(participation.worst, FixedEpochs) else epochs
    found = [rng.permuted(np.tile(np.arange(examples), (repetitions, 1)), axis=1).T for _ in range(drawn)]
    return np.concatenate(found * (epochs // drawn))[:steps]


def recorded_steps(steps: int, records: int) -> NDArray[np.int64]:
    """The middles of ``records`` equal parts of 1, …, T, and T + 1."""
    middles = np.ceil((np.arange(records) + 0.5) * steps / records).astype(np.int64)
    return np.append(np.unique(middles), steps + 1)


def clipped_gradients(loss: SmoothLoss, points: Array, examples: Array, clip_norm: float) -> Array:
    """Gradients at ``points``, each scaled down to the norm ``clip_norm`` if it is longer; ``inf`` for none.

    Clipping projects onto a ball, so that clipped gradients are as smooth as the others.
    """
    gradients = loss.gradients(points, examples)
    if clip_norm == math.inf:
        return gradients
    return shortened(gradients, clip_norm, _NORM_ROUNDING if clip_norm >= loss.lipschitz else 0.0)


def shortened(vectors: Array, longest: Array | float, rounding: float) -> Array:
    """Vectors, scaled down to the norm ``longest`` if they are longer by more than rounding; 0 if they are not finite.

    The others keep their bits.
    """
    norms = _norms(vectors)
    finite = np.isfinite(norms)
    factors = np.where(norms > longest * (1 + rounding), longest / np.maximum(norms, 1e-300), 1.0)
    return np.where(finite, np.where(finite, vectors, 0.0) * factors, 0.0)


def _norms(vectors: Array) -> Array:
    return np.sqrt(np.einsum("...d,...d->...", vectors, vectors))[..., np.newaxis]


def direction(vectors: Array) -> Array:
    """Vectors divided by their lengths; 0 stays 0."""
    norms = _norms(vectors)
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0))


def run_steps(
    step: Step,
    start: Array,
    steps: int,
    records: int,
    *,
    name: str,
    progress: bool | None = False,
) -> Trajectories:
    """Iterate w_{t+1} = step(t, w_t) from w_1 = ``start`` and record; iterates must be finite."""
    times = recorded_steps(steps, records)
    points = np.empty((len(times), *start.shape))
    w = start
    kept = 0
    with progress_line(progress) as show:
        for t in range(1, steps + 1):
            if t == times[kept]:
                points[kept] = w
                kept += 1
                show(f"{name}: step", t, steps)
            w = step(t, w)
    points[kept] = w
    if not np.isfinite(points).all():
        raise FloatingPointError(f"{name}: an iterate is not finite, the learning rate may be too large")
    return Trajectories(times, points)


def momentum_step(
    risk: EmpiricalRisk,
    orders: Orders,
    *,
    alpha: float,
    lengths: Array,
    noise: Iterator[Array] | None,
    scales: Array,
    clip_norm: float = math.inf,
) -> Step:
    """One step of Algorithm 1: m_t = (1 − α) m_{t−1} + α ∇f(w_t; x_t), m_0 = 0, and m̂_t = m_t + scale × n_t.

    ``orders`` has the example of each step, shape (steps, repetitions).  The ``lengths`` η and the scales have the
    shape (settings, 1, 1), the noise n_t (repetitions, d).
    """
    momentum: Array | float = 0.0

    def step(t: int, w: Array) -> Array:
        nonlocal momentum
        gradients = clipped_gradients(risk.loss, w, risk.examples[orders[t - 1]], clip_norm)
        momentum = (1 - alpha) * momentum + alpha * (gradients + risk.regulariser_gradients(w))
        noisy = momentum if noise is None else momentum + scales * next(noise)
        return w - lengths * direction(noisy)

    return step


@dataclass(eq=False)
class ReducedMomentumSteps:
    """The steps of Algorithm 2', which reads Lemma 17 as a recursion over epochs.

    With u_q the first point of epoch q the leaves are G_t = ∇f(u_q; x_t), D_t = G_t − ∇f(u_{q−1}; x_t) and
    r_t = ∇f(w_t; x_t) − G_t.  With a = (1 − α)^N and noisy sums over windows

        t < N:         M_t = G_[1, t]
        N <= t < 2N:   H_t = G_[t−N+1, t]
        t >= 2N:       H_t = (1 − γ) H_{t−N} + ((1 − γ) D + γ G)_[t−N+1, t]
        t >= N:        M_t = a M_{t−N} + H_t,    M_0 = 0,

    and m̂_t = α (M_t + r_[1, t]).  A sum over a window is S_t − a S_{t−N} with the running sums S of the leaves.
    The last N steps of S, H and M are kept.

    There are at least two examples.  The noise rests on the ``smoothness`` L: gradients of an example that differ by
    more than L times the distance of their points are moved together, which changes nothing for a loss that is as
    smooth as it says.
    """

    risk: EmpiricalRisk
    orders: Orders  #: the example of each step, shape (steps, repetitions)
    alpha: float
    gammas: Array
    lengths: Array
    noise: ReducedTrees | None = None
    clip_norm: float = math.inf
    smoothness: float = math.inf

    def __post_init__(self) -> None:
        self.examples = len(self.risk.examples)
        shape = (max(len(self.gammas), len(self.lengths)), self.orders.shape[1], self.risk.loss.dimension)
        fits_into_memory("settings and repetitions", shape[:2], 24 * self.examples * math.prod(shape))
        self.first = self.previous = np.zeros(shape)  # u_q and u_{q−1}
        self.running = np.zeros(shape)  # S of G in the first epoch, and of the combined leaves later
        self.gradients = np.zeros(shape)  # S of G, in the first two epochs
        self.remainders = np.zeros(shape)
        self.past, self.held, self.sums = (np.zeros((self.examples, *shape)) for _ in range(3))

    def _gradients(self, points: Array, t: int) -> Array:
        """Gradients of the example of step t, without the regulariser."""
        return clipped_gradients(self.risk.loss, points, self.risk.examples[self.orders[t - 1]], self.clip_norm)

    def _gradients_near(self, leaf: Array, points: Array, t: int) -> Array:
        """The same, which differ from ``leaf``, those at u_q, by no more than the smoothness allows."""
        gradients = self._gradients(points, t)
        if self.smoothness == math.inf:
            return gradients
        difference = gradients - leaf
        longest = self.smoothness * _norms(points - self.first) + _NORM_ROUNDING * self.clip_norm
        allowed = shortened(difference, longest, _NORM_ROUNDING)
        return np.where((allowed == difference).all(axis=-1, keepdims=True), gradients, leaf + allowed)

    def __call__(self, t: int, w: Array) -> Array:
        """w_{t+1}."""
        if (t - 1) % self.examples == 0:
            self.previous = self.first
            self.first = w
        if self.noise is not None:
            self.noise.advance()
        part = self._gradients(self.first, t)
        leaf = part + self.risk.regulariser_gradients(self.first)
        now = self._gradients_near(part, w, t) + self.risk.regulariser_gradients(w)
        self.remainders = (1 - self.alpha) * self.remainders + (now - leaf)
        before = None
        if t > self.examples:
            before = self._gradients_near(part, self.previous, t) + self.risk.regulariser_gradients(self.previous)
        total = self._sum(t, leaf, before) + self.remainders
        if self.noise is not None:
            total = total + self.noise.remainders()
        return w - self.lengths * direction(self.alpha * total)

    def _sum(self, t: int, leaf: Array, before: Array | None) -> Array:
        """M_t, from G_t and, after the first epoch, ∇f(u_{q−1}; x_t)."""
        n = self.examples
        place = t % n  # this place holds step t − N
        decay = power(self.alpha, n)
        if t < 2 * n:
            self.gradients = (1 - self.alpha) * self.gradients + leaf
        if before is not None:
            change = leaf - (1 - self.gammas) * before
            self.running = (1 - self.alpha) * self.running + change
        noise = self.noise
        if t < n:
            sums = self.gradients + (0.0 if noise is None else noise.gradients(1))
        else:
            if t < 2 * n:
                held = self.gradients - decay * self.past[place]
                held = held + (0.0 if noise is None else noise.gradients(t - n + 1))
            else:
                window = self.running - decay * self.past[place]
                window = window + (0.0 if noise is None else noise.combined(t - n + 1))
                held = (1 - self.gammas) * self.held[place] + window
            sums = decay * self.sums[place] + held
            self.held[place] = held
        self.past[place] = self.gradients if t < n else self.running
        self.sums[place] = sums
        return np.asarray(sums)
