"""Binary trees: noise of prefix sums, or of a momentum, from sums over dyadic intervals.

A tree of the literature draws noise for each dyadic interval of steps and adds up the intervals of each
prefix.  Its release has the law of a mechanism with one draw a step.  Count steps from 1, let v(t) be the number of
trailing zero bits of t, α the decay (0 for sums) and δ_i = (1 − α)^{2^i}.  Then with v = v(t)

    node_t = s_v z_t + Σ_{i<v} a_{v,i} node_{t−2^i},        y_t = node_t − Σ_{i<v} δ_i node_{t−2^i}.

* ``"binary"``: s_v = 1, a = 0.
* ``"online"``: Honaker's estimate of a node from its own subtree.  With c_h = w_{h−1} (1 + δ_{h−1}²),
  w_h = c_h/(1 + c_h) and w_0 = 1: s_0 = 1, s_h² = w_h² + (1 − w_h)² s_{h−1}², a_{h,i} = δ_i Π_{j=i+1}^h (1 − w_j).

*Proof.*  The interval (t − 2^v, t] is the disjoint union of {t} and of the intervals of the nodes t − 2^i, i < v, whose
numbers of trailing zero bits are i; so node_t = y_t + Σ δ_i node_{t−2^i}, which is the second equation.  An interval
that ends at t and that no prefix before t reads has fresh draws only, and these enter the release through node_t alone.
Unrolling the estimate est_h = w_h Z_h + (1 − w_h)(δ_{h−1} left_{h−1} + est_{h−1}) along the right edge of the subtree
gives independent draws of the total variance s_v² and the left children node_{t−2^i} with the weights a_{v,i}.  ∎

The strategy has at most log2(n) + 1 entries a column, all non-negative.  Column j meets the rows j, j + 2^{v(j)}, …;
the entry in row t, reached from i with v(i) = h, is (1 − a_{v(t),h}/δ_h) (1 − α)^{t−j}/s_{v(t)}.

Sources: Chan, Shi and Song, ACM TISSEC 2011; Dwork et al., STOC 2010 (binary trees); J. Honaker, Efficient use of
differentially private binary trees, 2015; Tran and Cutkosky, NeurIPS 2022 (trees for momentum).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.program import Form
from corrnoise.theory.mechanisms.rounding import tree_sensitivity
from corrnoise.theory.mechanisms.sensitivity import Sensitivity, attained_by, bracket_of
from corrnoise.theory.mechanisms.tree_orders import largest_squared_weights, powers
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import record
from corrnoise.theory.numerics.rounding import Dtype
from corrnoise.theory.participation import FixedEpochs, Order, Participation, Reshuffled

Decoder = Literal["binary", "online"]

_RELATIVE_ROUNDING = 1e-12  #: of sums of positive terms, and of the weights, whose differences do not cancel
_OF_ORDERS = 1e-11  #: the same of the sums behind reshuffled orders


@record
class BinaryTree(Mechanism):
    """Tree aggregation with one draw a step.

    Parameters
    ----------
    steps : int
        n >= 1.
    decoder : {"binary", "online"}, default "online"
        ``"binary"``, or ``"online"``, which estimates each node from its own subtree.  For sums it has about half the
        variance; for a momentum with a large decay it can be worse.
    decay : float, default 0.0
        α, 0 <= α <= 1: prefixes are Σ (1 − α)^{t−τ} g_τ; 0 for sums.

    Examples
    --------
    >>> import corrnoise as cn
    >>> round(cn.mechanisms.BinaryTree(64, decoder="binary").mean_error(cn.Participation.single(64)), 6)
    4.594494
    >>> round(cn.mechanisms.BinaryTree(64).mean_error(cn.Participation.single(64)), 6)
    3.406936
    """

    FORMS: ClassVar[Mapping[Form, tuple[Dtype, ...]]] = {"tree": ("float64",)}

    horizon: int
    decoder: Decoder
    decay: float

    def __init__(self, steps: int, *, decoder: Decoder = "online", decay: float = 0.0) -> None:
        self._set(
            horizon=checks.integer("steps", steps, 1),
            decoder=checks.choice("decoder", decoder, get_args(Decoder)),
            decay=checks.real("decay", decay, "[0, 1]"),
        )

    def arguments(self) -> dict[str, Any]:
        return {"steps": self.horizon, "decoder": self.decoder, "decay": self.decay}

    @property
    def steps(self) -> int:
        return self.horizon

    def _leading(self, n: int) -> BinaryTree:
        return BinaryTree(n, decoder=self.decoder, decay=self.decay)

    def memory(self, n: int | None = None) -> int:
        return self.length(n).bit_length()

    def bands(self, n: int | None = None) -> int:
        return 1 << (self.length(n).bit_length() - 1)

    def covered(self, participation: Order, form: Form, dtype: Dtype) -> tuple[Mechanism, float]:
        exact = self.bracket(participation).upper
        return self, tree_sensitivity(exact, self.column_norms(), participation)

    # -- the weights of nodes ------------------------------------------------------------------------------------------

    @cached_property
    def left(self) -> Array:
        """δ_i, the factors of earlier nodes in a prefix, shape (heights,)."""
        return powers(self.decay, 2.0 ** np.arange(self.steps.bit_length()))

    @cached_property
    def draws(self) -> Array:
        """s_h, the standard deviation of the draw of a node of height h, shape (heights,)."""
        shares = self._shares
        variances = np.ones(shares.size)
        for h in range(1, shares.size):
            variances[h] = shares[h] ** 2 + (1 - shares[h]) ** 2 * variances[h - 1]
        return np.sqrt(variances)

    @property
    def estimates(self) -> Array:
        """a_{h,i}, the weights of earlier nodes in the estimate of one of height h, shape (heights, heights)."""
        return np.asarray(self._kept * self.left)

    @cached_property
    def _kept(self) -> Array:
        """Π_{j=i+1}^h (1 − w_j) for i < h, and 0 for others, shape (heights, heights)."""
        size = self._shares.size
        kept = np.zeros((size, size))
        for h in range(1, size):
            kept[h, :h] = np.cumprod((1 - self._shares[1 : h + 1])[::-1])[::-1]
        return kept

    @cached_property
    def _shares(self) -> Array:
        """w_h: 1 for the decoder "binary"."""
        shares = np.ones(self.steps.bit_length())
        if self.decoder == "online":
            for h in range(1, shares.size):
                c = shares[h - 1] * (1 + self.left[h - 1] ** 2)
                shares[h] = c / (1 + c)
        return shares

    # -- the mechanism -------------------------------------------------------------------------------------------------

    def noising(self, draws: ArrayLike) -> Array:
        z = self._rows(draws)
        nodes = np.empty((self.steps.bit_length(), *z.shape[1:]))
        noise = np.empty_like(z)
        estimates = self.estimates
        for t in range(1, self.steps + 1):
            height = (t & -t).bit_length() - 1
            node = self.draws[height] * z[t - 1] + np.tensordot(estimates[height, :height], nodes[:height], axes=1)
            noise[t - 1] = node - np.tensordot(self.left[:height], nodes[:height], axes=1)
            nodes[height] = node  # the last node of height i < v(t) before t belongs to the step t − 2^i
        return noise

    def entries(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], Array]]:
        """Rows, columns (counted from 0) and entries of the strategy that are not 0, a few columns at a time.

        Yields
        ------
        (array of int, array of int, array of float)
        """
        first = np.arange(1, self.steps + 1)
        row = first.copy()
        entry = 1 / self.draws[_trailing_zeros(row)]
        columns = first
        while row.size:
            yield row - 1, columns - 1, entry
            height = _trailing_zeros(row)
            following = row + (1 << height)
            inside = following <= self.steps
            row = following[inside]
            columns = columns[inside]
            above = _trailing_zeros(row)
            entry = (1 - self._kept[above, height[inside]]) * powers(self.decay, row - columns) / self.draws[above]

    def strategy(self, n: int | None = None) -> Array:
        matrix = np.zeros((self.length(n), self.steps))
        for rows, columns, values in self.entries():
            matrix[rows, columns] = values
        return matrix

    def column_norms(self, n: int | None = None) -> Array:
        squares = np.zeros(self.length(n))
        for _, columns, values in self.entries():
            squares[columns] += values**2
        return np.sqrt(squares)

    def strategy_error(self, n: int | None = None) -> float:
        return _RELATIVE_ROUNDING

    def bracket(self, participation: Participation) -> Sensitivity:
        """The base's bracket.

        It is exact for fixed epochs, in O(n log n), as all entries are non-negative, and for reshuffled orders and the
        decoder ``"binary"``, by a dynamic program over epochs, if an example is used in every epoch.
        """
        who = self.of_this_run(participation).worst
        if who.once:
            return super().bracket(who)
        if isinstance(who, FixedEpochs):
            square = self._fixed_epochs(who.period)
            return bracket_of(math.sqrt(square), math.sqrt(square), _RELATIVE_ROUNDING)
        if isinstance(who, Reshuffled) and self.decoder == "binary" and who.period > 1:
            bound = math.sqrt(largest_squared_weights(self.steps, who.period, self.decay, self._released()))
            if who.count * who.period >= self.steps:
                return bracket_of(bound, bound, _OF_ORDERS)
            found = super().bracket(who)
            return found if found.upper <= bound else attained_by(found.value, bound, _OF_ORDERS)
        return super().bracket(who)

    def _fixed_epochs(self, period: int) -> float:
        """The largest |C 1_π|² over the residue classes π."""
        rows, columns, values = (np.concatenate(parts) for parts in zip(*self.entries(), strict=True))
        places, where = np.unique((columns % period) * self.steps + rows, return_inverse=True)
        sums = np.bincount(where, weights=values)
        return float(np.bincount(places // self.steps, weights=sums**2).max())

    def _released(self) -> list[range]:
        """For each height the numbers of the intervals that make up prefixes."""
        return [range(0, self.steps >> height, 2) for height in range(self.steps.bit_length())]


def _trailing_zeros(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of trailing zero bits of positive integers."""
    return np.asarray(np.frexp(numbers & -numbers)[1] - 1, dtype=np.int64)
