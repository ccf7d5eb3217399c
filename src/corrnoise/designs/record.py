"""The record of a design: covered noise, its comparison with other noise, and their report, picture and files."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from corrnoise.designs.comparison import Comparison, compare
from corrnoise.designs.covered_noise import CoveredNoise
from corrnoise.theory.numerics.records import record


@record
class Design(CoveredNoise):
    """Noise for a problem and a privacy budget.

    Parameters
    ----------
    noise
        Correlated noise, with finite sensitivity for the horizon.
    stream
        What a ``NoiseStream`` runs in its place, with its factors for each step: ``PoleNoise``, ``FiniteNoise``,
        ``ScaledNoise`` or ``BandedNoise``; None where there is none.
    buffers
        A strategy in buffered linear Toeplitz form in its place, for libraries that run BLTs; None where there is none.
    rho
        Budget of zero-concentrated differential privacy, in [1e-100, 1e100].
    steps
        Horizon T >= 1: the run is private up to it; None for any number of steps.
    min_sep, max_participations
        One example takes part in at most ``max_participations`` steps, any two of them at least ``min_sep`` apart.
        More than one needs a horizon.
    clip_norm
        G, in [1e-100, 1e100].
    adjacency
        ``"zero-out"`` or ``"replace-one"``.
    problem
        The problem that the noise was designed for; None if it is not known.
    initial_offset
        θ_0 − θ* in the eigenbasis, a number or shape (d,), for the comparison with other noise.
    notes
        Sentences that the report repeats.
    metadata
        Other data to keep: strings, finite numbers and booleans by name.
    scales
        A factor > 0 for each step, shape (steps,), which needs a horizon: the noise of step t is scales_t times that of
        ``noise``.  None for none.
    choice
        The alternatives, the floor, and what more memory would buy; None where nothing was chosen.

    Raises
    ------
    ValueError, TypeError
        An argument is out of its range, or the sensitivity is infinite.

    Examples
    --------
    >>> import tempfile
    >>> import corrnoise as cn
    >>> design = cn.design(cn.MeanEstimation(0.1), rho=0.5, steps=100)
    >>> design.noise
    NuFTRL(nu=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = design.save(folder, overwrite=True)
    ...     cn.Design.load(folder) == design
    True
    """

    @cached_property
    def comparison(self) -> Comparison:
        """The errors of the design and of other noise, also at their best learning rates; it takes some seconds.

        For noise without a factor for each step, and a design that knows its problem.
        """
        return compare(self)

    def _known_comparison(self) -> Comparison | None:
        """The comparison, or None without a problem, or with factors for each step."""
        return None if self.problem is None or self.scales is not None else self.comparison

    # -- words and files -----------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Everything but the coefficients, in plain lists, strings and numbers, with the conventions in words."""
        from corrnoise.designs.description import description

        return description(self, self._known_comparison())

    def json(self) -> str:
        """``description()`` as JSON text; numbers are read back without loss."""
        from corrnoise.designs.description import as_json

        return as_json(self, self._known_comparison())

    def report(self) -> str:
        """The design in words: the problem, the budget, what to run with which multiplier, and the comparison."""
        from corrnoise.designs.report import report

        return report(self, self._known_comparison())

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> list[Path]:
        """Write the design to ``folder``: all of its files, or none.

        The folder is made if it is missing.  Its files are ``design.npz``, which ``load`` and ``numpy.load`` read;
        ``design.json``; ``report.txt``; ``coefficients.csv`` with a horizon; ``poles.csv`` or ``stream.csv``; and, for
        a known problem, the comparison as ``comparison.pdf``, ``.png`` and ``.csv``; ``scales.csv`` with factors for
        each step; and, for a mechanism that was chosen, the alternatives as ``memory.pdf``, ``.png`` and ``.csv``.

        Parameters
        ----------
        folder
            Where to.
        overwrite
            Whether to replace files of these names.

        Returns
        -------
        The paths of the files.

        Raises
        ------
        FileExistsError
            A file of these names is there, and ``overwrite`` is False.
        TypeError
            The noise is of a class of the user, which ``load`` could not rebuild.
        OSError
            The files cannot be written.
        """
        from corrnoise.designs.files import save

        return save(self, self._known_comparison(), folder, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a design that was saved; it is equal to the saved one, bit for bit.

        Parameters
        ----------
        path
            ``design.npz``, or the folder that holds it.

        Raises
        ------
        TypeError
            ``path`` is not a path.
        ValueError
            The file is damaged, was not written by ``save``, or has a later format.
        OSError
            It cannot be read.
        """
        from corrnoise.designs.files import load

        return cls(**load(path))
