"""The generators of PyTorch, NumPy and Python around a pass of a model (the extra ``torch``).

A pass draws from seeds that come from the secret of the run, its step and the place of the rows.  Afterwards all
generators are as before.  So dropout cannot show how many passes a batch took, and a resumed run draws the same
numbers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.support.extras import extra_module


class TorchGenerators:
    """A part of a checkpoint: the generators of PyTorch, of the CPU and of each GPU in use."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Their states."""
        torch = extra_module("torch", "torch")
        states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
        found = {"cpu": torch.get_rng_state(), **{f"cuda {number}": each for number, each in enumerate(states)}}
        return {name: each.numpy().copy() for name, each in found.items()}

    def load(self, arrays: dict[str, NDArray[Any]], /) -> None:
        """Restore saved states, except those of GPUs that this machine does not have."""
        torch = extra_module("torch", "torch")
        torch.set_rng_state(torch.from_numpy(arrays["cpu"]))
        for number in range(torch.cuda.device_count()):
            if f"cuda {number}" in arrays:
                torch.cuda.set_rng_state(torch.from_numpy(arrays[f"cuda {number}"]), number)


@contextmanager
def generators_kept() -> Iterator[None]:
    """A block after which the generators of PyTorch, NumPy and Python are as before."""
    of_torch = TorchGenerators()
    before = random.getstate(), np.random.get_state(), of_torch.save()  # noqa: NPY002  # of the user's code
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        of_torch.load(before[2])


def seed_generators(seed: int) -> None:
    """Seed the generators of PyTorch, NumPy and Python with a number in [0, 2⁶⁴)."""
    torch = extra_module("torch", "torch")
    known = torch.accelerator.is_available()
    (torch if known else torch.default_generator).manual_seed(seed)  # the first takes a stack trace for each device
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002  # of the user's code


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block that draws from a seed, and after which the generators are as before."""
    with generators_kept():
        seed_generators(seed)
        yield
