"""The best noise of each family against known values."""

from pathlib import Path

import numpy as np
import pytest

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.theory.mechanisms.product import DPSGD, AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz_losses import squared_sensitivity
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation

TEXT = (Path(__file__).parents[3] / "docs/toeplitz-mechanisms.md").read_text(encoding="utf-8")


def made(name, who, count=None, objective="mean"):
    """The member of a family for prefix sums."""
    of = PrefixSums(who.steps) if objective == "mean" else LargestError(PrefixSums(who.steps))
    makers = {
        "nu": lambda: toeplitz.nu_ftrl(of, who),
        "damping": lambda: toeplitz.anti_pgd(of, who),
        "BSR": lambda: toeplitz.square_root(count),
        "BISR": lambda: toeplitz.inverse_root(count),
        "damped root": lambda: toeplitz.damped_root(of, who, count or who.steps),
        "banded inverse": lambda: toeplitz.banded_inverse(of, who, count),
        "best": lambda: toeplitz.best_toeplitz(of, who, count),
        "buffers": lambda: best_buffers(of, who, count),
    }
    return makers[name]()


# family, coefficients or bands, then the root mean squared error for n = 64, 256 and 1024 (None: not listed)
SINGLE = [
    ("nu", None, (2.187088866, 2.625586964, 3.066350782)),
    ("damping", None, (2.476835448, 3.435499171, 4.808522855)),
    ("BSR", 32, (2.218803603, 3.176426987, 5.538868422)),
    ("BISR", 4, (2.631354382, 4.705165068, 9.109324856)),
    ("BISR", 16, (2.182547194, 3.007676631, 5.097234839)),
    ("damped root", 4, (2.343636303, 3.259975591, 4.632382092)),
    ("damped root", None, (2.182593893, 2.621139635, 3.062167769)),
    ("banded inverse", 4, (2.260023992, 2.964846946, 3.977389397)),
    ("banded inverse", 16, (2.180709175, 2.669707296, 3.329503386)),
]
FOUR = [
    ("nu", None, (5.078343208, 5.967428744, 6.856454546)),
    ("damping", None, (5.114339721, 6.887477774, 9.617133230)),
    ("BISR", 4, (5.310000593, 9.410330410, 18.218649712)),
    ("BISR", 16, (5.260012934, 6.093391691, 10.194472480)),
    ("damped root", 4, (4.944330618, 6.545722451, 9.264890345)),
    ("damped root", 16, (4.959838133, 5.823878898, 7.779624890)),
    ("banded inverse", 4, (4.917002877, 6.060826529, 7.964332170)),
    ("banded inverse", 16, (None, 5.785871253, 6.836904208)),
]

# the smallest error of any strategy, Toeplitz or not, in one and in four fixed epochs
DENSE = {
    (64, 1): 2.099856472,
    (256, 1): 2.524414416,
    (1024, 1): 2.955451992,
    (64, 4): 4.407853385,
    (256, 4): 5.211944649,
    (1024, 4): 6.046593418,
}


def cases(participations: int, table: list) -> list:
    return [
        pytest.param(name, count, participations, n, value, id=f"{name}-{count}-{n}-{participations}")
        for name, count, values in table
        for n, value in zip((64, 256, 1024), values, strict=True)
        if value is not None
    ]


