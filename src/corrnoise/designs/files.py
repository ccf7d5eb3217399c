"""Designs as files: one ``.npz`` file that is read back, and tables, text and pictures beside it.

NumPy reads the ``.npz`` file without pickles.  It holds the arguments of the design, its multipliers, and the arrays
that other programs run; a checksum covers all of it.  Format 1 derived the buffers from the stream, kept the initial
offset in the metadata, and had no participation and no notes.  Formats up to 3 had no factors for each step and no
alternatives.  All are still read.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from corrnoise.designs.choice import Choice
from corrnoise.designs.comparison import Comparison
from corrnoise.designs.covered_noise import FORMAT, PROBLEMS, VERSION, CoveredNoise
from corrnoise.designs.description import as_json
from corrnoise.designs.report import report
from corrnoise.solvers.rational.exchange import BufferForm
from corrnoise.support.csv_tables import table_text
from corrnoise.support.files import whole_files
from corrnoise.support.serialise import rebuilt
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.kinds import KINDS
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.poles import PoleNoise
from corrnoise.theory.numerics.records import Record

#: All names of files.  A design need not have all of them; those of an earlier design are removed.
NAMES = (
    *("design.npz", "design.json", "report.txt", "coefficients.csv", "poles.csv", "stream.csv", "scales.csv"),
    *("comparison.pdf", "comparison.png", "comparison.csv", "memory.pdf", "memory.png", "memory.csv"),
)
_MAIN = "design.npz"

_PARTS: dict[str, Mapping[str, type[Any]]] = {
    "noise": KINDS,
    "stream": {kind.__name__: kind for kind in (PoleNoise, FiniteNoise, ScaledNoise, BandedNoise)},
    "buffers": {"BufferForm": BufferForm},
    "problem": PROBLEMS,
}
_VALUES = ("rho", "steps", "min_sep", "max_participations", "clip_norm", "adjacency", "initial_offset", "scales")
_MULTIPLIERS = ("noise_multiplier", "stream_multiplier", "toeplitz_multiplier", "buffers_multiplier")


# -- saving ------------------------------------------------------------------------------------------------------------


def save(
    design: CoveredNoise, comparison: Comparison | None, folder: str | os.PathLike[str], *, overwrite: bool = False
) -> list[Path]:
    """Write all files of a design, or none; see ``Design.save``."""
    folder = checked_folder(folder, overwrite=overwrite)
    with _made(folder), whole_files(folder, stale=NAMES) as staging:
        staging.joinpath(_MAIN).write_bytes(archive(design))
        texts = {"design.json": as_json(design, comparison), "report.txt": report(design, comparison)}
        texts |= tables(design)
        for name, text in texts.items():
            staging.joinpath(name).write_text(text, encoding="utf-8", newline="")
        if comparison is not None:
            from corrnoise.designs.figure import write_picture

            write_picture(design, comparison, staging)
        if design.choice is not None:
            from corrnoise.designs.memory_figure import write_memory_picture

            write_memory_picture(design, design.choice, staging)
        return [folder / path.name for path in sorted(staging.iterdir())]


def checked_folder(folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
    """Return ``folder`` as a path, if a design may be written there."""
    path = checked_path("folder", folder)
    if path.exists() and not path.is_dir():
        raise NotADirectoryError(f"folder must be a folder, got {os.fspath(path)!r}, which is a file")
    nearest = next(one for one in (path, *path.absolute().parents) if one.exists())
    if not os.access(nearest, os.W_OK):
        raise PermissionError(f"folder must be writable, got {os.fspath(path)!r}")
    there = [name for name in NAMES if path.joinpath(name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"folder must not hold a design, got {os.fspath(path)!r} with {', '.join(there)}: choose another one, or "
            "overwrite it"
        )
    return path


def checked_path(name: str, path: object) -> Path:
    """Return ``path`` as a path."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{name} must be a path, as a string or os.PathLike, got {path!r}")
    return Path(path)


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make the folder if it is missing, and remove it again if the block fails."""
    there = folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if not there:
            with suppress(OSError):
                folder.rmdir()
        raise


def archive(design: CoveredNoise) -> bytes:
    """The bytes of ``design.npz``."""
    entries: dict[str, Any] = {name: np.asarray(v) for name, v in _entries(design).items() if v is not None}
    file = io.BytesIO()
    np.savez(file, **entries, checksum=np.array(_checksum(entries)))
    return file.getvalue()


def _entries(design: CoveredNoise) -> dict[str, Any]:
    """Arrays by name: the arguments of the design, then its multipliers and the arrays that are run."""
    entries: dict[str, Any] = {"format": f"{FORMAT} {VERSION}", "corrnoise": __version__}
    for part, kinds in _PARTS.items():
        record = getattr(design, part)
        if record is not None:
            entries |= _part_entries(part, record, kinds)
    entries |= {name: getattr(design, name) for name in _VALUES}
    entries["notes"] = json.dumps(list(design.notes))
    if design.choice is not None:
        entries["choice"] = json.dumps(design.choice.description(), allow_nan=False)
    entries["metadata"] = json.dumps(dict(design.metadata), allow_nan=False)
    entries |= {name: getattr(design, name) for name in _MULTIPLIERS}
    if design.toeplitz is not None and design.toeplitz_multiplier is not None:
        entries["noising_coef"] = design.toeplitz.noising_coef
        entries["strategy_coef"] = design.toeplitz.strategy_coef
    if design.buffers is not None and design.buffers_multiplier is not None:
        entries["buf_decay"] = design.buffers.buf_decay
        entries["output_scale"] = design.buffers.output_scale
    return entries


def _part_entries(part: str, record: Record, kinds: Mapping[str, type[Any]]) -> dict[str, Any]:
    kind = type(record).__name__
    if kinds.get(kind) is not type(record):
        raise TypeError(f"{part} must be one of {', '.join(kinds)} to be saved, got {record!r}")
    entries: dict[str, Any] = {f"{part}.kind": kind}
    for name, value in record.arguments().items():
        nested = isinstance(value, Record)
        entries |= _part_entries(f"{part}.{name}", value, KINDS) if nested else {f"{part}.{name}": value}
    return entries


def _checksum(entries: Mapping[str, Any]) -> str:
    """SHA-256 over names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name in sorted(entries):
        entry = entries[name]
        digest.update(f"{name}\0{entry.dtype.str}\0{entry.shape}\0".encode())
        digest.update(np.ascontiguousarray(entry).tobytes())
    return digest.hexdigest()


