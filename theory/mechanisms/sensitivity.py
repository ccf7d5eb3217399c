"""Sensitivity of a finite run that may use an example several times, with a bound that covers rounding.

A run releases C g + z, or what can be computed from it, with the strategy C and the gradients g_0, …, g_{n−1} as rows.
With the Gram matrix X = CᵀC the squared sensitivity is the largest Σ_{i,j in π} X_ij <g_i, g_j> over the patterns π
that an example may have (``participation``) and |g_i| = 1.  It is never larger than the largest Σ_π |X_ij|, and equal
to it where the block X_ππ is *balanced*: s_i s_j X_ij >= 0 for some signs s.  Otherwise the worst gradients need not be
collinear.

Everything here is a bracket.  A pattern and its gradients give a value that is attained; a bound that needs few
assumptions lies above it.  Where the two agree up to rounding the sensitivity is known exactly, and this is how a
theorem enters: no condition of a theorem is ever tested on rounded numbers.  The bounds are proved in
docs/finite-runs-proofs.md.

Sources: Choquette-Choo et al., arXiv 2306.08153, Algorithm 4 (the two-stage bound; ``row_bounds`` is the
sharper form); Kalinin and Lampert, arXiv 2405.13763, Theorem 2 (non-negative, non-increasing Toeplitz coefficients).
"""

from __future__ import annotations

import math

import numpy as np

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.numerics.rounding import UNIT_ROUNDOFF
from corrnoise.theory.participation import FixedEpochs, Indices, MinSep, Order, Reshuffled

_NORM_ROUNDING = 40 * UNIT_ROUNDOFF  # of a Euclidean norm with pairwise summation
_MOST_PATTERNS = 20_000  # that are looked at one by one
_LARGEST_BLOCK = 512  # largest size of a matrix with computed eigenvalues
MOST_PRODUCTS = 10_000_000  #: that the blocks of fixed epochs are summed from
_NEGLIGIBLE_ROUNDING = 1e-6  # largest rounding error of a closed bracket with an exact value


@record
class Sensitivity(Record):
    """A bracket of a sensitivity."""

    value: float  #: attained by a pattern and unit gradients, up to the relative error ``rounding``
    upper: float  #: upper bound of the sensitivity, rounding included
    rounding: float  #: relative error of ``value``
    exact: bool  #: whether ``value`` is the sensitivity up to rounding

    @property
    def lower(self) -> float:
        """A lower bound of the sensitivity, rounding included."""
        return self.value * max(0.0, 1 - self.rounding) if math.isfinite(self.value) else self.value


def bracket_of(value: float, bound: float, rounding: float) -> Sensitivity:
    """The bracket with ``value`` attained and ``bound`` not exceeded, both up to the relative error ``rounding``."""
    if not (math.isfinite(bound) and math.isfinite(rounding)):
        return Sensitivity(value=math.inf, upper=math.inf, rounding=0.0, exact=True)
    closed = bound <= value * (1 + 2 * rounding) and rounding <= _NEGLIGIBLE_ROUNDING
    return Sensitivity(value=value, upper=max(value, bound) * (1 + rounding), rounding=rounding, exact=closed)


def attained_by(value: float, bound: float, rounding: float) -> Sensitivity:
    """The same where only ``bound`` has the rounding error, and is never taken as closed."""
    return Sensitivity(value=min(value, bound), upper=bound * (1 + rounding), rounding=rounding, exact=False)


def norm(values: Array) -> float:
    """Euclidean norm that neither overflows nor underflows before its value does; relative error below 40 units."""
    largest = float(np.abs(values).max())
    return largest if largest in (0.0, math.inf) else largest * math.sqrt(float(np.square(values / largest).sum()))


# -- Toeplitz strategies -----------------------------------------------------------------------------------------------


def window_sums(coefficients: Array, min_sep: int, count: int) -> Array:
    """The pattern sums Σ_{j<k} c_{t−jb}, for each t, from sums of 1, 2, 4, … terms: additions only, O(n log k).

    Parameters
    ----------
    coefficients : array of float
        c, shape (n,).
    min_sep, count : int
        b and k, (k − 1) b < n.
    """
    total = np.zeros_like(coefficients)
    doubled, width = coefficients, 1  # sums of ``width`` terms
    taken = 0  # terms in the total
    while True:
        if count & width:
            total[taken * min_sep :] += doubled[: doubled.size - taken * min_sep]
            taken += width
        if taken == count:
            return total
        shift = width * min_sep
        following = doubled.copy()
        following[shift:] += doubled[: max(doubled.size - shift, 0)]
        doubled, width = following, 2 * width


