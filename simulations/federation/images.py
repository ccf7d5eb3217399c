"""Images of digits, dealt out to clients, for Tables 1 and 2: bundled ones of 8 × 8 pixels, or MNIST as in the paper.

Softmax regression on the pixels and a constant, as in Section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from corrnoise.simulations.datasets import load
from corrnoise.simulations.federation.simulate import Examples, split_examples
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics import checks

_CLASS_COUNT = 10
#: The data set of each name, its brightest pixel, and how many images are for training and for tuning.
_IMAGE_SOURCES = {"digits": ("digits", 16, 1077, 360), "mnist": ("MNIST", 255, 60000, 5000)}


@dataclass(frozen=True, eq=False)
class Images:
    """Images to train on, dealt out to clients, and others to tune and to test on."""

    name: str
    training: list[Examples]
    validation: Examples
    test: Examples

    @property
    def loss(self) -> LinearLoss:
        """Softmax regression; pixels are in [0, 1], so that k features have norm at most sqrt(k) by their range."""
        features = self.test[0].shape[1]
        return LinearLoss("softmax", features, features**0.5, classes=_CLASS_COUNT)


def dealt_images(name: str, clients: int, *, split: int = 0, download: bool = False) -> Images:
    """Images of digits: the first ones to train on, the next to tune on, the others to test on.

    ``"digits"`` are 1077 images to train on and 360 each to tune and to test on, in one random order; ``"mnist"`` its
    60 000 training images, and half of its 10 000 test images each to tune and to test on.  Each number >= 0 of a
    ``split`` is another order of those to train and to tune on, so that other images train, and other clients have
    them; those to test on are the same.  Raises what ``datasets.load`` raises.
    """
    source, white, training, tuning = _IMAGE_SOURCES[checks.choice("name", name, tuple(_IMAGE_SOURCES))]
    pixels, labels, _ = load(source, download=download)
    order = np.random.default_rng(0).permutation(len(labels)) if name == "digits" else slice(None)
    features = np.column_stack([pixels[order] / white, np.ones(len(pixels))])
    targets = labels[order].astype(float)
    test = training + tuning
    if checks.integer("split", split, 0):
        again = np.random.default_rng([split, 1]).permutation(test)
        features[:test], targets[:test] = features[again], targets[again]
    return Images(
        name=name,
        training=split_examples(features[:training], targets[:training], clients),
        validation=(features[training:test], targets[training:test]),
        test=(features[test:], targets[test:]),
    )
