"""No accountant claims less than the truth: exact Gaussian runs and their mixtures, for any schedule, order and noise.

Mean estimation in one dimension with data 2G apart: the last iterate is Gaussian given the positions of the record, and
so a mixture of Gaussians if the order is secret.  Other records are 0, so that only these positions matter.
"""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.shuffled_gradients.accountants import Accountant
from corrnoise.theory.papers.shuffled_gradients.amplification import (
    StepFactors,
    amplification_sum,
    best_plan_cost,
    composed_amplification_sum,
    reshuffled_amplification_sums,
    run_steps,
    worst_amplification_sum,
)
from corrnoise.theory.papers.shuffled_gradients.exact_runs import linear_run_separation
from corrnoise.theory.papers.shuffled_gradients.schedules import PLACEMENTS, Schedule, dp_shuffled, interleaved
from tests.theory.papers.shuffled_gradients.runs import described

SETTLED = (1 + 1e-9, 1e-12)  # of quadratures, relative and absolute


@st.composite
def schedules(draw, samples=6, epochs=5):
    """Any number of private records in each epoch, any placement of the noise."""
    n, k = draw(st.integers(1, samples)), draw(st.integers(1, epochs))
    counts = draw(st.lists(st.integers(0, n), min_size=k, max_size=k))
    return Schedule(n, counts, draw(st.sampled_from(PLACEMENTS)))


rates = st.one_of(st.floats(1e-4, 2.0), st.sampled_from([1.0, 2.0, 1e-3]))
multipliers = st.floats(0.3, 10)


def shift_and_variance(schedule, positions, rate):
    """Distance of the iterate from that of data without the record, and the variance for noise of unit σ."""
    s, noise, _ = run_steps(schedule, positions)
    weights = (1 - rate) ** np.arange(s.size - 1, -1, -1.0)
    return rate * float(weights @ s), rate**2 * float(weights**2 @ noise)


def exact_sum(schedule, positions, rate):
    """The amplification sum that the run really has."""
    s, noise, _ = run_steps(schedule, positions)
    return linear_run_separation(s, noise, np.full(s.size, 1 - rate))


def strings(schedule, order):
    """All equally likely positions of the record in all epochs."""
    places = range(1, schedule.samples + 1)
    if order == "reshuffled":
        return [np.array(string) for string in product(places, repeat=schedule.epochs)]
    return [np.full(schedule.epochs, j) for j in places]


# -- given positions ---------------------------------------------------------------------------------------------------


@given(schedules(), st.data(), st.sampled_from([1.0, 0.9, 0.2]))
def test_sums_over_epochs_are_those_over_steps(schedule, data, prox):
    position = st.integers(1, schedule.samples)
    positions = data.draw(st.lists(position, min_size=schedule.epochs, max_size=schedule.epochs))
    steps = best_plan_cost(*run_steps(schedule, positions, factors=StepFactors(prox=prox)))
    found = amplification_sum(schedule, positions, factors=StepFactors(prox=prox))
    assert found == steps or found == pytest.approx(steps, rel=1e-12)


@given(schedules(samples=3, epochs=3), st.sampled_from([1.0, 0.7]))
def test_worst_positions_are_the_worst(schedule, prox):
    for order in ("given", "reshuffled"):
        sums = [amplification_sum(schedule, s, factors=StepFactors(prox=prox)) for s in strings(schedule, order)]
        worst = worst_amplification_sum(schedule, factors=StepFactors(prox=prox), reshuffled=order == "reshuffled")
        assert worst == max(sums) or worst == pytest.approx(max(sums), rel=1e-12)
        single = [
            amplification_sum(Schedule(schedule.samples, [c], schedule.placement), c) for c in schedule.private if c
        ]
        composed = composed_amplification_sum(schedule, reshuffled=True)
        assert composed == pytest.approx(sum(single), rel=1e-12)
        assert composed_amplification_sum(schedule) <= composed * (1 + 1e-12)


def test_the_last_private_step_of_all_is_not_always_the_worst_position():
    """Twenty epochs with five private records and one with ten: position 5 is used in all of them."""
    schedule = Schedule(10, [5] * 20 + [10])
    assert exact_sum(schedule, 5, 1e-3) > 2.09 > 1 == amplification_sum(schedule, 10)
    assert worst_amplification_sum(schedule) == pytest.approx(2 + 1 / 6)


def test_a_reshuffled_record_may_stand_last_in_every_epoch():
    """Composed epochs cost 1/6 twenty times and 1; in a given order position 5 costs 1/6 twenty times and 1/6."""
    schedule = Schedule(10, [5] * 20 + [10])
    found = {
        order: described(schedule, 1.0, 1.0, order=order).accountant("per-epoch") for order in ("given", "reshuffled")
    }
    assert found["given"].sums == pytest.approx(20 / 6 + 1 / 6)
    assert found["reshuffled"].sums == pytest.approx(20 / 6 + 1)


