"""Families as objects: names and aliases, comparisons, and a family of a few lines."""

from __future__ import annotations

import pytest

import corrnoise as cn
from corrnoise.solvers.families.base import Family
from corrnoise.solvers.families.problem import Problem
from corrnoise.solvers.families.registry import BY_NAME, FAMILIES, VARIANTS, by_name, compared, names, table
from corrnoise.solvers.families.scaled import Scaled
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.objectives.workloads import MatrixWorkload, PrefixSums
from corrnoise.theory.participation import Participation

EPOCHS = Participation.fixed_epochs(24, epochs=3)
BUDGET = cn.Budget(epsilon=4.0, delta=1e-5)
OLD_NAMES = {
    "buffers": "BLT",
    "banded inverse": "BandInvMF",
    "banded inverse square root": "BISR",
    "banded square root": "BSR",
    "any bands": "BandMF",
    "best Toeplitz": "banded Toeplitz",
    "anti-PGD": "lambda-CGD",
    "binary tree, online": "Honaker tree",
}


class Damping(Family):
    """Noise 1 − λz with a given λ."""

    name = "my damping"

    def __init__(self, damping: float) -> None:
        self.damping = damping

    def make(self, run: Problem, size: int) -> Mechanism:
        return cn.mechanisms.AntiPGD(self.damping)


@pytest.mark.parametrize("family", [Damping(0.5), [Damping(0.5)], (Damping(0.5), "independent noise")])
def test_a_family_of_a_few_lines(family: object) -> None:
    best = cn.optimise(None, EPOCHS, family=family)  # type: ignore[arg-type]
    assert (best.family, best.memory) == ("my damping", 1)
    assert best.error == pytest.approx(cn.mechanisms.AntiPGD(0.5).mean_error(EPOCHS), rel=1e-9)
    found = cn.design(BUDGET, EPOCHS, family=family)  # type: ignore[arg-type]
    assert found.family == "my damping"
    assert found.program().multiplier(BUDGET) > 0
    assert "my damping" in {one.family for one in (found.optimum, *found.alternatives)}


def test_names_and_aliases() -> None:
    """Old names still work, in upper and lower case; a second family with an alias is the mutant."""
    assert len(set(names())) == len(FAMILIES)
    for old, new in OLD_NAMES.items():
        assert by_name(old) is by_name(new) is by_name(new.upper())
        assert by_name(new).name == new
    assert isinstance(by_name("buffers, unit columns"), Scaled)
    assert by_name("buffers, unit columns").name == "BLT"
    assert by_name("BLT, epoch weights").variant == "epoch weights"
    mutant = Damping(0.5)
    mutant.aliases = ("buffers",)
    with pytest.raises(ValueError, match="'buffers' twice"):
        table([*FAMILIES, mutant])
    assert set(BY_NAME.values()) == {*FAMILIES, *VARIANTS}


@pytest.mark.parametrize(
    ("family", "error", "message"),
    [
        ("bufers", ValueError, r"did you mean 'buffers'\?$"),
        (3, TypeError, "family must be None, a name, a Family with a name"),
        (["BLT", 3], TypeError, "family must be None, a name, a Family with a name"),
    ],
)
def test_unknown_families(family: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cn.optimise(None, EPOCHS, family=family)  # type: ignore[arg-type]


def test_the_families_that_are_compared() -> None:
    """Baselines only where time-varying buffers cannot be best: a form that is no linear system, or much memory."""

    def found(objective: object, memory: float | None) -> list[str]:
        return [one.name for one in compared(Problem(objective, EPOCHS), memory)]  # type: ignore[arg-type]

    linear, matrix = PrefixSums(24), MatrixWorkload(PrefixSums(24).matrix())
    usual = [one.name for one in cn.families.DEFAULT]
    assert usual == ["independent noise", "time-varying buffers"]
    assert found(linear, None) == found(linear, 4) == found(linear, 16) == found(matrix, 0) == usual
    assert found(linear, 17) == [*usual, "BLT", "BandInvMF", "banded Toeplitz"]
    assert set(found(matrix, None)) == set(found(linear, 17))
    assert [one.variant for one in compared(Problem(matrix, EPOCHS), None) if one.variant] == [
        *("unit columns", "epoch weights") * 2
    ]


def test_results_say_family_variant_and_sampler() -> None:
    best = cn.optimise(None, EPOCHS, family=["BLT", "BLT, unit columns"], memory=1)
    labels = {(one.family, one.variant, one.sampler, one.label) for one in (best, *best.alternatives)}
    assert ("BLT", "", "", "BLT") in labels
    assert ("BLT", "unit columns", "", "BLT, unit columns") in labels
    sampled = cn.optimise(None, Participation.poisson(24, 0.1), budget=BUDGET)
    assert (sampled.family, sampled.sampler) == ("independent noise", "Poisson batches")
    assert (sampled.variant, sampled.label) == ("step scales", "DP-SGD, step scales, Poisson batches")
