"""Runs as one description: never below exact runs, whatever the rates and curvatures; adjacency; refusals.

Quadratic losses and Gaussian noise make Gaussian iterates, whose Rényi divergence on neighbouring data is exact.
"""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrnoise.theory.papers.shuffled_gradients.accountants import METHODS
from corrnoise.theory.papers.shuffled_gradients.amplification import (
    StepFactors,
    amplification_sum,
    best_plan_cost,
    run_steps,
    worst_amplification_sum,
)
from corrnoise.theory.papers.shuffled_gradients.exact_runs import gaussian_renyi_divergence, quadratic_run
from corrnoise.theory.papers.shuffled_gradients.run import ShuffledGradients
from corrnoise.theory.papers.shuffled_gradients.schedules import ORDERS, PLACEMENTS, Schedule, dp_shuffled, interleaved
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_epsilon
from tests.theory.papers.shuffled_gradients.runs import described

OTHER: Any = "other"  # is none of what is asked for
BUDGET = Budget(epsilon=1.0, delta=1e-6, adjacency="replace-one")
FACTS: dict[str, Any] = {
    "learning_rate": 0.1,
    "smoothness": 1.0,
    "clipping": "cocoercive",
    "convex": True,
    "released": "last iterate",
}


def shuffled(order: str = "reshuffled", samples: int = 1000, epochs: int = 50, **changes: Any) -> ShuffledGradients:
    budget = changes.pop("budget", BUDGET)
    return ShuffledGradients(budget, ORDERS[order](samples, epochs), **{**FACTS, **changes})


RUN = shuffled()


# -- exact runs --------------------------------------------------------------------------------------------------------


@st.composite
def quadratic_runs(draw):
    """A schedule, rates, curvatures in [μ, L] of all steps in two dimensions, a ridge, and positions of the record."""
    n, epochs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    counts = draw(st.lists(st.integers(0, n), min_size=epochs, max_size=epochs).filter(any))
    schedule = Schedule(n, counts, draw(st.sampled_from(PLACEMENTS)))
    smoothness = draw(st.sampled_from([0.5, 1.0, 4.0]))
    convexity = draw(st.sampled_from([0.0, 0.05, 0.5, 0.999, 1.0])) * smoothness
    rates = [draw(st.floats(1e-3, 2.0)) / smoothness for _ in range(2)]
    if draw(st.booleans()):
        rates[1] = rates[0]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    curvatures = rng.choice([convexity, smoothness, (convexity + smoothness) / 2], (epochs, n, 2))
    turns = np.array([np.linalg.qr(rng.normal(size=(2, 2)))[0] for _ in range(epochs * n)]).reshape(epochs, n, 2, 2)
    hessians = turns @ (curvatures[..., np.newaxis] * turns.swapaxes(-1, -2))
    positions = [int(rng.integers(1, n + 1)) for _ in range(epochs)]
    return schedule, smoothness, convexity, rates, hessians, draw(st.sampled_from([0.0, 0.4])), positions


def exact_divergence(case, z, order, same_position):
    """D_α of the last iterates for G = 1, the record's gradients 2 apart wherever it is used."""
    schedule, _, _, rates, hessians, ridge, positions = case
    n, epochs = schedule.samples, schedule.epochs
    if same_position:
        positions = [positions[0]] * epochs
    private = np.arange(1, n + 1) <= schedule.private[:, np.newaxis]
    targets = np.zeros((epochs, n, 2))
    other = targets.copy()
    for k, position in enumerate(positions):
        if private[k, position - 1]:
            # Along the eigenvector that later steps shrink the least, on average over the runs that are drawn.
            targets[k, position - 1] = [1.0, 0.0]
            other[k, position - 1] = [-1.0, 0.0]
    noise = z * np.array([schedule.noisy_steps(count) for count in schedule.private.tolist()])
    steps = np.where(private, rates[0], rates[1])
    mean, covariance = quadratic_run(hessians, targets, noise, steps, ridge=ridge)
    shifted, _ = quadratic_run(hessians, other, noise, steps, ridge=ridge)
    if np.linalg.eigvalsh(covariance).min() <= 1e-9 * np.trace(covariance):
        return 0.0
    return gaussian_renyi_divergence(order, mean, covariance, shifted, covariance)


