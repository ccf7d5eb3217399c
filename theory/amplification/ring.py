"""The ring law: Λ for Gram matrices H = s J + D 1 + Σ_k a_k R(λ_k) with R(λ)_ij = λ^d + λ^{b−d}, d = |i − j|.

R(λ)/(1 − λ^b) is the covariance of an autoregressive sequence that closes to a ring.  So Λ without the shared factor is
a mean over the ring of exp(Σ_k α_k x_k − v/2) L, α_k² = a_k(1 − λ_k^b), v = Σ a_k(1 + λ_k^b), with independent
lognormal L of mean 1 and parameter D.  Given the states x its sites are independent, hence

    E e^{−uΛ} = Z(u) = Π_k (1 − λ_k^b) tr (K Φ_u)^b,

where K is a product of Mehler's kernels and Φ_u multiplies by φ_u(x) = E exp(−(u/b) e^{Σα_k x_k − v/2} L).  Prices
E(K − Λ)₊ are sums of Z over equally spaced nodes u of a vertical line; see ``docs/amplification-proofs.md``.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.amplification.curve import Direction
from corrnoise.theory.amplification.laws import lognormal
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

LARGEST_RATE = 0.99  #: λ; the lattice of states grows with it
_COMPONENTS = 2  #: of a ring; an unused one has a = λ = 0
_LATTICE_LEVEL = 40.0  #: ℓ: the lattices of states and of L have relative errors of e^{−ℓ}
_CUT_MASS = 1e-15  #: of states beyond the lattice
_MAX_TURN = 2.0  #: of the line of integration of L, in standard deviations of its logarithm
_LATTICE_RATIO = 3  #: steps of the common lattice in the smallest of the steps
_MIN_EIGENVALUE = 1e-16  #: of modes
_SMALL_AMPLITUDE = 1e-5  #: of modes that are left out
_FEW_MODES = 130  #: that are never reduced
_SHARED_NODES = 400  #: of the law of the shared factor
_SHARED_DEVIATIONS = 4.0  #: of the shared factor, in the largest strike
_PERIODS, _DAMPING = 2.0, 6.0  #: the period L of a sum over the largest strike, and c L
_NEGLIGIBLE_TERM = 1e-16
_MAX_NODES = 4000


@record
class RingLaw(Record):
    """The matrix s J + D 1 + Σ_k a_k R(λ_k) of the bins of a ring.

    Parameters
    ----------
    bins : int
        b >= 2.
    shared, own : float
        s >= 0 and D > 0.
    amplitudes, rates : tuple of float
        a_k >= 0 and λ_k in [0, 0.99], at most two of each.
    """

    bins: int
    shared: float
    own: float
    amplitudes: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self._check(bins=2, shared="[0, inf)", own="(0, inf)")
        if len(self.amplitudes) != len(self.rates) or len(self.rates) > _COMPONENTS:
            raise ValueError(
                f"amplitudes and rates must be equally many, at most {_COMPONENTS}, "
                f"got {len(self.amplitudes)} and {len(self.rates)}"
            )
        if not all(a >= 0 for a in self.amplitudes) or not all(0 <= rate <= LARGEST_RATE for rate in self.rates):
            raise ValueError(
                f"amplitudes must be >= 0, rates in [0, {LARGEST_RATE}], got {self.amplitudes} and {self.rates}"
            )

    def row(self) -> Array:
        """The entries at the distances 0, …, b − 1."""
        d = np.arange(self.bins)
        row = np.full(self.bins, self.shared)
        for a, rate in zip(self.amplitudes, self.rates, strict=True):
            row += a * (rate**d + rate ** (self.bins - d))
        row[0] += self.own
        return row

    def scaled(self, factor: float) -> RingLaw:
        """The matrix times ``factor`` > 0."""
        amplitudes = tuple(a * factor for a in self.amplitudes)
        return RingLaw(self.bins, self.shared * factor, self.own * factor, amplitudes, self.rates)

    def estimate(self, epsilon: float, direction: Direction) -> float:
        """Approximate δ(ε), without a certificate.

        Parameters
        ----------
        epsilon : float
            ε >= 0.
        direction : {"remove", "add"}
            ``"remove"`` or ``"add"``.

        Returns
        -------
        float
        """
        return _prices(self, epsilon).delta(direction)


# -- sites -------------------------------------------------------------------------------------------------------------


@record
class _Sites(Record):
    """Lattices of the states x_1, x_2, their kernels in modes, and φ_u on them.

    The steps of α_1 x_1, α_2 x_2 and of the logarithm of L are multiples of one step, so that φ_u needs exponentials on
    one lattice only.
    """

    ring: RingLaw

    @cached_property
    def components(self) -> tuple[Array, Array]:
        """The amplitudes a and the rates λ of two components."""
        missing = (0.0,) * (_COMPONENTS - len(self.ring.rates))
        return np.array((*self.ring.amplitudes, *missing)), np.array((*self.ring.rates, *missing))

    @cached_property
    def _lattice(self) -> tuple[float, float, int, list[float], list[int], list[int]]:
        """The common step, the step of z and its multiple, and steps, multiples and half sizes of the states."""
        (a, rates), b, own = self.components, self.ring.bins, self.ring.own
        wrapped = rates**b
        alphas = np.sqrt(a * (1 - wrapped))
        scale = 1 / np.sqrt((1 + rates**2) / (1 - rates**2) + alphas**2 / own)  # τ'
        largest = math.pi * math.sqrt(2 / _LATTICE_LEVEL) * scale
        ends = np.sqrt(2 * (1 + wrapped) / (1 - wrapped) * math.log(2 * _COMPONENTS * b / _CUT_MASS))
        z_step = 2 * math.pi * _MAX_TURN / (_LATTICE_LEVEL + 2 * _MAX_TURN**2)
        root = math.sqrt(own)
        common = min(root * z_step, *(alphas * largest)[alphas > 0], math.inf) / _LATTICE_RATIO
        multiples = [int(step / common) for step in alphas * largest]
        steps = [
            m * common / alpha if alpha > 0 else step for m, alpha, step in zip(multiples, alphas, largest, strict=True)
        ]
        halves = [math.ceil(end / step) for end, step in zip(ends, steps, strict=True)]
        z_multiple = int(root * z_step / common)
        return common, z_multiple * common / root, z_multiple, steps, multiples, halves

    @cached_property
    def modes(self) -> list[tuple[Array, Array]]:
        """For each component F and κ: the kernel on the lattice is F Fᵀ, and κ are the squared norms of columns."""
        _, _, _, steps, _, halves = self._lattice
        found = []
        for rate, step, half in zip(self.components[1], steps, halves, strict=True):
            x = np.arange(-half, half + 1) * step
            form = (1 + rate**2) * (x[:, np.newaxis] ** 2 + x**2) / 2 - 2 * rate * x[:, np.newaxis] * x
            kernel = step / math.sqrt(2 * math.pi * (1 - rate**2)) * np.exp(-form / (2 * (1 - rate**2)))
            values, vectors = np.linalg.eigh(kernel)
            kept = np.flatnonzero(values > _MIN_EIGENVALUE)[::-1]
            found.append((vectors[:, kept] * np.sqrt(values[kept]), values[kept]))
        return found

    @cached_property
    def _index(self) -> Array:
        """The place of α_1 x_1 + α_2 x_2 on the common lattice, shape (N_1, N_2)."""
        _, _, _, _, (first, second), (m, n) = self._lattice
        return np.asarray(first * np.arange(m * 2 + 1)[:, np.newaxis] + second * np.arange(2 * n + 1))

    def factors(self, u: complex) -> Array:
        """φ_u on the lattices, shape (N_1, N_2)."""
        common, z_step, z_multiple, _, multiples, halves = self._lattice
        (a, rates), b, own = self.components, self.ring.bins, self.ring.own
        angle = float(np.angle(u))
        turn = math.copysign(min(0.9 * abs(angle), _MAX_TURN * math.sqrt(own)), angle)
        last = math.ceil((math.sqrt(2 * _LATTICE_LEVEL) + 1) / z_step)
        z = np.arange(-last, last + 1) * z_step
        weights = z_step / math.sqrt(2 * math.pi) * np.exp(-((z - 1j * turn / math.sqrt(own)) ** 2) / 2)
        reach = sum(m * half for m, half in zip(multiples, halves, strict=True))
        end = reach + last * z_multiple
        shift = (float(a @ (1 + rates**b)) + own) / 2
        logarithms = common * np.arange(-end, end + 1) - shift
        kernel = np.exp(-(u / b) * np.exp(-1j * turn) * np.exp(logarithms))
        windows = np.lib.stride_tricks.sliding_window_view(kernel, 2 * last * z_multiple + 1)[:, ::z_multiple]
        return np.asarray((windows @ weights)[self._index])


# -- the trace ---------------------------------------------------------------------------------------------------------


@record
class _Transfer(Record):
    """Z(u) from the most important modes."""

    sites: _Sites

    @cached_property
    def _modes(self) -> tuple[NDArray[np.intp], ...]:
        """Indices (q, r) of the modes that are kept."""
        (first, values), (second, others) = self.sites.modes
        found = np.multiply.outer(values, others) ** (self.sites.ring.bins / 2)
        if found.size <= _FEW_MODES:
            found[:] = 1.0
        else:
            for u in (0.5, 0.5 + 5j, 0.5 + 15j):
                factors = self.sites.factors(u)
                vector = np.zeros(found.shape, dtype=complex)
                vector[0, 0] = 1.0
                for _ in range(max(self.sites.ring.bins // 8, 1)):
                    vector = first.T @ (factors * (first @ vector @ second.T)) @ second
                found = np.maximum(found, np.abs(vector))
        return np.nonzero(found >= _SMALL_AMPLITUDE)

    @cached_property
    def _products(self) -> tuple[Array, Array]:
        """Products of two columns of F for both components, shape (N, m²)."""
        sizes = [int(index.max()) + 1 for index in self._modes]
        first, second = (f[:, :size] for (f, _), size in zip(self.sites.modes, sizes, strict=True))
        return tuple((f[:, :, np.newaxis] * f[:, np.newaxis, :]).reshape(len(f), -1) for f in (first, second))  # type: ignore[return-value]

    def matrix(self, u: complex) -> Array:
        """Fᵀ Φ_u F for the modes that are kept."""
        first, second = self._products
        q, r = self._modes
        m, n = int(q.max()) + 1, int(r.max()) + 1
        found = (first.T @ (self.sites.factors(u) @ second)).reshape(m, m, n, n)
        return np.asarray(found[q[:, np.newaxis], q, r[:, np.newaxis], r])

    def transform(self, u: complex) -> complex:
        """Z(u)."""
        b, rates = self.sites.ring.bins, self.sites.components[1]
        matrix = self.matrix(u)
        power = matrix
        for digit in f"{b // 2:b}"[1:]:
            power = power @ power
            if digit == "1":
                power = power @ matrix
        last = power @ matrix if b % 2 else power
        return complex((power * last.T).sum() * np.prod(1 - rates**b))


# -- prices ------------------------------------------------------------------------------------------------------------


@record
class _Prices(Record):
    """Prices put(k) = E(k − Λ)₊ from Z at the nodes c + i h k.

    Parameters
    ----------
    ring : RingLaw
        The ring.
    epsilon : float
        ε >= 0.
    nodes, values : array of complex
        u and Z(u), shape (N,).
    """

    ring: RingLaw
    epsilon: float
    nodes: Array
    values: Array

    def put(self, strikes: Array) -> Array:
        """put(k), from above but for rounding: aliases are at least k + jL − 1 each, and are subtracted so."""
        c, step = self.nodes[0].real, (self.nodes[1] - self.nodes[0]).imag
        weights = (
            np.where(np.arange(self.nodes.size) > 0, 2.0, 1.0) * step / (2 * math.pi) * self.values / self.nodes**2
        )
        period = 2 * math.pi / step
        q = math.exp(-c * period)
        aliases = (strikes - 1) * q / (1 - q) + period * q / (1 - q) ** 2
        return np.asarray((np.exp(np.multiply.outer(strikes, self.nodes)) @ weights).real - aliases)

    def delta(self, direction: Direction) -> float:
        """δ(ε) with the shared factor; beyond the largest strike prices of calls are those at the largest strike."""
        law = lognormal(self.ring.shared, _SHARED_NODES, True)
        x, masses = law.positions[law.positions > 0], law.masses[law.positions > 0]
        log_strikes = self.epsilon - np.log(x) if direction == "remove" else -self.epsilon - np.log(x)
        strikes = np.exp(log_strikes)
        kept = np.minimum(strikes, _largest_strike(self.ring, self.epsilon))
        calls = self.put(kept) + 1 - kept
        if direction == "remove":
            return float((masses * x) @ np.maximum(calls, 0.0)) + law.singular
        nothing = float(law.masses[law.positions == 0].sum())
        return float((masses / strikes) @ np.maximum(calls + strikes - 1, 0.0)) + nothing


def _largest_strike(ring: RingLaw, epsilon: float) -> float:
    return math.exp(epsilon + _SHARED_DEVIATIONS * math.sqrt(ring.shared))


@lru_cache(maxsize=8)
def _prices(ring: RingLaw, epsilon: float) -> _Prices:
    """The table of Z for all strikes up to the largest, until its terms are negligible."""
    period = _PERIODS * _largest_strike(ring, epsilon)
    c, step = _DAMPING / period, 2 * math.pi / period
    transfer = _Transfer(_Sites(RingLaw(ring.bins, 0.0, ring.own, ring.amplitudes, ring.rates)))
    nodes: list[complex] = []
    values: list[complex] = []
    while len(nodes) < _MAX_NODES and (
        len(nodes) < 3
        or max(abs(value / u**2) for value, u in zip(values[-3:], nodes[-3:], strict=True)) > _NEGLIGIBLE_TERM
    ):
        nodes.append(c + 1j * len(nodes) * step)
        values.append(transfer.transform(nodes[-1]))
    return _Prices(ring, epsilon, np.array(nodes), np.array(values))
