"""The price of a search: against attacks by quadrature, enumeration of small mechanisms, and known values."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.numerics.records import record
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_rho
from corrnoise.theory.profile import GaussianProfile, Profile
from corrnoise.theory.selection import Trials, envelope, selection, trial_budget

DELTA = 1e-6
LAWS = {
    "geometric": Trials.negative_binomial(10, shape=1),
    "logarithmic": Trials.negative_binomial(10),
    "shape -1/2": Trials.negative_binomial(10, shape=-0.5),
    "poisson": Trials.poisson(10),
    "binomial": Trials.binomial(20, 0.5),
}
EACH_LAW = pytest.mark.parametrize("name", list(LAWS))


def gaussian(epsilon: float) -> GaussianProfile:
    return GaussianProfile(gaussian_rho(epsilon, DELTA))


@pytest.mark.parametrize(
    ("name", "epsilon", "attack", "found"),
    [
        ("geometric", 1.0, 1.463, 1.4716),
        ("logarithmic", 1.0, 1.387, 1.3947),
        ("shape -1/2", 1.0, 1.329, 1.3359),
        ("poisson", 1.0, 1.839, 1.8624),
        ("binomial", 1.0, 2.041, 2.0736),
        ("geometric", 2.0, 2.882, 2.8998),
    ],
)
def test_epsilon_of_known_searches(name: str, epsilon: float, attack: float, found: float) -> None:
    """Above attacks by quadrature in another program; with as many cells again it falls by less than .2 percent."""
    epsilon = selection(gaussian(epsilon), LAWS[name]).epsilon_at(DELTA)
    assert attack < epsilon == pytest.approx(found, rel=2e-4)


@EACH_LAW
@pytest.mark.parametrize("epsilon", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_no_attack_exceeds_the_bound(name: str, epsilon: float) -> None:
    """Outputs x of N(μ, 1) or N(0, 1), the best being x < a or the largest x, by quadrature in both directions."""
    one, law = gaussian(epsilon), LAWS[name]
    mu, level = math.sqrt(2 * one.rho), 1.3 * epsilon
    x = np.linspace(-9, 9 + mu, 50_001)
    bound, strongest = selection(one, law).delta_at(level), 0.0
    for first, second in ((mu, 0.0), (0.0, mu)):
        for threshold in (-9.0, *np.linspace(-4, 4 + mu, 17)):
            better = [np.where(x < threshold, ndtr(x - m), ndtr(threshold - m) + ndtr(m - x)) for m in (first, second)]
            densities = [np.exp(-((x - m) ** 2) / 2) / math.sqrt(2 * math.pi) for m in (first, second)]
            winner, other = (d * law.slope(np.minimum(b, 1.0)) for d, b in zip(densities, better, strict=True))
            strongest = max(strongest, float(np.trapezoid(np.maximum(winner - math.exp(level) * other, 0), x)))
    assert strongest * (1 - 1e-6) <= bound
    assert strongest > 0.05 * bound  # the attack is not idle


@record
class Finite(Profile):
    """The profile of two laws on a finite set, in both directions."""

    first: tuple[float, ...]
    second: tuple[float, ...]
    adjacency = "zero-out"
    unit = "example"

    def delta_at(self, epsilon: float) -> float:
        p, q = np.array(self.first), np.array(self.second)
        factor = math.exp(epsilon)
        return float(max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum()))

    def epsilon_at(self, delta: float) -> float:
        raise NotImplementedError


def published(law: Trials, masses: np.ndarray) -> np.ndarray:
    """The law of the published output, best first, with ties at random: ∫ φ'(1 − u) du over each output."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    ends = np.concatenate([[0.0], np.cumsum(masses)])
    where = ends[:-1, None] + (nodes + 1) / 2 * masses[:, None]
    return np.asarray((law.slope(np.minimum(where, 1.0)) * weights / 2).sum(axis=1) * masses)


