"""Whole private steps of three models with independent noise, against PyTorch without privacy and against Opacus."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.adapters.options import Clipping
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.privacy import Budget

_CASE_STEPS = 20_000  # more than are made
_TOKENS = 1000
_CLASSES = 10


class _Case(NamedTuple):
    model: Any
    optimizer: Any
    data: tuple[Any, Any]


def _perceptron(setting: Setting) -> tuple[Any, Any]:
    from torch import nn, randn

    width = setting.pick(950, 40)
    layers = [nn.Linear(64, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, _CLASSES)]
    return nn.Sequential(*layers), randn(64, 64)


def _convolutions(setting: Setting) -> tuple[Any, Any]:
    from torch import nn, randn

    layers: list[Any] = []
    sizes = setting.pick((3, 32, 64, 64), (3, 8))
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU(), nn.MaxPool2d(2)]
    features = sizes[-1] * (32 >> (len(sizes) - 1)) ** 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(features, _CLASSES)), randn(setting.pick(64, 4), 3, 32, 32)


def _transformer(setting: Setting) -> tuple[Any, Any]:
    import torch
    from torch import nn

    width, blocks, length = setting.pick((192, 3, 32), (16, 1, 4))

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            h = self.first(x)
            q, k, v = (each(h).unflatten(-1, (4, -1)).transpose(1, 2) for each in (self.query, self.key, self.value))
            weights = (q @ k.mT / (width / 4) ** 0.5).softmax(-1)
            x = x + self.out((weights @ v).transpose(1, 2).flatten(2))
            return x + self.narrow(nn.functional.gelu(self.wide(self.second(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(_TOKENS, width), nn.Embedding(length, width)
            self.blocks, self.head = nn.Sequential(*(Block() for _ in range(blocks))), nn.Linear(width, _CLASSES)

        def forward(self, tokens: Any) -> Any:
            places = torch.arange(length).repeat(len(tokens), 1)  # with the axis of examples, which Opacus needs
            return self.head(self.blocks(self.tokens(tokens) + self.positions(places)).mean(1))

    return Model(), torch.randint(_TOKENS, (setting.pick(32, 4), length))


_MODELS = {"perceptron": _perceptron, "convolutions": _convolutions, "transformer": _transformer}


def private_steps(setting: Setting) -> Iterator[Row]:
    """A whole step: forward, backward, clipping, noise and update, against other ways on one thread."""
    import torch

    torch.set_num_threads(1)
    for name, make in _MODELS.items():

        def case(make: Callable[[Setting], tuple[Any, Any]] = make) -> _Case:
            torch.manual_seed(0)
            model, inputs = make(setting)
            optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
            return _Case(model, optimizer, (inputs, torch.randint(_CLASSES, (len(inputs),))))

        size = sum(each.numel() for each in case().model.parameters())
        others = {"step without privacy": _plain(case()), "step of a run, clipping='example'": _own(case(), "example")}
        if importlib.util.find_spec("opacus"):
            others |= {"step of Opacus, hooks": _opacus(case(), ghost=False)}
            others |= {"step of Opacus, ghost": _opacus(case(), ghost=True)}
        ours = Side("step of a run", _counted(_own(case(), "auto"), size), 1)
        for other, step in others.items():
            title = f"{name}, {size} parameters, batch {len(case().data[0])}"
            yield setting.compare(title, ours, Side(other, _counted(step, size), 1), item="step", tolerance=0)


if importlib.util.find_spec("torch"):
    benchmark(private_steps)


def _counted(step: Callable[[], None], size: int) -> Callable[[], float]:
    """A step as a side, whose result is the number of parameters that it trains."""

    def run() -> float:
        step()
        return size

    return run


def _own(case: _Case, clipping: Clipping) -> Callable[[], None]:
    from torch.nn.functional import cross_entropy

    from corrnoise.simulations.adapters.torch_run import make_private

    run = make_private(
        *case,
        loss=cross_entropy,
        budget=Budget(rho=0.5),
        batch_size=len(case.data[0]),
        epochs=_CASE_STEPS,
        mechanism=DPSGD(),
        clipping=clipping,
    )

    def step() -> None:
        run.step(run.next_batch())

    return step


def _plain(case: _Case) -> Callable[[], None]:
    from torch.nn.functional import cross_entropy

    model, optimizer, (inputs, targets) = case

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def _opacus(case: _Case, *, ghost: bool) -> Callable[[], None]:
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping
    from torch.nn import CrossEntropyLoss

    model, descent, (inputs, targets) = case
    own = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": len(inputs)}
    if ghost:
        wrapped = GradSampleModuleFastGradientClipping(model)
        optimizer = DPOptimizerFastGradientClipping(descent, **own)
        criterion = DPLossFastGradientClipping(wrapped, optimizer, CrossEntropyLoss())
    else:
        wrapped, optimizer, criterion = GradSampleModule(model), DPOptimizer(descent, **own), CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        criterion(wrapped(inputs), targets).backward()
        optimizer.step()

    return step
