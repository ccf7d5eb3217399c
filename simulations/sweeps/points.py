"""The points of a sweep: simulations that are told apart by all that determines their results.

A point is a problem, a noise, a seed and the options of ``simulate``.  Its key is the SHA-256 of a canonical
description: classes by name, numbers by the shortest digits that give them back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from corrnoise.simulations.quadratic import INPUTS, input_moments
from corrnoise.support.serialise import digest, plain
from corrnoise.theory.mechanisms.toeplitz import ToeplitzNoise, checked_noise
from corrnoise.theory.numerics import checks
from corrnoise.theory.numerics.records import Record, record
from corrnoise.theory.privacy import UNIT_BUDGET, Budget
from corrnoise.theory.problems.input_moments import fourth_moments_are_finite
from corrnoise.theory.problems.quadratic import QuadraticProblem, checked_quadratic

FORMAT = 1  #: of keys and files; raised whenever a point would give other numbers than before

Noises = ToeplitzNoise | Callable[[Any], ToeplitzNoise]


def _checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of ``simulate`` with its defaults, so that equal settings have equal keys."""
    left = dict(options)
    burn_in, clip = left.pop("burn_in", None), left.pop("clip", False)
    if not isinstance(clip, bool | np.bool_):
        raise TypeError(f"clip must be True or False, got {clip!r}")
    checked = {
        "steps": checks.integer("steps", left.pop("steps", None), 1),
        "chains": checks.integer("chains", left.pop("chains", None), 1),
        "budget": checks.instance("budget", left.pop("budget", UNIT_BUDGET), Budget),
        "clip": bool(clip),
        "inputs": checks.choice("inputs", left.pop("inputs", "gaussian"), INPUTS),
        "burn_in": None if burn_in is None else checks.integer("burn_in", burn_in, 0),
    }
    if left:
        raise ValueError(f"options must be among {', '.join(checked)}, got {', '.join(map(repr, left))}")
    return checked


@record
class SweepPoint(Record):
    """One simulation of a sweep."""

    #: as for ``simulate``
    problem: QuadraticProblem
    noise: ToeplitzNoise
    seed: int  #: integer >= 0
    #: keyword arguments for ``simulate``: ``steps`` and ``chains``, and where they differ from its defaults ``budget``,
    #: ``clip``, ``inputs``, ``burn_in``
    options: Mapping[str, Any]
    label: str = ""  #: a name for people; no part of the key

    def __post_init__(self) -> None:
        checked_quadratic(self.problem)
        checked_noise(self.noise)
        self._set(seed=checks.seed("seed", self.seed), options=_checked_options(self.options))

    def description(self) -> dict[str, Any]:
        """All that determines the result, in the terms of JSON."""
        return {"format": FORMAT} | {name: plain(value) for name, value in self.arguments().items() if name != "label"}

    @cached_property
    def key(self) -> str:
        """The digest of the description."""
        return digest(self.description())

    @property
    def name(self) -> str:
        """The name of the point in messages."""
        return f"{self.label or f'{self.problem!r}, {self.noise!r}'}, seed {self.seed}"

    def has_standard_error(self) -> bool:
        """Whether the standard errors mean anything: the fourth moments of the iterates are finite, or it clips."""
        if self.options["clip"] or not self.problem.instability() < 1:
            return True
        try:
            moments = input_moments(self.problem, self.options["inputs"])
        except ValueError:  # simulate will say so
            return True
        return fourth_moments_are_finite(self.problem.rates, moments)

    def __hash__(self) -> int:
        return hash(self.key)


def grid(
    problems: QuadraticProblem | Iterable[QuadraticProblem] | Mapping[str, QuadraticProblem],
    noises: Noises | Iterable[Noises] | Mapping[str, Noises],
    seeds: Iterable[int],
    **options: Any,
) -> list[SweepPoint]:
    """All combinations of problems, noises and seeds; the seed varies fastest, the problem slowest.

    Each is one, several, or a dictionary whose keys become labels.  In place of a noise stands also a function of the
    problem that returns it, such as ``lambda problem: NuFTRL(problem.rates.min())``.  Options are those of ``Point``.
    """
    seeds = list(seeds)

    def point(problem: tuple[str, Any], noise: tuple[str, Any], seed: int) -> SweepPoint:
        label = ", ".join(filter(None, [problem[0], noise[0]]))
        made = noise[1] if isinstance(noise[1], ToeplitzNoise) or not callable(noise[1]) else noise[1](problem[1])
        return SweepPoint(problem[1], made, seed, options, label)

    return [point(p, n, seed) for p in _labelled(problems) for n in _labelled(noises) for seed in seeds]


def _labelled(items: Any) -> list[tuple[str, Any]]:
    if isinstance(items, Mapping):
        return [(str(label), item) for label, item in items.items()]
    single = isinstance(items, QuadraticProblem | ToeplitzNoise) or callable(items)
    return [("", item) for item in ([items] if single else items)]
