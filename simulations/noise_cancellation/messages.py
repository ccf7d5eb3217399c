"""The noise of a machine, message by message: what it keeps between two participations, and what it adds.

A machine may stop and go on elsewhere, so that all it keeps is one array, a vector a row, which it writes to disk.
Each message takes one fresh draw, and the arithmetic is that of the program of the mechanism: a cascade for rational
noise, nodes for a tree, substitution for triangular strategies, and all past draws for noise with a longer memory.
"""

from __future__ import annotations

import numpy as np

from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import ProductNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.numerics.checks import Array


def start(noise: Mechanism, dimension: int) -> Array:
    """The memory of a machine before its first participation, shape (vectors, dimension)."""
    return np.zeros((vectors(noise, 0), dimension))


def vectors(noise: Mechanism, participations: int) -> int:
    """How many vectors a machine keeps after ``participations`` >= 0."""
    plain = noise.noise if isinstance(noise, ScaledNoise) else noise
    if isinstance(plain, BinaryTree):
        return plain.memory()
    if _is_cascade(plain):
        return plain.memory(1)
    if isinstance(plain, FiniteNoise):
        return min(participations, plain.values.size - 1)
    if "substitution" in plain.forms():
        longest = plain.memory() if plain.steps is not None else plain.memory(participations + 1)
        return min(participations, longest)
    return participations


def step(noise: Mechanism, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
    """The noise (N z)_k, shape (d,), of the message of participation k >= 1, and what the machine keeps after it.

    ``kept`` is what it kept, shape (vectors, d), and ``fresh`` z_k: independent standard normal numbers, shape (d,).
    Arguments are not changed.
    """
    k = participation - 1
    if isinstance(noise, ScaledNoise):
        scaled = fresh if noise.draw_scales is None else noise.draw_scales[k] * fresh
        value, after = step(noise.noise, kept, scaled, participation)
        return (value if noise.step_scales is None else noise.step_scales[k] * value), after
    if isinstance(noise, BinaryTree):
        return _node(noise, kept, fresh, participation)
    if _is_cascade(noise):
        return _cascade(noise, kept, fresh)
    left = vectors(noise, participation)
    if "substitution" in noise.forms():
        strategy = noise.strategy(noise.steps or participation)
        past = strategy[k, k - len(kept) : k]
        value = (fresh - past @ kept) / strategy[k, k]
        made = np.vstack([kept, value])
        return value, made[len(made) - left :]
    assert isinstance(noise, ToeplitzNoise)
    drawn = np.vstack([kept, fresh])
    return noise.coefficients(len(drawn))[::-1] @ drawn, drawn[len(drawn) - left :]


def _is_cascade(noise: Mechanism) -> bool:
    return isinstance(noise, ProductNoise) and "cascade" in noise.forms()


def _cascade(noise: Mechanism, kept: Array, fresh: Array) -> tuple[Array, Array]:
    """One step through the sections: x → x + (a − q) u, u → u + (x − q u)."""
    assert isinstance(noise, ProductNoise)
    value = fresh
    after = np.empty_like(kept)
    for i, (zero, pole) in enumerate(zip(*noise.sections(), strict=True)):
        state = kept[i]
        after[i] = state + (value - pole * state)
        value = value + (zero - pole) * state
    return value, after


def _node(tree: BinaryTree, kept: Array, fresh: Array, participation: int) -> tuple[Array, Array]:
    """The new node minus those that it replaces in the prefix sum."""
    height = (participation & -participation).bit_length() - 1
    node = tree.draws[height] * fresh + tree.estimates[height, :height] @ kept[:height]
    after = kept.copy()
    after[height] = node
    return node - tree.left[:height] @ kept[:height], after
