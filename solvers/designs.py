"""Designs: noise for a problem and a privacy budget, as a practitioner takes it away.

A ``Design`` holds what was asked for (problem, budget, clip norm, adjacency, horizon) and what was found: the noise,
and rational noise in its place, which a stream runs with little memory.  Everything else follows from these, above all
the noise multipliers.  There are several, because each way of running the noise has a sensitivity of its own:

=====================================  =========================  ======================================================
what is run                            noise multiplier           sensitivity
=====================================  =========================  ======================================================
an exact stream of ``noise``           ``noise_multiplier``       γ_T, or γ_∞ without a horizon, of ``noise``
a stream of ``stream``                 ``stream_multiplier``      the same of ``stream``
coefficients, by any program           ``toeplitz_multiplier``    γ_T of the floats that are handed over
buffers, by a library that runs BLTs   ``buffers_multiplier``     γ_T or γ_∞ of the floats that are handed over
=====================================  =========================  ======================================================

The standard deviation of the independent noise is the multiplier times the clip norm; it is added to the *sum* of the
clipped gradients of a step.  Each example is used in at most one step.

A design is saved as one ``.npz`` file, which NumPy reads without pickles, and described in JSON.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from zipfile import BadZipFile, ZipFile

import numpy as np

from corrnoise.solvers.exchange import (
    CONVENTIONS,
    BufferForm,
    ToeplitzForm,
    buffer_form,
    toeplitz_form,
)
from corrnoise.support.files import whole_files
from corrnoise.support.version import __version__
from corrnoise.theory import checks
from corrnoise.theory.finite_noise import FiniteNoise
from corrnoise.theory.noise_kinds import KINDS
from corrnoise.theory.pole_noise import PoleNoise
from corrnoise.theory.privacy import ADJACENCIES, gaussian_noise_multiplier, zero_out_rho
from corrnoise.theory.problems import LinearRegression, MeanEstimation
from corrnoise.theory.records import Record, record
from corrnoise.theory.strongly_convex import StronglyConvex
from corrnoise.theory.toeplitz_noise import SCALES, ToeplitzNoise, checked_noise

Problem = LinearRegression | MeanEstimation | StronglyConvex
Value = str | int | float | bool

PROBLEMS: dict[str, type[Problem]] = {
    kind.__name__: kind for kind in (LinearRegression, MeanEstimation, StronglyConvex)
}
_NAME, _VERSION = "corrnoise.Design", 1


@record
class Design(Record):
    """Noise for a problem and a privacy budget.

    Parameters
    ----------
    noise
        Correlated noise, with finite sensitivity for the horizon.
    stream
        Rational noise in its place, for streams; None where there is none.
    rho
        Budget of zero-concentrated differential privacy, in [1e-100, 1e100].
    steps
        Horizon T >= 1: the run is private up to it; None for any number of steps.
    clip_norm
        G, in [1e-100, 1e100].
    adjacency
        ``"zero-out"`` or ``"replace-one"``.
    problem
        What the noise was designed for; None if that is not known.
    metadata
        Whatever else is to be remembered: strings, finite numbers and booleans by name.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the sensitivity is infinite.
    """

    noise: ToeplitzNoise
    stream: PoleNoise | FiniteNoise | None
    rho: float
    steps: int | None = None
    clip_norm: float = 1.0
    adjacency: str = "zero-out"
    problem: Problem | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_noise(self.noise)
        if not isinstance(self.stream, PoleNoise | FiniteNoise | None):
            raise TypeError(f"stream must be PoleNoise, FiniteNoise or None, got {self.stream!r}")
        if not isinstance(self.problem, Problem | None):
            raise TypeError(f"problem must be one of {', '.join(PROBLEMS)} or None, got {self.problem!r}")
        self._set(
            rho=checks.real("rho", self.rho, SCALES),
            steps=None if self.steps is None else checks.integer("steps", self.steps, 1),
            clip_norm=checks.real("clip_norm", self.clip_norm, SCALES),
            adjacency=checks.choice("adjacency", self.adjacency, tuple(ADJACENCIES)),
            metadata=MappingProxyType(_checked_metadata(self.metadata)),
        )
        for name, multiplier in (("noise", self.noise_multiplier), ("stream", self.stream_multiplier)):
            if not math.isfinite(multiplier or 0.0):
                got = getattr(self, name)
                raise ValueError(f"{name} must have a finite sensitivity for steps={self.steps!r}, got {got!r}")

    def _key(self) -> tuple[Any, ...]:
        *rest, metadata = super()._key()
        return (*rest, json.dumps(dict(metadata), sort_keys=True))

    # -- what follows --------------------------------------------------------------------------------------------------

    @cached_property
    def noise_multiplier(self) -> float:
        """Standard deviation over clip norm of the independent noise behind an exact stream of ``noise``."""
        return self.noise.noise_multiplier(self.rho, self.steps, adjacency=self.adjacency)

    @cached_property
    def stream_multiplier(self) -> float | None:
        """The same behind a stream of ``stream``; None without one."""
        noise = self.stream
        return None if noise is None else noise.noise_multiplier(self.rho, self.steps, adjacency=self.adjacency)

    @cached_property
    def toeplitz(self) -> ToeplitzForm | None:
        """Coefficients of ``noise`` and of its inverse up to the horizon; None without one."""
        return None if self.steps is None else toeplitz_form(self.noise, self.steps)

    @property
    def toeplitz_multiplier(self) -> float | None:
        """Standard deviation over clip norm of the independent noise for the coefficients of ``toeplitz``."""
        form = self.toeplitz
        return None if form is None else form.noise_multiplier(self.rho, adjacency=self.adjacency)

    @cached_property
    def buffers(self) -> BufferForm | None:
        """The strategy of ``stream`` in buffered linear Toeplitz form; None where there is no such form."""
        try:
            form = buffer_form(self.stream) if isinstance(self.stream, PoleNoise) else None
        except ValueError:
            return None
        return form if form and math.isfinite(form.sensitivity_upper_bound(self.steps)) else None

    @property
    def buffers_multiplier(self) -> float | None:
        """Standard deviation over clip norm of the independent noise for ``buffers``."""
        form = self.buffers
        return None if form is None else form.noise_multiplier(self.rho, self.steps, adjacency=self.adjacency)

    @property
    def budget(self) -> dict[str, Any]:
        """``rho`` and ``clip_norm`` for the errors of problems, which mean zero-out adjacency."""
        return {"rho": zero_out_rho(self.rho, self.adjacency), "clip_norm": self.clip_norm}

    def description(self) -> dict[str, Any]:
        """Everything but the coefficients, in plain lists, strings and numbers, with the conventions in words."""
        described: dict[str, Any] = {"format": f"{_NAME} {_VERSION}", "corrnoise": __version__}
        described["privacy"] = {name: getattr(self, name) for name in ("rho", "clip_norm", "adjacency", "steps")}
        described["privacy"]["gaussian_noise_multiplier"] = gaussian_noise_multiplier(self.rho)
        described["problem"] = _described(self.problem)
        described["noise"] = {**(_described(self.noise) or {}), "noise_multiplier": self.noise_multiplier}
        described["coefficients"] = self.toeplitz and {"noise_multiplier": self.toeplitz_multiplier}
        stream = self.stream
        if isinstance(stream, PoleNoise):
            gaps = {"zero_gaps": stream.zeros.tolist(), "pole_gaps": stream.poles.tolist()}
            described["stream"] = {**gaps, "noise_multiplier": self.stream_multiplier}
        else:
            described["stream"] = stream and {
                "coefficients": stream.values.tolist(),
                "noise_multiplier": self.stream_multiplier,
            }
        described["buffers"] = self.buffers and {
            "buf_decay": self.buffers.buf_decay.tolist(),
            "output_scale": self.buffers.output_scale.tolist(),
            "noise_multiplier": self.buffers_multiplier,
        }
        return {**described, "metadata": dict(self.metadata), "conventions": CONVENTIONS}

    def json(self) -> str:
        """``description()`` as JSON text; numbers are read back without loss."""
        return json.dumps(self.description(), indent=2, allow_nan=False) + "\n"

    # -- files ---------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the design to ``path`` as an ``.npz`` file, whole or not at all.

        ``numpy.load`` reads it without pickles.  Beside what ``load`` needs there are, for other programs,
        ``noising_coef`` and ``strategy_coef`` (with a horizon), for which ``toeplitz_multiplier`` holds, and
        ``buf_decay`` and ``output_scale``, for which ``buffers_multiplier`` does.

        Raises
        ------
        TypeError
            The noise is of a kind of the user's own, which ``load`` could not make again.
        OSError
            The file cannot be written.
        """
        path, file = Path(path), io.BytesIO()
        entries = self._entries()
        np.savez(file, **entries, checksum=np.array(_checksum(entries)))
        with whole_files(path.parent) as staging:
            (staging / path.name).write_bytes(file.getbuffer())

    def _entries(self) -> dict[str, Any]:
        """Arrays by name: what the design is made of, then what follows."""
        entries: dict[str, Any] = {"format": f"{_NAME} {_VERSION}", "corrnoise": __version__}
        for part, kinds in _PARTS.items():
            record = getattr(self, part)
            if record is not None:
                kind = type(record).__name__
                if kinds.get(kind) is not type(record):
                    raise TypeError(f"{part} must be one of {', '.join(kinds)} to be saved, got {record!r}")
                entries |= {f"{part}.kind": kind}
                entries |= {f"{part}.{name}": value for name, value in record.arguments().items()}
        entries |= {name: getattr(self, name) for name in ("rho", "steps", "clip_norm", "adjacency")}
        entries["metadata"] = json.dumps(dict(self.metadata), allow_nan=False)
        multipliers = ("noise_multiplier", "stream_multiplier", "toeplitz_multiplier", "buffers_multiplier")
        entries |= {name: getattr(self, name) for name in multipliers}
        for form in (self.toeplitz, self.buffers):
            arrays = {} if form is None else form.arguments().items()
            entries |= {name: value for name, value in arrays if isinstance(value, np.ndarray)}
        return {name: np.asarray(value) for name, value in entries.items() if value is not None}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of ``save``; the design is equal to the saved one, bit for bit.

        Raises
        ------
        ValueError
            The file is damaged, not of ``save``, or of a later format.
        OSError
            It cannot be read.
        """
        entries = _read(Path(path))
        values = {name: entry.item() if entry.ndim == 0 else entry for name, entry in entries.items()}
        try:
            arguments: dict[str, Any] = {part: _rebuilt(part, kinds, values) for part, kinds in _PARTS.items()}
            arguments |= {name: values.get(name) for name in ("rho", "steps", "clip_norm", "adjacency")}
            return cls(**arguments, metadata=json.loads(values["metadata"]))
        except (KeyError, TypeError, ValueError) as error:
            raise _refusal(path, f"damaged: {error}") from error


_PARTS: dict[str, Mapping[str, type[Any]]] = {
    "noise": KINDS,
    "stream": {kind.__name__: kind for kind in (PoleNoise, FiniteNoise)},
    "problem": PROBLEMS,
}


def _checked_metadata(metadata: object) -> dict[str, Value]:
    if not isinstance(metadata, Mapping):
        raise TypeError(f"metadata must be a mapping of names to strings, numbers and booleans, got {metadata!r}")
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in metadata.items()}
    for name, value in plain.items():
        if not isinstance(name, str) or not isinstance(value, str | int | float):
            raise TypeError(f"metadata must map strings to strings, numbers and booleans, got {name!r}: {value!r}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"metadata must hold finite numbers, got {name!r}: {value!r}")
    return plain


def _described(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    arguments = record.arguments().items()
    plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in arguments}
    return {"kind": type(record).__name__, **plain}


def _checksum(entries: Mapping[str, Any]) -> str:
    """SHA-256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(entries):
        entry = entries[name]
        digest.update(f"{name}\0{entry.dtype.str}\0{entry.shape}\0".encode())
        digest.update(np.ascontiguousarray(entry).tobytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any]:
    """The arrays of a file of ``save``, after all checks of the file itself."""
    data = path.read_bytes()
    try:
        with ZipFile(io.BytesIO(data)) as archive:
            damaged = archive.testzip()
        if damaged is not None:
            raise BadZipFile(f"bad checksum of {damaged}")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            entries = dict(file)
    except (BadZipFile, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise _refusal(path, f"foreign or damaged: {error}") from error
    name, _, version = str(entries.get("format", "")).partition(" ")
    if name != _NAME or not version.isdecimal():
        raise _refusal(path, "foreign")
    if int(version) > _VERSION:
        raise _refusal(path, f"of the later format {version}, which a later corrnoise reads")
    if str(entries.pop("checksum", "")) != _checksum(entries):
        raise _refusal(path, "damaged: wrong checksum")
    return entries


def _refusal(path: str | os.PathLike[str], reason: str) -> ValueError:
    return ValueError(f"path must be a file of Design.save, got {os.fspath(path)!r}, which is {reason}")


def _rebuilt(part: str, kinds: Mapping[str, type[Any]], values: Mapping[str, Any]) -> Any:
    """The record that ``part`` of a file describes; None where there is none."""
    if f"{part}.kind" not in values:
        return None
    kind = kinds[values[f"{part}.kind"]]
    given = {name.removeprefix(f"{part}."): value for name, value in values.items() if name.startswith(f"{part}.")}
    return kind(**{name: value for name, value in given.items() if name != "kind"})


def design(
    problem: Problem,
    *,
    rho: float = 1.0,
    clip_norm: float = 1.0,
    steps: int | None = None,
    adjacency: str = "zero-out",
    tolerance: float = 1e-6,
    metadata: Mapping[str, Value] | None = None,
) -> Design:
    """The optimal noise of a problem, with rational noise in its place, for a privacy budget.

    Parameters
    ----------
    problem
        ``LinearRegression`` or ``MeanEstimation`` with a stable learning rate: the noise minimises the exact stationary
        error.  ``StronglyConvex``: it minimises an upper bound of it (criterion ``"objective"``).
    rho, clip_norm, steps, adjacency, metadata
        Of ``Design``.  The horizon sets how much noise is needed, not its correlation, which is that of long runs.
    tolerance
        Of ``rational_approximation``: relative error of the variances of the stream; in [1e-12, 1).

    Returns
    -------
    ``Design``, which remembers the tolerance in its metadata.

    Raises
    ------
    ValueError
        The learning rate is unstable, or an argument out of its range.
    """
    from corrnoise.solvers.alternating_minimisation import minimise_strongly_convex_bound
    from corrnoise.solvers.optimal_noise import optimal_noise
    from corrnoise.solvers.rational_approximation import rational_approximation

    budget: dict[str, Any] = {
        "rho": zero_out_rho(checks.real("rho", rho, SCALES), adjacency),
        "clip_norm": clip_norm,
    }
    if isinstance(problem, StronglyConvex):
        noise = minimise_strongly_convex_bound(problem, **budget, criterion="objective").noise
    else:
        noise = optimal_noise(problem, **budget)
    stream = rational_approximation(noise, tolerance)
    kept = {"tolerance": checks.real("tolerance", tolerance), **_checked_metadata(metadata or {})}
    return Design(noise, stream, rho, steps, clip_norm, adjacency, problem, kept)
