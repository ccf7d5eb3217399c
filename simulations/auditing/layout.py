"""Where the gradients of canaries and the idle coordinates lie.

A loop may clip each layer, or each coordinate, instead of each example.  A gradient in a single coordinate would not
show it.  So a canary is spread over four coordinates that are far apart, which it shares with three other canaries: the
gradients are the rows of a Hadamard matrix and orthogonal.  Normal noise with independent coordinates stays such noise
in this basis, and as all rows have the sum 1, an offset of all coordinates is the same offset of all canaries.  Idle
coordinates lie between those of canaries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics.checks import Array

_CANARY_CHUNKS = 16  # of coordinates of canaries, with idle ones after each
_SHARE_MATRIX = np.array([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]]) / 2
TOGETHER = len(_SHARE_MATRIX)  #: canaries that share coordinates


class AuditLayout:
    """The places of canaries, whose number is a multiple of 4, and of idle coordinates.

    The audit counts the coordinates of canaries first; ``place`` says which of the loop's coordinates each is.
    """

    def __init__(self, canaries: int, idle: int) -> None:
        self.canaries = canaries
        self.size = canaries + idle
        parts = zip(
            np.array_split(np.arange(canaries), _CANARY_CHUNKS),
            np.array_split(np.arange(canaries, self.size), _CANARY_CHUNKS),
            strict=True,
        )
        self.place = np.argsort(np.concatenate([part for both in parts for part in both]))
        self.idle_places = self.place[canaries:]

    def gradients(self, canaries: NDArray[np.intp], lengths: Array) -> Array:
        """Gradients of these canaries with these lengths, shape (number, size)."""
        apart = self.canaries // TOGETHER
        row, first = np.divmod(canaries, apart)
        made = np.zeros((canaries.size, self.size))
        examples = np.arange(canaries.size)
        for number in range(TOGETHER):
            made[examples, self.place[first + number * apart]] = lengths * _SHARE_MATRIX[row, number]
        return made

    def scores(self, released: Array) -> Array:
        """How far a release goes along each canary, shape (…, canaries), for its coordinates, of the same shape."""
        four = released.reshape(*released.shape[:-1], TOGETHER, -1)
        return np.asarray(np.einsum("ij,...jk->...ik", _SHARE_MATRIX, four).reshape(released.shape))