# -- loading -----------------------------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of a design that was saved; see ``Design.load``."""
    file = checked_path("path", path)
    if file.is_dir():
        file = file / _MAIN
    version, entries = _read(file)
    values = {name: entry.item() if entry.ndim == 0 else entry for name, entry in entries.items()}
    try:
        return _arguments(version, values)
    except (KeyError, TypeError, ValueError) as error:
        raise _refusal(file, f"damaged: {error}") from error


def _arguments(version: int, values: dict[str, Any]) -> dict[str, Any]:
    metadata = json.loads(values["metadata"])
    if version == 1:
        values["initial_offset"] = metadata.pop("initial_offset", 0.0)
        values["notes"] = "[]"
        if "buf_decay" in values:
            buffers = {"kind": "BufferForm", "buf_decay": values["buf_decay"], "output_scale": values["output_scale"]}
            values |= {f"buffers.{name}": value for name, value in buffers.items()}
    arguments = {part: _rebuilt(part, kinds, values) for part, kinds in _PARTS.items()}
    if version < 3:
        values |= {"min_sep": values.get("participation.period", 1), "max_participations": 1}
    arguments |= {name: values.get(name) for name in _VALUES}
    choice = Choice.of_description(json.loads(values["choice"])) if "choice" in values else None
    return {**arguments, "notes": tuple(json.loads(values["notes"])), "metadata": metadata, "choice": choice}


