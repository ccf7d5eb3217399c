"""The noise of a run on the device of its model in PyTorch, with its memory there (the extra ``torch``).

    run = PrivateRun(budget, epochs, mechanism, size, folder="run", maker=partial(TorchNoise, device="cuda"))
    noisy = cn.torch.add_noise(run, sums)  # nothing of the size of the model goes through the host

It has the bits of ``ModelNoise``, whose memory it takes and gives, so that a run may begin on one device and go on on
another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from numpy.typing import NDArray

from corrnoise.simulations.adapters import array_noise, torch_normals
from corrnoise.simulations.run import draws
from corrnoise.simulations.run.engines import Memory
from corrnoise.simulations.run.model_noise import ModelNoise, NoiseMaker
from corrnoise.simulations.run.sums import Grid
from corrnoise.support.extras import extra_module
from corrnoise.theory.mechanisms.program import Program


class TorchNoise(array_noise.DeviceNoiseMaker):
    """The noise of a program on a device with float64, one vector a step, from the first on; used as ``ModelNoise`` is.

    Draws and recurrence are ``compiled`` (``torch.compile``), which takes seconds once, and then a tenth of the time;
    None for devices where ``torch_normals.compiles`` says so.
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
        compiled: bool | None = None,
    ) -> None:
        super().__init__(program, size, spans=spans, memory=memory)
        torch = extra_module("torch", "torch")
        self._like = torch.zeros(0, dtype=getattr(torch, program.dtype), device=device)
        self.device = self._like.device
        self._rows = [self._like.new_zeros(self.size) for _ in range(self.rows)]
        self._numbers = [torch.from_numpy(each).to(self.device) for each in array_noise.numbers(program)]
        self._nu = torch.full((), -0.0, dtype=torch.float64, device=self.device)
        compiles = torch_normals.compiles(self.device) if compiled is None else compiled
        self._normals = torch_normals.program(torch_normals.normals, compiles)
        self._following = torch_normals.program(_following, compiles)

    def _made(self, secret: bytes, step: int, nonce: bytes, factor: float, wide: bool) -> Any:
        torch = extra_module("torch", "torch")
        values = self._like.new_empty(self.size, dtype=torch.float64 if wide else None)
        seed = draws.seeds(secret, [step], nonces=[nonce])[0]
        torch_normals.fill(values, seed, self.spans, self._normals)
        if self._program.draw_scales is not None:
            values *= values.new_tensor(self._program.draw_scales[step])
        of_step = [each[step] if each.dim() == 2 else each for each in self._numbers]
        scale = values.new_tensor(factor)
        made, self._rows = self._following(self._program.form, of_step, values, self._rows, scale, self._nu)
        return made if wide else made.float()

    def norm(self, total: Any) -> float:
        """The norm of a vector, formed in float64."""
        wide = total.double()
        return float(wide.dot(wide).sqrt())

    def _values(self, total: Any, grid: Grid) -> Any:
        return total.double() * grid.unit

    def _released(self, total: Any, noise: Any, grid: Grid) -> tuple[Any, Any]:
        return array_noise.on_grid(extra_module("torch", "torch"), total, noise, grid.unit)

    def on_host(self, values: Any) -> NDArray[Any]:
        """A tensor as an array on the host."""
        found: NDArray[Any] = values.cpu().numpy()
        return found

    def on_device(self, values: NDArray[Any]) -> Any:
        """An array as a tensor on the device."""
        return extra_module("torch", "torch").from_numpy(values).to(self.device)


def _following(form: Any, of_step: list[Any], draw: Any, memory: list[Any], factor: Any, nu: Any) -> Any:
    """The noise of a step in the type of its draw, and the memory after it in the type of the memory."""
    own = nu.to(draw)
    before = [row.to(draw) for row in memory]
    made, after = array_noise.following(form, [each.to(draw) for each in of_step], draw, before, own)
    return made * factor, [row.to(old) for row, old in zip(after, memory, strict=True)]


def maker_for(device: Any) -> Callable[..., NoiseMaker]:
    """The maker of the noise of a model on a device: the host for CPUs and for other forms than ``FORMS``."""
    return array_noise.where_possible(partial(TorchNoise, device=device)) if device.type == "cuda" else ModelNoise
