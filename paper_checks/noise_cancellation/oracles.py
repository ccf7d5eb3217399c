"""Losses of a few machines, and variances by enumeration, for the claims."""

import math
from itertools import combinations, product

import numpy as np

from corrnoise.theory.numerics.checks import Array


def enumerated_variance(values: Array, participants: int) -> float:
    """E (average over a random subset of machines, one random example each, minus the mean of all)²; (M, n) ``values``."""
    centred = values - values.mean()
    machines, examples = values.shape
    squares = [
        np.mean([centred[i, z] for i, z in zip(subset, drawn, strict=True)]) ** 2
        for subset in combinations(range(machines), participants)
        for drawn in product(range(examples), repeat=participants)
    ]
    return float(np.mean(squares))


def affine_losses(slopes: Array, offsets: Array, size: float, diameter: float, alike: str) -> tuple[Array, Array]:
    """h and b of the gradients h x + b of 3 machines of 2 examples on [0, D], shape (3, 2).

    b is ``size`` times ``offsets``, and h is ``size``/D times ``slopes``.  If all machines are alike, or only
    their means, the heterogeneity is 0; if the examples of each machine are alike the deviation is 0.
    """
    if alike == "means":
        signs = np.array([1.0, -1.0])
        largest = float(slopes.max())
        return (largest + slopes[:3, np.newaxis] * signs) / 2 * size / diameter, offsets[:3, np.newaxis] * signs * size
    b = offsets.reshape(3, 2) * size
    h = slopes.reshape(3, 2) * size / diameter
    if alike == "machines":
        return np.tile(h[0], (3, 1)), np.tile(b[0], (3, 1))
    if alike == "examples":
        return np.repeat(h[:, :1], 2, axis=1), np.repeat(b[:, :1], 2, axis=1)
    return h, b


def path(steps: Array) -> tuple[Array, Array]:
    """w_1, …, w_t = ``steps`` and their weighted averages x_1, …, x_t."""
    t = np.arange(1, steps.size + 1)
    return steps, np.cumsum(t * steps) / np.cumsum(t)


def affine_case(h: Array, b: Array, steps: Array, participants: int, diameter: float) -> tuple[Array, float, float]:
    """Var s_τ of gradients h x + b on [0, D] on the path of D times ``steps``, and σ̃, ξ̃."""
    _, x = path(diameter * steps)
    t = np.arange(1, steps.size + 1)
    before = np.concatenate([[0.0], x[:-1]])
    variances_of_steps = [
        enumerated_variance(k * (h * x[k - 1] + b) - (k - 1) * (h * before[k - 1] + b), participants) for k in t
    ]
    ends = (b, h * diameter + b)  # both variances are convex in x, so largest at an end
    sigma = max(math.sqrt(e.var(axis=1).max()) for e in ends)
    xi = max(math.sqrt(e.mean(axis=1).var()) for e in ends)
    sigma_l, xi_l = math.sqrt(h.var(axis=1).max()), math.sqrt(h.mean(axis=1).var())
    return np.array(variances_of_steps), sigma + 2 * sigma_l * diameter, xi + 2 * xi_l * diameter