@given(schedules(), st.data(), rates, multipliers)
def test_no_claim_is_less_than_the_truth_given_the_positions(schedule, data, rate, z):
    """For one position in a given order, and for any positions in a reshuffled one."""
    position = st.integers(1, schedule.samples)
    any_positions = data.draw(st.lists(position, min_size=schedule.epochs, max_size=schedule.epochs))
    for order, positions in (("given", data.draw(position)), ("reshuffled", any_positions)):
        exact = 2 * exact_sum(schedule, positions, rate) / z**2
        for method in ("per-step", "per-epoch", "whole-run"):
            found = described(schedule, rate, 1.0, order=order).accountant(method)
            assert exact <= found.zcdp(z) * (1 + 1e-9), method


def test_claims_that_are_a_hundredth_less_would_be_caught():
    """The mutants: DP-ShuffleG in one epoch attains all three, and one sample an epoch attains them for every K."""
    for schedule, rate in ((dp_shuffled(10, epochs=1), 1.0), (dp_shuffled(1, epochs=7), 1e-9)):
        exact = 2 * exact_sum(schedule, schedule.samples, rate)
        for method in ("per-step", "per-epoch", "whole-run"):
            assert exact > 0.99 * described(schedule, rate, 1.0).accountant(method).zcdp(1.0)


# -- secret orders -----------------------------------------------------------------------------------------------------


def exact_delta(shifts, deviation, epsilon):
    """∫ max(p − e^ε q, 0) of the mixtures of N(± shift, deviation²)."""
    x = np.linspace(-1, 1, 20_001) * (np.abs(shifts).max() + 12 * deviation)
    p, q = (
        np.mean([np.exp(-(((x - sign * m) / deviation) ** 2) / 2) for m in shifts], axis=0)
        / (deviation * math.sqrt(2 * math.pi))
        for sign in (1, -1)
    )
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]))


def exact_divergence(shifts, deviation, order):
    """D_α of the same mixtures."""
    x = np.linspace(-1, 1, 20_001) * (2 * order * np.abs(shifts).max() + 12 * deviation)
    logs = [
        np.logaddexp.reduce([-(((x - sign * m) / deviation) ** 2) / 2 for m in shifts], axis=0)
        - math.log(len(shifts) * deviation * math.sqrt(2 * math.pi))
        for sign in (1, -1)
    ]
    exponents = order * logs[0] - (order - 1) * logs[1]
    return (float(np.logaddexp.reduce(exponents)) + math.log(x[1] - x[0])) / (order - 1)


MIXTURES = {
    "epochs reshuffled": "reshuffled",
    "whole-run reshuffled": "reshuffled",
    "epochs shuffled once": "shuffled once",
    "whole-run shuffled once": "shuffled once",
}


@pytest.mark.parametrize(("method", "order"), MIXTURES.items())
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.floats(0, 1),
    st.sampled_from(["every", "tail"]),
    st.floats(0.02, 1.9),
    st.floats(0.3, 3.0),
    st.floats(0.0, 3.0),
    st.floats(1.2, 8.0),
)
def test_no_mixture_claims_less_than_the_truth(method, order, n, epochs, part, placement, rate, z, epsilon, alpha):
    schedule = interleaved(n, epochs=epochs, private_per_epoch=1 + min(int(part * n), n - 1), placement=placement)
    shifts, variance = zip(*(shift_and_variance(schedule, s, rate) for s in strings(schedule, order)), strict=True)
    deviation = z * math.sqrt(variance[0])
    found = described(schedule, rate, 1.0, order=order).accountant(method)
    exact = exact_divergence(shifts, deviation, alpha)
    assert exact <= found.renyi_divergence(alpha, z) * SETTLED[0] + SETTLED[1]
    if found.compositions == 1:
        assert (
            exact_delta(shifts, deviation, epsilon)
            <= found.delta(epsilon, noise_multiplier=z) * (1 + 1e-4) + SETTLED[1]
        )


def test_a_mixture_of_too_small_sums_would_be_caught():
    """The mutant: two samples, one epoch, η = 1: the last record is all that remains, with probability one half."""
    shifts, variance = zip(*(shift_and_variance(dp_shuffled(2, epochs=1), j, 1 - 1e-9) for j in (1, 2)), strict=True)
    found = described(dp_shuffled(2, epochs=1), 1.0, 1.0, order="reshuffled").accountant("whole-run reshuffled")
    exact = exact_delta(shifts, math.sqrt(variance[0]), 0.0)
    assert exact <= found.delta(0.0, noise_multiplier=1.0)
    assert exact > Accountant(found.sums / 4, found.probabilities).delta(0.0, noise_multiplier=1.0)


@given(schedules(samples=3, epochs=3))
def test_reshuffled_sums_bound_every_string_with_that_last_position(schedule):
    sums = reshuffled_amplification_sums(schedule)
    last = int(np.max(np.nonzero(schedule.private)[0], initial=0))
    largest = np.zeros(schedule.samples)
    for string in strings(schedule, "reshuffled"):
        place = string[last] - 1
        largest[place] = max(largest[place], amplification_sum(schedule, string))
    assert sums == pytest.approx(largest, rel=1e-12)


