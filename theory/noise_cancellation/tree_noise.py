"""Binary-tree noise of a machine: one vector for each binary digit of the number of participations.

A node covers a dyadic interval of participations and has noise of its own.  The prefix noise y_k is the sum of the
nodes that the binary digits of k name.  With the decoder ``"online"`` each node is estimated from all nodes below it,
too, which takes no further memory and about halves the variance (Honaker's estimate from below).

The messages do not determine all nodes.  So the privacy here is not that of all nodes, one for each height, but the
exact one of what is released, from the triangular P with the covariance of y: P z has the law of y, and whatever
follows from the law of the noise alone follows for the tree.

References
----------
Chan, Shi and Song, ACM TISSEC 2011; J. Honaker, Efficient use of differentially private binary trees, 2015.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from corrnoise.theory.mechanisms.tree import BinaryTree, Decoder
from corrnoise.theory.noise_cancellation.machine_noise import MachineNoise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import record

_MOST = 4096  # participations, of which matrices are made


@record
class TreeNoise(MachineNoise):
    """Prefix noise by a binary tree over the participations of a machine.

    Parameters
    ----------
    participations
        The most that it is made for, in [1, 4096].
    decoder
        ``"binary"`` or ``"online"``.

    Examples
    --------
    >>> noise = TreeNoise(100)
    >>> noise.memory(100), round(noise.mean_variance(100), 2)
    (7, 12.13)
    """

    participations: int
    decoder: Decoder = "online"

    def __post_init__(self) -> None:
        checks.choice("decoder", self.decoder, get_args(Decoder))
        self._set(participations=checks.integer("participations", self.participations, 1, largest=_MOST))

    @property
    def longest(self) -> int | None:
        return self.participations

    def memory(self, participations: int) -> int:
        return self._checked(participations).bit_length()

    def draws(self, participation: int) -> int:
        return (self._checked(participation) & -participation).bit_length()

    def start(self, dimension: int) -> Array:
        return np.zeros((self.participations.bit_length(), dimension))

    def step(self, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
        """The new node minus those that it replaces in the prefix sum."""
        height = self.draws(participation) - 1  # of the new node, whose halves below it end here
        node = fresh[0]
        for h in range(height):
            own = fresh[h + 1]
            if self.decoder == "online":  # its own draw and its halves, by their variances
                whole = 2.0 ** (h + 2) - 1
                node = 2.0 ** (h + 1) / whole * own + (2.0 ** (h + 1) - 1) / whole * (node + kept[h])
            else:
                node = own
        after = kept.copy()
        after[height] = node
        return node - kept[:height].sum(axis=0), after

    def _prefix_factor(self, participations: int) -> Array:
        nodes = np.cumsum(BinaryTree(participations, decoder=self.decoder).noising_matrix(), axis=0)
        factor = np.asarray(np.linalg.qr(nodes.T, mode="r")).T  # not by the covariance, whose condition is the square
        return np.asarray(factor * np.sign(np.diag(factor)), dtype=float)
