"""Tests of noise: uniform p-values of noise as claimed, and the fault that each test finds."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from corrnoise.theory.auditing import noise_tests as noise
from corrnoise.theory.mechanisms.product import NuFTRL

RUNS, STEPS, IDLE = 2, 6, 40
MATRIX = NuFTRL(0.02).noising_matrix(STEPS)
COVARIANCE = MATRIX @ MATRIX.T
LAGS = (1, 2, 3, 4, 5)
PLACES = np.arange(IDLE)
NO_DRIFT = np.zeros((STEPS, 0))
SIZE = RUNS * (IDLE - 1)


def claimed(rng):
    """White and raw noise."""
    white = rng.standard_normal((RUNS, STEPS, IDLE))
    return white, MATRIX @ white


def every(white, raw, covariance=COVARIANCE):
    """All tests with a distribution that is exact but for the union bound."""
    centre = noise.centred(white)
    factors = noise.bartlett(centre)
    columns = white.reshape(-1, IDLE)
    kinds = ("each lag", "all lags", "all pairs", "largest pair")
    below, above = noise.variance(float((centre**2).sum()), STEPS * SIZE)
    smallest, largest = noise.largest_value(white, 0.0)
    energies = (columns**2).sum(axis=0)
    return {
        "below": below,
        "above": above,
        "offset": noise.offset(white, factors, NO_DRIFT),
        "neighbours": noise.neighbours(columns),
        "runs": noise.repeated_runs(centre)[1],
        "least step": noise.least_step(raw, covariance),
        "shares": noise.step_sizes(centre),
        "cosine": noise.largest_cosine(columns),
        "smallest": smallest,
        "largest": largest,
        "shape": noise.normal_shape(white, 0.0),
        "least": noise.least_coordinate(energies, np.full(IDLE, RUNS * STEPS), 1.0, PLACES, absent=False),
        "greatest": noise.greatest_coordinate(columns, PLACES, outlying=False),
    } | dict(zip(kinds, noise.correlations(factors, SIZE, LAGS), strict=True))


EXACT = ("below", "above", "offset", "all lags", "all pairs", "neighbours", "runs", "smallest", "largest")


def p_values(number=400, covariance=COVARIANCE, change=lambda white: white):
    rng = np.random.default_rng(1)
    found = []
    for _ in range(number):
        white, _ = claimed(rng)
        white = change(white)
        found.append({name: one.p for name, one in every(white, MATRIX @ white, covariance).items()})
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def test_p_values_are_uniform_or_larger():
    for name, p in p_values().items():
        assert kstest(p, "uniform", alternative="greater").pvalue > 1e-4, name
        if name in EXACT:
            assert kstest(p, "uniform").pvalue > 1e-4, name


def test_noise_of_another_size_is_no_other_correlation():
    """Without the estimate of the size, correlations of louder noise are refuted: the mutant of the scale."""
    louder = p_values(change=lambda white: 3 * white)
    for name in (
        "each lag",
        "all lags",
        "all pairs",
        "largest pair",
        "offset",
        "neighbours",
        "runs",
        "cosine",
        "shares",
    ):
        assert kstest(louder[name], "uniform", alternative="greater").pvalue > 1e-4, name
    assert louder["above"].max() < 1e-9


def test_the_variance_of_a_step_is_that_of_its_noise():
    """The mutant takes 1 for K_tt, and finds nothing where a step has too little noise."""
    rng = np.random.default_rng(2)
    white = rng.standard_normal((RUNS, STEPS, 4000))
    raw = MATRIX @ white
    raw[:, 3] *= 0.95
    ones = COVARIANCE - np.diag(np.diag(COVARIANCE)) + np.eye(STEPS)
    assert noise.least_step(raw, COVARIANCE).p < 1e-4
    assert noise.least_step(raw, ones).p > 0.1


def test_cosines_of_steps_are_no_substitute_for_bartlett():
    """The mutant takes the cosines of pairs of steps of one sequence for independent normal numbers."""
    rng = np.random.default_rng(3)
    right, wrong = [], []
    for _ in range(1500):
        white = rng.standard_normal((6, 6))
        right.append(noise.correlations([np.linalg.cholesky(white @ white.T)], 6, LAGS)[2].p)
        unit = white / np.linalg.norm(white, axis=1, keepdims=True)
        cosines = np.sqrt(6) * np.tril(unit @ unit.T, -1) + np.diag(np.sqrt(6 - np.arange(6)))
        wrong.append(noise.correlations([cosines], 6, LAGS)[2].p)
    assert kstest(right, "uniform").pvalue > 1e-3
    assert kstest(wrong, "uniform").pvalue < 1e-9


def test_windows_for_more_steps_than_coordinates():
    rng = np.random.default_rng(4)
    values = []
    for _ in range(200):
        white = rng.standard_normal((1, 50, 21))
        factors = noise.bartlett(noise.centred(white))
        assert [len(factor) for factor in factors] == [10] * 5
        values.append(
            [
                one.p
                for one in (
                    *noise.correlations(factors, 20, range(1, 30)),
                    noise.offset(white, factors, np.zeros((50, 0))),
                )
            ]
        )
    for p in np.array(values).T:
        assert kstest(p, "uniform", alternative="greater").pvalue > 1e-4
    smooth = np.cumsum(rng.standard_normal((1, 50, 21)), axis=1)
    assert noise.correlations(noise.bartlett(noise.centred(smooth)), 20, range(1, 30))[1].p < 1e-9


def test_an_offset_passes_only_if_it_may_be_there():
    rng = np.random.default_rng(5)
    white = 0.2 + rng.standard_normal((RUNS, STEPS, 400))
    factors = noise.bartlett(noise.centred(white))
    assert noise.offset(white, factors, NO_DRIFT).p < 1e-9
    assert noise.offset(white, factors, 0.2 * np.eye(STEPS)).p > 0.01
    assert noise.normal_shape(white, 0.0).p < 1e-6 < 0.01 < noise.normal_shape(white, 0.2).p


@pytest.mark.parametrize("factor", [1.0, 1e-4, 1e3])
def test_noise_that_is_absent_or_used_again(factor):
    """Each test finds its fault in noise of any size, and passes noise of any size without the fault."""
    rng = np.random.default_rng(6)
    white, raw = (factor * each for each in claimed(rng))
    columns = white.reshape(-1, IDLE)
    size = float(np.mean(white**2))
    freedom = np.full(IDLE, RUNS * STEPS)

    def tested(columns, raw, centre):
        return [
            noise.least_coordinate((columns**2).sum(axis=0), freedom, size, PLACES, absent=True).p,
            noise.shared_noise(columns, size, PLACES).p,
            noise.step_without_noise(raw, COVARIANCE).p,
            noise.repeated_step(raw, COVARIANCE).p,
            noise.repeated_runs(centre)[0].p,
        ]

    assert tested(columns, raw, noise.centred(white)) == [1.0] * 5
    without, twice = columns.copy(), columns.copy()
    without[:, 3] *= 1e-5
    twice[:, 3] = twice[:, 9] * (1 + 1e-7)
    silent, again = raw.copy(), raw.copy()
    silent[1, 4] = 0.7 * factor
    again[:, 4] = again[:, 2]
    runs = noise.centred(white)
    runs[1] = runs[0]
    first = [tested(without, raw, runs)[i] for i in (0, 4)]
    second = tested(twice, silent, runs)[1:3]
    assert max(*first, *second, tested(columns, again, runs)[3]) < 1e-9
    assert noise.shared_noise(twice, size, PLACES).where == "coordinates 3 and 9"
    assert noise.no_noise(white).p == (1.0 if factor > 1e-3 else 0.0)


def test_pairs_of_equal_values():
    """By simulation of rounded noise at the bound; the mutant takes half of the width."""
    rng = np.random.default_rng(7)
    width = 2.0**-4
    values = []
    for _ in range(300):
        rounded = np.round(rng.standard_normal((1, 2, 300)) / width) * width
        values.append(noise.equal_values(rounded, width))
    assert min(value.p for value in values) > 0.05
    assert np.mean([value.statistic for value in values]) == pytest.approx(
        2 * 300 * 299 / 2 * width / (2 * math.sqrt(math.pi)), rel=0.01
    )
    assert np.mean([noise.equal_values(rounded, width / 2).p for _ in range(3)]) < 0.02
    assert noise.equal_values(rounded.astype(np.float16), 0.0).p < 1e-3


def test_third_powers_of_atoms_are_below_their_bound():
    """Σ p³ <= w² ∫φ³, for any place of the grid."""
    from scipy.special import ndtr

    for width in (0.01, 0.3, 1.0):
        for begin in (0.0, 0.37 * width, 0.5 * width):
            cells = np.diff(ndtr(np.arange(-12, 12, width) + begin))
            assert (cells**3).sum() <= width**2 / (2 * math.pi * math.sqrt(3)) * (1 + 1e-9)
            assert (cells**2).sum() <= width / (2 * math.sqrt(math.pi)) * (1 + 1e-9)


def test_small_shapes():
    """One step and one run have no correlations; nothing is divided by zero."""
    white = np.random.default_rng(8).standard_normal((1, 1, 16))
    found = every_of_one(white)
    assert all(0 < one.p <= 1 for one in found)


def every_of_one(white):
    centre = noise.centred(white)
    factors = noise.bartlett(centre)
    one = np.ones((1, 1))
    return [
        *noise.correlations(factors, 15, LAGS),
        noise.step_sizes(centre),
        noise.repeated_step(white, one),
        noise.offset(white, factors, np.zeros((1, 0))),
        noise.neighbours(white[0]),
        noise.largest_cosine(white[0]),
        noise.shared_noise(np.zeros((0, 16)), 1.0, PLACES),
        noise.least_step(white, one),
    ]


# -- noise that follows from other noise -------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_noise_that_is_used_again_with_either_sign(sign):
    """The mutant without signs does not see noise that is taken off again, nor that of another run."""
    rng = np.random.default_rng(9)
    white, raw = claimed(rng)
    deviations = np.sqrt(np.diag(COVARIANCE))
    assert noise.used_again((raw, white), deviations).p == noise.repeated_step(raw, COVARIANCE).p == 1
    again, later = raw.copy(), white.copy()
    again[1, 4] = sign * again[1, 2]
    later[1, 0] = sign * later[0, 5]
    assert noise.repeated_step(again, COVARIANCE)[1:] == (0.0, "steps 3 and 5")
    assert noise.used_again((raw, later), deviations)[1:] == (0.0, "step 6 of run 1 and step 1 of run 2")
    columns = white.reshape(-1, IDLE)
    columns[:, 3] = sign * columns[:, 9]
    assert noise.shared_noise(columns, 1.0, PLACES)[1:] == (0.0, "coordinates 3 and 9")


def test_a_step_that_is_small_is_no_repetition():
    rng = np.random.default_rng(10)
    raw = claimed(rng)[1]
    raw[:, 2] *= 1e-2
    raw[:, 4] *= 1e-2
    assert noise.repeated_step(raw, COVARIANCE).p == 1


def test_a_step_that_follows_from_others():
    rng = np.random.default_rng(11)
    white = rng.standard_normal((RUNS, STEPS, IDLE))
    assert noise.singular(noise.bartlett(noise.centred(white)), SIZE, 1.0).p == 1
    white[:, 4] = -white[:, :4].sum(axis=1)
    found = noise.singular(noise.bartlett(noise.centred(white)), SIZE, 1.0)
    assert found[1:] == (0.0, "step 5")


def test_the_least_noise_of_one_gradient():
    """Exact at the bound; noise of twice the bound passes, whatever its correlation."""
    rng = np.random.default_rng(12)
    values = [noise.step_for_one_gradient(2 * rng.standard_normal((1, 1, IDLE)), 4.0).p for _ in range(300)]
    assert kstest(values, "uniform").pvalue > 1e-4
    raw = 4 * claimed(rng)[1]
    assert noise.step_for_one_gradient(raw, 4.0).p > 0.5
    raw[1, 3] /= 8
    assert noise.step_for_one_gradient(raw, 4.0)[2] == "step 4"
    assert noise.step_for_one_gradient(raw, 4.0).p < 1e-6


def test_noise_without_tails_has_a_largest_value_that_is_too_small():
    white = np.random.default_rng(13).standard_normal((2, 24, 1000))
    below, above = noise.largest_value(white, 0.0)
    assert min(below.p, above.p) > 0.01
    assert noise.largest_value(np.clip(white, -3, 3), 0.0)[0].p < 1e-9
    assert noise.largest_value(np.clip(white, -3, 3), 1.5)[0].p > 0.01


def test_a_few_large_numbers_do_not_make_runs_alike():
    """The mutant without the signs takes a coordinate that is not noise for noise that is used again."""
    centre = np.random.default_rng(14).standard_normal((2, STEPS, IDLE))
    centre[:, :, 7] = 1e3
    again, related = noise.repeated_runs(centre)
    assert related.statistic > 0.99
    assert (again.p, related.p) == (1.0, 0.0)
    outlying = noise.greatest_coordinate(centre.reshape(-1, IDLE), PLACES, outlying=True)
    assert outlying[1:] == (0.0, "coordinate 7")
    louder = noise.greatest_coordinate(9 * np.delete(centre, 7, axis=2).reshape(-1, IDLE - 1), PLACES, outlying=True)
    assert louder.p == 1
