"""Private linear regression on the user's data.

One pass of DP-FTRL over the data, each example used at most once, so that the run is one Gaussian mechanism of
sensitivity γ_T G.  Idealised real numbers and an ordinary generator: for judging utility, not for releasing data.

References
----------
Choquette-Choo et al., arXiv 2310.06771: Algorithm 1, Theorem 1.1.
S. Denisov et al., Improved differential privacy for SGD via optimal private linear operators on adaptive streams, 2022.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np

from corrnoise.simulations.noise_stream import NoiseStream
from corrnoise.simulations.random_numbers import Seed, generator
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array, ArrayLike
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import Adjacency, gaussian_rho, safe_multiplier


@record
class PrivateRegression(Record):
    """A private linear model, ``features @ coefficients + intercept`` in the user's units, and how private it is.

    ``guarantee`` puts (ε, δ), ρ and the adjacency into words.  ``noise_multiplier`` is γ_T/sqrt(2ρ) or twice that, with
    a γ_T that includes the rounding errors of the stream;
    ``clip_norm`` and ``learning_rate`` are in scaled units, ``steps`` counts the examples used; the share of clipped
    gradients, ``clipped_fraction``, is computed from the data and NOT private.
    """

    coefficients: Array
    intercept: float
    epsilon: float
    delta: float
    rho: float
    adjacency: str
    noise: ToeplitzNoise
    noise_multiplier: float
    clip_norm: float
    learning_rate: float
    steps: int
    clipped_fraction: float

    @property
    def guarantee(self) -> str:
        """What is private, how much, by which theorem, and what is not covered."""
        change = {"zero-out": "replaced by zero", "replace-one": "replaced by those of any other"}[self.adjacency]
        return (
            f"The coefficients and the intercept are ({self.epsilon}, {self.delta})-differentially private, and "
            f"{self.rho}-zCDP, for {self.adjacency} adjacency (the gradients of one example {change}): {self.steps} "
            f"gradients of norm at most {self.clip_norm}, each of another example, with noise multiplier "
            f"{self.noise_multiplier} are one Gaussian mechanism (arXiv 2310.06771, Theorem 1.1; Denisov et al. 2022 "
            "for adaptive gradients).  Not covered: the clipped fraction; the number of examples; any preprocessing, "
            "bounds or parameters chosen after a look at the data; that floating-point noise is discrete; the random "
            "generator, and a seed that others know."
        )


def private_linear_regression(
    features: ArrayLike,
    targets: ArrayLike,
    *,
    feature_bounds: tuple[ArrayLike, ArrayLike],
    target_bounds: tuple[float, float],
    epsilon: float,
    delta: float,
    noise: ToeplitzNoise | None = None,
    learning_rate: float | None = None,
    clip_norm: float = 0.1,
    steps: int | None = None,
    adjacency: Adjacency = "zero-out",
    rng: Seed = None,
) -> PrivateRegression:
    """Fit a linear model with (ε, δ)-differential privacy by one pass of DP-FTRL over the data in random order.

    Entries are clipped to their bounds and mapped to [−1, 1]; a feature 1 for the intercept is joined, and rows are
    divided by sqrt(d + 1), so that none is longer than 1.  The model is the mean of the iterates of the second half of
    the run, which starts at 0, that is from predictions in the middle of ``target_bounds``.  Of the data the defaults
    see n and d only.  Algorithm 1 of arXiv 2310.06771.

    Parameters
    ----------
    features, targets, feature_bounds, target_bounds
        Shapes (n, d), (n,), and (low, high) of each, numbers or for features of shape (d,).  Bounds are public: those
        read off the data void the guarantee.
    epsilon, delta, adjacency
        The budget, ε >= 0 and 0 < δ < 1, and what it protects: see ``ToeplitzNoise.noise_multiplier``.
    noise, rng
        Correlated noise, None for ``NuFTRL(1 / steps)``, and the seed or generator of the order and the noise, None for
        noise that nobody can repeat.  Whoever knows the seed can subtract the noise.
    learning_rate
        η in scaled units, 0 < η <= 2: larger ones diverge on rows of length 1.  None for the largest of 1, ½, ¼, … at
        which, on features uniform within their bounds, the noise alone would not move gradients beyond the clip norm.
    clip_norm
        G > 0 in scaled units, in which gradients are at most 1 long at the start.
    steps
        T, at most and by default n: each example is used at most once.
    """
    x, y = checks.reals("features", features), checks.reals("targets", targets, ndim=1)
    if x.ndim != 2 or x.shape[0] != y.size or x.shape[1] == 0:
        raise ValueError(f"features must have shape (n, d) with n = {y.size}, the number of targets, got {x.shape}")
    centre, half = _range("feature_bounds", feature_bounds, x.shape[1:])
    middle, unit = _range("target_bounds", target_bounds, ())
    steps = checks.integer("steps", y.size if steps is None else steps, 1)
    if steps > y.size:
        raise ValueError(f"steps must be at most {y.size}, the number of examples, got {steps}")
    clip_norm = checks.real("clip_norm", clip_norm, "(0, inf)")
    noise = NuFTRL(1 / steps) if noise is None else checked_noise(noise)
    rho = gaussian_rho(epsilon, delta)
    if learning_rate is not None:
        checks.real("learning_rate", learning_rate, "(0, 2]")
    random = generator(rng)
    order = random.permutation(y.size)[:steps]
    length = math.sqrt(x.shape[1] + 1)
    stream = NoiseStream(noise, x.shape[1] + 1, steps=steps, rng=random)
    multiplier = safe_multiplier(stream.sensitivity(), rho, adjacency)
    if not math.isfinite(multiplier):
        raise ValueError(f"noise must have a finite sensitivity for steps={steps}, got {noise!r}")
    stream.scale = multiplier * clip_norm
    eta = _default_learning_rate(noise, multiplier, x.shape[1]) if learning_rate is None else float(learning_rate)

    rows = np.column_stack([np.clip((x - centre) / half, -1, 1), np.ones(y.size)]) / length
    scaled = np.clip((y - middle) / unit, -1, 1)
    theta = np.zeros(rows.shape[1])
    total = np.zeros(rows.shape[1])
    clipped = 0
    for t, (i, correlated) in enumerate(zip(order, stream, strict=True)):
        gradient, norm = _clipped_gradient(theta, rows[i], scaled[i], clip_norm)
        theta -= eta * (gradient + correlated)
        total += theta * (t >= steps // 2)
        clipped += norm > clip_norm
    slopes = unit * total / ((steps - steps // 2) * length)
    coefficients = checks.reals("coefficients", slopes[:-1] / half)
    intercept = middle + slopes[-1] - coefficients @ np.broadcast_to(centre, coefficients.shape)
    guarantee = float(epsilon), float(delta), rho, adjacency, noise, multiplier
    return PrivateRegression(coefficients, float(intercept), *guarantee, clip_norm, eta, steps, clipped / steps)


def _range(name: str, bounds: tuple[ArrayLike, ArrayLike], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Centre and half-width of (low, high)."""
    ends = [checks.reals(name, end) for end in bounds] if isinstance(bounds, tuple) else []
    if len(ends) != 2 or any(end.shape not in ((), shape) for end in ends) or not (ends[0] < ends[1]).all():
        raise ValueError(f"{name} must be (low, high), low < high, numbers or of shape {shape}, got {bounds!r:.80}")
    return (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2


def _clipped_gradient(theta: Array, row: Array, target: float, clip_norm: float) -> tuple[Array, float]:
    """The gradient of ½ (⟨row, θ⟩ − target)², clipped, and its norm before."""
    gradient = (row @ theta - target) * row
    norm = float(np.linalg.norm(gradient))
    return (gradient if norm <= clip_norm else gradient * (clip_norm / norm)), norm


def _default_learning_rate(noise: ToeplitzNoise, multiplier: float, features: int) -> float:
    """The largest η = 2^{−k} <= 1 with η m² Tr H Σ b(ηλ_j)/(2 − ηλ_j) <= 1, for features uniform within their bounds.

    The left side is E ‖x‖² times the stationary E ⟨x, θ⟩² due to the noise, x xᵀ replaced by its mean, over G².
    """
    eigenvalues = np.append(np.full(features, 1 / 3), 1.0) / (features + 1)
    for eta in 2.0 ** -np.arange(200.0):
        x = eta * eigenvalues
        if eta * multiplier**2 * eigenvalues.sum() * (noise.averaged_variance(x) / (2 - x)).sum() <= 1:
            break
    return float(eta)


def load_diabetes_problem() -> dict[str, Any]:
    """The diabetes data of scikit-learn (Efron et al. 2004) as arguments of ``private_linear_regression``.

    442 patients and 10 features in their own units: age, sex, body mass index, blood pressure, six blood serum values.
    The bounds are rounded clinical ranges; a study fixes its own before it sees data.
    """
    try:
        datasets = import_module("sklearn.datasets")
    except ImportError as error:
        raise ImportError("the diabetes data need scikit-learn: pip install 'corrnoise[data]'") from error
    features, targets = datasets.load_diabetes(return_X_y=True, scaled=False)
    low = np.array([18.0, 1.0, 15.0, 60.0, 80.0, 30.0, 15.0, 1.0, 3.0, 50.0])
    high = np.array([90.0, 2.0, 45.0, 140.0, 320.0, 250.0, 105.0, 10.0, 6.5, 150.0])
    return {"features": features, "targets": targets, "feature_bounds": (low, high), "target_bounds": (0.0, 400.0)}
