"""A design as plain data for JSON: everything except the coefficients, with the meaning of every name."""

from __future__ import annotations

import json
from typing import Any

from corrnoise.designs.comparison import Comparison
from corrnoise.designs.covered_noise import FORMAT, VERSION, CoveredNoise
from corrnoise.solvers.rational.exchange import CONVENTIONS
from corrnoise.support.serialise import plain
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.privacy import gaussian_noise_multiplier

_LONG = 10**9  # steps, more than any stream keeps


def description(design: CoveredNoise, comparison: Comparison | None) -> dict[str, Any]:
    """Everything but the coefficients, in plain lists, strings and numbers."""
    return {
        "format": f"{FORMAT} {VERSION}",
        "corrnoise": __version__,
        "privacy": _privacy(design),
        "problem": plain(design.problem),
        "noise": {**plain(design.noise), "noise_multiplier": design.noise_multiplier},
        "stream": _stream(design),
        "coefficients": {
            "noise_multiplier": design.toeplitz_multiplier,
            "strategy_coef": _form(design, "strategy_coef"),
            "noising_coef": _form(design, "noising_coef"),
        },
        "buffers": _buffers(design),
        "comparison": None if comparison is None else comparison.description(),
        "choice": None if design.choice is None else design.choice.description(),
        "notes": list(design.notes),
        "metadata": dict(design.metadata),
        "conventions": CONVENTIONS,
    }


def as_json(design: CoveredNoise, comparison: Comparison | None) -> str:
    """The description as JSON text; numbers are read back without loss."""
    return json.dumps(description(design, comparison), indent=2, allow_nan=False) + "\n"


def _privacy(design: CoveredNoise) -> dict[str, Any]:
    names = ("rho", "clip_norm", "adjacency", "steps")
    return {
        **{name: getattr(design, name) for name in names},
        "min_sep": design.min_sep,
        "max_participations": design.max_participations,
        "gaussian_noise_multiplier": gaussian_noise_multiplier(design.rho),
    }


def _stream(design: CoveredNoise) -> dict[str, Any] | None:
    stream = design.stream
    if stream is None:
        return None
    toeplitz = stream.noise if isinstance(stream, ScaledNoise) else stream
    numbers: dict[str, Any] = {"memory": stream_memory(design)}
    if isinstance(toeplitz, PoleNoise):
        numbers |= {"zero_gaps": toeplitz.zeros.tolist(), "pole_gaps": toeplitz.poles.tolist()}
    elif isinstance(toeplitz, FiniteNoise):
        numbers |= {"coefficients": toeplitz.values.tolist()}
    elif isinstance(stream, BandedNoise):
        numbers |= {"strategy_bands": design.noise.inverse_coefficients(stream.bands).tolist()}
    return {**numbers, "scales": design.scales is not None, "noise_multiplier": design.stream_multiplier}


def stream_memory(design: CoveredNoise) -> int | None:
    """Arrays of the size of the gradient that the stream keeps; None without a stream."""
    stream = design.stream
    if stream is None:
        return None
    return stream.memory if isinstance(stream, Mechanism) else stream.memory(design.steps or _LONG)


def _buffers(design: CoveredNoise) -> dict[str, Any]:
    """The buffers, if they hold in some type; otherwise only the reasons."""
    multiplier = design.buffers_multiplier
    numbers: dict[str, Any] = {}
    if design.buffers is not None and multiplier is not None:
        numbers["buf_decay"] = design.buffers.buf_decay.tolist()
        numbers["output_scale"] = design.buffers.output_scale.tolist()
    return {**numbers, "scales": design.scales is not None, "noise_multiplier": multiplier, **_form(design, "buffers")}


def _form(design: CoveredNoise, form: str) -> dict[str, Any]:
    """The multipliers of a form by type, and the reason for every type in which it is refused."""
    refused = {one.dtype: one.reason for one in design.handover if one.form == form and one.reason}
    return {"noise_multipliers": design.multipliers(form), "refused": refused}
