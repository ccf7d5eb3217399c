"""One epoch of private and public steps on quadratic losses in one dimension, for the lemmas of Appendix D."""

import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np

from corrnoise.paper_checks.machinery.domains import Axis
from corrnoise.theory.numerics.checks import Array

MOST = 4


@dataclass(frozen=True)
class Epoch:
    """One epoch on losses a_i (x − b_i)²/2, the first ``private`` of them private, ψ = (μ/2) x²."""

    curvatures: Array
    optima: Array
    public_curvatures: Array
    public_optima: Array
    private: int
    convexity: float
    share: float  #: of the largest learning rate
    noise: Array
    start: float
    point: float

    def __repr__(self) -> str:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {name: np.round(v, 6).tolist() if isinstance(v, np.ndarray) else v for name, v in values.items()}
        return f"Epoch({', '.join(f'{name}={value}' for name, value in shown.items())})"

    @property
    def n(self) -> int:
        return self.curvatures.size

    @cached_property
    def steps(self) -> tuple[Array, Array]:
        """Curvatures and optima in the order of the steps."""
        count = self.n - self.private
        return (
            np.concatenate([self.curvatures[: self.private], self.public_curvatures[:count]]),
            np.concatenate([self.optima[: self.private], self.public_optima[:count]]),
        )

    @cached_property
    def smoothness(self) -> tuple[float, float, float]:
        """L, and the mean and the largest smoothness of the epoch."""
        a, _ = self.steps
        return float(self.curvatures.mean()), float(a.mean()), float(a.max())

    @cached_property
    def rate(self) -> float:
        _, mean, largest = self.smoothness
        return self.share / (self.n * math.sqrt(10 * mean * largest))

    @property
    def minimiser(self) -> float:
        """x* of F + ψ."""
        return float((self.curvatures * self.optima).mean() / (self.curvatures.mean() + self.convexity))

    def objective(self, x: float) -> float:
        return float((self.curvatures * (x - self.optima) ** 2).mean() / 2 + self.convexity * x * x / 2)

    def path(self, noise: Array) -> tuple[Array, float]:
        """Iterates before each step, and the one after the proximal step."""
        a, b = self.steps
        rate = self.rate
        x = self.start
        iterates = []
        for i in range(self.n):
            iterates.append(x)
            x -= rate * (a[i] * (x - b[i]) + noise[i])
        return np.array(iterates), x / (1 + rate * self.n * self.convexity)

    def difference(self, x: float) -> float:
        """H(x), the mean of private less public losses over the public steps."""
        a, b = self.steps
        rest = slice(self.private, self.n)
        private = self.curvatures[rest] * (x - self.optima[rest]) ** 2
        return float((private - a[rest] * (x - b[rest]) ** 2).sum() / (2 * self.n))

    def dissimilarities(self, z: float) -> Array:
        """|Σ_{j <= i} (∇f_j(z) − ∇f̃_j(z))| for the public steps i."""
        a, b = self.steps
        rest = slice(self.private, self.n)
        return np.abs(np.cumsum(self.curvatures[rest] * (z - self.optima[rest]) - a[rest] * (z - b[rest])))

    def uncertainty(self) -> float:
        """5 η² (1/n) Σ L_i |Σ_{j < i} ∇f_j(x*)|²."""
        return self.drift(self.curvatures * (self.minimiser - self.optima))

    def drift(self, steps: Array) -> float:
        """5 η² (1/n) Σ L_i |Σ_{j < i} ``steps``_j|²."""
        before = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
        return float(5 * self.rate**2 * (self.steps[0] * before**2).mean())

    def bregman(self) -> float:
        """10 η² n² L̂ L B_F(z, x*)."""
        private, mean, _ = self.smoothness
        return 10 * self.rate**2 * self.n**2 * mean * private * private * (self.point - self.minimiser) ** 2 / 2

    def vanishing(self, literal: bool = False) -> float:
        """5 η² L* (1/n) Σ_{n_d < i < n} |…|²; ``literal``: with the index f̃_i inside the sum over j < i."""
        terms = self.dissimilarities(self.point)[:-1]
        if literal:
            z = self.point
            rest = slice(self.private, self.n)
            count = self.n - self.private
            private = np.cumsum(self.curvatures[rest] * (z - self.optima[rest]))[:-1]
            public = self.public_curvatures[:count] * (z - self.public_optima[:count])
            terms = np.arange(1, count) * public[1:] - private
        return float(5 * self.rate**2 * self.smoothness[2] * (terms**2).sum() / self.n)