def test_closed_form_of_reshuffled_sums():
    for n, epochs in ((10, 5), (7, 2), (1, 4)):
        m = np.arange(n, 0, -1.0)
        closed = (epochs - 2) / n + np.where(2 * m <= n + 1, 1 / (n + 1 - m) + 1 / m, 4 / (n + 1))
        assert reshuffled_amplification_sums(dp_shuffled(n, epochs=epochs)) == pytest.approx(closed, rel=1e-12)


# -- mixtures and public records --------------------------------------------------------------------------------------


def test_reference_values_of_mixtures():
    def reshuffled(schedule):
        return described(schedule, 0.1, 1.0, order="reshuffled").accountant("epochs reshuffled")

    assert reshuffled(dp_shuffled(10, epochs=1)).renyi_divergence(2, 1.0) == pytest.approx(2.0686762, abs=5e-8)
    assert reshuffled(dp_shuffled(100, epochs=1)).renyi_divergence(8, 4.0) == pytest.approx(0.36315052, abs=5e-9)
    assert reshuffled(dp_shuffled(1000, epochs=1)).renyi_divergence(29, 75.66) == pytest.approx(7.8294002e-05, rel=5e-8)
    assert reshuffled(interleaved(10, epochs=1, private_per_epoch=5)).renyi_divergence(3, 1.0) == pytest.approx(
        0.5415333373685647, rel=1e-11
    )
    whole = described(dp_shuffled(1000, epochs=50), 0.1, 1.0, order="reshuffled").accountant("whole-run reshuffled")
    assert whole.delta(1.0, noise_multiplier=5.0) == pytest.approx(1.6442759505935787e-06, rel=1e-8)


@pytest.mark.parametrize("method", ["epochs reshuffled", "whole-run reshuffled", "per-epoch", "per-step"])
def test_public_epochs_spend_nothing(method):
    """Six epochs of which two are private are worth two, before or after the public ones."""
    two = described(dp_shuffled(5, epochs=2), 0.1, 1.0, order="reshuffled").accountant(method)
    for counts in ([5, 5, 0, 0, 0, 0], [0, 0, 0, 0, 5, 5]):
        found = described(Schedule(5, counts), 0.1, 1.0, order="reshuffled").accountant(method)
        assert (found.compositions, found.sums) == (two.compositions, pytest.approx(two.sums, rel=1e-12))


@pytest.mark.parametrize(
    ("run", "method", "message"),
    [
        (described(Schedule(4, [2, 3]), order="reshuffled"), "epochs reshuffled", "private must be the same in every"),
        (
            described(dp_shuffled(4, epochs=2), order="reshuffled"),
            "whole-run shuffled once",
            "participation must be fixed epochs and secret",
        ),
        (
            described(dp_shuffled(4, epochs=2), order="shuffled once"),
            "epochs reshuffled",
            "participation must be reshuffled and secret",
        ),
        (described(dp_shuffled(4, epochs=2)), "epochs shuffled once", "participation must be fixed epochs and secret"),
        (
            described(dp_shuffled(4, epochs=2), order="shuffled once", released="every epoch"),
            "whole-run shuffled once",
            "released must be 'last iterate'",
        ),
        (described(dp_shuffled(4, epochs=2), order="reshuffled", clipping="general"), "epochs reshuffled", "clipping"),
    ],
)
def test_what_is_refused(run, method, message):
    with pytest.raises(ValueError, match=message):
        run.accountant(method)


def test_no_private_epoch_spends_nothing():
    training = described(Schedule(4, [0, 0]), 1.0, 1.0, order="reshuffled")
    for method in ("per-step", "per-epoch", "epochs reshuffled", "whole-run", "whole-run reshuffled"):
        assert training.accountant(method).epsilon(1e-6, noise_multiplier=1.0, conversion="zcdp") == 0


# -- separations that under- or overflow -------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1 - 1e-9, 1.0, 1 + 1e-9, 1.0138, 1.02, 0.9])
def test_separations_of_long_runs_near_rate_one(rate):
    """Eight private epochs and public ones after them: what is left of the record is far below the smallest number."""
    schedule = Schedule(8, [8] + [0] * 11)
    s, noise, _ = run_steps(schedule, 3)
    powers = (1 - rate) ** (2.0 * np.arange(8))
    expected = (1 - rate) ** 10 / powers.sum()
    assert linear_run_separation(s, noise, np.full(s.size, 1 - rate)) == pytest.approx(
        expected if rate != 1 else 0.0, rel=1e-6, abs=1e-300
    )


def test_separations_of_extreme_runs():
    assert linear_run_separation([1.0, 0.0], [0.0, 1.0], [1.0, 1e-200]) == 0  # 1e-400
    assert linear_run_separation([1.0, 0.0], [1.0, 0.0], [1.0, 1e-200]) == pytest.approx(1.0)
    assert linear_run_separation([1.0, 0.0], [0.0, 0.0], [1.0, 1e-200]) == math.inf
    assert linear_run_separation([1.0, 0.0], [0.0, 0.0], [1.0, 0.0]) == 0
    assert linear_run_separation([-1.0, 1.0], [1.0, 1.0], [1.0, 1.0]) == 0
    assert best_plan_cost([1.0] + [0.0] * 9, 1.0, 1e-100) == pytest.approx(0.0, abs=1e-40)