def toeplitz_sensitivity(coefficients: ArrayLike, participation: Order, *, error: float = 0.0) -> Sensitivity:
    """The sensitivity of the lower-triangular Toeplitz strategy with the given first column.

    Returns a bracket between the sensitivity on π* = {0, b, …, (k − 1) b} with equal, or alternating, gradients,
    ‖Σ_{j<k} S^{jb} c‖ with the shift S, and the same expression in the majorant ĉ_t = |c_t| for t < b,
    max_{s>=t} |c_s| for t >= b.  It is closed, and the value exact,

    * for one participation, and for at most b coefficients, of any signs;
    * if c >= 0, and c_t >= c_{t+1} for t >= b; also if (−1)^t c_t has these properties.

    In fixed epochs the bracket of the blocks X_ππ replaces an open one; it is closed for up to three epochs and for
    balanced blocks.  Rounding: relative error (k sqrt(n) ``error`` + 1e-14) or less, where ``error`` bounds the error
    of the coefficients in the 2-norm.  O(n log k).  For reshuffled orders see ``theory.mechanisms.reshuffled``.
    """
    n, b, k = _not_reshuffled(participation).length, participation.period, participation.count
    c = checks.shaped("coefficients", coefficients, (n,))
    sizes = np.abs(c)
    if k == 1:
        value = norm(c)
        return bracket_of(value, value, error + _NORM_ROUNDING)
    tail = sizes[b:]
    majorant = sizes.copy()
    majorant[b:] = np.maximum.accumulate(tail[::-1])[::-1]
    # An error δ of c changes ĉ by at most max_{s>=t} |δ_s|, whose norm is at most sqrt(n) times that of δ.
    spread = math.sqrt(n) if tail.any() else 1.0
    rounding = k * spread * error + _NORM_ROUNDING + 4 * math.ceil(math.log2(k)) * UNIT_ROUNDOFF
    alternated = c * (-1.0) ** np.arange(n)
    value = max(norm(window_sums(signed, b, k)) for signed in (c, alternated))
    found = bracket_of(value, norm(window_sums(majorant, b, k)), rounding)
    if found.exact or isinstance(participation, MinSep) or n * k > MOST_PRODUCTS:
        return found
    closer = fixed_epochs_sensitivity(c, participation, error=error)
    return closer if closer.exact or closer.upper < found.upper else found


def fixed_epochs_sensitivity(
    coefficients: Array, participation: Order, *, error: float = 0.0, step_scales: Array | None = None
) -> Sensitivity:
    """The sensitivity of T(c) diag(1/d) for fixed epochs, from the blocks of its Gram matrix, in O(n k).

    Returns a bracket, closed for up to three epochs and for balanced blocks; ``error`` as for ``toeplitz_sensitivity``.
    """
    n = participation.length
    k = participation.count
    first = abs(float(coefficients[0]))
    spread = 3 * error * norm(coefficients) / first if first else math.inf  # of the relative errors of the columns
    ends = _class_ends(coefficients, participation, step_scales)
    return bracket_of(*ends, k * ((n + 2 * k + 64) * UNIT_ROUNDOFF + spread))


def toeplitz_pattern_norm(coefficients: Array, pattern: Indices) -> float:
    """‖Σ_{i in pattern} S^i c‖ for the shift S: attained by equal gradients in the steps of ``pattern``."""
    total = np.zeros_like(coefficients)
    for first in pattern.tolist():
        total[first:] += coefficients[: coefficients.size - first]
    return norm(total)


def _class_ends(coefficients: Array, participation: Order, step_scales: Array | None) -> tuple[float, float]:
    """Ends of a bracket from the blocks of fixed epochs, X_ij = Σ_{s<n−j} c_s c_{s+j−i}/(d_i d_j) for i <= j."""
    n, b, k = participation.length, participation.period, participation.count
    scale = float(np.abs(coefficients).max())
    c = coefficients / scale
    products = [np.cumsum(c[: n - lag * b] * c[lag * b :]) for lag in range(k)]
    low = high = 0.0
    for steps in participation.residue_classes():
        block = np.zeros((steps.size, steps.size))
        for lag in range(steps.size):
            entries = products[lag][n - 1 - steps[lag:]]
            rows = np.arange(entries.size)
            block[rows, rows + lag] = block[rows + lag, rows] = entries
        if step_scales is not None:
            block /= np.outer(step_scales[steps], step_scales[steps])
        ends = block_sensitivity(block)
        low, high = max(low, ends[0]), max(high, ends[1])
    return scale * math.sqrt(max(low, 0.0)), scale * math.sqrt(max(high, 0.0))


# -- blocks of a Gram matrix -------------------------------------------------------------------------------------------