def _rebuilt(part: str, kinds: Mapping[str, type[Any]], values: Mapping[str, Any]) -> Any:
    """The record that ``part`` of a file describes; None where there is none."""
    if f"{part}.kind" not in values:
        return None
    described = {name.removeprefix(f"{part}."): v for name, v in values.items() if name.startswith(f"{part}.")}
    nested = [name.removesuffix(".kind") for name in described if name.endswith(".kind")]
    inner = {name: _rebuilt(name, KINDS, described) for name in nested}
    own = {name: v for name, v in described.items() if not name.startswith(tuple(f"{one}." for one in nested))}
    return rebuilt(own | inner, kinds)


def _read(path: Path) -> tuple[int, dict[str, Any]]:
    """The format and the arrays of a file of ``save``, after all checks of the file itself."""
    data = path.read_bytes()
    try:
        with ZipFile(io.BytesIO(data)) as container:
            damaged = container.testzip()
        if damaged is not None:
            raise BadZipFile(f"bad checksum of {damaged}")
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            entries = dict(file)
    except (BadZipFile, EOFError, KeyError, NotImplementedError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise _refusal(path, f"foreign or damaged: {error}") from error
    name, _, version = str(entries.get("format", "")).partition(" ")
    if name != FORMAT or not version.isdecimal():
        raise _refusal(path, "foreign")
    if int(version) > VERSION:
        raise _refusal(path, f"of the later format {version}, which a later corrnoise reads")
    if str(entries.pop("checksum", "")) != _checksum(entries):
        raise _refusal(path, "damaged: wrong checksum")
    return int(version), entries


def _refusal(path: Path, reason: str) -> ValueError:
    return ValueError(f"path must be a file of Design.save, got {os.fspath(path)!r}, which is {reason}")


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(design: CoveredNoise) -> dict[str, str]:
    """Coefficients and poles as CSV, by name of the file."""
    found = {}
    if design.toeplitz is not None and design.toeplitz_multiplier is not None:
        found["coefficients.csv"] = _coefficient_table(design)
    if isinstance(design.stream, PoleNoise):
        comments = [
            "sections of B(z) = prod (1 - (1 - zero_gap) z)/(1 - (1 - pole_gap) z)",
            f"noise multiplier: {design.stream_multiplier!r}",
        ]
        zeros, poles = (part.tolist() for part in design.stream.sections())
        found["poles.csv"] = table_text(["zero_gap", "pole_gap"], zip(zeros, poles, strict=True), comments)
    if design.scales is not None:
        comments = [
            "factors of the steps: the noise of step t is scale_t times the Toeplitz noise of step t",
            f"noise multiplier of the stream: {design.stream_multiplier!r}",
        ]
        found["scales.csv"] = table_text(["t", "scale"], enumerate(design.scales.tolist()), comments)
    if isinstance(design.stream, FiniteNoise):
        comments = ["all noise coefficients of the stream", f"noise multiplier: {design.stream_multiplier!r}"]
        found["stream.csv"] = table_text(["t", "noising_coef"], enumerate(design.stream.values.tolist()), comments)
    return found


def _coefficient_table(design: CoveredNoise) -> str:
    form = design.toeplitz
    assert form is not None
    comments = [
        "first columns of the noising matrix and of the strategy; beta is noising_coef",
        f"noise multiplier: {design.toeplitz_multiplier!r}, for {design.steps} steps,"
        f" {design.participation_in_words}, whichever column and type of those below is run",
    ]
    if design.scales is not None:
        comments.append(
            "the noise of step t is to be multiplied by scale t of scales.csv, as the multipliers take for granted"
        )
    for column in ("strategy_coef", "noising_coef"):
        held = [f"{dtype} {value!r}" for dtype, value in design.multipliers(column).items() if value is not None]
        comments.append(f"noise multiplier of {column} alone: {', '.join(held) or 'none, it must not be run'}")
    columns = (form.noising_coef.tolist(), form.strategy_coef.tolist())
    rows = zip(range(form.noising_coef.size), *columns, strict=True)
    return table_text(["t", "noising_coef", "strategy_coef"], rows, comments)
