"""The best noise of each family against known values."""

import numpy as np
import pytest

from corrnoise.solvers.matrix_factorisation import families
from corrnoise.theory.participation import Participation
from corrnoise.theory.mechanisms.product import AntiPGD, NuFTRL, ProductNoise
from corrnoise.theory.mechanisms.toeplitz_losses import squared_sensitivity

# function, arguments, then the root mean squared error for n = 64, 256 and 1024 (None: not listed)
SINGLE = [
    (families.optimal_nu, {}, (2.187088866, 2.625586964, 3.066350782)),
    (families.optimal_damping, {}, (2.476835448, 3.435499171, 4.808522855)),
    (families.banded_square_root, {"bands": 32}, (2.218803603, 3.176426987, 5.538868422)),
    (families.banded_inverse_square_root, {"bands": 4}, (2.631354382, 4.705165068, 9.109324856)),
    (families.banded_inverse_square_root, {"bands": 16}, (2.182547194, 3.007676631, 5.097234839)),
    (families.optimal_damped_root, {"bands": 4}, (2.343636303, 3.259975591, 4.632382092)),
    (families.optimal_damped_root, {}, (2.182593893, 2.621139635, 3.062167769)),
    (families.optimal_banded_inverse, {"bands": 4}, (2.260023992, 2.964846946, 3.977389397)),
    (families.optimal_banded_inverse, {"bands": 16}, (2.180709175, 2.669707296, 3.329503386)),
]
FOUR = [
    (families.optimal_nu, {}, (5.078343208, 5.967428744, 6.856454546)),
    (families.optimal_damping, {}, (5.114339721, 6.887477774, 9.617133230)),
    (families.banded_inverse_square_root, {"bands": 4}, (5.310000593, 9.410330410, 18.218649712)),
    (families.banded_inverse_square_root, {"bands": 16}, (5.260012934, 6.093391691, 10.194472480)),
    (families.optimal_damped_root, {"bands": 4}, (4.944330618, 6.545722451, 9.264890345)),
    (families.optimal_damped_root, {"bands": 16}, (4.959838133, 5.823878898, 7.779624890)),
    (families.optimal_banded_inverse, {"bands": 4}, (4.917002877, 6.060826529, 7.964332170)),
    (families.optimal_banded_inverse, {"bands": 16}, (None, 5.785871253, 6.836904208)),
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
        pytest.param(
            function, arguments, participations, n, value, id=f"{function.__name__}-{arguments}-{n}-{participations}"
        )
        for function, arguments, values in table
        for n, value in zip((64, 256, 1024), values, strict=True)
        if value is not None
    ]


@pytest.mark.parametrize(("function", "arguments", "participations", "n", "value"), cases(1, SINGLE) + cases(4, FOUR))
def test_known_values(function, arguments, participations, n, value):
    found = function(Participation.min_sep(n, n // participations, participations), **arguments)
    assert found.mean_error == pytest.approx(value, abs=6e-10)
    assert found.mean_error > DENSE[n, participations]  # otherwise the sensitivity is too small


@pytest.mark.parametrize(("n", "value"), [(64, 4.721414353), (256, 5.598973208), (1024, 6.485939135)])
def test_square_root_with_as_many_bands_as_steps_between_participations(n, value):
    found = families.banded_square_root(Participation.min_sep(n, n // 4, 4), bands=n // 4)
    assert found.mean_error == pytest.approx(value, abs=6e-10)


def test_the_parameters_of_known_optima():
    assert families.optimal_nu(Participation(64)).noise.nu == pytest.approx(0.0125558, abs=1e-7)
    who = Participation.min_sep(64, 16, 4)
    assert families.optimal_nu(who).noise.nu == pytest.approx(0.0439012, abs=1e-7)
    assert 1 - families.optimal_damping(who).noise.damping == pytest.approx(0.807472, abs=1e-6)
    root = families.optimal_damped_root(Participation(1024)).noise
    assert isinstance(root, ProductNoise)
    assert root.exponents[0] == pytest.approx(0.51531, abs=1e-5)
    assert root.gaps[0] == pytest.approx(0.0010116, abs=1e-7)


def test_the_largest_error_is_minimised_too():
    who = Participation(256)
    found = families.optimal_damping(who, objective="max")
    assert found.error == found.max_error < families.optimal_damping(who).max_error
    for factor in (0.99, 1.01):
        other = AntiPGD(factor * found.noise.damping)
        squares = np.square(np.cumsum(other.coefficients(256))).sum()
        assert other.sensitivity(Participation.single(256)) * np.sqrt(squares) > found.max_error
    assert families.optimal_nu(who, objective="max").noise == NuFTRL(0.0)  # the best of all Toeplitz strategies


def test_outside_the_theorem_the_error_of_a_banded_inverse_is_an_upper_bound():
    """Sixteen coefficients in 64 steps and four epochs: the formula of the pattern 0, b, 2b, … is too small."""
    who = Participation.min_sep(64, 16, 4)
    found = families.optimal_banded_inverse(who, bands=16)
    assert found.error < families.optimal_banded_inverse(who, bands=4).error
    assert found.error < families.optimal_damped_root(who, bands=16).error
    strategy = found.noise.inverse_coefficients(64)
    assert squared_sensitivity(strategy, who)[0] < found.sensitivity**2 * (1 - 1e-4)
    bracket = found.mechanism.bracket(who)
    assert not bracket.exact
    assert found.sensitivity == bracket.upper
    assert found.error > 4.407853385  # of the best of all strategies, Toeplitz or not


def test_independent_noise_is_best_if_every_example_takes_part_in_every_step():
    who = Participation.min_sep(50, 1, 50)
    for function in (families.optimal_nu, families.optimal_damping):
        assert function(who).error == pytest.approx(np.sqrt(50 * 51 / 2), rel=1e-9)
    for function in (families.optimal_damped_root, families.optimal_banded_inverse):
        assert function(who, bands=4).error == pytest.approx(np.sqrt(50 * 51 / 2), rel=1e-6)


def test_too_many_bands_are_refused():
    with pytest.raises(ValueError, match="bands must be at most steps = 64"):
        families.banded_square_root(Participation(64), bands=65)


def test_memory_and_runs_without_an_end():
    who = Participation(64)
    costs = {
        families.optimal_nu(who): (63, True),
        families.optimal_damping(who): (1, True),
        families.banded_square_root(who, bands=8): (7, True),
        families.banded_inverse_square_root(who, bands=8): (7, True),
    }
    for found, (memory, anytime) in costs.items():
        assert (found.memory, found.anytime) == (memory, anytime), found
        assert found.gap is None


def test_few_coefficients_in_long_runs():
    """The search goes on after noise that exceeds the range of floats: it is better than its start, a damped root."""
    run = Participation(30_000)
    assert families.optimal_banded_inverse(run, bands=4).error < 0.8 * families.optimal_damped_root(run, bands=4).error
