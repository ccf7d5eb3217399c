"""Private training of small networks in numpy, many runs at once: what experiments with many seeds need.

A network has dense layers with tanh between them.  The gradient of one example with respect to a layer is an outer
product, so that its norm has a closed form and no gradient of a single example is ever formed.  The runs of one call
share data, batches, initial parameters and independent draws; they differ in learning rate, momentum and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record

Floats = NDArray[np.float32]
Task = Literal["classification", "regression"]
_MARGIN = 1e-6  # below the clip norm, for rounding in float32


@record
class Network(Record):
    """Dense layers with tanh between them, and the loss at the end."""

    #: numbers of units, inputs first and outputs last: (64, 32, 10) has one hidden layer, (64, 10) none
    sizes: tuple[int, ...]
    #: ``"classification"``: cross entropy of softmax, a target is a vector of probabilities.  ``"regression"``: half
    #: the squared error.
    task: Task = "classification"

    def __post_init__(self) -> None:
        if len(self.sizes) < 2:
            raise ValueError(f"sizes must have inputs and outputs at least, got {self.sizes!r}")
        self._check(task=("classification", "regression"))
        self._set(sizes=tuple(checks.integer("sizes", size, 1) for size in self.sizes))

    @property
    def parameters(self) -> int:
        """P, the number of weights and biases."""
        return sum((a + 1) * b for a, b in zip(self.sizes, self.sizes[1:], strict=False))

    def initial(self, rng: np.random.Generator) -> Floats:
        """Normal weights of variance 1/inputs and biases 0, shape (P,)."""
        layers = [
            np.append(rng.standard_normal((a, b)) / np.sqrt(a), np.zeros((1, b)), axis=0)
            for a, b in zip(self.sizes, self.sizes[1:], strict=False)
        ]
        return np.concatenate([layer.ravel() for layer in layers]).astype(np.float32)

    def _layers(self, parameters: Floats) -> list[Floats]:
        """Views of shape (runs, inputs + 1, outputs); the last row of a layer has its biases."""
        found = []
        start = 0
        for a, b in zip(self.sizes, self.sizes[1:], strict=False):
            found.append(parameters[:, start : start + (a + 1) * b].reshape(-1, a + 1, b))
            start += (a + 1) * b
        return found

    def _activations(self, layers: list[Floats], inputs: Floats) -> list[Floats]:
        """Inputs of each layer and the outputs of the last one; each of shape (runs, examples, units)."""
        found = [np.broadcast_to(inputs, (layers[0].shape[0], *inputs.shape))]
        for k, layer in enumerate(layers):
            outputs = found[-1] @ layer[:, :-1] + layer[:, -1:]
            found.append(np.tanh(outputs) if k < len(layers) - 1 else outputs)
        return found

    def outputs(self, parameters: Floats, inputs: Floats) -> Floats:
        """Predictions for parameters of shape (runs, P): logits for classes, shape (runs, examples, outputs)."""
        return self._activations(self._layers(parameters), inputs)[-1]

    @np.errstate(over="ignore", invalid="ignore")  # of gradients that count as zero
    def clipped_sum(self, parameters: Floats, inputs: Floats, targets: Floats, clip_norm: float) -> Floats:
        """Sum over the examples of their clipped gradients, shape (runs, P).  One that is not finite counts as 0."""
        layers = self._layers(parameters)
        activations = self._activations(layers, inputs)
        delta = activations[-1]
        if self.task == "classification":
            delta = np.exp(delta - delta.max(axis=2, keepdims=True))
            delta /= delta.sum(axis=2, keepdims=True)
        delta = delta - targets
        squares = np.zeros(delta.shape[:2], dtype=np.float32)
        deltas: list[Floats] = []
        for k in reversed(range(len(layers))):
            deltas.insert(0, delta)
            squares += (np.square(activations[k]).sum(axis=2) + 1) * np.square(delta).sum(axis=2)
            if k:
                delta = (delta @ layers[k][:, :-1].transpose(0, 2, 1)) * (1 - np.square(activations[k]))
        limit = np.float32(clip_norm * (1 - _MARGIN))
        factors = np.minimum(1, limit / np.maximum(np.sqrt(squares), np.float32(1e-30)))
        finite = np.isfinite(squares)[:, :, np.newaxis]
        factors = factors[:, :, np.newaxis]
        if not finite.all():
            activations = [np.where(finite, values, 0) for values in activations]
            deltas = [np.where(finite, values, 0) for values in deltas]
            factors = np.where(finite, factors, 0)
        parts = []
        for inputs_of_layer, own in zip(activations, deltas, strict=False):
            scaled = factors * own
            weights = inputs_of_layer.transpose(0, 2, 1) @ scaled
            parts.append(np.concatenate([weights, scaled.sum(axis=1, keepdims=True)], axis=1).reshape(len(scaled), -1))
        return np.concatenate(parts, axis=1)

    @np.errstate(over="ignore", invalid="ignore")
    def score(self, parameters: Floats, inputs: Floats, targets: Floats) -> NDArray[np.float64]:
        """Accuracy, or the coefficient of determination of a regression, which counts as −1 below −1; shape (runs,)."""
        outputs = self.outputs(parameters, inputs)
        if self.task == "classification":
            return np.asarray((outputs.argmax(axis=2) == targets.argmax(axis=1)).mean(axis=1))
        residuals = np.square(outputs.astype(float) - targets).mean(axis=(1, 2))
        found = 1 - residuals / np.square(targets - targets.mean(axis=0)).mean(dtype=float)
        return np.asarray(np.maximum(np.nan_to_num(found, nan=-1.0), -1.0))


class Runs(NamedTuple):
    """The settings in which R runs differ, shape (R,) each."""

    kinds: NDArray[Any]  #: which kind of correlated noise is added
    scales: NDArray[Any]  #: the standard deviation of the independent noise behind it
    learning_rates: NDArray[Any]  #: η > 0
    momenta: NDArray[Any]  #: in [0, 1)


@np.errstate(over="ignore", invalid="ignore")  # too large learning rates diverge
def trained(
    network: Network,
    inputs: Floats,
    targets: Floats,
    batches: Sequence[NDArray[Any]],
    runs: Runs,
    *,
    start: Floats,
    noise: Floats,
    schedule: NDArray[Any],
    batch_size: float,
    clip_norm: float,
) -> Floats:
    """The last parameters of R private runs, shape (R, P).

    A step adds noise to the sum of the clipped gradients, divides by ``batch_size``, and moves by momentum:
    m ← momentum m + gradient, θ ← θ − learning rate × schedule × m.

    ``batches`` has the examples of each of the T steps.  All start at the parameters ``start``, shape (P,), and their
    noise is one of K kinds of unit scale, shape (K, T, P).
    """
    column = np.asarray(runs.scales, dtype=np.float32)[:, np.newaxis]
    rates = np.asarray(runs.learning_rates, dtype=np.float32)[:, np.newaxis] / np.float32(batch_size)
    kept = np.asarray(runs.momenta, dtype=np.float32)[:, np.newaxis]
    parameters = np.tile(start, (len(column), 1))
    velocity = np.zeros_like(parameters)
    factors = np.asarray(schedule, dtype=np.float32)
    for batch, drawn, factor in zip(batches, noise.transpose(1, 0, 2), factors, strict=True):
        gradient = network.clipped_sum(parameters, inputs[batch], targets[batch], clip_norm)
        velocity = kept * velocity + gradient + column * drawn[runs.kinds]
        parameters -= rates * factor * velocity
    return parameters
