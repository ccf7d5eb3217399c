"""Profiles: first steps against enumeration, compositions against quadrature, trade-offs against exact ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

from corrnoise.theory.amplification.curve import DIRECTIONS, delta_of, epsilon_of
from corrnoise.theory.mechanisms.product import DPSGD, NuFTRL
from corrnoise.theory.mechanisms.program import Program
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation import Participation
from corrnoise.theory.participation.base import Sampled
from corrnoise.theory.privacy import Budget, gaussian_delta, gaussian_epsilon
from corrnoise.theory.profile import GaussianProfile, ProductProfile, Profile, SampledProfile, compose
from tests.strategies import mechanisms, participations

DELTA = 1e-6


def poisson(steps: int, rate: float, sigma: float, **options: Any) -> Profile:
    return DPSGD().program(Participation.poisson(steps, rate, **options)).profile(sigma)


def programs(who: Participation, data: st.DataObject) -> Program:
    noise = data.draw(mechanisms(who.steps))
    return noise.program(who, form=None if noise.forms() else "transform")


def gamma_of(profile: Profile, sigma: float, members: int) -> float:
    assert isinstance(profile, GaussianProfile)
    return math.sqrt(2 * profile.rho) * sigma / members


# -- first steps -------------------------------------------------------------------------------------------------------


def enumerated(program: Program, steps: int) -> tuple[float, float]:
    """Bounds of the sensitivity of the first rows: equal gradients, and the sum of moduli, over cut patterns."""
    strategy = program.mechanism.strategy(program.participation.length)[:steps, :steps]
    patterns = {tuple(p[p < steps].tolist()) for p in program.participation.worst.patterns()} - {()}
    grams = [strategy[:, list(p)].T @ strategy[:, list(p)] for p in patterns]
    return math.sqrt(max(g.sum() for g in grams)), math.sqrt(max(np.abs(g).sum() for g in grams))


@given(participations(most=12), st.data())
def test_the_first_steps_are_those_of_cut_patterns(who: Participation, data: st.DataObject) -> None:
    program = programs(who, data)
    step = data.draw(st.integers(1, who.length))
    low, high = enumerated(program, step)
    found = gamma_of(program.profile(3.0, step=step), 3.0, who.members)
    assert low * (1 - 1e-9) <= found
    assert found <= high * (1 + 3e-3) + 1e-12 or found == program.sensitivity


@pytest.mark.slow
@given(participations(most=12), st.data())
def test_epsilon_grows_from_nothing_to_the_whole_run(who: Participation, data: st.DataObject) -> None:
    program = programs(who, data)
    spent = [program.profile(2.0, step=step).epsilon_at(DELTA) for step in range(who.length + 1)]
    assert spent[0] == 0
    assert all(np.diff(spent) >= -1e-3 * spent[-1])  # covers of rounding errors may cross
    assert spent[-1] == program.profile(2.0).epsilon_at(DELTA) == max(spent)


def test_epsilon_of_known_runs() -> None:
    """Of √ρ_t = γ(C_t)/σ by a matrix product in another program; Poisson by a contour in 200 bits."""
    who = Participation.fixed_epochs(40, epochs=4)
    program = NuFTRL(0.02).program(who, form="transform")
    sigma = program.multiplier(Budget(epsilon=2.0, delta=DELTA))
    strategy = NuFTRL(0.02).strategy(40)
    for step in (1, 7, 10, 11, 20, 39):
        sums = [np.linalg.norm(strategy[:step, first:step:10].sum(axis=1)) for first in range(min(step, 10))]
        gamma = float(max(sums))
        expected = gaussian_epsilon(gamma**2 / 2 / sigma**2, DELTA)
        assert expected <= program.profile(sigma, step=step).epsilon_at(DELTA) <= expected * (1 + 1e-3)
    sampled = DPSGD().program(Participation.poisson(1024, 0.01))
    for step, epsilon in ((64, 0.86091781), (256, 1.24154763), (512, 1.59527328), (768, 1.88907282)):
        assert epsilon <= sampled.profile(1.0, step=step).epsilon_at(DELTA) <= epsilon * (1 + 1e-5)


@pytest.mark.parametrize("door", ["balls_in_bins", "redrawn_bins"])
def test_first_steps_of_bins_leave_some_examples_out(door: str) -> None:
    """With 3 of 8 bins seen an example has the likelihood ratio 5/8 + (e_1 + e_2 + e_3)/8: by simulation in float64."""
    program = DPSGD().program(getattr(Participation, door)(16, period=8))
    rng = np.random.default_rng(3)
    terms = np.exp(rng.normal(size=(400_000, 3)) / 2.0 - 1 / 8)
    ratio = 5 / 8 + terms.sum(axis=1) / 8
    for epsilon in (0.05, 0.2):
        weights = np.maximum(ratio - math.exp(epsilon), 0)
        error = 6 * weights.std() / math.sqrt(weights.size)  # two-sided, false alarms below 1e-8
        found = program.profile(2.0, step=3).delta_at(epsilon)
        assert weights.mean() - error <= found <= 1.6 * weights.mean() + error
        assert program.profile(2.0, step=3).delta_at(epsilon) <= program.profile(2.0).delta_at(epsilon)


def test_wrong_steps_and_unknown_laws_are_refused() -> None:
    program = DPSGD().program(Participation.fixed_epochs(12, epochs=3))
    for step in (-1, 13):
        with pytest.raises(ValueError, match="step"):
            program.profile(1.0, step=step)
    with pytest.raises(ValueError, match="zero-out"):
        DPSGD().program(Participation.poisson(10, 0.1)).profile(1.0, adjacency="replace-one")

    class Mine(Participation.poisson):  # type: ignore[misc, valid-type]
        leading = Sampled.leading

    with pytest.raises(ValueError, match=r"leading\(steps\)"):
        DPSGD().program(Mine(10, 0.1)).profile(1.0, step=5)


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("budget", [{"rho": 0.3}, {"epsilon": 1.5, "delta": 1e-5}])
def test_the_whole_run_has_its_budget(members: int, adjacency: Any, budget: dict[str, float]) -> None:
    who = Participation.fixed_epochs(24, epochs=3, unit="user", members=members)
    program, whole = NuFTRL(0.1).program(who, form="transform"), Budget(**budget, adjacency=adjacency)
    profile = program.profile(program.multiplier(whole), adjacency=adjacency)
    assert profile.unit == "user"
    for delta in (1e-9, 1e-5, 1e-2):
        assert whole.epsilon_at(delta) * (1 - 1e-9) <= profile.epsilon_at(delta) <= whole.epsilon_at(delta)


# -- composition -------------------------------------------------------------------------------------------------------


def test_gaussian_runs_add_their_rho() -> None:
    parts = [GaussianProfile(rho) for rho in (0.1, 0.2, 0.0)]
    whole = compose(*parts)
    assert isinstance(whole, GaussianProfile)
    assert 0.3 <= whole.rho <= 0.3 * (1 + 1e-15)
    assert compose(GaussianProfile(0.0)).epsilon_at(1e-9) == compose(GaussianProfile(0.0)).delta_at(0.0) == 0


def test_a_composition_is_the_double_integral() -> None:
    """One step at rate .3 and one at .2, norm .8, with a Gaussian mechanism: quadrature with 160 × 160 nodes."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    weights = weights / weights.sum()
    first, second = (1 - q + q * np.exp(r * nodes - r * r / 2) for q, r in ((0.3, 1.0), (0.2, 0.8)))
    ratio, mu, epsilon = np.outer(first, second), 0.5, 0.7
    level = epsilon - np.log(ratio)
    remove = ratio * (ndtr(mu / 2 - level / mu) - np.exp(level) * ndtr(-mu / 2 - level / mu))
    level = epsilon + np.log(ratio)
    add = ndtr(mu / 2 - level / mu) - np.exp(level) * ndtr(-mu / 2 - level / mu)
    whole = compose(poisson(1, 0.3, 1.0), poisson(1, 0.2, 1 / 0.8), GaussianProfile(mu**2 / 2))
    assert isinstance(whole, SampledProfile)
    found = delta_of(whole.curve, epsilon, 1.0)
    assert weights @ remove @ weights == pytest.approx(0.0626833911, rel=1e-8)  # a double integral by another program
    for expected, bound in ((weights @ remove @ weights, found.remove), (weights @ add @ weights, found.add)):
        assert bound.lower <= expected * (1 + 1e-9)
        assert expected * (1 - 1e-9) <= bound.upper <= expected * (1 + 1e-5)
    assert whole.delta_at(epsilon) == max(found.remove.upper, found.add.upper)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "remove", "add"),
    [
        ([(0.01, 1.0), (0.02, 1.0)], 3.51238593, 2.55975960),
        ([(0.01, 1.2), (0.01, 0.8)], 3.06640718, 1.74611564),
    ],
)
def test_runs_of_500_steps_compose(parts: list[tuple[float, float]], remove: float, add: float) -> None:
    """ε at δ = 1e-6 by a contour in another program, in both orders."""
    found = []
    for order in (parts, parts[::-1]):
        whole = compose(*(poisson(500, rate, sigma) for rate, sigma in order))
        assert isinstance(whole, SampledProfile)
        found.append([epsilon_of(whole.curve, DELTA, 1.0, direction).upper for direction in DIRECTIONS])
    for one in found:
        assert one == pytest.approx([remove, add], rel=1e-5)
        assert one[0] >= remove * (1 - 1e-9)
        assert one[1] >= add * (1 - 1e-9)
    assert found[0] == pytest.approx(found[1], rel=1e-9)


