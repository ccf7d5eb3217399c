"""A release: noise for one run together with what is claimed of it, as a record, as files and as a privacy event.

A strategy without its promise is not private.  So a file holds the mechanism with the participation, the adjacency and
the noise multiplier that it was made for, and a file that claims less noise than its mechanism needs is refused when
it is read.  Both formats are lossless: JSON for people and other programs, ``.npz`` for long arrays.
"""

from __future__ import annotations

import io
import json
import math
import os
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from corrnoise.support.files import whole_files
from corrnoise.support.serialise import digest, plain
from corrnoise.support.version import __version__
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.kinds import MECHANISMS, made
from corrnoise.theory.participation import Participation
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import ADJACENCIES, Adjacency, gaussian_epsilon, safe_multiplier

FORMAT = "corrnoise.release 1"
_DESCRIPTION = "description"  # the entry of an .npz file beside its arrays
_ROUNDING = 2.0**-48


@record
class Release(Record):
    """A run with correlated noise, and what is claimed of its privacy.

    Parameters
    ----------
    mechanism
        The noise: ``ToeplitzMechanism``, ``ScaledNoise``, ``BandedNoise``, ``MatrixNoise`` or ``BinaryTree``.
    participation
        Who takes part when; the data loader must keep this promise.
    noise_multiplier
        Standard deviation of the independent noise, in units of the clip norm, > 0.
    adjacency
        ``"zero-out"`` or ``"replace-one"``.

    Raises
    ------
    ValueError
        An argument is out of its range, or the lengths of the run differ.

    Notes
    -----
    The claims are those of the mechanism with real numbers.  ``NoiseStream.private`` covers the rounding errors of its
    own arithmetic.

    Examples
    --------
    >>> from corrnoise import NuFTRL, Participation, Release, ToeplitzMechanism
    >>> epochs = Participation(100, min_sep=25, max_participations=4)
    >>> release = Release.for_budget(ToeplitzMechanism(NuFTRL(0.01), 100), epochs, rho=0.5, adjacency="replace-one")
    >>> round(release.noise_multiplier, 3), round(release.epsilon(1e-6), 3)
    (6.952, 4.887)
    >>> Release.from_json(release.json()) == release
    True
    """

    mechanism: Mechanism
    participation: Participation
    noise_multiplier: float
    adjacency: Adjacency = "zero-out"

    def __post_init__(self) -> None:
        checks.instance("mechanism", self.mechanism, Mechanism)  # type: ignore[type-abstract]
        if MECHANISMS.get(type(self.mechanism).__name__) is not type(self.mechanism):
            raise ValueError(f"mechanism must be one of {', '.join(MECHANISMS)}, got {self.mechanism!r:.80}")
        checks.instance("participation", self.participation, Participation)
        if self.mechanism.steps != self.participation.steps:
            raise ValueError(
                f"participation must have steps={self.mechanism.steps} as the mechanism has, got {self.participation!r}"
            )
        checks.choice("adjacency", self.adjacency, tuple(ADJACENCIES))
        self._set(noise_multiplier=checks.real("noise_multiplier", self.noise_multiplier, "(0, inf)"))

    @classmethod
    def for_budget(
        cls, mechanism: Mechanism, participation: Participation, *, rho: float, adjacency: Adjacency = "zero-out"
    ) -> Self:
        """The release with just enough noise to be ρ-zCDP.

        Parameters
        ----------
        mechanism, participation, adjacency
            As of ``Release``.
        rho
            Budget of zero-concentrated differential privacy, > 0.
        """
        multiplier = mechanism.noise_multiplier(rho, participation, adjacency=adjacency)
        return cls(mechanism, participation, multiplier, adjacency)

    # -- what is claimed -----------------------------------------------------------------------------------------------

    @cached_property
    def sensitivity(self) -> float:
        """An upper bound of the sensitivity for this adjacency, with its factor of 2 for ``"replace-one"``."""
        return ADJACENCIES[self.adjacency] * self.mechanism.sensitivity_upper_bound(self.participation)

    @property
    def rho(self) -> float:
        """The run is ρ-zCDP, rounded up."""
        return (self.sensitivity / self.noise_multiplier) ** 2 / 2 * (1 + _ROUNDING)

    def epsilon(self, delta: float) -> float:
        """The run is (ε, δ)-differentially private: the exact curve of its Gaussian mechanism, rounded up.

        Parameters
        ----------
        delta
            δ in (0, 1).
        """
        return gaussian_epsilon(self.rho, delta)

    @property
    def event_multiplier(self) -> float:
        """Standard deviation over sensitivity, the noise multiplier that accountants take, rounded down.

        It is for this adjacency: the factor of 2 of ``"replace-one"`` is in it.
        """
        return self.noise_multiplier / self.sensitivity * (1 - _ROUNDING)

    def event(self) -> Any:
        """The whole run as one ``GaussianDpEvent`` of dp-accounting, for this adjacency.

        Raises
        ------
        ModuleNotFoundError
            dp-accounting is not installed: ``pip install dp-accounting``.
        """
        try:
            from dp_accounting import GaussianDpEvent
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("dp-accounting is not installed: pip install dp-accounting") from error
        return GaussianDpEvent(self.event_multiplier)

    # -- files ---------------------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """The release as plain data: the arguments that make it again, and its claims; arrays stay arrays."""
        return {
            "format": FORMAT,
            "corrnoise": __version__,
            "mechanism": _described(self.mechanism),
            "participation": plain(self.participation.arguments()),
            "adjacency": self.adjacency,
            "noise_multiplier": self.noise_multiplier,
            "sensitivity": self.sensitivity,
            "rho": self.rho,
        }

    def json(self) -> str:
        """The release as JSON text with a checksum; numbers are read back bit for bit."""
        described = plain(self.description())
        return json.dumps({**described, "checksum": digest(described)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the text of ``json``.

        Parameters
        ----------
        text
            JSON text.

        Raises
        ------
        ValueError
            The text is foreign or damaged, or claims less noise than its mechanism needs.
        """
        try:
            described = json.loads(text)
        except ValueError as error:
            raise ValueError(f"text must be that of Release.json(), got {text!r:.60} ({error})") from error
        if not isinstance(described, dict) or described.get("format") != FORMAT:
            raise ValueError(f"text must be that of Release.json() in format {FORMAT!r}, got {text!r:.60}")
        if described.pop("checksum", None) != digest(described):
            raise ValueError("text must be that of Release.json(), got a damaged one: wrong checksum")
        return cls._made(described)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the release to a file that is complete or not there.

        Parameters
        ----------
        path
            A name that ends with ``.json`` or ``.npz``.

        Raises
        ------
        ValueError
            The name has another ending.
        OSError
            The file cannot be written.
        """
        file = _checked_path(path)
        with whole_files(file.parent) as staging:
            if file.suffix == ".json":
                staging.joinpath(file.name).write_text(self.json(), encoding="utf-8", newline="")
            else:
                staging.joinpath(file.name).write_bytes(self._archive())
        return file

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file of ``save``: the release is equal to the saved one, bit for bit.

        Parameters
        ----------
        path
            A name that ends with ``.json`` or ``.npz``.

        Raises
        ------
        ValueError
            The file is foreign or damaged, or claims less noise than its mechanism needs.
        OSError
            It cannot be read.
        """
        file = _checked_path(path)
        if file.suffix == ".json":
            return cls.from_json(file.read_text(encoding="utf-8"))
        data = file.read_bytes()
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as entries:
                arrays = dict(entries)
            described = json.loads(str(arrays.pop(_DESCRIPTION)))
            filled = _filled(described["release"], arrays)
            whole = described["checksum"] == digest(plain(filled)) and filled["format"] == FORMAT
        except Exception as error:
            raise ValueError(f"path must be a file of Release.save, got {file}, which is damaged: {error}") from error
        if not whole:
            raise ValueError(f"path must be a file of Release.save, got {file}, which is damaged: wrong checksum")
        return cls._made(filled)

    def _archive(self) -> bytes:
        described = self.description()
        arrays: dict[str, np.ndarray[Any, Any]] = {}
        release = _emptied(described, arrays)
        text = json.dumps({"release": release, "checksum": digest(plain(described))}, allow_nan=False)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{_DESCRIPTION: np.array(text)}, **arrays)
        return file.getvalue()

    @classmethod
    def _made(cls, described: dict[str, Any]) -> Self:
        try:
            release = cls(
                made(described["mechanism"]),
                Participation(**described["participation"]),
                described["noise_multiplier"],
                described["adjacency"],
            )
            stated = float(described["rho"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"a release must have all its parts, got a damaged one: {error}") from error
        if not (math.isfinite(stated) and release.noise_multiplier >= _needed(release, stated) * (1 - 4 * _ROUNDING)):
            raise ValueError(f"rho must be at least {release.rho!r} for this mechanism and its noise, got {stated!r}")
        return release


def _needed(release: Release, rho: float) -> float:
    """The noise multiplier that the mechanism needs for this budget."""
    gamma = release.mechanism.sensitivity_upper_bound(release.participation)
    return safe_multiplier(gamma, rho, release.adjacency)


def _described(noise: Any) -> dict[str, Any]:
    """The kind of a mechanism or of its noise, and its arguments."""
    arguments = {name: _described(v) if isinstance(v, Record) else v for name, v in noise.arguments().items()}
    return {"kind": type(noise).__name__, **arguments}


def _emptied(value: Any, arrays: dict[str, np.ndarray[Any, Any]], name: str = "") -> Any:
    """Plain data with the names of arrays in their places; the arrays are put into ``arrays``."""
    if isinstance(value, dict):
        return {key: _emptied(inner, arrays, f"{name}.{key}" if name else key) for key, inner in value.items()}
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"array": name}
    return plain(value)


def _filled(value: Any, arrays: dict[str, Any]) -> Any:
    """The opposite of ``_emptied``."""
    if isinstance(value, dict):
        if set(value) == {"array"}:
            return arrays[value["array"]]
        return {key: _filled(inner, arrays) for key, inner in value.items()}
    return value


def _checked_path(path: object) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be a path, as a string or os.PathLike, got {path!r}")
    file = Path(path)
    if file.suffix not in (".json", ".npz"):
        raise ValueError(f"path must end with '.json' or '.npz', got {os.fspath(path)!r}")
    return file