@pytest.mark.parametrize(("name", "count", "participations", "n", "value"), cases(1, SINGLE) + cases(4, FOUR))
def test_known_values(name, count, participations, n, value):
    who = Participation.min_sep(n, n // participations, participations)
    found = made(name, who, count).mean_error(who)
    assert found == pytest.approx(value, abs=6e-10)
    assert found > DENSE[n, participations]  # otherwise the sensitivity is too small


@pytest.mark.parametrize(("n", "value"), [(64, 4.721414353), (256, 5.598973208), (1024, 6.485939135)])
def test_square_root_with_as_many_bands_as_steps_between_participations(n, value):
    who = Participation.min_sep(n, n // 4, 4)
    assert made("BSR", who, n // 4).mean_error(who) == pytest.approx(value, abs=6e-10)


def test_the_parameters_of_known_optima():
    assert made("nu", Participation.single(64)).nu == pytest.approx(0.0125558, abs=1e-7)
    who = Participation.min_sep(64, 16, 4)
    assert made("nu", who).nu == pytest.approx(0.0439012, abs=1e-7)
    assert 1 - made("damping", who).damping == pytest.approx(0.807472, abs=1e-6)
    root = made("damped root", Participation.single(1024))
    assert isinstance(root, ProductNoise)
    assert root.exponents[0] == pytest.approx(0.51531, abs=1e-5)
    assert root.gaps[0] == pytest.approx(0.0010116, abs=1e-7)


def test_the_largest_error_is_minimised_too():
    who = Participation.single(256)
    found = made("damping", who, objective="max")
    assert found.max_error(who) < made("damping", who).max_error(who)
    for factor in (0.99, 1.01):
        other = AntiPGD(factor * found.damping)
        squares = np.square(np.cumsum(other.coefficients(256))).sum()
        assert other.sensitivity(who) * np.sqrt(squares) > found.max_error(who)
    assert made("nu", who, objective="max") == NuFTRL(0.0)  # the best of all Toeplitz strategies


def test_outside_the_theorem_the_error_of_a_banded_inverse_is_an_upper_bound():
    """Sixteen coefficients in 64 steps and four epochs: the formula of the pattern 0, b, 2b, … is too small."""
    who = Participation.min_sep(64, 16, 4)
    found = made("banded inverse", who, 16)
    error = found.mean_error(who)
    assert error < made("banded inverse", who, 4).mean_error(who)
    assert error < made("damped root", who, 16).mean_error(who)
    bracket = found.bracket(who)
    assert squared_sensitivity(found.inverse_coefficients(64), who)[0] < bracket.upper**2 * (1 - 1e-4)
    assert not bracket.exact
    assert error > 4.407853385  # of the best of all strategies, Toeplitz or not


def test_independent_noise_is_best_if_every_example_takes_part_in_every_step():
    who = Participation.min_sep(50, 1)
    for name, count, accuracy in (("nu", 1, 1e-9), ("damping", 1, 1e-9), ("damped root", 4, 1e-6)):
        assert made(name, who, count).mean_error(who) == pytest.approx(np.sqrt(50 * 51 / 2), rel=accuracy)
    assert made("banded inverse", who, 4).mean_error(who) == pytest.approx(np.sqrt(50 * 51 / 2), rel=1e-6)


def test_few_coefficients_in_long_runs():
    """The search goes on after noise that exceeds the range of floats: it is better than its start, a damped root."""
    who = Participation.single(30_000)
    assert made("banded inverse", who, 4).mean_error(who) < 0.8 * made("damped root", who, 4).mean_error(who)


@pytest.mark.parametrize("start", [None, NuFTRL(0.1)])
def test_one_coefficient_is_independent_noise(start):
    of, who = PrefixSums(8), Participation.single(8)
    for noise in (toeplitz.best_toeplitz(of, who, 1, start), toeplitz.banded_inverse(of, who, 1, start)):
        assert noise.coefficients(8).tolist() == [1, *[0] * 7]


@pytest.mark.parametrize(("participations", "column"), [(1, 1), (4, 3)])
def test_the_table_of_the_documentation(participations, column):
    who = Participation.min_sep(1024, 1024 // participations, participations)
    bands = toeplitz.most_bands(who)
    found = {
        "best Toeplitz, as many bands as possible": made("best", who, bands),
        "banded square root, as many bands": made("BSR", who, bands),
        "buffers": made("buffers", who, 4),
        "banded inverse, 16 coefficients": made("banded inverse", who, 16),
        "nu-DP-FTRL": made("nu", who),
        "damped root, 16 coefficients": made("damped root", who, 16),
        "anti-PGD": made("damping", who),
        "independent noise": DPSGD(),
    }
    rows = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
    table = {row[0]: row[column : column + 2] for row in rows if row[0] in found}
    errors = {name: noise.mean_error(who) for name, noise in found.items()}
    assert table == {name: [str(noise.memory(1024)), f"{errors[name]:.4f}"] for name, noise in found.items()}
    percent = 100 * (errors["buffers"] / errors["best Toeplitz, as many bands as possible"] - 1)
    assert percent == pytest.approx(0.0255 if participations == 1 else 3.488, rel=1e-2)