def _epoch(u: Array, _: object) -> Epoch:
    values = np.asarray(u, dtype=float)
    n = 1 + min(int(values[0] * MOST), MOST - 1)
    rest = values[6:].reshape(6, MOST)[:, :n]
    return Epoch(
        10.0 ** (-3 * rest[0]),
        4 * rest[1] - 2,
        10.0 ** (-3 * rest[2]),
        4 * rest[3] - 2,
        min(int(values[1] * (n + 1)), n),
        2 * values[2],
        max(values[3], 1e-3),
        4 * rest[4] - 2,
        4 * values[4] - 2,
        4 * values[5] - 2,
    )


EPOCH = {"epoch": Axis(6 + 6 * MOST, _epoch, f"one epoch of up to {MOST} steps, η up to its limit")}


def _varied_epoch(u: Array, _: object) -> Epoch:
    """An epoch with any curvatures and any convexity of ψ.  At the corners of the cube the losses of its steps differ."""
    values = np.asarray(u, dtype=float)
    one = _epoch(values[2:], None)
    unit = 10.0 ** (6 * values[0] - 3)
    signs = (-1.0) ** np.arange(one.n)
    growth = 2.0 ** np.arange(one.n)
    return replace(
        one,
        curvatures=unit * growth * one.curvatures,
        optima=signs * one.optima,
        public_curvatures=4 * unit * growth * one.public_curvatures,
        public_optima=-signs * one.public_optima,
        noise=unit * signs * one.noise,
        convexity=unit * one.convexity * 10.0 ** (4 * values[1] - 1),
        share=0.01 ** (1 - one.share),
    )


VARIED = {
    "epoch": Axis(8 + 6 * MOST, _varied_epoch, f"one epoch of up to {MOST} steps, of any curvatures, η up to its limit")
}


def causes(epoch: Epoch) -> list[Epoch]:
    """Epochs where one part of the bound alone moves the iterates, if z is the last of them.

    The parts are the gradients at x*, the distance of z from x*, public gradients that differ from the private ones, and
    the noise.  The last iterate is x* in the first and third epoch.  In all but the first the private losses have one
    minimiser.  In the third all steps are public, elsewhere the last one.  A public loss has the curvature of the private
    one in its place, so that nothing is lost where the bound replaces their difference H.
    """
    n = epoch.n
    alike = np.append(epoch.curvatures[:-1], epoch.public_curvatures[0])
    quiet = replace(epoch, curvatures=alike, noise=np.zeros(n), private=n - 1)
    ends = [replace(quiet, start=start).path(quiet.noise)[0][-1] for start in (0.0, 1.0)]
    at_best = replace(quiet, start=float((quiet.minimiser - ends[0]) / (ends[1] - ends[0])))
    common = replace(quiet, optima=np.full(n, epoch.public_optima[0]), convexity=0.0)
    settled = replace(quiet, optima=np.full(n, epoch.start), convexity=0.0)
    public = replace(settled, curvatures=epoch.public_curvatures, private=0)
    public = replace(public, optima=np.full(n, public.path(public.noise)[0][-1]))
    return [at_best, common, public, replace(settled, noise=epoch.noise)]


def there_and_back(epoch: Epoch, beyond: float) -> Epoch:
    """The epoch with its last step public, and with the minimum of that loss where x⁺ is back at the start, or ``beyond``.

    The iterates then are far from x⁺, so the bound needs room for it, and x⁺ is near the start.
    """
    private = min(epoch.private, epoch.n - 1)
    epoch = replace(epoch, private=private)
    iterates, _ = epoch.path(epoch.noise)
    last = iterates[-1]
    end = (epoch.start + beyond * (epoch.start - last)) * (1 + epoch.rate * epoch.n * epoch.convexity)
    optima = epoch.public_optima.copy()
    optima[epoch.n - private - 1] = last + ((end - last) / epoch.rate + epoch.noise[-1]) / epoch.steps[0][-1]
    return replace(epoch, public_optima=optima)


def varied(epoch: Epoch, beyond: float) -> list[Epoch]:
    """The epoch, and others like it, each with need of a term of the bound: there z is the last iterate before x⁺."""
    if epoch.n == 1:
        return [epoch]
    others = [there_and_back(one, beyond) for one in (epoch, *causes(epoch))]
    found = [epoch, others[0]]
    for one in others:
        iterates, _ = one.path(one.noise)
        found.append(replace(one, point=float(iterates[-1])))
    return [*found, *(replace(one, point=one.minimiser) for one in (others[0], others[2]))]
