"""Generalised linear losses, whose gradient is (h(Xa) − y) aᵀ for an example with features a and target y.

``squares``   ½ (⟨x, a⟩ − y)²: h is the identity, curvature 1.
``logistic``  log(1 + e^u) − y u at u = ⟨x, a⟩, with y = 0 or 1: h(u) = 1/(1 + e^{−u}), curvature 1/4.
``softmax``   log Σ_k e^{u_k} − u_y at u = Xa, with a class y: h is the softmax, curvature 1/2 (at two equal entries).

All are convex and smooth on the whole space.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from scipy.special import expit, logsumexp, softmax

from corrnoise.theory.noise_cancellation.sensitivity import LossClass
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record

LinkName = Literal["squares", "logistic", "softmax"]
LINKS = ("squares", "logistic", "softmax")


@record
class LinearLoss(Record):
    """One of ``LINKS`` for features of norm at most ``feature_norm``.

    Parameters
    ----------
    link
        ``"squares"``, ``"logistic"`` or ``"softmax"``.
    features
        Entries of a, >= 1.
    feature_norm
        The largest ‖a‖, in (0, 1e50]; examples beyond it are refused.
    classes
        Of the softmax, >= 2; 1 for the others.
    target_bound
        The largest |y| of squares, in [0, 1e50].

    A point is a vector of ``dimension`` = ``classes`` × ``features`` entries.
    """

    link: LinkName
    features: int
    feature_norm: float
    classes: int = 1
    target_bound: float = 1.0

    def __post_init__(self) -> None:
        checks.choice("link", self.link, LINKS)
        self._set(
            features=checks.integer("features", self.features, 1),
            feature_norm=checks.real("feature_norm", self.feature_norm, "(0, 1e50]"),
            classes=checks.integer("classes", self.classes, 2 if self.link == "softmax" else 1),
            target_bound=checks.real("target_bound", self.target_bound, "[0, 1e50]"),
        )
        if self.link != "softmax" and self.classes != 1:
            raise ValueError(f"classes must be 1 for {self.link!r}, got {self.classes}")

    @property
    def dimension(self) -> int:
        """Entries of a point."""
        return self.classes * self.features

    def family(self, diameter: float) -> LossClass:
        """G, L and D on the ball of that diameter about 0."""
        diameter = checks.real("diameter", diameter, "(0, 1e50]")
        b = self.feature_norm
        if self.link == "squares":
            return LossClass(b * (b * diameter / 2 + self.target_bound), b**2, diameter)
        if self.link == "logistic":
            return LossClass(b, b**2 / 4, diameter)
        return LossClass(math.sqrt(2) * b, b**2 / 2, diameter)

    def checked_examples(self, features: object, targets: object) -> tuple[Array, Array]:
        """Return examples of this loss: features (n, ``features``) and targets (n,), within their bounds."""
        a, y = checks.reals("features", features), checks.reals("targets", targets)
        if a.ndim != 2 or a.shape[1] != self.features or y.shape != a.shape[:1]:
            raise ValueError(
                f"features and targets must have shapes (n, {self.features}) and (n,), got {a.shape} and {y.shape}"
            )
        largest = float(np.sqrt(np.square(a).sum(axis=1)).max(initial=0.0))
        if largest > self.feature_norm * (1 + 1e-12):
            raise ValueError(f"features must have norms in [0, {self.feature_norm!r}], got {largest!r}")
        admissible = {
            "squares": np.abs(y) <= self.target_bound,
            "logistic": (y == 0) | (y == 1),
            "softmax": (y == np.floor(y)) & (y >= 0) & (y < self.classes),
        }[self.link]
        if not admissible.all():
            words = {
                "squares": f"lie in [-{self.target_bound!r}, {self.target_bound!r}]",
                "logistic": "be 0 or 1",
                "softmax": f"be whole numbers in [0, {self.classes})",
            }[self.link]
            raise ValueError(f"targets must {words}, got {float(y[~admissible][0])!r}")
        return a, y

    def gradient(self, x: Array, a: Array, y: float) -> Array:
        """The gradient at x, shape (d,), of the loss of one example with features a and target y."""
        if self.link == "squares":
            return (float(x @ a) - y) * a
        if self.link == "logistic":
            return (float(expit(x @ a)) - y) * a
        error = softmax(x.reshape(self.classes, self.features) @ a)
        error[int(y)] -= 1
        return np.outer(error, a).ravel()

    def values(self, x: Array, features: Array, targets: Array) -> Array:
        """The losses at x of examples, shape (n,)."""
        if self.link == "squares":
            return np.square(features @ x - targets) / 2
        if self.link == "logistic":
            u = features @ x
            return np.logaddexp(0.0, u) - targets * u
        u = features @ x.reshape(self.classes, self.features).T
        values: Array = logsumexp(u, axis=1) - u[np.arange(len(u)), targets.astype(int)]
        return values

    def accuracy(self, x: Array, features: Array, targets: Array) -> float:
        """The share of examples whose class is the likeliest one at x."""
        if self.link == "squares":
            raise ValueError("link must be one of 'logistic', 'softmax', which have classes, got 'squares'")
        if self.link == "logistic":
            return float(((features @ x > 0) == targets).mean())
        u = features @ x.reshape(self.classes, self.features).T
        return float((u.argmax(axis=1) == targets).mean())
