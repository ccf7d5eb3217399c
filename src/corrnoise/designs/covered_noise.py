"""Noise for a problem and a budget, with the noise multipliers that cover it.

``CoveredNoise`` is a design without its report and files.  It holds the problem, the budget, the clip norm, the
adjacency, the participation and the length of the run; and the noise, with two approximations that run with little
memory.  The noise multipliers follow from these.  There are several, because each way of generating the noise has its
own sensitivity, which includes the rounding errors of the program (``theory.mechanisms.rounding``):

=======================================  =======================  ======================================================
what is run                              noise multiplier         it covers
=======================================  =======================  ======================================================
``NoiseStream(design.noise, steps=T)``   ``noise_multiplier``     γ_T; without a horizon γ_∞ of the ideal noise
``NoiseStream(design.stream)``           ``stream_multiplier``    γ_T or γ_∞ of the cascade or delay line
coefficients, by any program             ``toeplitz_multiplier``  γ_T of either column, in every type that holds
buffers, by a library that runs BLTs     ``buffers_multiplier``   γ_T or γ_∞ of the buffers, in every type that holds
=======================================  =======================  ======================================================

``multipliers(form)`` gives those of one form by type.  The standard deviation of the independent noise is the
multiplier times the clip norm.  The correlated noise made of it is added to the *sum* of the clipped gradients of a
step.

Noise may have a factor for each step, ``scales``: the noise of step t is then scales_t times that of ``noise``.
A stream applies the factors by itself; whoever runs another form multiplies its noise by them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from corrnoise.designs.choice import Choice
from corrnoise.designs.handover import (
    FORMS,
    Handover,
    Reference,
    buffer_handover,
    reference,
    toeplitz_handover,
)
from corrnoise.simulations.noise_stream import stream_sensitivity
from corrnoise.solvers.rational.exchange import BufferForm, ToeplitzForm, toeplitz_form
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.participation import Participation, checked_run
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.mechanisms.rounding import DTYPES
from corrnoise.theory.mechanisms.toeplitz import SCALES, ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.checks import Array
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import ADJACENCIES, Adjacency, safe_multiplier, zero_out_rho
from corrnoise.theory.problems.quadratic import LinearRegression, MeanEstimation
from corrnoise.theory.problems.strongly_convex import StronglyConvex

Problem = LinearRegression | MeanEstimation | StronglyConvex
Stream = PoleNoise | FiniteNoise | ScaledNoise | BandedNoise
Value = str | int | float | bool

PROBLEMS: dict[str, type[Problem]] = {
    kind.__name__: kind for kind in (LinearRegression, MeanEstimation, StronglyConvex)
}
FORMAT = "corrnoise.Design"
VERSION = 4


@record
class CoveredNoise(Record):
    """Noise for a problem and a privacy budget, and the noise multipliers for every way of running it.

    The arguments are those of ``corrnoise.designs.record.Design``, which adds the comparison, the words and the files.
    """

    noise: ToeplitzNoise
    stream: Stream | None = None
    buffers: BufferForm | None = None
    rho: float = field(kw_only=True)
    steps: int | None = field(default=None, kw_only=True)
    min_sep: int = field(default=1, kw_only=True)
    max_participations: int = field(default=1, kw_only=True)
    clip_norm: float = field(default=1.0, kw_only=True)
    adjacency: Adjacency = field(default="zero-out", kw_only=True)
    problem: Problem | None = field(default=None, kw_only=True)
    initial_offset: float | Array = field(default=0.0, kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    metadata: Mapping[str, Value] = field(default_factory=dict, kw_only=True)
    scales: Array | None = field(default=None, kw_only=True)
    choice: Choice | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        checked_noise(self.noise)
        if not isinstance(self.stream, Stream | None):
            raise TypeError(
                f"stream must be PoleNoise, FiniteNoise, ScaledNoise, BandedNoise or None, got {self.stream!r}"
            )
        if self.buffers is not None and checks.instance("buffers", self.buffers, BufferForm).matrix != "strategy":
            raise ValueError(f"buffers must be those of a strategy, got {self.buffers!r}")
        if not isinstance(self.problem, Problem | None):
            raise TypeError(f"problem must be one of {', '.join(PROBLEMS)} or None, got {self.problem!r}")
        self._set(
            rho=checks.real("rho", self.rho, SCALES),
            steps=None if self.steps is None else checks.integer("steps", self.steps, 1),
            min_sep=checks.integer("min_sep", self.min_sep, 1),
            max_participations=checks.integer("max_participations", self.max_participations, 1),
            clip_norm=checks.real("clip_norm", self.clip_norm, SCALES),
            adjacency=checks.choice("adjacency", self.adjacency, tuple(ADJACENCIES)),
            initial_offset=checked_offset(self.initial_offset, self.problem),
            notes=checked_notes(self.notes),
            metadata=MappingProxyType(checked_metadata(self.metadata)),
            scales=self._checked_scales(),
        )
        if self.choice is not None:
            checks.instance("choice", self.choice, Choice)
        checked_run(self.steps, self.min_sep, self.max_participations)
        for name, multiplier in (("noise", self.noise_multiplier), ("stream", self.stream_multiplier)):
            if not math.isfinite(multiplier or 0.0):
                got = getattr(self, name)
                raise ValueError(f"{name} must have a finite sensitivity for steps={self.steps!r}, got {got!r}")

    def _checked_scales(self) -> Array | None:
        if self.scales is None:
            return None
        if self.steps is None:
            raise ValueError("steps must be given with scales, got None")
        return checks.shaped("scales", self.scales, (self.steps,), "[1e-100, 1e100]")

    def _key(self) -> tuple[Any, ...]:
        *rest, metadata, scales, choice = super()._key()
        return (*rest, json.dumps(dict(metadata), sort_keys=True), scales, choice)

    @cached_property
    def run(self) -> Participation | None:
        """How often one example takes part in the run; None for once in a run of any length."""
        return checked_run(self.steps, self.min_sep, self.max_participations)

    @property
    def participation_in_words(self) -> str:
        """How often one example takes part, as it stands in reports."""
        return (self.run or Participation(1)).in_words()

    @property
    def mechanism(self) -> ToeplitzNoise | Mechanism:
        """The noise with its factors for each step, if it has any."""
        return self.noise if self.scales is None else ScaledNoise(self.noise, self.scales)

    # -- noise multipliers ---------------------------------------------------------------------------------------------

    @cached_property
    def noise_multiplier(self) -> float:
        """Standard deviation over clip norm of the independent noise behind an exact stream of ``noise``.

        With a horizon it covers the rounding errors of ``NoiseStream(noise, …, steps=T)``.  Without one no program
        makes ``noise`` itself, and this is the multiplier of the ideal noise.
        """
        if self.run is None:
            return self.noise.noise_multiplier(self.rho, adjacency=self.adjacency)
        return self._multiplier(stream_sensitivity(self.mechanism, self.run, "transform"))

    @cached_property
    def stream_multiplier(self) -> float | None:
        """The same behind ``NoiseStream(stream, …)``; None without a stream."""
        if self.stream is None:
            return None
        return self._multiplier(stream_sensitivity(self.stream, self.run, "recurrence"))

    @cached_property
    def handover(self) -> tuple[Handover, ...]:
        """Every form in every type: whether it holds, the sensitivity that is covered, or why it is refused."""
        held: list[Handover] = []
        for dtype in DTYPES:
            held.append(buffer_handover(self.buffers, dtype, self.reference))
            held += [toeplitz_handover(self.toeplitz, column, dtype, self.reference) for column in FORMS[1:]]
        return tuple(sorted(held, key=lambda one: FORMS.index(one.form)))

    @property
    def reference(self) -> Reference:
        """The noise, run and rates that the forms are compared with."""
        return reference(self.noise, self.run, None if self.problem is None else self.problem.rates, self.scales)

    def multipliers(self, form: str) -> dict[str, float | None]:
        """The noise multipliers of a form by floating-point type; None where the form is refused.

        Parameters
        ----------
        form
            ``"buffers"``, ``"strategy_coef"`` or ``"noising_coef"``.
        """
        checks.choice("form", form, FORMS)
        return {
            one.dtype: None if one.sensitivity is None else self._multiplier(one.sensitivity)
            for one in self.handover
            if one.form == form
        }

    @cached_property
    def toeplitz(self) -> ToeplitzForm | None:
        """Coefficients of ``noise`` and of its inverse up to the horizon; None without one."""
        return None if self.run is None else toeplitz_form(self.noise, self.run)

    @property
    def toeplitz_multiplier(self) -> float | None:
        """Standard deviation over clip norm of the independent noise for the coefficients of ``toeplitz``.

        It covers both columns in every type in which they hold; None where no column holds.
        """
        return self.largest_multiplier("strategy_coef", "noising_coef")

    @property
    def buffers_multiplier(self) -> float | None:
        """Standard deviation over clip norm of the independent noise for ``buffers``, in every type that holds."""
        return self.largest_multiplier("buffers")

    def largest_multiplier(self, *forms: str) -> float | None:
        """The noise multiplier that covers these forms in every type in which they hold; None where none holds.

        Parameters
        ----------
        *forms
            Forms, as in ``multipliers``.
        """
        held = [value for form in forms for value in self.multipliers(form).values() if value is not None]
        return max(held, default=None)

    def _multiplier(self, sensitivity: float) -> float:
        """The noise multiplier for a sensitivity."""
        return safe_multiplier(sensitivity, self.rho, self.adjacency)

    # -- errors --------------------------------------------------------------------------------------------------------

    @property
    def budget(self) -> dict[str, Any]:
        """``rho`` and ``clip_norm`` for the errors of problems, which mean zero-out adjacency.

        The problem knows the size of its batches: ``clip_norm`` is that of one example.
        """
        return {"rho": zero_out_rho(self.rho, self.adjacency), "clip_norm": self.clip_norm}


# -- checks ------------------------------------------------------------------------------------------------------------


def checked_metadata(metadata: object) -> dict[str, Value]:
    """Return ``metadata`` as a dict of plain values."""
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of names to strings, numbers and booleans, got {metadata!r}")
    values = {name: value.item() if isinstance(value, np.generic) else value for name, value in metadata.items()}
    for name, value in values.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise TypeError(f"metadata must map strings to strings, numbers and booleans, got {name!r}: {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"metadata must hold finite numbers, got {name!r}: {value!r}")
    return values


def checked_notes(notes: object) -> tuple[str, ...]:
    """Return ``notes`` as a tuple of sentences."""
    if isinstance(notes, str) or not isinstance(notes, Sequence) or not all(isinstance(note, str) for note in notes):
        raise TypeError(f"notes must be a sequence of strings, got {notes!r}")
    return tuple(notes)


def checked_offset(offset: object, problem: Problem | None) -> float | Array:
    """Return ``offset`` as a float or, for the eigendirections of a quadratic problem, as an array."""
    array = checks.reals("initial_offset", offset, "[-1e100, 1e100]")
    if array.ndim == 0:
        return float(array)
    if not isinstance(problem, LinearRegression | MeanEstimation):
        raise ValueError(f"initial_offset must be a number without a quadratic problem, got shape {array.shape}")
    return checks.scalar_or_vector("initial_offset", array, "[-1e100, 1e100]", problem.eigenvalues.size)
