"""Images of digits, dealt out to machines: what Tables 1 and 2 are computed on.

``digits`` has those that scikit-learn carries, 8 × 8 pixels, ``mnist`` the paper's 28 × 28, which are fetched from
OpenML, and only on request.  Softmax regression on the pixels and a constant, as in Section 5.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.data_sources import from_openml, scikit_learn
from corrnoise.simulations.noise_cancellation.hosts import Examples
from corrnoise.simulations.noise_cancellation.protocol import Protocol
from corrnoise.simulations.noise_cancellation.run import split_examples
from corrnoise.theory.losses import LinearLoss
from corrnoise.theory.numerics.checks import Array

_MNIST = 554  # on OpenML
_CLASSES = 10


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

    def protocol(self, *, participants: int, rho: float | None, rounds: int | None = None, **changes: Any) -> Protocol:
        """A run with per-example clipping.

        Parameters
        ----------
        participants, rho
            As in ``Protocol``.
        rounds
            T; None for a single pass.
        changes
            Other fields of ``Protocol``, in place of those that are chosen here.
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
            "rho": rho,
            "cap": max(len(targets) for _, targets in self.training),
            "guard": "norm",
            "clip_norm": 3.0,
        }
        return Protocol(**{**fields, **changes})


def _dealt(name: str, images: Array, labels: NDArray[Any], sizes: tuple[int, int], machines: int) -> Images:
    """The first ``sizes[0]`` images to train on, the next ``sizes[1]`` to tune on, the others to test on."""
    features = np.column_stack([images, np.ones(len(images))])
    targets = labels.astype(float)
    tune = sizes[0]
    test = sizes[0] + sizes[1]
    return Images(
        name=name,
        training=split_examples(features[:tune], targets[:tune], machines),
        validation=(features[tune:test], targets[tune:test]),
        test=(features[test:], targets[test:]),
    )


def digits(machines: int, *, seed: int = 0) -> Images:
    """The bundled digits in a random order: 1077 images to train on, and 360 each to tune and to test on.

    Parameters
    ----------
    machines
        M, among which the images to train on are dealt out.
    seed
        Of the order.

    Raises
    ------
    ImportError
        scikit-learn is not installed.
    """
    images, labels = scikit_learn().load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    return _dealt("digits", images[order] / 16, labels[order], (1077, 360), machines)


def mnist(machines: int, *, download: bool = False, cache: str | None = None) -> Images:
    """MNIST: its 60 000 training images to train on, and half of its 10 000 test images each to tune and to test on.

    Parameters
    ----------
    machines
        M, among which the images to train on are dealt out.
    download
        Whether the images may be fetched from OpenML.
    cache
        Folder for what is fetched; None for that of scikit-learn.

    Raises
    ------
    ValueError
        The download was not allowed.
    OSError
        OpenML cannot be reached.
    ImportError
        scikit-learn is not installed.
    """
    if not download:
        raise ValueError(f"download must be True for MNIST, which is fetched from OpenML {_MNIST}, got {download!r}")
    images, labels, _ = from_openml(_MNIST, "mnist_784", cache)
    return _dealt("mnist", images / 255, labels, (60000, 5000), machines)
