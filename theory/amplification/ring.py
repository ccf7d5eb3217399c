"""The ring law: Λ for Gram matrices H = s J + D 1 + Σ_k a_k R(λ_k) with R(λ)_ij = λ^d + λ^{b−d}, d = |i − j|.

R(λ)/(1 − λ^b) is the covariance of an autoregressive sequence that closes to a ring.  So Λ without the shared factor is
a mean over the ring of exp(Σ_k α_k x_k − v/2) L, α_k² = a_k(1 − λ_k^b), v = Σ a_k(1 + λ_k^b), with independent
lognormal L of mean 1 and parameter D.  ``ring_transform`` computes Z(u) = E e^{−uΛ}.  Prices E(K − Λ)₊ are sums of Z
over equally spaced nodes u of a vertical line; see ``docs/amplification-proofs.md``.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from corrnoise.theory.amplification.curve import DIRECTIONS, Direction
from corrnoise.theory.amplification.laws import lognormal
from corrnoise.theory.amplification.ring_transform import MAX_COMPONENTS, Sites, Transfer, tail_integral
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF

LARGEST_RATE = 0.99  #: λ; the lattice of states grows with it
_SMALL_AMPLITUDE, _FAR_AMPLITUDE = 1e-5, 3e-5  #: of modes that an estimate leaves out, at most nodes and at far ones
_SMALL_AMPLITUDES = (3e-5, 3e-6, 3e-7, 3e-8, 3e-9)  #: of modes that a certificate leaves out
_SHARED_NODES = 400  #: of the law of the shared factor
_SHARED_DEVIATIONS, _MAX_STRIKE_RATIO = 4.0, math.e  #: of the shared factor in the largest strike, which is over e^ε
_PERIODS, _DAMPING = 2.0, 6.0  #: the period L of a sum over the largest strike, and c L
_NEGLIGIBLE_TERM, _NEGLIGIBLE_TERMS = 1e-13, 3
_SMOOTHING_BIASES = (0.03, 0.1, 0.2, 0.4)  #: standard deviations of smoothing, times the slope of ln δ
_TABLE_SHARES = (
    0.8,
    1.0,
    1.3,
    1.7,
    2.2,
    2.9,
    4.0,
    5.5,
    7.5,
)  #: certified tables over an estimate's, in nodes
_SMALL_TAILS = {"remove": 1e-3, "add": 0.02}  #: of δ, which is larger for remove
_MIN_PRICE = 1e-12  #: of estimates of δ
_SMALL_SHARE = 0.02  #: of δ for add over δ for remove, where it need not be close
_ERROR_SHARE = 0.01  #: of all errors of Z in δ
_MANY_MODES = 0.01  #: error over the allowed one, where fewer modes are tried at the next node
_FAR_NODE = 40.0  #: of an estimate
_MAX_NODES = 1000
_ESTIMATE_SMOOTHING, _FEW_NODES = 0.02, 200  #: relative, where an estimate has more than a few nodes


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
        if len(self.amplitudes) != len(self.rates) or len(self.rates) > MAX_COMPONENTS:
            raise ValueError(
                f"amplitudes and rates must be equally many, at most {MAX_COMPONENTS}, "
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
        prices, smoothing = _estimated(self, epsilon)
        return prices.delta(epsilon, direction, smoothing)

    def upper(self, epsilon: float, direction: Direction) -> float:
        """A certified upper bound of δ(ε); the same arguments.

        Returns
        -------
        float
        """
        return certified_bound(self, epsilon, direction)


@record
class _Prices(Record):
    """Prices put(k) = E(k − Λ)₊ from Z at the nodes c + i h k.

    Parameters
    ----------
    ring : RingLaw
        The ring.
    nodes, values : array of complex
        u and Z(u), shape (N,).
    errors : array of float
        Bounds of the errors of Z, shape (N,); 0 in an estimate.
    beyond : float
        A bound of the integral of |Z(u)|/|Im u|² over the imaginary parts that follow; a guess in an estimate.
    """

    ring: RingLaw
    nodes: Array
    values: Array
    errors: Array
    beyond: float

    def put(self, strikes: Array, smoothing: float) -> Array:
        """Upper bounds of put(k) if errors are bounds.

        The average of put over a normal variable of the standard deviation ``smoothing`` k is larger, by convexity.  An
        alias put(k + jL) is at least k + jL − 1, which is subtracted.
        """
        c, step = float(self.nodes[0].real), float((self.nodes[1] - self.nodes[0]).imag)
        wide = (smoothing * strikes[:, np.newaxis]) ** 2 / 2
        twice = np.where(np.arange(self.nodes.size) > 0, 2.0, 1.0) * step / (2 * math.pi) / np.abs(self.nodes) ** 2
        exponents = np.multiply.outer(strikes, self.nodes) + wide * self.nodes**2
        turned = self.values * (np.abs(self.nodes) / self.nodes) ** 2
        period = 2 * math.pi / step
        q = math.exp(-c * period)
        found = (np.exp(exponents) @ (twice * turned)).real
        found -= (strikes - 1) * q / (1 - q) + period * q / (1 - q) ** 2
        moduli = np.exp(exponents.real)
        counted = self.errors + UNIT_ROUNDOFF * np.abs(self.values) * (
            4 * (np.abs(exponents) + strikes[:, np.newaxis] * np.abs(self.nodes)) + self.nodes.size + 40
        )
        end = float(self.nodes[-1].imag)
        tail = np.exp(c * strikes + wide[:, 0] * (c**2 - end**2)) * self.beyond / math.pi
        aliases = 64 * UNIT_ROUNDOFF * (strikes + 2 * period) / (1 - q) ** 2
        return np.asarray(found + (1 + 1e-9) * ((moduli * counted) @ twice + tail + aliases))

    def delta(self, epsilon: float, direction: Direction, smoothing: float = 0.0) -> float:
        """δ(ε) with the shared factor; beyond the largest strike prices of calls are those at the largest strike."""
        law = lognormal(self.ring.shared, _SHARED_NODES, True)
        x, masses = law.positions[law.positions > 0], law.masses[law.positions > 0]
        sign = 1 if direction == "remove" else -1
        strikes = np.exp(sign * epsilon - np.log(x)) * (
            1 - sign * 8 * UNIT_ROUNDOFF * (4 + abs(epsilon) + np.abs(np.log(x)))
        )
        kept = np.minimum(strikes, _largest_strike(self.ring, epsilon))
        calls = np.maximum(self.put(kept, smoothing) + (1 - kept), 0.0) + 8 * UNIT_ROUNDOFF * (1 + kept)
        if direction == "remove":
            return min(float((masses * x) @ calls) * (1 + 1e-12) + law.singular, 1.0)
        puts = np.maximum(calls + (strikes - 1), 0.0) + 8 * UNIT_ROUNDOFF * (1 + strikes)
        nothing = float(law.masses[law.positions == 0].sum())
        return min(float((masses / strikes) @ puts) * (1 + 1e-12) + nothing, 1.0)


def _largest_strike(ring: RingLaw, epsilon: float) -> float:
    """The largest strike of a table; the price of a call beyond it is at most the price there."""
    return math.exp(epsilon) * min(math.exp(_SHARED_DEVIATIONS * math.sqrt(ring.shared)), _MAX_STRIKE_RATIO)


def _line(ring: RingLaw, epsilon: float) -> tuple[Sites, float, float]:
    """The ring without its shared factor, c and h with few digits."""
    period = _PERIODS * _largest_strike(ring, epsilon)
    c, step = (float(np.float32(x)) for x in (_DAMPING / period, 2 * math.pi / period))
    return Sites(ring.bins, ring.own, ring.amplitudes, ring.rates), c, step


@lru_cache(maxsize=8)
def _estimated(ring: RingLaw, epsilon: float) -> tuple[_Prices, float]:
    """The table of Z for all strikes up to the largest, until its terms are negligible, and its smoothing."""
    sites, c, step = _line(ring, epsilon)
    transfers = Transfer(sites, _SMALL_AMPLITUDE), Transfer(sites, _FAR_AMPLITUDE)
    nodes: list[complex] = []
    values: list[complex] = []
    small = 0
    while small < _NEGLIGIBLE_TERMS and len(nodes) < _MAX_NODES:
        u = c + 1j * len(nodes) * step
        nodes.append(u)
        values.append(transfers[int(abs(u) > _FAR_NODE)].transform(u))
        width = _ESTIMATE_SMOOTHING * math.exp(epsilon) if len(nodes) > _FEW_NODES else 0.0
        small = small + 1 if abs(values[-1] / u**2) * math.exp(-((width * u.imag) ** 2) / 2) < _NEGLIGIBLE_TERM else 0
    beyond = step * abs(values[-1] / nodes[-1] ** 2)  # the last term, since terms turn and fall
    prices = _Prices(ring, np.array(nodes), np.array(values), np.zeros(len(nodes)), beyond)
    return prices, _ESTIMATE_SMOOTHING if len(nodes) > _FEW_NODES else 0.0


@lru_cache(maxsize=16)
def certified_bound(ring: RingLaw, epsilon: float, direction: Direction) -> float:
    """An upper bound of δ(ε): the smallest for a few widths of smoothing."""
    sites, c, step = _line(ring, epsilon)
    guess, smoothing = _estimated(ring, epsilon)
    about, after, other = (
        max(guess.delta(level, way, smoothing), _MIN_PRICE)
        for level, way in ((epsilon, direction), (epsilon + 0.01, direction), (epsilon, DIRECTIONS[0]))
    )
    strike, price = math.exp(epsilon), about
    if direction == "add":
        strike = 1 / strike
        price = max(about, _SMALL_SHARE * other) * strike
    slope = max(100 * math.log(about / after), 1.0)
    width = _SMOOTHING_BIASES[1] / slope * strike
    transfers = [Transfer(sites, smallest) for smallest in _SMALL_AMPLITUDES]
    size, beyond = 0, 1.0
    for share in _TABLE_SHARES:
        size = min(math.ceil(guess.nodes.size * share), _MAX_NODES)
        end = (size - 1) * step
        beyond = tail_integral(transfers[1], c, end)
        if math.exp(c * strike - (end * width) ** 2 / 2) * beyond / math.pi < _SMALL_TAILS[direction] * price:
            break
    nodes: Array = np.asarray(c + 1j * step * np.arange(size))
    weights = step / math.pi * np.exp(c * strike - (nodes.imag * width) ** 2 / 2) / np.abs(nodes) ** 2
    values, errors, level = [], [], 0
    for u, allowed in zip(nodes, _ERROR_SHARE * price / (size * weights), strict=True):
        factors, eta = sites.factors(u)
        value, error = transfers[level].enclosed(factors, eta)
        while error > allowed and level + 1 < len(transfers):
            finer = transfers[level + 1].enclosed(factors, eta)
            if finer[1] > error / 2:  # more modes do not help
                break
            level += 1
            value, error = finer
        level = max(level - 1, 0) if error < _MANY_MODES * allowed else level
        values.append(value)
        errors.append(error)
    table = _Prices(ring, nodes, np.array(values), np.array(errors), beyond)
    return min(table.delta(epsilon, direction, bias / slope) for bias in _SMOOTHING_BIASES)