@EACH_LAW
@given(st.lists(st.tuples(st.floats(1e-3, 1), st.floats(1e-3, 1)), min_size=2, max_size=4), st.floats(0.0, 3.0))
def test_selections_of_finite_mechanisms_are_covered(name: str, pairs: list[tuple[float, float]], level: float) -> None:
    """Every order of the outputs, both directions."""
    law, table = LAWS[name], np.array(pairs)
    table = table / table.sum(axis=0)
    bound = selection(Finite(tuple(table[:, 0].tolist()), tuple(table[:, 1].tolist())), law).delta_at(level)
    for order in itertools.permutations(range(len(pairs))):
        one, other = (published(law, table[list(order), side]) for side in (0, 1))
        for p, q in ((one, other), (other, one)):
            assert np.maximum(p - math.exp(level) * q, 0).sum() <= bound * (1 + 1e-9) + 1e-12


def test_one_trial_costs_one_trial() -> None:
    found = selection(gaussian(1.0), Trials.binomial(1, 1.0))
    for epsilon in (0.0, 0.5, 1.0):
        one = gaussian(1.0).delta_at(epsilon)
        assert one <= found.delta_at(epsilon) <= one * (1 + 1e-3)
    assert 1.0 <= found.epsilon_at(DELTA) <= 1.00001
    assert selection(GaussianProfile(0.0), LAWS["poisson"]).epsilon_at(1e-9) == 0


@pytest.mark.slow
def test_a_sampled_trial_has_a_price() -> None:
    """More than one trial, and less than three times its ε."""
    one = DPSGD().program(Participation.poisson(100, 0.05)).profile(1.0)
    alone, found = one.epsilon_at(1e-5), selection(one, LAWS["geometric"]).epsilon_at(1e-5)
    assert alone < found < 3 * alone


@EACH_LAW
def test_numbers_of_trials_have_their_law(name: str) -> None:
    """Means within 6 standard errors; E 1/(K + 1), the expected share of better candidates, against ∫ φ."""
    law, rng = LAWS[name], np.random.default_rng(1)
    drawn = np.array([law.draw(rng) for _ in range(20_000)])
    assert abs(drawn.mean() - law.mean) <= 6 * drawn.std() / math.sqrt(drawn.size)
    nodes, weights = np.polynomial.legendre.leggauss(400)
    u = (nodes + 1) / 2
    # E 1/(K + 1) = ∫ φ(z) dz = 1 − ∫ z φ'(z) dz, with z = 1 − u
    expected = 1 - float((weights / 2) @ ((1 - u) * law.slope(u)))
    shares = 1 / (drawn + 1.0)
    assert abs(shares.mean() - expected) <= 6 * shares.std() / math.sqrt(drawn.size) + 1e-6


@pytest.mark.parametrize("name", ["geometric", *(pytest.param(name, marks=pytest.mark.slow) for name in LAWS)])
def test_the_budget_of_a_trial_is_the_largest(name: str) -> None:
    whole = Budget(epsilon=2.0, delta=DELTA, clip_norm=3.0, adjacency="replace-one")
    one = trial_budget(whole, LAWS[name])
    assert (one.clip_norm, one.adjacency) == (3.0, "replace-one")
    rho = one.gaussian_rho
    assert selection(GaussianProfile(rho), LAWS[name]).delta_at(2.0) <= DELTA
    assert selection(GaussianProfile(rho * 1.00001), LAWS[name]).delta_at(2.0) > DELTA


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Trials.negative_binomial(1.0), "mean"),
        (lambda: Trials.negative_binomial(10, shape=-1.0), "shape"),
        (lambda: Trials.poisson(0.0), "mean"),
        (lambda: Trials.binomial(0, 0.5), "count"),
        (lambda: Trials.binomial(5, 0.0), "probability"),
        (lambda: trial_budget(Budget(rho=0.1), LAWS["poisson"]), "epsilon and delta"),
        (lambda: selection(gaussian(1.0), LAWS["poisson"]).delta_at(-0.1), "epsilon"),
    ],
)
def test_wrong_arguments_are_refused(make, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        make()


@given(st.lists(st.tuples(st.floats(1e-3, 10), st.floats(1e-6, 10)), min_size=1, max_size=30), st.floats(0, 50))
def test_corners_and_rises_are_those_of_the_largest_line(lines: list[tuple[float, float]], level: float) -> None:
    slopes, heights = np.array(lines).T
    corners, rises = envelope(slopes, heights)
    for ratio in (level, *corners):
        largest = max(0.0, float((slopes * ratio - heights).max()))
        found = float(rises @ np.maximum(ratio - corners, 0))
        assert found == pytest.approx(largest, rel=1e-9, abs=1e-9)
        assert (rises >= 0).all()
