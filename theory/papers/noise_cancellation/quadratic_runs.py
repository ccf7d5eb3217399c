"""Exact excess losses of runs on quadratic losses whose iterates stay inside the set.

The losses are f_i(x; z) = (h/2) ‖x − x*‖² + ⟨ζ, x⟩, 0 < h <= L, where ζ has mean 0 over machines and examples.  Their
gradients are h (x − x*) + ζ, so that σ_L = ξ_L = 0, and the server's estimate is

    q̃_t = t h (x_t − x*) + Z_t + Y_t,

with Z_t the sum of t independent means over m of M machines, each of variance (σ² + ξ² (M−m)/(M−1))/m, and Y_t the
noise.  While no projection is active the run is linear,

    x_T − x* = r_0 (x_1 − x*) + Σ_{t<T} r_t (Z_t + Y_t),

and E f(x_T) − f(x*) = (h/2) E ‖x_T − x*‖² follows from the covariances over time.  Those of the noise of a machine that
takes back the share a of its last noise are E⟨Y_s, Y_t⟩ = (1 − pa)^{t−s} E ‖Y_s‖² for s <= t: between s and t it takes
part with probability p in each round.  Machines draw their noise independently, so that only their number matters.

Only means and independence are used, so that all of this is exact for bounded noise of the same variance, too, for
which ``reach`` says whether a projection can be active.
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.float_errors import usual_float_errors
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.papers.noise_cancellation.bounds import FederatedRun, sampling_variance
from corrnoise.theory.papers.noise_cancellation.cancelling import cancelling_parameters


@record
class QuadraticExcess(Record):
    """An excess loss by its sources, which ``total`` adds up."""

    #: contributions of the distance of the first point, of the samples and of the noise
    start: float
    sampling: float
    noise: float

    @property
    def total(self) -> float:
        """The excess loss."""
        return self.start + self.sampling + self.noise


@record
class QuadraticRun(Record):
    """T rounds of the algorithm at the learning rate η on quadratic losses of curvature h, without projection."""

    rounds: int  #: T >= 1
    learning_rate: float  #: η in (0, 1e100]
    curvature: float  #: h in [0, 1e100], with η h T² <= 1e6

    def __post_init__(self) -> None:
        self._check(rounds=1, learning_rate="(0, 1e100]", curvature="[0, 1e100]")
        if not self.learning_rate * self.curvature * self.rounds**2 <= 1e6:
            raise ValueError(
                f"learning_rate must be at most 1e6/(curvature rounds²) = {1e6 / self.curvature / self.rounds**2!r}, "
                f"got {self.learning_rate!r}"
            )

    def responses(self) -> Array:
        """r_0 of the first point and r_1, …, r_{T−1} of what q̃_t carries, shape (T,); backwards from x_T, O(T)."""
        found = np.empty(self.rounds)
        of_w = 0.0
        of_x = 1.0
        for t in range(self.rounds - 1, 0, -1):
            share = 2 / (t + 2)
            of_w += share * of_x
            found[t] = -self.learning_rate * of_w
            of_x = (1 - share) * of_x + t * self.curvature * found[t]
        found[0] = of_w + of_x
        return found

    def reach(self, start: float, sizes: ArrayLike) -> float:
        """The largest ‖w_t − x*‖, t = 1, …, T, in O(T²).

        ‖x_1 − x*‖ is ``start``, and ‖Z_t + Y_t‖ at most ``sizes``, shape (T − 1,).
        """
        steps = self.rounds - 1
        bounds = np.concatenate(
            [[checks.real("start", start, "[0, 1e100]")], checks.shaped("sizes", sizes, (steps,), "[0, 1e100]")]
        )
        w = np.zeros(self.rounds)
        w[0] = 1.0
        x = w.copy()
        largest = float(bounds[0])
        for t in range(1, self.rounds):
            w = w - self.learning_rate * t * self.curvature * x
            w[t] -= self.learning_rate
            x = x + 2 / (t + 2) * (w - x)
            largest = max(largest, float(np.abs(w) @ bounds))
        return largest

    def excess(self, run: FederatedRun, start: float, noise: float) -> QuadraticExcess:
        """The value for a run whose noise contributes ``noise`` to E ‖x_T − x*‖²."""
        r = self.responses()
        if run.rounds != self.rounds:
            raise ValueError(f"run must have {self.rounds} rounds, got {run.rounds}")
        if run.deviation is None or run.heterogeneity is None:
            raise ValueError("run must have a deviation and a heterogeneity, which are exact here, got None")
        each = sampling_variance(run.deviation, run.heterogeneity, machines=run.machines, participants=run.participants)
        later = np.cumsum(r[:0:-1])  # of the sample of a round, which stays in all later estimates
        half = self.curvature / 2
        distance = checks.real("start", start, "[0, 1e50]")
        return QuadraticExcess(
            start=half * (float(r[0]) * distance) ** 2,
            sampling=half * each * float(np.square(later).sum()),
            noise=half * float(noise),
        )


@usual_float_errors
def cancelling_excess(
    run: FederatedRun,
    noise: Mechanism,
    scale: float,
    *,
    learning_rate: float,
    curvature: float,
    start: float,
) -> QuadraticExcess:
    """The exact excess loss of Algorithm 1 on quadratic losses while no projection is active.

    Parameters
    ----------
    run : FederatedRun
        The run; its deviation and heterogeneity are σ and ξ of ζ.
    noise : Mechanism
        A ``cancelling_noise``.
    scale : float
        Standard deviation of the independent noise of a machine.
    learning_rate : float
        η > 0.
    curvature : float
        The second derivative of the losses, > 0.
    start : float
        ‖x_1 − x*‖.

    Returns
    -------
    QuadraticExcess
    """
    kept = 1 - run.probability * cancelling_parameters(noise)[0]
    quadratic = QuadraticRun(run.rounds, learning_rate, _curvature(run, curvature))
    r = quadratic.responses()
    variances = run.server_variances(noise, scale)
    total = 0.0
    later = 0.0  # Σ_{t>s} r_t kept^{t−s}
    for s in range(run.rounds - 1, 0, -1):
        total += variances[s - 1] * r[s] * (r[s] + 2 * later)
        later = kept * (r[s] + later)
    return quadratic.excess(run, start, run.dimension * total)


def trusted_excess(run: FederatedRun, *, learning_rate: float, curvature: float, start: float) -> QuadraticExcess:
    """The exact excess loss of Algorithm 2 with the noise of Theorem F.2; parameters as of ``cancelling_excess``."""
    quadratic = QuadraticRun(run.rounds, learning_rate, _curvature(run, curvature))
    spread = float(np.square(quadratic.responses()[1:]).sum())
    return quadratic.excess(run, start, run.dimension * run.trusted_std() ** 2 * spread)


def _curvature(run: FederatedRun, curvature: float) -> float:
    return checks.real("curvature", curvature, f"[0, {run.family.smoothness!r}]")


def largest_noise(run: FederatedRun, noise: Mechanism, scale: float) -> Array:
    """Bounds of |Y_t|, t = 1, …, T − 1, for noise ±σ of the same variances in one dimension, shape (T − 1,).

    Every machine holds at most (1 + (1 − a) + …) times the largest of its draws, at most t so far.
    """
    share, growth = cancelling_parameters(noise)
    t = np.arange(1.0, run.rounds)
    held = np.minimum(t, 1 / share if share else math.inf)
    return scale * run.machines / run.participants * held * t ** (growth / 2)