def _signs(block: Array) -> Array:
    """Signs s that make sᵀ X s large, by Prim's spanning tree and single changes; the balancing ones if there are."""
    size = block.shape[0]
    signs = np.zeros(size)
    signs[0] = 1.0
    reach = block[0].copy()  # the entry of largest size that leads to each step, with the sign of its other end
    for _ in range(size - 1):
        following = int(np.argmax(np.where(signs == 0, np.abs(reach), -1.0)))
        signs[following] = 1.0 if reach[following] >= 0 else -1.0
        entries = signs[following] * block[following]
        reach = np.where(np.abs(entries) > np.abs(reach), entries, reach)
    off = block - np.diag(np.diag(block))
    for _ in range(4 * size):
        gains = -signs * (off @ signs)
        worst = int(np.argmax(gains))
        if gains[worst] <= 1e-12 * np.abs(block[worst]).sum():
            break
        signs[worst] = -signs[worst]
    return signs


def block_sensitivity(block: Array) -> tuple[float, float]:
    """Bracket of max { <X, R> : R >= 0, R_ii = 1 } for a symmetric block X, the square of a sensitivity.

    Equal signs of gradients give the lower end.  The upper end is the smallest of: Σ |X_ij|; the exact maximum, for at
    most three steps; and the dual bound Σ y + k max(0, −λ_min(diag y − X)) with y = s ∘ X s.
    """
    size = block.shape[0]
    total = float(np.abs(block).sum())
    signs = _signs(block)
    value = float(signs @ block @ signs)
    if size <= 2 or value >= total * (1 - size * UNIT_ROUNDOFF):
        return total, total
    if size == 3:
        value = _largest_of_three(block)
        return value, value
    if size <= _LARGEST_BLOCK:
        multipliers = signs * (block @ signs)
        least = float(np.linalg.eigvalsh(np.diag(multipliers) - block)[0]) - 8 * size * UNIT_ROUNDOFF * total
        total = min(total, float(multipliers.sum()) + size * max(0.0, -least))
    return value, total


def _largest_of_three(block: Array) -> float:
    """Max <X, R> over correlation matrices R of three gradients, for X with X_12 X_13 X_23 < 0.

    With a, b, c = |X_12|, |X_13|, |X_23|: if 1/a, 1/b and 1/c are the sides of a triangle, its angles are those between
    the worst gradients, which are coplanar, and otherwise the best signs are.
    """
    a, b, c = (abs(float(block[i, j])) for i, j in ((0, 1), (0, 2), (1, 2)))
    trace = float(np.trace(block))
    if 0 < a * b < c * (a + b) and a * c < b * (a + c) and b * c < a * (b + c):
        return trace + a * b / c + b * c / a + c * a / b
    return trace + 2 * (a + b + c) - 4 * min(a, b, c)


# -- any strategy ------------------------------------------------------------------------------------------------------


def strategy_sensitivity(strategy: ArrayLike, participation: Order, *, error: float = 0.0) -> Sensitivity:
    """The sensitivity of any strategy.

    Returns a bracket, closed for one participation; in fixed epochs for up to three epochs and for balanced blocks; for
    min-sep if X = CᵀC has no entries at |i − j| >= b, or decays as Toeplitz matrices do, and if a run is so short that
    its patterns can be listed, for non-negative X.  O(n³), and O(n² k) where k < ceil(n/b).

    Columns have a relative ``error`` of at most this in the 2-norm.  For reshuffled orders see
    ``theory.mechanisms.reshuffled``.
    """
    matrix = checks.reals("strategy", strategy)
    if matrix.ndim != 2 or matrix.shape[1] != participation.length or matrix.shape[0] == 0:
        raise ValueError(f"strategy must have shape (rows, {participation.length}), got {matrix.shape}")
    scale = float(np.abs(matrix).max())
    if scale == 0:
        return Sensitivity(value=0.0, upper=0.0, rounding=0.0, exact=True)
    matrix = matrix / 2.0 ** math.frexp(scale)[1]  # keeps squares within the range of floats, and is exact
    found = gram_sensitivity(matrix.T @ matrix, participation, terms=matrix.shape[0], error=error)
    unscaled = 2.0 ** math.frexp(scale)[1]
    return Sensitivity(
        value=found.value * unscaled, upper=found.upper * unscaled, rounding=found.rounding, exact=found.exact
    )


