"""Softmax regression on the digits that scikit-learn carries, dealt out to machines: Tables 1 and 2 in miniature."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrnoise.simulations.noise_cancellation.hosts import Examples
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import split_examples
from corrnoise.theory.noise_cancellation.losses import LinearLoss

FEATURES = 65  #: pixels of 8 × 8 in [0, 1], and a constant


@dataclass(frozen=True, eq=False)
class Digits:
    """1077 images to train on, split among machines, and 360 each to tune and to test on."""

    training: list[Examples]
    validation: Examples
    test: Examples

    @property
    def loss(self) -> LinearLoss:
        """Softmax regression of ten classes; the features have norm at most sqrt(65) by their range."""
        return LinearLoss("softmax", FEATURES, FEATURES**0.5, classes=10)


def digits(machines: int, *, seed: int = 0) -> Digits:
    """The bundled digits in a random order, the first 1077 dealt out to ``machines`` machines.

    Raises
    ------
    ImportError
        scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ImportError("the digits need scikit-learn: pip install 'corrnoise[data]'") from error
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    features = np.column_stack([images[order] / 16, np.ones(len(order))])
    targets = labels[order].astype(float)
    train, tune, test = slice(0, 1077), slice(1077, 1437), slice(1437, 1797)
    return Digits(
        training=split_examples(features[train], targets[train], machines),
        validation=(features[tune], targets[tune]),
        test=(features[test], targets[test]),
    )


def digits_protocol(data: Digits, *, participants: int, rho: float | None, **changes: Any) -> Protocol:
    """A single pass over the digits, with per-example clipping; ``changes`` are fields of ``Protocol``."""
    machines = len(data.training)
    images = sum(len(targets) for _, targets in data.training)
    rounds = max(1, images // participants)
    fields: dict[str, Any] = {
        "run": "digits",
        "loss": data.loss,
        "diameter": 10.0,
        "machines": machines,
        "participants": participants,
        "rounds": rounds,
        "learning_rate": 1 / rounds,
        "rho": rho,
        "cap": max(len(targets) for _, targets in data.training),
        "guard": "norm",
        "clip_norm": 3.0,
    }
    return Protocol(**{**fields, **changes})