def run_of(case, order):
    schedule, smoothness, convexity, rates, _, ridge, _ = case
    return described(
        schedule,
        rates[0],
        smoothness,
        order=order,
        public_learning_rate=rates[1],
        strong_convexity=convexity,
        regulariser_convexity=ridge,
    )


@given(quadratic_runs(), st.floats(0.3, 5.0), st.floats(1.1, 16.0))
def test_no_accountant_claims_less_than_an_exact_run_has(case, z, alpha):
    """Two learning rates, curvatures between μ and L, a ridge, any noise, the record anywhere."""
    for order, methods in (
        ("given", ("per-step", "per-epoch", "whole-run")),
        ("reshuffled", ("per-step", "per-epoch", "whole-run")),
    ):
        exact = exact_divergence(case, z, alpha, order == "given")
        run = run_of(case, order)
        for method in methods:
            claimed = run.accountant(method).renyi_divergence(alpha, z)
            assert exact <= claimed * (1 + 1e-9), (order, method)


@given(quadratic_runs(), st.floats(0.3, 5.0))
def test_the_largest_divergence_over_positions_is_below_the_mixtures_of_one_position(case, z):
    """A sum A_m of ``whole-run shuffled once`` bounds the exact run with the record at that position."""
    schedule = case[0]
    factors = run_of(case, "shuffled once").step_factors
    for position in range(1, schedule.samples + 1):
        exact = exact_divergence((*case[:-1], [position]), z, 2.0, True)
        assert exact <= 4 * amplification_sum(schedule, position, factors=factors) / z**2 * (1 + 1e-9)


def test_two_rates_in_a_noisy_mixed_epoch_are_seen():
    """Two private steps of four, records ±1, σ = 1, η = 0.5: D_2 <= 4/3 with one rate, 3.198 with 0.01 in public."""
    schedule = interleaved(4, epochs=1, private_per_epoch=2)
    exact = {}
    for public in (0.5, 0.01):
        case = (schedule, 1.0, 1.0, (0.5, public), np.ones((1, 4, 2, 2)) * np.eye(2), 0.0, [2])
        exact[public] = exact_divergence(case, 1.0, 2.0, True)
        run = described(schedule, 0.5, 1.0, public_learning_rate=public)
        claims = [run.accountant(method).renyi_divergence(2.0, 1.0) for method in ("per-epoch", "whole-run")]
        assert min(claims) >= exact[public]
    assert exact[0.01] == pytest.approx(3.197890595, rel=1e-9)
    assert described(schedule, 0.5, 1.0).accountant("whole-run").renyi_divergence(2.0, 1.0) == pytest.approx(4 / 3)
    assert exact[0.01] > 2 * 4 / 3  # what one rate would have claimed


def test_a_curvature_above_the_stated_bound_breaks_the_claim():
    """n = 3, K = 2, η = 1: a record of curvature 18 that both sets share makes A = 1.986 where L = 2 claims 4/3.

    It stands first, and one of curvature 2 second: they multiply by −17 and −1, and the record after them by 1/17.
    """
    hessians = np.broadcast_to(np.array([18.0, 2.0, 16 / 17])[:, np.newaxis, np.newaxis], (2, 3, 1, 1))
    targets = np.zeros((2, 3, 1))
    other = targets.copy()
    targets[:, 2], other[:, 2] = 1.0, -1.0
    mean, covariance = quadratic_run(hessians, targets, np.ones((2, 3)), 1.0)
    shifted, _ = quadratic_run(hessians, other, np.ones((2, 3)), 1.0)
    exact = gaussian_renyi_divergence(2.0, mean, covariance, shifted, covariance) / 4
    assert exact == pytest.approx(1.986, abs=5e-4)
    told_two = described(dp_shuffled(3, epochs=2), 1.0, 2.0).accountant("whole-run")
    assert told_two.renyi_divergence(2.0, 1.0) / 4 == pytest.approx(4 / 3)
    told_the_truth = described(dp_shuffled(3, epochs=2), 1.0, 18.0)
    assert told_the_truth.accountants() == ("per-step", "per-epoch")
    assert told_the_truth.accountant("per-step").renyi_divergence(2.0, 1.0) / 4 >= exact


