"""The transform E e^{−uΛ} of a ring without its shared factor, as a trace, with bounds of all errors.

Given the states x of the ring (``ring``) its sites are independent, hence

    E e^{−uΛ} = Z(u) = Π_k (1 − λ_k^b) tr (K Φ_u)^b,

where K is a product of Mehler's kernels and Φ_u multiplies by φ_u(x) = E exp(−(u/b) e^{Σα_k x_k − v/2} L).
``docs/amplification-proofs.md`` has the rules R4 to R8 and Lemma E.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF, rounded_up

Modes = tuple[NDArray[np.intp], ...]

MAX_COMPONENTS = 2  #: of a ring; an unused one has a = λ = 0
LATTICE_LEVEL = 40.0  #: ℓ: the lattices of states and of L have relative errors of e^{−ℓ}
_CUT_MASS = 1e-15  #: of states beyond the lattice
_MAX_TURN = 2.0  #: of the line of integration of L, in standard deviations of its logarithm
_LATTICE_RATIO = 3  #: steps of the common lattice in the smallest of the steps
_MIN_EIGENVALUE = 1e-16  #: of modes
_FEW_MODES = 130  #: that are never reduced
_MODE_BITS = 128  #: of kernels and their modes
_NEAR_SHARE = 1e-3  #: of the smallest amplitude, of modes whose leaks are computed
_TURNS = (0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.45, 0.7, 1.1)  #: of φ, in the bound of the tail
_LARGEST_TURN_EXPONENT = 100.0  #: of a turn that is tried
_TAIL_STARTS = (1.0, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0)  #: of intervals behind a certified table, over its end


# -- sites -------------------------------------------------------------------------------------------------------------


@record
class Sites(Record):
    """Lattices of the states x_1, x_2, their kernels in modes, and φ_u on them.

    The steps of α_1 x_1, α_2 x_2 and of the logarithm of L are multiples of one step, so that φ_u needs exponentials on
    one lattice only.

    Parameters
    ----------
    bins : int
        b >= 2.
    own : float
        D > 0.
    amplitudes, rates : tuple of float
        a_k >= 0 and λ_k in [0, 1), at most two of each.
    """

    bins: int
    own: float
    amplitudes: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()

    @cached_property
    def components(self) -> tuple[Array, Array]:
        """The amplitudes a and the rates λ of two components; without an amplitude the rate is 0 as well."""
        used = [(a, rate) for a, rate in zip(self.amplitudes, self.rates, strict=True) if a > 0]
        a, rates = np.array((*used, *[(0.0, 0.0)] * (MAX_COMPONENTS - len(used)))).T
        return a, rates

    @property
    def norm(self) -> float:
        """Π (1 − λ_k^b)."""
        return float(np.prod(1 - self.components[1] ** self.bins))

    @cached_property
    def _lattice(self) -> tuple[float, float, int, list[float], list[int], list[int]]:
        """The common step, the step of z and its multiple, and steps, multiples and half sizes of the states."""
        (a, rates), b, own = self.components, self.bins, self.own
        wrapped = rates**b
        alphas = np.sqrt(a * (1 - wrapped))
        scale = 1 / np.sqrt((1 + rates**2) / (1 - rates**2) + alphas**2 / own)  # τ'
        largest = math.pi * math.sqrt(2 / LATTICE_LEVEL) * scale * (1 - 1e-12)
        ends = np.sqrt(2 * (1 + wrapped) / (1 - wrapped) * math.log(2 * MAX_COMPONENTS * b / _CUT_MASS))
        root = math.sqrt(own)
        z_step = 2 * math.pi * self.most / (LATTICE_LEVEL + 2 * self.most**2)
        common = min(root * z_step, *(alphas * largest)[alphas > 0], math.inf) / _LATTICE_RATIO
        multiples = [int(step / common) for step in alphas * largest]
        steps = [
            m * common / alpha if alpha > 0 else step for m, alpha, step in zip(multiples, alphas, largest, strict=True)
        ]
        halves = [math.ceil(end / step) for end, step in zip(ends, steps, strict=True)]
        z_multiple = int(root * z_step / common)
        return common, z_multiple * common / root, z_multiple, steps, multiples, halves

    @cached_property
    def most(self) -> float:
        """The largest turn of the line of integration, and the width of its strip, in standard deviations."""
        return min(_MAX_TURN, 1.41 / math.sqrt(self.own))

    @cached_property
    def lattice_error(self) -> float:
        """A bound of the change of Z by the lattices and their ends, for every Re u >= 0 and |φ| <= 1 (R5)."""
        exponent = MAX_COMPONENTS * self.bins * 2.1 * math.exp(-LATTICE_LEVEL)
        return math.expm1(exponent) + _CUT_MASS * math.exp(exponent)

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
    def mode_errors(self) -> tuple[float, float]:
        """Sums over the components of bounds of ‖K − F Fᵀ‖ and of ‖VᵀV − 1‖, V = F κ^{−1/2}, in balls."""
        residual = defect = 0.0
        with ctx.workprec(_MODE_BITS):
            for (f, values), rate, step, half in zip(
                self.modes, self.components[1], self._lattice[3], self._lattice[5], strict=True
            ):
                lam, h = arb(float(rate)), arb(float(step))
                places = range(-half, half + 1)
                bell = [(-(1 + lam * lam) * (h * i) ** 2 / (4 * (1 - lam * lam))).exp() for i in places]
                cross = {k: (lam * h * h * k / (1 - lam * lam)).exp() for k in {i * j for i in places for j in places}}
                factor = h / (2 * arb.pi() * (1 - lam * lam)).sqrt()
                kernel = arb_mat(
                    [
                        [factor * p * q * cross[i * j] for j, q in zip(places, bell, strict=True)]
                        for i, p in zip(places, bell, strict=True)
                    ]
                )
                columns = arb_mat(f.tolist())
                scale = arb_mat(
                    [[arb(float(v)).rsqrt() if i == j else 0 for j in range(values.size)] for i, v in enumerate(values)]
                )
                basis = columns * scale
                one = arb_mat([[int(i == j) for j in range(values.size)] for i in range(values.size)])
                residual += _frobenius(kernel - columns * columns.transpose())
                defect += _frobenius(basis.transpose() * basis - one)
        return residual, defect

    @cached_property
    def _index(self) -> Array:
        """The place of α_1 x_1 + α_2 x_2 on the common lattice, shape (N_1, N_2)."""
        _, _, _, _, (first, second), (m, n) = self._lattice
        return np.asarray(first * np.arange(m * 2 + 1)[:, np.newaxis] + second * np.arange(2 * n + 1))

    def factors(self, u: complex) -> tuple[Array, float]:
        """φ_u on the lattices, shape (N_1, N_2), and a bound of its errors (R4)."""
        common, z_step, z_multiple, _, multiples, halves = self._lattice
        (a, rates), b, root = self.components, self.bins, math.sqrt(self.own)
        angle = float(np.angle(u))
        turn = math.copysign(min(0.9 * abs(angle), self.most * root), angle)
        last = math.ceil((math.sqrt(2 * LATTICE_LEVEL) + 1) / z_step)
        z = np.arange(-last, last + 1) * z_step
        weights = z_step / math.sqrt(2 * math.pi) * np.exp(-((z - 1j * turn / root) ** 2) / 2)
        end = sum(m * half for m, half in zip(multiples, halves, strict=True)) + last * z_multiple
        shift = (float(a @ (1 + rates**b)) + self.own) / 2
        arguments = (u / b) * np.exp(-1j * turn) * np.exp(common * np.arange(-end, end + 1) - shift)
        kernel = np.exp(-arguments)
        windows = np.lib.stride_tricks.sliding_window_view(kernel, 2 * last * z_multiple + 1)[:, ::z_multiple]
        strip = min((math.pi / 2 - abs(angle - turn)) / root, self.most)
        error = 2 * math.exp((abs(turn) / root + strip) ** 2 / 2) / math.expm1(2 * math.pi * strip / z_step)
        error += 2 * math.exp((turn**2 / self.own - (last * z_step) ** 2) / 2)
        moduli = np.abs(weights)
        sensitive = float((np.abs(arguments) * np.abs(kernel)).max()) * 64 * (common * end + shift + 4)
        error += UNIT_ROUNDOFF * float(moduli @ (sensitive + 4 * (z**2 + self.most**2) + 2 * z.size + 20))
        return np.asarray((windows @ weights)[self._index]), error

    def falling(self, real: float, imaginary: float) -> Array:
        """At least |φ_u| for all u with this real part and |Im u| >= ``imaginary``, at most 1 (R7)."""
        bound = np.ones(self._index.shape)
        for turn in _TURNS:
            exponent = turn**2 / (2 * self.own)
            if exponent < _LARGEST_TURN_EXPONENT:
                factor, error = self.factors(real * math.cos(turn) + imaginary * math.sin(turn))
                bound = np.minimum(bound, math.exp(exponent) * (factor.real + error) * (1 + 1e-14))
        return bound

    @cached_property
    def mode_amplitudes(self) -> Array:
        """How much of the modes (q, r) the powers of the matrix contain."""
        (first, values), (second, others) = self.modes
        found = np.multiply.outer(values, others) ** (self.bins / 2)
        if found.size <= _FEW_MODES:
            return np.ones(found.shape)
        for u in (0.5, 0.5 + 5j, 0.5 + 15j):
            factors, _ = self.factors(u)
            vector = np.zeros(found.shape, dtype=complex)
            vector[0, 0] = 1.0
            for _ in range(max(self.bins // 8, 1)):
                vector = first.T @ (factors * (first @ vector @ second.T)) @ second
            found = np.maximum(found, np.abs(vector))
        return found


def _frobenius(matrix: arb_mat) -> float:
    return rounded_up(sum((abs(entry) ** 2 for entry in matrix.entries()), arb(0)).sqrt())


# -- the trace ---------------------------------------------------------------------------------------------------------


@record
class Transfer(Record):
    """Z(u) from the modes with a large enough amplitude, and a bound of its error.

    Parameters
    ----------
    sites : Sites
        The lattices.
    smallest : float
        Amplitudes below this number are left out.
    """

    sites: Sites
    smallest: float

    @cached_property
    def _kept(self) -> Modes:
        return np.nonzero(self.sites.mode_amplitudes >= self.smallest)

    @cached_property
    def _near(self) -> Modes:
        """The modes that are kept and the nearest ones, where they leak most."""
        return np.nonzero(self.sites.mode_amplitudes >= _NEAR_SHARE * self.smallest)

    def _matrix(self, factors: Array, rows: Modes) -> Array:
        """Fᵀ Φ F with ``rows`` and the columns of the modes that are kept."""
        products, sizes = [], []
        for (f, _), row, column in zip(self.sites.modes, rows, self._kept, strict=True):
            m, n = int(row.max()) + 1, int(column.max()) + 1
            products.append(_pairs(f, m, n))
            sizes += [m, n]
        found = (products[0].T @ (factors @ products[1])).reshape(sizes)
        (q, r), (k, l) = rows, self._kept
        return np.asarray(found[q[:, np.newaxis], k, r[:, np.newaxis], l])

    def transform(self, u: complex) -> complex:
        """An approximation of Z(u)."""
        powers = _powers(self._matrix(self.sites.factors(u)[0], self._kept), self.sites.bins)
        return complex((powers[-2][1] * powers[-1][1].T).sum() * self.sites.norm)

    @cached_property
    def _leaks(self) -> tuple[float, float, NDArray[np.intp], Array, Array]:
        """The largest κ outside of the modes that are kept and outside of the near ones, and numbers of the near ones.

        Those are the places of the modes that are kept, the weights of rows in W, and the product of the moduli of F.
        """
        (first, values), (second, others) = self.sites.modes
        kappa = np.multiply.outer(values, others)
        inside, near = np.zeros(kappa.shape, dtype=bool), np.zeros(kappa.shape, dtype=bool)
        inside[self._kept], near[self._near] = True, True
        outer, far = (float(kappa[~chosen].max(initial=0.0)) for chosen in (inside, near))
        places = np.flatnonzero(inside[self._near])
        weights = np.where(inside, 0.0, kappa)[self._near] - far
        moduli = [np.abs(f).T @ np.abs(f) for f in (first, second)]
        (q, r), (k, l) = self._near, self._kept
        absolute = moduli[0][q[:, np.newaxis], k] * moduli[1][r[:, np.newaxis], l]
        return outer, far, places, weights / kappa[self._near], absolute

    def enclosed(self, factors: Array, eta: float) -> tuple[complex, float]:
        """Z for site factors of moduli at most 1 with errors of at most η, and a bound of its error."""
        b, modes = self.sites.bins, self.sites.modes
        outer, far, places, weights, absolute = self._leaks
        residual, defect = self.sites.mode_errors
        rounding = 1.5 * (sum(len(f) for f, _ in modes) + 8) * UNIT_ROUNDOFF * (1 + eta)
        full = self._matrix(factors, self._near)
        powers = _powers(full[places], b)
        n = len(places)
        # Errors of powers, in Frobenius norms; the exact matrix has a norm of at most ``growth`` ** (1/b).
        growth = max((1 + eta) * math.prod(float(values[0]) for _, values in modes) * (1 + 2 * defect), 1.0) ** b
        start = rounding * float(np.linalg.norm(absolute[places]))
        errors, norms = [start], [float(np.linalg.norm(power)) for _, power in powers]
        for (before, _), (after, _), size in zip(powers, powers[1:], norms, strict=False):
            if after == 2 * before:
                error = 2 * growth * errors[-1] + errors[-1] ** 2 + 4 * n * UNIT_ROUNDOFF * size**2
            else:
                error = growth * (errors[-1] + start) + errors[-1] * start
                error += 4 * n * UNIT_ROUNDOFF * size * norms[0]
            errors.append(error)
        (x, y), (dx, dy) = norms[-2:], errors[-2:]
        trace = complex((powers[-2][1] * powers[-1][1].T).sum())
        numerical = x * dy + y * dx + dx * dy + 4 * n * UNIT_ROUNDOFF * x * y
        # Excursions (Lemma E).
        leak = full.conj().T @ (full * weights[:, np.newaxis])
        size = float(np.abs(weights) @ (np.abs(full) ** 2).sum(axis=1))
        spread = rounding * float(np.linalg.norm(np.sqrt(np.abs(weights))[:, np.newaxis] * absolute))
        slack = 2 * math.sqrt(size) * spread + spread**2 + 4 * (len(full) + 2 * n) * UNIT_ROUNDOFF * size
        if far > 0:
            moduli = self._matrix(np.abs(factors) ** 2, self._kept)
            leak = leak + far * (1 + 5 * defect) * moduli
            slack += far * (2 * start + 4 * n * UNIT_ROUNDOFF * 3 * float(np.linalg.norm(moduli)))
        lengths, leaks = [0], [math.sqrt(max(float(np.trace(leak).real), 0.0) + slack * n)]
        for (length, power), norm, error in zip(powers[:-2], norms, errors, strict=False):
            square = float((power.conj() * (leak @ power)).sum().real)
            lengths.append(length)
            leaks.append(math.sqrt(max(square, 0.0) + 2 * slack * norm**2) + growth * error)
        kept = np.array(leaks)[np.searchsorted(lengths, np.arange(b), side="right") - 1] * growth
        mu = (1 + eta) * (outer + defect * (1 + defect)) if outer > 0 else 0.0
        walks = excursions(b, mu, walk_norms(kept)) if outer > 0 else 0.0
        outside = mu ** (b - 1) * (1 + eta) * math.prod(float(values.sum()) for _, values in modes) * 1.001
        change = (
            self.sites.lattice_error + math.expm1(b * math.log1p(eta)) + 5 * b * residual * growth + 1e-13 * abs(trace)
        )
        return trace * self.sites.norm, 1.001 * (change + self.sites.norm * (numerical + walks + outside))


def _pairs(f: Array, m: int, n: int) -> Array:
    """Products of the first m and the first n columns, shape (N, m n)."""
    return np.asarray((f[:, :m, np.newaxis] * f[:, np.newaxis, :n]).reshape(len(f), -1))


def _powers(matrix: Array, b: int) -> list[tuple[int, Array]]:
    """Powers with their exponents, the last two of the sum b, by squaring and multiplying."""
    found = [(1, matrix)]
    for digit in f"{b // 2:b}"[1:]:
        found.append((2 * found[-1][0], found[-1][1] @ found[-1][1]))
        if digit == "1":
            found.append((found[-1][0] + 1, found[-1][1] @ matrix))
    length, power = found[-1]
    return [*found, (length + 1, power @ matrix) if b % 2 else (length, power)]


def walk_norms(leaks: Array) -> Array:
    """Bounds of the trace norms of L S^j Lᵀ from falling bounds ``leaks`` of ‖L S^j‖_F, for a symmetric S."""
    j = np.arange(leaks.size)
    return np.asarray(leaks[j // 2] * leaks[(j + 1) // 2])


def excursions(b: int, mu: float, leaks: Array) -> float:
    """[x^b] of x g'/(1 − g) for g = Σ_i μ^{i−1} x^i Σ_j ℓ_j x^{j+1} (Lemma E)."""
    g = np.convolve(np.concatenate(([0.0], mu ** np.arange(b))), np.concatenate(([0.0], leaks)))[: b + 1]
    found = g * np.arange(b + 1)
    for n in range(1, b + 1):
        found[n] += found[:n] @ g[n:0:-1]
    return float(found[b])


def tail_integral(transfer: Transfer, real: float, end: float) -> float:
    """A bound of the integral of |Z(u)|/|Im u|² over Im u > ``end``: a falling bound of |Z| on a few intervals."""
    found, least = 0.0, math.inf
    starts = end * np.array(_TAIL_STARTS)
    for start, width in zip(starts, 1 / starts - np.append(1 / starts[1:], 0.0), strict=True):
        value, error = transfer.enclosed(transfer.sites.falling(real, float(start)), 0.0)
        least = min(least, abs(value) + error)
        found += least * float(width)
    return found * (1 + 1e-12)
