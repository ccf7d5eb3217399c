"""Time of a private step of ``cn.jax`` and ``cn.torch`` on one thread, in process time: an MLP 64-950-950-10, batch 64.

    OMP_NUM_THREADS=1 taskset -c 0 .venv/bin/python -m benchmarks.jax_engines

Needs the extras ``jax`` and ``torch``.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import Any

import numpy as np

os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

SIZES = (64, 950, 950, 10)
BATCH = 64
STEPS = 12


def _settings() -> dict[str, Any]:
    import corrnoise as cn

    budget, mechanism = cn.Budget(rho=1.0), cn.mechanisms.DPSGD()
    return {"budget": budget, "batch_size": BATCH, "epochs": STEPS // 2, "mechanism": mechanism}


def _time(run: Any) -> float:
    """The shortest time of a step but the first, in milliseconds."""
    found = []
    for batch in run:
        before = time.process_time()
        run.step(batch)
        np.asarray(getattr(run, "parameters", [[0]])[0][0])  # JAX returns before it has computed
        found.append(time.process_time() - before)
    return 1e3 * min(found[1:])


def main() -> None:
    """Print a line for each engine."""
    import optax
    import torch

    import corrnoise as cn

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(2 * BATCH, SIZES[0])).astype(np.float32)
    digits = rng.integers(10, size=2 * BATCH)
    weights = [rng.normal(size=shape).astype(np.float32) / 8 for shape in pairwise(SIZES)]
    parameters = [(each, np.zeros(each.shape[1], np.float32)) for each in weights]

    def loss(parameters: Any, x: Any, digit: Any) -> Any:
        import jax

        *inner, (weight, bias) = parameters
        for first, second in inner:
            x = jax.numpy.tanh(x @ first + second)
        return optax.softmax_cross_entropy_with_integer_labels(x @ weight + bias, digit)

    for engine in ("vmap", "loop"):
        run: Any = cn.jax.make_private(
            parameters, optax.sgd(1e-3), (inputs, digits), loss=loss, engine=engine, **_settings()
        )
        print(f"cn.jax, {engine}: {_time(run):.0f} ms", flush=True)
    layers = [torch.nn.Linear(*sizes) for sizes in pairwise(SIZES)]
    data = torch.as_tensor(inputs), torch.as_tensor(digits)
    for clipping in ("example", "auto"):
        model = torch.nn.Sequential(layers[0], torch.nn.Tanh(), layers[1], torch.nn.Tanh(), layers[2])
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        cross_entropy = torch.nn.functional.cross_entropy
        run = cn.torch.make_private(model, optimizer, data, loss=cross_entropy, clipping=clipping, **_settings())
        print(f"cn.torch, clipping={clipping!r}: {_time(run):.0f} ms", flush=True)


if __name__ == "__main__":
    main()