# -- strong convexity --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_strongly_convex_steps_forget():
    """Contraction 0.999 a step, n = 1000, K = 50, ε = 1: from 5.29 to 5.16, and to 0.52 where all Hessians are μI."""

    def needed(strong_convexity, smoothness, order="reshuffled"):
        facts = {"clipping": "none", "smoothness": smoothness, "strong_convexity": strong_convexity}
        return shuffled(order, **facts).noise_multiplier()

    assert needed(0.0, 1.0) == pytest.approx(5.28641, abs=1e-5)
    assert needed(0.01, 1.0) == pytest.approx(5.15944, abs=1e-5)
    assert needed(0.01, 0.01) == pytest.approx(0.52462, abs=1e-5)
    assert needed(0.01, 0.01, "given") == pytest.approx(0.59745, abs=1e-5)
    assert needed(0.01 * (1 - 1e-12), 0.01) > 5  # nothing but equality makes steps linear


def test_a_linear_run_attains_its_bound_after_one_epoch():
    """Mean estimation in one epoch: all noise counts, before and after the record."""
    n, eta, z = 6, 0.3, 1.3
    hessians, targets = np.ones((1, n, 1, 1)), np.zeros((1, n, 1))
    other = targets.copy()
    targets[0, n - 1], other[0, n - 1] = 1.0, -1.0
    mean, covariance = quadratic_run(hessians, targets, np.full((1, n), z), eta)
    shifted, _ = quadratic_run(hessians, other, np.full((1, n), z), eta)
    exact = gaussian_renyi_divergence(2.0, mean, covariance, shifted, covariance)
    linear = described(dp_shuffled(n, epochs=1), eta, 1.0, strong_convexity=1.0).accountant("whole-run")
    assert linear.renyi_divergence(2.0, z) == pytest.approx(exact, rel=1e-9)
    assert linear.renyi_divergence(2.0, z) >= exact
    nearly = described(dp_shuffled(n, epochs=1), eta, 1.0, strong_convexity=0.999).accountant("whole-run")
    assert nearly.renyi_divergence(2.0, z) == pytest.approx(4 / z**2)


@pytest.mark.parametrize("contraction", [0.0, 1e-9, 0.3, 0.999])
@given(st.integers(1, 30), st.integers(1, 4), st.data())
def test_sums_over_epochs_are_those_over_steps(contraction, n, epochs, data):
    counts = data.draw(st.lists(st.integers(0, n), min_size=epochs, max_size=epochs))
    schedule = Schedule(n, counts, data.draw(st.sampled_from(PLACEMENTS)))
    positions = data.draw(st.lists(st.integers(1, n), min_size=epochs, max_size=epochs))
    factors = StepFactors(contraction, 0.9, 0.8, 0.25)
    found = amplification_sum(schedule, positions, factors=factors)
    steps = best_plan_cost(*run_steps(schedule, positions, factors=factors))
    assert found == steps or found == pytest.approx(steps, rel=1e-11, abs=1e-80)
    assert (found > 0) == bool((np.asarray(positions) <= schedule.private).any())
    assert found <= worst_amplification_sum(schedule, factors=factors, reshuffled=True) * (1 + 1e-11)


