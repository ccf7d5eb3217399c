"""The draws in PyTorch, filled into tensors on any device (the extra ``torch``).

On CPUs ``fill`` uses the compiled code of the host, which takes a twentieth of the time, on the memory of the tensor.
Other devices use the operations of ``array_normals``, whose bits are the same.
"""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters import array_normals
from corrnoise.simulations.run import normals as host
from corrnoise.simulations.run.spans import Spans
from corrnoise.support.extras import extra_module

EAGER_COORDINATES = 2**21  # coordinates whose intermediate results are kept
_COMPILED_COORDINATES = 2**24  # coordinates, which are kept, and no intermediate result


@lru_cache(maxsize=16)
def program(function: Callable[..., Any], compiled: bool) -> Callable[..., Any]:
    """A function of tensors of any length, compiled; as it is where not, or beyond the kinds that PyTorch compiles."""
    made: Callable[..., Any] = extra_module("torch", "torch").compile(function, dynamic=True) if compiled else function
    return made


def compiles(device: Any) -> bool:
    """Whether functions are compiled for a device: for GPUs where Triton and what it needs are there.

    Triton compiles C, against the headers of Python, which many machines lack.

    """
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    headers = Path(sysconfig.get_path("include"), "Python.h")
    return headers.exists() and any(map(shutil.which, ("cc", "gcc", "clang")))


def normals(seed: Any, index: Any, nu: Any) -> Any:
    """The draws of ``array_normals`` on tensors; may be compiled."""
    import torch

    return array_normals.normals(torch, seed, index, nu)


def fill(values: Any, seed: NDArray[np.uint32], spans: Spans, compiled: Any = None) -> None:
    """Fill a contiguous vector of float32 or float64 on any device with the normals of spans, one after the other.

    ``seed`` is a row of ``draws.seeds``.  ``compiled`` is ``torch.compile(normals, fullgraph=True)`` for devices other
    than CPUs; None for ``normals``, which is slower.
    """
    if values.device.type != "cpu":
        fill_by_elements(values, seed, spans, normals if compiled is None else compiled)
        return
    key, number = (np.uint64(int(seed[k]) | int(seed[k + 1]) << 32) for k in (0, 2))
    host.fill_spans(values.numpy(), key, number, spans)


def fill_by_elements(values: Any, seed: NDArray[np.uint32], spans: Spans, each: Any) -> None:
    """The same for all devices, where ``each`` is ``normals`` or its compiled program."""
    torch = extra_module("torch", "torch")
    words = torch.tensor(seed.tolist(), dtype=torch.int64, device=values.device)
    nu = torch.full((), -0.0, dtype=torch.float64, device=values.device)
    rows = torch.from_numpy(spans).to(values.device)
    ends = rows[:, 1].cumsum(0)
    shifts = rows.sum(1) - ends
    at_once = EAGER_COORDINATES if each is normals else _COMPILED_COORDINATES
    for first in range(0, len(values), at_once):
        place = torch.arange(first, min(first + at_once, len(values)), device=values.device)
        one = shifts[0] if len(rows) == 1 else shifts[torch.searchsorted(ends, place, right=True)]
        values[first : first + len(place)] = each(words, place + one, nu)