@pytest.mark.slow
def test_capacities_add_to_delta() -> None:
    cut = poisson(50, 0.02, 1.0, capacity=45, examples=1000)
    whole = poisson(50, 0.02, 1.0)
    assert isinstance(cut, SampledProfile)
    two, uncut = compose(cut, cut), compose(whole, whole)
    assert uncut.delta_at(1.0) + 1.9 * cut.overflow < two.delta_at(1.0) < uncut.delta_at(1.0) + 2.1 * cut.overflow
    assert math.isinf(two.epsilon_at(1.5 * cut.overflow))
    assert math.isfinite(two.epsilon_at(3 * cut.overflow))


def test_compositions_that_nothing_covers_are_refused() -> None:
    one = GaussianProfile(0.1)
    for profiles, word in (
        ((), "at least one"),
        ((one, GaussianProfile(0.1, adjacency="replace-one")), "adjacency"),
        ((one, GaussianProfile(0.1, unit="user")), "unit"),
    ):
        with pytest.raises(ValueError, match=word):
            compose(*profiles)
    with pytest.raises(TypeError, match="profiles"):
        compose(one, 0.3)  # type: ignore[arg-type]


@record
class Response(Profile):
    """Randomised response that tells the truth with probability e^level/(1 + e^level)."""

    level: float
    adjacency = "zero-out"
    unit = "example"

    def epsilon_at(self, delta: float) -> float:
        raise NotImplementedError

    def delta_at(self, epsilon: float) -> float:
        return max(0.0, (math.exp(self.level) - math.exp(epsilon)) / (1 + math.exp(self.level)))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("level", [0.3, 2.0])