def test_what_underflows_is_not_nothing():
    """A factor of 1e-300 a step leaves next to nothing of a record, and yet some noise is needed."""
    schedule = Schedule(50, [1, 0])
    factors = StepFactors(1e-300, 1e-300, 1.0, 1.0)
    assert 0 < worst_amplification_sum(schedule, factors=factors) < 1e-80


# -- adjacency ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (10.0, 0.1)])
@pytest.mark.parametrize("order", ["reshuffled", "given", "shuffled once"])
def test_zero_out_adjacency_needs_half_the_noise(order, epsilon, delta):
    replaced, zeroed = (
        shuffled(order, 7, 3, budget=Budget(epsilon=epsilon, delta=delta, adjacency=adjacency))
        for adjacency in ("replace-one", "zero-out")
    )
    z = replaced.noise_multiplier()
    half = zeroed.noise_multiplier()
    assert half == z / 2
    assert zeroed.epsilon_at(delta, noise_multiplier=half) <= epsilon * (1 + 1e-12)
    assert replaced.epsilon_at(delta, noise_multiplier=half) > epsilon
    assert zeroed.delta_at(epsilon, noise_multiplier=half) == replaced.delta_at(epsilon, noise_multiplier=z)


def test_a_multiplier_for_a_budget_is_that_of_one_gaussian_mechanism():
    rho = 0.1
    run = shuffled(budget=Budget(rho, adjacency="replace-one"))
    z = run.noise_multiplier("whole-run")
    epsilon = run.epsilon_at(1e-6, noise_multiplier=z, accountant="whole-run")
    assert epsilon == pytest.approx(gaussian_epsilon(rho, 1e-6), rel=1e-7)
    assert epsilon <= gaussian_epsilon(rho, 1e-6)
    assert run.noise_multiplier() <= z


# -- which accountant --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_tightest_accountant_is_the_smallest_of_those_that_hold():
    small = shuffled(samples=20, epochs=4)
    for run in (small, small.interleaved(10), small.noise_at("end"), small.private_then_public(2)):
        each = {method: run.noise_multiplier(method) for method in run.accountants()}
        assert run.noise_multiplier() == min(each.values())
    mixed = RUN.interleaved(500)
    assert min(mixed.accountants(), key=lambda m: mixed.noise_multiplier(m)) == "epochs reshuffled"
    assert RUN.delta_at(1.0, noise_multiplier=5.0) == pytest.approx(1.6442759505935787e-06, rel=1e-8)


def test_runs_are_changed_by_what_they_are_asked_for():
    assert RUN.interleaved(500).schedule == interleaved(1000, epochs=50, private_per_epoch=500)
    assert RUN.private_then_public(20).schedule == Schedule(1000, [1000] * 20 + [0] * 30)
    assert RUN.public_then_private(20).schedule == Schedule(1000, [0] * 30 + [1000] * 20)
    assert RUN.noise_at("end").interleaved(3).schedule == Schedule(1000, [3] * 50, "end")
    assert RUN.interleaved(1000) == RUN
    assert hash(RUN.interleaved(1000)) == hash(RUN)


def test_a_run_that_is_not_convex_composes_its_steps():
    run = shuffled(convex=False, clipping="general", smoothness=math.inf)
    assert run.accountants() == ("per-step", "per-epoch")
    assert run.noise_multiplier() == pytest.approx(59.74598, abs=6e-6)
    every = shuffled(released="every iterate")
    assert every.accountants() == ("per-step",)


def test_public_epochs_outside_the_private_ones_may_have_any_rate():
    """They come before the record is used, or after the last noise: post-processing."""
    facts: dict[str, Any] = {"samples": 20, "epochs": 4}
    one_rate, run = shuffled(**facts), shuffled(**facts, public_learning_rate=100.0)
    needed = one_rate.private_then_public(2).noise_multiplier()
    for found in (run.private_then_public(2), run.public_then_private(2)):
        assert found.accountants() == one_rate.accountants()
        assert found.noise_multiplier() == pytest.approx(needed, rel=1e-9)
    assert run.interleaved(10).accountants() == ("per-step",)
    between = shuffled(**facts, public_learning_rate=100.0, private=[20, 0, 20, 0])
    assert set(between.accountants()) == {"per-step", "per-epoch"}


