"""Where the gradients of canaries and the idle coordinates lie.

A loop may clip each layer, or each coordinate, or may leave some coordinates out.  So a canary is spread over four
coordinates, which it shares with three other canaries: the gradients are the rows of a Hadamard matrix and orthogonal.
Normal noise with independent coordinates stays such noise in this basis, and as all rows have the sum 1, an offset of
all coordinates is the same offset of all canaries.  Half of the groups of four lie in neighbouring coordinates, from
the first four to the last four; the others are spread over the whole vector.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array

_SHARE_MATRIX = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
TOGETHER = len(_SHARE_MATRIX)  #: canaries that share coordinates


class AuditLayout:
    """The places of canaries, whose number is a multiple of 4, and of idle coordinates.

    The audit counts the coordinates of canaries first: those of group g are g, g + groups, and so on.  ``place`` says
    which of the loop's coordinates each is.  The first ``neighbouring`` groups lie in neighbouring coordinates.
    """

    def __init__(self, canaries: int, idle: int) -> None:
        self.canaries = canaries
        self.size = canaries + idle
        self.groups = canaries // TOGETHER
        self.neighbouring = (self.groups + 1) // 2
        first = np.linspace(0, self.size - TOGETHER, self.neighbouring).astype(np.intp)
        blocks = first[:, np.newaxis] + np.arange(TOGETHER)
        free = np.setdiff1d(np.arange(self.size), blocks)
        apart = self.groups - self.neighbouring
        chosen = free[np.linspace(0, free.size - 1, TOGETHER * apart).astype(np.intp)].reshape(TOGETHER, apart)
        used = np.concatenate([blocks.T, chosen], axis=1).ravel()
        self.place = np.concatenate([used, np.setdiff1d(free, chosen)])
        self.idle_places = self.place[canaries:]

    def group(self, canaries: NDArray[np.intp]) -> NDArray[np.intp]:
        """The groups of canaries."""
        return canaries % self.groups

    def gradients(self, canaries: NDArray[np.intp], lengths: Array) -> Array:
        """Gradients of these canaries with these lengths, shape (number, size)."""
        row, group = np.divmod(canaries, self.groups)
        made = np.zeros((canaries.size, self.size))
        examples = np.arange(canaries.size)
        for number in range(TOGETHER):
            made[examples, self.place[group + number * self.groups]] = lengths * _SHARE_MATRIX[row, number]
        return made

    def scores(self, released: Array) -> Array:
        """How far a release goes along each canary, shape (…, canaries), for its coordinates, of the same shape."""
        four = released.reshape(*released.shape[:-1], TOGETHER, -1)
        return np.asarray(np.einsum("ij,...jk->...ik", _SHARE_MATRIX, four).reshape(released.shape))