def column_sensitivity(norms: ArrayLike, participation: Order, *, orthogonal: bool, error: float) -> Sensitivity:
    """The sensitivity from the norms of the columns of the strategy.

    Returns the square root of the largest Σ_π |C_i|² if columns are orthogonal, which is exact; otherwise this is the
    lower, and the largest Σ_π |C_i| the upper end.  O(n k).

    Columns i ≠ j of one pattern are orthogonal if C has at most ``min_sep`` bands.
    """
    sizes = checks.shaped("norms", norms, (participation.length,), "[0, inf)")

    scale = float(sizes.max()) or 1.0
    value = scale * math.sqrt(participation.largest_sum((sizes / scale) ** 2))
    bound = value if orthogonal else scale * participation.largest_sum(sizes / scale)
    return bracket_of(value, bound, error + (participation.count + 8) * UNIT_ROUNDOFF)


def gram_sensitivity(gram: Array, participation: Order, *, terms: int = 0, error: float = 0.0) -> Sensitivity:
    """The sensitivity of a strategy with the Gram matrix X, shape (n, n), symmetric and positive semidefinite.

    ``terms`` says that each entry of X is a computed inner product of two columns with so many terms; ``error`` bounds
    the relative error of each column.
    """
    k = _not_reshuffled(participation).count
    # A rounding error of (terms + 2) u |C_i| |C_j| in each X_ij adds up to (terms + 2) u (Σ_π |C_i|)² at most, which is
    # at most k times Σ_π X_ii, hence k times the square of the sensitivity.
    rounding = k * ((terms + 2 * k + 64) * UNIT_ROUNDOFF + 3 * error)
    if participation.once:
        value = bound = float(np.diag(gram).max())
    elif isinstance(participation, FixedEpochs):
        value, bound = largest_block(gram, participation.residue_classes())
    else:
        value, bound = _min_sep_bracket(gram, participation)
    return bracket_of(math.sqrt(max(value, 0.0)), math.sqrt(max(bound, 0.0)), rounding)


def _not_reshuffled(participation: Order) -> Order:
    """``participation``; raises ``ValueError`` for reshuffled orders, whose patterns are more than those of min-sep."""
    if isinstance(participation, Reshuffled) and not participation.once:
        raise ValueError(f"participation must not be reshuffled here, got {participation!r}")
    return participation


def largest_block(gram: Array, patterns: list[Indices]) -> tuple[float, float]:
    """The largest bracket of ``block_sensitivity`` over patterns, for a Gram matrix of shape (n, n)."""
    if (gram >= 0).all():  # then gradients that are equal are the worst
        largest = max(float(gram[pattern[:, np.newaxis], pattern].sum()) for pattern in patterns)
        return largest, largest
    ends = [block_sensitivity(gram[np.ix_(pattern, pattern)]) for pattern in patterns]
    return max(low for low, _ in ends), max(high for _, high in ends)


def _min_sep_bracket(gram: Array, participation: Order) -> tuple[float, float]:
    from corrnoise.theory.participation import pattern_sums

    b, k = participation.period, participation.count
    sizes = np.abs(gram)
    rows = pattern_sums.row_bounds(sizes, b, k, participation.saturated)
    heaviest = pattern_sums.best_pattern(rows, b, k)
    bound = min(float(rows[heaviest].sum()), _decaying_bound(sizes, participation))
    value, _ = largest_block(gram, [participation.largest, heaviest])
    return closer_by_patterns(gram, participation, value, bound) if value < bound * (1 - 1e-14) else (value, bound)


def closer_by_patterns(gram: Array, participation: Order, value: float, bound: float) -> tuple[float, float]:
    """Both ends of a bracket, closer where the patterns are few enough to be looked at one by one."""
    if participation.worst.number_of_patterns(_MOST_PATTERNS) <= _MOST_PATTERNS:
        value, attained = largest_block(gram, list(participation.worst.patterns()))
        bound = min(bound, attained)
    return value, bound


def _decaying_bound(sizes: Array, participation: Order) -> float:
    """Σ over π* of the majorant M of |X| that falls with the later step and with the separation from b on.

    Steps p <= q of any pattern have |X_{i_p, i_q}| <= M(q b, (q − p) b), as i_p >= p b and i_q − i_p >= (q − p) b.
    """
    n, b, k = participation.length, participation.period, participation.count
    total = float(np.maximum.accumulate(np.diag(sizes)[::-1])[::-1][participation.largest].sum())
    following = np.zeros(n)  # [j]: the largest |X_{j−m, j}| with m >= lag
    for lag in range(n - 1, b - 1, -1):
        following[lag:] = np.maximum(following[lag:], np.diag(sizes, lag))
        if lag % b == 0 and lag // b < k:
            later = np.maximum.accumulate(following[::-1])[::-1]
            total += 2 * float(later[lag : (k - 1) * b + 1 : b].sum())
    return total
