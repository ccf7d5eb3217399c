"""Images of digits, dealt out to machines, for Tables 1 and 2: bundled ones of 8 × 8 pixels, or MNIST as in the paper.

Softmax regression on the pixels and a constant, as in Section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from corrnoise.simulations.datasets import load
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import Examples, split_examples
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks
from corrnoise.theory.privacy import Budget

CLIP_NORM = 3.0  #: a good norm to which a machine clips what it sends
_CLASSES = 10
#: The data set of each name, its brightest pixel, and how many images are for training and for tuning.
_IMAGES = {"digits": ("digits", 16, 1077, 360), "mnist": ("MNIST", 255, 60000, 5000)}


@dataclass(frozen=True, eq=False)
class Images:
    """Images to train on, split among machines, and others to tune and to test on."""

    name: str
    training: list[Examples]
    validation: Examples
    test: Examples

    @property
    def loss(self) -> LinearLoss:
        """Softmax regression; pixels are in [0, 1], so that k features have norm at most sqrt(k) by their range."""
        features = self.test[0].shape[1]
        return LinearLoss("softmax", features, features**0.5, classes=_CLASSES)

    @property
    def examples(self) -> int:
        """The number of images to train on."""
        return sum(len(targets) for _, targets in self.training)

    def protocol(self, budget: Budget, *, participants: int, rounds: int | None = None, **changes: Any) -> Protocol:
        """A run with per-example clipping to the norm of the budget, of which ``CLIP_NORM`` is a good one.

        ``rounds`` is None for a single pass.  The ``changes`` are of other fields of ``Protocol``.
        """
        rounds = max(1, self.examples // participants) if rounds is None else rounds
        fields: dict[str, Any] = {
            "run": self.name,
            "loss": self.loss,
            "diameter": 10.0,
            "machines": len(self.training),
            "participants": participants,
            "rounds": rounds,
            "learning_rate": 1 / max(rounds, 1),
            "budget": budget,
            "cap": max(len(targets) for _, targets in self.training),
            "guard": "norm",
        }
        return Protocol(**{**fields, **changes})


def dealt_images(name: str, machines: int, *, download: bool = False) -> Images:
    """Images of digits: the first ones to train on, the next to tune on, the others to test on.

    ``"digits"`` are 1077 images to train on and 360 each to tune and to test on, in one random order; ``"mnist"`` its
    60 000 training images, and half of its 10 000 test images each to tune and to test on.  Those to train on are dealt
    out among the machines.  Raises what ``datasets.load`` raises.
    """
    source, white, training, tuning = _IMAGES[checks.choice("name", name, tuple(_IMAGES))]
    pixels, labels, _ = load(source, download=download)
    order = np.random.default_rng(0).permutation(len(labels)) if name == "digits" else slice(None)
    features = np.column_stack([pixels[order] / white, np.ones(len(pixels))])
    targets = labels[order].astype(float)
    test = training + tuning
    return Images(
        name=name,
        training=split_examples(features[:training], targets[:training], machines),
        validation=(features[training:test], targets[training:test]),
        test=(features[test:], targets[test:]),
    )
