"""Noise of training runs: against the floor of drawing its normals, and against PyTorch and Opacus where installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.adapters.opacus import keep_factors, optimizer_class
from corrnoise.simulations.adapters.torch import Clipping, trainable_size
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.draws import filler
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_BATCH = 64
_STEPS = 20_000  # more than are made
_MECHANISMS: dict[str, ToeplitzNoise] = {"independent": DPSGD(), "4 poles": NuFTRL(1e-2), "6 poles": NuFTRL(1e-4)}


def _run(mechanism: ToeplitzNoise, size: int) -> PrivateRun:
    once = Participation.single(_STEPS)
    order = batches(once, _BATCH * _STEPS, _BATCH, rng=0)
    return PrivateRun(Budget(rho=0.5), once, mechanism, size, batches=order, threads=1)


def _noise(run: PrivateRun) -> Callable[[], float]:
    """The noise of one more step; its root mean square in units of the independent noise."""
    nothing = np.zeros(run.size, np.float32)

    def step() -> float:
        run.next_batch()
        return float(np.sqrt(np.mean(np.square(run.add_noise(nothing))))) / run.scale

    return step


@benchmark
def training_noise(setting: Setting) -> Iterator[Row]:
    """One step of noise on one thread; the sides have the same spread, up to the correlation.

    With PyTorch the other sides are its own independent noise, and a whole step of Opacus with independent noise.
    """
    size = setting.pick(10**6, 10**4)
    draw = filler(bytes(32), 0, np.array([(0, size)]))
    values = np.empty(size, np.float32)

    def floor() -> float:
        draw(values)
        return float(np.sqrt(np.mean(np.square(values))))

    others = [Side("its normals", floor, size)]
    if importlib.util.find_spec("torch"):
        others.append(Side("torch normal_", _torch_normals(size), size))
        yield from _clipped_sums(setting)
    for name, mechanism in _MECHANISMS.items():
        ours = Side("PrivateRun", _noise(_run(mechanism, size)), size)
        for other in others:
            yield setting.compare(f"{name}, {size} parameters", ours, other, item="parameter", tolerance=0.4)
    if importlib.util.find_spec("opacus"):
        yield from _opacus_steps(setting)


def _torch_normals(size: int) -> Callable[[], float]:
    import torch

    torch.set_num_threads(1)
    values = torch.empty(size)

    def step() -> float:
        values.normal_()
        return float(values.square().mean().sqrt())

    return step


def _clipped_sums(setting: Setting) -> Iterator[Row]:
    """Sums of clipped gradients of a batch, with a clip norm that they keep: ghost clipping against the other ways."""
    import torch

    from corrnoise.simulations.adapters import torch as by_example
    from corrnoise.simulations.adapters import torch_ghost

    torch.set_num_threads(1)
    width = setting.pick(950, 40)
    layers = [torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))
    size = by_example.trainable_size(model)
    inputs, targets = torch.randn(_BATCH, 64), torch.randint(10, (_BATCH,))
    loss = torch.nn.functional.cross_entropy

    def norm(sums: Iterable[Any]) -> float:
        return float(sum(each.double().square().sum() for each in sums)) ** 0.5

    def ghost() -> float:
        return norm(torch_ghost.clipped_sum(model, loss, inputs, targets, 1e3, _BATCH))

    def examples() -> float:
        samples = by_example.example_gradients(model, loss, inputs, targets)
        return norm(by_example.clipped_sum(list(samples.values()), 1e3))

    def batch() -> float:
        total = loss(model(inputs), targets, reduction="sum")
        return norm(torch.autograd.grad(total, list(model.parameters())))

    ours = Side("ghost clipping", ghost, 1)
    for other in (Side("gradients of examples", examples, 1), Side("gradient of the batch, not private", batch, 1)):
        case = f"clipped sum, {size} parameters, batch {_BATCH}"
        yield setting.compare(case, ours, other, item="sum", tolerance=1e-3)


def _opacus_steps(setting: Setting) -> Iterator[Row]:
    """A whole step at 64 examples: forward, backward, clipping, noise, update."""
    import torch
    from opacus.grad_sample import GradSampleModule, GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    torch.set_num_threads(1)
    width = setting.pick(950, 40)
    inputs = torch.randn(_BATCH, 64)
    targets = torch.randint(10, (_BATCH,))

    def stepped(make: Callable[[Any, Any], tuple[Any, Any, Any]]) -> tuple[Callable[[], float], int]:
        layers = [torch.nn.Linear(64, width), torch.nn.Tanh(), torch.nn.Linear(width, width), torch.nn.Tanh()]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(width, 10))
        size = sum(each.numel() for each in model.parameters())
        wrapped, optimizer, loss = make(model, torch.optim.SGD(model.parameters(), lr=1e-9))

        def step() -> float:
            optimizer.zero_grad()
            if run := getattr(optimizer, "run", None):
                run.next_batch()
            loss(wrapped(inputs), targets).backward()
            optimizer.step()
            return size

        return step, size

    own = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": _BATCH}
    loss = torch.nn.CrossEntropyLoss()

    def independent(model: Any, optimizer: Any) -> tuple[Any, Any, Any]:
        return GradSampleModule(model), DPOptimizer(optimizer, **own), loss

    def independent_ghost(model: Any, optimizer: Any) -> tuple[Any, Any, Any]:
        wrapped, private = (
            GradSampleModuleFastGradientClipping(model),
            DPOptimizerFastGradientClipping(optimizer, **own),
        )
        return wrapped, private, DPLossFastGradientClipping(wrapped, private, torch.nn.CrossEntropyLoss())

    def correlated(clipping: Clipping, mechanism: ToeplitzNoise) -> Callable[[Any, Any], tuple[Any, Any, Any]]:
        def made(model: Any, optimizer: Any) -> tuple[Any, Any, Any]:
            wrapped = GradSampleModule(model)
            if clipping == "ghost":
                keep_factors(wrapped)
            return (
                wrapped,
                optimizer_class()(optimizer, _run(mechanism, trainable_size(model)), clipping=clipping),
                loss,
            )

        return made

    kinds: dict[Clipping, Any] = {"example": independent, "ghost": independent_ghost}
    for clipping, theirs in kinds.items():
        step, size = stepped(theirs)
        other = Side(f"step of Opacus, {clipping}", step, 1)
        for name, mechanism in _MECHANISMS.items():
            ours = Side(f"step with PrivateRun, {clipping}", stepped(correlated(clipping, mechanism))[0], 1)
            yield setting.compare(f"{name}, {size} parameters, batch {_BATCH}", ours, other, item="step", tolerance=0)
