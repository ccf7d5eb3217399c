"""Exact δ of two and three bins by quadrature: the trapezoidal rule around a Black-Scholes formula.

It has six correct digits, as the references show.
"""

import math

import numpy as np
from scipy.special import ndtr

REFERENCES = [  # two bins, C = I: v, ε, remove, add
    (0.25, 0.0, 0.144028324762406, 0.144028324762406),
    (0.25, 1.0, 0.000646128371984074, 0.000479006242234778),
    (0.5, 0.5, 0.0615711565585088, 0.0585692272773517),
    (1.0, 0.0, 0.297762225193562, 0.297762225193562),
    (1.0, 1.0, 0.0592065010858927, 0.0501976623694882),
    (1.0, 3.0, 0.000167702771411789, 1.5902650818727e-5),
    (2.0, 2.0, 0.0542866175146329, 0.0344770226710806),
    (4.0, 5.0, 0.0146918301242731, 0.00278609247919171),
]
PAIR = np.array([[2.5, 1.5], [1.5, 2.25]]) / 4
PAIR_REFERENCES = [  # ε, remove, add
    (0.0, 0.273554423187646, 0.273554423187646),
    (0.5, 0.12111688303312, 0.120825144213479),
    (1.0, 0.0381722418306279, 0.0378182498178309),
    (2.0, 0.00116584785854234, 0.00110735875380686),
]
MANY = [  # C = I: v, b, ε, remove, add
    (1.0, 64, 0.25, 0.005955081878, 0.003892475154),
    (1.0, 64, 0.5, 0.0002815627274, 2.281116899e-5),
    (1.0, 128, 0.25, 0.001086616, 0.0004874078447),
    (0.25, 32, 0.25, 0.00014530807, 0.00011723870),
]


def exact(gram, epsilon, direction, points=None):
    """δ(ε) of b = 1, 2 or 3 bins of equal probability and a positive definite Gram matrix V."""
    v = np.asarray(gram, dtype=float)
    b = v.shape[0]
    size = points or {1: 1, 2: 8001, 3: 801}[b]
    axis = np.linspace(-12, 12 + math.sqrt(v.max()), size) if b > 1 else np.zeros(1)
    step = axis[1] - axis[0] if b > 1 else 1.0
    factor = np.linalg.cholesky(v)
    z = np.stack(np.meshgrid(*[axis] * (b - 1), indexing="ij")).reshape(b - 1, -1)
    weight = np.exp(-np.square(z).sum(axis=0) / 2) * (step / math.sqrt(2 * math.pi)) ** (b - 1)
    x = factor[:, :-1] @ z  # what is known of X; the last one has the variance r² besides
    known = np.exp(x[:-1] - np.diagonal(v)[:-1, np.newaxis] / 2).sum(axis=0) / b
    r = factor[-1, -1]
    forward = np.exp(x[-1] - v[-1, -1] / 2 + r * r / 2) / b
    strike = math.exp(epsilon) if direction == "remove" else math.exp(-epsilon)
    rest = strike - known
    with np.errstate(all="ignore"):
        d = np.log(forward / np.maximum(rest, 1e-300)) / r + r / 2
        if direction == "remove":
            inside = np.where(rest > 0, forward * ndtr(d) - rest * ndtr(d - r), forward - rest)
            return float(weight @ inside)
        inside = np.where(rest > 0, rest * ndtr(r - d) - forward * ndtr(-d), 0.0)
    return float(weight @ inside) * math.exp(epsilon)