@pytest.mark.parametrize("name", list(FACTS))
def test_what_privacy_rests_on_has_no_default(name):
    with pytest.raises(TypeError, match=name):
        ShuffledGradients(BUDGET, RUN.participation, **{key: value for key, value in FACTS.items() if key != name})


@pytest.mark.parametrize(
    "who",
    [
        Participation.single(1000),
        Participation.min_sep(1000, 10),
        Participation.fixed_epochs(1001, period=10),
        Participation.balls_in_bins(1000, period=10),
    ],
)
def test_other_participation_is_refused(who):
    with pytest.raises(ValueError, match="participation must be in whole epochs, fixed or reshuffled"):
        ShuffledGradients(BUDGET, who, **FACTS)


def test_an_order_that_somebody_knows_has_no_amplification_by_its_secret():
    known = ShuffledGradients(BUDGET, Participation.reshuffled(50_000, epochs=50), **FACTS)
    assert known.accountants() == ("per-step", "per-epoch", "whole-run")
    assert known.noise_multiplier() == RUN.noise_multiplier("whole-run") > RUN.noise_multiplier()
    with pytest.raises(ValueError, match="participation must be reshuffled and secret"):
        known.noise_multiplier("whole-run reshuffled")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, r"learning_rate must lie in \(0, inf\), got 0.0"),
        ({"public_learning_rate": -1.0}, r"public_learning_rate must lie in \(0, inf\), got -1.0"),
        ({"smoothness": 0.0}, r"smoothness must lie in \(0, inf\), got 0.0"),
        ({"smoothness": math.nan}, r"smoothness must lie in \(0, inf\), got nan"),
        ({"clipping": OTHER}, "clipping must be one of"),
        ({"released": OTHER}, "released must be one of"),
        ({"placement": OTHER}, "placement must be one of"),
        ({"private": [1, 2]}, r"private must have shape \(epochs,\) = \(50,\), got \(2,\)"),
        ({"clipping": "none", "strong_convexity": 2.0}, "strong_convexity must be at most smoothness = 1.0, got 2.0"),
        ({"strong_convexity": 0.5}, "strong_convexity must be 0 for clipping 'cocoercive', got 0.5"),
        ({"clipping": "none", "convex": False, "strong_convexity": 0.5}, "convex must be True where strong_convexity"),
    ],
)
def test_contradictions_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        shuffled(**change)


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="accountant must be one of 'tightest', 'per-step'"):
        RUN.noise_multiplier(OTHER)
    with pytest.raises(TypeError, match="budget must be a Budget"):
        shuffled(budget=1.0)


def test_zero_out_needs_bounded_gradients():
    facts: dict[str, Any] = {"clipping": "none", "strong_convexity": 0.5}
    assert shuffled(**facts).noise_multiplier() > 0
    with pytest.raises(ValueError, match="adjacency must be 'replace-one' where strong_convexity is positive"):
        shuffled(**facts, budget=Budget(1.0))


def test_every_accountant_is_reached():
    found = {method for order in ORDERS for method in shuffled(order).accountants()}
    assert found == set(METHODS)


# -- the document ------------------------------------------------------------------------------------------------------


def test_the_examples_of_the_document_print_what_they_say(capsys):
    text = (Path(__file__).parents[4] / "docs/shuffled-gradients.md").read_text()
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    exec(compile(code, "docs/shuffled-gradients.md", "exec"), {})
    printed = capsys.readouterr().out.splitlines()
    claimed = re.findall(r"print\(.*\)  # (.*?):", code)
    assert printed == claimed != []
