"""Bounds of rounding for mechanisms against programs whose rounding errors are chosen, as in ``test_rounding``."""

from __future__ import annotations

import numpy as np
import pytest
from corrnoise.theory.mechanisms.rounding_of_mechanisms import (
    scaled_sensitivity,
    substitution_sensitivity,
    tree_sensitivity,
)

from corrnoise.theory.mechanisms import rounding
from corrnoise.theory.mechanisms.finite import FiniteNoise
from corrnoise.theory.mechanisms.matrix import BandedNoise
from corrnoise.theory.mechanisms.rounding import convolution_sensitivity, section_sensitivity
from corrnoise.theory.mechanisms.scaled import ScaledNoise
from corrnoise.theory.mechanisms.sensitivity import strategy_sensitivity
from corrnoise.theory.mechanisms.tree import BinaryTree
from corrnoise.theory.participation import Participation
from tests.theory.mechanisms.test_rounding import (
    COARSE,
    NOISING,
    POLES,
    STEPS,
    Program,
    Rounding,
    cascade,
    convolution,
    scaled,
    strategy_of,
)

RUNS = [
    Participation(STEPS),
    Participation.min_sep(STEPS, 5, 3),
    Participation.min_sep(STEPS, 1, 4),
]
SCALES = np.linspace(2.0, 0.5, STEPS)
BANDS = np.array([np.linspace(1.0, 2.0, STEPS), np.full(STEPS, 0.5), np.full(STEPS, 0.25)])
BANDS[1, -1:] = BANDS[2, -2:] = 0
BANDED = BandedNoise(BANDS)


@pytest.fixture
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounding, "_UNITS", {"float64": COARSE, "float32": COARSE})


def substitution(z: np.ndarray, r: Rounding) -> np.ndarray:
    y: list[float] = []
    for t in range(z.size):
        value = scaled(z[t], r)
        for k in range(1, min(t + 1, BANDED.bands)):
            value = r(value - r(BANDS[k, t - k] * y[t - k], 1), -1)
        y.append(r(r(value / BANDS[0, t], -1), -1))
    return np.array(y)


def with_scales(program: Program) -> Program:
    def run(z: np.ndarray, r: Rounding) -> np.ndarray:
        return np.array([r(d * x, -1) for d, x in zip(SCALES.tolist(), program(z, r).tolist(), strict=True)])

    return run


def bound(name: str, run: Participation) -> float:
    if name == "substitution":
        return substitution_sensitivity(BANDED, run)
    if name == "scaled cascade":
        program = section_sensitivity(POLES, STEPS)
        return scaled_sensitivity(ScaledNoise(POLES, SCALES), run, program=program, cascade=True)
    noise = FiniteNoise(NOISING)
    program = convolution_sensitivity(noise, STEPS, "float64")
    return scaled_sensitivity(ScaledNoise(noise, SCALES), run, program=program, cascade=False)


PROGRAMS = {
    "substitution": substitution,
    "scaled cascade": with_scales(cascade(POLES)),
    "scaled convolution": with_scales(convolution(NOISING)),
}


@pytest.mark.parametrize("run", RUNS, ids=repr)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("_coarse")
def test_no_pattern_of_rounding_errors_exceeds_the_bound(name: str, run: Participation) -> None:
    patterns = (None, *range(6))
    found = [strategy_sensitivity(strategy_of(PROGRAMS[name], pattern), run).lower for pattern in patterns]
    assert max(found) <= bound(name, run) <= 2 * max(found)


@pytest.mark.parametrize("run", RUNS, ids=repr)
@pytest.mark.parametrize(("name", "share"), [("substitution", 0.5), ("scaled cascade", 0.25)])
def test_a_bound_with_fewer_roundings_is_exceeded(
    name: str, share: float, run: Participation, monkeypatch: pytest.MonkeyPatch
) -> None:
    worst = strategy_sensitivity(strategy_of(PROGRAMS[name], None), run).lower
    monkeypatch.setattr(rounding, "_UNITS", {"float64": COARSE * share, "float32": COARSE * share})
    assert worst > bound(name, run)


# -- trees -------------------------------------------------------------------------------------------------------------

FINE = 2.0**-16


def tree_program(tree: BinaryTree, random: np.random.Generator, way: int) -> np.ndarray:
    """N with rounding errors, random or (``way``) making each operation's result small, shape (steps, draws)."""
    unit = iter(np.eye(tree.draws))

    def r(value: np.ndarray) -> np.ndarray:
        return value * (1 + FINE * (way or random.choice([-1, 1])))

    stack: list[np.ndarray] = [np.zeros(tree.draws)] * tree.steps.bit_length()
    rows = []
    for t in range(tree.steps):
        joined, node, height = np.zeros(tree.draws), r(next(unit)), 0
        while t >> height & 1:
            below = r(node + stack[height])
            joined = r(joined + stack[height])
            node = r(next(unit))
            if tree.decoder == "online":
                own = 2.0 ** (height + 1) / (2.0 ** (height + 2) - 1)
                node = r(r(node * r(np.array(own))) + r(below * r(np.array(1 - own))))
            height += 1
        stack[height] = node
        rows.append(r(node - joined))
    return np.array(rows)


@pytest.mark.parametrize("run", RUNS, ids=repr)
@pytest.mark.parametrize("decoder", ["binary", "online"])
@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_trees_are_covered(decoder, run, seed, monkeypatch):
    """The covariance of the program has a strategy; its sensitivity without rounding is already that of the tree."""
    tree = BinaryTree(STEPS, decoder=decoder)
    noise = tree_program(tree, np.random.default_rng(seed), 0 if seed is not None else -1)
    plain = tree.noising_matrix()
    np.testing.assert_allclose(noise, plain, atol=60 * FINE)
    truth = [
        strategy_sensitivity(np.linalg.inv(np.linalg.cholesky(matrix @ matrix.T)), run).lower
        for matrix in (noise, plain)
    ]
    monkeypatch.setattr(rounding, "_UNITS", {"float64": FINE, "float32": FINE})
    covered = tree_sensitivity(tree, run)
    assert truth[0] <= covered <= 2 * tree.sensitivity_upper_bound(run)
    if seed is None:
        assert truth[0] > truth[1]  # smaller noise is less private


def test_bounds_are_infinite_where_they_say_nothing(monkeypatch):
    assert scaled_sensitivity(ScaledNoise(POLES, SCALES), RUNS[0], program=np.inf, cascade=True) == np.inf
    monkeypatch.setattr(rounding, "_UNITS", {"float64": COARSE, "float32": COARSE})
    assert tree_sensitivity(BinaryTree(STEPS), RUNS[0]) == np.inf


@pytest.mark.parametrize("run", [Participation(1000), Participation.min_sep(1000, 250, 4)], ids=repr)
def test_the_bounds_cost_next_to_nothing(run):
    bands = np.array([np.ones(1000), np.full(1000, 0.5)])
    bands[1, -1] = 0
    banded, tree = BandedNoise(bands), BinaryTree(1000)
    assert substitution_sensitivity(banded, run) == pytest.approx(banded.sensitivity_upper_bound(run), rel=3e-7)
    assert tree_sensitivity(tree, run) == pytest.approx(tree.sensitivity_upper_bound(run), rel=3e-7)
