"""Groups in Poisson batches: examples of one user that are sampled independently, against exact numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from corrnoise.theory.amplification.contour import PoissonCurve
from corrnoise.theory.amplification.curve import DIRECTIONS, epsilon_of
from corrnoise.theory.amplification.factors import Factor
from corrnoise.theory.mechanisms.product import DPSGD
from corrnoise.theory.participation import Participation
from corrnoise.theory.privacy import Budget, gaussian_delta
from corrnoise.theory.profile import compose
from tests.strategies import log_uniform


def chances(members: int, rate: float) -> np.ndarray:
    return binom.pmf(np.arange(members + 1), members, rate)


def one_step(members: int, rate: float, r: float, epsilon: float) -> tuple[float, float]:
    """δ of remove and add: A(x) = Σ p_j e^{j r x − j² r²/2} grows, so that each is an interval of x."""
    j, p = np.arange(members + 1), chances(members, rate)

    def log_ratio(x: float) -> float:
        return float(np.logaddexp.reduce(np.log(p) + j * r * x - (j * r) ** 2 / 2))

    edge = brentq(lambda x: log_ratio(x) - epsilon, -20, 60, xtol=1e-14)
    remove = p @ ndtr(j * r - edge) - math.exp(epsilon) * ndtr(-edge)
    if log_ratio(-20) >= -epsilon:
        return float(remove), 0.0
    edge = brentq(lambda x: log_ratio(x) + epsilon, -20, 60, xtol=1e-14)
    return float(remove), float(ndtr(edge) - math.exp(epsilon) * (p @ ndtr(edge - j * r)))


def curve(*factors: Factor) -> PoissonCurve:
    return PoissonCurve(factors, factors, True, "groups")


@pytest.mark.parametrize("members", [1, 2, 3, pytest.param(5, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("rate", "sigma", "epsilon"),
    [(0.1, 1.0, 1.0), (0.4, 2.0, 0.2), pytest.param(0.02, 0.7, 2.0, marks=pytest.mark.slow)],
)
def test_one_step_of_a_group(members: int, rate: float, sigma: float, epsilon: float) -> None:
    exact = one_step(members, rate, 1 / sigma, epsilon)
    for direction, value in zip(DIRECTIONS, exact, strict=True):
        found = curve(Factor(rate, 1.0, 1, members)).delta(epsilon, sigma, direction)
        assert found.lower <= value * (1 + 1e-9) + 1e-16
        assert value * (1 - 1e-9) - 1e-16 <= found.upper <= value * (1 + 1e-3) + 1e-300


def test_two_groups_and_a_gaussian_by_quadrature() -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()

    def log_ratio(members: int, rate: float, r: float) -> np.ndarray:
        j = np.arange(members + 1)
        return np.log(np.exp(np.outer(nodes, j) * r - (j * r) ** 2 / 2) @ chances(members, rate))

    log = np.add.outer(log_ratio(2, 0.3, 0.5), log_ratio(3, 0.1, 0.7))
    one, mu = curve(Factor(0.3, 0.5, 1, 2), Factor(0.1, 0.7, 1, 3), Factor(1.0, 0.3, 1, 2)), 0.6
    for epsilon in (0.3, 1.5):
        level = epsilon - log
        remove = np.exp(log) * (ndtr(mu / 2 - level / mu) - np.exp(level) * ndtr(-mu / 2 - level / mu))
        level = epsilon + log
        add = ndtr(mu / 2 - level / mu) - np.exp(level) * ndtr(-mu / 2 - level / mu)
        for direction, inner in zip(DIRECTIONS, (remove, add), strict=True):
            found, exact = one.delta(epsilon, 1.0, direction), float(weights @ inner @ weights)
            assert found.lower <= exact * (1 + 1e-9)
            assert exact * (1 - 1e-9) <= found.upper <= exact * (1 + 1e-5)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(members=st.integers(2, 4), rate=log_uniform(1e-3, 0.5), sigma=log_uniform(0.5, 4.0), epsilon=st.floats(0.1, 3.0))
def test_members_that_move_alike_are_the_worst(members: int, rate: float, sigma: float, epsilon: float) -> None:
    """A group with orthogonal gradients has independent ratios; one member alone is a group without the others."""
    group, apart = curve(Factor(rate, 1.0, 5, members)), curve(Factor(rate, 1.0, 5 * members))
    alone = curve(Factor(rate, 1.0, 5))
    for direction in DIRECTIONS:
        upper = group.delta(epsilon, sigma, direction).upper
        assert apart.delta(epsilon, sigma, direction).lower <= upper
        assert alone.delta(epsilon, sigma, direction).lower <= upper


@pytest.mark.slow
@pytest.mark.parametrize(("members", "epsilon"), [(1, 2.1476), (2, 4.6058), (3, 7.2750)])
def test_epsilon_of_groups(members: int, epsilon: float) -> None:
    """The values are from another program; the generic bound of groups gives 4.934 and 8.624 for two and three."""
    who = Participation.poisson(1024, 0.01, unit="user", members=members)
    found = epsilon_of(DPSGD().program(who).curve, 1e-6, 1.0, "remove")
    assert found.lower == pytest.approx(epsilon, abs=1e-4)
    assert found.upper == pytest.approx(epsilon, abs=1e-4)


def test_a_group_in_every_step_is_a_gaussian_mechanism() -> None:
    who = Participation.poisson(16, 1.0, unit="user", members=3)
    program = DPSGD().program(who)
    for epsilon in (0.5, 2.0):
        exact = gaussian_delta(9 * 16 / 2 / 20**2, epsilon)
        found = program.curve.delta(epsilon, 20.0, "remove")
        assert found.lower <= exact * (1 + 1e-9)
        assert exact <= found.upper <= exact * (1 + 1e-4)
    assert program.profile(20.0).unit == "user"


@pytest.mark.parametrize("epsilon", [1.0, 500.0])
def test_wide_groups_reveal_their_uses(epsilon: float) -> None:
    """A step of 2 Δ/σ > 30, whose number of uses is revealed; noise without variance gives 1 − .9²."""
    value = one_step(2, 0.1, 20.0, epsilon)[0]
    found = curve(Factor(0.1, 1.0, 1, 2)).delta(epsilon, 1 / 20, "remove")
    assert found.lower <= value * (1 + 1e-9)
    assert value * (1 - 1e-9) <= found.upper <= value * 1.01


@pytest.mark.slow
def test_a_run_with_groups_has_its_budget() -> None:
    who = Participation.poisson(50, 0.05, unit="user", members=2)
    program, budget = DPSGD().program(who), Budget(epsilon=1.0, delta=1e-5)
    single = DPSGD().program(Participation.poisson(50, 0.05)).multiplier(budget)
    sigma = program.multiplier(budget)
    profile = program.profile(sigma)
    assert 1.5 * single < sigma < 2.5 * single
    assert 0.999e-5 < profile.delta_at(1.0) <= 1e-5
    assert compose(profile, profile).epsilon_at(1e-5) > 1.0
    assert program.profile(sigma, step=20).delta_at(1.0) < 1e-5
    with pytest.raises(ValueError, match="unit"):
        compose(profile, DPSGD().program(Participation.poisson(50, 0.05)).profile(sigma))


@pytest.mark.parametrize("members", [1, 2, 3])
def test_a_capacity_leaves_room_for_the_group(members: int) -> None:
    """Others that leave less than k places, of N − k others, in one of the steps."""
    who = Participation.poisson(4, 0.3, capacity=8, examples=12, members=members)
    exact = 4 * binom.sf(8 - members, 12 - members, 0.3)
    assert exact <= who.overflow <= exact * (1 + 1e-5)
    assert Participation.poisson(4, 0.3, capacity=2, examples=12, members=3).overflow == 1


def test_wrong_groups_are_refused() -> None:
    for members in (0, 65):
        with pytest.raises(ValueError, match="members"):
            Participation.poisson(4, 0.1, members=members)
    with pytest.raises(ValueError, match="unit"):
        Participation.poisson(4, 0.1, unit="group")
    two, three = (Participation.poisson(4, 0.1, members=members) for members in (2, 3))
    assert two.covered_by(three)
    assert not three.covered_by(two)
    assert not two.satisfies(three)
