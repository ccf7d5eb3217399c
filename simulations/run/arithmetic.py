"""The arithmetic of a run: sums that its noise covers, and noisy sums.

Its level is one of four.  Sums and releases of floats are *idealised*: the guarantee holds for real numbers.  *Exact
sums* are integers on a grid, whose sensitivity is exactly the clipping norm.  Releases on the *grid* of such sums are
post-processing of the Gaussian mechanism (``sums``).  *Proved* releases have noise that nothing rounds, too
(``proved``).
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np

from corrnoise.simulations.run.draws import Generator
from corrnoise.simulations.run.engines import step_scale
from corrnoise.simulations.run.model_noise import NoiseMaker, deviation
from corrnoise.simulations.run.sums import Grid, Release, Sums, grid_of
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.rounding import UNITS

_NORM_SLACK = 1e-3  # of the norm of a sum, for the rounding errors of clipping and adding
_LEAST_NORM = 1 - 1e-6  # in units of the largest number: rounding is monotone, so a sum of squares is not below one
_MAX_SUM_ERROR = 2.0**-10  # rounding error of a sum, in standard deviations of the noise


class Arithmetic:
    """The sums that a run takes and the noisy sums that it returns; exact sums need batches.

    ``grid`` is that of exact sums, once the run is ``bound`` to its noise; None where sums are floats.
    """

    def __init__(self, sums: Sums, release: Release, *, with_batches: bool) -> None:
        self.sums: Sums = checks.choice("sums", sums, get_args(Sums))
        self.release: Release = checks.choice("release", release, get_args(Release))
        self.grid: Grid | None = None
        if sums == "exact" and not with_batches:
            raise ValueError("batches must be given for exact sums, whose grid depends on the size of a batch")
        if self.on_grid and sums != "exact":
            raise ValueError(f"sums must be 'exact' for releases on a grid, got {sums!r}")

    @property
    def on_grid(self) -> bool:
        """Whether noisy sums are on the grid; their noise is then made in float64, or proved."""
        return self.release != "float"

    @property
    def level(self) -> str:
        """The arithmetic that the guarantee is about: ``"idealised"``, ``"exact sums"``, ``"grid"`` or ``"proved"``."""
        return self.release if self.on_grid else "exact sums" if self.sums == "exact" else "idealised"

    @property
    def generator(self) -> Generator:
        """The generator of the random words of noise and batches."""
        return "ChaCha20" if self.release == "proved" else "Philox4x32-10"

    @property
    def of_noise(self) -> dict[str, float]:
        """Further arguments of the maker of the noise: proved integers are made for the scale and the grid."""
        return {} if self.release != "proved" or self.grid is None else {"scale": self._scale, "unit": self.grid.unit}

    def bound(self, program: Program, scale: float, clip_norm: float, largest_batch: int | None, size: int) -> None:
        """Choose the grid of a run; ``largest_batch``, the most examples of a batch, is None where sums are floats."""
        self._program = program
        self._scale = scale
        self._clip_norm = clip_norm
        if self.sums == "exact":
            assert largest_batch is not None
            if self.release == "proved":
                from corrnoise.simulations.run.exact_steps import exact_deviation

                noise = exact_deviation(program)
            else:
                noise = deviation(program)
            self.grid = grid_of(clip_norm, largest_batch, size, scale * noise, self.release)

    def checked(self, total: Any, noise: NoiseMaker, step: int, examples: int | None) -> Any:
        """A copy of a sum of clipped gradients, if the noise of the run covers it, as for ``PrivateRun.add_noise``.

        The copy is checked, because another thread may write into the sum.  ``examples`` says how many gradients it is
        the sum of; None where that is not known.
        """
        if noise.device is not None and getattr(total, "device", None) != noise.device:
            raise ValueError(f"total must be an array on {noise.device}, got {type(total).__name__}")
        values: Any = noise.copied(total)
        shape = tuple(values.shape)
        dtype: Any = str(values.dtype).removeprefix("torch.")
        kinds: tuple[str, ...] = ("float32", "float64") if self.grid is None else (self.grid.dtype,)
        if shape != (noise.size,) or dtype not in kinds:
            raise ValueError(
                f"total must be a vector of {noise.size} numbers of {' or '.join(kinds)}, got shape {shape} of {dtype}"
            )
        norm = noise.norm(values)
        if self.grid is not None:
            most = self.grid.largest
            if norm > _LEAST_NORM * most:  # otherwise no number is above it
                smallest, largest = noise.extremes(values)
                if max(-smallest, largest) > most:
                    raise ValueError(f"total must have numbers of at most {most} units of the grid of the run")
            norm *= self.grid.unit
        if not np.isfinite(norm):
            raise ValueError("total must be finite")
        if examples is None:
            return values
        count = checks.integer("examples", examples, 0)
        longest = count * self._clip_norm
        if norm > longest * (1 + _NORM_SLACK):
            raise ValueError(
                f"total must have a norm of at most {longest:.6g}, as the sum of {count} clipped gradients has, got "
                f"{norm:.6g}"
            )
        error = longest * UNITS[dtype] / step_scale(self._program, self._scale, step) if self.grid is None else 0.0
        if error > _MAX_SUM_ERROR:
            raise ValueError(
                f"total must be of a type that is precise beside the noise, got {dtype}, whose rounding errors "
                f"are up to {error:.2g} standard deviations: sum in float64"
            )
        return values
