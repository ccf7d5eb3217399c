"""Noise of training runs: against the floor of drawing its normals, and against PyTorch where installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.run.batches import batches
from corrnoise.simulations.run.draws import filler
from corrnoise.simulations.run.private import PrivateRun
from corrnoise.simulations.run.sums import Release
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_BATCH = 64
_STEPS = 20_000  # more than are made
_MECHANISMS: dict[str, ToeplitzNoise] = {"independent": DPSGD(), "4 poles": NuFTRL(1e-2), "6 poles": NuFTRL(1e-4)}
#: By the number of rows that the noise keeps.
_ROWS: dict[int, ToeplitzNoise] = {
    0: DPSGD(),
    1: ProductNoise([1e-3, 0.05], [1, -1]),
    2: ProductNoise([1e-3, 0.02, 4e-3, 0.05], [1, 1, -1, -1]),
    4: ProductNoise([1e-4, 0.02, 0.3, 1.3, 3e-4, 0.05, 0.7, 1.9], [1] * 4 + [-1] * 4),
}


def _run(mechanism: ToeplitzNoise, size: int, **options: Any) -> PrivateRun:
    once = Participation.single(_STEPS)
    order = batches(once, _BATCH * _STEPS, _BATCH, rng=0)
    return PrivateRun(Budget(rho=0.5), once, mechanism, size, batches=order, threads=1, **options)


def _noise(run: PrivateRun, dtype: type = np.float32) -> Callable[[], float]:
    """The noise of one more step; its root mean square in units of the independent noise."""
    nothing: NDArray[Any] = np.zeros(run.size, dtype)

    def step() -> float:
        run.next_batch()
        return float(np.sqrt(np.mean(np.square(run.add_noise(nothing))))) / run.scale

    return step


@benchmark
def training_noise(setting: Setting) -> Iterator[Row]:
    """One step of noise on one thread; the sides have the same spread, up to the correlation.

    With PyTorch the other side is its own independent noise, too.
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
    for name, mechanism in _MECHANISMS.items():
        ours = Side("PrivateRun", _noise(_run(mechanism, size)), size)
        for other in others:
            yield setting.compare(f"{name}, {size} parameters", ours, other, item="parameter", tolerance=0.4)


@benchmark
def proved_noise(setting: Setting) -> Iterator[Row]:
    """One step of noise that is proved down to the bit, against the same noise on the grid."""
    size = setting.pick(10**6, 10**4)
    for rows, mechanism in _ROWS.items():
        levels: tuple[Release, ...] = ("proved", "grid")
        sides = [
            Side(level, _noise(_run(mechanism, size, sums="exact", release=level), np.int32), size) for level in levels
        ]
        yield setting.compare(f"{rows} rows, {size} parameters", *sides, item="parameter", tolerance=0.4)


def _torch_normals(size: int) -> Callable[[], float]:
    import torch

    torch.set_num_threads(1)
    values = torch.empty(size)

    def step() -> float:
        values.normal_()
        return float(values.square().mean().sqrt())

    return step
