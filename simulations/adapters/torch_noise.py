"""The noise of a program on the device of a model in PyTorch, with its memory there (the extra ``torch``).

    run = PrivateRun(budget, epochs, mechanism, size, folder="run", maker=partial(DeviceNoise, device="cuda"))
    noisy = cn.torch.add_noise(run, sums)  # nothing of the size of the model goes through the host

It has the bits of ``ModelNoise``, whose memory it takes and gives, so that a run may begin on one device and go on on
another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrnoise.simulations.adapters import torch_normals
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import Memory, engine, step_scale
from corrnoise.simulations.run.spans import checked
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics.checks import Array


class DeviceNoise:
    """The noise of a program on a device, one vector a step, from the first step on; used as ``ModelNoise`` is.

    Parameters
    ----------
    program
        Of the form "cascade" or "delay line"; ``ModelNoise`` makes all kinds on the host.
    size
        Number of parameters of the model.
    threads, memory
        As for ``ModelNoise``; a device has its own threads, and keeps a ring.
    device
        A device of PyTorch that has float64.
    spans
        The coordinates of a shard, pairs (first, length); None for the whole model.
    compiled
        ``torch.compile(torch_normals.normals, fullgraph=True)``; None for the draws operation by operation.

    Raises
    ------
    ValueError
        The program has another form, or spans overlap or leave the model.
    """

    def __init__(
        self,
        program: Program,
        size: int,
        threads: int | None = None,
        *,
        device: Any,
        spans: Iterable[tuple[int, int]] | None = None,
        memory: Memory = "ring",
        compiled: Any = None,
    ) -> None:
        if program.form not in ("cascade", "delay line") or memory != "ring":
            raise ValueError(f"program must be a cascade or a delay line with a ring on a device, got {program.form!r}")
        torch = extra_module("torch", "torch")
        self._program = program
        self.spans = checked(spans, size)
        self.size = int(self.spans[:, 1].sum())
        self._host: Any = engine(program, 0)  # which has the numbers that run
        self.history, self.rows, self.dtype = self._host.history, len(self._host.memory), self._host.memory.dtype
        self._compiled = compiled
        self._like = torch.zeros(0, dtype=getattr(torch, program.dtype), device=device)
        self.device = self._like.device
        self._rows = [self._like.new_zeros(self.size) for _ in range(self.rows)]

    @property
    def memory(self) -> Array:
        """The memory that later steps need, shape (rows, coordinates), on the host."""
        return np.array([row.cpu().numpy() for row in self._rows], self.dtype).reshape(self.rows, self.size)

    @memory.setter
    def memory(self, rows: Array) -> None:
        torch = extra_module("torch", "torch")
        self._rows = [torch.tensor(row, dtype=self._like.dtype, device=self.device) for row in rows]

    def made(self, secret: bytes, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> Any:
        """The noise of a step as a tensor on the device, as ``ModelNoise.made`` makes it."""
        torch = extra_module("torch", "torch")
        values = self._like.new_empty(self.size, dtype=torch.float64 if wide else None)
        torch_normals.fill(values, draws.seeds(secret, [step], nonces=[nonce])[0], self.spans, self._compiled)
        number = np.float64 if values.dtype == torch.float64 else np.float32
        if self._program.draw_scales is not None:
            values *= float(number(self._program.draw_scales[step]))
        made = self._cascade(values) if self._program.form == "cascade" else self._delay_line(values)
        made *= float(number(step_scale(self._program, scale, step)))
        return made if wide else made.float()

    def prefetch(self, secret: bytes, step: int, nonce: bytes, *, wide: bool = False) -> None:
        """Nothing: a device works beside the host anyway."""

    def on_host(self, values: Any) -> NDArray[Any]:
        """A tensor as an array on the host."""
        found: NDArray[Any] = values.cpu().numpy()
        return found

    def on_device(self, values: NDArray[Any]) -> Any:
        """An array as a tensor on the device."""
        return extra_module("torch", "torch").from_numpy(values).to(self.device)

    def close(self) -> None:
        """Nothing is to be ended."""

    def _cascade(self, x: Any) -> Any:
        """X → x + (a − q) u, u → u + (x − q u), each product rounded by itself."""
        for i, (gain, pole) in enumerate(zip(self._host.gains.tolist(), self._host.poles.tolist(), strict=True)):
            u = self._rows[i].to(x)
            self._rows[i] = (u + (x - pole * u)).to(self._like)
            x = x + gain * u
        return x

    def _delay_line(self, draw: Any) -> Any:
        """Σ β_k w_{t−k}, added in the order of k."""
        first, *others = self._host.coefficients.tolist()
        made = draw * first
        for coefficient, past in zip(others, self._rows, strict=False):
            made = made + coefficient * past.to(draw)
        self._rows = [draw.to(self._like), *self._rows][: len(self._rows)]
        return made
