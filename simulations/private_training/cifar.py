"""The paper's own experiment: CIFAR-10 with its network and settings, in PyTorch (the extras ``torch`` and ``data``).

One run takes minutes on a GPU, and hours without one.  Images come from OpenML.

Source: Choquette-Choo et al., arXiv 2310.06771: Section 4, Figure 4 (a), Appendix G.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters.torch import clipped_sum, private_gradient, trainable_size
from corrnoise.simulations.adapters.torch_engines import Engine
from corrnoise.simulations.adapters.torch_probe import example_gradients
from corrnoise.simulations.datasets import load
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.private_training.comparison import (
    CLIP_NORM,
    DELTA,
    LAST,
    PUBLIC,
    SAMPLED,
    Experiment,
    Run,
    mechanism,
    noise_multiplier,
)
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import NuFTRL
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.privacy import Budget

_CHANNELS = (32, 32, 64, 64, 128, 128)
_UNITS = 128
_ENGINE = Engine("vmap")  # whose layers treat each image by itself
_CHUNK = 100  # gradients of examples that are held at once
_NEARLY_ROOT = NuFTRL(1e-9)  # has few poles, and the coefficients of the square root within 1e-5 for 2000 steps


class Images(NamedTuple):
    """Images, float32 in [−1, 1], shape (n, 3, 32, 32), and their classes, shape (n,)."""

    inputs: NDArray[np.float32]
    classes: NDArray[np.int64]


def cifar_10() -> Images:
    """The 60 000 images of CIFAR-10, from OpenML.

    Raises
    ------
    ImportError
        If scikit-learn is not installed.
    OSError
        If OpenML cannot be reached.
    """
    pixels, classes, _ = load("CIFAR-10", download=True)
    return Images((pixels / 127.5 - 1).astype(np.float32).reshape(-1, 3, 32, 32), classes.astype(np.int64))


def paper_network(seed: int, *, side: int = 32) -> Any:
    """The network of Appendix G: six convolutions, each pair followed by pooling, two dense layers, tanh.

    Its initial weights are normal of variance 1/inputs in convolutions, uniform after Glorot in dense layers; biases
    are 0.  The ``side`` of the images is a multiple of 8; with 32 it is a ``torch.nn.Sequential`` of 550 570
    parameters.
    """
    torch = extra_module("torch", "torch")
    nn = torch.nn
    layers: list[Any] = []
    before = 3
    for k, channels in enumerate(_CHANNELS):
        layers += [nn.Conv2d(before, channels, 3, padding=1), nn.Tanh()]
        if k % 2:
            layers.append(nn.MaxPool2d(2))
        before = channels
    layers += [nn.Flatten(), nn.Linear(before * (side // 8) ** 2, _UNITS), nn.Tanh(), nn.Linear(_UNITS, 10)]
    generator = torch.Generator().manual_seed(seed)
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=layer.weight[0].numel() ** -0.5, generator=generator)
        elif isinstance(layer, nn.Linear):
            nn.init.xavier_uniform_(layer.weight, generator=generator)
        if hasattr(layer, "bias"):
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


def scores(
    experiment: Experiment,
    runs: Sequence[Run],
    seed: Sequence[int],
    *,
    images: Callable[[], Images] = cifar_10,
    device: str | None = None,
) -> Array:
    """The test accuracy of each run, shape (len(runs),).

    The first ``training`` images are for training.  The runs share the order and the initial weights, which come from
    the seed.  The device is that of PyTorch; None for a GPU if there is one.
    """
    torch = extra_module("torch", "torch")
    where = device or ("cuda" if torch.cuda.is_available() else "cpu")
    inputs, classes = (torch.from_numpy(part).to(where) for part in images())
    found = [_trained(experiment, run, seed, inputs, classes) for run in runs]
    return np.array(found)


def _trained(experiment: Experiment, choice: Run, seed: Sequence[int], inputs: Any, classes: Any) -> float:
    torch = extra_module("torch", "torch")
    for_order, for_start, for_noise = np.random.SeedSequence(seed).spawn(3)
    model = paper_network(int(for_start.generate_state(1)[0]), side=inputs.shape[-1]).to(inputs.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=choice.learning_rate, momentum=choice.momentum)
    who = experiment.participation
    steps = who.length
    constant = steps - steps // 4
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda t: 1 - (1 - LAST) * max(0, t - constant) / max(1, steps - constant)
    )
    order = batches(who, experiment.training, experiment.batch_size, np.random.default_rng(for_order))
    loss = torch.nn.functional.cross_entropy
    if choice.method in (SAMPLED, PUBLIC):
        draw = np.random.default_rng(for_noise)
        scale = CLIP_NORM * noise_multiplier(experiment, choice.method, choice.epsilon)
        rate = experiment.batch_size / experiment.training
        for step in range(steps):
            sampled = np.flatnonzero(draw.random(experiment.training) < rate)
            batch = torch.from_numpy(sampled if choice.method == SAMPLED else order.batch(step)).to(inputs.device)
            _independent(model, loss, inputs[batch], classes[batch], scale, experiment.batch_size, draw)
            optimizer.step()
            schedule.step()
    else:
        noise = mechanism(choice.method, who)
        if choice.method == "square root":
            noise = _NEARLY_ROOT
        budget = Budget(epsilon=choice.epsilon, delta=DELTA, clip_norm=CLIP_NORM)
        run = PrivateRun(budget, who, noise, trainable_size(model), batches=order)
        for numbers in run:
            batch = torch.from_numpy(numbers).to(inputs.device)
            private_gradient(run, model, loss, (inputs[batch], classes[batch]), chunk_size=_CHUNK)
            optimizer.step()
            schedule.step()
        run.close()
    return _accuracy(model, inputs[experiment.training :], classes[experiment.training :])


def _independent(model: Any, loss: Any, inputs: Any, classes: Any, scale: float, size: int, draw: Any) -> None:
    """Set the gradients to those of DP-SGD, or without noise and clipping for a scale of 0."""
    torch = extra_module("torch", "torch")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not scale:
        model.zero_grad()
        loss(model(inputs), classes).backward()
        return
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for part in zip(inputs.split(_CHUNK), classes.split(_CHUNK), strict=True) if len(inputs) else ():
        samples = example_gradients(model, loss, part, engine=_ENGINE)
        sums = [total + more for total, more in zip(sums, clipped_sum(list(samples.values()), CLIP_NORM), strict=True)]
    for parameter, total in zip(parameters, sums, strict=True):
        drawn = scale * draw.standard_normal(tuple(total.shape), dtype=np.float32)
        parameter.grad = (total + torch.from_numpy(drawn).to(total)) / size


def _accuracy(model: Any, inputs: Any, classes: Any) -> float:
    torch = extra_module("torch", "torch")
    right = 0
    with torch.no_grad():
        for first in range(0, len(inputs), 1000):
            part = slice(first, first + 1000)
            right += int((model(inputs[part]).argmax(dim=1) == classes[part]).sum())
    return right / len(inputs) if len(inputs) else math.nan
