"""Optimal buffers against known values and against the optimal Toeplitz strategy."""

import numpy as np
import pytest

from corrnoise.solvers.families import toeplitz
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.theory.mechanisms.buffered import (
    interlacing,
    noise_sensitivity_upper_bound,
    scales,
    squared_error,
)
from corrnoise.theory.objectives.workloads import LargestError, PrefixSums
from corrnoise.theory.participation import Participation


def buffers_of(who, count=4, objective="mean"):
    return best_buffers(
        PrefixSums(who.steps) if objective == "mean" else LargestError(PrefixSums(who.steps)), who, count
    )


def toeplitz_of(who):
    return toeplitz.best_toeplitz(PrefixSums(who.steps), who, toeplitz.most_bands(who))


def error_of(noise, who, objective="mean"):
    """In closed form: the coefficients of 10⁷ steps would take long."""
    square = squared_error(*interlacing(noise), steps=who.steps, aggregate=objective)
    return noise_sensitivity_upper_bound(noise, who) * np.sqrt(float(square))


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
    found = buffers_of(who, asked, objective)
    assert error_of(found, who, objective) == pytest.approx(value, abs=6e-10)
    assert found.memory(steps) == used
    assert found.anytime


def test_the_decays_and_scales_of_a_known_optimum():
    """Two buffers for 10⁵ steps and the largest error: decays and scales to eight digits."""
    zeros, poles = interlacing(buffers_of(Participation.single(10**5), 2, "max"))
    np.testing.assert_allclose(1 - zeros, [0.99995289, 0.98570687], atol=6e-9)
    np.testing.assert_allclose(scales(zeros, poles), [0.01228532, 0.18783936], atol=6e-9)


@pytest.mark.parametrize("participations", [1, 4])
def test_closed_forms_agree_with_the_coefficients_of_the_noise(participations):
    who = Participation.min_sep(256, 256 // participations, participations)
    found = buffers_of(who, 2)
    assert noise_sensitivity_upper_bound(found, who) == pytest.approx(found.sensitivity(who), rel=1e-12)
    assert error_of(found, who) == pytest.approx(found.mean_error(who), rel=1e-12)
    assert error_of(found, who, "max") == pytest.approx(found.max_error(who), rel=1e-12)


def test_no_buffers_beat_the_best_toeplitz_strategy():
    who = Participation.single(256)
    floor = toeplitz.certificate(toeplitz_of(who), who).lower_bound
    assert floor < buffers_of(who, 3).mean_error(who) < floor * 1.0004


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_short_runs_reach_the_best_toeplitz_strategy(steps):
    who = Participation.single(steps)
    found = buffers_of(who)
    assert found.mean_error(who) == pytest.approx(toeplitz_of(who).mean_error(who), rel=1e-6)
    assert found.memory(steps) == steps // 2


def test_independent_noise_is_best_if_every_example_takes_part_in_every_step():
    who = Participation.min_sep(100, 1)
    found = buffers_of(who)
    assert found.memory(100) == 0
    assert found.mean_error(who) == pytest.approx(np.sqrt(100 * 101 / 2), rel=1e-12)


def test_buffers_may_be_better_than_strategies_whose_participations_do_not_meet():
    """Three steps and two participations in any of them: a strategy with one band has the error 2."""
    who = Participation.min_sep(3, 1, 2)
    assert toeplitz_of(who).mean_error(who) == pytest.approx(2.0, rel=1e-12)
    assert buffers_of(who).mean_error(who) < 1.9880


def test_bad_arguments():
    with pytest.raises(ValueError, match=r"buffers must be an integer in \[1, 16\]"):
        buffers_of(Participation.single(10), 17)
