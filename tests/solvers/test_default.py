"""The default noise: the optimum of two arrays for prefix sums, and its errors."""

from __future__ import annotations

from unittest import mock

import pytest

from corrnoise.solvers import default
from corrnoise.solvers.default import DEFAULT_MEMORY, default_noise
from corrnoise.solvers.families.buffers import best_buffers
from corrnoise.solvers.families.time_varying import time_varying_buffers
from corrnoise.solvers.optimise import optimise
from corrnoise.theory.mechanisms.base import Mechanism
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.objectives.workloads import SGD, PrefixSums
from corrnoise.theory.participation import ANY_LENGTH, Participation
from corrnoise.theory.privacy import Budget

BUDGET = Budget(epsilon=4.0, delta=1e-5)
#: The root mean squared error of prefix sums at ρ = ½ and clipping norm 1, and the excess of buffers of constant
#: numbers, which are Toeplitz noise.
ERRORS = [
    (Participation.single(400), 2.6736, 1.035),
    (Participation.reshuffled(256, period=64), 5.6868, 1.308),
]
SLOW_ERRORS = [
    (Participation.fixed_epochs(400, epochs=4), 5.7956, 1.048),
    (Participation.fixed_epochs(400, epochs=20), 17.8185, 1.072),
    (Participation.fixed_epochs(1000, epochs=50), 40.3494, 1.069),
    (Participation.fixed_epochs(1000, epochs=20), 19.2410, 1.060),
    (Participation.single(10**4), 3.8184, 1.028),
    (Participation.fixed_epochs(10**4, epochs=10), 14.0125, 1.041),
    (Participation.min_sep(256, 16), 14.4400, 1.071),
    (Participation.reshuffled(1000, period=50), 19.9617, 1.243),
]
ORDERS = [
    Participation.single(1),
    Participation.single(2),
    Participation.single(3),
    Participation.min_sep(5, 2),
    Participation.fixed_epochs(6, epochs=3),
    Participation.reshuffled(8, period=4),
]
SAMPLERS = [
    Participation.poisson(12, 0.2),
    Participation.redrawn_bins(12, period=4),
    Participation.cyclic_poisson(12, period=2, rate=0.5),
    Participation.cyclic_poisson(12, period=4, rate=0.5),
]
# the search for bins takes seconds
BINS = pytest.param(Participation.balls_in_bins(12, period=4), marks=pytest.mark.slow)


def has_error(noise: Mechanism, who: Participation, value: float) -> bool:
    """Within 0.3 % of the reference value below, and never above it by more than the rounding of four digits."""
    return 1 - 3e-3 <= noise.mean_error(who) / value <= 1 + 5e-5


@pytest.mark.parametrize(
    ("who", "value", "excess"), [*ERRORS, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW_ERRORS)]
)
def test_errors_of_prefix_sums(who: Participation, value: float, excess: float) -> None:
    """Toeplitz buffers, the default of version 0.1, are the mutant."""
    noise = default_noise(who)
    assert noise.memory(who.length) == DEFAULT_MEMORY
    assert has_error(noise, who, value)
    mutant = best_buffers(PrefixSums(who.length), who, DEFAULT_MEMORY)
    assert not has_error(mutant, who, value)
    assert mutant.mean_error(who) / noise.mean_error(who) == pytest.approx(excess, abs=1e-3)


def test_a_random_order_in_each_epoch_counts() -> None:
    """Noise for the same order in all epochs has 1.2 times the error."""
    who = Participation.reshuffled(256, period=64)
    noise, mutant = default_noise(who), default_noise(Participation.fixed_epochs(256, epochs=4))
    assert mutant.mean_error(who) > 1.2 * noise.mean_error(who)


@pytest.mark.parametrize("who", [*ORDERS, *SAMPLERS, BINS], ids=str)
def test_it_is_the_optimum_of_two_arrays(who: Participation) -> None:
    budget = BUDGET if who.sampled else None
    noise = default_noise(who, budget)
    assert noise == optimise(SGD(), who, memory=DEFAULT_MEMORY, budget=budget).mechanism
    assert noise.memory(who.length) <= DEFAULT_MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("who", [one[0] for one in [*ERRORS, *SLOW_ERRORS]], ids=str)
def test_it_is_the_optimum_of_two_arrays_of_longer_runs(who: Participation) -> None:
    assert default_noise(who) == optimise(SGD(), who, memory=DEFAULT_MEMORY).mechanism


def test_one_step_has_independent_noise() -> None:
    assert default_noise(Participation.single(1)) == DPSGD()


def test_a_search_is_made_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The budget of sampled batches is a part of the question, and of no others."""
    search = mock.Mock(side_effect=time_varying_buffers)
    monkeypatch.setattr("corrnoise.solvers.families.time_varying_family.time_varying_buffers", search)
    who, sampled = Participation.fixed_epochs(10, epochs=2), SAMPLERS[2]
    found = [default_noise(who, budget) for budget in (None, BUDGET, Budget(0.5))]
    assert all(one is found[0] for one in found)
    assert search.call_count == 1
    assert default_noise(sampled, BUDGET) is default_noise(sampled, BUDGET)
    before = default.best_of_few.cache_info().misses
    default_noise(sampled, Budget(epsilon=1.0, delta=1e-5))
    assert default.best_of_few.cache_info().misses == before + 1


def test_bad_arguments() -> None:
    with pytest.raises(TypeError, match="participation must be"):
        default_noise(40)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="budget must be"):
        default_noise(ORDERS[3], 2.0)  # type: ignore[arg-type]
    for budget in (None, Budget(0.5)):
        with pytest.raises(ValueError, match="budget must be given by epsilon and delta where batches are sampled"):
            default_noise(SAMPLERS[0], budget)
    with pytest.raises(ValueError, match="participation must have a number of steps"):
        default_noise(ANY_LENGTH)
