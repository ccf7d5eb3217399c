"""The engines of the draws: against the normals of other libraries, and against the bandwidth of memory."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.core import Row, Setting, benchmark
from benchmarks.timing import Side
from corrnoise.simulations.adapters import torch_normals
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import streaming
from corrnoise.simulations.run.model_noise import ModelNoise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget

_KEY = bytes(32)
_SAMPLE = 4096  # numbers whose root mean square is compared


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values[:_SAMPLE], dtype=float))))


def _noise(mechanism: Mechanism, size: int, memory: str) -> Callable[[], float]:
    """A step of noise of one unit after the other, on one thread."""
    program = streaming(mechanism, Participation.single(10**6))
    made = ModelNoise(program, size, 1, memory=memory)  # type: ignore[arg-type]
    steps = iter(range(10**6))
    return lambda: _rms(made.made(_KEY, next(steps), b"", 1.0))


@benchmark
def devices(setting: Setting) -> Iterator[Row]:
    """Draws and noise in float32 by each engine; the first side is named with its bytes of memory a number."""
    small, large = setting.pick((10**6, 10**7), (10**4, 2 * 10**4))
    for size in (small, large):
        values, other_values = np.zeros(size, np.float32), np.ones(size, np.float32)
        fill = draws.filler(_KEY, 0, np.array([(0, size)]))
        rng = np.random.default_rng(0)

        def host() -> float:
            fill(values)  # noqa: B023  # each side is timed within its turn of the loop
            return _rms(values)  # noqa: B023

        def numpy() -> float:
            return _rms(rng.standard_normal(out=values, dtype=np.float32))  # noqa: B023

        def added() -> float:
            np.multiply(values, other_values, out=values)  # noqa: B023  # two vectors are read, and one is written
            return 1.0

        ours = [
            Side("numba, 0 B", host, size),
            Side("2 poles, 8 B", _noise(NuFTRL(0.1), size, "ring"), size),
            Side("4 coefficients, 16 B", _noise(_FOUR, size, "ring"), size),
            Side("4 coefficients by replay, 0 B", _noise(_FOUR, size, "replay"), size),
        ]
        torch = importlib.util.find_spec("torch") is not None
        if importlib.util.find_spec("jax") is not None:
            for side, other in _compiled_step(size):
                yield setting.compare(f"{side.name}, {size}", side, other, item="number", tolerance=0.4)
        normal = Side("torch normal_", _torch_normal(size), size) if torch else Side("numpy", numpy, size)
        others = [normal, Side("a *= b", added, size)]
        if torch and size == small:
            ours += _elements(size, compiled=not setting.quick and shutil.which("g++") is not None)
        for side in ours:
            for other in others:
                yield setting.compare(f"{side.name}, {size}", side, other, item="number", tolerance=0.4)


_FOUR = FiniteNoise([1.0, -0.3, -0.1, -0.05])


def _torch_normal(size: int) -> Callable[[], float]:
    import torch

    torch.set_num_threads(1)
    values = torch.empty(size)
    return lambda: _rms(values.normal_().numpy())


def _compiled_step(size: int) -> Iterator[tuple[Side, Side]]:
    """The draws inside a compiled step of JAX, and the normals of its own generator."""
    import jax

    from corrnoise.simulations.adapters.jax_transforms import correlated_noise

    sums = jax.numpy.zeros(size)
    once, budget = Participation.single(1), Budget(0.5)
    transformation = correlated_noise(budget, once, DPSGD(), key=_KEY)
    state = transformation.init(sums)
    update = jax.jit(transformation.update)
    normal = jax.jit(lambda key: jax.random.normal(key, (size,)))
    key = jax.random.key(0)
    scale = streaming(DPSGD(), once, "float32").scale(budget)
    yield (
        Side("JAX, compiled, 0 B", lambda: _rms(np.asarray(update(sums, state)[0])) / scale, size),
        Side("jax.random.normal", lambda: _rms(np.asarray(normal(key))), size),
    )


def _elements(size: int, *, compiled: bool) -> Iterator[Side]:
    """The engine of other devices, here on the CPU."""
    import torch

    values = torch.empty(size)
    seed = draws.seeds(_KEY, [0])[0]
    spans = np.array([(0, size)])
    kinds = {"torch by elements, 0 B": torch_normals.normals}
    if compiled:
        kinds["torch compiled, 0 B"] = torch.compile(torch_normals.normals, fullgraph=True)
    for name, each in kinds.items():

        def run(each: Callable[..., object] = each) -> float:
            torch_normals.fill_by_elements(values, seed, spans, each)
            return _rms(values.numpy())

        yield Side(name, run, size)
