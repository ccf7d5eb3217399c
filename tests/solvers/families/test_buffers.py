"""Optimal buffers against known values and against the optimal Toeplitz strategy."""

import numpy as np
import pytest

from corrnoise.solvers.matrix_factorisation.buffers import optimal_buffers
from corrnoise.solvers.matrix_factorisation.result import evaluated
from corrnoise.solvers.matrix_factorisation.toeplitz import optimal_toeplitz
from corrnoise.theory.mechanisms.buffered import interlacing, scales
from corrnoise.theory.participation import Participation

# steps, participations (min_sep = steps/participations), buffers asked for and used, objective, error
KNOWN = [
    (64, 1, 1, 1, "mean", 2.216193785),
    (64, 1, 2, 2, "mean", 2.179914158),
    (64, 1, 3, 3, "mean", 2.179732855),  # a local optimum at 2.1797331 is reached from starts further apart
    (256, 1, 4, 3, "mean", 2.617239531),
    (1024, 1, 4, 4, "mean", 3.057366695),
    (64, 4, 2, 1, "mean", 4.916838302),
    (256, 4, 2, 2, "mean", 5.789272586),
    (1024, 4, 4, 3, "mean", 6.668934600),
    (1000, 1, 3, 3, "max", 3.269917806),
    (10**4, 1, 4, 4, "max", 4.003116868),
    (10**5, 1, 5, 5, "mean", 4.517607521),
    (10**7, 1, 7, 7, "max", 6.203178882),
]


@pytest.mark.parametrize(("steps", "participations", "asked", "used", "objective", "value"), KNOWN)
def test_known_optima(steps, participations, asked, used, objective, value):
    who = Participation.min_sep(steps, steps // participations, participations)
    found = optimal_buffers(who, buffers=asked, objective=objective)
    assert found.error == pytest.approx(value, abs=6e-10)
    assert found.memory == used
    assert found.anytime


def test_the_decays_and_scales_of_a_known_optimum():
    """Two buffers for 10⁵ steps and the largest error: decays and scales to eight digits."""
    found = optimal_buffers(Participation(10**5), buffers=2, objective="max")
    zeros, poles = interlacing(found.noise)
    np.testing.assert_allclose(1 - zeros, [0.99995289, 0.98570687], atol=6e-9)
    np.testing.assert_allclose(scales(zeros, poles), [0.01228532, 0.18783936], atol=6e-9)


@pytest.mark.parametrize("participations", [1, 4])
def test_closed_forms_agree_with_the_coefficients_of_the_noise(participations):
    who = Participation.min_sep(256, 256 // participations, participations)
    found = optimal_buffers(who, buffers=2)
    direct = evaluated(found.noise, who, "mean")
    assert found.sensitivity == pytest.approx(direct.sensitivity, rel=1e-12)
    assert found.mean_error == pytest.approx(direct.mean_error, rel=1e-12)
    assert found.max_error == pytest.approx(direct.max_error, rel=1e-12)


def test_no_buffers_beat_the_best_toeplitz_strategy():
    who = Participation(256)
    floor = optimal_toeplitz(who).lower_bound
    assert floor < optimal_buffers(who, buffers=3).error < floor * 1.0004


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs_reach_the_best_toeplitz_strategy(steps):
    found = optimal_buffers(Participation(steps))
    assert found.error == pytest.approx(optimal_toeplitz(Participation(steps)).error, rel=1e-6)
    assert found.memory == steps // 2


def test_independent_noise_is_best_if_every_example_takes_part_in_every_step():
    found = optimal_buffers(Participation.min_sep(100, 1, 100))
    assert found.memory == 0
    assert found.error == pytest.approx(np.sqrt(100 * 101 / 2), rel=1e-12)


def test_buffers_may_be_better_than_strategies_whose_participations_do_not_meet():
    """Three steps and two participations in any of them: a strategy with one band has the error 2."""
    who = Participation.min_sep(3, 1, 2)
    assert optimal_toeplitz(who).error == pytest.approx(2.0, rel=1e-12)
    found = optimal_buffers(who)
    assert found.error < 1.9880
    assert found.sensitivity == pytest.approx(found.mechanism.sensitivity(who), rel=1e-13)


def test_bad_arguments():
    with pytest.raises(ValueError, match="buffers must be at most 16"):
        optimal_buffers(Participation(10), buffers=17)
    with pytest.raises(ValueError, match="objective must be one of"):
        optimal_buffers(Participation(10), objective="median")