def test_profiles_without_a_form_compose_by_their_curves(level: float, parts: int) -> None:
    """Randomised responses with Gaussian runs, whose product is a sum over the answers."""
    rho, truth = 0.2, math.exp(level) / (1 + math.exp(level))
    found = compose(GaussianProfile(rho / 2), *[Response(level)] * parts, GaussianProfile(rho / 2))
    for epsilon in (0.0, 0.5, 1.5, 3.0, 5.0):
        exact, mu = 0.0, math.sqrt(2 * rho)
        for lies in range(parts + 1):
            log = (parts - 2 * lies) * level
            chance = math.comb(parts, lies) * truth ** (parts - lies) * (1 - truth) ** lies  # with the example
            shift = epsilon - log
            exact += chance * (ndtr(mu / 2 - shift / mu) - math.exp(shift) * ndtr(-mu / 2 - shift / mu))
        assert exact <= found.delta_at(epsilon) <= exact * 1.4 + 1e-12
    assert found.delta_at(found.epsilon_at(1e-5)) <= 1e-5
    assert found.epsilon_at(1e-5) <= compose(found, GaussianProfile(1e-3)).epsilon_at(1e-5)


def test_tables_are_close_to_closed_forms() -> None:
    for epsilon in (0.0, 0.3, 1.0, 3.0, 5.0):
        exact = gaussian_delta(0.5, epsilon)
        assert exact <= ProductProfile(GaussianProfile(0.2), GaussianProfile(0.3)).delta_at(epsilon) <= exact * 1.02


