"""The noise of a program on the device of a model in PyTorch, with its memory there (the extra ``torch``).

It has the bits of ``ModelNoise``, whose memory it takes and gives, so that a run may begin on one device and go on on
another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from corrnoise.simulations.adapters import torch_normals
from corrnoise.simulations.extras import extra_module
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import engine, step_scale
from corrnoise.simulations.run.spans import checked
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics.checks import Array


class DeviceNoise:
    """The noise of a program on a device, one vector a step, from the first step on.

    Parameters
    ----------
    program
        Of the form "cascade" or "delay line"; ``ModelNoise`` makes all kinds on the host.
    size
        Number of parameters of the model.
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
        device: Any,
        *,
        spans: Iterable[tuple[int, int]] | None = None,
        compiled: Any = None,
    ) -> None:
        if program.form not in ("cascade", "delay line"):
            raise ValueError(f"program must be a cascade or a delay line on a device, got {program.form!r}")
        torch = extra_module("torch", "torch")
        self._program = program
        self._spans = checked(spans, size)
        self._size = int(self._spans[:, 1].sum())
        self._host: Any = engine(program, 0)  # which has the numbers that run
        self._compiled = compiled
        self._like = torch.zeros(0, dtype=getattr(torch, program.dtype), device=device)
        self._rows = [self._like.new_zeros(self._size) for _ in self._host.memory]

    @property
    def memory(self) -> Array:
        """The memory that later steps need, shape (rows, coordinates), on the host."""
        rows = [row.cpu().numpy() for row in self._rows]
        return np.array(rows, self._program.dtype).reshape(len(rows), self._size)

    @memory.setter
    def memory(self, rows: Array) -> None:
        torch = extra_module("torch", "torch")
        self._rows = [torch.tensor(row, dtype=self._like.dtype, device=self._like.device) for row in rows]

    def made(self, secret: bytes, step: int, nonce: bytes, scale: float, *, wide: bool = False) -> Any:
        """The noise of a step as a tensor on the device, as ``ModelNoise.made`` makes it."""
        torch = extra_module("torch", "torch")
        values = self._like.new_empty(self._size, dtype=torch.float64 if wide else None)
        torch_normals.fill(values, draws.seeds(secret, [step], nonces=[nonce])[0], self._spans, self._compiled)
        number = np.float64 if values.dtype == torch.float64 else np.float32
        if self._program.draw_scales is not None:
            values *= float(number(self._program.draw_scales[step]))
        made = self._cascade(values) if self._program.form == "cascade" else self._delay_line(values)
        made *= float(number(step_scale(self._program, scale, step)))
        return made if wide else made.float()

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