@pytest.mark.slow
def test_bins_compose_with_gaussian_runs() -> None:
    """One bin of two with norm 1 has the ratio (e_1 + e_2)/2: by quadrature."""
    bins = DPSGD().program(Participation.balls_in_bins(2, period=2)).profile(1.0)
    found = compose(GaussianProfile(0.08), bins)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    log = np.log(np.add.outer(np.exp(nodes - 0.5), np.exp(nodes - 0.5)) / 2)
    for epsilon in (0.2, 1.0, 2.0):
        level, mu = epsilon - log, 0.4
        inner = np.exp(log) * (ndtr(mu / 2 - level / mu) - np.exp(level) * ndtr(-mu / 2 - level / mu))
        exact = float(weights @ inner @ weights)
        assert exact * (1 - 1e-9) <= found.delta_at(epsilon) <= exact * 1.05


# -- trade-off functions -----------------------------------------------------------------------------------------------


@given(st.floats(0.0, 1.0), st.floats(0.05, 4.0))
def test_the_tradeoff_function_of_a_gaussian_is_approached(alpha: float, mu: float) -> None:
    exact = float(ndtr(ndtri(1 - alpha) - mu))
    found = GaussianProfile(mu**2 / 2).tradeoff(alpha)
    assert exact - 0.02 <= found <= exact + 1e-12


@pytest.mark.parametrize("mu", [0.01, 0.3, 3.0, 10.0])
@pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-3, 0.3, 0.9, 1.0])
def test_the_tradeoff_function_is_the_best_bound_of_a_grid(mu: float, alpha: float) -> None:
    profile = GaussianProfile(mu**2 / 2)
    best = 0.0
    for epsilon in (0.0, *map(float, np.geomspace(1e-3, 50.0, 120))):
        left = 1 - profile.delta_at(epsilon)
        best = max(best, left - math.exp(epsilon) * alpha, math.exp(-epsilon) * (left - alpha))
    assert profile.tradeoff(alpha) == pytest.approx(best, abs=2e-14)


def test_the_tradeoff_function_of_a_poisson_step_is_below_the_exact_one() -> None:
    """Tests of N(0, 1) against (1 − q) N(0, 1) + q N(1, 1), in both directions, are thresholds."""
    rate = 0.3
    profile = poisson(1, rate, 1.0)
    for alpha in (0.01, 0.1, 0.3, 0.7):
        remove = (1 - rate) * (1 - alpha) + rate * ndtr(ndtri(1 - alpha) - 1)
        grid = np.linspace(-8, 9, 200_001)
        false_alarm = (1 - rate) * ndtr(grid) + rate * ndtr(grid - 1)
        add = float(np.interp(alpha, false_alarm, 1 - ndtr(grid)))
        exact = min(remove, add)
        assert exact - 0.01 <= profile.tradeoff(alpha) <= exact + 1e-9
    assert profile.mu is None
    assert profile.advantage == pytest.approx(rate * (ndtr(0.5) - ndtr(-0.5)), rel=1e-5)


def test_equivalent_mu_has_the_epsilon_at_delta() -> None:
    for profile in (GaussianProfile(0.3), poisson(100, 0.05, 1.0)):
        mu = profile.equivalent_mu(1e-5)
        assert gaussian_epsilon(mu**2 / 2, 1e-5) == pytest.approx(profile.epsilon_at(1e-5), rel=1e-6)
    assert GaussianProfile(0.3).equivalent_mu(1e-3) == pytest.approx(GaussianProfile(0.3).mu, rel=1e-9)


@record
class Leak(Profile):
    """Data that are shown with a probability, and otherwise nothing."""

    share: float
    adjacency = "zero-out"
    unit = "example"

    def epsilon_at(self, delta: float) -> float:
        return 0.0 if delta >= self.share else float("inf")

    def delta_at(self, epsilon: float) -> float:
        return self.share


@pytest.mark.parametrize("epsilon", [0.3, 3.0, 150.0])
def test_what_is_shown_for_certain_stays_in_a_product(epsilon: float) -> None:
    gaussian, leak = GaussianProfile(0.1), Leak(1e-3)
    exact = 1e-3 + (1 - 1e-3) * gaussian.delta_at(epsilon)
    for pair in ((gaussian, leak), (leak, gaussian)):
        assert exact <= ProductProfile(*pair).delta_at(epsilon) <= exact * 1.02
    cut = DPSGD().program(Participation.poisson(1, 0.3, capacity=8, examples=12)).profile(2.0)
    assert isinstance(cut, SampledProfile)
    assert ProductProfile(gaussian, cut).delta_at(epsilon) >= cut.overflow > 1e-4
